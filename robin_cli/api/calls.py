"""The functions of a script: load pairs, judge them, open a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

from robin_cli.api.inputs import Frame, checked_keywords, dataset_of, load
from robin_cli.api.keywords import JudgeSettings
from robin_cli.api.run import Run
from robin_cli.api.work import Judge, Work, opened, with_judge
from robin_cli.model.records import Pair
from robin_cli.run.manifest import read_manifest
from robin_cli.run.writer import RunWriter
from robin_cli.session.opening import open_run as open_store
from robin_cli.settings.reading import find_config, read_toml, together
from robin_cli.settings.resolve import Resolved
from robin_cli.settings.table import TABLE, Settings
from robin_cli.settings.trust import Source
from robin_cli.show.messages import Messages

Data = str | Path | Sequence[str | Path] | Sequence[Pair] | Frame


def load_pairs(
    source: str | Path | Sequence[str | Path] | Frame,
    *,
    columns: Mapping[str, str] | None = None,
    group: str | None = None,
    skip_bad_rows: bool = False,
    limit: int | None = None,
    encoding: str | None = None,
    strip_thinking: bool = False,
) -> list[Pair]:
    """Return prompt-response pairs, read like those of ``robin judge``.

    Args:
        source: a file, a glob, an address (https, s3, gs, hf), several in a list, or a frame of
            pandas, polars, pyarrow or DuckDB.
        columns: our names to the data's: ``{"prompt": "question", "id": "-"}``.
        group: the column that says which responses belong together; each pair then has it.

    Raises:
        InputError: the data cannot be used; the message says which row and why.
    """
    pairs = load(
        source,
        columns=columns,
        group=group,
        skip_bad_rows=skip_bad_rows,
        limit=limit,
        encoding=encoding or "",
        strip_thinking=strip_thinking,
    ).pairs
    # users write them as JSON, or change them
    return [replace(pair, columns=dict(pair.columns)) for pair in pairs]


def judge(
    data: Data,
    *,
    judge: Judge = None,
    config: str | None = None,
    **settings: Unpack[JudgeSettings],
) -> Run:
    """Spend a budget of judge calls over ``data``, like ``robin judge``; return when it is spent.

    It works inside a running event loop too, and blocks it: see :func:`judge_async`. Ctrl-C lets
    calls under way finish, keeps everything and raises KeyboardInterrupt;
    ``open_run(...).resume()`` goes on. Keys come from the environment, never from here.

    Args:
        data: a file, a glob, an address, several in a list, pairs (of :func:`load_pairs`), or a
            frame. With ``pairwise=True`` a column ``system`` says who wrote a response, or rows
            hold two, ``response_a`` and ``response_b``; the second is ``other`` of a pair.
        judge: a function from chat messages (dicts of role and content) to the text of an answer,
            ``async`` or not, in place of an endpoint; or the name of a package's judge.
        config: a TOML file with settings, or the name of a ready one. ./robin.toml must be named.
        settings: the flags of ``robin judge`` with underscores: ``budget=5000, model=…,
            run="runs/mine"``. A ``run`` that is there and has the same settings goes on.

    Raises:
        InputError: bad data or settings. EndpointError: the endpoint cannot be used. LimitReached:
            ``max_cost`` is reached. StorageError: the disk. Everything received is in the run.
    """
    with _work_on(data, judge, config, {**settings}) as work:
        work.run()
        return Run(work.store.path)


async def judge_async(
    data: Data,
    *,
    judge: Judge = None,
    config: str | None = None,
    **settings: Unpack[JudgeSettings],
) -> Run:
    """Do as :func:`judge` in the running event loop, beside its other tasks.

    Cancelled, it lets calls under way finish, for 10 s at most; cancelled again, it drops them. Everything received is kept.
    """
    with _work_on(data, judge, config, {**settings}) as work:
        await work.run_here()
        return Run(work.store.path)


def _work_on(
    data: Data, judge: Judge, config: str | None, keywords: dict[str, Any]
) -> AbstractContextManager[Work]:
    names = {setting.name for setting in TABLE.values() if setting.in_python}
    flags = checked_keywords(with_judge(keywords, judge), names)
    in_file = read_toml(find_config(config)) if config is not None else {}
    is_priced_here = config is None or "price_in" in flags
    prices = "price_in, price_out" if is_priced_here else f"config={config!r}"
    source = Source(config or "Python", prices=prices)
    settings = Settings(**together(flags, in_file), source=source)

    def open_run_of_data(resolved: Resolved, messages: Messages) -> RunWriter:
        dataset = dataset_of(data, settings, messages.note)
        return open_store(settings, resolved, messages.note, dataset)

    return opened(settings, judge, Path(settings.run or ""), open_run_of_data)


def open_run(path: str | Path) -> Run:
    """Return the run at ``path``, finished or not.

    Raises:
        RunError: there is none.
    """
    read_manifest(Path(path))
    return Run(Path(path))
