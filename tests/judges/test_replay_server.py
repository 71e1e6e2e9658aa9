"""The replay judge: a real server that answers with recorded ratings, and says so."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from urllib.parse import urlsplit

import aiohttp
import numpy as np
import pytest
from openai import AsyncOpenAI, BadRequestError, NotFoundError
from scipy import stats

from robin_cli.datasets.pools import Pool
from robin_cli.datasets.votes import VotePool
from robin_cli.judges.replay_server import Asked, Replay, Votes, serve
from robin_cli.model.records import ORDERS, Pair, Scale
from robin_cli.parsing.verdicts import VERDICT
from robin_cli.questions.rubrics import load_prompts

POOL = Pool("set", ("a",), (np.array([0, 0, 0, 3, 4]),))


@asynccontextmanager
async def served(replay: Replay) -> AsyncIterator[str]:
    """A server of the replay; its base URL."""
    stop, ready = asyncio.Event(), asyncio.get_running_loop().create_future()
    server = asyncio.create_task(serve(replay, 0, ready.set_result, stop))
    try:
        yield await ready
    finally:
        stop.set()
        await server


async def talk(
    *calls: dict[str, object], pool: Pool | VotePool = POOL, first_place: float = 0.0
) -> list[object]:
    got: list[object] = []
    async with served(
        Replay({pool.name: pool}, source="x.csv", seed=1, first_place=first_place)
    ) as url:
        assert url.startswith("http://127.0.0.1:")
        async with AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
            got.append([model.id async for model in client.models.list()])
            for call in calls:
                base = {"model": "replay:set", "messages": [{"role": "user", "content": "hi"}]}
                try:
                    got.append(await client.chat.completions.create(**(base | call)))  # type: ignore[call-overload]
                except (NotFoundError, BadRequestError) as error:
                    got.append(error)
    return got


def ratings(completion: object) -> list[int]:
    choices = completion.choices  # type: ignore[attr-defined]
    return [int(choice.message.content[-1]) for choice in choices]


def test_answers_as_the_pool_does_and_says_that_it_is_a_replay() -> None:
    models, answer = asyncio.run(talk({"n": 128}))
    assert models == ["replay:set"]
    assert "no model read this" in answer.choices[0].message.content  # type: ignore[attr-defined]
    assert answer.model == "replay:set"  # type: ignore[attr-defined]
    seen = Counter(ratings(answer))
    assert set(seen) == {0, 3, 4}
    observed = [seen[0], seen[3], seen[4]]
    assert stats.chisquare(observed, [128 * 0.6, 128 * 0.2, 128 * 0.2]).pvalue > 0.001


def test_repeats_itself_for_the_same_seed_only() -> None:
    _, *answers = asyncio.run(
        talk({"n": 40, "seed": 1}, {"n": 40, "seed": 1}, {"n": 40, "seed": 2})
    )
    first, again, other = map(ratings, answers)
    assert first == again != other


def test_takes_a_null_for_a_parameter_that_is_not_there() -> None:
    _, answer = asyncio.run(talk({"n": None, "seed": None}))
    assert len(ratings(answer)) == 1


def test_answers_a_prompt_with_the_same_pair_always_and_others_with_others() -> None:
    pool = Pool("set", ("a", "b", "c"), (np.array([0]), np.array([1]), np.array([2])))
    calls: list[dict[str, object]] = [
        {"messages": [{"role": "user", "content": str(number % 20)}]} for number in range(40)
    ]
    _, *answers = asyncio.run(talk(*calls, pool=pool))
    seen = [ratings(answer)[0] for answer in answers]
    assert seen[:20] == seen[20:]
    assert set(seen) == {0, 1, 2}


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/health", None, 200),
        ("POST", "/v1/chat/completions", b"no json", 400),
        ("POST", "/v1/chat/completions", b"[]", 400),
        ("POST", "/v1/chat/completions", b'{"model": "replay:set"}', 400),
        ("POST", "/v1/chat/completions", b'{"model": null, "messages": [{}]}', 404),
        ("POST", "/v1/completions", b"{}", 404),
    ],
)
def test_answers_bad_requests_without_breaking(
    method: str, path: str, body: bytes | None, status: int
) -> None:
    async def scene() -> int:
        async with (
            served(Replay({"set": POOL}, source="x")) as url,
            aiohttp.ClientSession(url.removesuffix("v1")) as client,
            client.request(method, path, data=body) as answer,
        ):
            return answer.status

    assert asyncio.run(scene()) == status


def test_listens_on_loopback_only() -> None:
    async def scene() -> list[str]:
        reached = []
        async with served(Replay({"set": POOL}, source="x")) as url:
            for host in (
                "127.0.0.1",
                "127.0.0.2",
            ):  # what listens on every address answers on the second as well
                try:
                    _, writer = await asyncio.open_connection(host, urlsplit(url).port)
                except OSError:
                    continue
                reached.append(host)
                writer.close()
                await writer.wait_closed()
        return reached

    assert asyncio.run(scene()) == ["127.0.0.1"]


def test_takes_the_time_it_is_told_to() -> None:
    async def scene() -> float:
        body = {"model": "replay:set", "messages": [{}]}
        async with (
            served(Replay({"set": POOL}, source="x", latency_s=0.05)) as url,
            aiohttp.ClientSession() as client,
        ):
            started = time.monotonic()
            async with client.post(f"{url}/chat/completions", json=body) as answer:
                assert answer.status == 200
            return time.monotonic() - started

    assert asyncio.run(scene()) >= 0.05


@pytest.mark.parametrize(
    "call",
    [{"model": "gpt"}, {"n": 0}, {"n": 500}, {"seed": -1}, {"messages": []}, {"stream": True}],
)
def test_refuses_as_an_endpoint_does(call: dict[str, object]) -> None:
    _, error = asyncio.run(talk(call))
    assert isinstance(error, NotFoundError if "model" in call else BadRequestError)


# recorded verdicts

VOTES = VotePool(
    "set",
    (
        Pair("p", "Say hi.", "Hi.", other="Hello,\n\nworld."),
        Pair("q", "Say hi.", "Hi.", other="Ho."),
        Pair("r", "Hi.", "tie", other="no tie"),
        Pair("s", "Hi.\n<extra_id_1>Assistant\nYes?\n<extra_id_1>User\nGo.", "one", other="two"),
        Pair("t", "Say nothing.", "", other="Nothing."),
    ),
    (
        (np.array([2]), np.array([0]), np.array([1]), np.array([2, 0]), np.array([2])),
        (np.array([2]), np.array([0]), np.array([1]), np.array([2]), np.array([2])),
    ),
)


def verdicts(
    pair: Pair,
    order: str,
    *,
    first_place: float = 0.0,
    ties: bool = True,
    n: int = 1,
    **how: object,
) -> list[str]:
    """What is said of the first response shown, as texts."""
    form = "json" if how else "text"
    prompts = load_prompts((), answers=form, pairwise=True, ties=ties)
    messages = prompts.messages(pair, prompts.attributes[0], ORDERS.index(order))
    _, answer = asyncio.run(
        talk({"messages": messages, "n": n} | how, pool=VOTES, first_place=first_place)
    )
    if not hasattr(answer, "choices"):
        return [str(answer)]
    return [choice.message.content for choice in answer.choices]


@pytest.mark.parametrize(
    ("number", "first", "second"),
    [(0, "A", "B"), (1, "B", "A"), (2, "tie", "tie"), (3, None, "B"), (4, "A", "B")],
)
def test_answers_with_the_verdict_on_two_responses_in_order(
    number: int, first: str | None, second: str
) -> None:
    pair = VOTES.pairs[number]
    turned = replace(pair, response=pair.other or "", other=pair.response)
    for each, orders in ((pair, ORDERS), (turned, ORDERS[::-1])):
        if first is not None:
            (answer,) = verdicts(each, orders[0])
            assert answer.endswith(f"\nVerdict: {first}")
        (answer,) = verdicts(each, orders[1])
        assert answer.endswith(f"\nVerdict: {second}")
        assert f"verdict on {pair.pair_id} in x.csv; no model read" in answer


def test_finds_responses_that_a_template_shows_within_lines() -> None:
    (answer,) = verdict_of("Q: Say hi. A is <Ho.>, and B is <Hi.>. Verdict: A, B or tie?")
    assert answer.endswith("Verdict: A")


def verdict_of(text: str) -> list[str]:
    _, answer = asyncio.run(talk({"messages": [{"role": "user", "content": text}]}, pool=VOTES))
    return [choice.message.content for choice in answer.choices]  # type: ignore[attr-defined]


def test_answers_in_json_where_that_is_asked_for() -> None:
    structure = VERDICT.structure("json", Scale(0, 2))
    (answer,) = verdicts(VOTES.pairs[0], "b-first", **structure)
    assert json.loads(answer)["verdict"] == "B"


def test_chooses_where_a_recorded_tie_is_no_answer() -> None:
    said = verdicts(VOTES.pairs[2], "a-first", ties=False, n=64)
    assert {answer[-1] for answer in said} == {"A", "B"}


def test_refuses_what_was_not_recorded() -> None:
    (said,) = verdicts(Pair("x", "Say ho.", "1", other="2"), "a-first")
    assert "The messages hold no comparison recorded in x.csv" in said


@pytest.mark.parametrize(("first_place", "share"), [(0.3, 0.6), (-0.3, 0.0), (0.5, 1.0)])
def test_prefers_the_first_place_by_as_much_as_is_planted(first_place: float, share: float) -> None:
    """Of a response that always loses: preferred first with twice the effect, and never by the second place's."""
    said = verdicts(VOTES.pairs[1], "a-first", first_place=first_place, n=128)
    wins = sum(answer.endswith("A") for answer in said)
    assert stats.binomtest(wins, 128, share).pvalue > 0.001


def test_planted_order_effects_are_the_mean_difference_between_the_orders() -> None:
    votes, rng = Votes(VOTES, 0.2), np.random.default_rng(1)
    points = {"A": 1.0, "tie": 0.5, "B": 0.0}
    first, second = (
        np.mean([points[votes.verdict(Asked(0, order, ties=True), rng)] for _ in range(20_000)])
        for order in (0, 1)
    )
    # The second is of the response that then comes first, which is B.
    assert (first - (1 - second)) / 2 == pytest.approx(0.2, abs=0.01)
