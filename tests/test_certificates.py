"""What a certificate says is true: held against problems whose optimum is known."""

from __future__ import annotations

import itertools
import math
import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cobalt_nb import Box, Cobalt, Pool, Result, maximize, minimize
from cobalt_nb.roi import Certificate
from cobalt_nb.study.problems import Gramacy
from cobalt_nb.study.robustness import play
from cobalt_nb.study.subjects import ROWS, optimiser
from cobalt_nb.study.zoo import GRAMACY, BraninDisc

slow = pytest.mark.slow
SIDE = Box({"x": (0.0, 1.0)})
SQUARE = Box({"x": (0.0, 1.0), "y": (0.0, 1.0)})
EDGE = 1 - math.sqrt(0.5)  # where 1 - (x - 1)² is a half
BRANIN = -0.39788735772973816
STATUSES = {"certified", "undecided", "infeasible", "model rejected"}
Values = Callable[..., dict[str, Any]]


def some(quick: int, many: int) -> list:
    "Seeds: the first few are for every day, one more is slow, the rest are long."
    marks = lambda i: [] if i < quick else [slow] if i == quick else [slow, pytest.mark.long]
    return [pytest.param(i, marks=marks(i)) for i in range(many)]


def told(values: Values, n: int, *problem: Any, **settings: Any) -> Cobalt:
    "An optimiser after `n` evaluations of a function of the parameters."
    return play(Cobalt(*problem, **settings), lambda query: values(**query.x), n)


def holds(found: Certificate | Result, optimum: float, spread: float = 1.0) -> bool:
    "Whether the optimum lies in the interval, but for the last digits."
    assert found.status in STATUSES - {"infeasible"}
    return found.lower - 1e-6 * spread <= optimum <= found.upper + 1e-6 * spread


def parabola(x: float) -> dict[str, float]:
    "The largest f with c of at least a half is at the edge, and is -EDGE."
    return {"f": -x, "c": 1 - (x - 1) ** 2}


def valley(x: float, y: float) -> dict[str, float]:
    "A bowl that a slanted limit cuts: with c of at least 1 the largest f is at (0.5, 0.5)."
    return {"f": 3 - (x - 0.3) ** 2 - (y - 0.3) ** 2, "c": x + y}


# Units


def scaled(opt: Cobalt, unit: float) -> Cobalt:
    "The same evaluations, with every output and limit in another unit."
    problem = opt.problem
    limits = {name: (one.lower * unit, None) for name, one in problem.constraints.items()}
    other = Cobalt(problem.space, problem.objective, limits, maximize=problem.maximize, noise=0)
    for x, values in zip(opt.archive.points, opt.archive.values):
        other.tell(x, {name: value * unit for name, value in values.items()})
    return other


SCENES: dict[str, tuple[Values, Box, float]] = {
    "1-D": (parabola, Box({"x": (0.0, 2.0)}), 0.5),
    "2-D": (valley, SQUARE, 1.0),
}


@pytest.mark.parametrize("unit", [1e8, 1e-8])
@pytest.mark.parametrize("scene", SCENES)
def test_a_verdict_does_not_depend_on_the_unit(scene: str, unit: float) -> None:
    values, space, least = SCENES[scene]
    opt = told(values, 25, space, "f", {"c": (least, None)}, noise=0)
    for tolerance, kind in (("auto", None), (0.1, "posterior")):
        plain = opt.certificate(tolerance=tolerance, kind=kind)
        found = scaled(opt, unit).certificate(
            tolerance=tolerance if kind is None else tolerance * unit, kind=kind
        )
        assert (found.status, found.kind) == (plain.status, plain.kind)
        assert found.tolerance == pytest.approx(plain.tolerance * unit, rel=1e-9)
        assert found.lower / unit == pytest.approx(plain.lower, rel=1e-4)
        assert found.upper / unit == pytest.approx(plain.upper, rel=1e-4)


