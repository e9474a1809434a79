"""CobaltSampler against Optuna: its contract for samplers, real storages, killed workers."""

from __future__ import annotations

import doctest
import inspect
import math
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import optuna
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.samplers import BaseSampler
from optuna.storages import JournalStorage, RDBStorage, RetryHeartbeatStaleTrialCallback
from optuna.storages.journal import JournalFileBackend
from optuna.testing.pytest_samplers import (
    BasicSamplerTestCase,
    RelativeSamplerTestCase,
    SingleOnlySamplerTestCase,
)
from optuna.trial import FrozenTrial, Trial, TrialState, create_trial

from cobalt_nb.optimizer import Cobalt
from cobalt_nb.optuna import CobaltSampler, StopAtGap, StudyReader, decoupled, set_within
from cobalt_nb.records import Query

optuna.logging.set_verbosity(optuna.logging.ERROR)


class TestContract(BasicSamplerTestCase, RelativeSamplerTestCase, SingleOnlySamplerTestCase):
    """Optuna's own test cases; two startup trials, so that most of them reach the model."""

    @pytest.fixture
    def sampler(self) -> Callable[[], BaseSampler]:
        return lambda: CobaltSampler(n_startup_trials=2, seed=0)


def corner(trial: Trial) -> float:
    """x + y, to be minimised where x² + y² ≥ 1; the optimum is 1."""
    x, y = trial.suggest_float("x", 0.0, 2.0), trial.suggest_float("y", 0.0, 2.0)
    set_within(trial, "circle", (1.0, None), x**2 + y**2)
    return x + y


def sampler(**options: object) -> CobaltSampler:
    return CobaltSampler(["circle"], **{"n_startup_trials": 5, "seed": 0} | options)


def storages(folder: Path) -> dict[str, Callable[[], optuna.storages.BaseStorage | None]]:
    return {
        "memory": lambda: None,
        "sqlite": lambda: RDBStorage(f"sqlite:///{folder / 'study.db'}"),
        "journal": lambda: JournalStorage(JournalFileBackend(str(folder / "study.log"))),
    }


@pytest.mark.parametrize("kind", ["memory", "sqlite", "journal"])
def test_the_storage_makes_no_difference(kind: str, tmp_path: Path) -> None:
    studies = [
        optuna.create_study(storage=storages(tmp_path)[name](), sampler=sampler())
        for name in ("memory", kind)
    ]
    for study in studies:
        study.optimize(corner, n_trials=12)
    assert [trial.params for trial in studies[0].trials] == [
        trial.params for trial in studies[1].trials
    ]
    assert studies[1].best_value < 1.2


def test_a_study_goes_on_in_another_process_state(tmp_path: Path) -> None:
    """Another sampler object on the same storage knows what the first one knew."""
    url = f"sqlite:///{tmp_path / 'study.db'}"
    optuna.create_study(storage=url, study_name="s", sampler=sampler()).optimize(corner, n_trials=8)
    study = optuna.load_study(storage=url, study_name="s", sampler=sampler())
    study.optimize(corner, n_trials=8)
    assert len(study.trials) == 16 and study.best_value < 1.05
    assert len(study.sampler.memory(study).opt.archive) == 16


def test_maximise_is_minimise_of_the_negative() -> None:
    low = optuna.create_study(sampler=sampler())
    high = optuna.create_study(sampler=sampler(), direction="maximize")
    low.optimize(corner, n_trials=15)
    high.optimize(lambda trial: -corner(trial), n_trials=15)
    for one, other in zip(low.trials, high.trials):
        assert one.params == pytest.approx(other.params, abs=1e-6)


def test_seeds() -> None:
    def params(**options: object) -> list[dict[str, float]]:
        study = optuna.create_study(sampler=sampler(**options))
        study.optimize(corner, n_trials=8)
        return [trial.params for trial in study.trials]

    assert params(seed=3) == params(seed=3) != params(seed=4)
    reseeded = sampler(seed=3)
    reseeded.reseed_rng()
    assert reseeded.seed != 3
    assert sampler(seed=None).seed != sampler(seed=None).seed


