"""What may happen to a journal: torn lines, two writers, full disks, Ctrl-C. Nothing is lost."""

import copy
import errno
import gc
import json
import math
import multiprocessing
import os
import resource
import signal
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import test_golden
from test_golden import NAMES, replay

from cobalt_nb import Box, Cobalt, Pool, Query, minimize
from cobalt_nb.journal import Journal, TornLine
from cobalt_nb.plots import plot_certificate

FORK = multiprocessing.get_context("fork")
SPACE, LIMITS = Box({"x": (0.0, 1.0)}), {"c": (0.0, None)}
slow = pytest.mark.slow
long = [slow, pytest.mark.long]  # more of the same


def functions(p: dict[str, Any]) -> dict[str, float]:
    return {"f": math.sin(5 * p["x"]), "c": math.cos(4 * p["x"])}


def new(path: Path, **settings: Any) -> Cobalt:
    return Cobalt(SPACE, "f", LIMITS, noise=0.0, journal=path, **settings)


def go_on(opt: Cobalt, evaluations: int = 5) -> None:
    while len(opt.archive) < evaluations:
        query = opt.ask()
        opt.tell(query, functions(query.x))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A short journal, with queries of the design and of the models."""
    path = tmp_path_factory.mktemp("whole") / "run.jsonl"
    with new(path) as opt:
        go_on(opt)
    return path.read_bytes()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.jsonl"


# Torn lines


def offsets(raw: bytes, step: int) -> list[int]:
    ends = [i for i, byte in enumerate(raw) if byte == ord("\n")]
    near = {end + d for end in ends for d in (-1, 0, 1, 2)}
    return sorted(near & set(range(len(raw))) | set(range(0, len(raw), step)))


@pytest.mark.filterwarnings("ignore::cobalt_nb.journal.TornLine")
@pytest.mark.parametrize("step", [211, pytest.param(1, marks=long)])
def test_a_journal_torn_anywhere_loads_unchanged_and_goes_on(
    whole: bytes, path: Path, step: int
) -> None:
    """The whole lines before are there, reading writes nothing, and the run repeats to the byte."""
    first = whole.index(b"\n") + 1
    for cut in offsets(whole, step):
        path.write_bytes(whole[:cut])
        if cut < first:
            assert not Journal(path).begun()
            with pytest.raises(ValueError, match="holds no run yet"):
                Cobalt.load(path)
            assert path.read_bytes() == whole[:cut]
            opt = new(path)
        else:
            opt = Cobalt.load(path)
            assert path.read_bytes() == whole[:cut]
            assert len(opt.archive) == whole[:cut].count(b'{"tell"', 0, whole.rfind(b"\n", 0, cut))
        if step > 1 or cut % 10 == 0:
            go_on(opt)
            assert path.read_bytes() == whole, cut
        opt.close()


def test_a_torn_line_is_reported(whole: bytes, path: Path) -> None:
    path.write_bytes(whole[:-1])
    with pytest.warns(TornLine, match="its writer died, or is just writing it"):
        Cobalt.load(path)


@pytest.mark.parametrize(
    "text", ['{\n "cells": []\n}', "years of work", '{"cells": []}\n', "\x00\x01", "[1]\nx"]
)
def test_a_file_that_is_no_journal_is_refused_untouched(path: Path, text: str) -> None:
    path.write_text(text)
    attempts: list[Callable[[], Any]] = [
        lambda: new(path),
        lambda: Cobalt.load(path),
        lambda: Journal(path).begun(),
        lambda: plot_certificate(path),
        lambda: minimize(functions, SPACE, "f", LIMITS, budget=3, journal=path, progress=False),
    ]
    for attempt in attempts:
        with pytest.raises(ValueError, match="does not begin like a journal"):
            attempt()
        assert path.read_text() == text


def test_what_editors_do_is_survived(whole: bytes, tmp_path: Path) -> None:
    crlf, mark, link = (tmp_path / name for name in ("crlf", "mark", "link"))
    crlf.write_bytes(whole.replace(b"\n", b"\r\n"))
    mark.write_bytes(b"\xef\xbb\xbf" + whole)
    (tmp_path / "target").write_bytes(whole)
    link.symlink_to(tmp_path / "target")
    for file in (crlf, mark, link):
        opt = Cobalt.load(file)
        assert len(opt.archive) == 5
        go_on(opt, 6)
        opt.close()
        assert len(Cobalt.load(file).archive) == 6
    assert link.is_symlink()


def test_the_home_folder_is_expanded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with new(Path("~/runs/a.jsonl")) as opt:
        opt.ask()
    assert len(Cobalt.load("~/runs/a.jsonl").unanswered) == 1
    assert (tmp_path / "runs" / "a.jsonl").exists()


@pytest.mark.parametrize(
    "line, sentence",
    [
        ("nonsense", "line 3 is not a line of a journal"),
        ('{"wish": {}}', "line 3: an event is one of ask, tell, withdraw"),
        ('{"tell": {"x": {"x": 0.5}, "values": {"g": 1.0}}}', "line 3: unknown function 'g'"),
        ('{"tell": {"x": {"x": 7.0}, "values": {}}}', "line 3: parameter 'x': 7 is outside"),
        ('{"tell": {"x": {"x": 0.5}}}', "line 3: 'tell' has no 'values'"),
        ('{"withdraw": {"x": {"x": 0.5}, "functions": ["f"]}}', "line 3: no query for f"),
    ],
)
def test_a_faulty_line_is_named(whole: bytes, path: Path, line: str, sentence: str) -> None:
    lines = whole.decode().splitlines()
    path.write_text("\n".join([*lines[:2], line, *lines[2:], ""]))
    with pytest.raises(ValueError, match=sentence):
        Cobalt.load(path)


@pytest.mark.parametrize(
    "change, sentence",
    [
        ({"format": 3}, "use a newer one"),
        ({"settings": {"seed": 1}}, "line 1"),
        ({"space": {"heap": {}}}, "line 1"),
        ({"policy": {"luck": 1}}, "line 1: the policy has no 'luck'"),
    ],
)
def test_a_faulty_header_is_named(whole: bytes, path: Path, change: dict, sentence: str) -> None:
    first, *rest = whole.decode().splitlines()
    path.write_text("\n".join([json.dumps(json.loads(first) | change), *rest, ""]))
    with pytest.raises(ValueError, match=sentence):
        Cobalt.load(path)


# One writer


def test_a_second_writer_is_refused_and_a_reader_is_not(path: Path) -> None:
    opt = new(path)
    query = opt.ask()
    second = Cobalt.load(path)
    assert second.unanswered == [query] and second.result  # reading is free
    with pytest.raises(RuntimeError, match="is being written by another optimiser"):
        second.tell(query, functions(query.x))
    assert len(second.archive) == 0 and second.pending == [query]
    opt.tell(query, functions(query.x))
    opt.close()
    with pytest.raises(RuntimeError, match="was changed by somebody else.* reload it"):
        second.tell(query, functions(query.x))
    third = Cobalt.load(path)
    go_on(third, 2)
    with pytest.raises(RuntimeError, match="is being written by another optimiser"):
        opt.ask()
    del third
    gc.collect()
    go_on(Cobalt.load(path), 3)
    assert len(Cobalt.load(path).archive) == 3


def test_copies_have_no_journal(path: Path) -> None:
    opt = new(path)
    go_on(opt, 3)
    raw = path.read_bytes()
    for twin in (copy.deepcopy(opt), copy.copy(opt)):
        assert twin.journal is None
    twin = copy.deepcopy(opt)
    go_on(twin, 5)
    assert path.read_bytes() == raw and len(opt.archive) == 3
    go_on(opt, 5)
    pd.testing.assert_frame_equal(opt.archive.frame(), twin.archive.frame())


def in_child(act: Callable[[], Any]) -> str:
    """What a forked process says when it does this."""
    answers = FORK.SimpleQueue()

    def child() -> None:
        try:
            answers.put(f"did {act()}")
        except Exception as error:
            answers.put(str(error))

    process = FORK.Process(target=child)
    process.start()
    process.join(60)
    assert process.exitcode == 0
    return answers.get()


def test_a_fork_does_not_write_for_its_parent(path: Path) -> None:
    opt = new(path)
    raw = path.read_bytes()
    assert f"is written by process {os.getpid()}, from which this one was forked" in in_child(
        opt.ask
    )
    assert in_child(lambda: copy.deepcopy(opt).ask() and "asked").startswith("did")
    assert path.read_bytes() == raw
    go_on(opt, 2)


def test_the_lock_of_a_dead_parent_is_free(path: Path) -> None:
    """Even if a child of the writer lives on."""
    alive, ready = FORK.Event(), FORK.Event()

    def parent() -> None:
        opt = new(path)
        opt.ask()
        if os.fork() == 0:
            ready.set()
            alive.wait(60)
            os._exit(0)
        os.kill(os.getpid(), signal.SIGKILL)

    process = FORK.Process(target=parent)
    process.start()
    assert ready.wait(60)
    process.join()
    try:
        go_on(Cobalt.load(path), 2)
    finally:
        alive.set()


def create(path: Path, start: Any, made: Any) -> None:
    start.wait()
    try:
        opt = new(path)
        opt.ask()
        made.put(True)
    except (FileExistsError, RuntimeError):
        made.put(False)


@pytest.mark.parametrize("times", [10, pytest.param(200, marks=long)])
def test_of_two_who_begin_at_once_one_does(tmp_path: Path, times: int) -> None:
    for i in range(times):
        path, start, made = tmp_path / str(i), FORK.Barrier(2), FORK.SimpleQueue()
        both = [FORK.Process(target=create, args=(path, start, made)) for _ in range(2)]
        for process in both:
            process.start()
        for process in both:
            process.join(60)
        assert 1 <= sum([made.get(), made.get()])  # the first may be done when the second begins
        assert len(Cobalt.load(path).unanswered) == 1


def write_on(path: Path, n: int) -> None:
    with new(path, n_init=10 * n) as opt:
        go_on(opt, n)


@pytest.mark.filterwarnings("ignore::cobalt_nb.journal.TornLine")
def test_readers_beside_a_writer_cut_nothing(path: Path) -> None:
    writer = FORK.Process(target=write_on, args=(path, 150))
    writer.start()
    loads = 0
    while writer.is_alive():
        if Journal(path).begun():
            Cobalt.load(path)
            loads += 1
    writer.join()
    assert writer.exitcode == 0 and loads > 3
    assert len(Cobalt.load(path).archive) == 150


def test_a_journal_that_is_moved_away_is_missed(path: Path) -> None:
    opt = new(path)
    query = opt.ask()
    path.rename(path.with_name("moved"))
    with pytest.raises(RuntimeError, match="was moved, replaced or deleted"):
        opt.tell(query, functions(query.x))
    assert not path.exists() and len(opt.archive) == 0
    path.with_name("moved").rename(path)
    opt.tell(query, functions(query.x))
    opt.close()
    assert len(Cobalt.load(path).archive) == 1


# Refused writes


@pytest.mark.parametrize("step", [41, pytest.param(1, marks=long)])
def test_a_disk_that_fills_up_loses_nothing(path: Path, step: int) -> None:
    """Room for some bytes of the next line, from none to all but one."""
    opt = new(path)
    go_on(opt, 3)
    query, raw = opt.ask(), path.read_bytes()
    raw, (_, hard) = path.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    line = len(json.dumps({"tell": {"x": query.x, "values": functions(query.x)}})) + 1
    for room in range(0, line, step):
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(raw) + room, hard))
        try:
            with pytest.raises(OSError):
                opt.tell(query, functions(query.x))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        assert path.read_bytes() == raw
        assert len(opt.archive) == 3 and opt.pending == [query]
    opt.tell(query, functions(query.x))
    opt.close()
    assert len(Cobalt.load(path).archive) == 4


@pytest.mark.parametrize("call", ["write", "fsync"])
@pytest.mark.parametrize("fault", [OSError(errno.EIO, "broken"), KeyboardInterrupt()])
def test_a_tell_that_is_refused_can_be_told_again(
    monkeypatch: pytest.MonkeyPatch, path: Path, call: str, fault: BaseException
) -> None:
    opt = new(path)
    go_on(opt, 4)
    query, real = opt.ask(), getattr(os, call)
    raw = path.read_bytes()

    def broken(*arguments: Any) -> None:
        real(*arguments)  # all is written, and then
        raise fault

    with monkeypatch.context() as patch:
        patch.setattr(os, call, broken)
        with pytest.raises(type(fault)):
            opt.tell(query, functions(query.x))
        with pytest.raises(type(fault)):
            opt.ask()
    assert path.read_bytes() == raw and len(opt.archive) == 4 and opt.pending == [query]
    opt.tell(query, functions(query.x))
    go_on(opt, 6)
    opt.close()
    pd.testing.assert_frame_equal(Cobalt.load(path).archive.frame(), opt.archive.frame())
    undisturbed = new(path.with_name("undisturbed"))
    go_on(undisturbed, 6)
    pd.testing.assert_frame_equal(undisturbed.archive.frame(), opt.archive.frame())


def test_a_read_only_disk_can_be_read(
    monkeypatch: pytest.MonkeyPatch, whole: bytes, path: Path
) -> None:
    path.write_bytes(whole[:-30])
    path.chmod(0o444)
    real = os.open

    def read_only(name: Any, flags: int, *rest: Any, **options: Any) -> int:
        if flags & (os.O_RDWR | os.O_WRONLY):
            raise OSError(errno.EROFS, "Read-only file system", str(name))
        return real(name, flags, *rest, **options)

    monkeypatch.setattr(os, "open", read_only)
    with pytest.warns(TornLine):
        opt = Cobalt.load(path)
    assert len(opt.archive) == 4 and opt.result().value
    query = opt.ask()  # which was asked before, so nothing is written
    with pytest.raises(OSError, match="Read-only"):
        opt.tell(query, functions(query.x))
    assert len(opt.archive) == 4 and path.read_bytes() == whole[:-30]


# Every prefix


def line_run(seed: int, path: Path) -> Cobalt:
    """A run over a line that soon runs out of interesting candidates, in batches."""
    line = Pool(np.random.default_rng(seed).random((60, 1)))
    opt = Cobalt(line, "f", {"c": (0.0, None)}, noise=0.0, seed=seed, journal=path)
    while len(opt.archive) < 16:
        batch = opt.ask(1 + seed % 3)
        for query in reversed(batch):
            x = query.x["x0"]
            opt.tell(query, {"f": math.sin(6 * x + seed), "c": math.cos(5 * x + 2 * seed)})
    return opt


def golden_run(name: str, budget: int) -> Callable[[Path], Cobalt]:
    def run(path: Path) -> Cobalt:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(test_golden, "BUDGET", budget)
            return replay(name, path)

    return run


def spied(run: Callable[[Path], Cobalt], path: Path) -> list[Query]:
    """Every query of a run, in order."""
    given, real = [], Cobalt._next
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Cobalt, "_next", lambda self: given.append(real(self)) or given[-1])
        run(path).close()
    return given


SHORT = ("pool-practical-cpl-n0-max-q4", "box-practical-dec-n0.1-min-q4")
RUNS = [pytest.param(golden_run(name, 12), id=f"short-{name}") for name in SHORT]
RUNS += [pytest.param(lambda path, s=s: line_run(s, path), id=f"line-{s}") for s in range(6)]
RUNS += [pytest.param(golden_run(name, 40), id=name, marks=slow) for name in NAMES]


@pytest.mark.parametrize("run", RUNS)
def test_every_prefix_goes_on_as_the_run_did(run: Callable[[Path], Cobalt], path: Path) -> None:
    """What was asked and not told is handed out again; then comes what came then."""
    given = spied(run, path)
    lines = path.read_text().splitlines(keepends=True)
    part = path.with_name("part.jsonl")
    for keep in range(1, len(lines)):
        part.write_text("".join(lines[:keep]))
        with Cobalt.load(part) as opt:
            asked = [line.startswith('{"ask"') for line in lines[:keep]].count(True)
            told = [line.startswith('{"tell"') for line in lines[:keep]].count(True)
            assert len(opt.archive) == told and len(opt.unanswered) == asked - told
            again = opt.ask(asked - told) if asked > told else []
            assert set(map(repr, again)) <= set(map(repr, given[:asked]))
            assert part.read_text() == "".join(lines[:keep])  # nothing new was asked
            if lines[keep].startswith('{"ask"'):
                assert repr(opt.ask()) == repr(given[asked])  # NaN equals NaN
                assert part.read_text() == "".join(lines[: keep + 1])


# Ctrl-C


def interrupted(n: int, act: Callable[[], Any]) -> bool:
    """Press Ctrl-C at the n-th call or return within; whether there were so many."""
    left, pressed = iter(range(n)), list[bool]()

    def profile(*_: Any) -> None:
        if next(left, None) is None:
            pressed.append(True)
            raise KeyboardInterrupt

    try:
        sys.setprofile(profile)
        act()
        sys.setprofile(None)
    except BaseException:  # compiled code may swallow it and fail in a way of its own
        if not pressed:
            raise
        return True
    return False


def spread(kind: str) -> Box | Pool:
    return SPACE if kind == "box" else Pool({"x": np.linspace(0, 1, 80)})


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("kind", ["pool", "box"])
@pytest.mark.parametrize("decoupled", [False, True])
@pytest.mark.parametrize("moments", [25, pytest.param(120, marks=long)])
def test_an_ask_that_is_interrupted_is_made_again(
    path: Path, kind: str, decoupled: bool, moments: int
) -> None:
    """At moments spread over the ask; the next one is what would have come, after a load too."""
    opt = Cobalt(spread(kind), "f", LIMITS, noise=0.0, decoupled=decoupled, journal=path)
    for _ in range(12):
        query = opt.ask()
        opt.tell(query, {name: functions(query.x)[name] for name in query.functions})
    opt.ask()  # pending
    opt.close()
    raw, twin = path.read_bytes(), copy.deepcopy(opt)
    expected = copy.deepcopy(twin).ask(3)
    counted, other = iter(range(10**9)), copy.deepcopy(twin)
    sys.setprofile(lambda *_: next(counted))
    other.ask()
    sys.setprofile(None)
    calls, seen = next(counted), 0
    for n in np.linspace(1, calls, moments).astype(int).tolist():
        path.write_bytes(raw)
        opt = Cobalt.load(path)
        opt.ask()  # the pending one
        found: list[Query] = []
        seen += interrupted(n, lambda: found.append(opt.ask()))
        found += opt.ask(3 - len(found))
        assert found == expected, n
        opt.close()
        again = Cobalt.load(path)
        assert again.pending == opt.pending and again.pending[1:] == expected
        again.close()
    assert seen > moments / 2


def test_a_batch_that_is_interrupted_is_handed_out_again(path: Path) -> None:
    opt = new(path)
    go_on(opt, 4)
    expected, real, made = copy.deepcopy(opt).ask(4), Cobalt._suggested, []

    def third(self: Cobalt) -> Any:
        made.append(1)
        if len(made) == 3:
            raise KeyboardInterrupt
        return real(self)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Cobalt, "_suggested", third)
        opt.ask(4)
    assert opt.unanswered == opt.pending == expected[:2]
    assert opt.ask(4) == expected and opt.unanswered == []


# Values that JSON does not have


def test_numbers_of_numpy_come_back(path: Path) -> None:
    labels, sizes = [(1, "a"), (2, "b")], {"labels": [np.int64(7), np.float32(0.5)]}
    space = Box({"x": (0.0, 1.0), "label": labels, "size": sizes, "on": [np.True_, np.False_]})
    options = {"seed": np.int64(3), "noise": {"f": np.float32(0.1)}, "beta": np.float64(2.0)}
    opt = Cobalt(space, "f", {"c": (np.float32(0.0), None)}, journal=path, **options)
    for _ in range(8):
        query = opt.ask()
        opt.tell(query.x, {name: np.float32(v) for name, v in functions(query.x).items()})
    x = {"x": Decimal("0.25"), "label": (1, "a"), "size": 7, "on": True}
    opt.tell(x, {"f": 1.0, "c": None, "who": "me"}, 0.5)
    opt.close()
    again, twin = Cobalt.load(path), copy.deepcopy(opt)
    assert again.settings == opt.settings
    for part in ("points", "values", "errors", "extras", "failures"):
        assert repr(getattr(again.archive, part)) == repr(getattr(opt.archive, part))
    assert again.archive.failures[-1] == {"c"} and again.archive.extras[-1] == {"who": "me"}
    assert again.ask(2) == twin.ask(2)


@pytest.mark.parametrize(
    "space",
    [
        Box({"when": [pd.Timestamp("2020-01-01"), pd.Timestamp("2020-01-02")]}),
        Box({"price": [Decimal("0.1"), Decimal("0.2"), Decimal("0.3")]}),
        Pool(pd.DataFrame({"when": pd.date_range("2020-01-01", periods=3)})),
    ],
)
def test_what_cannot_come_back_is_refused_before_anything_is_spent(
    path: Path, space: Box | Pool
) -> None:
    Cobalt(space, "f").ask()  # without a journal all is well
    with pytest.raises(ValueError, match="a journal holds texts, numbers"):
        Cobalt(space, "f", journal=path)
    assert not path.exists()


# Withdrawn


def test_a_withdrawn_query_is_not_pending(path: Path) -> None:
    opt = new(path)
    go_on(opt, 4)
    first, second = opt.ask(2)
    opt.withdraw(first)
    assert opt.pending == [second]
    with pytest.raises(ValueError, match="no query for f, c is pending"):
        opt.withdraw(first)
    opt.close()
    again = Cobalt.load(path)
    assert again.pending == again.unanswered == [second]
    assert json.loads(path.read_text().splitlines()[-1]) == {
        "withdraw": {"x": first.x, "functions": ["f", "c"]}
    }
    again.withdraw(second)
    assert again.pending == again.unanswered == []


def test_release_010_forgot_what_was_pending(whole: bytes, path: Path) -> None:
    """A query that it asked again after a load is one query."""
    old: list[str] = []
    for line in whole.decode().splitlines():
        event = json.loads(line)
        event.pop("format", None)
        for key in ("functions", "value", "roi_share", "gap"):
            event.get("ask", {}).pop(key, None)
        old += [json.dumps(event)] * (2 if "ask" in event else 1)
    path.write_text("\n".join([*old, ""]))
    opt = Cobalt.load(path)
    assert opt.pending == [] and len(opt.archive) == 5
    path.write_text("\n".join([*old[:-1], ""]))
    (query,) = Cobalt.load(path).unanswered
    assert math.isnan(query.gap) and query.functions == ("f", "c")


def test_words_for_an_optimiser() -> None:
    opt = Cobalt(SPACE, "f", LIMITS)
    opt.tell({"x": 0.5}, {"f": 1.0})
    opt.ask(2)
    assert repr(opt) == "Cobalt(maximise f over Box(x), 1 evaluation, 2 pending)"
