"""robin from Python, for notebooks and scripts: pairs in, a run, its numbers as DataFrames. Public through ``robin_cli``."""

from __future__ import annotations

import asyncio
import hashlib
import io
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa

from robin_cli.config import SEVERAL, RunConfig, checked_flags, find_config, from_home, of_its_type, read_toml
from robin_cli.data import pairs as data_pairs
from robin_cli.data.pairs import Dataset
from robin_cli.errors import InputError, RobinError, did_you_mean
from robin_cli.judges import api_keys
from robin_cli.output.export import scores_table
from robin_cli.output.messages import Messages, messages_for
from robin_cli.output.progress import conclusion, shown
from robin_cli.output.scores import judge_scores, score
from robin_cli.output.status import status_of
from robin_cli.records import Pair
from robin_cli.runs.connection import Connection, connection_of, resumed
from robin_cli.runs.engine import Stop
from robin_cli.runs.manifest import read_manifest
from robin_cli.runs.opening import open_run as open_configured
from robin_cli.runs.opening import pairs_of, prompts_of, reopen_run
from robin_cli.runs.reading import read_judgments, read_run
from robin_cli.runs.schema import JUDGMENTS
from robin_cli.runs.session import Outcome, Session
from robin_cli.runs.store import RunStore
from robin_cli.runs.work import check_rated, work
from robin_cli.trust import Source

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Pair", "RobinError", "Run", "judge", "load_pairs", "open_run"]

_NOT_HERE = frozenset(
    {
        "data",
        "format",
        "output",
        "with_text",
        "wide",
        "sort",
        "top",
        "raw",
        "source",
    }
)
"""Settings of the command line that have another place in Python."""


def load_pairs(
    source: str | Path | Sequence[str | Path] | pd.DataFrame,
    *,
    columns: Mapping[str, str] | None = None,
    skip_bad_rows: bool = False,
    limit: int | None = None,
) -> list[Pair]:
    """Prompt-response pairs, as ``robin judge`` reads them.

    Args:
        source: a file (JSON lines, JSON, CSV, TSV, Parquet), a glob, ``hf://owner/name?split=…``, several of these in a
            list, or a DataFrame with columns ``prompt`` and ``response``.
        columns: our names to the data's, as ``{"prompt": "question"}``; ``{"id": "-"}`` ignores the data's ids.
        skip_bad_rows: leave out rows that cannot be used.
        limit: take the first so many.

    Raises:
        InputError: the data cannot be used; the message says which row and why.
    """
    return _load(source, columns=columns, skip_bad_rows=skip_bad_rows, limit=limit).pairs


def judge(
    data: str | Path | Sequence[str | Path] | Sequence[Pair] | pd.DataFrame,
    *,
    config: str | None = None,
    **settings: Any,
) -> Run:
    """Spend a budget of judge calls over ``data``, as ``robin judge`` does; returns when it is spent.

    A notebook's own event loop is left alone. Ctrl-C (or the notebook's stop button) lets calls under way finish, keeps all,
    and raises KeyboardInterrupt; ``open_run(...).resume()`` goes on. Keys come from the environment, never from here.

    Args:
        data: a file, glob or ``hf://owner/name?split=…``, several of these in a list, pairs (of :func:`load_pairs`), or a
            DataFrame.
        config: a TOML file with settings, or the name of a ready one; ./robin.toml is not read unless it is named.
        settings: by the names of the flags with underscores: ``budget=5000, attribute="helpfulness", base_url=…, model=…,
            run="runs/mine", max_cost=5, quiet=True``; ``columns``, ``skip_bad_rows`` and ``limit`` as in :func:`load_pairs`.
            With a ``run`` that is there and has the same settings, that goes on.

    Raises:
        InputError: bad data or settings. EndpointError: the endpoint cannot be used. LimitReached: ``max_cost`` is reached.
            StorageError: the disk. After each, what was received is in the run.
    """
    _check_names(settings, {each.name for each in fields(RunConfig)} - _NOT_HERE)
    from_file = read_toml(find_config(config)) if config is not None else {}
    chosen = RunConfig(**{**from_file, **checked_flags(_as_flags(settings)), "source": Source(config or "Python")})
    api_keys(chosen)
    connection = connection_of(chosen)
    messages = messages_for(chosen, notebook=True)
    with open_configured(chosen, messages.note, _dataset(data, chosen, messages.note)) as store:
        _spend(store, chosen, connection, messages)
        return Run(store.path)


