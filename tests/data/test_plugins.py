"""What packages add to DATA by the entry point robin.datasets: one that is installed here, others made up by their metadata."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from robin_cli.data.pairs import load_pairs
from robin_cli.model.errors import InputError
from robin_cli.model.plugins import plugins
from tests.conftest import has, judging, robin
from tests.data.writing import as_lines, written
from tests.judges.wire import completion, serving
from tests.packages import put_example, put_package

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Puts a package with entry points where Python finds it."""
    site = tmp_path / "site"
    monkeypatch.syspath_prepend(site)

    def put(
        package: str, code: str, *names: str, function: str = "rows", group: str = "robin.datasets"
    ) -> None:
        module = package.replace("-", "_")
        monkeypatch.delitem(sys.modules, module, raising=False)
        put_package(site, package, code, {group: dict.fromkeys(names, f"{module}:{function}")})
        plugins.cache_clear()

    yield put
    plugins.cache_clear()


def said_of(name: Any) -> str:
    with pytest.raises(InputError) as caught:
        load_pairs(name)
    return str(caught.value)


def test_judges_what_an_installed_package_reads_and_loads_no_other(
    tmp_path: Path, install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_example(tmp_path / "site", "robin-dataset-sqlite")
    install("robin-loud", "raise SystemExit('loaded')", ".loud")
    with closing(sqlite3.connect(tmp_path / "answers.db")) as database:
        database.execute(
            "CREATE TABLE pairs (uid TEXT, prompt TEXT, response TEXT, helpfulness INTEGER)"
        )
        database.execute(
            "INSERT INTO pairs VALUES ('a', 'Hi', 'Hello!', 4), ('b', 'Name a bird.', 'Wren.', NULL)"
        )
        database.commit()

    with serving(lambda number, _: completion(f"Feedback: no.\nRating: {number % 5}")) as wire:
        asked = judging(wire.url, "answers.db", 4, "--run", "r", "--format", "jsonl")
        done = robin(*asked, cwd=tmp_path, exits=0)
    assert [json.loads(line)["human"] for line in done.stdout.splitlines()] == [4, None]
    assert "robin_loud" not in sys.modules
    monkeypatch.undo()
    plugins.cache_clear()
    without = robin("render", "answers.db", "--pair", "b", "-a", "helpfulness", cwd=tmp_path)
    assert "answers.db: the format is not known by this name." in without.stderr


def test_takes_rows_and_pairs_by_file_name_and_by_scheme(
    tmp_path: Path, install: Install, memory: Any
) -> None:
    code = """
from robin_cli import Pair
def rows(address):
    yield {"prompt": address.rpartition("/")[2], "response": "r"}
    yield Pair("own", "p", "r", {"helpfulness": 3}, "gold", columns={"system": "s", "id": 7, "a.b": True})
"""
    install("robin-notes", code, ".notes.json", "notes", "NOTES2://")
    path = written(tmp_path, "my.NOTES.json", b"x")  # longer than .json, so it counts
    data = load_pairs([path, "notes://shelf/one", "notes2://shelf/two"], skip_bad_rows=True)
    assert [pair.prompt for pair in data.pairs] == ["my.NOTES.json", "p", "one", "two"]
    assert data.pairs[1].human == {"helpfulness": 3.0}
    assert data.pairs[1].reference == "gold"
    assert data.pairs[1].columns == {"system": "s", "id": 7, "a.b": True}
    assert [name for name, _ in data.files] == [
        str(path),
        "notes://shelf/one",
        "notes2://shelf/two",
    ]
    assert data.files[1][1] != data.files[2][1]
    assert load_pairs("notes://shelf/one").sha256 == data.files[1][1]
    assert "or hf://, notes://, notes2://." in said_of("mongo://x/y")
    assert ".ods, .eval, .notes.json." in said_of(written(tmp_path, "x.odd", b"x"))

    memory.pipe("/far.notes.json", b"x")
    assert load_pairs("memory://far.notes.json").pairs[1].prompt == "p"


def test_reads_a_format_of_a_package_also_where_it_comes_without_a_name(
    tmp_path: Path, install: Install
) -> None:
    code = """
from robin_cli.data.rows import Format, RowTable
def read(stream, source, wanted):
    assert stream.read(3) == b"\\0RS"
    texts = stream.read().decode().split()
    return RowTable(None, "row", ((k, {"prompt": "p", "response": text}) for k, text in enumerate(texts, 1)))
rows = Format(read, (b"\\0RS",))
"""
    install("robin-shelf", code, ".shelf")
    data = b"\0RS a b"
    for source in (written(tmp_path, "x.shelf", data), BytesIO(data)):
        assert [pair.response for pair in load_pairs(source).pairs] == ["a", "b"]
    said = said_of(written(tmp_path, "y.shelf", b"no"))
    assert "y.shelf: the package robin-shelf, which reads .shelf, failed: AssertionError" in said


BOOK = """
from robin_cli.data.logs import Log
from robin_cli.data.rows import BadRow
def read(sample):
    if not sample["said"]:
        raise BadRow("nothing was said", "no response")
    yield {"prompt": sample["asked"], "response": sample["said"], "system": sample["book"]["model"]}
rows = Log(lambda row: {"asked", "said"} <= row.keys(), lambda place: read, "entries", "book", frozenset({"model"}))
"""


def test_makes_pairs_of_a_log_that_an_installed_package_knows(
    tmp_path: Path, install: Install
) -> None:
    install("robin-book", BOOK, "book", group="robin.logs")
    samples: list[dict[str, object]] = [
        {"asked": "q", "said": "a"},
        {"asked": "q", "said": ""},
        {"other": 1},
    ]
    whole = {"version": 2, "book": {"model": "m"}, "entries": samples}
    data = load_pairs(
        written(tmp_path, "book.json", json.dumps(whole).encode()), skip_bad_rows=True
    )
    assert [(pair.prompt, pair.response, pair.columns["system"]) for pair in data.pairs] == [
        ("q", "a", "m")
    ]
    lines = [{**each, "book": {"model": "m"}} for each in samples]
    said = said_of(written(tmp_path, "book.jsonl", as_lines(lines[1:])))
    assert "book.jsonl:1: nothing was said" in said
    assert "is not a sample, as the rows before it are." in said_of(
        written(tmp_path, "b.jsonl", as_lines(lines[::2]))
    )
    install("robin-torn", "rows = 7", "a-log", group="robin.logs")
    said = said_of(tmp_path / "book.jsonl")
    assert "book.jsonl: the package robin-torn, which reads a-log, failed: AttributeError" in said
    own = load_pairs(written(tmp_path, "own.jsonl", as_lines([{"prompt": "p", "response": "r"}])))
    assert len(own.pairs) == 1  # where no log is looked for


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (
            "import no_such_module",
            "failed: ModuleNotFoundError: No module named 'no_such_module'. Update it, or",
        ),
        ("def other(path): ...", "failed: AttributeError: "),
        ("def rows(path): return 7", "failed: TypeError: 'int' object is not iterable."),
        (
            "def rows(path):\n yield {'prompt': 'p', 'response': 'r'}\n raise KeyError('\\033[31mx')",
            "KeyError: '\\x1b[31mx'",
        ),
    ],
)
def test_names_the_package_that_is_broken(
    tmp_path: Path, install: Install, code: str, said: str
) -> None:
    install("robin-broken", code, ".odd")
    found = said_of(written(tmp_path, "a.odd", b"x"))
    has(found, "a.odd: the package robin-broken, which reads .odd, failed: ", said)
    assert found.endswith("or uninstall it: pip uninstall robin-broken")


def test_says_of_rows_and_packages_what_is_wrong_with_them(
    tmp_path: Path, install: Install
) -> None:
    install("robin-lists", "def rows(path): return [['p', 'r']]", ".lists", ".csv")
    install("robin-more-lists", "def rows(path): return []", ".lists2")
    assert ":row 1: the row is a list, not a dict or a Pair" in said_of(
        written(tmp_path, "a.lists", b"x")
    )
    assert "a.lists2: the file has no rows." in said_of(written(tmp_path, "a.lists2", b"x"))
    # robin's own stays
    assert len(load_pairs(written(tmp_path, "a.csv", b"prompt,response\np,r\n")).pairs) == 1
    install(
        "robin-odd",
        r"def rows(path): return [{'prompt': '\ud800', 'response': 'r'}, {'id': 2**70}]",
        "odd",
    )
    assert 'odd://x:row 1: field "prompt" holds half of a surrogate pair' in said_of("odd://x")
    install("robin-twice", "def rows(path): return []", ".lists")
    assert (
        "a.lists: robin-lists and robin-twice both read .lists. Uninstall one of them."
        in said_of(tmp_path / "a.lists")
    )
