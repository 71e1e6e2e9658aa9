"""robin from Python, for notebooks and scripts: pairs in, a run, its numbers as DataFrames. Public through ``robin_cli``."""

from __future__ import annotations

import asyncio
import hashlib
import io
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa

from robin_cli.analysis.scores import judge_scores, score
from robin_cli.datasets import pairs as data_pairs
from robin_cli.datasets.columns import FurtherColumns
from robin_cli.datasets.comparisons import comparisons_of, load_comparisons
from robin_cli.datasets.pair_table import GrowingTable
from robin_cli.datasets.pairs import Dataset
from robin_cli.files.remote import scheme_of
from robin_cli.judges.functions import Function, name_of, tells_itself
from robin_cli.model.errors import InputError, RobinError
from robin_cli.model.records import SYSTEM_COLUMN, SYSTEM_COLUMNS, Pair
from robin_cli.results.tables import Table
from robin_cli.runner.checking import check_judges
from robin_cli.runner.inputs import pairs_of, prompts_of
from robin_cli.runner.opening import open_run as open_configured
from robin_cli.runner.resuming import reopen_run, resumed
from robin_cli.runner.session import Outcome, Session
from robin_cli.runner.stop import Stop
from robin_cli.runner.working import check_rated, work
from robin_cli.settings.reading import check_names, checked, find_config, from_home, read_toml, together
from robin_cli.settings.setting import Scope
from robin_cli.settings.table import IN_PYTHON, TABLE, Settings
from robin_cli.settings.trust import Source
from robin_cli.storage.manifest import FILE, read_manifest
from robin_cli.storage.reader import RunData, count_answers, read_run
from robin_cli.storage.store import RunStore
from robin_cli.views.agreement import agreement_table, calibration_table
from robin_cli.views.judgments import judgment_table
from robin_cli.views.messages import Messages, messages_for
from robin_cli.views.pairwise import check_of_ratings, check_view, comparison_table, ranking_table
from robin_cli.views.preferences import preference_table
from robin_cli.views.progress import conclusion, goal_lines, shown
from robin_cli.views.scores import decision_table, score_table
from robin_cli.views.status import status_of
from robin_cli.views.summary import WANTED, given_labels, labels_wanted_table, summary_table

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Pair", "RobinError", "Run", "compare", "judge", "load_pairs", "merge", "open_run"]


def load_pairs(
    source: str | Path | Sequence[str | Path] | pd.DataFrame,
    *,
    columns: Mapping[str, str] | None = None,
    group: str | None = None,
    skip_bad_rows: bool = False,
    limit: int | None = None,
) -> list[Pair]:
    """Prompt-response pairs, as ``robin judge`` reads them.

    Args:
        source: a file (JSON lines, JSON, CSV, TSV, Parquet), a glob, an address (https, s3, gs, hf), several in a
            list, or a DataFrame with columns ``prompt`` and ``response``.
        columns: our names to the data's, as ``{"prompt": "question"}``; ``{"id": "-"}`` ignores the data's ids.
        group: the column that says which responses belong together; each pair then has it.
        skip_bad_rows: leave out rows that cannot be used.
        limit: take the first so many.

    Raises:
        InputError: the data cannot be used; the message says which row and why.
    """
    found = _load(source, columns=columns, group=group, skip_bad_rows=skip_bad_rows, limit=limit).pairs
    return [replace(pair, columns=dict(pair.columns)) for pair in found]  # to be written as JSON, say, or changed