@pytest.mark.parametrize("unit", [2.0**27, 2.0**-27])
@pytest.mark.parametrize("scene", SCENES)
def test_a_run_does_not_depend_on_the_unit(scene: str, unit: float) -> None:
    "A power of two scales without rounding, so that the same points are asked for."
    values, space, least = SCENES[scene]
    in_unit = lambda **x: {name: value * unit for name, value in values(**x).items()}
    plain = told(values, 25, space, "f", {"c": (least, None)}, noise=0)
    other = told(in_unit, 25, space, "f", {"c": (least * unit, None)}, noise=0)
    assert other.archive.points == plain.archive.points
    one, two = plain.certificate(), other.certificate()
    assert (two.status, two.kind) == (one.status, one.kind)
    assert (two.lower / unit, two.upper / unit) == pytest.approx((one.lower, one.upper), rel=1e-9)


# Between the points


@slow
@pytest.mark.parametrize("ways", [{"mode": "paper", "beta": 36}, {}], ids=["paper", "practical"])
@pytest.mark.parametrize("task, optimum", [(Gramacy, GRAMACY), (BraninDisc, BRANIN)])
def test_no_upper_end_is_below_the_optimum(task: type, optimum: float, ways: dict) -> None:
    "The greatest bound lies between the points that were drawn or evaluated."
    one = task()
    opt = Cobalt(one.space, one.objective, one.constraints, noise=0, **ways)
    for n in (30, 50, 80):
        play(opt, lambda query: one.values_at(query.x), n)
        assert holds(opt.certificate(), optimum)


@pytest.mark.parametrize("seed", some(2, 6))
def test_a_limit_that_is_met_exactly_is_certified(seed: int) -> None:
    opt = told(parabola, 20, Box({"x": (0.0, 2.0)}), "f", {"c": (0.5, None)}, noise=0, seed=seed)
    result = opt.result()
    assert holds(result, -EDGE) and result.status == "certified"
    assert result.gap <= 1e-4


# Infeasible


@pytest.mark.parametrize("seed", some(0, 3))
def test_a_smooth_problem_of_many_dimensions_is_not_called_infeasible(seed: int) -> None:
    "Less than a thousandth of the box is feasible: most of a ball."
    d = 8
    names = [f"x{i}" for i in range(d)]

    def values(**x: float) -> dict[str, float]:
        at = np.array([x[name] for name in names])
        return {"f": -float(((at - 1) ** 2).sum()), "sum": at.sum(), "norm": np.linalg.norm(at)}

    limits = {"sum": (None, 1.25 * d), "norm": (None, 1.35 * math.sqrt(d))}
    opt = Cobalt(Box(dict.fromkeys(names, (-5.0, 10.0))), "f", limits, noise=0, seed=seed)
    for n in (opt.settings.n_init, 30, 60):
        play(opt, lambda query: values(**query.x), n)
        assert opt.certificate().status != "infeasible"


@pytest.mark.parametrize("seed", some(2, 6))
def test_pass_or_fail_is_not_called_infeasible(seed: int) -> None:
    "A fifth of the square passes."
    inside = lambda x, y: float((x - 0.6) ** 2 + (y - 0.35) ** 2 <= 0.2 / math.pi)
    opt = Cobalt(SQUARE, "f", {"ok": (1, None)}, seed=seed)
    for n in (opt.settings.n_init, 20):
        play(opt, lambda query: {"f": query.x["x"], "ok": inside(**query.x)}, n)
        assert opt.certificate().status != "infeasible"


HOPELESS: dict[str, tuple[Values, Box]] = {
    "1-D": (lambda x: {"f": x, "c": 1 + math.sin(3 * x)}, SIDE),
    "2-D": (lambda x, y: {"f": x, "c": 1 + x * x + math.sin(2 * y)}, SQUARE),
}


@pytest.mark.parametrize("scene", HOPELESS)
def test_what_is_infeasible_is_called_so_after_a_while(scene: str) -> None:
    "And not before there was time to look."
    values, space = HOPELESS[scene]
    least = 10 * (space.dim + 1)
    opt = Cobalt(space, "f", {"c": (None, 0.5)}, noise=0)
    for n in (space.dim + 2, least - 1):
        play(opt, lambda query: values(**query.x), n)
        assert opt.certificate().status == "undecided"
    play(opt, lambda query: values(**query.x), least)
    found = opt.certificate()
    assert found.status == "infeasible" and "every point violates" in found.message


