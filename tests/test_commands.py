"""The commands for problems in files, as processes and as calls: killed, shared, mistyped."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest

from cobalt_nb import Cobalt, Result
from cobalt_nb.cli import main

COMMAND = [sys.executable, "-m", "cobalt_nb"]
PROBLEM = """
[space]
x = [0.0, 1.0]
coils = [1, 4, "int"]
steel = { labels = ["NA", "EU", "1"] }
[objective]
minimize = "mass"
[constraints]
stress = { max = 1.5 }
[evaluate]
command = "python -S simulate.py {x} {coils} {steel}"
timeout = 20
[run]
budget = 7
tol = "none"
"""
SIMULATION = """
import os, sys, time
x, coils, steel = float(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
with open("log", "a") as log:
    log.write(f"begin {time.time()} {os.getpid()}\\n")
time.sleep(float(os.environ.get("PAUSE", 0)))
print(f"mass={x + coils / 4 + len(steel)}\\nstress={2 - x}")
with open("log", "a") as log:
    log.write(f"end {time.time()}\\n")
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "coil.toml").write_text(PROBLEM)
    (tmp_path / "simulate.py").write_text(SIMULATION)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def started(*args: str, pause: float = 0.0) -> subprocess.Popen[str]:
    env = os.environ | {"PAUSE": str(pause)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([*COMMAND, *args], text=True, env=env, **pipes)


def wait_for(count: int, word: str, log: Path) -> list[str]:
    """The lines of a log, once so many begin with this word."""
    for _ in range(600):
        lines = log.read_text().splitlines() if log.exists() else []
        if sum(line.startswith(word) for line in lines) >= count:
            return lines
        time.sleep(0.1)
    raise AssertionError(f"no {count} lines {word!r} in {log}")


def asked(journal: Path) -> list[dict]:
    events = [json.loads(line) for line in journal.read_text().splitlines()[1:]]
    return [event["ask"]["x"] for event in events if "ask" in event]


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_a_killed_run_goes_on_as_if_nothing_had_happened(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    process = started("run", "coil.toml", pause=1.0)
    wait_for(2, "end", folder / "log")
    assert main(["show", "coil.jsonl"]) == 3  # beside the writer
    words = "x=0.5 coils=1 steel=EU mass=3 stress=1".split()
    assert main(["tell", "coil.jsonl", *words]) == 1
    assert "is being written by another optimiser" in capsys.readouterr().err
    process.kill()
    process.communicate()
    with (folder / "coil.jsonl").open("a") as file:
        file.write('{"tell": {"x"')  # torn, as a crash can leave it
    assert main(["run", "coil.toml"]) == 0  # tol = "none": the budget is spent, as it should be
    assert "the last line is torn" in capsys.readouterr().err
    assert main(["run", "coil.toml", "--journal", "whole.jsonl", "--quiet"]) == 0
    assert asked(folder / "coil.jsonl") == asked(folder / "whole.jsonl")


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_workers_evaluate_at_once_and_end_with_the_run(folder: Path) -> None:
    process = started("run", "coil.toml", "--workers", "3", "--budget", "50", pause=20.0)
    begun = wait_for(3, "begin", folder / "log")
    assert not any(line.startswith("end") for line in begun)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=15)
    assert process.returncode == 130 and "interrupted" in err and "Traceback" not in err
    pids = [int(line.split()[2]) for line in begun]
    assert not any(map(is_alive, pids))
    again = started("run", "coil.toml", "--workers", "3", "--json")
    out, err = again.communicate()
    assert again.returncode == 0 and len(asked(folder / "coil.jsonl")) == 7, err
    result = Result.from_json(out)
    assert len(result.history) == 7 and result.feasible


def test_a_laboratory(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new", "coil.toml", "--journal", "lab.jsonl", "--seed", "3"]) == 0
    assert main(["suggest", "lab.jsonl", "-n", "4", "--csv", "next.csv"]) == 0
    table = pd.read_csv("next.csv", dtype=str, keep_default_na=False)
    filled = table.assign(mass=["3.5", "failed", "4", ""], stress=["1.2", "1.1", "1.9", ""])
    filled.assign(mass_error=["0.1", "", "", ""], who="Ann").to_csv("next.csv", index=False)
    assert main(["suggest", "lab.jsonl", "-n", "2", "--csv", "next.csv"]) == 1  # not told yet
    capsys.readouterr()
    for told in (3, 0):
        assert main(["tell", "lab.jsonl", "next.csv", "--json"]) == 0
        counts = json.loads(capsys.readouterr().out)
        assert (counts["told"], counts["evaluations"], counts["unanswered"]) == (told, 3, 1)
    assert main(["show", "lab.jsonl", "--csv", "history.csv"]) == 3
    opt = Cobalt.load("lab.jsonl")
    assert opt.archive.failures[1] == {"mass"} and opt.archive.errors[0] == {"mass": 0.1}
    space, goal = opt.problem.space, ("mass", opt.problem.constraints)
    history = pd.read_csv("history.csv", dtype=str, keep_default_na=False)
    twin = Cobalt.from_frame(history, space, *goal, maximize=False)
    assert twin.archive.points == opt.archive.points
    assert [set(row) for row in twin.archive.failures] == [set(), {"mass"}, set()]
    pd.testing.assert_frame_equal(twin.archive.frame(), opt.archive.frame())
    assert main(["suggest", "lab.jsonl", "-n", "2", "--csv", "next.csv"]) == 0
    assert len(pd.read_csv("next.csv")) == 2


SENTENCES = {
    "run coil.tml": (1, "there is no file coil.tml; did you mean 'coil.toml'?"),
    "run lab.toml": (1, "does not say how to evaluate"),
    "run coil.toml --budget none": (2, "not a positive whole number"),
    "run coil.toml --tol high": (2, "neither auto, nor none, nor a number"),
    "run odd.toml": (1, "there is no program 'simulat' on this machine"),
    "run fails.toml": (6, "all 3 evaluations failed; the last one: exit code 3: no licence"),
    "run slow.toml": (6, "took longer than 0.05 s"),
    "suggest coil.toml": (1, "there is no journal coil.jsonl; begin one: cobalt-nb new coil.toml"),
    "show la.jsonl": (1, "there is no journal la.jsonl; did you mean 'lab.jsonl'?"),
    "new lab.toml": (1, "lab.jsonl exists"),
    "tell lab.jsonl x=0.5 coil=1 steel=EU mass=1 stress=1": (1, "did you mean 'coils'?"),
    "tell lab.jsonl x=0.5 coils=1.5 steel=EU mass=1 stress=1": (1, "1.5 is not a whole number"),
    "tell lab.jsonl x=nan coils=1 steel=EU mass=1 stress=1": (1, "parameter 'x'"),
    "tell lab.jsonl x=0.5 coils=1 steel=US mass=1 stress=1": (1, "'US' is none of 'NA', 'EU'"),
    "tell lab.jsonl x=0.5 coils=1 steel=EU mass=inf stress=1": (1, "the value is infinite"),
    "tell lab.jsonl x=0.5 coils=1 steel=EU mass=1": (1, "'stress' is missing"),
    "tell lab.jsonl bad.csv": (1, "bad.csv, row 2: parameter 'x': 7 is outside [0, 1]"),
    "tell lab.jsonl long.csv": (1, "long.csv: a row has more entries than the first line"),
    "show empty.jsonl": (1, "it is empty, or torn in its first line; begin it with cobalt-nb new"),
    "tell lab.jsonl sheet.xlsx": (1, "sheet.xlsx"),
    "tell coil.toml nowhere.csv": (1, "there is no journal"),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of mistakes."""
    place = tmp_path_factory.mktemp("mistakes")
    by_hand = PROBLEM.partition("[evaluate]")[0]
    texts = {
        "coil": PROBLEM,
        "lab": by_hand,
        "odd": by_hand + '[evaluate]\ncommand = "simulat {x} {coils} {steel}"',
        "fails": by_hand + '[evaluate]\ncommand = "echo no licence >&2; exit 3"',
        "slow": by_hand + '[evaluate]\ncommand = "sleep 9"\ntimeout = 0.05',
    }
    for name, text in texts.items():
        (place / f"{name}.toml").write_text(text)
    assert main(["new", str(place / "lab.toml")]) == 0
    rows = "x,coils,steel,mass,stress\n0.5,1,EU,3,1\n7,1,EU,3,1\n"
    (place / "bad.csv").write_text(rows)
    (place / "long.csv").write_text(rows.replace("0.5,1", "0.5,1,1"))
    (place / "empty.jsonl").touch()
    (place / "sheet.xlsx").write_bytes(b"not a workbook")
    return place


@pytest.mark.parametrize("line", SENTENCES, ids=lambda line: line.replace(" ", "_"))
def test_a_mistake_gets_a_sentence(
    line: str, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place)
    before, (code, sentence) = (place / "lab.jsonl").read_bytes(), SENTENCES[line]
    try:
        assert main(line.split()) == code
    except SystemExit as error:  # of argparse
        assert error.code == code == 2
    said = capsys.readouterr().err
    assert sentence in said and "Traceback" not in said
    assert (place / "lab.jsonl").read_bytes() == before


def test_a_file_in_python(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "line.py").write_text(
        "from cobalt_nb import minimize\n"  # which is no word of this file
        "from helper import square\n"
        "space = {'x': (0.0, 1.0)}\nobjective, maximize = 'gain', True\n"
        "constraints, noise, budget = {'size': (None, 0.5)}, 0.0, 9\n"
        "def evaluate(x):\n"
        "    if x['x'] > 0.9:\n        raise ArithmeticError('too large')\n"
        "    return {'gain': square(x['x']), 'size': x['x']}\n"
    )
    (folder / "helper.py").write_text("square = lambda x: x * x\n")
    assert main(["run", "line.py", "--json", "--tol", "none", "--quiet"]) == 0
    result = Result.from_json(capsys.readouterr().out)
    assert result.feasible and math.isclose(result.value, 0.25, abs_tol=0.01)


def test_a_workbook_is_a_table(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = {"x": [0.25, 0.5], "coils": [2, 3], "steel": ["NA", "1"], "mass": [2.75, None]}
    pd.DataFrame(rows | {"stress": [1.75, 1.5]}).to_excel("made.xlsx", index=False)
    assert main(["new", "coil.toml"]) == 0
    assert main(["tell", "coil.jsonl", "made.xlsx"]) == 0
    assert "2 told" in capsys.readouterr().out
    points = Cobalt.load(folder / "coil.jsonl").archive.points
    assert points == [
        {"x": 0.25, "coils": 2, "steel": "NA"},
        {"x": 0.5, "coils": 3, "steel": "1"},
    ]


def test_every_command_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("run", "new", "suggest", "tell", "show", "demo", "reproduce", "report", "bench"):
        with pytest.raises(SystemExit):
            main([name, "--help"])
        assert (
            f"examples:\n  cobalt-nb {'new' if name == 'run' else name}" in capsys.readouterr().out
        )


def test_what_is_certified_is_not_evaluated_again(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "sum.py").write_text(
        "space, minimize, noise = {'x': (0.0, 1.0)}, 'f', 0.0\n"
        "constraints = {'c': (0.5, None)}\n"
        "def evaluate(x):\n    return {'f': x['x'], 'c': x['x']}\n"
    )
    assert main(["run", "sum.py", "--tol", "0.01", "--quiet"]) == 0
    before = (folder / "sum.jsonl").read_bytes()
    capsys.readouterr()
    assert main(["run", "sum.py", "--tol", "0.01"]) == 0
    said = capsys.readouterr()
    assert "nothing more is evaluated" in said.err and "certified" in said.out
    assert (folder / "sum.jsonl").read_bytes() == before


WORDS = "x;coils;steel;mass;stress;Prüfer\r\n0,25;2;EU;3,5;1,25;Jörg\r\n;;;;;\r\n"


@pytest.mark.parametrize("code", ["utf-8", "utf-8-sig", "cp1252", "utf-16"])
def test_tables_as_spreadsheets_write_them(
    code: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "made.csv").write_bytes(WORDS.encode(code))
    assert main(["new", "coil.toml"]) == 0
    assert main(["tell", "coil.jsonl", "made.csv"]) == 0
    assert "1 told, 1 evaluation in all" in capsys.readouterr().out
    archive = Cobalt.load("coil.jsonl").archive
    assert archive.points == [{"x": 0.25, "coils": 2, "steel": "EU"}]
    assert archive.values[0] == {"mass": 3.5, "stress": 1.25}
    assert archive.extras[0]["Prüfer"] == "Jörg"


def test_suggestions_as_a_workbook(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new", "coil.toml"]) == 0
    assert main(["suggest", "coil.jsonl", "-n", "2", "--csv", "next.xlsx"]) == 0
    table = pd.read_excel("next.xlsx", keep_default_na=False)
    table.assign(mass=[3.0, 4.0], stress=[1.0, 1.1]).to_excel("next.xlsx", index=False)
    assert main(["suggest", "coil.jsonl", "-n", "2", "--csv", "next.xlsx"]) == 1  # not told yet
    assert main(["tell", "coil.jsonl", "next.xlsx"]) == 0
    assert "2 told, 2 evaluations in all" in capsys.readouterr().out
    assert main(["show", "coil.jsonl", "--csv", "history.xlsx"]) == 3
    assert list(pd.read_excel("history.xlsx")["mass"]) == [3.0, 4.0]
