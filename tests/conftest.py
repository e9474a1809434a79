import os
import sys
from pathlib import Path

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")  # two workers on two cores: one thread each
sys.path.insert(0, str(Path(__file__).parent))


@pytest.hookimpl(trylast=True)  # after those that the marks leave out
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A notebook that is run with its slow cells need not be run without them too."""
    whole = {notebook_of(item) for item in items if item.get_closest_marker("slow")} - {None}
    twice = [
        item for item in items if notebook_of(item) in whole and not item.get_closest_marker("slow")
    ]
    config.hook.pytest_deselected(items=twice)
    items[:] = [item for item in items if item not in twice]


def notebook_of(item: pytest.Item) -> Path | None:
    return item.callspec.params.get("path") if hasattr(item, "callspec") else None
