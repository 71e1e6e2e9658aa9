"""The interface of a goal: what a user wants to know of a run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np

from robin_cli.data.given_labels import GivenLabels
from robin_cli.goals.found import Found
from robin_cli.goals.watching import Counts, Watch
from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.space import ArmSpace
from robin_cli.policies.base import DEFAULT_MARGIN, Policy, Setup
from robin_cli.policies.matches import Matches
from robin_cli.policies.registry import make_policy
from robin_cli.policies.systems import Systems
from robin_cli.policies.task import Task
from robin_cli.run.inquiry import Inquiry
from robin_cli.run.manifest import Manifest
from robin_cli.run.reader import RunReader
from robin_cli.show.words import WORST_ERROR
from robin_cli.stats.court import Court, Snapshot

Words = Callable[[float], str]
"""Writes an error in the unit of the run's errors."""


class Goal(ABC):
    """The aim of a run. A new one is a file in ``own/``, which :mod:`robin_cli.goals.making` finds.

    Attributes:
        is_usual: whether it is the goal of a run that names no other.
        asked_by: the flag that names it.
        space: the arms of the run.
        noun: the content of an answer, a rating or a verdict.
        rows, results: the rows of the data, and the run's result for each, in the plural.
        asks_all: whether every arm must be asked once.
        first_visit: calls of the first visit of an arm whose ratings are sampled.
        is_of_scores: whether the scores themselves are wanted, so that a scheduler for them is as good as one of its own.
        says: the class of its results.
        columns: of ``robin simulate`` for each scheduler and budget: measures of :meth:`loss` with _mean, _std or _sem, and
            ``what``.
        figures: of a forecast, by their names in ``robin plan --json``: measures with _mean; ``worst`` is the wce of a run of
            all arms. Empty for a goal that no plan simulates.
        target_wrong: the share of likely wrong decisions at which a run ends; 0: never.
        what: the possible error, in words, if ``columns`` have it.
        simulated: the default schedulers of ``robin simulate``; empty for an even spread and the policy that auto chooses.
    """

    is_usual: ClassVar[bool] = False
    asked_by: ClassVar[str] = ""
    space: ArmSpace
    noun: ClassVar[str] = "rating"
    rows: ClassVar[str] = "pairs"
    results: ClassVar[str] = "scores"
    asks_all: ClassVar[bool] = True
    first_visit: ClassVar[int] = 1
    is_of_scores: ClassVar[bool] = True
    says: ClassVar[type[Found]]
    columns: ClassVar[tuple[str, ...]] = ("wce_mean", "wce_std", "wce_sem")
    figures: ClassVar[Mapping[str, str]] = {"worst_error": "worst_mean", "mean_error": "mean_mean"}
    what: ClassVar[str] = ""
    simulated: ClassVar[tuple[str, ...]] = ()
    task: Task | None = None
    target_wrong: float = 0.0
    smaller_target: ClassVar[str] = "--target-wrong with a smaller share, or 0"
    systems: Systems | None = None
    matches: Matches | None = None

    @classmethod
    @abstractmethod
    def of(cls, source: Inquiry) -> Self | None:
        """Return the goal if ``source`` names it. InputError if these data do not allow it."""

    @property
    def ends(self) -> bool:
        """Whether a run may end by itself, before its budget is spent."""
        return False

    @property
    def for_more(self) -> str:
        """The setting with which a run goes on that has reached its goal; "" for none."""
        return self.smaller_target if self.target_wrong else ""

    def without_systems(self, why: str) -> list[str]:
        """Return a report's lines if no systems can be compared, because of ``why``; empty if nobody asked for that."""
        del why
        return []

    @property
    def recorded(self) -> Mapping[str, Any]:
        """Settings for the manifest that differ from those given."""
        return {}

    @property
    def least_calls(self) -> int:
        """The calls before which there is no result."""
        return len(self.space) if self.asks_all else 1

    def setup(
        self,
        own: Mapping[str, Any],
        budget: int,
        variances: FloatArray | None = None,
        prices: FloatArray | None = None,
    ) -> Setup:
        """Return the facts about the run that a policy may need.

        Args:
            own: the run's own settings, by name.
            budget: B, calls in all; an estimate for a budget in money.
            variances: of each arm, shape (K,), 1/n; None if unknown.
            prices: see :class:`Setup`.
        """
        return Setup(
            arms=len(self.space),
            budget=budget,
            scale=self.space.scales[0],
            delta=own["delta"],
            mode=own["mode"],
            variances=variances,
            task=self.task,
            systems=self.systems,
            matches=self.matches,
            prices=prices,
            margin=own["margin"] or DEFAULT_MARGIN,
            by_scale=self.space.by_scale(),
        )

    def policy(
        self, manifest: Manifest, variances: FloatArray | None, prices: FloatArray | None = None
    ) -> Policy:
        """Return the policy of a run by its manifest. InputError for settings that it refuses."""
        own = manifest.own_settings
        return make_policy(own["scheduler"], self.setup(own, manifest.budget, variances, prices))

    @abstractmethod
    def check_reach(self, budget: int) -> None:
        """Raise InputError if ``budget`` calls are too few for any result."""

    def caution(self, budget: int) -> str:
        """Return a warning about what ``budget`` calls reach; "" for none."""
        del budget
        return ""

    @abstractmethod
    def watch(self, counts: Counts, own: Mapping[str, Any], target: float | None) -> Watch:
        """Return what a session watches.

        Args:
            counts: of all ratings so far.
            own: the run's own settings, by name.
            target: the error that the session stops at; None for none.
        """

    def found(self, run: RunReader, given: GivenLabels | None = None) -> Found:
        """Return the results of ``run``; ``given``: people's labels, in place of the human ratings of its data."""
        return self.says(run, self, given)

    @abstractmethod
    def has_none(self, run: RunReader, what: str) -> str:
        """Return the error that ``run`` has no data for ``what``, and the alternatives."""

    @property
    def groups(self) -> IntArray | None:
        """The group of each pair if whole groups are simulated, numbered from 0, shape (pairs,); None for single pairs."""
        return None

    def over(self, space: ArmSpace, groups: IntArray | None) -> Goal:
        """Return the goal over other arms; ``groups``: of their pairs, if there are any."""
        del groups
        return replace(self, space=space)  # type: ignore[type-var]  # every goal is a dataclass

    def court(self, runs: int) -> Court | None:
        """Return the decisions of ``runs`` simulated runs; None if there are none."""
        del runs
        return None

    def loss(self, found: Snapshot, truth: FloatArray) -> dict[str, FloatArray]:
        """Return the errors of simulated runs by measure, shape (runs,) each; other measures may have other shapes.

        Here they are the errors of scores, in the unit of the space. A goal that ``ends`` adds the calls spent, ``calls``.

        Args:
            truth: the true means of all arms, shape (runs, K).
        """
        del truth
        return {"wce": found.wce, "mean": found.mean_error}

    def known_then(self, row: Mapping[str, Any], words: Words) -> str:
        """Return what is known when a budget is spent, in words; "" if that is not forecast.

        Args:
            row: figures of a forecast by name.
        """
        worst, mean = (words(row[name]) for name in ("worst_error", "mean_error"))
        return f"the {WORST_ERROR} is about {worst}, of the average one {mean}"


def same(values: Sequence[float], others: Sequence[float]) -> bool:
    """Return whether two lists of numbers are equal up to rounding."""
    return bool(np.allclose(values, others, rtol=1e-9, atol=0.0))
