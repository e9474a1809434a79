"""The rules of the house, each a function from a repository's root to what breaks it."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import book
from nbformat import NotebookNode

WORK_FILES = (
    ".git",
    ".venv",
    "_proc",
    "_docs",
    "_site",
    "build",
    "dist",
    "*.egg-info",
    "__pycache__",
    ".pytest_cache",
    ".ipynb_checkpoints",
    ".hypothesis",
)
MAX_KB = 400
NOISE = re.compile(r"%\||\bit/s\b|s/it\b|Wall time|CPU times|per loop|\belapsed\b|\d\s?(ms|µs)\b")


def copy_of(root: Path, target: Path) -> Path:
    """The repository without work files, in a folder where a check may write."""
    return Path(
        shutil.copytree(root, target, symlinks=True, ignore=shutil.ignore_patterns(*WORK_FILES))
    )


def python(code: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], cwd=cwd, capture_output=True, text=True)


def changed_by(code: str, root: Path, folder: str, pattern: str) -> list[str]:
    """The files below `folder` that running `code` in a copy of the repository changes."""
    with tempfile.TemporaryDirectory() as place:
        copy = copy_of(root, Path(place) / "copy")
        ran = python(code, copy)
        if ran.returncode:
            return [f"{code!r} failed: {ran.stderr.strip().splitlines()[-1]}"]
        names = {
            p.relative_to(tree) for tree in (root, copy) for p in (tree / folder).rglob(pattern)
        }
        names = {
            name
            for name in names
            if not any(part.startswith(".") or part == "__pycache__" for part in name.parts)
        }
        return [
            str(name) for name in sorted(names) if contents(root / name) != contents(copy / name)
        ]


def contents(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def stale_modules(root: Path) -> list[str]:
    """Modules that `nbdev_export` would change."""
    return changed_by(
        "from nbdev.doclinks import nbdev_export; nbdev_export.__wrapped__()",
        root,
        "cobalt_nb",
        "*.py",
    )


def unclean_notebooks(root: Path) -> list[str]:
    """Notebooks that `nbdev_clean` would change."""
    return changed_by(
        "from nbdev.clean import nbdev_clean; nbdev_clean.__wrapped__()", root, "nbs", "*.ipynb"
    )


def stale_readme(root: Path) -> list[str]:
    fresh = book.readme(root / "nbs" / "index.ipynb")
    return (
        []
        if (root / "README.md").read_text(encoding="utf-8") == fresh
        else ["README.md: run `python tests/book.py readme`"]
    )


def dead_readme_links(root: Path) -> list[str]:
    """Relative links of the README that lead nowhere."""
    links = re.findall(
        r"\]\((?![a-z]+:|#)([^)#]+)", (root / "README.md").read_text(encoding="utf-8")
    )
    return [link for link in links if not (root / link).exists()]


def code_cells(root: Path) -> Iterator[tuple[str, NotebookNode]]:
    for path in book.notebooks(root):
        for cell in book.read(path).cells:
            if cell.cell_type == "code":
                yield f"{path.relative_to(root / 'nbs')} cell {cell.id}", cell


def mixed_imports(root: Path) -> list[str]:
    """Cells with imports and other code at their top; the docs processing runs imports alone."""
    return [where for where, cell in code_cells(root) if is_mixed(cell.source)]


def is_mixed(source: str) -> bool:
    if re.match(r"\s*[%!]", source):
        return False
    kinds = {isinstance(node, (ast.Import, ast.ImportFrom)) for node in ast.parse(source).body}
    return kinds == {True, False}


def stored_noise(root: Path) -> list[str]:
    """Stored errors, warnings, timings and progress bars."""
    return [
        f"{where}: {fault}"
        for where, cell in code_cells(root)
        for out in cell.outputs
        for fault in [noise_in(out)]
        if fault
    ]


def noise_in(out: NotebookNode) -> str:
    text = out.get("text") or out.get("data", {}).get("text/plain", "")
    if out.output_type == "error":
        return "a stored error"
    if out.get("name") == "stderr":
        return "a stored message on stderr"
    return "a stored timing or progress bar" if NOISE.search(text) else ""


def heavy_notebooks(root: Path) -> list[str]:
    sizes = {path.name: path.stat().st_size / 1024 for path in book.notebooks(root)}
    return [f"{name}: {kb:.0f} KB" for name, kb in sizes.items() if kb > MAX_KB]


def sidebar_gaps(root: Path) -> list[str]:
    """Sidebar entries without a page, pages without a sidebar entry, and entries listed twice."""
    listed = Counter(book.sidebar(root))
    pages = [path for kind in ("*.ipynb", "*.qmd") for path in book.files(root, kind)]
    there = {path.relative_to(root / "nbs").as_posix() for path in pages}
    return (
        [f"{name}: in the sidebar, not in nbs/" for name in sorted(set(listed) - there)]
        + [f"{name}: not in the sidebar" for name in sorted(there - set(listed))]
        + [f"{name}: {n} times in the sidebar" for name, n in listed.items() if n > 1]
    )


# Links and headings


FENCE = re.compile(r"^ *(`{3,}|~{3,}).*?^ *\1[^\n]*$", re.M | re.S)
CODE = re.compile(r"(`+).+?\1", re.S)
LINK = re.compile(r"\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)|(?:href|src)=\"([^\"]+)\"")
HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.M)
OWN_ID = re.compile(r"\{[^}]*?#([\w:.-]+)[^}]*\}|\bid=\"([^\"]+)\"")


def prose(root: Path, path: Path) -> Iterator[tuple[str, str]]:
    """(place, Markdown without its code) of the cells and of the outputs that are Markdown."""
    name = path.relative_to(root / "nbs").as_posix()
    for cell in book.read(path).cells:
        texts = [cell.source] if cell.cell_type == "markdown" else markdown_outputs(cell)
        for text in texts:
            yield f"{name} cell {cell.id}", CODE.sub("`code`", FENCE.sub("", text))


def markdown_outputs(cell: NotebookNode) -> list[str]:
    data = [out.get("data", {}) for out in cell.get("outputs", [])]
    return [
        text for part in data for key in ("text/markdown", "text/html") if (text := part.get(key))
    ]


def anchors(path: Path) -> set[str]:
    """What a link may name after a #: headings, explicit ids, labels, shown definitions."""
    found: list[str] = []
    for cell in book.read(path).cells:
        if cell.cell_type == "markdown":
            text = FENCE.sub("", cell.source)
            found += [own for pair in OWN_ID.findall(text) for own in pair if own]
            found += [heading_id(title) for title in HEADING.findall(text) if "{#" not in title]
        else:
            marks = book.directives(cell.source)
            found += [marks["label"]] if "label" in marks else []
            found += [name.lower() for name in definitions(cell.source) if "exports" in marks]
            for text in markdown_outputs(cell):
                found += [own for pair in OWN_ID.findall(text) for own in pair if own]
                found += [heading_id(title) for title in HEADING.findall(text) if "{#" not in title]
    seen: Counter[str] = Counter(
        found[1:]
    )  # the first heading becomes the page's title, without an id
    return {f"{name}-{i}" if i else name for name, n in seen.items() for i in range(n)}


