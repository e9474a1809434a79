"""The pictures of a run: each in the words of its page, and none that a kind of run breaks."""

from __future__ import annotations

import html
from collections.abc import Callable

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.text import Text

from cobalt_nb import Box, Cobalt, Pool, Result
from cobalt_nb.page import page
from cobalt_nb.plots import (
    plot_contours,
    plot_predictions,
    plot_prices,
    plot_safer,
    plot_sensitivity,
)

PLOTS: list[Callable[[Cobalt | Result], Axes | np.ndarray]] = [
    plot_contours,
    plot_predictions,
    plot_prices,
    plot_safer,
    plot_sensitivity,
]
SQUARE = {"x": (0.0, 1.0), "y": (0.0, 1.0)}


def told(opt: Cobalt, n: int = 10, noise: float = 0.0) -> Cobalt:
    """An optimiser that was told `n` points, f = x + y and c = x · y with noise."""
    rng, space = np.random.default_rng(0), opt.problem.space
    points = space.decode(space.sobol(n, 1)) if isinstance(space, Box) else []
    for x in points or [space.row(i) for i in range(n)]:  # type: ignore[union-attr]
        a, b = (float(v) if not isinstance(v, str) else len(v) for v in list(x.values())[:2])
        values = {"f": a + b, "c": a * b}
        noisy = {name: v + noise * rng.standard_normal() for name, v in values.items()}
        opt.tell(x, {name: noisy[name] for name in opt.problem.unknown})
    return opt


def failed() -> Cobalt:
    opt = told(Cobalt(Box(SQUARE), "f", {"c": (None, 0.3)}))
    for x, y in ((0.9, 0.95), (0.95, 0.8)):
        opt.tell({"x": x, "y": y}, {})
    return opt


RUNS: dict[str, Callable[[], Cobalt]] = {
    "limits": lambda: told(Cobalt(Box(SQUARE), "f", {"c": (0.05, 0.3)})),
    "noisy": lambda: told(Cobalt(Box(SQUARE), "f", {"c": (None, 0.3)}), noise=0.1),
    "no limits": lambda: told(Cobalt(Box(SQUARE), "f", maximize=False)),
    "known": lambda: told(
        Cobalt(Box(SQUARE), "f", {"c": (None, 0.3)}, known={"c": lambda x: x["x"] * x["y"]})
    ),
    "choices": lambda: told(
        Cobalt(Box({"k": ["a", "bcd"], "n": (1, 4, "int")}), "f", {"c": (None, 6.0)})
    ),
    "few": lambda: told(Cobalt(Box(SQUARE), "f", {"c": (None, 0.3)}), 2),
    "pool": lambda: told(
        Cobalt(Pool(pd.DataFrame({"a": np.arange(20.0), "b": [1, 3] * 10})), "f", {"c": (None, 9)})
    ),
    "failures": failed,
}


@pytest.mark.parametrize("name", RUNS)
def test_every_run_has_its_pictures(name: str) -> None:
    opt = RUNS[name]()
    for plot in PLOTS:
        for ax in np.ravel(np.asarray(plot(opt), dtype=object)):
            assert ax.axison or ax.texts[0].get_text().endswith(".")
            ax.figure.canvas.draw()
        plt.close("all")


def test_the_words_are_those_of_the_page() -> None:
    units = {"x": "mm", "f": "kg", "c": "MPa"}
    result = told(Cobalt(Box(SQUARE), "f", {"c": (None, 0.3)}, units=units)).result()
    text = html.unescape(page(result))
    contours, safer = plot_contours(result, function="c"), plot_safer(result)
    legend = contours.get_legend()
    assert legend is not None
    words = {one.get_text() for one in legend.texts} - {"probably infeasible"}
    assert {"region of interest", "this design", "infeasible", "feasible"} <= words
    words |= {"probably infeasible", safer.get_xlabel()}
    words |= {"c at most 0.3 MPa", ", best modelled", ", told", ", from the others", "within ±2 sd"}
    assert [one for one in sorted(words) if one not in text] == []
    limit: Text = plot_prices(result).get_yticklabels()[0]
    assert limit.get_text() == "c at most 0.3 MPa"
    (ax,) = plot_predictions(result, "f")
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("f [kg], told", "f [kg], from the others")
    assert safer.get_ylabel() == "f [kg], best modelled"
    plt.close("all")


def test_too_few_axes_are_noticed() -> None:
    result = RUNS["limits"]().result()
    with pytest.raises(ValueError, match="2 functions need as many axes; got 1"):
        plot_predictions(result, ax=plt.figure().subplots())
    plt.close("all")
