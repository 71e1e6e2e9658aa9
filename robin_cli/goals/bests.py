"""The best response to each prompt of a pairwise run: watched while it goes on, as facts, and in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from robin_cli.analysis.decisions import RunVerdicts
from robin_cli.analysis.evidence import certified
from robin_cli.analysis.likely_wrong import share_of
from robin_cli.analysis.pairwise_decisions import Best, DuelEvidence, likely_wrong_bests
from robin_cli.goals.decided import number_wrong, target_line, wrong_text
from robin_cli.goals.watching import ComparisonsWatch, Counts, Fact
from robin_cli.model.arms import Arms, FloatArray
from robin_cli.model.matches import Matches
from robin_cli.model.records import number_of
from robin_cli.model.rivals import Rivals
from robin_cli.planning.stopping import TEST_GROWTH, reached
from robin_cli.policies.base import DEFAULT_MARGIN
from robin_cli.results.words import Bars, finite
from robin_cli.storage.reader import RunData


def best_facts(run: RunData, best: Best) -> dict[str, Any]:
    """Return the best responses of a run as JSON."""
    facts = {
        "of": len(best.prompt),
        "leading": int((best.leader >= 0).sum()),
        "likely_wrong": float(np.nansum(best.likely_wrong)),
        "likely_wrong_share": finite(share_of(best.likely_wrong)),
        "target_wrong": run.manifest.target_wrong,
    }
    if best.certified is not None:
        facts |= {"certified": int(best.certified.sum()), "error_rate": run.manifest.error_rate}
    return facts


def best_lines(run: RunData, best: Best) -> dict[str, str]:
    """Return how many bests are found, likely wrong and certified, in words by name."""
    led, of = int((best.leader >= 0).sum()), number_of(len(best.prompt), "prompt")
    among = of if led == len(best.prompt) else f"{led:,} of {of}"
    lines = {"decided": f"found the best of {among}; {wrong_text(best.likely_wrong)}"}
    if best.certified is not None:
        rate = f"at most {100 * run.manifest.error_rate:g} % of these wrong on average"
        lines["certified"] = f"{int(best.certified.sum()):,} of {of} certified ({rate})"
    if target := run.manifest.target_wrong:
        lines["target"] = target_line(share_of(best.likely_wrong), target)
    return lines


def is_good_enough(run: RunData, best: Best) -> bool:
    """Return whether few enough bests of a run are likely wrong for its last session."""
    target = run.manifest.target_wrong
    return target > 0 and share_of(best.likely_wrong) <= target


class DuelsWatch(ComparisonsWatch):
    """Watches the best responses.

    Args:
        counts: reads all verdicts so far, for the evidence of certified ones.
        own: the run's own settings, by name.
        target: the share likely wrong at which the run ends; 0 for none.
    """

    decides: ClassVar[bool] = True

    def __init__(
        self, matches: Matches, counts: Counts, own: Mapping[str, Any], target: float
    ) -> None:
        super().__init__(matches)
        self._matches, self._rivals, self._target = matches, Rivals(matches), target
        self._margin, self._bars = own["margin"] or DEFAULT_MARGIN, Bars()
        if own["certify"]:
            self._evidence = DuelEvidence(
                matches, error_rate=own["error_rate"], margin=self._margin
            )
            self.verdicts = self._verdicts = RunVerdicts(self._evidence, counts())
        if target:
            first = len(self._rivals.rows) * matches.space.arms_per_pair
            self.stop = reached(self._is_good_enough, first=first, growth=TEST_GROWTH)

    def _chances(self, arms: Arms) -> FloatArray:
        sums = arms.copied_sums()
        return likely_wrong_bests(
            self._rivals, self._matches, *sums, arms.retired_mask, self._margin
        )

    def _is_good_enough(self, arms: Arms) -> bool:
        return share_of(self._chances(arms)) <= self._target

    def is_over(self, arms: Arms) -> bool:
        if self._target and self._is_good_enough(arms):
            return True
        return (
            self.verdicts is not None
            and self._evidence.outcome(arms, self._verdicts.counts).is_over
        )

    def standing(self, arms: Arms) -> list[Fact]:
        """Return the share of bests that is likely wrong, the number certified, and of comparisons asked."""
        chances = self._chances(arms)
        bars = self._bars.with_next(share_of(chances))
        prompts = number_of(len(chances), "prompt")
        facts = [
            ("decided", f"the best of {prompts}"),
            ("likely wrong", f"{number_wrong(chances)}{bars}"),
        ]
        if self.verdicts is not None:
            sure = int(certified(self._evidence.log[0], self._evidence.error_rate).sum())
            facts.append(("certified", f"{sure:,} of {prompts}"))
        return [*facts, *super().standing(arms)]
