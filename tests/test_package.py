"""The package as a user gets it: built, installed into an empty environment, run from there."""

import ast
import importlib
import json
import os
import re
import subprocess
import sys
import tarfile
import textwrap
import venv
import zipfile
from configparser import ConfigParser
from pathlib import Path

import house
import pytest
from book import ROOT

import cobalt_nb
from cobalt_nb import _moved

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
for module in pkgutil.walk_packages(cobalt_nb.__path__, "cobalt_nb."):
    if not module.name.startswith("cobalt_nb.optuna"):  # the bridge to an extra
        importlib.import_module(module.name)
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
        "cobalt_nb/_moved.py",
        "cobalt_nb/py.typed",
        "cobalt_nb/problem.py",
        "cobalt_nb/study/__init__.py",
        "cobalt_nb/cli.py",
        "cobalt_nb/results/paper.pack.gz",
    } <= inside
    data = [
        path for path in (ROOT / "cobalt_nb").rglob("*") if path.suffix in (".csv", ".gz", ".json")
    ]
    assert {path.relative_to(ROOT).as_posix() for path in data} <= inside
    assert not any(name.startswith(("tests/", "nbs/")) for name in inside)
    [entries] = [name for name in inside if name.endswith("/entry_points.txt")]
    assert b"cobalt_nb = cobalt_nb._modidx:d" in zipfile.ZipFile(wheel).read(entries)
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
    """What settings.ini names for everybody, and for the optional integrations."""
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
    modules = (ROOT / "cobalt_nb").rglob("*.py")
    imported = set().union(*(imports(path.read_text(encoding="utf-8")) for path in modules))
    assert needed <= imported <= needed | optional
    assert imports(
        "import numpy.linalg\nfrom fastcore.test import test_eq\nfrom .a import b\nimport os"
    ) == {"numpy", "fastcore"}


# The import paths of 0.1.0


OLD = json.loads((ROOT / "tests" / "golden" / "names-0.1.0.json").read_text(encoding="utf-8"))
DOCUMENTED = {  # what README, chapters and tutorials of 0.1.0 told users to import
    "acquisition": "CobaltAcquisition",
    "baselines": "Baseline",
    "claims": "ledger",
    "experiments": "Trial run_trial reproduce load",
    "figures": "plot_trace plot_tasks plot_scan plot_certificate plot_regions",
    "optimizer": "Cobalt Query Result maximize minimize Archive Journal TornLine evaluate",
    "optuna": "CobaltSampler StopAtGap StudyReader decoupled set_within",
    "posterior": "Hyperparameters Surrogate fit_map as_botorch CandidatePosterior GridPosterior",
    "problem": "Box Pool Problem Interval",
    "report": "write_report",
    "roi": "Certificate",
    "tasks": "TASKS Task Rastrigin Ackley Vessel Spring Car",
}


def old_name(module: str, name: str) -> object:
    return getattr(importlib.import_module(f"cobalt_nb.{module}"), name)


@pytest.mark.parametrize("module", sorted(OLD))
@pytest.mark.filterwarnings("ignore:cobalt_nb:DeprecationWarning")
def test_every_name_of_the_first_release_is_found(module: str) -> None:
    """What is still somewhere in the package resolves; what users were told of is somewhere."""
    there = {name for name in OLD[module] if _moved.new_path(module, name)}
    assert set(DOCUMENTED.get(module, "").split()) <= there
    for name in there:
        old_name(module, name)


def test_no_name_is_taken_for_another() -> None:
    """Where rooms that are equally near define a name, the table must say which is meant."""
    pairs = [(module, name) for module, names in OLD.items() for name in names]
    unclear = {pair: _moved.nearest(*pair) for pair in pairs if pair not in _moved.RENAMED}
    assert {pair: rooms for pair, rooms in unclear.items() if len(rooms) > 1} == {}
    here = [path for path in _moved.RENAMED.values() if path]
    assert [path for path in here if not _moved.defined_at(path)] == []


def test_names_that_two_modules_had_are_told_apart() -> None:
    """`evaluate` of the optimiser is not `evaluate` of the trials."""
    seen: dict[str, list[str | None]] = {}
    for module, names in OLD.items():
        for name in names:
            seen.setdefault(name, []).append(_moved.new_path(module, name))
    found = {name: [path for path in paths if path] for name, paths in seen.items()}
    assert [name for name, paths in found.items() if len(set(paths)) < len(paths)] == []


def test_an_old_path_warns_where_it_is_used() -> None:
    code = """
        import warnings
        warnings.filterwarnings("error", "cobalt_nb")
        try:
            from cobalt_nb.tasks import TASKS
        except DeprecationWarning as warning:
            print(warning)
        try:
            from cobalt_nb.problem import Box
        except DeprecationWarning as warning:
            print(warning)
        warnings.filterwarnings("always", "cobalt_nb")
        from cobalt_nb.problem import Box
        from cobalt_nb import Box as new
        import cobalt_nb.tasks, cobalt_nb.study.tasks
        assert Box is new and cobalt_nb.tasks.TASKS is cobalt_nb.study.tasks.TASKS
    """
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    first, second = ran.stdout.splitlines()
    assert first.startswith("cobalt_nb.tasks.TASKS is now cobalt_nb.study.tasks.TASKS;")
    assert second.startswith("cobalt_nb.problem.Box is now cobalt_nb.spaces.Box;")
    assert ran.stderr.count("<string>:") == 2  # at the lines that use them, not within the package


def test_a_star_import_of_a_module_that_is_gone() -> None:
    found: dict[str, object] = {}
    with pytest.warns(DeprecationWarning):
        exec("from cobalt_nb.tasks import *", found)
    assert found["TASKS"] is importlib.import_module("cobalt_nb.study.tasks").TASKS


def test_what_never_was_is_not_found() -> None:
    with pytest.raises(AttributeError, match="module 'cobalt_nb.problem' has no attribute 'Lost'"):
        old_name("problem", "Lost")
    with pytest.raises(ImportError):
        importlib.import_module("cobalt_nb.lost")
    with pytest.raises(AttributeError):
        old_name("tasks", "Lost")


def test_old_paths_cost_nothing_until_they_are_used() -> None:
    code = "import sys, cobalt_nb; print({'torch', 'numpy', 'ast'} & set(sys.modules) - before)"
    code = "import sys; before = set(sys.modules) | {'ast'}; " + code
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.stdout.strip() == "set()"


# The public names


def test_each_public_name_is_at_home_where_the_package_says() -> None:
    """The rooms in `__init__.py` are those that define the names, not those that import them."""
    for name, room in cobalt_nb._HOME.items():
        assert getattr(cobalt_nb, name).__module__ == f"cobalt_nb.{room}", name
    assert {"__version__", *cobalt_nb._HOME} == set(cobalt_nb.__all__) == set(dir(cobalt_nb))


def test_the_types_know_what_the_package_offers() -> None:
    tree = ast.parse((ROOT / "cobalt_nb" / "__init__.py").read_text(encoding="utf-8"))
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.level]
    typed = {alias.name: node.module for node in nodes for alias in node.names}
    assert {name: typed.get(name) for name in cobalt_nb._HOME} == cobalt_nb._HOME
