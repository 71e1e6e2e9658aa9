"""robin judge: the main job."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import typer

from robin_cli.cli.checks import check_before_calls, note_doubts
from robin_cli.cli.options import Invocation, command, is_of_judging

if TYPE_CHECKING:
    from robin_cli.run.writer import RunWriter
    from robin_cli.settings.resolve import Resolved
    from robin_cli.settings.table import Settings
    from robin_cli.show.messages import Messages


@command(
    "judge pairs.jsonl --budget 50000 --attribute helpfulness --model gpt-6-luna",
    "config",
    is_of_judging,
)
def judge(call: Invocation) -> None:
    """Spend a budget of judge calls on pairs, and print the scores.

    Every setting can also come from robin.toml (robin init writes one), or from a variable of its name: ROBIN_MAX_COST for
    --max-cost. What is switched on there, a flag with no- in front of its name switches off.
    """
    judge_by(call.load_settings())


def judge_by(
    settings: Settings, also: Callable[[], list[str]] = list, most: int | None = None
) -> None:
    """Run robin judge, and print ``most`` rows; ``also`` runs after it, and returns lines that go before the answer."""
    note_doubts(settings)
    resolved = check_before_calls(settings)
    from robin_cli.session.opening import open_run

    work_on(
        settings,
        resolved,
        lambda messages: open_run(settings, resolved, messages.note),
        also,
        most,
    )


def work_on(
    settings: Settings,
    resolved: Resolved,
    open_store: Callable[[Messages], RunWriter],
    also: Callable[[], list[str]] = list,
    most: int | None = None,
) -> None:
    """Open the run, spend its budget, deliver the scores. A missing endpoint is reported before data is read."""
    from robin_cli.cli.output import deliver
    from robin_cli.cli.work import again, saying, spend
    from robin_cli.model.errors import LimitReached
    from robin_cli.session.checking import check_judges
    from robin_cli.show.messages import messages_for

    messages = messages_for(quiet=settings.quiet)
    check_judges(resolved)
    with saying("; no call was made"):
        store = open_store(messages)
    with store, saying(f"; everything received is kept. To go on: {again(store, settings)}"):
        try:
            lines = spend(store, settings, resolved, messages)
        except LimitReached:
            deliver(store.path, settings)
            raise
        except typer.Exit:  # it was interrupted
            if settings.output is not None and store.has_answers:
                deliver(store.path, settings, goes_on=False)
            raise
        deliver(store.path, settings, [*lines, *also()], most)
