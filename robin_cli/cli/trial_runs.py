"""The runs of ``robin try``, a row for each judge and wording, and which to take."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import product
from math import isnan, nan
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from robin_cli.cli.first import check_first
from robin_cli.cli.work import spend
from robin_cli.data.labels import load_labels
from robin_cli.data.pair_table import PairTable
from robin_cli.data.pairs import Dataset
from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.errors import InputError
from robin_cli.model.records import Scale, number_of
from robin_cli.run.reader import read_run
from robin_cli.session.checking import check_judges
from robin_cli.session.inputs import checked_data, pairs_of
from robin_cli.session.opening import open_run
from robin_cli.session.prompts import prompts_of
from robin_cli.settings.addresses import judge_name
from robin_cli.settings.resolve import resolve
from robin_cli.settings.table import Settings
from robin_cli.show.columns import TRIAL
from robin_cli.show.messages import Messages
from robin_cli.show.tables import Table
from robin_cli.stats.choosing import (
    FEWEST_PROMPTS,
    Agreement,
    agreement,
    consensus_of_others,
    noise_of,
    share_right,
)

_PROMPTS = 50
"""Prompts without --limit or --budget."""

_TWICE = 40
"""Pairs that each judge rates twice, to show its noise."""

_MANY = 10_000
_FAMILY_OF = {
    **dict.fromkeys(("gpt", "chatgpt", "o"), "gpt"),
    **dict.fromkeys(("claude", "haiku", "sonnet", "opus"), "claude"),
    **dict.fromkeys(("gemini", "gemma"), "gemini"),
    **dict.fromkeys(("mistral", "mixtral", "ministral", "magistral", "codestral"), "mistral"),
    **dict.fromkeys(("qwen", "qwq"), "qwen"),
    "llama": "llama",
}


class Configuration(NamedTuple):
    """A judge with a wording; ``template`` and ``rubric`` are as the user named them, "" for the default."""

    judge: str
    template: str = ""
    rubric: str = ""

    def __str__(self) -> str:
        wording = " and ".join(Path(name).stem for name in self[1:] if name)
        return f"{self.judge} with {wording}" if wording else self.judge

    @property
    def family(self) -> str:
        """The model's family by its name: gpt for openai/gpt-5.4-mini, claude for claude-haiku-4-5."""
        words = re.findall("[a-z]+", self.judge.lower().rpartition("/")[2])
        return next((_FAMILY_OF[word] for word in words if word in _FAMILY_OF), "".join(words[:1]))


