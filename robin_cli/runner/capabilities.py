"""What an endpoint supports, found out by asking it one judgment in a few ways."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from robin_cli.dispatch.dispatched import Dispatched
from robin_cli.judges.metering import Price
from robin_cli.judges.openai_http import OpenAIJudge
from robin_cli.judges.replies import Completion, Problem
from robin_cli.model.exchange import Answer, Failure, Message, Question, Reply
from robin_cli.model.records import Pair, Rating, Scale
from robin_cli.parsing.expectation import TOP_LOGPROBS, Expectation, expectation_of
from robin_cli.parsing.forms import Form
from robin_cli.parsing.verdicts import said_for
from robin_cli.questions.rubrics import PromptSet, load_prompts
from robin_cli.runner.connection import endpoint_alone
from robin_cli.settings.addresses import JudgeAddress
from robin_cli.settings.table import Settings

_QUESTION = "What is the capital of France?"
_ANSWER = "The capital of France is Paris."
_WRONG = "The capital of France is Lyon."

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


async def look_at(
    settings: Settings, asked: JudgeAddress, base_url: str, key: str, notify: Callable[[str], None]
) -> tuple[Capabilities | Failure, Price | None]:
    """Ask the judge at one of its addresses for one judgment, in a few ways.

    Returns:
        What was seen, or the failure where not even the plain question is answered; and the price there.

    Raises:
        EndpointError: the endpoint cannot be used.
    """
    named = settings.attributes[:1] or (() if settings.rubric or settings.pairwise else ("helpfulness",))
    prompts = load_prompts(
        named, settings.rubric, settings.template, pairwise=settings.pairwise, ties=not settings.no_ties
    )
    judge, patient, price = endpoint_alone(settings, asked, base_url, key, notify)
    try:
        return await _seen(judge, patient, prompts), price
    finally:
        await judge.aclose()


async def _seen(judge: OpenAIJudge, patient: Dispatched, prompts: PromptSet) -> Capabilities | Failure:
    """Ask plainly, for four answers at once, with log probabilities, twice with one seed, and in the other order of two."""
    form, scale = prompts.kind.form, prompts.scales[0]
    pair = Pair("check", _QUESTION, _ANSWER, reference=_ANSWER, other=_WRONG)
    messages, *swapped = (
        prompts.messages(pair, prompts.attributes[0], variant) for variant in range(len(prompts.kind.variants))
    )
    first = await patient.ask(Question(messages))
    if isinstance(first, Failure):
        return first
    several = await patient.ask(Question(messages, samples=_SEVERAL))
    logprobs = await _with_logprobs(judge, messages)
    seeded = [await patient.ask(Question(messages, seed=_SEED)) for _ in range(2)]
    others = [await patient.ask(Question(each)) for each in swapped]
    answer = first.answers[0]
    came = several.answers if isinstance(several, Reply) else ()
    return Capabilities(
        reply=first,
        rating=_read(answer, scale, form),
        choices=len(came) or 1,
        logprobs=logprobs.logprobs if isinstance(logprobs, Completion) else None if _may_pass(logprobs) else False,
        expectation=_expectation(logprobs.answers[0], scale, form) if isinstance(logprobs, Completion) else None,
        seed=_seed(judge, seeded),
        usage=not first.usage.estimated,
        usage_of_several=isinstance(several, Reply) and not several.usage.estimated,
        repeats={each.text for each in came} == {answer.text},
        system_role=judge.takes_system,
        sent=tuple(sorted(judge.parameters())),
        requests=sum(isinstance(each, Reply | Completion) for each in (first, several, logprobs, *seeded, *others)),
        verdicts=tuple(_verdict(each, scale, form) for each in (first, *others)) if others else (),
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


def _verdict(reply: Reply | Failure, scale: Scale, form: Form) -> str:
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
    texts = [each.answers[0].text for each in seeded if isinstance(each, Reply)]
    if len(texts) < len(seeded):
        return "unknown"
    return "honoured" if texts[0] == texts[1] else "accepted"
