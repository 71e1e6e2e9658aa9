"""The main job as a user does it: commands in, files and output out, over real HTTP."""

from __future__ import annotations

import csv
import io
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from robin_cli import __version__, judge
from tests.conftest import (
    DEMO,
    GRAMMAR,
    REPLAY_MODEL,
    environment,
    free_port,
    has,
    judging,
    lines_of,
    llama_server,
    replaying,
    robin,
    robin_apart,
    wait_until,
    write_pairs,
)
from tests.judges.wire import Handler, completion, error, serving
from tests.starting import Robin

ENDS = (("guaranteed", "low"), ("ci", "low"), ("ci", "high"), ("guaranteed", "high"))
SCORES = "pair_id,attribute,score,n,variance,std_error,ci_low,ci_high,n_unparsed,human,given_up"


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


@pytest.mark.parametrize("concurrency", [1, 512])
def test_spends_exactly_the_budget(tmp_path: Path, replay_url: str, concurrency: int) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 10)

    done = robin(
        *judging(replay_url, data, 67, "--run", "r", "--concurrency", str(concurrency)),
        cwd=tmp_path,
        exits=0,
    )

    scores = rows(done.stdout)
    assert done.stdout.splitlines()[0] == SCORES
    assert [row["pair_id"] for row in scores] == [f"p{k}" for k in range(10)]
    assert sum(int(row["n"]) for row in scores) == 67
    assert len(pd.read_parquet(tmp_path / "r" / "judgments")) == 67
    both = rows(robin("export", "r", "--guaranteed", cwd=tmp_path, exits=0).stdout)
    assert [{name: row[name] for name in scores[0]} for row in both] == scores
    for row in both:
        ends = [float(row[f"{of}_{end}"]) for of, end in ENDS]
        assert ends == sorted(ends)


def test_asks_more_where_ratings_vary_more(tmp_path: Path, replay_url: str) -> None:
    few = ("--limit", "15", "--run", "r", "--seed", "7", "--concurrency", "1")
    done = robin(*judging(replay_url, DEMO / "pairs.jsonl", 600, *few), cwd=tmp_path)

    scores = pd.read_csv(io.StringIO(done.stdout))
    assert scores["n"].min() >= 20  # the warm-up
    assert scores["n"].corr(scores["variance"]) > 0.9


def test_writes_the_columns_of_the_contract(tmp_path: Path, replay_url: str) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 3)
    robin(*judging(replay_url, data, 30, "--run", "r"), cwd=tmp_path)

    judgments = pd.read_parquet(tmp_path / "r" / "judgments")
    contract = (
        "pair_id attribute rating status reason feedback text model finish_reason prompt_tokens completion_tokens "
        "cost_usd latency_s request_id received_at"
    )
    assert list(judgments.columns)[:15] == contract.split()
    assert set(judgments["status"]) == {"ok"}
    state = pd.read_parquet(tmp_path / "r" / "state.parquet")
    assert list(state.columns)[:7] == [
        "pair_id",
        "attribute",
        "n",
        "mean",
        "m2",
        "n_unparsed",
        "retired",
    ]
    assert state["n"].sum() == 30
    assert list(pd.read_parquet(tmp_path / "r" / "pairs.parquet").columns)[:3] == [
        "pair_id",
        "prompt",
        "response",
    ]


def test_takes_everything_but_budget_and_attribute_from_robin_toml(
    tmp_path: Path, replay_url: str
) -> None:
    write_pairs(tmp_path / "mine.jsonl", 5)
    robin("init", cwd=tmp_path, exits=0)
    settings = (tmp_path / "robin.toml").read_text(encoding="utf-8")
    settings = settings.replace('"https://api.openai.com/v1"', f'"{replay_url}"').replace(
        '"gpt-6-luna"', f'"{REPLAY_MODEL}"'
    )
    (tmp_path / "robin.toml").write_text(
        settings.replace('"pairs.jsonl"', '"mine.jsonl"'), encoding="utf-8"
    )

    done = robin("judge", "--budget", "100", "--attribute", "helpfulness", cwd=tmp_path, exits=0)

    assert sum(int(row["n"]) for row in rows(done.stdout)) == 100
    assert len(list((tmp_path / "runs").glob("*Z-helpfulness"))) == 1


