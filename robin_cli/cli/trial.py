"""robin try: which judge, and which wording of the question, to take. It is a run of each wording, and a table."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robin_cli.cli.checks import check_first, inputs_of
from robin_cli.cli.options import Invocation, command
from robin_cli.cli.output import output_of, show
from robin_cli.model.errors import InputError, Unrated, typed

if TYPE_CHECKING:
    from robin_cli.goals.trial import Configuration, Trial
    from robin_cli.settings.table import Settings
    from robin_cli.show.messages import Messages

_OF_RUNS = (
    "data attribute rubric base_url model api_key_env columns group skip_bad_rows encoding answers "
    "strip_thinking price_in price_out price_cached concurrency rpm tpm temperature top_p seed "
    "max_tokens reasoning_effort timeout max_retries extra_body"
)
_BY_JUDGE = ("model", "answers", "price_in", "price_out", "price_cached")


@command(
    "try pairs.jsonl -a helpfulness --model A --model B --limit 50 --labels people.csv",
    "config template",
    f"{_OF_RUNS} labels limit budget run format output raw quiet".split(),
    name="try",
    words={
        "attribute": "What to rate.",
        "rubric": "A rubric to try, .toml or .yaml; repeat the flag for several.",
        "model": "A judge to try, NAME or NAME@URL; repeat the flag for several.",
        "labels": "People's ratings of the pairs; without any, judges of other families count.",
        "limit": "Pairs to rate. (default: 200, or what --budget pays for)",
        "budget": "Judge calls to spend, in all.",
        "run": "A folder for the runs, new or of the same command. (default: runs/TIME-try)",
    },
)
def trial(call: Invocation) -> None:
    """Find which judge and which wording to take.

    Every --model rates the same pairs with every --template and every --rubric, some of them twice. robin compares each
    with people's ratings: --labels, or those in the data. Without any, it compares judges of different families. It drops
    what is clearly worse after 30 labelled prompts. To go on after an interruption, repeat the command with the same --run.
    """
    from robin_cli.show.messages import messages_for

    settings, templates = call.load_settings(), call.flags.template or ()
    for name in ("max_cost", "pairwise", "batch"):
        if getattr(settings, name) or f"ROBIN_{name.upper()}" in os.environ:
            flag = f"--{name.replace('_', '-')}"
            raise InputError(f"{flag}: is not for robin try; unset it in robin.toml and ROBIN_*")
    reads = [*inputs_of(settings), *templates, *filter(None, [settings.labels])]
    output, messages = output_of(call, reads), messages_for(quiet=settings.quiet)
    chosen = _configurations(settings, templates or (settings.template or "",))
    results = _ask(chosen, settings, messages)
    show(results.table(), output, messages.note)
    for line in results.suggestion():
        messages.note(line)


def _configurations(settings: Settings, templates: Sequence[str]) -> dict[Configuration, Settings]:
    """Return the settings of each judge with each wording. InputError if there are not two to choose from."""
    from robin_cli.goals.trial import Configuration
    from robin_cli.settings.resolve import resolve
    from robin_cli.settings.table import Settings

    rubrics: list[dict[str, Any]] = [{"rubric": (each,)} for each in dict.fromkeys(settings.rubric)]
    if len(settings.attribute) + bool(rubrics) != 1:
        raise InputError("--attribute: name one, or give --rubric FILE in place of it")
    values: dict[str, Any] = {name: getattr(settings, name) for name in _OF_RUNS.split()}
    values |= {"repeat_anyway": True, "scheduler": "uniform", "source": settings.source}
    chosen = {}
    for template, rubric in product(dict.fromkeys(templates), rubrics or [{}]):
        panel = replace(Settings(**values), template=template or None, **rubric)
        check_first(panel)
        for at, judge in enumerate(resolve(panel).judges):
            own = {name: values[name][at : at + 1] for name in _BY_JUDGE if len(values[name]) > 1}
            # alone, too, a judge at an address of its own gets no key that the user did not name for it
            own["api_key_env"] = (judge.api_key_env,)
            names = judge.name, template, "".join(panel.rubric), panel.model[at]
            chosen[Configuration(*names)] = replace(panel, **own)
    if len(chosen) < 2:
        raise InputError("--model: nothing to choose; add a --model, --template or --rubric")
    return chosen


def _ask(chosen: dict[Configuration, Settings], settings: Settings, messages: Messages) -> Trial:
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
    trial = Trial(list(chosen), dataset.pairs, truth, messages.note)
    folder = Path(settings.run or f"runs/{datetime.now(UTC):%Y%m%dT%H%M%SZ}-try")
    step = f"repeat the command with --run {typed(folder)}"
    messages.note(f"runs: {folder}")
    for stage, (places, twice) in enumerate(trial.stages(settings.limit, settings.budget), 1):
        pairs, count = [dataset.pairs[place] for place in places], len(places)
        texts = repr([(pair.pair_id, pair.prompt, pair.response) for pair in pairs])
        of_stage = replace(
            dataset, pairs=PairTable.from_pairs(pairs), sha256=sha256(texts.encode()).hexdigest()
        )
        for number in np.flatnonzero(trial.is_kept).tolist():
            run = folder / f"{stage}-{number + 1}"
            own = replace(alone[number], budget=count + twice, limit=count, run=str(run))
            resolved = resolve(own)
            store = open_run(own, resolved, messages.note, of_stage)
            with store, suppress(Unrated):  # the table shows it
                spend(store, own, resolved, messages, step)
            trial.add(run, number)
    return trial
