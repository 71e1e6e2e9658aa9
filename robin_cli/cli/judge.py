"""robin judge and robin resume: the main job."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

import typer

from robin_cli.cli import options as opt

if TYPE_CHECKING:
    from robin_cli.settings.setting import Setting
    from robin_cli.settings.table import Settings
    from robin_cli.storage.store import RunStore
    from robin_cli.views.messages import Messages


app = typer.Typer()


def _may_differ(setting: Setting) -> bool:
    from robin_cli.settings.setting import Scope

    return setting.scope in {Scope.SESSION, Scope.OUTPUT} or setting.name in {
        "budget",
        "judge",
        "template",
    }


@app.command(
    cls=opt.taking(lambda _: True),
    epilog="Example: robin judge pairs.jsonl --budget 50000 --attribute helpfulness --model gpt-6-luna",
)
def judge(ctx: typer.Context, config: opt.Config = None) -> None:
    """Spend a budget of judge calls over prompt-response pairs, and print the scores.

    Every setting can also come from robin.toml (robin init writes one), or from a variable of its name: ROBIN_MAX_COST for
    --max-cost. What is switched on there, a flag with no- in front of its name switches off.
    """
    from robin_cli.settings.reading import load_settings

    judge_by(load_settings(ctx.obj, config))


def judge_by(settings: Settings, also: Callable[[], list[str]] = list) -> None:
    """Run robin judge with ``settings``; ``also`` runs after it, and returns lines that go before the answer."""
    from robin_cli.runner.opening import inputs_of, open_run

    _work(
        settings,
        partial(inputs_of, settings),
        lambda settings, messages: open_run(settings, messages.note),
        also,
    )


@app.command(
    cls=opt.taking(_may_differ),
    epilog="Example: robin resume runs/20261120T101500Z-helpfulness --budget 80000",
)
def resume(ctx: typer.Context, run: opt.Run) -> None:
    """Go on with an interrupted run, or give a finished one a larger total budget.

    The run's own settings apply; only the flags here can differ.
    """
    from robin_cli.goals.checks import check_shown
    from robin_cli.runner.inputs import files_read_by
    from robin_cli.runner.resuming import reopen_run, resumed
    from robin_cli.settings.reading import checked
    from robin_cli.storage.pair_files import read_column_names

    settings = resumed(run, checked(ctx.obj))  # a robin.toml here is not this run's
    check_shown(settings.show, lambda: read_column_names(run))
    _work(settings, lambda: files_read_by(run), lambda settings, _: reopen_run(run, settings))


def _work(
    settings: Settings,
    inputs: Callable[[], Iterable[str]],
    opened: Callable[[Settings, Messages], RunStore],
    also: Callable[[], list[str]] = list,
) -> None:
    """Open the run, spend its budget, deliver the scores. A missing endpoint is reported before data is read."""
    from robin_cli.cli.showing import deliver
    from robin_cli.cli.work import again, ready, saying, spend
    from robin_cli.goals.checks import check_pairwise
    from robin_cli.model.errors import LimitReached
    from robin_cli.render.files import check_output
    from robin_cli.views.messages import messages_for

    messages = messages_for(quiet=settings.quiet)
    ready(settings, messages)
    check_pairwise(settings)
    check_output(settings.format, settings.output, list(inputs()))
    with saying("; no call was made"):
        store = opened(settings, messages)
    with store, saying(f"; everything received is kept. To go on: {again(store, settings)}"):
        try:
            took = spend(store, settings, messages)
        except LimitReached:
            deliver(store.path, settings)
            raise
        except typer.Exit:  # it was interrupted
            if settings.output is not None and store.has_answers:
                deliver(store.path, settings)
            raise
        deliver(store.path, settings, [*took, *also()])
