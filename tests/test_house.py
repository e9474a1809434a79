"""The repository keeps the rules of the house, and each rule is shown to notice a breakage."""

import json
from collections.abc import Callable
from pathlib import Path

import house
import pytest
from book import ROOT

NB = "nbs/method/problem.ipynb"


@pytest.mark.parametrize("rule", house.RULES, ids=lambda rule: rule.__name__)
def test_the_repository_keeps(rule: Callable[[Path], list[str]]) -> None:
    assert rule(ROOT) == []


def edit_cell(**changes: object) -> Callable[[Path], None]:
    """Put these values into the last code cell of a chapter."""

    def edit(root: Path) -> None:
        nb = json.loads((root / NB).read_text(encoding="utf-8"))
        [*_, cell] = [cell for cell in nb["cells"] if cell["cell_type"] == "code"]
        cell.update(changes)
        (root / NB).write_text(json.dumps(nb), encoding="utf-8")

    return edit


def edit_prose(text: str, name: str = NB) -> Callable[[Path], None]:
    """Put this text into the last cell of prose of a chapter."""

    def edit(root: Path) -> None:
        nb = json.loads((root / name).read_text(encoding="utf-8"))
        [*_, cell] = [cell for cell in nb["cells"] if cell["cell_type"] == "markdown"]
        cell["source"] = [text]
        (root / name).write_text(json.dumps(nb), encoding="utf-8")

    return edit


def append(name: str, text: str) -> Callable[[Path], None]:
    def edit(root: Path) -> None:
        with (root / name).open("a", encoding="utf-8") as file:
            file.write(text)

    return edit


def stream(text: str, name: str = "stdout") -> list[dict]:
    return [{"output_type": "stream", "name": name, "text": [text]}]


ERROR = [{"output_type": "error", "ename": "ValueError", "evalue": "", "traceback": []}]
DRAWING = [{"output_type": "display_data", "metadata": {}, "data": {"image/svg+xml": ["<svg/>"]}}]
TABLE = [
    {
        "output_type": "display_data",
        "metadata": {},
        "data": {"text/markdown": ["[x](lost.ipynb)"], "text/plain": ["x"]},
    }
]
PICTURE = [{"output_type": "display_data", "metadata": {}, "data": {"text/plain": ["x" * 500_000]}}]


def listed_twice(root: Path) -> None:
    text = (root / "_quarto.yml").read_text(encoding="utf-8")
    entry = "          - method/problem.ipynb\n"
    (root / "_quarto.yml").write_text(text.replace(entry, entry * 2), encoding="utf-8")


def edit_settings(old: str, new: str) -> Callable[[Path], None]:
    def edit(root: Path) -> None:
        text = (root / "settings.ini").read_text(encoding="utf-8")
        (root / "settings.ini").write_text(text.replace(old, new), encoding="utf-8")

    return edit


