"""Files at addresses: s3://, gs://, https://. Only this file uses fsspec.

Reading and writing go through a whole copy on this machine: so the data are one state of the file, and an output appears only
when it is complete. Credentials come from the user's other tools (AWS_PROFILE, gcloud, ~/.netrc): an address with credentials
is refused, and robin never shows or writes the query of a signed address.
"""

from __future__ import annotations

import asyncio
import errno
import glob
import ipaddress
import re
import socket
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import SplitResult, urljoin, urlsplit

from robin_cli.files.local import temporary_folder
from robin_cli.model.errors import InputError, shown
from robin_cli.model.plugins import install

if TYPE_CHECKING:
    from collections.abc import Iterator

LIBRARIES = {
    "s3": "s3fs",
    "gs": "gcsfs",
    "gcs": "gcsfs",
    "https": "fsspec",
    "http": "fsspec",
}
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
    """A file at an address cannot be read or written: ``strerror`` is the fact, ``step`` the next step."""

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
    with _there(pattern) as (files, address):
        if files.exists(address):
            return [pattern]
        found = sorted(
            files.unstrip_protocol(each) for each in files.glob(address) if files.isfile(each)
        )
    if not found:
        raise InputError(f"{called}: matches no file. Check the pattern.")
    return found


def download(name: str, file: IO[bytes], most: int) -> list[str] | None:
    """Copy the file at an address into ``file``.

    Returns:
        Lines for the user about redirects; None if the file has more than ``most`` bytes.

    Raises:
        RemoteError: it cannot be read, or redirects where it may not, see :func:`check_redirect`.
    """
    notes: list[str] = []
    # One request for a web address: asked for the size first, a server may refuse a signature, or hide its errors.
    how = {"block_size": 0, "size": 1} if scheme_of(name) in _WEB else {"block_size": _BLOCK_BYTES}
    with _there(name, notes) as (files, address), files.open(address, "rb", **how) as there:
        while chunk := there.read(_CHUNK_BYTES):
            file.write(chunk)
            if file.tell() > most:
                return None
    return notes


async def check_redirect(before: str, after: str) -> str | None:
    """Check a redirect from one absolute address to another before it is followed.

    It may stay on its host, also from http to https, or lead over https to another host, such as a hub's file storage.

    Returns:
        A line for the user; None if it stays on its host.

    Raises:
        RemoteError: it leads to another host by http, from https to http, or from the internet into a private network.
    """
    here, there = urlsplit(before), urlsplit(after)
    public = there._replace(
        netloc=there.netloc.rpartition("@")[2], query="…" if there.query else "", fragment=""
    )
    name = shown(public.geturl(), 200)
    step = "If you trust that address, name it instead"
    is_upgrade = (here.scheme, there.scheme) == ("http", "https")
    if here.hostname == there.hostname and (
        is_upgrade or (here.scheme, here.port) == (there.scheme, there.port)
    ):
        return None
    if (here.scheme, there.scheme) == ("https", "http"):
        raise RemoteError(f"it leads to {name}, which is not encrypted", step)
    if here.scheme != "https" or there.scheme != "https":
        raise RemoteError(f"it leads from {here.netloc} to another host, {name}", step)
    if any(await _private(there)) and not all(await _private(here)):
        raise RemoteError(f"it leads from {here.netloc} into your own network, to {name}", step)
    return f"{here.netloc} redirected to another host. The data were read from {there.hostname}"


async def _private(url: SplitResult) -> list[bool]:
    """Return whether each address of a host is private; nothing if only a proxy can resolve the host."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(
            url.hostname, url.port, type=socket.SOCK_STREAM
        )
    except OSError:
        return []
    return [not ipaddress.ip_address(str(each[4][0]).partition("%")[0]).is_global for each in found]


@contextmanager
def upload(name: str) -> Iterator[IO[bytes]]:
    """Open a file that is put at an address once it is complete, or not at all. Raises RemoteError and InputError."""
    with temporary_folder() as folder:
        whole = folder / "whole"
        with whole.open("xb") as file:
            yield file
        with _there(name) as (files, address):
            files.put_file(str(whole), address)


def check_upload(name: str) -> None:
    """Raise the error that :func:`upload` would, as far as it is known without writing."""
    public_name(name)
    if scheme_of(name) in _WEB:
        raise RemoteError(
            "robin cannot write to web addresses", "Write to s3:// or gs://, or to a file"
        )
    if name.endswith("/"):
        raise RemoteError("it is a folder", "Name a file in it")
    with _there(name) as (files, address):
        bucket = address.split("/", 3)[2]
        try:
            there = files.exists(address) or files.exists(bucket)
        except PermissionError:
            return
        if not there:
            raise RemoteError(f"there is no bucket {bucket}", "Make it, or name another")


def exists(name: str) -> bool:
    """Return whether there is a file at an address. Raises RemoteError."""
    with _there(name) as (files, address):
        return bool(files.exists(address))


def _filesystem(scheme: str, notes: list[str]) -> Any:
    """Return the file system of a scheme; ``notes`` gets lines about redirects."""
    import fsspec

    options: dict[str, Any] = {"use_listings_cache": False}
    if scheme in _WEB:
        import aiohttp

        async def look(
            _session: object, _context: object, asked: aiohttp.TraceRequestRedirectParams
        ) -> None:
            after = (
                asked.response.headers.get("Location") or asked.response.headers.get("URI") or ""
            )
            if note := await check_redirect(str(asked.url), urljoin(str(asked.url), after)):
                notes.append(note)

        redirects = aiohttp.TraceConfig()
        redirects.on_request_redirect.append(look)
        # No decompression: it would give another file than the name says, of any size.
        options["client_kwargs"] = {
            "timeout": aiohttp.ClientTimeout(total=None, sock_connect=_WAIT_S, sock_read=_WAIT_S),
            "headers": {"Accept-Encoding": "identity"},
            "auto_decompress": False,
            "trust_env": True,
            "trace_configs": [redirects],
        }
        options["skip_instance_cache"] = True  # its notes are about one file
    return fsspec.filesystem(scheme, **options)


@contextmanager
def _there(name: str, notes: list[str] | None = None) -> Iterator[tuple[Any, str]]:
    """Yield the file system of a file, and its address there; ``notes`` as for :func:`_filesystem`.

    Errors of the libraries and the network become a RemoteError without their messages, which may hold a signature.
    """
    scheme = scheme_of(name)
    try:
        # The libraries know schemes in small letters only.
        yield _filesystem(scheme, [] if notes is None else notes), scheme + name[len(scheme) :]
    except (InputError, RemoteError):
        raise
    except Exception as error:  # noqa: BLE001  # botocore, aiohttp and google.auth have no class in common
        raise RemoteError(*_reason(error, name)) from None


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
