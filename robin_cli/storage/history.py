"""One requirement over a series of builds: a CSV file with a line for each, which ``robin gate --history`` adds to and reads.

e is the evidence of a build by itself that the requirement is not met: at most 1 on average where it is met. Over builds
    R ← (R + 1) · e,
from 0 on, with an alarm at R ≥ ALARM: of builds that meet the requirement it takes ALARM on average, or more, until there is
one (the Shiryaev–Roberts e-detector: Shin, Ramdas and Rinaldo, "E-detectors", arXiv:2203.03532). After an alarm a series is
over: later builds fail until another file is begun.

Lines are only appended, each in one write under a lock. A run that is in the file already takes its line's place in the series
if it has other numbers by now, and gets no second line if it has not.
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

from robin_cli.files.local import open_regular
from robin_cli.files.remote import is_remote
from robin_cli.model.arms import FloatArray
from robin_cli.model.errors import InputError, shown, size
from robin_cli.storage.layout import CALLED
from robin_cli.storage.manifest import now
from robin_cli.storage.reader import RunData

if sys.platform != "win32":
    import fcntl

ALARM = 400.0
"""Builds that meet the requirement until there is an alarm, on average, at least."""

_MOST_BYTES = 2**24
_MOST = 1e300
_BUILD = r"r[0-9a-f]{16}"
_FORMULA = tuple("=+-@\t\r")
"""What a spreadsheet would run, or take for a number."""


@dataclass(frozen=True, slots=True)
class Build:
    """A line of the file.

    Attributes:
        build: which run it is: r and its id.
        run: its path as it was named.
        gated_at: when, UTC, ISO 8601.
        judge: who judged it.
        requirement: what the series is about.
        n_prompts: with a score.
        estimate: the value that is to meet the requirement.
        e: evidence of this build alone against the requirement, 0 or more.
        evidence: R with it.
        verdict: pass, drifting (an alarm, in this build or before) or fail (an alarm by this build alone).
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
    """All builds of a file in order, each run once, with what they come to.

    Attributes:
        now: where in them the build that was added is.
        alarm: where in them the first alarm is; None without one.
    """

    builds: Sequence[Build]
    now: int
    alarm: int | None

    @property
    def last(self) -> Build:
        """The last build: what the series comes to."""
        return self.builds[-1]


def check_history(name: str) -> None:
    """InputError for a history that is no file of this machine."""
    if name == "-" or is_remote(name):
        raise InputError(
            f"--history {name}: is read and added to, so it is a file of this machine; name one, as gate.csv"
        )


def build_of(run: RunData, scores: FloatArray) -> Build:
    """The build that ``run`` is; that of a file of scores, and of a run without an id, is known by its ``scores``."""
    run_id = "" if run.path in CALLED else run.manifest.run_id
    known_by = run_id or hashlib.sha256(scores.tobytes()).hexdigest()[:16]
    return Build(f"r{known_by}", run.name, now(), ", ".join(sorted(run.manifest.judges)))


def added(path: Path, build: Build) -> Series:
    """Add ``build`` to the history at ``path``, which is begun where there is none, and say what the series comes to.

    Raises:
        InputError: a file that holds anything else, or follows another requirement or judge; or that cannot be written.
    """
    build = replace(build, run=_cell(build.run), judge=_cell(build.judge), requirement=_cell(build.requirement))
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
    """The builds in order, of each run the newest line, and R over them; ``now``: which run was added."""
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
    """``text`` on one line, and nothing that a spreadsheet would run."""
    text = shown(text, 400)
    return f"'{text}" if text.startswith(_FORMULA) else text


def _line(build: Build) -> str:
    cells = [f"{each:.6g}" if isinstance(each, float) else str(each) for each in astuple(build)]
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(cells)
    return line.getvalue()


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    """A descriptor of the file, made where there is none, for this process alone. OSError where that cannot be."""
    file = open_regular(Path(os.path.realpath(path)), os.O_RDWR | os.O_CREAT | os.O_APPEND)
    try:
        if sys.platform != "win32":
            fcntl.flock(file, fcntl.LOCK_EX)
        yield file
    finally:
        os.close(file)


def _whole_lines(path: Path, file: int) -> tuple[str, int]:
    """What is in the file but for a line that a build was interrupted in, and how many bytes that is."""
    if (length := os.fstat(file).st_size) > _MOST_BYTES:
        raise InputError(f"--history {path}: is longer than {size(_MOST_BYTES)}, so it is none; name another file")
    with os.fdopen(os.dup(file), "rb") as copy:
        copy.seek(0)
        content = copy.read(length)
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise _not_ours(path, 1) from None
    whole, _, last = text.rpartition("\n")
    is_cut = _HEAD.startswith(last) if not whole else re.fullmatch(rf"r[0-9a-f]{{0,15}}|{_BUILD}(,.*)?", last)
    if last and is_cut and _build(last) is None:
        text = text.removesuffix(last)
    return text, len(text.encode())


def _builds(path: Path, text: str, mine: Build) -> list[Build]:
    """The lines of the file; InputError for one that is not ours, or of another series."""
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
    """What a line says; None for one that robin did not write."""
    try:
        cells = next(csv.reader([line], strict=True), [])
        if len(cells) != len(_NAMES) or not re.fullmatch(_BUILD, cells[0]) or cells[-1] not in _VERDICTS:
            return None
        build, run, at, judge, requirement, prompts, *numbers, verdict = cells
        estimate, e, evidence = map(float, numbers)
        found = Build(build, run, at, judge, requirement, int(prompts), estimate, e, evidence, verdict)
    except (csv.Error, ValueError):
        return None
    is_whole = found.n_prompts >= 1 and math.isfinite(estimate) and 0.0 <= e < math.inf and 0.0 <= evidence < math.inf
    return found if is_whole else None


_VERDICTS = ("pass", "drifting", "fail")


def _not_ours(path: Path, number: int) -> InputError:
    return InputError(
        f"--history {path}:{number}: is no line of a history that robin gate writes; take it out, or name another file"
    )


def _append(file: int, text: str) -> None:
    """In one write; what a full disk took of it is cut off by the next build."""
    content = text.encode()
    if os.write(file, content) < len(content):
        raise OSError(28, "No space left on device")
    os.fsync(file)