def test_workers_with_one_seed_do_not_begin_with_one_point() -> None:
    """At first every worker draws at random; the trial's number makes the draws differ."""
    studies = [optuna.create_study(sampler=sampler()) for _ in range(2)]
    studies[1].ask()  # the second worker's trial has another number
    one, other = (
        study.ask({"x": FloatDistribution(0.0, 1.0), "y": FloatDistribution(0.0, 1.0)}).params
        for study in studies
    )
    assert len({*one.values(), *other.values()}) == 4


def test_a_pickled_sampler_goes_on() -> None:
    study = optuna.create_study(sampler=sampler())
    study.optimize(corner, n_trials=8)
    copy = optuna.create_study(sampler=pickle.loads(pickle.dumps(study.sampler)))
    copy.add_trials(study.trials)
    copy.optimize(corner, n_trials=3)
    assert len(copy.trials) == 11 and copy.sampler.seed == study.sampler.seed


def test_threads_do_not_evaluate_a_point_twice() -> None:
    study = optuna.create_study(sampler=sampler())
    study.optimize(lambda trial: (corner(trial), time.sleep(0.02))[0], n_trials=24, n_jobs=2)
    assert {trial.state for trial in study.trials} == {TrialState.COMPLETE}
    assert len({tuple(trial.params.values()) for trial in study.trials}) == 24


def test_running_trials_are_pending() -> None:
    """Trials asked for before any of them ends spread out: they know of each other."""

    def wavy(trial: Trial) -> float:
        x, y = trial.suggest_float("x", 0.0, 2.0), trial.suggest_float("y", 0.0, 2.0)
        trial.set_constraint("circle", math.sin(4 * x) * math.cos(5 * y) - 0.5)
        return math.sin(5 * x + 1) * math.cos(4 * y)

    study = optuna.create_study(sampler=sampler())
    study.optimize(wavy, n_trials=10)
    space = study.sampler.infer_relative_search_space(study, study.trials[-1])
    points = [study.ask(space).params for _ in range(6)]
    apart = [
        math.dist(one.values(), other.values())
        for i, one in enumerate(points)
        for other in points[:i]
    ]
    assert min(apart) > 0.005


