"""robin plan: what a budget would buy, before it is spent."""

from __future__ import annotations

from typing import Annotated

import typer

from robin_cli.cli import options as opt
from robin_cli.cli.showing import settings_of_rows, show

_PLAN = "Plan"
_Details = Annotated[
    bool,
    typer.Option(
        "--details", help="All that the plan knows, and what its words mean.", rich_help_panel=_PLAN
    ),
]
_Json = Annotated[
    bool, typer.Option("--json", help="One JSON object, for scripts.", rich_help_panel=_PLAN)
]


app = typer.Typer()


@app.command(
    cls=opt.taking(opt.is_of_judging),
    epilog="Example: robin plan pairs.jsonl --budget 50000 --attribute helpfulness",
)
def plan(
    ctx: typer.Context, config: opt.Config = None, details: _Details = False, json: _Json = False
) -> None:
    """Estimate what a budget buys, before you spend it.

    It says the calls, tokens, money and time, and how far off scores may be, or how many decisions may be wrong. Takes
    the flags of robin judge, and sends nothing. Without --budget, --target-error or --decide find the calls that reach the
    goal. --variances RUN plans by the ratings of an earlier run on these pairs: its variance, tokens and pace. With
    --pairwise and for comparisons of systems it says calls, tokens, money and time. --format and -o have its table as a
    file.
    """
    from robin_cli.cli.first import check_first, inputs_of
    from robin_cli.settings.reading import load_settings

    settings = load_settings(ctx.obj, config)
    check_first(settings)
    from robin_cli.goals.checks import check_together
    from robin_cli.session.inputs import pairs_of
    from robin_cli.session.prompts import prompts_of
    from robin_cli.show.json import print_json
    from robin_cli.show.messages import messages_for
    from robin_cli.show.plan import facts_of, plan_table, print_plan
    from robin_cli.simulate.plan import Plan

    check_together(settings)
    given = settings_of_rows(
        ctx, inputs_of(settings) if "output" in ctx.obj else (), by_flags_alone=True
    )
    messages = messages_for(quiet=settings.quiet)
    dataset = pairs_of(settings, prompts_of(settings), messages.note)
    with messages.busy("simulating the run"):
        plan = Plan(settings, dataset, messages.note)
        facts = facts_of(plan)
    if json:
        print_json(facts, indent=True)
    elif given.output is not None or given.format not in {None, "table"}:
        show([plan_table(plan, facts["forecast"])], given, messages.note, for_people=False)
    else:
        print_plan(plan, facts, details=details)