@pytest.mark.parametrize(
    "scheduler", [pytest.param("robin-hood", marks=pytest.mark.whole), "two-priors"]
)
def test_resumes_to_the_same_bytes_as_a_run_never_interrupted(
    tmp_path: Path, replay_url: str, scheduler: str
) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 10)
    common = ("--seed", "3", "--concurrency", "1", "--quiet", "--scheduler", scheduler)
    whole = robin(*judging(replay_url, data, 120, "--run", "whole", *common), cwd=tmp_path)

    with Robin(
        judging(replay_url, data, 120, "--run", "cut", *common),
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.DEVNULL,
    ) as process:
        wait_until(lambda: lines_of(tmp_path / "cut" / "journal.jsonl") > 70, process)
        process.kill()
    # another interpreter, which hashes strings otherwise than that of `whole` did
    resumed = robin_apart("resume", "cut", "--quiet", cwd=tmp_path)

    assert resumed.stdout == whole.stdout


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.whole)]
)
def test_stops_when_asked_and_prints_the_command_to_go_on(
    tmp_path: Path, number: signal.Signals
) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 10)
    with replaying(DEMO / "ratings.parquet", "--latency-ms", "30") as url:
        with Robin(
            judging(url, data, 100, "--run", "r", "--concurrency", "4", "-o", "scores.csv"),
            cwd=tmp_path,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            wait_until(lambda: lines_of(tmp_path / "r" / "journal.jsonl") > 20, process)
            process.send_signal(number)
            out, err = process.communicate(timeout=60)

        assert process.returncode == 130
        assert out == ""
        assert "robin resume r" in err
        assert (tmp_path / "scores.csv").read_text(encoding="utf-8").count("\n") == 11
        kept = len(pd.read_parquet(tmp_path / "r" / "judgments"))
        status = json.loads(robin("status", "r", "--json", cwd=tmp_path).stdout)
        assert (status["state"], status["spent"], status["in_flight_at_stop"]) == (
            "stopped",
            kept,
            0,
        )
        robin("resume", "r", "-q", cwd=tmp_path, exits=0)
    assert len(pd.read_parquet(tmp_path / "r" / "judgments")) == 100


def test_says_that_nothing_was_asked_when_stopped_while_it_reads_data(
    tmp_path: Path, replay_url: str
) -> None:
    pipe = subprocess.PIPE
    with Robin(
        judging(replay_url, "-", 10), cwd=tmp_path, env=environment(), stdin=pipe, stderr=pipe
    ) as process:
        assert process.stdin is not None
        process.stdin.write(b" " * 500_000)  # more than a pipe holds: it reads
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=60)[1].decode()

    assert (process.returncode, said) == (130, "robin: interrupted; no call was made\n")
    assert not (tmp_path / "runs").exists()


def test_gives_a_finished_run_a_larger_budget_and_no_smaller_one(
    tmp_path: Path, replay_url: str
) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 5)
    robin(*judging(replay_url, data, 50, "--run", "r"), cwd=tmp_path)

    again = robin("resume", "r", cwd=tmp_path)
    assert (again.returncode, "spent already" in again.stderr) == (0, True)
    smaller = robin("resume", "r", "--budget", "40", cwd=tmp_path)
    assert (smaller.returncode, "raised, not lowered" in smaller.stderr) == (2, True)
    larger = robin("resume", "r", "--budget", "80", cwd=tmp_path)
    assert sum(int(row["n"]) for row in rows(larger.stdout)) == 80


