"""The choice of a session's carrier: calls are made here, by workers elsewhere, or in rounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from robin_cli.judges.functions import Function
from robin_cli.judges.metering import Price
from robin_cli.run.store import RunStore
from robin_cli.session.books import Books, Carrier
from robin_cli.session.connection import endpoints_of
from robin_cli.session.elsewhere import carrier_of
from robin_cli.session.engine import Engine
from robin_cli.settings.resolve import Resolved


class Closing(Protocol):
    """An object with connections to close."""

    async def aclose(self) -> None:
        """Close the connections."""


@dataclass(frozen=True, slots=True)
class Carrying:
    """The way in which the calls of a session are made.

    Attributes:
        begin: makes the carrier for the books.
        closing: objects to close after the session.
        prices: the price of each judge, None if unknown.
        rounds: the number of rounds; None if each call is chosen by all answers so far.
    """

    begin: Callable[[Books], Carrier]
    closing: Sequence[Closing]
    prices: Sequence[Price | None]
    rounds: int | None = None


def carrying_of(
    store: RunStore,
    resolved: Resolved,
    note: Callable[[str], None],
    function: Function | None,
) -> Carrying:
    """Return the way in which the calls of a session are made."""
    if (package := carrier_of(resolved)) is not None:
        with package.loaded(f"--{package.name}", passing=OSError) as carrier:
            found: Carrying = carrier.carrying(resolved, store, note)
        return found
    judges, prices = endpoints_of(resolved, store.manifest, note, function)
    return Carrying(partial(Engine, judges=judges), judges, prices)
