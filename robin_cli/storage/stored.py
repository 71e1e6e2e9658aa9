"""A run in a folder: what its manifest and its files say together, each read when it is asked for."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from robin_cli.datasets.pair_table import PairTable
from robin_cli.model.arms import FloatArray
from robin_cli.model.space import ArmSpace
from robin_cli.questions.inquiry import Inquiry
from robin_cli.storage.files_of_run import read_variances
from robin_cli.storage.fold import Fold
from robin_cli.storage.manifest import Manifest
from robin_cli.storage.pair_files import StoredPairs
from robin_cli.storage.reader import inquiry_of, space_of
from robin_cli.storage.snapshot import folded


class StoredRun:
    """A run in the folder ``path``. StorageError where what is asked for cannot be read.

    Attributes:
        pairs: its pairs, with their texts.
    """

    def __init__(self, path: Path, manifest: Manifest, pairs: PairTable | None = None) -> None:
        self.path, self.manifest = path, manifest
        self.pairs = StoredPairs(path) if pairs is None else pairs  # of a run just made they are not read back

    @cached_property
    def space(self) -> ArmSpace:
        """Which arm is which pair, attribute and judge."""
        return space_of(self.manifest, self.pairs.ids)

    @cached_property
    def inquiry(self) -> Inquiry:
        """What the run finds out about its pairs."""
        return inquiry_of(self.manifest, self.space, self.pairs)

    @property
    def variances(self) -> FloatArray | None:
        """The variances that the scheduler began with, shape (K,); None for a run that began with none."""
        return read_variances(self.path, len(self.space))

    def fold(self) -> Fold:
        """Return the numbers after all judgments that were synced."""
        return folded(self.path, self.space, self.manifest.run_id)[0]
