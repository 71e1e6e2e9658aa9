"""A history of builds: what a series comes to, and a file that several builds, interrupts, spreadsheets and strangers touch."""

from __future__ import annotations

import csv
from dataclasses import replace
from multiprocessing.pool import ThreadPool
from pathlib import Path

import pytest

from robin_cli.model.errors import InputError
from robin_cli.storage.history import ALARM, Build, Series, added

FIRST = Build(
    "r" + 16 * "0",
    "runs/0",
    "2026-11-25T10:00:00+00:00",
    "m",
    "mean(style)>=3 (1 to 5)",
    40,
    3.5,
    0.5,
)


def build(number: int, e: float = 0.5, **known: object) -> Build:
    return replace(FIRST, **{"build": f"r{number:016x}", "run": f"runs/{number}", "e": e} | known)  # type: ignore[arg-type]


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def series_of(path: Path, evidence: list[float]) -> list[Series]:
    return [added(path, build(number, e)) for number, e in enumerate(evidence)]


def test_the_evidence_of_a_series_is_one_more_than_before_times_that_of_the_build(
    tmp_path: Path,
) -> None:
    found = series_of(tmp_path / "h.csv", [0.5, 3.0, 0.1, 20.0, 19.0, 0.001, 1000.0])
    r = [0.5]
    for e in (3.0, 0.1, 20.0, 19.0, 0.001, 1000.0):
        r.append((r[-1] + 1) * e)
    assert [each.last.evidence for each in found] == pytest.approx(r)
    assert r[3] < ALARM <= r[4]
    verdicts = ["pass", "pass", "pass", "pass", "drifting", "drifting", "fail"]
    assert (
        [each.last.verdict for each in found]
        == verdicts
        == [row["verdict"] for row in rows(tmp_path / "h.csv")]
    )
    assert [each.alarm for each in found] == [None] * 4 + [4] * 3
    assert [float(row["evidence"]) for row in rows(tmp_path / "h.csv")] == pytest.approx(
        r, rel=1e-5
    )


def test_a_run_counts_once_and_by_its_newest_numbers(tmp_path: Path) -> None:
    path = tmp_path / "h.csv"
    series_of(path, [0.5, 3.0])
    before = path.read_bytes()
    again = added(path, build(0, 0.5, gated_at="2027-01-01T00:00:00+00:00"))
    assert path.read_bytes() == before
    assert (len(again.builds), again.now) == (2, 0)
    assert again.last.evidence == pytest.approx(4.5)
    more = added(path, build(0, 2.0, n_prompts=80))
    assert path.read_bytes().startswith(before)
    assert [each.evidence for each in more.builds] == pytest.approx([2.0, 9.0])
    assert len(added(path, build(2)).builds) == 3


def test_builds_at_once_all_count(tmp_path: Path) -> None:
    path = tmp_path / "h.csv"
    with ThreadPool(8) as pool:
        pool.map(lambda number: added(path, build(number)), range(24))
    assert sorted(row["build"] for row in rows(path)) == [f"r{number:016x}" for number in range(24)]
    assert len(added(path, build(0)).builds) == 24


@pytest.mark.parametrize("left", ["one", "head", "tail", "nothing"])
def test_goes_on_behind_a_build_that_was_interrupted_as_it_wrote(tmp_path: Path, left: str) -> None:
    path = tmp_path / "h.csv"
    series_of(path, [0.5, 3.0])
    whole = path.read_bytes()
    starts = whole.index(b"r0000000000000001")
    for cut in {
        "one": range(starts, len(whole) - 1),
        "head": range(1, 60),
        "tail": [len(whole) - 1],
        "nothing": [0],
    }[left]:
        path.write_bytes(whole[:cut])
        added(path, build(1, 3.0))
        text = path.read_bytes()
        assert len(text.splitlines()) == (2 if left in {"head", "nothing"} else 3), cut
        assert text.endswith(b"\n") or left == "tail"
        assert [row["build"] for row in rows(path)][-1] == f"r{1:016x}"


@pytest.mark.parametrize("change", ["crlf", "mark", "bare end"])
def test_reads_what_a_spreadsheet_made_of_it(tmp_path: Path, change: str) -> None:
    path = tmp_path / "h.csv"
    series_of(path, [0.5, 3.0])
    text = path.read_bytes()
    changed = {
        "crlf": text.replace(b"\n", b"\r\n"),
        "mark": b"\xef\xbb\xbf" + text,
        "bare end": text.rstrip(b"\n"),
    }
    path.write_bytes(changed[change])
    assert added(path, build(2, 2.0)).last.evidence == pytest.approx(11.0)
    assert len(added(path, build(2, 2.0)).builds) == 3


LINE = "r0000000000000009,runs/9,2026-11-25T10:00:00+00:00,m,mean(style)>=3 (1 to 5),40,3.5,0.5,0.5,pass"


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("hello", "h.csv:3: not a line that robin gate writes; remove it, or name another file"),
        ("", "h.csv:3: not a line"),
        (LINE.replace("0.5,pass", "nan,pass"), "h.csv:3: not a line"),
        (LINE.replace(",40,", ",-1,"), "h.csv:3: not a line"),
        (LINE.replace("pass", "won"), "h.csv:3: not a line"),
        (LINE.replace("3.5", "1e999"), "h.csv:3: not a line"),
        (LINE + ",more", "h.csv:3: not a line"),
        (
            LINE.replace(">=3 ", ">=4 "),
            "the requirement of this history is mean(style)>=4 (1 to 5), and of this build mean",
        ),
        (
            LINE.replace(",m,", ",n,"),
            "h.csv:3: the judge of this history is n, and of this build m; name another file",
        ),
        ('"' + "x" * 200_000, "h.csv:3: not a line"),
        ("\x00", "h.csv:3: not a line"),
    ],
)
def test_says_which_line_is_not_its_own(tmp_path: Path, line: str, says: str) -> None:
    path = tmp_path / "h.csv"
    added(path, build(0))
    path.write_text(path.read_text(encoding="utf-8") + line + "\n", encoding="utf-8")
    before = path.read_bytes()
    with pytest.raises(InputError) as refused:
        added(path, build(1))
    assert says in str(refused.value)
    assert len(str(refused.value)) < 400
    assert path.read_bytes() == before


def test_refuses_other_files_pipes_and_folders_and_changes_none(tmp_path: Path) -> None:
    for name, content in (
        ("a.csv", b"pair_id,score\np1,3\n"),
        ("b.csv", b"\xff\xfe\x00"),
        ("c.csv", b"hello"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=r":1: not a line that robin"):
            added(tmp_path / name, build(0))
        assert (tmp_path / name).read_bytes() == content
    with (tmp_path / "large.csv").open("wb") as file:
        file.truncate(2**24 + 1)
    for name, says in (
        ("large.csv", "is longer than"),
        ("", "cannot be written"),
    ):
        with pytest.raises(InputError, match=says):
            added(tmp_path / name, build(0))


def test_no_name_of_a_run_or_a_judge_acts_in_a_spreadsheet_or_breaks_a_line(tmp_path: Path) -> None:
    path = tmp_path / "h.csv"
    odd = build(0, run='=1+1\n"x",\x1b[31m', judge="@m")
    added(path, odd)
    assert len(added(path, odd).builds) == 1
    (row,) = rows(path)
    assert (row["run"], row["judge"]) == ('\'=1+1\\n"x",\\x1b[31m', "'@m")
