"""The page of a run: what stands on it, for every kind of run, and that a browser shows it."""

from __future__ import annotations

import json
import math
import pickle
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import webcheck

import cobalt_nb.summary
from cobalt_nb import Box, Cobalt, Pool, Result, minimize
from cobalt_nb.models import Policy
from cobalt_nb.page import page, verdict
from cobalt_nb.tradeoffs import closing

in_browser = pytest.mark.skipif(
    not webcheck.browser(), reason="there is no Chromium on this machine"
)
Functions = Callable[[Mapping[str, Any]], dict[str, Any]]
SQUARE = {"x": (0.0, 1.0), "y": (0.0, 1.0)}
ALL = ["design", "run", "around", "planes", "matters", "models", "margins", "asked", "settings"]


def told(opt: Cobalt, functions: Functions, n: int = 8) -> Cobalt:
    """An optimiser that was told `n` of the first points of a sequence; the last is asked for."""
    space = opt.problem.space
    if isinstance(space, Pool):
        points = [space.row(i) for i in range(n)]
    else:
        points = space.decode(space.sobol(n, 1))
    for k, x in enumerate(points):
        values = functions(x)
        if opt.settings.decoupled:
            values = {opt.problem.functions[k % 2]: values[opt.problem.functions[k % 2]]}
        opt.tell(x, values)
    return opt


def sums(x: Mapping[str, Any]) -> dict[str, Any]:
    return {"f": x["x"] + x["y"], "c": x["x"] * x["y"]}


def noisy() -> Functions:
    rng = np.random.default_rng(0)
    return lambda x: {name: v + 0.05 * rng.normal() for name, v in sums(x).items()}


def mixed() -> Cobalt:
    space = Box({"x": (1.0, 9.0, "log"), "n": (2, 5, "int"), "kind": ["a", "b & c"]})
    opt = Cobalt(space, "f", {"c": (None, 20.0)}, maximize=False)
    return told(opt, lambda x: {"f": x["x"] * x["n"], "c": x["x"] + (x["kind"] == "a")}, 9)


def pool() -> Cobalt:
    table = pd.DataFrame({"id": list("abcdefghij"), "x": range(10), "metal": ["Fe", "Ni"] * 5})
    opt = Cobalt(Pool(table, carry=["id"]), "f", {"c": (None, 5.0)}, n_init=4)
    return told(opt, lambda x: {"f": x["x"] + (x["metal"] == "Ni"), "c": float(x["x"])}, 7)


def labelled(x: Mapping[str, Any]) -> dict[str, Any]:
    return {"f": x["x"], "ok": float(x["x"] + x["y"] < 1)}


def failing(x: Mapping[str, Any]) -> dict[str, Any]:
    return {} if x["x"] > 0.7 else sums(x)


def sphere(x: Mapping[str, Any]) -> dict[str, Any]:
    return {"f": sum(v * v for v in x.values())}


RUNS: dict[str, Callable[[], Cobalt]] = {
    "mixed": mixed,
    "pool": pool,
    "line": lambda: told(
        Cobalt(Box({"x": (0.0, 1.0)}), "f", {"c": (0.2, 0.8)}), lambda x: {"f": x["x"], "c": x["x"]}
    ),
    "many": lambda: told(
        Cobalt(Box({f"x{i}": (0.0, 1.0) for i in range(11)}), "f", policy=Policy(paths=8)),
        sphere,
        14,
    ),
    "free": lambda: told(Cobalt(Box(SQUARE), "f"), lambda x: {"f": x["x"] - x["y"] ** 2}),
    "nothing feasible": lambda: told(Cobalt(Box(SQUARE), "f", {"c": (None, -1.0)}), sums),
    "nothing came": lambda: told(Cobalt(Box(SQUARE), "f", {"c": (None, 0.5)}), lambda x: {}, 9),
    "alone": lambda: told(Cobalt(Box(SQUARE), "f", {"c": (None, -1.0)}), sums, 1),
    "too few": lambda: told(Cobalt(Box(SQUARE), "f", {"c": (None, 0.5)}), sums, 2),
    "none": lambda: Cobalt(Box(SQUARE), "f", {"c": (None, 0.5)}),
    "noisy": lambda: told(Cobalt(Box(SQUARE), "f", {"c": (None, 0.5)}, noise=0.05), noisy(), 10),
    "decoupled": lambda: told(
        Cobalt(Box(SQUARE), "f", {"c": (None, 0.5)}, decoupled=True), sums, 12
    ),
    "failures": lambda: told(Cobalt(Box(SQUARE), "f", {"c": (None, 0.5)}), failing, 10),
    "labels": lambda: told(Cobalt(Box(SQUARE), "f", {"ok": (0.5, None)}), labelled, 10),
    "known": lambda: told(
        Cobalt(Box(SQUARE), "f", {"c": (None, 0.5)}, known={"c": lambda x: x["x"] * x["y"]}), sums
    ),
}
LACKING = {
    "line": {"planes"},
    "free": {"margins"},
    "many": {"margins"},
    "too few": {"around", "planes", "matters", "models", "margins"},
    "nothing came": {"around", "planes", "matters", "models", "margins"},
    "alone": {"around", "planes", "matters", "models", "margins"},
    "none": {"design", "run", "around", "planes", "matters", "models", "margins", "asked"},
}


