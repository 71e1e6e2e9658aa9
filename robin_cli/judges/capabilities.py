"""What an endpoint supports, found out by asking it one judgment in a few ways."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from robin_cli.judges.judge import Judge
from robin_cli.judges.openai_http import OpenAIJudge
from robin_cli.judges.replies import Completion, Problem
from robin_cli.model.exchange import Answer, Failure, Message, Question, Reply
from robin_cli.model.records import Rating, Scale
from robin_cli.parsing.expectation import TOP_LOGPROBS, Expectation, expectation_of
from robin_cli.parsing.forms import Form
from robin_cli.parsing.verdicts import said_for

_SEVERAL = 4
_SEED = 20
_FEW_LOGPROBS = 5


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What was seen; one entry None: it could not be found out.

    Attributes:
        reply, rating: the first judgment, and what was read out of it.
        choices: answers that one request for 4 brought, 1 to 4.
        logprobs: whether log probabilities of tokens come with an answer.
        expectation: what an answer with them would be rated by them, or why by its text; None where none came, or no rating.
        seed: "honoured" (the same answer twice), "accepted" (another answer) or "refused".
        usage, usage_of_several: whether the endpoint counts tokens itself, of one choice and of several.
        repeats: whether all answers without a seed, of the first request and of the one for 4, were the same to the letter.
        system_role: whether a system message is taken.
        sent: the parameters of a request after what was refused was learnt.
        requests: how many answers all this took.
        verdicts: on two responses in the first order and in the other, each in words, or why there is none; empty where one
            response was rated.
    """

    reply: Reply
    rating: Rating
    choices: int
    logprobs: bool | None
    expectation: Expectation | None
    seed: str
    usage: bool
    usage_of_several: bool
    repeats: bool
    system_role: bool
    sent: tuple[str, ...]
    requests: int
    verdicts: tuple[str, ...] = ()


async def capabilities_of(
    judge: OpenAIJudge,
    patient: Judge,
    messages: Sequence[Message],
    scale: Scale,
    *,
    form: Form,
    swapped: Sequence[Message] | None = None,
) -> Capabilities | Failure:
    """Ask for one judgment: plainly, four at once, with log probabilities, and twice with one seed.

    Args:
        judge: what is asked.
        patient: the same with retries around it.
        messages, scale: of the judgment.
        form: what the judge is asked for.
        swapped: the same question about two responses in the other order, to be asked once.

    Returns:
        What was seen; the failure where not even the plain question is answered.

    Raises:
        EndpointError: the endpoint cannot be used.
    """
    first = await patient.ask(Question(messages))
    if isinstance(first, Failure):
        return first
    several = await patient.ask(Question(messages, samples=_SEVERAL))
    logprobs = await _with_logprobs(judge, messages)
    seeded = [await patient.ask(Question(messages, seed=_SEED)) for _ in range(2)]
    other = None if swapped is None else await patient.ask(Question(swapped))
    answer = first.answers[0]
    others = [each.text for each in several.answers] if isinstance(several, Reply) else []
    return Capabilities(
        reply=first,
        rating=_read(answer, scale, form),
        choices=len(several.answers) if isinstance(several, Reply) else 1,
        logprobs=logprobs.logprobs if isinstance(logprobs, Completion) else None if _may_pass(logprobs) else False,
        expectation=_expectation(logprobs.answers[0], scale, form) if isinstance(logprobs, Completion) else None,
        seed=_seed(judge, seeded),
        usage=not first.usage.estimated,
        usage_of_several=isinstance(several, Reply) and not several.usage.estimated,
        repeats=bool(others) and set(others) == {answer.text},
        system_role=judge.takes_system,
        sent=tuple(sorted(judge.parameters())),
        requests=sum(isinstance(each, Reply | Completion) for each in (first, several, logprobs, *seeded, other)),
        verdicts=() if swapped is None else tuple(_verdict(each, scale, form) for each in (first, other)),
    )


async def _with_logprobs(judge: OpenAIJudge, messages: Sequence[Message]) -> Completion | Problem:
    """An answer with as many log probabilities a token as a run asks for, or with the fewer that it is content with."""
    outcome = await judge.probe(messages, {"logprobs": True, "top_logprobs": TOP_LOGPROBS})
    if isinstance(outcome, Completion) or _may_pass(outcome):
        return outcome
    return await judge.probe(messages, {"logprobs": True, "top_logprobs": _FEW_LOGPROBS})


def _may_pass(problem: Problem) -> bool:
    return isinstance(problem, Failure) and problem.transient


def _read(answer: Answer, scale: Scale, form: Form) -> Rating:
    return form.parse(answer.text, scale, finish_reason=answer.finish_reason, refusal=answer.refusal)


def _verdict(reply: Reply | Failure | None, scale: Scale, form: Form) -> str:
    if not isinstance(reply, Reply):
        return "none: it was not answered"
    rating = _read(reply.answers[0], scale, form)
    return said_for(rating.value, scale) or f"none: {rating.reason}"


def _expectation(answer: Answer, scale: Scale, form: Form) -> Expectation | None:
    at = form.place(answer.text, "text")
    return None if at is None or not answer.tokens else expectation_of(form, answer.tokens, answer.text, at, scale)


def _seed(judge: OpenAIJudge, seeded: Sequence[Reply | Failure]) -> str:
    if "seed" not in judge.parameters():
        return "refused"
    texts: list[Any] = [each.answers[0].text for each in seeded if isinstance(each, Reply)]
    if len(texts) < len(seeded):
        return "unknown"
    return "honoured" if texts[0] == texts[1] else "accepted"