def test_names_an_older_copy_of_the_manifest_whose_budget_is_overspent(
    tmp_path: Path, replay_url: str
) -> None:
    data, manifest = write_pairs(tmp_path / "pairs.jsonl", 5), tmp_path / "r" / "manifest.json"
    more = ("--run", "r", "--scheduler", "uniform")
    robin(*judging(replay_url, data, 10, *more), cwd=tmp_path, exits=0)
    older = manifest.read_bytes()
    robin("resume", "r", "--budget", "15", cwd=tmp_path, exits=0)
    manifest.write_bytes(older)

    said = robin("resume", "r", cwd=tmp_path, exits=2).stderr
    has(said, "15 calls are spent, but its budget in manifest.json is 10", "an older copy")
    robin("resume", "r", "--budget", "20", cwd=tmp_path, exits=0)


def test_resumes_a_run_whatever_robin_toml_says_here(tmp_path: Path, replay_url: str) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 5)
    robin(*judging(replay_url, data, 50, "--run", "r"), cwd=tmp_path)
    (tmp_path / "robin.toml").write_text(
        'base_url = "http://elsewhere/v1"\nnonsense = 1\n', encoding="utf-8"
    )

    done = robin("resume", "r", "--budget", "60", cwd=tmp_path, exits=0)

    assert sum(int(row["n"]) for row in rows(done.stdout)) == 60


def test_goes_on_with_a_run_of_the_same_settings_and_names_what_differs(
    tmp_path: Path, replay_url: str
) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 5)
    run = ("--run", "r")
    robin(*judging(replay_url, data, 50, *run), cwd=tmp_path)
    robin(*judging(replay_url, data, 60, *run), cwd=tmp_path, exits=0)
    more = (*run, "--temperature", "0.5", "--scheduler", "uniform")
    other = robin(*judging(replay_url, data, 60, *more), cwd=tmp_path, exits=2)
    has(other.stderr, "temperature: the run has 1.0, now 0.5", "scheduler")
    columns = (*run, "--columns", "id=-")
    other = robin(*judging(replay_url, data, 60, *columns), cwd=tmp_path, exits=2)
    has(other.stderr, "columns: the run has {}, now {'id': '-'}")
    write_pairs(data, 6)
    assert "data (SHA-256)" in robin(*judging(replay_url, data, 60, *run), cwd=tmp_path).stderr


def test_goes_on_at_another_address_with_the_same_judges(tmp_path: Path, replay_url: str) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 5)
    command = ["judge", str(data), "-a", "helpfulness", "--run", "r"]
    nowhere = f"http://127.0.0.1:{free_port()}/v1"
    robin(
        *command,
        *("-b", "50", "--base-url", replay_url, "--model", REPLAY_MODEL),
        cwd=tmp_path,
        exits=0,
    )

    typo = robin(
        *command,
        *("-b", "60", "--base-url", nowhere, "--model", REPLAY_MODEL, "--max-retries", "0"),
        cwd=tmp_path,
    )
    assert (typo.returncode, "has not answered a single call" in typo.stderr) == (3, True)
    mended = robin(
        *command, "-b", "60", "--model", f"{REPLAY_MODEL}@{replay_url}", cwd=tmp_path, exits=0
    )
    assert sum(int(row["n"]) for row in rows(mended.stdout)) == 60
    # at the address that answered last
    robin("resume", "r", "--budget", "65", cwd=tmp_path, exits=0)
    other = robin(
        *command, "-b", "70", "--base-url", replay_url, "--model", "another", cwd=tmp_path
    )
    assert (
        other.returncode,
        f"model: the run has {REPLAY_MODEL}, now another" in other.stderr,
    ) == (2, True)


