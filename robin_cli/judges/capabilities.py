"""The capabilities of an endpoint, found by asking it for one judgment in several ways."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from robin_cli.ask.answers import read_decision
from robin_cli.ask.expectation import NO_EXPECTATION, TOP_LOGPROBS, expectation_of
from robin_cli.ask.kinds import Kind
from robin_cli.ask.prompts import PromptSet
from robin_cli.ask.verdicts import verdict_of
from robin_cli.judges.failover import Failover
from robin_cli.judges.metering import Price
from robin_cli.judges.openai_decisions import DecisionsJudge
from robin_cli.judges.openai_http import OpenAIJudge
from robin_cli.judges.replies import Completion
from robin_cli.judges.transport import Endpoint
from robin_cli.model.errors import EndpointError
from robin_cli.model.exchange import Answer, Failure, Message, Question, Reply
from robin_cli.model.records import Pair, Rating, Scale

_ANSWER = "The capital of France is Paris."
_WRONG = "The capital of France is Lyon."
_PAIR = Pair("check", "What is the capital of France?", _ANSWER, reference=_ANSWER, other=_WRONG)

_SEVERAL = 4
_SEED = 20
_FEW_LOGPROBS = 5


class Capabilities(Struct, frozen=True, kw_only=True):
    """The capabilities of an endpoint, as in ``robin check --json``; None if one is unknown.

    Attributes:
        latency_s, reason, answer: of the first judgment.
        rating: the first judgment's; unset if two responses are compared.
        verdict, verdict_swapped: the verdicts on two responses in the two orders, in words, or why there is none.
        parameters: the parameters of a request after refused ones were dropped.
        system_role: the endpoint accepts system messages.
        choices_of_4: the number of answers to one request for 4, 1 to 4.
        logprobs: answers come with log probabilities of tokens.
        expected_rating, text_because: the rating of an answer by log probabilities, or why it is read from the text; both None
            without log probabilities, or without a rating.
        decisions: a rating, or the share of wins, by /decisions, in words; or why there is none.
        seed: "honoured" (the same answer twice), "accepted" (another answer) or "refused".
        reasoning_tokens, completion_tokens: of the first judgment.
        reasoning_usd: the cost of its reasoning; None without a price, or without reasoning.
        short_levels: each level of the scale is one token, as rating by log probabilities needs.
        usage, usage_of_several: the endpoint counts tokens itself, of one choice and of several.
        repeats: all answers without a seed, to the first request and to the one for 4, were the same to the letter.
        raw_reply: the first judgment as the endpoint sent it, without the key.
        requests: the number of answers that the check took.
    """

    endpoint: str
    model: str
    latency_s: float
    rating: int | UnsetType | None = UNSET
    verdict: str | UnsetType = UNSET
    verdict_swapped: str | UnsetType = UNSET
    reason: str | None
    answer: str
    parameters: list[str]
    system_role: bool
    choices_of_4: int
    logprobs: bool | None
    expected_rating: float | None
    text_because: str | None
    decisions: str
    seed: str
    reasoning_tokens: int | None
    completion_tokens: int | None
    reasoning_usd: float | None
    short_levels: bool
    usage: bool
    usage_of_several: bool
    repeats: bool
    raw_reply: str
    price: str | None
    requests: int


class DecidesAlone(Struct, frozen=True):
    """The capabilities of an endpoint that answers /decisions, but no chat completions; ``chat`` says why not."""

    endpoint: str
    model: str
    chat: str
    decisions: str
    price: str | None
    raw_reply: str
    requests: int = 1


async def look_at(
    judge: OpenAIJudge,
    patient: Failover,
    price: Price | None,
    endpoint: Endpoint,
    prompts: PromptSet,
    notify: Callable[[str], None],
) -> Capabilities | DecidesAlone | Failure:
    """Ask ``judge``, at ``endpoint``, for one judgment in several ways; return a Failure if no plain question is answered.

    Args:
        patient: the same judge, asked again when it fails for a moment.

    Raises:
        EndpointError: the endpoint cannot be used.
    """
    base_url = endpoint.base_url
    decider = DecisionsJudge(replace(endpoint, decisions=True), notify=notify)
    words, cost = (price.text(), price.cost) if price else (None, None)
    decided = ""
    try:
        decided = await _decided(decider, prompts)
        of_endpoint = {"endpoint": base_url, "price": words, "decisions": decided}
        seen = await _seen(judge, patient, prompts, cost, **of_endpoint)
        if not isinstance(seen, Failure) or not decided.startswith("yes"):
            return seen
        chat = seen.detail
    except EndpointError as error:
        if not decided.startswith("yes"):
            raise
        chat = str(error).removeprefix(f"{base_url}: ")
    finally:
        await judge.aclose()
        await decider.aclose()
    chat, raw = f"no: {chat.partition(';')[0]}", decider.raw_reply
    return DecidesAlone(base_url, endpoint.model, chat, decided, words, raw)


async def _decided(judge: DecisionsJudge, prompts: PromptSet) -> str:
    """Ask for the same judgment by /decisions; return the value in words, or why there is none."""
    names = prompts.attributes[:1]
    structure = prompts.structure("decisions", names)
    messages = prompts.messages(_PAIR, names[0], answers="decisions")
    outcome = await judge.probe(messages, structure)
    if not isinstance(outcome, Completion):
        return f"no: {outcome.detail.partition(';')[0]}"
    (answer,) = outcome.answers
    rating, expected, _ = read_decision(prompts.kind, answer, prompts.scales[0])
    if expected.value is None:
        return f"yes, but this answer holds no {prompts.kind.noun} ({rating.reason})"
    return f"yes: --answers decisions would rate this answer {expected.value:.2f}"


async def _seen(
    judge: OpenAIJudge,
    patient: Failover,
    prompts: PromptSet,
    cost: Callable[[int, int], float] | None,
    **of_endpoint: Any,
) -> Capabilities | Failure:
    """Ask plainly, for four answers at once, with log probabilities, twice with one seed, and in the other order of two."""
    kind, scale = prompts.kind, prompts.scales[0]
    messages, *swapped = (
        prompts.messages(_PAIR, prompts.attributes[0], variant)
        for variant in range(len(prompts.kind.variants))
    )
    first = await patient.ask(Question(messages))
    if isinstance(first, Failure):
        return first
    raw_reply = judge.raw_reply
    several = await patient.ask(Question(messages, samples=_SEVERAL))
    logprobs = await _with_logprobs(judge, messages)
    with_tokens = logprobs.answers if isinstance(logprobs, Completion) else ()
    seeded = [await patient.ask(Question(messages, seed=_SEED)) for _ in range(2)]
    others = [await patient.ask(Question(message)) for message in swapped]
    answer = first.answers[0]
    came = several.answers if isinstance(several, Reply) else ()
    rating, expected = _read(answer, scale, kind), NO_EXPECTATION
    if with_tokens and (tokens := with_tokens[0].tokens):
        text = with_tokens[0].text
        if (at := kind.place(text)) is not None:
            expected = expectation_of(kind, tokens, text, at, scale)
    verdicts = [_verdict(reply, scale, kind) for reply in (first, *others)]
    of_verdicts = dict(zip(("verdict", "verdict_swapped"), verdicts, strict=False))
    has_logprobs = any(choice.tokens for choice in with_tokens)
    answered = (first, several, logprobs, *seeded, *others)
    return Capabilities(
        **of_endpoint,
        **(of_verdicts if others else {"rating": rating.value}),
        model=first.model,
        latency_s=first.latency_s,
        reason=rating.reason,
        answer=answer.text,
        raw_reply=raw_reply,
        choices_of_4=len(came) or 1,
        logprobs=has_logprobs if with_tokens or not _may_pass(logprobs) else None,
        expected_rating=expected.value,
        text_because=expected.why,
        seed=_seed(judge, seeded),
        reasoning_tokens=(reasoning := first.usage.reasoning_tokens),
        completion_tokens=first.usage.completion_tokens,
        reasoning_usd=cost(0, reasoning) if cost and reasoning else None,
        short_levels=bool(others) or scale.is_of_digits,
        usage=not first.usage.estimated,
        usage_of_several=isinstance(several, Reply) and not several.usage.estimated,
        repeats={choice.text for choice in came} == {answer.text},
        system_role=judge.dialect.takes_system,
        parameters=sorted(_parameters(judge)),
        requests=sum(isinstance(outcome, Reply | Completion) for outcome in answered)
        + of_endpoint["decisions"].startswith("yes"),
    )


async def _with_logprobs(judge: OpenAIJudge, messages: Sequence[Message]) -> object:
    """Ask for an answer with as many log probabilities per token as a run, or, if refused, with fewer."""
    outcome = await judge.probe(messages, {"logprobs": True, "top_logprobs": TOP_LOGPROBS})
    if isinstance(outcome, Completion) or _may_pass(outcome):
        return outcome
    return await judge.probe(messages, {"logprobs": True, "top_logprobs": _FEW_LOGPROBS})


def _may_pass(problem: object) -> bool:
    return isinstance(problem, Failure) and not problem.refused


def _read(answer: Answer, scale: Scale, kind: Kind) -> Rating:
    return kind.parse(
        answer.text, scale, finish_reason=answer.finish_reason, refusal=answer.refusal
    )


def _verdict(reply: Reply | Failure, scale: Scale, kind: Kind) -> str:
    if not isinstance(reply, Reply):
        return "none: it was not answered"
    rating = _read(reply.answers[0], scale, kind)
    return verdict_of(rating.value, scale) or f"none: {rating.reason}"


def _parameters(judge: OpenAIJudge) -> set[str]:
    """Return the names of the parameters that are sent, after all that was learnt."""
    return set(judge.body(Question([], seed=0))) - {"messages", "model"}


def _seed(judge: OpenAIJudge, seeded: Sequence[Reply | Failure]) -> str:
    if "seed" not in _parameters(judge):
        return "refused"
    texts = [reply.answers[0].text for reply in seeded if isinstance(reply, Reply)]
    if len(texts) < len(seeded):
        return "unknown"
    return "honoured" if texts[0] == texts[1] else "accepted"
