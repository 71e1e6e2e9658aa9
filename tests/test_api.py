"""robin from Python, as a notebook or a script uses it: over real HTTP, with no subprocess of its own."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args, get_type_hints

import numpy as np
import pandas as pd
import pytest

import robin_cli
from robin_cli import Pair, RobinError, Run, judge, judge_async, load_pairs, open_run
from robin_cli.api.keywords import JudgeSettings
from robin_cli.settings.table import TABLE
from tests.conftest import DEMO, REPLAY_MODEL, refuses, robin, write_pairs
from tests.judges.wire import completion, serving


def settings(url: str, run: Path, **more: Any) -> dict[str, Any]:
    return {
        "attribute": "helpfulness",
        "base_url": url,
        "model": REPLAY_MODEL,
        "run": run,
        "quiet": True,
        **more,
    }


def test_a_run_from_python_is_the_run_of_the_command_line(tmp_path: Path, replay_url: str) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 5)

    run = judge(data, budget=40, seed=3, concurrency=1, **settings(replay_url, tmp_path / "mine"))
    command: list[str | Path] = [
        *("judge", data, "--budget", "40", "-a", "helpfulness", "--base-url", replay_url),
        *("--model", REPLAY_MODEL),
    ]
    robin(*command, "--seed", "3", "--concurrency", "1", "--run", "theirs", cwd=tmp_path, exits=0)
    theirs = open_run(tmp_path / "theirs")

    pd.testing.assert_frame_equal(run.scores(), theirs.scores())
    assert run.scores()["n"].sum() == 40
    assert list(run.scores(with_text=True).columns[-2:]) == ["prompt", "response"]
    assert len(run.judgments()) == 40
    assert run.status()["state"] == "finished"
    assert run.status() == json.loads(robin("status", str(run.path), "--json", cwd=tmp_path).stdout)


def test_gives_pairs_whose_further_columns_are_dicts_that_json_takes(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 2)
    data.write_text(
        "".join(
            json.dumps({**json.loads(line), "n": 7}) + "\n"
            for line in data.read_text().splitlines()
        )
    )

    pairs = load_pairs(data)

    assert [json.loads(json.dumps(pair.columns))["n"] for pair in pairs] == [7, 7]


def test_takes_files_frames_and_pairs_and_goes_on_with_the_same(
    tmp_path: Path, replay_url: str
) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 5)
    frame = pd.read_json(data, lines=True)
    pairs = load_pairs(data)

    assert load_pairs(frame) == pairs
    assert (
        load_pairs(frame.rename(columns={"prompt": "q"}), columns={"prompt": "q"}, limit=2)
        == pairs[:2]
    )
    first = judge(frame, budget=25, **settings(replay_url, tmp_path / "r"))
    again = judge(pairs, budget=30, **settings(replay_url, tmp_path / "r"))

    assert first.path == again.path
    assert len(again.judgments()) == 30
    assert len(again.resume(budget=40, quiet=True).judgments()) == 40
    page = again.report(show="prompt").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert '"name":"prompt","kind":"text"' in page
    with pytest.raises(RobinError, match="topics"):
        again.report(show=["topics"])


TWO = [Pair("a", "p", "r"), Pair("b", "p", "s")]


def test_works_inside_a_running_event_loop(tmp_path: Path, replay_url: str) -> None:
    async def notebook() -> Run:
        return judge(TWO, budget=20, **settings(replay_url, tmp_path / "r"))

    assert asyncio.run(notebook()).scores()["n"].sum() == 20


def test_works_beside_other_tasks_and_keeps_everything_when_it_is_cancelled(tmp_path: Path) -> None:
    answers = 0

    async def rate(_messages: object) -> str:
        nonlocal answers
        answers += 1
        if answers == 15:
            cancelled.set()
            await asyncio.Event().wait()
        return f"Rating: {answers % 5}"

    rate.name = "rate"  # type: ignore[attr-defined]

    async def work() -> Run:
        given: Any = {
            "attribute": "helpfulness",
            "judge": rate,
            "run": tmp_path / "r",
            "quiet": True,
        }
        first = asyncio.ensure_future(judge_async(TWO, budget=20, concurrency=1, **given))
        await cancelled.wait()
        first.cancel()  # the call under way may finish
        await asyncio.sleep(0)
        first.cancel()  # it is dropped
        with pytest.raises(asyncio.CancelledError):
            await first
        assert len(open_run(tmp_path / "r").judgments()) == 14
        assert open_run(tmp_path / "r").status()["in_flight_at_stop"] == 1
        assert len(asyncio.all_tasks()) == 1
        return await judge_async(TWO, budget=20, concurrency=1, **given)

    cancelled = asyncio.Event()
    assert asyncio.run(work()).scores()["n"].sum() == 20


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"bugdet": 5}, 'no setting "bugdet"; did you mean "budget"?'),
        ({"attribute": "helpfullness"}, 'did you mean "helpfulness"?'),
        ({"budget": 1}, "reaches 1 of 2 pairs once"),
        ({"temperature": 9.0}, "between 0 and 2"),
        ({"model": None}, "--model is missing"),
        ({"config": "nowhere.toml"}, "no such file"),
        ({"budget": "100"}, "budget must be a whole number, not '100'"),
        ({"budget": 100.5}, "budget must be a whole number, not 100.5"),
        ({"base_url": 123}, "--base-url must be"),
        ({"temperature": "1"}, "temperature must be a number"),
    ],
)
def test_says_what_is_wrong_as_the_command_line_does(
    tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    given = settings("http://127.0.0.1:9/v1", tmp_path / "r", budget=20) | change

    refuses(
        RobinError,
        said.replace("?", r"\?"),
        judge,
        [Pair("a", "p", "r"), Pair("b", "p", "s")],
        **given,
    )
    assert not list(tmp_path.iterdir())


def test_refuses_a_frame_that_no_file_could_hold() -> None:
    with pytest.raises(RobinError, match="DataFrame: a column cannot be taken as it is"):
        load_pairs(pd.DataFrame({"prompt": ["p", 3], "response": ["r", "s"]}))
    refuses(RobinError, 'no field "response"', load_pairs, pd.DataFrame({"prompt": ["p"]}))
    with pytest.raises(RobinError, match="columns='prompt=q': give a dict"):
        load_pairs(pd.DataFrame({"q": ["p"], "response": ["r"]}), columns="prompt=q")  # type: ignore[arg-type]


def test_refuses_pairs_that_are_not_told_apart(tmp_path: Path) -> None:
    with pytest.raises(RobinError, match='two pairs have the id "a"'):
        judge(
            [Pair("a", "p", "r"), Pair("a", "p", "s")],
            budget=20,
            **settings("http://127.0.0.1:9/v1", tmp_path / "r"),
        )
    refuses(RobinError, "not a run directory", open_run, tmp_path)


def test_says_how_to_write_a_pair_where_data_holds_dicts(tmp_path: Path) -> None:
    row: Any = {"prompt": "p", "response": "r"}
    says = r"a dict; write robin_cli\.Pair\(pair_id=…, prompt=…, response=…\), or pass a file or a frame"
    given = settings("http://127.0.0.1:9/v1", tmp_path / "r")
    refuses(RobinError, says, judge, [row], budget=20, **given)


def test_takes_numbers_of_numpy(tmp_path: Path, replay_url: str) -> None:
    pairs = [Pair("a", "p", "r"), Pair("b", "p", "s")]

    run = judge(
        pairs,
        budget=np.int64(10),  # type: ignore[arg-type]  # as it comes out of a frame
        **settings(replay_url, tmp_path / "r", temperature=np.float64(0.5)),
    )

    assert run.status()["budget"] == 10


def test_settings_in_a_file_that_are_about_data_hold(tmp_path: Path, replay_url: str) -> None:
    (tmp_path / "cfg.toml").write_text(
        'limit = 3\ncolumns = { prompt = "prompt" }\n', encoding="utf-8"
    )
    given = settings(replay_url, tmp_path / "r", config=str(tmp_path / "cfg.toml"))

    run = judge(write_pairs(tmp_path / "pairs.jsonl", 9), budget=12, **given)

    assert len(run.scores()) == 3
    refuses(RobinError, "give it to load_pairs", judge, [Pair("a", "p", "r")], budget=12, **given)


def test_reads_columns_limit_and_bad_rows_of_whatever_holds_the_pairs(
    tmp_path: Path, replay_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"q": f"Name {k} colours.", "answer": f"Blue, and {k}."} for k in range(5)]
    rows.insert(1, {"q": "", "answer": "none was asked for"})
    file = tmp_path / "bad.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    columns = {"prompt": "q", "response": "answer"}
    asked = settings(replay_url, tmp_path, budget=9, quiet=False)
    read: dict[str, Any] = {"columns": columns, "skip_bad_rows": True, "limit": 3}

    pairs = load_pairs(file, **read | {"limit": None})
    sources: list[tuple[str, Any, dict[str, Any]]] = [
        ("path", file, read),
        ("text", str(file), read | {"columns": "prompt=q,response=answer"}),
        ("frame", pd.DataFrame(rows), read),
        ("pairs", pairs, {"limit": np.int64(3), "skip_bad_rows": True}),
    ]
    for name, data, given in sources:
        run = judge(data, **asked | given | {"run": tmp_path / name})
        assert list(run.scores()["pair_id"]) == [pair.pair_id for pair in pairs[:3]], name
        assert ("bad row" in capsys.readouterr().err) == (name != "pairs"), name
        # the same settings: it goes on
        again = judge(data, **asked | given | {"run": tmp_path / name, "budget": 12})
        assert again.status()["spent"] == 12
        capsys.readouterr()

    wrong: list[tuple[Any, dict[str, Any], str]] = [
        (file, {"columns": columns}, "bad.jsonl:2: "),
        (file, {"columns": {**columns, "id": 3}}, "columns .*must be names as text"),
        (pairs, {"columns": columns}, "is about data that robin reads; give it to load_pairs"),
        (pairs, {"limit": 0}, "limit 0: must be a number of pairs, at least 1"),
    ]
    for data, given, said in wrong:
        refuses(RobinError, said, judge, data, **asked | given | {"run": tmp_path / "refused"})
    assert not (tmp_path / "refused").exists()


def test_an_interrupt_keeps_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def answer(number: int, _: object) -> dict[str, Any]:
        if number == 40:
            os.kill(os.getpid(), signal.SIGINT)
        return completion("Rating: 3")

    monkeypatch.chdir(tmp_path)
    with serving(answer) as wire:
        # a call costs a tenth of a cent, and at most 2.5 cents
        price = {"price_in": 10.0, "price_out": 0.0, "max_cost": 0.2}
        given = settings(wire.url, Path("r"), quiet=False, concurrency=4, **price)
        with pytest.raises(KeyboardInterrupt):
            judge(DEMO / "pairs.jsonl", budget=5000, **given)

    printed = capsys.readouterr().err.splitlines()
    assert printed[-1].endswith("robin resume r"), "the limit of money was not what ended it"
    kept = open_run(tmp_path / "r").status()
    assert kept["state"] == "stopped"
    assert 35 < kept["spent"] < 5000
    assert kept["in_flight_at_stop"] == 0


def test_a_run_can_be_watched_while_another_thread_works_on_it(tmp_path: Path) -> None:
    allowed = threading.Semaphore(0)

    def rate(_messages: object) -> str:
        allowed.acquire()
        return "Rating: 3"

    given = {
        "attribute": "helpfulness",
        "budget": 60,
        "judge": rate,
        "run": tmp_path / "r",
        "quiet": True,
    }
    worker = threading.Thread(
        daemon=True, target=judge, args=(str(DEMO / "pairs.jsonl"),), kwargs=given
    )
    worker.start()
    for answered in (20, 40, 60):
        allowed.release(20)
        deadline = time.monotonic() + 60
        while (
            not (tmp_path / "r" / "manifest.json").exists()
            or len(open_run(tmp_path / "r").judgments()) < answered
        ):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert len(open_run(tmp_path / "r").judgments()) == answered
    worker.join()


def test_names_what_is_public_and_loads_it_late() -> None:
    code = "import sys, robin_cli; assert 'pandas' not in sys.modules and 'pyarrow' not in sys.modules; print(dir(robin_cli))"
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout

    assert shown.strip() == str(sorted(robin_cli.__all__))
    for name in robin_cli.__all__:
        assert getattr(robin_cli, name) is not None
    with pytest.raises(AttributeError):
        _ = robin_cli.nothing


def test_its_keywords_are_the_settings() -> None:
    hints = get_type_hints(JudgeSettings)
    there = {each.name: each for each in TABLE.values() if each.in_python and each.name != "judge"}
    assert list(hints) == list(there)
    for name, each in there.items():
        kinds = {part for hint in get_args(hints[name]) for part in (hint, *get_args(hint))}
        assert (
            set(each.choices) <= kinds
            if each.choices
            else each.kind is Mapping or each.kind in kinds
        ), name


def test_gates_and_compares_a_run(tmp_path: Path, replay_url: str) -> None:
    pairs = [
        Pair(f"{system}{k}", f"p{k}", f"{system} {k}", columns={"system": system})
        for k in range(8)
        for system in "ab"
    ]
    run = judge(pairs, budget=64, **settings(replay_url, tmp_path / "r"))

    found = run.gate(["mean(helpfulness)>=0.1", "mean(helpfulness)>=3.9"])
    assert found["verdict"].tolist() == ["pass", "fail"]
    assert run.gate("mean(helpfulness)>=0.1").shape[0] == 1
    refuses(
        RobinError,
        "error_rate=2: lies between 0 and 1",
        run.gate,
        "mean(helpfulness)>=1",
        error_rate=2.0,
    )
    differences = run.compare(by="system")
    assert differences[["a", "b"]].to_numpy().tolist() == [["a", "b"]]
