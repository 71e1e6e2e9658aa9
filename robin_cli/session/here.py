"""The carrier of robin itself, which is there without a package: calls are made by this process."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from robin_cli.judges.functions import Function
from robin_cli.run.writer import RunWriter
from robin_cli.session.carriers import Carrying
from robin_cli.session.connection import endpoints_of
from robin_cli.session.engine import Engine
from robin_cli.settings.resolve import Resolved


def carrying_here(
    resolved: Resolved,
    store: RunWriter,
    notify: Callable[[str], None],
    function: Function | None = None,
) -> Carrying:
    """Return the way in which calls are made by this process; ``function``: the judge, if it is a Python function."""
    judges, prices = endpoints_of(resolved, store.manifest, notify, function)
    return Carrying(partial(Engine, judges=judges), judges, prices)
