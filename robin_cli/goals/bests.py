"""The best response to each prompt of a pairwise run: watched while it goes on, as facts, and in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from robin_cli.goals.decided import (
    DecidingWatch,
    certainty_facts,
    certified_lines,
    target_line,
    wrong_text,
)
from robin_cli.goals.watching import Counts
from robin_cli.model.arms import Arms, FloatArray
from robin_cli.model.records import number_of
from robin_cli.policies.base import DEFAULT_MARGIN
from robin_cli.policies.matches import Matches
from robin_cli.run.reader import RunReader
from robin_cli.stats.decisions import RunVerdicts
from robin_cli.stats.pairwise_decisions import Best, DuelEvidence, best_responses


def best_facts(run: RunReader, best: Best) -> dict[str, Any]:
    """Return the best responses of a run as JSON."""
    of_run, led = run.manifest, int((best.leader >= 0).sum())
    sure = best.likely_wrong, of_run.target_wrong, best.certified, of_run.error_rate
    return {"of": len(best.prompt), "leading": led, **certainty_facts(*sure)}


def best_lines(run: RunReader, best: Best) -> dict[str, str]:
    """Return how many bests are found, likely wrong and certified, in words by name."""
    of, lines = number_of(len(best.prompt), "prompt"), {}
    lines["decided"] = f"{found_text(best)}; {wrong_text(best.likely_wrong)}"
    for line in certified_lines(best.certified, of, run.manifest.error_rate):
        lines["certified"] = line
    if target := run.manifest.target_wrong:
        lines["target"] = target_line(best.share_wrong, target)
    return lines


def found_text(best: Best) -> str:
    """Return of how many prompts the best response is found."""
    led, of = int((best.leader >= 0).sum()), number_of(len(best.prompt), "prompt")
    return f"found the best of {of if led == len(best.prompt) else f'{led:,} of {of}'}"


class DuelsWatch(DecidingWatch):
    """Watches the best responses.

    Args:
        counts: reads all verdicts so far, for the evidence of certified ones.
        own: the run's own settings, by name.
        target: the share likely wrong at which the run ends; 0 for none.
    """

    def __init__(
        self, matches: Matches, counts: Counts, own: Mapping[str, Any], target: float
    ) -> None:
        self._rivals = matches.rivals
        self._margin = own["margin"] or DEFAULT_MARGIN
        self._error_rate = own["error_rate"]
        prompts = len(self._rivals.rows)
        super().__init__(
            number_of(prompts, "prompt"),
            self._evidence_of_none() if own["certify"] else None,
            counts,
            target,
            prompts * matches.space.arms_per_pair,
        )

    def is_good_enough(self, arms: Arms) -> bool:
        return best_responses(self._rivals, arms, self._margin).share_wrong <= self._target

    def is_certified(self, arms: Arms, verdicts: RunVerdicts) -> bool:
        evidence = self._evidence_of_none().of_run(verdicts.counts, arms)
        return best_responses(self._rivals, arms, self._margin, evidence).is_over

    def _evidence_of_none(self) -> DuelEvidence:
        return DuelEvidence(self._rivals, error_rate=self._error_rate, margin=self._margin)

    def decided(self, arms: Arms) -> tuple[str, FloatArray]:
        best = best_responses(self._rivals, arms, self._margin)
        return found_text(best), best.likely_wrong
