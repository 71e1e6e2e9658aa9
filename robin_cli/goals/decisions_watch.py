"""What a session looks at that decides, and how it ends."""

from __future__ import annotations

from dataclasses import dataclass

from robin_cli.analysis.decisions import Decided, Evidence, RunVerdicts
from robin_cli.analysis.evidence import certified
from robin_cli.analysis.level_counts import LevelCounts
from robin_cli.goals.aims import ErrorWatch
from robin_cli.goals.decided import decided_text, decision_facts
from robin_cli.goals.watching import Conclusion, Fact, Watch
from robin_cli.model.arms import Arms
from robin_cli.model.errors import option, typed
from robin_cli.model.records import number_of
from robin_cli.model.task import Task


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

    verdicts: RunVerdicts[Decided]

    def __init__(self, task: Task, counts: LevelCounts) -> None:
        self._evidence = Evidence(task)
        self.verdicts = RunVerdicts(self._evidence, counts)
        self._errors = ErrorWatch(task.space, None, None)

    def ending(self, arms: Arms) -> DecisionsEnding:
        """Return what the ratings so far come to."""
        return DecisionsEnding(self.verdicts.decided(arms))

    def standing(self, arms: Arms) -> list[Fact]:
        """Return the likely worst error, and how many decisions are certified and open, by the last look."""
        evidence = self._evidence
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
