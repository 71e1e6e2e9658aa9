"""Judges that others bring: functions from Python, and packages with an entry point."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest

from robin_cli import judge, open_run
from robin_cli.judges import functions
from robin_cli.judges.functions import Checked, FunctionJudge
from robin_cli.judges.judge import Options
from robin_cli.judges.metering import Meter, Price
from robin_cli.model.errors import EndpointError, InputError
from robin_cli.model.exchange import Answer, Failure, Question, Reply
from robin_cli.model.plugins import plugins
from robin_cli.model.records import Usage
from robin_cli.show.status import status_of
from tests.conftest import environment, has, refuses, robin, write_pairs
from tests.packages import put_package

QUESTION = Question([{"role": "user", "content": "Rate this."}])

Messages = list[Mapping[str, str]]


def by_length(messages: Messages) -> str:
    return f"Feedback: counted.\nRating: {len(messages[-1]['content']) % 5}"


async def by_length_later(messages: Messages) -> str:
    await asyncio.sleep(0.001)
    return by_length(messages)


class Same:
    """Says the same to all; with a name, where one is given."""

    def __init__(self, said: Any, name: str | None = None) -> None:
        self.said = said
        self.name = name

    def __call__(self, _messages: Messages) -> Any:
        return self.said


def rated(value: int, _messages: Messages) -> str:
    return f"Rating: {value}"


def ask(
    function: Any, question: Question = QUESTION, price: Price | None = None, **options: Any
) -> Reply | Failure:
    async def asking() -> Reply | Failure:
        made = Options(model="mine", **options)
        asked = Checked(FunctionJudge(function, made), made, Meter(price))
        try:
            return await asked.ask(question)
        finally:
            await asked.aclose()

    return asyncio.run(asking())


@pytest.mark.parametrize("function", [by_length, by_length_later])
def test_spends_its_budget_on_a_function_plain_or_async(function: Any, tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 6)
    run = judge(
        data,
        attribute="helpfulness",
        budget=90,
        judge=function,
        run=tmp_path / "r",
        repeat_anyway=True,
        quiet=True,
    )

    assert run.scores()["n"].sum() == 90
    assert set(run.judgments()["model"]) == {f"{__name__}.{function.__name__}"}
    assert run.judgments()["completion_tokens"].min() >= 1  # estimated
    assert run.status()["state"] == "finished"
    assert run.status()["base_url"] == []  # nothing was sent anywhere
    assert "://" not in status_of(run.path).lines["judge"]


def test_goes_on_with_the_same_function_and_says_how_if_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    data = write_pairs(tmp_path / "p.jsonl", 4)
    run = judge(data, attribute="coherence", budget=40, judge=by_length, run=tmp_path / "r")

    assert (
        open_run(run.path).resume(budget=60, judge=by_length, quiet=True).scores()["n"].sum() == 60
    )
    said = r"pass it again: open_run\(.*\)\.resume\(judge=by_length\)"
    refuses(InputError, said, open_run(run.path).resume, budget=80)
    said = r"judge is python:.*by_length, not python:.*by_length_later; .*start a new run"
    refuses(InputError, said, open_run(run.path).resume, budget=80, judge=by_length_later)
    elsewhere: dict[str, Any] = {"model": "m", "base_url": "http://127.0.0.1:9/v1"}
    with pytest.raises(InputError, match="judge: the run has python:"):
        judge(data, attribute="coherence", budget=80, run=run.path, **elsewhere)
    done = robin("resume", run.path, "--budget", "80", cwd=tmp_path, exits=2)
    assert "resume(judge=by_length)" in done.stderr


def a_closure(value: int) -> Any:
    return lambda _: f"Rating: {value}"


@pytest.mark.parametrize(
    "make",
    [
        lambda value: Same(f"Rating: {value}"),
        a_closure,
        lambda value: partial(rated, value),
        lambda value: Same(f"Rating: {value}", f"always {value}"),
    ],
    ids=["object", "lambda", "bound", "named object"],
)
def test_never_mixes_two_judges_in_one_run(make: Callable[[int], Any], tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "p.jsonl", 2)
    wanted: dict[str, Any] = {"attribute": "helpfulness", "run": tmp_path / "r", "quiet": True}
    run = judge(data, budget=4, judge=make(1), **wanted)

    with pytest.raises(InputError):
        judge(data, budget=8, judge=make(4), **wanted)
    with pytest.raises(InputError):
        open_run(run.path).resume(budget=8, judge=make(4))
    assert list(open_run(run.path).judgments()["rating"]) == [1] * 4
    assert open_run(run.path).status()["budget"] == 4


@pytest.mark.parametrize("make", [lambda: Same("Rating: 1", "裁"), lambda: partial(rated, 1)])
def test_goes_on_with_an_object_that_has_a_name_and_with_the_same_bound_arguments(
    make: Any, tmp_path: Path
) -> None:
    data = write_pairs(tmp_path / "p.jsonl", 2)
    run = judge(
        data, attribute="helpfulness", budget=4, judge=make(), run=tmp_path / "r", quiet=True
    )
    assert run.resume(budget=8, judge=make(), quiet=True).scores()["n"].sum() == 8


def test_says_how_to_go_on_with_a_judge_without_a_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, nameless = write_pairs(tmp_path / "p.jsonl", 2), Same("Rating: 1")
    run = judge(data, attribute="helpfulness", budget=4, judge=nameless, run=tmp_path / "r")
    assert "has no name of its own" in capsys.readouterr().err
    with pytest.raises(InputError, match=r'say so, judge.name = "[\w.]+"') as raised:
        run.resume(budget=8, judge=nameless)
    nameless.name = str(raised.value).split('"')[1]
    assert run.resume(budget=8, judge=nameless, quiet=True).scores()["n"].sum() == 8


def test_tries_again_what_a_function_raises_and_gives_no_rating_for_it(tmp_path: Path) -> None:
    lock, seen = threading.Lock(), [0]

    def now_and_then(messages: Messages) -> str:
        with lock:
            seen[0] += 1
            number = seen[0]
        if number % 3 == 0:
            raise ConnectionError("nobody there, with sk-planted-0123456789")
        return by_length(messages)

    data = write_pairs(tmp_path / "pairs.jsonl", 5)
    asked: dict[str, Any] = {
        "attribute": "coherence",
        "budget": 60,
        "concurrency": 4,
        "quiet": True,
    }
    run = judge(data, judge=now_and_then, run=tmp_path / "r", **asked)
    assert run.scores()["n"].sum() == 60
    assert seen[0] > 85
    assert not [
        each
        for each in run.path.rglob("*")
        if each.is_file() and b"sk-planted" in each.read_bytes()
    ]


def test_ends_where_a_function_never_answers(tmp_path: Path) -> None:
    def away(messages: Messages) -> str:
        raise ValueError("no such program")

    data = write_pairs(tmp_path / "pairs.jsonl", 5)
    with pytest.raises(
        EndpointError,
        match=r"the judge has not answered a single call .ValueError: no such program.; mend the judge",
    ):
        judge(data, attribute="coherence", budget=60, judge=away, run=tmp_path / "r", max_retries=0)


def test_calls_a_plain_function_by_no_more_threads_than_calls_at_a_time(tmp_path: Path) -> None:
    lock, at_work, most = threading.Lock(), [0], [0]

    def slow(messages: Messages) -> str:
        with lock:
            at_work[0] += 1
            most[0] = max(most[0], at_work[0])
        time.sleep(0.01)
        with lock:
            at_work[0] -= 1
        return by_length(messages)

    data = write_pairs(tmp_path / "pairs.jsonl", 10)
    judge(
        data,
        attribute="coherence",
        budget=60,
        judge=slow,
        run=tmp_path / "r",
        concurrency=3,
        quiet=True,
    )
    assert most[0] == 3


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (Reply((), "m", Usage(), None, 0.0), "judge_error"),
        ("x" * 200_000, "reply_too_long"),
        (Failure("context_length", "too\nlong"), "context_length"),
    ],
    ids=["no answers", "endless", "its own"],
)
def test_makes_a_failure_of_what_cannot_be_kept(said: Any, reason: str) -> None:
    outcome = ask(lambda _: said)
    assert isinstance(outcome, Failure)
    assert outcome.reason == reason
    assert "\n" not in outcome.detail


@pytest.mark.parametrize(
    "reply",
    [
        Reply((Answer("Rating: 3", "STOP"),), "m", Usage(-5, 2**80, float("nan")), None, 0.1),
        Reply((Answer("Rating: 3", "end_turn"),), "m", Usage(1.5, -1, -3.0), None, 0.1),  # type: ignore[arg-type]
    ],
)
def test_keeps_what_a_judge_answered_whatever_it_says_beside_it(
    reply: Reply, tmp_path: Path
) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 2)
    same = Same(reply, "same")
    run = judge(data, attribute="helpfulness", budget=8, judge=same, run=tmp_path / "r", quiet=True)

    assert set(open_run(run.path).resume(judge=same, quiet=True).judgments()["rating"]) == {3}
    rows = run.judgments()
    assert (rows["prompt_tokens"] >= 0).all()
    assert (rows["completion_tokens"] >= 0).all()
    assert not (rows["cost_usd"] < 0).any()


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, GeneratorExit])
@pytest.mark.parametrize("later", [False, True])
def test_ends_where_a_judge_ends_programs(
    later: bool, error: type[BaseException], tmp_path: Path
) -> None:
    def ends(_messages: Messages) -> str:
        raise error

    async def ends_later(_messages: Messages) -> str:
        raise error

    asked: dict[str, Any] = {
        "attribute": "helpfulness",
        "budget": 8,
        "quiet": True,
        "max_retries": 0,
    }
    with pytest.raises(EndpointError, match="mend the judge"):
        judge(
            write_pairs(tmp_path / "p.jsonl", 2),
            judge=ends_later if later else ends,
            run=tmp_path / "r",
            **asked,
        )


def test_says_that_an_answer_is_text() -> None:
    refuses(EndpointError, "gave int, not text; return the answer as a str", ask, lambda _: 3)


def test_keeps_no_more_answers_than_were_asked_for_and_counts_all_of_them() -> None:
    three = Reply((Answer("Rating: 3\ud800"),) * 3, "m", Usage(prompt_tokens=10), "id", 0.0)
    outcome = ask(lambda _: three, price=Price(rates=(1e6, 0.0)))
    assert isinstance(outcome, Reply)
    assert [answer.text for answer in outcome.answers] == ["Rating: 3?"]
    assert outcome.usage.cost_usd == 10.0


def test_waits_for_a_function_no_longer_than_the_timeout() -> None:
    async def never(messages: Messages) -> str:
        await asyncio.Event().wait()
        return ""

    outcome = ask(never, timeout_s=0.01)
    assert isinstance(outcome, Failure)
    assert (outcome.reason, "--timeout" in outcome.detail) == ("timeout", True)


Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Puts a package with a judge where Python finds it."""
    site = tmp_path / "site"
    monkeypatch.syspath_prepend(site)

    def put(package: str, code: str, name: str, found: str = "judge") -> None:
        module = package.replace("-", "_")
        monkeypatch.delitem(sys.modules, module, raising=False)
        put_package(site, package, code, {"robin.judges": {name: f"{module}:{found}"}})
        plugins.cache_clear()

    yield put
    plugins.cache_clear()


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("raise RuntimeError('no licence')", ": RuntimeError: no licence"),
        ("judge = 3", ": TypeError: it is int: neither a Judge nor a function"),
        ("other = 3", ": AttributeError"),
    ],
)
def test_names_the_package_whose_judge_is_broken(install: Install, code: str, said: str) -> None:
    install("robin-broken", code, "broken")
    with pytest.raises(
        InputError, match="--judge broken: the package robin-broken, which adds broken, failed"
    ) as raised:
        functions.judge_named("broken", Options("m"))
    assert said in str(raised.value)
    assert str(raised.value).endswith("pip uninstall robin-broken")


