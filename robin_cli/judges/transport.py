"""Requests to an OpenAI-compatible endpoint on one session of aiohttp; ``sdk.py`` has its address, headers and certificates."""

from __future__ import annotations

import asyncio
import errno
import os
import time
from collections.abc import AsyncIterable, Iterator, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import aiohttp
from yarl import URL

from robin_cli.judges import sdk
from robin_cli.judges.bodies import Body, TooLong, Turns, Unreadable, beginning, decoded
from robin_cli.judges.judge import Options
from robin_cli.judges.problems import Stop
from robin_cli.judges.redaction import Redactor, WithoutKey
from robin_cli.model.errors import EndpointError

_CONNECT_TIMEOUT_S = 10.0
_READ_AT_ONCE = 16
"""Answers that are read in one turn of the event loop."""

_KEPT_S = 5.0
"""How long an idle connection stays open; many servers close theirs after as long."""

_HANDSHAKE_S = 3.0
"""The longest time to connect by TLS at first: a server that does not speak TLS may never answer its first message."""
_ACCEPT_S = 1.0

_MOST_REDIRECTS = 3
_CHAT, _DECISIONS = "chat/completions", "decisions"
_ERROR_BYTES = 64 * 1024
"""The most that is read of an error's body."""

_HEADER_BYTES = 64 * 1024
"""The longest header that is read."""

_SLOWEST = 10_000.0
"""The lowest rate for a file, in bytes per second; slower transfers time out."""

_HUNG_UP = (errno.ECONNRESET, errno.EPIPE, errno.ECONNABORTED, errno.ENOTCONN, errno.ESHUTDOWN)
_UNREACHED = (errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ETIMEDOUT)
_PLAIN = (*_HUNG_UP[:2], *_UNREACHED, errno.EMFILE)
"""Errors of the system whose messages suffice. (TLS errors use other numbers of the same type.)"""

RAISED = 4
"""The factor by which the limit on answers is raised, once one was cut off before its text."""


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


class Transport:
    """The connections to one endpoint."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self.redactor = Redactor(endpoint.api_key)
        self._base_url, self._headers = sdk.address_and_headers(endpoint.base_url, endpoint.api_key)
        self._path = _DECISIONS if endpoint.decisions else _CHAT
        self._asked_url = self._url(self._path)
        self._proxy = sdk.proxy_for(self._base_url)
        is_tls = self._base_url.scheme == "https"
        self._is_direct_tls = is_tls and not self._proxy
        self._tls = sdk.certificates() if is_tls or self._proxy else True
        self._large, self._few = Turns(), asyncio.Semaphore(_READ_AT_ONCE)
        self._kept_open = 0  # at most so many idle connections may be reused
        self._reached = False
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
        with suppress(ValueError):
            target = URL(redirect.headers.get("location", ""))
            if (target.scheme, target.authority) == (before.scheme, before.authority):
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
        most_s: float | None = self._endpoint.timeout_s
        if request.to is not None:
            most_s = None  # _write_all limits the time
        with nullcontext() if request.file is None else request.file.open("rb") as file:
            if file is not None:
                most_s = self._endpoint.timeout_s + os.fstat(file.fileno()).st_size / _SLOWEST
            try:
                async with asyncio.timeout(most_s):
                    return await self._exchange(request, file)
            except TooLong:
                raise
            except _Unwritable as error:
                raise error.cause from None
            except Exception as error:  # whatever a lower layer raises, there is no answer
                raise await self._unreachable(error) from error

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

    async def _exchange(self, request: Request, file: IO[bytes] | None) -> Response:
        reuses = self._kept_open > 0
        self._kept_open -= reuses
        try:
            return await self._send(request, file)
        except (aiohttp.ClientError, OSError) as error:
            if not (reuses and request.again and _hung_up(error)):
                raise
            return await self._send(request, file)

    async def _send(self, request: Request, file: IO[bytes] | None) -> Response:
        if self._session is None:
            self._session = self._open_session()
        waits = not self._reached and self._is_direct_tls
        headers, form = self._headers, None
        if request.file is not None:
            headers = {
                name: text for name, text in headers.items() if name.lower() != "content-type"
            }
            form = aiohttp.FormData({"purpose": "batch"})
            form.add_field(
                "file", file, filename=request.file.name, content_type="application/jsonl"
            )
        is_question = request.path == self._path
        async with self._session.request(
            request.method,
            self._asked_url if is_question else self._url(request.path),
            data=form or request.body or None,
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
            return await self._read(request, response)

    async def _read(self, request: Request, response: aiohttp.ClientResponse) -> Response:
        """Read a response; no more of its body than is allowed."""
        headers = {
            name.decode("latin-1").lower(): self.redactor.text(value.decode("latin-1"))
            for name, value in response.raw_headers
        }
        with suppress(KeyError, ValueError):  # the whole address, as a user would give it
            headers["location"] = str(response.url.join(URL(headers["location"])))
        held, pieces, content = False, response.content.iter_any(), bytearray()
        if not 200 <= response.status < 300:
            content = await beginning(pieces, _ERROR_BYTES)
        elif request.to is not None:
            out = WithoutKey(request.to, self.redactor)
            await _write_all(pieces, out, request.most, self._endpoint.timeout_s)
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

    def _url(self, path: str) -> URL:
        return self._base_url.join(URL(path, encoded=True))

    async def _unreachable(self, error: Exception) -> Unreachable:
        """Return what ``error`` says about a request. EndpointError if the endpoint's encryption is at fault."""
        is_sent = not _never_connected(error)
        timed_out = isinstance(error, TimeoutError) and is_sent
        if not self._reached and (fault := await self._explain_tls(error)):
            raise EndpointError(f"{self._endpoint.base_url}: {fault} ({_why(error)})") from error
        why = f"no connection ({_why(error)})"
        if timed_out:
            why = f"no answer within {self._endpoint.timeout_s:g} s (--timeout)"
        if self._proxy and not is_sent:
            why += f"; {sdk.proxy_variables()} may send it to a proxy"
        return Unreachable(why, timed_out=timed_out, sent=is_sent)

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
        with suppress(OSError):  # TimeoutError is one
            async with asyncio.timeout(_ACCEPT_S):
                address = self._base_url.host, self._base_url.port
                (await asyncio.open_connection(*address))[1].close()
                return True
        return False


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
        try:
            to.write(piece)
        except OSError as error:
            raise _Unwritable(error) from error
    try:
        to.flush()
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
