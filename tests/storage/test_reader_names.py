from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from robin_cli.model.errors import StorageError
from robin_cli.storage.layout import PAIRS
from robin_cli.storage.reader import read_pair_batches
from tests.conftest import refuses


def test_refuses_pairs_with_two_columns_of_one_human_rating(tmp_path: Path) -> None:
    texts = [pa.array(["x"])] * 3
    ratings = [pa.array([1.0])] * 2
    names = ["pair_id", "prompt", "response", "helpfulness", "helpfulness"]
    pq.write_table(pa.Table.from_arrays([*texts, *ratings], names), tmp_path / PAIRS)

    refuses(StorageError, "called the same", list, read_pair_batches(tmp_path))
