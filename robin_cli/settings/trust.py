"""The trust rule: a key or a prompt goes only where the user sends it.

The user names a host, a key variable or a judge of a package by a flag, in the environment, or in
a file given as --config. A robin.toml that robin finds in the working folder decides none of these,
and no price or output. A run made here is trusted for the hosts, key variables and judges that
robin kept of it (:mod:`robin_cli.settings.made_here`). This machine, and OpenAI's host with the default
variable, need no naming. A host is a scheme, a name and a port.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from robin_cli.data.remote import scheme_of
from robin_cli.model.errors import InputError, option, shown, typed
from robin_cli.settings.addresses import (
    JUDGE_SCHEME,
    OPENAI_URL,
    checked_urls,
    host_of,
    is_loopback,
    place_of,
    split_model,
)
from robin_cli.settings.setting import Setting

DEFAULT_KEY_ENV = "OPENAI_API_KEY"
NO_KEY = "-"
AT_ENDPOINTS = "openai"
"""robin's own judge, the only one with addresses and keys."""

Sending = tuple[str, str]
"""A host, and the variable of the key that goes there, or NO_KEY."""

PRICES = ("price_in", "price_out", "price_cached")
NAMING = ("base_url", "model", "api_key_env", "judge")


@dataclass(frozen=True, slots=True)
class Source:
    """The source of settings that are no flags.

    Attributes:
        place: the source's name in messages.
        kept: what the run whose record the settings are was made here with; None if all of them
            are the user's.
        named: the settings of a run that the user repeats.
        notes: lines for the user about settings that do not count.
        prices: where the prices in the settings come from, if there are any.
    """

    place: str = "the command line"
    kept: Collection[Sending] | None = None
    named: Mapping[str, Sequence[str]] = field(default_factory=dict)
    notes: Sequence[str] = ()
    prices: str = "--price-in, --price-out"

    def __str__(self) -> str:
        return self.place


def check_sendings(
    source: Source, settings: Mapping[str, Sequence[str]], sendings: Iterable[Sending]
) -> None:
    """Check that a run sends only where the user sends it, or where it was made to send here.

    Args:
        settings: the run's own, of NAMING.

    Raises:
        InputError: a host, a key variable or a judge is only the run's.
    """
    if source.kept is None:
        return
    kept_hosts = {host for host, _ in source.kept}
    named = {*map(host_of, _addresses(source.named)), *map(place_of, source.named.get("judge", ()))}
    variables = {DEFAULT_KEY_ENV, NO_KEY, *source.named.get("api_key_env", ())}
    untrusted = [
        (host, variable)
        for host, variable in sendings
        if (host, variable) not in source.kept
        and not (host in kept_hosts and variable == NO_KEY)
        and not (host in named and variable in variables)
        and not _is_free(host, variable)
    ]
    if not untrusted:
        return
    needed = {"judge"}
    if not untrusted[0][0].startswith(JUDGE_SCHEME):
        has_address = any(split_model(model)[1] for model in settings["model"])
        has_variable = bool(set(settings["api_key_env"]) - {DEFAULT_KEY_ENV})
        needed = {"base_url", *["model"] * has_address, *["api_key_env"] * has_variable}
    flags = [
        option(f"--{name.replace('_', '-')}", value)
        for name in NAMING
        if name in needed
        for value in settings[name]
    ]
    what = ", ".join(
        f"{'the prompts (no key)' if key == NO_KEY else f'the key in {key}'} sent to {host}"
        for host, key in untrusted
    )
    raise InputError(
        f"{Path(source.place) / 'manifest.json'} wants {what}, and this run was not made here with "
        f"it. Nothing was sent. If it is right, name it yourself: {' '.join(flags)}"
    )


def _is_free(host: str, variable: str) -> bool:
    """Return whether a host needs no naming: this machine, or OpenAI with the default variable."""
    return is_loopback(urlsplit(host).hostname or "") or (
        host == host_of(OPENAI_URL) and variable in {DEFAULT_KEY_ENV, NO_KEY}
    )


def check_found_file(
    path: Path, in_file: Mapping[str, Any], flags: Mapping[str, Any], table: Mapping[str, Setting]
) -> None:
    """Check that a robin.toml that robin found decides nothing that only the user decides.

    Settings that ``flags`` override, and those with default values, decide nothing.

    Raises:
        InputError: with the setting, and the command that takes it from the file.
    """
    for name, value in in_file.items():
        if name in flags or value == table[name].default:
            continue
        if what := _decision(table[name], value):
            command = shlex.join(["robin", *sys.argv[1:], "--config"])
            raise InputError(
                f"{path}: {name}: a robin.toml that robin found does not decide {what}. If you "
                f"trust the file, name it: {shown(command, 2000)} {typed(path)}"
            )


def _decision(setting: Setting, value: Any) -> str | None:
    """Return what a setting of a found file decides, if only the user may decide it."""
    if setting.name == "judge":
        return "who judges"
    if setting.name == "ray":
        return "which cluster gets the keys"
    if setting.name in PRICES:
        return "a price"
    if setting.name == "api_key_env" and set(value) - {DEFAULT_KEY_ENV, NO_KEY}:
        return "which key is sent"
    for host in map(host_of, checked_urls(_addresses({setting.name: value}), setting.name)):
        if not _is_free(host, NO_KEY):
            return f"that prompts go to {host}"
    if setting.file == "written":
        return "where files are written"
    if setting.file and any(scheme_of(name) not in {"", "hf"} for name in as_sequence(value)):
        return "that data come from an address"
    return None


def as_sequence(value: Any) -> Sequence[str]:
    """Return the values of a setting, none, one or several, as a sequence."""
    return () if value is None else (value,) if isinstance(value, str) else value


def _addresses(named: Mapping[str, Any]) -> list[str]:
    """Return all addresses in settings, common ones and those of single judges."""
    of_models = (split_model(model)[1] for model in as_sequence(named.get("model")))
    return [*as_sequence(named.get("base_url")), *filter(None, of_models)]