def definitions(source: str) -> list[str]:
    return re.findall(r"^(?:async )?(?:def|class) (\w+)", source, re.M)


def heading_id(title: str) -> str:
    """The id that pandoc gives to a heading."""
    title = re.sub(r" *\{[^}]*\} *$", "", title)
    title = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", title)
    title = re.sub(r"\\(?=[a-zA-Z])", "", title)
    title = re.sub(r"[^\w\s.-]", "", title).strip().lower()
    title = re.sub(r"\s+", "-", title)
    return re.sub(r"^[^a-z]+", "", title) or "section"


def dead_links(root: Path) -> list[str]:
    """Relative links of the notebooks that lead to no file of the site, or to no heading."""
    return [
        f"{where}: {address} {fault}"
        for path in book.notebooks(root)
        for where, text in prose(root, path)
        for pair in LINK.findall(text)
        for address in [pair[0] or pair[1]]
        for fault in [fault_of(root, path, address)]
        if fault
    ]


def fault_of(root: Path, path: Path, address: str) -> str:
    """What is wrong with a link of this page; nothing with one that leads out to the network."""
    if re.match(r"[a-z]+:|//", address):
        return ""
    name, _, anchor = address.partition("#")
    target = (path.parent / name).resolve() if name else path
    if not target.is_file():
        return "leads nowhere"
    if not target.is_relative_to((root / "nbs").resolve()):
        return "leads out of nbs/, so the site does not have it"
    if anchor and target.suffix == ".ipynb" and anchor not in anchors(target):
        return "leads to a page without that heading"
    return ""


