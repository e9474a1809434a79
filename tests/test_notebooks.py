"""Every notebook, in a process of its own; and the tool that runs them, on made notebooks."""

from pathlib import Path

import book
import nbformat
import pytest
from nbclient.exceptions import CellExecutionError


def cases() -> list:
    """Each notebook, and those with slow cells once more with them, by the chapters' paths."""
    slow = pytest.mark.slow
    chapters = {
        path: path.relative_to(book.ROOT / "nbs").with_suffix("").as_posix()
        for path in book.notebooks()
    }
    whole = [
        pytest.param(path, True, id=f"{name}-slow", marks=[slow, pytest.mark.long])
        for path, name in chapters.items()
        if book.has_slow_cells(path)
    ]
    quick = [
        pytest.param(path, False, id=name, marks=[slow] if book.is_long(path) else [])
        for path, name in chapters.items()
    ]
    return whole + quick


@pytest.mark.parametrize("path, slow", cases())
def test_notebook(path: Path, slow: bool) -> None:
    book.execute(path, slow)


def notebook(folder: Path, *sources: str) -> Path:
    nb = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    nb.metadata["kernelspec"] = {"name": "python3", "display_name": "python3", "language": "python"}
    nbformat.write(nb, folder / "made.ipynb")
    return folder / "made.ipynb"


def test_a_failing_cell_fails(tmp_path: Path) -> None:
    with pytest.raises(CellExecutionError, match="two is not one"):
        book.execute(notebook(tmp_path, "assert 2 == 1, 'two is not one'"))


def test_directives(tmp_path: Path) -> None:
    path = notebook(tmp_path, "#|eval: false\n1/0", "#|slow\nprint('slow')", "print('quick')")
    texts = [text for _, text in book.text_outputs(book.execute(path))]
    assert texts == ["", "", "quick\n"]
    texts = [text for _, text in book.text_outputs(book.execute(path, slow=True))]
    assert texts == ["", "slow\n", "quick\n"]


def test_skipped_cells_keep_what_they_stored(tmp_path: Path) -> None:
    path = notebook(tmp_path, "#|slow\nprint('slow')")
    book.store(path, slow=True)
    book.store(path)
    assert [text for _, text in book.text_outputs(book.read(path))] == ["slow\n"]


def test_each_notebook_has_its_own_process(tmp_path: Path) -> None:
    path = notebook(tmp_path, "import os\nprint(os.getpid())")
    first, second = (next(book.text_outputs(book.execute(path)))[1] for _ in range(2))
    assert first != second


def test_check_sees_a_stale_output(tmp_path: Path) -> None:
    path = notebook(tmp_path, "print(1)")
    book.store(path)
    assert book.stale_outputs(path) == []
    path.write_text(path.read_text().replace("print(1)", "print(2)"))
    [message] = book.stale_outputs(path)
    assert "--- stored\n1" in message and "--- fresh\n2" in message


def test_store_is_idempotent(tmp_path: Path) -> None:
    path = notebook(tmp_path, "import sys\nfor i in range(3): print(i, flush=True)\nobject()")
    book.store(path)
    first = path.read_bytes()
    book.store(path)
    assert path.read_bytes() == first


def test_the_measured_times_are_those_of_notebooks_that_are_there() -> None:
    names = {path.relative_to(book.ROOT / "nbs").as_posix() for path in book.notebooks()}
    assert set(book.times()) <= names


def test_the_notebooks_stand_in_the_order_of_the_sidebar(tmp_path: Path) -> None:
    for name in ("b", "part/a", "part/_hidden", "z", "forgotten"):
        (tmp_path / "nbs" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "nbs" / f"{name}.ipynb").write_text("{}")
    entries = "[z.ipynb, {section: S, contents: [{href: part/a.ipynb}, b.ipynb]}, page.qmd]"
    (tmp_path / "_quarto.yml").write_text(f"website: {{sidebar: {{contents: {entries}}}}}")
    assert book.sidebar(tmp_path) == ["z.ipynb", "part/a.ipynb", "b.ipynb", "page.qmd"]
    names = [path.relative_to(tmp_path / "nbs").as_posix() for path in book.notebooks(tmp_path)]
    assert names == ["z.ipynb", "part/a.ipynb", "b.ipynb", "forgotten.ipynb"]


def test_the_readme_reads_well_at_the_root(tmp_path: Path) -> None:
    cell = '## Part {#p}\n\n::: {.callout-note title="Note"}\n'
    cell += '[a](x.ipynb) ![p](y.gif){fig-alt="p"}\n:::'
    nb = nbformat.v4.new_notebook(
        cells=[
            nbformat.v4.new_markdown_cell(cell),
            nbformat.v4.new_code_cell('#| fig-alt: "a line"\n#| label: fig-a\nplot()'),
        ]
    )
    nbformat.write(nb, tmp_path / "index.ipynb")
    _, text = book.readme(tmp_path / "index.ipynb").split("-->")
    code = "```python\nplot()\n```"
    assert text.split("\n\n")[1:] == [
        "## Part",
        "**Note**\n[a](nbs/x.ipynb) ![p](nbs/y.gif)",
        f"{code}\n",
    ]
