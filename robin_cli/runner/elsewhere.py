"""Calls that are made elsewhere, by workers that an installed package looks after.

A package adds this by an entry point of the group ``robin.carriers``: a module, or another object, that is a :class:`Carries`.
``--ray`` asks for the one that is called ``ray``; robin's own is in ``plugins/robin_ray``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from robin_cli.judges.functions import Checked, Function
from robin_cli.judges.judge import Judge, Options
from robin_cli.judges.metering import Meter, Price
from robin_cli.judges.openai_http import OpenAIJudge
from robin_cli.judges.registry import judge_named, judge_of
from robin_cli.judges.transport import Endpoint
from robin_cli.model.errors import InputError
from robin_cli.model.plugins import Plugin, install, plugins

if TYPE_CHECKING:
    from robin_cli.dispatch.limiter import Limiter
    from robin_cli.runner.carrying import Carrying
    from robin_cli.settings.table import Settings
    from robin_cli.storage.store import RunStore

GROUP = "robin.carriers"


@dataclass(frozen=True, slots=True)
class Target:
    """One address of one judge, and what a request to it says; the key comes by itself.

    Attributes:
        judge: openai, or the judge of a package.
        options: an :class:`Endpoint` without its key, where it is at an address.
        price: of what it answers, where one is known.
    """

    judge: str
    options: Options | Endpoint
    price: Price | None
    tier: str | None = None
    falls_back: bool = False


Reach = Callable[[Target, str, "Limiter"], Judge]
"""Takes down what workers are to ask, its key, and whose permits are for it; a judge that has workers ask it."""


def asked_here(target: Target, key: str, notify: Callable[[str], None], function: Function | None = None) -> Judge:
    """Make the judge at ``target``, to be asked by this process; ``function``: one that Python handed over."""
    options, meter = target.options, Meter(target.price, tier=target.tier, falls_back=target.falls_back)
    if isinstance(options, Endpoint):
        return OpenAIJudge(replace(options, api_key=key), meter=meter, notify=notify)
    return Checked(
        judge_named(target.judge, options) if function is None else judge_of(function, options), options, meter
    )


class Carries(Protocol):
    """What a package gives that has calls made elsewhere."""

    def check(self, address: str, secret: Sequence[str]) -> None:
        """Look, before anything is read or paid for, whether workers can be had at ``address``.

        Args:
            secret: names of variables whose values are nobody's business there.

        Raises:
            InputError, EndpointError: they cannot.
        """

    def carrying(
        self, settings: Settings, store: RunStore, keys: Mapping[str, str], notify: Callable[[str], None]
    ) -> Carrying:
        """Return what has the calls of a session of the run of ``store`` made.

        Args:
            keys: by the variable that holds it.
            notify: is told, a line each, what a user should know.
        """


def carrier_of_ray() -> Plugin:
    """Find the package that makes calls by Ray, a :class:`Carries` once it is loaded. InputError where there is none."""
    found = plugins(GROUP).get("ray")
    if found is None:
        raise InputError(f"--ray: what has calls made on a cluster is not installed here; {install('ray')} brings it")
    return found
