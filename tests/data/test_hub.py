"""Data sets by hf://, with the real library: from a folder of that name here, and from hubs that refuse or are not there."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import constants

from robin_cli.data.pairs import load_pairs
from robin_cli.model.errors import InputError
from tests.conftest import has, robin
from tests.data.writing import HELPSTEER, as_lines, as_parquet, written

RATED = [{**row, "helpfulness": [row["helpfulness"], 0, 1]} for row in HELPSTEER]
TOKEN = "hf_plantedPlantedPlanted"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with two data sets: Parquet shards of two splits, and JSON lines of one, in two shards."""
    monkeypatch.chdir(tmp_path)
    (birds := tmp_path / "me" / "birds").mkdir(parents=True)
    written(birds, "train-00000-of-00001.parquet", as_parquet(RATED[:1]))
    for shard, row in enumerate(RATED):
        written(birds, f"validation-0000{shard}-of-00002.parquet", as_parquet([row]))
    (asked := tmp_path / "me" / "asked.v1").mkdir()
    for shard, row in enumerate(HELPSTEER):
        renamed = {"q": row["prompt"], "a": {"text": row["response"]}, "stars": shard, "by": None}
        written(asked, f"part{shard}.jsonl", as_lines([renamed]))
    return tmp_path


def said_of(url: str, **options: Any) -> str:
    with pytest.raises(InputError) as caught:
        load_pairs(url, **options)
    assert str(caught.value).count("\n") == 0
    return str(caught.value)


def test_reads_the_split_of_a_data_set_shard_by_shard(here: Path) -> None:
    data = load_pairs("hf://me/birds?split=validation")
    assert [(pair.prompt, pair.response) for pair in data.pairs] == [
        (row["prompt"], row["response"]) for row in RATED
    ]
    assert [pair.human["helpfulness"] for pair in data.pairs] == [5 / 3, 1.0]
    assert data.source == "hf://me/birds?split=validation"
    assert data.sha256 == load_pairs("hf://me/birds?split=validation").sha256
    assert data.sha256 != load_pairs("hf://me/birds?split=train").sha256
    assert len(load_pairs("hf://me/birds?split=validation&revision=main", limit=1).pairs) == 1


def test_takes_the_only_split_with_columns_mapped_into_objects(here: Path) -> None:
    columns = {"prompt": "q", "response": "a.text", "helpfulness": "stars"}
    data = load_pairs(["hf://me/asked.v1"], columns=columns)
    assert [pair.response for pair in data.pairs] == [row["response"] for row in HELPSTEER]
    assert [pair.human for pair in data.pairs] == [{"helpfulness": 0.0}, {"helpfulness": 1.0}]
    assert said_of("hf://me/asked.v1").startswith(
        'hf://me/asked.v1: no field "prompt" or "response"; found q, a.text'
    )


@pytest.mark.parametrize(
    ("url", "fact", "step"),
    [
        (
            "hf://me/birds",
            "hf://me/birds: has several splits; it has train, validation.",
            "?split=validation",
        ),
        (
            "hf://me/birds?split=test",
            'no split "test"; it has train, validation',
            "?split=validation",
        ),
        (
            "hf://me/birds?spilt=test",
            'no setting "spilt"; did you mean "split"?',
            "Write it as hf://",
        ),
        ("hf://me/birds?split=", "split is empty", "Write it as hf://"),
        ("hf://me/birds?split=a&split=b", "split stands twice", "Write it as hf://"),
        ("hf://me/birds?config=wild", "'wild' not found. Available: ['default']", "?config=NAME"),
        ("hf://me/birds?data_dir=none", "holds no data files", "Check owner, name and data_dir"),
        (f"hf://me:{TOKEN}@birds/x", "names no data set", "Write hf://OWNER/NAME"),
        (
            f"hf://me/birds?token={TOKEN}",
            'no setting "token"',
            "there are split, config, revision, data_dir",
        ),
        ("hf://../birds", "names no data set", "Write hf://OWNER/NAME"),
        ("hf://birds", "names no data set", "Write hf://OWNER/NAME"),
    ],
)
def test_says_what_is_wrong_with_an_address(here: Path, url: str, fact: str, step: str) -> None:
    said = said_of(url)
    has(said, fact, step)
    assert TOKEN not in said


def test_never_runs_code_that_a_data_set_brings(here: Path) -> None:
    (folder := here / "me" / "code").mkdir()
    written(folder, "code.py", b"import pathlib; pathlib.Path('ran').touch()\n")
    assert "hf://me/code" in said_of("hf://me/code")
    assert not (here / "ran").exists()


def test_says_where_a_damaged_shard_ends_the_reading(here: Path) -> None:
    written(here / "me" / "asked.v1", "part1.jsonl", b'{"q": "\x1b[31m", "a": [')
    said = said_of("hf://me/asked.v1", columns={"prompt": "q", "response": "a.text"})
    assert "hf://me/asked.v1: cannot be read: " in said
    assert said.isprintable()


def test_names_the_extra_where_the_library_is_missing(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    assert "Install it: pip install '.[datasets]' in robin's checkout" in said_of("hf://me/birds")


class _Refusing(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(401)
        self.send_header("X-Error-Code", "RepoNotFound")
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_HEAD = do_GET  # noqa: N815  # the server's name for it

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def refusing() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), _Refusing) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_says_of_a_hub_that_it_refuses_or_is_not_there(
    here: Path, refusing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = {"HF_HOME": str(here / "home"), "HF_TOKEN": TOKEN, "HF_ENDPOINT": refusing}
    command = ("render", "hf://no/where?split=x", "--pair", "p", "-a", "helpfulness")
    done = robin(*command, cwd=here, **env, exits=2)
    assert "no such data set on the hub" in done.stderr
    assert done.stderr.count("\n") <= 2, done.stderr
    assert TOKEN not in done.stderr + done.stdout
    import datasets  # takes two seconds

    for library in (datasets.config, constants):  # which looks for HF_HUB_OFFLINE as it is loaded
        monkeypatch.setattr(library, "HF_HUB_OFFLINE", True)
    assert "the hub cannot be reached" in said_of("hf://no/where?split=x")
    files = [path.read_bytes() for path in here.rglob("*") if path.is_file()]
    assert TOKEN.encode() not in b"".join(files)


def test_asks_for_a_row_at_a_time(here: Path) -> None:
    """The first pair comes without the last shard having been read: nothing is downloaded before it is needed."""
    written(here / "me" / "asked.v1", "part1.jsonl", json.dumps({"q": 1}).encode()[:3])
    data = load_pairs("hf://me/asked.v1", columns={"prompt": "q", "response": "a.text"}, limit=1)
    assert len(data.pairs) == 1


def test_reads_a_data_set_from_the_command_line(here: Path) -> None:
    """The library needs pandas, which the command line otherwise does without."""
    pair = load_pairs("hf://me/birds?split=validation").pairs[1]
    url = "hf://me/birds?split=validation"
    done = robin("render", url, "--pair", pair.pair_id, "-a", "helpfulness", cwd=here, exits=0)
    assert done.stderr == ""
    assert pair.response in done.stdout
