"""Requests to an OpenAI-compatible endpoint. Only this file uses openai and its HTTP libraries.

The openai SDK settles the address and the headers, its HTTP library the certificates; requests go out on a session of aiohttp.
Building each request in the SDK costs more than sending it (docs/evidence/performance.md), and the SDK's retries and error
classes are not needed: robin, which knows the budget, has its own.
"""

from __future__ import annotations

import asyncio
import errno
import os
import ssl
import time
from collections.abc import AsyncIterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import IO
from urllib.request import getproxies, proxy_bypass

import aiohttp
import httpx2
from openai import AsyncOpenAI

from robin_cli.judges.bodies import Body, TooLong, Turns, Unreadable, beginning, decoded
from robin_cli.judges.judge import Options
from robin_cli.judges.redaction import Redactor, WithoutKey
from robin_cli.judges.replies import Stop
from robin_cli.model.errors import EndpointError
from robin_cli.settings.trust import is_loopback

_CONNECT_TIMEOUT_S = 10.0
_READ_AT_ONCE = 16
"""Answers that are read in one turn of the event loop."""

_KEPT_S = 5.0
"""How long an idle connection stays open; many servers close theirs after as long."""

_HANDSHAKE_S = 3.0
"""The longest time to connect by TLS at first: a server that does not speak TLS may never answer its first message."""
_ACCEPT_S = 1.0

_MOST_REDIRECTS = 3
_LOST = frozenset({errno.ECONNRESET, errno.EPIPE})
_PLAIN = _LOST | {
    errno.ECONNREFUSED,
    errno.EHOSTUNREACH,
    errno.EMFILE,
    errno.ENETUNREACH,
    errno.ETIMEDOUT,
}
"""Errors of the system whose messages suffice. (TLS errors use other numbers of the same type.)"""

_CHAT, _DECISIONS = "chat/completions", "decisions"
_OPENAI_HOST = "api.openai.com"
_ERROR_BYTES = 64 * 1024
"""The most that is read of an error's body."""

_HEADER_BYTES = 64 * 1024
"""The longest header that is read."""

_SLOWEST = 10_000.0
"""The lowest rate for a file, in bytes per second; slower transfers time out."""

_HUNG_UP = _LOST | {errno.ECONNABORTED, errno.ENOTCONN, errno.ESHUTDOWN}


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint(Options):
    """The address of a judge, and the options of its requests.

    Attributes:
        api_key: sent as a bearer token, to this address only; never part of a repr.
        raises: raise the limit on answers, once, if they are cut off before their text.
        bounded: answers must have a limit, because money is limited.
        logprobs: ask for log probabilities.
        tries_logprobs: the number of requests that ask for them only to see whether they come.
        decisions: ask for decisions in place of chat completions.
    """

    base_url: str
    api_key: str = field(repr=False)
    raises: bool = True
    bounded: bool = False
    logprobs: bool = False
    tries_logprobs: int = 0
    decisions: bool = False


class Unreachable(Exception):
    """No answer came: the connection failed or broke, or the request timed out (``timed_out``).

    ``sent``: the endpoint may have received the request; False if there never was a connection.
    """

    def __init__(self, why: str, *, timed_out: bool, sent: bool) -> None:
        super().__init__(why)
        self.timed_out = timed_out
        self.sent = sent


@dataclass(frozen=True, slots=True)
class Response:
    """A response of any status. The body of an error is only its beginning.

    Attributes:
        headers: without the key; names are in lower case.
        body: may hold the key; :meth:`plain` takes it out.
        encoding: the compression of the body; "" for none.
        turn: held for a large body, until :meth:`done`.
    """

    status: int
    headers: Mapping[str, str]
    body: Body
    redactor: Redactor
    encoding: str = ""
    turn: Turns | None = None

    @property
    def is_good(self) -> bool:
        """Whether the status is a success."""
        return 200 <= self.status < 300

    def plain(self) -> Body:
        """Return the decompressed body without the key, in any form of it.

        Raises:
            TooLong, Unreadable: as :func:`robin_cli.judges.bodies.decoded`. An error's body is then b"": its status suffices.
        """
        try:
            return self.redactor.body(decoded(self.body, self.encoding))
        except (TooLong, Unreadable):
            if self.is_good:
                raise
            return b""

    def done(self) -> None:
        """Release the body, so that another large one may come."""
        if self.turn is not None:
            self.turn.end()


