"""robin from Python, for notebooks and scripts: pairs in, a run, its numbers as DataFrames. Imported from ``robin_cli``."""

from robin_cli.api.calls import judge, judge_async, load_pairs, open_run
from robin_cli.api.comparing import compare
from robin_cli.api.run import Run
from robin_cli.api.settled import Settled
from robin_cli.model.errors import RobinError
from robin_cli.model.records import Pair

__all__ = [
    "Pair",
    "RobinError",
    "Run",
    "Settled",
    "compare",
    "judge",
    "judge_async",
    "load_pairs",
    "open_run",
]
