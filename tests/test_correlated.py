"""Correlated functions: the switch, its journal, second names, and what a user is told."""

import copy
import json
import math
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cobalt_nb import Box, Cobalt, Pool, maximize
from cobalt_nb.correlated import APART, JOINT

GRID = np.linspace(0, 1, 81)
POOL = Pool(pd.DataFrame({"x": GRID}))
LINE = Box({"x": (0.0, 1.0)})
COSTS = {"f": 5.0, "c": 1.0}


def values(x: dict) -> dict[str, float]:
    wave = math.sin(9 * x["x"]) + 0.5 * math.cos(17 * x["x"])
    return {"f": wave, "c": wave + 0.2 * math.cos(5 * x["x"]), "d": 1 - 2 * wave}


def told(opt: Cobalt, n: int) -> list[tuple[float, tuple[str, ...]]]:
    """Answer `n` queries; where and what was asked."""
    asked = []
    for _ in range(n):
        query = opt.ask()
        opt.tell(query, {name: values(query.x)[name] for name in query.functions})
        asked.append((query.x["x"], query.functions))
    return asked


def make(space: Box | Pool = POOL, correlated: bool | str = True, **settings: object) -> Cobalt:
    limits = {"c": (None, 0.9)}
    ways = {"decoupled": True, "costs": COSTS} | settings
    return Cobalt(space, "f", limits, correlated=correlated, seed=1, **ways)


def test_the_default_leaves_no_trace(tmp_path: Path) -> None:
    for name, given in (("without", {}), ("with", {"correlated": False})):
        opt = Cobalt(POOL, "f", {"c": (None, 0.9)}, seed=1, journal=tmp_path / name, **given)
        told(opt, 8)
        opt.close()
    text = (tmp_path / "without").read_text()
    assert text == (tmp_path / "with").read_text() and "correlated" not in text
    assert JOINT not in text and json.dumps(JOINT)[1:-1] not in text
    assert opt.result().related == "" and APART not in opt.certificate().assumptions


@pytest.mark.parametrize("space", [POOL, LINE], ids=["pool", "box"])
@pytest.mark.parametrize("decoupled", [True, False])
def test_a_journal_repeats_and_goes_on(space: Box | Pool, decoupled: bool, tmp_path: Path) -> None:
    settings = {"decoupled": decoupled, "costs": COSTS if decoupled else None}
    opt = make(space, True, journal=tmp_path / "run", **settings)
    told(opt, 12)
    opt.close()
    first = json.loads((tmp_path / "run").read_text().splitlines()[0])
    assert first["settings"]["correlated"] is True
    again = Cobalt.load(tmp_path / "run")
    assert again.models.joint is not None
    assert told(again, 2) == told(copy.deepcopy(opt), 2)


def test_the_switch_is_checked() -> None:
    with pytest.raises(ValueError, match='correlated is True, False or "auto"; got 3'):
        make(correlated=3)  # type: ignore[arg-type]


def test_a_result_tells() -> None:
    opt = make()
    told(opt, 14)
    result = opt.result()
    assert "the functions are modelled together" in result.related and result.related in str(result)
    assert opt.certificate().assumptions[-1] == APART
    alone = Cobalt(POOL, "f", seed=1, correlated="auto")
    told(alone, 5)
    assert alone.result().related == "there are no two functions to model together"


def test_pending_queries_and_pages(tmp_path: Path) -> None:
    for space in (POOL, LINE):
        opt = make(space)
        told(opt, 8)
        queries = opt.ask(3)
        assert len({(query.x["x"], query.functions) for query in queries}) == 3
        for query in queries:
            opt.tell(query, {name: values(query.x)[name] for name in query.functions})
        assert opt.report(tmp_path / "page.html").stat().st_size > 0


def test_second_names_are_not_paid_twice() -> None:
    limits, costs = {"c": (-0.2, None), "d": (0.0, None)}, {"f": 1.0, "c": 1.0, "d": 3.0}
    settings = {"decoupled": True, "costs": costs, "n_init": 4}  # at four points a line shows
    opt = Cobalt(POOL, "f", limits, correlated=True, seed=0, **settings)
    asked = told(opt, 16)
    assert opt.models.same["d"].leader == "f"
    assert not any(functions == ("d",) for _, functions in asked)
    assert "d is f on another scale" in opt.result().related


def test_one_call() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = maximize(
            lambda x: {name: values(x)[name] for name in ("f", "c")},
            {"x": (0.0, 1.0)},
            "f",
            {"c": (None, 0.9)},
            budget=10,
            correlated="auto",
            progress=False,
        )
    assert result.feasible and result.related