def test_a_run_stops_where_nothing_is_feasible() -> None:
    values, space = HOPELESS["1-D"]
    ways: dict[str, Any] = {"noise": 0, "progress": False}
    result = maximize(lambda p: values(**p), space, "f", {"c": (None, 0.5)}, 40, **ways)
    assert result.status == "infeasible" and result.feasible is False
    assert 20 <= len(result.history) < 40


# What was told


@pytest.mark.parametrize("seed", some(1, 6))
@pytest.mark.parametrize("direction", [True, False], ids=["max", "min"])
def test_no_interval_contradicts_what_was_told(direction: bool, seed: int) -> None:
    "Pure noise, told as if it were exact."
    rng = np.random.default_rng(seed)
    opt = Cobalt(SQUARE, "f", maximize=direction, noise=0, seed=seed)
    for n in (10, 20, 40):
        play(opt, lambda query: {"f": float(rng.standard_normal())}, n)
        column = opt.archive.column("f").numpy()
        found = opt.certificate()
        if direction:
            assert found.lower <= column.max() <= found.upper
        else:
            assert found.lower <= column.min() <= found.upper


@pytest.mark.parametrize("kind", [None, "lemma", "posterior"])
def test_an_upper_end_keeps_to_what_is_stated_beside_failures(kind: str | None) -> None:
    "The objective grows towards points where it cannot be had, and never exceeds its bound."
    fails = lambda x, y: {} if x > 0.7 else {"f": 1 - math.exp(-x) * (1 + y * y), "c": y - x}
    opt = Cobalt(SQUARE, "f", {"c": (None, 0.3)}, noise=0, bounds={"f": (None, 1)})
    for n in (6, 14, 24):
        play(opt, lambda query: fails(**query.x), n)
        found = opt.certificate(kind=kind)
        assert found.upper <= 1 and holds(found, 1 - math.exp(-0.7))


@pytest.mark.parametrize("direction", [True, False], ids=["max", "min"])
def test_a_lower_end_keeps_to_what_is_stated(direction: bool) -> None:
    sign = 1.0 if direction else -1.0
    bounds = {"f": (None, 0.2) if direction else (-0.2, None)}
    opt = Cobalt(SQUARE, "f", {"c": (1, None)}, maximize=direction, noise=0, bounds=bounds)
    for n in (4, 10, 20):
        play(opt, lambda query: {"f": -sign * query.x["x"] ** 2, "c": sum(query.x.values())}, n)
        found = opt.certificate()
        assert found.upper <= 0.2 if direction else found.lower >= -0.2
        assert holds(found, 0.0)


# Spaces of several kinds


def mixed(x: float, n: int, kind: str) -> dict[str, float]:
    "A wave whose phase and height depend on a count and a kind."
    turn = {"a": 0.0, "b": 1.1, "c": 2.3}[kind]
    return {"f": math.sin(3 * x + turn) - 0.1 * (n - 2) ** 2, "c": x + 0.2 * n}


@pytest.mark.parametrize("direction", [True, False], ids=["max", "min"])
def test_an_interval_holds_beside_whole_numbers_and_kinds(direction: bool) -> None:
    grid = itertools.product(np.linspace(0, 1, 2001), range(5), "abc")
    every = [mixed(*point) for point in grid]
    sign = 1.0 if direction else -1.0
    best = sign * max(sign * v["f"] for v in every if v["c"] <= 0.9)
    space = Box({"x": (0.0, 1.0), "n": (0, 4, "int"), "kind": ["a", "b", "c"]})
    opt = Cobalt(space, "f", {"c": (None, 0.9)}, maximize=direction, noise=0)
    for n in (12, 24, 36):
        play(opt, lambda query: mixed(**query.x), n)
        assert holds(opt.certificate(), best)


# Arguments