@dataclass(frozen=True, slots=True)
class Request:
    """A request to ``path`` below the base URL.

    Attributes:
        file: sent as a form instead of ``body``; it is read from disk as it is sent.
        to: a file for the body of a good answer, of at most ``most`` bytes.
        again: the request may be sent twice if the first may have been received.
    """

    method: str
    path: str
    body: bytes = b""
    file: Path | None = None
    to: IO[bytes] | None = None
    most: int = 0
    again: bool = False


@cache
def _certificates() -> ssl.SSLContext:
    """Load the certificate authorities of this machine, once for all endpoints: it takes as long as twenty calls.

    Raises:
        EndpointError: a variable names a file or folder that cannot be read.
    """
    try:
        return httpx2.create_ssl_context()
    except OSError as error:
        named = next(
            (name for name in ("SSL_CERT_FILE", "SSL_CERT_DIR") if name in os.environ), "TLS"
        )
        raise EndpointError(
            f"{named}: its certificates cannot be read ({error.strerror or error}); name a file of "
            "certificates, or unset it"
        ) from None


def _proxies() -> str:
    """Return the names of the variables that set a proxy."""
    names = [f"{scheme}_PROXY" for scheme in ("HTTP", "HTTPS", "ALL")]
    return ", ".join(
        name for each in names for name in (each, each.lower()) if os.environ.get(name)
    )


def _proxy_for(address: httpx2.URL) -> str | None:
    """Return the address of the proxy for requests to ``address``, as the environment names it.

    Raises:
        EndpointError: it is not one of HTTP.
    """
    if is_loopback(address.host) or proxy_bypass(address.netloc.decode()):
        return None
    proxies = getproxies()
    if not (named := proxies.get(address.scheme) or proxies.get("all")):
        return None
    with suppress(httpx2.InvalidURL):
        proxy = httpx2.URL(named if "://" in named else f"http://{named}")
        if proxy.scheme in {"http", "https"} and proxy.host:
            return str(proxy)
    raise EndpointError(
        f"{_proxies()}: not a proxy that robin can use; name one as http://host:port, or unset it"
    )


