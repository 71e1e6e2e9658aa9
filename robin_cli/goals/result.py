"""What a run says: facts with their sentences, tables and the next step. Every form renders these, and computes nothing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from robin_cli.data.given_labels import GivenLabels
from robin_cli.goals.base import Goal
from robin_cli.goals.facts import Fact, in_answer, in_json, in_lines, in_sentences
from robin_cli.goals.judge_use import JudgeUse, Repeating, repeating_of, uses_of
from robin_cli.goals.labels import LabelsFile, agreed_text, promised, read_labels
from robin_cli.goals.people import Means, People, mean_lines, means_of
from robin_cli.model.errors import InputError, typed
from robin_cli.model.records import MODEL_PREFIX
from robin_cli.run.manifest import Manifest
from robin_cli.run.reader import RunReader
from robin_cli.show.tables import Table
from robin_cli.stats.agreed import CONFIDENCE, Agreed
from robin_cli.stats.run_agreement import all_scores
from robin_cli.stats.scores import Scores, score
from robin_cli.stats.stances import Stances, stances_of


@dataclass(frozen=True, slots=True)
class View:
    """The options of a table; a table ignores those that do not apply."""

    with_text: bool = False  # files have the texts
    wide: bool = False  # each attribute has columns of its own
    messages: bool = False  # preferences are conversations
    by: str | None = (
        None  # a column of the data: means for each value of it, or whole prompts to label
    )
    labels: LabelsFile = None  # people's, in place of the human ratings of the data
    agree: float | None = (
        None  # the share of decisions that people agree with; None for the last session's
    )
    confidence: float | None = None  # its probability; None likewise
    threshold: float | None = None  # adds the share of scores at it or above
    round: bool = False  # κ and ordinal α are stated however many values are halves
    n: int | None = None  # pairs to label, or to show
    show: Sequence[str] = ()  # columns of the data beside each row, for people
    guaranteed: bool = False  # scores have the intervals that hold for each of them
    notify: Callable[[str], None] = lambda _line: None  # called with notes for the reader
    blind: bool = True  # labels wanted of several systems have opaque ids
    output: str | None = None  # the file that gets the table


Builder = Callable[[Any, View], Table]
"""Makes a table of the results."""


def larger_budget(manifest: Manifest) -> str:
    if manifest.budget_usd is None:
        return f"--budget {2 * manifest.budget}"
    return f"--max-cost {2 * manifest.budget_usd:g}"


def judged_by(manifest: Manifest) -> str:
    """Return the judges and settings behind the ratings; it says if they were replayed."""
    note = " (recorded ratings, replayed: no model read these responses)"
    replays = [judge.startswith(MODEL_PREFIX) for judge in manifest.judges]
    if all(replays):
        judges = ", ".join(manifest.judges) + note
    else:
        notes = zip(manifest.judges, replays, strict=True)
        judges = ", ".join(judge + note * is_replay for judge, is_replay in notes)
    return f"{judges}, temperature {manifest.settings['temperature']:g}"


class Result(ABC):
    """The results of a run as it stands, each computed once, when it is needed.

    Args:
        labels: people's, in place of the human ratings of its data; None for those that the run keeps.

    Attributes:
        tables: those of ``robin export --what``, by name, beside its judgments.
    """

    tables: ClassVar[Mapping[str, Builder]]

    def __init__(self, run: RunReader, goal: Goal, labels: GivenLabels | None = None) -> None:
        self.run, self.goal, self._labels = run, goal, labels

    @cached_property
    def labels(self) -> GivenLabels | None:
        """People's labels, read on first use, so that a spoiled file of one run does not end a list of runs."""
        return read_labels(None, self.run) if self._labels is None else self._labels

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
        return means_of(self.run, self.scores, self.labels)

    def mean_lines(self, most: int | None = None) -> list[str]:
        return mean_lines(self.means, most)

    @cached_property
    def people(self) -> People:
        return People.of_run(self.run, self.means, self.all_scores, self.labels)

    @cached_property
    def judges(self) -> Sequence[JudgeUse]:
        return uses_of(self.run)

    @cached_property
    def repeating(self) -> Repeating | None:
        """The judges that repeat themselves; None for files of scores, which no judge is asked for."""
        return repeating_of(self.run, self.goal)

    @property
    def repeat_lines(self) -> list[str]:
        return [] if self.repeating is None else self.repeating.lines

    @property
    def is_panel(self) -> bool:
        return len(self.run.space.judges) > 1

    @property
    def target(self) -> float:
        """The share of likely wrong decisions at which the last session ends; 0: never."""
        return self.run.manifest.target_wrong

    # What a goal says. Its results override what differs.

    @abstractmethod
    def headline(self) -> Sequence[Fact]:
        """Return the answer to the goal: at most three facts with sentences, the most important first."""

    @property
    def on_target(self) -> Sequence[Fact]:
        """Whether the target of the last session is reached: the last line of every answer; empty without a target."""
        return ()

    @abstractmethod
    def details(self) -> Sequence[Fact]:
        """Return all other facts, in the order of JSON and of the lines of the status."""

    @property
    def asides(self) -> list[str]:
        """Lines before the answer at the end of a session."""
        return self.repeat_lines

    @property
    def is_over(self) -> bool:
        """Whether the goal is reached, so that the run is finished before its budget is spent."""
        return False

    @property
    def is_open(self) -> bool:
        """Whether a larger budget would improve the answer."""
        return False

    def stances(self, labels: GivenLabels | None) -> Stances:
        """Return people's decisions beside the run's. InputError if it decides nothing."""
        if (decided := self.scores.decided) is None:
            raise InputError(
                f"{self.run.name}: decides nothing, so there is nothing to agree with; make a run with --decide"
            )
        return stances_of(self.run, decided, labels)

    def delivered(self, view: View) -> list[Table]:
        """Return the tables that people see when a run is done, below the first line of its answer."""
        return [self.table("scores", view)]

    # How it is rendered: in sentences, in JSON, in lines, as tables.

    @cached_property
    def _headline(self) -> Sequence[Fact]:
        return self.headline()

    @cached_property
    def _details(self) -> Sequence[Fact]:
        return self.details()

    @property
    def answer(self) -> list[str]:
        """The answer in at most three lines: for the end of a session, the status and the report."""
        return in_answer(self._headline, self.on_target)

    def facts(self) -> dict[str, Any]:
        return in_json((*self._details, *self._headline, *self.on_target))

    def lines(self) -> dict[str, str]:
        """Return the results in words, by name, beside the answer."""
        return in_lines(self._details)

    def table(self, what: str, view: View) -> Table:
        """Return the table called ``what``, as in ``robin export --what``. InputError if there is none, with the reason."""
        if (build := self.tables.get(what)) is None:
            raise InputError(self.goal.has_none(self.run, f"--what {what}"))
        return build(self, view)

    @property
    def is_finished(self) -> bool:
        """Whether no call is left to make before the budget is spent."""
        return self.is_over or (self.repeating is not None and self.repeating.has_ended)

    def next_step(self) -> str:
        """Return the command that is useful next."""
        run, manifest, arms = self.run, self.run.manifest, self.run.fold.arms
        is_spent, kind = manifest.is_spent(arms.spent), run.space.kind
        unrated = (arms.n == 0) & (arms.n_unparsed > 0) & ~arms.is_retired
        unrated[run.fold.set_aside] = True
        # what a judge never rates of any pair would be declined again
        again = int((unrated & (np.bincount(kind, weights=arms.n) > 0)[kind]).sum())
        if is_spent and again and manifest.budget_usd is None:
            return f"robin resume {typed(run.name)} --budget {manifest.budget + again}"
        if self.is_finished or (is_spent and not self.is_open) or arms.is_retired.all():
            return f"robin report {typed(run.name)} -o report.html"
        more = f" {larger_budget(manifest)}" if is_spent else ""
        if not is_spent and manifest.limit_reached is not None:
            more = f" --max-cost {2 * manifest.limit_reached:g}"
        return f"robin resume {typed(run.name)}{more}"

    def ends_with(self) -> list[str]:
        return [*self.answer, f"next: {self.next_step()}"]

    # The decisions that people agree with, if the run asked for that.

    def _agreed(
        self, labels: GivenLabels | None, promise: float | None, confidence: float | None
    ) -> Agreed | None:
        """Return them; None if nobody asked. InputError as for :func:`~robin_cli.goals.labels.promised`."""
        last = self.run.manifest.last_session
        share = last.get("agree") if promise is None else promise
        if share is None:
            return None
        sure = last.get("confidence", CONFIDENCE) if confidence is None else confidence
        return promised(self.run, self.stances, labels, share, sure)

    @cached_property
    def agreed(self) -> list[Fact]:
        """A fact on them, or the reason that these are unknown; empty if the run did not ask."""
        try:
            agreed = self._agreed(self.labels, None, None)
        except InputError as error:
            return [Fact("agreed", None, str(error))]
        if agreed is None:
            return []
        figures = {
            "agreed": int(agreed.agreed.sum()),
            "of": len(agreed.agreed),
            "promise": agreed.promise,
            "confidence": agreed.confidence,
            "labels": agreed.labelled,
            "labels_disagreed": agreed.disagreed,
            "why": agreed.why or None,
        }
        return [Fact("agreed", figures, agreed_text(agreed))]

    def agreed_lines(self) -> list[str]:
        return in_sentences(self.agreed)

    def agreed_in(self, view: View) -> NDArray[np.bool_] | None:
        """Return them by the labels of ``view``, shape (decisions,); None if nobody asked."""
        try:
            labels = read_labels(view.labels, self.run)
            agreed = self._agreed(labels, view.agree, view.confidence)
        except InputError as error:
            if view.agree is not None or view.labels is not None:
                raise
            view.notify(str(error))  # the run asked for it once, and its scores are still there
            return None
        if agreed is None:
            if view.labels is not None:
                raise InputError(
                    "--labels: changes no score; --agree SHARE beside it says which decisions people agree with, and --what "
                    "summary corrects the mean by it. Add one, or leave it out"
                )
            return None
        if view.agree is not None:
            view.notify(agreed_text(agreed))
        return agreed.agreed
