"""What ``robin try`` finds: the agreement of each judge and wording, and which to take."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from math import isnan, nan
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from robin_cli.ask.prompts import PromptSet
from robin_cli.data.labels import load_labels
from robin_cli.data.pair_table import PairTable
from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.errors import InputError, typed
from robin_cli.model.records import MODEL_PREFIX, number_of
from robin_cli.run.reader import read_run
from robin_cli.show.columns import TRIAL
from robin_cli.show.tables import Table
from robin_cli.stats import choosing
from robin_cli.stats.choosing import FEWEST_PROMPTS, JudgeAgreement

_PROMPTS = 50
"""Prompts without a limit or a budget."""
_TWICE = 40
"""Pairs that each judge rates twice, to show its noise."""
_MANY = 10_000
_FAMILIES = (
    *("gpt chatgpt o", "claude haiku sonnet opus", "gemini gemma"),
    *("mistral mixtral ministral magistral codestral", "qwen qwq"),
)
_FAMILY_OF = {word: words.split()[0] for words in _FAMILIES for word in words.split()}


class Configuration(NamedTuple):
    """A judge with a wording, as the user named them; "" for the default.

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
    """The answers of configurations so far.

    Args:
        pairs: those that are rated.
        truth: people's rating of each pair, nan for none; None to hold judges against those of other families.

    Attributes:
        agreement: of each configuration, at the last look.
        is_kept: whether each is still asked.
    """

    agreement: JudgeAgreement

    def __init__(
        self, configurations: Sequence[Configuration], pairs: PairTable, truth: FloatArray | None
    ) -> None:
        self.configurations, self.truth = configurations, truth
        self._families = [each.family for each in configurations]
        if truth is None and len(set(self._families)) < 2:
            raise InputError(
                f"--labels: there are none, and all judges are of one family ({self._families[0]}), so nothing says "
                "which of them is right; give people's labels, or a judge of another family"
            )
        self._ids, self._prompt = pd.Index(list(pairs.ids)), pairs.groups
        self._answers = pd.DataFrame()
        self.is_kept = np.ones(len(configurations), dtype=np.bool_)

    def stages(self, limit: int | None, budget: int | None) -> Iterator[tuple[IntArray, int]]:
        """Yield the places of the pairs of the first prompts, then of others, and how many are rated twice.

        ``limit`` is in pairs, ``budget`` in calls. Labelled prompts come first. InputError for a budget that is too small.
        """
        prompt, truth = self._prompt, self.truth
        is_labelled = np.isin(prompt, prompt if truth is None else prompt[~np.isnan(truth)])
        order = np.lexsort((prompt, ~is_labelled))
        rank = np.cumsum(np.diff(prompt[order], prepend=-1) != 0)  # of each pair's prompt, from 1
        count = int((rank <= _PROMPTS).sum()) if limit is budget is None else limit or len(order)
        twice, number = min(_TWICE, count), len(self.configurations)
        if budget is not None:
            count = min(count, budget // number - twice)
        if count < 1:
            raise InputError(f"--budget {budget}: is too small for {number} judges and wordings")
        first = int((rank[:count] <= FEWEST_PROMPTS).sum())
        yield order[:first], min(twice, first)
        if first < len(order[:count]):
            yield order[first:count], 0

    def add(self, path: Path, configuration: int) -> None:
        """Add the answers in the run at ``path``."""
        run = read_run(path, ["status", "draw", "cost_usd", "latency_s"])
        pair = self._ids.get_indexer(pd.Index(run.pair_ids))[run.space.pair[run.arm]]
        answers: pd.DataFrame = run.judgments.to_pandas().assign(judge=configuration, pair=pair)
        self._answers = pd.concat([self._answers, answers[answers["status"] != "failed"]])

    def _ratings(self, draw: int) -> FloatArray:
        """Return the first or the second rating of pairs, shape (configurations, pairs); nan for none."""
        ratings = np.full((len(self.configurations), len(self._ids)), nan)
        of_draw = self._answers[self._answers["draw"] == draw]
        rating = of_draw["expected_rating"].fillna(of_draw["rating"])
        ratings[of_draw["judge"], of_draw["pair"]] = rating
        return ratings

    def look(self) -> Iterator[str]:
        """Compute the agreement, and drop what is worse by enough labels; yield a line for each."""
        ratings, truth, kept = self._ratings(0), self.truth, self.is_kept
        if truth is None:
            truth = choosing.consensus_of_others(ratings, self._families, self._prompt)
        is_asked = np.zeros(ratings.shape, dtype=np.bool_)
        is_asked[self._answers["judge"], self._answers["pair"]] = True
        now = choosing.agreement(ratings, np.where(is_asked, truth, nan), self._prompt, kept)
        self.agreement = now
        if self.truth is None or now.prompts < FEWEST_PROMPTS:
            return
        self.is_kept = kept & ~now.is_worse
        for place in np.flatnonzero(kept & now.is_worse).tolist():
            why = f"agrees less with people than {self.configurations[now.best]}"
            if isnan(now.value[place]):
                why = "has ratings that do not vary as people's do"
            yield f"dropped: {self.configurations[place]} {why}"

    def table(self) -> Table:
        """Return a row for each configuration, the best first."""
        now, first = self.agreement, self._ratings(0)
        answers = self._answers.assign(unparsed=self._answers["status"] == "unparsed")
        means = answers.groupby("judge")[["unparsed", "cost_usd", "latency_s"]].mean()
        means = means.reindex(range(len(first)))
        values: dict[str, Any] = {
            **pd.DataFrame(self.configurations).drop(columns="model"),
            "n_pairs": (~np.isnan(first)).sum(axis=1),
            "agreement": now.value,
            "agreement_low": now.value - now.margin,
            "agreement_high": np.minimum(1.0, now.value + now.margin),
            "difference": now.difference,
            "difference_low": now.difference - now.difference_margin,
            "difference_high": now.difference + now.difference_margin,
            "noise": choosing.noise_of(first, self._ratings(1)),
            "unparsed": means["unparsed"],
            "usd_per_1000": 1000 * means["cost_usd"],
            "seconds_per_1000": (1000 * means["latency_s"]).round(),
        }
        return TRIAL.with_values(dict(pd.DataFrame(values).iloc[now.order]))

    def suggestion(self, command: str) -> Iterator[str]:
        """Yield which judge to take, and which two for a second opinion with ``command``, which judges the data."""
        now, chosen, whom, more = self.agreement, self.configurations, "people", "labelled prompts"
        if self.truth is None:
            whom, more = "the judges of other families", "prompts"
        if isnan(now.value[now.best]):
            yield f"no judge can be suggested: none has ratings that vary as those of {whom} do"
            return
        best = chosen[now.best]
        rest = [at for at in now.order if at != now.best and not isnan(now.value[at])]
        close = [at for at in rest if now.more_prompts(at)]
        over = f"({now.value[now.best]:.2f} over {number_of(now.prompts, 'prompt')})"
        if self.truth is None and len(chosen) == 2:  # equal, as each is held against the other
            yield (
                f"{chosen[0]} and {chosen[1]} agree with each other {over}; to choose one, give people's --labels, "
                "or a judge of a third family"
            )
        elif close:
            needed = now.more_prompts(close[0])
            about = f"about {max(1, float(f'{needed:.1g}')):,.0f}"
            yield (
                f"{best} agrees most with {whom} {over}, but {number_of(len(close), 'other')} may be as good: "
                f"{about if needed < _MANY else f'more than {_MANY:,}'} more {more} would tell it from {chosen[close[0]]}"
            )
        else:
            yield f"take {best}: it agrees best with {whom} {over}"
        agreeing = [chosen[at] for at in rest if now.value[at] > now.margin[at]]
        second = next((each for each in agreeing if each.family != best.family), None)
        if second is None:
            yield f"for a second opinion, add a judge of another family that agrees with {whom}"
            return
        wording = {"template": best.template, "rubric": best.rubric}
        flags = [f"--{name} {typed(value)}" for name, value in wording.items() if value]
        flags += [f"--model {typed(each.model)}" for each in (best, second)]
        command = " ".join([command, *flags, "--decide best --budget N"])
        yield f"for a second opinion take {best} and {second}: {command}"


def truth_of(pairs: PairTable, labels: str | None, prompts: PromptSet) -> FloatArray | None:
    """Return people's rating of each pair, nan for none; None if there is none at all. InputError as :func:`load_labels`."""
    attribute, ids = prompts.attributes[0], list(pairs.ids)
    truth = pairs.human(attribute)
    if labels is not None:
        scales = {attribute: prompts.scales[0]}
        read = load_labels(labels, frozenset(ids), scales, called="labels")
        by_pair = {pair_id: label.value for pair_id, label in read.by_attribute[attribute].items()}
        truth = np.array([by_pair.get(pair_id, nan) for pair_id in ids])
        for named in read.best:
            place = ids.index(named.pair_id)
            truth[pairs.groups == pairs.groups[place]] = 0.0
            truth[place] = 1.0
    return None if np.isnan(truth).all() else truth
