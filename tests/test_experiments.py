"""Studies as processes: killed, resumed, spread over workers, refused."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pandas as pd
import psutil
import pytest
import torch

from cobalt_nb.optimizer import Cobalt
from cobalt_nb.study.trials import (
    METHODS,
    dask_pool,
    load,
    process_pool,
    read,
    reproduce,
    run_study,
    run_trial,
    save,
    stored,
    study,
)

SMALL = study("practical", ["rastrigin"], ["cobalt", "cobalt-paper"], trials=5, budget=12)
RUN = "from cobalt_nb.study.trials import *; run_study(study('practical', ['rastrigin'], ['cobalt', 'cobalt-paper'], trials={trials}, budget=12), {folder!r}, progress=False)"


def numbers(folder: Path) -> pd.DataFrame:
    """All that is stored but the times, which no two runs share."""
    return load(folder).drop(columns="cpu_seconds")


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def wait_until(condition: Callable[[], object], seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.02)


def is_alive(process: psutil.Process) -> bool:
    """Whether a process still runs; one that ended but was not yet collected does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small study, run in this process without a break."""
    folder = tmp_path_factory.mktemp("whole")
    with ThreadPoolExecutor(1) as here:
        run_study(SMALL, folder, here, progress=False)
    return folder


@pytest.mark.slow
def test_a_killed_study_continues_with_the_same_numbers(whole: Path, tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", RUN.format(trials=5, folder=str(tmp_path))])
    wait_until(lambda: len(stored(tmp_path)) >= 2)
    workers = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    before = contents(tmp_path)
    assert len(workers) >= 2
    assert 2 <= len(stored(tmp_path)) < len(SMALL)
    wait_until(lambda: not any(map(is_alive, workers)))  # no worker outlives the study

    run_study(SMALL, tmp_path, progress=False)
    after = contents(tmp_path)
    assert {name: after[name] for name in before} == before
    assert [path.name for path in stored(tmp_path)] == [path.name for path in stored(whole)]
    pd.testing.assert_frame_equal(numbers(tmp_path), numbers(whole))


def test_an_interrupted_study_ends_at_once(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", RUN.format(trials=200, folder=str(tmp_path))],
        start_new_session=True,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until(lambda: stored(tmp_path))
    os.killpg(process.pid, signal.SIGINT)
    assert "KeyboardInterrupt" in process.communicate(timeout=60)[1]
    assert len(stored(tmp_path)) < 100 and not list(tmp_path.glob(".*"))


def test_two_processes(whole: Path, tmp_path: Path) -> None:
    with process_pool(2) as pool:
        assert {
            pool.submit(os.getenv, name).result()
            for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
        } == {"1"}
        assert pool.submit(torch.get_num_threads).result() == 1
        files = run_study(SMALL[:6], tmp_path, pool, progress=False)
    assert files == [tmp_path / trial.file for trial in SMALL[:6]]
    expected = numbers(whole)
    pd.testing.assert_frame_equal(
        numbers(tmp_path), expected[expected["seed"] < 3].reset_index(drop=True)
    )


def test_a_trial_runs_on_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    class Spy(Cobalt):
        def ask(self, q: int | None = None) -> object:
            seen.append(torch.get_num_threads())
            return super().ask(q)

    seen: list[int] = []
    before = torch.get_num_threads()
    monkeypatch.setitem(
        METHODS,
        "cobalt",
        lambda place, seed: Spy(
            place.space,
            place.task.objective,
            place.task.constraints,
            n_init=place.n_init,
            seed=seed,
        ),
    )
    torch.set_num_threads(2)
    try:
        run_trial(replace(SMALL[0], budget=2))
        assert (seen, torch.get_num_threads()) == ([1, 1], 2)
    finally:
        torch.set_num_threads(before)


def test_a_worker_that_dies(tmp_path: Path) -> None:
    def kill_one(pool: object) -> None:
        wait_until(lambda: stored(tmp_path))
        os.kill(next(iter(pool._processes)), signal.SIGKILL)

    with (
        process_pool(2) as pool,
        pytest.raises(RuntimeError, match="the same call continues the study"),
    ):
        threading.Thread(target=kill_one, args=(pool,), daemon=True).start()
        run_study(SMALL, tmp_path, pool, progress=False)
    assert 0 < len(stored(tmp_path)) < len(SMALL)


def test_torn_temporary_files_are_ignored(whole: Path, tmp_path: Path) -> None:
    (tmp_path / ".abc.tmp").write_bytes(b"\x1f\x8b torn")
    (tmp_path / f".{SMALL[0].file}").write_bytes(b"")
    with ThreadPoolExecutor(1) as here:
        run_study(SMALL[:2], tmp_path, here, progress=False)
    expected = numbers(whole)
    pd.testing.assert_frame_equal(
        numbers(tmp_path), expected[expected["seed"] == 0].reset_index(drop=True)
    )


@pytest.mark.parametrize("method", ["cobalt", "cobalt-paper"])
def test_another_budget_is_refused(whole: Path, tmp_path: Path, method: str) -> None:
    """Also for a method that is not yet in the folder: its curves would stand beside the others'."""
    save(read(whole / SMALL[0].file), tmp_path)
    before = contents(tmp_path)
    with pytest.raises(
        ValueError,
        match="cobalt-0000.csv.gz was made with other settings: budget 12, where the study has 13. Use another folder",
    ):
        run_study(
            study("practical", ["rastrigin"], [method], trials=9, budget=13),
            tmp_path,
            progress=False,
        )
    assert contents(tmp_path) == before