def test_says_which_judges_there_are_and_which_two_have_one_name(install: Install) -> None:
    install("robin-one", "def judge(messages): return ''", "twin")
    install("robin-two", "def judge(messages): return ''", "twin")
    refuses(
        InputError,
        r"robin-one and robin-two both add twin. Uninstall one",
        functions.check_known,
        "twin",
    )
    said = r'no "twim"; there are: openai, twin .others come with packages.; did you mean "twin"'
    refuses(InputError, said, functions.check_known, "twim")


def test_a_package_adds_a_judge_that_robin_uses_by_name(install: Install, tmp_path: Path) -> None:
    code = "def judge(messages):\n    return f'Rating: {len(messages) % 5}'\n"
    install("length", code, "length")
    start = partial(robin, cwd=tmp_path)
    write_pairs(tmp_path / "pairs.jsonl", 6)
    arguments = (
        *("judge", "pairs.jsonl", "-a", "helpfulness", "--budget", "60", "--run", "r", "-o"),
        "scores.csv",
        "--repeat-anyway",
    )

    done = start(*arguments, "--judge", "length")
    assert done.returncode == 0, done.stderr
    assert pd.read_csv(tmp_path / "scores.csv")["n"].sum() == 60
    assert set(open_run(tmp_path / "r").judgments()["model"]) == {"length"}

    done = start(*arguments, "--model", "m", "--base-url", "http://127.0.0.1:9/v1")
    assert done.returncode == 2
    assert "judge: the run has length, now openai" in done.stderr
    done = start("resume", "r", "--budget", "80")
    assert done.returncode == 0, done.stderr
    assert open_run(tmp_path / "r").scores()["n"].sum() == 80

    (tmp_path / "robin.toml").write_text('judge = "length"\n', encoding="utf-8")
    done = start(*arguments[:-5], "--run", "other")
    assert done.returncode == 2
    assert "a robin.toml that robin found does not decide who judges" in done.stderr


