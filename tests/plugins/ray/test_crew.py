"""Runs whose calls are made by workers, here in this process: how texts get there, what is lost with a worker, who is asked."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import robin_cli
from robin_cli.model.errors import EndpointError, InputError, LimitReached
from robin_cli.model.plugins import plugins
from robin_cli.model.records import Pair
from robin_cli.session import engine
from robin_ray import crew as crews
from robin_ray import on_cluster
from robin_ray.crew import Crew, Lost, Node
from tests.conftest import refuses, robin
from tests.judges.wire import error, serving
from tests.packages import put_package
from tests.plugins.ray.here import Plan, _Here
from tests.plugins.ray.judge import Asked, judge

PAIRS = [Pair(f"p{k}", f"Name {k} colours.", f"Blue, and {k} more.") for k in range(12)]


@pytest.fixture
def plan(monkeypatch: pytest.MonkeyPatch) -> Plan:
    """Two nodes of one worker each, in this process."""
    made = Plan()
    monkeypatch.setattr(on_cluster, "OnRay", made.cluster)
    monkeypatch.setattr(crews, "LOOKS_EVERY_S", 0.05)
    return made


def judged(
    url: str | list[str], run: Path, budget: int | None = 48, pairs: Any = PAIRS, **settings: Any
) -> robin_cli.Run:
    """A run by workers."""
    by_default = {
        "model": "judge",
        "attribute": "helpfulness",
        "concurrency": "8",
        "quiet": True,
        "ray": "local",
        "samples_per_request": 1,
    }
    return robin_cli.judge(
        pairs, base_url=url, budget=budget, run=str(run), **{**by_default, **settings}
    )


def once(number: int, do: Callable[[], object]) -> Callable[[int], tuple[int, dict[str, str]]]:
    """Answers all alike, and has something happen at one of them."""

    def answer(this: int) -> tuple[int, dict[str, str]]:
        if this == number:
            do()
        return 200, {}

    return answer


def messages(asked: Asked) -> Counter[str]:
    return Counter(str(body["messages"]) for body in asked.bodies)


def test_asks_the_same_as_one_process(plan: Plan, tmp_path: Path) -> None:
    with judge() as asked, judge() as alone:
        judged(asked.url, tmp_path / "run")
        judged(alone.url, tmp_path / "alone", ray=None)
    # How often each pair is asked depends on which answers come first.
    assert messages(asked).keys() == messages(alone).keys()
    assert len(asked.bodies) == len(alone.bodies) == 48
    assert {node for node, _ in plan.workers} == {"one", "two"}
    assert plan.is_closed


def test_makes_comparisons(plan: Plan, tmp_path: Path) -> None:
    responses = {"response_a": "this one", "response_b": "that one"}
    rows = pd.DataFrame({"prompt": [f"q{k}" for k in range(6)], **responses, "system_a": "x"})
    with judge() as asked, pytest.raises(EndpointError, match="24 missing a verdict"):
        judged(
            *(asked.url, tmp_path / "run", 24, rows.assign(system_b="y")),
            pairwise=True,
            attribute=None,
        )
    texts = [str(body["messages"]) for body in asked.bodies]
    assert len(texts) == 24
    assert all("this one" in text and "that one" in text for text in texts)


def test_counts_nothing_twice_where_workers_end_and_others_begin(
    plan: Plan, tmp_path: Path
) -> None:
    with judge() as asked:
        asked.takes_s = 0.01

        def answer(number: int) -> tuple[int, dict[str, str]]:
            if number in {30, 60}:
                plan.kill("one")
            if number == 45:
                plan.nodes.append("three")
            if number == 80:
                plan.nodes.remove("two")
            return 200, {}

        asked.answer = answer
        run = judged(asked.url, tmp_path / "run", 150)
    kept = run.judgments()
    assert len(kept) == 150
    assert kept["request_id"].is_unique
    assert not kept.duplicated(["pair_id", "draw"]).any()
    assert {"one", "two", "three"} == {node for node, _ in plan.workers}


def test_gives_up_a_worker_that_says_nothing(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(crews, "SILENT_S", 1.0)
    with judge() as asked:
        asked.answer = once(20, lambda: setattr(plan.workers[0][1], "is_silent", True))
        run = judged(asked.url, tmp_path / "run", 200, quiet=False)
    assert run.judgments()["request_id"].is_unique
    assert len(run.judgments()) == 200
    assert "is gone (a worker said nothing for 1 s)" in capsys.readouterr().err


def test_ends_where_no_worker_can_be_begun_any_more(plan: Plan, tmp_path: Path) -> None:
    def lost() -> None:
        plan.fails = {"one": "no room there", "two": "no room there"}
        plan.kill("one")
        plan.kill("two")

    with judge() as asked:
        asked.answer = once(20, lost)
        refuses(
            EndpointError,
            r"no worker is left \(node .*no room there",
            judged,
            asked.url,
            tmp_path / "run",
            200,
        )
    assert plan.is_closed
    assert robin_cli.open_run(tmp_path / "run").judgments()["request_id"].is_unique


def test_gives_a_machine_up_where_more_is_lost_than_answered(plan: Plan, tmp_path: Path) -> None:
    plan.nodes = ["one"]
    with judge() as asked:
        asked.takes_s = 0.02
        answers: Counter[int] = Counter()

        def answer(_: int) -> tuple[int, dict[str, str]]:
            answers[len(plan.workers)] += 1
            if (
                answers[len(plan.workers)] == 9
            ):  # eight at a time: as many were handed over as are lost
                plan.kill("one")
            return 200, {}

        asked.answer = answer
        with pytest.raises(
            EndpointError, match=r"no worker is left \(node one: its process was ended\)"
        ):
            judged(asked.url, tmp_path / "run", 400)
    assert len(asked.sent) < 200
    assert len(robin_cli.open_run(tmp_path / "run").judgments()) >= 2


@pytest.mark.parametrize("method", ["take", "results"])
def test_ends_where_an_error_of_its_own_keeps_it_from_its_workers(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    monkeypatch.setattr(engine, "GRACE_S", 0.5)
    usual, left = getattr(_Here, method), iter(range(5))

    def failing_once(self: _Here, *requests: Any) -> Any:
        if next(left, 0) == 4:
            raise ArithmeticError("of its own")
        return usual(self, *requests)

    monkeypatch.setattr(_Here, method, failing_once)
    with judge() as asked, pytest.raises(ArithmeticError, match="of its own"):
        judged(asked.url, tmp_path / "run", 400)


def test_makes_again_what_no_longer_reached_a_worker(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take, left = _Here.take, iter(range(5))

    async def failing_once(self: _Here, requests: Any) -> None:
        if next(left, 0) == 4:
            raise Lost("it cannot read them")
        await take(self, requests)

    monkeypatch.setattr(_Here, "take", failing_once)
    with judge() as asked:
        run = judged(asked.url, tmp_path / "run", 100)
    assert len(run.judgments()) == 100
    assert len(asked.bodies) <= 108  # what was under way at that worker may have been made
    assert len(plan.workers) == 3


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"nodes": []}, "the cluster has no machine that is alive"),
        ({"lacks": {"two": "has robin 0.0.1"}}, "--ray: node two: has robin 0.0.1"),
        (
            {"fails": {"one": "no room", "two": "no room"}},
            r"no worker could be begun \(node .*: no room\)",
        ),
    ],
)
def test_asks_nobody_where_a_cluster_is_unfit(
    plan: Plan, tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    for name, value in change.items():
        setattr(plan, name, value)
    with judge() as asked, pytest.raises((EndpointError, InputError), match=said):
        judged(asked.url, tmp_path / "run")
    assert not asked.arrivals


def test_spends_the_money_there_is_and_no_more(plan: Plan, tmp_path: Path) -> None:
    with judge() as asked:
        asked.answer = once(30, lambda: plan.kill("one"))
        money = {"price_in": 10.0, "price_out": 10.0, "max_tokens": 20}
        refuses(
            LimitReached,
            "--max-cost",
            judged,
            asked.url,
            tmp_path / "run",
            10_000,
            max_cost=0.5,
            **money,
        )
    spent = robin_cli.open_run(tmp_path / "run").judgments()["cost_usd"].sum()
    assert len(asked.arrivals) * 110 * 10 / 1e6 <= 0.5
    assert spent > 0.2


def test_is_not_finished_by_money_that_was_only_lost(plan: Plan, tmp_path: Path) -> None:
    money = {"price_in": 10.0, "price_out": 10.0, "max_tokens": 500, "max_cost": 0.2}
    with judge() as asked:
        asked.takes_s = 0.02
        asked.answer = once(30, lambda: list(map(plan.kill, ("one", "two"))))
        with pytest.raises(
            LimitReached, match=r"is spent, and up to \$0\.\d+ more may be on the bill"
        ):
            judged(asked.url, tmp_path / "run", None, **money)
        before = len(robin_cli.open_run(tmp_path / "run").judgments())
        robin("resume", tmp_path / "run", cwd=tmp_path, exits=0)
    assert len(robin_cli.open_run(tmp_path / "run").judgments()) > before
    spent = robin_cli.open_run(tmp_path / "run").judgments()["cost_usd"].sum()
    assert 0.15 < spent <= 0.2


def test_holds_all_workers_together_to_the_users_own_caps(plan: Plan, tmp_path: Path) -> None:
    with judge() as asked:
        judged(asked.url, tmp_path / "run", 20, rpm=1200)
    arrivals = sorted(asked.arrivals)
    assert len(arrivals) == 20
    assert arrivals[-1] - arrivals[0] > 15 * 60 / 1200  # the first takes a moment to connect


def test_asks_again_what_failed_and_spends_the_budget_to_the_call(
    plan: Plan, tmp_path: Path
) -> None:
    with judge() as asked:
        asked.answer = lambda number: (
            {0: 500, 1: 429, 2: 503}.get(number % 9, 200) if number < 30 else 200,
            {},
        )
        run = judged(asked.url, tmp_path / "run", 45)
    assert sorted(run.judgments()["request_id"]) == sorted(asked.sent)
    assert len(run.judgments()) == 45


def test_ends_and_says_so_where_the_key_is_refused(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-0123456789")
    with (
        serving(lambda *_: error(401, "Incorrect API key provided: sk-planted-0123456789")) as wire,
        pytest.raises(EndpointError, match="key") as raised,
    ):
        judged(wire.url, tmp_path / "run")
    assert "planted" not in str(raised.value)


def test_has_workers_ask_the_judge_of_a_package(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "def judge(messages):\n    return 'Feedback: so.\\nRating: 2'\n"
    put_package(tmp_path / "site", "robin-two", code, {"robin.judges": {"two": "robin_two:judge"}})
    monkeypatch.syspath_prepend(tmp_path / "site")
    plugins.cache_clear()
    try:
        run = robin_cli.judge(
            PAIRS,
            judge="two",
            attribute="helpfulness",
            budget=60,
            run=str(tmp_path / "run"),
            quiet=True,
            ray="local",
        )
        assert set(run.judgments()["rating"]) == {2}
    finally:
        plugins.cache_clear()


def test_refuses_a_function_that_is_in_this_process_alone(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--ray: a function runs in this process only"):
        robin_cli.judge(
            PAIRS, judge=lambda _: "Rating: 3", attribute="helpfulness", budget=60, ray="local"
        )


def test_starts_another_worker_for_each_256_calls_up_to_a_nodes_cpus() -> None:
    crew = Crew(Plan().cluster(), lambda _: None)
    crew.concurrency = lambda: 2_000
    nodes = [Node("one", "one", 2), Node("two", "two", 64), Node("head", "head", 0)]

    async def started() -> Counter[Node]:
        for task in crew._start_missing(nodes):
            task.cancel()
        return crew._at

    assert asyncio.run(started()) == {nodes[0]: 2, nodes[1]: 4}
