"""Goals: on which side of thresholds each pair lies, and which response of each group is best, by ratings of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from robin_cli.goals.answers import SHOWN, winners_text
from robin_cli.goals.base import Goal, Words, same
from robin_cli.goals.decided import DecisionsWatch, decided_lines, margin_text, target_line
from robin_cli.goals.rating import Rated, RatingGoal
from robin_cli.goals.watching import Counts, Watch
from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.decision import MARGIN, UNDECIDED
from robin_cli.model.records import SYSTEM_COLUMN
from robin_cli.model.space import ArmSpace
from robin_cli.policies.task import Task, sampled_of
from robin_cli.run.inquiry import Inquiry
from robin_cli.show.words import MOST_LINES, share_text
from robin_cli.stats.court import Court, DecisionCourt, Snapshot
from robin_cli.stats.decided import Decided, differing
from robin_cli.stats.likely_wrong import is_enough_asked


class Decisions(Rated):
    """The results of a run that decides by ratings."""

    @property
    def decided(self) -> Decided:
        assert self.scores.decided is not None  # noqa: S101  # for the types
        return self.scores.decided

    @property
    def answer(self) -> list[str]:
        """What is decided and how much of it is likely wrong; the calls of several judges; the winners; how much is certified.

        If the run asked whether people agree, that comes first.
        """
        head, *sure = decided_lines(self.decided)
        winners = [self._winners()] if self.decided.task.decision.is_best else []
        return [*self.agreed_lines(), head, *self._opinions(), *winners, *sure][:MOST_LINES]

    def _opinions(self) -> list[str]:
        """Return the calls of each judge, and how often the others decide otherwise than the first."""
        if not self.is_panel:
            return []
        first, *others = (f"{each.judge} {each.spent:,}" for each in self.judges)
        differ = [
            f"{other} (differs in {count:,} of {of:,} sampled decisions)"
            for other, (count, of) in zip(
                others, differing(self.decided.task, self.run.fold.arms), strict=True
            )
        ]
        return [f"calls: {', '.join([first, *differ])}"]

    def _winners(self) -> str:
        """Return the first leading responses, by their systems if these have names."""
        decided, run = self.decided, self.run
        rows = decided.first
        pairs = run.space.pair[self.scores.arm[rows]].astype(np.int64)
        systems = (
            run.column(SYSTEM_COLUMN)
            if SYSTEM_COLUMN in run.column_names
            else [None] * len(run.pair_ids)
        )
        names = [
            UNDECIDED
            if decided.decision[row] == UNDECIDED
            else str(systems[pair] or run.pair_ids[pair])
            for row, pair in zip(rows[:SHOWN].tolist(), pairs[:SHOWN].tolist(), strict=True)
        ]
        return winners_text(run, pairs, names, run.pairs.grouped_by)

    @property
    def wanted(self) -> NDArray[np.bool_]:
        """Whether each arm is to have a rating: a second judge is not asked about all."""
        return self.decided.task.starts | (self.run.fold.arms.n > 0)

    @property
    def is_over(self) -> bool:
        """Whether few enough decisions are likely wrong, or every decision that can be certified is."""
        decided, target, arms = self.decided, self.target, self.run.fold.arms
        if target and decided.share_wrong <= target:
            return is_enough_asked(decided.task, arms.n, arms.is_retired)
        return decided.is_over

    @property
    def is_open(self) -> bool:
        """Whether further calls may change a decision."""
        return not self.is_over

    def lines(self) -> dict[str, str]:
        decided, target = self.decided, self.target
        return {
            "decided": "; ".join([*decided_lines(decided), margin_text(decided.task)]),
            **({"target": target_line(decided.share_wrong, target)} if target else {}),
            **super().lines(),
            "scores on average": self.mean_text,
        }


@dataclass(frozen=True)
class DecidingGoal(RatingGoal):
    """Decisions by the judges' mean ratings; a wrong one is off by more than the margin."""

    asked_by: ClassVar[str] = "--decide"
    columns: ClassVar[tuple[str, ...]] = tuple(
        f"{name}_{part}" for name in ("wrong", "likely_wrong", "calls") for part in ("mean", "sem")
    )
    figures: ClassVar[Mapping[str, str]] = {
        "calls": "calls_mean",
        "wrong": "wrong_mean",
        "likely_wrong": "likely_wrong_mean",
        "decisions": "decisions_sum",
    }

    is_of_scores: ClassVar[bool] = False
    says = Decisions

    space: ArmSpace
    task: Task
    target_wrong: float = 0.0
    """The share likely wrong at which simulated runs end; 0 for none."""

    @classmethod
    def of(cls, source: Inquiry) -> Self | None:
        """Return the goal if the run decides on pairs or groups. InputError for groups that are too large."""
        if (task := source.task) is None:
            return None
        _ = task.contests  # refuses groups that are too large
        return cls(source.space, task, source.target_wrong)

    @property
    def ends(self) -> bool:
        """Whether a run ends once few decisions are likely wrong, or all are certified."""
        return bool(self.target_wrong) or self.task.decision.error_rate is not None

    @property
    def least_calls(self) -> int:
        return int(self.task.starts.sum())

    def pairs_within(self, budget: int) -> int:
        """Return how many pairs ``budget`` calls reach, each once by the first judge, and the sample by the others."""
        space = self.space
        others, each = len(space.judges) - 1, len(space.attributes)
        pairs = range(1, min(budget, len(space.pair_ids)) + 1)
        return max((n for n in pairs if each * (n + others * sampled_of(n)) <= budget), default=1)

    @property
    def recorded(self) -> Mapping[str, Any]:
        """The decision in full; no margin if it is the default."""
        margins: Sequence[float] = self.task.decision.margins
        usual = [MARGIN * (scale.high - scale.low) for scale in self.space.scales]
        return {
            "decide": str(self.task.decision),
            "margin": None if same(margins, usual) else margins[0],
        }

    def watch(self, counts: Counts, own: Mapping[str, Any], target: float | None) -> Watch:
        """Watch the decisions."""
        del own
        return DecisionsWatch(self.task, counts, target or 0.0)

    @property
    def groups(self) -> IntArray | None:
        """The groups whose best is looked for."""
        return self.task.group

    def over(self, space: ArmSpace, groups: IntArray | None) -> Goal:
        return replace(self, space=space, task=replace(self.task, space=space, group=groups))

    def court(self, runs: int) -> Court:
        return DecisionCourt(self.task, runs, self.target_wrong)

    def loss(self, found: Snapshot, truth: FloatArray) -> dict[str, FloatArray]:
        """Return the shares of wrong and of likely wrong decisions, the calls spent, and all decisions."""
        del truth
        return {**found.measured, "decisions": np.full(len(found.n), float(self.task.decisions))}

    def known_then(self, row: Mapping[str, Any], words: Words) -> str:
        """Return the share of wrong decisions in words; no share is less than the simulation can show."""
        del words
        # of n events without one that is wrong, 95 % confidence shows less than 3/n
        bound = share_text(3.0 / row["decisions"])
        wrong = share_text(row["wrong"]) if row["wrong"] else f"fewer than {bound}"
        return f"{wrong} of the decisions are wrong"
