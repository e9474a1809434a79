"""Out of a local optimum: where a search has ended, the next one climbs another hill."""

import math
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from cobalt_nb import Box, Cobalt
from cobalt_nb.models import Policy
from cobalt_nb.study.problems import Hartmann
from cobalt_nb.study.zoo import HARTMANN

SEEDS = (70, 75, 84)  # their searches end on a lower hill, 0.67 below the optimum
SPACE = Box({f"x{i}": (0.0, 1.0) for i in range(4)})
Answer = Callable[[dict[str, float]], dict[str, float]]
LIMITS = {"sum": (None, 2.0)}


def played(opt: Cobalt, values_at: Answer, n: int) -> list[str]:
    """Tell evaluations until there are `n`; gives the reasons."""
    reasons = []
    while len(opt.archive) < n:
        query = opt.ask()
        opt.tell(query, values_at(query.x))
        reasons.append(query.reason)
    return reasons


def regret(seed: int, policy: Policy) -> float:
    task = Hartmann()
    parts = (task.space, task.objective, task.constraints)
    opt = Cobalt(*parts, noise=0.0, seed=seed, policy=policy)
    played(opt, task.values_at, 100)
    return HARTMANN - opt.result().value


@pytest.mark.slow
def test_searches_that_end_on_a_lower_hill_go_on_elsewhere() -> None:
    stuck = [regret(seed, Policy(hill_near=-1.0)) > 0.1 for seed in SEEDS]
    left = [regret(seed, Policy()) > 0.1 for seed in SEEDS]
    assert sum(left) < sum(stuck)


def two_hills(x: dict[str, float]) -> dict[str, float]:
    """A wide hill with a higher, narrower one on its flank."""
    far = lambda at: sum((v - at) ** 2 for v in x.values())
    return {"f": math.exp(-2 * far(0.2)) + 1.2 * math.exp(-8 * far(0.45)), "sum": sum(x.values())}


def test_hills_are_climbed_and_a_journal_goes_on(tmp_path: Path) -> None:
    whole = Cobalt(SPACE, "f", LIMITS, noise=0.0, seed=1, journal=tmp_path / "run.jsonl")
    reasons = played(whole, two_hills, 40)
    assert any(reason.startswith("to climb another hill") for reason in reasons)
    shutil.copy(tmp_path / "run.jsonl", tmp_path / "copy.jsonl")
    again = Cobalt.load(tmp_path / "copy.jsonl")
    ours, theirs = again.ask().x, whole.ask().x
    assert ours == pytest.approx(theirs, abs=1e-9)


def test_no_hill_is_asked_where_searches_have_ended_or_with_noise() -> None:
    opt = Cobalt(SPACE, "f", LIMITS, noise=0.0, seed=1)
    reasons = played(opt, two_hills, 40)
    cube = opt.archive.cube
    hills = [i for i, one in enumerate(reasons) if one.startswith("to climb another hill")]
    for i in hills:
        near = (torch.cdist(cube[:i], cube[:i], p=math.inf) <= 1e-3).sum(1) > 4
        feasible = torch.as_tensor(opt.archive.feasible())[:i]
        tops = cube[:i][near & feasible]
        assert len(tops) and torch.cdist(cube[i][None], tops, p=math.inf).min() > 0.01
    noisy = Cobalt(SPACE, "f", LIMITS, noise=0.01, seed=1)
    assert not any("hill" in reason for reason in played(noisy, two_hills, 40))
