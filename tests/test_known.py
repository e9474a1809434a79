"""What is known beforehand: bounds of an output, and functions that need no evaluation."""

import json
import math
import os
import signal
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cobalt_nb import Box, Cobalt, Pool, Problem, maximize, minimize
from cobalt_nb.confidence import Bounds
from cobalt_nb.known import within
from cobalt_nb.plots import certified_intervals, plot_certificate, plot_regions, plot_slices

SQUARE = Box({"a": (0.0, 1.0), "b": (0.0, 1.0)})
TABLE = Pool(pd.DataFrame(np.random.default_rng(3).random((150, 2)).round(4), columns=["a", "b"]))
LIMITS = {"wave": (None, 0.0), "disc": (None, 1.5)}
OPTIMUM = 0.599788  # of Gramacy's problem


def cost(p: dict[str, Any]) -> float:
    return p["a"] + p["b"]


def disc(p: dict[str, Any]) -> float:
    return p["a"] ** 2 + p["b"] ** 2


def wave(p: dict[str, Any]) -> float:
    ripple = 0.5 * math.sin(2 * math.pi * (p["a"] ** 2 - 2 * p["b"]))
    return 1.5 - p["a"] - 2 * p["b"] - ripple


GRAMACY = {"cost": cost, "disc": disc, "wave": wave}


def told(opt: Cobalt, n: int, q: int = 1, sign: float = 1.0) -> list[Any]:
    """The next queries of an optimiser, each answered; the cost times `sign`."""
    asked = []
    while len(asked) < n:
        for query in opt.ask(q):
            asked.append(query)
            answer = {name: GRAMACY[name](query.x) for name in query.functions}
            if "cost" in answer:
                answer["cost"] *= sign
            opt.tell(query, answer)
    return asked


# Bounds


def test_a_name_a_pair_and_a_contradiction_get_sentences() -> None:
    for bounds, sentence in (
        ({"csot": (0, None)}, "no unknown function.*did you mean 'cost'"),
        ({"cost": (2, 1)}, "bounds, 'cost': lower 2 is above upper 1"),
        ({"cost": (None, None)}, "bounds, 'cost': both ends are open"),
        ({"wave": (0.5, None)}, "nothing can be feasible"),
        ({"cost": "positive"}, "give a pair of numbers"),
        ([0, 1], "bounds are a dict"),
    ):
        with pytest.raises(ValueError, match=sentence):
            Cobalt(SQUARE, "cost", LIMITS, bounds=bounds)
    with pytest.warns(UserWarning, match="'disc' constrains nothing: its bounds imply it"):
        opt = Cobalt(SQUARE, "cost", LIMITS, bounds={"disc": (0, 1.5)})
    assert opt.problem.bounds["disc"].upper == 1.5


floats = st.floats(-5, 5)


@settings(deadline=None, derandomize=True, database=None)
@given(
    st.lists(st.tuples(floats, st.floats(0, 5)), min_size=1, max_size=6), floats, st.floats(0, 5)
)
def test_clipping_never_widens_and_never_leaves(
    intervals: list[tuple[float, float]], low: float, width: float
) -> None:
    lower = torch.tensor([start for start, _ in intervals], dtype=torch.float64)
    bounds = Bounds(lower, lower + torch.tensor([w for _, w in intervals], dtype=torch.float64))
    for ends in ((low, low + width), (low, math.inf), (-math.inf, low)):
        found = within(bounds, *ends)
        assert (found.lower >= ends[0]).all() and (found.upper <= ends[1]).all()
        assert (found.lower <= found.upper).all()
        assert (found.width <= bounds.width + 1e-12).all()
        both = (bounds.upper >= ends[0]) & (bounds.lower <= ends[1])
        assert (found.lower[both] == bounds.lower[both].clamp(*ends)).all()
        assert (found.upper[both] == bounds.upper[both].clamp(*ends)).all()


