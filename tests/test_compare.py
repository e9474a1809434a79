"""The comparison: a package that is missing, a command that is killed, a counter that holds."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from cobalt_nb.study.comparison import Run, compare, plan, stored_lines
from cobalt_nb.study.rivals import RIVALS, Counter, Rival, Spent, run_rival
from cobalt_nb.study.suites import KNOWN, NAMES, Problem, bare, stored_best

ROOT = Path(__file__).parents[1]
SMALL = ["compare", "--problems", "g24-2d", "--seeds", "3", "--per-dimension", "10"]


def command(*words: str, hidden: str = "", **options: object) -> subprocess.CompletedProcess:
    """`cobalt-nb` in a process of its own, in which the module `hidden` cannot be imported."""
    code = "import sys; sys.modules.update({n: None for n in sys.argv[1].split(',') if n})\n"
    code += "from cobalt_nb.cli import main; sys.exit(main(sys.argv[2:]))"
    line = [sys.executable, "-c", code, hidden, *words]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(line, capture_output=True, text=True, env=env, timeout=600, **options)


def line_problem(calls: list[float] | None = None) -> Problem:
    """x in [0, 1] is to be small, and at least a half."""

    def functions(x: np.ndarray) -> np.ndarray:
        if calls is not None:
            calls.append(float(x[0]))
        return np.array([x[0], 0.5 - x[0]])

    return Problem("line", "test", (0.0,), (1.0,), 1, functions)


def test_the_fixed_list_is_large_and_every_optimum_is_stored() -> None:
    assert len(NAMES) >= 60 and set(NAMES) <= set(KNOWN) == set(stored_best().index)
    assert all(bare(name).d <= 10 for name in NAMES)


def test_a_missing_suite_is_named_with_the_remedy(tmp_path: Path) -> None:
    words = [*SMALL, "--rivals", "random", "--out", str(tmp_path / "runs")]
    ran = command(*words, hidden="pymoo")
    assert ran.returncode == 1 and "Traceback" not in ran.stderr
    assert "this needs pymoo" in ran.stderr and "pip install 'cobalt-nb[compare]'" in ran.stderr
    assert not (tmp_path / "runs").exists()


def test_a_missing_rival_is_named_with_the_remedy(tmp_path: Path) -> None:
    ran = command(*SMALL, "--rivals", "egobox", "--out", str(tmp_path / "runs"), hidden="egobox")
    assert ran.returncode == 1 and "Traceback" not in ran.stderr
    assert "egobox" in ran.stderr and "pip install 'cobalt-nb[compare]'" in ran.stderr


def test_the_extra_holds_what_the_suites_and_the_rivals_need() -> None:
    settings = (ROOT / "settings.ini").read_text()
    [extra] = [text for text in settings.splitlines() if text.startswith("compare_requirements")]
    pins = (ROOT / "constraints.txt").read_text().lower().splitlines()
    base = {"scipy", "botorch"}
    for package in {rival.package for rival in RIVALS.values()} - base | {
        "coco-experiment",
        "pymoo",
        "enoppy",
    }:
        assert f" {package}>=" in extra
        assert any(pin.startswith(f"{package.lower()}==") for pin in pins)


@pytest.mark.parametrize("threads", [1, 4, 16])
def test_threads_share_one_budget(threads: int) -> None:
    calls: list[float] = []
    counter, refused = Counter(line_problem(calls), 100), []

    def greedy() -> None:
        for _ in range(60):
            try:
                counter([0.7])
            except Spent:
                refused.append(1)

    hands = [threading.Thread(target=greedy) for _ in range(threads)]
    for hand in hands:
        hand.start()
    for hand in hands:
        hand.join()
    assert counter.used == len(calls) == min(100, 60 * threads)
    assert len(refused) == 60 * threads - counter.used


def test_a_rival_that_catches_the_exception_gains_nothing() -> None:
    calls: list[float] = []

    def stubborn(counter: Counter, seed: int) -> None:
        for x in np.linspace(1, 0.5, 50):
            try:
                counter([x])
            except Exception:
                continue

    RIVALS["stubborn"] = Rival(stubborn, "goes on")
    try:
        run = run_rival("stubborn", line_problem(calls), 10, 0)
    finally:
        del RIVALS["stubborn"]
    assert run["used"] == len(calls) == 10
    assert run["strict"][-1] == (10, calls[-1]) and min(calls) > 0.9


@pytest.mark.parametrize("name", ["budget", "used", "left", "seconds"])
def test_nobody_sets_the_count(name: str) -> None:
    counter = Counter(line_problem(), 3)
    with pytest.raises(AttributeError):
        setattr(counter, name, 1000)


def test_records_and_answers_are_copies() -> None:
    counter = Counter(line_problem(), 3)
    counter([0.8])[:] = -1
    counter.trace().append((1, -9.0))
    assert counter.trace() == [(1, 0.8)]


@pytest.mark.parametrize("wrong", [[1.1], [-1e-3], [float("nan")], [0.5, 0.5]])
def test_points_outside_are_refused_and_not_counted(wrong: list[float]) -> None:
    counter = Counter(line_problem(), 3)
    with pytest.raises(ValueError):
        counter(wrong)
    assert counter.used == 0


def test_what_is_stored_is_not_made_again(tmp_path: Path) -> None:
    runs = plan(["g24-2d"], ["random"], [1, 2], 5)
    first = compare(runs[:1], tmp_path, workers=1, quiet=True)
    both = compare(runs, tmp_path, workers=1, quiet=True)
    assert both[0] == first[0] and len(both) == 2
    assert both == compare(runs, tmp_path, workers=1, quiet=True)


@pytest.mark.slow
def test_two_processes_make_the_runs_of_one(tmp_path: Path) -> None:
    runs = plan(["g24-2d", "coco-f01-i1-2d"], ["random", "cobyla"], [1], 5)
    alone = compare(runs, tmp_path / "one", workers=1, quiet=True)
    both = compare(runs, tmp_path / "two", workers=2, quiet=True)
    traces = lambda lines: {(line["problem"], line["rival"]): line["loose"] for line in lines}
    assert traces(json.loads(json.dumps(alone))) == traces(json.loads(json.dumps(both)))


def test_another_budget_is_another_run(tmp_path: Path) -> None:
    for per_dimension in (5, 6):
        compare(plan(["g24-2d"], ["random"], [1], per_dimension), tmp_path, 1, quiet=True)
    assert [line["budget"] for line in stored_lines(tmp_path)] == [10, 12]


@pytest.mark.slow
def test_a_killed_command_goes_on(tmp_path: Path) -> None:
    words = [*SMALL[:-1], "40", "--rivals", "random", "cobyla", "scbo", "--workers", "1"]
    words += ["--out", str(tmp_path)]
    code = "import sys; from cobalt_nb.cli import main; sys.exit(main(sys.argv[1:]))"
    line, env = [sys.executable, "-c", code, *words], os.environ | {"PYTHONPATH": str(ROOT)}
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(line, stdout=quiet, stderr=quiet, env=env, start_new_session=True)
    deadline = time.monotonic() + 300
    while len(stored_lines(tmp_path)) < 1 and time.monotonic() < deadline:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    before = stored_lines(tmp_path)
    assert 1 <= len(before) < 3
    with (tmp_path / "runs.jsonl").open("a") as file:
        file.write('{"problem": "g24-2d", "riv')  # torn
    ran = command(*words)
    assert ran.returncode == 0, ran.stderr
    after = stored_lines(tmp_path)
    assert len(after) == 3 and after[: len(before)] == before
    assert all(json.loads(text) for text in (tmp_path / "runs.jsonl").read_text().splitlines())


@pytest.mark.slow
@pytest.mark.parametrize("rival", list(RIVALS))
def test_every_rival_spends_its_budget_and_no_more(rival: str) -> None:
    calls = []
    real = bare("g24-2d")

    def functions(x: np.ndarray) -> np.ndarray:
        calls.append(x)
        return real.functions(x)

    watched = Problem("watched", "test", real.lower, real.upper, 2, functions)
    run = run_rival(rival, watched, 16, 5)
    assert (run["used"], run["error"]) == (16, "") and len(calls) == 16
    assert run["loose"], "a problem that is nearly half feasible"


def test_a_run_is_named_by_what_was_asked_for() -> None:
    assert plan(["g24-2d"], ["random"], [7], 10) == [Run("g24-2d", "random", 7, 20)]
