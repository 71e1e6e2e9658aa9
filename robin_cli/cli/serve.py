"""robin serve: recorded ratings as a judge on this machine."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from robin_cli.cli.options import Invocation, command
from robin_cli.model.errors import InputError

if TYPE_CHECKING:
    from robin_cli.judges.replay_server import Replay


@command(
    "serve ratings.parquet --port 8000",
    "pool port latency_ms seed",
    words={"port": "Port on 127.0.0.1; 0 for a free one. (default: 8000)"},
)
def serve(call: Invocation) -> None:
    """Serve recorded ratings on this machine, as a judge would.

    It asks no model and costs nothing. It prints its address and the names of its models, for robin judge: --base-url
    http://127.0.0.1:8000/v1 --model replay:NAME. A prompt always gets the ratings of the same recorded pair, which is not
    its own.
    """
    import asyncio

    from robin_cli.judges.replay_server import Replay
    from robin_cli.model.records import MODEL_PREFIX
    from robin_cli.run.pools import load_pools

    flags, pool = call.flags, call.flags.pool
    if pool is None:
        raise InputError("no pool: name recorded ratings, for example robin serve ratings.parquet")
    pools, source = load_pools(pool, grouped=False), Path(pool).name
    for each in pools.values():
        constant = f"; {each.constant:,} pairs have one rating, and never vary"
        typer.echo(
            f'robin serve: "{MODEL_PREFIX}{each.name}" replays {each.size:,} recorded ratings of '
            f"{len(each.pair_ids):,} pairs from {source}; no model reads the prompts"
            f"{constant if each.constant else ''}",
            err=True,
        )
    replay = Replay(pools, source=source, latency_s=flags.latency_ms / 1000, seed=flags.seed)
    asyncio.run(_serve(replay, 8000 if flags.port is None else flags.port))


async def _serve(replay: Replay, port: int) -> None:
    import asyncio

    from robin_cli.judges.replay_server import serve as serve_until

    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        # a shell ignores them for what it runs in the background
        if signal.getsignal(number) is not signal.SIG_IGN:
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
    try:
        await serve_until(replay, port, typer.echo, stop)
    except OSError as error:
        raise InputError(
            f"--port {port}: cannot be used ({error.strerror}); name another, or 0 for a free one"
        ) from error
