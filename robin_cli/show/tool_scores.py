"""The scores of a run in the file that the tool reads whose results were judged."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np

from robin_cli.data.compression import decompressing, split_suffix
from robin_cli.data.logs import WRITERS, Judged
from robin_cli.goals.rated import Rated
from robin_cli.goals.registry import goal_of_run
from robin_cli.model.decision import BEST, KEEP
from robin_cli.model.errors import InputError
from robin_cli.model.plugins import plugins
from robin_cli.model.records import number_of
from robin_cli.run.manifest import sources_of
from robin_cli.run.reader import RunReader, read_run


def scores_for(tool: str, path: Path, notify: Callable[[str], None]) -> bytes:
    """Return the file that ``tool`` reads, with the scores of the run at ``path``.

    Raises:
        InputError: the run has no scores, or its data are not this tool's, or have changed.
        RunError, StorageError: the run cannot be read.
    """
    run = read_run(path, ("feedback",))
    found = goal_of_run(run).result(run)
    if not isinstance(found, Rated):
        raise InputError(f"--what {tool}: is for runs of ratings, and {run.name} has none")
    if (plugin := plugins(WRITERS).get(tool)) is None:
        raise InputError(f"--what {tool}: no package here writes it; install robin again")
    with plugin.loaded(run.name, "write") as write:
        data: bytes = write(_judged(found), partial(_judged_file, run, tool), notify)
        return data


def tools_of(path: Path) -> Iterator[tuple[str, int, str, str]]:
    """Yield a row of ``robin results`` for each tool whose results the run at ``path`` judged."""
    run = read_run(path, ("feedback",))
    found = goal_of_run(run).result(run)
    if not isinstance(found, Rated):
        return
    for tool, plugin in sorted(plugins(WRITERS).items()):
        with suppress(InputError), plugin.loaded(run.name, "write") as write:
            write(_judged(found, 1), partial(_judged_file, run, tool), lambda _line: None)
            yield tool, len(run.pair_ids), f"Scores in the file that {tool} reads", "pair"


def _judged(result: Rated, most: int | None = None) -> list[Judged]:
    """Return the result of each pair that has all of its scores, of so many at ``most``."""
    run, scores = result.run, result.scores
    points, counts = (run.space.by_pair(scores.numbers(name)) for name in ("score", "n"))
    low, high = np.array([[each.low, each.high] for each in run.manifest.scales]).T
    shares = ((points - low) / (high - low)).mean(axis=1)
    decisions = scores.columns.get("decision", [""] * len(scores))
    first = run.space.by_pair(np.array(decisions))[:, 0]
    columns, feedback = run.pairs.columns.to_pylist(), _feedback(result)
    judged = []
    for pair in np.flatnonzero(~np.isnan(shares))[:most].tolist():
        named = dict(zip(run.space.attributes, points[pair].tolist(), strict=True))
        ratings = (number_of(int(count), "rating") for count in counts[pair])
        each = zip(named.items(), ratings, strict=True)
        reason = ", ".join(f"{name} {score:.2f} ({n})" for (name, score), n in each)
        passes = first[pair] in {KEEP, BEST} if first[pair] else None
        judged.append(
            Judged(
                run.pair_ids[pair],
                columns[pair] if columns else {},
                named,
                float(shares[pair]),
                passes,
                f"{reason}. {feedback.get(pair, '')}".strip(),
            )
        )
    return judged


def _feedback(result: Rated) -> dict[int, str]:
    """Return for each pair the judge's words with the rating that is nearest to its score."""
    run, scores = result.run, result.scores
    score_of_arm = np.full(len(run.space), np.nan)
    score_of_arm[scores.arms] = scores.numbers("score")[:, None]
    ratings = run.judgments["rating"].to_numpy().astype(np.float64)
    nearest = np.argsort(np.abs(ratings - score_of_arm[run.arm]), kind="stable")  # nan comes last
    pairs, at = np.unique(run.space.pair[run.arm][nearest], return_index=True)
    texts = run.judgments["feedback"].take(nearest[at]).to_pylist()
    return dict(zip(pairs.tolist(), texts, strict=True))


def _judged_file(run: RunReader, tool: str) -> bytes:
    """Return the content of the file that was judged. InputError unless it is one, and as it was."""
    (name, sha256), *others = sources_of(run.manifest)
    if others:
        raise InputError(f"--what {tool}: {run.name} judged several files; judge one in each run")
    if not Path(name).is_file():
        raise InputError(f"--what {tool}: {name}, which was judged, is not there; go to its folder")
    data = Path(name).read_bytes()
    if hashlib.sha256(data).hexdigest() != sha256:
        raise InputError(f"--what {tool}: {name} has changed since it was judged; restore it")
    return decompressing(io.BytesIO(data), split_suffix(name)[1]).read()
