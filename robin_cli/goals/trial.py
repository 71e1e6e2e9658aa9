"""What ``robin try`` finds: the agreement of each judge and wording, and which to take."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import isnan, nan
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from robin_cli.ask.prompts import PromptSet
from robin_cli.data.labels import load_labels
from robin_cli.data.pair_table import PairTable
from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.errors import InputError, Unrated, typed
from robin_cli.model.records import number_of
from robin_cli.run.reader import read_run
from robin_cli.show.columns import TRIAL
from robin_cli.show.tables import Table
from robin_cli.stats import choosing
from robin_cli.stats.choosing import FEWEST_PROMPTS, JudgeAgreement

_PAIRS = 200  # without a limit or a budget
_TWICE = 40  # pairs that each judge rates twice, to show its noise
_MANY = 10_000  # prompts; more are not worth counting
_FAMILIES = "gpt chatgpt o, claude haiku sonnet opus, gemini gemma, mistral mixtral ministral magistral codestral, qwen, llama"
_FAMILY_OF = {word: words.split()[0] for words in _FAMILIES.split(", ") for word in words.split()}


class Configuration(NamedTuple):
    """A judge with a wording, as the user named them, "" for the default; ``model`` is the judge, perhaps with its address."""

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
        known = filter(None, map(_FAMILY_OF.get, re.findall("[a-z]+", name)))
        return next(known, "".join(re.findall("[a-z]+", name.rpartition("/")[2])[:1]))


@dataclass
class Trial:
    """The answers of configurations so far.

    Attributes:
        truth: people's rating of each pair, nan for none; None to compare judges with other families.
        is_kept: whether each is still asked.
    """

    configurations: Sequence[Configuration]
    pairs: PairTable
    truth: FloatArray | None
    notify: Callable[[str], None]
    agreement: JudgeAgreement = field(init=False)

    def __post_init__(self) -> None:
        self._families = [each.family for each in self.configurations]
        if self.truth is None and len(set(self._families)) < 2:
            raise InputError(
                f"--labels: without them, robin compares families of judges, and all of these are {self._families[0]}; "
                "give people's labels, or add a judge of another family"
            )
        self._ids, self._prompt = pd.Index(list(self.pairs.ids)), self.pairs.groups
        self._answers = pd.DataFrame()
        self.is_kept = np.ones(len(self.configurations), dtype=np.bool_)
        self._is_asked = np.zeros((len(self.configurations), len(self._ids)), dtype=np.bool_)

    def stages(self, limit: int | None, budget: int | None) -> Iterator[tuple[IntArray, int]]:
        """Yield the places of pairs to rate, of the first prompts and then of others, and how many are rated twice.

        If there are labels, only labelled pairs are. ``limit`` is in pairs, ``budget`` in calls. InputError: it is too small.
        """
        prompt, number = self._prompt, len(self.configurations)
        is_known = np.ones(len(prompt), np.bool_) if self.truth is None else ~np.isnan(self.truth)
        order = np.flatnonzero(is_known)[np.argsort(prompt[is_known], kind="stable")]
        order = order[: limit or (_PAIRS if budget is None else len(order))]
        calls = len(order) + _TWICE if budget is None else budget // number
        if not calls:
            raise InputError(f"--budget {budget}: is too small; give {number} or more")
        twice = min(_TWICE, len(order), calls // 2)
        order = order[: calls - twice]
        is_first = np.cumsum(np.diff(prompt[order], prepend=-1) != 0) <= FEWEST_PROMPTS
        yield order[is_first], min(twice, int(is_first.sum()))
        self._look()
        if is_first.all():
            return
        now, chosen = self.agreement, self.configurations
        if self.truth is not None and not isnan(now.value[now.best]):
            self.is_kept = ~now.is_worse
            for place in np.flatnonzero(now.is_worse).tolist():
                worse = f"{chosen[place]} agrees less with people than {chosen[now.best]} so far"
                self.notify(f"dropped: {worse}")
        yield order[~is_first], 0
        self._look()

    def add(self, path: Path, configuration: int) -> None:
        """Add the answers in the run at ``path``."""
        run = read_run(path, ["status", "draw", "cost_usd", "latency_s"])
        answers: pd.DataFrame = run.judgments.to_pandas()
        answers["rating"] = answers["expected_rating"].fillna(answers["rating"])
        answers["judge"], answers["unparsed"] = configuration, answers["status"] == "unparsed"
        places = self._ids.get_indexer(pd.Index(run.pair_ids))
        answers["pair"] = places[run.space.pair[run.arm]]
        self._is_asked[configuration, places] = True
        answers = answers[answers["status"] != "failed"].sort_values("draw")
        self._answers = pd.concat([self._answers, answers])

    def _first_ratings(self) -> FloatArray:
        """Return the first rating of each pair, shape (configurations, pairs); nan for none."""
        ratings = np.full((len(self.configurations), len(self._ids)), nan)
        first = self._answers.drop_duplicates(["judge", "pair"])
        ratings[first["judge"], first["pair"]] = first["rating"]
        return ratings

    def _look(self) -> None:
        ratings, truth = self._first_ratings(), self.truth
        if truth is None:
            truth = choosing.consensus_of_others(ratings, self._families)
        known = np.where(self._is_asked, truth, nan)
        self.agreement = choosing.agreement(ratings, known, self._prompt, self.is_kept)

    def table(self) -> Table:
        """Return a row for each configuration, the best first."""
        now, by_judge = self.agreement, self._answers.groupby("judge")
        means = by_judge[["unparsed", "cost_usd", "latency_s"]].mean()
        variances = self._answers.groupby(["judge", "pair"])["rating"].var()
        values: dict[str, Any] = {
            **pd.DataFrame(self.configurations).drop(columns="model"),
            "n_pairs": (~np.isnan(self._first_ratings())).sum(axis=1),
            "agreement": now.value,
            "agreement_low": np.maximum(-1.0, now.value - now.margin),
            "agreement_high": np.minimum(1.0, now.value + now.margin),
            "difference": now.difference,
            "difference_low": now.difference - now.difference_margin,
            "difference_high": now.difference + now.difference_margin,
            "noise": np.sqrt(variances.groupby("judge").mean()),
            "unparsed": means["unparsed"],
            "usd_per_1000": 1000 * means["cost_usd"],
            "seconds_per_1000": (1000 * means["latency_s"]).round(),
        }
        return TRIAL.with_values(dict(pd.DataFrame(values).iloc[now.order]))

    def suggestion(self) -> Iterator[str]:
        """Yield which judge to take, and which two for a second opinion. Unrated if there is no rating."""
        now, chosen, whom, more = self.agreement, self.configurations, "people", "labelled prompts"
        if self.truth is None:
            whom, more = "the judges of other families", "prompts"
        if self._answers["rating"].isna().all():
            raise Unrated("no judge gave a rating; robin check shows a raw reply")
        if isnan(now.value[now.best]):
            yield f"no judge can be suggested: each gives all pairs the same rating, or {whom} do"
            return
        best, rest = chosen[now.best], [at for at in now.order[1:] if not isnan(now.value[at])]
        close = [at for at in rest if now.more_prompts(at) and self.is_kept[at]]
        over = f"({now.value[now.best]:.2f} over {number_of(int(now.prompts[now.best]), 'prompt')})"
        families = {chosen[at].family for at in (now.best, *rest)}
        if self.truth is None and len(families) == 2:
            yield "two families of judges cannot be ranked; give people's --labels, or add a third family"
        elif close:
            needed = now.more_prompts(close[0])
            about = f"about {max(1, float(f'{needed:.1g}')):,.0f}"
            yield (
                f"{best} agrees most with {whom} {over}, but {number_of(len(close), 'other')} may be as good: "
                f"{about if needed < _MANY else f'more than {_MANY:,}'} more {more} would tell it from {chosen[close[0]]}"
            )
        else:
            dropped = "" if self.is_kept.all() else ", of those that were not dropped"
            yield f"take {best}: it agrees most with {whom} {over}{dropped}"
        others = [chosen[at] for at in rest if now.value[at] > now.margin[at]]
        others = [each for each in others if each[1:3] == best[1:3]]  # one wording for both
        second = next((each for each in others if each.family != best.family), None)
        if second is None:
            yield f"for a second opinion, add a judge of another family that agrees with {whom}"
            return
        wording = {"template": best.template, "rubric": best.rubric}
        flags = [f"--{name} {typed(value)}" for name, value in wording.items() if value]
        flags += [f"--model {typed(each.model)}" for each in (best, second)]
        flags += ["--decide best"] if len(np.unique(self._prompt)) < len(self._prompt) else []
        yield f"for a second opinion take {best} and {second}: robin judge … {' '.join(flags)}"


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
        if np.isnan(truth).all():
            raise InputError(f"{labels}: has no label of {attribute} for these pairs")
    return None if np.isnan(truth).all() else truth
