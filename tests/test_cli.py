"""The command as a process: help at once, exit codes, no traceback."""
import subprocess
import sys
from pathlib import Path

COMMAND = [sys.executable, "-c", "import sys; from cobalt_nb.cli import main; sys.exit(main())"]


def cobalt(*args: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *args], cwd=cwd, capture_output=True, text=True)


def test_help_shows_examples() -> None:
    ran = cobalt("--help")
    assert ran.returncode == 0 and "examples:" in ran.stdout


def test_help_imports_nothing_heavy() -> None:
    code = "import sys; from cobalt_nb.cli import parser; parser().format_help(); print({'torch', 'pandas', 'matplotlib'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "set()"


def test_unknown_command() -> None:
    ran = cobalt("dance")
    assert ran.returncode == 2 and "invalid choice" in ran.stderr and "Traceback" not in ran.stderr


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ran = cobalt("demo", "--out", "file/below", cwd=tmp_path)
    assert ran.returncode == 1 and ran.stderr.startswith("cobalt-nb: ") and "Traceback" not in ran.stderr