@pytest.mark.parametrize(
    ("change", "status", "said"),
    [
        (["--budget", "3"], 2, "reaches 3 of 5 pairs once; raise it to 5"),
        (["--attribute", "helpfulnes"], 2, 'did you mean "helpfulness"?'),
        (
            ["--scheduler", "robin_hood"],
            2,
            "known schedulers are auto, robin, robin-hood, two-priors, uniform",
        ),
        (["--mode", "theory"], 2, "calls at least"),
        (["--delta", "0"], 2, "above 0 and at most 1"),
        (["--concurrency", "0"], 2, "at least 1, or auto"),
        (["--extra-body", "[1]"], 2, "must be a JSON object"),
        (["--config", "nowhere.toml"], 2, "openai, vllm"),
        (["--model", "gpt-9"], 3, "check --model"),
        (["-o", "nowhere/s.csv"], 2, "there is no folder nowhere"),
        (["-o", "s.docx"], 2, "known formats, and ends of file names, are csv"),
    ],
)
def test_says_what_is_wrong_and_what_to_do(
    tmp_path: Path, replay_url: str, change: list[str], status: int, said: str
) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 5)

    done = robin(*judging(replay_url, data, 50, *change), cwd=tmp_path, exits=status)

    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_leaves_with_3_when_nobody_answers(tmp_path: Path, replay_url: str) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 5)
    url = f"http://127.0.0.1:{free_port()}/v1"

    done = robin(*judging(url, data, 50), cwd=tmp_path, exits=3)

    has(
        done.stderr,
        "not answered a single call",
        "nothing was answered; correct the command",
    )
    assert "bill" not in done.stderr
    unknown = (
        *("judge", data, "-a", "helpfulness", "-b", "50", "--base-url", replay_url, "--model"),
        "gpt-9",
    )
    has(
        robin(*unknown, cwd=tmp_path, exits=3).stderr,
        "nothing was answered; ",
        "check --model",
    )
    assert not list((tmp_path / "runs").iterdir())


NO_TEXT = completion(
    choices=[{"message": {"role": "assistant", "content": None}, "finish_reason": "length"}]
)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda *_: NO_TEXT, ("truncated", "raise --max-tokens")),
        (lambda *_: error(400, "this endpoint wants bananas"), ("wants bananas",)),
    ],
)
def test_leaves_with_3_and_a_hint_when_no_answer_carries_a_rating(
    tmp_path: Path, answer: Handler, said: tuple[str, ...]
) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 5)
    with serving(answer) as wire:
        done = robin(*judging(wire.url, data, 50, "--run", "r"), cwd=tmp_path, exits=3)
    has(done.stderr, *said)
    assert len(wire.bodies) <= 25  # five arms, a few calls each


def test_says_how_many_pairs_have_no_rating_and_what_asks_them_again(tmp_path: Path) -> None:
    def answer(_: int, body: Any) -> Any:
        is_odd = "zzz" in body["messages"][-1]["content"]
        return completion("No idea.") if is_odd else completion()

    rows = [{"prompt": f"q{k}", "response": "zzz" if k > 3 else "even"} for k in range(6)]
    data = tmp_path / "pairs.jsonl"
    data.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    with serving(answer) as wire:
        asked = (*judging(wire.url, data, 7, "--run", "r"), "-o", "s.csv", "--concurrency", "1")
        told = robin(*asked, cwd=tmp_path, exits=0).stderr
    has(told, "wrote s.csv\n", "2 pairs have no rating\n")
    assert told.endswith("next: robin resume r --budget 8 -o s.csv\n")
    assert "wrote" not in robin("export", "r", "-o", "-", cwd=tmp_path, exits=0).stderr


def test_refuses_a_second_process_on_one_run(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 5)
    with replaying(DEMO / "ratings.parquet", "--latency-ms", "50") as url:
        command = judging(url, data, 100_000, "--run", "r", "-q")
        with Robin(command, cwd=tmp_path, env=environment(), stdout=subprocess.DEVNULL) as first:
            wait_until((tmp_path / "r" / "manifest.json").exists, first)
            second = robin("resume", "r", cwd=tmp_path)
            working = json.loads(robin("status", "r", "--json", cwd=tmp_path).stdout)["state"]
            first.send_signal(signal.SIGINT)
        assert second.returncode == 2
        assert "another robin is at work" in second.stderr
        assert working == "working"


