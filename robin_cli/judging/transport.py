"""One POST to an OpenAI-compatible endpoint, by the openai SDK's client. The only file that knows openai and httpx2.

The SDK makes the client (key, headers, proxies, TLS); the request itself goes to its HTTP client as it stands. Building
each request anew in the SDK costs more than sending it (docs/performance.md), and what the SDK would add, retries and errors
by class, is decided by robin, which knows the budget.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass

import httpx2
from openai import AsyncOpenAI, DefaultAioHttpClient

from robin_cli.judging.http_log import HttpLog

_CONNECT_TIMEOUT_S = 10.0
_OPENAI_HOST = "api.openai.com"


class Unreachable(Exception):
    """No answer came: the connection failed or broke, or (``timed_out``) the time was over."""

    def __init__(self, why: str, *, timed_out: bool) -> None:
        super().__init__(why)
        self.timed_out = timed_out


@dataclass(frozen=True, slots=True)
class Response:
    """What came back, of any status; names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Transport:
    """Connections to one endpoint.

    Args:
        base_url: its address.
        api_key: sent as a bearer token, to this address only.
        timeout_s: for one request, from its first byte to its last.
        connections: the most at a time.
        log: is told of every exchange.
    """

    def __init__(
        self, base_url: str, api_key: str, *, timeout_s: float, connections: int, log: HttpLog | None = None
    ) -> None:
        for name in ("openai", "httpx2", "httpcore2"):  # at DEBUG they print addresses and headers
            logging.getLogger(name).setLevel(logging.WARNING)
        self._log = log
        self._timeout_s = timeout_s
        timeout = httpx2.Timeout(timeout_s, connect=_CONNECT_TIMEOUT_S, pool=None)
        self._http = DefaultAioHttpClient(
            timeout=timeout,
            # without numbers it would be aiohttp's own limit of 100
            limits=httpx2.Limits(max_connections=connections, max_keepalive_connections=connections),
            follow_redirects=False,  # a redirect to another host must not get the key
        )
        client = AsyncOpenAI(base_url=base_url, api_key=api_key, max_retries=0, http_client=self._http)
        if client.base_url.host != _OPENAI_HOST:
            # The SDK would tell any address the account that OPENAI_ORG_ID and OPENAI_PROJECT_ID name.
            client.organization = client.project = None
        self._client = client
        self._url = client.base_url.join("chat/completions")
        stated = {name: value for name, value in client.default_headers.items() if isinstance(value, str)}
        self._headers = httpx2.Headers({**stated, "Authorization": f"Bearer {api_key}"})
        self._extensions = {"timeout": timeout.as_dict()}

    async def post(self, body: bytes) -> Response:
        """Send ``body`` to the chat completions of the endpoint.

        Raises:
            Unreachable: no answer, or only a part of one.
        """
        request = httpx2.Request(
            "POST", self._url, headers=self._headers, content=body, extensions=dict(self._extensions)
        )
        started = time.monotonic()
        try:
            async with asyncio.timeout(self._timeout_s):
                response = await self._http.send(request)
        except Exception as error:  # as in the SDK: whatever the layers below raise, there is no answer
            # The aiohttp transport calls a failure to connect, a refusal as well, a ConnectTimeout.
            timed_out = isinstance(error, httpx2.TimeoutException | TimeoutError)
            timed_out = timed_out and not isinstance(error, httpx2.ConnectTimeout)
            if self._log is not None:
                self._log.write(str(self._url), request.headers, body, time.monotonic() - started, error=repr(error))
            raise Unreachable(str(error) or type(error).__name__, timed_out=timed_out) from error
        if self._log is not None:
            outcome = {"status": response.status_code, "headers": response.headers, "body": response.content}
            self._log.write(str(self._url), request.headers, body, time.monotonic() - started, **outcome)
        return Response(response.status_code, response.headers, response.content)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.close()
        if self._log is not None:
            self._log.close()
