"""cobalt-nb: constrained Bayesian optimisation with regions of interest and certificates.

The public names load on first use, so that `import cobalt_nb` and `cobalt-nb --help` answer at once.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .optimizer import Cobalt
    from .records import Query, Result
    from .run import maximize, minimize
    from .problem import Interval
    from .spaces import Box, Pool, Problem
    from .roi import Certificate

__version__ = "0.1.0"
_HOME = {
    "Interval": "problem",
    **dict.fromkeys(["Box", "Pool", "Problem"], "spaces"),
    "Cobalt": "optimizer",
    **dict.fromkeys(["Query", "Result"], "records"),
    **dict.fromkeys(["maximize", "minimize"], "run"),
    "Certificate": "roi",
}
__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'cobalt_nb' has no attribute {name!r}")
    return getattr(import_module(f"cobalt_nb.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
