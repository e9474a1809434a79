"""The rules of the house, each as a function from a repository's root to the list of what breaks it."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import book
import yaml
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
    """The files below `folder` that running `code` in a copy of the repository changes, adds or removes."""
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
                yield f"{path.name} cell {cell.id}", cell


def mixed_imports(root: Path) -> list[str]:
    """Cells with imports and other code at their top level; the docs processing runs every import cell alone."""
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
    """Sidebar entries without a notebook or an API script, and those without a sidebar entry."""
    config = yaml.safe_load((root / "_quarto.yml").read_text(encoding="utf-8"))
    listed = set(leaves(config["website"]["sidebar"]["contents"]))
    there = {str(path.relative_to(root / "nbs")) for path in book.notebooks(root)}
    there |= {
        path.relative_to(root / "nbs").with_suffix("").as_posix()
        for path in (root / "nbs" / "api").glob("*.qmd.py")
    }
    return [f"{name}: in the sidebar, not in nbs/" for name in sorted(listed - there)] + [
        f"{name}: not in the sidebar" for name in sorted(there - listed)
    ]


def leaves(entries: list) -> Iterator[str]:
    for entry in entries:
        if isinstance(entry, str):
            yield entry
        else:
            yield from leaves(entry.get("contents", []))


def undocumented(root: Path) -> list[str]:
    """Notebooks that the docs processing of nbdev does not get through."""
    with tempfile.TemporaryDirectory() as place:
        copy = copy_of(root, Path(place) / "copy")
        ran = python("from nbdev.serve import proc_nbs; proc_nbs(n_workers=0)", copy)
        if ran.returncode:
            return [ran.stderr.strip().splitlines()[-1]]
        done = {path.name for path in (copy / "_proc").rglob("*.ipynb")}
        return [path.name for path in book.notebooks(copy) if path.name not in done]


RULES = [
    stale_modules,
    unclean_notebooks,
    stale_readme,
    dead_readme_links,
    mixed_imports,
    stored_noise,
    heavy_notebooks,
    sidebar_gaps,
    undocumented,
]
