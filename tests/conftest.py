import os
import sys
from pathlib import Path

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")  # two workers on two cores: one thread each
sys.path.insert(0, str(Path(__file__).parent))


@pytest.hookimpl(trylast=True)  # after those that the marks leave out
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A notebook that is run with its slow cells need not be run without them too."""
    whole = {notebook_of(item, slow=True) for item in items} - {None}
    twice = [item for item in items if notebook_of(item, slow=False) in whole]
    config.hook.pytest_deselected(items=twice)
    items[:] = [item for item in items if item not in twice]


def notebook_of(item: pytest.Item, slow: bool) -> Path | None:
    """The notebook that a test runs with its slow cells, or without them; None if it runs none."""
    given = item.callspec.params if hasattr(item, "callspec") else {}
    return given.get("path") if given.get("slow") is slow else None
