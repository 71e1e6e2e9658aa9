"""robin serve, init and rubrics: tools around a run."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from robin_cli.cli.options import Invocation, command
from robin_cli.cli.render import print_exactly
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


@command("init --like vllm", "like force")
def init(call: Invocation) -> None:
    """Write robin.toml, a commented file of all settings.

    A JSON schema for your editor goes with it.     robin judge, plan, check and render read it from the folder where you
    start them; a flag wins over the file.
    """
    import json

    from robin_cli.cli.init_file import SCHEMA_FILE, schema, starting_file
    from robin_cli.data.local import whole_file
    from robin_cli.settings.reading import DEFAULT_FILE, ready_configs

    like = call.flags.like
    names = [name for name in ready_configs() if name != "demo"]  # its paths hold only where it is
    if like not in names:
        raise InputError(f'--like "{like}": ready configs are {", ".join(names)}')
    texts = {
        DEFAULT_FILE: starting_file(like),
        SCHEMA_FILE: json.dumps(schema(), indent=1, ensure_ascii=False) + "\n",
    }
    for target in texts:
        if os.path.lexists(target) and not call.flags.force:
            raise InputError(f"{target}: is there already; --force writes over it")
    for target, text in texts.items():
        try:
            with whole_file(Path(target), mode=0o666) as file:
                file.write(text.encode())
        except OSError as error:
            raise InputError(f"{target}: could not be written ({error.strerror})") from error
    typer.echo(
        f"wrote {DEFAULT_FILE}, and {SCHEMA_FILE} for your editor; next: edit data and model in {DEFAULT_FILE}, then "
        "robin judge --budget 1000 --attribute helpfulness. Another host, a key variable, a price or an output in it "
        f"counts only with --config {DEFAULT_FILE}",
        err=True,
    )


@command("rubrics helpfulness > mine.toml", "name")
def rubrics(call: Invocation) -> None:
    """List the ready rubrics and templates, or print one.

    A copy is used with robin judge --rubric FILE (--template FILE).
    """
    from robin_cli.ask.prompts import prompt_source
    from robin_cli.ask.rubrics import known_attributes, rubric_of
    from robin_cli.ask.templates import known_templates

    if call.flags.name is not None:
        print_exactly(prompt_source(call.flags.name))
        return
    for attribute in known_attributes():
        rubric = rubric_of(attribute)
        print(f"{attribute:<20}{rubric.scale!s:<8}{rubric.levels[-1][1]}")
    for template in known_templates():
        print(f"{template:<20}template")
