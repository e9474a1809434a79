"""Threads that share an optimiser take turns; forks beside a busy thread all come to an end."""

import multiprocessing
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from cobalt_nb import Box, Cobalt
from cobalt_nb.threads import one_thread

FORK = multiprocessing.get_context("fork")
SPACE, LIMITS = Box({"x": (0.0, 1.0), "y": (0.0, 1.0)}), {"c": (0.0, None)}


def functions(p: dict[str, float]) -> dict[str, float]:
    return {"f": -((p["x"] - 0.3) ** 2) - p["y"], "c": p["x"] + p["y"] - 0.5}


def together(act: Callable[[int], None], n: int = 4) -> None:
    """Run `act` in n threads; the first error of any is raised here."""
    errors: list[BaseException] = []

    def guarded(i: int) -> None:
        try:
            act(i)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(i,)) for i in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert not any(thread.is_alive() for thread in threads)
    if errors:
        raise errors[0]


@pytest.mark.parametrize(
    "turns", [10, pytest.param(40, marks=[pytest.mark.slow, pytest.mark.long])]
)
def test_four_threads_share_an_optimiser(tmp_path: Path, turns: int) -> None:
    """Nobody fails, every value is there once, and the journal holds the same run."""
    path = tmp_path / "run.jsonl"
    opt = Cobalt(SPACE, "f", LIMITS, noise=0.0, n_init=30, journal=path)
    told: list[tuple[float, float, int]] = []

    def work(i: int) -> None:
        for turn in range(turns):
            query = opt.ask()
            told.append((query.x["x"], query.x["y"], i))
            opt.tell(query, functions(query.x) | {"worker": i})
            if turn % 5 == 4:
                opt.withdraw(opt.ask())
                assert opt.result().history is not None
                assert repr(opt)

    together(work)
    assert len(opt.archive) == 4 * turns and opt.pending == []
    points = [(x["x"], x["y"], e["worker"]) for x, e in zip(opt.archive.points, opt.archive.extras)]
    assert Counter(points) == Counter(told)
    opt.close()
    again = Cobalt.load(path)
    pd.testing.assert_frame_equal(again.archive.frame(), opt.archive.frame())
    opt.journal = None
    assert repr(again.ask()) == repr(opt.ask())


def small_run(seed: int) -> int:
    opt = Cobalt(SPACE, "f", LIMITS, noise=0.0, seed=seed)
    for _ in range(6):
        query = opt.ask()
        opt.tell(query, functions(query.x))
    return len(opt.archive)


def child(shared: Cobalt, answers: Any) -> None:
    try:
        shared.ask()  # whose lock a thread of the parent may have held
        said = "asked"
    except RuntimeError as error:
        said = str(error)
    answers.put((small_run(1), said, dict(one_thread.blocks)))


@pytest.mark.parametrize(
    "children", [8, pytest.param(50, marks=[pytest.mark.slow, pytest.mark.long])]
)
def test_forks_beside_an_optimising_thread_end(children: int) -> None:
    """Every child makes a run of its own, and uses the shared optimiser or hears why it cannot."""
    shared, stop = Cobalt(SPACE, "f", LIMITS, noise=0.0), threading.Event()

    def optimise() -> None:
        while not stop.is_set():
            if len(shared.archive) < 60:
                query = shared.ask()
                shared.tell(query, functions(query.x))
            else:
                shared.withdraw(shared.ask())

    thread = threading.Thread(target=optimise)
    thread.start()
    try:
        for _ in range(children):
            answers = FORK.SimpleQueue()
            process = FORK.Process(target=child, args=(shared, answers))
            process.start()
            process.join(120)
            alive = process.is_alive()
            if alive:
                process.kill()
            assert not alive, "a child hangs"
            told, said, blocks = answers.get()
            assert (told, blocks) == (6, {})
            assert said == "asked" or "was forked while another thread used" in said
    finally:
        stop.set()
        thread.join(120)
    assert one_thread.blocks == {}
