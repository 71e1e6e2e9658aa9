"""What the goals with decisions have in common: thresholds of each pair, and the best response of each group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from robin_cli.analysis.court import Court, Snapshot, Verdict
from robin_cli.goals.base import Goal, Words, same, share_text
from robin_cli.goals.decisions_watch import DecisionsWatch
from robin_cli.goals.rating import Rating
from robin_cli.goals.watching import Counts, Watch
from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.decision import MARGIN
from robin_cli.model.space import ArmSpace
from robin_cli.model.task import Task
from robin_cli.planning.costs import Per


@dataclass(frozen=True)
class Deciding(Rating):
    """Decisions on the judges' own mean, each certified or open; wrong by more than the margin."""

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
        "calls_sem": "calls_sem",
        "wrong": "wrong_mean",
        "wrong_sem": "wrong_sem",
        "certified": "certified_mean",
        "certified_sem": "certified_sem",
        "decisions_simulated": "decisions_sum",
    }

    is_of_scores: ClassVar[bool] = False

    space: ArmSpace
    task: Task

    @property
    def recorded(self) -> Mapping[str, Any]:
        """The decision as it was understood; no margin where it is the usual one."""
        margins: Sequence[float] = self.task.decision.margins
        usual = [MARGIN * (scale.high - scale.low) for scale in self.space.scales]
        return {"decide": str(self.task.decision), "margin": None if same(margins, usual) else margins[0]}

    @property
    def per(self) -> Per:
        """By what a judge costs."""
        return Per.JUDGE

    def watch(self, counts: Counts, own: Mapping[str, Any], target: float | None, *, guaranteed: bool) -> Watch:
        """Watch the decisions."""
        del own, target, guaranteed  # settings refuse an error to stop at beside decisions
        return DecisionsWatch(self.task, counts())

    @property
    def groups(self) -> IntArray | None:
        """The groups of which the best is looked for."""
        return self.task.group

    def over(self, space: ArmSpace, groups: IntArray | None) -> Goal:
        """Return the same decisions over other arms."""
        return replace(self, space=space, task=Task(self.task.decision, space, groups))

    def court(self, runs: int) -> Court:
        """Return what decides in so many simulated runs."""
        return Court(self.task, runs)

    def loss(self, found: Snapshot, truth: FloatArray) -> dict[str, FloatArray]:
        """Return the shares of wrong decisions, of certified ones and of wrong ones among these, and what was spent."""
        del truth
        assert found.verdict is not None  # noqa: S101  # a court decides in every run
        measured = {name: np.asarray(getattr(found.verdict, name), np.float64) for name in Verdict.__slots__}
        return {**measured, "decisions": np.full(len(found.n), self.task.decisions)}

    def known_then(self, row: Mapping[str, Any], words: Words) -> str:
        """Return how many decisions are wrong, and how many are certified."""
        del words
        if row["wrong"] is None:
            return ""
        return (
            f"{share_text(row['wrong'])} of the decisions are wrong, and {share_text(row['certified'])} are certified"
        )