def test_ends_although_a_plain_function_never_returns(tmp_path: Path) -> None:
    write_pairs(tmp_path / "pairs.jsonl", 3)
    code = (
        "import robin_cli, threading\n"
        "def stuck(messages):\n"
        "    threading.Event().wait()\n"
        "robin_cli.judge('pairs.jsonl', attribute='coherence', budget=9, judge=stuck, run='r', timeout=0.01, max_retries=0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    has(
        done.stderr,
        "the judge has not answered a single call",
        "raise --timeout, or mend the judge",
    )
    assert "--base-url" not in done.stderr


@pytest.mark.parametrize(
    "tokens", ["Rating", [5], ({"token": "Rating: 3", "logprob": -(10**400)},)]
)
def test_reads_the_text_of_an_answer_whatever_its_tokens_are(tokens: Any, tmp_path: Path) -> None:
    reply = Reply((Answer("Rating: 3", tokens=tokens),), "m", Usage(), None, 0.0)
    asked: dict[str, Any] = {
        "attribute": "helpfulness",
        "budget": 4,
        "answers": "logprobs",
        "quiet": True,
    }
    run = judge(
        write_pairs(tmp_path / "p.jsonl", 2), judge=lambda _: reply, run=tmp_path / "r", **asked
    )
    assert list(run.judgments()["rating"]) == [3] * 4


