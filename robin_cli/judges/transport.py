"""Requests to an OpenAI-compatible endpoint on one session of aiohttp; ``sdk.py`` has its address, headers and certificates."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from yarl import URL

from robin_cli.judges import sdk
from robin_cli.judges.bodies import MOST_LARGE, Body, Unreadable, beginning, decoded, read_body
from robin_cli.judges.judge import Options
from robin_cli.judges.problems import Fatal
from robin_cli.judges.redaction import Redactor
from robin_cli.model.errors import EndpointError

_CONNECT_TIMEOUT_S = 10.0
_READ_AT_ONCE = 16
"""Answers that are read in one turn of the event loop."""

_KEPT_S = 5.0
"""How long an idle connection stays open; many servers close theirs after as long."""

_MOST_REDIRECTS = 3
_ERROR_BYTES = _HEADER_BYTES = 64 * 1024
"""The most that is read of an error's body, and of a header."""

_HUNG_UP = (errno.ECONNRESET, errno.EPIPE, errno.ECONNABORTED, errno.ENOTCONN, errno.ESHUTDOWN)
_UNREACHED = (errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ETIMEDOUT)
_PLAIN = (*_HUNG_UP[:2], *_UNREACHED, errno.EMFILE)
"""Errors of the system whose messages suffice. (TLS errors use other numbers of the same type.)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint(Options):
    """The address of a judge, and the options of its requests.

    Attributes:
        api_key: sent as a bearer token, to this address only; never part of a repr.
        raises: raise the limit on answers, once, if they are cut off before their text.
        bounded: answers must have a limit, because money is limited.
        logprobs: ask for log probabilities.
        decisions: ask for decisions in place of chat completions.
    """

    base_url: str
    api_key: str = field(repr=False)
    raises: bool = True
    bounded: bool = False
    logprobs: bool = False
    decisions: bool = False


class Unreachable(Exception):
    """No answer came: the connection failed or broke, or the request timed out (``timed_out``).

    ``sent``: the endpoint may have received the request; False if there never was a connection.
    """

    def __init__(self, why: str, *, timed_out: bool, sent: bool) -> None:
        super().__init__(why)
        self.timed_out, self.sent = timed_out, sent


@dataclass(frozen=True, slots=True)
class Response:
    """A response of any status, decompressed and without the key; ``headers`` have names in lower case.

    The body of an error is only its beginning, or b"" if it cannot be decompressed: its status suffices.
    """

    status: int
    headers: Mapping[str, str]
    body: Body

    @property
    def is_good(self) -> bool:
        return 200 <= self.status < 300


@dataclass(frozen=True, slots=True)
class Request:
    """A request to ``path`` below the base URL; ``again``: it may be sent twice if the first may have been received."""

    method: str
    path: str
    body: bytes = b""
    again: bool = False


class Transport:
    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self.redactor = Redactor(endpoint.api_key)
        self._base_url, self._headers = sdk.address_and_headers(endpoint.base_url, endpoint.api_key)
        self._path = "decisions" if endpoint.decisions else "chat/completions"
        self._asked_url = self._base_url.join(URL(self._path))
        self._proxy = sdk.proxy_for(self._base_url)
        uses_tls = self._base_url.scheme == "https" or self._proxy
        self._tls = sdk.certificates() if uses_tls else True
        self._large, self._few = asyncio.Semaphore(MOST_LARGE), asyncio.Semaphore(_READ_AT_ONCE)
        self._kept_open = 0  # at most so many idle connections may be reused
        self._reached = False
        self._session: aiohttp.ClientSession | None = None

    async def post(self, body: bytes) -> Response:
        """Send ``body`` to the endpoint's path for questions, also to another path of that host. Raises as :meth:`send`."""
        request = Request("POST", self._path, body, again=True)
        response = await self.send(request)
        for _ in range(_MOST_REDIRECTS):
            if response.status not in {307, 308}:
                break
            asked, target = self._asked_url, URL()
            with suppress(ValueError):
                target = URL(response.headers.get("location", ""))
            if (target.scheme, target.authority) != (asked.scheme, asked.authority):
                break
            self._asked_url = target  # of all requests from now on
            response = await self.send(request)
        return response

    async def send(self, request: Request) -> Response:
        """Send a request.

        The endpoint may close an idle connection just as a request is sent on it. Then a request that may be sent ``again`` is
        sent once more at once.

        Raises:
            Unreachable: there is no answer, or only a part of one.
            Unreadable: the answer is too long, or compressed in an unknown way.
        """
        reuses = self._kept_open > 0
        self._kept_open -= reuses
        try:
            async with asyncio.timeout(self._limit_s(request)):
                try:
                    return await self._exchange(request)
                except (aiohttp.ClientError, OSError) as error:
                    if not (reuses and request.again and _hung_up(error)):
                        raise
                    return await self._exchange(request)
        except Unreadable:
            raise
        except Exception as error:  # whatever a lower layer raises, there is no answer
            raise self._unreachable(error) from error

    def redacted(self, text: str) -> str:
        """Return the beginning of an endpoint's error, without the key."""
        return self.redactor.error(text)[:500]

    def ended(self, problem: Fatal) -> EndpointError:
        """Return the error for a problem of every request to this endpoint."""
        unkeyed = problem.unkeyed if self._endpoint.api_key == "none" else ""
        return EndpointError(
            f"{self._endpoint.base_url}: {self.redacted(unkeyed or problem.detail)}"
        )

    async def aclose(self) -> None:
        if self._session is not None:
            await self._session.close()

    # ── what requests with files do in another way ────────────────────────────────────────────────

    def _limit_s(self, request: Request) -> float | None:  # noqa: ARG002
        """Return the seconds that a request may take; None if its reading is limited."""
        return self._endpoint.timeout_s

    def _content(self, request: Request) -> tuple[Any, dict[str, str]]:
        return request.body or None, self._headers

    async def _read_body(self, request: Request, response: aiohttp.ClientResponse) -> bytearray:  # noqa: ARG002
        return await read_body(response.content.iter_any(), self._large)

    # ── one exchange ──────────────────────────────────────────────────────────────────────────────

    async def _exchange(self, request: Request) -> Response:
        self._session = self._session or self._open_session()
        data, headers = self._content(request)
        is_question = request.path == self._path
        path = URL(request.path, encoded=True)
        async with self._session.request(
            request.method,
            self._asked_url if is_question else self._base_url.join(path),
            data=data,
            headers=headers,
            allow_redirects=False,  # a redirect to another host must not get the key
            proxy=self._proxy,
        ) as response:
            # If all that came together were read at once, the calls that follow would be sent, and answered, together again.
            await self._few.acquire()
            asyncio.get_running_loop().call_soon(self._few.release)
            return await self._read(request, response)

    async def _read(self, request: Request, response: aiohttp.ClientResponse) -> Response:
        """Read a response; no more of its body than is allowed."""
        headers = {
            name.decode("latin-1").lower(): value.decode("latin-1")
            for name, value in response.raw_headers
        }
        together = "\0".join(headers.values())
        if self.redactor.text(together) != together:  # hardly ever
            headers = {name: self.redactor.text(value) for name, value in headers.items()}
        with suppress(KeyError, ValueError):  # the whole address, as a user would give it
            headers["location"] = str(response.url.join(URL(headers["location"])))
        is_good, body = 200 <= response.status < 300, bytearray()
        if is_good:
            body = await self._read_body(request, response)
        else:
            body = await beginning(response.content.iter_any(), _ERROR_BYTES)
        self._reached = True
        self._kept_open += headers.get("connection", "").lower() != "close"
        try:
            plain = decoded(body, headers.get("content-encoding", ""))
        except Unreadable:
            if is_good:
                raise
            plain = b""
        return Response(response.status, headers, self.redactor.body(plain))

    def _open_session(self) -> aiohttp.ClientSession:
        """Open the session, within the event loop; without cookies: an endpoint could fill the memory with them."""
        most = self._endpoint.at_a_time + 1  # one for the list of models; the default would be 100
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=most, keepalive_timeout=_KEPT_S, ssl=self._tls),
            timeout=aiohttp.ClientTimeout(
                sock_connect=_CONNECT_TIMEOUT_S, sock_read=self._endpoint.timeout_s
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            max_line_size=_HEADER_BYTES,
            max_field_size=_HEADER_BYTES,
        )

    def _unreachable(self, error: Exception) -> Unreachable:
        """Return what ``error`` says about a request. EndpointError if the endpoint's encryption is at fault."""
        causes, fault, hint = list(_causes(error)), "", ""
        codes = [cause.errno for cause in causes if isinstance(cause, OSError)]
        plain = [os.strerror(code) for code in codes if code in _PLAIN]
        why = plain[0] if plain else str(error).replace(" ssl:default", "") or type(error).__name__
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            fault = (
                "its certificate is not trusted; name your own authority's file in SSL_CERT_FILE"
            )
        elif "WRONG_VERSION_NUMBER" in str(error):
            fault = "it does not speak https; write http:// in --base-url"
        if fault and not self._reached:
            raise EndpointError(f"{self._endpoint.base_url}: {fault} ({why})") from error
        unconnected = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
        is_sent = not any(isinstance(cause, unconnected) for cause in causes)
        if is_sent and isinstance(error, TimeoutError):
            within = f"no answer within {self._endpoint.timeout_s:g} s (--timeout)"
            return Unreachable(within, timed_out=True, sent=True)
        if self._proxy and not is_sent:
            hint = f"; {sdk.proxy_variables()} may send it to a proxy"
        elif isinstance(error, TimeoutError) and self._base_url.scheme == "https":
            hint = "; does it speak https? If not, write http:// in --base-url"
        return Unreachable(f"no connection ({why}){hint}", timed_out=False, sent=is_sent)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _hung_up(error: Exception) -> bool:
    """Return whether the endpoint closed the connection before it answered a byte."""
    if isinstance(error, aiohttp.ClientConnectorError):
        return False
    hung_up = aiohttp.ServerDisconnectedError | ConnectionError
    return isinstance(error, hung_up) or (isinstance(error, OSError) and error.errno in _HUNG_UP)
