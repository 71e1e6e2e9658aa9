"""When a judge is hopeless, so that a session ends: its calls are not answered, or no answer of its holds a rating."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Sequence

from robin_cli.model.errors import EndpointError
from robin_cli.model.exchange import Failure
from robin_cli.model.records import Judgment, counted

STALL_S = 600.0
"""A run in which nothing of a judge's succeeds for so long is stopped."""

LONGEST_PAUSE_S = 30.0
_HOPELESS_FAILURES = 3
_HOPELESS_REFUSALS = 25
"""Failures (refusals of single pairs) in a row without a single answer, after which a session is stopped: then it is the
endpoint (the request) that is wrong, not the pairs."""

ANSWERS = 50
"""Answers of one judge, from the beginning of a session, of which one at least must hold a rating."""

_EXCERPT = 160
_REMEDIES = {
    "truncated": "They were cut off: raise --max-tokens",
    "empty": "They hold no text: raise --max-tokens if the model thinks first, or take one that is made for chat",
    "refused": "The judge declines: take another --model, or another --template",
    "filtered": "The endpoint filters them: take another --model or --base-url",
}
_FORMAT = "Hold it to the format with --answer-format json_schema, or take another --model"


class Health:
    """How the calls of one judge fare.

    Args:
        name: for messages; empty where there is only one.
        at_endpoint: False for one that somebody else wrote, at no address.
        stall_s: how long nothing may succeed.
    """

    def __init__(
        self,
        name: str,
        clock: Callable[[], float] = time.monotonic,
        *,
        at_endpoint: bool = True,
        stall_s: float = STALL_S,
    ) -> None:
        self._at_endpoint = at_endpoint
        self._said = f"{name}: " if name else ""
        self._clock = clock
        self._stall_s = stall_s
        self._quiet_since = clock()
        self._answered = False
        self._under_way = 0
        self._rounds = 0
        self._pause_until = float("-inf")
        self._failures_in_a_row = 0

    def begins(self) -> None:
        """A call is made."""
        if not self._under_way and not self._failures_in_a_row:
            self._quiet_since = self._clock()  # nobody asked it: that it said nothing means nothing
        self._under_way += 1

    def ends(self) -> None:
        """A call is over, however it ended."""
        self._under_way -= 1

    def answered(self) -> None:
        """A call was answered."""
        self._answered = True
        self._rounds = self._failures_in_a_row = 0
        self._quiet_since = self._clock()

    def pause_s(self) -> float:
        """How long to wait after a failure that is not its arm's: 1 s, then 2, up to LONGEST_PAUSE_S, all calls together."""
        now = self._clock()
        if now >= self._pause_until:
            self._rounds += 1
            self._pause_until = now + min(LONGEST_PAUSE_S, float(self._rounds))
        return self._pause_until - now

    def blames_the_arm(self, failure: Failure, no_room_at: float = -math.inf) -> bool:
        """Whether a failure says something of its arm, rather than of an endpoint that is away for everyone.

        Args:
            no_room_at: when the endpoint last said that it had no room, by the same clock: it was there then.

        Raises:
            EndpointError: nothing has succeeded, so far or for too long.
        """
        if failure.lacks_room:
            raise EndpointError(
                f"{self._said}the service tier had no room for a whole day ({failure.detail}); robin resume goes on when it "
                "has, or with --tier-fallback at the normal tier"
            )
        self._quiet_since = max(self._quiet_since, no_room_at)
        self._failures_in_a_row += 1
        most = _HOPELESS_REFUSALS if failure.permanent else _HOPELESS_FAILURES
        hopeless = not self._answered and self._failures_in_a_row >= most
        if failure.permanent:
            if hopeless:
                raise EndpointError(f"{self._said}every request was refused; the last time: {failure.detail}")
            return True
        if hopeless:
            what, step = "the endpoint has not answered a single call", "is the server running, and --base-url right?"
            if not self._at_endpoint:
                what = "the judge has not answered a single call"
                step = "raise --timeout, or mend the judge" if failure.reason == "timeout" else "mend the judge"
            raise EndpointError(f"{self._said}{what} ({failure.detail}); {step}")
        if (silent_s := self._clock() - self._quiet_since) > self._stall_s:
            raise EndpointError(
                f"{self._said}nothing was answered for {silent_s:.0f} s; the last failure was: {failure.detail}"
            )
        return self._failures_in_a_row == 1


class Fuse:
    """Is shown the judgments of one judge, until one holds a rating or it blows.

    Args:
        judge: as the name of :class:`Health`.
        noun: what its answers are to hold: a rating or a verdict.
    """

    def __init__(self, judge: str = "", noun: str = "rating") -> None:
        self._said = f"{judge}: " if judge else ""
        self._noun = noun
        self._reasons: Counter[str] = Counter()
        self._example = ""
        self._tokens = 0
        self._rated = False

    def look(self, judgments: Sequence[Judgment]) -> None:
        """Look at the judgments of one request; calls that failed are not answers.

        Raises:
            EndpointError: ANSWERS answers came, and none held a rating.
        """
        self._rated = self._rated or any(judgment.rating is not None for judgment in judgments)
        if self._rated:
            return
        for judgment in judgments:
            if judgment.counts:
                self._reasons[judgment.reason or "missing"] += 1
                self._example = self._example or _one_line(judgment.text)
                self._tokens = max(self._tokens, judgment.completion_tokens or 0)
        if self._reasons.total() >= ANSWERS:
            raise EndpointError(self._message())

    def _message(self) -> str:
        reason = self._reasons.most_common(1)[0][0]
        looks = f"None holds any text, after up to {self._tokens:,} tokens"
        if self._example:
            looks = f'One of them: "{self._example}"'
        return (
            f"{self._said}the first {self._reasons.total()} answers hold not one {self._noun}: "
            f"{counted(self._reasons, self._noun)}. {looks}. "
            f"{_REMEDIES.get(reason, _FORMAT)}, in a new run. Once the server is mended robin resume goes on with this one; "
            "--no-fuse goes on in any case"
        )


def _one_line(text: str) -> str:
    """The beginning of an answer without line ends, and without anything that would steer a terminal."""
    shown = " ".join("".join(mark if mark.isprintable() else " " for mark in text[: 4 * _EXCERPT]).split())
    return shown if len(shown) <= _EXCERPT else f"{shown[:_EXCERPT]}…"