BREAKAGES = [
    (house.stale_modules, append("cobalt_nb/problem.py", "\n# edited by hand\n"), "problem.py"),
    (house.stale_modules, edit_cell(source=["#|exports\n", "def added(): pass"]), "problem.py"),
    (house.unclean_notebooks, edit_cell(execution_count=7), "problem.ipynb"),
    (house.unclean_notebooks, edit_cell(metadata={"collapsed": True}), "problem.ipynb"),
    (house.stale_readme, append("README.md", "one more line\n"), "README.md"),
    (
        house.dead_readme_links,
        append("README.md", "[nowhere](nbs/99_nowhere.ipynb)\n"),
        "99_nowhere",
    ),
    (house.mixed_imports, edit_cell(source=["import math\n", "x = math.pi"]), "problem.ipynb"),
    (house.stored_noise, edit_cell(outputs=ERROR), "a stored error"),
    (house.stored_noise, edit_cell(outputs=stream(" 50%|#####     | 5/10")), "progress bar"),
    (house.stored_noise, edit_cell(outputs=stream("Wall time: 3 s")), "timing"),
    (house.stored_noise, edit_cell(outputs=stream("it took 12 ms")), "timing"),
    (house.stored_noise, edit_cell(outputs=stream("UserWarning: odd", name="stderr")), "stderr"),
    (house.heavy_notebooks, edit_cell(outputs=PICTURE), "problem.ipynb"),
    (house.sidebar_gaps, lambda root: (root / NB).unlink(), "not in nbs/"),
    (
        house.sidebar_gaps,
        lambda root: (root / NB).rename(root / "nbs" / "new.ipynb"),
        "new.ipynb: not in the sidebar",
    ),
    (house.sidebar_gaps, append("nbs/new.qmd", "# New"), "new.qmd: not in the sidebar"),
    (house.sidebar_gaps, listed_twice, "method/problem.ipynb: 2 times"),
    (house.dead_links, edit_prose("[x](lost.ipynb)"), "lost.ipynb leads nowhere"),
    (house.dead_links, edit_prose('<a href="lost.ipynb">x</a>'), "lost.ipynb leads nowhere"),
    (house.dead_links, edit_prose("[x](roi.ipynb#lost)"), "#lost leads to a page without"),
    (house.dead_links, edit_prose("[x](#the-problem)"), "leads to a page without"),  # a title
    (house.dead_links, edit_prose("[x](../../LICENSE)"), "leads out of nbs/"),
    (house.dead_links, edit_cell(outputs=TABLE), "lost.ipynb leads nowhere"),
    (house.pictures_without_words, edit_cell(outputs=DRAWING), "problem.ipynb"),
    (
        house.pictures_without_words,
        edit_cell(source=['#| fig-alt: "short"\n', "1"], outputs=DRAWING),
        "problem.ipynb",
    ),
    (house.pictures_without_words, edit_prose("![](x.png)"), "![](x.png)"),
    (house.wide_formulas, edit_prose("so $" + r"x_1 + \mathbf{y} - " * 12 + "z$ is"), "x_1"),
    (house.undocumented, edit_settings("add_show_docs,", ""), "show_doc repeats"),
]


@pytest.mark.parametrize(
    "rule, breakage, sign",
    BREAKAGES,
    ids=[f"{rule.__name__}-{i}" for i, (rule, _, _) in enumerate(BREAKAGES)],
)
def test_the_rule_notices(
    rule: Callable[[Path], list[str]], breakage: Callable[[Path], None], sign: str, tmp_path: Path
) -> None:
    copy = house.copy_of(ROOT, tmp_path / "copy")
    breakage(copy)
    assert any(sign in problem for problem in rule(copy))


@pytest.mark.parametrize(
    "prose",
    [
        "[x](roi.ipynb) [y](../index.ipynb) [z](https://example.org/lost.ipynb) `[w](lost.ipynb)`",
        "```\n[x](lost.ipynb)\n```",
        "## Some `code` & more, twice! {#own}\n\n## So it is\n\n[x](#own) [y](#so-it-is)",
        "## Again\n\n## Again\n\n[x](#again-1)",
        "[]{#here} [x](#here)",
    ],
)
def test_good_links_are_left_alone(prose: str, tmp_path: Path) -> None:
    copy = house.copy_of(ROOT, tmp_path / "copy")
    before = house.dead_links(copy)
    edit_prose(prose)(copy)
    assert set(house.dead_links(copy)) <= set(before)


@pytest.mark.parametrize(
    "title, anchor",
    [
        ("Regions of interest", "regions-of-interest"),
        ("`a_b` and *this* $x^2$ & 3.5 — done", "a_b-and-this-x2-3.5-done"),
        ("3 things: β ≤ γ", "things-β-γ"),
        ("A [link](x.html) here", "a-link-here"),
        ("2023", "section"),
    ],
)
def test_the_ids_of_headings_are_those_of_pandoc(title: str, anchor: str) -> None:
    assert house.heading_id(title) == anchor
