"""What ``robin try`` finds: the agreement of each judge and wording, and which to take."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from math import isnan, nan
from pathlib import Path
from typing import NamedTuple

import numpy as np

from robin_cli.data.pair_table import PairTable
from robin_cli.model.arms import FloatArray
from robin_cli.model.errors import typed
from robin_cli.model.records import MODEL_PREFIX, Scale, number_of
from robin_cli.run.reader import read_run
from robin_cli.show.columns import TRIAL
from robin_cli.show.tables import Table
from robin_cli.stats import choosing
from robin_cli.stats.choosing import FEWEST_PROMPTS

__all__ = ["FEWEST_PROMPTS", "Configuration", "Trial", "truth_of"]

_MANY = 10_000
_FAMILIES = {
    "gpt": ("gpt", "chatgpt", "o"),
    "claude": ("claude", "haiku", "sonnet", "opus"),
    "gemini": ("gemini", "gemma"),
    "mistral": ("mistral", "mixtral", "ministral", "magistral", "codestral"),
    "qwen": ("qwen", "qwq"),
}
_FAMILY_OF = {word: family for family, words in _FAMILIES.items() for word in words}


class Configuration(NamedTuple):
    """A judge with a wording; ``template`` and ``rubric`` are as the user named them, "" for the default.

    ``model`` is the judge as --model names it, perhaps with its address.
    """

    judge: str
    template: str = ""
    rubric: str = ""
    model: str = ""

    def __str__(self) -> str:
        wording = " and ".join(Path(name).stem for name in (self.template, self.rubric) if name)
        return f"{self.judge} with {wording}" if wording else self.judge

    @property
    def family(self) -> str:
        """The model's family by its name: gpt for openai/gpt-5.4-mini, claude for claude-haiku-4-5."""
        name = self.judge.lower()
        if name.startswith(MODEL_PREFIX):  # a replayed pool: its judge, and what it rated
            name = name.removeprefix(MODEL_PREFIX).partition("/")[0]
        words = re.findall("[a-z]+", name.rpartition("/")[2])
        return next(filter(None, map(_FAMILY_OF.get, words)), "".join(words[:1]))


