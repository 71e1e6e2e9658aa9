"""robin render and parse: the messages of a pair, and the ratings read from answers; neither calls a judge."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path

import typer

from robin_cli.cli.checks import check_first
from robin_cli.cli.options import Invocation, command, is_of_judging
from robin_cli.model.errors import InputError, shown


@command(
    "render pairs.jsonl --pair 1f3870be274f6c49 --attribute helpfulness",
    "config pair",
    is_of_judging,
)
def render(call: Invocation) -> None:
    """Print the exact messages that robin would send for a pair.

    If a structure goes with them, that too. Takes the flags of robin judge. With --pairwise these are two questions: the
    same responses in both orders.
    """
    import orjson

    settings, pair = call.load_settings(), call.flags.pair
    check_first(settings)
    from robin_cli.goals.checks import check_pairwise
    from robin_cli.session.inputs import pairs_of
    from robin_cli.session.prompts import prompts_of
    from robin_cli.show.text import one_line

    check_pairwise(settings)
    prompts = prompts_of(settings)
    dataset = pairs_of(replace(settings, limit=None), prompts, lambda _line: None)
    chosen = next((each for each in dataset.pairs if pair in {None, each.pair_id}), None)
    if chosen is None:
        first_ids = ", ".join(each.pair_id for each in dataset.pairs[:3])
        raise InputError(f'--pair "{pair}": not in {dataset.source}; its first ids are {first_ids}')
    if pair is None:
        line = f"pair: {one_line(chosen.pair_id)}, the first of {dataset.source}"
        typer.echo(line, err=True)
    prompts.check_references([chosen])
    for answers, (number, variant) in product(
        dict.fromkeys(settings.answers), enumerate(prompts.kind.variants)
    ):
        is_together = prompts.asks_together(answers)
        for names in [prompts.attributes] if is_together else zip(prompts.attributes):
            for message in prompts.messages(chosen, names[0], number, answers, names):
                _print_part(f"{message['role']}{variant and f', {variant}'}", message["content"])
                images = enumerate(message.get("images", ()), 1)
                if lines := [f"{at}: {shown(image.url, 200)}" for at, image in images]:
                    _print_part("images", "\n".join(lines))
            if structure := prompts.structure(answers, names):
                text = orjson.dumps(structure, option=orjson.OPT_INDENT_2).decode()
                _print_part("sent along", text)


def _print_part(title: str, content: str) -> None:
    print_exactly(f"[{title}]\n{content}\n\n")


def print_exactly(text: str) -> None:
    """Print a text to the letter, whatever the terminal's encoding; at a terminal without what could act on it."""
    if sys.stdout.isatty():
        print(text, end="")
    else:
        sys.stdout.buffer.write(text.encode())


@command(
    "parse answers.jsonl --scale 0-4",
    "file",
    {"scale", "answers", "pairwise", "no_ties"},
    words={
        "scale": "The ratings allowed. (default: 0-4)",
        "answers": "How the judge answered: text or json. (default: text)",
        "pairwise": "Read verdicts on two responses: A, B or tie; the scale says nothing.",
        "no_ties": "With --pairwise: a tie is no verdict.",
    },
)
def parse(call: Invocation) -> None:
    """Run the rating parser over judge outputs.

    Each is a JSON object on a line of its own.
    """
    from robin_cli.show.parsing import parse_lines

    pairwise, no_ties = (call.settings.get(name, False) for name in ("pairwise", "no_ties"))
    if no_ties and not pairwise:
        raise InputError("--no-ties: is for --pairwise; add that, or leave it out")
    file, (answers, *_) = call.flags.file, call.settings.get("answers", ("text",))
    read = partial(
        parse_lines,
        scale=call.settings.get("scale", "0-4"),
        answers=answers,
        pairwise=pairwise,
        ties=not no_ties,
    )
    if file == "-":
        read(sys.stdin.buffer, "standard input", out=sys.stdout.buffer)
        return
    try:
        stream = Path(file).open("rb")  # noqa: SIM115  # closed below; only opening it is a user's error
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror})") from error
    with stream:
        read(stream, file, out=sys.stdout.buffer)