def judge(
    data: str | Path | Sequence[str | Path] | Sequence[Pair] | pd.DataFrame,
    *,
    judge: str | Function | None = None,
    config: str | None = None,
    **settings: Any,
) -> Run:
    """Spend a budget of judge calls over ``data``, as ``robin judge`` does; returns when it is spent.

    A notebook's own event loop is left alone. Ctrl-C (or the notebook's stop button) lets calls under way finish, keeps all,
    and raises KeyboardInterrupt; ``open_run(...).resume()`` goes on. Keys come from the environment, never from here.

    Args:
        data: a file, a glob, an address, several of these in a list, pairs (of :func:`load_pairs`), or a
            DataFrame. With ``pairwise=True`` every two responses to a prompt are compared, of which a column ``system`` says
            who wrote them; or rows hold two, ``response_a`` and ``response_b``, as pairs do whose ``other`` is the second.
        judge: who is asked in place of an endpoint: a function from chat messages (dicts of role and content) to the text of an
            answer, ``async`` or not, or the name of a judge that an installed package adds.
        config: a TOML file with settings, or the name of a ready one; ./robin.toml is not read unless it is named.
        settings: by the names of the flags with underscores: ``budget=5000, attribute="helpfulness", base_url=…, model=…,
            run="runs/mine", max_cost=5, quiet=True``; ``columns``, ``group``, ``skip_bad_rows`` and ``limit`` as in
            :func:`load_pairs`. With a ``run`` that is there and has the same settings, that goes on.

    Raises:
        InputError: bad data or settings. EndpointError: the endpoint cannot be used. LimitReached: ``max_cost`` is reached.
            StorageError: the disk. After each, what was received is in the run.
    """
    function, settings = _handed_over(judge, settings)
    check_names(settings.keys(), {each.name for each in TABLE.values() if each.in_python})
    from_file = read_toml(find_config(config)) if config is not None else {}
    chosen = Settings(**together(_checked(settings), from_file), source=Source(config or "Python"))
    check_judges(chosen, function)
    messages = messages_for(chosen, notebook=True)
    _check_same(function, chosen.judge, Path(chosen.run or ""), messages)
    with open_configured(chosen, messages.note, _dataset(data, chosen, messages.note)) as store:
        _spend(store, chosen, messages, function)
        return Run(store.path)


def open_run(path: str | Path) -> Run:
    """The run at ``path``, finished or not.

    Raises:
        RunError: there is none.
    """
    read_manifest(Path(path))
    return Run(Path(path))


