"""The repository keeps the rules of the house, and each rule is shown to notice when it is broken."""

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


def append(name: str, text: str) -> Callable[[Path], None]:
    def edit(root: Path) -> None:
        with (root / name).open("a", encoding="utf-8") as file:
            file.write(text)

    return edit


def stream(text: str, name: str = "stdout") -> list[dict]:
    return [{"output_type": "stream", "name": name, "text": [text]}]


ERROR = [{"output_type": "error", "ename": "ValueError", "evalue": "", "traceback": []}]
PICTURE = [{"output_type": "display_data", "metadata": {}, "data": {"text/plain": ["x" * 500_000]}}]

BREAKAGES = [
    (house.stale_modules, append("cobalt_nb/problem.py", "\n# edited by hand\n"), "problem.py"),
    (house.stale_modules, edit_cell(source=["#|exports\n", "def added(): pass"]), "problem.py"),
    (house.unclean_notebooks, edit_cell(execution_count=7), "00_problem.ipynb"),
    (house.unclean_notebooks, edit_cell(metadata={"collapsed": True}), "00_problem.ipynb"),
    (house.stale_readme, append("README.md", "one more line\n"), "README.md"),
    (
        house.dead_readme_links,
        append("README.md", "[nowhere](nbs/99_nowhere.ipynb)\n"),
        "99_nowhere",
    ),
    (house.mixed_imports, edit_cell(source=["import math\n", "x = math.pi"]), "00_problem.ipynb"),
    (house.stored_noise, edit_cell(outputs=ERROR), "a stored error"),
    (house.stored_noise, edit_cell(outputs=stream(" 50%|#####     | 5/10")), "progress bar"),
    (house.stored_noise, edit_cell(outputs=stream("Wall time: 3 s")), "timing"),
    (house.stored_noise, edit_cell(outputs=stream("it took 12 ms")), "timing"),
    (house.stored_noise, edit_cell(outputs=stream("UserWarning: odd", name="stderr")), "stderr"),
    (house.heavy_notebooks, edit_cell(outputs=PICTURE), "00_problem.ipynb"),
    (house.sidebar_gaps, lambda root: (root / NB).unlink(), "not in nbs/"),
    (
        house.sidebar_gaps,
        lambda root: (root / NB).rename(root / "nbs" / "99_new.ipynb"),
        "99_new.ipynb: not in the sidebar",
    ),
    (
        house.undocumented,
        edit_cell(source=["#|export\n", "import no_such_library"]),
        "no_such_library",
    ),
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
