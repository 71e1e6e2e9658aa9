"""The interface of a goal: what a user wants to know of a run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np

from robin_cli.analysis.court import Court, Snapshot
from robin_cli.goals.found import Found
from robin_cli.goals.watching import Counts, Watch
from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.matches import Matches
from robin_cli.model.records import GivenLabels
from robin_cli.model.space import ArmSpace
from robin_cli.model.systems import Systems
from robin_cli.model.task import Task
from robin_cli.planning.costs import Per
from robin_cli.policies.base import DEFAULT_MARGIN, Policy, Setup
from robin_cli.policies.by_scale import policy_by_scale
from robin_cli.questions.inquiry import Inquiry
from robin_cli.storage.manifest import Manifest
from robin_cli.storage.reader import RunData

Words = Callable[[float], str]
"""Writes an error in the unit of the run's errors."""


class Goal(ABC):
    """What a user wants to know of a run. A new one is a file in ``own/``, which :mod:`robin_cli.goals.making` finds.

    Attributes:
        is_usual: whether it is the goal of a run that asks for no other.
        asked_by: the flag that asks for it.
        space: which arm is which pair, attribute and judge.
        noun: what an answer holds, a rating or a verdict.
        rows, results: what the rows of the data are, and what the run says of each, in the plural.
        asks_all: whether every arm must be asked once.
        is_of_scores: whether the scores themselves are wanted, so that a scheduler for them is as good as one of its own.
        says: what a run says that has this goal.
        ends: whether a run ends by itself, before its budget is spent.
        columns: what ``robin simulate`` prints of each scheduler and budget: measures of :meth:`loss` with _mean, _std or
            _sem, and ``what``.
        figures: of a forecast, by the name that ``robin plan --json`` has: measures with _mean, _sem or _sum; ``worst`` is
            the wce of a run of all arms.
        what: may be wrong, in words, where ``columns`` have it.
        simulated: the schedulers that ``robin simulate`` takes unless told; none: an even spread, and what auto becomes.
    """

    is_usual: ClassVar[bool] = False
    asked_by: ClassVar[str] = ""
    space: ArmSpace
    noun: ClassVar[str] = "rating"
    rows: ClassVar[str] = "pairs"
    results: ClassVar[str] = "scores"
    asks_all: ClassVar[bool] = True
    is_of_scores: ClassVar[bool] = True
    says: ClassVar[type[Found]]
    ends: ClassVar[bool] = False
    columns: ClassVar[tuple[str, ...]] = ("wce_mean", "wce_std", "wce_sem")
    figures: ClassVar[Mapping[str, str]] = {
        "worst_error": "worst_mean",
        "worst_error_sem": "worst_sem",
        "mean_error": "mean_mean",
    }
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

    def without_systems(self, why: str) -> list[str]:
        """Return what a report says where no systems can be compared, and ``why``; nothing where nobody asked for it."""
        del why
        return []

    @property
    def recorded(self) -> Mapping[str, Any]:
        """Settings as the manifest records them, where that is not how they were given."""
        return {}

    @property
    def data(self) -> Mapping[str, Any]:
        """What the manifest records of the data for this goal."""
        return {}

    def setup(self, own: Mapping[str, Any], budget: int, variances: FloatArray | None = None) -> Setup:
        """Return what a policy may know of the run.

        Args:
            own: the run's own settings, by name.
            budget: B, calls in all; about so many where the budget is of money.
            variances: of each arm, shape (K,), 1/n; None where nothing is known.
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
            prefer=own["prefer"],
        )

    def policy(self, manifest: Manifest, variances: FloatArray | None) -> Policy:
        """Return the policy of a run, as its manifest has it. InputError for settings that it refuses."""
        own = manifest.own_settings
        setup = self.setup(own, manifest.budget, variances)
        return policy_by_scale(own["scheduler"], setup, variances, self.space.by_scale())

    @abstractmethod
    def check_reach(self, budget: int) -> None:
        """InputError if ``budget`` calls are too few to say anything."""

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

    def found(self, run: RunData, given: GivenLabels | None = None) -> Found:
        """Return what ``run`` says; ``given``: people's labels, in place of the human ratings of its data."""
        return self.says(run, self, given)

    @abstractmethod
    def has_none(self, run: RunData, what: str, *, in_python: bool) -> str:
        """Say why ``run`` has nothing that ``what`` could go by, and what there is in its place."""

    @property
    def groups(self) -> IntArray | None:
        """The group of each pair where whole groups are simulated, numbered from 0, shape (pairs,); None: each by itself."""
        return None

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

        Here the errors of scores, in the unit of the space. Of a goal that ``ends`` the calls spent are among it, ``calls``.

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
        if row.get("worst_error") is None:
            return ""
        return f"the worst score is off by about {words(row['worst_error'])}, the average one by {words(row['mean_error'])}"


def share_text(share: float) -> str:
    """Write a share as people read it: 12 %, 0.6 %, and none as such."""
    percent = 100.0 * share
    return "none" if not share else f"{percent:.0f} %" if percent >= 10 else f"{percent:.2g} %"


def same(values: Sequence[float], others: Sequence[float]) -> bool:
    """Return whether two lists of numbers are equal but for rounding."""
    return bool(np.allclose(values, others, rtol=1e-9, atol=0.0))