def compare(
    *runs: Run | str | Path,
    by: str | None = None,
    match: str | None = None,
    anytime: bool = False,
    labels: str | Path | pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Which system is better, as ``robin compare`` says: a row for every two systems and attribute.

    Columns are in docs/columns.md; NaN where there is no value. What was left out is in a warning.

    Args:
        runs: two or more on the same prompts, or one with ``by``.
        by: a column of the data that says which system answered.
        match: a column that says which responses answer the same prompt, in place of the prompt's text.
        anytime: intervals that hold however often one looks.
        labels: people's, as for :meth:`Run.summary`; None for the human ratings of the data.

    Raises:
        InputError: runs that cannot be compared, and what differs.
    """
    from robin_cli.views.comparing import comparison_of, table_of

    if not runs:
        raise InputError("compare: name two runs, or one and by=, the column that says which system answered")
    paths = [each.path if isinstance(each, Run) else Path(each) for each in runs]
    notes: list[str] = []
    found = comparison_of(paths, notes.append, by=by, match=match, anytime=anytime, labels=_table_of(labels))
    for line in notes:
        warnings.warn(line, stacklevel=2)
    return _frame(table_of(found))


def merge(runs: Sequence[Run | str | Path], output: str | Path) -> Run:
    """One run of shards: ``runs`` that were made apart, with the same settings, on different pairs.

    They stay as they are. The budget of the new run is the sum of theirs; ``resume()`` goes on with what is left. What a user
    should know, as that one of them was not finished, is in a warning.

    Args:
        runs: two or more; a path may be a glob.
        output: the folder to make; there must be none.

    Raises:
        InputError: runs that are no shards of one run, and what differs. RunError: one of them is at work, or ``output`` is
            there. StorageError: the disk.
    """
    from robin_cli.runner.merging import merge_runs

    made = merge_runs([each.path if isinstance(each, Run) else each for each in runs], output)
    for line in made.notes:
        warnings.warn(line, stacklevel=2)
    return Run(made.path)


class Run:
    """A run directory. Every method reads it anew, so one that is being worked on elsewhere can be watched.

    Attributes:
        path: where it is.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"

    def scores(self, *, with_text: bool = False, wide: bool = False) -> pd.DataFrame:
        """The scores, a row a pair and attribute in the order of the data; ``with_text`` adds prompt and response.

        ``wide``: a row a pair, in which each attribute has columns of its own, ``helpfulness_score`` and so on.

        Of a pairwise run a row a comparison. Columns as in ``robin export``: see docs/columns.md. NaN where there is no value.
        Behind them are the further columns of the data, by their names; one that has the name of another here is called
        ``data.score`` and so on.

        Raises:
            InputError: ``wide`` of a pairwise run.
        """
        data = read_run(self.path)
        if data.manifest.is_pairwise:
            _check_not_wide(wide)
            return _frame(comparison_table(data, with_text=with_text))
        return _frame(score_table(score(data), data, with_text=with_text, wide=wide))

    def judge_scores(self, *, with_text: bool = False, wide: bool = False) -> pd.DataFrame:
        """The same of each judge by itself: a row a pair, attribute and judge, with a column ``judge``."""
        data = read_run(self.path)
        if data.manifest.is_pairwise:
            _check_not_wide(wide)
            return _frame(comparison_table(data, with_text=with_text, by_judge=True))
        return _frame(score_table(judge_scores(data), data, with_text=with_text, wide=wide))

    def ranking(self, *, length_control: bool = False) -> pd.DataFrame:
        """The systems of a pairwise run, a row each, the best first.

        Columns: see docs/columns.md.

        Args:
            length_control: take out what preferences go by length.

        Raises:
            InputError: the run is not pairwise, or its systems cannot be ranked, and why.
        """
        return _frame(ranking_table(read_run(self.path), by_length=length_control, in_python=True))

    def decisions(self, *, with_text: bool = False) -> pd.DataFrame:
        """What was decided by ``decide=``: a row a pair, in the order of the data; ``with_text`` adds prompt and response.

        Columns: see docs/columns.md.

        Raises:
            InputError: the run decides nothing.
        """
        data = self._rated("Run.decisions()")
        return _frame(decision_table(score(data), data, with_text=with_text))

    def judgments(self) -> pd.DataFrame:
        """Every judgment, in the order they came; also those that a process at work has in its journal."""
        return _frame(judgment_table(self.path))

    def agreement(self) -> pd.DataFrame:
        """How the scores agree with the human ratings, and the judge with itself: a row an attribute and coefficient.

        Columns: see docs/columns.md. NaN where it is not stated, and ``why``.

        Raises:
            InputError: the data has no human ratings, or none on the scale.
        """
        return _frame(agreement_table(self._rated("Run.agreement()")))

    def calibration(self) -> pd.DataFrame:
        """The mean human rating of each level of the scores, on long scales of each bin: a row an attribute and level that
        pairs have.

        Columns: see docs/columns.md. No row of what :meth:`agreement` does not state.

        Raises:
            InputError: as :meth:`agreement`.
        """
        return _frame(calibration_table(self._rated("Run.calibration()")))

    def preferences(self, *, messages: bool = False) -> pd.DataFrame:
        """Which response of each group is better than which: a row for each that can be told apart from the group's best.

        Columns: see docs/columns.md. With ``messages`` chosen and rejected are conversations that begin with the prompt, for
        trainers of chat models.

        Raises:
            InputError: no group has two responses, or no two can be told apart.
        """
        return _frame(preference_table(read_run(self.path), messages=messages))

    def summary(
        self,
        by: str | None = None,
        *,
        threshold: float | None = None,
        labels: str | Path | pd.DataFrame | None = None,
    ) -> pd.DataFrame:
        """The mean of each attribute with an interval over prompts, of all pairs or for each value of a column of the data.

        Columns: see docs/columns.md. NaN where there is no value, and why is said on stderr.

        Args:
            labels: a file, or a DataFrame with columns pair_id and label, and attribute where there are several; without any,
                the human ratings of the data.

        Raises:
            InputError: no such column, a threshold off the scale, labels that cannot be used.
        """
        data, said = self._rated("Run.summary()"), messages_for(Settings(), notebook=True)
        given = given_labels(_table_of(labels), data)
        return _frame(summary_table(data, said.note, by=by, threshold=threshold, given=given))

    def labels_wanted(
        self, n: int = WANTED, *, by: str | None = None, labels: str | Path | pd.DataFrame | None = None
    ) -> pd.DataFrame:
        """The ``n`` pairs that people should label next, in the order in which they should, and those labelled so far.

        Columns: see docs/columns.md. Filled in, it is what ``labels`` of :meth:`summary` and :meth:`status` takes.

        Args:
            by: a column of the data whose values are to be compared: whole prompts are drawn.
            labels: as for :meth:`summary`; the draw goes on from them.

        Raises:
            InputError: nothing is left to label, or the labels cannot be used.
        """
        data = self._rated("Run.labels_wanted()")
        return _frame(labels_wanted_table(data, n=n, by=by, given=given_labels(_table_of(labels), data)))

    def status(self, *, labels: str | Path | pd.DataFrame | None = None) -> dict[str, Any]:
        """Where it stands: the object that ``robin status --json`` prints; ``labels`` as for :meth:`summary`."""
        return status_of(self.path, labels=_table_of(labels))

    def report(self, output: str | Path | None = None) -> Path:
        """Write the HTML report to ``output``, or into the run; where it is."""
        from robin_cli.views.report.writing import write_report

        written = write_report([self.path], None if output is None else str(output))
        if written is None:
            raise InputError("report: name a file, not standard output")
        return written

    def _rated(self, what: str) -> RunData:
        """The run, where it holds ratings. InputError where ``what`` is asked of a pairwise one."""
        data = read_run(self.path)
        check_of_ratings(data, what, in_python=True)
        return data

    def resume(
        self,
        *,
        budget: int | None = None,
        budget_usd: float | None = None,
        judge: str | Function | None = None,
        **settings: Any,
    ) -> Run:
        """Go on with it, with a larger total ``budget`` if one is given; returns itself.

        Args:
            budget_usd: the same where the budget is of money.
            judge: the function, where one was the judge; it must have the same name. A lambda, a closure or an
                object needs one of its own, its attribute ``name``.
            settings: how the judge is reached and where the session stops, if that is to differ: ``base_url``,
                ``api_key_env``, ``concurrency``, ``target_error``, ``guaranteed``, ``max_cost``, ``no_fuse``, ``price_in``,
                ``price_out``, ``price_cached``, ``service_tier``, ``tier_fallback``, ``rpm``, ``tpm``, ``timeout``,
                ``max_retries``, ``max_reply``, ``samples_per_request``, ``ray``, ``quiet``.

        Raises:
            As :func:`judge`.
        """
        function, settings = _handed_over(judge, settings)
        of_session = {Scope.SESSION, Scope.OUTPUT}
        check_names(
            settings.keys() - {"judge"},
            {each.name for each in TABLE.values() if each.in_python and each.scope in of_session},
        )
        chosen = resumed(self.path, _checked({"budget": budget, "budget_usd": budget_usd, **settings}), in_python=True)
        check_judges(chosen, function)
        messages = messages_for(chosen, notebook=True)
        _check_same(function, chosen.judge, self.path, messages)
        with reopen_run(self.path, chosen) as store:
            _spend(store, chosen, messages, function)
        return self


def _check_not_wide(wide: bool) -> None:  # noqa: FBT001
    check_view(sort=TABLE["sort"].default, wide=wide)


def _frame(made: Table) -> pd.DataFrame:
    frame: pd.DataFrame = made.parts().whole().to_pandas()
    return frame


def _checked(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Keywords as settings; files may be paths, from the home folder too."""
    files = {name for name in settings.keys() & TABLE.keys() if TABLE[name].file}
    named = {name: str(settings[name]) for name in files if isinstance(settings[name], (str, Path))}
    paths = {name: value if scheme_of(value) else str(from_home(value)) for name, value in named.items()}
    return checked({**settings, **paths}, "Python")


def _load(source: Any, *, read: Callable[..., Dataset] = data_pairs.load_pairs, **options: Any) -> Dataset:
    if not isinstance(options.get("columns") or {}, Mapping):
        raise InputError(
            f'columns={options["columns"]!r}: give a dict of our names to the data\'s, as {{"prompt": "question"}}'
        )
    if isinstance(source, (str, Path, Sequence)):
        return read(source, **options)
    return read(_parquet(source), called="DataFrame", **options)


def _table_of(labels: str | Path | pd.DataFrame | None) -> str | Path | io.BytesIO | None:
    return labels if labels is None or isinstance(labels, (str, Path)) else _parquet(labels)


def _parquet(frame: pd.DataFrame) -> io.BytesIO:
    """A DataFrame as robin's readers take it. InputError where a column cannot be written."""
    table = io.BytesIO()
    try:
        frame.to_parquet(table, index=False)
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise InputError(
            f"DataFrame: a column cannot be taken as it is ({error}); pass only the columns that are needed"
        ) from error
    return table


def _dataset(data: Any, settings: Settings, notify: Callable[[str], None]) -> Dataset:
    named = isinstance(data, (str, Path)) or (isinstance(data, Sequence) and _are_names(data))
    if named or not isinstance(data, Sequence):
        read = load_comparisons if settings.pairwise else data_pairs.load_pairs
        found = pairs_of(settings, prompts_of(settings), notify, partial(_load, data, read=read))
        return (
            found
            if named
            else replace(found, sha256=_in_memory(list(found.pairs), 0).sha256, source="Python", files=())
        )
    if settings.columns:
        raise InputError(f"{settings.source}: columns: pairs have none; give them to load_pairs, which makes the pairs")
    if settings.group:
        raise InputError(
            f"{settings.source}: group: pairs have their own; give it to load_pairs, which makes the pairs"
        )
    found = _compared(data, settings) if settings.pairwise else _in_memory(list(data)[: settings.limit], 0)
    for said in (*found.notes, *found.columns_left_out):
        notify(said)
    if not settings.pairwise and any(pair.other is not None for pair in found.pairs):
        raise InputError("judge: pairs hold two responses, and one is rated here; pairwise=True compares them")
    return found


def _compared(data: Sequence[Pair], settings: Settings) -> Dataset:
    """The comparisons that pairs make; told apart, as all from no file, by what they are."""
    found = comparisons_of(
        _in_memory(list(data), 0),
        reference=settings.reference,
        skip_bad_rows=settings.skip_bad_rows,
        limit=settings.limit,
        wants_best=settings.decide is not None,
    )
    return replace(found, sha256=_in_memory(list(found.pairs), 0).sha256, source="Python", files=())


def _are_names(data: Sequence[Any]) -> bool:
    return bool(data) and all(isinstance(each, (str, Path)) for each in data)


def _in_memory(pairs: list[Pair], skipped: int) -> Dataset:
    """Pairs that came from no file, told apart by what they are; InputError where they cannot be judged."""
    seen: set[str] = set()
    digest = hashlib.sha256()
    kept: list[Pair] = []
    further = FurtherColumns()
    for pair in pairs:
        if not isinstance(pair, Pair):
            raise InputError(f"judge: data holds a {type(pair).__name__}, not a Pair; load_pairs makes them")
        if pair.pair_id in seen:
            raise InputError(f'judge: two pairs have the id "{pair.pair_id}"; give each one of its own')
        seen.add(pair.pair_id)
        columns: dict[str, object] = dict(pair.columns)
        kept.append(replace(pair, columns=further.of(columns, further.names_of(columns))) if columns else pair)
        # What earlier versions did not know is left out where it is not there: the digest says whether a run is the same.
        known = {
            name: value
            for name, value in asdict(kept[-1]).items()
            if name != "columns" and (name not in {"group", "other"} or value is not None)
        }
        asked_by = (SYSTEM_COLUMN,) if pair.other is None else SYSTEM_COLUMNS  # nothing that is asked hangs on others
        known |= {name: kept[-1].columns[name] for name in asked_by if name in kept[-1].columns}
        digest.update(orjson.dumps(known, option=orjson.OPT_SORT_KEYS) + b"\n")
    if not pairs:
        raise InputError("judge: no pairs")
    without = [pair.pair_id for pair in pairs if not pair.group]
    if 0 < len(without) < len(pairs):
        raise InputError(
            f'judge: {len(without):,} of {len(pairs):,} pairs have no group, the first "{without[0]}"; give each one, or none'
        )
    growing = GrowingTable()
    growing.extend(kept)
    table = growing.table(further.forgotten)
    return Dataset(table, skipped, digest.hexdigest(), "Python", columns_left_out=tuple(further.left_out))


class _Stopper:
    """Carries a Ctrl-C from the thread that waits to the loop that works."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: Stop | None = None
        self._times = 0
        self._lock = threading.Lock()

    @contextmanager
    def around(self, stop: Stop) -> Iterator[None]:
        with self._lock:
            self._loop, self._stop = asyncio.get_running_loop(), stop
            for _ in range(self._times):  # asked before there was anything to stop
                stop.request()
        try:
            yield
        finally:
            with self._lock:
                self._loop = None

    def wait_for(self, future: Future[Outcome], messages: Messages) -> tuple[Outcome, bool]:
        """What the work came to, and whether it was interrupted."""
        interrupted = False
        while True:
            try:
                return future.result(), interrupted
            except KeyboardInterrupt:
                interrupted = True
                messages.note("stopping: calls under way may finish; once more stops now")
                self.request()

    def request(self) -> None:
        with self._lock:
            self._times += 1
            if self._loop is not None and self._stop is not None:
                self._loop.call_soon_threadsafe(self._stop.request)


def _handed_over(judge: str | Function | None, settings: dict[str, Any]) -> tuple[Function | None, dict[str, Any]]:
    """The function that is the judge, if one is, and the settings with its name."""
    if judge is None:
        return None, settings
    if isinstance(judge, str):
        return None, {**settings, "judge": judge}
    if not callable(judge):
        raise InputError(f"judge: is {type(judge).__name__}; give a function from messages to text, or a judge's name")
    return judge, {**settings, "judge": IN_PYTHON + name_of(judge)}


def _check_same(function: Function | None, judge: str, run: Path, messages: Messages) -> None:
    """InputError where nothing tells whether ``function`` is the judge whose answers are in ``run`` already."""
    if function is None or tells_itself(function):
        return
    name = judge.removeprefix(IN_PYTHON)
    unnamed = f"the judge {name} has no name of its own (a lambda, a closure or an object)"
    if not (run / FILE).exists():
        messages.note(f"note: {unnamed}: to go on with its run later, give it one: its attribute name, a text")
    elif read_manifest(run).own_settings["judge"] == judge and count_answers(run)[0]:
        raise InputError(
            f"{run}: {unnamed}, so nothing tells whether it is the one that answered here before. If it is, say so, "
            f'judge.name = "{name}", and go on; for another, start a new run'
        )


def _spend(store: RunStore, settings: Settings, messages: Messages, function: Function | None) -> None:
    """Work until the budget is spent, in a thread with an event loop of its own: a notebook's is running already."""
    stopper = _Stopper()

    @contextmanager
    def around(session: Session, stop: Stop) -> Iterator[None]:
        with stopper.around(stop), shown(session, messages, quiet=settings.quiet):
            yield

    working = work(store, settings, notify=messages.note, around=around, function=function)
    with ThreadPoolExecutor(1, thread_name_prefix="robin") as pool:
        outcome, interrupted = stopper.wait_for(pool.submit(asyncio.run, working), messages)
    if outcome.worked:
        for line in conclusion(outcome):
            messages.note(line)
    if interrupted:
        messages.note(f"everything received is kept; to go on: open_run({str(store.path)!r}).resume()")
        raise KeyboardInterrupt
    if outcome.to_run:
        for line in (*outcome.to_run, f"once these commands have run: open_run({str(store.path)!r}).resume()"):
            messages.note(line)
        return
    if outcome.worked:
        check_rated(outcome, store.path)
    for line in goal_lines(outcome, store.path, in_python=True):
        messages.note(line)
