"""`maximize` and `minimize` survive their users: exceptions, Ctrl-C, many workers, odd answers."""

import itertools
import math
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from cobalt_nb import Box, Cobalt, Pool, Query, maximize, minimize

SPACE = Box({"x": (0.0, 1.0), "y": (0.0, 1.0)})
LIMITS = {"disc": (None, 1.0)}
QUICK: dict[str, Any] = {"seed": 0, "noise": 0.0, "progress": False}


def bowl(p: dict) -> dict:
    return {"cost": (p["x"] - 0.6) ** 2 + p["y"], "disc": p["x"] ** 2 + p["y"] ** 2}


def fragile(p: dict) -> dict:
    """Half of the space crashes."""
    if p["x"] > 0.5:
        raise RuntimeError(f"no mesh at {p['x']:.2f}")
    return bowl(p)


def slow(p: dict) -> dict:
    time.sleep(0.05)
    return bowl(p)


def run(functions: Any = bowl, **options: Any) -> Any:
    return minimize(functions, SPACE, "cost", LIMITS, **QUICK | {"budget": 8} | options)


class Bursts:
    """A function that raises at its n-th call."""

    def __init__(self, at: int, error: BaseException):
        self.at, self.error, self.calls = at, error, list[dict]()

    def __call__(self, p: dict) -> dict:
        self.calls.append(dict(p))
        if len(self.calls) == self.at:
            raise self.error
        return bowl(p)


# Exceptions


def test_an_expected_exception_is_a_failure_with_its_text() -> None:
    history = run(fragile, catch=(RuntimeError,), budget=12).history
    crashed = history["x"] > 0.5
    assert len(history) == 12 and 0 < crashed.sum() < 12
    assert history.loc[crashed, ["cost", "disc"]].isna().all(axis=None)
    assert history.loc[~crashed, ["cost", "disc"]].notna().all(axis=None)
    texts = history.loc[crashed, "error"]
    assert texts.str.startswith("RuntimeError: no mesh at 0.").all()
    assert history.loc[~crashed, "error"].isna().all()
    assert set(history.loc[crashed, "feasible"]) == {"unknown"}


def test_one_function_fails_and_the_others_count() -> None:
    def cost(p: dict) -> float:
        if p["x"] > 0.5:
            raise RuntimeError("no mesh")
        return bowl(p)["cost"]

    functions = {"cost": cost, "disc": lambda p: bowl(p)["disc"]}
    history = run(functions, catch=RuntimeError).history
    crashed = history["x"] > 0.5
    assert crashed.any() and history["disc"].notna().all()
    assert history["cost"].isna().tolist() == crashed.tolist()


def test_any_other_exception_leaves_with_all_that_was_told(tmp_path: Path) -> None:
    journal = tmp_path / "run.jsonl"
    function = Bursts(5, KeyError("pressure"))
    with pytest.raises(KeyError, match="pressure") as caught:
        run(function, journal=journal)
    opt = caught.value.cobalt  # type: ignore[attr-defined]
    assert isinstance(opt, Cobalt)
    assert opt.archive.failed().tolist() == [False] * 4 + [True]
    notes = "".join(caught.value.__notes__)
    assert "5 evaluations are kept" in notes and str(journal) in notes
    assert "catch=(KeyError,)" in notes
    result = run(function, journal=journal)  # the same call goes on
    assert len(result.history) == 8 and len(function.calls) == 8
    assert function.calls.count(function.calls[4]) == 1  # the fatal point is not asked again
    assert "pressure" in result.history["error"].iloc[4]


def test_an_exception_beside_values_that_came_keeps_them(tmp_path: Path) -> None:
    def disc(p: dict) -> float:
        raise ZeroDivisionError

    functions = {"cost": lambda p: bowl(p)["cost"], "disc": disc}
    with pytest.raises(ZeroDivisionError) as caught:
        run(functions, journal=tmp_path / "run.jsonl")
    told = caught.value.cobalt.archive.values[0]  # type: ignore[attr-defined]
    assert math.isfinite(told["cost"]) and math.isnan(told["disc"])
    assert Cobalt.load(tmp_path / "run.jsonl").archive.values[0]["cost"] == told["cost"]


def test_an_impossible_value_is_a_failure_of_its_function() -> None:
    odd = lambda p: bowl(p) | ({"cost": math.inf} if p["x"] > 0.5 else {})
    with pytest.raises(ValueError, match="function 'cost': the value is infinite") as caught:
        run(odd)
    assert math.isfinite(caught.value.cobalt.archive.values[-1]["disc"])  # type: ignore
    history = run(odd, catch=ValueError).history
    assert history["cost"].isna().any() and history["disc"].notna().all()


