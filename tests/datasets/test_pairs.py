"""What robin makes of files that are as they should be."""

from __future__ import annotations

import gzip
import hashlib
import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from robin_cli.datasets.pairs import load_pairs, pair_id_of
from robin_cli.model.errors import InputError
from tests.datasets.writing import HELPSTEER, WRITERS, as_csv, as_lines, as_parquet, complaint, written

ATTRIBUTES = ("helpfulness", "correctness", "coherence", "complexity", "verbosity")


@pytest.mark.parametrize("suffix", WRITERS)
def test_reads_helpsteer2_in_every_format(tmp_path: Path, suffix: str) -> None:
    data = load_pairs(written(tmp_path, f"pairs{suffix}", WRITERS[suffix](HELPSTEER)))
    assert [(pair.prompt, pair.response) for pair in data.pairs] == [(r["prompt"], r["response"]) for r in HELPSTEER]
    assert [pair.human for pair in data.pairs] == [{name: row[name] for name in ATTRIBUTES} for row in HELPSTEER]
    assert data.skipped == 0


def test_keeps_the_prompt_of_a_conversation_as_it_is(tmp_path: Path) -> None:
    pair = load_pairs(written(tmp_path, "pairs.jsonl", as_lines(HELPSTEER))).pairs[1]
    assert pair.prompt.count("<extra_id_1>") == 2


def test_reads_a_suffix_in_capitals(tmp_path: Path) -> None:
    assert len(load_pairs(written(tmp_path, "PAIRS.JSONL", as_lines(HELPSTEER))).pairs) == 2


def axis_row(text: str = "short", **info: Any) -> dict[str, Any]:
    axes = {"overall": 6, "accuracy": 7, "coverage": None, "coherence": 5, "compatible": True}
    summary = {"text": text, "policy": "sup4", "note": "", "axes": axes}
    return {"info": {"id": "t3_1", "title": "…", **info}, "split": "valid1", "summary": summary, "worker": "w"}


@pytest.mark.parametrize("suffix", [".jsonl", ".json", ".parquet"])
def test_reads_the_axes_of_summarize_from_feedback(tmp_path: Path, suffix: str) -> None:
    rows = [axis_row(post="A long post", article=None), axis_row(post=None, article="An article")]
    first, second = load_pairs(written(tmp_path, f"axis{suffix}", WRITERS[suffix](rows))).pairs
    assert (first.prompt, first.response) == ("A long post", "short")
    assert second.prompt == "An article"
    assert first.human == {"overall": 6, "accuracy": 7, "coherence": 5}
    assert first.pair_id == pair_id_of("A long post", "short")


def test_reads_a_summary_whose_axes_are_null(tmp_path: Path) -> None:
    row = axis_row(post="A long post")
    row["summary"]["axes"] = None
    assert load_pairs(written(tmp_path, "axis.jsonl", as_lines([row]))).pairs[0].human == {}


@pytest.mark.parametrize("absent", [None, float("nan"), ""])
def test_takes_a_missing_rating_as_absent_not_zero(tmp_path: Path, absent: object) -> None:
    row = {"prompt": "p", "response": "r", "helpfulness": absent, "verbosity": 0}
    assert load_pairs(written(tmp_path, "pairs.jsonl", as_lines([row]))).pairs[0].human == {"verbosity": 0}


def test_takes_nan_and_null_in_a_parquet_column_as_absent(tmp_path: Path) -> None:
    rows = [{"prompt": f"{n}", "response": "r", "helpfulness": n} for n in (1.5, float("nan"), None)]
    pairs = load_pairs(written(tmp_path, "pairs.parquet", as_parquet(rows))).pairs
    assert [pair.human for pair in pairs] == [{"helpfulness": 1.5}, {}, {}]


@pytest.mark.parametrize("cell", ["", "NA", "nan", " null "])
def test_takes_the_empty_cells_of_pandas_and_r_as_absent(tmp_path: Path, cell: str) -> None:
    data = f"prompt,response,helpfulness,verbosity\np,r,{cell}, 3.5 \n".encode()
    assert load_pairs(written(tmp_path, "pairs.csv", data)).pairs[0].human == {"verbosity": 3.5}


