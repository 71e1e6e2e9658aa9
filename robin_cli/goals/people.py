"""What people say of the pairs of a run: how the judge agrees with them, and with itself, and what that makes of its means."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Self

from robin_cli.analysis.agreement import CORRELATIONS, Agreement
from robin_cli.analysis.run_agreement import (
    Calibration,
    agreements,
    calibrations,
    reliabilities,
)
from robin_cli.analysis.run_labels import labels_of
from robin_cli.analysis.scores import Scores
from robin_cli.analysis.summaries import FIRST, Summary, summaries
from robin_cli.model.errors import typed
from robin_cli.model.records import GivenLabels, number_of
from robin_cli.results.words import finite
from robin_cli.storage.reader import RunData

if TYPE_CHECKING:
    pass

_UNTOLD = "not told"
"""How the line begins on what is not stated."""
_LEVELS = {"same": "the same preferred", "kappa": "weighted κ", "alpha": "Krippendorff's α"}
_OWN = {"reliability": "scores", "icc": "one rating (ICC)", "ceiling": "so correlation with a human at most"}


@dataclass(frozen=True, slots=True)
class People:
    """The means of a run with people's labels, and how its scores agree with these, by attribute (and judge).

    Attributes:
        first: of so many ratings of each pair the means are; None for all.
    """

    means: Sequence[Summary]
    agreement: Mapping[str, Sequence[Agreement]]
    reliability: Mapping[str, Sequence[Agreement]]
    calibration: Mapping[str, Calibration]
    first: int | None

    @classmethod
    def of(cls, run: RunData, tables: Sequence[Scores], given: GivenLabels | None) -> Self:
        """Return it for a run with these scores, of all judges together first.

        Args:
            given: people's labels, in place of the human ratings of its data.
        """
        scores = tables[0]
        return cls(
            summaries(run, scores, labels_of(run, given)),
            agreements(run, *tables, given=given),
            reliabilities(run, *tables),
            calibrations(run, *tables, given=given),
            None if scores.decided is None else FIRST,
        )

    def facts(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "means": {each.attribute: {**_mean(each), "first_ratings": self.first} for each in self.means},
            "agreement": _coefficients(self.agreement),
            "reliability": _coefficients(self.reliability),
            "calibration": {
                name: [_in_json(level) for level in each.levels] for name, each in self.calibration.items()
            },
        }

    def mean_lines(self) -> dict[str, str]:
        """Return the means in words, by name."""
        return {f"mean of {each.attribute}": self._mean_line(each) for each in self.means if each.pairs}

    def human_lines(self, run: RunData) -> dict[str, str]:
        """Return in words how the scores agree with people; nothing where nobody said anything."""
        lines = {}
        for name, found in self.agreement.items():
            lines[f"human {name}"] = agreement_line(found)
            if not math.isnan(found[0].value):
                lines[f"levels of {name}"] = levels_line(found)
        if any(each.levels for each in self.calibration.values()):
            lines["calibration"] = f"human ratings by score: robin export {typed(run.name)} --what calibration"
        return lines

    def own_lines(self, *, known: bool = False) -> dict[str, str]:
        """Return in words how the judge agrees with itself; ``known``: nothing of what is not known."""
        lines = {f"reliability of {name}": _own_line(found) for name, found in self.reliability.items()}
        return {name: line for name, line in lines.items() if not (known and line.startswith(_UNTOLD))}

    def _mean_line(self, each: Summary) -> str:
        over = f"{number_of(each.pairs, 'pair')} of {number_of(each.prompts, 'prompt')}"
        first = f", the first {self.first} ratings of each" if self.first else ""
        own = f"{each.mean.value:.2f} {range_of(each.mean.low, each.mean.high)} by the judge (95 %, over {over}{first})"
        told = each.corrected
        if told is not None and not math.isnan(told.estimate):
            is_given = each.labels is not None and not each.labels.of_data
            labels = number_of(told.n_labels, "label" if is_given else "human rating")
            of, ends = number_of(told.n_prompts, "prompt"), f"[{told.low:.2f}, {told.high:.2f}]"
            return f"{own}; {told.estimate:.2f} {ends} corrected by {labels} of {of}"
        return f"{own}; not corrected by labels: {why}" if (why := _why_not(each)) else own


def _why_not(each: Summary) -> str:
    """Why labels correct no mean; "" where they do, or where there are none."""
    return (each.corrected.why if each.corrected is not None else "") or (each.labels.why if each.labels else "")


def agreement_line(found: Sequence[Agreement]) -> str:
    """Return the correlations of one attribute in words, or why there are none."""
    pearson = found[0]
    if math.isnan(pearson.value):
        return f"no agreement is told: {pearson.why}"
    over = f"{number_of(pearson.n_prompts, 'prompt')}, {number_of(pearson.n, 'pair')}"
    return _told(
        {each.coefficient: each for each in found if each.coefficient in CORRELATIONS}, f"95 % bootstrap over {over}"
    )


def levels_line(found: Sequence[Agreement]) -> str:
    """Return in words how often the levels of one attribute agree, where there are correlations."""
    named = {each.coefficient: each for each in found}
    is_of_two = "same" in named
    note = "which response, or neither" if is_of_two else "scores and ratings rounded"
    return _told({words: named[name] for name, words in _LEVELS.items() if name in named}, note)


def _own_line(found: Sequence[Agreement]) -> str:
    named = {each.coefficient: each for each in found}
    if math.isnan(named["reliability"].value):
        return f"{_UNTOLD}: {named['reliability'].why}"
    over = f"95 % bootstrap over {number_of(named['reliability'].n_prompts, 'prompt')}"
    return _told({words: named[name] for name, words in _OWN.items() if name in named}, over)


def _told(named: Mapping[str, Agreement], note: str) -> str:
    parts = [
        f"{name} {'–' if math.isnan(each.value) else f'{each.value:z.2f}'} {range_of(each.ci_low, each.ci_high)}"
        for name, each in named.items()
    ]
    whys = dict.fromkeys(f"; {each.why}" for each in named.values() if each.why)
    return f"{', '.join(parts)} ({note}{''.join(whys)})"


def range_of(low: float, high: float) -> str:
    """Return an interval in words."""
    return "[–]" if math.isnan(low) else f"[{low:z.2f}, {high:z.2f}]"


def _mean(each: Summary) -> dict[str, Any]:
    """The mean of one attribute, the judge's own and as labels correct it; null where there are none."""
    told = each.corrected
    corrected: Iterable[float] = (math.nan,) * 3 if told is None else (told.estimate, told.low, told.high)
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
        "not_corrected_because": _why_not(each) or None,
    }


def _coefficients(found: Mapping[str, Sequence[Agreement]]) -> dict[str, Any]:
    """Each coefficient, by attribute and name."""
    return {attribute: {each.coefficient: _in_json(each) for each in listed} for attribute, listed in found.items()}


def _in_json(told: Any) -> dict[str, Any]:
    return {name: finite(value) if isinstance(value, float) else value for name, value in asdict(told).items()}
