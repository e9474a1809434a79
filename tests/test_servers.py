"""Where one machine is not enough: a study of Optuna on PostgreSQL, a study of ours on dask.

Both are real: a server, four workers that are processes, and one of them killed in the middle.
"""

from __future__ import annotations

import json
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
import optuna
import pandas as pd
import pytest
from optuna.trial import TrialState

from cobalt_nb.optuna import CobaltSampler
from cobalt_nb.study.store import load, stored_files

pytestmark = pytest.mark.slow
NOTEBOOKS = Path(__file__).parent.parent / "nbs"


def wait_until(condition: Callable[[], object], seconds: float = 600.0) -> None:
    """Wait, however busy the machine is; the limit only ends a test that hangs."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.05)


@contextmanager
def ended(processes: list[subprocess.Popen]) -> Iterator[list[subprocess.Popen]]:
    """Processes of which none is left after the block."""
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.wait(timeout=60)


def reproduce(folder: Path, *options: str) -> subprocess.Popen:
    """The command, on six short trials of each of two methods."""
    what = ["practical", "--tasks", "rastrigin", "--methods", "cobalt", "cobalt-paper"]
    size = ["--quick", "--trials", "6", "--out", str(folder)]
    code = "import sys; from cobalt_nb.cli import main; sys.exit(main())"
    return subprocess.Popen([sys.executable, "-c", code, "reproduce", *what, *size, *options])


def test_a_study_on_dask_loses_a_worker(tmp_path: Path) -> None:
    """Four workers, one killed while it computes: the numbers are those of a run without dask."""
    distributed = pytest.importorskip("distributed")
    spread, alone = tmp_path / "spread", tmp_path / "alone"
    processes = {"n_workers": 4, "threads_per_worker": 1, "processes": True}
    with (
        distributed.LocalCluster(**processes, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
        ended([reproduce(spread, "--dask", cluster.scheduler_address)]) as [study],
    ):
        wait_until(lambda: stored_files(spread) or study.poll() is not None)
        numbers = client.run(os.getpid)
        assert len(set(numbers.values())) == 4
        busy = next(worker for worker, tasks in client.processing().items() if tasks)
        assert study.poll() is None and len(stored_files(spread)) < 12
        os.kill(numbers[busy], signal.SIGKILL)
        assert study.wait(timeout=600) == 0
        assert numbers[busy] not in client.run(os.getpid).values()
    with ended([reproduce(alone, "--workers", "2")]) as [study]:
        assert study.wait(timeout=600) == 0
    names = [[path.name for path in stored_files(folder)] for folder in (spread, alone)]
    assert names[0] == names[1] and len(set(names[0])) == len(names[0]) == 12
    kept = [load(folder).drop(columns="cpu_seconds") for folder in (spread, alone)]
    assert not kept[0].duplicated(["task", "method", "seed", "iteration"]).any()
    pd.testing.assert_frame_equal(*kept)


def postgres_programs() -> Path:
    """The folder of PostgreSQL's programs, which Debian keeps out of the path."""
    found = shutil.which("initdb")
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not found and not folders:
        pytest.skip("there is no PostgreSQL server here; on Debian: apt-get install postgresql")
    return Path(found).parent if found else folders[-1]


