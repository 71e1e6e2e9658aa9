"""What ``robin try`` says of judges and wordings: a row each, and which to take."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, inf, isnan, nan
from pathlib import Path

import numpy as np

from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.records import number_of
from robin_cli.run.reader import read_run
from robin_cli.show.columns import TRIAL
from robin_cli.show.tables import Table
from robin_cli.stats.choosing import (
    Agreement,
    agreement,
    best_pair,
    noise_of,
    others,
    share_right,
)

_FEW, _MANY = 30, 10_000
_FAMILIES = {
    "gpt": ("chatgpt", "davinci", "o"),
    "claude": ("haiku", "sonnet", "opus"),
    "gemini": ("gemma",),
    "mistral": ("mixtral", "ministral", "magistral", "codestral", "pixtral", "devstral"),
    "qwen": ("qwq", "qvq"),
    "llama": ("meta",),
}
_FAMILY_OF = {word: family for family, words in _FAMILIES.items() for word in (family, *words)}


@dataclass(frozen=True, slots=True)
class Configuration:
    """A judge with a wording: ``template`` and ``rubric`` are the names of the user; "" for the default."""

    judge: str
    template: str = ""
    rubric: str = ""

    @property
    def text(self) -> str:
        """The configuration in words."""
        return " with ".join(filter(None, [self.judge, " and ".join(self.wording)]))

    @property
    def wording(self) -> list[str]:
        """The names of template and rubric, where they were named."""
        return [Path(name).stem for name in (self.template, self.rubric) if name]

    @property
    def flags(self) -> str:
        """The flags of robin judge for the wording."""
        parts = (("--template", self.template), ("--rubric", self.rubric))
        return "".join(f" {flag} {value}" for flag, value in parts if value)


@dataclass
class Ratings:
    """The ratings of configurations so far, by pair id.

    Attributes:
        first, second: the first two ratings of each pair, shape (configurations, pairs); nan for none.
        answered: answers, ``unparsed`` of them without a rating; ``cost_usd`` and ``latency_s`` of them all.
    """

    configurations: Sequence[Configuration]
    ids: Mapping[str, int]
    first: FloatArray = field(init=False)
    second: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        count = len(self.configurations)
        self.first, self.second = (np.full((count, len(self.ids)), nan) for _ in range(2))
        self.answered, self.unparsed, self.cost_usd, self.latency_s = np.zeros((4, count))

    def add(self, path: Path, configurations: Sequence[int]) -> None:
        """Add the ratings in the run at ``path``, whose judges are ``configurations``, in order."""
        run = read_run(path, ["status", "draw", "cost_usd", "latency_s"])
        place = np.array([self.ids[pair_id] for pair_id in run.pair_ids])
        judged, space = run.judgments, run.space
        judge = np.array(configurations)[space.judge[run.arm].astype(int)]
        pair = place[space.pair[run.arm].astype(int)]
        rating = judged["expected_rating"].to_numpy()
        rating = np.where(np.isnan(rating), judged["rating"].to_numpy(), rating)
        status = judged["status"].to_numpy(zero_copy_only=False)
        is_answer = status != "failed"
        draws = judged["draw"].to_numpy()
        for at, target in enumerate((self.first, self.second)):
            of_draw = is_answer & (draws == at)
            target[judge[of_draw], pair[of_draw]] = rating[of_draw]
        for total, values in (
            (self.answered, is_answer),
            (self.unparsed, status == "unparsed"),
            (self.cost_usd, judged["cost_usd"].to_numpy()),
            (self.latency_s, np.nan_to_num(judged["latency_s"].to_numpy())),
        ):
            np.add.at(total, judge[is_answer], values[is_answer])

    def agreement(self, truth: FloatArray | None, prompt: IntArray) -> Agreement:
        """Return the agreement with people's ratings of the pairs, or else with judges of other families."""
        families = [family_of(each.judge) for each in self.configurations]
        is_asked = ~np.isnan(self.first).all(axis=0)
        if truth is None:
            truth = others(self.first, families, prompt)
        return agreement(self.first, np.where(is_asked, truth, nan), prompt)


def family_of(judge: str) -> str:
    """Return the family of a model by its name: gpt for openai/gpt-5.4-mini, claude for claude-haiku-4-5."""
    words = re.findall("[a-z]+", judge.lower().rpartition("/")[2])
    return next((_FAMILY_OF[word] for word in words if word in _FAMILY_OF), "".join(words[:1]))


def trial_table(
    ratings: Ratings, found: Agreement, truth: FloatArray | None, prompt: IntArray
) -> Table:
    """Return a row for each configuration, the best first."""
    order, chosen = found.order, ratings.configurations
    answered = np.maximum(1, ratings.answered)
    right = np.full(len(order), nan)
    if truth is not None:
        right = share_right(ratings.first, truth, prompt)
    numbers = {
        "agreement": found.value,
        "agreement_low": found.low,
        "agreement_high": found.high,
        "difference": found.difference,
        "difference_low": found.difference_low,
        "difference_high": found.difference_high,
        "right": right,
        "noise": noise_of(ratings.first, ratings.second),
        "unparsed": ratings.unparsed / answered,
        "usd_per_1000": 1000 * ratings.cost_usd / answered,
        "seconds_per_1000": 1000 * ratings.latency_s / answered,
    }
    texts = {
        "judge": [chosen[at].judge for at in order],
        "template": [chosen[at].template for at in order],
        "rubric": [chosen[at].rubric for at in order],
    }
    rated = (~np.isnan(ratings.first)).sum(axis=1)
    values = {**texts, "n_pairs": rated[order], **{k: v[order] for k, v in numbers.items()}}
    left_out = {name for name in ("template", "rubric") if not any(texts[name])}
    return TRIAL.of({name: each for name, each in values.items() if name not in left_out})


def suggestion(ratings: Ratings, found: Agreement, *, has_labels: bool) -> list[str]:
    """Return which judge to take, and which two for a second opinion, in a line each."""
    order, chosen = found.order, ratings.configurations
    best = order[0]
    if isnan(found.value[best]):
        what = "labels" if has_labels else "judges of another family"
        return [f"no judge can be suggested: no ratings vary together with those of {what}"]
    whom = "people" if has_labels else "the judges of other families"
    over = f"over {number_of(found.prompts, 'prompt')}"
    name, value = chosen[best].text, f"{found.value[best]:.2f}"
    close = [at for at in order[1:] if found.difference_high[at] >= 0]
    if not close:
        first = f"take {name}: it agrees best with {whom} ({value} {over})"
    else:
        more = found.more_prompts(close[0])
        tell = f"more than {_MANY:,}" if more > _MANY else f"about {_round(more):,}"
        what = "labelled prompts" if has_labels else "prompts"
        first = (
            f"{name} agrees most with {whom} ({value} {over}), but {number_of(len(close), 'other')} may be as good: "
            f"{tell} more {what} would tell it from {chosen[close[0]].text}"
        )
    pair = best_pair(found, [family_of(each.judge) for each in chosen])
    if pair is None:
        return [first, "for a second opinion, add a judge of another family"]
    one, other = (chosen[at] for at in pair)
    names = " and ".join(each.text for each in (one, other))
    second = (
        f"for a second opinion take two families, {names}: robin judge --decide best "
        f"--model {one.judge} --model {other.judge}{one.flags}"
    )
    return [first, second]


def _round(prompts: float) -> int:
    """Return a number of prompts, up to two digits."""
    step = 10 ** max(0, len(str(ceil(prompts))) - 2)
    return 0 if prompts == inf else max(1, ceil(prompts / step) * step)
