"""Mistakes and the sentence each gets, before anything is spent; and what is accepted instead."""

import inspect
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from cobalt_nb import Box, Cobalt, Pool, Problem, maximize, minimize
from cobalt_nb.records import checked_values

SPACE = {"x": (0.0, 1.0)}
TABLE = pd.DataFrame({"x": [0.0, 0.5, 1.0]})
WIDE = pd.DataFrame({"sku": [f"A-{i}" for i in range(5000)], "x": np.linspace(0, 1, 5000)})
CALLS: list[Any] = []


def spends(p: dict) -> dict:
    CALLS.append(p)
    return {"f": p["x"], "c": p["x"]}


def low(**changes: Any) -> Callable[[], Any]:
    given = {
        "functions": spends,
        "space": SPACE,
        "objective": "f",
        "constraints": {"c": (0.1, None)},
    }
    return lambda: minimize(**given | {"budget": 3, "progress": False} | changes)


def value(told: Any) -> Callable[[], Any]:
    return lambda: checked_values(Problem(SPACE, "f", {}), {"f": told})


MISTAKES: dict[str, tuple[Callable[[], Any], str]] = {
    # spaces
    "a Box without names": (
        lambda: Box([(0, 1), (0, 1)]),  # type: ignore[list-item]
        'a Box needs a name for each range: Box({"x": (0.0, 1.0), "y": (0.0, 1.0)})',
    ),
    "a list of two numbers": (
        lambda: Box({"a": [0.0, 1.0]}),
        "parameter 'a': [0.0, 1.0] can be a range or two labels; write (0.0, 1.0) for the range, "
        'or {"labels": [0.0, 1.0]} for the labels',
    ),
    "numbers as text": (lambda: Box({"a": ("0", "1")}), "has numbers as text"),
    "a swapped range": (lambda: Box({"a": (2, 1)}), "parameter 'a': low 2 must be below high 1"),
    "a Box of a table": (lambda: Box(TABLE), "a table of candidates is a Pool"),
    "a Pool of a file": (
        lambda: Pool("x.csv"),
        "a Pool is a table, not the name of a file; read it first: Pool(pd.read_csv('x.csv'))",
    ),
    "a Pool of a path": (lambda: Pool(Path("x.csv")), "not the name of a file"),  # type: ignore
    "a column that names rows": (
        lambda: Pool(WIDE),
        "parameter 'sku' has 5000 labels in 5000 rows, each a dimension; if it only names the "
        "rows, use carry=['sku']; drop it, or keep it with labels=['sku']",
    ),
    "a carried column that is not there": (
        lambda: Pool(WIDE, carry=["SKU"]),
        "carry: the table has no column 'SKU'; did you mean 'sku'?",
    ),
    "rows that differ in what is carried alone": (
        lambda: Pool({"x": [1.0, 1.0], "id": ["a", "b"]}, carry=["id"]),
        "the pool contains row 1 twice",
    ),
    "no space": (low(space=3), "a space is a Box of ranges, a Pool of candidates, a dict"),
    "a file for a space": (low(space="x.csv"), "read it first: Pool(pd.read_csv('x.csv'))"),
    "a space without names": (low(space=[(0.0, 1.0)]), "a Box needs a name for each range"),
    "a point that is misspelt": (
        lambda: Box({"span": (0, 1), "b": (0, 1)}).encode({"Span": 1, "span": 1, "b": 1}),
        "unknown parameter 'Span'; the space has span, b; did you mean 'span'?",
    ),
    "a point that is a list": (lambda: Box(SPACE).encode([0.5]), "a point is a dict"),  # type: ignore
    # the problem
    "constraints in a list": (
        low(constraints=[("c", 0.1, None)]),
        "constraints are a dict from the name of a function to its interval, such as "
        "{\"stress\": (None, 250.0)}; got [('c', 0.1, None)]",
    ),
    "a single bound": (low(constraints={"c": 0.1}), "constraint 'c': give a pair of numbers"),
    "a text for bounds": (low(constraints={"c": "<1"}), "constraint 'c': give a pair of numbers"),
    "swapped bounds": (low(constraints={"c": (1, 0)}), "lower 1 is above upper 0; did you swap"),
    "two objectives": (low(objective=["f", "g"]), "the objective is the name of one function"),
    "the objective as a constraint": (low(constraints={"f": (0, 1)}), "is the objective and also"),
    "a parameter as a function": (low(objective="x"), "'x' is a parameter and also a function"),
    # the call
    "the other direction": (
        low(maximize=True),
        "minimize knows its direction; for the other one call maximize",
    ),
    "a misspelt setting": (
        low(bugdet=5),
        "minimize has no argument 'bugdet'; did you mean 'budget'?",
    ),
    "a misspelt setting of Cobalt": (low(sede=1), "no argument 'sede'; did you mean 'seed'?"),
    "half an evaluation": (low(budget=5.5), "budget must be a whole number, 1 or more; got 5.5"),
    "no budget": (low(budget=0), "budget must be a whole number, 1 or more; got 0"),
    "a negative budget": (low(budget=-3), "budget must be a whole number, 1 or more; got -3"),
    "a budget as text": (low(budget="10"), "budget must be a whole number, 1 or more; got '10'"),
    "no seed": (
        low(seed=None),
        "seed must be a whole number, from 0 to 4294967295; got None; for another one each time: "
        "seed=secrets.randbelow(2**32)",
    ),
    "a huge seed": (low(seed=2**50), "seed must be a whole number, from 0 to 4294967295; got 11"),
    "a share as tolerance": (
        low(tol="1%"),
        "tol must be a number, 0 or more; got '1%'; it is in the objective's units",
    ),
    "a negative tolerance": (low(tol=-1.0), "tol must be a number, 0 or more; got -1.0"),
    "workers as text": (low(workers="4"), "workers must be a whole number, 1 or more; got '4'"),
    "no workers": (low(workers=0), "workers must be a whole number, 1 or more; got 0"),
    "catch a text": (low(catch="RuntimeError"), "catch is a kind of exception or several"),
    "catch Ctrl-C": (low(catch=KeyboardInterrupt), "catch is a kind of exception or several"),
    "a callback that is none": (low(callback=True), "callback is called as callback(optimiser"),
    "an objective that is misspelt": (
        low(functions={"f": len, "c": len}, objective="F"),
        "no function is given for 'F'; did you mean 'f'?",
    ),
    "no functions": (low(functions=None), "functions are one callable that returns a dict, or"),
    "a list of functions": (low(functions=[len, len]), "functions are one callable that returns"),
    "one callable, decoupled": (low(decoupled=True), "decoupled evaluation needs one callable for"),
    "known results in a file": (low(initial="x.csv"), "initial is a DataFrame, a list of dicts or"),
    "known results without a column": (
        low(initial=pd.DataFrame({"x": [0.5], "f": [1.0], "C": [1.0]})),
        "initial has no column 'c'; did you mean 'C'?",
    ),
    "known results elsewhere": (
        low(initial=[{"x": 3.0, "f": 1.0, "c": 1.0}]),
        "parameter 'x': 3 is outside [0, 1]",
    ),
    # what is told
    "a number as text": (value("3.5"), "function 'f': '3.5' is a text, not a number; use NaN or"),
    "several numbers": (value([1.0, 2.0]), "function 'f': [1.0, 2.0] is not a number; use NaN"),
    "an array": (value(np.ones(2)), "is not a number; use NaN or None"),
    "an infinite value": (value(math.inf), "function 'f': the value is infinite; use NaN or None"),
    "a complex value": (value(1j), "function 'f': 1j is not a number"),
    "no dict": (
        lambda: checked_values(Problem(SPACE, "f", {"c": (0, 1)}), 3.0),  # type: ignore[arg-type]
        "what was observed must be a dict with a value for each of f, c; got 3.0",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_gets_a_sentence_before_anything_is_spent(mistake: str) -> None:
    make, sentence = MISTAKES[mistake]
    CALLS.clear()
    with pytest.raises((ValueError, TypeError)) as caught:
        make()
    assert sentence in str(caught.value)
    assert not CALLS


def test_a_mistake_leaves_no_journal_behind(tmp_path: Path) -> None:
    for wrong in ({"workers": 0}, {"initial": "x.csv"}, {"functions": {}}, {"tol": "1%"}):
        with pytest.raises(ValueError):
            low(journal=tmp_path / "run.jsonl", **wrong)()
    assert not (tmp_path / "run.jsonl").exists()


def test_no_sentence_advises_a_penalty() -> None:
    with pytest.raises(ValueError, match="no penalty"):
        value(math.inf)()


ACCEPTED: dict[str, Any] = {
    "a dict of ranges": {"space": {"x": (0.0, 1.0)}},
    "a table": {"space": TABLE},
    "an array of candidates": {
        "space": np.array([[0.0], [1.0]]),
        "functions": {"f": len, "c": len},
    },
    "a whole float": {"budget": 3.0},
    "no constraints": {"constraints": None},
    "a bare number": {"functions": lambda p: p["x"], "constraints": {}},
    "a truth": {"functions": lambda p: p["x"] > 0.5, "constraints": {}},
    "an array of one": {"functions": lambda p: {"f": np.array([p["x"]]), "c": np.float32(1)}},
    "a tensor of one": {"functions": lambda p: {"f": torch.tensor(p["x"]), "c": torch.ones(1, 1)}},
    "a series": {"functions": lambda p: pd.Series({"f": p["x"], "c": 1.0})},
    "a list to catch": {"catch": [RuntimeError, OSError]},
    "numbers of NumPy": {"budget": np.int64(3), "seed": np.int64(4), "tol": np.float64(0.0)},
}


@pytest.mark.parametrize("kind", ACCEPTED)
def test_what_is_meant_is_accepted(kind: str) -> None:
    result = low(**ACCEPTED[kind])()
    assert 2 <= len(result.history) <= 3 and result.history["f"].notna().all()


def test_an_optimiser_takes_a_dict_and_a_table() -> None:
    assert isinstance(Cobalt(SPACE, "f").problem.space, Box)  # type: ignore[arg-type]
    assert isinstance(Cobalt(TABLE, "f").problem.space, Pool)  # type: ignore[arg-type]


@pytest.mark.parametrize("thing", [Box, Pool, Problem, minimize, maximize])
def test_help_names_every_argument_and_shows_an_example(thing: Any) -> None:
    said = inspect.getdoc(thing) or ""
    for name in set(inspect.signature(thing).parameters) - {"unknown"}:
        assert f"`{name}`" in said, name
    assert ">>>" in said
