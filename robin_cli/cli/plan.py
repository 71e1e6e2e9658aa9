"""robin plan: what a budget would buy, before it is spent."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from robin_cli.cli import options as opt
from robin_cli.cli.showing import settings_of_rows, show
from robin_cli.model.records import number_of

if TYPE_CHECKING:
    from robin_cli.datasets.pairs import Dataset
    from robin_cli.settings.table import Settings
    from robin_cli.views.messages import Messages

_PLAN = "Plan"
_Pilot = Annotated[
    int | None,
    typer.Option(
        help="Ask the judge N times a pair first (2 or more), and plan by its answers; with --pairwise about N comparisons.",
        metavar="N",
        min=2,
        rich_help_panel=_PLAN,
    ),
]
_ForError = Annotated[
    float | None,
    typer.Option(
        help="Find the budget that brings the largest error to E points; the average one, with --objective mean-error. "
        "Needs no --budget.",
        metavar="E",
        rich_help_panel=_PLAN,
    ),
]
_Compare = Annotated[
    float | None,
    typer.Option(
        help="Say how many prompts, and calls of each response, a difference of D points between two systems needs until it "
        "shows. Needs no --budget.",
        metavar="D",
        rich_help_panel=_PLAN,
    ),
]
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
    cls=opt.taking(lambda _: True),
    epilog="Example: robin plan pairs.jsonl --budget 50000 --attribute helpfulness",
)
def plan(
    ctx: typer.Context,
    config: opt.Config = None,
    pilot: _Pilot = None,
    for_error: _ForError = None,
    compare: _Compare = None,
    details: _Details = False,
    json: _Json = False,
) -> None:
    """Say what a budget would buy: calls, tokens, money, time, and how far off scores may be, or how many decisions wrong.

    Takes the flags of robin judge, and sends nothing. With --decide it says how many calls it takes to decide everything.
    With --pilot N it makes a run of N calls a pair, whose answers count when it is resumed with the whole budget.
    With --compare D it says what a difference of systems needs. With --pairwise it says how many comparisons the budget asks,
    and how far off win rates may be. --format and -o have its table as a file.
    """
    from robin_cli.render.json import print_json
    from robin_cli.runner.inputs import pairs_of, prompts_of
    from robin_cli.runner.opening import inputs_of
    from robin_cli.settings.reading import load_settings
    from robin_cli.views.messages import messages_for
    from robin_cli.views.plan.plan import check_plan, pilot_calls, plan_of

    settings = load_settings(ctx.obj, config)
    given = settings_of_rows(
        ctx, inputs_of(settings) if "output" in ctx.obj else (), by_flags_alone=True
    )
    messages = messages_for(quiet=settings.quiet)
    prompts = prompts_of(settings)
    check_plan(settings, for_error, compare, prompts.scales)  # before a pilot is paid for
    dataset = pairs_of(settings, prompts, messages.note)
    if compare is not None:
        settings = replace(settings, objective="compare")
    run = None
    if pilot is not None:
        calls = pilot_calls(pilot, dataset, settings, len(prompts.attributes))
        run = _pilot(settings, dataset, calls, messages)
    with messages.busy("simulating the run"):
        found = plan_of(
            settings, dataset, messages.note, pilot=run, for_error=for_error, difference=compare
        )
    if json:
        print_json(found.facts, indent=True)
    elif given.output is not None or given.format not in {None, "table"}:
        show([found.whole_table], given, messages.note, for_people=False)
    else:
        found.show(details=details)


def _pilot(settings: Settings, dataset: Dataset, calls: int, messages: Messages) -> Path:
    """Make a run of ``calls``; return its path."""
    from robin_cli.cli.work import ready, spend
    from robin_cli.model.errors import InputError
    from robin_cli.runner.opening import open_run
    from robin_cli.storage.manifest import FILE

    if settings.budget is None and settings.max_cost is not None:
        raise InputError(
            "--pilot: its calls are counted, and --max-cost alone counts dollars; make a run of its own with --budget "
            f"{calls}, and plan with --variances RUN"
        )
    if settings.budget is not None and calls > settings.budget:
        raise InputError(
            f"--pilot: takes {number_of(calls, 'call')}, more than the --budget of {settings.budget:,}; "
            "make the pilot smaller, or the budget larger"
        )
    if settings.mode == "theory":
        raise InputError(
            "--pilot: theory mode adapts only from a very large budget on, so a pilot cannot be the beginning of its run; "
            "make a small run in practice mode, and plan with --variances RUN"
        )
    if (
        settings.run
        and (Path(settings.run) / FILE).exists()
        and _is_beyond(Path(settings.run), calls, settings)
    ):
        messages.note(
            f"{settings.run} has had more than the pilot's {number_of(calls, 'call')} already: it is taken as it is"
        )
        return Path(settings.run)
    ready(settings, messages)
    with open_run(replace(settings, budget=calls), messages.note, dataset) as store:
        for line in spend(store, replace(settings, target_error=None), messages, pilot=True) or ():
            messages.note(line)
        return store.path


def _is_beyond(run: Path, calls: int, settings: Settings) -> bool:
    """Return whether the run, which must decide the same, has more than ``calls``; other runs are refused later."""
    from robin_cli.model.decision import decision_of
    from robin_cli.model.errors import InputError
    from robin_cli.storage.manifest import read_manifest

    manifest, wanted = read_manifest(run), None
    if settings.decide is not None:
        try:
            wanted = decision_of(
                settings.decide,
                manifest.attributes,
                manifest.scales,
                margin=settings.margin,
                error_rate=settings.error_rate,
            )
        except InputError:  # which is said when the run is opened
            return False
    is_same = (manifest.decision, manifest.own_settings["group"]) == (wanted, settings.group)
    return manifest.budget > calls and is_same
