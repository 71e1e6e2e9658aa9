"""robin plan: what a budget would buy, before it is spent."""

from __future__ import annotations

import inspect
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from robin_cli.cli.judge import judge
from robin_cli.records import number_of

if TYPE_CHECKING:
    from robin_cli.config import RunConfig
    from robin_cli.data.pairs import Dataset
    from robin_cli.output.messages import Messages

_PLAN = "Plan"
_Pilot = Annotated[
    int | None,
    typer.Option(
        help="Ask the judge N times a pair first (2 or more), and plan by its answers.",
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
_Json = Annotated[bool, typer.Option("--json", help="One JSON object, for scripts.", rich_help_panel=_PLAN)]


def register(app: typer.Typer) -> None:
    """Add the command of this file to ``app``."""
    app.command(epilog="Example: robin plan pairs.jsonl --budget 50000 --attribute helpfulness")(plan)


def plan(*, pilot: int | None, for_error: float | None, json: bool, **given: Any) -> None:
    """Say what a budget would buy: calls, tokens, money, time, and how far off scores may be.

    Takes the flags of robin judge, and sends nothing. With --pilot N it makes a run of N calls a pair, whose answers count when
    it is resumed with the whole budget.
    """
    from robin_cli.config import load_config
    from robin_cli.output.messages import messages_for
    from robin_cli.output.plan.facts import check_asked, plan_of
    from robin_cli.output.plan.view import print_plan
    from robin_cli.runs.opening import pairs_of, prompts_of

    config = load_config(given, given.pop("config"))
    messages = messages_for(config)
    prompts = prompts_of(config)
    dataset = pairs_of(config, prompts, messages.note)
    check_asked(config, for_error, prompts.scales)  # before a pilot is paid for
    run = None
    if pilot is not None:
        arms = len(prompts.attributes) * max(1, len(config.model)) * len(dataset.pairs)
        run = _pilot(config, dataset, pilot * arms, messages)
    with messages.busy("simulating the run"):
        facts = plan_of(config, dataset, messages.note, pilot=run, for_error=for_error)
    print_plan(facts, as_json=json)


def _signature() -> inspect.Signature:
    """Every flag of robin judge, and this command's own: a command that was planned with can be run as it stands."""
    own = {"pilot": (_Pilot, None), "for_error": (_ForError, None), "json": (_Json, False)}
    keyword = inspect.Parameter.KEYWORD_ONLY
    theirs = inspect.signature(judge, eval_str=True).parameters.values()
    added = [inspect.Parameter(name, keyword, default=value, annotation=kind) for name, (kind, value) in own.items()]
    return inspect.Signature([*(each.replace(kind=keyword) for each in theirs), *added])


plan.__signature__ = _signature()  # type: ignore[attr-defined]


def _pilot(config: RunConfig, dataset: Dataset, calls: int, messages: Messages) -> Path:
    """Make a run of so many ``calls``; where it is."""
    from robin_cli.cli.confirming import confirmed
    from robin_cli.cli.work import spend
    from robin_cli.errors import InputError
    from robin_cli.judges import api_keys
    from robin_cli.runs.connection import connection_of
    from robin_cli.runs.manifest import FILE, read_manifest
    from robin_cli.runs.opening import open_run

    if config.budget is not None and calls > config.budget:
        raise InputError(
            f"--pilot: takes {number_of(calls, 'call')}, more than the --budget of {config.budget:,}; "
            "make the pilot smaller, or the budget larger"
        )
    if config.mode == "theory":
        raise InputError(
            "--pilot: theory mode adapts only from a very large budget on, so a pilot cannot be the beginning of its run; "
            "make a small run in practice mode, and plan with --variances RUN"
        )
    if config.run and (Path(config.run) / FILE).exists() and read_manifest(Path(config.run)).budget > calls:
        messages.note(
            f"{config.run} has had more than the pilot's {number_of(calls, 'call')} already: it is taken as it is"
        )
        return Path(config.run)
    config = confirmed(config)
    api_keys(config)
    connection = connection_of(config)
    with open_run(replace(config, budget=calls), messages.note, dataset) as store:
        spend(store, connection, config, messages, pilot=True)
        return store.path
