"""robin serve, init and rubrics: tools around a run."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from robin_cli.cli import options as opt

if TYPE_CHECKING:
    from robin_cli.judges.replay_server import Replay


app = typer.Typer()


@app.command(epilog="Example: robin serve ratings.parquet --port 8000")
def serve(
    pool: Annotated[
        str,
        typer.Argument(
            help="Recorded ratings: a table pair_id, rating[, attribute, group], or a run.",
            show_default=False,
        ),
    ],
    port: Annotated[
        int, typer.Option(help="Port on 127.0.0.1; 0 for a free one.", min=0, max=65535)
    ] = 8000,
    latency_ms: Annotated[
        float, typer.Option(help="Wait so many milliseconds before each answer.", min=0)
    ] = 0.0,
    seed: Annotated[
        int | None,
        typer.Option(
            help="Choose the ratings by this number: the same requests get the same answers.", min=0
        ),
    ] = None,
) -> None:
    """Serve recorded ratings on this machine, as a judge would.

    It asks no model and costs nothing. It prints its address and the names of its models, for robin judge: --base-url
    http://127.0.0.1:8000/v1 --model replay:NAME. A prompt always gets the ratings of the same recorded pair, which is not
    its own.
    """
    import asyncio

    from robin_cli.judges.replay_server import Replay
    from robin_cli.model.records import MODEL_PREFIX
    from robin_cli.run.pools import load_pools

    pools, source = load_pools(pool, grouped=False), Path(pool).name
    for each in pools.values():
        what = f"{each.size:,} recorded ratings of {len(each.pair_ids):,} pairs"
        further = (
            f"; {each.constant:,} pairs have one rating, and never vary" if each.constant else ""
        )
        said = f'"{MODEL_PREFIX}{each.name}" replays {what} from {source}; no model reads the prompts{further}'
        typer.echo(f"robin serve: {said}", err=True)
    replay = Replay(pools, source=source, latency_s=latency_ms / 1000, seed=seed)
    asyncio.run(_serve(replay, port))


@app.command(epilog="Example: robin init --like vllm")
def init(
    like: Annotated[
        str, typer.Option(help="Start from the settings for openai, vllm, ollama or llama-cpp.")
    ] = "openai",
    force: Annotated[
        bool, typer.Option("--force", help="Replace a robin.toml that is there.")
    ] = False,
) -> None:
    """Write robin.toml, a commented file of all settings.

    A JSON schema for your editor goes with it.     robin judge, plan, check and render read it from the folder where you
    start them; a flag wins over the file.
    """
    import json

    from robin_cli.cli.init_file import SCHEMA_FILE, schema, starting_file
    from robin_cli.data.local import whole_file
    from robin_cli.model.errors import InputError
    from robin_cli.settings.reading import DEFAULT_FILE, ready_configs

    names = [name for name in ready_configs() if name != "demo"]  # its paths hold only where it is
    if like not in names:
        raise InputError(f'--like "{like}": ready configs are {", ".join(names)}')
    written = {
        DEFAULT_FILE: starting_file(like, opt.known_values),
        SCHEMA_FILE: json.dumps(schema(opt.known_values), indent=1, ensure_ascii=False) + "\n",
    }
    for target in written:
        if os.path.lexists(target) and not force:
            raise InputError(f"{target}: is there already; --force writes over it")
    for target, text in written.items():
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


@app.command(epilog="Example: robin rubrics helpfulness > mine.toml")
def rubrics(
    name: Annotated[
        str | None,
        typer.Argument(
            help="A rubric or a template to show, as it is in its file.", show_default=False
        ),
    ] = None,
) -> None:
    """List the ready rubrics and templates, or print one.

    A copy is used with robin judge --rubric FILE (--template FILE).
    """
    from robin_cli.ask.prompts import prompt_source
    from robin_cli.ask.rubrics import known_attributes, rubric_of
    from robin_cli.ask.templates import known_templates

    if name is not None:
        source = prompt_source(name)
        if sys.stdout.isatty():
            print(source, end="")
        else:  # into a file it is what the file has, whatever the terminal's encoding
            sys.stdout.buffer.write(source.encode())
        return
    for attribute in known_attributes():
        rubric = rubric_of(attribute)
        print(f"{attribute:<20}{rubric.scale!s:<8}{rubric.levels[-1][1]}")
    for template in known_templates():
        print(f"{template:<20}template")


async def _serve(replay: Replay, port: int) -> None:
    import asyncio

    from robin_cli.judges.replay_server import serve as serve_until
    from robin_cli.model.errors import InputError

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        if (
            signal.getsignal(number) is not signal.SIG_IGN
        ):  # as a shell has it for what it runs in the background
            loop.add_signal_handler(number, stop.set)
    try:
        await serve_until(replay, port, typer.echo, stop)
    except OSError as error:
        raise InputError(
            f"--port {port}: cannot be used ({error.strerror}); name another, or 0 for a free one"
        ) from error
