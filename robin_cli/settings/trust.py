"""Trust in hosts: robin sends only to hosts that the user named, never to one that only a folder's file or a run names.

The user names a host by a flag, the environment, or a file given as --config; the host may then get the key that the user
named, or the default one. Named hosts are remembered in the user's configuration folder with the variables of their keys, so
that a run can be resumed by its directory alone. This machine and OpenAI's own address (with the default variable) need no
naming. A host is a scheme, a name and a port. A folder that requests are written into is named and remembered like a host.
"""

from __future__ import annotations

import glob
import ipaddress
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal
from urllib.parse import quote, urlsplit

from robin_cli.files.local import is_ours
from robin_cli.files.remote import scheme_of
from robin_cli.model.errors import InputError, option, typed

OPENAI_URL = "https://api.openai.com/v1"
DEFAULT_KEY_ENV = "OPENAI_API_KEY"
NO_KEY = "-"
AT_ENDPOINTS = "openai"
"""robin's own judge, the only one with addresses and keys."""

Sending = tuple[str, str]
"""A host, as :func:`host_of` returns it, and the variable of its key, or NO_KEY."""

NAMING = ("base_url", "model", "api_key_env", "judge")
"""The settings that decide which host gets which key."""

PRICES = ("price_in", "price_out", "price_cached")
"""The settings that a limit on money relies on."""

_SEVERAL = frozenset({"base_url", "model", "api_key_env"})
_HUB = "hf"
_JUDGE_SCHEME = "judge://"
_PORTS = {"http": 80, "https": 443}
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9.])?|\[[0-9A-Fa-f:.]+\]")
_WITH_ADDRESS = re.compile(r"(.*?)@(https?://.*)", re.DOTALL | re.IGNORECASE)
_FILE = "trusted-hosts"
_LONGEST = 1 << 20


@dataclass(frozen=True, slots=True)
class Source:
    """The source of settings that were not flags, and those settings that the user gave beside it.

    Attributes:
        place: the source's name in messages.
        kind: "user" if all settings are the user's; "folder" for a file found in the working folder, "run" for a run's record.
        named: the settings in NAMING and PRICES that the user gave.
        in_python: messages name keywords, not flags.
    """

    place: str = "the command line"
    kind: Literal["user", "folder", "run"] = "user"
    named: Mapping[str, Sequence[str]] = field(default_factory=dict)
    in_python: bool = False

    def __str__(self) -> str:
        return self.place


def named_in(given: Mapping[str, Any]) -> dict[str, Sequence[str]]:
    """Return the settings in NAMING and PRICES among the flags and variables ``given``."""
    named: dict[str, Sequence[str]] = {
        name: values(given[name]) for name in NAMING if name in given
    }
    return named | {each: () for each in PRICES if each in given}


def split_model(model: str) -> tuple[str, str | None]:
    """Split ``NAME`` or ``NAME@https://…`` into name and address; a name may itself hold an @."""
    found = _WITH_ADDRESS.fullmatch(model.strip())
    return (found[1].strip(), found[2]) if found else (model.strip(), None)


def _addresses(named: Mapping[str, Any]) -> list[str]:
    """Return all addresses in settings, common ones and those of single judges."""
    models = named.get("model", ())
    return [*named.get("base_url", ()), *filter(None, (split_model(each)[1] for each in models))]


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
    """Return scheme, name and port of an address in one form. ValueError if two parsers could read different hosts."""
    parts = urlsplit(url)
    if (
        not url.isascii()
        or not url.isprintable()
        or set(' \\"<>^`{|}') & set(url)
        or parts.scheme not in _PORTS
    ):
        raise ValueError("no address")
    name, _, port = (
        parts.netloc.rpartition(":")
        if re.search(r":\d+$", parts.netloc)
        else (parts.netloc, "", "")
    )
    if not _HOST.fullmatch(name) or parts.port == 0:
        raise ValueError("no host")
    other_port = f":{int(port)}" if port and int(port) != _PORTS[parts.scheme] else ""
    return f"{parts.scheme}://{name.lower()}{other_port}"


def place_of(judge: str) -> str:
    """Return a stand-in for the address of a judge without one; it cannot be a ``base_url``."""
    return _JUDGE_SCHEME + quote(judge, safe=":")