@pytest.mark.parametrize("kind", ["memory", "sqlite", "journal"])
def test_two_workers_that_ask_in_the_same_moment(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second chooses while the first does, and both come to the same point."""
    corner_of_all, elsewhere = {"x": 0.0, "y": 2.0}, {"x": 1.0, "y": 1.0}
    storage = storages(tmp_path)[kind]() or optuna.storages.InMemoryStorage()
    first = optuna.create_study(study_name="s", storage=storage, sampler=sampler())
    second = optuna.load_study(study_name="s", storage=storage, sampler=sampler())
    first.optimize(corner, n_trials=6)
    space = first.sampler.infer_relative_search_space(first, first.trials[-1])
    asked: list[Trial] = []

    def ruled(opt: Cobalt, pending: list[Query], number: int) -> tuple[dict[str, float], str]:
        if number == 6 and not asked:
            asked.append(second.ask(space))
        taken = corner_of_all in [query.x for query in pending]
        return (elsewhere if taken else corner_of_all), "exploit"

    monkeypatch.setattr("cobalt_nb.optuna.ruled", ruled)
    trial = first.ask(space)
    assert [trial.params, asked[0].params] == [elsewhere, corner_of_all]
    assert [one.params for one in first.trials[6:]] == [elsewhere, corner_of_all]


def test_one_running_trial_exploits_at_a_time_and_old_ones_do_not_count() -> None:
    study = optuna.create_study(sampler=sampler())
    study.optimize(corner, n_trials=8)
    study.ask(study.sampler.infer_relative_search_space(study, study.trials[-1]))
    memory, trials = study.sampler.memory(study), study.trials
    aspects = {
        number: memory.pending(trials, number, first=5)[0].aspect for number in (9, 11, 12, 40)
    }
    assert aspects == {9: "exploit", 11: "exploit", 12: "running", 40: "running"}


def test_failed_and_pruned_trials() -> None:
    def objective(trial: Trial) -> float:
        value = corner(trial)
        if trial.number % 4 == 1:
            raise RuntimeError("crash")
        if trial.number % 4 == 2:
            trial.report(-1e9, step=0)  # an intermediate value is not the objective
            raise optuna.TrialPruned
        return value if trial.number % 4 else math.nan if trial.number % 8 else value

    study = optuna.create_study(sampler=sampler())
    study.optimize(objective, n_trials=32, catch=RuntimeError)
    archive = study.sampler.memory(study).opt.archive
    assert {trial.state for trial in study.trials} == {
        TrialState.COMPLETE,
        TrialState.FAIL,
        TrialState.PRUNED,
    }
    assert (
        len(archive) == 32 and archive.column("circle").isfinite().all()
    )  # every trial told its constraint
    assert int(archive.column("objective").isfinite().sum()) == sum(
        trial.state == TrialState.COMPLETE for trial in study.trials
    )
    assert study.best_value < 1.1


def test_a_trial_that_failed_with_nothing_is_avoided() -> None:
    space = {"x": FloatDistribution(0.0, 1.0)}
    study = optuna.create_study(sampler=CobaltSampler(n_startup_trials=3, seed=0))
    for x in (0.0, 0.4, 1.0):
        study.add_trial(create_trial(params={"x": x}, distributions=space, value=(x - 0.7) ** 2))
    study.add_trial(create_trial(params={"x": 0.7}, distributions=space, state=TrialState.FAIL))
    points = [study.ask(space).params["x"] for _ in range(8)]
    assert all(abs(x - 0.7) > 0.1 for x in points)


def test_a_trial_that_failed_halfway_tells_what_it_knew() -> None:
    """The objective was NaN, or the circle: the other function was observed, this one failed."""

    def objective(trial: Trial) -> float:
        x, y = trial.suggest_float("x", 0.0, 2.0), trial.suggest_float("y", 0.0, 2.0)
        set_within(trial, "disc", (None, 5.0), x**2 + y**2)
        broken = trial.number % 4 == 1
        set_within(trial, "circle", (1.0, None), math.nan if broken else x**2 + y**2)
        return math.nan if trial.number % 4 == 2 else x + y

    chooser = CobaltSampler(["disc", "circle"], n_startup_trials=4, seed=0)
    study = optuna.create_study(sampler=chooser)
    study.optimize(objective, n_trials=16, catch=ValueError)
    archive = chooser.memory(study).opt.archive
    unknown = {name: archive.column(name).isnan().tolist() for name in archive.problem.functions}
    kinds = [number % 4 for number in range(16)]
    assert [trial.state == TrialState.FAIL for trial in study.trials] == [
        k in (1, 2) for k in kinds
    ]
    assert unknown["objective"] == [k in (1, 2) for k in kinds]
    assert unknown["circle"] == [k == 1 for k in kinds] and not any(unknown["disc"])
    assert len({tuple(trial.params.values()) for trial in study.trials}) == 16


def test_what_a_failed_trial_is_asked_for_counts_as_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A failure is told with NaN for each function that was asked for, and for no other."""
    told: list[dict[str, float]] = []
    monkeypatch.setattr(Cobalt, "tell", lambda opt, x, values: told.append(dict(values)))
    space = {"x": FloatDistribution(0.0, 1.0)}
    what = CategoricalDistribution(["all", "objective", "circle"])
    for evaluate, asked in (
        (None, None),
        ("what", "all"),
        ("what", "circle"),
        ("what", "objective"),
    ):
        chooser = sampler(evaluate=evaluate)
        study = optuna.create_study(sampler=chooser)
        params, kinds = {"x": 0.5}, dict(space)
        if evaluate:
            params, kinds = params | {"what": asked}, kinds | {"what": what}
        study.add_trial(
            create_trial(params=params, distributions=kinds, value=1.0, constraints={"circle": 0.0})
        )
        for state in (TrialState.FAIL, TrialState.PRUNED):
            study.add_trial(create_trial(params=params, distributions=kinds, state=state))
        chooser.memory(study)
    missing = [{name for name, value in values.items() if math.isnan(value)} for values in told]
    both, nothing = {"objective", "circle"}, set()
    assert missing == [
        *(nothing, both),
        *(nothing, both),
        *(nothing, {"circle"}),
        *(nothing, {"objective"}, {"objective"}),  # pruned, but the objective did not come
    ]


def test_a_trial_whose_worker_died_is_no_failure_once_it_is_repeated() -> None:
    """Optuna marks it as failed and queues its point again; the second trial says what is there."""
    space = {"x": FloatDistribution(0.0, 1.0)}
    study = optuna.create_study(sampler=CobaltSampler(n_startup_trials=2, seed=0))
    for x in (0.1, 0.9):
        study.add_trial(create_trial(params={"x": x}, distributions=space, value=x))
    study.add_trial(create_trial(params={"x": 0.5}, distributions=space, state=TrialState.FAIL))
    assert study.sampler.memory(study).opt.archive.failed().tolist() == [False, False, True]
    with pytest.warns(optuna.exceptions.ExperimentalWarning):
        again = RetryHeartbeatStaleTrialCallback(max_retry=1)
    again(study, study.trials[2])
    assert len(study.sampler.memory(study).opt.archive) == 2  # it waits in the queue
    study.tell(study.ask(), 0.4)
    study.ask(space)
    archive = study.sampler.memory(study).opt.archive
    assert archive.points[-1] == {"x": 0.5} and not archive.failed().any()
    again(study, study.trials[3])  # twice is enough: not put into the queue again
    assert len(study.trials) == 5


def test_a_constraint_that_is_no_number() -> None:
    trial = optuna.create_study().ask()
    with pytest.raises(ValueError, match="constraint 'stress' is NaN, so trial 0 has failed"):
        set_within(trial, "stress", (None, 250.0), math.nan)
    set_within(trial, "stress", (None, 250.0), math.inf)
    set_within(trial, "mass", (20.0, 80.0), -math.inf)
    assert trial.constraints == {
        "stress": math.inf,
        "mass_low": math.inf,
        "mass_high": -math.inf,
    }


@pytest.mark.parametrize("kind", [CobaltSampler, StudyReader, StopAtGap])
def test_help_names_every_argument_and_its_example_runs(kind: type) -> None:
    arguments = list(inspect.signature(kind).parameters)
    assert [name for name in arguments if f"`{name}`" not in kind.__doc__] == []
    [example] = doctest.DocTestFinder(recurse=False).find(kind, kind.__name__)
    ran = doctest.DocTestRunner().run(example)
    assert ran.attempted > 2 and ran.failed == 0


def test_infinite_values_and_enqueued_points_outside_the_range() -> None:
    study = optuna.create_study(sampler=sampler())
    study.optimize(corner, n_trials=6)
    study.enqueue_trial({"x": 7.0, "y": 0.5})
    with pytest.warns(UserWarning, match="out of range"):
        study.optimize(corner, n_trials=1)
    study.optimize(lambda trial: corner(trial) * math.inf, n_trials=1)
    study.optimize(corner, n_trials=4)
    archive = study.sampler.memory(study).opt.archive
    assert len(archive) == 11 and int(archive.column("objective").isnan().sum()) == 1


def test_unconstrained() -> None:
    study = optuna.create_study(sampler=CobaltSampler(n_startup_trials=4, seed=0))
    study.optimize(lambda trial: (trial.suggest_float("x", -3, 3) - 1) ** 2, n_trials=14)
    assert study.best_value < 1e-3


def test_a_finite_space_that_is_used_up() -> None:
    study = optuna.create_study(sampler=CobaltSampler(n_startup_trials=2, seed=0))
    study.optimize(
        lambda trial: trial.suggest_int("n", 0, 2) + trial.suggest_categorical("c", [0, 1]),
        n_trials=12,
    )
    assert study.best_value == 0


def test_conditional_space() -> None:
    def objective(trial: Trial) -> float:
        x, kind = trial.suggest_float("x", 0, 1), trial.suggest_categorical("kind", ["a", "b"])
        trial.set_constraint("c", x - 0.8)
        return x + (
            trial.suggest_float("only_a", 0, 1)
            if kind == "a"
            else trial.suggest_int("only_b", 1, 3)
        )

    study = optuna.create_study(sampler=CobaltSampler(["c"], n_startup_trials=3, seed=0))
    study.optimize(objective, n_trials=15)
    assert set(study.sampler.infer_relative_search_space(study, study.trials[0])) == {"x", "kind"}
    assert all(trial.state == TrialState.COMPLETE for trial in study.trials)


def distributions() -> st.SearchStrategy[BaseDistribution]:
    ends = lambda numbers: st.tuples(numbers, numbers).map(sorted)
    step = st.sampled_from([0.1, 0.25, 0.3, 1.0])
    return st.one_of(
        ends(st.floats(-1e9, 1e9)).map(lambda pair: FloatDistribution(*pair)),
        ends(st.floats(1e-12, 1e9)).map(lambda pair: FloatDistribution(*pair, log=True)),
        st.builds(
            lambda low, step, n: FloatDistribution(low, round(low + n * step, 2), step=step),
            st.integers(-10, 10),
            step,
            st.integers(0, 40),
        ),
        ends(st.integers(-(10**9), 10**9)).map(lambda pair: IntDistribution(*pair)),
        ends(st.integers(1, 10**9)).map(lambda pair: IntDistribution(*pair, log=True)),
        st.builds(
            lambda low, step, n: IntDistribution(low, low + n * step, step=step),
            st.integers(-99, 99),
            st.integers(1, 9),
            st.integers(0, 40),
        ),
        st.lists(
            st.one_of(st.none(), st.integers(), st.text(max_size=2)),
            min_size=1,
            max_size=5,
            unique=True,
        ).map(CategoricalDistribution),
    )


def contains(distribution: BaseDistribution, value: object) -> bool:
    if isinstance(distribution, CategoricalDistribution):
        return value in distribution.choices
    whole = (
        distribution.step is None
        or abs(
            (value - distribution.low) / distribution.step
            - round((value - distribution.low) / distribution.step)
        )
        < 1e-8
    )
    kind = int if isinstance(distribution, IntDistribution) else float
    return type(value) is kind and distribution.low <= value <= distribution.high and whole


@settings(max_examples=20, derandomize=True, database=None, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(["x", "y", "objective", "c"]), distributions(), min_size=1, max_size=3
    )
)
def test_values_lie_in_their_distributions(space: dict[str, BaseDistribution]) -> None:
    study = optuna.create_study(sampler=CobaltSampler(n_startup_trials=2, seed=0))
    for number in range(6):
        trial = study.ask(space)
        trial.set_constraint("c", math.sin(number))
        assert all(contains(space[name], value) for name, value in trial.params.items()), (
            trial.params
        )
        study.tell(trial, math.cos(3 * number))


