"""The history of a gate: a CSV file with a line for each build, which ``robin gate --history`` reads and appends to.

e is the evidence of a single build that the requirement is not met: at most 1 on average if it is met. Over builds
    R ← (R + 1) · e,
from R = 0, with an alarm at R ≥ ALARM. If all builds meet the requirement, ALARM builds or more pass on average before an alarm
(the Shiryaev–Roberts e-detector: Shin, Ramdas and Rinaldo, "E-detectors", arXiv:2203.03532). An alarm ends a series: later
builds fail until another file is begun.

Lines are only appended, each in one write under a lock. A run that is in the file already gets a new line only if its numbers
changed; that line then replaces the older one in the series.
"""

from __future__ import annotations

import csv
import hashlib
import io
import math
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, fields, replace
from pathlib import Path

from robin_cli.files.remote import is_remote
from robin_cli.model.arms import FloatArray
from robin_cli.model.errors import InputError, shown, size
from robin_cli.storage.layout import CALLED
from robin_cli.storage.manifest import now
from robin_cli.storage.reader import RunData

if sys.platform != "win32":
    import fcntl

ALARM = 400.0
"""The threshold for R: the least mean number of builds that meet the requirement before an alarm."""

_MOST_BYTES = 2**24
_MOST = 1e300
_BUILD = r"r[0-9a-f]{16}"
_FORMULA = tuple("=+-@\t\r")
"""First characters of texts that a spreadsheet may run, or read as a number."""


@dataclass(frozen=True, slots=True)
class Build:
    """A line of the file.

    Attributes:
        build: the run's id after the letter r.
        run: the run's path as the user named it.
        gated_at: the time, UTC, ISO 8601.
        judge: the run's judges.
        requirement: the requirement of the series.
        n_prompts: the number of prompts with a score.
        estimate: the value that must meet the requirement.
        e: the evidence of this build alone against the requirement, 0 or more.
        evidence: R after this build.
        verdict: pass, drifting (an alarm in this build or before) or fail (an alarm by this build alone).
    """

    build: str
    run: str
    gated_at: str
    judge: str
    requirement: str = ""
    n_prompts: int = 0
    estimate: float = math.nan
    e: float = 1.0
    evidence: float = 0.0
    verdict: str = "pass"


_NAMES = [each.name for each in fields(Build)]
_HEAD = ",".join(_NAMES) + "\n"


@dataclass(frozen=True, slots=True)
class Series:
    """The builds of a file in order, each run once.

    Attributes:
        now: the index of the build that was added.
        alarm: the index of the first alarm; None without one.
    """

    builds: Sequence[Build]
    now: int
    alarm: int | None

    @property
    def last(self) -> Build:
        """The last build, with the R and the verdict of the series."""
        return self.builds[-1]


def check_history(name: str) -> None:
    """Raise InputError for a history that is not a local file."""
    if name == "-" or is_remote(name):
        raise InputError(
            f"--history {name}: must be a file on this machine, for robin appends to it; name one, such as gate.csv"
        )


def build_of(run: RunData, scores: FloatArray) -> Build:
    """Return the build of ``run``. Without a run id, as for a file of scores, a hash of the ``scores`` identifies it."""
    run_id = "" if run.path in CALLED else run.manifest.run_id
    known_by = run_id or hashlib.sha256(scores.tobytes()).hexdigest()[:16]
    return Build(f"r{known_by}", run.name, now(), ", ".join(sorted(run.manifest.judges)))


def added(path: Path, build: Build) -> Series:
    """Append ``build`` to the history at ``path``, which is made if it does not exist, and return the series.

    Raises:
        InputError: the file is not a history, is one of another requirement or judge, or cannot be written.
    """
    build = replace(
        build, run=_cell(build.run), judge=_cell(build.judge), requirement=_cell(build.requirement)
    )
    try:
        with _opened(path) as file:
            text, kept = _whole_lines(path, file)
            known = _builds(path, text, build)
            if any(_numbers(each) == _numbers(build) for each in known):
                return _series(known, build.build)
            series = _series([*known, build], build.build)
            os.ftruncate(file, kept)
            start = _HEAD if not text else "" if text.endswith("\n") else "\n"
            _append(file, start + _line(series.builds[series.now]))
            return series
    except OSError as error:
        raise InputError(
            f"--history {path}: cannot be written ({error.strerror}); name a file in a folder that can be written to"
        ) from error