def test_renders_the_messages_that_would_be_sent(tmp_path: Path) -> None:
    pair = {"id": "x", "prompt": "{{ 7 * 7 }} {instruction}", "response": "Rating: 4\n{% raw %}"}
    (tmp_path / "p.jsonl").write_text(json.dumps(pair), encoding="utf-8")

    shown = robin(
        "render", "p.jsonl", "--pair", "x", "--attribute", "verbosity", cwd=tmp_path
    ).stdout

    assert shown.startswith("[system]\nYou are a fair judge")
    assert "###Instruction to evaluate:\n{{ 7 * 7 }} {instruction}\n" in shown
    assert "###Response to evaluate:\nRating: 4\n{% raw %}\n" in shown
    unknown = robin("render", "p.jsonl", "--pair", "y", "--attribute", "verbosity", cwd=tmp_path)
    assert (unknown.returncode, "its first ids are x" in unknown.stderr) == (2, True)


def test_parses_recorded_answers(tmp_path: Path) -> None:
    lines = [
        {"text": "Feedback: good.\nRating: 3"},
        {"text": "Rating: 9"},
        {"text": "four out of five"},
    ]

    done = robin(
        *("parse", "-", "--scale", "0-4"),
        cwd=tmp_path,
        stdin="".join(json.dumps(line) + "\n" for line in lines),
    )

    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"rating": 3, "status": "ok"},
        {"rating": None, "status": "unparsed", "reason": "out_of_range"},
        {"rating": None, "status": "unparsed", "reason": "missing"},
    ]
    bad = robin("parse", cwd=tmp_path, stdin='{"text": "x"}\n{"txt": 1}\n')
    assert (bad.returncode, "standard input:2" in bad.stderr) == (2, True)


def test_exports_what_spreadsheets_and_notebooks_open(tmp_path: Path, replay_url: str) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 4)
    robin(*judging(replay_url, data, 40, "--run", "r"), cwd=tmp_path)
    read: dict[str, Callable[[Path], pd.DataFrame]] = {
        "csv": pd.read_csv,
        "tsv": lambda path: pd.read_csv(path, sep="\t"),
        "jsonl": lambda path: pd.read_json(path, lines=True),
        "parquet": pd.read_parquet,
        "xlsx": lambda path: pd.read_excel(path, engine="openpyxl"),
    }

    for suffix, reader in read.items():
        for what, count in (("scores", 4), ("judgments", 40)):
            file = tmp_path / f"{what}.{suffix}"
            done = robin("export", "r", "--what", what, "-o", file, cwd=tmp_path)
            assert (done.returncode, done.stdout) == (0, ""), done.stderr
            frame = reader(file)
            assert len(frame) == count
            assert set(frame["pair_id"]) == {"p0", "p1", "p2", "p3"}