class Trial:
    """The ratings of configurations so far.

    Args:
        pairs: those that are rated.
        truth: people's rating of each pair, nan for none; None to hold judges against those of other families.

    Attributes:
        agreement: of each configuration.
        is_kept: whether each is still asked.
    """

    agreement: choosing.JudgeAgreement

    def __init__(
        self, configurations: Sequence[Configuration], pairs: PairTable, truth: FloatArray | None
    ) -> None:
        self.configurations, self.truth = configurations, truth
        self._places, self._prompt = _places(pairs), pairs.groups
        shape = (len(configurations), len(pairs))
        self._first, self._second = np.full(shape, nan), np.full(shape, nan)
        self._is_asked = np.zeros(shape, dtype=np.bool_)
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
        expected = answers["expected_rating"]
        rating = np.where(np.isnan(expected), answers["rating"], expected)
        is_answer = answers["status"] != "failed"
        for draw, ratings in enumerate((self._first, self._second)):
            chosen = is_answer & (answers["draw"] == draw)
            ratings[judge[chosen], pair[chosen]] = rating[chosen]
        self._is_asked[judge[is_answer], pair[is_answer]] = True
        is_unparsed = answers["status"] == "unparsed"
        values = (is_answer, is_unparsed, answers["cost_usd"], answers["latency_s"])
        for total, value in zip(self._totals, values, strict=True):
            np.add.at(total, judge[is_answer], value[is_answer].astype(float))

    def look(self) -> Iterator[str]:
        """Compute the agreement, and drop what is worse by enough labels; yield a line for each."""
        truth = self.truth
        if truth is None:
            families = [chosen.family for chosen in self.configurations]
            truth = choosing.consensus_of_others(self._first, families, self._prompt)
        truth = np.where(self._is_asked, truth, nan)
        kept, agreement = self.is_kept, choosing.agreement
        self.agreement = now = agreement(self._first, truth, self._prompt, kept)
        if self.truth is not None and now.prompts >= FEWEST_PROMPTS:
            self.is_kept = kept & ~now.is_worse
            best = self.configurations[now.best]
            for place in np.flatnonzero(kept & now.is_worse).tolist():
                why = f"agrees less with people than {best}"
                if isnan(now.value[place]):
                    why = "has ratings that do not vary as people's do"
                yield f"dropped: {self.configurations[place]} {why}"

    def table(self) -> Table:
        """Return a row for each configuration, the best first."""
        now, answers = self.agreement, np.maximum(1, self._totals[0])
        values = {
            "n_pairs": (~np.isnan(self._first)).sum(axis=1),
            "noise": choosing.noise_of(self._first, self._second),
            "unparsed": self._totals[1] / answers,
            "usd_per_1000": 1000 * self._totals[2] / answers,
            "seconds_per_1000": 1000 * self._totals[3] / answers,
        }
        agreements = {
            "agreement": (now.value, now.error),
            "difference": (now.difference, now.difference_error),
        }
        for name, (value, error) in agreements.items():
            low, high = value - now.reach * error, np.minimum(1.0, value + now.reach * error)
            values |= {name: value, f"{name}_low": low, f"{name}_high": high}
        if self.truth is not None:
            values["right"] = choosing.share_right(self._first, self.truth, self._prompt)
        rows = [self.configurations[at] for at in now.order]
        shown = ("judge", "template", "rubric")
        names = {name: [getattr(row, name) for row in rows] for name in shown}
        names = {name: texts for name, texts in names.items() if any(texts)}
        return TRIAL.with_values(
            {**names, **{name: value[now.order] for name, value in values.items()}}
        )

    def suggestion(self, command: str) -> list[str]:
        """Return which judge to take, and which two for a second opinion, in a line each.

        ``command`` judges the data with the user's other settings.
        """
        now, chosen = self.agreement, self.configurations
        whom, more = "people", "more labelled prompts"
        if self.truth is None:
            whom, more = "the judges of other families", "more prompts"
        if isnan(now.value[now.best]):
            return [f"no judge can be suggested: none has ratings that vary as those of {whom} do"]
        best = chosen[now.best]
        over = f"{now.value[now.best]:.2f} over {number_of(now.prompts, 'prompt')}"
        rest = [at for at in now.order if at != now.best and not isnan(now.value[at])]
        close = [at for at in rest if now.more_prompts(at)]
        line = f"take {best}: it agrees best with {whom} ({over})"
        if close:
            needed = now.more_prompts(close[0])
            rounded = max(1, round(min(needed, _MANY), 1 - len(str(int(min(needed, _MANY))))))
            about = f"{'more than' if needed > _MANY else 'about'} {rounded:,.0f}"
            line = (
                f"{best} agrees most with {whom} ({over}), but {number_of(len(close), 'other')} may be as good: "
                f"{about} {more} would tell it from {chosen[close[0]]}"
            )
        if self.truth is None and len(chosen) == 2:  # equal, as each is held against the other
            line = (
                f"{chosen[0]} and {chosen[1]} agree with each other ({over}); to choose one, give people's --labels, "
                "or a judge of a third family"
            )
        others = [chosen[at] for at in rest if now.value[at] > now.reach * now.error[at]]
        other = next((each for each in others if each.family != best.family), None)
        if other is None:
            return [
                line,
                f"for a second opinion, add a judge of another family that agrees with {whom}",
            ]
        flags = [f"--model {typed(each.model)}" for each in (best, other)]
        wording = {"template": best.template, "rubric": best.rubric}
        flags += [f"--{name} {typed(value)}" for name, value in wording.items() if value]
        pair = f"for a second opinion take {best} and {other}"
        return [line, f"{pair}: {command} --decide best {' '.join(flags)}"]


def _places(pairs: PairTable) -> Mapping[str, int]:
    return {pair_id: place for place, pair_id in enumerate(pairs.ids)}


def truth_of(
    pairs: PairTable, labels: str | None, attribute: str, scale: Scale
) -> FloatArray | None:
    """Return people's rating of each pair, nan for none; None if there is none at all. InputError as :func:`load_labels`."""
    truth = pairs.human(attribute)
    if labels is not None:
        from robin_cli.data.labels import load_labels  # brings all formats of files

        places = _places(pairs)
        read = load_labels(labels, frozenset(places), {attribute: scale}, called="labels")
        truth = np.full(len(places), nan)
        for pair_id, label in read.by_attribute[attribute].items():
            truth[places[pair_id]] = label.value
        for named in read.best:
            place = places[named.pair_id]
            truth[pairs.groups == pairs.groups[place]] = 0.0
            truth[place] = 1.0
    return None if np.isnan(truth).all() else truth
