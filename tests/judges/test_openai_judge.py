"""Every shape that OpenAI-compatible endpoints send, over real HTTP."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from robin_cli.judges import sdk, transport
from robin_cli.judges.limiter import MAX_HOLD_S
from robin_cli.judges.openai_decisions import DecisionsJudge
from robin_cli.judges.transport import Endpoint
from robin_cli.model.errors import EndpointError
from robin_cli.model.exchange import Failure, Question, Reply
from tests.conftest import free_port, refuses
from tests.judges.wire import KEY, QUESTION, Answer, Handler, ask, completion, error, serving

SELF_SIGNED = Path(__file__).with_name("self_signed.pem")


def once(first: Answer, then: Answer | None = None) -> Handler:
    """Answer the first request with ``first`` and all others with ``then`` (a good completion)."""
    return lambda number, _: first if number == 0 else then or completion()


def reply(outcome: Reply | Failure) -> Reply:
    assert isinstance(outcome, Reply), outcome
    return outcome


def failure(outcome: Reply | Failure) -> Failure:
    assert isinstance(outcome, Failure), outcome
    return outcome


def test_reads_an_answer_with_its_model_usage_and_id_or_that_of_the_endpoints_log() -> None:
    named = web.json_response(completion(), headers={"x-request-id": "req-7"})
    with serving(lambda number, _: named if number else completion()) as wire:
        got, logged = map(reply, ask(wire.url, QUESTION, QUESTION).outcomes)
    assert [answer.text for answer in got.answers] == ["Feedback: fine.\nRating: 3"]
    assert (got.model, got.usage.prompt_tokens, got.usage.completion_tokens) == ("judge-1", 100, 9)
    assert (got.request_id, logged.request_id) == ("chatcmpl-1", "req-7")
    assert wire.headers[0]["Authorization"] == f"Bearer {KEY}"


def test_always_sends_temperature_and_top_p_and_a_seed_only_where_there_is_one() -> None:
    with serving(lambda *_: completion()) as wire:
        ask(
            wire.url,
            QUESTION,
            Question(QUESTION.messages, samples=3, seed=5),
            extra_body={"top_k": 4, "top_p": 0.5},
        )
    assert wire.bodies[0] == {
        "model": "judge", "messages": [{"role": "user", "content": "Rate this."}], "max_tokens": 1024,
        "temperature": 1.0, "top_p": 0.5, "top_k": 4,
    }  # fmt: skip
    assert (wire.bodies[1]["seed"], wire.bodies[1]["n"]) == (5, 3)


def as_json(body: bytes | str, **more: Any) -> web.Response:
    return web.Response(body=body, content_type="application/json", **more)


# The first answer, and what comes of it: another request, the end of the run with these words, or a pair given up.
FIRST: list[tuple[Answer, str, str]] = [
    (error(500, "oops"), "again", ""),
    (error(503, "warming up"), "again", ""),
    (error(408, "timeout"), "again", ""),
    ({"error": {"message": "upstream", "code": 502}}, "again", ""),
    ({"error": {"message": "no code"}}, "again", ""),
    (error(401, "Incorrect API key provided"), "ends", "key was refused"),
    (error(403, "no access"), "ends", "may not use"),
    (error(402, "Insufficient credits"), "ends", "out of credit"),
    (error(404, "The model `x` does not exist"), "ends", "check --model"),
    # the name of a model is no word about images
    (error(404, "The model `x-vision` does not exist or is not supported"), "ends", "check --model"),
    (error(400, "model x not found", code="model_not_found"), "ends", "check --model"),
    (error(429, "You exceeded your current quota", code="insufficient_quota"), "ends", "quota"),
    (error(429, "Rate limit reached: requests per day (RPD)"), "ends", "quota"),
    ({"error": {"message": "out of credit", "code": 402}}, "ends", "out of credit"),
    (error(400, "This model's maximum context length is 8", code="context_length_exceeded"), "gives up", "context_length"),
    (error(400, "request (9000 tokens) exceeds the available context size"), "gives up", "context_length"),
    (error(413, "too large"), "gives up", "context_length"),
    (error(400, "The response was filtered", code="content_filter"), "gives up", "filtered"),
    (error(400, "something odd"), "gives up", "bad_request"),
    (as_json('[{"error": {"code": 400, "message": "something odd"}}]', status=400), "gives up", "bad_request"),
    (as_json('{"message": "flat and odd", "code": "400"}', status=400), "gives up", "bad_request"),
]  # fmt: skip


@pytest.mark.parametrize(("answer", "then", "said"), FIRST)
def test_asks_again_ends_or_gives_a_pair_up_by_the_first_answer(
    answer: Answer, then: str, said: str
) -> None:
    def handler(number: int, _: object) -> Answer:
        if number and then != "gives up":
            return completion()
        if isinstance(answer, dict):
            return answer
        assert isinstance(answer, web.Response)
        return as_json(answer.text or "", status=answer.status)

    with serving(handler) as wire:
        if then == "ends":
            refuses(EndpointError, said, ask, wire.url)
        else:
            (outcome,) = ask(wire.url).outcomes
            assert (
                isinstance(outcome, Reply) if then == "again" else failure(outcome).reason == said
            )
    # A refusal is asked once more: as it was, or for a shorter answer.
    assert len(wire.bodies) == 1 + (then != "ends" and said != "filtered")


@pytest.mark.parametrize(
    ("headers", "least", "most"),
    [
        ({"retry-after": "7"}, 7, 8),
        (
            {
                "retry-after": "Wed, 21 Oct 2015 07:28:25 GMT",
                "date": "Wed, 21 Oct 2015 07:28:00 GMT",
            },
            25,
            26,
        ),
        ({"retry-after": "7200"}, MAX_HOLD_S, MAX_HOLD_S + 1),
    ],
)
def test_waits_as_long_as_an_endpoint_says_or_says_so(
    headers: dict[str, str], least: float, most: float
) -> None:
    with serving(once(error(429, "slow down", headers))) as wire:
        talk = ask(wire.url)
    reply(talk.outcomes[0])
    assert len(wire.bodies) == 2
    assert least <= max(talk.slept) <= most
    assert len([line for line in talk.notices if "7200" in line and "after 120 s" in line]) == (
        least == MAX_HOLD_S
    )


def test_asks_again_when_the_connection_breaks_in_the_middle() -> None:
    class Torn(web.StreamResponse):
        async def prepare(self, request: web.BaseRequest) -> Any:
            self.content_length = 1000
            writer = await super().prepare(request)
            await self.write(b'{"id": "x", "cho')
            assert request.transport is not None
            request.transport.close()
            return writer

    with serving(lambda number, _: Torn() if number == 0 else completion()) as wire:
        reply(ask(wire.url).outcomes[0])
    assert len(wire.bodies) == 2


def test_gives_up_a_call_that_is_never_answered() -> None:
    async def never() -> Answer:
        await asyncio.sleep(30)
        return completion()

    with serving(lambda *_: never()) as wire:
        talk = ask(wire.url, timeout_s=0.2, max_retries=1)
    assert (failure(talk.outcomes[0]).reason, len(wire.bodies)) == ("timeout", 2)
    assert "--timeout" in failure(talk.outcomes[0]).detail


def test_gives_up_when_nobody_listens() -> None:
    talk = ask(f"http://127.0.0.1:{free_port()}/v1", max_retries=2)
    assert failure(talk.outcomes[0]).reason == "connection"
    assert len(talk.slept) == 1  # there was never a connection: more would not help
    assert any("trying again" in line for line in talk.notices)


def test_gives_up_after_its_retries_and_says_why() -> None:
    with serving(lambda *_: error(500, "broken for good")) as wire:
        talk = ask(wire.url, max_retries=3)
    assert (failure(talk.outcomes[0]).reason, len(wire.bodies)) == ("http_500", 4)
    assert "broken for good" in failure(talk.outcomes[0]).detail


def test_does_not_count_too_many_requests_as_retries() -> None:
    with serving(lambda number, _: error(429, "slow down") if number < 9 else completion()) as wire:
        reply(ask(wire.url, max_retries=2).outcomes[0])
    assert len(wire.bodies) == 10


def test_says_that_no_key_was_sent_where_one_is_wanted() -> None:
    with serving(once(error(401, "Invalid API Key"))) as wire, pytest.raises(EndpointError) as said:
        ask(wire.url, api_key="none")
    assert "none was sent (401: Invalid API Key); set one in OPENAI_API_KEY" in str(said.value)
    assert "refused" not in str(said.value)


@pytest.mark.parametrize(
    ("refused", "message", "sent"),
    [
        (
            "max_tokens",
            "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens'.",
            "max_completion_tokens",
        ),
        (
            "temperature",
            "Unsupported value: 'temperature' does not support 0.5 with this model.",
            None,
        ),
        ("seed", 'Unknown name "seed": Cannot find field.', None),
        ("n", "'n' must be 1", None),
    ],
)
def test_learns_once_which_parameter_is_refused(
    refused: str, message: str, sent: str | None
) -> None:
    def handler(_: int, body: dict[str, Any]) -> Answer:
        choices = completion()["choices"] * body.get("n", 1)
        return error(400, message) if refused in body else completion(choices=choices)

    question = Question(QUESTION.messages, samples=2, seed=4)
    with serving(handler) as wire:
        talk = ask(wire.url, question, question, question, temperature=0.5)
    assert [type(outcome) for outcome in talk.outcomes] == [Reply] * 3
    assert len(wire.bodies) == 4
    assert sent is None or wire.bodies[-1][sent] == 1024
    assert len(talk.notices) == (refused != "n")


WITH_SYSTEM = Question([{"role": "system", "content": "You rate."}, *QUESTION.messages], samples=2)


@pytest.mark.parametrize(
    ("refused", "requests"), [(["system"], 4), (["n"], 3), (["n", "system"], 5)], ids=str
)
def test_learns_by_trying_what_is_refused_in_words_that_nobody_knows(
    refused: list[str], requests: int
) -> None:
    def handler(_: int, body: dict[str, Any]) -> Answer:
        holds = {"system": len(body["messages"]) > 1, "n": "n" in body}
        if any(holds[each] for each in refused):
            return error(400, "no such luck")
        return completion(choices=completion()["choices"] * body.get("n", 1))

    with serving(handler) as wire:
        talk = ask(wire.url, WITH_SYSTEM, WITH_SYSTEM)
    assert all(isinstance(outcome, Reply) for outcome in talk.outcomes)
    assert len(wire.bodies) == requests
    sent = wire.bodies[-1]
    assert ("n" in sent, len(sent["messages"])) == ("n" not in refused, 2 - ("system" in refused))
    assert len(talk.notices) == ("system" in refused)


def test_doubts_nothing_that_was_accepted_before() -> None:
    def handler(number: int, body: dict[str, Any]) -> Answer:
        if number:
            return error(400, "The model has crashed")
        return completion(choices=completion()["choices"] * body["n"])

    with serving(handler) as wire:
        talk = ask(wire.url, WITH_SYSTEM, WITH_SYSTEM)
    assert failure(talk.outcomes[1]).reason == "bad_request"
    assert all(body == wire.bodies[0] for body in wire.bodies)
    assert len(wire.bodies) == 3


def test_asks_for_a_shorter_answer_where_the_prompt_leaves_no_room_for_a_long_one() -> None:
    full = "This model's maximum context length is 2048 tokens; you requested 1300 and 1024"
    with serving(
        lambda _, body: error(400, full) if body["max_tokens"] > 700 else completion()
    ) as wire:
        reply(ask(wire.url).outcomes[0])
    assert [body["max_tokens"] for body in wire.bodies] == [1024, 512]


def test_asks_for_as_much_as_the_credit_pays_for() -> None:
    poor = "This request requires more credits, or fewer max_tokens. You can only afford 300."
    with serving(
        lambda _, body: error(402, poor) if body["max_tokens"] > 300 else completion()
    ) as wire:
        talk = ask(wire.url, QUESTION, QUESTION)
    assert [body["max_tokens"] for body in wire.bodies] == [1024, 300, 300]
    assert "--max-tokens is 300" in talk.notices[0]


@pytest.mark.parametrize(
    ("given", "kept"), [({"temperature": 0.3}, "temperature"), ({"top_p": 0.5}, "top_p")]
)
def test_keeps_the_one_of_two_parameters_that_the_user_gave(
    given: dict[str, float], kept: str
) -> None:
    def handler(_: int, body: dict[str, Any]) -> Answer:
        if {"temperature", "top_p"} <= body.keys():
            return error(400, "`temperature` and `top_p` cannot both be specified for this model.")
        return completion()

    with serving(handler) as wire:
        reply(ask(wire.url, **given).outcomes[0])
    assert {"temperature", "top_p"} & wire.bodies[-1].keys() == {kept}


def test_keeps_the_effort_that_the_user_named_and_leaves_out_what_reasoning_refuses() -> None:
    def respond(_number: int, body: dict[str, Any]) -> Answer:
        for name in ("temperature", "top_p"):
            if name in body:
                words = f"Unsupported parameter: '{name}' is not supported when reasoning_effort is not 'none'."
                return error(400, words)
        return completion()

    with serving(respond) as wire:
        talk = ask(wire.url, QUESTION, reasoning_effort="low")
    assert isinstance(talk.outcomes[-1], Reply)
    assert wire.bodies[-1]["reasoning_effort"] == "low"

    refused = error(400, "Unsupported value: 'reasoning_effort' does not support 'none'")
    with serving(lambda *_: refused) as wire:
        says = "does not take --reasoning-effort none"
        refuses(EndpointError, says, ask, wire.url, QUESTION, reasoning_effort="none")


def test_does_not_loop_when_a_parameter_is_refused_that_it_does_not_send() -> None:
    with serving(lambda *_: error(400, "temperature not supported", param="temperature")) as wire:
        assert failure(ask(wire.url).outcomes[0]).reason == "bad_request"
    assert len(wire.bodies) == 3


THREE = Question(QUESTION.messages, samples=3)


def test_asks_for_no_more_choices_than_once_came_back_and_keeps_none_beyond_those_asked() -> None:
    with serving(lambda *_: completion()) as wire:  # n is ignored
        talk = ask(wire.url, THREE, THREE)
    assert [len(reply(outcome).answers) for outcome in talk.outcomes] == [1, 1]
    assert [body.get("n") for body in wire.bodies] == [3, None]
    assert not talk.notices
    with serving(lambda *_: completion(choices=completion()["choices"] * 5)) as wire:
        assert len(reply(ask(wire.url, THREE).outcomes[0]).answers) == 3


def test_a_short_reply_of_an_endpoint_that_gives_several_changes_nothing() -> None:
    def short_once(number: int, body: dict[str, Any]) -> Answer:
        return completion(choices=completion()["choices"] * (1 if number == 1 else body["n"]))

    with serving(short_once) as wire:
        ask(wire.url, THREE, THREE, THREE)
    assert [body["n"] for body in wire.bodies] == [3, 3, 3]


def test_asks_for_half_as_many_choices_until_it_is_not_refused() -> None:
    def capped(_: int, body: dict[str, Any]) -> Answer:
        if body.get("n", 1) > 2:
            return error(400, "Field 'n': Value must be between 1 <= value <= 2")
        return completion(choices=completion()["choices"] * body.get("n", 1))

    nine = Question(QUESTION.messages, samples=9)
    with serving(capped) as wire:
        talk = ask(wire.url, nine, nine)
    assert [body["n"] for body in wire.bodies] == [9, 4, 2, 2]
    assert [len(reply(outcome).answers) for outcome in talk.outcomes] == [2, 2]


def test_takes_thinking_parts_refusals_and_odd_usage_as_they_come() -> None:
    choices: list[dict[str, Any]] = [
        {"message": {"content": None, "reasoning": "hm"}, "finish_reason": "length"},
        {
            "message": {"content": [{"type": "text", "text": "Rating: "}, {"text": "2"}]},
            "finish_reason": None,
        },
        {"message": {"content": None, "refusal": "I cannot"}},
        {"message": {"content": "\ud800 Rating: 1"}},
    ]
    body = completion(
        choices=choices, usage={"prompt_tokens": "12", "completion_tokens": -1}, model=None, id=None
    )
    with serving(
        lambda *_: web.Response(body=json.dumps(body).encode(), content_type="application/json")
    ) as wire:
        got = reply(ask(wire.url, Question(QUESTION.messages, samples=4)).outcomes[0])
    assert [(answer.text, answer.finish_reason, answer.refusal) for answer in got.answers] == [
        ("", "length", None),
        ("Rating: 2", None, None),
        ("", None, "I cannot"),
        ("? Rating: 1", None, None),
    ]
    assert (got.usage.prompt_tokens, got.usage.estimated, got.model) == (12, True, "judge")
    assert got.usage.completion_tokens  # by the characters of the four


def test_waits_longer_and_longer_between_tries_but_never_long() -> None:
    with serving(lambda *_: error(502, "bad gateway")) as wire:
        talk = ask(wire.url, max_retries=12)
    ceilings = [min(60, 0.02 * 4**tried) for tried in range(12)]
    assert all(0 <= wait <= ceiling for wait, ceiling in zip(talk.slept, ceilings, strict=True))
    assert sum(talk.slept) > 20


def test_waits_as_long_as_an_overloaded_endpoint_asks() -> None:
    refusals = {number: error(500, "broken") for number in range(20, 22)}
    refusals[22] = error(503, "later", {"Retry-After": "50"})
    with serving(lambda number, _: refusals.get(number, completion())) as wire:
        talk = ask(wire.url, *[QUESTION] * 21, max_retries=10)
    assert all(isinstance(each, Reply) for each in talk.outcomes)
    assert 49 <= max(talk.slept) <= 51  # the limiter holds it, or the back-off and the limiter
    assert max(talk.slept[:2]) <= 1


def test_says_each_kind_of_trouble_once() -> None:
    with serving(lambda *_: error(500, "broken")) as wire:
        talk = ask(wire.url, QUESTION, QUESTION, max_retries=3)
    assert len(wire.bodies) == 8
    assert len(talk.notices) == 1


def test_leaves_alone_what_extra_body_says_of_a_parameter() -> None:
    refusal = error(
        400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens'.", param="max_tokens"
    )
    with serving(once(refusal)) as wire:
        ask(
            wire.url,
            extra_body={"max_tokens": 7, "chat_template_kwargs": {"enable_thinking": False}},
        )
    assert len(wire.bodies) == 2
    assert wire.bodies[1]["max_tokens"] == 7
    assert wire.bodies[1]["chat_template_kwargs"] == {"enable_thinking": False}


def test_reaches_this_machine_without_a_proxy_and_names_the_variable_of_one_it_cannot_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "socks://127.0.0.1:9")
    with serving(lambda *_: completion()) as wire:
        reply(ask(wire.url).outcomes[0])
    refuses(
        EndpointError, "ALL_PROXY: not a proxy that robin can use", ask, "https://judge.test/v1"
    )


def test_sends_requests_to_the_proxy_of_the_environment_with_its_password_unless_no_proxy_names_the_host(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with serving(lambda *_: completion()) as wire:
        proxy = wire.url.replace("//", "//me:secret@").removesuffix("/v1")
        monkeypatch.setenv("HTTP_PROXY", proxy)
        reply(ask("http://judge.test/v1").outcomes[0])
        monkeypatch.setenv("NO_PROXY", "judge.test")
        assert isinstance(ask("http://judge.test/v1").outcomes[0], Failure)
    assert len(wire.headers) == 1
    assert wire.headers[0]["Host"] == "judge.test"
    assert wire.headers[0]["Proxy-Authorization"] == "Basic bWU6c2VjcmV0"


def test_says_how_to_trust_a_certificate_and_which_variable_names_one_that_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(SELF_SIGNED)
    unread = "SSL_CERT_FILE: its certificates cannot be read"
    with serving(lambda *_: completion(), tls=tls) as wire:
        refuses(EndpointError, "its certificate is not trusted; .*SSL_CERT_FILE", ask, wire.url)
        for file in ("/nowhere.pem", str(SELF_SIGNED)):
            sdk.certificates.cache_clear()
            monkeypatch.setenv("SSL_CERT_FILE", file)
            if file == str(SELF_SIGNED):
                reply(ask(wire.url).outcomes[0])
            else:
                refuses(EndpointError, unread, ask, wire.url)
    sdk.certificates.cache_clear()


@pytest.mark.parametrize(
    ("models", "is_noted"),
    [(("other", "third"), True), (("org/Judge:latest", "other"), False), ((), False)],
)
def test_notes_a_model_that_the_endpoint_does_not_list(
    models: Sequence[str], is_noted: bool
) -> None:
    with serving(lambda *_: completion(), models=models) as wire:
        talk = ask(wire.url, QUESTION, QUESTION)
    said = f"{wire.url}: does not list the model judge, but other, third; is --model right?"
    assert talk.notices == [said] * is_noted


def test_says_that_a_server_does_not_speak_https() -> None:
    with serving(lambda *_: completion()) as wire:
        address = wire.url.replace("http:", "https:")
        refuses(EndpointError, "does not speak https; write http://", ask, address)


def test_a_decision_model_that_takes_no_images_refuses_the_request() -> None:
    async def talk(url: str) -> Reply | Failure:
        endpoint = Endpoint(model="m", base_url=url, api_key="none", decisions=True)
        judge = DecisionsJudge(endpoint, notify=lambda _: None)
        try:
            return await judge.ask(Question(QUESTION.messages, structure={"questions": []}))
        finally:
            await judge.aclose()

    with serving(lambda *_: error(400, "image input is not supported by this model")) as wire:
        outcome = failure(asyncio.run(talk(wire.url)))
    assert (outcome.reason, outcome.adapted, len(wire.bodies)) == ("bad_request", False, 1)


def test_asks_whether_a_server_speaks_https_that_never_greets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transport, "_CONNECT_TIMEOUT_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        (outcome,) = ask(f"https://127.0.0.1:{port}/v1", max_retries=0).outcomes
    assert "does it speak https? If not, write http:// in --base-url" in failure(outcome).detail


def test_follows_a_redirect_at_the_same_host_but_to_no_other() -> None:
    def moved(to: str) -> web.Response:
        return web.Response(status=307, headers={"Location": to})

    with serving(once(moved("/v1/chat/completions?again"))) as wire:
        reply(ask(wire.url, QUESTION, QUESTION).outcomes[1])
    assert len(wire.bodies) == 3
    with serving(lambda *_: moved("http://127.0.0.1:9/v1/chat/completions")) as wire:
        refuses(EndpointError, "redirects .307. to http://127.0.0.1:9", ask, wire.url)
    assert len(wire.bodies) == 1
    with serving(lambda *_: web.Response(status=302, headers={"Location": "/in?t=1"})) as wire:
        whole = wire.url.replace("/v1", "/in")
        refuses(EndpointError, rf"redirects .302. to {whole}; give", ask, wire.url)
    for location in ("//me:secret@127.0.0.1:9/v1", "http://me:secret@127.0.0.1:9/v1?secret"):
        with serving(lambda *_, to=location: moved(to)) as wire:
            refuses(EndpointError, "to http://127.0.0.1:9/v1; give", ask, wire.url)
    with serving(lambda *_: web.Response(status=302)) as wire:
        refuses(EndpointError, "to no address; check --base-url", ask, wire.url)


def test_names_the_status_that_came() -> None:
    with serving(lambda *_: web.Response(status=204)) as wire:
        (came,) = ask(wire.url).outcomes
    assert "a 204 that is not a JSON object" in reply(came).answers[0].text
