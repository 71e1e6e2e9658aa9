"""What the goals with decisions have in common: thresholds of each pair, and the best response of each group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from robin_cli.analysis.court import Court, Snapshot, Verdict
from robin_cli.analysis.decisions import Decided, RunVerdicts
from robin_cli.analysis.evidence import certified
from robin_cli.analysis.level_counts import LevelCounts
from robin_cli.goals.aims import ErrorWatch
from robin_cli.goals.base import Conclusion, Counts, Fact, Goal, Watch, Words, same, share_text
from robin_cli.goals.decided import decided_text, decision_facts
from robin_cli.model.arms import Arms, FloatArray, IntArray
from robin_cli.model.decision import MARGIN
from robin_cli.model.errors import option, typed
from robin_cli.model.records import number_of
from robin_cli.model.space import ArmSpace
from robin_cli.model.task import Task
from robin_cli.planning.costs import Per
from robin_cli.storage.reader import RunData


@dataclass(frozen=True, slots=True)
class DecisionsEnding:
    """How the decisions of a run stand."""

    decided: Decided

    @property
    def is_over(self) -> bool:
        """Whether everything is decided that can be."""
        return self.decided.is_over

    def lines(self, at: Conclusion) -> list[str]:
        """Return what was decided, what that took, and how to go on."""
        spent = f"{at.spent}{'' if at.worked else ' already'}, {at.left}"
        line = f"{decided_text(decision_facts(self.decided))}; {spent}"
        if self.is_over:
            return [line + ("" if at.worked else ", so nothing was sent")]
        if not at.is_spent:
            return [f"{line}: no pair is left to ask"]
        plan = f"robin plan DATA … {option('--decide', self.decided.task.decision)} --variances {typed(at.run)}"
        return [line, f"to go on: {at.again()} ({plan} says about how much)"]


class DecisionsWatch(Watch):
    """Watches what is decided by the ratings so far, which the scheduler hands to :attr:`verdicts`."""

    verdicts: RunVerdicts

    def __init__(self, task: Task, counts: LevelCounts) -> None:
        self.verdicts = RunVerdicts(task, counts)
        self._errors = ErrorWatch(task.space, None, None)

    def ending(self, arms: Arms) -> DecisionsEnding:
        """Return what the ratings so far come to."""
        return DecisionsEnding(self.verdicts.decided(arms))

    def standing(self, arms: Arms) -> list[Fact]:
        """Return the likely worst error, and how many decisions are certified and open, by the last look."""
        evidence = self.verdicts.evidence
        log = evidence.log[0].copy()
        is_sure = certified(log, evidence.task.decision.error_rate)
        waiting = int((~is_sure & (log >= evidence.needed)).sum())
        said = f" ({waiting:,} clear, asked no more)" if waiting else ""
        noun = "group" if evidence.task.group is not None else "pair"
        return [
            *self._errors.standing(arms),
            ("decided", f"{int(is_sure.sum()):,} of {number_of(len(log), noun)}"),
            ("open", f"{int((~is_sure).sum()):,}{said}"),
        ]


@dataclass(frozen=True)
class Deciding(Goal):
    """Decisions on the judges' own mean, each certified or open; wrong by more than the margin."""

    ends: ClassVar[bool] = True
    columns: ClassVar[tuple[str, ...]] = (
        "wrong_mean",
        "wrong_sem",
        "certified_mean",
        "certified_wrong_mean",
        "calls_mean",
    )

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

    def is_over(self, run: RunData, bound: float | None = None) -> bool:
        """Return whether all that can be decided is decided."""
        del bound
        verdicts = RunVerdicts(self.task, LevelCounts.of(run))
        verdicts.look(run.fold.arms)
        return verdicts.all_decided

    @property
    def groups(self) -> IntArray | None:
        """The groups of which the best is looked for."""
        return self.task.group

    @property
    def is_together(self) -> bool:
        """Whether a decision hangs on several responses, or on several judges."""
        return self.groups is not None or len(self.space.judges) > 1

    @property
    def decisions(self) -> int:
        """How many decisions there are."""
        return self.task.decisions

    def over(self, space: ArmSpace, groups: IntArray | None) -> Goal:
        """Return the same decisions over other arms."""
        return replace(self, space=space, task=Task(self.task.decision, space, groups))

    def court(self, runs: int) -> Court:
        """Return what decides in so many simulated runs."""
        return Court(self.task, runs)

    def loss(self, found: Snapshot, truth: FloatArray) -> dict[str, FloatArray]:
        """Return the share of wrong decisions, of certified ones and of these of wrong ones, and the calls spent."""
        del truth
        assert found.verdict is not None  # noqa: S101  # a court decides in every run
        return {name: np.asarray(getattr(found.verdict, name), np.float64) for name in Verdict.__slots__}

    def known_then(self, row: Mapping[str, Any], words: Words) -> str:
        """Return how many decisions are wrong, and how many are certified."""
        del words
        if row["wrong"] is None:
            return ""
        return (
            f"{share_text(row['wrong'])} of the decisions are wrong, and {share_text(row['certified'])} are certified"
        )
