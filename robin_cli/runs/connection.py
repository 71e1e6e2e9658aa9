"""How a session reaches its judges: the part of the settings that may differ between the sessions of one run."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from robin_cli.config import AUTO, RunConfig, checked_flags
from robin_cli.errors import InputError, RunError
from robin_cli.judges import JudgeAddress, judge_name, judges_of
from robin_cli.judging.endpoints import Endpoints, Member
from robin_cli.judging.metering import Meter, Price, prices_of
from robin_cli.judging.openai_judge import Endpoint, OpenAIJudge, reply_bytes
from robin_cli.judging.pacing import Caps, Pacer
from robin_cli.runs.descriptors import most_connections
from robin_cli.runs.manifest import FILE, Manifest, read_manifest
from robin_cli.trust import Source, named_in

AUTO_CEILING = 256
_OF_JUDGES = ("model", "base_url", "api_key_env", "price_in", "price_out")
"""The settings that say who judges, where, and for what price."""


@dataclass(frozen=True, slots=True)
class Connection:
    """How a session reaches its judges, and what it may cost; recorded with each session of a run."""

    model: tuple[str, ...]
    base_url: tuple[str, ...]
    api_key_env: tuple[str, ...]
    concurrency: str
    samples_per_request: int
    rpm: float | None
    tpm: float | None
    max_cost: float | None
    price_in: tuple[float, ...]
    price_out: tuple[float, ...]
    timeout: float
    max_retries: int
    max_reply: float
    no_fuse: bool = False
    debug_http: str | None = None

    @property
    def recorded(self) -> dict[str, Any]:
        """The fields by name, for the manifest."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @property
    def judges(self) -> tuple[JudgeAddress, ...]:
        """The judges and where they are."""
        return judges_of(RunConfig(**{name: getattr(self, name) for name in _OF_JUDGES}))

    def prices(self, judge: JudgeAddress) -> list[Price | None]:
        """The price of ``judge`` at each of its addresses; InputError if money is limited and one has none."""
        return prices_of(
            judge.name, judge.base_urls, price_in=judge.price_in, price_out=judge.price_out, max_cost=self.max_cost
        )


def connection_of(config: RunConfig) -> Connection:
    """The part of ``config`` that says how to reach the judges.

    Raises:
        InputError: no model is named, or money is limited that has no price.
    """
    connection = Connection(**{each.name: getattr(config, each.name) for each in fields(Connection)})
    for judge in judges_of(config):
        connection.prices(judge)
    return connection


def last_connection(manifest: Manifest) -> dict[str, Any]:
    """How the last session of a run reached its judges, and which they were, by names of RunConfig."""
    session: Mapping[str, Any] = manifest.sessions[-1] if manifest.sessions else {}
    known = {each.name for each in fields(Connection)} - {"debug_http"}
    recorded = {name: value for name, value in session.items() if name in known}
    several = {"base_url": manifest.settings["base_url"], "model": manifest.models} | recorded
    return {
        **recorded,
        **{name: _tuple(several[name]) for name in _OF_JUDGES if name in several},
    }


def resumed(run: Path, given: Mapping[str, Any], *, in_python: bool = False) -> RunConfig:
    """How a further session of the run at ``run`` reaches the judges: as the last one did, but for what is ``given``.

    A ``model`` in ``given`` moves a judge to the address behind its name; a judge that is named without one, or not at all,
    stays where it was. Variables and prices for each judge go by the order in which ``given`` names them, never by chance.

    Raises:
        InputError: other judges than the run's; variables or prices that cannot be told apart.
        RunError: no run, or one whose last session recorded what is no address and no variable.
    """
    recorded = last_connection(read_manifest(run))
    _check_recorded(recorded, run)
    settings = {**recorded, **given}
    names = tuple(map(judge_name, recorded["model"]))
    order = [judge_name(model) for model in given.get("model", ())] or list(names)
    if twice := next((name for name in order if order.count(name) > 1), None):
        raise InputError(f'--model: "{twice}" is named twice; name it once, and each of its addresses with --base-url')
    if not set(order) <= set(names):
        raise InputError(
            f"--model: this run is judged by {', '.join(names)}, now {', '.join(order)}; only their addresses may change "
            "(NAME@https://…). For other judges start a new run"
        )
    moved = {name: model for name, model in zip(order, given.get("model", ()), strict=False) if model != name}
    settings["model"] = tuple(moved.get(judge_name(model), model) for model in recorded["model"])
    for name in ("api_key_env", "price_in", "price_out"):
        values = given.get(name, ())
        if len(values) > 1:
            if len(values) != len(order) or set(order) != set(names):
                raise InputError(
                    f"--{name.replace('_', '-')}: {len(values)} for {len(names)} judges; give one for each, and each judge's "
                    "--model in the same order"
                )
            settings[name] = tuple(dict(zip(order, values, strict=True))[judge] for judge in names)
    return RunConfig(**settings, source=Source(str(run), "run", named_in(given), in_python=in_python))


