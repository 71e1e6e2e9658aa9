"""robin resume: continue a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from robin_cli.cli.checks import note_doubts
from robin_cli.cli.judge import work_on
from robin_cli.cli.options import Invocation, command, is_of_judging

if TYPE_CHECKING:
    from robin_cli.settings.setting import Setting


def _may_differ(setting: Setting) -> bool:
    from robin_cli.settings.setting import Scope

    is_of_session = setting.scope in {Scope.SESSION, Scope.OUTPUT} and is_of_judging(setting)
    return is_of_session or setting.name in {"budget", "judge", "template"}


@command(
    "resume runs/20261120T101500Z-helpfulness --budget 80000",
    "run",
    _may_differ,
    words={"run": "A run directory. (default: the newest unfinished one in runs/)"},
)
def resume(call: Invocation) -> None:
    """Continue a run, or raise the budget of a finished one.

    The run's own settings apply; only the flags here can differ.
    """
    from robin_cli.goals.checks import check_pairwise, check_shown
    from robin_cli.run.manifest import files_read_by
    from robin_cli.run.pair_files import read_column_names
    from robin_cli.session.resuming import reopen_run, resumed
    from robin_cli.settings.resolve import resolve
    from robin_cli.show.messages import messages_for
    from robin_cli.show.outputs import check_output
    from robin_cli.show.run_list import newest_unfinished

    run = Path(call.flags.run or "")
    if call.flags.run is None:
        run = newest_unfinished()
        messages_for().note(f"run: {run}, the newest unfinished one")
    # a robin.toml here is not this run's
    settings = resumed(run, call.with_variables())
    note_doubts(settings)
    check_pairwise(settings)
    check_shown(settings.show, lambda: read_column_names(run))
    check_output(settings.format, settings.output, files_read_by(run))
    work_on(settings, resolve(settings), lambda _: reopen_run(run, settings))
