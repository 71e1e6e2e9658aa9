"""The addresses of judges: NAME@https://… of --model, and the host that an address leads to."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from urllib.parse import quote, urlsplit

from robin_cli.model.errors import InputError

OPENAI_URL = "https://api.openai.com/v1"
JUDGE_SCHEME = "judge://"
_PORTS = {"http": 80, "https": 443}
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9.])?|\[[0-9A-Fa-f:.]+\]")
_WITH_ADDRESS = re.compile(r"(.*?)@(https?://.*)", re.DOTALL | re.IGNORECASE)


def checked_urls(urls: Sequence[object], place: str) -> tuple[str, ...]:
    """Return addresses, each once, without a trailing slash.

    Raises:
        InputError: one is invalid, or holds a secret; it names ``place``.
    """
    checked = []
    for url in map(str, urls):
        try:
            parts = urlsplit(url)
            if "@" in parts.netloc or parts.query or parts.fragment:
                raise InputError(
                    f"{place}: must hold no user, password or query (it is written to disk); keys "
                    "go into --api-key-env. Azure's form without ?api-version is "
                    "https://NAME.openai.azure.com/openai/v1"
                )
            host_of(url)
        except ValueError:
            raise InputError(
                f"{place}: must begin with http:// or https://, as http://localhost:8000/v1, and "
                "be in ASCII"
            ) from None
        checked.append(url.rstrip("/").removesuffix("/chat/completions"))
    return tuple(dict.fromkeys(checked))


def split_model(model: str) -> tuple[str, str | None]:
    """Split ``NAME`` or ``NAME@https://…`` into name and address; a name may itself hold an @."""
    match = _WITH_ADDRESS.fullmatch(model.strip())
    return (match[1].strip(), match[2]) if match else (model.strip(), None)


def judge_name(model: str) -> str:
    """Return the name in ``NAME`` or ``NAME@https://…``, a value of --model."""
    return split_model(model)[0]


def place_of(judge: str) -> str:
    """Return a stand-in for the address of a judge without one; it cannot be a ``base_url``."""
    return JUDGE_SCHEME + quote(judge, safe=":")


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


def is_loopback(host: str) -> bool:
    """Return whether ``host`` is this machine, and cannot be another."""
    if host.lower() == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:  # a name, whatever it begins with
        return False
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback
