"""What a run says, in the ways in which it is asked: rows, facts for scripts, lines for people."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robin_cli.analysis.scores import Scores, told_scores
from robin_cli.model.errors import InputError
from robin_cli.model.records import GivenLabels
from robin_cli.results.tables import Table
from robin_cli.storage.reader import RunData

if TYPE_CHECKING:
    from robin_cli.goals.base import Goal


@dataclass(frozen=True, slots=True)
class View:
    """How a table was asked for; what a table has no use for says nothing.

    Attributes:
        sort: what people want to see first; None for files alone.
        with_text: files have the texts.
        wide: each attribute has columns of its own.
        messages: preferences as conversations.
        by: a column of the data: means for each value of it, or whole prompts to label.
        labels: people's, in place of the human ratings of the data.
        threshold: also the share of scores at it or above.
        n: how many pairs to label.
        length_control: take out what preferences go by length.
        notify: is told what a reader should know.
        in_python: whether what is asked for is a method, and not a flag.
    """

    sort: str | None = None
    with_text: bool = False
    wide: bool = False
    messages: bool = False
    by: str | None = None
    labels: str | Path | BytesIO | None = None
    threshold: float | None = None
    n: int | None = None
    length_control: bool = False
    notify: Callable[[str], None] = lambda _line: None
    in_python: bool = False


class Found(ABC):
    """What a run says, as it stands: computed where it is asked for, and once."""

    def __init__(self, run: RunData, goal: Goal) -> None:
        self.run = run
        self.goal = goal

    @cached_property
    def scores(self) -> Scores:
        """A row a pair and attribute."""
        return told_scores(self.run)

    @property
    @abstractmethod
    def is_over(self) -> bool:
        """Whether the goal is reached, so that the run is finished before its budget is spent."""

    @abstractmethod
    def facts(self, given: GivenLabels | None = None) -> dict[str, Any]:
        """Return what ``robin status --json`` has of the results; ``given``: people's labels."""

    @abstractmethod
    def lines(self, facts: Mapping[str, Any]) -> dict[str, str]:
        """Return the facts of the run in words, by name."""

    def table(self, what: str, view: View) -> Table:
        """Return the table called ``what``, as in ``robin export --what``. InputError where there is none, and why."""
        if (build := self.goal.tables.get(what)) is None:
            named = f"Run.{what.replace('-', '_')}()" if view.in_python else f"--what {what}"
            raise InputError(self.goal.has_none(self.run, named, in_python=view.in_python))
        return build(self, view)

    def delivered(self, view: View) -> list[Table]:
        """Return the tables that people see when a run is done; a file has the first."""
        return [self.table("scores", view)]


Builder = Callable[[Any, View], Table]
"""Makes a table of what was found."""
