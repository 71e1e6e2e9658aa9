"""Data in gzip, bzip2, xz and Zstandard: read and written as plain text is."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from robin_cli.data import compression
from robin_cli.data.pairs import load_pairs
from tests.data.writing import HELPSTEER, as_array, as_csv, as_lines, complaint, written


def zstd(data: bytes) -> bytes:
    return bytes(pa.Codec("zstd").compress(data, asbytes=True))


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstd,
}


@pytest.mark.parametrize("suffix", PACKERS)
def test_reads_each_compression_of_each_text_also_piped(tmp_path: Path, suffix: str) -> None:
    plain = load_pairs(written(tmp_path, "pairs.jsonl", as_lines(HELPSTEER))).pairs
    texts = {".jsonl": as_lines(HELPSTEER), ".json": as_array(HELPSTEER), ".csv": as_csv(HELPSTEER)}
    for end, text in texts.items():
        packed = PACKERS[suffix](text)
        assert [
            pair.response for pair in load_pairs(written(tmp_path, f"p{end}{suffix}", packed)).pairs
        ] == [pair.response for pair in plain]
        assert load_pairs(io.BytesIO(packed), called="a pipe").pairs[0].human == plain[0].human
    tabs = load_pairs(io.BytesIO(PACKERS[suffix](as_csv(HELPSTEER, "\t"))), called="a pipe")
    assert tabs.pairs[1].response == plain[1].response
    halves = b"".join(PACKERS[suffix](as_lines([row])) for row in HELPSTEER)
    assert load_pairs(written(tmp_path, f"HALVES.JSONL{suffix.upper()}", halves)).pairs == plain


@pytest.mark.parametrize("suffix", PACKERS)
def test_says_of_what_is_cut_short_damaged_or_called_wrongly_what_it_is(
    tmp_path: Path, suffix: str
) -> None:
    name = f"{compression.NAMES[suffix]} data is cut short or damaged ("
    packed = PACKERS[suffix](
        as_lines([{**row, "prompt": f"{n}{row}"} for n in range(999) for row in HELPSTEER])
    )
    for data in (packed[:-20], packed[:40] + b"\xff" * 50 + packed[90:], as_lines(HELPSTEER)):
        said = complaint(written(tmp_path, f"pairs.jsonl{suffix}", data))
        assert said.startswith(f"pairs.jsonl{suffix}: the {name}")
        assert said.endswith("). Write or download it again.")
    said = complaint(written(tmp_path, "pairs.jsonl", packed))
    assert said.endswith(
        f"is {compression.NAMES[suffix]}-compressed. Let its name end in {suffix}."
    )
    with pytest.raises(
        Exception,
        match=f"a pipe: is compressed twice; unpack it once, as {compression.NAMES[suffix]}",
    ):
        load_pairs(io.BytesIO(gzip.compress(packed)), called="a pipe")


@pytest.mark.parametrize("suffix", ["", *PACKERS])
def test_writes_what_it_reads(tmp_path: Path, suffix: str) -> None:
    text = as_lines(
        [{**row, "id": f"{n}{m}"} for n in range(900) for m, row in enumerate(HELPSTEER)]
    )
    path = tmp_path / f"a.jsonl{suffix}"
    with path.open("wb") as file:
        with compression.compressing(file, suffix) as packed:
            for line in text.splitlines(keepends=True):
                packed.write(line)
        assert not file.closed
    assert len(load_pairs(path).pairs) == 1800
    assert bool(suffix) == (path.stat().st_size < len(text) / 10)