def test_another_version_is_refused(whole: Path) -> None:
    code = (
        f"import cobalt_nb; cobalt_nb.__version__ = '99'; {RUN.format(trials=5, folder=str(whole))}"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.returncode and "cobalt-nb 0" in ran.stderr and "where the study has 99" in ran.stderr


def test_a_full_disk(whole: Path, tmp_path: Path) -> None:
    """A limit on the size of files stands for the disk: writing fails in the middle of a file."""
    limit = "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)); "
    code = f"{limit}from cobalt_nb.study.trials import save, read; save(read({str(stored(whole)[0])!r}), {str(tmp_path)!r})"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (
        ran.returncode
        and "could not be written: File too large; what was stored before is whole" in ran.stderr
    )
    assert not list(tmp_path.iterdir())


def test_dask_is_loaded_only_when_asked_for() -> None:
    code = "import sys, cobalt_nb.study.trials as e; assert 'distributed' not in sys.modules; sys.modules['distributed'] = None; e.dask_pool('tcp://127.0.0.1:1').__enter__()"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (
        'ImportError: a dask cluster needs the extra "dask": pip install "cobalt-nb[dask]"'
        in ran.stderr
    )


@pytest.fixture
def cluster() -> Iterator[object]:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    ) as cluster:
        yield cluster


def test_no_scheduler() -> None:
    pytest.importorskip("distributed")
    with pytest.raises(ConnectionError, match="no dask scheduler answers at 'tcp://127.0.0.1:1'"):
        reproduce(
            "practical",
            ["rastrigin"],
            ["cobalt"],
            folder="never",
            dask="tcp://127.0.0.1:1",
            quick=True,
            progress=False,
        )
    assert not Path("never").exists()


@pytest.mark.slow
def test_dask_loses_a_worker(whole: Path, tmp_path: Path, cluster: object) -> None:
    from distributed import Client

    def kill_one() -> None:
        with Client(cluster.scheduler_address) as client:
            wait_until(lambda: stored(tmp_path) and any(client.processing().values()))
            busy = next(worker for worker, tasks in client.processing().items() if tasks)
            killed.append(client.run(os.getpid, workers=[busy])[busy])
            os.kill(killed[0], signal.SIGKILL)

    killed: list[int] = []
    killer = threading.Thread(target=kill_one)
    killer.start()
    with dask_pool(cluster.scheduler_address) as pool:
        run_study(SMALL, tmp_path, pool, progress=False)
    killer.join()
    assert killed and not psutil.pid_exists(killed[0])
    assert [path.name for path in stored(tmp_path)] == [
        path.name for path in stored(whole)
    ]  # none lost, and `save` refuses a second
    pd.testing.assert_frame_equal(numbers(tmp_path), numbers(whole))


def test_dask_without_workers(cluster: object) -> None:
    cluster.scale(0)
    wait_until(lambda: not cluster.scheduler.workers)
    with (
        pytest.raises(ConnectionError, match="has no workers; start some with"),
        dask_pool(cluster.scheduler_address, patience=1),
    ):
        pass
