"""Several queries at a time: the draws that stand beside an exploiting query."""

import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cobalt_nb import Box, Cobalt, minimize

MIXED = {"x": (0.0, 1.0), "y": (0.1, 10.0, "log"), "n": (1, 5, "int"), "kind": ["a", "b", "c"]}
MANY = {f"x{i}": (-5.0, 10.0) for i in range(8)}


def mixed(p: dict[str, Any]) -> dict[str, float]:
    """A bowl for each kind, under a limit."""
    bowl = (p["x"] - 0.3) ** 2 + math.log10(p["y"]) ** 2 + 0.1 * (p["n"] - 3) ** 2
    return {"f": bowl + {"a": 0.0, "b": 0.2, "c": 0.4}[p["kind"]], "c": p["x"] + 0.1 * p["n"]}


def ball(p: dict[str, Any]) -> dict[str, float]:
    """A plane over a ball and a half space in eight dimensions."""
    x = np.array(list(p.values()))
    return {"f": float(x.sum()), "norm": float(x @ x), "first": float(x[0] - x[1])}


LIMITS = {"norm": (None, 12.0), "first": (None, 1.0)}


def batches(opt: Cobalt, evaluate: Any, n: int, q: int) -> list[Any]:
    """The next `n` queries, `q` at a time, each batch answered when it is complete."""
    asked: list[Any] = []
    while len(asked) < n:
        queries = opt.ask(q)
        for query in queries:
            opt.tell(query, evaluate(query.x))
        asked += queries
    return asked


def test_a_batch_draws_beside_one_that_exploits() -> None:
    opt = Cobalt(Box(MANY), "f", LIMITS, maximize=False, noise=0, seed=1)
    batches(opt, ball, 10, 10)
    counts = Counter(query.aspect for query in opt.ask(8))
    assert counts["exploit"] == 1 and counts["draw"] >= 6


def test_queries_of_a_batch_differ_and_lie_in_the_space() -> None:
    space = Box(MIXED)
    opt = Cobalt(space, "f", {"c": (None, 0.9)}, maximize=False, noise=0, seed=2)
    asked = batches(opt, mixed, 30, 6)
    assert len({str(query.x) for query in asked}) == len(asked)
    assert any(query.aspect == "draw" for query in asked)
    for query in asked:
        x = query.x
        assert 0 <= x["x"] <= 1 and 0.1 <= x["y"] <= 10 and x["n"] in range(1, 6)
        assert x["kind"] in "abc"


@pytest.mark.slow
def test_a_batched_run_gets_there() -> None:
    """Regret in eight dimensions after 100 evaluations, ten at a time; the rest explored before."""
    opt = Cobalt(Box(MANY), "f", LIMITS, maximize=False, noise=0, seed=0)
    batches(opt, ball, 100, 10)
    best = opt.result()
    plane = np.array([1.0] * 8)
    assert best.feasible and best.value <= -math.sqrt(12 * plane @ plane) + 1e-2


def test_a_batch_from_a_journal_is_the_one_that_was_asked(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    options: dict[str, Any] = {"maximize": False, "noise": 0, "seed": 3}
    opt = Cobalt(Box(MANY), "f", LIMITS, journal=path, **options)
    batches(opt, ball, 20, 10)
    asked = opt.ask(6)
    for query in asked[:2]:
        opt.tell(query, ball(query.x))
    opt.journal.close()  # type: ignore[union-attr]
    again = Cobalt.load(path)
    handed = again.ask(4)  # what is pending is handed out again
    assert [(query.x, query.aspect) for query in handed] == [(q.x, q.aspect) for q in asked[2:]]
    twin = Cobalt(Box(MANY), "f", LIMITS, **options)
    batches(twin, ball, 20, 10)
    for query in twin.ask(6)[:2]:
        twin.tell(query, ball(query.x))
    assert again.ask().x == twin.ask().x


@pytest.mark.parametrize("noise", [None, 0.05])
def test_noise_and_failures_beside_each_other(noise: float | None) -> None:
    """A fifth of the evaluations fails; nothing breaks, and something good is found."""
    rng = np.random.default_rng(0)

    def evaluate(p: dict[str, Any]) -> dict[str, float]:
        failed = p["x"] > 0.8
        values = {k: v + (noise or 0.0) * rng.normal() for k, v in mixed(p).items()}
        return {"f": math.nan, "c": math.nan} if failed else values

    opt = Cobalt(Box(MIXED), "f", {"c": (None, 0.9)}, maximize=False, noise=noise, seed=4)
    batches(opt, evaluate, 40, 8)
    assert mixed(opt.result().x)["f"] < 0.25


@pytest.mark.slow
def test_a_known_limit_is_met_by_every_query_of_a_batch() -> None:
    known = {"norm": lambda p: float(np.square(list(p.values())).sum())}
    opt = Cobalt(Box(MANY), "f", LIMITS, maximize=False, noise=0, seed=5, known=known)
    values = lambda p: {name: v for name, v in ball(p).items() if name != "norm"}
    asked = batches(opt, values, 30, 10)
    assert all(ball(query.x)["norm"] <= 12.0 for query in asked)


@pytest.mark.slow
def test_workers_use_it() -> None:
    result = minimize(ball, MANY, "f", LIMITS, budget=60, workers=4, noise=0, progress=False)
    assert result.feasible and result.value < -8
