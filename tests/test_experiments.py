"""Studies as processes: killed, resumed, spread over workers, refused."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pandas as pd
import psutil
import pytest
import torch

from cobalt_nb.optimizer import Cobalt
from cobalt_nb.study.runner import dask_pool, process_pool, reproduce, run_study, study
from cobalt_nb.study.store import load, read, save, stored_files
from cobalt_nb.study.trials import METHODS, Trial, run_trial


def trials_of(seeds: int) -> list[Trial]:
    """Short trials of two methods; a thousand seeds are more than any test waits for."""
    return study("practical", ["rastrigin"], ["cobalt", "cobalt-paper"], trials=seeds, budget=12)


SMALL, ENDLESS = trials_of(5), trials_of(1000)
RUN = (
    "from cobalt_nb.study.runner import run_study, study; "
    "trials = study('practical', ['rastrigin'], ['cobalt', 'cobalt-paper'], {seeds}, budget=12); "
    "run_study(trials, {folder!r}, progress=False)"
)


def numbers(folder: Path) -> pd.DataFrame:
    """All that is stored but the times, which no two runs share."""
    return load(folder).drop(columns="cpu_seconds")


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def of_small(results: pd.DataFrame) -> pd.DataFrame:
    """The rows of the small study in those of a longer one."""
    return results[results["seed"] < 5].reset_index(drop=True)


def wait_until(condition: Callable[[], object], seconds: float = 600.0) -> None:
    """Wait, however busy the machine is; the limit only ends a test that hangs."""
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


@contextmanager
def running(code: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A study too long to end by itself, as a process that has stored two trials."""
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        start_new_session=True,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell may ignore it
    )
    try:
        wait_until(lambda: len(stored_files(folder)) >= 2 or process.poll() is not None)
        assert process.poll() is None, process.communicate()[1]
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small study, run in this process without a break."""
    folder = tmp_path_factory.mktemp("whole")
    with ThreadPoolExecutor(1) as here:
        run_study(SMALL, folder, here, progress=False)
    return folder


@pytest.mark.slow
def test_a_killed_study_continues_with_the_same_numbers(whole: Path, tmp_path: Path) -> None:
    with running(RUN.format(seeds=1000, folder=str(tmp_path)), tmp_path) as process:
        workers = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        assert len(workers) >= 2
        wait_until(lambda: not any(map(is_alive, workers)))  # no worker outlives the study
        process.stderr.close()
    before = contents(tmp_path)
    assert 2 <= len(stored_files(tmp_path)) < len(ENDLESS)

    run_study(SMALL, tmp_path, progress=False)
    after = contents(tmp_path)
    assert {name: after[name] for name in before} == before
    assert {trial.file for trial in SMALL} <= {path.name for path in stored_files(tmp_path)}
    pd.testing.assert_frame_equal(of_small(numbers(tmp_path)), numbers(whole))


LONG = (
    "trials = study('practical', ['rastrigin'], ['cobalt'], 2, budget=8) "
    "+ study('practical', ['car'], ['random'], 40, budget=10**9); "
)
INTERRUPTED = (
    "import sys; import cobalt_nb.study.runner as runner; from cobalt_nb.cli import main; "
    "study = runner.study; " + LONG + "runner.study = lambda *settings: trials; "
    "sys.exit(main(['reproduce', 'practical', '--tasks', 'rastrigin', '--workers', '2', "
    "'--out', {folder!r}]))"
)


@pytest.fixture
def busy() -> Iterator[None]:
    """Two processes that leave little of the machine to others."""
    burning = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    yield
    for process in burning:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    "whom", ["the terminal's group", pytest.param("the study alone", marks=pytest.mark.slow)]
)
def test_an_interrupted_study_ends_at_once(whom: str, tmp_path: Path, busy: None) -> None:
    """Its trials would take days, so it ends only if it does not wait for them."""
    with running(INTERRUPTED.format(folder=str(tmp_path)), tmp_path) as process:
        workers = psutil.Process(process.pid).children(recursive=True)
        assert len(workers) >= 2
        (os.killpg if whom == "the terminal's group" else os.kill)(process.pid, signal.SIGINT)
        told = process.communicate(timeout=300)[1]
    assert process.returncode == 130
    assert told.splitlines()[-1].startswith("cobalt-nb: interrupted; what is stored is whole")
    assert "Traceback" not in told
    wait_until(lambda: not any(map(is_alive, workers)))
    assert len(stored_files(tmp_path)) == 2 and not list(tmp_path.glob(".*"))


def test_an_interrupt_stores_what_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C while the first of three finished trials is written: all three are kept."""

    def interrupted_once(*arguments: object) -> Path:
        monkeypatch.setattr("cobalt_nb.study.runner.save", save)
        raise KeyboardInterrupt

    class AtOnce(Executor):
        def submit(self, run: Callable[..., object], /, *arguments: object) -> Future:
            future: Future = Future()
            if len(submitted) < 3:
                future.set_result(run(*arguments))
            submitted.append(future)
            return future

    submitted: list[Future] = []
    monkeypatch.setattr("cobalt_nb.study.runner.save", interrupted_once)
    trials = [replace(trial, budget=2) for trial in SMALL[:5]]
    with pytest.raises(KeyboardInterrupt, match="3 of 5 trials are stored"):
        run_study(trials, tmp_path, AtOnce(), progress=False)
    assert {path.name for path in stored_files(tmp_path)} == {trial.file for trial in trials[:3]}
    assert [future.cancelled() for future in submitted] == [False] * 3 + [True] * 2


