"""The interface of a goal: what a user wants to know of a run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from robin_cli.goals.facts import Fact
from robin_cli.goals.stopping import StoppingRule
from robin_cli.model.arms import Arms, FloatArray, IntArray
from robin_cli.model.space import ArmSpace
from robin_cli.policies.base import DEFAULT_MARGIN, Policy, Setup
from robin_cli.policies.matches import Matches
from robin_cli.policies.registry import make_policy
from robin_cli.policies.systems import Systems
from robin_cli.policies.task import Task
from robin_cli.run.inquiry import Inquiry
from robin_cli.run.reader import RunReader
from robin_cli.stats.court import Court, Snapshot
from robin_cli.stats.decisions import Certainty, RunVerdicts

if TYPE_CHECKING:
    from robin_cli.data.given_labels import GivenLabels
    from robin_cli.goals.result import Result

Words = Callable[[float], str]
"""Writes an error in the unit of the run's errors."""


@dataclass(frozen=True)
class Goal(ABC):
    """The aim of a run. A new one is a file in this folder, which :mod:`robin_cli.goals.registry` finds."""

    result_class: ClassVar[type[Result]]  # what a run says of it
    flag: ClassVar[str] = ""  # names it
    noun: ClassVar[str] = "rating"  # the content of an answer
    rows: ClassVar[str] = "pairs"  # of the data
    results: ClassVar[str] = "scores"  # of a run, one for each row
    asks_all: ClassVar[bool] = True  # every arm must be asked once
    decides: ClassVar[bool] = False  # each decision is likely wrong with some chance
    first_visit: ClassVar[int] = 1  # calls of the first visit of an arm whose ratings are sampled
    wants_scores: ClassVar[bool] = True  # so that a scheduler for scores serves it best
    # Of robin simulate, for each scheduler and budget: measures of loss() with _mean, _std or _sem.
    columns: ClassVar[tuple[str, ...]] = ("wce_mean", "wce_std", "wce_sem")
    what: ClassVar[str] = ""  # the kind of error, if columns name it
    simulated: ClassVar[tuple[str, ...]] = ()  # schedulers; by default an even spread and auto's
    # Of a forecast, by their names in robin plan --json: measures with _mean; worst is the wce of a run of all arms.
    figures: ClassVar[Mapping[str, str]] = {}

    space: ArmSpace
    task: Task | None = field(default=None, kw_only=True)
    systems: Systems | None = field(default=None, kw_only=True)
    matches: Matches | None = field(default=None, kw_only=True)
    target_wrong: float = field(default=0.0, kw_only=True)  # the share that ends simulated runs

    @classmethod
    @abstractmethod
    def asked_by(cls, source: Inquiry) -> Self | None:
        """Return the goal if ``source`` names it. InputError if these data do not allow it."""

    def result(self, run: RunReader, labels: GivenLabels | None = None) -> Result:
        """Return the results of ``run``; ``labels``: people's, in place of the human ratings of its data."""
        return self.result_class(run, self, labels)

    def is_reached(self, arms: Arms, target: float) -> bool:
        """Return whether a run is finished before its budget is spent; ``target``: 0 for none."""
        del arms, target
        return False

    def is_certified(self, arms: Arms, verdicts: RunVerdicts) -> bool:
        """Return whether every decision that can be certified is."""
        del arms, verdicts
        return False

    @abstractmethod
    def standing(self, arms: Arms, target: float) -> list[Fact]:
        """Return how a run stands, for displays; ``arms`` may change meanwhile. A value is one whose course is shown."""

    @property
    def things(self) -> str:
        """The decisions in words with their number: "60 pairs"; "" without any."""
        return ""

    def evidence(self) -> Certainty | None:
        """Return the evidence for certified decisions, of no ratings; None without any."""
        return None

    def stopping(self, target: float) -> StoppingRule | None:
        """Return the rule that ends a run at its ``target``, which is above 0; None for a goal without one."""
        del target
        return None

    @property
    def ends(self) -> bool:
        """Whether a simulated run may end by itself, before its budget is spent."""
        return False

    @property
    def for_more(self) -> str:
        """The setting with which a run goes on that has reached its goal; "" for none."""
        has_target = self.target_wrong or self.systems is not None
        return "--target-wrong with a smaller share, or 0" if has_target else ""

    @property
    def recorded(self) -> Mapping[str, Any]:
        """Settings for the manifest that differ from those that the user named."""
        return {}

    @property
    def least_calls(self) -> int:
        """The calls before which there is no result."""
        return len(self.space) if self.asks_all else 1

    @abstractmethod
    def check_reach(self, budget: int) -> None:
        """Raise InputError if ``budget`` calls are too few for any result."""

    def caution(self, budget: int) -> str:
        """Return a warning about what ``budget`` calls reach; "" for none."""
        del budget
        return ""

    def setup(
        self,
        settings: Mapping[str, Any],
        budget: int,
        variances: FloatArray | None = None,
        prices: FloatArray | None = None,
    ) -> Setup:
        """Return the facts about the run that a policy may need.

        Args:
            settings: the run's own, by name.
            budget: B, calls in all; an estimate for a budget in money.
            variances: of each arm, shape (K,), 1/n; None if unknown.
            prices: see :class:`Setup`.
        """
        return Setup(
            arms=len(self.space),
            budget=budget,
            scale=self.space.scales[0],
            delta=settings["delta"],
            mode=settings["mode"],
            variances=variances,
            task=self.task,
            systems=self.systems,
            matches=self.matches,
            prices=prices,
            margin=settings["margin"] or DEFAULT_MARGIN,
            by_scale=self.space.by_scale(),
        )

    def policy(
        self,
        settings: Mapping[str, Any],
        budget: int,
        variances: FloatArray | None,
        prices: FloatArray | None = None,
    ) -> Policy:
        """Return the policy of a run: which arm is worth one more call. InputError as it refuses settings."""
        setup = self.setup(settings, budget, variances, prices)
        return make_policy(settings["scheduler"], setup)

    @abstractmethod
    def has_none(self, run: RunReader, what: str) -> str:
        """Return the error that ``run`` has no data for ``what``, and the alternatives."""

    @property
    def groups(self) -> IntArray | None:
        """The group of each pair if whole groups are simulated, numbered from 0, shape (pairs,); None for single pairs."""
        return None if self.task is None else self.task.group

    def over(self, space: ArmSpace, groups: IntArray | None) -> Self:
        """Return the goal over other arms; ``groups``: of their pairs, if there are any."""
        if self.task is None:
            return replace(self, space=space)
        return replace(self, space=space, task=replace(self.task, space=space, group=groups))

    def court(self, runs: int) -> Court | None:
        """Return the decisions of ``runs`` simulated runs; None if there are none."""
        del runs
        return None

    def loss(self, snapshot: Snapshot, truth: FloatArray) -> dict[str, FloatArray]:
        """Return the errors of simulated runs by measure, shape (runs,) each; other measures may have other shapes.

        Here they are the errors of scores, in the unit of the space. A goal that ``ends`` adds the calls spent, ``calls``.

        Args:
            truth: the true means of all arms, shape (runs, K).
        """
        del truth
        return {"wce": snapshot.wce, "mean": snapshot.mean_error}

    def known_then(self, row: Mapping[str, Any], words: Words) -> str:
        """Return what is known when a budget is spent, in words; ``row``: figures of a forecast by name."""
        del row, words
        return ""
