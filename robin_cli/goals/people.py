"""People's ratings of a run's pairs: the judge's agreement with them and with itself, and the corrected means."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

from robin_cli.data.given_labels import GivenLabels
from robin_cli.goals.facts import Fact, line
from robin_cli.model.errors import typed
from robin_cli.model.records import number_of
from robin_cli.run.reader import RunReader
from robin_cli.show.text import one_line
from robin_cli.show.words import finite
from robin_cli.stats import run_agreement
from robin_cli.stats.agreement import CORRELATIONS, Agreement
from robin_cli.stats.run_agreement import Calibration
from robin_cli.stats.run_labels import labels_of
from robin_cli.stats.scores import Scores
from robin_cli.stats.summaries import FEWEST_PROMPTS, Summary, first_ratings, summaries

_WORDS = {
    "alpha": "Krippendorff's α",
    **{name: name for name in CORRELATIONS},
    "kappa": "weighted κ",
    "alpha_ordinal": "ordinal α",
    "same": "the same preferred",
    "reliability": "scores",
    "icc": "one rating (ICC)",
    "ceiling": "so correlation with a human at most",
}

Means = Sequence[Summary]
"""The mean of each attribute, also as people's labels correct it."""

ByAttribute = Mapping[str, Sequence[Agreement]]


@dataclass(frozen=True, slots=True)
class People:
    """The means of a run with people's labels, and the agreement of its scores with these, by attribute (and judge).

    Attributes:
        first: number of ratings of each pair in the means; None for all.
    """

    means: Means
    agreement: ByAttribute
    among: ByAttribute
    reliability: ByAttribute
    calibration: Mapping[str, Calibration]
    first: int | None

    @classmethod
    def of_run(
        cls, run: RunReader, means: Means, tables: Sequence[Scores], labels: GivenLabels | None
    ) -> Self:
        """Return it for a run with these means and scores, those of all judges together first.

        Args:
            labels: people's, in place of the human ratings of its data.
        """
        return cls(
            means,
            run_agreement.agreements(run, *tables, labels=labels),
            run_agreement.agreements_among(run, *tables, given_labels=labels),
            run_agreement.reliabilities(run, *tables),
            run_agreement.calibrations(run, *tables, labels=labels),
            None if tables[0].decided is None else first_ratings(run),
        )

    def facts(self) -> list[Fact]:
        means = {mean.attribute: _mean(mean) | {"first_ratings": self.first} for mean in self.means}
        levels = {
            name: [_finite(asdict(level)) for level in of_attribute.levels]
            for name, of_attribute in self.calibration.items()
        }
        return [
            Fact("means", means),
            Fact("agreement", _coefficients(self.agreement)),
            Fact("agreement_among", _coefficients(self.among)),
            Fact("reliability", _coefficients(self.reliability)),
            Fact("calibration", levels),
        ]

    def lines(self, run: RunReader) -> Iterator[Fact]:
        """Yield the agreement of the scores with people and with themselves, in words; only what is known or has a reason."""
        compared = set()
        for name, listed in self.agreement.items():
            # the reason is the same for single judges
            if name in run.manifest.attributes or not math.isnan(listed[0].value):
                compared.add(name)
                yield line(f"human {name}", agreement_line(listed))
        for name, listed in self.among.items():
            yield line(f"among {name}", agreement_line(listed))
        for mean in self.means:
            are_named = mean.labels is not None and not mean.labels.of_data
            if (why := _why_not(mean)) and (are_named or mean.attribute in compared):
                yield line(f"labels of {mean.attribute}", f"not corrected by labels: {why}")
            elif are_named and mean.corrected is not None:
                yield line(f"labels of {mean.attribute}", mean.corrected.caution)
        if any(of_attribute.levels for of_attribute in self.calibration.values()):
            export = f"robin export {typed(run.name)} --what calibration"
            yield line("calibration", f"human ratings by score: {export}")
        for name, listed in self.reliability.items():
            if not math.isnan(listed[0].value):
                in_order = sorted(
                    listed, key=lambda coefficient: [*_WORDS].index(coefficient.coefficient)
                )
                yield line(f"reliability of {name}", _coefficients_text(in_order))


def means_of(run: RunReader, scores: Scores, labels: GivenLabels | None) -> Means:
    """Return the mean of each attribute; ``labels``: people's, in place of the human ratings of the data."""
    return summaries(run, scores, labels_of(run, labels))


