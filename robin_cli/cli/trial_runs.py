"""The runs of ``robin try``."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from robin_cli.cli.checks import check_first
from robin_cli.cli.work import spend
from robin_cli.data.pair_table import PairTable
from robin_cli.data.pairs import Dataset
from robin_cli.goals.trial import FIRST_PROMPTS, Configuration, Trial, truth_of
from robin_cli.model.arms import FloatArray
from robin_cli.model.errors import InputError
from robin_cli.session.checking import check_judges
from robin_cli.session.inputs import checked_data, pairs_of
from robin_cli.session.opening import open_run
from robin_cli.session.prompts import prompts_of
from robin_cli.settings.resolve import judges_of, resolve
from robin_cli.settings.table import Settings
from robin_cli.show.messages import Messages

_PROMPTS = 50
"""Prompts without --limit or --budget."""

_TWICE = 40
"""Pairs that each judge rates twice, to show its noise."""


def run_trial(
    settings: Settings, templates: Sequence[str], taken: Collection[str], messages: Messages
) -> Trial:
    """Ask every judge with every wording about the same pairs.

    Args:
        taken: the settings that count; others are for single runs.

    Raises:
        InputError: there is nothing to choose, or nothing that says which judge is right.
    """
    own = {name: getattr(settings, name) for name in taken}
    plain = Settings(**own, repeat_anyway=True, scheduler="uniform", source=settings.source)
    wordings = list(_wordings(plain, templates))
    for each in wordings:
        check_first(each)
    prompts = prompts_of(wordings[0])
    dataset = pairs_of(replace(wordings[0], limit=None), prompts, messages.note)
    dataset = checked_data(dataset, wordings[0], prompts, messages.note)
    truth = truth_of(dataset.pairs, plain.labels, prompts.attributes[0], prompts.scales[0])
    chosen = [
        Configuration(judge.name, each.template or "", "".join(each.rubric))
        for each in wordings
        for judge in judges_of(each)
    ]
    if truth is None and len({each.family for each in chosen}) < 2:
        raise InputError(
            f"--labels: there are none, and all judges are of one family ({chosen[0].family}), so nothing says which of them "
            "is right; give people's labels, or a judge of another family"
        )
    places = {pair_id: place for place, pair_id in enumerate(dataset.pairs.ids)}
    found = Trial(chosen, places, truth, dataset.pairs.groups)
    folder = Path(plain.run or Path("runs") / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-try")
    for stage, (pairs, twice) in enumerate(_stages(dataset, truth, plain, len(chosen)), 1):
        for at, of_wording in enumerate(wordings):
            first, run = at * len(plain.model), folder / f"{stage}-{at + 1}"
            judges = [n for n in range(len(plain.model)) if found.is_kept[first + n]]
            if judges:
                _judge(of_wording, judges, pairs, twice, run, messages)
                found.add(run, [first + n for n in judges])
        for line in found.look():
            messages.note(line)
    messages.note(f"runs: {folder}")
    return found


def _wordings(settings: Settings, templates: Sequence[str]) -> Iterator[Settings]:
    """Yield the settings of each wording. InputError if there are not two judges or wordings to choose from."""
    rubrics: list[dict[str, Any]] = [{"rubric": (each,)} for each in settings.rubric]
    if rubrics and settings.attribute:
        raise InputError("--attribute: the rubric names it; leave it out, or leave --rubric out")
    if not rubrics and len(settings.attribute) != 1:
        raise InputError("--attribute: name the one that the judges rate, or give --rubric FILE")
    if len(settings.model) * len(templates) * max(1, len(rubrics)) < 2:
        raise InputError(
            "--model: there is nothing to choose; give a second --model, --template or --rubric"
        )
    for template, rubric in product(templates, rubrics or [{}]):
        yield replace(settings, template=template or None, **rubric)


def _stages(
    dataset: Dataset, truth: FloatArray | None, settings: Settings, configurations: int
) -> Iterator[tuple[Dataset, int]]:
    """Yield the first prompts' pairs, then the others', and how many are rated twice; labelled prompts come first."""
    prompt = dataset.pairs.groups
    is_labelled = np.zeros(int(prompt.max()) + 1, dtype=np.bool_)
    is_labelled[prompt if truth is None else prompt[~np.isnan(truth)]] = True
    order = np.lexsort((prompt, ~is_labelled[prompt]))
    rank = np.cumsum(np.diff(prompt[order], prepend=-1) != 0)  # of each pair's prompt, from 1
    count = settings.limit or len(order)
    if settings.limit is settings.budget is None:
        count = int((rank <= _PROMPTS).sum())
    twice = min(_TWICE, count)
    if settings.budget is not None:
        count = min(count, settings.budget // configurations - twice)
    if count < 1:
        raise InputError(
            f"--budget {settings.budget}: is too small for {configurations} judges and wordings"
        )
    first = int((rank[:count] <= FIRST_PROMPTS).sum())
    for places, more in ((order[:first], min(twice, first)), (order[first:count], 0)):
        if len(places):
            pairs = PairTable.of(dataset.pairs[at] for at in places.tolist())
            yield replace(dataset, pairs=pairs), more


def _judge(
    settings: Settings,
    judges: Sequence[int],
    dataset: Dataset,
    twice: int,
    run: Path,
    messages: Messages,
) -> None:
    """Let some of the judges rate each pair once, and ``twice`` pairs again, in a new run or one that goes on."""
    by_judge = ("model", "api_key_env", "answers", "price_in", "price_out", "price_cached")
    own: dict[str, Any] = {
        name: tuple(values[judge] for judge in judges)
        for name in by_judge
        if len(values := getattr(settings, name)) == len(settings.model)
    }
    budget = len(judges) * (len(dataset.pairs) + twice)
    settings = replace(
        settings, **own, budget=budget, run=str(run), limit=None, labels=None, output=None
    )
    resolved = resolve(settings)
    check_judges(resolved)
    with open_run(settings, resolved, messages.note, dataset) as store:
        spend(store, settings, resolved, messages)
