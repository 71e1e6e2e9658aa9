"""Makes the question of a call, and judgments of the reply: the reading of each answer, and what the request took."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from robin_cli.ask.answers import READERS
from robin_cli.ask.kinds import ending_of
from robin_cli.ask.prompts import PromptSet
from robin_cli.model.exchange import Answer, Failure, Question, Reply
from robin_cli.model.records import UNREADABLE, Judgment, Pair, Status
from robin_cli.model.space import ArmSpace


class Interview:
    """Makes the questions of a run and judgments of replies, and reports each judge once that ignores the requested format.

    Args:
        answers: how each judge is asked to answer, as --answers has it.
        notify: called with one line.
        seed: the run's own; None sends none.
    """

    def __init__(
        self,
        prompts: PromptSet,
        space: ArmSpace,
        *,
        answers: Sequence[str],
        notify: Callable[[str], None],
        seed: int | None = None,
    ) -> None:
        self._prompts, self._kind, self._space = prompts, prompts.kind, space
        self._answers, self._notify, self._seed = answers, notify, seed
        self._ignoring: set[str] = set()

    def question(
        self, pair: Pair, arm: int, draw: int, samples: int = 1, along: Sequence[int] = ()
    ) -> Question:
        """Return the question for calls of ``arm``, one of ``pair``'s, from ``draw``.

        Args:
            along: the arms that the request asks, if there are several.
        """
        prompts, space, seed = self._prompts, self._space, None
        answers, variant = self._answers[space.judge.item(arm)], space.variant.item(arm)
        names = [space.attribute_of(asked) for asked in along or [arm]]
        if self._seed is not None:
            # Another one for each draw of an arm, the same on every machine.
            name = f"{self._seed}\0{space.pair_ids[space.pair.item(arm)]}\0{space.asked_as(arm)}"
            base = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")
            seed = (base + draw) % 2**31
        return Question(
            prompts.messages(pair, names[0], variant, answers, names),
            samples=len(names) if answers == "decisions" else samples,
            seed=seed,
            structure=prompts.structure(answers, names),
        )

    def judgments(self, arm: int, draw: int, outcome: Reply | Failure) -> list[Judgment]:
        """Return the judgments in a reply, numbered from ``draw``, or the one that records a failure."""
        if isinstance(outcome, Failure):
            reason, text = outcome.reason, outcome.detail
            return [self._judgment(arm, draw, outcome, "failed", reason=reason, text=text)]
        unrated = self.unread(arm, draw, outcome)
        if outcome.again:  # it is paid for, and costs no unit of the budget
            return [replace(unrated[0], status="failed", reason="truncated")]
        if outcome.unread:
            return [replace(judgment, reason=UNREADABLE) for judgment in unrated]
        answered = zip(unrated, outcome.answers, strict=True)
        return [self._rated(arm, judgment, answer) for judgment, answer in answered]

    def unread(self, arm: int, draw: int, reply: Reply) -> list[Judgment]:
        """Return the judgments of a reply without ratings, as they stay if :meth:`judgments` raises; the first has the cost."""
        judgments, now = [], time.time()
        for position, answer in enumerate(reply.answers):
            usage = reply.usage.rest if position else reply.usage
            judgment = self._judgment(
                arm,
                draw + position,
                reply,
                "unparsed",
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
                received_at=now,
            )
            judgments.append(judgment)
        return judgments

    def _judgment(
        self, arm: int, draw: int, outcome: Reply | Failure, status: Status, **fields: Any
    ) -> Judgment:
        space, judge = self._space, self._space.judge_of(arm)
        return Judgment(
            **{"model": judge, "received_at": time.time(), **fields},
            pair_id=space.pair_ids[space.pair.item(arm)],
            attribute=space.asked_as(arm),
            judge=judge,
            draw=draw,
            status=status,
            latency_s=outcome.latency_s,
        )

    def _rated(self, arm: int, judgment: Judgment, answer: Answer) -> Judgment:
        """Return ``judgment`` with the rating in ``answer``. Reports a judge whose answer is not JSON, as was asked."""
        space, kind, scale = self._space, self._kind, self._space.scale_of(arm)
        judge, answers = space.judge_of(arm), self._answers[space.judge.item(arm)]
        key = space.attribute_of(arm) if self._prompts.asks_all else ""
        reading = READERS[answers](kind, answer, scale, key)
        is_cut = ending_of(answer.finish_reason) != "complete"
        if answers == "json" and not (
            is_cut or judge in self._ignoring or kind.holds_json(answer.text)
        ):
            self._ignoring.add(judge)
            who = f"{judge}: " if len(space.judges) > 1 else ""
            self._notify(
                f"{who}answers are not held to --answers json: the endpoint ignores it; they are read as they are"
            )
        rating, expected = reading.rating.value, reading.expected.value
        if kind.turned[space.variant.item(arm)]:
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
