"""Read files at addresses, https://, s3:// and gs://, by fsspec, as a whole copy on this machine.

Credentials come from the user's other tools (AWS_PROFILE, gcloud, ~/.netrc): an address with credentials is refused, and robin
never shows or writes the query of a signed address.
"""

from __future__ import annotations

import errno
import glob
import re
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import urlsplit

from robin_cli.model.errors import InputError
from robin_cli.model.plugins import install

if TYPE_CHECKING:
    from collections.abc import Iterator

LIBRARIES = {"s3": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "https": "fsspec", "http": "fsspec"}
"""The library for each scheme."""

KNOWN = "https://, s3:// and gs://"
_WEB = ("http", "https")
_CHUNK_BYTES = 2**20
_BLOCK_BYTES = 2**24
_WAIT_S = 60.0
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
_REFUSED = frozenset(
    {
        "PermissionError",
        "NoCredentialsError",
        "PartialCredentialsError",
        "DefaultCredentialsError",
        "RefreshError",
    }
)


class RemoteError(OSError):
    """A file at an address cannot be read: ``strerror`` is the fact, ``step`` the next step."""

    def __init__(self, fact: str, step: str) -> None:
        super().__init__(errno.EREMOTEIO if hasattr(errno, "EREMOTEIO") else errno.EIO, fact)
        self.step = step


def scheme_of(name: str) -> str:
    """Return the scheme of an address, in small letters; "" for a path."""
    found = _SCHEME.match(name)
    return found[1].lower() if found else ""


def is_remote(name: str) -> bool:
    """Return whether a name is an address that this module opens."""
    return scheme_of(name) in LIBRARIES


def public_name(name: str) -> str:
    """Return an address as it may be shown and recorded: without its query, which may be a signature.

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
            f"{scheme}://…: holds a user or a password, which would be written to disk. Leave it out: credentials are those of "
            "your other tools (~/.netrc, AWS_PROFILE, gcloud auth application-default login)."
        )
    if scheme not in _WEB:
        return name  # a ? is part of a name there, or of a pattern
    return f"{scheme}://{host}{path}{'?…' if query else ''}"


def matches(pattern: str) -> list[str]:
    """Return the files that a pattern at an address matches, sorted, or the address itself if it is not a pattern.

    Raises:
        InputError: as :func:`public_name`; or it matches none. RemoteError: it cannot be read.
    """
    called = public_name(pattern)
    if scheme_of(pattern) in _WEB or not glob.has_magic(pattern):
        return [pattern]
    with _file_system(pattern) as (files, address):
        if files.exists(address):
            return [pattern]
        found = sorted(
            files.unstrip_protocol(each) for each in files.glob(address) if files.isfile(each)
        )
    if not found:
        raise InputError(f"{called}: matches no file. Check the pattern.")
    return found


def download(name: str, file: IO[bytes]) -> None:
    """Copy the file at an address into ``file``.

    Raises:
        RemoteError: it cannot be read.
    """
    # One request for a web address: asked for the size first, a server may refuse a signature, or hide its errors.
    how = {"block_size": 0, "size": 1} if scheme_of(name) in _WEB else {"block_size": _BLOCK_BYTES}
    with _file_system(name) as (files, address), files.open(address, "rb", **how) as there:
        while chunk := there.read(_CHUNK_BYTES):
            file.write(chunk)


@contextmanager
def _file_system(name: str) -> Iterator[tuple[Any, str]]:
    """Yield the file system of an address, and the address as that file system takes it.

    Errors of the libraries and the network become a RemoteError without their messages, which may hold a signature.
    """
    scheme = scheme_of(name)
    try:
        import fsspec

        files = fsspec.filesystem(scheme, use_listings_cache=False, **_web_options(scheme))
        # the libraries know schemes in small letters only
        yield (files, scheme + name[len(scheme) :])
    except InputError:
        raise
    except Exception as error:  # noqa: BLE001  # botocore, aiohttp and google.auth have no class in common
        raise RemoteError(*_reason(error, name)) from None


def _web_options(scheme: str) -> dict[str, Any]:
    """Return the options for web addresses: waiting is bounded, and the file is what the server stores."""
    if scheme not in _WEB:
        return {}
    import aiohttp

    # No decompression: it would give another file than the name says, of any size.
    return {
        "skip_instance_cache": True,
        "client_kwargs": {
            "timeout": aiohttp.ClientTimeout(total=None, sock_connect=_WAIT_S, sock_read=_WAIT_S),
            "headers": {"Accept-Encoding": "identity"},
            "auto_decompress": False,
            "trust_env": True,
        },
    }


def _reason(error: Exception, name: str) -> tuple[str, str]:
    kinds = {each.__name__ for each in type(error).__mro__}
    if isinstance(error, ImportError):
        library = LIBRARIES[scheme_of(name)]
        return f"needs {library}, which is not installed", f"Install it: {install('remote')}"
    if isinstance(error, FileNotFoundError):
        return "there is no such file", "Check the address"
    status = next(
        (getattr(error, each) for each in ("status", "code") if hasattr(error, each)), None
    )
    if kinds & _REFUSED or status in {401, 403}:
        return (
            "access is refused",
            "robin uses the credentials of your other tools (AWS_PROFILE, gcloud, ~/.netrc); check them",
        )
    if isinstance(status, int):
        return f"the server answers with HTTP {status}", "Check the address, or try again later"
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return (
            "there is no space left for a copy of it",
            "Free some, or set TMPDIR to a larger disk",
        )
    return (
        f"it cannot be reached or read ({type(error).__name__})",
        "Check the address and the network",
    )
