"""Requests to an OpenAI-compatible endpoint, by the openai SDK's client. Only this file uses openai and its HTTP libraries.

The SDK makes the client (key, headers, proxies, TLS); requests go directly to its HTTP client. Building each request in the SDK
costs more than sending it (docs/evidence/performance.md), and the SDK's retries and error classes are not needed: robin, which
knows the budget, has its own.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import ssl
import time
from collections.abc import AsyncIterable, Iterator, Mapping
from contextlib import aclosing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import IO, Any

import aiohttp
import httpx2
from openai import AsyncOpenAI, DefaultAioHttpClient

from robin_cli.judges.bodies import Body, TooLong, Turns, Unreadable, beginning, decoded
from robin_cli.judges.judge import Options
from robin_cli.judges.redaction import Redactor, WithoutKey
from robin_cli.judges.replies import Stop
from robin_cli.model.errors import EndpointError
from robin_cli.settings.trust import is_loopback

_CONNECT_TIMEOUT_S = 10.0
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


class _Client(DefaultAioHttpClient):
    """The SDK's HTTP client with aiohttp sessions without cookies: an endpoint could fill the memory with them."""

    def _init_transport(self, *args: Any, **named: Any) -> httpx2.AsyncBaseTransport:
        return _on_a_session_of_ours(super()._init_transport(*args, **named))

    def _init_proxy_transport(self, *args: Any, **named: Any) -> httpx2.AsyncBaseTransport:
        return _on_a_session_of_ours(super()._init_proxy_transport(*args, **named))


def _on_a_session_of_ours(transport: Any) -> httpx2.AsyncBaseTransport:
    limits = transport.limits

    def session() -> aiohttp.ClientSession:  # made within the event loop
        connector = aiohttp.TCPConnector(
            limit=limits.max_connections,
            keepalive_timeout=limits.keepalive_expiry,
            ssl=transport.ssl_context,
        )
        return aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            max_line_size=_HEADER_BYTES,
            max_field_size=_HEADER_BYTES,
        )

    transport.client = session
    made: httpx2.AsyncBaseTransport = transport
    return made