def mean_lines(means: Means, most: int | None = None) -> list[str]:
    """Return the mean of each attribute in words, and as labels correct it; with more than ``most`` all in one line."""
    known = [mean for mean in means if mean.pairs]
    if not known:
        return ["no pair has a score yet"]
    if most is None or len(known) <= most:
        return [f"mean {_mean_text(mean)} ({_over(mean)}){_corrected_text(mean)}" for mean in known]
    return [f"means {'; '.join(map(_mean_text, known))} ({_over(known[0])})"]


def _mean_text(summary: Summary) -> str:
    mean = summary.mean
    ends = "" if math.isnan(mean.low) else f" {range_of(mean.low, mean.high)}"
    return f"{one_line(summary.attribute)} {mean.value:z.2f}{ends}"


def _over(summary: Summary) -> str:
    over = f"over {number_of(summary.prompts, 'prompt')}, {number_of(summary.pairs, 'pair')}"
    if math.isnan(summary.mean.low):
        return f"{over}; no interval below {FEWEST_PROMPTS} prompts"
    return f"95 %, {over}"


def _corrected_text(summary: Summary) -> str:
    mean = summary.corrected
    if mean is None or math.isnan(mean.estimate):
        return ""
    are_named = summary.labels is not None and not summary.labels.of_data
    labels = number_of(mean.n_labels, "label" if are_named else "human rating")
    by = f"corrected by {labels} of {number_of(mean.n_prompts, 'prompt')}"
    return f"; {mean.estimate:z.2f} {range_of(mean.low, mean.high)} {by}"


def _why_not(summary: Summary) -> str:
    """Return why labels correct no mean; "" if they do, or if there are none."""
    why = "" if summary.corrected is None else summary.corrected.why
    return why or (summary.labels.why if summary.labels else "")


def agreement_line(listed: Sequence[Agreement]) -> str:
    """Return the agreement of one attribute in words, or the reason that there is none."""
    if math.isnan(listed[0].value):
        return f"agreement not computed: {listed[0].why}"
    rounding = next((coefficient.rounding for coefficient in listed if coefficient.rounding), "")
    return _coefficients_text(listed, f"; κ and ordinal α rounded {rounding}" if rounding else "")


def _coefficients_text(listed: Sequence[Agreement], note: str = "") -> str:
    parts = []
    for coefficient in listed:
        value = "–" if math.isnan(coefficient.value) else f"{coefficient.value:z.2f}"
        ends = (
            ""
            if math.isnan(coefficient.ci_low)
            else f" {range_of(coefficient.ci_low, coefficient.ci_high)}"
        )
        parts.append(f"{_WORDS[coefficient.coefficient]} {value}{ends}")
    first, whys = (
        listed[0],
        dict.fromkeys(f"; {coefficient.why}" for coefficient in listed if coefficient.why),
    )
    by = "95 % bootstrap " * (first.resamples > 0)
    over = f"over {number_of(first.n_prompts, 'prompt')}, {number_of(first.n, 'pair')}"
    return f"{', '.join(parts)} ({by}{over}{note}{''.join(whys)})"


def range_of(low: float, high: float) -> str:
    return "[–]" if math.isnan(low) else f"[{low:z.2f}, {high:z.2f}]"


def mean_row(summary: Summary) -> dict[str, Any]:
    """Return the mean of one attribute, the judge's own and as labels correct it, by the names of columns."""
    mean, corrected = summary.mean, summary.corrected
    return {
        "mean": mean.value,
        "ci_low": mean.low,
        "ci_high": mean.high,
        "n_pairs": summary.pairs,
        "n_prompts": summary.prompts,
        "corrected_mean": corrected and corrected.estimate,
        "corrected_low": corrected and corrected.low,
        "corrected_high": corrected and corrected.high,
        "n_labels": corrected.n_labels if corrected else 0,
    }


def _mean(summary: Summary) -> dict[str, Any]:
    corrected, labels, source = summary.corrected, summary.labels, None
    if corrected is not None and labels is not None:
        source = "of the data" if labels.of_data else "given"
    return _finite(mean_row(summary)) | {
        "n_labelled_prompts": corrected.n_prompts if corrected else 0,
        "labels_are": source,
        "not_corrected_because": _why_not(summary) or None,
    }


def _coefficients(by_attribute: ByAttribute) -> dict[str, Any]:
    return {
        name: {coefficient.coefficient: _finite(asdict(coefficient)) for coefficient in listed}
        for name, listed in by_attribute.items()
    }


def _finite(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: finite(value) if isinstance(value, float) else value for name, value in row.items()
    }