def never_end(file: str) -> None:
    """A worker that does not listen to a polite request."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    Path(file).touch()
    while True:
        time.sleep(1)


def test_a_worker_that_ignores_its_end_is_killed(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), process_pool(2, grace=0.5) as pool:
        for name in "ab":
            pool.submit(never_end, str(tmp_path / name))
        wait_until(lambda: len(list(tmp_path.iterdir())) == 2)
        workers = [psutil.Process(number) for number in pool._processes]
        raise KeyboardInterrupt
    assert len(workers) == 2 and not any(map(is_alive, workers))


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
        wait_until(lambda: stored_files(tmp_path))
        os.kill(next(iter(pool._processes)), signal.SIGKILL)

    with (
        process_pool(2) as pool,
        pytest.raises(RuntimeError, match="the same call continues the study"),
    ):
        threading.Thread(target=kill_one, args=(pool,), daemon=True).start()
        run_study(ENDLESS, tmp_path, pool, progress=False)
    assert 0 < len(stored_files(tmp_path)) < len(ENDLESS)


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
    """Also for a method that is not yet in the folder: its curves would stand beside others."""
    save(read(whole / SMALL[0].file), tmp_path)
    before = contents(tmp_path)
    told = "was made with other settings: budget 12, where the study has 13. Use another folder"
    with pytest.raises(ValueError, match=f"cobalt-0000.csv.gz {told}"):
        run_study(
            study("practical", ["rastrigin"], [method], trials=9, budget=13),
            tmp_path,
            progress=False,
        )
    assert contents(tmp_path) == before


def test_another_version_is_refused(whole: Path) -> None:
    run = RUN.format(seeds=5, folder=str(whole))
    code = f"import cobalt_nb; cobalt_nb.__version__ = '99'; {run}"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.returncode and "cobalt-nb 0" in ran.stderr and "where the study has 99" in ran.stderr


def test_a_full_disk(whole: Path, tmp_path: Path) -> None:
    """A limit on the size of files stands for the disk: writing fails in the middle of a file."""
    limit = (
        "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)); "
    )
    source, target = str(stored_files(whole)[0]), str(tmp_path)
    store = f"from cobalt_nb.study.store import save, read; save(read({source!r}), {target!r})"
    code = limit + store
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (
        ran.returncode
        and "could not be written: File too large; what was stored before is whole" in ran.stderr
    )
    assert not list(tmp_path.iterdir())


def test_dask_is_loaded_only_when_asked_for() -> None:
    code = (
        "import sys, cobalt_nb.study.runner as runner; "
        "assert 'distributed' not in sys.modules; sys.modules['distributed'] = None; "
        "runner.dask_pool('tcp://127.0.0.1:1').__enter__()"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (
        'ImportError: a dask cluster needs the extra "dask": pip install "cobalt-nb[dask]"'
        in ran.stderr
    )


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


def test_dask_without_workers() -> None:
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=0, dashboard_address=None) as cluster,
        pytest.raises(ConnectionError, match="has no workers; start some with"),
        dask_pool(cluster.scheduler_address, patience=1),
    ):
        pass