@pytest.mark.parametrize("kind", ["lemma", "posterior"])
def test_a_smaller_risk_gives_no_narrower_interval(kind: str) -> None:
    opt = told(valley, 10, SQUARE, "f", {"c": (1.0, None)}, noise=0)
    wide, narrow = (opt.certificate(delta, kind=kind) for delta in (0.01, 0.2))
    assert wide.kind == narrow.kind == kind and wide.upper > narrow.lower
    assert wide.lower <= narrow.lower and wide.upper >= narrow.upper


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        ({"kind": "nonsense"}, "kind must be one of lemma, posterior; got 'nonsense'"),
        ({"tolerance": -1}, "tolerance"),
        ({"tolerance": "small"}, "tolerance"),
        ({"tolerance": None}, "tolerance"),
        ({"tolerance": math.nan}, "tolerance"),
        ({"delta": 0.0}, "delta"),
        ({"delta": 1.5}, "delta"),
    ],
)
@pytest.mark.parametrize("evaluations", [0, 10])
def test_a_mistake_gets_a_sentence(arguments: dict, sentence: str, evaluations: int) -> None:
    opt = told(valley, evaluations, SQUARE, "f", {"c": (1.0, None)}, noise=0)
    with pytest.raises(ValueError, match=sentence):
        opt.certificate(**arguments)


# The chances


def test_chances_are_shares_with_their_errors() -> None:
    result = told(valley, 12, SQUARE, "f", {"c": (1.0, None)}, noise=0).result(0.5)
    chance = result.chance
    for one in (chance.regret, chance.infeasible, chance.feasible):
        assert 0 <= one.low <= one.value <= one.high <= 1
    assert chance.feasible.value == 1 and chance.infeasible.value == 0
    assert chance.infeasible.high < 0.2 and chance.regret.value > 0.9
    assert chance.paths > 0 and chance.tolerance == 0.5 and chance.shift >= 0
    assert f"of {chance.paths} functions drawn" in str(chance)
    assert result.chance == chance  # counted again, or kept


def test_chances_speak_of_the_evaluations_of_their_result() -> None:
    "What is told later does not change them."
    opt = told(valley, 10, SQUARE, "f", {"c": (1.0, None)}, noise=0)
    first, second = opt.result(0.01), opt.result(0.01)
    before = first.chance
    play(opt, lambda query: valley(**query.x), 14)
    assert second.chance == before


def test_nothing_is_counted_before_there_is_a_model() -> None:
    assert Cobalt(SQUARE, "f").result().chance is None
    assert told(lambda x, y: {"f": x}, 2, SQUARE, "f").result().chance is None


def test_a_result_is_pickled_with_its_certificate() -> None:
    opt = told(valley, 12, SQUARE, "f", {"c": (1.0, None)}, noise=0)
    result = opt.result()
    again = pickle.loads(pickle.dumps(result))
    assert str(again) == str(result) and repr(again.certificate) == repr(result.certificate)
    assert (again.lower, again.upper, again.x) == (result.lower, result.upper, result.x)
    assert again.history.equals(result.history)
    assert again.chance == result.certificate.chance  # no models to count with


# Stopping


def stopped(values: Values, space: Box, least: float, **more: Any) -> Result:
    "What one call says of a problem, and whether it used its budget."
    ways: dict[str, Any] = {"noise": 0, "progress": False} | more
    return maximize(lambda p: values(**p), space, "f", {"c": (least, None)}, **ways)


def test_a_run_stops_when_its_certificate_has_closed() -> None:
    result = stopped(*SCENES["1-D"], budget=40)
    assert len(result.history) < 40 and result.status == "certified"
    assert "you can stop here" in str(result) and holds(result, -EDGE)
    assert result.value == pytest.approx(-EDGE, abs=1e-4)
    assert result.certificate and result.gap <= result.certificate.tolerance


def test_a_run_stops_at_the_tolerance_that_was_given() -> None:
    result = stopped(*SCENES["2-D"], budget=50, tol=1e-3)
    assert len(result.history) < 50 and result.status == "certified"
    assert "you can stop here" in str(result) and holds(result, 2.92) and result.gap <= 1e-3


def test_a_run_with_workers_stops_when_its_certificate_has_closed(monkeypatch: Any) -> None:
    "What is running when it closes comes in, and nothing else is asked."
    certificate = Cobalt.certificate

    def late(self: Cobalt, *args: Any, **how: Any) -> Certificate:
        "Closed after 24 evaluations, and not before."
        found = certificate(self, *args, **how)
        return found if len(self.archive) >= 24 else replace(found, status="undecided")

    monkeypatch.setattr(Cobalt, "certificate", late)
    result = stopped(*SCENES["2-D"], budget=60, tol=10.0, workers=4)
    assert 24 <= len(result.history) < 32 and result.status == "certified"
    assert "you can stop here" in str(result) and holds(result, 2.92)


