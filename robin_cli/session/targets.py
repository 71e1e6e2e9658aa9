"""One address of a judge as a value, from which this process or a worker makes the judge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from robin_cli.judges.functions import Checked, Function, judge_named, judge_of
from robin_cli.judges.judge import Judge, Options
from robin_cli.judges.metering import Meter, Price
from robin_cli.judges.openai_decisions import DecisionsJudge
from robin_cli.judges.openai_http import OpenAIJudge
from robin_cli.judges.transport import Endpoint


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


Reach = Callable[[Target, str], Judge]
"""Takes a target and its key; returns a judge whose calls workers make."""


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