def test_an_exit_is_no_failure(tmp_path: Path) -> None:
    journal = tmp_path / "run.jsonl"
    function = Bursts(4, SystemExit(3))
    with pytest.raises(SystemExit):
        run(function, journal=journal)
    assert len(Cobalt.load(journal).archive) == 3
    run(function, journal=journal)
    assert function.calls[4] == function.calls[3]  # asked once more


def test_a_function_of_the_name_error_keeps_its_values() -> None:
    def broken(p: dict) -> dict:
        if p["x"] > 0.5:
            raise RuntimeError("no mesh")
        return {"error": p["x"]}

    history = minimize(broken, SPACE, "error", **QUICK, budget=8, catch=RuntimeError).history
    assert history["error"].dtype == float and history["error"].isna().any()
    assert history["error_"].dropna().unique().tolist() == ["RuntimeError: no mesh"]


# What the function does and returns


def test_a_function_that_writes_into_its_point_changes_nothing() -> None:
    def vandal(p: dict) -> dict:
        seen = bowl(p)
        p["x"] = p["y"] = -1.0
        p.clear()
        return seen

    pd.testing.assert_frame_equal(run(vandal).history, run().history)


def test_a_label_or_a_carried_value_is_a_copy_too() -> None:
    rows = pd.DataFrame({"x": [0.0, 0.5, 1.0], "tags": [["a"], ["b"], ["c"]]})

    def vandal(p: dict) -> float:
        p["tags"].append("mine")
        return p["x"]

    history = minimize(vandal, Pool(rows, carry=["tags"]), "f", **QUICK, budget=3).history
    assert sorted(history["tags"]) == [["a"], ["b"], ["c"]]


def test_extras_are_kept() -> None:
    more = lambda p: bowl(p) | {"steps": 7, "x": "an extra", "log": [1, 2], "feasible": "yes"}
    result = run(more)
    assert result.history["steps"].tolist() == [7] * 8
    assert set(result.history["x_"]) == {"an extra"} and set(result.history["log"]) == {"[1, 2]"}
    assert set(result.history["feasible_"]) == {"yes"}
    assert set(result.history["feasible"]) <= {True, False}


def test_extras_outlive_the_process(tmp_path: Path) -> None:
    more = lambda p: bowl(p) | {"steps": 7, "none": None, "nan": math.nan}
    first = run(more, journal=tmp_path / "run.jsonl").history
    again = Cobalt.load(tmp_path / "run.jsonl").archive.frame()
    assert set(first) >= {"steps", "none", "nan"} and first["steps"].eq(7).all()
    pd.testing.assert_frame_equal(again, first)


def test_a_name_that_never_comes_is_said_once_and_counts_as_failed() -> None:
    with pytest.warns(UserWarning, match="no value came for 'disc'.*did you mean 'Disc'") as heard:
        result = run(lambda p: {"cost": p["x"], "Disc": 1.0}, budget=5)
    assert len(heard) == 1
    assert result.history["Disc"].tolist() == [1.0] * 5


def test_a_penalty_is_noticed() -> None:
    penalised = lambda p: bowl(p) if p["x"] < 0.5 else {"cost": 1e6, "disc": 0.5}
    with pytest.warns(UserWarning, match="'cost': 1e.06 came several times") as heard:
        run(penalised, budget=10)
    assert len(heard) == 1


def test_a_constraint_may_be_called_feasible() -> None:
    function = lambda p: {"cost": p["x"], "feasible": p["y"]}
    history = minimize(
        function, SPACE, "cost", {"feasible": (0.5, None)}, **QUICK, budget=6
    ).history
    assert history["feasible"].tolist() == history["y"].tolist()
    assert history["feasible_"].tolist() == (history["y"] >= 0.5).tolist()


def test_a_pool_carries_its_other_columns() -> None:
    rows = pd.DataFrame({"id": [f"#{i}" for i in range(80)], "x": range(80), "note": "n"})
    seen = []

    def function(p: dict) -> dict:
        seen.append(p["id"])
        return {"f": (p["x"] - 33.0) ** 2}

    result = minimize(function, Pool(rows, carry=["id", "note"]), "f", **QUICK, budget=12)
    assert result.history["id"].tolist() == seen == [f"#{x}" for x in result.history["x"]]
    assert result.x["id"] == f"#{result.x['x']}"


