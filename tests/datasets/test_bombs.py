"""Small files that become giants: what robin reads of them before it says so."""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from robin_cli.datasets import lines, parquet_tables
from robin_cli.datasets.pairs import load_pairs
from robin_cli.datasets.pools import load_pools
from robin_cli.model.errors import InputError, StorageError
from robin_cli.model.records import Pair
from robin_cli.storage import files_of_run, pair_files
from robin_cli.storage.reader import read_run
from robin_cli.storage.schema import JUDGMENTS
from robin_cli.storage.store import RunStore
from tests.conftest import has, refuses
from tests.datasets.test_compressed import PACKERS
from tests.datasets.writing import complaint, measured, written
from tests.judges.wire import completion, serving
from tests.storage.test_store import judgment, manifest

IDS = [str(number) for number in range(200_000)]


def repeated(text: str, rows: int) -> pa.Array:
    """One text as the value of every row, a few bytes in a file."""
    return pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array([text]))


def bomb(folder: Path, name: str = "pairs.parquet") -> Path:
    """200 GB of prompts in 600 KB."""
    table = pa.table({"id": IDS, "prompt": repeated("a" * 2**20, len(IDS)), "response": IDS})
    pq.write_table(table, folder / name, compression="zstd")
    return folder / name


def test_refuses_a_parquet_bomb_before_it_takes_a_gigabyte(tmp_path: Path) -> None:
    path = bomb(tmp_path)
    assert path.stat().st_size < 2**20
    command = [sys.executable, "-m", "robin_cli", "plan", path.name, "-a", "helpfulness", "-b", "9"]

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (4 * 2**30, 4 * 2**30))

    robin = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, preexec_fn=limited)  # noqa: PLW1509
    assert robin.stderr is not None
    said = robin.stderr.read().decode()
    robin.stderr.close()
    _, status, used = os.wait4(robin.pid, 0)
    robin.returncode = os.waitstatus_to_exitcode(status)

    assert robin.returncode == 2, said
    assert "pairs.parquet: unpacks to more than 51" in said  # 512 MiB and a bit
    has(said, " MiB, over 100 times its size", "ROBIN_MAX_UNPACKED_GB=4 (GiB) in the environment")
    assert used.ru_maxrss < 2**20  # in KiB


def test_refuses_pages_rows_and_lists_that_unpack_to_giants(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_tables, "MOST_BYTES", 2**25)
    count, offsets, ones = 2**24, pa.array([0, 2**24], pa.int32()), np.ones(2**24, np.int64)
    tables = {
        "page": pa.table({"prompt": ["a" * 2**27], "response": ["r"]}),
        "entry": pa.table({"prompt": ["a" * 2**20 + str(n) for n in range(99)], "response": IDS[:99]}),
        "list": pa.table({"prompt": ["p"], "response": ["r"], "verbosity": pa.ListArray.from_arrays(offsets, ones)}),
        "texts": pa.table({"prompt": pa.ListArray.from_arrays(offsets, repeated("long" * 999, count)), "response": ["r"]}),
    }  # fmt: skip
    for name, table in tables.items():
        prefixes = (
            {"use_dictionary": False, "column_encoding": {"prompt": "DELTA_BYTE_ARRAY"}}
            if name == "entry"
            else {}
        )
        pq.write_table(table, tmp_path / f"{name}.parquet", compression="zstd", **prefixes)

    assert complaint(tmp_path / "page.parquet").startswith(
        'page.parquet: row 1, column "prompt": takes more than 32 MiB to decode. Write it with smaller pages'
    )
    assert 'column "verbosity.list.element": takes more than 32 MiB' in complaint(
        tmp_path / "list.parquet"
    )
    assert 'column "prompt.list.element": takes more than 32 MiB' in complaint(
        tmp_path / "texts.parquet"
    )
    assert len(load_pairs(tmp_path / "entry.parquet").pairs) == 99  # a few rows at a time
    monkeypatch.setenv(lines.LIMIT_ENV, "1")
    assert "page.parquet:row 1: the row is longer than 32 MiB" in complaint(
        tmp_path / "page.parquet"
    )
    monkeypatch.setenv(lines.LIMIT_ENV, "much")
    assert "ROBIN_MAX_UNPACKED_GB=much: must be a number of GiB" in complaint(
        tmp_path / "page.parquet"
    )


