"""Who judges: each judge's name, its addresses, and the environment variable that holds its key."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from robin_cli.config import OPENAI_URL, RunConfig, checked_urls
from robin_cli.errors import InputError

_WITH_ADDRESS = re.compile(r"(.*?)@(https?://.*)", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class JudgeAddress:
    """One judge: the model's name there, its addresses (at least one), and the variable that holds the key for them."""

    name: str
    base_urls: tuple[str, ...]
    api_key_env: str


def judge_name(model: str) -> str:
    """The name in ``NAME`` or ``NAME@https://…``, as --model takes them."""
    return _split(model)[0]


def judges_of(config: RunConfig) -> tuple[JudgeAddress, ...]:
    """The judges that ``config`` names, at least one.

    Raises:
        InputError: none, one of them twice, an address that is none, or variables for keys that do not pair up with them.
    """
    common = config.base_url or (OPENAI_URL,)
    if not config.model:
        raise InputError(f"--model is missing: name the judge that {common[0]} should answer with")
    named = [_split(model) for model in config.model]
    names = [name for name, _ in named]
    for name in names:
        if not name:
            raise InputError("--model: an empty name; write NAME, or NAME@https://address/v1")
        if names.count(name) > 1:
            raise InputError(
                f'--model: "{name}" is named twice; name it once, and each of its addresses with --base-url'
            )
    variables = config.api_key_env
    if len(variables) not in {1, len(named)}:
        raise InputError(
            f"--api-key-env: {len(variables)} variables for {len(named)} judges; name one for all, or one for each --model "
            "in their order"
        )
    paired = variables if len(variables) == len(named) else variables * len(named)
    return tuple(
        JudgeAddress(name, checked_urls([url], "--model") if url else common, variable)
        for (name, url), variable in zip(named, paired, strict=True)
    )


def api_keys(config: RunConfig) -> dict[str, str]:
    """The key in each variable that ``config`` names; "none" where none is set and the endpoint is one that was named.

    Raises:
        InputError: no endpoint is configured.
    """
    own = all(_split(model)[1] for model in config.model) and bool(config.model)
    return {name: _api_key(name, named=bool(config.base_url) or own) for name in dict.fromkeys(config.api_key_env)}


def _api_key(variable: str, *, named: bool) -> str:
    key = os.environ.get(variable, "").strip()
    if key and not (key.isascii() and key.isprintable() and " " not in key):
        raise InputError(f"{variable}: holds blanks or other characters that no key has; set it anew")
    if not key and not named:
        raise InputError(
            f"no endpoint is configured. Three ways on: set a key in {variable} (and --model); name a local "
            "server, --base-url http://localhost:8000/v1 --model NAME; or try the demo, which needs neither: make demo"
        )
    return key or "none"


def _split(model: str) -> tuple[str, str | None]:
    """Name and address; a name may hold an @ itself."""
    found = _WITH_ADDRESS.fullmatch(model.strip())
    return (found[1].strip(), found[2]) if found else (model.strip(), None)
