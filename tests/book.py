"""The authors' tool: run notebooks, store clean outputs, make the README.

    python tests/book.py run                          # every notebook: execute, store clean outputs
    python tests/book.py run nbs/method/roi.ipynb         # one notebook
    python tests/book.py run --slow nbs/method/roi.ipynb  # its #|slow cells too
    python tests/book.py run --check                  # compare fresh text outputs with the stored
    python tests/book.py times                        # how long each takes, into tests/times.json
    python tests/book.py readme                       # README.md from nbs/index.ipynb
    python tests/book.py readme --check               # exit code 1 if README.md is stale

Every notebook runs in a kernel of its own, in the folder of the notebook, with one thread. A cell
marked `#|eval: false` is never executed, a cell marked `#|slow` only with --slow; what they stored
before is kept.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import yaml
from nbclient import NotebookClient
from nbformat import NotebookNode

ROOT = Path(__file__).resolve().parent.parent
TIMES = ROOT / "tests" / "times.json"
PATIENCE = 10.0  # seconds of a processor; a notebook that takes longer is run by the slow tests
ONE_THREAD = {name: "1" for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}


def notebooks(root: Path = ROOT) -> list[Path]:
    """Every notebook of the book, in the order of the sidebar; those it forgets come last."""
    order = {name: place for place, name in enumerate(sidebar(root))}
    found = {path.relative_to(root / "nbs").as_posix(): path for path in files(root, "*.ipynb")}
    return [found[name] for name in sorted(found, key=lambda n: (order.get(n, len(order)), n))]


def files(root: Path, pattern: str) -> list[Path]:
    """The files of the book that belong to its sources: none of those that tools leave behind."""
    found = (root / "nbs").rglob(pattern)
    inside = lambda path: path.relative_to(root / "nbs").parts
    return [p for p in found if not any(part.startswith((".", "_")) for part in inside(p))]


def sidebar(root: Path = ROOT) -> list[str]:
    """The pages in reading order, relative to nbs/: the one list of them is in _quarto.yml."""
    config = yaml.safe_load((root / "_quarto.yml").read_text(encoding="utf-8"))
    return list(leaves(config["website"]["sidebar"]["contents"]))


def leaves(entries: list) -> Iterator[str]:
    """The pages of a part of the sidebar: a name, or an entry with a name, or a section of them."""
    for entry in entries:
        if isinstance(entry, str):
            yield entry
        else:
            if page := entry.get("href") or entry.get("file"):
                yield page
            yield from leaves(entry.get("contents", []))


def read(path: Path) -> NotebookNode:
    return nbformat.read(path, as_version=4)


def directives(source: str) -> dict[str, str]:
    """The `#|name: value` lines at the head of a cell: `{"eval": "false", "slow": ""}`."""
    found = {}
    for line in source.lstrip().splitlines():
        match = re.match(r"#\s*\|\s*([\w-]+):?\s*(.*)", line)
        if not match:
            break
        found[match[1]] = match[2].strip()
    return found


def is_skipped(cell: NotebookNode, slow: bool) -> bool:
    found = directives(cell.source)
    return found.get("eval") == "false" or ("slow" in found and not slow)


def has_slow_cells(path: Path) -> bool:
    return any(
        cell.cell_type == "code" and "slow" in directives(cell.source) for cell in read(path).cells
    )


def times() -> dict[str, float]:
    """Processor seconds that each notebook took without its slow cells, when measured."""
    return json.loads(TIMES.read_text(encoding="utf-8")) if TIMES.exists() else {}


def is_long(path: Path) -> bool:
    """Did this notebook take longer than one waits for? A new one counts as short."""
    return times().get(path.relative_to(ROOT / "nbs").as_posix(), 0.0) > PATIENCE


class DirectiveClient(NotebookClient):
    """A notebook client that leaves skipped cells, and what they stored, alone."""

    slow = False

    async def async_execute_cell(
        self, cell: NotebookNode, cell_index: int, *args: Any, **kwargs: Any
    ) -> NotebookNode:
        if cell.cell_type == "code" and is_skipped(cell, self.slow):
            return cell
        return await super().async_execute_cell(cell, cell_index, *args, **kwargs)


def execute(path: Path, slow: bool = False, timeout: float = 1800.0) -> NotebookNode:
    """The notebook after a run in a fresh kernel; `CellExecutionError` at the first that fails."""
    nb = read(path)
    client = DirectiveClient(
        nb,
        timeout=timeout,
        kernel_name="python3",
        resources={"metadata": {"path": str(path.parent)}},
    )
    client.slow = slow
    env = (
        os.environ
        | ONE_THREAD
        | {
            "PYTHONPATH": os.pathsep.join(
                filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")])
            )
        }
    )
    client.execute(env=env)
    return nb


def clean(nb: NotebookNode) -> NotebookNode:
    """Without counters, metadata and memory addresses, and with each stream in one piece."""
    from nbdev.clean import clean_nb

    for cell in nb.cells:
        if cell.cell_type == "code":
            cell.outputs = joined_streams(cell.outputs)
    nb = nbformat.from_dict(nb)
    clean_nb(nb)
    return nb


def joined_streams(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """Consecutive outputs of one stream as one: their splitting is a matter of timing."""
    joined: list[NotebookNode] = []
    for out in outputs:
        if (
            joined
            and out.output_type == "stream" == joined[-1].output_type
            and out.name == joined[-1].name
        ):
            joined[-1].text += out.text
        else:
            joined.append(out)
    return joined


def write(nb: NotebookNode, path: Path) -> None:
    """In exactly the form that `nbdev_clean` leaves alone."""
    from execnb.nbio import dict2nb, write_nb

    write_nb(dict2nb(json.loads(nbformat.v4.writes(nb))), path)


def text_outputs(nb: NotebookNode) -> Iterator[tuple[str, str]]:
    """(cell id, text) of every code cell; image bytes may differ between machines."""
    for cell in nb.cells:
        if cell.cell_type == "code":
            texts = [
                out.get("text") or out.get("data", {}).get("text/plain", "") for out in cell.outputs
            ]
            yield cell.id, re.sub(r"at 0x[0-9a-f]+", "at 0x…", "\n".join(texts))


def stale_outputs(path: Path, slow: bool = False) -> list[str]:
    """The cells whose text output differs from the stored one after a fresh run."""
    stored, fresh = dict(text_outputs(read(path))), dict(text_outputs(clean(execute(path, slow))))
    return [
        f"{path.name} cell {key}:\n--- stored\n{stored[key]}\n--- fresh\n{fresh[key]}"
        for key in fresh
        if fresh[key] != stored[key]
    ]


def store(path: Path, slow: bool = False) -> None:
    write(clean(execute(path, slow)), path)


HIDDEN = ("hide", "default_exp")


def readme(index: Path) -> str:
    """The README: prose as it stands, code in fences, text output below it, links from the root."""
    blocks = ["<!-- Made from nbs/index.ipynb by `python tests/book.py readme`; do not edit. -->"]
    for cell in read(index).cells:
        found = directives(cell.source)
        if any(name in found for name in HIDDEN) or found.get("include") == "false":
            continue
        blocks += (
            [rooted(cell.source)] if cell.cell_type == "markdown" else code_blocks(cell, found)
        )
    return "\n\n".join(block.strip() for block in blocks if block.strip()) + "\n"


def code_blocks(cell: NotebookNode, found: dict[str, str]) -> list[str]:
    """A code cell and its text output, as fenced blocks; output in Markdown as it is."""
    source = "\n".join(cell.source.splitlines()[len(found) :]).strip()
    blocks = [] if found.get("echo") == "false" or not source else [f"```python\n{source}\n```"]
    for out in cell.outputs:
        data = out.get("data", {})
        text = out.get("text") or data.get("text/plain", "")
        if "text/markdown" in data:
            blocks.append(rooted(data["text/markdown"]))
        elif text.strip() and not pictured(out):
            blocks.append(f"```text\n{text.rstrip()}\n```")
    return blocks


def pictured(out: NotebookNode) -> bool:
    """Is this output a picture?"""
    return any(kind.startswith("image/") for kind in out.get("data", {}))


def rooted(markdown: str) -> str:
    """Markdown of nbs/ as it reads at the root: links lead there, Quarto's marks are gone."""
    markdown = re.sub(
        r"^:::+ *\{[^}]*title=\"([^\"]*)\"[^}]*\} *$", r"**\1**", markdown, flags=re.M
    )
    markdown = re.sub(r"^:::.*\n?", "", markdown, flags=re.M)
    markdown = re.sub(r"(?<=\))\{[^}]*\}|^(#+ .*?) *\{[^}]*\} *$", r"\1", markdown, flags=re.M)
    markdown = re.sub(r"\]\((?![a-z]+:|#|/|\.\./)([^)]+)\)", r"](nbs/\1)", markdown)
    return markdown.replace("](../", "](")


