"""The functions of a script: load pairs, judge them, open and compare runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from robin_cli.api.given import Frame, dataset_of, load, ready
from robin_cli.api.keywords import JudgeSettings
from robin_cli.api.run import Run
from robin_cli.api.spending import check_names, check_same, checked_keywords, handed_over, spend
from robin_cli.judges.functions import Function
from robin_cli.model.records import Pair
from robin_cli.run.manifest import read_manifest
from robin_cli.session.opening import open_run as open_configured
from robin_cli.settings.reading import find_config, read_toml, together
from robin_cli.settings.table import TABLE, Settings
from robin_cli.settings.trust import Source
from robin_cli.show.messages import messages_for

if TYPE_CHECKING:
    pass


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
        source: a file (JSON lines, JSON, CSV, TSV, Parquet), a glob, an address (https, s3, gs, hf), several in a
            list, or a frame with columns ``prompt`` and ``response``: of pandas, polars, pyarrow or DuckDB.
        columns: our names to the data's, as ``{"prompt": "question"}``; ``{"id": "-"}`` ignores the data's ids.
        group: the column that says which responses belong together; each pair then has it.
        skip_bad_rows: leave out rows that cannot be used.
        limit: take the first so many.
        encoding: that of CSV and JSON files that are not UTF-8, as ``cp1251``.
        strip_thinking: remove reasoning such as ``<think>…</think>`` from responses.

    Raises:
        InputError: the data cannot be used; the message says which row and why.
    """
    found = load(
        source,
        columns=columns,
        group=group,
        skip_bad_rows=skip_bad_rows,
        limit=limit,
        encoding=encoding or "",
        strip_thinking=strip_thinking,
    ).pairs
    # to be written as JSON, say, or changed
    return [replace(pair, columns=dict(pair.columns)) for pair in found]


def judge(
    data: str | Path | Sequence[str | Path] | Sequence[Pair] | Frame,
    *,
    judge: str | Function | None = None,
    config: str | None = None,
    **settings: Unpack[JudgeSettings],
) -> Run:
    """Spend a budget of judge calls over ``data``, like ``robin judge``; return when it is spent.

    A notebook's own event loop is left alone. Ctrl-C (or the notebook's stop button) lets calls under way finish, keeps all,
    and raises KeyboardInterrupt; ``open_run(...).resume()`` goes on. Keys come from the environment, never from here.

    Args:
        data: a file, a glob, an address, several of these in a list, pairs (of :func:`load_pairs`), or a frame. With
            ``pairwise=True`` every two responses to a prompt are compared, of which a column ``system`` says who wrote them; or
            rows hold two, ``response_a`` and ``response_b``, as pairs do whose ``other`` is the second.
        judge: the judge in place of an endpoint: a function from chat messages (dicts of role and content) to the text of an
            answer, ``async`` or not, or the name of a judge that an installed package adds.
        config: a TOML file with settings, or the name of a ready one; ./robin.toml is not read unless it is named.
        settings: by the names of the flags with underscores: ``budget=5000, attribute="helpfulness", base_url=…, model=…,
            run="runs/mine", max_cost=5, quiet=True``; ``columns``, ``group``, ``skip_bad_rows`` and ``limit`` as in
            :func:`load_pairs`. With a ``run`` that is there and has the same settings, that goes on.

    Raises:
        InputError: bad data or settings. EndpointError: the endpoint cannot be used. LimitReached: ``max_cost`` is reached.
            StorageError: the disk. After each, what was received is in the run.
    """
    function, given = handed_over(judge, {**settings})
    check_names(given.keys(), {each.name for each in TABLE.values() if each.in_python})
    from_file = read_toml(find_config(config)) if config is not None else {}
    is_priced_here = config is None or "price_in" in given
    source = Source(
        config or "Python", prices="price_in, price_out" if is_priced_here else f"config={config!r}"
    )
    chosen = Settings(**together(checked_keywords(given), from_file), source=source)
    resolved = ready(chosen, is_function=function is not None)
    messages = messages_for(quiet=chosen.quiet, notebook=True)
    check_same(function, chosen.judge, Path(chosen.run or ""), messages)
    dataset = dataset_of(data, chosen, messages.note)
    with open_configured(chosen, resolved, messages.note, dataset) as store:
        spend(store, resolved, messages, function, quiet=chosen.quiet)
        return Run(store.path)


def open_run(path: str | Path) -> Run:
    """Return the run at ``path``, finished or not.

    Raises:
        RunError: there is none.
    """
    read_manifest(Path(path))
    return Run(Path(path))
