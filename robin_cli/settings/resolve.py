"""From settings to values: the judges with address, key and price, and the limits of a session."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from robin_cli.model.errors import InputError
from robin_cli.model.judge_spec import WITHOUT_KEY, JudgeSpec
from robin_cli.settings.addresses import (
    JUDGE_SCHEME,
    OPENAI_URL,
    checked_urls,
    host_of,
    place_of,
    split_model,
)
from robin_cli.settings.setting import Scope
from robin_cli.settings.table import TABLE, Settings, recorded
from robin_cli.settings.trust import (
    AT_ENDPOINTS,
    DEFAULT_KEY_ENV,
    NAMING,
    NO_KEY,
    PRICES,
    Sending,
    as_sequence,
    check_sendings,
)

_LIKE_AN_ADDRESS = re.compile(
    r".*@(?:\w+:/|localhost\b|[\w.-]+:\d+|[\w-]+(?:\.[\w-]+)+/).*", re.DOTALL | re.IGNORECASE
)
_KEY = re.compile(r"[!#-&(-~]*")
"""Printable ASCII without blanks and quotes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """The settings of a session as values; the code behind the edge sees these alone.

    Attributes:
        kind: openai, the name of a package's judge, or that of a Python function.
        sendings: the hosts that get requests, with the variables of their keys.
        request: the options of each request, by the names of the judges' ``Options``.
        concurrency: the calls under way at each address; None to adapt.
        longest_visit: the ratings of a pair that are asked for at a time, at most.
        ray: the address of the cluster whose workers make the calls; None for this process.
        labels: the file with people's labels.
        price_source: who named the prices, for messages.
        secrets: the variables that hold keys.
        keyless: judges without a key although others have one, and none was named for them.
        session: the settings that may differ between sessions, by name, as a run records them.
    """

    kind: str
    judges: tuple[JudgeSpec, ...]
    sendings: tuple[Sending, ...]
    request: Mapping[str, Any]
    concurrency: int | None
    rpm: float | None
    tpm: float | None
    max_retries: int
    timeout_s: float
    longest_visit: int
    batch: bool
    rounds: int
    ray: str | None
    max_cost: float | None
    target_error: float | None
    agree: float | None
    labels: str | None
    repeat_anyway: bool
    price_source: str
    secrets: tuple[str, ...]
    keyless: tuple[str, ...]
    session: Mapping[str, Any]

    @property
    def at_endpoints(self) -> bool:
        """Whether the judges are at addresses, with keys."""
        return self.kind == AT_ENDPOINTS


_AS_THEY_ARE = TABLE.keys() & set(Resolved.__slots__) - {"concurrency"}
_OF_REQUESTS = ("temperature", "top_p", "max_tokens", "extra_body", "reasoning_effort")


def resolve(settings: Settings) -> Resolved:
    """Return the values that a session needs, after the check that keys go where they may.

    Raises:
        InputError: no endpoint is configured, a key's variable is not set, or as
            :func:`judges_of` and :func:`check_sendings`.
    """
    keys = read_keys(settings)
    judges = judges_of(settings, keys)
    sendings = _sendings(judges)
    named = {name: as_sequence(getattr(settings, name)) for name in NAMING}
    check_sendings(settings.source, named, sendings)
    has_keys = any(keys[name] != WITHOUT_KEY for name in settings.api_key_env)
    is_each_named = NO_KEY in settings.api_key_env
    unnamed = [judge.name for judge in judges if judge.api_key_env == NO_KEY]
    request = {name: getattr(settings, name) for name in _OF_REQUESTS}
    return Resolved(
        kind=settings.judge,
        judges=judges,
        sendings=sendings,
        request={**request, "timeout_s": settings.timeout},
        concurrency=settings.workers,
        timeout_s=settings.timeout,
        longest_visit=settings.longest_visit,
        price_source=settings.source.prices,
        secrets=tuple(name for name in settings.api_key_env if name != NO_KEY),
        keyless=tuple(unnamed) if has_keys and not is_each_named else (),
        session=recorded(settings, Scope.SESSION),
        **{name: getattr(settings, name) for name in _AS_THEY_ARE},
    )