def open_run(path: str | Path) -> Run:
    """The run at ``path``, finished or not.

    Raises:
        RunError: there is none.
    """
    read_manifest(Path(path))
    return Run(Path(path))


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

        Columns as in ``robin export``: pair_id, attribute, score, n, variance, std_error, ci_low, ci_high, n_unparsed, human,
        given_up; of several judges also judges and judge_spread. NaN where there is no value.
        """
        data = read_run(self.path)
        return _frame(scores_table(score(data), data, with_text=with_text, wide=wide))

    def judge_scores(self, *, with_text: bool = False, wide: bool = False) -> pd.DataFrame:
        """The same of each judge by itself: a row a pair, attribute and judge, with a column ``judge``."""
        data = read_run(self.path)
        return _frame(scores_table(judge_scores(data), data, with_text=with_text, wide=wide))

    def judgments(self) -> pd.DataFrame:
        """Every judgment, in the order they came; also those that a process at work has in its journal."""
        return _frame(pa.concat_tables([JUDGMENTS.empty_table(), *read_judgments(self.path)]))

    def status(self) -> dict[str, Any]:
        """Where it stands: the object that ``robin status --json`` prints."""
        return status_of(self.path)

    def report(self, output: str | Path | None = None) -> Path:
        """Write the HTML report to ``output``, or into the run; where it is."""
        from robin_cli.output.report.writing import write_report

        written = write_report([self.path], None if output is None else str(output))
        if written is None:
            raise InputError("report: name a file, not standard output")
        return written

    def resume(self, *, budget: int | None = None, **settings: Any) -> Run:
        """Go on with it, with a larger total ``budget`` if one is given; returns itself.

        Args:
            settings: how the judge is reached, where that is to differ: ``base_url``, ``api_key_env``, ``concurrency``,
                ``max_cost``, ``no_fuse``, ``price_in``, ``price_out``, ``rpm``, ``tpm``, ``timeout``, ``max_retries``,
                ``max_reply``, ``samples_per_request``, ``quiet``.

        Raises:
            As :func:`judge`.
        """
        _check_names(settings, {each.name for each in fields(Connection)} | {"quiet"})
        given = checked_flags(_as_flags({"budget": budget, **settings}))
        chosen = resumed(self.path, given, in_python=True)
        api_keys(chosen)
        messages = messages_for(chosen, notebook=True)
        connection = connection_of(chosen)
        with reopen_run(self.path, budget=chosen.budget) as store:
            _spend(store, chosen, connection, messages)
        return self


def _frame(table: pa.Table) -> pd.DataFrame:
    frame: pd.DataFrame = table.to_pandas()
    return frame


def _check_names(settings: Mapping[str, Any], known: Set[str]) -> None:
    for name in settings:
        if name not in known:
            raise InputError(f'no setting "{name}"{did_you_mean(name, known)}')


def _as_flags(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as Python has them, in the types that flags have. InputError for a value of another type."""
    flags = {name: value for name, value in settings.items() if value is not None}
    for name in SEVERAL & flags.keys():
        if isinstance(flags[name], (str, Path)):
            flags[name] = [flags[name]]
        elif isinstance(flags[name], tuple):
            flags[name] = list(flags[name])
    if isinstance(flags.get("concurrency"), int):
        flags["concurrency"] = str(flags["concurrency"])
    if isinstance(flags.get("attribute"), (list, tuple)):
        flags["attribute"] = ",".join(flags["attribute"])
    if isinstance(flags.get("columns"), str):
        flags |= checked_flags({"columns": flags["columns"]})
    for name in {"columns", "extra_body"} & flags.keys():
        flags[name] = dict(flags[name]) if isinstance(flags[name], Mapping) else flags[name]
    for name in ("run", "variances", "debug_http", "template"):
        if isinstance(flags.get(name), (str, Path)):
            flags[name] = str(from_home(flags[name]))
    return {name: of_its_type(name, value, "Python") for name, value in flags.items()}


def _load(source: Any, **options: Any) -> Dataset:
    if isinstance(source, (str, Path, Sequence)):
        return data_pairs.load_pairs(source, **options)
    table = io.BytesIO()
    try:
        source.to_parquet(table, index=False)
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise InputError(
            f"DataFrame: a column cannot be taken as it is ({error}); pass only the columns that are needed"
        ) from error
    return data_pairs.read_pairs(table, "DataFrame", **options)


def _dataset(data: Any, config: RunConfig, notify: Callable[[str], None]) -> Dataset:
    named = isinstance(data, (str, Path)) or (isinstance(data, Sequence) and _are_names(data))
    if named or not isinstance(data, Sequence):
        found = pairs_of(config, prompts_of(config), notify, partial(_load, data))
        return found if named else replace(found, sha256=_in_memory(found.pairs, 0).sha256, source="Python", files=())
    if config.columns:
        raise InputError(f"{config.source}: columns: pairs have none; give them to load_pairs, which makes the pairs")
    return _in_memory(list(data)[: config.limit], 0)


def _are_names(data: Sequence[Any]) -> bool:
    return bool(data) and all(isinstance(each, (str, Path)) for each in data)


def _in_memory(pairs: list[Pair], skipped: int) -> Dataset:
    """Pairs that came from no file, told apart by what they are; InputError where they cannot be judged."""
    seen: set[str] = set()
    digest = hashlib.sha256()
    for pair in pairs:
        if not isinstance(pair, Pair):
            raise InputError(f"judge: data holds a {type(pair).__name__}, not a Pair; load_pairs makes them")
        if pair.pair_id in seen:
            raise InputError(f'judge: two pairs have the id "{pair.pair_id}"; give each one of its own')
        seen.add(pair.pair_id)
        digest.update(orjson.dumps(asdict(pair), option=orjson.OPT_SORT_KEYS) + b"\n")
    if not pairs:
        raise InputError("judge: no pairs")
    return Dataset(pairs, skipped, digest.hexdigest(), "Python")


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

    def wait_for(self, future: Future[Outcome | None], messages: Messages) -> tuple[Outcome | None, bool]:
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


def _spend(store: RunStore, config: RunConfig, connection: Connection, messages: Messages) -> None:
    """Work until the budget is spent, in a thread with an event loop of its own: a notebook's is running already."""
    stopper = _Stopper()

    @contextmanager
    def around(session: Session, stop: Stop) -> Iterator[None]:
        with stopper.around(stop), shown(session, messages, quiet=config.quiet):
            yield

    working = work(store, connection, api_keys(config), notify=messages.note, around=around)
    with ThreadPoolExecutor(1, thread_name_prefix="robin") as pool:
        outcome, interrupted = stopper.wait_for(pool.submit(asyncio.run, working), messages)
    if outcome is not None:
        for line in conclusion(outcome):
            messages.note(line)
    if interrupted:
        messages.note(f"everything received is kept; to go on: open_run({str(store.path)!r}).resume()")
        raise KeyboardInterrupt
    if outcome is not None:
        check_rated(outcome, store.path)
