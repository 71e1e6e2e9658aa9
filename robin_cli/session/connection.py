"""The judges of a session, made from its settings: their addresses, keys, prices and limits."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace

from robin_cli.judges.descriptors import most_connections
from robin_cli.judges.dialect import RAISED
from robin_cli.judges.failover import Failover
from robin_cli.judges.functions import Function
from robin_cli.judges.judge import Notices, Options
from robin_cli.judges.limiter import Limiter
from robin_cli.judges.metering import Meter, Price
from robin_cli.judges.openai_http import OpenAIJudge
from robin_cli.judges.retrying import PATIENCE_S, Retrying
from robin_cli.judges.transport import Endpoint
from robin_cli.model.judge_spec import WITHOUT_KEY, JudgeSpec
from robin_cli.run.manifest import Manifest
from robin_cli.session.money import prices_at, prices_of
from robin_cli.session.targets import Reach, Target, asked_here
from robin_cli.settings.resolve import Resolved

AUTO_CEILING = 1024
AUTO_CEILING_OF_WORKERS = 2048
"""The most calls at a time: one core bounds those of this process, but not those of several workers."""


def endpoints_of(
    resolved: Resolved,
    manifest: Manifest,
    notify: Callable[[str], None],
    function: Function | None = None,
    reach: Reach | None = None,
) -> tuple[list[Failover], list[Price | None]]:
    """Return the judges, in order, ready to be asked, and each one's price at its first address.

    Args:
        function: the judge, if it is a Python function.
        reach: makes a judge that workers ask; None to ask it in this process.
    """
    fixed, ceiling = resolved.concurrency, AUTO_CEILING_OF_WORKERS if reach else AUTO_CEILING
    most = min(fixed or ceiling, manifest.budget)
    if reach is None:
        addresses = sum(len(judge.base_urls) for judge in resolved.judges)
        most = max(1, most_connections(most * addresses, notify) // addresses)
    calls, ceiling = None if fixed is None else min(fixed, most), min(ceiling, most)
    at_address: defaultdict[str, list[Limiter]] = defaultdict(list)
    judges: list[Failover] = []
    first_prices: list[Price | None] = []
    for judge in resolved.judges:
        prices = prices_of(judge, resolved)
        first_prices.append(prices[0])
        chains = []
        for base_url, price in zip(judge.base_urls, prices, strict=True):
            limiter = Limiter(
                calls, ceiling=ceiling, clock=time.monotonic, rpm=resolved.rpm, tpm=resolved.tpm
            )
            if fixed:  # the slots are the server's, whichever of its judges is asked
                at_address[base_url].append(limiter)
                limiter.together = at_address[base_url]
            options: Options | Endpoint = Options(judge.name, **resolved.request)
            if resolved.at_endpoints:
                # Workers must not raise the limit on answers: the money set aside here would not cover them.
                may_raise = reach is None or resolved.max_cost is None
                options = replace(
                    endpoint_of(resolved, replace(judge, key=WITHOUT_KEY), base_url, manifest),
                    decisions=judge.answers == "decisions",
                )
                options = replace(options, raises=options.raises and may_raise)
            target = Target(resolved.kind, replace(options, at_a_time=calls or ceiling), price)
            # With several addresses, a call that fails goes to another one rather than wait here.
            retries = resolved.max_retries if len(prices) == 1 else min(1, resolved.max_retries)
            chains.append(
                Retrying(
                    reach(target, judge.key)
                    if reach
                    else asked_here(target, judge.key, notify, function),
                    limiter,
                    Notices(base_url if resolved.at_endpoints else judge.name, notify),
                    max_retries=retries,
                    # A call that timed out may be made again, however long it took.
                    patience_s=max(PATIENCE_S, 2 * resolved.timeout_s),
                )
            )
        judges.append(Failover(chains))
    return judges, first_prices


def endpoint_of(
    resolved: Resolved, judge: JudgeSpec, base_url: str, manifest: Manifest
) -> Endpoint:
    """Return one address of a judge of a run, with the raised limit on answers if an earlier session raised it."""
    endpoint = replace(
        endpoint_at(base_url, judge, resolved),
        bounded=resolved.max_cost is not None,
        logprobs=judge.answers == "logprobs",
    )
    if endpoint.model not in manifest.data.get("longer_answers", ()):
        return endpoint
    return replace(endpoint, max_tokens=endpoint.max_tokens * RAISED, raises=False)


def endpoint_alone(
    resolved: Resolved, judge: JudgeSpec, base_url: str, notify: Callable[[str], None]
) -> tuple[OpenAIJudge, Failover, Price | None]:
    """Return a judge at one address, the same with few retries and one call at a time, and its price."""
    (price,) = prices_at(replace(judge, base_urls=(base_url,)), batch=resolved.batch)
    endpoint = endpoint_at(base_url, judge, resolved)
    asked = OpenAIJudge(endpoint, meter=Meter(price), notify=notify)
    limiter = Limiter(1, ceiling=1, clock=time.monotonic)
    chain = Retrying(asked, limiter, Notices(base_url, notify), max_retries=2)
    return asked, Failover([chain]), price


def endpoint_at(base_url: str, judge: JudgeSpec, resolved: Resolved) -> Endpoint:
    """Return the endpoint of a judge at one address."""
    return Endpoint(model=judge.name, base_url=base_url, api_key=judge.key, **resolved.request)
