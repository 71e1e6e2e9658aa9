"""Runs whose judgments are scores that were there already: made for as long as a command reads them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from glob import has_magic
from math import ceil, floor
from pathlib import Path
from time import time
from typing import Any

from robin_cli.datasets.pair_table import PairTable
from robin_cli.datasets.scored import Reading, Scored
from robin_cli.files.local import temporary_folder
from robin_cli.model.errors import InputError, shown
from robin_cli.model.records import Scale
from robin_cli.questions.rubric_files import MOST_LEVELS
from robin_cli.settings.setting import Scope
from robin_cli.settings.table import Settings, recorded
from robin_cli.storage.files_of_run import write_data, write_segment
from robin_cli.storage.journal import Journal
from robin_cli.storage.layout import CALLED, JOURNAL
from robin_cli.storage.manifest import Manifest, ends_of, new_run_id
from robin_cli.storage.schema import judgments_table

JUDGE = "recorded"
"""What the judge of such a run is called."""

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
    """Put a run in the place of each file of scores among ``paths``; the runs are gone afterwards.

    They rate each attribute on one scale, whichever file it is in. A score that is no whole number stands in
    ``expected_rating``, as those do that judges' probabilities give, and counts as it is.

    Args:
        columns: our names to the data's; ``score`` is the column of scores, or several parted by strokes.
        scale: that of all scores; None for 0-1 where they lie there, and else for the whole numbers around them.
        by: the column that says which system answered.

    Raises:
        InputError: a file that cannot be read, or scores that are on no scale.
    """
    files = [path for path in paths if path.is_file() or (has_magic(str(path)) and not path.exists())]
    if not files and (columns or scale or skip_bad_rows):
        flag = "--columns" if columns else "--scale" if scale else "--skip-bad-rows"
        raise InputError(f"{flag}: is for files of scores, and {paths[0]} is none; leave it out")
    if not files:
        yield list(paths)
        return
    reading = Reading(columns or {}, by, notify, skip_bad_rows=skip_bad_rows)
    read = {path: reading.read(str(path), path.name if len(files) > 1 else "") for path in files}
    scales = _scales(read.values(), scale, notify)
    with temporary_folder() as folder:
        places = {path: folder / str(at) for at, path in enumerate(read)}
        for path, found in read.items():
            if not (mine := {name: scales[name] for name in found.scores if name in scales}):
                raise InputError(f"{path}: no scores are on a scale; name others with --columns score=NAME")
            _write(places[path], found, mine)
            CALLED[places[path]] = str(path)
        try:
            yield [places.get(path, path) for path in paths]
        finally:
            for place in places.values():
                CALLED.pop(place, None)


def _scales(read: Collection[Scored], scale: Scale | None, notify: Callable[[str], None]) -> dict[str, Scale]:
    """The scale of each attribute, over all files; of those that are on none it is said."""
    found: dict[str, Scale] = {}
    for name in dict.fromkeys(name for each in read for name in each.scores):
        scores = [score for each in read for _, score in each.scores.get(name, ())]
        low, high = min(scores), max(scores)
        between = f"{shown(name)}: scores lie from {low:g} to {high:g}"
        if scale is not None and not scale.low <= low <= high <= scale.high:
            raise InputError(f"--scale {scale}: {between}; name a scale that holds them")
        if scale is not None or 0 <= low <= high <= 1:
            found[name] = scale or Scale(0, 1)
        elif ceil(high) - floor(low) < MOST_LEVELS and max(-low, high) < _FARTHEST:
            found[name] = Scale(floor(low), max(ceil(high), floor(low) + 1))
            notify(f"{between}, and are taken as on a scale of {found[name]}; name another with --scale")
        else:
            notify(f"{between}, and a scale has at most {MOST_LEVELS - 1} points: left out. Divide them, say by 100")
    return found


def _write(run: Path, found: Scored, scales: Mapping[str, Scale]) -> None:
    """Write a run in which every score of ``found`` is a judgment, and the budget is spent."""
    run.mkdir(mode=0o700)
    judgments = [each for name in scales for each in _judgments(name, found)]
    write_data(run, PairTable.of(found.pairs.values()), None)
    write_segment(judgments_table(judgments), run, 1)
    Journal.create(run / JOURNAL, 2, b"").close()
    own = Settings(judge=JUDGE, scheduler="uniform", objective="worst-case")
    data = {"source": ", ".join(found.files[:_NAMED]), "sha256": "", "pairs": len(found.pairs), "run_id": new_run_id()}
    Manifest(
        settings={"base_url": [], "model": JUDGE, **recorded(own, Scope.RUN)},
        budget=len(judgments),
        attributes=tuple(scales),
        **ends_of(tuple(scales), tuple(scales.values())),
        data={**data, "files": [(name, "") for name in found.files]},
        prompt={"sha256": ""},
        seed=0,
    ).with_session(in_flight=0).with_session_end().write(run)


def _judgments(attribute: str, found: Scored) -> Iterator[dict[str, Any]]:
    """The scores of an attribute as judgments, several of a pair as draws, and one without a rating of a pair that has none."""
    alike: dict[str, Any] = {
        "attribute": attribute,
        "judge": JUDGE,
        "model": JUDGE,
        "scoring": JUDGE,
        "feedback": "",
        "text": "",
    }
    alike |= {"latency_s": 0.0, "received_at": time(), "status": "ok"}
    draws: Counter[str] = Counter()
    for pair_id, score in found.scores[attribute]:
        value = {"rating": round(score), "expected_rating": None if score.is_integer() else score}
        yield {**alike, "pair_id": pair_id, "draw": draws[pair_id], **value}
        draws[pair_id] += 1
    for pair_id in (each for each in found.pairs if each not in draws):
        yield {**alike, "pair_id": pair_id, "draw": 0, "status": "unparsed", "reason": "unscored"}