def test_believes_no_size_that_the_footer_states(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_tables, "MOST_BYTES", 2**25)
    pq.write_table(
        pa.table({"prompt": ["a" * 2**27], "response": ["r"]}),
        tmp_path / "pairs.parquet",
        compression="zstd",
    )
    data = (tmp_path / "pairs.parquet").read_bytes()
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    meta = pq.ParquetFile(tmp_path / "pairs.parquet").metadata.row_group(0).column(0)

    def number(value: int) -> bytes:
        zigzag, found = value << 1, b""
        while zigzag > 127:
            found += bytes([zigzag & 127 | 128])
            zigzag >>= 7
        return found + bytes([zigzag])

    true = number(meta.total_uncompressed_size)
    assert true in data[footer:]
    small = bytes([0x81] + [0x80] * (len(true) - 2) + [0])  # as long, and next to nothing
    path = written(tmp_path, "pairs.parquet", data[:footer] + data[footer:].replace(true, small))
    assert pq.ParquetFile(path).metadata.row_group(0).column(0).total_uncompressed_size <= 1
    assert "takes more than 32 MiB to decode" in complaint(path)


@pytest.mark.parametrize("packing", PACKERS)
def test_refuses_text_that_unpacks_a_hundredfold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packing: str
) -> None:
    monkeypatch.setattr(lines, "MOST_UNPACKED", 2**22)
    rows = [json.dumps({"prompt": f"{n}{'a' * 2**20}", "response": "r"}).encode() for n in range(9)]
    texts = {
        ".jsonl": b"\n".join(rows),
        ".json": b"[" + b",\n".join(rows) + b"]",
        ".csv": b"prompt,response\n" + b"".join(b"%d%b,r\n" % (n, b"a" * 2**20) for n in range(9)),
    }
    paths = [
        written(tmp_path, f"pairs{end}{packing}", PACKERS[packing](text))
        for end, text in texts.items()
    ]
    for path in paths:
        assert f"{path.name}: unpacks to more than" in complaint(path)
    monkeypatch.setenv(lines.LIMIT_ENV, "1")
    assert [len(load_pairs(path).pairs) for path in paths] == [9] * 3


def test_reads_a_json_array_a_row_at_a_time(tmp_path: Path) -> None:
    path = written(tmp_path, "giant.json", b"[7, " + b"[]," * (10 * 2**20) + b"1]")
    said, peak = measured(lambda: complaint(path))
    assert said.startswith("giant.json:row 1: the row is a number")
    assert peak < 16 * 2**20  # whole, it takes 800 MB

    rows = [
        {"prompt": f"{n}é🐸" * n, "response": "r"} for n in range(1, 2000, 3)
    ]  # over several chunks
    text = json.dumps(rows, ensure_ascii=False, indent=1).encode()
    assert len(text) > 5 * 2**20
    assert [pair.prompt for pair in load_pairs(written(tmp_path, "pairs.json", text)).pairs] == [
        row["prompt"] for row in rows
    ]
    line = text.count(b"\n") + 1
    assert complaint(written(tmp_path, "torn.json", text[:-1] + b"x]")).startswith(
        f"torn.json:{line}: not valid JSON"
    )


def test_refuses_rows_that_take_thirty_times_their_length(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crowded = b'{"x": [' + b"[]," * 2**20 + b"[]]}\n"
    for name, data in {"a.jsonl": crowded, "a.json": b"[" + crowded + b"]"}.items():
        said = complaint(written(tmp_path, name, data))
        assert "not usable JSON: more than 1,048,576 lists and objects in one row." in said
    wide = b"prompt,response\n" + b"," * (3 * 2**20) + b"\n"
    assert (
        "a.csv:2: a quote opened in this row is never closed, or the row is longer than 1,048,576 cells and lines."
        in complaint(written(tmp_path, "a.csv", wide))
    )
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 2**21)
    spread = b"prompt,response\n" + b'ab,"\n",' * 2**20  # a row of many lines
    assert "or the row is longer than 2 MiB" in complaint(written(tmp_path, "a.csv", spread))