def test_a_run_on_other_hills_stops_when_its_certificate_has_closed() -> None:
    "In four dimensions most queries of a finished search climb, and say nothing of the interval."
    sides = {f"x{i}": (0.0, 1.0) for i in range(4)}
    rippled = lambda p: {"f": sum(math.sin(9 * v) + 0.3 * v for v in p.values())}
    aspects: list[str] = []
    note = lambda opt, query: aspects.append(query.aspect)
    ways: dict[str, Any] = {"noise": 0.0, "tol": 2.0, "progress": False, "callback": note}
    result = maximize(rippled, sides, "f", budget=70, **ways)
    assert "hill" in aspects and len(aspects) < 70
    assert result.status == "certified" and "you can stop here" in str(result)


@pytest.mark.parametrize("seed", some(1, 3))
def test_a_smooth_run_in_two_dimensions_stops_by_default(seed: int) -> None:
    result = stopped(*SCENES["2-D"], budget=50, seed=seed)
    assert len(result.history) < 50 and result.status == "certified"


@pytest.mark.parametrize("seed", [60, 66])
def test_idle_turns_close_a_certificate_and_keep_it_closed(seed: int) -> None:
    "The fitted models soon see nothing left to prove; draws of their hyperparameters still do."
    one = ROWS["smooth"](seed)
    opt, gap = optimiser(one, seed), 0.01 * one.spread
    for n in (20, 40, 60):
        play(opt, lambda query: one.task.values_at(query.x), n)
        found = opt.certificate(tolerance=gap)
        assert found.status == "certified", n
        assert holds(found, one.optimum, one.spread)


def test_without_a_tolerance_a_run_spends_its_budget() -> None:
    result = stopped(*SCENES["1-D"], budget=30, tol=None)
    assert len(result.history) == 30 and result.status == "certified"


def test_a_pool_is_certified_by_the_lemma() -> None:
    rows = np.random.default_rng(0).random((80, 2)).round(4)
    pool = Pool({"x": rows[:, 0], "y": rows[:, 1]})
    best = min(valley(*row)["f"] for row in rows if valley(*row)["c"] >= 1)
    function = lambda p: valley(**p)
    result = minimize(
        function, pool, "f", {"c": (1.0, None)}, 80, noise=0, progress=False, tol=1e-3
    )
    assert result.status == "certified" and result.certificate.kind == "lemma"
    assert len(result.history) < 80 and holds(result, best)


# Draws of the optimum


def bowl(**x: float) -> dict[str, float]:
    "The least f is 0, inside of what c allows."
    return {"f": sum((v - 0.3) ** 2 for v in x.values()), "c": sum(x.values())}


@slow
def test_draws_of_the_optimum_wait_and_do_not_claim_what_they_cannot_resolve() -> None:
    space = Box({f"x{i}": (0.0, 1.0) for i in range(4)})
    opt = told(bowl, 20, space, "f", {"c": (None, 2.0)}, maximize=False, noise=0)
    early = opt.certificate()
    assert early.kind == "posterior" and early.status == "undecided"
    assert early.lower == -math.inf and "5 evaluations from now" in early.message
    play(opt, lambda query: bowl(**query.x), 28)
    found = opt.certificate()
    assert found.lower <= 0 <= found.upper and found.status == "certified"


@pytest.mark.parametrize("seed", [4, 12])
def test_round_off_is_no_contradiction_and_no_lower_end(seed: int) -> None:
    "Sixty exact observations of a smooth draw: the models resolve a millionth of the spread."
    subject = ROWS["known-pool-0"](seed)
    opt = play(optimiser(subject, seed), lambda query: subject.task.values_at(query.x), 60)
    found = opt.certificate(tolerance=0.01 * subject.spread)
    assert found.status == "certified"
    assert found.lower <= subject.optimum <= found.upper