def sections(text: str) -> list[str]:
    return re.findall(r'<section id="(\w+)">', text)


def data(text: str) -> dict[str, Any]:
    return json.loads(re.search(r'id="data">(.*?)</script>', text, re.S)[1])


def no_constant(text: str) -> Any:
    raise AssertionError(f"{text} is not JSON")


@pytest.fixture(scope="module")
def made() -> dict[str, tuple[Result, str]]:
    """A result of every kind and its page, with two checkpoints of the interval each."""
    found = {}
    for name, make in RUNS.items():
        opt = make()
        if name == "line":
            opt.ask()
        found[name] = opt.result()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cobalt_nb.summary, "closing", partial(closing, most=2))
        return {name: (result, page(result)) for name, result in found.items()}


@pytest.mark.parametrize("name", RUNS)
def test_every_kind_of_run_has_its_page(name: str, made: dict[str, tuple[Result, str]]) -> None:
    result, text = made[name]
    assert sections(text) == [one for one in ALL if one not in LACKING.get(name, set())]
    assert webcheck.Scan(text).ids.most_common(1)[0][1] == 1
    assert not re.search(
        r"https?:|//[a-z]|url\((?!#)|@import", re.sub(r"^ *//.*$", "", text, flags=re.M)
    )
    assert verdict(result) in text.replace("&lt;", "<").replace("&amp;", "&")
    json.loads(json.dumps(data(text)), parse_constant=no_constant)
    assert "nan" not in text.lower().split("<script")[0]
    assert len(text) < 400_000


def test_what_the_verdict_says(made: dict[str, tuple[Result, str]]) -> None:
    said = {name: verdict(result) for name, (result, _) in made.items()}
    assert said["none"] == "Nothing was evaluated yet."
    assert said["nothing feasible"].startswith("None of 8 evaluations was feasible yet")
    assert "no bound of the maximum can be given yet" in said["too few"]
    assert "at most" in said["line"] and "with probability at least 0.9" in said["line"]
    assert said["nothing came"] == "All 9 evaluations failed: nothing was measured yet."
    assert said["alone"] == "The only evaluation was not feasible; it is shown."
    assert " ± " in said["noisy"] and "all constraints are met with probability" in said["noisy"]
    value = made["decoupled"][0].value
    assert made["decoupled"][0].feasible is None and f"f = {value:.6g}" in said["decoupled"]
    assert "the maximum is at most" in said["decoupled"]


def test_what_stands_in_the_data(made: dict[str, tuple[Result, str]]) -> None:
    facts = data(made["mixed"][1])
    assert [one["name"] for one in facts["parameters"]] == ["x", "n", "kind"]
    assert facts["slices"]["kind"]["values"] == [0.0, 1.0] and len(facts["planes"]) == 3
    assert len(data(made["many"][1])["planes"]) == 6
    assert "failed" in data(made["failures"][1])["evaluations"]["kind"]
    assert None in data(made["decoupled"][1])["evaluations"]["y"]["c"]
    assert data(made["labels"][1])["functions"][1]["labels"]
    last = data(made["line"][1])["intervals"][-1]
    assert last[0] == 8 and last[2] == pytest.approx(made["line"][0].upper, rel=1e-6)
    asked = made["line"][0].behind.pending[0]
    assert asked.reason.split(";")[0] in made["line"][1]


def test_the_notes_say_what_the_marks_mean(made: dict[str, tuple[Result, str]]) -> None:
    texts = {name: text for name, (_, text) in made.items()}
    assert "no value of f (faint, at the bottom)" not in texts["line"]
    assert "evaluations have no value of f (faint, at the bottom)" in texts["decoupled"]
    assert "the best measurement is not always the best design" in texts["noisy"]
    assert "What the certificate assumes" not in texts["nothing came"]  # nothing is claimed
    assert "What the certificate assumes" in texts["line"]
    assert "All 1 evaluations" not in texts["alone"]


def test_planes_go_through_the_design_and_shares_are_shares(
    made: dict[str, tuple[Result, str]],
) -> None:
    for name in ("mixed", "pool", "free", "noisy", "labels", "decoupled"):
        facts = data(made[name][1])
        for one in facts["planes"]:
            for key, axis in zip(one["pair"], one["axes"]):
                assert facts["point"][key] in axis and axis == sorted(axis)
            assert "1" in one["roi"] or name == "nothing feasible"
        for function, total in facts["total"].items():
            first = facts["first"][function]
            assert all(0 <= a <= b <= 1 for a, b in zip(first, total))


EVIL = '<img src=x onerror="alert(1)">&\'`</script><script>alert(2)</script>{0}%s'


