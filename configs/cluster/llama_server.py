"""llama.cpp's server behind Ray Serve: each replica is a llama-server of its own, and Serve's proxy is the one address of all.

The same shape puts any other server of OpenAI's chat completions behind Serve; for vLLM and SGLang, Ray has one ready.
docs/scale.md has the commands.
"""

from __future__ import annotations

import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Sequence
from typing import Any

import aiohttp
from ray import serve
from starlette.requests import Request
from starlette.responses import Response

TOLD_ON = ("content-type", "retry-after", "retry-after-ms")
"""Headers of an answer that are for the one who asked, whoever is in between."""

ENDING_WITH_ITS_REPLICA = '"$@" & server=$!; { cat; kill $server; } <&0 & wait $server; kill $!'
"""Where a replica is killed, its pipe to cat ends, and with that the server."""


@serve.deployment
class LlamaServer:
    """A llama-server: requests go to it as they came, and its answers, and errors, back as they are.

    Args:
        command: llama-server with its model and flags, without --host and --port; variables in it are those of the machine.
        loads_within_s: how long the model may take to load.
    """

    def __init__(self, command: Sequence[str], loads_within_s: float = 600.0) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            place = ("--host", "127.0.0.1", "--port", str(probe.getsockname()[1]))
        self._url = f"http://127.0.0.1:{place[-1]}"
        self._client: aiohttp.ClientSession | None = None
        self._server = subprocess.Popen(  # noqa: S603  # what the application's configuration says
            [
                "/bin/bash",
                "-c",
                ENDING_WITH_ITS_REPLICA,
                "bash",
                *map(os.path.expandvars, command),
                *place,
            ],
            stdin=subprocess.PIPE,
        )
        deadline = time.monotonic() + loads_within_s
        while not self._is_healthy():
            if self._server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(
                    f"llama-server did not get ready; its log is this replica's: {' '.join(command)}"
                )
            time.sleep(0.1)

    def check_health(self) -> None:
        """Serve asks every ten seconds, and replaces a replica whose server has ended or answers no more."""
        if not self._is_healthy():
            raise RuntimeError("llama-server has ended, or answers no more")

    async def __call__(self, request: Request) -> Response:
        """Pass ``request`` on; where the replica's own server is away, say so: the next try finds another."""
        if (
            self._client is None
        ):  # no limits of its own: Serve has one (max_ongoing_requests), and robin another (--timeout)
            connections = aiohttp.TCPConnector(limit=0)
            self._client = aiohttp.ClientSession(
                connector=connections, timeout=aiohttp.ClientTimeout(None)
            )
        path = request.scope["path"].removeprefix(request.scope["root_path"])
        sent = {"content-type": request.headers.get("content-type", "application/json")}
        try:
            async with self._client.request(
                request.method, self._url + path, data=await request.body(), headers=sent
            ) as answer:
                told = {name: answer.headers[name] for name in TOLD_ON if name in answer.headers}
                return Response(await answer.read(), answer.status, told)
        except aiohttp.ClientError as error:
            return Response(f"llama-server of this replica: {error}", 502)

    def _is_healthy(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self._url}/health", timeout=10) as answer:  # noqa: S310  # its own port
                return bool(answer.status == 200)
        except OSError:
            return False


def app(args: dict[str, Any]) -> serve.Application:
    """The application that ``import_path: llama_server:app`` names, with what stands under ``args`` there."""
    return LlamaServer.bind(**args)
