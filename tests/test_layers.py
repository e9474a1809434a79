"""The house stands on its floors: nothing imports from above, not even lazily."""

import ast
from pathlib import Path

import house
import layers
import pytest
from book import ROOT


def test_no_module_imports_from_above() -> None:
    assert layers.upward(ROOT) == []


def test_no_chapter_imports_from_the_readers_future() -> None:
    assert layers.from_the_future(ROOT) == []


def test_a_room_lists_what_others_take_from_it(tmp_path: Path) -> None:
    assert layers.unlisted(ROOT) == []
    copy = house.copy_of(ROOT, tmp_path / "copy")
    with (copy / "cobalt_nb" / "run.py").open("a", encoding="utf-8") as file:
        file.write("\nfrom cobalt_nb.pool import vague\n")
    assert layers.unlisted(copy) == ["run takes vague of pool"]


def test_the_floors_stand_in_their_order() -> None:
    order = layers.rooms(ROOT)
    assert len(order) == len(set(order)) > 20
    sequence = ["style", "problem", "posterior", "confidence", "roi", "acquisition", "theory"]
    sequence += ["threads", "spaces", "fit", "optimizer", "plots", "study.tasks", "botorch", "cli"]
    assert sequence == [room for room in order if room in sequence]


ROOM = "study.figures"


@pytest.mark.parametrize(
    "code, found",
    [
        ("from cobalt_nb.roi import Regions", [("roi", "")]),
        ("from ..roi import Regions", [("roi", "")]),
        ("from .trials import load", [("study.trials", "")]),
        ("from . import trials", [("study.trials", "")]),
        ("from cobalt_nb.study import trials", [("study.trials", "")]),
        ("from cobalt_nb import Box, roi", [("spaces", ""), ("roi", "")]),
        ("import cobalt_nb.study.trials as t", [("study.trials", "")]),
        ("def plot():\n    from ..plots import draw", [("plots", "plot")]),
        ("class A:\n    def f(self):\n        import cobalt_nb.plots", [("plots", "f")]),
        ("importlib.import_module('cobalt_nb.plots')", [("plots", "")]),
        ("if x:\n    try:\n        from ..plots import a\n    except E: pass", [("plots", "")]),
        ("import numpy\nfrom cobalt_nb import __version__\nfrom collections import abc", []),
    ],
)
def test_every_way_to_import_is_seen(code: str, found: list[tuple[str, str]]) -> None:
    seen = layers.imports(ast.parse(code), ROOM, {"Box": "spaces"})
    assert [(one.room, one.within) for one in seen] == found


@pytest.mark.parametrize(
    "code, fault",
    [
        ("from .cli import main", "problem imports cli"),
        ("def f():\n    from .cli import main", "problem imports cli"),
        ("def f():\n    from .plots import plot_trace", "problem imports plots"),
        ("def plot():\n    from .plots import plot_trace", None),
        ("def report():\n    from .page import write_page", None),
        ("def plot():\n    from .page import write_page", "problem imports page"),
        ("from .problem import Interval", "problem imports problem"),
        ("from .lost import x", "problem imports lost"),
    ],
)
def test_an_import_from_above_is_noticed(code: str, fault: str | None, tmp_path: Path) -> None:
    copy = house.copy_of(ROOT, tmp_path / "copy")
    before = layers.upward(copy)
    with (copy / "cobalt_nb" / "problem.py").open("a") as file:
        file.write(f"\n{code}\n")
    new = [found for found in layers.upward(copy) if found not in before]
    assert [found.split(" (")[0] for found in new] == ([fault] if fault else [])


def test_a_module_without_a_chapter_is_noticed(tmp_path: Path) -> None:
    copy = house.copy_of(ROOT, tmp_path / "copy")
    (copy / "cobalt_nb" / "stray.py").write_text("")
    assert "stray: no chapter in the sidebar exports it" in layers.upward(copy)
