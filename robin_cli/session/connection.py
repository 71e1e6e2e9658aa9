"""The judges of a session, made from its settings: their addresses, keys, prices and limits."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from robin_cli.judges.descriptors import most_connections
from robin_cli.judges.dispatched import Dispatched
from robin_cli.judges.failover import Failover
from robin_cli.judges.functions import Function
from robin_cli.judges.judge import Notices, Options
from robin_cli.judges.limiter import Limiter
from robin_cli.judges.metering import Meter, Price
from robin_cli.judges.openai_http import RAISED, TRIED, OpenAIJudge
from robin_cli.judges.retrying import PATIENCE_S, Retrying
from robin_cli.judges.transport import Endpoint
from robin_cli.run.manifest import Manifest
from robin_cli.session.elsewhere import Reach, Target, asked_here
from robin_cli.session.money import prices_at
from robin_cli.settings.addresses import JudgeAddress, judges_of
from robin_cli.settings.table import Settings

AUTO_CEILING = 1024
AUTO_CEILING_OF_WORKERS = 2048
"""The most calls at a time: one core bounds those of this process, but not those of several workers."""


def endpoints_of(
    settings: Settings,
    manifest: Manifest,
    keys: Mapping[str, str],
    notify: Callable[[str], None],
    function: Function | None = None,
    reach: Reach | None = None,
) -> tuple[list[Dispatched], list[Price | None]]:
    """Return the judges of ``settings``, in order, ready to be asked, and each one's price at its first address.

    Args:
        keys: the keys by the variable that holds them.
        function: the judge, if it is a Python function.
        reach: makes a judge that workers ask; None to ask it in this process.
    """
    judges, fixed = judges_of(settings), settings.workers
    ceiling = AUTO_CEILING if reach is None else AUTO_CEILING_OF_WORKERS
    addresses = sum(len(judge.base_urls) for judge in judges)
    wanted = min(fixed or ceiling, manifest.budget)
    most = (
        wanted
        if reach is not None
        else max(1, most_connections(wanted * addresses, notify) // addresses)
    )
    calls, ceiling = None if fixed is None else min(fixed, most), min(ceiling, most)

    at_address: defaultdict[str, list[Limiter]] = defaultdict(list)

    def reached(judge: JudgeAddress, base_url: str, price: Price | None) -> Retrying:
        limiter = Limiter(
            calls, ceiling=ceiling, clock=time.monotonic, rpm=settings.rpm, tpm=settings.tpm
        )
        if fixed:  # the slots are the server's, whichever of its judges is asked
            at_address[base_url].append(limiter)
            limiter.together = at_address[base_url]
        key = keys[judge.api_key_env] if settings.at_endpoints else "none"
        target = _target(settings, judge, base_url, price, calls or ceiling)
        if isinstance(target.options, Endpoint):
            # Workers must not raise the limit on answers: the money set aside here would not cover them.
            raises = reach is None or settings.max_cost is None
            tries = TRIED if reach is None and manifest.may_use_logprobs else 0
            options = replace(target.options, raises=raises, tries_logprobs=tries)
            target = replace(target, options=as_raised(options, manifest))
        asked = (
            asked_here(target, key, notify, function)
            if reach is None
            else reach(target, key, limiter)
        )
        # With several addresses, a call that fails goes to another one rather than wait here.
        several = len(judge.base_urls) > 1
        return Retrying(
            asked,
            limiter,
            Notices(base_url if settings.at_endpoints else judge.name, notify),
            max_retries=min(1, settings.max_retries) if several else settings.max_retries,
            # A call that timed out may be made again, however long it took.
            patience_s=max(PATIENCE_S, 2 * settings.timeout),
        )

    asked: list[Dispatched] = []
    prices: list[Price | None] = []
    for judge in judges:
        priced = list(zip(judge.base_urls, prices_at(judge, settings), strict=True))
        found = [(base_url, reached(judge, base_url, price)) for base_url, price in priced]
        asked.append(
            Failover(found, clock=time.monotonic, notify=notify) if len(found) > 1 else found[0][1]
        )
        prices.append(priced[0][1])
    return asked, prices


def _target(
    settings: Settings, judge: JudgeAddress, base_url: str, price: Price | None, at_a_time: int
) -> Target:
    """Return one address of a judge; for a package's judge or a function, the target without an address."""
    if not settings.at_endpoints:
        return Target(
            settings.judge, Options(judge.name, at_a_time=at_a_time, **_stated(settings)), price
        )
    endpoint = replace(
        endpoint_at(base_url, judge.name, "none", settings),
        bounded=settings.max_cost is not None,
        logprobs=judge.answers == "logprobs",
        decisions=judge.answers == "decisions",
        at_a_time=at_a_time,
    )
    return Target(settings.judge, endpoint, price)


def endpoint_alone(
    settings: Settings, judge: JudgeAddress, base_url: str, key: str, notify: Callable[[str], None]
) -> tuple[OpenAIJudge, Dispatched, Price | None]:
    """Return a judge at one address, the same with few retries and one call at a time, and its price."""
    unlimited = replace(settings, max_cost=None)
    (price,) = prices_at(replace(judge, base_urls=(base_url,)), unlimited)
    endpoint = endpoint_at(base_url, judge.name, key, settings)
    asked = OpenAIJudge(endpoint, meter=Meter(price), notify=notify)
    limiter = Limiter(1, ceiling=1, clock=time.monotonic)
    return asked, Retrying(asked, limiter, Notices(base_url, notify), max_retries=2), price


def endpoint_at(base_url: str, model: str, key: str, settings: Settings) -> Endpoint:
    """Return the endpoint of a judge at one address."""
    return Endpoint(model=model, base_url=base_url, api_key=key, **_stated(settings))


def as_raised(endpoint: Endpoint, manifest: Manifest) -> Endpoint:
    """Return the endpoint, with the raised limit on answers if an earlier session of the run raised it."""
    if endpoint.model not in manifest.data.get("longer_answers", ()):
        return endpoint
    return replace(endpoint, max_tokens=endpoint.max_tokens * RAISED, raises=False)


def _stated(settings: Settings) -> dict[str, Any]:
    return {
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "max_tokens": settings.max_tokens,
        "extra_body": settings.extra_body,
        "reasoning_effort": settings.reasoning_effort,
        "timeout_s": settings.timeout,
    }
