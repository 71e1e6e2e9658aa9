"""People's ratings of a run's pairs: the judge's agreement with them and with itself, and the corrected means."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

from robin_cli.data.given_labels import GivenLabels
from robin_cli.model.errors import typed
from robin_cli.model.records import number_of
from robin_cli.run.reader import RunReader
from robin_cli.show.text import one_line
from robin_cli.show.words import finite
from robin_cli.stats.agreement import CORRELATIONS, Agreement
from robin_cli.stats.run_agreement import (
    Calibration,
    agreements,
    agreements_among,
    calibrations,
    reliabilities,
)
from robin_cli.stats.run_labels import labels_of
from robin_cli.stats.scores import Scores
from robin_cli.stats.summaries import FEWEST_PROMPTS, Summary, first_ratings, summaries

_UNKNOWN = "unknown"
"""The start of the line on an unknown coefficient."""
_WORDS = {
    "alpha": "Krippendorff's α",
    **{name: name for name in CORRELATIONS},
    "kappa": "weighted κ",
    "alpha_ordinal": "ordinal α",
    "same": "the same preferred",
}
_OWN = {
    "reliability": "scores",
    "icc": "one rating (ICC)",
    "ceiling": "so correlation with a human at most",
}


Means = Sequence[Summary]
"""The mean of each attribute, also as people's labels correct it."""


@dataclass(frozen=True, slots=True)
class People:
    """The means of a run with people's labels, and the agreement of its scores with these, by attribute (and judge).

    Attributes:
        first: number of ratings of each pair in the means; None for all.
    """

    means: Means
    agreement: Mapping[str, Sequence[Agreement]]
    among: Mapping[str, Sequence[Agreement]]
    reliability: Mapping[str, Sequence[Agreement]]
    calibration: Mapping[str, Calibration]
    first: int | None

    @classmethod
    def of(
        cls, run: RunReader, means: Means, tables: Sequence[Scores], given: GivenLabels | None
    ) -> Self:
        """Return it for a run with these means and scores, those of all judges together first.

        Args:
            given: people's labels, in place of the human ratings of its data.
        """
        scores = tables[0]
        return cls(
            means,
            agreements(run, *tables, given=given),
            agreements_among(run, *tables, given=given),
            reliabilities(run, *tables),
            calibrations(run, *tables, given=given),
            None if scores.decided is None else first_ratings(run),
        )

    def facts(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "means": {
                each.attribute: {**_mean(each), "first_ratings": self.first} for each in self.means
            },
            "agreement": _coefficients(self.agreement),
            "agreement_among": _coefficients(self.among),
            "reliability": _coefficients(self.reliability),
            "calibration": {
                name: [_in_json(level) for level in each.levels]
                for name, each in self.calibration.items()
            },
        }

    def human_lines(self, run: RunReader) -> dict[str, str]:
        """Return the agreement of the scores with people in words; empty without any labels."""
        lines = {}
        for name, found in self.agreement.items():
            # the reason is the same for single judges
            if name in run.manifest.attributes or not math.isnan(found[0].value):
                lines[f"human {name}"] = agreement_line(found)
        lines |= {f"among {name}": agreement_line(found) for name, found in self.among.items()}
        for each in self.means:
            is_given = each.labels is not None and not each.labels.of_data
            if (why := _why_not(each)) and (is_given or f"human {each.attribute}" in lines):
                lines[f"labels of {each.attribute}"] = f"not corrected by labels: {why}"
            elif is_given and each.corrected is not None and each.corrected.caution:
                lines[f"labels of {each.attribute}"] = each.corrected.caution
        if any(each.levels for each in self.calibration.values()):
            lines["calibration"] = (
                f"human ratings by score: robin export {typed(run.name)} --what calibration"
            )
        return lines

    def own_lines(self, *, known: bool = False) -> dict[str, str]:
        """Return the agreement of the judge with itself in words; ``known``: leave unknown values out."""
        lines = {
            f"reliability of {name}": _own_line(found) for name, found in self.reliability.items()
        }
        return {
            name: line for name, line in lines.items() if not (known and line.startswith(_UNKNOWN))
        }


def means_of(run: RunReader, scores: Scores, given: GivenLabels | None) -> Means:
    """Return the mean of each attribute; ``given``: people's labels, in place of the human ratings of the data."""
    return summaries(run, scores, labels_of(run, given))


def mean_lines(means: Means, most: int | None = None) -> list[str]:
    """Return the mean of each attribute in words, and as labels correct it; with more than ``most`` all in one line."""
    there = [each for each in means if each.pairs]
    if not there:
        return ["no pair has a score yet"]
    if most is None or len(there) <= most:
        return [f"mean {_mean_text(each)} ({_over(each)}){_corrected_text(each)}" for each in there]
    return [f"means {'; '.join(map(_mean_text, there))} ({_over(there[0])})"]


