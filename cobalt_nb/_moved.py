"""Import paths of 0.1.0 go on working for one release, with a warning that says where a name is now.

Modules that are gone (`cobalt_nb.tasks`) and names that left a module which is still there (`cobalt_nb.problem.Box`)
are found by their definition, wherever in the package it stands; only true renames are listed here.
"""

import ast
import sys
import warnings
from collections.abc import Sequence
from functools import cache, partial
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

PACKAGE = __package__
ROOT = Path(__file__).parent

# A module of 0.1.0 and the one that took its place
SUCCESSORS = {
    "acquisition": "acquisition",
    "baselines": "study.baselines",
    "bench": "bench",
    "claims": "study.ledger",
    "cli": "cli",
    "confidence": "confidence",
    "decoupled": "decoupled",
    "defaults": "study.defaults",
    "experiments": "study.trials",
    "figures": "study.figures",
    "optimizer": "optimizer",
    "optuna": "optuna",
    "posterior": "posterior",
    "problem": "problem",
    "report": "study.report",
    "roi": "roi",
    "tasks": "study.tasks",
    "theory": "theory",
}
# (module of 0.1.0, name): where it is, "module.name", if it has another name now or several rooms have one like it;
# None if it is gone and what has its name now is something else
RENAMED: dict[tuple[str, str], str | None] = {
    ("bench", "steps"): None,
    ("claims", "NAMES"): "study.evidence.NAMES",
    ("claims", "RIVALS"): "study.evidence.RIVALS",
    ("claims", "TITLES"): None,
    ("claims", "main"): "study.measurements.main",
    ("claims", "measure"): "study.measurements.measure",
    ("claims", "published"): "study.evidence.published",
    ("defaults", "Case"): "study.problems.Case",
    ("defaults", "KINDS"): "study.problems.KINDS",
    ("defaults", "LITERATURE"): "study.problems.LITERATURE",
    ("defaults", "RESULTS"): None,
    ("experiments", "QUICK"): "study.runner.QUICK",
    ("experiments", "RESULTS"): "study.store.RESULTS",
    ("experiments", "as_part"): "study.store.labelled",
    ("experiments", "as_table"): "study.trials.trial_table",
    ("experiments", "compare"): "study.statistics.compare",
    ("experiments", "evaluate"): "study.trials.evaluate_and_tell",
    ("experiments", "header"): "study.store.read_attributes",
    ("experiments", "known"): "study.trials.check_known",
    ("experiments", "opened"): "study.store.open_stored",
    ("experiments", "pack"): "study.store.pack_trials",
    ("experiments", "settings"): "study.trials.trial_settings",
    ("experiments", "stored"): "study.store.stored_files",
    ("experiments", "unpack"): "study.store.unpack_trials",
    ("figures", "brief"): "scenes.brief",
    ("figures", "pool_view"): "outlook.pool_view",
    ("decoupled", "decoupled_choice"): None,
    ("decoupled", "named"): "decoupled.split_bounds",
    ("optimizer", "APART"): None,
    ("optimizer", "AskTell"): "optimizer.Cobalt",
    ("optimizer", "Functions"): "loop.Functions",
    ("optimizer", "fit_from_json"): "models.fit_from_dict",
    ("optimizer", "fit_to_json"): "models.fit_to_dict",
    ("optimizer", "problem_of"): "events.problem_from",
    ("optimizer", "said"): "rules.joined",
    ("optimizer", "space_from_json"): "events.space_from_dict",
    ("optimizer", "space_to_json"): "events.space_to_dict",
    ("optimizer", "standing"): "progress.progress_text",
    ("posterior", "OneBlasThread"): "threads.OneThread",
    ("posterior", "one_blas_thread"): "threads.one_thread",
    ("tasks", "NamedProblem"): "study.textbook.Task",
}


@cache
def definitions() -> dict[str, list[str]]:
    """The modules that define each name at their top level, read without importing them."""
    found: dict[str, list[str]] = {}
    for path in sorted(ROOT.rglob("[!_]*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for name in defined(ast.parse(path.read_text(encoding="utf-8"))):
            found.setdefault(name, []).append(module)
    return found


def defined(tree: ast.Module) -> set[str]:
    """The names that a module defines, not those that it imports."""
    found: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            parts = [part for target in targets for part in ast.walk(target)]
            found |= {part.id for part in parts if isinstance(part, ast.Name)}
    return found


def new_path(module: str, name: str) -> str | None:
    """Where a name of a module of 0.1.0 is now: "study.trials.Trial"; None if it is gone."""
    room = RENAMED.get((module, name), "")
    if room != "":
        return room if room and defined_at(room) else None
    found = nearest(module, name)
    return f"{found[0]}.{name}" if found else None


def defined_at(path: str) -> bool:
    room, _, name = path.rpartition(".")
    return room in definitions().get(name, [])


def nearest(module: str, name: str) -> list[str]:
    """The rooms that define this name and are equally near to the heir of a module of 0.1.0."""
    heir = SUCCESSORS[module]

    def distance(room: str) -> tuple[bool, bool, bool]:
        """The heir first, then a new room of its floor; an heir of another module last."""
        elsewhere = room.rpartition(".")[0] != heir.rpartition(".")[0]
        return room != heir, elsewhere, room in SUCCESSORS.values()

    rooms = definitions().get(name, [])
    return [room for room in rooms if distance(room) == min(map(distance, rooms))]


def moved(module: str, name: str) -> Any:
    """The object behind a name of a module of 0.1.0, with a warning."""
    old, new = f"{PACKAGE}.{module}", None if name.startswith("__") else new_path(module, name)
    if new is None or new == f"{module}.{name}":
        raise AttributeError(f"module {old!r} has no attribute {name!r}")
    warnings.warn(
        f"{old}.{name} is now {PACKAGE}.{new}; the old path will go with the next release",
        DeprecationWarning,
        stacklevel=2,
    )
    room, _, name = new.rpartition(".")
    return getattr(import_module(f"{PACKAGE}.{room}"), name)


class StillThere(SourceFileLoader):
    """Loads a module as ever, and lets it look for the names that left it."""

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        if "__getattr__" not in vars(module):
            _, _, name = module.__name__.rpartition(".")
            module.__getattr__ = partial(moved, name)  # type: ignore[method-assign]


class Gone(Loader):
    """Makes a module that is gone: an empty one, which finds its names in their new rooms."""

    def exec_module(self, module: ModuleType) -> None:
        _, _, name = module.__name__.rpartition(".")
        heir = f"{PACKAGE}.{SUCCESSORS[name]}"
        module.__doc__ = f"Gone: see {heir}."
        module.__all__ = list(import_module(heir).__all__)  # type: ignore[attr-defined]
        module.__getattr__ = partial(moved, name)  # type: ignore[method-assign]


class Finder(MetaPathFinder):
    """Finds the modules of 0.1.0, those that are gone among them."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package, _, name = fullname.rpartition(".")
        if package != PACKAGE or name not in SUCCESSORS:
            return None
        spec = PathFinder.find_spec(fullname, path)
        if spec is None:
            return ModuleSpec(fullname, Gone())
        if type(spec.loader) is SourceFileLoader:
            spec.loader = StillThere(fullname, spec.loader.path)
        return spec


def install() -> None:
    """Once a process, however often the package is imported."""
    if not any(isinstance(finder, Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, Finder())