def test_refuses_pools_and_runs_that_unpack_to_giants(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "MOST_UNPACKED", 2**25)
    count = 1000
    giant = pa.table({"pair_id": repeated("a" * 2**20, count), "rating": [1] * count})
    pq.write_table(giant, tmp_path / "pool.parquet")
    with pytest.raises(
        InputError, match=r"pool.parquet: unpacks to more than .* ROBIN_MAX_UNPACKED_GB"
    ):
        load_pools(tmp_path / "pool.parquet")

    run = tmp_path / "r"
    RunStore.create(run, manifest(budget=count), [Pair("a", "p", "r")]).close()
    assert len(read_run(run).pairs) == 1
    pq.write_table(giant.rename_columns(["text", "rating"]), run / "judgments" / "00001.parquet")
    refuses(StorageError, r"00001.parquet: unpacks to more than", read_run, run, JUDGMENTS.names)
    (run / "judgments" / "00001.parquet").unlink()
    names = ["prompt", "rating", "response", "pair_id"]
    pairs = giant.append_column("response", giant["pair_id"]).append_column(
        "id", pa.array(IDS[:count])
    )
    pq.write_table(pairs.rename_columns(names), run / "pairs.parquet")
    with pytest.raises(StorageError, match=r"pairs.parquet: unpacks to more than"):
        read_run(run).pairs[0]


def peak_of(folder: Path, *args: str) -> int:
    """The most memory of a robin that ends well, in MiB; begun by a small process, for its own maximum counts as robin's."""
    begin = "import resource, subprocess, sys\nsubprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)\n"
    begin += "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 2**10)"
    command = [sys.executable, "-c", begin, sys.executable, "-m", "robin_cli", *args]
    return int(subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE).stdout)


def test_holds_few_long_rows_at_a_time(tmp_path: Path) -> None:
    with (tmp_path / "pairs.jsonl").open("w") as file:
        for n in range(14):
            file.write(json.dumps({"prompt": f"{n} " * 2**21, "response": f"{n}" * 2**23}) + "\n")
    assert peak_of(tmp_path, "plan", "pairs.jsonl", "-a", "helpfulness", "-b", "14") < 600


@pytest.fixture
def emoji(tmp_path: Path) -> Path:
    """Two rows of 24 MB that take four times as much as Python's text."""
    path = tmp_path / "emoji.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for n in range(2):
            response = f"{n} " * (12 * 10**6) + "\N{GRINNING FACE}"
            file.write(
                json.dumps({"id": f"p{n}", "prompt": "p", "response": response}, ensure_ascii=False)
                + "\n"
            )
    return path


@pytest.mark.whole
def test_holds_no_long_row_or_prompt_while_the_next_one_is_read_and_asked(
    tmp_path: Path, emoji: Path
) -> None:
    def answered(*_: object) -> dict[str, Any]:
        wire.bodies.clear()  # or they would fill the memory of the tests
        return completion("Rating: 3")

    with serving(answered) as wire:
        judge = ("--base-url", wire.url, "--model", "m", "--run", "r", "-o", "scores.csv")
        assert (
            peak_of(tmp_path, "judge", emoji.name, "-a", "helpfulness", "--budget", "3", *judge)
            < 530
        )
        assert peak_of(tmp_path, "resume", "r", "--budget", "4", "-o", "scores.csv") < 530
    assert peak_of(tmp_path, "report", "r", "-o", "report.html") < 530


def test_holds_a_page_of_a_parquet_file_beside_few_rows(tmp_path: Path) -> None:
    rows = {"prompt": ["p"] * 4, "response": [f"{n}" * (23 * 2**20) for n in range(4)]}
    pq.write_table(pa.table(rows), tmp_path / "a.parquet", use_dictionary=False)
    assert peak_of(tmp_path, "plan", "a.parquet", "-a", "helpfulness", "-b", "9") < 600


def test_says_how_to_write_parquet_whose_pages_are_too_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_tables, "MOST_BYTES", 2**25)
    table = pa.table({"prompt": ["p"] * 33, "response": [f"{n:02}" * 2**21 for n in range(33)]})
    pq.write_table(table, tmp_path / "a.parquet", use_dictionary=False)
    pa.default_memory_pool().release_unused()  # the limit is on what the process takes beside this
    said = complaint(tmp_path / "a.parquet")
    assert "takes more than 32 MiB to decode" in said
    (call,) = re.findall(r"pyarrow\.parquet\.write_table\(table, FILE, (.*)\), or", said)
    options = {name: int(value) for name, value in (each.split("=") for each in call.split(", "))}
    pq.write_table(table, tmp_path / "b.parquet", **options)
    assert len(load_pairs(tmp_path / "b.parquet").pairs) == 33


