"""robin export: a run's results as files."""

from __future__ import annotations

from dataclasses import replace

from robin_cli.cli.options import OF_ROWS, OF_SCORES, OF_VIEWS, Invocation, command
from robin_cli.cli.output import is_for_people, output_of, show, view_of
from robin_cli.model.errors import InputError, did_you_mean

TABLES = (
    *("scores", "judge-scores", "ranking", "judgments", "agreement", "calibration", "preferences"),
    *("summary", "labels-wanted", "judge-quality", "disagreements", "systems"),
)
"""The tables that ``robin export`` writes. Beside them it writes methods, and files for other tools."""

_FORMATS = {"methods": ("md",), "inspect": ("jsonl",), "promptfoo": ("json",)}
_BY_LABELS = {*TABLES, "methods"} - {"judgments", "ranking", "preferences", "judge-scores"}
_FOR = {
    "messages": {"preferences"},
    "by": {"summary", "labels-wanted", "systems"},
    "labels": _BY_LABELS,
    "agree": {"scores"},
    "confidence": {"scores"},
    "threshold": {"summary", "judge-quality"},
    "round": {"agreement"},
    "n": {"labels-wanted", "disagreements"},
}
"""What each option of ``robin export`` is for that is not for all."""


@command(
    "export runs/20261120T101500Z-helpfulness -o scores.xlsx",
    "run what messages by threshold labels round n",
    OF_ROWS | OF_SCORES | OF_VIEWS | {"agree", "confidence"},
    words={"by": "Column of the data: a summary of each value; for labels wanted, whole prompts."},
)
def export(call: Invocation) -> None:
    """Write results for spreadsheets and notebooks.

    CSV on standard output is the default.
    """
    from robin_cli.data.logs import WRITERS
    from robin_cli.goals.checks import check_shown
    from robin_cli.goals.registry import table_of
    from robin_cli.model.plugins import plugins
    from robin_cli.run.manifest import files_read_by
    from robin_cli.run.pair_files import read_column_names
    from robin_cli.show.files import write_to
    from robin_cli.show.messages import messages_for
    from robin_cli.show.methods import methods_page
    from robin_cli.show.tool_scores import scores_for

    flags, what = call.flags, call.flags.what
    if what not in TABLES and what not in (known := (*TABLES, "methods", *plugins(WRITERS))):
        raise InputError(
            f'--what "{what}": must be one of {", ".join(known)}{did_you_mean(what, known)}'
        )
    (run,) = call.scored_runs()
    formats = None if what in TABLES else _FORMATS.get(what, ("jsonl", "json"))
    output = output_of(call, [*files_read_by(run), *filter(None, [flags.labels])], formats)
    check_shown(output.show, lambda: read_column_names(run))
    options = {name: call.settings.get(name, getattr(flags, name, None)) for name in _FOR}
    for name, value in options.items():
        if value is not None and value is not False and what not in _FOR[name]:
            raise InputError(
                f"--{name}: is for --what {', '.join(sorted(_FOR[name]))}; leave it out"
            )
    note = messages_for().note
    file = None if output.output == "-" else output.output
    if what in TABLES:
        for_people = is_for_people(output, by_default=False)
        view = view_of(output, **options, output=file)
        if not (for_people and what == "ranking"):  # where it is printed, its notes stand under it
            view = replace(view, notify=note)
        show(table_of(run, what, view), output, note, for_people=False, run=run)
        return
    page = methods_page(run, labels=flags.labels).encode() if what == "methods" else None
    content = page or scores_for(what, run, note)
    write_to("-o", file or "-", lambda stream: stream.write(content))
    if file is not None:
        note(f"wrote {file}")


@command("results runs/20261120T101500Z-helpfulness", "run", OF_ROWS | OF_SCORES)
def results(call: Invocation) -> None:
    """List what robin export --what can write of a run."""
    from robin_cli.goals.registry import results_of
    from robin_cli.show.messages import messages_for
    from robin_cli.show.methods import methods_row
    from robin_cli.show.tool_scores import tools_of

    output = output_of(call)
    (run,) = call.scored_runs()
    table = results_of(run, TABLES, [*methods_row(run), *tools_of(run)])
    show(table, output, messages_for().note, for_people=True, run=run)
