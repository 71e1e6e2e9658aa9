"""The run directory, open for writing: an answer is on disk before it counts.

Answers go to ``journal.jsonl``. After SEGMENT_ROWS answers, and at the end of a session, the journal becomes the next
``judgments/NNNNN.parquet``. Segments are never rewritten. ``state.parquet`` is a snapshot of the fold over them
(:mod:`robin_cli.run.snapshot`).
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from robin_cli.data.pair_table import PairTable
from robin_cli.model.arms import FloatArray
from robin_cli.model.errors import EndpointError, RunError, StorageError, typed, writing
from robin_cli.model.records import Judgment, Pair, number_of
from robin_cli.run.batches import read_batches
from robin_cli.run.files_of_run import (
    foreign_in,
    read_variances,
    remove_remains,
    write_data,
    write_segment,
)
from robin_cli.run.fold import Fold
from robin_cli.run.journal import Journal, lines_of, read_journal
from robin_cli.run.layout import (
    BATCHES,
    COLUMNS,
    JOURNAL,
    MANIFEST,
    SEGMENTS,
    STATE,
    VARIANCES,
    segment_count,
)
from robin_cli.run.locking import RunLock
from robin_cli.run.manifest import Manifest, new_run_id, read_manifest
from robin_cli.run.reader import StoredRun
from robin_cli.run.segments import check_whole, journal_table, unsealed_rows
from robin_cli.run.snapshot import folded, write_snapshot

SEGMENT_ROWS = 10_000
SEGMENT_CHARACTERS = 32 * 1024 * 1024
"""A segment ends early after this many characters of answers: they are in memory until then."""
STATE_EVERY = 100_000
"""A running session rewrites its snapshot after this many judgments, or a quarter of the number of arms if that is more."""


class RunStore(StoredRun):
    """A run directory that only this process may write to. Use it as a context manager."""

    def __init__(
        self, path: Path, manifest: Manifest, lock: RunLock, pairs: PairTable | None = None
    ) -> None:
        super().__init__(path, manifest)
        if pairs is not None:  # a new run's pairs are not read back
            self.pairs = pairs  # type: ignore[assignment]  # it lacks only what readers use
        self._lock = lock
        self._is_announced = False
        self._characters = 0  # of answers since the last segment
        self._served: set[str] = set()
        self._writing = threading.Lock()  # the event loop writes while a thread syncs and seals
        content = read_journal(path / JOURNAL) if pairs is None else None
        last = segment_count(path)
        self._segment = last + 1
        self._sealed_since_state = 0
        if pairs is None:
            check_whole(path, manifest, last, content, last)
        rows = [] if content is None else unsealed_rows(path, content, last)
        # report a bad line now, not when the journal becomes a segment
        journal_table(path / JOURNAL, rows)
        self._rows: list[Judgment | Mapping[str, Any]] = list(rows)
        self._synced = len(self._rows)
        if content is not None and content.segment == self._segment:
            self._journal = Journal(path / JOURNAL, manifest.run_id, content.sound_bytes)
            self._journal.sync()  # answers that an earlier session wrote but did not sync count from now on
        else:  # there is no journal yet, or it had just become a segment when the last session ended
            lines = lines_of(rows)
            self._journal = Journal.create(path / JOURNAL, manifest.run_id, self._segment, lines)
        self._synced_end = self._journal.end
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
    ) -> RunStore:
        """Make a new run at ``path``, a folder that does not exist or is empty.

        The manifest is written last: a folder without one holds no answers and may be made anew.

        Args:
            variances: the variances that the scheduler starts with, shape (K,).
            session: the settings of the first session, as in :meth:`announce`; None if none begins.
            register: called with the run's id before its manifest appears.

        Raises:
            RunError: the folder holds something else, or another robin is at work in it.
            StorageError: the disk refuses.
        """
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            foreign = foreign_in(path)
        except OSError as error:
            raise RunError(
                f"{path}: no run can be kept here ({error.strerror}); name another folder with --run"
            ) from error
        if foreign:
            raise RunError(
                f"{path}: not empty, and not a run (it holds {foreign[0]}); name another folder with --run"
            )
        with ExitStack() as undone:
            lock = RunLock(path)
            undone.callback(lock.release)
            with writing(path):
                remove_remains(path)
                manifest = manifest.with_data(run_id=new_run_id())
                if register is not None:
                    register(manifest.run_id)
                table = PairTable.of(pairs)
                write_data(path, table, variances)
                store = cls(path, manifest, lock, table)
                if session is None:
                    manifest.write(path)
                else:
                    store.announce(session)
            undone.pop_all()
        return store

    @classmethod
    def open(cls, path: Path) -> RunStore:
        """Open the run at ``path`` to go on with it.

        Raises:
            RunError: there is no run, another version of robin made it, or another robin is at work on it.
            StorageError: its files are damaged.
        """
        read_manifest(path)  # RunError if the folder is not a run: do not lock it then
        with ExitStack() as undone:
            lock = RunLock(path)
            undone.callback(lock.release)
            with writing(path):
                remove_remains(path)
                store = cls(path, read_manifest(path), lock)
                undone.callback(store._journal.close)
                # git does not copy empty folders
                (path / SEGMENTS).mkdir(mode=0o700, exist_ok=True)
            undone.pop_all()
        return store

    @property
    def variances(self) -> FloatArray | None:
        """The variances that the scheduler started with, shape (K,); None if it had none."""
        return read_variances(self.path, len(self.space))

    def fold(self) -> Fold:
        """Return the fold of all synced judgments."""
        return folded(self.path, self.space, self.manifest.run_id)[0]

    @property
    def has_answers(self) -> bool:
        """Whether the run has answers, or batches under way, which are paid for."""
        return (
            bool(self._rows)
            or self._segment > 1
            or any(each.is_open for each in read_batches(self.path).values())
        )

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
            self._characters += sum(len(judgment.text) for judgment in judgments)
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
        if len(self._rows) >= SEGMENT_ROWS or self._characters >= SEGMENT_CHARACTERS:
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
            if (self.path / BATCHES).exists():  # no batch was answered
                shutil.rmtree(self.path / BATCHES)
            for name in (
                STATE,
                VARIANCES,
                COLUMNS,
                MANIFEST,
            ):  # the manifest last: it makes a folder a run
                (self.path / name).unlink(missing_ok=True)

    def __enter__(self) -> RunStore:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        try:
            is_nothing = isinstance(error, EndpointError) and self.never_reached
            self.close()
            if is_nothing and {MANIFEST, STATE}.issuperset(foreign_in(self.path)):
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
            rows, end = list(self._rows), self._journal.end
        judgments = journal_table(self.path / JOURNAL, rows)
        write_segment(judgments, self.path, self.manifest.run_id, self._segment)
        with self._writing:
            self._journal = self._journal.rotated(self._segment + 1, behind=end)
            self._segment += 1
            self._sealed_since_state += len(rows)
            del self._rows[: len(rows)]
            self._synced, self._synced_end = len(self._rows), self._journal.end
            self._characters = sum(len(row.text) for row in self._rows if isinstance(row, Judgment))

    def _write_state(self) -> None:
        segments = self._segment - 1
        fold, covered = folded(self.path, self.space, self.manifest.run_id, journal=False)
        if not segments or covered < segments:
            write_snapshot(self.path, fold, self.manifest.run_id, segments)
        self._sealed_since_state = 0