def judges_of(settings: Settings, keys: Mapping[str, str] | None = None) -> tuple[JudgeSpec, ...]:
    """Return the judges of ``settings``, at least one.

    A single key variable is for judges at the common address only: a judge at another address gets
    a key only if a variable is named for it. (A single judge gets its key wherever it is.)

    Args:
        keys: by variable; None where nothing is sent.

    Raises:
        InputError: there is no judge, one is named twice, an address is not valid, or the numbers
            of variables, prices or forms of answers do not match.
    """
    shared = settings.base_url or (OPENAI_URL,)
    common = shared if settings.at_endpoints else (place_of(settings.judge),)
    if not settings.model:
        raise InputError(f"--model is missing: name the judge that {common[0]} should answer with")
    models = [split_model(model) for model in settings.model]
    if not settings.at_endpoints and any(url for _, url in models):
        raise InputError(f"--model: --judge {settings.judge} has no addresses; write NAME alone")
    _check_names([name for name, _ in models])
    _check_prices(settings)
    of_each = {name: _for_each(settings, name) for name in ("api_key_env", "answers", *PRICES)}
    has_own_variables = len(settings.api_key_env) == len(models)
    judges = []
    for number, (name, url) in enumerate(models):
        may_have_key = settings.at_endpoints and (has_own_variables or url is None)
        variable = of_each["api_key_env"][number] if may_have_key else NO_KEY
        judges.append(
            JudgeSpec(
                name,
                checked_urls([url], "--model") if url else common,
                variable,
                (keys or {}).get(variable, WITHOUT_KEY),
                {price: of_each[price][number] for price in PRICES if of_each[price]},
                of_each["answers"][number],
            )
        )
    return tuple(judges)


def _check_names(names: Sequence[str]) -> None:
    for name in names:
        if not name:
            raise InputError("--model: an empty name; write NAME, or NAME@https://address/v1")
        if "," in name:
            raise InputError("--model: a name cannot hold a comma; give each judge its own --model")
        if _LIKE_AN_ADDRESS.fullmatch(name):
            raise InputError("--model: no address after the @; write NAME@http://localhost:8000/v1")
        if names.count(name) > 1:
            raise InputError(
                f'--model: "{name}" is named twice; name it once, and each of its addresses with '
                "--base-url"
            )


def _check_prices(settings: Settings) -> None:
    if bool(settings.price_in) != bool(settings.price_out):
        raise InputError("--price-in and --price-out: give both, or neither to use genai-prices")
    if settings.price_cached and not settings.price_in:
        raise InputError(
            "--price-cached: give --price-in and --price-out too, or none of them to use "
            "genai-prices"
        )
    both = zip(_for_each(settings, "price_cached"), _for_each(settings, "price_in"), strict=False)
    if any(cached > uncached for cached, uncached in both):
        raise InputError(
            "--price-cached: is more than --price-in; cached tokens cannot cost more than others"
        )


def _for_each(settings: Settings, name: str) -> Sequence[Any]:
    """Return the value of a setting for each judge: its own, or the same for all; none if unset."""
    values: tuple[Any, ...] = getattr(settings, name)
    count = len(settings.model)
    if len(values) > 1 and len(values) != count:
        judges = f"{count} judges" if count > 1 else "1 judge"
        raise InputError(
            f"{TABLE[name].flag}: {len(values)} for {judges}; name one for all, or one for each "
            "--model in their order"
        )
    return values if len(values) == count else values * count


def _sendings(judges: Sequence[JudgeSpec]) -> tuple[Sending, ...]:
    """Return each host of ``judges`` with the variable of the key that is sent there, once."""
    sendings = (
        (
            url if url.startswith(JUDGE_SCHEME) else host_of(url),
            judge.api_key_env if judge.has_key else NO_KEY,
        )
        for judge in judges
        for url in judge.base_urls
    )
    return tuple(dict.fromkeys(sendings))


def read_keys(settings: Settings) -> dict[str, str]:
    """Return the key in each variable that ``settings`` name.

    Raises:
        InputError: a variable is not set, or holds no key.
    """
    if not settings.at_endpoints:
        return dict.fromkeys((*settings.api_key_env, NO_KEY), WITHOUT_KEY)
    has_own_addresses = bool(settings.model) and all(
        split_model(model)[1] for model in settings.model
    )
    # OpenAI accepts nothing without a key
    may_be_unset = has_own_addresses or bool(set(settings.base_url) - {OPENAI_URL})
    keys = {name: _read_key(name, may_be_unset=may_be_unset) for name in settings.api_key_env}
    return {**keys, NO_KEY: WITHOUT_KEY}


def _read_key(variable: str, *, may_be_unset: bool) -> str:
    key = "" if variable == NO_KEY else os.environ.get(variable, "").strip()
    if not _KEY.fullmatch(key):
        raise InputError(
            f"{variable}: holds a key in quotes (docker's --env-file keeps them), or blanks or other "
            "characters that a key cannot have; set it without"
        )
    if not key and variable not in {NO_KEY, DEFAULT_KEY_ENV}:
        raise InputError(
            f"--api-key-env {variable}: that variable is not set; set it, or write - if no key is "
            "needed"
        )
    if not key and variable != NO_KEY and not may_be_unset:
        raise InputError(
            f"no endpoint is configured. Three ways on: set a key in {variable} (and --model); name "
            "a local server, --base-url http://localhost:8000/v1 --model NAME; or try the demo, "
            "which needs neither: robin demo"
        )
    return key or WITHOUT_KEY
