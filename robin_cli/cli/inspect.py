"""robin render and parse: the messages of a pair, and the ratings read from answers; neither calls a judge."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Annotated

import typer

from robin_cli.cli import options as opt

app = typer.Typer()


@app.command(
    cls=opt.taking(opt.is_of_judging),
    epilog="Example: robin render pairs.jsonl --pair 1f3870be274f6c49 --attribute helpfulness",
)
def render(
    ctx: typer.Context,
    config: opt.Config = None,
    pair: Annotated[
        str | None,
        typer.Option(
            help="The pair's id; of a comparison the comparison's. (default: the first pair)",
            metavar="ID",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Print the exact messages that robin would send for a pair.

    If a structure goes with them, that too. Takes the flags of robin judge. With --pairwise these are two questions: the
    same responses in both orders.
    """
    import orjson

    from robin_cli.cli.first import check_first
    from robin_cli.settings.reading import load_settings

    settings = load_settings(ctx.obj, config)
    check_first(settings)
    from robin_cli.goals.checks import check_pairwise
    from robin_cli.model.errors import InputError, shown
    from robin_cli.session.inputs import pairs_of
    from robin_cli.session.prompts import prompts_of
    from robin_cli.show.text import one_line

    check_pairwise(settings)
    prompts = prompts_of(settings)
    dataset = pairs_of(replace(settings, limit=None), prompts, lambda _line: None)
    pairs = dataset.pairs
    found = next((each for each in pairs if pair in {None, each.pair_id}), None)
    if found is None:
        raise InputError(
            f'--pair "{pair}": not in {dataset.source}; its first ids are {", ".join(p.pair_id for p in pairs[:3])}'
        )
    if pair is None:
        typer.echo(f"pair: {one_line(found.pair_id)}, the first of {dataset.source}", err=True)
    prompts.check_references([found])
    asked = [
        (answers, names)
        for answers in dict.fromkeys(settings.answers)
        for names in (
            [prompts.attributes] if prompts.asks_together(answers) else zip(prompts.attributes)
        )
    ]
    for (answers, names), (number, variant) in product(asked, enumerate(prompts.kind.variants)):
        for message in prompts.messages(found, names[0], number, answers, names):
            _print_part(f"{message['role']}{variant and f', {variant}'}", message["content"])
            if images := [
                f"{number}: {shown(image.url, 200)}"
                for number, image in enumerate(message.get("images", ()), 1)
            ]:
                _print_part("images", "\n".join(images))
        if structure := prompts.structure(answers, names):
            _print_part("sent along", orjson.dumps(structure, option=orjson.OPT_INDENT_2).decode())


def _print_part(title: str, content: str) -> None:
    text = f"[{title}]\n{content}\n\n"
    if sys.stdout.isatty():
        print(text, end="")
    else:  # what would be sent, to the letter
        sys.stdout.buffer.write(text.encode())


@app.command(epilog="Example: robin parse answers.jsonl --scale 0-4")
def parse(
    file: Annotated[
        str, typer.Argument(help="JSON lines with a field text; - for standard input.")
    ] = "-",
    scale: Annotated[str, typer.Option(help="The ratings allowed.")] = "0-4",
    answers: Annotated[str, typer.Option(help="How the judge answered: text or json.")] = "text",
    pairwise: Annotated[
        bool,
        typer.Option(
            "--pairwise",
            help="Read verdicts on two responses: A, B or tie; the scale says nothing.",
        ),
    ] = False,
    no_ties: Annotated[
        bool, typer.Option("--no-ties", help="With --pairwise: a tie is no verdict.")
    ] = False,
) -> None:
    """Run the rating parser over judge outputs.

    Each is a JSON object on a line of its own.
    """
    from robin_cli.model.errors import InputError
    from robin_cli.show.parsing import parse_lines

    if no_ties and not pairwise:
        raise InputError("--no-ties: is for --pairwise; add that, or leave it out")
    read = partial(parse_lines, answers=answers, pairwise=pairwise, ties=not no_ties)
    if file == "-":
        read(sys.stdin.buffer, "standard input", scale, sys.stdout.buffer)
        return
    try:
        stream = Path(file).open("rb")  # noqa: SIM115  # closed below; only opening it is a user's error
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror})") from error
    with stream:
        read(stream, file, scale, sys.stdout.buffer)
