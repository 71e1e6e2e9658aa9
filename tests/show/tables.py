"""Runs with given ratings, and their scores as tests look at them: on a terminal and as rows of files."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from rich.console import Console

from robin_cli.goals.result import View
from robin_cli.goals.tables import score_table
from robin_cli.model.records import Pair
from robin_cli.run.reader import RunReader, read_run
from robin_cli.run.schema import JUDGMENTS
from robin_cli.run.writer import RunWriter
from robin_cli.show.report import pages
from robin_cli.show.report.page import Page
from robin_cli.show.status import READ
from robin_cli.show.terminal import print_table
from robin_cli.stats.scores import Scores, score
from tests.run.test_store import SETTINGS, judgment, manifest


def score_rows(scores: Scores, run: RunReader, **options: Any) -> pa.RecordBatchReader:
    """The scores as files have them."""
    return score_table(scores, run, View(**options)).rows()


def print_scores(console: Console, scores: Scores, run: RunReader, **options: Any) -> None:
    """Print the scores as a command does."""
    print_table(console, score_table(scores, run, View(**options)))


def page_of(
    run: RunReader, *, working: bool = False, draws: bool = True, guaranteed: bool = False
) -> Page:
    """What the report of a run shows; without its pictures, which are most of its work, unless it ``draws``."""
    page = pages.page_of([run], [working], View(guaranteed=guaranteed))
    return page if draws else replace(page, charts=[])


def page_of_two(a: RunReader, b: RunReader) -> Page:
    """What the report of two runs shows."""
    return pages.page_of([a, b], [False, False])


def make_run(
    path: Path,
    pairs: list[Pair],
    ratings: list[list[int | None]],
    *,
    feedback: str = "",
    budget: int = 100,
    **change: object,
) -> RunReader:
    """A run of ``pairs`` with these ratings; None for an answer without one. The feedback is the pair's prompt, or this."""
    settings: Any = {**SETTINGS, "temperature": 1.0, "base_url": ["http://x/v1"]}
    settings = change.pop("settings", settings)
    rows = []
    for k, (pair, each) in enumerate(zip(pairs, ratings, strict=True)):
        for draw, rating in enumerate(each):
            record = judgment(k, status="ok" if rating is not None else "unparsed")
            about: dict[str, Any] = {
                "rating": rating,
                "draw": draw,
                "feedback": feedback or pair.prompt,
            }
            about |= {"judge": settings["model"], "request_id": f"{k}-{draw}"}
            rows.append(replace(record, pair_id=pair.pair_id, **about))
    rows.sort(key=lambda row: row.draw)
    data = {"source": "pairs.jsonl", "sha256": "0", "pairs": len(pairs), "skipped": 0}
    with RunWriter.create(
        path,
        manifest(
            **({"settings": settings, "data": data, "budget": max(budget, len(rows))} | change)
        ),
        pairs,
    ) as store:
        store.append(rows)
    return read_run(path, READ)


def rated(
    folder: Path,
    ids_: Sequence[str],
    attributes: Sequence[str],
    judges: Sequence[str] = ("judge",),
    **about_: Any,
) -> RunReader:
    """A run in which the ratings of a pair differ the more, the later it comes; every fifth pair has a human rating."""
    pairs = [Pair(each, "p", "r", dict.fromkeys(attributes, 3.0)) for each in ids_]
    answers = [
        replace(
            judgment(0), pair_id=each, attribute=attribute, judge=judge, draw=draw, rating=rating
        )
        for at, each in enumerate(ids_)
        for attribute in attributes
        for judge in judges
        for draw, rating in enumerate([2] * (12 - at % 12) + [0, 4] * (at % 12))
    ]
    settings_ = {**SETTINGS, "temperature": 1.0, "base_url": ["http://x/v1"], "model": list(judges)}
    about: dict[str, Any] = {
        "settings": settings_,
        "data": {"source": "x", "sha256": "0", "pairs": len(pairs)},
        "budget": 10_000,
        **about_,
    }
    with RunWriter.create(
        folder / "r", manifest(attributes=tuple(attributes), **about), pairs
    ) as store:
        store.append(answers)
    return read_run(folder / "r", JUDGMENTS.names)


def shown_at(width: int, run: RunReader, scores: Scores | None = None, **how: Any) -> list[str]:
    out = io.StringIO()
    print_scores(Console(file=out, width=width), scores or score(run), run, **how)
    return out.getvalue().split("\n")