@pytest.mark.parametrize("space", [SQUARE, TABLE], ids=["box", "pool"])
@pytest.mark.parametrize("direction", [True, False], ids=["max", "min"])
def test_a_certificate_keeps_to_the_bounds(space: Box | Pool, direction: bool) -> None:
    """With few data the bounds of the models reach far out; what is stated cuts them off."""
    sign, runs = (-1.0 if direction else 1.0), []
    stated = {"cost": (-2, 0) if direction else (0, 2)}
    for bounds in (None, stated):
        opt = Cobalt(space, "cost", LIMITS, maximize=direction, noise=0, bounds=bounds)
        rng = np.random.default_rng(0)
        for i in range(6):
            x = space.row(i) if isinstance(space, Pool) else dict(zip("ab", rng.random(2)))
            opt.tell(
                x, {name: f(x) * (sign if name == "cost" else 1) for name, f in GRAMACY.items()}
            )
        runs.append(opt)
    free, bound = (opt.certificate(kind="lemma") for opt in runs)
    low, high = stated["cost"]
    far = bound.upper if direction else bound.lower
    assert low <= far <= high
    assert not low <= (free.upper if direction else free.lower) <= high  # so the bounds did it
    assert free.lower <= bound.lower and bound.upper <= free.upper
    mean = runs[1].result().model.mean["cost"]
    assert low <= mean <= high


def test_a_certificate_without_models_has_the_bounds_already() -> None:
    opt = Cobalt(SQUARE, "cost", LIMITS, maximize=False, bounds={"cost": (0, None)})
    found = opt.certificate()
    assert (found.lower, found.upper, found.status) == (0.0, math.inf, "undecided")


def test_a_feasible_value_that_reaches_its_bound_is_optimal() -> None:
    opt = Cobalt({"x": (0.0, 1.0)}, "yield", bounds={"yield": (0, 1)}, noise=0)
    for x in (0.1, 0.4, 0.8, 1.0):
        opt.tell({"x": x}, {"yield": x})
    result = opt.result()
    assert (result.status, result.lower, result.upper) == ("certified", 1.0, 1.0)


def test_a_value_outside_is_reported_once_and_counts() -> None:
    opt = Cobalt({"x": (0.0, 1.0)}, "f", bounds={"f": (0, 1)}, noise=0)
    with pytest.warns(UserWarning, match=r"'f' was 1.5 at {'x': 0.3}, outside the bounds \[0, 1\]"):
        opt.tell({"x": 0.3}, {"f": 1.5})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for x in (0.1, 0.2, 0.4):
            opt.tell({"x": x}, {"f": 1.4 - x})
    assert opt.archive.column("f").tolist() == pytest.approx([1.5, 1.3, 1.2, 1.0])
    result = opt.result()
    assert result.upper > result.value == 1.5  # what it has passed bounds nothing any more