def _host(address: str) -> str:
    return address if address.startswith(_JUDGE_SCHEME) else host_of(address)


def doubts(source: Source, sendings: Iterable[tuple[str, str]]) -> list[Sending]:
    """Return the hosts and keys among ``sendings``, addresses with variables, that the user did not name.

    Raises:
        InputError: the file of hosts that the user named earlier cannot be trusted: others may write to it.
    """
    if source.kind == "user":
        return []
    wanted = dict.fromkeys((_host(url), variable) for url, variable in sendings)
    hosts = {*map(host_of, _addresses(source.named)), *map(place_of, source.named.get("judge", ()))}
    variables = {DEFAULT_KEY_ENV, NO_KEY, *source.named.get("api_key_env", ())}
    left = [
        each
        for each in wanted
        if not _is_free(each) and not (each[0] in hosts and each[1] in variables)
    ]
    if not left:
        return []
    known = remembered()
    named_ever = {host for host, _ in known}
    return [
        each
        for each in left
        if each not in known and not (each[1] == NO_KEY and each[0] in named_ever)
    ]


def _is_free(sending: Sending) -> bool:
    host, variable = sending
    return is_loopback(urlsplit(host).hostname or "") or (
        host == host_of(OPENAI_URL) and variable in {DEFAULT_KEY_ENV, NO_KEY}
    )


def question(source: Source, doubtful: Sequence[Sending]) -> str:
    """Return the question for a terminal before ``doubtful`` is sent."""
    return f"{_fact(source, doubtful)}. Send it, now and from now on? [y/N] "


def refusal(
    source: Source, doubtful: Sequence[Sending], settings: Mapping[str, Sequence[str]]
) -> str:
    """Return the error instead of sending, with the settings by which the user can allow it.

    Args:
        settings: the values of all settings in NAMING.
    """
    if any(host.startswith(_JUDGE_SCHEME) for host, _ in doubtful):
        needed = {"judge": settings["judge"]}
    else:
        elsewhere = any(split_model(model)[1] for model in settings["model"])
        needed = {
            "base_url": settings["base_url"],
            "model": settings["model"] if elsewhere else source.named.get("model", ()),
            "api_key_env": []
            if set(settings["api_key_env"]) <= {DEFAULT_KEY_ENV}
            else settings["api_key_env"],
        }
    if source.in_python:
        words = [
            f"{name}={list(map(str, values)) if name in _SEVERAL else str(values[0])!r}"
            for name, values in needed.items()
            if values
        ]
        step = f"name it yourself: {', '.join(words)}"
    elif source.kind == "folder":
        step = f"trust that file: --config {typed(source.place)}"
    else:
        flags = [
            option(f"--{name.replace('_', '-')}", value)
            for name, values in needed.items()
            for value in values
        ]
        step = f"name it yourself: {' '.join(flags)}"
    return f"{_fact(source, doubtful)}. Nothing was sent. If it is right, {step}"


def _fact(source: Source, doubtful: Sequence[Sending]) -> str:
    file = source.place if source.kind == "folder" else str(Path(source.place) / "manifest.json")
    return f"{file} wants {', '.join(map(_wanted, doubtful))}, which you have not named"


def _wanted(sending: Sending) -> str:
    host, variable = sending
    return f"{'the prompts (no key)' if variable == NO_KEY else f'the key in {variable}'} sent to {host}"


