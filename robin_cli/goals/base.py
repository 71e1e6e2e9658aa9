"""The interface of a goal: what a run is for, what a session looks at while it goes on, and how it ends."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

import numpy as np

from robin_cli.analysis.court import Court, Snapshot
from robin_cli.analysis.level_counts import LevelCounts
from robin_cli.model.arms import Arms, FloatArray, IntArray
from robin_cli.model.errors import InputError, typed
from robin_cli.model.matches import Matches
from robin_cli.model.records import things_rated
from robin_cli.model.space import ArmSpace
from robin_cli.model.systems import Systems
from robin_cli.model.task import Task
from robin_cli.planning.costs import Per
from robin_cli.planning.stopping import StoppingRule, Verdicts
from robin_cli.policies.base import DEFAULT_MARGIN, Setup
from robin_cli.questions.inquiry import Inquiry
from robin_cli.storage.reader import RunData

Fact = tuple[str, str]
"""A name and a value, as a display shows them."""

Words = Callable[[float], str]
"""Writes an error in the unit of the run's errors."""

Counts = Callable[[], LevelCounts]
"""Reads how often each arm got each level; called only where a goal needs that."""


@dataclass(frozen=True, slots=True)
class Conclusion:
    """What the last lines of a session say of its budget.

    Attributes:
        run: the run's folder.
        worked: False where there was nothing to do, and nothing was sent.
        is_spent: whether the budget is spent.
        budget, spent, left: the budget and its parts in words, as ``300 calls``.
        more: the setting that gives the run more to spend, ``budget`` or ``budget_usd``.
        in_python: whether the next step is a line of Python, and not a command.
    """

    run: Path
    worked: bool
    is_spent: bool
    budget: str
    spent: str
    left: str
    more: str
    in_python: bool = False

    def again(self, **settings: str) -> str:
        """Return how to go on with other ``settings``; without any, with more to spend."""
        given = settings or {self.more: "MORE"}
        if self.in_python:
            return f"open_run({str(self.run)!r}).resume({', '.join(f'{k}={v}' for k, v in given.items())})"
        return " ".join(["robin resume", typed(self.run), *(f"--{k.replace('_', '-')} {v}" for k, v in given.items())])


class Ending(Protocol):
    """How a run stands to its goal."""

    @property
    def is_over(self) -> bool:
        """Whether the goal is reached, so that the run is finished before its budget is spent."""

    def lines(self, at: Conclusion) -> list[str]:
        """Return what the last lines of a session say of the goal, and how to go on; nothing for a budget alone."""


class Watch(ABC):
    """What a session looks at while its run goes on.

    Attributes:
        verdicts: what is decided by the ratings so far; None where nothing is to be decided.
        stop: says when the run is over before its budget is spent; None: never.
    """

    verdicts: Verdicts | None = None
    stop: StoppingRule | None = None

    @property
    def may_end_early(self) -> bool:
        """Whether the run may be over before its budget is spent."""
        return self.verdicts is not None or self.stop is not None

    def add(self, arm: int, ratings: Iterable[float]) -> None:  # noqa: B027  # most look at nothing else than the arms
        """Take further ratings of ``arm``, which are on disk."""

    @abstractmethod
    def ending(self, arms: Arms) -> Ending:
        """Return how the run stands now."""

    @abstractmethod
    def standing(self, arms: Arms) -> list[Fact]:
        """Return how the run stands, for displays; ``arms`` may change meanwhile."""


