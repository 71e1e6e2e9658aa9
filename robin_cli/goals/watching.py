"""What a session looks at while its run goes on, and how it ends."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from robin_cli.analysis.level_counts import LevelCounts
from robin_cli.model.arms import Arms
from robin_cli.model.errors import typed
from robin_cli.planning.stopping import StoppingRule, Verdicts

Fact = tuple[str, str]
"""A name and a value, as a display shows them."""

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