class Trial:
    """The ratings of configurations so far.

    Args:
        places: of the pairs, by their ids.
        truth: people's rating of each pair, nan for none; None to hold judges against those of other families.
        prompt: the number of each pair's prompt.

    Attributes:
        found: the agreement of each configuration.
        is_kept: whether each is still asked.
    """

    found: Agreement

    def __init__(
        self,
        configurations: Sequence[Configuration],
        places: Mapping[str, int],
        truth: FloatArray | None,
        prompt: IntArray,
    ) -> None:
        self.configurations, self.truth = configurations, truth
        self._places, self._prompt = places, prompt
        self._drawn = np.full((2, len(configurations), len(places)), nan)  # the first two ratings
        # answers, those without a rating, their cost in US dollars and their latency in seconds
        self._totals = np.zeros((4, len(configurations)))
        self.is_kept = np.ones(len(configurations), dtype=np.bool_)

    def add(self, path: Path, judges: Sequence[int]) -> None:
        """Add the run at ``path``; ``judges`` are the numbers of its judges' configurations."""
        run = read_run(path, ["status", "draw", "cost_usd", "latency_s"])
        answers = {name: run.judgments[name].to_numpy() for name in run.judgments.column_names}
        pair = np.array([self._places[each] for each in run.pair_ids])[run.space.pair[run.arm]]
        judge = np.array(judges)[run.space.judge[run.arm].astype(int)]
        mean = answers["expected_rating"]
        rating = np.where(np.isnan(mean), answers["rating"], mean)
        is_answer = answers["status"] != "failed"
        for draw, drawn in enumerate(self._drawn):
            chosen = is_answer & (answers["draw"] == draw)
            drawn[judge[chosen], pair[chosen]] = rating[chosen]
        is_unparsed = answers["status"] == "unparsed"
        values = (is_answer, is_unparsed, answers["cost_usd"], answers["latency_s"])
        for total, value in zip(self._totals, values, strict=True):
            np.add.at(total, judge[is_answer], value[is_answer].astype(float))

    def look(self, fewest: float) -> Iterator[str]:
        """Compute the agreement; drop who is worse from ``fewest`` labelled prompts on, and yield a line for each."""
        truth, kept, first = self.truth, self.is_kept, self._drawn[0]
        if truth is None:
            families = [each.family for each in self.configurations]
            truth = consensus_of_others(first, families, self._prompt)
        is_asked = ~np.isnan(first).all(axis=0)
        asked = np.where(kept[:, None], first, nan)
        found = agreement(asked, np.where(is_asked, truth, nan), self._prompt)
        self.found = found if kept.all() else found.with_earlier(self.found, ~kept)
        if self.truth is not None and found.prompts >= fewest:
            for place in np.flatnonzero(found.is_worse & kept).tolist():
                dropped, best = (self.configurations[at] for at in (place, found.order[0]))
                yield f"dropped: {dropped} agrees less with people than {best}"
            self.is_kept = kept & ~found.is_worse

    def table(self) -> Table:
        """Return a row for each configuration, the best first."""
        found, (first, second), order = self.found, self._drawn, self.found.order
        answers, unparsed, cost, latency = self._totals
        values = {
            "n_pairs": (~np.isnan(first)).sum(axis=1),
            "agreement": found.value,
            "agreement_low": found.value - found.reach * found.error,
            "agreement_high": np.minimum(1.0, found.value + found.reach * found.error),
            "difference": found.difference,
            "difference_low": found.difference - found.reach * found.difference_error,
            "difference_high": found.difference + found.reach * found.difference_error,
            "noise": noise_of(first, second),
            "unparsed": unparsed / np.maximum(1, answers),
            "usd_per_1000": 1000 * cost / np.maximum(1, answers),
            "seconds_per_1000": 1000 * latency / np.maximum(1, answers),
        }
        if self.truth is not None:
            values["right"] = share_right(first, self.truth, self._prompt)
        rows = [self.configurations[at] for at in order]
        names = {name: [getattr(row, name) for row in rows] for name in Configuration._fields}
        names = {name: texts for name, texts in names.items() if any(texts)}
        return TRIAL.of({**names, **{name: value[order] for name, value in values.items()}})

    def suggestion(self) -> list[str]:
        """Return which judge to take, and which two for a second opinion, in a line each."""
        found, chosen = self.found, self.configurations
        whom = "the judges of other families" if self.truth is None else "people"
        rated = [at for at in found.order if not isnan(found.value[at])]
        if not rated:
            return [f"no judge can be suggested: none has ratings that vary as those of {whom} do"]
        best, *rest = rated
        over = f"{found.value[best]:.2f} over {number_of(found.prompts, 'prompt')}"
        told = [found.more_prompts(at) for at in rest]
        close = [(more, at) for more, at in zip(told, rest, strict=True) if more]
        if close:
            more, at = close[0]
            needed = (
                f"more than {_MANY:,}"
                if more > _MANY
                else f"about {max(1, round(more, 1 - len(str(int(more))))):,.0f}"
            )
            prompts = "more prompts" if self.truth is None else "more labelled prompts"
            first = (
                f"{chosen[best]} agrees most with {whom} ({over}), but {number_of(len(close), 'other')} may be as good: "
                f"{needed} {prompts} would tell it from {chosen[at]}"
            )
        else:
            first = f"take {chosen[best]}: it agrees best with {whom} ({over})"
        other = next((at for at in rest if chosen[at].family != chosen[best].family), None)
        if other is None:
            return [first, "for a second opinion, add a judge of another family"]
        judges = f"--model {chosen[best].judge} --model {chosen[other].judge}"
        return [
            first,
            f"for a second opinion take {chosen[best]} and {chosen[other]}: robin judge --decide best {judges}",
        ]


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
    truth = _truth(plain, dataset, prompts.attributes[0], prompts.scales[0])
    chosen = [
        Configuration(judge, each.template or "", "".join(each.rubric))
        for each in wordings
        for judge in map(judge_name, each.model)
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
        for line in found.look(FEWEST_PROMPTS):
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


def _truth(settings: Settings, dataset: Dataset, attribute: str, scale: Scale) -> FloatArray | None:
    """Return people's rating of each pair, nan for none; None if there is none at all."""
    truth = dataset.pairs.human(attribute)
    if settings.labels is not None:
        places = {pair_id: place for place, pair_id in enumerate(dataset.pairs.ids)}
        given = load_labels(settings.labels, frozenset(places), {attribute: scale}, called="labels")
        truth = np.full(len(places), nan)
        for pair_id, label in given.by_attribute[attribute].items():
            truth[places[pair_id]] = label.value
        for named in given.best:
            groups, place = dataset.pairs.groups, places[named.pair_id]
            truth[groups == groups[place]] = 0.0
            truth[place] = 1.0
    return None if np.isnan(truth).all() else truth


def _stages(
    dataset: Dataset, truth: FloatArray | None, settings: Settings, judges: int
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