def told(study: optuna.Study, **options: object) -> FrozenTrial:
    study.add_trial(
        create_trial(
            params={"x": 0.1 * len(study.trials)},
            distributions={"x": FloatDistribution(0.0, 9.0)},
            **options,
        )
    )
    return study.trials[-1]


def test_bad_constraints_name_the_trial() -> None:
    inferred = optuna.create_study(sampler=CobaltSampler(n_startup_trials=1, seed=0))
    told(inferred, value=1.0, constraints={"a": 0.0, "b": 1.0})
    told(inferred, state=TrialState.PRUNED, constraints={"a": 0.0})  # a pruned trial may have some
    inferred.ask().suggest_float("x", 0.0, 9.0)
    told(inferred, value=1.0, constraints={"a": 0.0})
    with pytest.raises(
        ValueError, match="trial 3 is complete without the constraint 'b', but this study has a, b"
    ):
        inferred.ask().suggest_float("x", 0.0, 9.0)
    declared = optuna.create_study(sampler=CobaltSampler(["a"], n_startup_trials=1, seed=0))
    told(declared, value=1.0, constraints={"a": 0.0})
    told(declared, state=TrialState.PRUNED, constraints={"A": 0.0})
    with pytest.raises(ValueError, match="trial 1 sets the constraint 'A', but this study has a"):
        declared.ask().suggest_float("x", 0.0, 9.0)


