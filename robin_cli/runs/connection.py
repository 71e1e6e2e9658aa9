"""How a session reaches its judge: the part of the settings that may differ between the sessions of one run."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from robin_cli.config import RunConfig, endpoint_of
from robin_cli.judging.endpoints import Endpoints, Member
from robin_cli.judging.metering import Meter, Price, prices_of
from robin_cli.judging.openai_judge import Endpoint, OpenAIJudge
from robin_cli.judging.pacing import Caps, Pacer
from robin_cli.runs.manifest import Manifest

AUTO_CEILING = 256


@dataclass(frozen=True, slots=True)
class Connection:
    """How a session reaches its judge, and what it may cost; recorded with each session of a run."""

    base_url: tuple[str, ...]
    api_key_env: str
    concurrency: str
    samples_per_request: int
    rpm: float | None
    tpm: float | None
    max_cost: float | None
    price_in: float | None
    price_out: float | None
    timeout: float
    max_retries: int
    debug_http: str | None = None

    @property
    def recorded(self) -> dict[str, Any]:
        """The fields by name, for the manifest."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def prices(self, model: str) -> list[Price | None]:
        """The price of ``model`` at each address; InputError if money is limited and one has none."""
        return prices_of(model, self.base_url, price_in=self.price_in, price_out=self.price_out, max_cost=self.max_cost)


def connection_of(config: RunConfig) -> Connection:
    """The part of ``config`` that says how to reach the judge.

    Raises:
        InputError: no model is named, or money is limited that has no price.
    """
    values = {each.name: getattr(config, each.name) for each in fields(Connection)}
    base_urls, model = endpoint_of(config)
    connection = Connection(**{**values, "base_url": base_urls})
    connection.prices(model)
    return connection


def last_connection(manifest: Manifest) -> dict[str, Any]:
    """How the last session of a run reached its judge, and which model that was, by names of RunConfig."""
    session: Mapping[str, Any] = manifest.sessions[-1] if manifest.sessions else {}
    known = {each.name for each in fields(Connection)} - {"debug_http"}
    recorded = {name: value for name, value in session.items() if name in known}
    urls = recorded.pop("base_url", manifest.settings["base_url"])
    return {
        **recorded,
        "base_url": (urls,) if isinstance(urls, str) else tuple(urls),
        "model": manifest.settings["model"],
    }


def endpoints_of(
    manifest: Manifest, connection: Connection, key: str, notify: Callable[[str], None]
) -> tuple[Endpoints, Price | None]:
    """The judges of a run behind one door, and the price of the first; ``key`` goes to each."""
    settings = manifest.settings
    workers = None if connection.concurrency == "auto" else int(connection.concurrency)
    several = len(connection.base_url) > 1
    prices = connection.prices(settings["model"])
    members = []
    for base_url, price in zip(connection.base_url, prices, strict=True):
        endpoint = Endpoint(
            base_url=base_url,
            model=settings["model"],
            api_key=key,
            temperature=settings["temperature"],
            top_p=settings["top_p"],
            max_tokens=settings["max_tokens"],
            extra_body=settings["extra_body"],
            timeout_s=connection.timeout,
            # Where there are others, a call that fails goes to them rather than waiting here.
            max_retries=min(1, connection.max_retries) if several else connection.max_retries,
            bounded=connection.max_cost is not None,
            debug_http=connection.debug_http,
        )
        pacer = Pacer(workers, ceiling=AUTO_CEILING, clock=time.monotonic, caps=Caps(connection.rpm, connection.tpm))
        members.append(Member(base_url, OpenAIJudge(endpoint, pacer, meter=Meter(price), notify=notify), pacer))
    return Endpoints(members, clock=time.monotonic, notify=notify), prices[0]
