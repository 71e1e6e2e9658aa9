"""robin status, runs, export, render and parse: looking at what is there; nothing here asks a judge."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from enum import StrEnum
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from robin_cli.cli import options as opt
from robin_cli.cli.showing import is_of_rows, settings_of_rows, show

if TYPE_CHECKING:
    from robin_cli.results.tables import Table
    from robin_cli.settings.table import Settings


class What(StrEnum):
    """What ``robin export`` writes."""

    SCORES = "scores"
    JUDGE_SCORES = "judge-scores"
    RANKING = "ranking"
    JUDGMENTS = "judgments"
    AGREEMENT = "agreement"
    CALIBRATION = "calibration"
    PREFERENCES = "preferences"
    SUMMARY = "summary"
    LABELS_WANTED = "labels-wanted"


_FOR = {
    "messages": {What.PREFERENCES},
    "by": {What.SUMMARY, What.LABELS_WANTED},
    "labels": {What.SUMMARY, What.LABELS_WANTED},
    "threshold": {What.SUMMARY},
    "n": {What.LABELS_WANTED},
    "length-control": {What.RANKING},
}
"""What each option of ``robin export`` is for that is not for all."""

_RENDERED = {"attribute", "rubric", "template", "answer_format", "columns", "skip_bad_rows"}
_RENDERED |= {"pairwise", "no_ties", "reference", "decide"}


app = typer.Typer()


@app.command(epilog="Example: robin status runs/20261120T101500Z-helpfulness --json")
def status(
    run: opt.Run,
    labels: opt.Labels = None,
    json: opt.Json = False,
) -> None:
    """Say where a run stands: budget, failures, and how far off a score may be."""
    from rich.console import Console

    from robin_cli.render.json import print_json
    from robin_cli.render.terminal import print_facts
    from robin_cli.views.status import status_of

    found = status_of(run, labels=labels)
    print_json(found.facts, indent=True) if json else print_facts(Console(soft_wrap=True), found.lines)


@app.command(cls=opt.taking(is_of_rows), epilog="Example: robin runs")
def runs(
    ctx: typer.Context,
    folder: Annotated[Path, typer.Argument(help="The folder that holds them.")] = Path("runs"),
    json: Annotated[bool, typer.Option("--json", help="One JSON object a line, for scripts.")] = False,
) -> None:
    """List the runs here, the oldest first, and where each stands."""
    from robin_cli.render.files import check_output
    from robin_cli.render.json import print_json
    from robin_cli.views.run_list import run_table, runs_in

    given = settings_of_rows(ctx, by_flags_alone=True)
    check_output(given.format, given.output)
    found = runs_in(folder)
    for_people = given.format in {None, "table"} and given.output is None
    if json:
        print_json(*found)
    elif found or not for_people:
        top, say = ctx.obj.get("top", len(found)), partial(typer.echo, err=True)
        show([run_table(found)], given, {}, say, for_people=for_people, top=top)
    else:
        typer.echo(f"no runs in {folder}; robin judge makes them", err=True)


@app.command(
    cls=opt.taking(lambda each: is_of_rows(each) or each.name in {"with_text", "wide"}),
    epilog="Example: robin export runs/20261120T101500Z-helpfulness -o scores.xlsx",
)
def export(
    ctx: typer.Context,
    run: opt.Run,
    what: Annotated[
        What,
        typer.Option(
            help="The scores; the scores of each judge; the ranking of the systems of a pairwise run; every judgment; "
            "agreement with human ratings, and of the judge with itself; human ratings by score; preferences, for training; "
            "means of the scores; pairs for people to label."
        ),
    ] = What.SCORES,
    length_control: Annotated[
        bool, typer.Option("--length-control", help="Ranking: take out what preferences go by length.")
    ] = False,
    excel: Annotated[bool, typer.Option("--excel", help="CSV or TSV that Excel opens right by double click.")] = False,
    messages: Annotated[
        bool,
        typer.Option("--messages", help="Preferences as conversations, for trainers of chat models: jsonl or parquet."),
    ] = False,
    by: Annotated[
        str | None,
        typer.Option(
            help="Summary: a mean for each value of this column of the data, as system. Labels wanted: whole prompts, for "
            "differences between these.",
            metavar="COLUMN",
            show_default=False,
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(help="Summary: also the share of scores at it or above.", metavar="T", show_default=False),
    ] = None,
    labels: opt.Labels = None,
    n: Annotated[
        int | None,
        typer.Option("--n", help="Labels wanted: of how many pairs. (default: 50)", metavar="N", show_default=False),
    ] = None,
    to_hub: Annotated[
        str | None,
        typer.Option(
            "--to-hub",
            metavar="OWNER/NAME",
            help="Push the results to this data set of the Hugging Face hub, private if it is new, in place of writing a file.",
        ),
    ] = None,
    public: Annotated[bool, typer.Option("--public", help="With --to-hub: let everyone read them.")] = False,
) -> None:
    """Write results for spreadsheets and notebooks; CSV on standard output by default."""
    from robin_cli.model.errors import InputError
    from robin_cli.render.files import check_output
    from robin_cli.runner.inputs import files_read_by
    from robin_cli.storage.manifest import settings_of
    from robin_cli.views.messages import messages_for

    given = settings_of_rows(ctx)
    check_output(given.format, given.output, [*files_read_by(run), *filter(None, [labels])])
    options: dict[str, Any] = {"messages": messages, "by": by, "labels": labels, "threshold": threshold, "n": n}
    options["length-control"] = length_control
    for name, value in options.items():
        if value is not None and value is not False and what not in _FOR[name]:
            raise InputError(f"--{name}: is for --what {' or '.join(sorted(_FOR[name]))}; leave it out")
    notify = messages_for().note
    push = _pushing(given, to_hub, what, notify, excel=excel, public=public)
    table = _table_of(run, what, given, options, notify)
    if push is not None:
        push(table)
    else:
        show([table], given, settings_of(run), notify, excel=excel, for_people=given.format == "table")


def _table_of(run: Path, what: What, given: Settings, options: dict[str, Any], notify: Callable[[str], None]) -> Table:
    """What is asked for, by the ``options`` that are for some of it."""
    from robin_cli.goals.found import View
    from robin_cli.goals.making import goal_of_run
    from robin_cli.goals.tables.judgments import judgment_table
    from robin_cli.storage.reader import read_run

    if what is What.JUDGMENTS:  # a million of them are not read into memory at once
        return judgment_table(run)
    for_people, by_length = given.format == "table", options.pop("length-control")
    view = View(given.sort if for_people else None, given.with_text, given.wide, by_length=by_length, **options)
    if not (for_people and what is What.RANKING):  # where it is printed, its notes stand under it
        view = replace(view, notify=notify)
    data = read_run(run)
    table = goal_of_run(data).found(data).table(what, view)
    if what is What.LABELS_WANTED and "xlsx" in {given.format, (given.output or "").rpartition(".")[2].lower()}:
        notify("--labels reads no .xlsx: save it as .csv once it is filled in")
    return table


def _pushing(
    given: Settings, name: str | None, what: What, notify: Callable[[str], None], *, excel: bool, public: bool
) -> Callable[[Table], None] | None:
    """What pushes results to the hub, where they are to go there; InputError where that cannot be."""
    from robin_cli.model.errors import InputError
    from robin_cli.views.to_hub import check_hub, push

    if name is None:
        if public:
            raise InputError("--public: is for --to-hub; name a data set, or leave it out")
        return None
    of_files = {"-o": given.output, "--format": given.format, "--excel": excel, "--raw": given.raw}
    if flag := next((flag for flag, value in of_files.items() if value), None):
        raise InputError(f"--to-hub: writes no file, so that {flag} says nothing there; leave one of the two out")
    check_hub(name)
    return partial(push, name=name, config=what.value, public=public, notify=notify)


@app.command(
    cls=opt.taking(lambda each: each.name in _RENDERED),
    epilog="Example: robin render pairs.jsonl --pair 1f3870be274f6c49 --attribute helpfulness",
)
def render(
    ctx: typer.Context,
    data: Annotated[
        list[str],
        typer.Argument(help="Prompt-response pairs, as for robin judge.", metavar="DATA", show_default=False),
    ],
    pair: Annotated[str, typer.Option(help="The pair's id; of a comparison the comparison's.", show_default=False)],
) -> None:
    """Print the exact messages that would be sent for one pair, and the structure that goes with them if there is one.

    With --pairwise these are two questions: the same responses in both orders.
    """
    import orjson

    from robin_cli.datasets.comparisons import load_comparisons
    from robin_cli.datasets.pairs import load_pairs
    from robin_cli.goals.checks import check_pairwise
    from robin_cli.model.errors import InputError
    from robin_cli.runner.inputs import prompts_of
    from robin_cli.settings.reading import load_settings

    config = load_settings(ctx.obj, None)
    check_pairwise(config)
    prompts = prompts_of(config)
    read: Callable[..., Any] = load_pairs
    if config.pairwise:
        read = partial(load_comparisons, reference=config.reference, wants_best=config.decide is not None)
    dataset = read(data, columns=config.columns or None, skip_bad_rows=config.skip_bad_rows)
    pairs = dataset.pairs
    found = next((each for each in pairs if each.pair_id == pair), None)
    if found is None:
        raise InputError(
            f'--pair "{pair}": not in {dataset.source}; its first ids are {", ".join(p.pair_id for p in pairs[:3])}'
        )
    prompts.check_references([found])
    for name, (number, variant) in product(prompts.attributes, enumerate(prompts.kind.variants)):
        for message in prompts.messages(found, name, number):
            _print_part(f"{message['role']}{variant and f', {variant}'}", message["content"])
        if structure := prompts.kind.form.structure(config.answer_format, prompts.rubrics[name].scale):
            _print_part("sent along", orjson.dumps(structure, option=orjson.OPT_INDENT_2).decode())


def _print_part(title: str, content: str) -> None:
    from robin_cli.render.text import plain

    text = f"[{title}]\n{content}\n\n"
    if sys.stdout.isatty():  # there text from the data must not act
        print(plain(text), end="")
    else:  # what would be sent, to the letter
        sys.stdout.buffer.write(text.encode())


@app.command(epilog="Example: robin parse answers.jsonl --scale 0-4")
def parse(
    file: Annotated[str, typer.Argument(help="JSON lines with a field text; - for standard input.")] = "-",
    scale: Annotated[str, typer.Option(help="The ratings allowed.")] = "0-4",
    answer_format: Annotated[str, typer.Option(help="How the judge answered: text, json_schema or grammar.")] = "text",
    pairwise: Annotated[
        bool, typer.Option("--pairwise", help="Read verdicts on two responses: A, B or tie; the scale says nothing.")
    ] = False,
    no_ties: Annotated[bool, typer.Option("--no-ties", help="With --pairwise: a tie is no verdict.")] = False,
) -> None:
    """Run the rating parser over judge outputs, a JSON object a line."""
    from robin_cli.model.errors import InputError
    from robin_cli.views.parsing import parse_lines

    if no_ties and not pairwise:
        raise InputError("--no-ties: is for --pairwise; add that, or leave it out")
    read = partial(parse_lines, answer_format=answer_format, pairwise=pairwise, ties=not no_ties)
    if file == "-":
        read(sys.stdin.buffer, "standard input", scale, sys.stdout.buffer)
        return
    try:
        stream = Path(file).open("rb")  # noqa: SIM115  # closed below; only opening it is a user's error
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror})") from error
    with stream:
        read(stream, file, scale, sys.stdout.buffer)
