"""Goals: on which side of thresholds each pair lies, and which response of each group is best, by ratings of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from robin_cli.analysis.court import Court, Snapshot, Verdict
from robin_cli.analysis.decided import Decided
from robin_cli.goals.answers import SHOWN, winners_text
from robin_cli.goals.base import Goal, Words, same, share_text
from robin_cli.goals.decided import OPEN, DecisionsWatch, decided_text, kept_text, sure_text
from robin_cli.goals.rating import Rated, Rating
from robin_cli.goals.watching import Counts, Watch
from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.decision import MARGIN, UNDECIDED
from robin_cli.model.records import SYSTEM_COLUMN
from robin_cli.model.space import ArmSpace
from robin_cli.model.task import Task
from robin_cli.questions.inquiry import Inquiry


class Decisions(Rated):
    """The results of a run that decides by ratings."""

    @property
    def decided(self) -> Decided:
        assert self.scores.decided is not None  # noqa: S101  # for the types
        return self.scores.decided

    @property
    def answer(self) -> list[str]:
        """The number of kept pairs, or the winners; how many are certified, and the likely errors of the others.

        If the run asked whether people agree, that comes first.
        """
        kept, sure, agreed = kept_text(self.decided), sure_text(self.decided), self.agreed_lines()
        if agreed:
            kept = f"by the judge's own mean: {kept}"
        if self.decided.task.decision.is_best:
            return [*agreed, self._winners(), kept] if agreed else [kept, self._winners(), sure]
        return [*agreed, kept, sure]

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
            OPEN
            if decided.leaning[row] == UNDECIDED
            else f"{systems[pair] or run.pair_ids[pair]}{OPEN * (not sure)}"
            for row, pair, sure in zip(
                rows[:SHOWN].tolist(), pairs[:SHOWN].tolist(), decided.held.tolist(), strict=False
            )
        ]
        return winners_text(run, pairs, names, run.pairs.grouped_by)

    @property
    def is_open(self) -> bool:
        """Whether a decision is open."""
        return not self.is_over

    def lines(self) -> dict[str, str]:
        return {
            **super().lines(),
            "scores on average": self.mean_text,
            "decided": decided_text(self.decided),
        }


@dataclass(frozen=True)
class Deciding(Rating):
    """Decisions on the judges' own mean, each certified or open; a wrong one is off by more than the margin."""

    asked_by: ClassVar[str] = "--decide"
    ends: ClassVar[bool] = True
    columns: ClassVar[tuple[str, ...]] = (
        "wrong_mean",
        "wrong_sem",
        "certified_mean",
        "certified_wrong_mean",
        "calls_mean",
    )
    figures: ClassVar[Mapping[str, str]] = {
        "calls": "calls_mean",
        "wrong": "wrong_mean",
        "certified": "certified_mean",
        "decisions": "decisions_sum",
    }

    is_of_scores: ClassVar[bool] = False
    says = Decisions

    space: ArmSpace
    task: Task

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
        del own, target  # settings refuse an error to stop at beside decisions
        return DecisionsWatch(self.task, counts())

    @property
    def groups(self) -> IntArray | None:
        """The groups whose best is looked for."""
        return self.task.group

    def over(self, space: ArmSpace, groups: IntArray | None) -> Goal:
        return replace(self, space=space, task=replace(self.task, space=space, group=groups))

    def court(self, runs: int) -> Court:
        return Court(self.task, runs)

    def loss(self, found: Snapshot, truth: FloatArray) -> dict[str, FloatArray]:
        """Return the shares of wrong decisions, certified and wrong certified ones, the calls spent, and all decisions."""
        del truth
        assert found.verdict is not None  # noqa: S101  # a court decides in every run
        measured = {name: getattr(found.verdict, name) for name in Verdict.__slots__}
        measured["decisions"] = np.full(len(found.n), self.task.decisions)
        return {name: np.asarray(values, np.float64) for name, values in measured.items()}

    def known_then(self, row: Mapping[str, Any], words: Words) -> str:
        """Return the shares of wrong and of certified decisions in words; no share is less than the simulation can show."""
        del words
        # of n events without one that is wrong, 95 % confidence shows less than 3/n
        bound = share_text(3.0 / row["decisions"])
        wrong = share_text(row["wrong"]) if row["wrong"] else f"fewer than {bound}"
        return (
            f"{wrong} of the decisions are wrong, and {share_text(row['certified'])} are certified"
        )


class Threshold(Deciding):
    """The pairs that are kept because their mean ratings meet thresholds."""

    @classmethod
    def of(cls, source: Inquiry) -> Self | None:
        """Return the goal if the run names thresholds."""
        task = source.task
        return None if task is None or task.decision.is_best else cls(source.space, task)


class Best(Deciding):
    """The response of each group with the highest mean rating."""

    @classmethod
    def of(cls, source: Inquiry) -> Self | None:
        """Return the goal if the run looks for the best of each group. InputError for groups that are too large."""
        task = source.task
        if task is None or not task.decision.is_best:
            return None
        _ = task.contests  # refuses groups that are too large
        return cls(source.space, task)
