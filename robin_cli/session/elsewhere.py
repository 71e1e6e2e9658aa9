"""The interface for packages that make calls elsewhere, by workers.

A package adds this by an entry point of the group ``robin.carriers`` that leads to a :class:`Carries`, a module or another
object. ``--ray`` uses the one named ``ray``; robin's own is in ``plugins/robin_ray``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from robin_cli.judges.functions import Checked, Function
from robin_cli.judges.judge import Judge, Options
from robin_cli.judges.metering import Meter, Price
from robin_cli.judges.openai_decisions import DecisionsJudge
from robin_cli.judges.openai_http import OpenAIJudge
from robin_cli.judges.registry import judge_named, judge_of
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
    """The interface of a package that makes calls elsewhere."""

    def check(self, address: str, secret: Sequence[str]) -> None:
        """Check, before anything is read or paid for, that workers can be reached at ``address``.

        Args:
            secret: names of variables whose values must not reach the workers.

        Raises:
            InputError, EndpointError: they cannot.
        """

    def carrying(
        self,
        resolved: Resolved,
        store: RunStore,
        notify: Callable[[str], None],
    ) -> Carrying:
        """Return the way in which the calls of a session of the run of ``store`` are made.

        Args:
            resolved: the judges of the session with their keys, and its limits.
            notify: gets lines for the user.
        """


def carrier_of_ray() -> Plugin:
    """Return the package for Ray, a :class:`Carries` once it is loaded. InputError if there is none."""
    found = plugins(GROUP).get("ray")
    if found is None:
        raise InputError(
            f"--ray: the package for clusters is not installed. Install it: {install('ray')}"
        )
    return found