def test_writes_long_answers_in_row_groups_of_a_bounded_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files_of_run, "GROUP_BYTES", 2**20)
    answers = [replace(judgment(n), text="x" * 2**19) for n in range(9)]
    with RunStore.create(
        tmp_path / "r", manifest(budget=9), [Pair(f"p{n}", "p", "r") for n in range(3)]
    ) as run:
        run.append(answers)
    assert pq.ParquetFile(tmp_path / "r/judgments/00001.parquet").num_row_groups == 5
    assert read_run(tmp_path / "r", ["text"]).judgments["text"].to_pylist() == ["x" * 2**19] * 9


def test_writes_long_pairs_so_that_it_reads_them_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_tables, "MOST_BYTES", 2**26)  # a page of all prompts is 96 MiB
    pairs = [Pair(f"p{n}", f"{n}" * (12 * 2**20), "r") for n in range(8)]
    RunStore.create(tmp_path / "r", manifest(budget=8), pairs).close()
    assert [pair.prompt[:1] for pair in read_run(tmp_path / "r").pairs] == [
        f"{n}" for n in range(8)
    ]


def test_reads_its_own_run_however_well_its_texts_are_packed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (lines, pair_files):
        monkeypatch.setattr(module, "MOST_UNPACKED", 2**24, raising=False)
    pairs = [
        Pair(f"p{n}", "a" * 2**20, "r") for n in range(40)
    ]  # one long prompt, and many responses to it
    RunStore.create(tmp_path / "r", manifest(budget=40), pairs).close()
    assert sum(len(pair.prompt) for pair in read_run(tmp_path / "r").pairs) == 40 * 2**20


def test_reads_an_array_of_rows_that_are_nearly_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 2**22)
    rows = [{"prompt": f"{n}" * (4 * 10**6), "response": "r"} for n in range(4)]
    assert len(load_pairs(written(tmp_path, "a.json", json.dumps(rows).encode())).pairs) == 4
    rows[2]["prompt"] += "x" * 2**18
    said = complaint(written(tmp_path, "a.json", json.dumps(rows).encode()))
    assert said.startswith("a.json:row 3: the row is longer than 4 MiB. Shorten the row")


@pytest.mark.parametrize("suffix", PACKERS)
def test_refuses_a_file_of_blank_lines(tmp_path: Path, suffix: str) -> None:
    packed = PACKERS[suffix](b'{"prompt": "p", "response": "r"}' + b"\n" * (2**20 + 99))
    said = complaint(written(tmp_path, f"pairs.jsonl{suffix}", packed))
    assert said.startswith(
        f"pairs.jsonl{suffix}: has 1,048,577 blank lines and 1 with data, and was not read further."
    )
    assert said.endswith("Write the file without them.")


def test_refuses_files_of_rows_without_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "MOST_IDLE", 1000, raising=False)
    row = b'{"prompt": "p", "response": "r"}'
    fillers = {
        "a.csv": b"prompt,response\n" + b",\n" * 1200,
        "b.csv": b"prompt,response\n" + b"\n" * 1200,
        "c.json": b"[" + row + b", null" * 1200 + b"]",
        "d.jsonl": row + b"\n" + b"[[]]\n" * 1200,
    }
    for name, data in fillers.items():
        said = complaint(written(tmp_path, name, data), skip_bad_rows=True)
        assert said.startswith(f"{name}: has 1,001 rows "), said
        assert said.endswith("Write the file without them.")
    pq.write_table(
        pa.table({"prompt": pa.nulls(1200, pa.string()), "response": ["r"] * 1200}),
        tmp_path / "e.parquet",
    )
    assert complaint(tmp_path / "e.parquet", skip_bad_rows=True).startswith(
        "e.parquet: has 1,001 rows that cannot be used ("
    )
    rows = b"".join(
        b'{"prompt": "p%d", "response": "r"}\n\n' % n for n in range(1200)
    )  # a blank line each is usual
    assert len(load_pairs(written(tmp_path, "f.jsonl", rows)).pairs) == 1200
    quoted = b'prompt,response\n"' + b"\n" * (2**21 + 99)
    assert "or the row is longer than 1,048,576 cells and lines." in complaint(
        written(tmp_path, "g.csv", quoted)
    )
