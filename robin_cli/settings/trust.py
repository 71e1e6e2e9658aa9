"""The trust rule: a key or a prompt goes only where the user sends it.

The user names a host, a key variable or a judge of a package by a flag, in the environment, or in
a file given as --config. A robin.toml that robin finds in the working folder decides none of these,
and no price or output. For each run made here, robin keeps its hosts, key variables and judges in
the user's state folder: the run is trusted for exactly these. This machine, and OpenAI's host with
the default variable, need no naming. A host is a scheme, a name and a port.
"""

from __future__ import annotations

import ipaddress
import os
import re
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from robin_cli.data.remote import scheme_of
from robin_cli.model.errors import InputError, option, shown, typed
from robin_cli.settings.setting import Setting

OPENAI_URL = "https://api.openai.com/v1"
DEFAULT_KEY_ENV = "OPENAI_API_KEY"
NO_KEY = "-"
AT_ENDPOINTS = "openai"
"""robin's own judge, the only one with addresses and keys."""

Sending = tuple[str, str]
"""An address or a host, and the variable of the key that goes there, or NO_KEY."""

PRICES = ("price_in", "price_out", "price_cached")
NAMING = ("base_url", "model", "api_key_env", "judge")
_HUB = "hf"
_JUDGE_SCHEME = "judge://"
_PORTS = {"http": 80, "https": 443}
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9.])?|\[[0-9A-Fa-f:.]+\]")
_WITH_ADDRESS = re.compile(r"(.*?)@(https?://.*)", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Source:
    """The source of settings that are no flags.

    Attributes:
        place: the source's name in messages.
        run_id: of the run whose record the settings are; None if all of them are the user's.
        named: the settings of a run that the user repeats.
        notes: lines for the user about settings that do not count.
        prices: where the prices in the settings come from, if there are any.
    """

    place: str = "the command line"
    run_id: str | None = None
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
        settings: the run's own, of those that name hosts, keys and judges.
        sendings: the addresses that get requests, with the variables of their keys.

    Raises:
        InputError: a host, a key variable or a judge is only the run's.
    """
    if source.run_id is None:
        return
    kept = kept_sendings(source.run_id)
    named = {*map(host_of, _addresses(source.named)), *map(place_of, source.named.get("judge", ()))}
    variables = {DEFAULT_KEY_ENV, NO_KEY, *source.named.get("api_key_env", ())}
    untrusted = [
        (host, variable)
        for host, variable in _by_host(sendings)
        if (host, variable) not in kept
        and not (variable == NO_KEY and host in dict(kept))
        and not (host in named and variable in variables)
        and not _is_free(host, variable)
    ]
    if not untrusted:
        return
    needed = {"judge"}
    if not untrusted[0][0].startswith(_JUDGE_SCHEME):
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
    for host in map(host_of, _addresses({setting.name: value})):
        if not _is_free(host, NO_KEY):
            return f"that prompts go to {host}"
    if setting.file == "written":
        return "where files are written"
    if setting.file and any(scheme_of(name) not in {"", _HUB} for name in values(value)):
        return "that data come from an address"
    return None


def named_in(flags: Mapping[str, Any]) -> dict[str, Sequence[str]]:
    """Return the settings that name hosts, keys and judges among flags and variables."""
    return {name: values(flags[name]) for name in NAMING if name in flags}


def values(value: Any) -> Sequence[str]:
    """Return the values of a setting, none, one or several, as a sequence."""
    return () if value is None else (value,) if isinstance(value, str) else value


def split_model(model: str) -> tuple[str, str | None]:
    """Split ``NAME`` or ``NAME@https://…`` into name and address; a name may itself hold an @."""
    match = _WITH_ADDRESS.fullmatch(model.strip())
    return (match[1].strip(), match[2]) if match else (model.strip(), None)


def _addresses(named: Mapping[str, Any]) -> list[str]:
    """Return all addresses in settings, common ones and those of single judges."""
    of_models = (split_model(model)[1] for model in values(named.get("model")))
    return [*values(named.get("base_url")), *filter(None, of_models)]


def is_loopback(host: str) -> bool:
    """Return whether ``host`` is this machine, and cannot be another."""
    if host.lower() == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:  # a name, whatever it begins with
        return False
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def host_of(url: str) -> str:
    """Return scheme, name and port of an address in one form.

    Raises:
        ValueError: two parsers could read different hosts.
    """
    parts = urlsplit(url)
    is_plain = url.isascii() and url.isprintable() and not set(' \\"<>^`{|}') & set(url)
    if not is_plain or parts.scheme not in _PORTS:
        raise ValueError("no address")
    match = re.fullmatch(r"(.*?)(?::(\d+))?", parts.netloc)
    name, port = match.groups() if match else ("", None)
    if not _HOST.fullmatch(name) or parts.port == 0:
        raise ValueError("no host")
    other_port = f":{int(port)}" if port and int(port) != _PORTS[parts.scheme] else ""
    return f"{parts.scheme}://{name.lower()}{other_port}"


def place_of(judge: str) -> str:
    """Return a stand-in for the address of a judge without one; it cannot be a ``base_url``."""
    return _JUDGE_SCHEME + quote(judge, safe=":")


def _by_host(sendings: Iterable[Sending]) -> list[Sending]:
    """Return each host of ``sendings`` with the variable of its key, once."""
    hosts = (
        (url if url.startswith(_JUDGE_SCHEME) else host_of(url), variable)
        for url, variable in sendings
    )
    return list(dict.fromkeys(hosts))


def is_made_here(run_id: str) -> bool:
    """Return whether robin worked on a run here, by the user's own settings."""
    return any(known == run_id for known, *_ in _kept())


def kept_sendings(run_id: str) -> frozenset[Sending]:
    """Return the hosts of a run made here, with the variables of their keys."""
    return frozenset((host, variable) for known, host, variable in _kept() if known == run_id)


def keep_sendings(run_id: str, sendings: Iterable[Sending]) -> None:
    """Keep the hosts of a run with the variables of their keys; nothing without a state folder."""
    known, file = kept_sendings(run_id), _state_file()
    new = [sending for sending in _by_host(sendings) if sending not in known]
    if file is None or not new:
        return
    with suppress(OSError):
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "a") as out:
            out.write("".join(f"{run_id} {host} {variable}\n" for host, variable in new))


def _kept() -> list[list[str]]:
    """Return the lines of the state file: run id, host, variable."""
    file = _state_file()
    try:
        text = "" if file is None else file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return [words for words in map(str.split, text.splitlines()) if len(words) == 3]


def _state_file() -> Path | None:
    """Return the file of runs made here; None without a state folder. Never in the working folder."""
    base = os.environ.get("LOCALAPPDATA" if os.name == "nt" else "XDG_STATE_HOME", "")
    if os.name != "nt" and not Path(base).is_absolute():
        base = os.path.expanduser("~/.local/state")  # noqa: PTH111  # Path's raises without a home
    return Path(base) / "robin" / "runs" if Path(base).is_absolute() else None
