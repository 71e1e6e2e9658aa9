"""robin try: which judge, and which wording of the question, to take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from robin_cli.cli import options as opt
from robin_cli.cli.showing import is_for_people, settings_of_rows, show

if TYPE_CHECKING:
    from robin_cli.data.pairs import Dataset
    from robin_cli.model.arms import FloatArray
    from robin_cli.settings.table import Settings
    from robin_cli.show.messages import Messages
    from robin_cli.show.trial import Trial

_PROMPTS = 50
"""Prompts without --limit or --budget."""

_TWICE = 40
"""Pairs that each judge rates twice, to show its noise."""

_PER_JUDGE = ("model", "api_key_env", "answers", "price_in", "price_out", "price_cached")
_TRIED = (
    "data attribute rubric base_url model api_key_env columns group labels skip_bad_rows encoding strip_thinking limit "
    "budget price_in price_out price_cached concurrency answers rpm tpm temperature top_p max_tokens reasoning_effort "
    "timeout max_retries extra_body seed run format output raw quiet"
)
"""The settings of robin judge that a trial takes."""

app = typer.Typer()


@app.command(
    "try",
    cls=opt.taking(lambda setting: setting.name in _TRIED.split()),
    epilog="Example: robin try pairs.jsonl -a helpfulness --model A --model B --limit 50 --labels people.csv",
)
def trial(
    ctx: typer.Context,
    config: opt.Config = None,
    template: Annotated[
        list[str] | None,
        typer.Option(
            help="A prompt to try: a file, or the name of a ready one; repeat the flag for several.",
            metavar="FILE",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Find which judge and which wording to take: each rates the same pairs once, and people's labels say who is right.

    Every --model is tried with every --template and every --rubric. Without --labels, or human ratings in the data, judges
    are held against those of other families. A judge that is clearly worse after 30 labelled prompts is dropped.
    """
    from robin_cli.cli.first import check_first
    from robin_cli.session.inputs import checked_data, pairs_of
    from robin_cli.session.prompts import prompts_of
    from robin_cli.settings.reading import load_settings
    from robin_cli.show.messages import messages_for

    settings = replace(load_settings(ctx.obj, config), repeat_anyway=True, scheduler="uniform")
    tried = list(_wordings(settings, template or []))
    for each in tried:
        check_first(each)
    messages = messages_for(quiet=settings.quiet)
    prompts = prompts_of(tried[0])
    found = pairs_of(replace(tried[0], limit=None), prompts, messages.note)
    dataset = checked_data(found, tried[0], prompts, messages.note)
    truth = _truth(settings, dataset, prompts.attributes[0], prompts.scales[0])
    done = _tried(tried, dataset, truth, messages)
    given = settings_of_rows(ctx)
    show([done.table()], given, messages.note, for_people=is_for_people(given))
    for line in done.suggestion():
        messages.note(line)


def _wordings(settings: Settings, templates: Sequence[str]) -> Iterator[Settings]:
    """Yield the settings of each wording. InputError if there are not two judges or wordings to choose from."""
    from robin_cli.model.errors import InputError

    rubrics: list[dict[str, Any]] = [{"rubric": (each,)} for each in settings.rubric]
    if rubrics and settings.attribute:
        raise InputError("--attribute: the rubric names it; leave it out, or leave --rubric out")
    if not rubrics and len(settings.attribute) != 1:
        raise InputError(
            "--attribute: name the one attribute that the judges rate, or give --rubric FILE"
        )
    if len(settings.model) * max(1, len(templates)) * max(1, len(rubrics)) < 2:
        raise InputError(
            "--model: there is nothing to choose; give a second --model, --template or --rubric"
        )
    for template, rubric in product(templates or [""], rubrics or [{}]):
        yield replace(settings, template=template or None, **rubric)


def _truth(settings: Settings, dataset: Dataset, attribute: str, scale: Any) -> FloatArray | None:
    """Return people's rating of each pair, nan for none; None if there is none at all."""
    import numpy as np

    from robin_cli.data.labels import load_labels

    truth = dataset.pairs.human(attribute)
    if settings.labels is not None:
        ids = {pair_id: place for place, pair_id in enumerate(dataset.pairs.ids)}
        given = load_labels(settings.labels, frozenset(ids), {attribute: scale}, called="labels")
        truth = np.full(len(ids), np.nan)
        for pair_id, label in given.by_attribute[attribute].items():
            truth[ids[pair_id]] = label.value
        for named in given.best:
            group = dataset.pairs.groups == dataset.pairs.groups[ids[named.pair_id]]
            truth[group] = 0.0
            truth[ids[named.pair_id]] = 1.0
    return None if np.isnan(truth).all() else truth


