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
