"""Footers of Parquet files in which a byte is wrong: an error, whatever byte it is, and never the end of the process."""

from __future__ import annotations

import io
import subprocess
import sys
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from robin_cli.datasets.parquet_tables import table_batches
from robin_cli.model.errors import InputError


def parquet(**options: Any) -> bytes:
    lists = [["a"] * (number % 3) for number in range(60)]
    gaps = [None if number % 7 == 0 else number for number in range(60)]
    texts = [f"text {number}" for number in range(60)]
    file = io.BytesIO()
    pq.write_table(
        pa.table({"lists": lists, "gaps": gaps, "texts": texts}), file, row_group_size=20, **options
    )
    return file.getvalue()


def read_all_with_a_wrong_byte() -> None:
    """Read a file with each byte of its footer wrong in turn; said on stdout: how many were refused."""
    sound = parquet(compression="zstd")
    refused = 0
    for at in range(len(sound) - 8 - int.from_bytes(sound[-8:-4], "little"), len(sound)):
        for wrong in (sound[at] ^ 1, sound[at] ^ 4):
            damaged = io.BytesIO(sound[:at] + bytes([wrong]) + sound[at + 1 :])
            try:
                list(table_batches(damaged, "pairs.parquet", lambda _: True))
            except InputError:
                refused += 1
    sys.stdout.write(f"{refused}")


def test_survives_any_wrong_byte_in_a_footer() -> None:
    here = "from tests.datasets.test_footers import read_all_with_a_wrong_byte as it; it()"
    done = subprocess.run([sys.executable, "-c", here], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 1000