# Several at once


@pytest.mark.parametrize("workers", [2, 3])
def test_threads(workers: int) -> None:
    busy, most, lock = 0, 0, threading.Lock()

    def watched(p: dict) -> dict:
        nonlocal busy, most
        with lock:
            busy += 1
            most = max(most, busy)
        time.sleep(0.02)
        with lock:
            busy -= 1
        return bowl(p)

    result = run(watched, workers=workers, budget=10)
    assert len(result.history) == 10 and 1 < most <= workers
    assert not result.history[["x", "y"]].duplicated().any()


def test_processes() -> None:
    with ProcessPoolExecutor(2) as executor:
        result = run(slow, workers=executor, budget=7)
        again = run(fragile, workers=(executor, 2), budget=6, catch=RuntimeError)
    assert len(result.history) == 7 and result.feasible
    assert again.history["error"].dropna().str.contains("no mesh").all()


def test_answers_are_told_as_they_come() -> None:
    """The first point takes until all others are done."""
    others = threading.Event()
    count = iter(range(100))

    def function(p: dict) -> dict:
        number = next(count)
        if number == 0:
            assert others.wait(60)
        elif number == 5:
            others.set()
        return bowl(p) | {"number": number}

    history = run(function, workers=2, budget=6).history
    assert history["number"].tolist()[:4] == [1, 2, 3, 4]
    assert sorted(history["number"]) == list(range(6))


def test_what_runs_beside_an_exception_is_told(tmp_path: Path) -> None:
    gate, count = threading.Event(), iter(range(100))

    def function(p: dict) -> dict:
        if next(count) == 1:
            gate.set()
            raise KeyError("second")
        assert gate.wait(60)
        time.sleep(0.05)
        return bowl(p)

    with pytest.raises(KeyError) as caught:
        run(function, workers=2, journal=tmp_path / "run.jsonl")
    opt = caught.value.cobalt  # type: ignore[attr-defined]
    assert sorted(opt.archive.failed().tolist()) == [False, True]
    assert len(Cobalt.load(tmp_path / "run.jsonl").archive) == 2


def test_an_executor_of_the_user_is_left_open() -> None:
    with ThreadPoolExecutor(2) as executor:
        run(workers=executor)
        assert executor.submit(int, "3").result() == 3


def die(p: dict) -> dict:
    os._exit(1)


def test_a_worker_that_dies() -> None:
    from concurrent.futures.process import BrokenProcessPool

    with ProcessPoolExecutor(1) as executor, pytest.raises(BrokenProcessPool) as caught:
        run(die, workers=executor)
    assert caught.value.cobalt.archive.failed().tolist() == [True]  # type: ignore[attr-defined]


def test_a_pool_of_workers_that_dies_blames_no_point() -> None:
    from concurrent.futures.process import BrokenProcessPool

    with ProcessPoolExecutor(2) as executor, pytest.raises(BrokenProcessPool) as caught:
        run(die, workers=executor)
    assert len(caught.value.cobalt.archive) == 0  # type: ignore[attr-defined]


def test_an_exception_with_values_comes_back_from_a_process() -> None:
    functions = {"cost": cost, "disc": nothing}
    with ProcessPoolExecutor(1) as executor, pytest.raises(ZeroDivisionError) as caught:
        run(functions, workers=executor)
    told = caught.value.cobalt.archive.values[0]  # type: ignore[attr-defined]
    assert math.isfinite(told["cost"]) and math.isnan(told["disc"])


def cost(p: dict) -> float:
    return bowl(p)["cost"]


def nothing(p: dict) -> float:
    return 1 / 0


# Callback, initial results, finite spaces


@pytest.mark.parametrize("workers", [None, 2])
def test_a_callback_sees_every_evaluation_and_may_stop(workers: int | None) -> None:
    seen: list[int] = []

    def callback(opt: Cobalt, query: Query) -> bool:
        assert set(query.x) == {"x", "y"}
        seen.append(len(opt.archive))
        return len(seen) == 4

    result = run(callback=callback, workers=workers)
    assert len(result.history) in ({4} if workers is None else {4, 5})
    assert len(seen) == len(result.history)


def test_a_callback_may_raise_to_stop() -> None:
    def callback(opt: Cobalt, query: Query) -> None:
        raise StopIteration

    assert len(run(callback=callback).history) == 1


