"""A run from Python: its tables as DataFrames, its status and report, and further work on it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robin_cli.api.inputs import Labels, checked_keywords, frame_of, labels_from, warn
from robin_cli.api.work import Judge, opened, with_judge
from robin_cli.goals.registry import table_of
from robin_cli.goals.result import View
from robin_cli.model.errors import InputError
from robin_cli.session.resuming import reopen_run, resumed
from robin_cli.settings.reading import checked
from robin_cli.settings.setting import Scope
from robin_cli.settings.table import TABLE
from robin_cli.show.messages import messages_for
from robin_cli.show.status import status_of

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


class Run:
    """A run directory. Every method reads it again: you can watch a run that another process works on.

    Methods that return a frame take the options of ``robin export`` and have its columns
    (docs/columns.md). A value that does not exist is NaN; notes go to stderr; a table that the run
    does not have is an InputError, which says why.

    ``labels`` are people's: a file, or a frame with columns pair_id and label, and attribute where
    there are several. Without any, the human ratings of the data count.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"

    def scores(
        self,
        *,
        with_text: bool = False,
        wide: bool = False,
        guaranteed: bool = False,
        agree: float | None = None,
        confidence: float | None = None,
        labels: Labels = None,
    ) -> pd.DataFrame:
        """Return the scores in the data's order: a row for each pair and attribute, or comparison.

        The data's further columns follow; ``data.score`` is one whose name is taken.

        Args:
            wide: return a row for each pair, with columns such as ``helpfulness_score``.
            guaranteed: add an interval that holds for each pair, at any stop.
            agree: say in ``agreed`` which decisions people agree with: at least this share of them,
                with probability ``confidence`` (0.9). The default is the last session's.
        """
        more = {"agree": agree, "confidence": confidence, "labels": labels}
        return self._frame("scores", with_text=with_text, wide=wide, guaranteed=guaranteed, **more)

    def judge_scores(
        self, *, with_text: bool = False, wide: bool = False, guaranteed: bool = False
    ) -> pd.DataFrame:
        """Return the scores of each judge: a row for each pair, attribute and judge."""
        return self._frame("judge-scores", with_text=with_text, wide=wide, guaranteed=guaranteed)

    def ranking(self) -> pd.DataFrame:
        """Return the systems of a pairwise run, the best first."""
        return self._frame("ranking")

    def decisions(self, *, with_text: bool = False) -> pd.DataFrame:
        """Return the decisions of ``decide=``, in the order of the data."""
        return self._frame("decisions", with_text=with_text)

    def judgments(self) -> pd.DataFrame:
        """Return every judgment, in order of arrival."""
        return self._frame("judgments")

    def agreement(
        self,
        *,
        labels: Labels = None,
        round: bool = False,  # noqa: A002  # the name of the flag
    ) -> pd.DataFrame:
        """Return how the judge agrees with people, people with one another, and the judge with itself.

        Args:
            round: state κ and ordinal α even if rounding decides more than a tenth of the pairs.
        """
        return self._frame("agreement", labels=labels, round=round)

    def calibration(self, *, labels: Labels = None) -> pd.DataFrame:
        """Return the mean human rating at each level (on long scales, bin) of the scores."""
        return self._frame("calibration", labels=labels)

    def judge_quality(
        self, *, threshold: float | None = None, labels: Labels = None
    ) -> pd.DataFrame:
        """Return the judge's accuracy at people's decisions; the default threshold is ``decide=``'s."""
        return self._frame("judge-quality", threshold=threshold, labels=labels)

    def disagreements(self, n: int = 50, *, labels: Labels = None) -> pd.DataFrame:
        """Return the ``n`` pairs on which the judge and people are furthest apart, with their texts."""
        return self._frame("disagreements", n=n, labels=labels)

    def preferences(self, *, messages: bool = False) -> pd.DataFrame:
        """Return each group's best response beside each that is clearly worse.

        With ``messages`` both are conversations that begin with the prompt, for trainers.
        """
        return self._frame("preferences", messages=messages)

    def summary(
        self, by: str | None = None, *, threshold: float | None = None, labels: Labels = None
    ) -> pd.DataFrame:
        """Return each attribute's mean with an interval over prompts, also for each value of ``by``.

        ``by`` is a column of the data; ``threshold`` adds the share of scores at it or above.
        """
        return self._frame("summary", by=by, threshold=threshold, labels=labels)

    def labels_wanted(
        self, n: int = 50, *, by: str | None = None, labels: Labels = None
    ) -> pd.DataFrame:
        """Return the ``n`` pairs that people should label next, and those labelled so far.

        Filled in, it is what ``labels`` takes. To compare the values of a column ``by``, whole
        prompts are drawn.
        """
        return self._frame("labels-wanted", n=n, by=by, labels=labels)

    def gate(
        self,
        require: str | Sequence[str],
        *,
        error_rate: float = 0.05,
        margin: float | None = None,
        by: str | None = None,
    ) -> pd.DataFrame:
        """Check requirements like ``robin gate``: a row each, with its ``verdict``.

        ``run.gate("mean(helpfulness)>=3")["verdict"].eq("pass").all()`` lets a build pass; other
        verdicts are fail and inconclusive.
        """
        from robin_cli.goals.gate import check_requirements
        from robin_cli.show.gate import requirement_table

        if not 0.0 < error_rate < 1.0:
            raise InputError(f"error_rate={error_rate:g}: lies between 0 and 1, as 0.05")
        wanted = [require] if isinstance(require, str) else list(require)
        verdicts = check_requirements(
            self.path, wanted, margin=margin, error_rate=error_rate, by=by
        )
        warn(verdicts.notes)
        return frame_of(requirement_table(verdicts).rows().read_all())

    def compare(self, *others: Run | str | Path, **how: Any) -> pd.DataFrame:
        """Compare this run with ``others``, or its systems: see :func:`robin_cli.compare`."""
        from robin_cli.api.comparing import compare

        return compare(self, *others, **how)

    def status(self, *, labels: Labels = None) -> dict[str, Any]:
        """Return the run's state, the object of ``robin status --json``."""
        return dict(status_of(self.path, labels=labels_from(labels)).facts)

    def report(
        self,
        output: str | Path | None = None,
        *,
        show: str | Sequence[str] = (),
        guaranteed: bool = False,
    ) -> Path:
        """Write the HTML report to ``output``, or into the run; return its path.

        ``show`` are columns of the data beside the rows, also "prompt" and "response".
        """
        from robin_cli.show.report.writing import write_report

        view = View(show=checked({"show": show}).get("show", ()), guaranteed=guaranteed)
        path = write_report([self.path], None if output is None else str(output), view)
        if path is None:
            raise InputError("report: name a file, not standard output")
        return path

    def arrow(self, what: str = "scores", **how: Any) -> pa.Table:
        """Return the table that ``robin export --what`` calls ``what``, in Arrow, for polars or DuckDB.

        ``how`` are the keywords of the method of that name: ``wide=True``.
        """
        # a script joins by its own ids
        view = View(**{**how, "labels": labels_from(how.get("labels"))}, blind=False)
        return table_of(self.path, what, view).rows().read_all()

    def _frame(self, what: str, **how: Any) -> pd.DataFrame:
        return frame_of(self.arrow(what, notify=messages_for(notebook=True).note, **how))

    def resume(self, *, budget: int | None = None, judge: Judge = None, **settings: Any) -> Run:
        """Continue the run, also with a larger ``budget`` in all; return the run.

        Args:
            judge: the function, if one was the judge; it must have the same name. A lambda, a
                closure or an object needs an attribute ``name``.
            settings: those that ``robin resume`` takes, as ``max_cost``, ``base_url`` or ``rpm``.

        Raises:
            RobinError: as :func:`robin_cli.judge`.
        """
        may_differ = {"budget", "judge", "template"} | {
            setting.name
            for setting in TABLE.values()
            if setting.in_python and setting.scope in {Scope.SESSION, Scope.OUTPUT}
        }
        keywords = checked_keywords(with_judge({"budget": budget, **settings}, judge), may_differ)
        chosen = resumed(self.path, keywords)
        with opened(chosen, judge, self.path, lambda *_: reopen_run(self.path, chosen)) as work:
            work.run()
        return self