def _tried(
    wordings: Sequence[Settings], dataset: Dataset, truth: FloatArray | None, messages: Messages
) -> Trial:
    """Ask every judge with every wording: about the first prompts, and then those that are not worse about the others."""
    from robin_cli.settings.addresses import judge_name
    from robin_cli.show.trial import Configuration, Trial
    from robin_cli.stats.choosing import FEWEST_PROMPTS

    chosen = [
        Configuration(judge, each.template or "", "".join(each.rubric))
        for each in wordings
        for judge in map(judge_name, each.model)
    ]
    places = {pair_id: place for place, pair_id in enumerate(dataset.pairs.ids)}
    found = Trial(chosen, places, truth, dataset.pairs.groups)
    folder = Path(wordings[0].run or Path("runs") / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-try")
    for number, (pairs, more) in enumerate(_stages(dataset, truth, wordings[0], len(chosen)), 1):
        for at, settings in enumerate(wordings):
            every = range(at * len(settings.model), (at + 1) * len(settings.model))
            judges = [judge for judge in every if found.is_kept[judge]]
            if judges:
                run, budget = folder / f"{number}-{at + 1}", len(judges) * (len(pairs.pairs) + more)
                own = [judge - every.start for judge in judges]
                _judge(_with_judges(settings, own, budget, run), pairs, messages)
                found.add(run, judges)
        for line in found.look(FEWEST_PROMPTS):
            messages.note(line)
    messages.note(f"runs: {folder}")
    return found


def _stages(
    dataset: Dataset, truth: FloatArray | None, settings: Settings, judges: int
) -> Iterator[tuple[Dataset, int]]:
    """Yield the first prompts' pairs, then the others', and how many are rated twice; labelled prompts come first."""
    import numpy as np

    from robin_cli.data.pair_table import PairTable
    from robin_cli.model.errors import InputError
    from robin_cli.stats.choosing import FEWEST_PROMPTS

    prompt = dataset.pairs.groups
    is_labelled = np.zeros(int(prompt.max()) + 1, dtype=bool)
    is_labelled[prompt[~np.isnan(truth)] if truth is not None else prompt] = True
    order = np.lexsort((prompt, ~is_labelled[prompt]))
    rank = np.cumsum(np.diff(prompt[order], prepend=-1) != 0)  # of each pair's prompt, from 1
    count = settings.limit or len(order)
    if settings.limit is settings.budget is None:
        count = int((rank <= _PROMPTS).sum())
    twice = min(_TWICE, count)
    if settings.budget is not None:
        count = min(count, settings.budget // judges - twice)
    if count < 1:
        raise InputError(
            f"--budget {settings.budget}: is too small for {judges} judges and wordings"
        )
    first = int((rank[:count] <= FEWEST_PROMPTS).sum())
    for places, more in ((order[:first], min(twice, first)), (order[first:count], 0)):
        if len(places):
            pairs = PairTable.of(dataset.pairs[at] for at in places.tolist())
            yield replace(dataset, pairs=pairs), more


def _with_judges(settings: Settings, judges: Sequence[int], budget: int, run: Path) -> Settings:
    """Return the settings of a run with some of the judges."""
    own = {name: getattr(settings, name) for name in _PER_JUDGE}
    count = len(settings.model)
    own = {
        name: tuple(each[judge] for judge in judges) if len(each) == count else each
        for name, each in own.items()
    }
    return replace(
        settings, **own, budget=budget, run=str(run), limit=None, labels=None, output=None
    )


def _judge(settings: Settings, pairs: Dataset, messages: Messages) -> None:
    """Spend the budget of a run, a new one or one that goes on."""
    from robin_cli.cli.work import spend
    from robin_cli.session.checking import check_judges
    from robin_cli.session.opening import open_run
    from robin_cli.settings.resolve import resolve

    resolved = resolve(settings)
    check_judges(resolved)
    with open_run(settings, resolved, messages.note, pairs) as store:
        spend(store, settings, resolved, messages)