class Goal(ABC):
    """What a user wants to know of a run. A new one is a file in ``own/``, which :mod:`robin_cli.goals.making` finds.

    Attributes:
        is_usual: whether it is the goal of a run that asks for no other.
        space: which arm is which pair, attribute and judge.
        noun: what an answer holds, a rating or a verdict.
        asks_all: whether every arm must be asked once.
        is_of_scores: whether the scores themselves are wanted, so that a scheduler for them is as good as one of its own.
        ends: whether a run ends by itself, before its budget is spent.
        columns: what ``robin simulate`` prints of each scheduler and budget: measures of :meth:`loss` with _mean, _std or
            _sem, and ``what``.
        what: may be wrong, in words, where ``columns`` have it.
        simulated: the schedulers that ``robin simulate`` takes unless told; none: an even spread, and what auto becomes.
    """

    is_usual: ClassVar[bool] = False
    space: ArmSpace
    noun: ClassVar[str] = "rating"
    asks_all: ClassVar[bool] = True
    is_of_scores: ClassVar[bool] = True
    ends: ClassVar[bool] = False
    columns: ClassVar[tuple[str, ...]] = ("wce_mean", "wce_std", "wce_sem")
    what: ClassVar[str] = ""
    simulated: ClassVar[tuple[str, ...]] = ()
    task: Task | None = None
    systems: Systems | None = None
    matches: Matches | None = None

    @classmethod
    @abstractmethod
    def of(cls, source: Inquiry) -> Self | None:
        """Return the goal where ``source`` asks for it. InputError for what these data cannot tell."""

    @property
    def per(self) -> Per:
        """What the gain of a call is divided by, where a budget is of money."""
        return Per.ROOT_OF_JUDGE

    @property
    def recorded(self) -> Mapping[str, Any]:
        """Settings as the manifest records them, where that is not how they were given."""
        return {}

    @property
    def data(self) -> Mapping[str, Any]:
        """What the manifest records of the data for this goal."""
        return {}

    def setup(
        self,
        own: Mapping[str, Any],
        budget: int,
        *,
        variances: FloatArray | None = None,
        by_money: bool = False,
        to_target: bool = False,
        rounds: int | None = None,
    ) -> Setup:
        """Return what a policy may know of the run.

        Args:
            own: the run's own settings, by name.
            budget: B, calls in all; about so many where the budget is of money.
            variances: of each arm, shape (K,), 1/n; None where nothing is known.
            to_target: the run stops once the largest error is small enough.
            rounds: in which calls go out; None where each is chosen by all answers so far.
        """
        return Setup(
            arms=len(self.space),
            budget=budget,
            scale=self.space.scales[0],
            delta=own["delta"],
            mode=own["mode"],
            objective=own["objective"],
            variances=variances,
            task=self.task,
            systems=self.systems,
            matches=self.matches,
            margin=own["margin"] or DEFAULT_MARGIN,
            by_money=by_money,
            to_target=to_target,
            rounds=rounds,
        )

    def check_reach(self, budget: int) -> None:
        """InputError if ``budget`` calls do not reach every arm once."""
        space = self.space
        arms = len(space)
        if budget < arms:
            what = things_rated(arms, len(space.attributes), len(space.judges))
            raise InputError(
                f"--budget {budget}: reaches {budget:,} of {what} once; raise it to {arms} or more, or take fewer pairs "
                f"with --limit {max(1, budget // space.arms_per_pair)}"
            )

    def across(self, part: IntArray) -> str:
        """Return what a user should know of a run that is put together of parts; "" for nothing.

        Args:
            part: of which one each pair is, shape (pairs,).
        """
        del part
        return ""

    def caution(self, budget: int) -> str:
        """Return what a user should know of how far ``budget`` calls reach; "" for nothing."""
        del budget
        return ""

    @abstractmethod
    def watch(self, counts: Counts, own: Mapping[str, Any], target: float | None, *, guaranteed: bool) -> Watch:
        """Return what a session looks at.

        Args:
            counts: of all ratings so far.
            own: the run's own settings, by name.
            target: the error that the session stops at; None for none.
            guaranteed: the target is held against the bound, not the estimate.
        """

    def is_over(self, run: RunData, bound: float | None = None) -> bool:
        """Return whether ``run`` has reached its goal; ``bound``: the error bound of its scores, where it is known already."""
        del run, bound
        return False

    @property
    def groups(self) -> IntArray | None:
        """The group of each pair where whole groups are simulated, numbered from 0, shape (pairs,); None: each by itself."""
        return None

    @property
    def is_together(self) -> bool:
        """Whether what is to be found hangs on several arms of a kind, so that a simulation takes longer."""
        return False

    @property
    def decisions(self) -> int:
        """How many decisions there are."""
        return 0

    def over(self, space: ArmSpace, groups: IntArray | None) -> Goal:
        """Return the same goal over other arms; ``groups``: of their pairs, where these have some."""
        del groups
        return replace(self, space=space)  # type: ignore[type-var]  # every goal is a dataclass

    def court(self, runs: int) -> Court | None:
        """Return what decides in so many simulated runs; None where nothing is to be decided."""
        del runs
        return None

    def loss(self, found: Snapshot, truth: FloatArray) -> dict[str, FloatArray]:
        """Return what simulated runs get wrong, by measure, shape (runs,) each; what else is measured may have other shapes.

        Here the errors of scores, in the unit of the space.

        Args:
            truth: the true means of all arms, shape (runs, K).
        """
        del truth
        return {"wce": found.wce, "mean": found.mean_error}

    def known_then(self, row: Mapping[str, Any], words: Words) -> str:
        """Return what is known when a budget is spent, in words; "" where that is not forecast.

        Args:
            row: figures of a forecast by name, None where nothing is known.
        """
        if row["worst_error"] is None:
            return ""
        return f"the worst score is off by about {words(row['worst_error'])}, the average one by {words(row['mean_error'])}"


def share_text(share: float) -> str:
    """Write a share as people read it: 12 %, 0.6 %, and none as such."""
    percent = 100.0 * share
    return "none" if not share else f"{percent:.0f} %" if percent >= 10 else f"{percent:.2g} %"


def same(values: Sequence[float], others: Sequence[float]) -> bool:
    """Return whether two lists of numbers are equal but for rounding."""
    return bool(np.allclose(values, others, rtol=1e-9, atol=0.0))
