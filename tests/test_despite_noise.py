"Runs whose evaluations have noise: what is asked, and what is recommended."

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from cobalt_nb import Box, Cobalt, minimize
from cobalt_nb.improvement import improvement
from cobalt_nb.step import Step

Point = dict[str, Any]
SQUARE = Box({"x": (0.0, 1.0), "y": (0.0, 1.0)})
LIMITS = {"c": (None, 0.5)}


def bowl(p: Point) -> dict[str, float]:
    "Best at the limit, at (0.45, 0.05) with the value 0.405."
    return {"f": (p["x"] - 0.9) ** 2 + (p["y"] - 0.5) ** 2, "c": p["x"] + p["y"]}


def shaken(sd: float, *seed: int) -> Callable[[dict[str, float]], dict[str, float]]:
    rng = np.random.default_rng(seed)
    return lambda told: {name: v + sd * rng.standard_normal() for name, v in told.items()}


def played(
    opt: Cobalt, truth: Callable[[Point], dict[str, float]], n: int, batch: int, sd: float = 0.05
) -> Iterator[str]:
    "The aspects of `n` queries in batches, answered with noise."
    noise = shaken(sd, opt.settings.seed, len(opt.archive))
    for _ in range(0, n, batch):
        for query in opt.ask(batch):
            told = truth(query.x)
            opt.tell(query, noise(told))
            yield query.aspect


@pytest.mark.parametrize("batch", [1, 4])
def test_three_of_four_queries_improve_and_the_fourth_exploits(batch: int) -> None:
    opt = Cobalt(SQUARE, "f", LIMITS, maximize=False, noise=0.05, n_init=8, seed=1)
    aspects = list(played(opt, bowl, 32, batch))[8:]
    assert set(aspects) == {"improve", "exploit"}
    assert [i for i, aspect in enumerate(aspects) if aspect == "exploit"] == list(range(3, 24, 4))


def test_a_run_with_noise_recommends_a_good_point_that_keeps_the_limit() -> None:
    "Five runs of forty evaluations, with noise of a fifth of the spread of f."
    ends = []
    for seed in range(5):
        opt = Cobalt(SQUARE, "f", LIMITS, maximize=False, noise=0.05, seed=seed)
        list(played(opt, bowl, 40, 1))
        ends.append(bowl(opt.result().x))
    assert sum(end["c"] <= 0.5 for end in ends) >= 4
    assert np.median([end["f"] for end in ends]) < 0.405 + 0.06


def test_the_eighth_of_a_batch_is_a_replicate_once() -> None:
    opt = Cobalt(SQUARE, "f", LIMITS, maximize=False, n_init=10, seed=0)
    first = list(played(opt, bowl, 10, 10))
    second, third = (list(played(opt, bowl, 12, 12)) for _ in range(2))
    assert set(first) == {"initial design"}
    assert second.count("replicate") == 1 and second[7] == "replicate"
    assert "improve" in third and "replicate" not in third and opt.models.noisy


def test_no_replicate_where_it_is_known_that_there_is_no_noise() -> None:
    opt = Cobalt(SQUARE, "f", LIMITS, maximize=False, n_init=10, noise=0.0, seed=0)
    aspects = list(played(opt, bowl, 34, 12, sd=0.0))
    assert not {"replicate", "improve"} & set(aspects)


def test_a_batch_does_not_ask_for_one_point_alone() -> None:
    opt = Cobalt(SQUARE, "f", LIMITS, maximize=False, noise=0.05, n_init=12, seed=2)
    list(played(opt, bowl, 12, 12))
    batch = [(query.x["x"], query.x["y"]) for query in opt.ask(8)]
    assert len({(round(x, 3), round(y, 3)) for x, y in batch}) >= 6


def fails(p: Point) -> dict[str, float]:
    return dict.fromkeys("fc", math.nan) if p["y"] > 0.8 else bowl(p)


def nowhere(p: Point) -> dict[str, float]:
    "Nothing is feasible; nearest to it at (0, 0)."
    return {"f": bowl(p)["f"], "c": 3 + p["x"] + p["y"]}


def huge(p: Point) -> dict[str, float]:
    return {"f": 1e12 * bowl(p)["f"], "c": bowl(p)["c"]}


def flat(p: Point) -> dict[str, float]:
    return {"f": 1.0, "c": 0.0}


@pytest.mark.parametrize("truth", [fails, nowhere, huge, flat], ids=lambda f: f.__name__)
def test_hard_cases_under_noise(truth: Callable[[Point], dict[str, float]]) -> None:
    "Failures, nothing feasible, large values, nothing but noise: every query is a point inside."
    opt = Cobalt(SQUARE, "f", LIMITS, maximize=False, noise={"c": 0.05, "f": 0.05}, seed=0)
    aspects = list(played(opt, truth, 20, 2))
    assert len(aspects) == 20 and len(opt.archive) == 20
    result = opt.result()
    assert set(result.x) == {"x", "y"} and all(0 <= v <= 1 for v in result.x.values())
    if truth is nowhere:
        assert not result.feasible and sum(result.x.values()) < 0.3


