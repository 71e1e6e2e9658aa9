"""The interface for packages that make calls in their own way: by workers elsewhere, or at a batch service.

A package adds this by an entry point of the group ``robin.carriers`` that leads to a :class:`Carries`, a module or another
object. ``--ray`` uses the one named ``ray``, ``--batch`` the one named ``batch``; robin's own are in ``plugins``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from robin_cli.judges.functions import Checked, Function, judge_named, judge_of
from robin_cli.judges.judge import Judge, Options
from robin_cli.judges.metering import Meter, Price
from robin_cli.judges.openai_decisions import DecisionsJudge
from robin_cli.judges.openai_http import OpenAIJudge
from robin_cli.judges.transport import Endpoint
from robin_cli.model.errors import InputError
from robin_cli.model.plugins import Plugin, install, plugins

if TYPE_CHECKING:
    from robin_cli.judges.limiter import Limiter
    from robin_cli.run.store import RunStore
    from robin_cli.session.carrying import Carrying
    from robin_cli.settings.resolve import Resolved

GROUP = "robin.carriers"


@dataclass(frozen=True, slots=True)
class Target:
    """One address of one judge and its options; the key is passed separately.

    Attributes:
        judge: openai, or the judge of a package.
        options: an :class:`Endpoint` without its key, if the judge has an address.
        price: None if unknown.
    """

    judge: str
    options: Options | Endpoint
    price: Price | None


Reach = Callable[[Target, str, "Limiter"], Judge]
"""Takes a target for workers, its key and the limiter of its calls; returns a judge whose calls workers make."""


def asked_here(
    target: Target, key: str, notify: Callable[[str], None], function: Function | None = None
) -> Judge:
    """Make the judge at ``target``, asked by this process; ``function``: the judge, if it is a Python function."""
    options, meter = target.options, Meter(target.price)
    if isinstance(options, Endpoint):
        kind = DecisionsJudge if options.decisions else OpenAIJudge
        return kind(replace(options, api_key=key), meter=meter, notify=notify)
    return Checked(
        judge_named(target.judge, options) if function is None else judge_of(function, options),
        options,
        meter,
    )


class Carries(Protocol):
    """The interface of a package that makes calls in its own way."""

    def check(self, resolved: Resolved) -> None:
        """Check, before anything is read or paid for, that calls can be made.

        Raises:
            InputError, EndpointError: they cannot.
        """

    def carrying(
        self, resolved: Resolved, store: RunStore, notify: Callable[[str], None]
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
    found = plugins(GROUP).get(name)
    if found is None:
        raise InputError(f"--{name}: its package is not installed. Install it: {install(name)}")
    return found
