"""Judges by settings: each one's name, addresses, prices, and the environment variable with its key."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from robin_cli.model.errors import InputError
from robin_cli.settings.table import Settings, checked_urls
from robin_cli.settings.trust import (
    DEFAULT_KEY_ENV,
    NAMING,
    NO_KEY,
    OPENAI_URL,
    check_sendings,
    keep_sendings,
    place_of,
    split_model,
    values,
)

_LIKE_AN_ADDRESS = re.compile(
    r".*@(?:\w+:/|localhost\b|[\w.-]+:\d+|[\w-]+(?:\.[\w-]+)+/).*", re.DOTALL | re.IGNORECASE
)

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class JudgeAddress:
    """A judge: the model's name, its addresses (at least one), and the variable with their key, or NO_KEY.

    Prices are US dollars for a million tokens; None if none were given. ``answers``: how it is asked to answer.
    """

    name: str
    base_urls: tuple[str, ...]
    api_key_env: str
    price_in: float | None = None
    price_out: float | None = None
    price_cached: float | None = None
    answers: str = "text"


def judge_name(model: str) -> str:
    """Return the name in ``NAME`` or ``NAME@https://…``, a value of --model."""
    return split_model(model)[0]


def shared_addresses(settings: Settings) -> tuple[str, ...]:
    """Return the addresses of judges without their own."""
    return settings.base_url or (OPENAI_URL,)


def judges_of(settings: Settings) -> tuple[JudgeAddress, ...]:
    """Return the judges of ``settings``, at least one.

    A single key variable is for judges at the common address only: a judge at another address gets a key only if a variable is
    named for it. (A single judge gets its key wherever it is.)

    Raises:
        InputError: there is no judge, one is named twice, an address is not valid, or the numbers of variables or prices do not
            match; or as many forms of answers.
    """
    common = shared_addresses(settings)
    if not settings.at_endpoints:
        common = (place_of(settings.judge),)
        if any(split_model(model)[1] for model in settings.model):
            raise InputError(
                f"--model: --judge {settings.judge} has no addresses; write NAME alone"
            )
    if not settings.model:
        raise InputError(f"--model is missing: name the judge that {common[0]} should answer with")
    named = [split_model(model) for model in settings.model]
    _check_names([name for name, _ in named])
    count = len(named)
    if bool(settings.price_in) != bool(settings.price_out):
        raise InputError("--price-in and --price-out: give both, or neither to use genai-prices")
    if settings.price_cached and not settings.price_in:
        raise InputError(
            "--price-cached: give --price-in and --price-out too, or none of them to use genai-prices"
        )
    if any(
        cached > sent
        for cached, sent in zip(settings.price_cached, settings.price_in, strict=False)
    ):
        raise InputError(
            "--price-cached: is more than --price-in; cached tokens cannot cost more than others"
        )
    variables = _paired("--api-key-env", "variables", settings.api_key_env, count)
    prices = [
        _paired(flag, "prices", given, count) if given else [None] * count
        for flag, given in (
            ("--price-in", settings.price_in),
            ("--price-out", settings.price_out),
            ("--price-cached", settings.price_cached),
        )
    ]
    forms = _paired("--answers", "forms", settings.answers, count)
    own = len(settings.api_key_env) == count
    return tuple(
        JudgeAddress(
            name,
            checked_urls([url], "--model") if url else common,
            variable if settings.at_endpoints and (own or url is None) else NO_KEY,
            *rest,
        )
        for (name, url), variable, *rest in zip(named, variables, *prices, forms, strict=True)
    )


def api_keys(settings: Settings) -> Mapping[str, str]:
    """Return the key in each variable that ``settings`` name; "none" if it is not set, and the endpoint was named.

    Raises:
        InputError: no endpoint is configured, a named variable is not set, or as :func:`check_sendings`.
    """
    keys = _keys(settings)
    if settings.model:
        named = {name: values(getattr(settings, name)) for name in NAMING}
        check_sendings(settings.source, named, sendings(judges_of(settings), keys))
    return keys


def keep_hosts(run_id: str, settings: Settings) -> None:
    """Keep where a run sends its requests, so that it goes on without further flags. Raises as :func:`api_keys`."""
    keep_sendings(run_id, sendings(judges_of(settings), api_keys(settings)))


def sendings(judges: Iterable[JudgeAddress], keys: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return each address of ``judges`` with the variable of its key, or NO_KEY."""
    return [
        (url, judge.api_key_env if keys[judge.api_key_env] != "none" else NO_KEY)
        for judge in judges
        for url in judge.base_urls
    ]


def keyless(
    judges: Iterable[JudgeAddress], keys: Mapping[str, str], variables: Sequence[str]
) -> list[str]:
    """Return the names of judges that get no key, although others do, because none was named for them."""
    some = any(keys[name] != "none" for name in variables)
    return [
        judge.name
        for judge in judges
        if judge.api_key_env == NO_KEY and some and NO_KEY not in variables
    ]


def _check_names(names: Sequence[str]) -> None:
    for name in names:
        if not name:
            raise InputError("--model: an empty name; write NAME, or NAME@https://address/v1")
        if not name.isprintable():
            raise InputError(
                "--model: a name holds characters that cannot be printed; write it without them"
            )
        if "," in name:
            raise InputError("--model: a name cannot hold a comma; give each judge its own --model")
        if _LIKE_AN_ADDRESS.fullmatch(name):
            raise InputError("--model: no address after the @; write NAME@http://localhost:8000/v1")
        if names.count(name) > 1:
            raise InputError(
                f'--model: "{name}" is named twice; name it once, and each of its addresses with --base-url'
            )


def _keys(settings: Settings) -> dict[str, str]:
    if not settings.at_endpoints:
        return dict.fromkeys((*settings.api_key_env, NO_KEY), "none")
    own = all(split_model(model)[1] for model in settings.model) and bool(settings.model)
    elsewhere = bool(set(settings.base_url) - {OPENAI_URL})  # OpenAI accepts nothing without a key
    found = {
        name: _api_key(name, named=elsewhere or own) for name in dict.fromkeys(settings.api_key_env)
    }
    return {**found, NO_KEY: "none"}


def _paired(flag: str, kind: str, given: Sequence[Value], judges: int) -> list[Value]:
    if len(given) not in {1, judges}:
        count = f"{judges} judges" if judges > 1 else "1 judge"
        raise InputError(
            f"{flag}: {len(given)} {kind} for {count}; name one for all, or one for each --model in their order"
        )
    return list(given) if len(given) == judges else list(given) * judges


def _api_key(variable: str, *, named: bool) -> str:
    if variable == NO_KEY:
        return "none"
    key = os.environ.get(variable, "").strip()
    if len(key) > 1 and key[0] == key[-1] and key[0] in "\"'":
        raise InputError(
            f"{variable}: holds a key in quotes, which are no part of it (docker's --env-file keeps them); set it without"
        )
    if key and not (key.isascii() and key.isprintable() and " " not in key):
        raise InputError(
            f"{variable}: holds blanks or other characters that a key cannot have; set it anew"
        )
    if not key and variable != DEFAULT_KEY_ENV:
        raise InputError(
            f"--api-key-env {variable}: that variable is not set; set it, or write - if no key is needed"
        )
    if not key and not named:
        raise InputError(
            f"no endpoint is configured. Three ways on: set a key in {variable} (and --model); name a local "
            "server, --base-url http://localhost:8000/v1 --model NAME; or try the demo, which needs neither: robin demo"
        )
    return key or "none"
