"""The run directory, open for writing: an answer is on disk before it counts.

Answers go to ``journal.jsonl``. After SEGMENT_ROWS answers, and at the end of a session, the journal becomes the next
``judgments/NNNNN.parquet``. Segments are never rewritten. ``state.parquet`` is a snapshot of the fold over them
(:mod:`robin_cli.run.state`).
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from robin_cli.data.local import TEMPORARY
from robin_cli.data.pair_table import PairTable
from robin_cli.model.arms import FloatArray
from robin_cli.model.errors import EndpointError, RunError, StorageError, typed, writing
from robin_cli.model.records import Judgment, Pair, number_of
from robin_cli.run.batches import read_batches
from robin_cli.run.fold import Fold
from robin_cli.run.journal import Journal
from robin_cli.run.layout import (
    BATCHES,
    COLUMNS,
    JOURNAL,
    LOCK,
    MANIFEST,
    PAIRS,
    SEGMENTS,
    STATE,
    VARIANCES,
)
from robin_cli.run.locking import RunLock
from robin_cli.run.manifest import Manifest, new_run_id, read_manifest
from robin_cli.run.pair_files import read_variances, write_data
from robin_cli.run.reader import StoredRun
from robin_cli.run.segments import journal_table, read_whole, write_segment
from robin_cli.run.state import fold_run, write_state

SEGMENT_ROWS = 10_000
SEGMENT_BYTES = 32 * 1024 * 1024
"""A segment ends early after this many bytes of answers: they are in memory until then."""
STATE_EVERY = 100_000
"""A running session rewrites its snapshot after this many judgments, or a quarter of the number of arms if that is more."""

_FILES = frozenset({VARIANCES, JOURNAL, SEGMENTS, PAIRS, COLUMNS, STATE, BATCHES, LOCK})
"""The files of a run without answers, except its manifest."""


class RunWriter(StoredRun):
    """A run directory that only this process may write to. Use it as a context manager."""

    def __init__(self, path: Path, manifest: Manifest, lock: RunLock) -> None:
        super().__init__(path, manifest)
        self._lock = lock
        self._is_announced = False
        self._served: set[str] = set()
        self._writing = threading.Lock()  # the event loop writes while a thread syncs and seals
        segments, content, rows = read_whole(path, manifest)
        journal_table(path / JOURNAL, rows)  # refuses a bad line now, not when it becomes a segment
        self._rows: list[Judgment | Mapping[str, Any]] = list(rows)  # not in a segment yet
        self._segment = segments + 1
        self._sealed_since_state = 0
        if content.segment == self._segment:
            self._journal = Journal(path / JOURNAL, content.sound_bytes)
            self._journal.sync()  # what an earlier session wrote but did not sync counts from now on
        else:  # it had just become a segment when the last session ended
            self._journal = Journal.create(path / JOURNAL, manifest.run_id, self._segment, rows)
        self._synced, self._synced_end = len(self._rows), self._journal.end
        self._is_behind = False  # whether the journal may lack rows after ``_synced``

    @classmethod
    def create(
        cls,
        path: Path,
        manifest: Manifest,
        pairs: Sequence[Pair],
        variances: FloatArray | None = None,
        session: Mapping[str, Any] | None = None,
        register: Callable[[str], None] | None = None,
    ) -> RunWriter:
        """Make a new run at ``path``, a folder that does not exist or is empty.

        The manifest is written last: a folder that a killed robin left without one is made anew.

        Args:
            variances: the variances that the scheduler starts with, shape (K,).
            session: the settings of the first session, as in :meth:`announce`; None if none begins.
            register: called with the run's id before its manifest appears.

        Raises:
            RunError: the folder holds something else, or another robin is at work in it.
            StorageError: the disk refuses.
        """
        _make_folder(path)
        with _locked(path) as lock:
            table, run_id = PairTable.from_pairs(pairs), new_run_id()
            has_columns = bool(table.columns.num_columns)
            manifest = manifest.with_data(run_id=run_id, has_columns=has_columns)
            if register is not None:
                register(run_id)
            write_data(path, table, variances)
            Journal.create(path / JOURNAL, run_id, 1).close()
            store = cls(path, manifest, lock)
            store.pairs = table  # type: ignore[assignment]  # a new run's pairs are not read back
            if session is None:
                manifest.write(path)
            else:
                store.announce(session)
            return store

    @classmethod
    def open(cls, path: Path) -> RunWriter:
        """Open the run at ``path`` to go on with it.

        Raises:
            RunError: there is no run, another version of robin made it, or another robin is at work on it.
            StorageError: its files are damaged.
        """
        read_manifest(path)  # RunError if the folder is not a run: do not lock it then
        with _locked(path) as lock:
            # git does not copy empty folders
            (path / SEGMENTS).mkdir(mode=0o700, exist_ok=True)
            return cls(path, read_manifest(path), lock)

    @property
    def variances(self) -> FloatArray | None:
        """The variances that the scheduler started with, shape (K,); None if it had none."""
        return read_variances(self.path)

    def fold(self) -> Fold:
        """Return the fold of all synced judgments."""
        return fold_run(self.path, self.space, self.manifest.run_id)[0]

    @property
    def has_answers(self) -> bool:
        """Whether the run has answers, or batches under way, which are paid for."""
        batches = read_batches(self.path).values()
        return bool(self._rows) or self._segment > 1 or any(batch.is_open for batch in batches)

    @property
    def never_reached(self) -> bool:
        """Whether this is the run's first session, and no call of it was answered: none was made, or none could connect."""
        is_first = (
            len(self.manifest.sessions) <= 1 and self._segment == 1 and not read_batches(self.path)
        )
        return is_first and {getattr(row, "reason", None) for row in self._rows} <= {"connection"}

    def set_manifest(self, manifest: Manifest) -> None:
        """Write another manifest."""
        manifest.write(self.path)
        self.manifest = manifest

    def announce(self, session: Mapping[str, Any], **changed: Any) -> None:
        """Record the settings of the next session, and what else is ``changed`` in the manifest, in one step.

        In two steps, a process killed between them would leave a budget without its limits. A session with the settings of the
        last one is not recorded: there may be nothing to do.
        """
        manifest = replace(self.manifest, **changed)
        self._is_announced = not manifest.says(session)
        self.set_manifest(
            manifest.with_session(**session, in_flight=0) if self._is_announced else manifest
        )

    def begin(self, session: Mapping[str, Any]) -> None:
        """Record that a session with these settings begins; an announced one is in the list already."""
        record = (
            self.manifest.with_last_session if self._is_announced else self.manifest.with_session
        )
        self.set_manifest(record(**session, in_flight=0))
        self._is_announced = False

    def end(self, **facts: Any) -> None:
        """Record that the session ended: ``facts``, the models that answered, and how much is on disk, so that losses show."""
        with self._writing:  # a thread may be at work on a segment
            kept = self._segment - 1, self._synced
        ended = self.manifest.with_session_end(**facts, models=sorted(self._served))
        self.set_manifest(ended.with_data(kept=kept))

    def write(self, judgments: Sequence[Judgment]) -> None:
        """Hand ``judgments``, in order, to the operating system: when this returns, they outlive the process.

        If it refuses them, they wait in memory, and the next :meth:`sync` writes them.
        """
        with self._writing:
            if not self._is_behind:
                try:
                    self._journal.write(judgments)
                except StorageError:
                    self._is_behind = True
            self._rows.extend(judgments)
            self._served |= {judgment.model for judgment in judgments if judgment.counts}

    def sync(self) -> None:
        """Wait until all that was written is on disk: when this returns, it outlives the machine. Seal a full segment.

        Raises:
            StorageError: the disk refused what came since the last sync, and the next sync writes it again; or all is kept, but
                the disk refused the segment. DiskFull if it only lacks room.
        """
        try:
            with self._writing:
                if self._is_behind:  # after a sync that failed, nobody knows what of it is on disk
                    self._journal.cut(self._synced_end)
                    self._journal.write(self._rows[self._synced :])
                    self._is_behind = False
                written, end = len(self._rows), self._journal.end
            self._journal.sync()
        except StorageError:
            self._is_behind = True
            raise
        self._synced, self._synced_end = written, end
        if self._synced >= SEGMENT_ROWS or end >= SEGMENT_BYTES:
            kept = f"; every answer is kept. Make room, then go on with: robin resume {typed(self.path)}"
            with writing(self.path, kept):
                self._seal()
                if self._sealed_since_state >= max(STATE_EVERY, len(self.space) // 4):
                    self._write_state()

    def append(self, judgments: Sequence[Judgment]) -> None:
        """Write and sync ``judgments``, in order. Raises as :meth:`write` and :meth:`sync`."""
        self.write(judgments)
        self.sync()

    def close(self) -> None:
        """Make a segment of the journal, write the snapshot, and release the lock."""
        try:
            with writing(self.path, "; the answers are kept"):
                if self._rows:
                    self._seal()
                self._write_state()
        finally:
            self._journal.close()
            self._lock.release()

    def make_way(self) -> None:
        """Close a run without answers, and empty its folder so that a run can be made there.

        Raises:
            ValueError: it has answers.
            StorageError: the disk refuses.
        """
        if self.has_answers:
            raise ValueError("a run with answers stays")
        self.close()
        with writing(self.path):
            shutil.rmtree(self.path / BATCHES, ignore_errors=True)  # no batch was answered
            (self.path / MANIFEST).unlink()  # it makes a folder a run

    def __enter__(self) -> RunWriter:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        try:
            is_nothing = isinstance(error, EndpointError) and self.never_reached
            self.close()
            if is_nothing and _foreign_in(self.path) == [MANIFEST]:
                with writing(self.path):
                    shutil.rmtree(self.path)
        except RunError:
            if error is None:
                raise
            if lost := len(self._rows) - self._synced:  # else the first error says more
                raise StorageError(f"{error}. Lost: {number_of(lost, 'answer')}") from error

    def _seal(self) -> None:
        """Make a segment of the rows. Answers that are written meanwhile go into the next journal, which is then synced."""
        with self._writing:
            rows = list(self._rows)
        judgments = journal_table(self.path / JOURNAL, rows)
        write_segment(judgments, self.path, self.manifest.run_id, self._segment)
        with self._writing:
            meanwhile, number = self._rows[len(rows) :], self._segment + 1
            journal = Journal.create(self.path / JOURNAL, self.manifest.run_id, number, meanwhile)
            self._journal.close()
            self._journal, self._segment, self._rows = journal, number, meanwhile
            self._synced, self._synced_end = len(meanwhile), journal.end
            self._is_behind = False
            self._sealed_since_state += len(rows)

    def _write_state(self) -> None:
        segments, run_id = self._segment - 1, self.manifest.run_id
        fold, covered = fold_run(self.path, self.space, run_id, journal=False)
        if not segments or covered < segments:
            write_state(self.path, fold, run_id, segments)
        self._sealed_since_state = 0


def write_run(
    path: Path, manifest: Manifest, pairs: Iterable[Pair], judgments: Sequence[Mapping[str, Any]]
) -> None:
    """Make a finished run of judgments that are all known. OSError or StorageError if the disk refuses."""
    path.mkdir(mode=0o700)
    run_id = new_run_id()
    write_data(path, PairTable.from_pairs(pairs), None)
    write_segment(journal_table(path, judgments), path, run_id, 1)
    Journal.create(path / JOURNAL, run_id, 2).close()
    finished = manifest.with_data(run_id=run_id).with_session(in_flight=0).with_session_end()
    finished.write(path)


def _make_folder(path: Path) -> None:
    """Make the folder of a new run. RunError if it holds more than what a killed robin left before its first answer."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        foreign = _foreign_in(path)
        journal = (path / JOURNAL).read_bytes() if (path / JOURNAL).exists() else b""
    except OSError as error:
        raise RunError(
            f"{path}: no run can be kept here ({error.strerror}); name another folder with --run"
        ) from error
    if foreign:
        raise RunError(
            f"{path}: not empty, and not a run (it holds {foreign[0]}); name another folder with --run"
        )
    if any((path / SEGMENTS).glob("*.parquet")) or journal.count(b"\n") > 1:
        raise RunError(
            f"{path}: holds answers, and no {MANIFEST}; restore it from a copy, or name another folder with --run"
        )


@contextmanager
def _locked(run: Path) -> Iterator[RunLock]:
    """Lock a run, and remove the temporary files of killed processes. The lock stays unless the body fails.

    Raises:
        RunError: another robin is at work on it. StorageError: the disk refuses.
    """
    lock = RunLock(run)
    try:
        with writing(run):
            for folder in (run, run / SEGMENTS, run / BATCHES):
                for path in folder.glob(TEMPORARY):
                    path.unlink()
            yield lock
    except BaseException:
        lock.release()
        raise


def _foreign_in(run: Path) -> list[str]:
    """Return the sorted names in a folder that neither a run nor a killed robin left there. OSError if it cannot be listed."""
    names = sorted(file.name for file in run.iterdir())
    return [name for name in names if name not in _FILES and not fnmatch(name, TEMPORARY)]
