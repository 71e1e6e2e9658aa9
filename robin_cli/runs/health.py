"""Whether a judge still answers: what a call that failed says of its arm, and when there is no use in going on."""

from __future__ import annotations

from collections.abc import Callable

from robin_cli.errors import EndpointError
from robin_cli.judging.judge import Failure
from robin_cli.records import PERMANENT_FAILURES

STALL_S = 600.0
"""A run in which nothing of a judge's succeeds for so long is stopped."""

LONGEST_PAUSE_S = 30.0
_HOPELESS_FAILURES = 3
_HOPELESS_REFUSALS = 25
"""Failures (refusals of single pairs) in a row without a single answer, after which a session is stopped: then it is the
endpoint (the request) that is wrong, not the pairs."""


class Health:
    """How the calls of one judge fare in a session.

    Args:
        name: of the judge, for messages; empty where there is only one.
        clock: seconds, monotonic.
    """

    def __init__(self, name: str, clock: Callable[[], float]) -> None:
        self._said = f"{name}: " if name else ""
        self._clock = clock
        self._quiet_since = clock()
        self._answered = False
        self._under_way = 0
        self._rounds = 0
        self._pause_until = float("-inf")
        self.failures_in_a_row = 0

    def begins(self) -> None:
        """A call is made."""
        if not self._under_way and not self.failures_in_a_row:
            self._quiet_since = self._clock()  # nobody asked it: that it said nothing means nothing
        self._under_way += 1

    def ends(self) -> None:
        """A call is over, however it ended."""
        self._under_way -= 1

    def answered(self) -> None:
        """A call was answered."""
        self._answered = True
        self._rounds = 0
        self._quiet_since = self._clock()
        self.failures_in_a_row = 0

    def pause_s(self) -> float:
        """How long to wait after a failure that is not its arm's: 1 s, then 2, up to LONGEST_PAUSE_S, all calls together."""
        now = self._clock()
        if now >= self._pause_until:
            self._rounds += 1
            self._pause_until = now + min(LONGEST_PAUSE_S, float(self._rounds))
        return self._pause_until - now

    def blames_the_arm(self, failure: Failure) -> bool:
        """Whether a failure says something of its arm, rather than of an endpoint that is away for everyone.

        Raises:
            EndpointError: nothing has succeeded, so far or for too long.
        """
        self.failures_in_a_row += 1
        if failure.reason in PERMANENT_FAILURES:
            if not self._answered and self.failures_in_a_row >= _HOPELESS_REFUSALS:
                raise EndpointError(f"{self._said}every request was refused; the last time: {failure.detail}")
            return True
        if not self._answered and self.failures_in_a_row >= _HOPELESS_FAILURES:
            raise EndpointError(
                f"{self._said}the endpoint has not answered a single call ({failure.detail}); "
                "is the server running, and --base-url right?"
            )
        if (silent_s := self._clock() - self._quiet_since) > STALL_S:
            raise EndpointError(
                f"{self._said}nothing was answered for {silent_s:.0f} s; the last failure was: {failure.detail}"
            )
        return self.failures_in_a_row == 1