def _mean_text(each: Summary) -> str:
    ends = "" if math.isnan(each.mean.low) else f" {range_of(each.mean.low, each.mean.high)}"
    return f"{one_line(each.attribute)} {each.mean.value:z.2f}{ends}"


def _over(each: Summary) -> str:
    over = f"over {number_of(each.prompts, 'prompt')}, {number_of(each.pairs, 'pair')}"
    return (
        f"{over}; no interval below {FEWEST_PROMPTS} prompts"
        if math.isnan(each.mean.low)
        else f"95 %, {over}"
    )


def _corrected_text(each: Summary) -> str:
    told = each.corrected
    if told is None or math.isnan(told.estimate):
        return ""
    is_given = each.labels is not None and not each.labels.of_data
    labels = number_of(told.n_labels, "label" if is_given else "human rating")
    by = f"corrected by {labels} of {number_of(told.n_prompts, 'prompt')}"
    return f"; {told.estimate:z.2f} {range_of(told.low, told.high)} {by}"


def _why_not(each: Summary) -> str:
    """Return why labels correct no mean; "" if they do, or if there are none."""
    return (each.corrected.why if each.corrected is not None else "") or (
        each.labels.why if each.labels else ""
    )


def agreement_line(found: Sequence[Agreement]) -> str:
    """Return the agreement of one attribute in words, or the reason that there is none."""
    alpha = found[0]
    if math.isnan(alpha.value):
        return f"agreement not computed: {alpha.why}"
    rounding = next(
        (f"; κ and ordinal α rounded {each.rounding}" for each in found if each.rounding), ""
    )
    named = {_WORDS[each.coefficient]: each for each in found}
    return _told(named, f"{_bootstrap(alpha)}{rounding}")


def _bootstrap(each: Agreement) -> str:
    by = "95 % bootstrap " * (each.resamples > 0)
    return f"{by}over {number_of(each.n_prompts, 'prompt')}, {number_of(each.n, 'pair')}"


def _own_line(found: Sequence[Agreement]) -> str:
    named = {each.coefficient: each for each in found}
    if math.isnan(named["reliability"].value):
        return f"{_UNKNOWN}: {named['reliability'].why}"
    words = {words: named[name] for name, words in _OWN.items() if name in named}
    return _told(words, _bootstrap(named["reliability"]))


def _told(named: Mapping[str, Agreement], note: str) -> str:
    parts = [
        f"{name} {'–' if math.isnan(each.value) else f'{each.value:z.2f}'}"
        + ("" if math.isnan(each.ci_low) else f" {range_of(each.ci_low, each.ci_high)}")
        for name, each in named.items()
    ]
    whys = dict.fromkeys(f"; {each.why}" for each in named.values() if each.why)
    return f"{', '.join(parts)} ({note}{''.join(whys)})"


def range_of(low: float, high: float) -> str:
    """Return an interval in words."""
    return "[–]" if math.isnan(low) else f"[{low:z.2f}, {high:z.2f}]"


def _mean(each: Summary) -> dict[str, Any]:
    """Return the mean of one attribute as JSON, the judge's own and as labels correct it; null for none."""
    told = each.corrected
    corrected: Iterable[float] = (
        (math.nan,) * 3 if told is None else (told.estimate, told.low, told.high)
    )
    return {
        "mean": finite(each.mean.value),
        "ci_low": finite(each.mean.low),
        "ci_high": finite(each.mean.high),
        "n_pairs": each.pairs,
        "n_prompts": each.prompts,
        **dict(
            zip(
                ("corrected_mean", "corrected_low", "corrected_high"),
                map(finite, corrected),
                strict=True,
            )
        ),
        "n_labels": 0 if told is None else told.n_labels,
        "n_labelled_prompts": 0 if told is None else told.n_prompts,
        "labels_are": None
        if told is None or each.labels is None
        else ("of the data" if each.labels.of_data else "given"),
        "not_corrected_because": _why_not(each) or None,
    }


def _coefficients(found: Mapping[str, Sequence[Agreement]]) -> dict[str, Any]:
    """Return each coefficient as JSON, by attribute and name."""
    return {
        attribute: {each.coefficient: _in_json(each) for each in listed}
        for attribute, listed in found.items()
    }


def _in_json(told: Any) -> dict[str, Any]:
    return {
        name: finite(value) if isinstance(value, float) else value
        for name, value in asdict(told).items()
    }
