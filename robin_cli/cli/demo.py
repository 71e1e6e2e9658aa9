"""robin demo: the main job on bundled pairs, against a judge that replays recorded ratings on this machine."""

from __future__ import annotations

import shlex
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import typer

from robin_cli.cli.options import Invocation, command
from robin_cli.model.errors import InputError

_BUDGET = 3_000
_LATENCY_S = 0.02
_ROWS = 15
_ABOUT = f"""robin demo: {_BUDGET:,} judge calls over 60 bundled pairs.
The judge is a REPLAY: a real HTTP server on this machine, as of robin serve, that answers with recorded ratings; no model
reads the responses, so the scores say nothing about them. The ratings are digitised from plots of the paper
"LLM-as-Judge on a Budget" (its gpt-4.1-nano/helpfulness set).
"""


@command(
    "demo",
    settings={"run"},
    words={"run": "A new folder for the run and its scores. (default: runs/demo-TIME)"},
)
def demo(call: Invocation) -> None:
    """Judge bundled pairs: no key, no network, under a minute.

    The judge answers with recorded ratings; no model reads the responses.
    """
    from robin_cli.cli.judge import judge_by
    from robin_cli.data.local import shipped
    from robin_cli.settings.reading import load_settings

    new = f"runs/demo-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    path = Path(call.settings.get("run", new))
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise InputError(
            f"--run {path}: is there already, and the demo writes over nothing; name another folder"
        )
    typer.echo(_ABOUT, err=True)
    with _replaying(shipped("configs") / "demo" / "ratings.parquet") as url:
        flags = {"base_url": [url], "budget": _BUDGET, "run": str(path), "format": "table"}
        try:
            judge_by(load_settings(flags, "demo"), lambda: _put_away(path), _ROWS)
        except typer.Exit:
            typer.echo("The demo's judge ended with it: robin demo begins a new one.", err=True)
            raise


def _put_away(run: Path) -> list[str]:
    """Write the scores into the run; return their path, and a note on the ratings."""
    from robin_cli.cli.output import deliver
    from robin_cli.settings.table import Settings

    scores = run / "scores.csv"
    deliver(run, Settings(output=str(scores), quiet=True))
    pairs = f"{shlex.quote(str(run))}/pairs.parquet"
    own = f"robin judge {pairs} -a helpfulness --budget {_BUDGET} --model NAME"
    return [
        f"scores: {scores}",
        f"The ratings above are replayed ones. These pairs, by a judge of your own: {own}",
    ]


@contextmanager
def _replaying(ratings: Path) -> Iterator[str]:
    """Run a replay judge in a thread as long as the context lasts; its base URL."""
    import asyncio
    from concurrent.futures import Future

    from robin_cli.judges.replay_server import Replay, serve
    from robin_cli.run.pools import load_pools

    pools = load_pools(str(ratings), grouped=False)
    replay = Replay(pools, source=ratings.name, latency_s=_LATENCY_S)
    ready: Future[str] = Future()
    stop, loop = asyncio.Event(), asyncio.new_event_loop()

    async def work() -> None:
        try:
            await serve(replay, 0, ready.set_result, stop)
        except OSError as error:
            if ready.done():
                raise
            ready.set_exception(error)

    thread = threading.Thread(target=loop.run_until_complete, args=(work(),), daemon=True)
    thread.start()
    try:
        yield ready.result()
    except OSError as error:
        if ready.exception() is not error:
            raise
        raise InputError(f"robin demo: cannot listen on 127.0.0.1 ({error.strerror})") from error
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