def test_a_bad_trial_is_refused_when_it_ends() -> None:
    study = optuna.create_study(sampler=sampler())
    study.optimize(corner, n_trials=2)
    with pytest.raises(ValueError, match="trial 2 is complete without the constraint 'circle'"):
        study.optimize(lambda trial: trial.suggest_float("x", 0.0, 2.0), n_trials=1)
    assert study.trials[2].state.is_finished()


def test_several_objectives_are_refused() -> None:
    study = optuna.create_study(sampler=sampler(), directions=["minimize", "minimize"])
    with pytest.raises(
        ValueError, match="trial 0: CobaltSampler optimises one objective, but this study has 2"
    ):
        study.optimize(lambda trial: (trial.suggest_float("x", 0, 1), 1.0), n_trials=1)


def test_decoupled_studies_resume(tmp_path: Path) -> None:
    def run(n_trials: int) -> optuna.Study:
        chooser = sampler(evaluate="what", costs={"objective": 10.0, "circle": 1.0})
        study = optuna.create_study(
            storage=f"sqlite:///{tmp_path / 'd.db'}",
            study_name="d",
            sampler=chooser,
            load_if_exists=True,
        )
        point = lambda trial: (
            trial.suggest_float("x", 0.0, 2.0),
            trial.suggest_float("y", 0.0, 2.0),
        )
        study.optimize(
            decoupled(
                chooser, point, {"objective": sum, "circle": lambda p: 1 - p[0] ** 2 - p[1] ** 2}
            ),
            n_trials=n_trials,
        )
        return study

    run(10)
    study = run(14)
    archive = study.sampler.memory(study).opt.archive
    for name in ("objective", "circle"):
        expected = sum(trial.params["what"] in ("all", name) for trial in study.trials)
        assert int((~archive.column(name).isnan()).sum()) == expected
    result = study.sampler.result(study)
    assert result.feasible is not False and result.model.feasible > 0.5  # measured, or modelled