@pytest.mark.parametrize("suffix", [".jsonl", ".json", ".csv", ".parquet"])
def test_reads_other_names_by_mapping(tmp_path: Path, suffix: str) -> None:
    rows = [{"question": "q", "answer": "a", "uid": "u1", "score": 3, "prompt": "not this"}]
    columns = {"prompt": "question", "response": "answer", "id": "uid", "quality": "score"}
    (pair,) = load_pairs(written(tmp_path, f"pairs{suffix}", WRITERS[suffix](rows)), columns=columns).pairs
    assert (pair.pair_id, pair.prompt, pair.response, pair.human) == ("u1", "q", "a", {"quality": 3})


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_reads_nested_fields_by_mapping(tmp_path: Path, suffix: str) -> None:
    rows = [{"task": {"text": "q", "meta": {"n": 7}}, "out": {"best": "a"}, "marks": {"grade": 2}}]
    columns = {"prompt": "task.text", "response": "out.best", "id": "task.meta.n", "grade": "marks.grade"}
    (pair,) = load_pairs(written(tmp_path, f"pairs{suffix}", WRITERS[suffix](rows)), columns=columns).pairs
    assert (pair.pair_id, pair.prompt, pair.response, pair.human) == ("7", "q", "a", {"grade": 2})


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".parquet"])
def test_takes_a_name_with_a_dot_in_it_first(tmp_path: Path, suffix: str) -> None:
    rows = [{"summary.text": "flat", "prompt": "p"}]
    assert load_pairs(written(tmp_path, f"pairs{suffix}", WRITERS[suffix](rows))).pairs[0].response == "flat"


@pytest.mark.parametrize(("name", "value"), [("id", "a-1"), ("id", 17), ("pair_id", "x"), ("pair_id", 2**60)])
@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".parquet"])
def test_takes_the_ids_of_the_data(tmp_path: Path, suffix: str, name: str, value: object) -> None:
    rows = [{"prompt": "p", "response": "r", name: value}]
    assert load_pairs(written(tmp_path, f"pairs{suffix}", WRITERS[suffix](rows))).pairs[0].pair_id == str(value)


def test_makes_the_ids_of_rows_that_have_none(tmp_path: Path) -> None:
    rows = [{"prompt": "p", "response": "r", "id": None}, {"prompt": "q", "response": "r"}]
    pairs = load_pairs(written(tmp_path, "pairs.jsonl", as_lines(rows))).pairs
    assert [pair.pair_id for pair in pairs] == [pair_id_of("p", "r"), pair_id_of("q", "r")]


def test_makes_ids_from_the_text_where_told_to(tmp_path: Path) -> None:
    rows = [{"prompt": "p", "response": f"r{n}", "id": "the prompt's"} for n in range(2)]
    pairs = load_pairs(written(tmp_path, "pairs.jsonl", as_lines(rows)), columns={"id": "-"}).pairs
    assert [pair.pair_id for pair in pairs] == [pair_id_of("p", "r0"), pair_id_of("p", "r1")]


def test_gives_a_pair_the_same_id_on_every_machine() -> None:
    # Written down, not computed: another value here means that every stored run loses its pairs.
    assert pair_id_of("Name three birds.", "Robin, wren, owl.") == "a7030930ef12aa6e"
    assert pair_id_of("Grüße 🐸", "") == "06b23e20d734a32f"


@pytest.mark.parametrize(
    ("one", "other"), [(("ab", "c"), ("a", "bc")), (("", "a"), ("a", "")), (("\u00e9", "x"), ("e\u0301", "x"))]
)
def test_gives_different_pairs_different_ids(one: tuple[str, str], other: tuple[str, str]) -> None:
    assert pair_id_of(*one) != pair_id_of(*other)


def test_says_which_bytes_it_read_even_when_stopped_early(tmp_path: Path) -> None:
    for suffix, write in WRITERS.items():
        content = write(HELPSTEER)
        path = written(tmp_path, f"pairs{suffix}", content)
        data = load_pairs(path, limit=1)
        assert (len(data.pairs), data.source) == (1, str(path))
        assert data.sha256 == hashlib.sha256(content).hexdigest()


def test_stops_reading_at_the_limit(tmp_path: Path) -> None:
    path = written(tmp_path, "pairs.jsonl", as_lines(HELPSTEER) + b"not JSON\n")
    assert len(load_pairs(path, limit=2).pairs) == 2


def test_counts_only_good_rows_against_the_limit(tmp_path: Path) -> None:
    path = written(tmp_path, "pairs.jsonl", b"{}\n" + as_lines(HELPSTEER))
    data = load_pairs(path, limit=1, skip_bad_rows=True)
    assert (len(data.pairs), data.skipped) == (1, 1)


