"""Several files, globs and standard input as one data set."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import robin_cli
from robin_cli.data.pairs import load_pairs
from robin_cli.model.errors import InputError
from robin_cli.session.inputs import pairs_of
from robin_cli.session.prompts import prompts_of
from robin_cli.settings.reading import load_settings
from tests.data.writing import HELPSTEER, as_csv, as_lines, as_parquet, written

A, B = HELPSTEER
C = {"prompt": "p", "response": "r"}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    written(tmp_path, "z.jsonl", as_lines([A]))
    (tmp_path / "shards").mkdir()
    written(tmp_path / "shards", "2.parquet", as_parquet([C]))
    written(tmp_path / "shards", "1.parquet", as_parquet([B]))
    return tmp_path


def said_of(*names: str) -> str:
    with pytest.raises(InputError) as caught:
        load_pairs(names)
    return str(caught.value)


def test_reads_files_in_the_order_named_and_a_glob_sorted(here: Path) -> None:
    data = load_pairs(["z.jsonl", "shards/*.parquet"])
    assert [pair.response for pair in data.pairs] == [A["response"], B["response"], "r"]
    assert [name for name, _ in data.files] == ["z.jsonl", "shards/1.parquet", "shards/2.parquet"]
    assert data.source == "z.jsonl, shards/1.parquet, shards/2.parquet"
    assert data.sha256 != load_pairs(["shards/*.parquet", "z.jsonl"]).sha256
    assert len(load_pairs(here / "**" / "*.parquet").pairs) == 2
    assert [pair.prompt for pair in robin_cli.load_pairs(["z.jsonl", "shards/*"])] == [
        A["prompt"],
        B["prompt"],
        "p",
    ]


def test_takes_the_first_pairs_of_all_files_and_reads_no_more(here: Path) -> None:
    written(here, "torn.jsonl", b"{")
    data = load_pairs(["shards/*", "torn.jsonl"], limit=2)
    assert [pair.response for pair in data.pairs] == [B["response"], "r"]


def test_reads_a_file_once_that_is_named_twice(here: Path) -> None:
    assert (
        len(load_pairs(["shards/2.parquet", "shards/*", str(here / "shards" / "1.parquet")]).pairs)
        == 2
    )


def test_takes_a_file_with_brackets_in_its_name_as_it_is(here: Path) -> None:
    written(here, "a[1].jsonl", as_lines([C]))
    assert load_pairs("a[1].jsonl").pairs[0].prompt == "p"


def test_says_that_a_glob_matches_nothing(here: Path) -> None:
    assert said_of("z.jsonl", "shrads/*.parquet") == (
        "shrads/*.parquet: matches no file. Check the pattern: ls shrads/*.parquet"
    )
    assert "\x1b" not in said_of("\x1b[31m*")


def test_names_both_places_of_a_pair_that_is_in_two_files(here: Path) -> None:
    written(here, "again.csv", as_csv([{"prompt": "other", "response": "o"}, C]))
    assert said_of("shards/*.parquet", "again.csv").startswith(
        "again.csv:3: the same prompt and response as shards/2.parquet:row 1. Remove one of them"
    )
    data = load_pairs(["shards/*.parquet", "again.csv"], skip_bad_rows=True)
    assert (len(data.pairs), data.skipped) == (3, 1)
    assert data.pairs[1].pair_id == load_pairs("shards/2.parquet").pairs[0].pair_id


def test_names_both_places_of_an_id_with_two_texts(here: Path) -> None:
    for name, text in (("one.jsonl", "x"), ("two.jsonl", "y")):
        written(here, name, as_lines([{"id": "q1", "prompt": text, "response": text}]))
    assert said_of("one.jsonl", "two.jsonl").startswith(
        'two.jsonl:1: the id "q1" is also that of one.jsonl:1.'
    )


def test_reads_standard_input_among_files(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(as_lines([C]))))
    assert [pair.response for pair in load_pairs(["z.jsonl", "-"]).pairs] == [A["response"], "r"]


def test_finds_each_file_of_a_robin_toml_from_its_folder(here: Path) -> None:
    (here / "etc").mkdir()
    toml = written(
        here / "etc",
        "robin.toml",
        b'data = ["../z.jsonl", "../shards/*"]\nattribute = "helpfulness"\n',
    )
    config = load_settings({}, str(toml))
    assert len(pairs_of(config, prompts_of(config), print).pairs) == 3
    hub = written(here / "etc", "hub.toml", b'data = "hf://me/birds?split=x"\n')
    assert load_settings({}, str(hub)).data == ("hf://me/birds?split=x",)