def test_noise_may_leave_the_bounds() -> None:
    opt = Cobalt({"x": (0.0, 1.0)}, "f", bounds={"f": (0, 1)}, noise=0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        opt.tell({"x": 0.3}, {"f": -0.2})
        opt.tell({"x": 0.4}, {"f": -0.7}, errors=0.2)
    with pytest.warns(UserWarning, match="outside the bounds"):
        opt.tell({"x": 0.5}, {"f": -0.5})


def test_an_end_that_is_known_to_hold_restricts_no_search() -> None:
    """A mass in [0, 5] that is never negative is surely above 0, whatever its model says."""
    opt = Cobalt(SQUARE, "cost", {"disc": (0.0, 1.5)}, noise=0, bounds={"disc": (0, None)})
    told(opt, 6)
    low, high = opt.models.limits["disc"]
    assert low == -math.inf and math.isfinite(high)


def test_a_bound_keeps_all_its_digits() -> None:
    """On the model's scale and back; it went through single precision before."""
    opt = Cobalt(SQUARE, "cost", {"disc": (None, 1.5)}, noise=0, bounds={"disc": (-0.1, 2.3)})
    told(opt, 8)
    ends = torch.tensor(opt.models.ends("disc"), dtype=torch.float64)
    back = opt.models.surrogates["disc"].from_model(ends)
    assert back.tolist() == pytest.approx([-0.1, 2.3], rel=1e-13)


def test_labels_are_left_alone() -> None:
    opt = Cobalt(SQUARE, "cost", {"ok": (0.5, None)}, noise=None, bounds={"ok": (0, 1)})
    for i in range(8):
        x = {"a": i / 8, "b": (3 * i % 8) / 8}
        opt.tell(x, {"cost": cost(x), "ok": float(x["a"] < 0.5)})
    opt.ask()
    assert opt.models.surrogates["ok"].labels is not None
    assert opt.models.ends("ok") == (-math.inf, math.inf)


# Known functions


def test_mistakes_with_known_functions_get_sentences() -> None:
    for known, sentence in (
        ({"dics": disc}, "'dics' is neither the objective nor a constraint; did you mean 'disc'"),
        ({"disc": 1.5}, "'disc' must be a function of a point; got 1.5"),
        ({"disc": lambda p: p["radius"]}, "it raised KeyError: 'radius'"),
        ({"disc": lambda p: math.nan}, "it gave no finite number"),
        ({"disc": lambda p: 9.0}, r"none of 65536 points.*'disc' in \[-inf, 1.5\]"),
        (GRAMACY, "every function is known"),
        (disc, "known functions are a dict"),
    ):
        with pytest.raises(ValueError, match=sentence):
            Cobalt(SQUARE, "cost", LIMITS, known=known)
    with pytest.raises(ValueError, match="none of 150 points"):
        Cobalt(TABLE, "cost", LIMITS, known={"disc": lambda p: 9.0})
    with pytest.raises(ValueError, match="'disc' is no unknown function"):
        Cobalt(SQUARE, "cost", LIMITS, known={"disc": disc}, bounds={"disc": (0, None)})
    with pytest.raises(ValueError, match="noise: unknown function 'disc'"):
        Cobalt(SQUARE, "cost", LIMITS, known={"disc": disc}, noise={"disc": 0.1})
    with pytest.raises(ValueError, match="'disc' is known, so it is not evaluated"):
        minimize(GRAMACY, SQUARE, "cost", LIMITS, known={"disc": disc}, progress=False)


KNOWN = {"one constraint": ("disc",), "the objective": ("cost",), "both": ("cost", "disc")}


@pytest.mark.parametrize("names", KNOWN.values(), ids=KNOWN)
@pytest.mark.parametrize("space", [SQUARE, TABLE], ids=["box", "pool"])
@pytest.mark.parametrize("decoupled", [False, True], ids=["coupled", "decoupled"])
@pytest.mark.parametrize("direction", ["min", "max"])
def test_only_the_unknown_is_asked(
    names: tuple[str, ...], space: Box | Pool, decoupled: bool, direction: str
) -> None:
    sign = 1.0 if direction == "min" else -1.0
    known = {name: GRAMACY[name] for name in names}
    if "cost" in names:
        known["cost"] = lambda p: sign * cost(p)
    limits = LIMITS | {"disc": (None, 0.9)}
    opt = Cobalt(
        space, "cost", limits, maximize=sign < 0, known=known, decoupled=decoupled, noise=0, seed=1
    )
    unknown = [name for name in GRAMACY if name not in names]
    for query in told(opt, 16, q=2, sign=sign):
        assert set(query.functions) <= set(unknown) and query.aspect not in names
        assert decoupled or len(query.functions) == len(unknown)
        assert "disc" not in names or disc(query.x) <= 0.9
    for name in names:
        exact = [known[name](x) for x in opt.archive.points]
        assert opt.archive.column(name).tolist() == exact
        assert opt.result().noise[name] == "deterministic: known"
    found, best = opt.certificate(), sign * OPTIMUM
    if isinstance(space, Pool):
        good = [x for x in space.frame.to_dict("records") if wave(x) <= 0 and disc(x) <= 0.9]
        best = sign * min(map(cost, good))
    assert found.lower <= best + 1e-6 and best - 1e-6 <= found.upper


@settings(max_examples=8, deadline=None, derandomize=True, database=None)
@given(
    st.floats(0.02, 1.2),
    st.sampled_from(["box", "mixed", "pool"]),
    st.booleans(),
    st.integers(1, 3),
    st.integers(0, 99),
)
def test_a_known_constraint_is_never_violated_by_a_suggestion(
    limit: float, kind: str, decoupled: bool, q: int, seed: int
) -> None:
    mixed = Box({"a": (0.0, 1.0), "b": (0.01, 1.0, "log"), "n": (0, 3, "int"), "k": ["u", "v"]})
    space = {"box": SQUARE, "mixed": mixed, "pool": TABLE}[kind]
    known = {"size": lambda p: p["a"] * p["b"] + 0.1 * p.get("n", 0)}
    limits = {"wave": (None, 0.0), "size": (None, limit)}
    opt = Cobalt(space, "cost", limits, known=known, decoupled=decoupled, seed=seed, maximize=False)
    for query in told(opt, 9, q):
        assert known["size"](query.x) <= limit


def test_a_thin_set_is_found() -> None:
    """Six points of 65,536 are enough to begin with, and clouds around the best do the rest."""
    thin = {"gap": lambda p: abs(p["a"] - 0.3) + abs(p["b"] - 0.7)}
    opt = Cobalt(SQUARE, "f", {"gap": (None, 0.01)}, known=thin, noise=0)
    for _ in range(8):
        query = opt.ask()
        assert thin["gap"](query.x) <= 0.01
        opt.tell(query, {"f": query.x["a"] + query.x["b"]})
    assert opt.result().value > 1.0095  # an edge of the diamond


def test_where_a_known_function_has_no_value_nothing_is_asked() -> None:
    opt = Cobalt(SQUARE, "cost", LIMITS, known={"cost": lambda p: 1 / (p["a"] > 0.5)}, noise=0)
    assert all(query.x["a"] > 0.5 for query in told(opt, 9))
    opt.tell({"a": 0.2, "b": 0.2}, {"wave": -1.0, "disc": 0.08})
    assert math.isnan(opt.archive.values[-1]["cost"]) and opt.result().x["a"] > 0.5


def test_every_candidate_that_is_allowed_may_be_asked_again() -> None:
    """A pool of which three candidates are allowed gives no other, even when all are told."""
    three = {"a": lambda p: p["x"]}
    pool = Pool({"x": np.arange(20.0)})
    opt = Cobalt(pool, "f", {"a": (None, 2.5)}, known=three, noise=0, n_init=2)
    for _ in range(6):
        query = opt.ask()
        assert query.x["x"] <= 2
        opt.tell(query, {"f": query.x["x"]})
    assert opt.result().x == {"x": 2.0}


def test_a_returned_value_is_compared_and_kept() -> None:
    opt = Cobalt(SQUARE, "cost", LIMITS, known={"disc": disc}, noise=0)
    x = {"a": 0.5, "b": 0.5}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        opt.tell(x, {"cost": 1.0, "wave": 0.1, "disc": 0.5})  # the same
        opt.tell(x, {"cost": 1.0, "wave": 0.1, "disc": None})
    with pytest.warns(UserWarning, match="known function 'disc' is 0.5 .* but 0.7 was told"):
        opt.tell(x, {"cost": 1.0, "wave": 0.1, "disc": 0.7})
    assert opt.archive.column("disc").tolist() == [0.5, 0.5, 0.5]
    assert opt.archive.extras == [{}, {}, {"disc_told": 0.7}]
    with pytest.raises(ValueError, match="'disc' is a known function, so it has no standard error"):
        opt.tell(x, {"cost": 1.0, "wave": 0.1}, errors={"disc": 0.1})


@pytest.mark.parametrize("space", [SQUARE, TABLE], ids=["box", "pool"])
@pytest.mark.parametrize("decoupled", [False, True], ids=["coupled", "decoupled"])
def test_failures_are_of_the_unknown(space: Box | Pool, decoupled: bool) -> None:
    opt = Cobalt(space, "cost", LIMITS, known={"disc": disc}, noise=0, decoupled=decoupled)
    failed = []
    for _ in range(12):
        query = opt.ask()
        fails = query.x["a"] > 0.8
        failed.append(query.functions if fails else ())
        opt.tell(query, {} if fails else {n: GRAMACY[n](query.x) for n in query.functions})
    assert [set(one) for one in opt.archive.failures] == [set(one) for one in failed]
    assert not opt.archive.column("disc").isnan().any()
    opt.tell(space.decode(torch.tensor([[0.3, 0.3]], dtype=torch.float64))[0], {})
    assert opt.archive.failures[-1] == {"cost", "wave"}


def test_a_local_search_ends_on_a_known_edge() -> None:
    """The optimum lies on a known constraint; its slopes let a search walk along it."""
    f = lambda p: {"f": -((p["a"] - 1) ** 2) - (p["b"] - 0.8) ** 2}
    edge = {"sum": lambda p: p["a"] + p["b"]}
    found = maximize(f, SQUARE, "f", {"sum": (None, 1.0)}, 14, known=edge, noise=0, progress=False)
    assert found.constraints["sum"] <= 1.0
    assert found.value == pytest.approx(-0.32, abs=1e-6)


# Journals


def test_bounds_and_names_stand_in_the_journal(tmp_path: Path) -> None:
    path, facts = tmp_path / "run.jsonl", {"bounds": {"wave": (None, 3)}, "known": {"disc": disc}}
    opt = Cobalt(SQUARE, "cost", LIMITS, journal=path, noise=0, maximize=False, **facts)
    told(opt, 9)
    query = opt.ask()
    opt.close()
    first = json.loads(path.read_text().splitlines()[0])
    assert first["bounds"] == {"wave": [None, 3.0]} and first["known"] == ["disc"]
    again = Cobalt.load(path, known={"disc": disc})
    assert again.problem.bounds == opt.problem.bounds and again.ask() == query
    assert again.archive.values == opt.archive.values
    for model in ("cost", "wave"):
        assert again.models.ends(model) == opt.models.ends(model)
    with pytest.raises(ValueError, match=r"line 1: 'disc' is a known function.*load\(…, known="):
        Cobalt.load(path)
    with pytest.raises(ValueError, match="known: 'cost' was not known when"):
        Cobalt.load(path, known={"disc": disc, "cost": cost})
    with pytest.raises(ValueError, match=r"line \d+: the known function 'disc' is .* when this"):
        Cobalt.load(path, known={"disc": lambda p: 1.01 * disc(p)})


def test_a_problem_without_facts_writes_none(tmp_path: Path) -> None:
    Cobalt(SQUARE, "cost", LIMITS, journal=tmp_path / "run.jsonl").close()
    assert not {"bounds", "known"} & set(json.loads((tmp_path / "run.jsonl").read_text()))


@pytest.mark.parametrize("q", [1, 3])
@pytest.mark.parametrize("space", [SQUARE, TABLE], ids=["box", "pool"])
@pytest.mark.parametrize("decoupled", [False, True], ids=["coupled", "decoupled"])
def test_a_loaded_run_goes_on_as_if_never_left(
    tmp_path: Path, space: Box | Pool, decoupled: bool, q: int
) -> None:
    how: dict[str, Any] = {"known": {"cost": cost, "disc": disc}, "maximize": False, "noise": 0}
    one = Cobalt(space, "cost", LIMITS, decoupled=decoupled, seed=2, **how)
    other = Cobalt(
        space, "cost", LIMITS, decoupled=decoupled, seed=2, journal=tmp_path / "j", **how
    )
    for _ in range(3):
        ours, theirs = told(one, 3, q), told(other, 3, q)
        assert [query.x for query in ours] == [query.x for query in theirs]
        other.close()
        other = Cobalt.load(tmp_path / "j", known=how["known"])


def test_a_killed_run_goes_on(tmp_path: Path) -> None:
    script = textwrap.dedent(
        f"""
        import os, signal, sys
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        from test_known import LIMITS, SQUARE, disc, cost, wave
        from cobalt_nb import minimize
        count = 0
        def evaluate(p):
            global count
            count += 1
            if count == int(sys.argv[1]):
                os.kill(os.getpid(), signal.SIGKILL)
            return {{"cost": cost(p), "wave": wave(p)}}
        result = minimize(evaluate, SQUARE, "cost", LIMITS, 9, known={{"disc": disc}}, noise=0,
                          journal=sys.argv[2], progress=False)
        print(result.history.to_csv(index=False))
        """
    )
    run = lambda *args: subprocess.run(
        [sys.executable, "-c", script, *args], capture_output=True, text=True, env=os.environ
    )
    assert run("6", str(tmp_path / "a")).returncode == -signal.SIGKILL
    resumed, whole = run("99", str(tmp_path / "a")), run("99", str(tmp_path / "b"))
    assert resumed.returncode == whole.returncode == 0, resumed.stderr
    assert resumed.stdout == whole.stdout and "disc" in whole.stdout


def test_a_changed_problem_is_refused(tmp_path: Path) -> None:
    one = {"cost": cost, "wave": wave}
    how: dict[str, Any] = {"journal": tmp_path / "j", "progress": False, "noise": 0}
    minimize(one, SQUARE, "cost", LIMITS, 5, known={"disc": disc}, **how)
    minimize(one, SQUARE, "cost", LIMITS, 6, known={"disc": disc}, **how)
    with pytest.raises(ValueError, match="'disc' is a known function"):
        minimize(GRAMACY, SQUARE, "cost", LIMITS, 7, **how)
    with pytest.raises(ValueError, match="differs in its bounds"):
        bounds = {"cost": (0, None)}
        minimize(one, SQUARE, "cost", LIMITS, 7, known={"disc": disc}, bounds=bounds, **how)


# Other doors


def test_results_of_before_need_no_known_columns() -> None:
    rows = pd.DataFrame([{"a": i / 9, "b": (i * 4 % 9) / 9} for i in range(9)])
    for name in ("cost", "wave"):
        rows[name] = [GRAMACY[name](x) for x in rows[["a", "b"]].to_dict("records")]
    opt = Cobalt.from_frame(rows, SQUARE, "cost", LIMITS, known={"disc": disc}, maximize=False)
    assert opt.archive.column("disc").tolist() == [disc(x) for x in opt.archive.points]
    found = minimize(
        lambda p: {"cost": cost(p), "wave": wave(p)},
        SQUARE,
        "cost",
        LIMITS,
        3,
        initial=rows,
        known={"disc": disc},
        workers=2,
        progress=False,
    )
    assert len(found.history) == 12
    assert found.history["disc"].tolist() == [disc(x) for x in found.history.to_dict("records")]


def test_a_bare_number_is_the_only_unknown() -> None:
    known = {"cost": cost, "disc": disc}
    found = minimize(wave, SQUARE, "cost", LIMITS, 6, known=known, noise=0, progress=False)
    assert found.history["wave"].tolist() == [wave(x) for x in found.history.to_dict("records")]


@pytest.mark.parametrize("space", [SQUARE, TABLE], ids=["box", "pool"])
def test_pictures_show_exact_lines(space: Box | Pool) -> None:
    known = {"disc": disc, "cost": cost}
    opt = Cobalt(
        space, "cost", LIMITS, known=known, maximize=False, noise=0, bounds={"wave": (-3, 3)}
    )
    told(opt, 8)
    best = {"a": 0.4, "b": 0.6} if space is SQUARE else space.row(0)
    axes = plot_slices(opt, best)
    rows = dict(zip(opt.problem.functions, axes))
    line = rows["disc"][0].lines[0]
    there = [disc({**best, "a": a}) for a in line.get_xdata()]
    assert np.allclose(line.get_ydata(), there)
    line = rows["cost"][1].lines[0]
    assert np.allclose(line.get_ydata(), [cost({**best, "b": b}) for b in line.get_xdata()])
    plot_regions(opt)
    plot_certificate(opt, every=4)
    assert (certified_intervals(opt, 4)["upper"].diff().dropna() <= 1e-9).all()


def test_a_problem_says_what_is_unknown() -> None:
    problem = Problem(SQUARE, "cost", LIMITS, False, {"wave": (None, 3)}, {"disc": disc})
    assert problem.functions == ("cost", "wave", "disc")
    assert problem.unknown == ("cost", "wave")
    assert problem.exact.values({"a": 1.0, "b": 0.5}) == {"disc": 1.25}