# Pictures and widths


PICTURE = re.compile(r"!\[([^\]]*)\]\([^)]*\)(\{[^}]*\})?")
UNSEEN = {"hide", "export", "exporti", "default_exp"}
INLINE_FORMULA = re.compile(r"(?<![\\$])\$(?!\$)((?:[^$\\]|\\.)+?)\$(?!\$)", re.S)
MAX_FORMULA = 48  # characters of one line of a telephone


def pictures_without_words(root: Path) -> list[str]:
    """Figures without alternative text: a `#| fig-alt:` on the cell, or words between ![ and ]."""
    cells = [
        where for where, cell in code_cells(root) if shows_a_picture(cell) and not has_words(cell)
    ]
    images = [
        f"{where}: {image[0][:60]}"
        for path in book.notebooks(root)
        for where, text in prose(root, path)
        for image in PICTURE.finditer(text)
        if not image[1].strip() and "fig-alt=" not in (image[2] or "")
    ]
    return cells + images


def shows_a_picture(cell: NotebookNode) -> bool:
    marks = book.directives(cell.source)
    hidden = UNSEEN & set(marks) or "false" in (marks.get("include"), marks.get("output"))
    return not hidden and any(map(book.pictured, cell.outputs))


def has_words(cell: NotebookNode) -> bool:
    """An alternative text that says something, on the cell."""
    return len(book.directives(cell.source).get("fig-alt", "").strip("\"' ")) >= 20


def wide_formulas(root: Path) -> list[str]:
    """Formulas in a line of text too wide for a telephone: they neither break nor scroll."""
    return [
        f"{where}: ${formula[:60]}$"
        for path in book.notebooks(root)
        for where, text in prose(root, path)
        for formula in INLINE_FORMULA.findall(text)
        if shown_width(formula) > MAX_FORMULA
    ]


def shown_width(formula: str) -> int:
    """About how many characters wide a formula is: a command counts as one, marks as none."""
    formula = re.sub(
        r"\\(?:mathcal|mathbf|mathbb|mathrm|text|operatorname\*?|left|right)\b", "", formula
    )
    return len(re.sub(r"[{}_^\s]", "", re.sub(r"\\[a-zA-Z]+|\\.", "x", formula)))


# The docs


def undocumented(root: Path) -> list[str]:
    """Notebooks that the docs processing of nbdev does not get through."""
    with tempfile.TemporaryDirectory() as place:
        copy = copy_of(root, Path(place) / "copy")
        ran = python("from nbdev.serve import proc_nbs; proc_nbs(n_workers=0)", copy)
        if ran.returncode:
            return [ran.stderr.strip().splitlines()[-1]]
        names = [path.relative_to(copy / "nbs") for path in book.notebooks(copy)]
        lost = [f"{name}: not processed" for name in names if not (copy / "_proc" / name).exists()]
        return lost + [
            f"{name}: show_doc repeats what the page shows"
            for name in names
            if (copy / "_proc" / name).exists()
            and "show_doc(" in (copy / "_proc" / name).read_text()
        ]


RULES = [
    stale_modules,
    unclean_notebooks,
    stale_readme,
    dead_readme_links,
    mixed_imports,
    stored_noise,
    heavy_notebooks,
    sidebar_gaps,
    dead_links,
    pictures_without_words,
    wide_formulas,
    undocumented,
]