def test_refuses_a_limit_below_one(tmp_path: Path) -> None:
    path = written(tmp_path, "pairs.jsonl", as_lines(HELPSTEER))
    assert complaint(path, limit=0) == "--limit 0: at least one pair is needed. Use --limit 1 or more."


@pytest.mark.parametrize("suffix", [".jsonl", ".json", ".csv"])
def test_overlooks_the_byte_order_mark_of_excel(tmp_path: Path, suffix: str) -> None:
    path = written(tmp_path, f"pairs{suffix}", b"\xef\xbb\xbf" + WRITERS[suffix](HELPSTEER))
    assert [pair.prompt for pair in load_pairs(path).pairs] == [row["prompt"] for row in HELPSTEER]


def test_overlooks_blank_lines_and_windows_line_ends(tmp_path: Path) -> None:
    lines = as_lines(HELPSTEER).replace(b"\n", b"\r\n")
    assert len(load_pairs(written(tmp_path, "pairs.jsonl", b"\r\n" + lines + b"  \r\n\n")).pairs) == 2


def test_overlooks_the_empty_rows_a_spreadsheet_leaves(tmp_path: Path) -> None:
    path = written(tmp_path, "pairs.csv", b"\nprompt,response\np,r\n\n,\n,\n")
    assert len(load_pairs(path).pairs) == 1


def test_reads_line_ends_of_old_macs_in_csv(tmp_path: Path) -> None:
    path = written(tmp_path, "pairs.csv", b'prompt,response\rp,"two\rlines"\rq,s\r')
    assert [pair.response for pair in load_pairs(path).pairs] == ["two\rlines", "s"]


def test_reads_cells_far_above_the_csv_module_s_own_limit(tmp_path: Path) -> None:
    path = written(tmp_path, "pairs.csv", as_csv([{"prompt": "p", "response": "long " * 200_000}]))
    assert len(load_pairs(path).pairs[0].response) == 1_000_000


def test_keeps_nul_bytes_and_line_separators_in_text(tmp_path: Path) -> None:
    text = "a\0b\u2028c\x85d"
    for suffix in (".jsonl", ".json", ".parquet", ".csv"):
        path = written(tmp_path, f"pairs{suffix}", WRITERS[suffix]([{"prompt": text, "response": text}]))
        assert load_pairs(path).pairs[0].response == text


@pytest.mark.parametrize("suffix", [".jsonl", ".json", ".parquet"])
def test_takes_an_empty_response_for_an_answer(tmp_path: Path, suffix: str) -> None:
    path = written(tmp_path, f"pairs{suffix}", WRITERS[suffix]([{"prompt": "p", "response": ""}]))
    assert load_pairs(path).pairs[0].response == ""


def test_reads_several_gzip_files_in_one(tmp_path: Path) -> None:
    halves = b"".join(gzip.compress(as_lines([row])) for row in HELPSTEER)
    assert len(load_pairs(written(tmp_path, "pairs.jsonl.gz", halves)).pairs) == 2


def test_reads_dictionaries_and_decimals_in_parquet(tmp_path: Path) -> None:
    import decimal

    sink = io.BytesIO()
    table = pa.table(
        {
            "prompt": pa.array(["p", "q", "p"]).dictionary_encode(),
            "response": pa.array(["a", "b", "c"], pa.large_string()),
            "helpfulness": pa.array([decimal.Decimal("2.5"), None, decimal.Decimal("1.0")]),
        }
    )
    pq.write_table(table, sink)
    pairs = load_pairs(written(tmp_path, "pairs.parquet", sink.getvalue())).pairs
    assert [(pair.prompt, dict(pair.human)) for pair in pairs] == [
        ("p", {"helpfulness": 2.5}),
        ("q", {}),
        ("p", {"helpfulness": 1.0}),
    ]


def test_numbers_the_rows_of_parquet_across_batches(tmp_path: Path) -> None:
    rows = [{"prompt": f"p{n}", "response": "r"} for n in range(2500)]
    rows[2400]["prompt"] = "p7"
    path = written(tmp_path, "pairs.parquet", as_parquet(rows))
    assert complaint(path).startswith("pairs.parquet:row 2401: the same prompt and response as row 8.")


def test_leaves_the_garbage_collector_as_it_was(tmp_path: Path) -> None:
    import gc

    path = written(tmp_path, "pairs.jsonl", b"{")
    with pytest.raises(InputError):
        load_pairs(path)
    assert gc.isenabled()
