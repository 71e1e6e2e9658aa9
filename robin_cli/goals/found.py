"""The results of a run: rows, facts for scripts, lines for people."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from robin_cli.data.given_labels import GivenLabels
from robin_cli.goals import agreeing
from robin_cli.goals.people import Means, People, mean_lines, means_of
from robin_cli.goals.run_judges import JudgeUse, Repeating, repeating_of
from robin_cli.goals.summary import given_labels
from robin_cli.model.errors import InputError, typed
from robin_cli.model.records import MODEL_PREFIX
from robin_cli.run.manifest import Manifest
from robin_cli.run.reader import RunReader
from robin_cli.show.tables import Table
from robin_cli.stats.agreed import Agreed
from robin_cli.stats.run_agreement import all_scores
from robin_cli.stats.scores import Scores, score
from robin_cli.stats.stances import Stances

if TYPE_CHECKING:
    from robin_cli.goals.base import Goal


@dataclass(frozen=True, slots=True)
class View:
    """The options of a table; a table ignores those that do not apply.

    Attributes:
        with_text: whether files have the texts.
        wide: whether each attribute has columns of its own.
        messages: whether preferences are conversations.
        by: a column of the data: means for each value of it, or whole prompts to label.
        labels: people's, in place of the human ratings of the data.
        agree, confidence: the least share of decisions that people agree with, and its probability; None for those of the
            run's last session.
        threshold: adds the share of scores at it or above.
        round: whether κ and ordinal α are stated however many values are halves.
        n: number of pairs to label.
        show: columns of the data beside each row, for people.
        guaranteed: whether scores have the intervals that hold for each of them.
        notify: called with notes for the reader.
        blind: whether labels wanted of several systems have opaque ids.
        output: the file that gets the table.
    """

    with_text: bool = False
    wide: bool = False
    messages: bool = False
    by: str | None = None
    labels: str | Path | BytesIO | None = None
    agree: float | None = None
    confidence: float | None = None
    threshold: float | None = None
    round: bool = False
    n: int | None = None
    show: Sequence[str] = ()
    guaranteed: bool = False
    notify: Callable[[str], None] = lambda _line: None
    blind: bool = True
    output: str | None = None


Builder = Callable[[Any, View], Table]
"""Makes a table of the results."""


def larger_budget(manifest: Manifest) -> str:
    """Return the option of robin resume that doubles a budget."""
    if manifest.budget_usd is None:
        return f"--budget {2 * manifest.budget}"
    return f"--max-cost {2 * manifest.budget_usd:g}"


def judged_by(manifest: Manifest) -> str:
    """Return the judges and settings behind the ratings; it says if they were replayed."""
    replay = " (recorded ratings, replayed: no model read these responses)"
    replays = [judge.startswith(MODEL_PREFIX) for judge in manifest.judges]
    if all(replays):
        judges = ", ".join(manifest.judges) + replay
    else:
        judges = ", ".join(
            judge + replay * is_one for judge, is_one in zip(manifest.judges, replays, strict=True)
        )
    settings = manifest.settings
    return f"{judges}, temperature {settings['temperature']:g}"


class Found(ABC):
    """The results of a run as it stands, each computed once, when it is needed.

    Attributes:
        tables: those of ``robin export --what``, by name, beside its judgments.
    """

    tables: ClassVar[Mapping[str, Builder]]

    def __init__(self, run: RunReader, goal: Goal, given: GivenLabels | None = None) -> None:
        self.run = run
        self.goal = goal
        self._given = given

    @cached_property
    def given(self) -> GivenLabels | None:
        """People's labels, in place of the human ratings of its data; without given ones those that the run keeps.

        They are read on first use, so that a spoiled file of one run does not end a list of runs.
        """
        return given_labels(None, self.run) if self._given is None else self._given

    @cached_property
    def scores(self) -> Scores:
        """A row for each pair and attribute."""
        return score(self.run)

    @cached_property
    def all_scores(self) -> Sequence[Scores]:
        """The scores, and behind them those of each judge, if there are several."""
        return all_scores(self.run, self.scores)

    @cached_property
    def means(self) -> Means:
        """The mean of each attribute, also as people's labels correct it."""
        return means_of(self.run, self.scores, self.given)

    def mean_lines(self, most: int | None = None) -> list[str]:
        """Return the means in words, as :func:`~robin_cli.goals.people.mean_lines`."""
        return mean_lines(self.means, most)

    @cached_property
    def people(self) -> People:
        """People's labels of the same pairs, and the judge's agreement with them."""
        return People.of(self.run, self.means, self.all_scores, self.given)

    @cached_property
    def judges(self) -> Sequence[JudgeUse]:
        """The use of each judge, in the order of the run's judges."""
        return [JudgeUse.of(self.run, judge) for judge in self.run.space.judges]

    @abstractmethod
    def stances(self, given: GivenLabels | None) -> Stances:
        """Return people's decisions beside the run's. InputError if it decides nothing."""

    agreed_in = agreeing.agreed_in
    agreed_facts = agreeing.agreed_facts
    agreed_lines = agreeing.agreed_lines

    @cached_property
    def people_agree(self) -> Agreed | str | None:
        """The decisions that people agree with, or the reason that these are unknown; None if the run did not ask."""
        try:
            return agreeing.agreed_of(self, self.given)
        except InputError as error:
            return str(error)

    @property
    @abstractmethod
    def is_over(self) -> bool:
        """Whether the goal is reached, so that the run is finished before its budget is spent."""

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """Return the results in ``robin status --json``."""

    @abstractmethod
    def lines(self) -> dict[str, str]:
        """Return the results in words, by name."""

    @cached_property
    def repeating(self) -> Repeating | None:
        """The judges that repeat themselves; None for files of scores, which no judge is asked for."""
        return repeating_of(self.run, self.goal)

    @property
    def is_finished(self) -> bool:
        """Whether no call is left to make before the budget is spent."""
        return self.is_over or (self.repeating is not None and self.repeating.has_ended)

    @property
    @abstractmethod
    def answer(self) -> list[str]:
        """The answer to the goal, in at most three lines: for the end of a session, the status and the report."""

    @property
    def asides(self) -> list[str]:
        """Lines before the answer at the end of a session."""
        return self.repeat_lines

    @property
    def repeat_lines(self) -> list[str]:
        """A line on judges that repeat themselves, if there are any."""
        return [] if self.repeating is None else self.repeating.lines

    @property
    def is_open(self) -> bool:
        """Whether a larger budget would improve the answer."""
        return False

    def next_step(self) -> str:
        """Return the command that is useful next."""
        run, manifest = self.run, self.run.manifest
        is_spent = manifest.is_spent(run.fold.arms.spent)
        arms, kind = run.fold.arms, run.space.kind
        unrated = (arms.n == 0) & (arms.n_unparsed > 0) & ~arms.is_retired
        unrated[run.fold.set_aside] = True
        # what a judge never rates of any pair would be declined again
        again = int((unrated & (np.bincount(kind, weights=arms.n) > 0)[kind]).sum())
        if is_spent and again and manifest.budget_usd is None:
            return f"robin resume {typed(run.name)} --budget {manifest.budget + again}"
        if self.is_finished or (is_spent and not self.is_open) or run.fold.arms.is_retired.all():
            return f"robin report {typed(run.name)} -o report.html"
        more = f" {larger_budget(manifest)}" if is_spent else ""
        if not is_spent and manifest.limit_reached is not None:
            more = f" --max-cost {2 * manifest.limit_reached:g}"
        return f"robin resume {typed(run.name)}{more}"

    def ends_with(self) -> list[str]:
        """Return the last lines of a session: the answer, and the next step."""
        return [*self.answer, f"next: {self.next_step()}"]

    def table(self, what: str, view: View) -> Table:
        """Return the table called ``what``, as in ``robin export --what``. InputError if there is none, with the reason."""
        if (build := self.tables.get(what)) is None:
            raise InputError(self.goal.has_none(self.run, f"--what {what}"))
        return build(self, view)

    def delivered(self, view: View) -> list[Table]:
        """Return the tables that people see when a run is done, below the first line of its answer."""
        return [self.table("scores", view)]
