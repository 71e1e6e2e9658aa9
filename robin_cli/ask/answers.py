"""Makes judgments of a reply: the reading of each answer, and the tokens, money and time of the request."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from robin_cli.ask.decisions import read_decision
from robin_cli.ask.expectation import Expectation, expectation_of
from robin_cli.ask.forms import ending_of
from robin_cli.ask.kinds import Kind
from robin_cli.model.exchange import Answer, Failure, Reply
from robin_cli.model.records import UNREADABLE, Judgment, Rating, Scale
from robin_cli.model.space import ArmSpace

_Number = TypeVar("_Number", int, float)

_BY_TEXT = Expectation(None, None, None)


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
        self._space = space
        self._form = kind.form
        self._turned = kind.turned
        self._answers, self._asks_all = answers, asks_all
        self._notify = notify
        self._ignoring: set[str] = set()

    def judgments(self, arm: int, draw: int, outcome: Reply | Failure) -> list[Judgment]:
        """Return the judgments in a reply, numbered from ``draw``, or the one that records a failure."""
        blank, scale = self._blank(arm, draw, outcome), self._space.scale_of(arm)
        is_of_other = self._turned[self._space.variant.item(arm)]
        if isinstance(outcome, Failure):
            return [replace(blank, reason=outcome.reason, text=outcome.detail)]
        if outcome.again:  # it is paid for, and costs no unit of the budget
            return [
                replace(each, status="failed", reason="truncated")
                for each in _unrated(blank, outcome)
            ][:1]
        if outcome.unread:
            return [replace(each, reason=UNREADABLE) for each in _unrated(blank, outcome)]
        judgments = []
        answers = self._answers[self._space.judge.item(arm)]
        for kept, answer in zip(_unrated(blank, outcome), outcome.answers, strict=True):
            if answers == "decisions":
                rating, expected, probabilities = read_decision(self._form, answer, scale)
            else:
                rating, expected = self._read(arm, answer, answers)
                probabilities = None
            if is_of_other:  # the answer rates the response shown first, and the judgment rates A
                rating = replace(rating, value=_turned(rating.value, scale))
                expected = replace(expected, value=_turned(expected.value, scale))
            judgments.append(
                replace(
                    kept,
                    rating=rating.value,
                    status="ok" if rating.value is not None else "unparsed",
                    reason=rating.reason,
                    feedback=rating.feedback,
                    scoring="text" if expected.value is None else answers,
                    expected_rating=expected.value,
                    off_scale_mass=expected.off_scale,
                    text_because=expected.why,
                    probabilities=probabilities,
                )
            )
        return judgments

    def _read(self, arm: int, answer: Answer, answers: str) -> tuple[Rating, Expectation]:
        """Return the rating in the text of an answer, and with log probabilities the expected one."""
        scale = self._space.scale_of(arm)
        rating = self._form.parse(
            answer.text,
            scale,
            answers=answers,
            finish_reason=answer.finish_reason,
            refusal=answer.refusal,
            key=self._space.attribute_of(arm) if self._asks_all else "",
        )
        if answers == "json":
            self._check_format(self._space.judge_of(arm), answer)
        if rating.value is None or answers != "logprobs":
            return rating, _BY_TEXT
        return rating, self._expected(answer, scale)

    def unread(self, arm: int, draw: int, reply: Reply) -> list[Judgment]:
        """Return the judgments of a reply at which :meth:`judgments` raised: its texts, without ratings."""
        return list(_unrated(self._blank(arm, draw, reply), reply))

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

    def _check_format(self, judge: str, answer: Answer) -> None:
        if judge in self._ignoring:
            return
        is_complete = ending_of(answer.finish_reason) == "complete"
        if is_complete and not self._form.holds_json(answer.text):
            self._ignoring.add(judge)
            who = f"{judge}: " if len(self._space.judges) > 1 else ""
            self._notify(
                f"{who}answers are not held to --answers json: the endpoint ignores it; they are read as they are"
            )

    def _expected(self, answer: Answer, scale: Scale) -> Expectation:
        at = self._form.place(answer.text)
        if at is None:
            return Expectation(None, None, "unaligned")
        return expectation_of(self._form, answer.tokens, answer.text, at, scale)


def _turned(value: _Number | None, scale: Scale) -> _Number | None:
    """Return the value for the other of two responses."""
    return None if value is None else scale.low + scale.high - value


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
