"""robin judge and robin resume: the main job."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import typer

from robin_cli.cli import options as opt

if TYPE_CHECKING:
    from robin_cli.run.writer import RunWriter
    from robin_cli.settings.resolve import Resolved
    from robin_cli.settings.setting import Setting
    from robin_cli.settings.table import Settings
    from robin_cli.show.messages import Messages


app = typer.Typer()


def _may_differ(setting: Setting) -> bool:
    from robin_cli.settings.setting import Scope

    return setting.scope in {Scope.SESSION, Scope.OUTPUT} or setting.name in {
        "budget",
        "judge",
        "template",
    }


@app.command(
    cls=opt.taking(opt.is_of_judging),
    epilog="Example: robin judge pairs.jsonl --budget 50000 --attribute helpfulness --model gpt-6-luna",
)
def judge(ctx: typer.Context, config: opt.Config = None) -> None:
    """Spend a budget of judge calls on pairs, and print the scores.

    Every setting can also come from robin.toml (robin init writes one), or from a variable of its name: ROBIN_MAX_COST for
    --max-cost. What is switched on there, a flag with no- in front of its name switches off.
    """
    from robin_cli.settings.reading import load_settings

    judge_by(load_settings(ctx.obj, config))


def judge_by(
    settings: Settings, also: Callable[[], list[str]] = list, most: int | None = None
) -> None:
    """Run robin judge, and print ``most`` rows; ``also`` runs after it, and returns lines that go before the answer."""
    from robin_cli.cli.first import note_doubts, ready_to_send

    note_doubts(settings)
    resolved = ready_to_send(settings)
    from robin_cli.session.opening import open_run

    _work(
        settings,
        resolved,
        lambda messages: open_run(settings, resolved, messages.note),
        also,
        most,
    )


@app.command(
    cls=opt.taking(_may_differ),
    epilog="Example: robin resume runs/20261120T101500Z-helpfulness --budget 80000",
)
def resume(ctx: typer.Context, run: opt.RunToResume = None) -> None:
    """Continue a run, or raise the budget of a finished one.

    The run's own settings apply; only the flags here can differ.
    """
    from robin_cli.cli.first import note_doubts, ready_to_resume, unfinished_run
    from robin_cli.session.resuming import reopen_run, resumed
    from robin_cli.settings.reading import checked

    run = run or unfinished_run()
    settings = resumed(run, checked(ctx.obj))  # a robin.toml here is not this run's
    note_doubts(settings)
    resolved = ready_to_resume(run, settings)
    _work(settings, resolved, lambda _: reopen_run(run, settings))


def _work(
    settings: Settings,
    resolved: Resolved,
    open_store: Callable[[Messages], RunWriter],
    also: Callable[[], list[str]] = list,
    most: int | None = None,
) -> None:
    """Open the run, spend its budget, deliver the scores. A missing endpoint is reported before data is read."""
    from robin_cli.cli.showing import deliver
    from robin_cli.cli.work import again, saying, spend
    from robin_cli.goals.checks import check_pairwise
    from robin_cli.model.errors import LimitReached
    from robin_cli.session.checking import check_judges
    from robin_cli.show.messages import messages_for

    messages = messages_for(quiet=settings.quiet)
    check_judges(resolved)
    check_pairwise(settings)
    with saying("; no call was made"):
        store = open_store(messages)
    with store, saying(f"; everything received is kept. To go on: {again(store, settings)}"):
        try:
            took = spend(store, settings, resolved, messages)
        except LimitReached:
            deliver(store.path, settings)
            raise
        except typer.Exit:  # it was interrupted
            if settings.output is not None and store.has_answers:
                deliver(store.path, settings, goes_on=False)
            raise
        deliver(store.path, settings, [*took, *also()], most)
