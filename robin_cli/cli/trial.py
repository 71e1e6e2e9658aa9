"""robin try: which judge, and which wording of the question, to take. It is a run of each wording, and a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robin_cli.cli.checks import check_first
from robin_cli.cli.options import Invocation, command
from robin_cli.cli.output import output_of, show
from robin_cli.model.errors import InputError, typed

if TYPE_CHECKING:
    from robin_cli.data.pairs import Dataset
    from robin_cli.goals.trial import Trial
    from robin_cli.settings.table import Settings
    from robin_cli.show.messages import Messages

_TAKES = (
    "data attribute rubric base_url model api_key_env columns group labels skip_bad_rows encoding "
    "strip_thinking limit budget price_in price_out price_cached concurrency answers rpm tpm "
    "temperature top_p max_tokens reasoning_effort timeout max_retries extra_body seed run format "
    "output raw quiet"
)
"""The settings of robin judge that count; others are for single runs."""

_PROMPTS = 50
"""Prompts without --limit or --budget."""

_TWICE = 40
"""Pairs that each judge rates twice, to show its noise."""


@command(
    "try pairs.jsonl -a helpfulness --model A --model B --limit 50 --labels people.csv",
    "config template",
    _TAKES.split(),
    name="try",
    words={
        "attribute": "What to rate.",
        "rubric": "A rubric to try, .toml or .yaml; repeat the flag for several.",
        "model": "A judge to try, NAME or NAME@URL; repeat the flag for several.",
        "budget": "Judge calls to spend, in all. (default: what 50 prompts, or --limit, take)",
    },
)
def trial(call: Invocation) -> None:
    """Find which judge and which wording to take.

    Each rates the same pairs once. Every --model is tried with every --template and every --rubric. People say who is
    right, by --labels or by the human ratings of the data; without any, judges are held against those of other families.
    What is clearly worse after 30 labelled prompts is dropped. To go on after an interruption, repeat the command with the
    same --run.
    """
    from robin_cli.settings.table import Settings
    from robin_cli.show.messages import messages_for

    settings, output = call.load_settings(), output_of(call)
    messages = messages_for(quiet=settings.quiet)
    values: dict[str, Any] = {name: getattr(settings, name) for name in _TAKES.split()}
    values |= {"repeat_anyway": True, "scheduler": "uniform", "source": settings.source}
    wordings = list(_wordings(Settings(**values), call.flags.template or ("",)))
    for wording in wordings:
        check_first(wording)
    results = _run_trial(wordings, messages)
    show(results.table(), output, messages.note)
    for line in results.suggestion(_judge_command(settings)):
        messages.note(line)


def _judge_command(settings: Settings) -> str:
    """Return the beginning of a command that judges the same data, with a budget to fill in."""
    words = ["robin judge", *map(typed, settings.data)]
    for name in ("attribute", "base_url"):
        words += [f"--{name.replace('_', '-')} {typed(value)}" for value in getattr(settings, name)]
    return " ".join([*words, "--budget N"])


def _wordings(settings: Settings, templates: Sequence[str]) -> Iterator[Settings]:
    """Yield the settings of each wording. InputError if there are not two judges or wordings to choose from."""
    templates = list(dict.fromkeys(templates))
    rubrics: list[dict[str, Any]] = [
        {"rubric": (rubric,)} for rubric in dict.fromkeys(settings.rubric)
    ]
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


def _run_trial(wordings: Sequence[Settings], messages: Messages) -> Trial:
    """Ask every judge with every wording about the same pairs. InputError if nothing says which judge is right."""
    import numpy as np

    from robin_cli.data.pair_table import PairTable
    from robin_cli.goals.trial import Configuration, Trial, truth_of
    from robin_cli.session.inputs import checked_data, pairs_of
    from robin_cli.session.prompts import prompts_of
    from robin_cli.settings.resolve import judges_of

    settings, prompts = wordings[0], prompts_of(wordings[0])
    dataset = pairs_of(replace(settings, limit=None), prompts, messages.note)
    dataset = checked_data(dataset, settings, prompts, messages.note)
    truth = truth_of(dataset.pairs, settings.labels, prompts.attributes[0], prompts.scales[0])
    configurations = [
        Configuration(judge.name, wording.template or "", "".join(wording.rubric), model)
        for wording in wordings
        for judge, model in zip(judges_of(wording), wording.model, strict=True)
    ]
    if truth is None and len({each.family for each in configurations}) < 2:
        raise InputError(
            f"--labels: there are none, and all judges are of one family ({configurations[0].family}), so nothing says "
            "which of them is right; give people's labels, or a judge of another family"
        )
    trial, judges = Trial(configurations, dataset.pairs, truth), len(settings.model)
    folder = Path(settings.run or f"runs/{datetime.now(UTC):%Y%m%dT%H%M%SZ}-try")
    for stage, (places, twice) in enumerate(_stages(dataset, trial, settings), 1):
        pairs = PairTable.from_pairs(dataset.pairs[place] for place in places)
        for number, wording in enumerate(wordings):
            first, run = number * judges, folder / f"{stage}-{number + 1}"
            kept = np.flatnonzero(trial.is_kept[first : first + judges]).tolist()
            if kept:
                _judge(wording, kept, replace(dataset, pairs=pairs), twice, run, messages)
                trial.add(run, [first + judge for judge in kept])
        for line in trial.look():
            messages.note(line)
    messages.note(f"runs: {folder}")
    return trial


def _stages(dataset: Dataset, trial: Trial, settings: Settings) -> Iterator[tuple[list[int], int]]:
    """Yield the places of the first prompts' pairs, labelled ones first, then the others'; and how many are rated twice."""
    import numpy as np

    from robin_cli.goals.trial import FEWEST_PROMPTS

    prompt, truth, configurations = dataset.pairs.groups, trial.truth, len(trial.configurations)
    is_labelled = np.isin(prompt, prompt if truth is None else prompt[~np.isnan(truth)])
    order = np.lexsort((prompt, ~is_labelled))
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
    first = int((rank[:count] <= FEWEST_PROMPTS).sum())
    yield order[:first].tolist(), min(twice, first)
    if first < count:
        yield order[first:count].tolist(), 0


def _judge(
    settings: Settings,
    judges: Sequence[int],
    dataset: Dataset,
    twice: int,
    run: Path,
    messages: Messages,
) -> None:
    """Let some of the judges rate each pair once, and ``twice`` pairs again, in a new run or one that goes on."""
    from robin_cli.cli.work import spend
    from robin_cli.session.checking import check_judges
    from robin_cli.session.opening import open_run
    from robin_cli.settings.resolve import resolve

    by_judge = ("model", "api_key_env", "answers", "price_in", "price_out", "price_cached")
    of_all = {name: getattr(settings, name) for name in by_judge}
    of_these: dict[str, Any] = {
        name: tuple(values[judge] for judge in judges)
        for name, values in of_all.items()
        if len(values) == len(settings.model)
    }
    budget = len(judges) * (len(dataset.pairs) + twice)
    settings = replace(
        settings, **of_these, budget=budget, run=str(run), limit=None, labels=None, output=None
    )
    resolved = resolve(settings)
    check_judges(resolved)
    with open_run(settings, resolved, messages.note, dataset) as store:
        spend(store, settings, resolved, messages)