def test_what_a_callback_says_by_numpy_counts_and_other_things_do_not() -> None:
    assert len(run(callback=lambda opt, query: opt.archive.feasible().any()).history) < 8
    assert len(run(callback=lambda opt, query: "a text").history) == 8


def test_an_exception_of_a_callback_is_no_failure() -> None:
    with pytest.raises(KeyError) as caught:
        run(callback=lambda opt, query: {}["lost"])
    assert caught.value.cobalt.archive.failed().tolist() == [False]  # type: ignore


def test_known_results_come_first_and_cost_nothing(tmp_path: Path) -> None:
    points = [{"x": 0.1, "y": 0.2}, {"x": 0.3, "y": 0.9}]
    known = pd.DataFrame([p | bowl(p) | {"who": "Ada"} for p in points])
    journal, function = tmp_path / "run.jsonl", Bursts(99, KeyError())
    result = run(function, initial=known, journal=journal)
    assert len(result.history) == 10 and len(function.calls) == 8
    assert result.history["x"].tolist()[:2] == [0.1, 0.3]
    assert result.history["who"].dropna().tolist() == ["Ada", "Ada"]
    more = run(function, initial=known, journal=journal, budget=9)
    assert len(more.history) == 11 and len(function.calls) == 9
    with pytest.raises(ValueError, match="does not begin with the results in `initial`"):
        run(function, initial=[{"x": 0.5, "y": 0.5} | bowl(points[0])], journal=journal)
    with pytest.raises(ValueError, match="differs"):
        run(function, initial=known, journal=journal, seed=1)


def test_a_result_is_a_beginning() -> None:
    first = run(budget=6)
    second = run(initial=first, budget=2)
    assert len(second.history) == 8 and list(second.history) == list(first.history)
    pd.testing.assert_frame_equal(second.history.head(6), first.history)


def test_a_finite_box_ends() -> None:
    function = Bursts(999, KeyError())
    finite = Box({"n": (0, 4, "int"), "kind": ["a", "b"]})
    counted = lambda p: {"f": function({"x": p["n"], "y": 0.0})["cost"] + (p["kind"] == "b")}
    result = maximize(counted, finite, "f", **QUICK, budget=60)
    assert not result.history[["n", "kind"]].drop_duplicates().shape[0] < 10
    assert len(result.history) < 60


def test_a_certified_journal_is_not_evaluated_again(tmp_path: Path) -> None:
    count = itertools.count()

    def counted(p: dict[str, float]) -> dict[str, float]:
        next(count)
        return {"f": (p["x"] - 0.3) ** 2, "c": p["x"]}

    once = lambda budget: minimize(
        counted,
        Box({"x": (0.0, 2.0)}),
        "f",
        {"c": (0.5, None)},
        budget,
        journal=tmp_path / "run.jsonl",
        noise=0,
        progress=False,
    )
    first = once(40)
    again, more = once(40), once(60)
    assert first.status == again.status == more.status == "certified"
    assert next(count) == len(first.history) == len(more.history) < 40


def test_the_last_candidate_is_evaluated_after_a_crash(tmp_path: Path) -> None:
    function = Bursts(3, SystemExit(1))
    pool = lambda: minimize(
        lambda p: {"f": function({"x": p["x"], "y": 0.0})["cost"]},
        Pool({"x": [0.0, 0.5, 1.0]}),
        "f",
        **QUICK,
        budget=9,
        journal=tmp_path / "run.jsonl",
    )
    with pytest.raises(SystemExit):
        pool()
    assert sorted(pool().history["x"]) == [0.0, 0.5, 1.0]


def test_a_pool_ends_even_if_all_fails() -> None:
    result = maximize(lambda p: {}, Pool({"x": [0.0, 1.0, 2.0]}), "f", **QUICK, budget=60)
    assert len(result.history) == 3


# Ctrl-C

PROGRAM = """
import sys, time, warnings
from concurrent.futures import ProcessPoolExecutor
from cobalt_nb import minimize

KIND, JOURNAL = sys.argv[1:]

def function(p):
    time.sleep(0.2)
    return {"f": (p["x"] - 0.3) ** 2}

def told(opt, query):
    print("told", len(opt.archive), flush=True)

if __name__ == "__main__":
    warnings.simplefilter("always")
    workers = {"alone": None, "threads": 3, "processes": None}[KIND]
    if KIND == "processes":
        workers = ProcessPoolExecutor(2)
    result = minimize(
        function, {"x": (0.0, 1.0)}, "f", budget=500, noise=0.0, progress=False, callback=told,
        journal=JOURNAL, workers=workers,
    )
    print("history", len(result.history), flush=True)
    print("message", result.message, flush=True)
"""


