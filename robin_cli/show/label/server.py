"""The page of ``robin label``: on 127.0.0.1 alone, with a token in its address, and nothing from the network."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from importlib.resources import files
from typing import Any

import msgspec
from aiohttp import web

from robin_cli.model.errors import InputError, StorageError
from robin_cli.show.label.work import MOST_COMMENT, Labelling
from robin_cli.show.text import one_line

HOST = "127.0.0.1"
_MOST_BYTES = 2**16
_MOST_NAME = 60
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; script-src 'nonce-{nonce}'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class PageRequest(msgspec.Struct):
    """A request from the page."""

    labeller: str = ""
    number: int = -1
    value: float | None = None
    comment: str = ""


class LabelPage:
    """A server for the page of one run.

    Args:
        labelling: the run's labels.
        labeller: who labels; "" to ask at the page.

    Attributes:
        done: set when a user ends the work at the page.
    """

    def __init__(self, labelling: Labelling, labeller: str = "") -> None:
        self._labelling, self._labeller = labelling, labeller
        self._token = secrets.token_urlsafe(24)
        self.done = asyncio.Event()
        self._port = 0

    @property
    def address(self) -> str:
        """Return the address of the page."""
        return f"http://{HOST}:{self._port}/{self._token}/"

    async def serve(self, port: int, ready: Callable[[str], None]) -> None:
        """Serve until somebody is done at the page, or until this is cancelled.

        Args:
            port: 0 for a free one.
            ready: called with the address.

        Raises:
            InputError: the port is taken.
        """
        app = web.Application(client_max_size=_MOST_BYTES)
        root = f"/{self._token}"
        app.add_routes([web.get(f"{root}/", self._page), web.post(f"{root}/{{what}}", self._asked)])
        runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=1.0)
        await runner.setup()
        try:
            site = web.TCPSite(runner, HOST, port)
            try:
                await site.start()
            except OSError as error:
                raise InputError(
                    f"--port {port}: {error.strerror}; name another, or 0 for a free one"
                ) from error
            self._port = runner.addresses[0][1]
            ready(self.address)
            await self.done.wait()
        finally:
            await runner.cleanup()

    def _check(self, request: web.Request) -> None:
        """Refuse requests that another site sends through the browser: their host name is not this machine's."""
        hosts = {f"{name}:{self._port}" for name in (HOST, "localhost")}
        origin = request.headers.get("Origin")
        is_ours = origin is None or origin in {f"http://{host}" for host in hosts}
        if request.headers.get("Host") not in hosts or not is_ours:
            raise web.HTTPForbidden

    async def _page(self, request: web.Request) -> web.Response:
        self._check(request)
        nonce = secrets.token_urlsafe(16)
        page = (files(__package__) / "page.html").read_text(encoding="utf-8")
        headers = {name: value.replace("{nonce}", nonce) for name, value in _HEADERS.items()}
        text = page.replace("{nonce}", nonce)
        return web.Response(text=text, content_type="text/html", headers=headers)

    async def _asked(self, request: web.Request) -> web.Response:
        """Do the page's action: show, label, skip, undo or done; return what it shows next."""
        self._check(request)
        try:
            said = msgspec.json.decode(await request.read(), type=PageRequest)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise web.HTTPBadRequest from None
        labeller = one_line(self._labeller or said.labeller)[:_MOST_NAME].strip()
        try:
            self._do(request.match_info["what"], labeller, said)
        except (InputError, StorageError) as error:
            return _json({"error": str(error)})
        return _json(
            {"labeller": labeller, **(self._labelling.shown(labeller) if labeller else {})}
        )

    def _do(self, what: str, labeller: str, request: PageRequest) -> None:
        if what == "done":
            self.done.set()
        elif what not in {"show", "label", "skip", "undo"}:
            raise web.HTTPNotFound
        elif what != "show" and not labeller:
            raise InputError("say first who labels")
        elif what == "label":
            if request.value is None:
                raise web.HTTPBadRequest
            self._labelling.label(
                labeller, request.number, request.value, request.comment[:MOST_COMMENT]
            )
        elif what == "skip":
            self._labelling.skip(labeller, request.number, request.comment[:MOST_COMMENT])
        elif what == "undo":
            self._labelling.undo(labeller)


def _json(content: dict[str, Any]) -> web.Response:
    return web.Response(
        body=msgspec.json.encode(content),
        content_type="application/json",
        headers={"Cache-Control": "no-store"},
    )
