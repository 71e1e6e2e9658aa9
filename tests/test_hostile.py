"""Text from data and models never acts: hostile texts go in as ids, prompts, responses and answers, and come out.

``tests/hostile/pairs.jsonl`` holds a text of each kind, as id, prompt and response; the judge of these tests answers with them.
"""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import openpyxl
import pandas as pd
import pytest

from tests.conftest import ROOT, at_a_terminal, robin
from tests.judges.wire import Answer, completion, serving

CORPUS = ROOT / "tests" / "hostile" / "pairs.jsonl"
ANSWERS = [json.loads(line)["prompt"] for line in CORPUS.read_text(encoding="utf-8").splitlines()]
# The loader refuses two by name: half of a surrogate pair, and nothing but a blank.
TEXTS = [text for text in ANSWERS if text.strip() and "\ud800" not in text]
STEERING = set(range(32)) - {10, 13} | {127} | set(range(0x80, 0xA0))


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a finished run over the corpus, r, whose answers are hostile too."""

    def answer(number: int, body: dict[str, Any]) -> Answer:
        text = ANSWERS[number % len(ANSWERS)].encode("utf-8", "replace").decode()
        return completion(
            f"Feedback: {text}\nRating: {number % 5}", id=text, model=text, system_fingerprint=text
        )

    folder = tmp_path_factory.mktemp("hostile")
    with serving(answer) as wire:
        command = (
            "judge",
            CORPUS,
            "-b",
            str(4 * len(TEXTS)),
            *("-a", "helpfulness", "--base-url", wire.url),
        )
        done = robin(
            *command,
            *("--model", "m", "--run", "r", "-o", "scores.csv", "--skip-bad-rows"),
            cwd=folder,
        )
    assert "2 bad rows of" in done.stderr
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return folder


def steers(text: str) -> set[str]:
    """The characters in ``text`` that a terminal acts on, or that turn the order of others around."""
    return {
        mark
        for mark in text
        if ord(mark) in STEERING or mark in "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
    }


def on_a_terminal(*args: str, cwd: Path) -> str:
    """What the command writes to a terminal that it believes in, with the colours of its own taken out."""
    status, shown = at_a_terminal(*args, cwd=cwd)
    assert status == 0
    for style in ("\x1b[1m", "\x1b[2m", "\x1b[0m"):  # bold and dim are robin's own
        shown = shown.replace(style, "")
    return shown


@pytest.mark.parametrize(
    "command",
    [("status", "r"), ("export", "r", "--format", "table"), ("resume", "r", "--format", "table")],
    ids=" ".join,
)
def test_steers_no_terminal(work: Path, command: tuple[str, ...]) -> None:
    shown = on_a_terminal(*command, cwd=work)
    assert not steers(shown)
    assert "Traceback" not in shown


@pytest.mark.parametrize(
    "text",
    ["\x1b[31mred\x1b[0m", "{{ 7*7 }} {{ ''.__class__.__mro__ }}", "\u202egnp.exe\u2066\u2069"],
)
def test_renders_a_hostile_pair_for_what_it_is(work: Path, text: str) -> None:
    shown = on_a_terminal(
        "render", str(CORPUS), "--pair", text, "-a", "helpfulness", "--skip-bad-rows", cwd=work
    )
    assert not steers(shown)
    piped = robin(
        "render", CORPUS, "--pair", text, "-a", "helpfulness", "--skip-bad-rows", cwd=work
    )
    assert text in piped.stdout
    assert "49" not in piped.stdout.partition("[user]")[2].partition(text)[0]


@pytest.mark.parametrize("what", ["scores", "judgments"])
@pytest.mark.parametrize("fmt", ["csv", "tsv"])
def test_writes_no_cell_that_acts(work: Path, what: str, fmt: str) -> None:
    robin("export", "r", "--what", what, "--format", fmt, "-o", f"{what}.{fmt}", cwd=work, exits=0)
    text = (work / f"{what}.{fmt}").read_bytes().decode("utf-8")
    rows = list(csv.reader(io.StringIO(text, newline=""), delimiter="," if fmt == "csv" else "\t"))
    assert len(rows) - 1 == (len(TEXTS) if what == "scores" else 4 * len(TEXTS))
    for row in rows[1:]:
        for name, cell in zip(rows[0], row, strict=True):
            if name in {"pair_id", "feedback", "text", "model", "request_id", "given_up"}:
                assert not cell.startswith(("=", "+", "-", "@", "\t", "\r")), (name, cell)


@pytest.mark.parametrize("what", ["scores", "judgments"])
def test_writes_workbooks_without_formulas_or_links(work: Path, what: str) -> None:
    robin("export", "r", "--what", what, "-o", f"{what}.xlsx", cwd=work, exits=0)
    book = openpyxl.load_workbook(work / f"{what}.xlsx")
    for sheet in book:
        for row in sheet.iter_rows():
            # no formula: text, numbers, true or false, times
            assert {cell.data_type for cell in row} <= {"s", "n", "b", "d"}
            assert all(cell.hyperlink is None for cell in row)


@pytest.mark.parametrize("what", ["scores", "judgments"])
@pytest.mark.parametrize("fmt", ["jsonl", "parquet"])
def test_keeps_text_as_it_is_where_nothing_acts_on_it(work: Path, what: str, fmt: str) -> None:
    robin("export", "r", "--what", what, "-o", f"{what}.{fmt}", cwd=work, exits=0)
    path = work / f"{what}.{fmt}"
    ids = (
        [json.loads(line)["pair_id"] for line in path.read_text(encoding="utf-8").split("\n")[:-1]]
        if fmt == "jsonl"
        else list(pd.read_parquet(path)["pair_id"])
    )
    assert {
        '=HYPERLINK("http://evil.example","click")',
        "\x1b[2J\x1b[H",
        "../../../../etc/passwd",
        "a\x00b",
    } <= set(ids)


def test_makes_no_file_where_an_id_points(work: Path) -> None:
    names = {path.name for path in (work / "r").rglob("*")}
    assert names == {
        *(
            "manifest.json",
            "pairs.parquet",
            "judgments",
            "00001.parquet",
            "state.parquet",
            "journal.jsonl",
        ),
        "lock",
    }