@pytest.mark.parametrize("kind", ["alone", "threads", "processes"])
def test_ctrl_c_returns_what_there_is(kind: str, tmp_path: Path) -> None:
    """The signal goes to the whole group of processes, as from a terminal."""
    program, journal = tmp_path / "program.py", tmp_path / "run.jsonl"
    program.write_text(textwrap.dedent(PROGRAM))
    command = [sys.executable, str(program), kind, str(journal)]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes, start_new_session=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("told 4"):
                break
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    told = len(Cobalt.load(journal).archive)
    assert 4 <= told < 500 and f"history {told}\n" in out
    assert f"message interrupted after {told} of 500 evaluations" in out
    assert "RuntimeWarning: interrupted" in err and "goes on from" in err


def test_ctrl_c_before_anything_was_told_is_ctrl_c() -> None:
    with pytest.raises(KeyboardInterrupt):
        run(Bursts(1, KeyboardInterrupt()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert len(run(Bursts(4, KeyboardInterrupt())).history) == 3


def test_initial_results_keep_their_standard_errors() -> None:
    told = [{"x": 0.1 * i, "f": 0.01 * i, "f_error": 0.1} for i in range(1, 6)]
    seen = []
    note = lambda opt, query: seen.append(opt.archive.errors[:5])
    maximize(lambda p: {"f": p["x"]}, {"x": (0.0, 1.0)}, "f", budget=1, initial=told, callback=note)
    assert seen[0] == [{"f": 0.1}] * 5


def test_what_a_result_noted_beside_its_values_does_not_become_an_error() -> None:
    noted = lambda p: {"f": p["x"], "f_error": 0.3}  # a word of the user's own
    first = maximize(noted, {"x": (0.0, 1.0)}, "f", budget=4, progress=False)
    seen = []
    note = lambda opt, query: seen.append(opt.archive)
    maximize(noted, {"x": (0.0, 1.0)}, "f", budget=1, initial=first, callback=note, progress=False)
    assert seen[0].errors == [{}] * 5
    assert [extras["f_error"] for extras in seen[0].extras] == [0.3] * 5


def test_a_wrong_standard_error_is_found_before_anything_is_told(tmp_path: Path) -> None:
    told = [{"x": 0.1, "f": 1.0, "f_error": 0.1}, {"x": 0.2, "f": 1.0, "f_error": -1.0}]
    ways = {"budget": 1, "initial": told, "journal": tmp_path / "run.jsonl", "progress": False}
    with pytest.raises(ValueError, match="standard error"):
        maximize(lambda p: {"f": p["x"]}, {"x": (0.0, 1.0)}, "f", **ways)
    assert not (tmp_path / "run.jsonl").exists()


def test_a_decoupled_run_over_a_pool_asks_nothing_twice() -> None:
    "Without noise a function that was told at a candidate has nothing more to say there."
    t = np.linspace(0, 1, 30)
    table = pd.DataFrame({"x": t, "y": (1 - t) ** 2})
    functions = {"f": lambda p: (p["x"] - 0.3) ** 2 + p["y"], "c": lambda p: p["x"] + p["y"]}
    ways = {"budget": 50, "decoupled": True, "noise": 0.0, "tol": None, "progress": False}
    history = minimize(functions, table, "f", {"c": (0.5, None)}, **ways).history
    assert len(history) == 50
    for name in functions:
        asked = history[history[name].notna()][["x", "y"]]
        assert not asked.duplicated().any()


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_a_decoupled_run_over_a_pool_ends_when_all_was_tried(share: float) -> None:
    "With failures too: what failed for one function may work for another, and is tried once."
    rng, tried = np.random.default_rng(3), []

    def one(name: str) -> Any:
        def answer(p: dict[str, float]) -> float:
            tried.append((name, p["x"]))
            if rng.random() < share:
                raise RuntimeError("lost")
            return p["x"]

        return answer

    functions, table = {"f": one("f"), "c": one("c")}, pd.DataFrame({"x": np.linspace(0, 1, 8)})
    ways = {"budget": 40, "decoupled": True, "noise": 0.0, "tol": None, "catch": (RuntimeError,)}
    minimize(functions, table, "f", {"c": (0.5, None)}, progress=False, **ways)
    assert len(tried) == len(set(tried)) == 16
