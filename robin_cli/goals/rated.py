"""What a run of ratings says: scores, how far off they are, means, agreement with people, judges."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from typing import Any

import numpy as np

from robin_cli.analysis.intervals import ALPHA
from robin_cli.analysis.run_agreement import agreements, calibrations, reliabilities
from robin_cli.analysis.run_labels import labels_of
from robin_cli.analysis.scores import Scores, score, spread_between
from robin_cli.analysis.summaries import FIRST, Summary, summaries
from robin_cli.analysis.worst_error import Aim, estimated_error
from robin_cli.goals.aims import aim_of
from robin_cli.goals.decided import decision_facts
from robin_cli.goals.found import Found
from robin_cli.goals.judges import asked_of
from robin_cli.goals.paper_bound import paper_bound
from robin_cli.goals.rated_words import score_lines
from robin_cli.model.records import GivenLabels
from robin_cli.results.words import finite
from robin_cli.storage.reader import RunData


class Rated(Found):
    """What a run of ratings says."""

    @cached_property
    def aim(self) -> Aim | None:
        """The error that the last session was to stop at."""
        return aim_of(self.run, self.scores.error_bound)

    @property
    def is_over(self) -> bool:
        """Whether all is decided that can be, or the error is as small as was asked for."""
        decided = self.scores.decided
        return (decided is not None and decided.is_over) or (self.aim is not None and self.aim.reached)

    def facts(self, given: GivenLabels | None = None) -> dict[str, Any]:
        """Return what ``robin status --json`` has of the results."""
        run, scores, aim, decided = self.run, self.scores, self.aim, self.scores.decided
        each = score(run, by_judge=True) if len(run.space.judges) > 1 else scores
        tables = (scores,) if each is scores else (scores, each)
        means = summaries(run, scores, labels_of(run, given))
        first = None if decided is None else FIRST
        return {
            "worst_error_estimate": finite(estimated_error(run.space, run.fold.arms)),
            "error_bound": scores.error_bound,
            "target_error": None if aim is None else aim.error,
            "target_guaranteed": aim is not None and aim.guaranteed,
            "target_reached": None if aim is None else aim.reached,
            "decide": None if decided is None else str(decided.task.decision),
            "decisions": None if decided is None else decision_facts(decided),
            "errors_are": "shares of the scale" if run.space.has_several_scales else "points",
            "error_bound_confidence": 1 - ALPHA,
            "paper_bound": paper_bound(run, self.goal),
            "means": {each.attribute: {**_mean(each), "first_ratings": first} for each in means},
            "agreement": _coefficients(agreements(run, *tables)),
            "reliability": _coefficients(reliabilities(run, *tables)),
            "calibration": {
                name: [_in_json(level) for level in told.levels] for name, told in calibrations(run, *tables).items()
            },
            "judges": _judges(run, each),
            "judge_spread": None if scores.between is None else finite(spread_between(scores.between)),
            "judge_spread_over": 0 if scores.between is None else int((~np.isnan(scores.between)).sum()),
        }

    def lines(self, facts: Mapping[str, Any]) -> dict[str, str]:
        """Return ``facts`` in words, by name."""
        return score_lines(facts)


def _judges(run: RunData, scores: Scores) -> list[dict[str, Any]]:
    """Each judge of a panel: its calls, its ratings, their mean over pairs for each attribute, and its money."""
    names, attributes = run.space.judges, run.space.attributes
    means = np.asarray(scores.columns["score"])
    found = []
    for number, name in enumerate(names):
        is_rated = (run.space.judge == number) & ~np.isnan(means)
        rated = {name: means[is_rated & (run.space.attribute == place)] for place, name in enumerate(attributes)}
        by_attribute = {name: float(each.mean()) if len(each) else None for name, each in rated.items()}
        found.append(
            {
                **asked_of(run, name),
                "mean_scores": by_attribute,
                "mean_score": by_attribute[attributes[0]] if len(attributes) == 1 else None,
                "scores": sum(map(len, rated.values())),
            }
        )
    return found


def _mean(each: Summary) -> dict[str, Any]:
    """The mean of one attribute, the judge's own and as labels correct it; null where there are none."""
    told = each.corrected
    corrected = (math.nan, math.nan, math.nan) if told is None else (told.estimate, told.low, told.high)
    return {
        "mean": finite(each.mean.value),
        "ci_low": finite(each.mean.low),
        "ci_high": finite(each.mean.high),
        "n_pairs": each.pairs,
        "n_prompts": each.prompts,
        **dict(zip(("corrected_mean", "corrected_low", "corrected_high"), map(finite, corrected), strict=True)),
        "n_labels": 0 if told is None else told.n_labels,
        "n_labelled_prompts": 0 if told is None else told.n_prompts,
        "labels_are": None
        if told is None or each.labels is None
        else ("of the data" if each.labels.of_data else "given"),
        "not_corrected_because": (told.why if told is not None else "")
        or (each.labels.why if each.labels else "")
        or None,
    }


def _coefficients(found: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """Each coefficient, by attribute and name."""
    return {attribute: {each.coefficient: _in_json(each) for each in listed} for attribute, listed in found.items()}


def _in_json(told: Any) -> dict[str, Any]:
    return {name: finite(value) if isinstance(value, float) else value for name, value in asdict(told).items()}
