"""The package as a user gets it: built, installed into an empty environment, imported and run from there."""

import ast
import os
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from configparser import ConfigParser
from pathlib import Path

import house
import pytest
from book import ROOT

DEVELOPERS_ONLY = (
    "nbdev",
    "fastcore",
    "execnb",
    "jupyter_client",
    "IPython",
    "pytest",
    "hypothesis",
)
IMPORT_EVERYTHING = """
import importlib, importlib.util, pkgutil, sys
import cobalt_nb
for module in pkgutil.iter_modules(cobalt_nb.__path__):
    if module.name != "optuna":  # the bridge to an extra
        importlib.import_module(f"cobalt_nb.{module.name}")
for name in cobalt_nb.__all__:
    getattr(cobalt_nb, name)
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist and the wheel."""
    place = tmp_path_factory.mktemp("build")
    copy = house.copy_of(ROOT, place / "copy")
    command = [
        sys.executable,
        "-m",
        "build",
        "--no-isolation",
        "--outdir",
        str(place / "dist"),
        str(copy),
    ]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return place / "dist"


@pytest.fixture(scope="module")
def empty(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of a fresh environment with the wheel, without the dev extra."""
    place = tmp_path_factory.mktemp("empty")
    venv.create(place, with_pip=True)
    [wheel] = built.glob("*.whl")
    subprocess.run(
        [place / "bin" / "pip", "install", "-q", "-c", ROOT / "constraints.txt", wheel],
        check=True,
        capture_output=True,
        text=True,
    )
    return place / "bin"


def run(command: list, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    clean = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    return subprocess.run(
        list(map(str, command)), cwd=cwd, capture_output=True, text=True, env=clean | env
    )


def test_build_gives_sdist_and_wheel(built: Path) -> None:
    [wheel], [sdist] = built.glob("*.whl"), built.glob("*.tar.gz")
    inside = set(zipfile.ZipFile(wheel).namelist())
    assert {
        "cobalt_nb/__init__.py",
        "cobalt_nb/problem.py",
        "cobalt_nb/cli.py",
        "cobalt_nb/results/paper.pack.gz",
    } <= inside
    assert not any(name.startswith(("tests/", "nbs/")) for name in inside)
    assert any(name.endswith("/settings.ini") for name in tarfile.open(sdist).getnames())


def test_sdist_builds_a_wheel(built: Path, tmp_path: Path) -> None:
    [sdist] = built.glob("*.tar.gz")
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        tmp_path,
        sdist,
    ]
    assert run(command, tmp_path).returncode == 0
    assert list(tmp_path.glob("*.whl"))


def test_broken_settings_break_the_build(tmp_path: Path) -> None:
    copy = house.copy_of(ROOT, tmp_path / "copy")
    (copy / "settings.ini").write_text("[DEFAULT]\nlib_name = cobalt-nb\n")
    assert run([sys.executable, "-m", "build", "--no-isolation", copy], tmp_path).returncode != 0


@pytest.mark.slow
def test_the_wheel_imports_without_developers_tools(empty: Path, tmp_path: Path) -> None:
    ran = run([empty / "python", "-c", IMPORT_EVERYTHING], tmp_path)
    assert ran.returncode == 0, ran.stderr
    lacking = run([empty / "python", "-c", "import cobalt_nb.optuna"], tmp_path)
    assert lacking.returncode != 0 and 'pip install "cobalt-nb[optuna]"' in lacking.stderr
    for name in DEVELOPERS_ONLY:
        assert run([empty / "python", "-c", f"import {name}"], tmp_path).returncode != 0, name
    assert run([empty / "pip", "check"], tmp_path).returncode == 0


@pytest.mark.slow
def test_a_module_that_needs_developers_tools_is_noticed(empty: Path, tmp_path: Path) -> None:
    copy = house.copy_of(ROOT, tmp_path / "copy")
    (copy / "cobalt_nb" / "careless.py").write_text("from fastcore.test import test_eq\n")
    ran = run([empty / "python", "-c", IMPORT_EVERYTHING], tmp_path, PYTHONPATH=str(copy))
    assert ran.returncode != 0 and "fastcore" in ran.stderr


@pytest.mark.slow
def test_demo_runs_from_the_wheel(empty: Path, tmp_path: Path) -> None:
    ran = run([empty / "cobalt-nb", "demo"], tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert list((tmp_path / "cobalt-demo").glob("*.png"))


def requirements() -> tuple[set[str], set[str]]:
    """The distributions that settings.ini names for everybody, and those of the optional integrations."""
    parser = ConfigParser(delimiters=["="])
    parser.read(ROOT / "settings.ini")
    named = {
        key: {re.split(r"[<>=!~]", req)[0] for req in value.split()}
        for key, value in parser["DEFAULT"].items()
        if key.endswith("requirements")
    }
    needed = named.pop("requirements")
    named.pop("dev_requirements")
    return needed, set().union(*named.values())


def imports(source: str) -> set[str]:
    """The top-level packages that a module imports, anywhere in it."""
    nodes = list(ast.walk(ast.parse(source)))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module for node in nodes if isinstance(node, ast.ImportFrom) and not node.level]
    return {name.split(".")[0] for name in names} - set(sys.stdlib_module_names) - {"cobalt_nb"}


def test_requirements_are_what_the_modules_import() -> None:
    """Nothing that is not listed, nothing listed that is not imported."""
    needed, optional = requirements()
    imported = set().union(
        *(imports(path.read_text(encoding="utf-8")) for path in (ROOT / "cobalt_nb").glob("*.py"))
    )
    assert needed <= imported <= needed | optional
    assert imports(
        "import numpy.linalg\nfrom fastcore.test import test_eq\nfrom .problem import Box\nimport os"
    ) == {"numpy", "fastcore"}