class Transport:
    """The connections to one endpoint."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self.redactor = Redactor(endpoint.api_key)
        self._large, self._few = Turns(), asyncio.Semaphore(_READ_AT_ONCE)
        self._kept_open = 0  # at most so many idle connections may be reused
        self._reached = False
        # It never sends: robin only takes its settings.
        unused = httpx2.AsyncClient(transport=httpx2.AsyncBaseTransport(), trust_env=False)
        client = AsyncOpenAI(
            base_url=endpoint.base_url, api_key=endpoint.api_key, http_client=unused
        )
        if client.base_url.host != _OPENAI_HOST:
            # The SDK would send OPENAI_ORG_ID and OPENAI_PROJECT_ID to any address.
            client.organization = client.project = None
        self._base_url, self._path = client.base_url, _DECISIONS if endpoint.decisions else _CHAT
        self._asked_url = client.base_url.join(self._path)
        headers = httpx2.Headers(
            {name: text for name, text in client.default_headers.items() if isinstance(text, str)}
        )
        headers["Accept-Encoding"] = "identity"  # compressed text may expand a thousandfold
        headers["Authorization"] = f"Bearer {endpoint.api_key}"
        self._headers = dict(headers)
        self._proxy = _proxy_for(client.base_url)
        is_tls = client.base_url.scheme == "https"
        self._is_direct_tls = is_tls and not self._proxy
        self._tls = _certificates() if is_tls or self._proxy else True
        self._session: aiohttp.ClientSession | None = None

    async def post(self, body: bytes) -> Response:
        """Send ``body`` to the endpoint's path for questions, also to another path of that host. Raises as :meth:`send`."""
        request = Request("POST", self._path, body, again=True)
        for _ in range(_MOST_REDIRECTS):
            response = await self.send(request)
            if response.status not in {307, 308} or not self._follow(response):
                return response
        return await self.send(request)

    def _follow(self, redirect: Response) -> bool:
        """Send requests to the address of a redirect from now on, if it is at the same host; return whether it is."""
        before = self._asked_url
        with suppress(httpx2.InvalidURL):
            target = before.join(redirect.headers.get("location", ""))
            if (target.scheme, target.netloc) == (before.scheme, before.netloc):
                self._asked_url = target
        return self._asked_url is not before

    async def send(self, request: Request) -> Response:
        """Send a request.

        The endpoint may close an idle connection just as a request is sent on it. Then a request that may be sent ``again`` is
        sent once more at once.

        Raises:
            Unreachable: there is no answer, or only a part of one.
            TooLong: the answer is longer than the limit.
            OSError: a file cannot be read or written.
        """
        with nullcontext() if request.file is None else request.file.open("rb") as file:
            return await self._answer(request, file)

    def redacted(self, text: str) -> str:
        """Return the beginning of an endpoint's error, without the key."""
        return self.redactor.error(text)[:500]

    def ended(self, stop: Stop) -> EndpointError:
        """Return the error for a problem of every request to this endpoint."""
        unkeyed = stop.unkeyed if self._endpoint.api_key == "none" else ""
        return EndpointError(f"{self._endpoint.base_url}: {self.redacted(unkeyed or stop.detail)}")

    async def aclose(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    async def _answer(self, call: Request, file: IO[bytes] | None) -> Response:
        most_s: float | None = self._endpoint.timeout_s
        if call.to is not None:
            most_s = None  # _write_all limits the time
        elif file is not None:
            most_s = self._endpoint.timeout_s + os.fstat(file.fileno()).st_size / _SLOWEST
        try:
            async with asyncio.timeout(most_s):
                return await self._exchange(call, file)
        except TooLong:
            raise
        except _Unwritable as error:
            raise error.cause from None
        except Exception as error:  # whatever a lower layer raises, there is no answer
            timed_out = isinstance(error, TimeoutError) and not _never_connected(error)
            within = f"no answer within {self._endpoint.timeout_s:g} s (--timeout)"
            why = within if timed_out else f"no connection ({_why(error)})"
            if not self._reached and (fault := await self._explain_tls(error)):
                raise EndpointError(
                    f"{self._endpoint.base_url}: {fault} ({_why(error)})"
                ) from error
            if self._proxy and _never_connected(error):
                why += f"; {_proxies()} may send it to a proxy"
            raise Unreachable(why, timed_out=timed_out, sent=not _never_connected(error)) from error

    async def _explain_tls(self, error: Exception) -> str:
        """Return what is wrong with an endpoint's encryption, and the next step; "" if that is not the reason."""
        text = str(error)
        if "CERTIFICATE_VERIFY_FAILED" in text:
            return "its certificate is not trusted; name your own authority's file in SSL_CERT_FILE"
        is_late = self._is_direct_tls and isinstance(error, aiohttp.ConnectionTimeoutError)
        if (is_late and await self._accepts_connections()) or "WRONG_VERSION_NUMBER" in text:
            return "it does not speak https; write http:// in --base-url"
        return ""

    async def _accepts_connections(self) -> bool:
        """Return whether the endpoint can be connected to without TLS."""
        address = self._base_url.host, self._base_url.port or 443
        with suppress(OSError):  # TimeoutError is one
            async with asyncio.timeout(_ACCEPT_S):
                (await asyncio.open_connection(*address))[1].close()
                return True
        return False

    async def _exchange(self, call: Request, file: IO[bytes] | None) -> Response:
        reuses = self._kept_open > 0
        self._kept_open -= reuses
        try:
            return await self._send(call, file)
        except (aiohttp.ClientError, OSError) as error:
            if not (reuses and call.again and _hung_up(error)):
                raise
            return await self._send(call, file)

    async def _send(self, call: Request, file: IO[bytes] | None) -> Response:
        if self._session is None:
            self._session = self._open_session()
        waits = not self._reached and self._is_direct_tls
        url, headers, form = self._url(call), self._headers, None
        if call.file is not None:
            headers = {name: text for name, text in headers.items() if name != "content-type"}
            form = aiohttp.FormData({"purpose": "batch"})
            form.add_field("file", file, filename=call.file.name, content_type="application/jsonl")
        async with self._session.request(
            call.method,
            str(url),
            data=form or call.body or None,
            headers=headers,
            allow_redirects=False,  # a redirect to another host must not get the key
            proxy=self._proxy,
            timeout=aiohttp.ClientTimeout(
                sock_connect=_HANDSHAKE_S if waits else _CONNECT_TIMEOUT_S,
                sock_read=self._endpoint.timeout_s,
            ),
        ) as response:
            # If all that came together were read at once, the calls that follow would be sent, and answered, together again.
            await self._few.acquire()
            asyncio.get_running_loop().call_soon(self._few.release)
            return await self._read(call, url, response)

    async def _read(
        self, call: Request, url: httpx2.URL, response: aiohttp.ClientResponse
    ) -> Response:
        """Read a response; no more of its body than is allowed."""
        headers = {
            name.decode("latin-1").lower(): value.decode("latin-1")
            for name, value in response.raw_headers
        }
        if self.redactor.is_in("\0".join(headers.values())):
            headers = {name: self.redactor.text(value) for name, value in headers.items()}
        with suppress(KeyError, httpx2.InvalidURL):  # the whole address, as a user would give it
            headers["location"] = str(url.join(headers["location"]))
        held, pieces, content = False, response.content.iter_any(), bytearray()
        if not 200 <= response.status < 300:
            content = await beginning(pieces, _ERROR_BYTES)
        elif call.to is not None:
            out = WithoutKey(call.to, self.redactor)
            await _write_all(pieces, out, call.most, self._endpoint.timeout_s)
        else:
            content, held = await self._large.read(pieces)
        self._reached = True
        self._kept_open += headers.get("connection", "").lower() != "close"
        encoding, turn = headers.get("content-encoding", ""), self._large if held else None
        return Response(response.status, headers, content, self.redactor, encoding, turn)

    def _open_session(self) -> aiohttp.ClientSession:
        """Open the session, within the event loop; without cookies: an endpoint could fill the memory with them."""
        most = self._endpoint.at_a_time + 1  # one for the list of models; the default would be 100
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=most, keepalive_timeout=_KEPT_S, ssl=self._tls),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            max_line_size=_HEADER_BYTES,
            max_field_size=_HEADER_BYTES,
        )

    def _url(self, call: Request) -> httpx2.URL:
        return self._asked_url if call.path == self._path else self._base_url.join(call.path)


