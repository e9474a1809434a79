"""cobalt-nb: constrained Bayesian optimisation with regions of interest and certificates.

The public names load on first use, so that `import cobalt_nb` and `cobalt-nb --help` answer at once.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._moved import install

if TYPE_CHECKING:
    from .optimizer import Cobalt
    from .problem import Interval
    from .records import Query
    from .results import Result
    from .roi import Certificate
    from .run import maximize, minimize
    from .spaces import Box, Pool, Problem

__version__ = "0.2.0"
_HOME = {
    "minimize": "run",
    "maximize": "run",
    "Box": "spaces",
    "Pool": "spaces",
    "Cobalt": "optimizer",
    "Query": "records",
    "Result": "results",
    "Certificate": "roi",
    "Problem": "spaces",
    "Interval": "problem",
}
__all__ = [
    "Box",
    "Certificate",
    "Cobalt",
    "Interval",
    "Pool",
    "Problem",
    "Query",
    "Result",
    "__version__",
    "maximize",
    "minimize",
]

install()


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'cobalt_nb' has no attribute {name!r}")
    return getattr(import_module(f"cobalt_nb.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
