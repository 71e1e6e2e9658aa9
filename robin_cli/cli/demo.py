"""robin demo: the main job on bundled pairs, against a judge that replays recorded ratings on this machine."""

from __future__ import annotations

import shlex
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

_BUDGET = 3_000
_LATENCY_S = 0.02
_ROWS = 15
_ABOUT = f"""robin demo: {_BUDGET:,} judge calls over 60 bundled pairs.
The judge is a REPLAY: a real HTTP server on this machine, as of robin serve, that answers with recorded ratings; no model
reads the responses, so the scores say nothing about them. The ratings are digitised from plots of the paper
"LLM-as-Judge on a Budget" (its gpt-4.1-nano/helpfulness set).
"""


app = typer.Typer()


@app.command(epilog="Example: robin demo")
def demo(
    run: Annotated[
        Path | None,
        typer.Option(
            help="A new folder for the run and its scores. (default: runs/demo-TIME)", metavar="DIR"
        ),
    ] = None,
) -> None:
    """Judge bundled pairs: no key, no network, under a minute.

    The judge answers with recorded ratings; no model reads the responses.
    """
    from robin_cli.cli.judge import judge_by
    from robin_cli.data.local import shipped
    from robin_cli.model.errors import InputError
    from robin_cli.settings.reading import load_settings

    path = run or Path("runs") / f"demo-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise InputError(
            f"--run {path}: is there already, and the demo writes over nothing; name another folder"
        )
    typer.echo(_ABOUT, err=True)
    with _replaying(shipped("configs") / "demo" / "ratings.parquet") as url:
        try:
            judge_by(
                load_settings(
                    {"base_url": [url], "budget": _BUDGET, "run": str(path), "format": "table"},
                    "demo",
                ),
                partial(_put_away, path),
                _ROWS,
            )
        except typer.Exit:
            typer.echo("The demo's judge ended with it: robin demo begins a new one.", err=True)
            raise


def _put_away(run: Path) -> list[str]:
    """Write the scores into the run; return their path, and a note on the ratings."""
    from robin_cli.cli.showing import deliver
    from robin_cli.settings.table import Settings

    scores = run / "scores.csv"
    deliver(run, Settings(output=str(scores), quiet=True))
    own = f"robin judge {shlex.quote(str(run))}/pairs.parquet -a helpfulness --budget {_BUDGET} --model NAME"
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
    from robin_cli.model.errors import InputError
    from robin_cli.run.pools import load_pools

    replay = Replay(
        load_pools(str(ratings), grouped=False), source=ratings.name, latency_s=_LATENCY_S
    )
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
        url = ready.result()
    except OSError as error:
        raise InputError(f"robin demo: cannot listen on 127.0.0.1 ({error.strerror})") from error
    try:
        yield url
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
