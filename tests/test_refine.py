"""The last digits: refining steps where they apply, and what they leave alone."""

import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cobalt_nb import Box, Cobalt

Point = dict[str, Any]
PLANE = {"x": (0.0, 1.0), "y": (0.0, 1.0)}
LIMIT = {"c": (None, 1.0)}


def circle(p: Point) -> dict[str, float]:
    """The largest x + y in the unit circle is the root of 2."""
    return {"f": p["x"] + p["y"], "c": p["x"] ** 2 + p["y"] ** 2}


def played(opt: Cobalt, function: Any, n: int) -> list[str]:
    """The reasons of the first `n` queries."""
    reasons = []
    while len(opt.archive) < n:
        query = opt.ask()
        reasons.append(query.reason)
        opt.tell(query, function(query.x))
    return reasons


def best(opt: Cobalt) -> float:
    told = opt.archive.column(opt.problem.objective)[opt.archive.feasible()]
    return float(told.max() if opt.problem.maximize else told.min())


@pytest.mark.slow
@pytest.mark.parametrize("unit", [1e-8, 1.0, 1e8])
@pytest.mark.parametrize("seed", [0, 1])
def test_an_optimum_on_a_limit_is_found_to_the_last_digits_in_any_unit(
    unit: float, seed: int
) -> None:
    scaled = lambda p: {name: unit * value for name, value in circle(p).items()}
    opt = Cobalt(Box(PLANE), "f", {"c": (None, unit)}, noise=0.0, seed=seed)
    reasons = played(opt, scaled, 40)
    assert any(reason.startswith("to refine") for reason in reasons)
    assert 0 <= math.sqrt(2) - best(opt) / unit < 1e-10


@pytest.mark.slow
def test_whole_numbers_and_kinds_are_left_alone() -> None:
    space = Box({**PLANE, "n": (0, 3, "int"), "kind": ["u", "v"]})

    def mixed(p: Point) -> dict[str, float]:
        found = circle(p)
        return {**found, "f": found["f"] - 0.1 * (p["n"] - 1) ** 2 - 0.05 * (p["kind"] == "v")}

    opt = Cobalt(space, "f", LIMIT, noise=0.0)
    reasons = played(opt, mixed, 50)
    for i, reason in enumerate(reasons):
        if reason.startswith("to refine"):
            rest = [(x["n"], x["kind"]) for x in opt.archive.points[:i]]
            assert (opt.archive.points[i]["n"], opt.archive.points[i]["kind"]) in rest
    assert math.sqrt(2) - best(opt) < 1e-6


@pytest.mark.slow
def test_a_known_limit_is_kept_and_reached() -> None:
    known = {"c": lambda p: p["x"] ** 2 + p["y"] ** 2}
    opt = Cobalt(Box(PLANE), "f", LIMIT, noise=0.0, known=known)
    played(opt, lambda p: {"f": p["x"] + p["y"]}, 30)
    assert opt.archive.feasible().all()
    assert 0 <= math.sqrt(2) - best(opt) < 1e-7


@pytest.mark.slow
def test_noise_is_not_taken_for_digits() -> None:
    rng = np.random.default_rng(0)
    loud = lambda p: {name: v + 0.02 * rng.standard_normal() for name, v in circle(p).items()}
    for noise in (0.02, None):
        opt = Cobalt(Box(PLANE), "f", LIMIT, noise=noise)
        reasons = played(opt, loud, 30)
        found = [i for i, reason in enumerate(reasons) if reason.startswith("to refine")]
        assert not found if noise else len(found) <= 3


@pytest.mark.parametrize(
    "shape", [lambda v: abs(v), lambda v: float(v > 0), lambda v: max(v, 0.0), lambda v: 0.0]
)
def test_kinks_steps_and_plateaus_end_in_no_error(shape: Any) -> None:
    odd = lambda p: {"f": -shape(p["x"] - 0.37) - p["y"], "c": shape(p["y"] - 0.2) + p["x"]}
    opt = Cobalt(Box(PLANE), "f", {"c": (0.3, None)}, noise=0.0)
    played(opt, odd, 25)
    assert len({tuple(x.values()) for x in opt.archive.points}) == 25  # no point twice


def test_a_run_that_refines_goes_on_from_its_journal(tmp_path: Path) -> None:
    opt = Cobalt(Box(PLANE), "f", LIMIT, noise=0.0, journal=tmp_path / "run.jsonl")
    reasons = played(opt, circle, 24)
    assert any(reason.startswith("to refine") for reason in reasons)
    shutil.copy(tmp_path / "run.jsonl", tmp_path / "copy.jsonl")
    again = Cobalt.load(tmp_path / "copy.jsonl")
    ours, theirs = again.ask().x, opt.ask().x
    assert ours == pytest.approx(theirs, abs=1e-9)


def test_a_failing_region_is_respected() -> None:
    def broken(p: Point) -> dict[str, float]:
        return circle(p) if p["y"] < 0.6 else {}

    for seed in range(3):
        opt = Cobalt(Box(PLANE), "f", LIMIT, noise=0.0, seed=seed)
        played(opt, broken, 40)
        failed = np.isnan(opt.archive.column("f").numpy())
        assert failed[10:].mean() < 0.5
        assert 0 <= (0.8 + 0.6) - best(opt) < 1e-3


def test_chance_failures_do_not_bar_the_way() -> None:
    """Two runs that are caught .01 and .1 from the optimum if nothing is dared."""
    gaps, reasons = [], []
    for seed in (6, 11):
        rng = np.random.default_rng(seed)
        opt = Cobalt(Box(PLANE), "f", LIMIT, noise=0.0, seed=seed)
        reasons += played(opt, lambda p: circle(p) if rng.random() > 0.15 else {}, 40)
        gaps.append(math.sqrt(2) - best(opt))
    assert any(reason.startswith("to dare") for reason in reasons)
    assert max(gaps) < 5e-3
