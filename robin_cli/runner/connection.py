"""From a session's settings to the judges that it asks: their addresses, keys, prices and limits."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from robin_cli.dispatch.failover import Failover
from robin_cli.dispatch.limited import Dispatched, Limited
from robin_cli.dispatch.limiter import Caps, Limiter
from robin_cli.dispatch.retrying import NO_ROOM_S, PATIENCE_S, Retrying
from robin_cli.files.descriptors import most_connections
from robin_cli.files.local import check_whole_file
from robin_cli.judges.functions import Checked, Function
from robin_cli.judges.judge import Judge, Notices, Options
from robin_cli.judges.metering import Meter, Price, half_or_twice, price_of
from robin_cli.judges.openai_batches import OpenAIBatches
from robin_cli.judges.openai_http import OpenAIJudge
from robin_cli.judges.registry import check_known, judge_named, judge_of
from robin_cli.judges.transport import Endpoint
from robin_cli.model.errors import InputError, typed
from robin_cli.runner.at_service import At, AtService
from robin_cli.runner.elsewhere import Reach, Target, carrier_of_ray
from robin_cli.runner.in_files import InFiles
from robin_cli.runner.rounds import Carrier, RoundJudge
from robin_cli.settings.addresses import JudgeAddress, api_keys, judges_of, places
from robin_cli.settings.table import IN_PYTHON, Settings
from robin_cli.settings.trust import AT_ENDPOINTS, NO_KEY, remember
from robin_cli.storage.batches import Ledger

AUTO_CEILING = 256
AUTO_CEILING_OF_WORKERS = 2048
"""What one core can do bounds the calls at a time of one process, not those of many."""

_NO_ROOM_HERE_S = 30.0
"""How long a call waits for room at one of several addresses before it goes to another."""


def prices_at(judge: JudgeAddress, settings: Settings) -> list[Price | None]:
    """The price of ``judge`` at each of its addresses; None if none is known at the service tier that calls ask for.

    Raises:
        InputError: one of the two prices is missing, or money is limited and an address has no price.
    """
    flag = "--max-cost" if settings.budget_usd is None else "--budget-usd"
    if not settings.sends and judge.price_in is None:  # an engine of one's own is no provider
        if settings.money_limit is not None:
            raise InputError(
                f"{flag}: no price is known of an engine of your own; give --price-in and --price-out, or leave {flag} out"
            )
        return [None for _ in judge.base_urls]
    given = {"price_in": judge.price_in, "price_out": judge.price_out, "price_cached": judge.price_cached}
    if (judge.price_in is None) != (judge.price_out is None) or (
        judge.price_in is None and judge.price_cached is not None
    ):
        raise InputError("--price-in and --price-out: give both, or neither to go by genai-prices")
    prices = []
    for url in judge.base_urls:
        price = price_of(judge.name, url, **given, tier=settings.tier)
        if price is None or not price.knows(price.tier):
            if settings.money_limit is not None:
                at, there = ("", "") if settings.tier is None else (f" at the service tier {settings.tier}", " there")
                raise InputError(
                    f'{flag}: no price is known for "{judge.name}" at {url}{at}, so it could not be held; give --price-in and '
                    f"--price-out (US dollars for a million tokens{there}), or leave {flag} out"
                )
            price = None
        elif _is_of_a_found_file(settings, given) and settings.money_limit is not None and price.below_list():
            raise InputError(
                f"{settings.source}: {judge.name} costs less there, {price}, than genai-prices has it at {url}, and {flag} "
                "would go by it; give --price-in and --price-out yourself, or say that you trust the file: --config "
                f"{typed(settings.source.place)}"
            )
        prices.append(price)
    return prices


def _is_of_a_found_file(settings: Settings, prices: Mapping[str, float | None]) -> bool:
    """Return whether one of ``prices`` stands in a file of the folder, and not in the command."""
    given = {name for name, price in prices.items() if price is not None}
    return settings.source.kind == "folder" and not given <= set(settings.source.named)


def check_judges(settings: Settings, function: Function | None = None) -> None:
    """InputError, before anything is read or paid for, if the judges cannot be asked.

    No endpoint is configured, a host is in doubt (see :func:`api_keys`), a judge is not known, or money is limited and one
    has no price.

    Args:
        function: the judge, where it is one that Python handed over.
    """
    keys = api_keys(settings)
    _check_rounds(settings)
    _check_cluster(settings, function)
    if function is None:
        check_known(settings.judge)
    for judge in judges_of(settings):
        prices_at(judge, settings)
    remember(
        places(settings, keys)
    )  # before there is a run, for one that is killed at once is resumed by its name alone
    if settings.ray is not None:
        with carrier_of_ray().loaded("--ray") as carrier:
            carrier.check(settings.ray, secret_names(settings))


def secret_names(settings: Settings) -> list[str]:
    """The variables that hold keys."""
    return [name for name in settings.api_key_env if name != NO_KEY]


def _check_cluster(settings: Settings, function: Function | None) -> None:
    """InputError for settings that do not go with workers elsewhere."""
    if settings.ray is None:
        return
    if settings.in_rounds:
        flag = "--batch" if settings.batch else "--batch-files"
        raise InputError(f"--ray: has calls made one at a time, and {flag} in rounds; leave one of the two out")
    if function is not None or settings.judge.startswith(IN_PYTHON):
        raise InputError(
            "--ray: a function is asked in the process that it is in; install it on the cluster as a judge of a package "
            "(docs/judges.md), or leave --ray out"
        )
    if settings.debug_http is not None:
        raise InputError("--debug-http: requests are not made here with --ray; leave one of the two out")


def _check_rounds(settings: Settings) -> None:
    """InputError for settings that do not go with rounds."""
    if not settings.in_rounds:
        return
    flag = "--batch" if settings.batch else "--batch-files"
    if settings.batch and settings.batch_files is not None:
        raise InputError(
            "--batch, --batch-files: the first is for a service, the second for an engine without one; give one"
        )
    if not settings.at_endpoints:
        raise InputError(f"{flag}: the judge {settings.judge} is at no address; it is asked one call at a time")
    if settings.service_tier is not None:
        raise InputError(f"{flag}: not with --service-tier, which is for calls one at a time; leave one of the two out")
    if settings.batch_files is not None:
        _check_folder(Path(settings.batch_files))
    if several := next((each for each in judges_of(settings) if len(each.base_urls) > 1), None):
        raise InputError(
            f"{flag}: {several.name} has {len(several.base_urls)} addresses; give the one that is to have the batches"
        )


def _check_folder(folder: Path) -> None:
    """Make the folder for files, before anything else is made; InputError where that cannot be."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        check_whole_file(folder / "robin.jsonl")
    except OSError as error:
        raise InputError(
            f"--batch-files {folder}: no files can be written there ({error.strerror}); name another folder"
        ) from error


