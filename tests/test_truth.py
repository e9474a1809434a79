"""What a result says is what was told: the defects of release 0.1.0, each as a run."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace

import book
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cobalt_nb import Box, Cobalt, Query, Result
from cobalt_nb.problem import feasible
from cobalt_nb.results import result_message
from cobalt_nb.study.robustness import FENCES, PROMISES, answered, candidates, doubted, play, rough

slow, long = pytest.mark.slow, pytest.mark.long
SIDE = Box({"x": (0.0, 1.0)})
SQUARE = Box({"x": (0.0, 1.0), "y": (0.0, 1.0)})


def seeds(first: int, quick: int, many: int) -> list:
    "Some seeds for every day, three more for the slow tests, and the rest for the long ones."
    marks = lambda i: [] if i < quick else [slow] if i < quick + 3 else [slow, pytest.mark.long]
    return [pytest.param(first + i, marks=marks(i)) for i in range(many)]


def told_at(opt: Cobalt, x: Mapping[str, float]) -> list[dict[str, float]]:
    "Everything that was told at a point."
    rows = zip(opt.archive.points, opt.archive.values)
    return [values for point, values in rows if point == x]


def check(opt: Cobalt) -> Result:
    "Hold the result of a deterministic, coupled run against what was told."
    result, problem, told = opt.result(), opt.problem, opt.archive.values
    limits, sign = problem.constraints, problem.sign
    meets = lambda values: all(feasible(limits[name], values[name]) for name in limits)
    good = [sign * v[problem.objective] for v in told if meets(v)]
    good = [value for value in good if not math.isnan(value)]
    here = told_at(opt, result.x)
    assert here
    if good:
        assert result.feasible is True
        assert all(map(meets, here))
        assert result.value == here[0][problem.objective] == sign * max(good)
    else:
        assert not result.feasible or math.isnan(result.value)
    for name in limits:
        shown = {values[name] for values in here if not math.isnan(values[name])}
        assert shown == {result.constraints[name]} - {math.nan} or not shown
    assert opt.archive.feasible().tolist() == (result.history["feasible"] == True).tolist()  # noqa: E712
    check_print(result)
    return result


def check_print(result: Result) -> None:
    "What is printed are the measured values, and verdicts on them."
    lines = str(result).splitlines()
    if not math.isnan(result.value):
        assert any(
            line.startswith(f"  {result.problem.objective} = {result.value:.6g}") for line in lines
        )
    for name, value in result.constraints.items():
        [line] = [line for line in lines if line.startswith(f"  {name} ")]
        if math.isnan(value):
            assert line.startswith(f"  {name} was not measured here")
        else:
            verdict = "met" if feasible(result.problem.constraints[name], value) else "violated"
            assert line.startswith(f"  {name} = {value:.6g} ") and line.endswith(f": {verdict})")


# A value replaced by a model's


@pytest.mark.parametrize("seed", seeds(400, 1, 10))
@pytest.mark.parametrize("name", PROMISES)
def test_a_result_is_what_was_told(name: str, seed: int) -> None:
    one = PROMISES[name]
    opt = Cobalt(Box(one.sides), "f", one.limits, maximize=one.maximize, seed=seed)
    for n in {12, one.evaluations}:
        play(opt, lambda query: one.values(**query.x), n)
        result = check(opt)
    assert result.feasible is True


KINDS: dict[str, Callable[[float], float]] = {
    "smooth": lambda t: math.sin(3 * t),
    "kink": lambda t: abs(t) - 0.5,
    "step": lambda t: math.floor(3 * t) / 3,
    "label": lambda t: float(t > 0.2),
    "needle": lambda t: math.exp(-200 * t * t),
}
slopes = st.tuples(*[st.floats(-2, 2, allow_subnormal=False)] * 3)
shapes = st.tuples(st.sampled_from(sorted(KINDS)), slopes)
Shape = tuple[str, tuple[float, float, float]]


def value(shape: Shape, x: Mapping[str, float]) -> float:
    "A drawn function at a point."
    kind, (a, b, c) = shape
    return KINDS[kind](a * x["x"] + b * x.get("y", 0.0) + c / 2)


def check_drawn(
    objective: Shape,
    constraints: list[tuple[Shape, float, bool]],
    fails: str,
    maximize: bool,
    seed: int,
    d: int,
) -> None:
    "Two results of a short run on drawn functions, of which one may fail in a part of the space."
    limits = {
        f"c{i}": (None, limit) if upper else (limit, None)
        for i, (_, limit, upper) in enumerate(constraints)
    }
    opt = Cobalt(SIDE if d == 1 else SQUARE, "f", limits, maximize=maximize, seed=seed)
    named = {"f": objective} | {f"c{i}": one[0] for i, one in enumerate(constraints)}

    def answer(query: Query) -> dict[str, float | None]:
        broken = {fails} if query.x["x"] > 0.6 else set()
        return {n: None if n in broken else value(one, query.x) for n, one in named.items()}

    for n in (d + 2, 10):
        check(play(opt, answer, n))


DRAWN = st.tuples(
    shapes,
    st.lists(st.tuples(shapes, st.sampled_from([-0.3, 0.0, 0.2, 0.5]), st.booleans()), max_size=2),
    st.sampled_from(["nothing", "f", "c0"]),
    st.booleans(),
    st.integers(0, 2**32 - 1),
    st.sampled_from([1, 2]),
)


@settings(max_examples=8, deadline=None, derandomize=True, database=None)
@given(DRAWN)
def test_a_result_of_drawn_functions_is_what_was_told(drawn: tuple) -> None:
    check_drawn(*drawn)


@slow
@long
@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(DRAWN)
def test_a_result_of_many_drawn_functions_is_what_was_told(drawn: tuple) -> None:
    check_drawn(*drawn)


@pytest.mark.parametrize("seed", seeds(420, 1, 12))
@pytest.mark.parametrize("kind", ["label", "kink", "step"])
def test_a_decoupled_result_contradicts_no_measurement(kind: str, seed: int) -> None:
    "A point that was told to violate a limit is not called feasible, whatever else is guessed."
    shape = (kind, (1.0, -1.0, 0.3))
    opt = Cobalt(SQUARE, "f", {"c": (0.2, None)}, decoupled=True, seed=seed)
    values = lambda x: {"f": x["x"] * x["y"], "c": value(shape, x)}
    for n in (8, 16, 30):
        play(opt, lambda query: {name: values(query.x)[name] for name in query.functions}, n)
        result = opt.result()
        here = [v["c"] for v in told_at(opt, result.x) if not math.isnan(v["c"])]
        if result.feasible is True:
            assert here and min(here) >= 0.2
        if result.feasible is False and here:
            assert min(here) < 0.2
        check_print(result)


def test_a_decoupled_label_is_believed() -> None:
    "Passes all around do not outvote the fail that was told at the point itself."
    opt = Cobalt(SIDE, "f", {"ok": (0.5, None)}, decoupled=True)
    for i in range(21):
        opt.tell({"x": i / 20}, {"ok": float(i < 20)})
        opt.tell({"x": i / 20}, {"f": i / 20})
    result = opt.result()
    assert (result.x, result.value, result.feasible) == ({"x": 0.95}, 0.95, True)


def test_a_decoupled_result_is_no_point_that_failed() -> None:
    "The objective grows towards the points where it cannot be had."
    opt = Cobalt(SIDE, "f", {"c": (None, 1.0)}, decoupled=True)
    for i in range(11):
        x = {"x": i / 10}
        opt.tell(x, {"c": i / 20})
        opt.tell(x, {"f": i / 10 if i < 8 else None})
    result = opt.result()
    assert (result.x, result.value, result.feasible) == ({"x": 0.7}, 0.7, True)


def test_what_only_failed_is_not_feasible() -> None:
    opt = play(Cobalt(SIDE, "f"), lambda query: {}, 4)
    result = opt.result()
    assert result.feasible is None and "is feasible" not in result.message


def test_labels_that_differ_are_not_exact() -> None:
    opt = Cobalt(SIDE, "f", {"ok": (0.5, None)})
    for i in range(10):
        for label in (0.0, 1.0):
            opt.tell({"x": i / 9}, {"f": i / 9, "ok": label})
    result = opt.result()
    assert result.errors["ok"] > 0 and "ok: measured 0.5 ± " in str(result)


# Failures


def failures(problem: str, variant: str, seed: int, evaluations: int) -> tuple[int, int]:
    "How many evaluations failed after the initial design, and of how many."
    one, (kind, form) = FENCES[problem], variant.split()
    space = Box({f"x{i}": (0.0, 1.0) for i in range(one.d)})
    where = candidates(one.d) if kind == "pool" else space
    decoupled, q = form == "decoupled", 4 if form == "batches" else 1
    opt = Cobalt(where, "f", {"c": (None, 0.0)}, maximize=False, decoupled=decoupled, seed=seed)
    play(opt, lambda query: answered(one, form, query), evaluations, q)
    since = opt.archive.failures[opt.settings.n_init :]
    return sum(map(bool, since)), len(since)


FORMS = [
    f"{kind} {form}"
    for kind in ("box", "pool")
    for form in ("whole", "partial", "decoupled", "batches")
]


@pytest.mark.parametrize("variant", FORMS)
def test_failures_are_fenced(variant: str) -> None:
    "Over three runs: how often one run fails hangs on the last digits of the machine."
    counts = [failures("edge", variant, seed, 24) for seed in (400, 401, 402)]
    assert sum(n for n, _ in counts) <= 0.4 * sum(of for _, of in counts)


@slow
@long
@pytest.mark.parametrize("problem", FENCES)
@pytest.mark.parametrize("variant", FORMS)
def test_failures_of_every_form_are_few(problem: str, variant: str) -> None:
    counts = [failures(problem, variant, seed, 50) for seed in (400, 401)]
    assert sum(n for n, _ in counts) <= 0.4 * sum(of for _, of in counts)


# Pass or fail


@pytest.mark.parametrize("seed", seeds(400, 2, 20))
def test_pass_or_fail_is_never_infeasible_early(seed: int) -> None:
    "A fifth of the square passes; before one passes nobody may say that none does."
    opt = Cobalt(SQUARE, "f", {"ok": (1, None)}, maximize=False, seed=seed)
    inside = lambda x: (x["x"] - 0.6) ** 2 + (x["y"] - 0.35) ** 2 <= 0.2 / math.pi
    for n in (4, 7, 10, 15, 20):
        play(opt, lambda query: {"f": query.x["x"], "ok": inside(query.x)}, n)
        result = check(opt)
        assert result.status != "infeasible"


# The chapter


def test_the_chapter_names_tests_that_are_there() -> None:
    "What needs processes is told by the names of tests."
    cells = book.read(book.ROOT / "nbs" / "study" / "robustness.ipynb").cells
    prose = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    named = set(re.findall(r"`(test_\w+)`", prose))
    sources = [path.read_text(encoding="utf-8") for path in (book.ROOT / "tests").glob("*.py")]
    defined = {name for text in sources for name in re.findall(r"^def (test_\w+)", text, re.M)}
    assert len(named) >= 5 and named <= defined


# Standard errors and noise


def test_standard_errors_change_what_a_result_says() -> None:
    points = [{"x": i / 7} for i in range(8)]
    plain, careful = (Cobalt(SIDE, "f", {"c": (None, 0.5)}) for _ in range(2))
    for x in points:
        values = {"f": math.sin(3 * x["x"]), "c": x["x"] ** 2}
        plain.tell(x, values)
        careful.tell(x, values, errors={"f": 0.1})
    assert "±" not in str(plain.result()) and set(plain.result().errors.values()) == {0.0}
    result = careful.result()
    assert result.errors == {"f": 0.1, "c": 0.0}
    assert result.noise["f"] == "noisy: standard errors were told"
    assert f"f: measured {result.value:.6g} ± 0.1, modelled " in str(result)
    told = math.sin(3 * result.x["x"])
    careful.tell(result.x, {"f": told, "c": result.x["x"] ** 2}, errors=0.1)
    again = careful.result()
    if again.x == result.x:
        assert again.errors["f"] == pytest.approx(0.1 / math.sqrt(2))
    assert again.noise["c"] == "noisy: standard errors were told"


@pytest.mark.parametrize("problem", ["kinked", "stepped"])
@pytest.mark.parametrize("seed", seeds(400, 1, 6))
def test_a_replicate_settles_a_kink(problem: str, seed: int) -> None:
    opt = Cobalt(SQUARE, "f", seed=seed)
    rng = np.random.default_rng(seed)
    play(opt, lambda query: {"f": rough(problem, **query.x, rng=rng)}, 30)
    twice = len(opt.archive) - len({tuple(x.values()) for x in opt.archive.points})
    words = opt.result().noise["f"]
    assert twice <= 2
    if twice:
        assert words.startswith("deterministic: a repeated evaluation agreed")
    else:
        assert words.startswith("taken as deterministic: nothing was evaluated twice")
    check(opt)


@pytest.mark.parametrize("seed", seeds(400, 1, 10))
def test_a_replicate_finds_noise(seed: int) -> None:
    found = doubted("noise 20 %", "default", seed)
    assert found["found"] < 40 and found["replicates"] >= 1


def test_noise_does_not_push_the_recommended_point_over_a_limit():
    "Of 20 series whose best point lies at a limit; means alone recommend one beyond it in six."
    inside = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        opt = Cobalt(SIDE, "f", {"c": (None, 0.5)}, noise=0.1, seed=seed)
        for x in rng.random(40):
            f, c = x + 0.1 * rng.standard_normal(2)
            opt.tell({"x": x}, {"f": f, "c": c})
        result = opt.result()
        inside += result.x["x"] <= 0.5
        assert result.feasible and result.x["x"] > 0.35
    assert inside >= 16


# What was stated or told twice


def test_a_bound_that_was_refuted_bounds_nothing() -> None:
    "A value below the stated lower bound shows that the statement was wrong: its end is open."
    f = lambda x: 4 * (x - 0.9) ** 2 + 0.5 * math.sin(12 * x) + 1
    opt = Cobalt({"x": (0.0, 1.0)}, "f", maximize=False, bounds={"f": (2.5, None)})
    with pytest.warns(UserWarning, match="bound"):
        for x in (0.1, 0.3, 0.5):
            opt.tell({"x": x}, {"f": f(x)})
    result = opt.result()
    assert result.status == "undecided" and result.lower < 0.501


def test_repeats_of_a_point_do_not_make_labels_of_a_function() -> None:
    opt = Cobalt({"x": (0.0, 1.0)}, "f", {"c": (0.5, None)}, maximize=False)
    for x in (0.05, 0.2, 0.35, 0.6, 0.8, 0.95, *[0.5] * 12):
        opt.tell({"x": x}, {"f": x * x, "c": x})
    result = opt.result()
    assert result.feasible and result.value == 0.25
    assert result.model is not None and abs(result.model.mean["c"] - 0.5) < 1e-3
    assert result.gap < 1e-3


@pytest.mark.parametrize("second", [(2.0, 0.7), (3.0, -0.5)])
def test_a_result_shows_one_evaluation_where_repeats_disagree(second: tuple) -> None:
    "They should not, with noise=0; what is shown is still a value that was told, and its verdict."
    opt = Cobalt({"x": (0.0, 1.0)}, "f", {"c": (0.5, None)}, noise=0.0)
    for x in (0.1, 0.3, 0.5, 0.9):
        opt.tell({"x": x}, {"f": 0.0, "c": 0.3})
    for f, c in ((1.0, 0.9), second):
        opt.tell({"x": 0.7}, {"f": f, "c": c})
    result = opt.result()
    assert (result.value, result.constraints["c"]) in [(1.0, 0.9), second]
    assert result.feasible == (result.constraints["c"] >= 0.5)


@pytest.mark.parametrize("ends", [(-2.0, math.inf), (-math.inf, 3.0)])
def test_a_message_denies_no_bound_that_is_given(ends: tuple) -> None:
    opt = Cobalt({"x": (0.0, 1.0)}, "f")
    play(opt, lambda query: {"f": query.x["x"]}, 8)
    found = replace(opt.certificate(), lower=ends[0], upper=ends[1], status="undecided")
    assert "no bound" not in result_message(opt.archive, found, True)


def test_an_initial_design_repeats_no_point_while_others_are_left() -> None:
    for space in ({"n": (0, 4, "int")}, {"a": ["p", "q", "r"], "b": ["u", "v"]}):
        box = Box(space)
        opt = Cobalt(box, "f", noise=0.0, n_init=5)
        points = []
        for _ in range(5):
            query = opt.ask()
            points.append(tuple(query.x.values()))
            opt.tell(query, {"f": float(len(points))})
        assert len(set(points)) == 5