def run_command(args: argparse.Namespace) -> int:
    stale = []
    for path in args.notebooks or notebooks():
        print(f"{path.name} …", flush=True)
        if args.check:
            stale += stale_outputs(path.resolve(), args.slow)
        else:
            store(path.resolve(), args.slow)
    print("\n".join(stale) or ("every text output is as stored" if args.check else "stored"))
    return 1 if stale else 0


def times_command(args: argparse.Namespace) -> int:
    """Run the notebooks one by one; what was measured before stays for those that are not run."""
    there = [path.relative_to(ROOT / "nbs").as_posix() for path in notebooks()]
    known = {name: seconds for name, seconds in times().items() if name in there}
    for path in args.notebooks or notebooks():
        before = child_seconds()
        execute(path.resolve())
        name = path.resolve().relative_to(ROOT / "nbs").as_posix()
        known[name] = round(child_seconds() - before, 1)
        print(f"{known[name]:6.1f} s  {name}", flush=True)
        kept = {name: known[name] for name in there if name in known}
        TIMES.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    return 0


def child_seconds() -> float:
    """Processor seconds of ended child processes; other work on the machine does not count."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def readme_command(args: argparse.Namespace) -> int:
    text, target = readme(ROOT / "nbs" / "index.ipynb"), ROOT / "README.md"
    if not args.check:
        target.write_text(text, encoding="utf-8")
        return 0
    fresh = target.exists() and target.read_text(encoding="utf-8") == text
    print(
        "README.md is in sync" if fresh else "README.md is stale: run `python tests/book.py readme`"
    )
    return 0 if fresh else 1


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="book.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    run = commands.add_parser("run", help="execute notebooks and store clean outputs")
    run.add_argument("notebooks", nargs="*", type=Path)
    run.add_argument("--slow", action="store_true", help="run the cells marked #|slow too")
    run.add_argument(
        "--check",
        action="store_true",
        help="compare text outputs with the stored ones, write nothing",
    )
    run.set_defaults(command=run_command)
    clock = commands.add_parser("times", help="measure how long notebooks take")
    clock.add_argument("notebooks", nargs="*", type=Path)
    clock.set_defaults(command=times_command)
    front = commands.add_parser("readme", help="make README.md from nbs/index.ipynb")
    front.add_argument("--check", action="store_true", help="only say whether README.md is in sync")
    front.set_defaults(command=readme_command)
    args = parser.parse_args(argv)
    return args.command(args)


if __name__ == "__main__":
    sys.exit(main())
