"""The command as a process: help at once, exit codes, no traceback."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import webcheck

COMMAND = [sys.executable, "-c", "import sys; from cobalt_nb.cli import main; sys.exit(main())"]


def cobalt(*args: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *args], cwd=cwd, capture_output=True, text=True)


def test_help_shows_examples() -> None:
    ran = cobalt("--help")
    assert ran.returncode == 0 and "examples:" in ran.stdout


def test_help_imports_nothing_heavy() -> None:
    code = "import sys; from cobalt_nb.cli import parser; parser().format_help(); "
    code += "print({'torch', 'pandas', 'matplotlib'} & set(sys.modules))"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip()
        == "set()"
    )


def test_unknown_command() -> None:
    ran = cobalt("dance")
    assert ran.returncode == 2 and "invalid choice" in ran.stderr and "Traceback" not in ran.stderr


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ran = cobalt("demo", "--out", "file/below", cwd=tmp_path)
    assert (
        ran.returncode == 1
        and ran.stderr.startswith("cobalt-nb: ")
        and "Traceback" not in ran.stderr
    )


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two tasks of two protocols, made by the command."""
    folder = tmp_path_factory.mktemp("quick")
    ran = cobalt(
        "reproduce",
        "--quick",
        "--tasks",
        "rastrigin",
        "scan-50",
        "--methods",
        "cobalt",
        "random",
        "--workers",
        "1",
        "--out",
        "trials",
        cwd=folder,
    )
    assert ran.returncode == 0, ran.stderr
    assert (
        "cobalt-nb report --results trials" in ran.stdout and "trial" in ran.stderr
    )  # the progress bar
    return folder / "trials"


@pytest.mark.slow
def test_reproduce_continues(quick: Path) -> None:
    before = {path.name: path.stat().st_mtime_ns for path in quick.iterdir()}
    ran = cobalt(
        "reproduce",
        "scan",
        "--quick",
        "--tasks",
        "scan-50",
        "--methods",
        "cobalt",
        "--workers",
        "1",
        "--out",
        str(quick),
    )
    assert len(before) == 8 and ran.returncode == 0
    assert {path.name: path.stat().st_mtime_ns for path in quick.iterdir()} == before


@pytest.mark.slow
def test_other_settings_are_refused(quick: Path) -> None:
    before = sorted(path.name for path in quick.iterdir())
    ran = cobalt(
        "reproduce",
        "paper",
        "--tasks",
        "rastrigin",
        "--methods",
        "cobalt",
        "--trials",
        "3",
        "--out",
        str(quick),
    )
    assert (
        ran.returncode == 1
        and "was made with other settings: budget 25, where the study has 200" in ran.stderr
        and "Traceback" not in ran.stderr
    )
    assert sorted(path.name for path in quick.iterdir()) == before


@pytest.mark.slow
def test_the_report_is_one_page(quick: Path, tmp_path: Path) -> None:
    for _ in range(2):  # a report may be made again
        ran = cobalt("report", "--results", str(quick), "--out", "page.html", cwd=tmp_path)
        assert ran.returncode == 0, ran.stderr
    text = (tmp_path / "page.html").read_text()
    assert (
        len(re.findall(r'<img [^>]*alt="[^"]+', text)) == text.count("<img") == 5
        and "<section" in text
        and not re.search(r'(src|href)="(?!data:|#)', text)
    )


@pytest.mark.slow
@pytest.mark.skipif(not webcheck.browser(), reason="there is no Chromium on this machine")
def test_the_report_opens_in_a_browser(quick: Path, tmp_path: Path) -> None:
    assert (
        cobalt("report", "--results", str(quick), "--out", "page.html", cwd=tmp_path).returncode
        == 0
    )
    assert webcheck.seen(tmp_path) == {"page.html": []}


def test_the_ledger_as_rows() -> None:
    ran = cobalt("report", "--claims", "--json")
    rows = json.loads(ran.stdout)
    assert len(rows) > 10 and all(
        list(row) == ["claim", "where", "measured", "published", "verdict", "why"] for row in rows
    )


def test_results_that_are_not_there(tmp_path: Path) -> None:
    ran = cobalt("report", "--results", "nowhere", cwd=tmp_path)
    assert (
        ran.returncode == 1
        and "there are no trials in 'nowhere'" in ran.stderr
        and not list(tmp_path.iterdir())
    )