def test_every_name_is_escaped(tmp_path: Path) -> None:
    opt = Cobalt(Box({EVIL: (0.0, 1.0), "k": ["a", EVIL]}), EVIL + "f", {EVIL + "c": (None, 0.5)})
    names = opt.problem.functions
    told(opt, lambda x: {names[0]: x[EVIL], names[1]: x[EVIL] ** 2, EVIL + "extra": EVIL}, 7)
    opt.tell(opt.ask(), {names[0]: None, "error": EVIL})
    text = opt.report(tmp_path / "run.html").read_text(encoding="utf-8")
    assert "<img" not in text and "alert(2)</script>" not in text
    assert text.count("<script") == 2 == text.count("</script>")
    assert data(text)["objective"] == names[0]


def test_a_journal_and_a_running_optimiser(tmp_path: Path) -> None:
    opt = told(
        Cobalt(Box(SQUARE), "f", {"c": (None, 0.5)}, journal=tmp_path / "run.jsonl"), sums, 5
    )
    query = opt.ask()
    opt.close()
    size = (tmp_path / "run.jsonl").read_bytes()
    path = Cobalt.load(tmp_path / "run.jsonl").report(str(tmp_path / "new" / "run.html"))
    assert path == tmp_path / "new" / "run.html" and query.functions == ("f", "c")
    assert f"x = {query.x['x']:.6g}" in path.read_text(encoding="utf-8")
    assert (tmp_path / "run.jsonl").read_bytes() == size  # reading never writes
    with pytest.raises(ValueError, match="is a folder; name a file in it"):
        opt.report(tmp_path)


def test_a_result_from_another_process_has_what_was_measured(tmp_path: Path) -> None:
    result = minimize(sums, SQUARE, "f", {"c": (0.2, None)}, budget=6, tol=None, progress=False)
    twin = pickle.loads(pickle.dumps(result))
    text = page(twin)
    assert twin.behind is None and "its models are not with it" in text
    assert sections(text) == ["design", "run", "asked", "settings"]
    assert sections(page(result)) == ALL and not math.isnan(result.value)


def test_units_are_shown_and_kept_only_if_they_are_given(tmp_path: Path) -> None:
    plain, said = tmp_path / "plain.jsonl", tmp_path / "said.jsonl"
    for path, units in ((plain, None), (said, {"f": "kg", "x": "mm"})):
        told(
            Cobalt(Box(SQUARE), "f", {"c": (None, 0.5)}, units=units, journal=path), sums, 3
        ).close()
    assert "units" not in plain.read_text() and '"units": {"f": "kg"' in said.read_text()
    opt = Cobalt.load(said)
    text = page(opt.result())
    assert data(text)["units"] == {"f": "kg", "x": "mm"} and " mm</td>" in text
    assert opt.result().plot().get_ylabel() == "f [kg]"
    options = {"budget": 4, "tol": None, "progress": False, "journal": tmp_path / "run.jsonl"}
    minimize(sums, SQUARE, "f", {"c": (0.1, None)}, **options)
    later = minimize(sums, SQUARE, "f", {"c": (0.1, None)}, **options, units={"f": "g"})
    assert later.problem.units == {"f": "g"} and len(later.history) == 4
    with pytest.raises(ValueError, match="neither a parameter nor a function"):
        Cobalt(Box(SQUARE), "f", units={"fx": "kg"})


def test_objects_show_themselves_in_a_notebook() -> None:
    opt = told(Cobalt(Box({"<x>": (0.0, 1.0)}), "f", {"c": (None, 0.5)}), sums_of, 4)
    query, result = opt.ask(), opt.result()
    shown = [opt, query, result, result.certificate, opt.problem.space, pool().problem.space]
    for one in shown:
        text = one._repr_html_()
        assert "<table>" in text and "<x>" not in text and len(text) < 6000
    assert all("<svg" in one._repr_html_() for one in (opt, result))
    empty = Cobalt(Box(SQUARE), "f")
    assert (
        "nothing feasible yet" in empty._repr_html_()
        and "undecided" in empty.result()._repr_html_()
    )


def test_text_is_short_and_has_units() -> None:
    units = {"f": "kg", "x": "mm"}
    opt = told(Cobalt(Box(SQUARE), "f", {"c": (None, 0.9)}, units=units), sums, 1)
    result = opt.result()
    assert "best of 1 evaluation\n" in str(result) and " kg" in str(result)
    assert f"x = {result.x['x']:.6g} mm" in str(result)
    assert len(repr(result)) < 200 and "status='undecided'" in repr(result)


def sums_of(x: Mapping[str, Any]) -> dict[str, Any]:
    return {"f": x["<x>"], "c": x["<x>"]}


@pytest.mark.slow
@in_browser
@pytest.mark.parametrize("width", [390, 1280])
def test_chromium_shows_every_page(
    width: int, made: dict[str, tuple[Result, str]], tmp_path: Path
) -> None:
    for name, (_, text) in made.items():
        (tmp_path / f"{name}.html".replace(" ", "-")).write_text(text, encoding="utf-8")
    found = webcheck.seen(tmp_path, width)
    assert found == dict.fromkeys(found, []) and len(found) == len(RUNS)
