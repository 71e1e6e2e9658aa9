"""robin: spends a fixed budget of LLM-judge calls where the ratings vary most.

From Python: :func:`load_pairs`, :func:`judge`, :func:`judge_async`, :func:`open_run`, :class:`Run`,
:class:`Settled` and :func:`compare`; every error a user can cause or meet is a :class:`RobinError`.
``docs/python.md`` shows them at work.
"""

TYPE_CHECKING = False
if (
    TYPE_CHECKING
):  # nothing is imported here: with ``python -m`` the working folder is still before all else
    from typing import Any

    from robin_cli.api import Run, Settled, compare, judge, judge_async, load_pairs, open_run
    from robin_cli.model.errors import RobinError
    from robin_cli.model.records import Pair

__version__ = "0.2.0"

__all__ = [
    "Pair",
    "RobinError",
    "Run",
    "Settled",
    "__version__",
    "compare",
    "judge",
    "judge_async",
    "load_pairs",
    "open_run",
]


def __getattr__(name: str) -> "Any":
    """Load a public name on first use, so that the command line starts without pandas."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from robin_cli import api

    return getattr(api, name)


def __dir__() -> list[str]:
    return sorted(__all__)