def test_whole_numbers_and_labels_under_noise() -> None:
    "Columns that no search moves stay as they are."
    space = Box({"x": (0.0, 1.0), "n": (1, 9, "int"), "kind": ["a", "b", "c"]})
    best = {"a": 0.0, "b": 1.0, "c": 0.5}

    def truth(p: Point) -> dict[str, float]:
        return {"f": best[p["kind"]] - (p["x"] - 0.3) ** 2 - 0.05 * (p["n"] - 4) ** 2, "c": p["x"]}

    opt = Cobalt(space, "f", {"c": (None, 0.6)}, noise=0.05, seed=0)
    list(played(opt, truth, 30, 3))
    for x in opt.archive.points:
        assert x["kind"] in best and x["n"] in range(1, 10)
    assert truth(opt.result().x)["f"] > 0.8


def test_known_functions_and_noise_keep_the_other_cycle() -> None:
    opt = Cobalt(
        SQUARE, "f", LIMITS, maximize=False, noise={"f": 0.05}, seed=0,
        known={"c": lambda p: p["x"] + p["y"]},
    )  # fmt: skip
    noise = shaken(0.05, 0)
    for _ in range(14):
        query = opt.ask()
        opt.tell(query, noise({"f": bowl(query.x)["f"]}))
        assert query.aspect != "improve"
    assert math.isfinite(opt.result().value)


def test_a_run_with_noise_ends_when_its_certificate_has_closed() -> None:
    rng = np.random.default_rng(0)
    slope = lambda p: {name: p["x"] + 0.003 * rng.standard_normal() for name in "fc"}
    limits = {"c": (None, 0.8)}
    result = minimize(
        slope, {"x": (0.0, 1.0)}, "f", limits, budget=40, tol=0.15, noise=0.003, progress=False
    )
    assert result.status == "certified" and len(result.history) < 40


def test_an_evaluation_that_failed_is_no_contender() -> None:
    opt = Cobalt({"x": (0.0, 1.0)}, "f", noise=0.02, seed=0)
    for x in np.linspace(0.02, 0.98, 24):
        opt.tell({"x": x}, {"f": math.nan if x > 0.6 else x})
    opt.models.refresh(opt.archive)
    best = improvement(Step(opt.models, opt.archive, [], number=24)).best
    assert 0.5 < float(opt.models.surrogates["f"].from_model(best).mean()) < 0.62


def test_what_is_known_to_be_feasible_is_feasible_in_every_draw() -> None:
    "A narrow interval, told without noise, beside an objective with noise."
    opt = Cobalt({"x": (0.0, 1.0)}, "f", {"c": (0.4999, 0.5001)}, noise={"f": 0.1, "c": 0.0})
    for x in np.linspace(0.0, 1.0, 9):
        opt.tell({"x": x}, {"f": math.sin(3 * x), "c": 0.5 + 0.6 * (x - 0.5) * (x != 0.5)})
    opt.models.refresh(opt.archive)
    score = improvement(Step(opt.models, opt.archive, [], number=9))
    drawn = score.functions["c"].draws
    low, high = opt.models.limits["c"]
    assert ((drawn >= low) & (drawn <= high)).any(1).all()


def test_the_paper_mode_repeats_nothing() -> None:
    opt = Cobalt(SQUARE, "f", LIMITS, maximize=False, n_init=10, mode="paper", seed=0)
    assert "replicate" not in set(played(opt, bowl, 34, 12, sd=0.0))


@pytest.mark.filterwarnings("error")
def test_a_space_without_real_columns_under_noise() -> None:
    opt = Cobalt({"kind": ["a", "b", "c"], "n": (1, 2, "int")}, "f", noise=0.1, seed=0)
    list(played(opt, lambda p: {"f": float(p["n"])}, 16, 2))
    assert opt.result().x["n"] == 2


def test_a_limit_that_nothing_can_meet_leaves_numbers() -> None:
    opt = Cobalt(SQUARE, "f", {"c": (1e200, None)}, maximize=False, noise=0.05, seed=0)
    list(played(opt, bowl, 8, 1))
    query = opt.ask()
    assert math.isfinite(query.value) and all(0 <= v <= 1 for v in query.x.values())


def test_a_function_without_noise_beside_one_with_noise() -> None:
    "What is known exactly has a covariance of rounding errors, and a run goes on."
    opt = Cobalt(SQUARE, "f", LIMITS, maximize=False, noise={"f": 0.2, "c": 0.0}, seed=1)
    rng = np.random.default_rng(1)
    for _ in range(36):
        query = opt.ask()
        told = bowl(query.x)
        opt.tell(query, told | {"f": told["f"] + 0.2 * rng.standard_normal()})
    assert bowl(opt.result().x)["c"] <= 0.5
