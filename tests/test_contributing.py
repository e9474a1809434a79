"""The recipes of CONTRIBUTING.md are followed to the letter: each does what it says."""

import os
import re
import subprocess
import sys
from pathlib import Path

import house
import layers
import pytest
from book import ROOT

TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
RECIPES = dict(re.findall(r"^## Add (a .+?)\n(.*?)(?=^## |\Z)", TEXT, re.M | re.S))


def blocks(recipe: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", RECIPES[recipe], re.M | re.S)


def run(command: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    bin_folder = str(Path(sys.executable).parent)
    env = os.environ | {"PYTHONPATH": str(cwd), "PATH": f"{bin_folder}:{os.environ['PATH']}"}
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True)


def test_there_is_a_recipe_for_each() -> None:
    assert {"a chapter", "a task", "a baseline", "a kernel"} <= set(RECIPES)


@pytest.mark.parametrize("recipe", [name for name in RECIPES if name != "a chapter"])
def test_the_code_of_a_recipe_runs(recipe: str, tmp_path: Path) -> None:
    """In an interpreter of its own; the asserts in it are the test."""
    [code] = blocks(recipe, "python")
    assert "assert " in code
    ran = run([sys.executable, "-W", "error:cobalt_nb:DeprecationWarning", "-c", code], ROOT)
    assert ran.returncode == 0, ran.stderr


@pytest.fixture(scope="module")
def chapter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository with the chapter of the recipe; the sidebar lacks it yet."""
    place = tmp_path_factory.mktemp("chapter")
    copy = house.copy_of(ROOT, place / "copy")
    [script], [commands] = blocks("a chapter", "python"), blocks("a chapter", "bash")
    (place / "ripples.py").write_text(script)
    ran = run(["bash", "-ec", commands.replace("/tmp/ripples.py", str(place / "ripples.py"))], copy)
    assert ran.returncode == 0, ran.stderr
    return copy


def test_a_new_chapter_becomes_a_module(chapter: Path) -> None:
    code = "from cobalt_nb.ripples import height, __all__; print(height(0.0), __all__)"
    assert run([sys.executable, "-c", code], chapter).stdout == "1.0 ['height']\n"


def test_what_was_forgotten_is_told(chapter: Path) -> None:
    name = "method/ripples.ipynb"
    assert f"{name}: not in the sidebar" in house.sidebar_gaps(chapter)
    assert "ripples: no chapter in the sidebar exports it" in layers.upward(chapter)
    config = chapter / "_quarto.yml"
    entry = "          - method/problem.ipynb\n"
    text = config.read_text(encoding="utf-8")
    config.write_text(text.replace(entry, f"{entry}          - {name}\n"), encoding="utf-8")
    rules = [rule for rule in house.RULES if rule is not house.stale_readme]
    told = [fault for rule in [*rules, layers.upward] for fault in rule(chapter)]
    assert [fault for fault in told if "ripples" in fault] == []