def test_the_owned_parameter_must_offer_the_right_choices() -> None:
    study = optuna.create_study(sampler=sampler(evaluate="what"))
    with pytest.raises(ValueError, match="trial 0: the sampler owns the parameter"):
        study.optimize(
            lambda trial: trial.suggest_categorical("what", ["circle", "objective"]) == "circle",
            n_trials=1,
        )


def test_the_certificate_stops_a_study_of_another_sampler() -> None:
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    stop = StopAtGap(0.3, reader=StudyReader(["circle"], seed=0))
    study.optimize(corner, n_trials=60, callbacks=[stop])
    assert len(study.trials) < 60 and stop.found.status == "certified"
    assert stop.found.lower <= 1 <= stop.found.upper  # where an axis meets the circle


def test_without_optuna_the_import_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "optuna.py").write_text("raise ImportError('no optuna here')\n")
    ran = subprocess.run(
        [sys.executable, "-c", "import cobalt_nb.optuna"],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
    )
    assert ran.returncode != 0 and 'pip install "cobalt-nb[optuna]"' in ran.stderr.splitlines()[-1]


WORKER = """
import sys, time
sys.path.insert(0, {tests!r})
import optuna
from test_optuna import corner, sampler, storages
from pathlib import Path

def slow(trial):
    value = corner(trial)
    Path({folder!r}, f"running-{{trial.number}}").touch()
    time.sleep(0.3)
    return value

storage = storages(Path({folder!r}))[{kind!r}]()
chooser = sampler(seed=int(sys.argv[1]))
study = optuna.load_study(study_name="shared", storage=storage, sampler=chooser)
study.optimize(slow, n_trials=int(sys.argv[2]))
"""


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("journal", marks=pytest.mark.slow)])
def test_a_killed_worker_loses_nothing(kind: str, tmp_path: Path) -> None:
    """Of two processes on one study one is killed; the other goes on, and so does a third."""
    optuna.create_study(study_name="shared", storage=storages(tmp_path)[kind]())
    code = WORKER.format(tests=str(Path(__file__).parent), folder=str(tmp_path), kind=kind)
    start = lambda seed, trials: subprocess.Popen(
        [sys.executable, "-c", code, str(seed), str(trials)]
    )
    victim, survivor = start(0, 1000), start(1, 10)
    while len(list(tmp_path.glob("running-*"))) < 8:
        assert victim.poll() is None
        time.sleep(0.02)
    load = lambda: optuna.load_study(
        study_name="shared", storage=storages(tmp_path)[kind](), sampler=sampler()
    )
    before = {trial.number: trial for trial in load().trials if trial.state.is_finished()}
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    assert survivor.wait(timeout=120) == 0
    after = {trial.number: trial for trial in load().trials}
    assert all(
        after[number] == trial for number, trial in before.items()
    )  # what was there is there, unchanged
    left = [trial for trial in after.values() if trial.state == TrialState.RUNNING]
    assert len(left) <= 1  # the victim's
    assert start(2, 4).wait(timeout=120) == 0
    study = load()
    complete = [trial for trial in study.trials if trial.state == TrialState.COMPLETE]
    assert len(complete) == len(study.trials) - len(left) >= len(before) + 4
    assert len({tuple(trial.params.values()) for trial in complete}) == len(complete)
    assert len(study.sampler.memory(study).opt.archive) == len(complete)
