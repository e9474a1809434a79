"""A run that is killed, again and again, ends with the same history as one that is left alone."""

import json
import math
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
import torch

from cobalt_nb import Box, Cobalt, minimize

SPACE = Box({"x": (0.0, 1.0), "y": (0.0, 1.0)})
LIMITS = {"wave": (1.5, None), "disc": (None, 1.5)}
BUDGET = 24


def gramacy(p: dict) -> dict:
    time.sleep(0.01)
    x, y = p["x"], p["y"]
    return {
        "cost": x + y,
        "wave": x + 2 * y + 0.5 * math.sin(2 * math.pi * (x * x - 2 * y)),
        "disc": x * x + y * y,
    }


def run(journal: Path) -> pd.DataFrame:
    torch.set_num_threads(1)
    return minimize(
        gramacy,
        SPACE,
        "cost",
        LIMITS,
        budget=BUDGET,
        seed=1,
        noise=0.0,
        progress=False,
        journal=journal,
    ).history


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    return run(tmp_path_factory.mktemp("journal") / "whole.jsonl")


@pytest.mark.filterwarnings("ignore::cobalt_nb.journal.TornLine")
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(s, marks=[pytest.mark.slow, pytest.mark.long]) for s in (1, 2, 3))]
)
def test_killed_at_random_moments(undisturbed: pd.DataFrame, tmp_path: Path, seed: int) -> None:
    journal, moments, kills = tmp_path / "killed.jsonl", random.Random(seed), 0
    fork, start = multiprocessing.get_context("fork"), time.monotonic()
    run(tmp_path / "timed.jsonl")
    whole = time.monotonic() - start  # so that a faster run is killed sooner
    while True:
        told = journal.read_bytes().count(b'"tell"') if journal.exists() else 0
        child = fork.Process(target=run, args=(journal,))
        child.start()
        child.join(whole * moments.uniform(0.01, 0.25) * 1.05**kills)  # time for the last step
        if child.exitcode is not None:
            break
        os.kill(child.pid, signal.SIGKILL)
        child.join()
        kills += 1
        assert kills < 150, "the run makes no headway"
        assert (
            not journal.exists() or journal.read_bytes().count(b'"tell"') >= told
        )  # nothing told is lost
    assert child.exitcode == 0 and kills >= 5
    pd.testing.assert_frame_equal(run(journal), undisturbed)


def test_load_suggests_what_would_have_come_next(undisturbed: pd.DataFrame, tmp_path: Path) -> None:
    journal = tmp_path / "whole.jsonl"
    run(journal)
    lines = journal.read_text().splitlines(keepends=True)
    for keep in random.Random(1).sample(range(10, len(lines)), 6):
        part = tmp_path / f"{keep}.jsonl"
        part.write_text("".join(lines[:keep]))
        told = sum('"tell"' in line for line in lines[:keep])
        if told < BUDGET:
            assert Cobalt.load(part).ask().x == dict(undisturbed.loc[told, ["x", "y"]])


@pytest.mark.parametrize("cut", [1, 7, 40])
def test_a_torn_last_line_is_reported_and_skipped(tmp_path: Path, cut: int) -> None:
    journal = tmp_path / "torn.jsonl"
    opt = Cobalt(SPACE, "cost", LIMITS, maximize=False, journal=journal)
    for _ in range(3):
        query = opt.ask()
        opt.tell(query, gramacy(query.x))
    opt.close()
    journal.write_bytes(journal.read_bytes()[:-cut])
    with pytest.warns(UserWarning, match="the last line is torn"):
        again = Cobalt.load(journal)
    assert len(again.archive) == 2
    assert again.ask().x == query.x  # the evaluation that was lost is asked for again
    again.tell(query, gramacy(query.x))
    for line in journal.read_text().splitlines():
        json.loads(line)


@pytest.mark.slow
def test_another_interpreter_continues(undisturbed: pd.DataFrame, tmp_path: Path) -> None:
    journal = tmp_path / "run.jsonl"
    code = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import test_journal; "
    code += f"test_journal.run(test_journal.Path({str(journal)!r}))"
    child = subprocess.Popen([sys.executable, "-c", code])
    while not journal.exists() or journal.read_bytes().count(b'"tell"') < 12:
        time.sleep(0.05)
    child.kill()
    child.wait()
    pd.testing.assert_frame_equal(run(journal), undisturbed)
