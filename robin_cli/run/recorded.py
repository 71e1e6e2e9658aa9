"""Temporary runs made of files with scores, for commands that read runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from glob import has_magic
from math import ceil, floor
from pathlib import Path
from time import time
from typing import Any

from robin_cli.ask.rubrics import MOST_LEVELS
from robin_cli.data.local import temporary_folder
from robin_cli.data.scored import Reading, Scored
from robin_cli.model.errors import InputError, shown
from robin_cli.model.records import Scale
from robin_cli.run.manifest import NO_PROMPTS, UNKNOWN_SCALES, Manifest, ends_of
from robin_cli.run.writer import write_run
from robin_cli.settings.setting import Scope
from robin_cli.settings.table import Settings, recorded

JUDGE = "recorded"
"""The judge of such a run."""

_NAMED = 3
_FARTHEST = 2**31


@contextmanager
def as_runs(
    paths: Sequence[Path],
    notify: Callable[[str], None],
    *,
    columns: Mapping[str, str] | None = None,
    scale: Scale | None = None,
    by: str | None = None,
    skip_bad_rows: bool = False,
) -> Iterator[list[Path]]:
    """Yield ``paths`` with a temporary run in the place of each file of scores.

    An attribute has the same scale in all files. A score that is not a whole number becomes an ``expected_rating``, as with
    --answers logprobs, and counts unchanged.

    Args:
        columns: maps robin's names to the data's; ``score`` is the column of scores, or several separated by |.
        scale: the scale of all scores; None for that which the files say. Without any, no bound of a scale is computed.
        by: the column of systems.

    Raises:
        InputError: a file cannot be read, or its scores fit no scale.
    """
    files = [
        path for path in paths if path.is_file() or (has_magic(str(path)) and not path.exists())
    ]
    if not files and (columns or scale or skip_bad_rows):
        flag = "--columns" if columns else "--scale" if scale else "--skip-bad-rows"
        raise InputError(f"{flag}: is for files of scores, which {paths[0]} is not; leave it out")
    if not files:
        yield list(paths)
        return
    reading = Reading(columns or {}, by, notify, skip_bad_rows=skip_bad_rows)
    read = {path: reading.read(str(path), path.name if len(files) > 1 else "") for path in files}
    scales, unknown = _scales(read.values(), scale, notify)
    with temporary_folder() as folder:
        places = {path: folder / str(at) for at, path in enumerate(read)}
        for path, scored in read.items():
            if not (of_file := {name: scales[name] for name in scored.scores if name in scales}):
                raise InputError(
                    f"{path}: no scores are on a scale; name others with --columns score=NAME"
                )
            unknown_here = [name for name in of_file if name in unknown]
            _write(places[path], path, scored, of_file, unknown_here)
        yield [places.get(path, path) for path in paths]


def _scales(
    read: Collection[Scored], scale: Scale | None, notify: Callable[[str], None]
) -> tuple[dict[str, Scale], set[str]]:
    """Return the levels that hold the scores of each attribute over all files, and the attributes whose scale is not known.

    Notify of these, and of attributes that no levels hold.
    """
    known_scales, unknown = dict[str, Scale](), set[str]()
    for name in dict.fromkeys(name for scored in read for name in scored.scores):
        scores = [score for scored in read for _, score in scored.scores.get(name, ())]
        low, high = min(scores), max(scores)
        between = f"{shown(name)}: scores lie from {low:g} to {high:g}"
        if scale is not None and not scale.low <= low <= high <= scale.high:
            raise InputError(f"--scale {scale}: {between}; name a scale that holds them")
        by_files = {scored.scales.get(name) for scored in read if name in scored.scores}
        known = scale or (by_files.pop() if len(by_files) == 1 else None)
        if known is not None and known.low <= low <= high <= known.high:
            known_scales[name] = known
        elif ceil(high) - floor(low) < MOST_LEVELS and max(-low, high) < _FARTHEST:
            known_scales[name] = Scale(floor(low), max(ceil(high), floor(low) + 1))
            unknown.add(name)
            notify(
                f"{between}, on a scale that is not known: intervals and verdicts are by Student's t alone; "
                "--scale LOW-HIGH gives the bounds of robin's runs"
            )
        else:
            notify(
                f"{between}, and a scale has at most {MOST_LEVELS - 1} points: left out. Divide them, say by 100"
            )
    return known_scales, unknown


def _write(
    run: Path, file: Path, scored: Scored, scales: Mapping[str, Scale], unknown: list[str]
) -> None:
    """Write a finished run in which every score of ``file`` is a judgment; ``unknown``: attributes without a scale."""
    judgments = [each for name in scales for each in _judgments(name, scored)]
    settings = Settings(judge=JUDGE, scheduler="uniform")
    data = {
        "file_of_scores": str(file),
        "source": ", ".join(scored.files[:_NAMED]),
        "sha256": "",
        "pairs": len(scored.pairs),
        UNKNOWN_SCALES: unknown,
        NO_PROMPTS: not scored.has_prompts,
        "id_prefixes": list(scored.prefixes),
    }
    manifest = Manifest(
        settings={"base_url": [], "model": JUDGE, **recorded(settings, Scope.RUN)},
        budget=len(judgments),
        attributes=tuple(scales),
        scale=ends_of(tuple(scales), tuple(scales.values())),
        data={**data, "files": [(name, "") for name in scored.files]},
        prompt={"sha256": ""},
        seed=0,
    )
    write_run(run, manifest, scored.pairs.values(), judgments)


def _judgments(attribute: str, scored: Scored) -> Iterator[dict[str, Any]]:
    """Yield the scores of an attribute as judgments; a pair without a score gets one without a rating."""
    common: dict[str, Any] = {
        "attribute": attribute,
        "feedback": "",
        "text": "",
        "latency_s": 0.0,
        "usage_estimated": False,
        "received_at": time(),
    }
    common |= dict.fromkeys(("judge", "model", "scoring"), JUDGE)
    draws: Counter[str] = Counter()
    for pair_id, score in scored.scores[attribute]:
        value = {"rating": round(score), "expected_rating": None if score.is_integer() else score}
        yield {**common, "pair_id": pair_id, "draw": draws[pair_id], "status": "ok", **value}
        draws[pair_id] += 1
    for pair_id in (pair_id for pair_id in scored.pairs if pair_id not in draws):
        yield {**common, "pair_id": pair_id, "draw": 0, "status": "unparsed", "reason": "unscored"}
