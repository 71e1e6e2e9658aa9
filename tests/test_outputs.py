"""Where results go: files, links to files, pipes, devices and descriptors, none of which is ever replaced by something else."""

from __future__ import annotations

import io
import os
import shutil
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import openpyxl
import pandas as pd
import pytest

from robin_cli.data.outputs import output_file
from robin_cli.model.errors import InputError, RobinError
from robin_cli.run.reader import read_run
from robin_cli.run.writer import RunWriter
from robin_cli.show.files import export
from robin_cli.show.outputs import check_output
from robin_cli.show.report.writing import write_report
from robin_cli.stats.scores import score
from tests.conftest import change_manifest, environment, refuses, robin, shared_folder
from tests.run.test_store import PAIRS, judgment, manifest
from tests.show.tables import score_rows


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a finished run, r, of three pairs."""
    folder = tmp_path_factory.mktemp("outputs")
    made = manifest(
        budget=9,
        settings={"base_url": ["http://127.0.0.1:9/v1"], "temperature": 1.0, **manifest().settings},
    )
    with RunWriter.create(folder / "r", made, PAIRS) as store:
        store.append([judgment(number) for number in range(9)])
    return folder


def received(pipe: Path, into: list[bytes]) -> threading.Thread:
    """A reader of ``pipe`` to its end."""
    reader = threading.Thread(target=lambda: into.append(pipe.read_bytes()), daemon=True)
    reader.start()
    return reader


def test_writes_through_a_pipe_that_somebody_reads_in_every_format(work: Path) -> None:
    plain = robin("export", "r", "--format", "csv", cwd=work).stdout
    read: dict[str, Callable[[bytes], int]] = {
        "csv": lambda data: len(pd.read_csv(io.BytesIO(data))),
        "jsonl": lambda data: data.count(b"\n"),
        "parquet": lambda data: len(pd.read_parquet(io.BytesIO(data))),
        "xlsx": lambda data: openpyxl.load_workbook(io.BytesIO(data)).worksheets[0].max_row - 1,
        "html": lambda data: 3 if data.startswith(b"<!doctype html>") else 0,
    }
    for fmt, rows in read.items():
        pipe = work / f"pipe.{fmt}"
        os.mkfifo(pipe)
        into: list[bytes] = []
        reader = received(pipe, into)
        if fmt == "csv":
            robin("export", "r", "-o", pipe, cwd=work, exits=0)
        elif fmt == "html":
            write_report([work / "r"], str(pipe))
        else:
            run = read_run(work / "r")
            export(score_rows(score(run), run), {}, fmt=None, output=str(pipe))
        assert stat.S_ISFIFO(pipe.lstat().st_mode), "the pipe was replaced by a file"
        reader.join(timeout=20)
        assert rows(into[0]) == 3, fmt
        assert fmt != "csv" or into[0].decode() == plain


def test_follows_a_link_that_was_named_to_its_file_and_keeps_permissions(work: Path) -> None:
    (work / "kept.csv").write_text("earlier")
    (work / "kept.csv").chmod(0o640)
    (work / "link.csv").symlink_to("kept.csv")
    (work / "new.csv").symlink_to("made.csv")
    plain = robin("export", "r", cwd=work).stdout
    for link, target in (("link.csv", "kept.csv"), ("new.csv", "made.csv")):
        robin("export", "r", "-o", link, cwd=work, exits=0)
        assert (work / link).is_symlink()
        assert (work / target).read_text() == plain
    assert stat.S_IMODE((work / "kept.csv").stat().st_mode) == 0o640
    assert not [path.name for path in work.iterdir() if path.name.endswith(".tmp")]


def test_writes_nothing_over_what_a_run_or_this_command_is_made_of(work: Path) -> None:
    kept = {path: path.read_bytes() for path in (work / "r").rglob("*") if path.is_file()}
    (work / "to.json").symlink_to("r/manifest.json")
    for name in (*kept, work / "to.json", work / "r/judgments/00009.parquet"):
        for write in (
            lambda to: check_output("csv", to),
            lambda to: write_report([work / "r"], to),
        ):
            refuses(RobinError, r"a run is kept in it\); name another file", write, str(name))
    assert {path: path.read_bytes() for path in (work / "r").rglob("*") if path.is_file()} == kept
    pairs = '{"prompt": "p", "response": "r"}\n'
    (work / "pairs.jsonl").write_text(pairs)
    for data in ("pairs.jsonl", "p*.jsonl"):
        done = robin(
            *(
                *("judge", data, "-a", "helpfulness", "-b", "1", "--model", "m", "--base-url"),
                "http://127.0.0.1:9/v1",
            ),
            *("-o", "./pairs.jsonl"),
            cwd=work,
            exits=2,
        )
        assert (
            "./pairs.jsonl: is read in this command, and would be lost; name another file"
            in done.stderr
        )
    (work / "of-it").mkdir()
    shutil.copytree(work / "r", work / "of-it" / "r")
    for source in (str(work / "pairs.jsonl"), "pairs.jsonl"):
        change_manifest(work / "of-it" / "r", lambda run: run["data"].update(source=source))  # noqa: B023
        for command in ("export", "report"):
            for folder, output in ((work, "./pairs.jsonl"), (work / "of-it", "../pairs.jsonl")):
                done = robin(command, str(work / "of-it" / "r"), "-o", output, cwd=folder)
                assert (done.returncode, f"{output}: is read in this command" in done.stderr) == (
                    2,
                    True,
                ), done.stderr
    assert (work / "pairs.jsonl").read_text() == pairs


def test_says_before_a_call_is_made_where_it_cannot_write(tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "loop.csv").symlink_to("loop.csv")
    (tmp_path / "there.csv").write_text("earlier")
    os.mkfifo(tmp_path / "pipe.csv")
    refused = {
        "folder.csv": r"\(it is a folder\); name another file",
        "loop.csv": "Too many levels of symbolic links",
        "no/such.csv": "there is no folder .*; make it, or name another file",
        "/proc/robin.csv": "cannot be written",
        "/dev/fd/99": "cannot be written",
    }
    for name, says in refused.items():
        refuses(InputError, says, check_output, "csv", str(tmp_path / name))
    for name in (
        "there.csv",
        "new.csv",
        "pipe.csv",
    ):  # the pipe has no reader yet: to look must neither wait nor open it
        check_output("csv", str(tmp_path / name))
    assert (tmp_path / "there.csv").read_text() == "earlier"
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "folder.csv",
        "loop.csv",
        "pipe.csv",
        "there.csv",
    ]


def test_finds_as_anyone_where_it_may_not_write() -> None:
    code = (
        "import os, sys\n"
        "from robin_cli.show.outputs import check_output\n"
        "from robin_cli.model.errors import InputError\n"
        "if not os.geteuid(): os.setuid(65534)\n"
        "for name in sys.argv[1:]:\n"
        "    try: check_output('csv', name)\n"
        "    except InputError as error: print(error)\n"
    )
    with shared_folder() as folder:
        (folder / "locked.csv").write_text("earlier")
        (folder / "locked.csv").chmod(0o444)
        command = [sys.executable, "-c", code, str(folder / "locked.csv"), "/nobody.csv"]
        done = subprocess.run(command, capture_output=True, text=True, env=environment())
    assert done.stdout.count("cannot be written (Permission denied); name another file") == 2, (
        done.stderr
    )


def test_leaves_no_half_of_a_file(tmp_path: Path) -> None:
    target = tmp_path / "scores.csv"
    target.write_text("earlier")
    with pytest.raises(TypeError), output_file(target) as file:
        file.writelines([b"half", None])  # type: ignore[list-item]
    assert target.read_text() == "earlier"
    with output_file(target) as file:
        file.write(b"whole")
    assert target.read_text() == "whole"
    assert list(tmp_path.iterdir()) == [target]


def test_draws_to_a_pipe_and_says_before_it_simulates_that_it_cannot(tmp_path: Path) -> None:
    (tmp_path / "pool.csv").write_text("pair_id,rating\n" + "a,1\na,2\nb,3\nb,1\n" * 3)
    simulate = ["simulate", "pool.csv", "--budget", "20", "--schedulers", "uniform", "--runs", "2"]
    os.mkfifo(tmp_path / "pipe.png")
    into: list[bytes] = []
    reader = received(tmp_path / "pipe.png", into)
    robin(*simulate, "--plot", "pipe.png", cwd=tmp_path, exits=0)
    assert stat.S_ISFIFO((tmp_path / "pipe.png").lstat().st_mode)
    reader.join(timeout=20)
    assert into[0].startswith(b"\x89PNG")
    refused = robin(*simulate, "--plot", "no/such.png", cwd=tmp_path, exits=2)
    assert "name another file" in refused.stderr
    assert not refused.stdout
