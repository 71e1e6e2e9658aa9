"""robin export: a run's results as files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from robin_cli.cli import options as opt
from robin_cli.cli.showing import OF_SCORES, is_of_rows, settings_of_rows, show

if TYPE_CHECKING:
    from robin_cli.settings.table import Settings
    from robin_cli.show.tables import Table


class What(StrEnum):
    """A kind of results that ``robin export`` writes."""

    SCORES = "scores"
    JUDGE_SCORES = "judge-scores"
    RANKING = "ranking"
    JUDGMENTS = "judgments"
    AGREEMENT = "agreement"
    CALIBRATION = "calibration"
    PREFERENCES = "preferences"
    SUMMARY = "summary"
    LABELS_WANTED = "labels-wanted"
    JUDGE_QUALITY = "judge-quality"
    DISAGREEMENTS = "disagreements"
    SYSTEMS = "systems"
    METHODS = "methods"
    INSPECT = "inspect"
    PROMPTFOO = "promptfoo"


_FOR_TOOLS = {What.INSPECT: "jsonl", What.PROMPTFOO: "json"}
"""The results that are files of other tools, and their format."""
_FORMAT = {**_FOR_TOOLS, What.METHODS: "md"}
"""The format of results that are no rows."""

_FOR = {
    "messages": {What.PREFERENCES},
    "by": {What.SUMMARY, What.LABELS_WANTED, What.SYSTEMS},
    "labels": set(What)
    - {What.JUDGMENTS, What.RANKING, What.PREFERENCES, What.JUDGE_SCORES, *_FOR_TOOLS},
    "agree": {What.SCORES},
    "confidence": {What.SCORES},
    "threshold": {What.SUMMARY, What.JUDGE_QUALITY},
    "round": {What.AGREEMENT},
    "n": {What.LABELS_WANTED, What.DISAGREEMENTS},
}
"""What each option of ``robin export`` is for that is not for all."""

_WITH = OF_SCORES | {"agree", "confidence"}

_What = Annotated[
    What,
    typer.Option(
        help="What to write, as scores, summary or ranking; robin results lists what a run has.",
        metavar="WHAT",
    ),
]
_By = Annotated[
    str | None,
    typer.Option(
        help="Column of the data: a summary of each value; for labels wanted, whole prompts.",
        metavar="COLUMN",
        show_default=False,
    ),
]

app = typer.Typer()


@app.command(
    cls=opt.taking(lambda each: is_of_rows(each) or opt.is_of_scores(each) or each.name in _WITH),
    epilog="Example: robin export runs/20261120T101500Z-helpfulness -o scores.xlsx",
)
def export(
    ctx: typer.Context,
    run: opt.RunOrScores = None,
    what: _What = What.SCORES,
    messages: Annotated[
        bool,
        typer.Option(
            "--messages",
            help="Preferences as conversations, for trainers of chat models: jsonl or parquet.",
        ),
    ] = False,
    by: _By = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            help="Summary: also the share of scores at it or above.",
            metavar="T",
            show_default=False,
        ),
    ] = None,
    labels: opt.Labels = None,
    round_up: Annotated[
        bool,
        typer.Option(
            "--round", help="Agreement: state κ and ordinal α even if rounding decides many pairs."
        ),
    ] = False,
    n: Annotated[
        int | None,
        typer.Option(
            "--n",
            help="Labels wanted, disagreements: how many pairs. (default: 50)",
            metavar="N",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Write results for spreadsheets and notebooks.

    CSV on standard output is the default.
    """
    from robin_cli.model.errors import InputError
    from robin_cli.session.inputs import files_read_by
    from robin_cli.show.messages import messages_for
    from robin_cli.show.outputs import FORMATS

    (run,) = opt.scored(ctx, [run] if run else [], by)
    reads = [*files_read_by(run), *filter(None, [labels])]
    known = (_FORMAT[what],) if what in _FORMAT else FORMATS
    given = settings_of_rows(ctx, reads, known=known)
    options: dict[str, Any] = {
        "messages": messages,
        "by": by,
        "labels": labels,
        "threshold": threshold,
        "round": round_up,
        "n": n,
    }
    options |= {name: ctx.obj.get(name) for name in ("agree", "confidence")}
    file = None if given.output == "-" else given.output
    for name, value in options.items():
        if value is not None and value is not False and what not in _FOR[name]:
            raise InputError(
                f"--{name}: is for --what {', '.join(sorted(_FOR[name]))}; leave it out"
            )
    notify = messages_for().note
    if what in _FOR_TOOLS:
        _write_for_tool(run, what, file, notify)
        return
    if what is What.METHODS:
        from robin_cli.show.files import write_text
        from robin_cli.show.methods import methods_page

        write_text("-o", file or "-", methods_page(run, labels=labels))
        return
    table = _table_of(run, what, given, {**options, "output": file}, notify)
    show([table], given, notify, for_people=given.format == "table", run=run)


@app.command(
    cls=opt.taking(lambda each: is_of_rows(each) or opt.is_of_scores(each)),
    epilog="Example: robin results runs/20261120T101500Z-helpfulness",
)
def results(ctx: typer.Context, run: opt.RunOrScores = None) -> None:
    """List what robin export --what can write of a run."""
    from robin_cli.goals.making import results_of
    from robin_cli.show.messages import messages_for

    given = settings_of_rows(ctx, by_flags_alone=True)
    (run,) = opt.scored(ctx, [run] if run else [])
    for_people = given.format in {None, "table"} and given.output is None
    show([results_of(run, What)], given, messages_for().note, for_people=for_people, run=run)


def _write_for_tool(run: Path, what: What, file: str | None, notify: Callable[[str], None]) -> None:
    from robin_cli.show.files import write_to
    from robin_cli.show.tool_scores import scores_for

    data = scores_for(what, run, notify)
    write_to("-o", file or "-", lambda stream: stream.write(data))
    if file is not None:
        notify(f"wrote {file}")


def _table_of(
    run: Path, what: What, given: Settings, options: dict[str, Any], notify: Callable[[str], None]
) -> Table:
    """Return the requested results, with the ``options`` that apply to some of them."""
    from robin_cli.goals.found import View
    from robin_cli.goals.making import table_of

    for_people = given.format == "table"
    options |= {name: getattr(given, name) for name in OF_SCORES}
    view = View(**options)
    if not (for_people and what is What.RANKING):  # where it is printed, its notes stand under it
        view = replace(view, notify=notify)
    return table_of(run, what, view)