class Transport:
    """The connections to one endpoint."""

    def __init__(self, endpoint: Endpoint) -> None:
        for name in ("openai", "httpx2", "httpcore2"):  # at DEBUG they print addresses and headers
            logging.getLogger(name).setLevel(logging.WARNING)
        self._endpoint = endpoint
        self.redactor = Redactor(endpoint.api_key)
        self._large = Turns()
        self._kept_open = 0  # at most so many idle connections may be reused
        self._reached = False
        address = httpx2.URL(endpoint.base_url)
        is_here, is_tls = is_loopback(address.host), address.scheme == "https"
        self._proxies = "" if is_here else _proxies()
        self._is_direct_tls = is_tls and not self._proxies
        timeout = httpx2.Timeout(endpoint.timeout_s, connect=_CONNECT_TIMEOUT_S, pool=None)
        most = endpoint.at_a_time + 1  # one for the list of models; the default would be 100
        no_tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            self._http = _Client(
                trust_env=not is_here,  # this machine is reached without a proxy
                timeout=timeout,
                limits=httpx2.Limits(max_connections=most, max_keepalive_connections=most),
                verify=_certificates() if is_tls or not is_here else no_tls,
                follow_redirects=False,  # a redirect to another host must not get the key
            )
        except (ValueError, httpx2.InvalidURL, ImportError) as error:
            if not self._proxies:
                raise
            raise EndpointError(
                f"{self._proxies}: not a proxy that robin can use; name one as http://host:port, or unset it"
            ) from error
        self._client = client = AsyncOpenAI(
            base_url=endpoint.base_url,
            api_key=endpoint.api_key,
            max_retries=0,
            http_client=self._http,
        )
        self._base_url, self._path = client.base_url, _DECISIONS if endpoint.decisions else _CHAT
        self._asked_url = client.base_url.join(self._path)
        if client.base_url.host != _OPENAI_HOST:
            # The SDK would send OPENAI_ORG_ID and OPENAI_PROJECT_ID to any address.
            client.organization = client.project = None
        own = {
            "Accept-Encoding": "identity",  # compressed text may expand a thousandfold
            "Authorization": f"Bearer {endpoint.api_key}",
        }
        stated = {
            name: value for name, value in client.default_headers.items() if isinstance(value, str)
        }
        self._headers = httpx2.Headers(stated | own)
        self._timeouts = timeout.as_dict()

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
        await self._client.close()

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
            # The aiohttp transport raises ConnectTimeout for every failure to connect, also a refusal.
            timed_out = isinstance(error, httpx2.TimeoutException | TimeoutError)
            timed_out = timed_out and not isinstance(error, httpx2.ConnectTimeout)
            within = f"no answer within {self._endpoint.timeout_s:g} s (--timeout)"
            why = within if timed_out else f"no connection ({_why(error)})"
            if not self._reached and (fault := await self._explain_tls(error)):
                raise EndpointError(
                    f"{self._endpoint.base_url}: {fault} ({_why(error)})"
                ) from error
            if self._proxies and _never_connected(error):
                why += f"; {self._proxies} may send it to a proxy"
            raise Unreachable(why, timed_out=timed_out, sent=not _never_connected(error)) from error

    async def _explain_tls(self, error: Exception) -> str:
        """Return what is wrong with an endpoint's encryption, and the next step; "" if that is not the reason."""
        text = str(error)
        if "CERTIFICATE_VERIFY_FAILED" in text:
            return "its certificate is not trusted; name your own authority's file in SSL_CERT_FILE"
        is_late = self._is_direct_tls and isinstance(error, httpx2.ConnectTimeout)
        is_silent = is_late and "timeout" in text.lower() and await self._accepts_connections()
        if is_silent or "WRONG_VERSION_NUMBER" in text:
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
        except httpx2.TransportError as error:
            if not (reuses and call.again and _hung_up(error)):
                raise
            return await self._send(call, file)

    async def _send(self, call: Request, file: IO[bytes] | None) -> Response:
        headers: Any = self._headers
        what: dict[str, Any] = {"content": call.body}
        if call.file is not None:
            headers = {name: value for name, value in headers.items() if name != "content-type"}
            what = {
                "data": {"purpose": "batch"},
                "files": {"file": (call.file.name, file, "application/jsonl")},
            }
        waits = not self._reached and self._is_direct_tls
        timeouts = {**self._timeouts, **({"connect": _HANDSHAKE_S} if waits else {})}
        request = httpx2.Request(
            call.method,
            self._url(call),
            headers=headers,
            extensions={"timeout": timeouts},
            **what,
        )
        response = await self._http.send(request, stream=True)
        status, headers = response.status_code, response.headers
        if self.redactor.is_in(b"\0".join([value for _, value in headers.raw]).decode("latin-1")):
            headers = httpx2.Headers(
                [(name, self.redactor.text(value)) for name, value in headers.multi_items()]
            )
        if "set-cookie" in headers:
            self._http.cookies.clear()
        with suppress(KeyError, httpx2.InvalidURL):  # the whole address, as a user would give it
            headers["location"] = str(request.url.join(headers["location"]))
        held = False
        async with aclosing(response.aiter_raw()) as pieces:
            if not 200 <= status < 300:
                content = await beginning(pieces, _ERROR_BYTES)
            elif call.to is not None:
                content = bytearray()
                await _write_all(
                    pieces, WithoutKey(call.to, self.redactor), call.most, self._endpoint.timeout_s
                )
            else:
                content, held = await self._large.read(pieces)
        self._reached = True
        self._kept_open += headers.get("connection", "").lower() != "close"
        turn = self._large if held else None
        return Response(
            status, headers, content, self.redactor, headers.get("content-encoding", ""), turn
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
    cause = error.__cause__
    if isinstance(cause, aiohttp.ClientConnectorError | aiohttp.ServerDisconnectedError):
        return isinstance(cause, aiohttp.ServerDisconnectedError)
    return isinstance(cause, ConnectionError) or (
        isinstance(cause, aiohttp.ClientOSError) and cause.errno in _HUNG_UP
    )


def _why(error: Exception) -> str:
    """Return the reason of an error: the system's message, such as "Connection refused", or else the error's own."""
    for cause in _causes(error):
        if isinstance(cause, OSError) and cause.errno in _PLAIN:
            return os.strerror(cause.errno)
    return str(error).replace(" ssl:default", "") or type(error).__name__
