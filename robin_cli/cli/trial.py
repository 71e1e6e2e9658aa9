"""robin try: which judge, and which wording of the question, to take. It is a run of each wording, and a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robin_cli.cli.checks import check_first
from robin_cli.cli.options import Invocation, command
from robin_cli.cli.output import output_of, show
from robin_cli.model.errors import InputError, Unrated, typed

if TYPE_CHECKING:
    from robin_cli.goals.trial import Configuration, Trial
    from robin_cli.settings.table import Settings
    from robin_cli.show.messages import Messages

_TAKES = (
    "data attribute rubric base_url model api_key_env columns group labels skip_bad_rows encoding "
    "strip_thinking limit budget price_in price_out price_cached concurrency answers rpm tpm "
    "temperature top_p max_tokens reasoning_effort timeout max_retries extra_body seed run format "
    "output raw quiet"
)
"""The settings of robin judge that count; others are for single runs."""

_BY_JUDGE = ("model", "answers", "price_in", "price_out", "price_cached")


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

    Every --model rates the same pairs once with every --template and every --rubric. People say who is right, by --labels
    or by the human ratings of the data; without any, judges are held against those of other families. What is clearly
    worse after 30 labelled prompts is dropped. To go on after an interruption, repeat the command with the same --run.
    """
    from robin_cli.show.messages import messages_for

    settings, output = call.load_settings(), output_of(call)
    messages = messages_for(quiet=settings.quiet)
    chosen = _configurations(settings, call.flags.template or ("",))
    results = _run_trial(chosen, settings, messages)
    show(results.table(), output, messages.note)
    words = ["robin judge", *map(typed, settings.data)]
    words += [f"--attribute {typed(each)}" for each in settings.attribute]
    words += [f"--base-url {typed(each)}" for each in settings.base_url]
    for line in results.suggestion(" ".join(words)):
        messages.note(line)


def _configurations(settings: Settings, templates: Sequence[str]) -> dict[Configuration, Settings]:
    """Return the settings of each judge with each wording. InputError if there are not two to choose from."""
    from robin_cli.goals.trial import Configuration
    from robin_cli.settings.resolve import resolve
    from robin_cli.settings.table import Settings

    rubrics: list[dict[str, Any]] = [{"rubric": (each,)} for each in dict.fromkeys(settings.rubric)]
    if rubrics and settings.attribute:
        raise InputError("--attribute: the rubric names it; leave it out, or leave --rubric out")
    if not rubrics and len(settings.attribute) != 1:
        raise InputError("--attribute: name the one that the judges rate, or give --rubric FILE")
    values: dict[str, Any] = {name: getattr(settings, name) for name in _TAKES.split()}
    values |= {"repeat_anyway": True, "scheduler": "uniform", "source": settings.source}
    values |= {"limit": None, "labels": None, "output": None}
    chosen = {}
    for template, rubric in product(dict.fromkeys(templates), rubrics or [{}]):
        panel = replace(Settings(**values), template=template or None, **rubric)
        check_first(panel)
        for at, judge in enumerate(resolve(panel).judges):
            own = {name: values[name][at : at + 1] for name in _BY_JUDGE if len(values[name]) > 1}
            # alone, too, a judge at an address of its own gets no key that the user did not name for it
            own["api_key_env"] = (judge.api_key_env,)
            alone = replace(panel, **own)
            configuration = Configuration(judge.name, template, "".join(alone.rubric), *alone.model)
            chosen[configuration] = alone
    if len(chosen) < 2:
        raise InputError(
            "--model: there is nothing to choose; give a second --model, --template or --rubric"
        )
    return chosen


def _run_trial(
    chosen: Mapping[Configuration, Settings], settings: Settings, messages: Messages
) -> Trial:
    """Ask every judge with every wording about the same pairs. InputError if nothing says which judge is right."""
    import numpy as np

    from robin_cli.cli.work import spend
    from robin_cli.data.pair_table import PairTable
    from robin_cli.goals.trial import Trial, truth_of
    from robin_cli.session.inputs import checked_data, pairs_of
    from robin_cli.session.opening import open_run
    from robin_cli.session.prompts import prompts_of
    from robin_cli.settings.resolve import resolve

    alone = list(chosen.values())
    prompts = prompts_of(alone[0])
    dataset = pairs_of(alone[0], prompts, messages.note)
    dataset = checked_data(dataset, alone[0], prompts, messages.note)
    truth = truth_of(dataset.pairs, settings.labels, prompts)
    trial = Trial(list(chosen), dataset.pairs, truth)
    folder = Path(settings.run or f"runs/{datetime.now(UTC):%Y%m%dT%H%M%SZ}-try")
    for stage, (places, twice) in enumerate(trial.stages(settings.limit, settings.budget), 1):
        pairs = PairTable.from_pairs(dataset.pairs[place] for place in places)
        for number in np.flatnonzero(trial.is_kept).tolist():
            run, budget = folder / f"{stage}-{number + 1}", len(places) + twice
            own = replace(alone[number], budget=budget, run=str(run))
            resolved = resolve(own)
            store = open_run(own, resolved, messages.note, replace(dataset, pairs=pairs))
            with store, suppress(Unrated):  # the table shows it
                spend(store, own, resolved, messages)
            trial.add(run, number)
        for line in trial.look():
            messages.note(line)
    messages.note(f"runs: {folder}")
    return trial