def unprivileged() -> dict[str, Any]:
    """How `subprocess` starts a server, which refuses to be run by root."""
    if os.getuid():
        return {}
    users = {user.pw_name: user for user in pwd.getpwall()}
    user = users.get("postgres") or users.get("nobody")
    if user is None:
        pytest.skip("PostgreSQL refuses root, and there is neither a postgres nor a nobody")
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def postgres() -> Iterator[str]:
    """The URL of an empty database, as the tutorial makes it, on a server of this test's own."""
    psycopg = pytest.importorskip("psycopg")
    programs, options, folder = postgres_programs(), unprivileged(), Path(tempfile.mkdtemp())
    password, port = secrets.token_hex(8), free_port()
    (folder / "password").write_text(password)
    if options:
        for path in (folder, folder / "password"):
            os.chown(path, options["user"], options["group"])
    safe = ["-A", "scram-sha-256", "-U", "admin", f"--pwfile={folder / 'password'}"]
    make = [programs / "initdb", "-D", folder / "data", "--no-locale", "-E", "UTF8", "-N", *safe]
    settings = {"listen_addresses": "127.0.0.1", "port": port, "unix_socket_directories": ""}
    start = [programs / "postgres", "-D", folder / "data"]
    start += [f"--{name}={value}" for name, value in settings.items()]
    options |= {"cwd": folder, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    admin = {"host": "127.0.0.1", "port": port, "user": "admin", "password": password}

    def answers() -> bool:
        assert server.poll() is None, server.stderr.read().decode()
        try:
            with psycopg.connect(**admin, dbname="postgres", autocommit=True) as connection:
                connection.execute(f"CREATE USER optuna PASSWORD '{password}'")
                connection.execute("CREATE DATABASE designs OWNER optuna")
        except psycopg.OperationalError:
            return False
        return True

    made = subprocess.run(make, **options, timeout=120)
    assert made.returncode == 0, made.stderr.decode()
    server = subprocess.Popen(start, **options)
    with ended([server]):
        wait_until(answers, seconds=60)
        yield f"postgresql+psycopg://optuna:{password}@127.0.0.1:{port}/designs"
        server.send_signal(signal.SIGINT)  # PostgreSQL's fast shutdown
        server.wait(timeout=60)
    shutil.rmtree(folder)


def tutorial(*names: str) -> list[str]:
    """Texts of the tutorial on workers: what is tested is what is shown."""
    cells = nbformat.read(NOTEBOOKS / "tutorials/h_optuna_workers.ipynb", as_version=4).cells
    found: dict[str, Any] = {}
    for name in names:
        [cell] = [cell for cell in cells if cell.source.startswith(f"{name} = textwrap.dedent(")]
        exec("import textwrap\n" + cell.source.split('""")')[0] + '""")', found)
    return [found[name] for name in names]


NOTE = """
import json, os

def note(trial, value, stress, bend):
    known = {"number": trial.number, "worker": os.getpid(), "params": trial.params}
    told = {"value": value, "constraints": {"stress": stress - 40_000.0, "bend": bend - 2.2535}}
    with open("evaluations", "a") as file:
        file.write(json.dumps(known | told) + "\\n")
"""


def write_scripts(folder: Path) -> None:
    """The tutorial's scripts; a note of each evaluation is added, and a longer grace."""
    worker, shared = tutorial("WORKER", "SHARED")
    sleep, grace = "    time.sleep(", "grace_period=5"
    assert worker.count(sleep) == shared.count(grace) == 1
    noted = worker.replace(sleep, f"    note(trial, w * h, stress, bend);{sleep}")
    (folder / "worker.py").write_text("from note import note\n" + noted)
    (folder / "shared.py").write_text(shared.replace(grace, "grace_period=15"))
    (folder / "note.py").write_text(NOTE)


def test_a_study_on_postgres_loses_a_worker(postgres: str, tmp_path: Path) -> None:
    """Four workers, one killed while it evaluates; a fifth brings the study to its 40 trials."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    write_scripts(tmp_path)
    study = optuna.create_study(study_name="beam", storage=postgres)
    run = [sys.executable, "worker.py", postgres]
    work = lambda trials, seconds: subprocess.Popen([*run, str(trials), seconds], cwd=tmp_path)
    state = lambda number: study.trials[number].state

    def notes() -> list[dict[str, Any]]:
        return [json.loads(line) for line in (tmp_path / "evaluations").read_text().splitlines()]

    def caught() -> int | None:
        """The number of the trial that the victim evaluates; it stands still if there is one."""
        assert victim.poll() is None
        victim.send_signal(signal.SIGSTOP)
        mine = [note["number"] for note in notes() if note["worker"] == victim.pid]
        if len(mine) > 2 and state(mine[-1]) == TrialState.RUNNING:
            return mine[-1]
        victim.send_signal(signal.SIGCONT)
        return None

    (tmp_path / "evaluations").touch()
    with ended([work(1000, "1.0"), *(work(8, "0.2") for _ in range(3))]) as workers:
        victim, found = workers[0], []
        wait_until(lambda: (number := caught()) is not None and not found.append(number))
        [dead] = found
        victim.kill()
        grace = time.monotonic() + 16  # more than the 15 s that the workers grant
        before = {trial.number: trial for trial in study.trials if trial.state.is_finished()}
        assert len(before) >= 2
        assert [process.wait(timeout=600) for process in workers] == [-signal.SIGKILL, 0, 0, 0]
    finished = [trial for trial in study.trials if trial.state == TrialState.COMPLETE]
    time.sleep(max(0.0, grace - time.monotonic()))
    with ended([work(40 - len(finished), "0")]) as [last]:
        assert last.wait(timeout=600) == 0

    trials, noted = study.trials, {note["number"]: note for note in notes()}
    assert all(trials[number] == trial for number, trial in before.items())
    assert len(notes()) == len(noted) == len(trials) == 41  # each trial was evaluated once
    for trial in trials:  # what was told is there as it was computed, to the last bit
        assert trial.params == noted[trial.number]["params"]
        assert trial.value == (noted[trial.number]["value"] if trial.number != dead else None)
        assert trial.constraints in ({}, noted[trial.number]["constraints"])
        assert bool(trial.constraints) == (trial.number != dead)
    assert [trial.number for trial in trials if trial.state != TrialState.COMPLETE] == [dead]
    assert trials[dead].state == TrialState.FAIL
    finished = [trial for trial in trials if trial.state == TrialState.COMPLETE]
    points = [tuple(sorted(trial.params.items())) for trial in finished]
    assert len(set(points)) == 40  # no two of them are the same point
    assert tuple(sorted(trials[dead].params.items())) in points  # and the lost one was repeated
    assert len({note["worker"] for note in noted.values()}) == 5
    assert 7.82 < study.best_value < 8.2 and max(study.best_trial.constraints.values()) <= 0
    known = CobaltSampler(["stress", "bend"], seed=0).memory(study).opt.archive
    assert len(known) == 40 and not known.failed().any()