def _check_recorded(recorded: Mapping[str, Any], run: Path) -> None:
    """Hold what a manifest says, which may be another's, to what flags are held to, before it decides where keys go."""
    try:
        checked_flags({name: recorded[name] for name in ("base_url", "api_key_env") if name in recorded})
    except InputError as error:
        raise RunError(f"{run / FILE}: its last session is damaged ({error}); restore the file from a copy") from None


def addresses_of(manifest: Manifest) -> tuple[JudgeAddress, ...]:
    """Where the judges of a run were reached last."""
    known = last_connection(manifest)
    return judges_of(RunConfig(**{name: known[name] for name in _OF_JUDGES if name in known}))


def _tuple(value: Any) -> tuple[Any, ...]:
    """What a session recorded: one value, or none, in runs from before there could be several."""
    return tuple(value) if isinstance(value, list | tuple) else () if value is None else (value,)


def endpoints_of(
    manifest: Manifest, connection: Connection, keys: Mapping[str, str], notify: Callable[[str], None]
) -> tuple[list[Endpoints], list[Price | None]]:
    """Each judge of a run behind one door, in the run's order, and the price of each at its first address.

    Args:
        connection: names the run's judges, see :func:`resumed`.
        keys: by the variable that holds it; goes to the addresses of the judges that name it.
    """
    reached = {judge.name: judge for judge in connection.judges}
    judges = [reached[name] for name in manifest.judges]
    fixed = None if connection.concurrency == AUTO else int(connection.concurrency)
    addresses = sum(len(judge.base_urls) for judge in judges)
    wanted = min(fixed or AUTO_CEILING, manifest.budget)
    most = max(1, most_connections(wanted * addresses, notify) // addresses)
    calls = (None if fixed is None else min(fixed, most), min(AUTO_CEILING, most))
    endpoints = [_endpoints(manifest, connection, judge, keys[judge.api_key_env], calls, notify) for judge in judges]
    return endpoints, [connection.prices(judge)[0] for judge in judges]


def _endpoints(
    manifest: Manifest,
    connection: Connection,
    judge: JudgeAddress,
    key: str,
    calls: tuple[int | None, int],
    notify: Callable[[str], None],
) -> Endpoints:
    settings = manifest.settings
    workers, ceiling = calls
    several = len(judge.base_urls) > 1
    members = []
    for base_url, price in zip(judge.base_urls, connection.prices(judge), strict=True):
        endpoint = Endpoint(
            base_url=base_url,
            model=judge.name,
            api_key=key,
            temperature=settings["temperature"],
            top_p=settings["top_p"],
            max_tokens=settings["max_tokens"],
            extra_body=settings["extra_body"],
            timeout_s=connection.timeout,
            # Where there are others, a call that fails goes to them rather than waiting here.
            max_retries=min(1, connection.max_retries) if several else connection.max_retries,
            max_reply_bytes=reply_bytes(connection.max_reply),
            bounded=connection.max_cost is not None,
            debug_http=connection.debug_http,
            logprobs=manifest.scoring == "logprobs",
        )
        pacer = Pacer(workers, ceiling=ceiling, clock=time.monotonic, caps=Caps(connection.rpm, connection.tpm))
        members.append(Member(base_url, OpenAIJudge(endpoint, pacer, meter=Meter(price), notify=notify), pacer))
    return Endpoints(members, clock=time.monotonic, notify=notify)