class _Unwritable(Exception):
    """The disk refused the answer; wrapped, so that it is not taken for a connection's error."""

    def __init__(self, cause: OSError) -> None:
        super().__init__(str(cause))
        self.cause = cause


async def _write_all(
    pieces: AsyncIterable[bytes], to: WithoutKey, most: int, patience_s: float
) -> None:
    started, written = time.monotonic(), 0
    async for piece in pieces:
        written += len(piece)
        if written > most:
            raise TooLong(f"a file of more than {most:,} bytes")
        if time.monotonic() - started > patience_s + written / _SLOWEST:
            raise TimeoutError(f"slower than {_SLOWEST:,.0f} bytes a second")
        with _writing():
            to.write(piece)
    with _writing():
        to.flush()


@contextmanager
def _writing() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _Unwritable(error) from error


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and its causes."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _never_connected(error: Exception) -> bool:
    """Return whether there was no connection for the request."""
    unconnected = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
    return any(isinstance(each, unconnected) for each in _causes(error))


def _hung_up(error: Exception) -> bool:
    """Return whether the endpoint closed the connection before it answered a byte."""
    if isinstance(error, aiohttp.ClientConnectorError):
        return False
    hung_up = aiohttp.ServerDisconnectedError | ConnectionError
    return isinstance(error, hung_up) or (isinstance(error, OSError) and error.errno in _HUNG_UP)


def _why(error: Exception) -> str:
    """Return the reason of an error: the system's message, such as "Connection refused", or else the error's own."""
    for cause in _causes(error):
        if isinstance(cause, OSError) and cause.errno in _PLAIN:
            return os.strerror(cause.errno)
    return str(error).replace(" ssl:default", "") or type(error).__name__
