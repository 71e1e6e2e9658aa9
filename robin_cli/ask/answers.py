"""Makes judgments of a reply: the reading of each answer, and the tokens, money and time of the request."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from robin_cli.ask.decisions import read_decision
from robin_cli.ask.expectation import Expectation, Reading, expectation_of
from robin_cli.ask.forms import Form, ending_of
from robin_cli.ask.kinds import Kind
from robin_cli.model.exchange import Answer, Failure, Reply
from robin_cli.model.records import UNREADABLE, Judgment, Scale
from robin_cli.model.space import ArmSpace


def _read_text(
    form: Form, answer: Answer, scale: Scale, key: str, answers: str = "text"
) -> Reading:
    rating = form.parse(
        answer.text,
        scale,
        answers=answers,
        finish_reason=answer.finish_reason,
        refusal=answer.refusal,
        key=key,
    )
    return Reading(rating)


def _read_tokens(form: Form, answer: Answer, scale: Scale, key: str) -> Reading:
    reading = _read_text(form, answer, scale, key)
    if reading.rating.value is None:
        return reading
    at = form.place(answer.text)
    if at is None:
        return reading._replace(expected=Expectation(None, None, "unaligned"))
    expected = expectation_of(form, answer.tokens, answer.text, at, scale)
    return reading._replace(expected=expected)


READERS: Mapping[str, Callable[[Form, Answer, Scale, str], Reading]] = {
    "text": _read_text,
    "json": partial(_read_text, answers="json"),
    "logprobs": _read_tokens,
    "decisions": lambda form, answer, scale, _: read_decision(form, answer, scale),
}
"""How an answer is read, by what --answers has. The form reads ratings, or verdicts.

The last argument is the value's name in an object with several; "" if there is one.
"""


class AnswerReader:
    """Makes judgments of replies, and reports each judge once that ignores the requested format.

    Args:
        kind: of question, which says how answers are read.
        answers: how each judge was asked to answer, as --answers has it.
        asks_all: whether an answer in JSON has a value for each attribute, by its name.
        notify: called with one line.
    """

    def __init__(
        self,
        space: ArmSpace,
        kind: Kind,
        *,
        answers: Sequence[str],
        asks_all: bool = False,
        notify: Callable[[str], None],
    ) -> None:
        self._space, self._kind = space, kind
        self._answers, self._asks_all = answers, asks_all
        self._notify = notify
        self._ignoring: set[str] = set()

    def judgments(self, arm: int, draw: int, outcome: Reply | Failure) -> list[Judgment]:
        """Return the judgments in a reply, numbered from ``draw``, or the one that records a failure."""
        if isinstance(outcome, Failure):
            blank = self._blank(arm, draw, outcome)
            return [replace(blank, reason=outcome.reason, text=outcome.detail)]
        unrated = self.unread(arm, draw, outcome)
        if outcome.again:  # it is paid for, and costs no unit of the budget
            return [replace(unrated[0], status="failed", reason="truncated")]
        if outcome.unread:
            return [replace(judgment, reason=UNREADABLE) for judgment in unrated]
        answered = zip(unrated, outcome.answers, strict=True)
        return [self._rated(arm, judgment, answer) for judgment, answer in answered]

    def unread(self, arm: int, draw: int, reply: Reply) -> list[Judgment]:
        """Return the judgments of a reply without ratings, as they stay if :meth:`judgments` raises."""
        return list(_unrated(self._blank(arm, draw, reply), reply))

    def _rated(self, arm: int, judgment: Judgment, answer: Answer) -> Judgment:
        space, scale = self._space, self._space.scale_of(arm)
        answers = self._answers[space.judge.item(arm)]
        key = space.attribute_of(arm) if self._asks_all else ""
        reading = READERS[answers](self._kind.form, answer, scale, key)
        if answers == "json":
            self._check_format(space.judge_of(arm), answer)
        rating, expected = reading.rating.value, reading.expected.value
        if self._kind.turned[space.variant.item(arm)]:
            # the answer rates the response shown first, and the judgment rates A
            rating = None if rating is None else scale.low + scale.high - rating
            expected = None if expected is None else scale.low + scale.high - expected
        return replace(
            judgment,
            rating=rating,
            status="unparsed" if rating is None else "ok",
            reason=reading.rating.reason,
            feedback=reading.rating.feedback,
            scoring="text" if expected is None and answers != "decisions" else answers,
            expected_rating=expected,
            off_scale_mass=reading.expected.off_scale,
            text_because=reading.expected.why,
            probabilities=reading.probabilities,
        )

    def _check_format(self, judge: str, answer: Answer) -> None:
        is_complete = ending_of(answer.finish_reason) == "complete"
        if judge in self._ignoring or not is_complete or self._kind.form.holds_json(answer.text):
            return
        self._ignoring.add(judge)
        who = f"{judge}: " if len(self._space.judges) > 1 else ""
        self._notify(
            f"{who}answers are not held to --answers json: the endpoint ignores it; they are read as they are"
        )

    def _blank(self, arm: int, draw: int, outcome: Reply | Failure) -> Judgment:
        space, judge = self._space, self._space.judge_of(arm)
        return Judgment(
            pair_id=space.pair_ids[space.pair.item(arm)],
            attribute=space.asked_as(arm),
            judge=judge,
            draw=draw,
            rating=None,
            status="failed",
            reason=None,
            feedback="",
            text="",
            model=judge,
            finish_reason=None,
            prompt_tokens=None,
            completion_tokens=None,
            cost_usd=None,
            latency_s=outcome.latency_s,
            request_id=None,
            received_at=time.time(),
        )


def _unrated(blank: Judgment, reply: Reply) -> Iterator[Judgment]:
    """Yield the answers of a reply with their shares of its tokens and cost, and no rating yet."""
    for position, answer in enumerate(reply.answers):
        usage = reply.usage.rest if position else reply.usage
        yield replace(
            blank,
            draw=blank.draw + position,
            status="unparsed",
            reason="missing",
            text=answer.text,
            model=reply.model,
            finish_reason=answer.finish_reason,
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            cost_usd=usage.cost_usd,
            request_id=reply.request_id,
            fingerprint=reply.fingerprint,
            usage_estimated=usage.estimated,
            cached_tokens=usage.cached_tokens,
            reasoning_tokens=usage.reasoning_tokens,
        )
