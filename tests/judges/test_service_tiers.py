"""Service tiers over real HTTP: what is sent, what has no room, and where a call goes then."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from robin_cli.dispatch.limiter import Limiter
from robin_cli.dispatch.retrying import NO_ROOM_S, Retrying
from robin_cli.judges.judge import Judge, Notices
from robin_cli.model.errors import EndpointError
from robin_cli.model.exchange import Answer, Failure, Question, Reply
from robin_cli.model.records import NO_ROOM, Usage
from robin_cli.runner.health import STALL_S, Health
from tests.conftest import has, refuses
from tests.judges import virtual, wire
from tests.judges.wire import QUESTION, ask, completion, error, serving

NO_CAPACITY = error(
    429, "Resource unavailable: no flex capacity, try again later", code="resource_unavailable"
)
GROQ_FULL = error(498, "Flex tier capacity exceeded", code="capacity_exceeded")


NO_ROOM_SAID = {
    429: "Resource unavailable",
    498: "capacity_exceeded",
    503: "The model is overloaded. Please try again later.",  # as Google's flex says it
}


def full(times: int, status: int = 429) -> wire.Handler:
    """No room for the first ``times`` requests at flex; every other request is answered, and says at which tier."""

    def handle(number: int, body: dict[str, Any]) -> wire.Answer:
        if body.get("service_tier") == "flex" and number < times:
            return error(status, NO_ROOM_SAID[status])
        return completion(service_tier=body.get("service_tier", "default"))

    return handle


def usage(outcome: Reply | Failure) -> Usage:
    assert isinstance(outcome, Reply), outcome
    return outcome.usage


def test_asks_at_the_tier_and_records_what_the_answer_says_it_was() -> None:
    details = {
        "prompt_tokens": 2000,
        "completion_tokens": 9,
        "prompt_tokens_details": {"cached_tokens": 1024},
    }
    with serving(lambda *_: completion(service_tier="flex", usage=details)) as server:
        told = usage(ask(server.url, service_tier="flex").outcomes[0])
    assert server.bodies[0]["service_tier"] == "flex"
    assert (told.service_tier, told.cached_tokens) == ("flex", 1024)
    busy = error(429, NO_ROOM_SAID[429])  # of no tier, where none was asked for
    with serving(lambda number, _: completion() if number else busy) as server:
        talk = ask(server.url)
    assert "service_tier" not in server.bodies[0]
    assert (usage(talk.outcomes[0]).service_tier, usage(talk.outcomes[0]).cached_tokens) == (
        None,
        None,
    )
    assert "too many requests" in talk.notices[0]


@pytest.mark.parametrize("status", NO_ROOM_SAID)
def test_waits_for_room_beyond_all_retries_with_growing_pauses_and_says_so_once(
    status: int,
) -> None:
    with serving(full(20, status)) as server:
        talk = ask(server.url, service_tier="flex", max_retries=2)
    assert usage(talk.outcomes[0]).service_tier == "flex"
    assert len(server.bodies) == 21
    assert sum(talk.slept[-5:]) > sum(talk.slept[:5])
    (said,) = talk.notices
    has(said, "no room at the service tier flex", "--tier-fallback")


@pytest.mark.parametrize("tier", [None, "flex"])
def test_takes_a_503_that_says_nothing_of_load_for_an_endpoint_that_is_away(
    tier: str | None,
) -> None:
    with serving(lambda *_: error(503, "no healthy upstream")) as server:
        talk = ask(server.url, service_tier=tier, max_retries=2)
    (failure,) = talk.outcomes
    assert isinstance(failure, Failure)
    assert failure.reason == "http_503"
    assert len(server.bodies) == 3


def test_sends_no_fewer_requests_at_a_time_because_a_tier_has_no_room() -> None:
    clock = wire.Clock(lambda now, sleep: Limiter(None, ceiling=64, clock=now, sleep=sleep))
    before = clock.limiter.limit
    with serving(full(30)) as server:
        wire.ask_together(server.url, 8, clock, service_tier="flex")
    assert clock.limiter.limit >= before


def test_sends_a_call_without_room_again_at_once_at_the_normal_tier_if_it_may() -> None:
    with serving(full(10**6)) as server:
        talk = ask(server.url, QUESTION, QUESTION, service_tier="flex", tier_fallback=True)
    assert [body.get("service_tier") for body in server.bodies] == ["flex", None, "flex", None]
    assert [usage(outcome).service_tier for outcome in talk.outcomes] == ["default", "default"]
    assert not talk.slept
    (said,) = talk.notices
    assert "such calls are asked at the normal tier" in said


def no_flex(number: int, body: dict[str, Any]) -> wire.Answer:
    if "service_tier" in body:
        return error(
            400,
            "Flex is not available for this model.",
            param="service_tier",
            type="invalid_request_error",
        )
    return completion()


@pytest.mark.parametrize(
    "refusal",
    [
        error(
            400,
            "Flex is not available for this model.",
            param="service_tier",
            type="invalid_request_error",
        ),
        error(400, "Unsupported service_tier: flex", type="invalid_request_error"),
        error(400, "The model judge is not available with flex processing"),
        error(422, "Invalid value: 'service_tier' must be one of auto, default"),
    ],
)
def test_refuses_a_tier_that_the_model_does_not_have_and_says_what_to_do(refusal: Any) -> None:
    with serving(lambda *_: refusal) as server:
        refuses(
            EndpointError, r"service.tier.*--tier-fallback", ask, server.url, service_tier="flex"
        )


def test_leaves_out_a_tier_that_the_model_does_not_have_if_it_may() -> None:
    with serving(no_flex) as server:
        talk = ask(server.url, QUESTION, QUESTION, service_tier="flex", tier_fallback=True)
    assert [body.get("service_tier") for body in server.bodies] == ["flex", None, None]
    assert [usage(outcome).service_tier for outcome in talk.outcomes] == ["default", "default"]
    assert len(talk.notices) == 1


class Full(Judge):
    """Has no room until ``room_at``."""

    def __init__(self, room_at: float) -> None:
        self.room_at = room_at
        self.asked = 0

    async def ask(self, question: Question) -> Reply | Failure:
        self.asked += 1
        if asyncio.get_running_loop().time() < self.room_at:
            return Failure(NO_ROOM, "no capacity")
        return Reply((Answer("Rating: 3"),), "m", Usage(), None, 0.0)


@pytest.mark.parametrize(("hours", "answered"), [(1, True), (9, True), (25, False)])
def test_waits_a_night_for_room_but_no_more_than_a_day(hours: int, answered: bool) -> None:
    async def scene() -> tuple[Reply | Failure, int]:
        judge, now = Full(hours * 3600.0), asyncio.get_running_loop().time
        limiter, notices = Limiter(4, ceiling=4, clock=now), Notices("m", lambda _: None)
        waiting = Retrying(judge, limiter, notices, max_retries=2, clock=now)
        return await waiting.ask(QUESTION), judge.asked

    outcome, asked = virtual.run(scene())
    assert isinstance(outcome, Reply) == answered
    assert asked < 3 * min(hours * 3600, NO_ROOM_S) / 60


def test_is_not_stalled_while_a_tier_says_that_it_has_no_room() -> None:
    now = [0.0]
    health = Health("", lambda: now[0])
    health.answered()
    now[0] = 6 * STALL_S
    assert health.blames_the_arm(Failure("http_500", "oops"), no_room_at=now[0] - 60)
    now[0] += 2 * STALL_S
    with pytest.raises(EndpointError, match="nothing was answered"):
        health.blames_the_arm(Failure("http_500", "oops"), no_room_at=now[0] - 2 * STALL_S)
    with pytest.raises(EndpointError, match=r"no room for a whole day.*--tier-fallback"):
        health.blames_the_arm(Failure(NO_ROOM, "no capacity"))