def test_ends_quietly_when_the_reader_of_a_pipe_leaves(tmp_path: Path) -> None:
    judge(
        write_pairs(tmp_path / "pairs.jsonl", 10),
        attribute="helpfulness",
        budget=50,
        run=tmp_path / "r",
        quiet=True,
        judge=lambda _: f"Feedback: {'so ' * 1000}.\nRating: 3",  # more than a pipe holds
    )

    command = ["export", "r", "--what", "judgments"]
    with Robin(
        command,
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith("pair_id,")
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 0


def test_says_its_version(tmp_path: Path) -> None:
    assert robin("--version", cwd=tmp_path).stdout == f"robin {__version__}\n"


def test_states_its_defaults_in_the_help(tmp_path: Path) -> None:
    shown = " ".join(robin("judge", "--help-all", cwd=tmp_path, COLUMNS="200").stdout.split())
    for default in ("0.007", "practice", "auto", "1024", "OPENAI_API_KEY", "./robin.toml"):
        assert f"(default: {default})" in shown


def test_imports_nothing_heavy_for_help() -> None:
    heavy = ("openai", "pandas", "pyarrow", "numpy", "aiohttp")
    code = f"""import sys
from robin_cli.cli.app import main
for option in ("--version", "--help"):
    sys.argv = ["robin", option]
    try:
        main()
    except SystemExit:
        pass
print([name for name in {heavy} if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment()
    )
    assert done.stdout.endswith("\n[]\n")


@pytest.mark.external
@pytest.mark.slow
def test_judges_with_a_real_server(tmp_path: Path) -> None:
    # two of these pairs are too long for the model's 2,048 tokens: tried once each, and reported
    lines = (DEMO / "pairs.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "p.jsonl").write_text("".join(lines[at] for at in (0, 2, 5, 9)), encoding="utf-8")
    with llama_server(tmp_path / "server.log", "--api-key", "sk-local-test-key") as url:
        command: list[str | Path] = [
            *(*("judge", "p.jsonl", "--budget", "8", "-a"), "correctness"),
            *("--base-url", url),
        ]
        command += ["--model", "tiny-judge", "--run", "r", "--extra-body", json.dumps(GRAMMAR)]
        refused = robin(*command, cwd=tmp_path, OPENAI_API_KEY="sk-wrong")
        done = robin(*command, cwd=tmp_path, OPENAI_API_KEY="sk-local-test-key", exits=0)

    assert (refused.returncode, "key was refused" in refused.stderr) == (3, True)
    judgments = pd.read_parquet(tmp_path / "r" / "judgments")
    answered = judgments[judgments["status"] != "failed"]
    assert len(answered) == 8
    assert (answered["status"] == "ok").mean() > 0.9
    assert list(judgments[judgments["status"] == "failed"]["reason"]) == ["context_length"] * 2
    assert "cannot be rated: 2 too long for the model" in done.stderr
    assert judgments.groupby("pair_id")["rating"].nunique().max() > 1
    assert answered["completion_tokens"].gt(0).sum() == answered["request_id"].nunique()


def test_says_what_it_left_out_and_that_the_scores_are_of_the_rest(tmp_path: Path) -> None:
    (tmp_path / "pairs.csv").write_text(
        "id,prompt,response\na,p,r\nb,q,\nc,,r\na,s,t\n", encoding="utf-8"
    )
    command = (
        *("judge", "pairs.csv", "-b", "8", "-a", "helpfulness", "--model", "m", "--run", "r"),
        "--skip-bad-rows",
    )
    with serving(lambda number, body: completion(f"Rating: {number % 5}")) as wire:
        judged = robin(*command, "--base-url", wire.url, cwd=tmp_path, exits=0)
    said = " ".join(judged.stderr.split())
    assert (
        "pairs.csv: 2 bad rows of 4 left out (--skip-bad-rows): 1 no prompt, 1 the same pair or id again."
        in said
    )
    assert "the mean is too high" in said
    assert 'left out: pairs.csv:4: field "prompt" is empty' in said
    assert "empty responses in 1 of 2 pairs, judged as they are" in said

    facts = json.loads(robin("status", "r", "--json", cwd=tmp_path).stdout)
    assert facts["rows_left_out"] == 2
    assert facts["rows_left_out_because"] == {"no prompt": 1, "the same pair or id again": 1}
    assert facts["rows_left_out_first"][0] == 'pairs.csv:4: field "prompt" is empty'
    assert facts["empty_responses"] == 1
    shown = " ".join(robin("status", "r", "--details", cwd=tmp_path).stdout.split())
    assert (
        "the scores are of the 2 pairs that are left, and say nothing of these; the first: pairs.csv:4:"
        in shown
    )
