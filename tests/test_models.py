"""The models of a run fit its functions: they are not bent by where the optimiser went."""

import math

import pytest

from cobalt_nb import Box, Cobalt

EDGE = 1 - math.sqrt(0.5)  # where 1 - (x - 1)² is a half, and the optimum


def parabola_run(seed: int, unit: float, evaluations: int = 25) -> Cobalt:
    """Maximise -x subject to 1 - (x - 1)² ≥ 1/2, every output told in this unit."""
    opt = Cobalt(Box({"x": (0.0, 2.0)}), "f", {"c": (0.5 * unit, None)}, noise=0, seed=seed)
    for _ in range(evaluations):
        query = opt.ask()
        x = query.x["x"]
        opt.tell(query, {"f": -x * unit, "c": (1 - (x - 1) ** 2) * unit})
    return opt


@pytest.mark.parametrize("seed", [0, 1, 3])
def test_a_smooth_constraint_stays_smooth_however_often_its_limit_is_evaluated(seed: int) -> None:
    opt = parabola_run(seed, unit=1.0)
    result = opt.result()
    assert not opt.models.surrogates["c"].warp.bent
    assert result.lower - 1e-9 <= -EDGE <= result.upper + 1e-9


@pytest.mark.parametrize("unit", [1e-8, 1e8])
def test_a_fit_does_not_depend_on_the_unit(unit: float) -> None:
    plain, scaled = (parabola_run(0, unit=u, evaluations=16).models for u in (1.0, unit))
    for name, one in plain.surrogates.items():
        other = scaled.surrogates[name]
        assert (one.warp.bent, one.hyper.kernel) == (other.warp.bent, other.hyper.kernel)
        assert other.hyper.lengthscale.tolist() == pytest.approx(
            one.hyper.lengthscale.tolist(), rel=1e-3
        )
