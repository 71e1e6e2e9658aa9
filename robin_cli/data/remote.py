"""Read files at addresses, https://, s3:// and gs://, by fsspec, as a whole copy on this machine.

Credentials come from the user's other tools (AWS_PROFILE, gcloud, ~/.netrc): an address with
credentials is refused, and robin never shows or writes the query of a signed address.
"""

from __future__ import annotations

import errno
import glob
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any
from urllib.parse import urlsplit

from robin_cli.model.errors import InputError
from robin_cli.model.plugins import install

LIBRARIES = {"s3": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "https": "fsspec", "http": "fsspec"}
"""The library for each scheme."""

KNOWN = "https://, s3:// and gs://"
_WEB = ("http", "https")
_CHUNK_BYTES = 2**20
_WAIT_S = 60.0
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
_REFUSED = {
    "PermissionError",
    "NoCredentialsError",
    "PartialCredentialsError",
    "DefaultCredentialsError",
    "RefreshError",
}


class RemoteError(OSError):
    """A file at an address cannot be read: ``strerror`` is the fact, ``step`` the next step."""

    def __init__(self, fact: str, step: str) -> None:
        super().__init__(errno.EIO, fact)
        self.step = step


def scheme_of(name: str) -> str:
    """Return the scheme of an address, in small letters; "" for a path."""
    found = _SCHEME.match(name)
    return found[1].lower() if found else ""


def is_remote(name: str) -> bool:
    """Return whether a name is an address that this module opens."""
    return scheme_of(name) in LIBRARIES


def public_name(name: str) -> str:
    """Return an address as it may be shown and recorded: a query may be a signature.

    Raises:
        InputError: it has no host, or has a user or a password.
    """
    scheme = scheme_of(name)
    try:
        _, host, path, query, _ = urlsplit(name)
    except ValueError:
        host = path = query = ""
    if not host or not name.isprintable():
        raise InputError(f"{scheme}://…: names no file. Write it as {scheme}://HOST/FILE.")
    if "@" in host:
        raise InputError(
            f"{scheme}://…: holds a user or a password, which would be written to disk. Leave it "
            "out: credentials are those of your other tools (~/.netrc, AWS_PROFILE, gcloud auth "
            "application-default login)."
        )
    if scheme not in _WEB:
        return name  # a ? is part of a name there, or of a pattern
    return f"{scheme}://{host}{path}{'?…' if query else ''}"


def matches(pattern: str) -> list[str]:
    """Return the files that a pattern matches, sorted; an address without one stays as it is.

    Raises:
        InputError: as :func:`public_name`; or it matches none. RemoteError: it cannot be read.
    """
    called = public_name(pattern)
    if scheme_of(pattern) in _WEB or not glob.has_magic(pattern):
        return [pattern]
    with _file_system(pattern) as (files, address):
        if files.exists(address):
            return [pattern]
        found = filter(files.isfile, files.glob(address))
        names = sorted(map(files.unstrip_protocol, found))
    if not names:
        raise InputError(f"{called}: matches no file. Check the pattern.")
    return names


def download(name: str, file: IO[bytes]) -> None:
    """Copy the file at an address into ``file``. RemoteError if it cannot be read."""
    # One request for a web address: asked for the size first, a server may refuse a signature, or
    # hide its errors.
    how = {"block_size": 0, "size": 1} if scheme_of(name) in _WEB else {}
    with _file_system(name) as (files, address), files.open(address, "rb", **how) as source:
        shutil.copyfileobj(source, file, _CHUNK_BYTES)


@contextmanager
def _file_system(name: str) -> Iterator[tuple[Any, str]]:
    """Yield the file system of an address, and the address as that file system takes it.

    Errors of the libraries and the network become a RemoteError without their messages, which may
    hold a signature.
    """
    scheme = scheme_of(name)
    try:
        import fsspec

        options = _web_options() if scheme in _WEB else {}
        files = fsspec.filesystem(scheme, use_listings_cache=False, **options)
        # the libraries know schemes in small letters only
        yield (files, scheme + name[len(scheme) :])
    except InputError:
        raise
    except Exception as error:  # noqa: BLE001  # botocore, aiohttp and google.auth share no class
        raise RemoteError(*_reason(error, scheme)) from None


def _web_options() -> dict[str, Any]:
    """Return options by which waiting is bounded, and the file is what the server stores."""
    import aiohttp

    # No decompression: it would give another file than the name says.
    return {
        "skip_instance_cache": True,
        "client_kwargs": {
            "timeout": aiohttp.ClientTimeout(total=None, sock_connect=_WAIT_S, sock_read=_WAIT_S),
            "headers": {"Accept-Encoding": "identity"},
            "auto_decompress": False,
            "trust_env": True,
        },
    }


def _reason(error: Exception, scheme: str) -> tuple[str, str]:
    """Return the fact and the next step."""
    kinds = {each.__name__ for each in type(error).__mro__}
    status = getattr(error, "status", None) or getattr(error, "code", None)
    if isinstance(error, ImportError):
        needed = f"needs {LIBRARIES[scheme]}, which is not installed"
        return needed, f"Install it: {install('remote')}"
    if isinstance(error, FileNotFoundError):
        return "there is no such file", "Check the address"
    if kinds & _REFUSED or status in {401, 403}:
        tools = "robin uses the credentials of your other tools (AWS_PROFILE, gcloud, ~/.netrc)"
        return "access is refused", f"{tools}; check them"
    if isinstance(status, int):
        fact = f"the server answers with HTTP {status}"
        return fact, "Check the address, or try again later"
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        step = "Free some, or set TMPDIR to a larger disk"
        return "there is no space left for a copy of it", step
    fact = f"it cannot be reached or read ({type(error).__name__})"
    return fact, "Check the address and the network"