def _series(lines: Sequence[Build], now: str) -> Series:
    """Return the newest line of each run in order, with R; ``now``: the run that was added."""
    newest = {each.build: each for each in lines}
    builds, evidence, alarm = [], 0.0, None
    for at, each in enumerate(newest.values()):  # in the order of their first lines
        evidence = min((evidence + 1.0) * each.e, _MOST)
        alarm = at if alarm is None and evidence >= ALARM else alarm
        verdict = "pass" if alarm is None else "fail" if each.e >= ALARM else "drifting"
        builds.append(replace(each, evidence=evidence, verdict=verdict))
    return Series(builds, list(newest).index(now), alarm)


def _numbers(build: Build) -> tuple[str, int, str, str]:
    return build.build, build.n_prompts, f"{build.estimate:.6g}", f"{build.e:.6g}"


def _cell(text: str) -> str:
    """Return ``text`` on one line, with an apostrophe before anything that a spreadsheet would run."""
    text = shown(text, 400)
    return f"'{text}" if text.startswith(_FORMULA) else text


def _line(build: Build) -> str:
    cells = [f"{each:.6g}" if isinstance(each, float) else str(each) for each in astuple(build)]
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(cells)
    return line.getvalue()


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    """Open the file, or make it, and lock it for this process. OSError if that fails."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        if sys.platform != "win32":
            fcntl.flock(file, fcntl.LOCK_EX)
        yield file
    finally:
        os.close(file)


def _whole_lines(path: Path, file: int) -> tuple[str, int]:
    """Return the file's text without a last line that was cut short, and its length in bytes."""
    if (length := os.fstat(file).st_size) > _MOST_BYTES:
        raise InputError(
            f"--history {path}: is longer than {size(_MOST_BYTES)}, so not a history; name another file"
        )
    with os.fdopen(os.dup(file), "rb") as copy:
        copy.seek(0)
        content = copy.read(length)
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise _not_ours(path, 1) from None
    whole, _, last = text.rpartition("\n")
    is_cut = (
        _HEAD.startswith(last)
        if not whole
        else re.fullmatch(rf"r[0-9a-f]{{0,15}}|{_BUILD}(,.*)?", last)
    )
    if last and is_cut and _build(last) is None:
        text = text.removesuffix(last)
    return text, len(text.encode())


def _builds(path: Path, text: str, mine: Build) -> list[Build]:
    """Return the lines of the file. InputError for one that robin did not write, or of another series."""
    found = []
    lines = text.removeprefix("\ufeff").splitlines()
    if lines and lines[0] != _HEAD.rstrip("\n"):
        raise _not_ours(path, 1)
    for number, line in enumerate(lines[1:], start=2):
        if (build := _build(line)) is None:
            raise _not_ours(path, number)
        for name in ("requirement", "judge"):
            theirs, ours = getattr(build, name), getattr(mine, name)
            if theirs != ours:
                raise InputError(
                    f"--history {path}:{number}: the {name} of this history is {shown(theirs, 80)}, and of this build "
                    f"{shown(ours, 80)}; name another file"
                )
        found.append(build)
    return found


def _build(line: str) -> Build | None:
    """Return the build of a line; None for a line that robin did not write."""
    try:
        cells = next(csv.reader([line], strict=True), [])
        if (
            len(cells) != len(_NAMES)
            or not re.fullmatch(_BUILD, cells[0])
            or cells[-1] not in _VERDICTS
        ):
            return None
        build, run, at, judge, requirement, prompts, *numbers, verdict = cells
        estimate, e, evidence = map(float, numbers)
        found = Build(
            build, run, at, judge, requirement, int(prompts), estimate, e, evidence, verdict
        )
    except (csv.Error, ValueError):
        return None
    is_whole = (
        found.n_prompts >= 1
        and math.isfinite(estimate)
        and 0.0 <= e < math.inf
        and 0.0 <= evidence < math.inf
    )
    return found if is_whole else None


_VERDICTS = ("pass", "drifting", "fail")


def _not_ours(path: Path, number: int) -> InputError:
    return InputError(
        f"--history {path}:{number}: not a line that robin gate writes; remove it, or name another file"
    )


def _append(file: int, text: str) -> None:
    """Append ``text`` in one write. If the disk is full, the next build cuts off the part that was written."""
    content = text.encode()
    if os.write(file, content) < len(content):
        raise OSError(28, "No space left on device")
    os.fsync(file)
