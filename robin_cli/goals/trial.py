"""What ``robin try`` finds: the agreement of each judge and wording, and which to take."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from math import isnan, nan
from pathlib import Path
from typing import NamedTuple

import numpy as np

from robin_cli.data.pair_table import PairTable
from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.records import Scale, number_of
from robin_cli.run.reader import read_run
from robin_cli.show.columns import TRIAL
from robin_cli.show.tables import Table
from robin_cli.stats.choosing import (
    FEWEST_PROMPTS,
    JudgeAgreement,
    agreement,
    consensus_of_others,
    noise_of,
    share_right,
)

FIRST_PROMPTS = FEWEST_PROMPTS
"""Prompts before the first look."""

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
        standing: the agreement of each configuration.
        is_kept: whether each is still asked.
    """

    standing: JudgeAgreement

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
        pair = np.array([self._places[pair_id] for pair_id in run.pair_ids])[
            run.space.pair[run.arm]
        ]
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

    def look(self) -> Iterator[str]:
        """Compute the agreement; drop what is worse from FEWEST_PROMPTS labelled prompts on; yield a line for each."""
        truth, kept, first = self.truth, self.is_kept, self._drawn[0]
        if truth is None:
            families = [configuration.family for configuration in self.configurations]
            truth = consensus_of_others(first, families, self._prompt)
        is_asked = ~np.isnan(first).all(axis=0)
        asked = np.where(kept[:, None], first, nan)
        standing = agreement(asked, np.where(is_asked, truth, nan), self._prompt)
        self.standing = standing if kept.all() else standing.with_earlier(self.standing, ~kept)
        if self.truth is not None and standing.prompts >= FEWEST_PROMPTS:
            for place in np.flatnonzero(standing.is_worse & kept).tolist():
                dropped, best = (self.configurations[at] for at in (place, standing.order[0]))
                yield f"dropped: {dropped} agrees less with people than {best}"
            self.is_kept = kept & ~standing.is_worse

    def table(self) -> Table:
        standing, (first, second), order = self.standing, self._drawn, self.standing.order
        answers, unparsed, cost, latency = self._totals
        around, apart = standing.reach * standing.error, standing.reach * standing.difference_error
        answered = np.maximum(1, answers)
        values = {
            "n_pairs": (~np.isnan(first)).sum(axis=1),
            "agreement": standing.value,
            "agreement_low": standing.value - around,
            "agreement_high": np.minimum(1.0, standing.value + around),
            "difference": standing.difference,
            "difference_low": standing.difference - apart,
            "difference_high": standing.difference + apart,
            "noise": noise_of(first, second),
            "unparsed": unparsed / answered,
            "usd_per_1000": 1000 * cost / answered,
            "seconds_per_1000": 1000 * latency / answered,
        }
        if self.truth is not None:
            values["right"] = share_right(first, self.truth, self._prompt)
        rows = [self.configurations[at] for at in order]
        names = {name: [getattr(row, name) for row in rows] for name in Configuration._fields}
        names = {name: texts for name, texts in names.items() if any(texts)}
        return TRIAL.of({**names, **{name: value[order] for name, value in values.items()}})

    def suggestion(self) -> list[str]:
        """Return which judge to take, and which two for a second opinion, in a line each."""
        standing, chosen = self.standing, self.configurations
        whom, labelled = ("people", "labelled ")
        if self.truth is None:
            whom, labelled = ("the judges of other families", "")
        rated = [at for at in standing.order if not isnan(standing.value[at])]
        if not rated:
            return [f"no judge can be suggested: none has ratings that vary as those of {whom} do"]
        best, *rest = rated
        over = f"{standing.value[best]:.2f} over {number_of(standing.prompts, 'prompt')}"
        close = [(more, at) for at in rest if (more := standing.more_prompts(at))]
        first = f"take {chosen[best]}: it agrees best with {whom} ({over})"
        if close:
            more, at = close[0]
            needed = f"more than {_MANY:,}"
            if more <= _MANY:
                needed = f"about {max(1, round(more, 1 - len(str(int(more))))):,.0f}"
            first = (
                f"{chosen[best]} agrees most with {whom} ({over}), but {number_of(len(close), 'other')} may be as good: "
                f"{needed} more {labelled}prompts would tell it from {chosen[at]}"
            )
        other = next((at for at in rest if chosen[at].family != chosen[best].family), None)
        if other is None:
            return [first, "for a second opinion, add a judge of another family"]
        judges = f"--model {chosen[best].judge} --model {chosen[other].judge}"
        both = f"{chosen[best]} and {chosen[other]}"
        return [
            first,
            f"for a second opinion take {both}: robin judge --decide best {judges}",
        ]


def truth_of(
    pairs: PairTable, labels: str | None, attribute: str, scale: Scale
) -> FloatArray | None:
    """Return people's rating of each pair, nan for none; None if there is none at all. InputError as :func:`load_labels`."""
    truth = pairs.human(attribute)
    if labels is not None:
        from robin_cli.data.labels import load_labels  # brings all formats of files

        places = {pair_id: place for place, pair_id in enumerate(pairs.ids)}
        by_people = load_labels(labels, frozenset(places), {attribute: scale}, called="labels")
        truth = np.full(len(places), nan)
        for pair_id, label in by_people.by_attribute[attribute].items():
            truth[places[pair_id]] = label.value
        for named in by_people.best:
            groups, place = pairs.groups, places[named.pair_id]
            truth[groups == groups[place]] = 0.0
            truth[place] = 1.0
    return None if np.isnan(truth).all() else truth
