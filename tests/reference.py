"""The API reference: a page of Markdown for each exported module, read from its source.

Quarto gets the pages through the scripts nbs/api/*.qmd.py, which nbdev runs; the offline site (website.py) gets them from here.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from textwrap import dedent
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
MAX_LINES = 12  # of the value of a constant


class Place(NamedTuple):
    """Where a name is defined: a notebook, and the heading above the cell."""

    notebook: str
    section: str


def exported(module: Path) -> list[str]:
    """The names in the `__all__` of a generated module; none for the others."""
    for node in ast.parse(module.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return ast.literal_eval(node.value)
    return []


@cache
def modules(root: Path = ROOT) -> dict[str, list[str]]:
    """The exported names of every module that has a chapter."""
    found = {path.stem: exported(path) for path in sorted((root / "cobalt_nb").glob("[!_]*.py"))}
    return {name: names for name, names in found.items() if names}


def definitions(tree: ast.Module) -> dict[str, ast.stmt]:
    """The statement that defines each top-level name."""
    found: dict[str, ast.stmt] = {}
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found[node.name] = node
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {
                name.id: node
                for target in targets
                for name in ast.walk(target)
                if isinstance(name, ast.Name)
            }
    return found


def places(source: str, root: Path) -> dict[int, Place]:
    """The place of each line of a generated module, by the marks that nbdev leaves above the cells."""
    found, place = {}, None
    for number, line in enumerate(source.splitlines(), 1):
        if mark := re.match(r"# %% \.\./nbs/(\S+) #(\S+)", line):
            place = Place(mark[1], headings(root / "nbs" / mark[1])[mark[2]])
        if place:
            found[number] = place
    return found


@cache
def headings(notebook: Path) -> dict[str, str]:
    """The last heading above each cell of a notebook, by the id of the cell."""
    found, heading = {}, ""
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        found[cell["id"]] = heading
        if cell["cell_type"] == "markdown":
            heading = ([heading] + re.findall(r"^#+ (.+)$", "".join(cell["source"]), re.M))[-1]
    return found


def title(notebook: Path) -> str:
    return next(filter(None, headings(notebook).values()))


def head(source: str, node: ast.stmt) -> str:
    """A definition as it is written, without its body: decorators and signature; a constant with its value."""
    lines = source.splitlines()
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        value = lines[node.lineno - 1 : node.end_lineno]
        return "\n".join(value if len(value) <= MAX_LINES else [*value[:MAX_LINES], "..."])
    first, body = min([node.lineno, *(mark.lineno for mark in node.decorator_list)]), node.body[0]
    lines = lines[first - 1 : body.lineno]
    lines[-1] = lines[-1].encode()[: body.col_offset].decode()
    return dedent("\n".join(lines)).rstrip().removesuffix(":")


def members(source: str, node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    """(definition, docstring) of a class and its public methods; the fields, with their comments, belong to the class."""
    lines = source.splitlines()
    fields = [lines[part.lineno - 1] for part in node.body if isinstance(part, ast.AnnAssign)]
    yield (
        "\n".join([head(source, node) + ":" * bool(fields), *fields]),
        ast.get_docstring(node) or "",
    )
    for part in node.body:
        if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef)) and (
            part.name == "__init__" or not part.name.startswith("_")
        ):
            yield head(source, part), ast.get_docstring(part) or ""


def page(module: str, root: Path = ROOT, anchor: Callable[[str], str] = str.lower) -> str:
    """The reference of a module, in Markdown. `anchor` makes the anchor of a name in its chapter; nbdev's are in lower case."""
    path = root / "cobalt_nb" / f"{module}.py"
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    found, where = definitions(tree), places(source, root)
    chapter = next(iter(where.values())).notebook
    blocks = [
        f"> {ast.get_docstring(tree)}",
        f"The chapter: [{title(root / 'nbs' / chapter)}](../{chapter}).",
    ]
    public = (root / "cobalt_nb" / "__init__.py").read_text(encoding="utf-8")
    rank = lambda name: (
        f'"{name}"' not in public,
        isinstance(found[name], (ast.Assign, ast.AnnAssign)),
    )  # what the package offers first, constants last
    for name in sorted(exported(path), key=rank):
        node = found[name]
        parts = (
            members(source, node)
            if isinstance(node, ast.ClassDef)
            else [(head(source, node), docstring(node))]
        )
        blocks.append(f"## {name} {{#{name}}}")
        blocks += [block for code, text in parts for block in (f"```python\n{code}\n```", text)]
        place = where[node.lineno]
        blocks.append(f"Defined in [{place.section}](../{place.notebook}#{anchor(name)}).")
    return "\n\n".join(filter(None, blocks)) + "\n"


def docstring(node: ast.stmt) -> str:
    return (
        (ast.get_docstring(node) or "")
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        else ""
    )
