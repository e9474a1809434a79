"""Who may import whom: the rooms in the sidebar's order, and every import, lazy ones included."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import book

PACKAGE = "cobalt_nb"
PACKAGES = (PACKAGE, f"{PACKAGE}.study")  # from which a module is imported as a name is
LAZY = "plots"  # which a method `plot`, or a function `plot_…`, may import when it is called
PAGE = "page"  # which a method `report` may


class Import(NamedTuple):
    """Someone imports a room, at a line, within a function of this name ("" at the top)."""

    room: str
    line: int
    within: str


def rooms(root: Path) -> list[str]:
    """The modules in reading order: "problem", …, "study.tasks", …"""
    return [room for page in book.sidebar(root) for room in [room_of(root / "nbs" / page)] if room]


def room_of(path: Path) -> str | None:
    """The module that a notebook exports to."""
    if path.suffix != ".ipynb" or not path.exists():
        return None
    sources = [cell.source for cell in book.read(path).cells if cell.cell_type == "code"]
    found = (re.search(r"^#\s*\|\s*default_exp\s+(\S+)", source, re.M) for source in sources)
    return next((match[1] for match in found if match), None)


def imports(tree: ast.AST, room: str = "", homes: dict[str, str] | None = None) -> Iterator[Import]:
    """Every import of a room of the package, at the top or within a function."""
    for node, within in walked(tree):
        for target in targets(node, room, homes or {}):
            yield Import(target, node.lineno, within)


def walked(node: ast.AST, within: str = "") -> Iterator[tuple[ast.stmt | ast.expr, str]]:
    """Every node below, and the name of the innermost function that it stands in."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.expr):
            yield child, within
        inner = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
        yield from walked(child, child.name if inner else within)


def targets(node: ast.AST, room: str, homes: dict[str, str]) -> list[str]:
    """The rooms that a statement imports from; `homes` has those of the package's public names."""
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        base = absolute(node, room)
        names = [f"{base}.{alias.name}" for alias in node.names] if base in PACKAGES else [base]
    elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
        names = [arg.value for arg in node.args if isinstance(arg, ast.Constant)]
    else:
        return []
    below = [name.removeprefix(f"{PACKAGE}.") for name in names if name.startswith(f"{PACKAGE}.")]
    return [homes.get(name, name) for name in below if not name.startswith("_")]


def absolute(node: ast.ImportFrom, room: str) -> str:
    """The module of a `from … import`, its dots resolved."""
    if not node.level:
        return node.module or ""
    parts = [PACKAGE, *room.split(".")][: -node.level]
    return ".".join(parts + ([node.module] if node.module else []))


def homes(root: Path) -> dict[str, str]:
    """The rooms of the names that `from cobalt_nb import …` offers."""
    tree = ast.parse((root / PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.level]
    return {alias.name: node.module or "" for node in nodes for alias in node.names}


def upward(root: Path) -> list[str]:
    """Modules that import a room which the reader meets later, or one that is in no list."""
    order, offered = rooms(root), homes(root)
    faults = []
    for path in sorted((root / PACKAGE).rglob("[!_]*.py")):
        room = ".".join(path.relative_to(root / PACKAGE).with_suffix("").parts)
        if room not in order:
            faults.append(f"{room}: no chapter in the sidebar exports it")
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for found in imports(tree, room, offered):
            if not is_lazy_plot(found) and not below(found.room, room, order):
                faults.append(f"{room} imports {found.room} (line {found.line})")
    return faults


def is_lazy_plot(found: Import) -> bool:
    """Whether a `plot`, or a `plot_…`, imports the plots, or a `report` the page, when called."""
    if found.room == PAGE:
        return found.within == "report"
    return found.room == LAZY and bool(re.match(r"plot(_|$)", found.within))


def below(target: str, room: str, order: list[str]) -> bool:
    """Does the reader meet this target before this room?"""
    return {target, room} <= set(order) and order.index(target) < order.index(room)


def from_the_future(root: Path) -> list[str]:
    """Chapters with a cell that imports a room which the reader meets later."""
    order, offered = rooms(root), homes(root)
    return [
        f"{path.relative_to(root / 'nbs')} cell {cell.id} imports {found.room}"
        for path in book.notebooks(root)
        for room in [room_of(path)]
        if room
        for cell in book.read(path).cells
        if cell.cell_type == "code" and not re.match(r"\s*[%!]", cell.source)
        for found in imports(ast.parse(cell.source), "", offered)
        if found.room != room and not is_lazy_plot(found) and not below(found.room, room, order)
    ]


def unlisted(root: Path) -> list[str]:
    """Names that a module takes from another room which does not list them in its `__all__`."""
    listed = {room: listed_names(module_path(root, room)) for room in rooms(root)}
    faults = []
    for room in rooms(root):
        tree = ast.parse(module_path(root, room).read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            source = absolute(node, room) if isinstance(node, ast.ImportFrom) else ""
            target = source.removeprefix(f"{PACKAGE}.")
            if target in listed:
                names = [alias.name for alias in node.names if alias.name not in listed[target]]
                faults += [f"{room} takes {name} of {target}" for name in names if name[0] != "_"]
    return faults


def module_path(root: Path, room: str) -> Path:
    return (root / PACKAGE / Path(*room.split("."))).with_suffix(".py")


def listed_names(path: Path) -> list[str]:
    """The last `__all__` of a module: nbdev's own at its head, or the chapter's at its end."""
    nodes = ast.parse(path.read_text(encoding="utf-8")).body
    lists = [
        node.value
        for node in nodes
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    ]
    return ast.literal_eval(lists[-1]) if lists else []
