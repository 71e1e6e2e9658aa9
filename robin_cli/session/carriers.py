"""Carriers make the calls of a session: in this process, by workers elsewhere, or in rounds at a batch service.

A carrier is an entry point of the group ``robin.carriers`` that leads to a :class:`Carries`, a module or another object.
robin looks for two names alone: ``ray`` with ``--ray``, ``batch`` with ``--batch``. Its two carriers, in ``plugins``, have
them; a name that two packages have is refused.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from robin_cli.judges.metering import Price
from robin_cli.model.errors import InputError
from robin_cli.model.plugins import Plugin, install, plugins
from robin_cli.run.writer import RunWriter
from robin_cli.session.ledger import Ledger
from robin_cli.settings.resolve import Resolved

GROUP = "robin.carriers"


@dataclass(frozen=True, slots=True)
class Under:
    """The state of a run in rounds, for displays; ``text`` describes the batches under way."""

    round: int = 0
    rounds: int = 0
    text: str = ""


class Carrier(ABC):
    """Makes the calls of a session, and brings the answers to its ledger."""

    @property
    def under(self) -> Under | None:
        """The state of a run in rounds; None if calls are made one by one."""
        return None

    @abstractmethod
    async def run(self) -> None:
        """Work until the budget is spent, nothing is left to ask, or the run is asked to stop. All answers are kept.

        Raises:
            EndpointError: the judge cannot answer.
            LimitReached: the money does not cover another call. InputError: the budget of money never did.
            StorageError: answers cannot be stored.
        """


class Closing(Protocol):
    """An object with connections to close."""

    async def aclose(self) -> None:
        """Close the connections."""


@dataclass(frozen=True, slots=True)
class Carrying:
    """The way in which the calls of a session are made.

    Attributes:
        begin: makes the carrier for the ledger.
        closing: objects to close after the session.
        prices: the price of each judge, None if unknown.
        rounds: the number of rounds; None if each call is chosen by all answers so far.
    """

    begin: Callable[[Ledger], Carrier]
    closing: Sequence[Closing]
    prices: Sequence[Price | None]
    rounds: int | None = None


class Carries(Protocol):
    """The interface of a package that makes calls in its own way."""

    def check(self, resolved: Resolved) -> None:
        """Check, before anything is read or paid for, that calls can be made.

        Raises:
            InputError, EndpointError: they cannot.
        """

    def carrying(
        self, resolved: Resolved, store: RunWriter, notify: Callable[[str], None]
    ) -> Carrying:
        """Return the way in which the calls of a session of the run of ``store`` are made.

        Args:
            resolved: the judges of the session with their keys, and its limits. ``resolved.secrets`` must not reach workers.
            notify: gets lines for the user.
        """


def carrier_of(resolved: Resolved) -> Plugin | None:
    """Return the package that makes the calls of a session, a :class:`Carries` once it is loaded; None for robin itself.

    Raises:
        InputError: it is not installed.
    """
    name = "batch" if resolved.batch else "ray" if resolved.ray is not None else None
    if name is None:
        return None
    package = plugins(GROUP).get(name)
    if package is None:
        raise InputError(f"--{name}: its package is not installed. Install it: {install(name)}")
    return package