def endpoints_of(
    settings: Settings,
    budget: int,
    keys: Mapping[str, str],
    notify: Callable[[str], None],
    function: Function | None = None,
    reach: Reach | None = None,
) -> tuple[list[Dispatched], list[Price | None]]:
    """Each judge that ``settings`` name behind one door, in that order, and the price of each at its first address.

    Args:
        keys: by the variable that holds it; goes to the addresses of the judges that name it.
        function: the judge, where it is one that Python handed over.
        reach: takes down what workers are to ask; None where it is asked here.
    """
    judges, fixed = judges_of(settings), settings.workers
    ceiling = AUTO_CEILING if reach is None else AUTO_CEILING_OF_WORKERS
    addresses = sum(len(judge.base_urls) for judge in judges)
    wanted = min(fixed or ceiling, budget)
    most = wanted if reach is not None else max(1, most_connections(wanted * addresses, notify) // addresses)
    calls = (None if fixed is None else min(fixed, most), min(ceiling, most))
    asked = [
        _endpoints(settings, judge, keys[judge.api_key_env], calls, notify, reach)
        if settings.at_endpoints
        else _elsewhere(settings, judge, calls, notify, function, reach)
        for judge in judges
    ]
    return asked, [prices_at(judge, settings)[0] for judge in judges]


def rounds_of(
    settings: Settings, run_id: str, keys: Mapping[str, str], notify: Callable[[str], None]
) -> tuple[list[RoundJudge], Carrier, list[Price | None]]:
    """Each judge that ``settings`` name, to be asked in rounds, what takes its requests away, and its price there."""
    _check_rounds(settings)
    judges = judges_of(settings)
    asked, services, prices = [], {}, []
    for judge in judges:
        (url,), (price,) = judge.base_urls, prices_at(judge, settings)
        endpoint = replace(
            endpoint_at(url, judge.name, keys[judge.api_key_env], settings),
            bounded=settings.money_limit is not None,
            logprobs=settings.scoring == "logprobs",
        )
        asked.append(
            RoundJudge(judge.name, OpenAIJudge(endpoint, meter=Meter(price, tier=settings.tier), notify=notify))
        )
        prices.append(price)
        if settings.batch:
            services[judge.name] = At(OpenAIBatches(endpoint, notify=notify), url)
    if settings.batch_files is not None:
        return asked, InFiles(Path(settings.batch_files)), prices
    return asked, AtService(services, run_id, notify), prices


def as_submitted(settings: Settings, ledger: Ledger) -> Settings:
    """``settings`` for seeing through what is under way: at a service, or in files."""
    folder = ledger.open[0].folder
    asked = replace(settings, batch=not folder, batch_files=folder or None, service_tier=None, tier_fallback=False)
    return with_prices_of(asked, settings.tier)


def with_prices_of(settings: Settings, given_for: str | None) -> Settings:
    """``settings``, whose prices were given for the service tier ``given_for``, with such for the tier that they ask for."""
    times = half_or_twice(given_for, settings.tier)
    price_in, price_out, cached = (
        tuple(times * each for each in given)
        for given in (settings.price_in, settings.price_out, settings.price_cached)
    )
    return replace(settings, price_in=price_in, price_out=price_out, price_cached=cached)


def _endpoints(
    settings: Settings,
    judge: JudgeAddress,
    key: str,
    calls: tuple[int | None, int],
    notify: Callable[[str], None],
    reach: Reach | None,
) -> Dispatched:
    several = len(judge.base_urls) > 1
    reached = []
    for base_url, price in zip(judge.base_urls, prices_at(judge, settings), strict=True):
        endpoint = replace(
            endpoint_at(base_url, judge.name, key if reach is None else "none", settings),
            bounded=settings.money_limit is not None,
            logprobs=settings.scoring == "logprobs",
            at_a_time=calls[0] or calls[1],
        )
        # Where there are others, a call that fails goes to them rather than waiting here.
        max_retries = min(1, settings.max_retries) if several else settings.max_retries
        no_room_s = _NO_ROOM_HERE_S if several else NO_ROOM_S
        notices, limiter = Notices(base_url, notify), _limiter(settings, calls)
        if reach is None:
            meter = Meter(price, tier=settings.tier, falls_back=settings.tier_fallback)
            asked: Judge = OpenAIJudge(endpoint, meter=meter, notify=notify)
        else:
            target = Target(AT_ENDPOINTS, endpoint, price, settings.tier, settings.tier_fallback)
            asked = reach(target, key, limiter)
        reached.append((base_url, _retrying(asked, limiter, notices, settings, max_retries, no_room_s)))
    if not several:
        return reached[0][1]
    return Failover(reached, clock=time.monotonic, notify=notify)


def _elsewhere(
    settings: Settings,
    judge: JudgeAddress,
    calls: tuple[int | None, int],
    notify: Callable[[str], None],
    function: Function | None,
    reach: Reach | None,
) -> Dispatched:
    """A judge at no address: a package's, or a function of the caller's."""
    options = Options(judge.name, at_a_time=calls[0] or calls[1], **_stated(settings))
    (price,) = prices_at(judge, settings)
    notices, limiter = Notices(judge.name, notify), _limiter(settings, calls)
    if reach is not None:
        asked = reach(Target(settings.judge, options, price), "none", limiter)
    else:
        found = judge_of(function, options) if function is not None else judge_named(settings.judge, options)
        asked = Checked(found, options, Meter(price))
    return _retrying(asked, limiter, notices, settings, settings.max_retries)


def _limiter(settings: Settings, calls: tuple[int | None, int]) -> Limiter:
    workers, ceiling = calls
    return Limiter(workers, ceiling=ceiling, clock=time.monotonic, caps=Caps(settings.rpm, settings.tpm))


def _retrying(
    judge: Judge,
    limiter: Limiter,
    notices: Notices,
    settings: Settings,
    max_retries: int,
    no_room_s: float = NO_ROOM_S,
) -> Retrying:
    # A call that timed out may be made again, however long that took.
    patience_s = max(PATIENCE_S, 2 * settings.longest_request_s)
    return Retrying(
        Limited(judge, limiter, notices),
        max_retries=max_retries,
        notices=notices,
        patience_s=patience_s,
        no_room_s=no_room_s,
    )


def endpoint_at(base_url: str, model: str, key: str, settings: Settings) -> Endpoint:
    """A judge at one of its addresses, and what every request to it says."""
    return Endpoint(
        model=model,
        base_url=base_url,
        api_key=key,
        debug_http=settings.debug_http,
        service_tier=settings.service_tier,
        tier_fallback=settings.tier_fallback,
        **_stated(settings),
    )


def _stated(settings: Settings) -> dict[str, Any]:
    return {
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "max_tokens": settings.max_tokens,
        "extra_body": settings.extra_body,
        "timeout_s": settings.longest_request_s,
        "max_reply_bytes": round(settings.max_reply * 2**20),
    }