def check_found_file(
    path: Path, settings: Mapping[str, Any], given: Mapping[str, Any], files: Mapping[str, str]
) -> None:
    """Check that a file found in the working folder, with ``settings``, has only settings that a stranger's file may have.

    It must not choose a judge, a key variable or a Ray cluster, read or write at an address (except data sets of the hub),
    write outside its folder, or both read outside its folder and choose where to send it. Settings in ``given`` replace the
    file's.

    Args:
        files: the settings that name files, and whether these are "read" or "written".

    Raises:
        InputError: with the setting and the next step.
    """
    named = {name: value for name, value in settings.items() if name not in given}
    if named.get("judge", AT_ENDPOINTS) != AT_ENDPOINTS:
        _refuse(path, "judge", "choose a judge")
    if named.get("ray") is not None:
        _refuse(path, "ray", "choose a cluster, which gets the keys")
    if set(named.get("api_key_env", ())) - {DEFAULT_KEY_ENV, NO_KEY}:
        _refuse(path, "api_key_env", "choose which key is sent")
    for name in files:
        if any(scheme_of(value) not in {"", _HUB} for value in values(named.get(name))):
            _refuse(path, name, "read or write at an address")

    def leaving(kind: str) -> Iterable[str]:
        names = (name for name, what in files.items() if what == kind)
        return (
            name
            for name in names
            if any(_leaves(path.parent, value) for value in values(named.get(name)))
        )

    for name in leaving("written"):
        _refuse(path, name, "write outside its folder")
    if not any(map(_is_foreign, _addresses(named))):
        return
    for name in leaving("read"):
        _refuse(path, name, "both read outside its folder and choose where to send it")


def _is_foreign(url: str) -> bool:
    try:
        return not _is_free((host_of(url), NO_KEY))
    except ValueError:
        return True


def _refuse(path: Path, name: str, what: str) -> None:
    flag = "DATA" if name == "data" else f"--{name.replace('_', '-')}"
    raise InputError(
        f"{path}: {name}: a file that was found, not named, may not {what}; give {flag} yourself, or trust the file: "
        f"--config {typed(path)}"
    )


def values(value: Any) -> Sequence[str]:
    """Return the values of a setting, none, one or several, as a sequence."""
    return () if value is None else (value,) if isinstance(value, str) else value


def _leaves(folder: Path, value: str) -> bool:
    """Return whether ``value``, a path or a pattern, leads out of ``folder``, also by a link."""
    if value == "-" or scheme_of(value) == _HUB:
        return False
    home = folder.resolve()
    found = [value, *(glob.iglob(value, recursive=True) if glob.has_magic(value) else ())]  # noqa: PTH207
    try:
        return any(not Path(each).resolve().is_relative_to(home) for each in found)
    except (OSError, RuntimeError, ValueError):  # a loop of links, or not a path
        return True


def remembered() -> frozenset[Sending]:
    """Return the hosts that the user named earlier, with variables.

    Raises:
        InputError: the file belongs to somebody else, or others may write to it.
    """
    file = _memory()
    if file is None:
        return frozenset()
    try:
        with _private(file, os.O_RDONLY, "rb") as content:
            text = content.read(_LONGEST).decode("utf-8", "replace")
    except OSError:
        return frozenset()
    lines = (line.split() for line in text.splitlines() if not line.startswith("#"))
    return frozenset((line[0], line[1]) for line in lines if len(line) == 2)


def remember(sendings: Iterable[tuple[str, str]]) -> bool:
    """Remember addresses and variables that the user named; return whether that worked."""
    named = dict.fromkeys((_host(url), variable) for url, variable in sendings)
    wanted = [each for each in named if not _is_free(each)]
    file = _memory()
    if not wanted or file is None:
        return not wanted
    with suppress(OSError, InputError):
        new = [each for each in wanted if each not in remembered()]
        if new:
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with _private(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, "ab") as content:
                content.write("".join(f"\n{host} {variable}\n" for host, variable in new).encode())
        return True
    return False


def _memory() -> Path | None:
    """Return the file of named hosts; None if the user has no configuration folder. The working folder never decides it."""
    base = os.environ.get("APPDATA" if os.name == "nt" else "XDG_CONFIG_HOME", "")
    if os.name != "nt" and not Path(base).is_absolute():
        base = os.path.expanduser("~/.config")  # noqa: PTH111  # Path's raises without a home
    return Path(base) / "robin" / _FILE if Path(base).is_absolute() else None


def _private(file: Path, flags: int, mode: str) -> IO[bytes]:
    """Open a file of this user. OSError or InputError for any other."""
    handle = os.open(file, flags, 0o600)
    if os.name == "nt" or is_ours(os.fstat(handle)):
        return os.fdopen(handle, mode)
    os.close(handle)
    raise InputError(
        f"{file}: others may write to it, so robin does not trust it; look through it, then chmod 600 {typed(file)}"
    )
