"""robin try: which judge, and which wording of the question, to take."""

from __future__ import annotations

from typing import Annotated

import typer

from robin_cli.cli import options as opt
from robin_cli.cli.showing import is_for_people, settings_of_rows, show

TAKEN = (
    "data attribute rubric base_url model api_key_env columns group labels skip_bad_rows encoding strip_thinking limit "
    "budget price_in price_out price_cached concurrency answers rpm tpm temperature top_p max_tokens reasoning_effort "
    "timeout max_retries extra_body seed run format output raw quiet"
)
"""The settings of robin judge that a trial takes."""

app = typer.Typer()


@app.command(
    "try",
    cls=opt.taking(lambda setting: setting.name in TAKEN.split()),
    epilog="Example: robin try pairs.jsonl -a helpfulness --model A --model B --limit 50 --labels people.csv",
)
def trial(
    ctx: typer.Context,
    config: opt.Config = None,
    template: Annotated[
        list[str] | None,
        typer.Option(help="A prompt to try; repeat the flag for several.", metavar="FILE"),
    ] = None,
) -> None:
    """Find which judge and which wording to take.

    Each rates the same pairs once. Every --model is tried with every --template and every --rubric. People say who is
    right, by --labels or by the human ratings of the data; without any, judges are held against those of other families.
    What is clearly worse after 30 labelled prompts is dropped. To go on after an interruption, repeat the command with the
    same --run.
    """
    from robin_cli.cli.trial_runs import run_trial
    from robin_cli.settings.reading import load_settings
    from robin_cli.show.messages import messages_for

    settings, given = load_settings(ctx.obj, config), settings_of_rows(ctx)
    messages = messages_for(quiet=settings.quiet)
    found = run_trial(settings, template or [""], TAKEN.split(), messages)
    show([found.table()], given, messages.note, for_people=is_for_people(given))
    for line in found.suggestion():
        messages.note(line)
