"""A run from Python: its tables as DataFrames, its status and report, and further work on it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robin_cli.api.given import Frame, labels_from, ready
from robin_cli.api.spending import check_names, check_same, checked_keywords, handed_over, spend
from robin_cli.goals.found import View
from robin_cli.goals.registry import table_of
from robin_cli.judges.functions import Function
from robin_cli.model.errors import InputError
from robin_cli.session.resuming import reopen_run, resumed
from robin_cli.settings.setting import Scope
from robin_cli.settings.table import TABLE
from robin_cli.show.messages import messages_for
from robin_cli.show.status import status_of

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


class Run:
    """A run directory. Every method reads it again, so it can be watched while another process works on it.

    Attributes:
        path: its folder.
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
        labels: str | Path | Frame | None = None,
    ) -> pd.DataFrame:
        """Return the scores, a row for each pair and attribute in the data's order; ``with_text`` adds prompt and response.

        ``wide``: a row a pair, in which each attribute has columns of its own, ``helpfulness_score`` and so on.
        ``guaranteed``: also ``guaranteed_low`` and ``guaranteed_high``, an interval that holds for each pair, at any stop.

        Of a pairwise run a row a comparison. Columns as in ``robin export``: see docs/columns.md. NaN where there is no value.
        Behind them are the further columns of the data, by their names; one that has the name of another here is called
        ``data.score`` and so on.

        Args:
            agree: of a run that decides, also say in ``agreed`` which decisions people agree with, at least this share of them
                with probability ``confidence`` (0.9); without it what the last session asked for. How many, or why none, is
                said on stderr.
            labels: as for :meth:`summary`.

        Raises:
            InputError: ``wide`` of a pairwise run; there are too few labels.
        """
        how = {"agree": agree, "confidence": confidence, "labels": labels, "guaranteed": guaranteed}
        return self._table(
            "scores", with_text=with_text, wide=wide, **how, notify=messages_for(notebook=True).note
        )

    def judge_scores(
        self, *, with_text: bool = False, wide: bool = False, guaranteed: bool = False
    ) -> pd.DataFrame:
        """Return the scores of each judge: a row for each pair, attribute and judge, with a column ``judge``."""
        how = {"with_text": with_text, "wide": wide, "guaranteed": guaranteed}
        return self._table("judge-scores", **how)

    def ranking(self) -> pd.DataFrame:
        """Return the systems of a pairwise run, a row each, the best first.

        Columns: see docs/columns.md.

        Raises:
            InputError: the run is not pairwise, or its systems cannot be ranked, and why.
        """
        return self._table("ranking")

    def decisions(self, *, with_text: bool = False) -> pd.DataFrame:
        """Return the decisions of ``decide=``: a row for each pair, in the order of the data; ``with_text`` adds the texts.

        Columns: see docs/columns.md.

        Raises:
            InputError: the run decides nothing.
        """
        return self._table("decisions", with_text=with_text)

    def judgments(self) -> pd.DataFrame:
        """Return every judgment, in order of arrival, with those that a working process has in its journal."""
        return self._table("judgments")

    def agreement(
        self,
        *,
        labels: str | Path | Frame | None = None,
        round: bool = False,  # noqa: A002  # the name of the flag
    ) -> pd.DataFrame:
        """Return how scores agree with human ratings, people and judges among themselves, and the judge with itself.

        Columns: see docs/columns.md. NaN where it is not stated, and ``why``.

        Args:
            labels: as for :meth:`summary`.
            round: state κ and ordinal α even if rounding decides more than a tenth of the pairs.
        """
        return self._table("agreement", labels=labels, round=round)

    def calibration(self, *, labels: str | Path | Frame | None = None) -> pd.DataFrame:
        """Return the mean human rating at each level of the scores: a row per attribute and level (on long scales, bin).

        Columns: see docs/columns.md. Attributes that :meth:`agreement` leaves out have no row.

        Args:
            labels: as for :meth:`summary`.

        Raises:
            InputError: there are no human ratings and no labels, or none on the scale.
        """
        return self._table("calibration", labels=labels)

    def judge_quality(
        self, *, threshold: float | None = None, labels: str | Path | Frame | None = None
    ) -> pd.DataFrame:
        """Return the judge's accuracy at the decisions of people: a row for each attribute. Columns: see docs/columns.md.

        Args:
            threshold: by which both decide; without it that of ``decide=``.
            labels: as for :meth:`summary`.

        Raises:
            InputError: there is no threshold, fewer than 25 labels, or such of one side alone.
        """
        return self._table("judge-quality", threshold=threshold, labels=labels)

    def disagreements(
        self, n: int = 50, *, labels: str | Path | Frame | None = None
    ) -> pd.DataFrame:
        """Return the ``n`` labelled pairs on which the judge and people are furthest apart, with their texts.

        Columns: see docs/columns.md; ``labels`` as for :meth:`summary`. InputError where there are none.
        """
        return self._table("disagreements", n=n, labels=labels)

    def preferences(self, *, messages: bool = False) -> pd.DataFrame:
        """Return the better and worse responses of each group: a row for each clearly worse than the group's best.

        Columns: see docs/columns.md. With ``messages`` chosen and rejected are conversations that begin with the prompt, for
        trainers of chat models.

        Raises:
            InputError: no group has two responses, or no two can be told apart.
        """
        return self._table("preferences", messages=messages)

    def summary(
        self,
        by: str | None = None,
        *,
        threshold: float | None = None,
        labels: str | Path | Frame | None = None,
    ) -> pd.DataFrame:
        """Return each attribute's mean with an interval over prompts, of all pairs or for each value of a data column.

        Columns: see docs/columns.md. NaN where there is no value, and why is said on stderr.

        Args:
            labels: a file, or a frame with columns pair_id and label, and attribute where there are several; without any,
                the human ratings of the data. Labels of comparisons are A, B or tie.

        Raises:
            InputError: no such column, a threshold off the scale, labels that cannot be used.
        """
        said = messages_for(notebook=True).note
        return self._table("summary", by=by, threshold=threshold, labels=labels, notify=said)

    def labels_wanted(
        self, n: int = 50, *, by: str | None = None, labels: str | Path | Frame | None = None
    ) -> pd.DataFrame:
        """Return the ``n`` pairs that people should label next, in that order, and those labelled so far.

        Columns: see docs/columns.md. Filled in, it is what ``labels`` of :meth:`summary` and :meth:`status` takes.

        Args:
            by: a column of the data whose values are to be compared: whole prompts are drawn.
            labels: as for :meth:`summary`; the draw goes on from them.

        Raises:
            InputError: nothing is left to label, or the labels cannot be used.
        """
        return self._table("labels-wanted", n=n, by=by, labels=labels)

    def gate(
        self,
        require: str | Sequence[str],
        *,
        error_rate: float = 0.05,
        margin: float | None = None,
        by: str | None = None,
    ) -> pd.DataFrame:
        """Check requirements like ``robin gate``: a row each, with its ``verdict``: pass, fail or inconclusive.

        Columns: see docs/columns.md. ``run.gate("mean(helpfulness)>=3")["verdict"].eq("pass").all()`` lets a build pass.

        Args:
            require: requirements, as --require has them.
            error_rate: of a verdict, in (0, 1).
            margin: points by which a requirement may be missed; None for a fortieth of the scale.
            by: the column that says which system answered, for compare.

        Raises:
            InputError: a requirement that is none, or that this run cannot be held to.
        """
        from robin_cli.api.verdicts import gate

        return gate(self.path, require, error_rate=error_rate, margin=margin, by=by)

    def compare(self, *others: Run | str | Path, **how: Any) -> pd.DataFrame:
        """Return which system is better, this run's or another's, or by a data column: see :func:`robin_cli.compare`."""
        from robin_cli.api.verdicts import compare

        return compare(self, *others, **how)

    def status(self, *, labels: str | Path | Frame | None = None) -> dict[str, Any]:
        """Return the run's state, the object of ``robin status --json``; ``labels`` as for :meth:`summary`."""
        return dict(status_of(self.path, labels=labels_from(labels)).facts)

    def report(
        self,
        output: str | Path | None = None,
        *,
        show: str | Sequence[str] = (),
        guaranteed: bool = False,
    ) -> Path:
        """Write the HTML report to ``output``, or into the run; return its path.

        Args:
            show: columns of the data that stand beside the rows, also "prompt" and "response".
            guaranteed: as for :meth:`scores`.

        Raises:
            InputError: the data has no such column.
        """
        from robin_cli.show.report.writing import write_report

        shown = checked_keywords({"show": show or ()}).get("show", ())
        view = View(show=shown, guaranteed=guaranteed)
        written = write_report([self.path], None if output is None else str(output), view)
        if written is None:
            raise InputError("report: name a file, not standard output")
        return written

    def arrow(self, what: str = "scores", **how: Any) -> pa.Table:
        """Return a table in Arrow, which polars and DuckDB read directly: ``polars.from_arrow(run.arrow("scores"))``.

        Args:
            what: which, as ``robin export --what`` calls it: "scores", "judge-scores", "judgments", "summary", …
            how: the keywords of the method of that name: ``wide=True``.

        Raises:
            As that method.
        """
        # a script joins by its own ids
        view = View(**{**how, "labels": labels_from(how.get("labels"))}, blind=False)
        return table_of(self.path, what, view).rows().read_all()

    def _table(self, what: str, **view: Any) -> pd.DataFrame:
        frame: pd.DataFrame = self.arrow(what, **view).to_pandas()
        return frame

    def resume(
        self, *, budget: int | None = None, judge: str | Function | None = None, **settings: Any
    ) -> Run:
        """Continue the run, with a larger total ``budget``, or ``max_cost`` if that is the budget; return the run.

        Args:
            judge: the function, where one was the judge; it must have the same name. A lambda, a closure or an
                object needs one of its own, its attribute ``name``.
            settings: how the judge is reached and where the session stops, if that is to differ: ``base_url``,
                ``api_key_env``, ``concurrency``, ``target_error``, ``target_wrong``, ``max_cost``, ``price_in``,
                ``price_out``, ``price_cached``, ``rpm``, ``tpm``, ``timeout``,
                ``max_retries``, ``samples_per_request``, ``ray``, ``quiet``.

        Raises:
            As :func:`judge`.
        """
        function, settings = handed_over(judge, settings)
        of_session = {Scope.SESSION, Scope.OUTPUT}
        check_names(
            settings.keys() - {"judge", "template"},
            {each.name for each in TABLE.values() if each.in_python and each.scope in of_session},
        )
        chosen = resumed(self.path, checked_keywords({"budget": budget, **settings}))
        resolved = ready(chosen, is_function=function is not None)
        messages = messages_for(quiet=chosen.quiet, notebook=True)
        for line in chosen.source.notes:
            messages.note(line)
        check_same(function, chosen.judge, self.path, messages)
        with reopen_run(self.path, chosen) as store:
            spend(store, resolved, messages, function, quiet=chosen.quiet)
        return self