MINE = """from robin_cli.judges.functions import FunctionJudge
closed = []
class Mine(FunctionJudge):
    def __init__(self, options): super().__init__(lambda _: 'Rating: 3', options)
"""


def test_keeps_scores_of_a_judge_that_cannot_close(
    install: Install, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = (
        MINE
        + "    async def aclose(self):\n        closed.append(1)\n        raise SystemExit('cannot close')\n"
    )
    install("robin-open", code, "open", "Mine")
    data = write_pairs(tmp_path / "p.jsonl", 2)
    run = judge(
        data, attribute="helpfulness", budget=8, judge="open", model=["a", "b"], run=tmp_path / "r"
    )
    assert run.scores()["score"].tolist() == [3, 3]
    assert sys.modules["robin_open"].closed == [1, 1]
    said = capsys.readouterr().err
    has(
        said,
        "note: a: could not be closed (SystemExit: cannot close)",
        "note: b: could not be closed",
    )


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_stops_a_judge_that_swallows_that_it_is_cancelled(install: Install, tmp_path: Path) -> None:
    code = (
        "import asyncio, pathlib\n"
        "async def judge(messages):\n"
        "    pathlib.Path('asked').touch()\n"
        "    while True:\n"
        "        try: await asyncio.sleep(3600)\n"
        "        except asyncio.CancelledError: pass\n"
    )
    install("robin-deaf", code, "deaf")
    write_pairs(tmp_path / "pairs.jsonl", 2)
    command = (
        *("judge", "pairs.jsonl", "-a", "helpfulness", "--budget", "4", "--run", "r", "--judge"),
        "deaf",
    )
    env = environment(PYTHONPATH=str(tmp_path / "site"))
    working = subprocess.Popen(
        [sys.executable, "-m", "robin_cli", *command],
        cwd=tmp_path,
        env=env,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert working.stderr is not None
    while not (tmp_path / "asked").exists():
        assert working.poll() is None
        time.sleep(0.01)
    working.send_signal(signal.SIGINT)
    assert any("stopping" in line for line in working.stderr)
    working.send_signal(signal.SIGINT)
    _, said = working.communicate(timeout=60)
    assert working.returncode == 130
    assert "everything received is kept; 2 calls under way not waited for" in said
    assert "Traceback" not in said
    assert "destroyed" not in said


@pytest.mark.parametrize("raised", [RuntimeError, EndpointError])
def test_writes_and_shows_no_secret_that_a_judge_puts_into_an_error(
    raised: type[Exception],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("GROQ_API_KEY", "gsk_planted0123456789")
    monkeypatch.setenv("SOME_PASSWORD", "gsk_planted0123456789-longer")

    def away(messages: Messages) -> str:
        if "0" in messages[-1]["content"] or raised is EndpointError:
            raise raised("401 for gsk_planted0123456789, gsk_planted0123456789-longer\nand more")
        return "Rating: 3"

    data = write_pairs(tmp_path / "p.jsonl", 4)
    said = ""
    try:
        judge(
            data, attribute="helpfulness", budget=12, judge=away, run=tmp_path / "r", max_retries=0
        )
    except EndpointError as error:
        said = "".join(traceback.format_exception(error))
        assert "401 for [key], [key] and more" in said
    files = "".join(str(pq.read_table(each)) for each in (tmp_path / "r").rglob("*.parquet"))
    files += "".join(
        each.read_bytes().decode("utf-8", "replace")
        for each in (tmp_path / "r").rglob("*")
        if each.is_file()
    )
    assert "planted" not in said + files + capsys.readouterr().err
    assert raised is EndpointError or "[key]" in str(
        open_run(tmp_path / "r").judgments()["text"].tolist()
    )


def test_takes_a_stop_iteration_for_a_failure_like_any_other() -> None:
    def runs_dry(messages: Messages) -> str:
        return str(next(iter(())))

    outcome = ask(runs_dry, timeout_s=60)
    assert isinstance(outcome, Failure)
    assert (outcome.reason, "StopIteration" in outcome.detail) == ("judge_error", True)
