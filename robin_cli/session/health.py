"""The health of judges: a session ends if a judge's calls are not answered."""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Callable

from robin_cli.model.errors import EndpointError
from robin_cli.model.exchange import Failure

STALL_S = 600.0
"""A session ends if no call of a judge succeeds for so long."""

LONGEST_PAUSE_S = 30.0
_HOPELESS_FAILURES = 3
_HOPELESS_REFUSALS = 25
"""A session ends after so many failures (refusals) in a row without a single answer: then the endpoint (the request) is wrong,
not the pairs."""

_PAIRS_REFUSED_ALIKE = 5
"""A session ends once so many pairs, or all, were refused with the same words and nothing was answered meanwhile."""

_NUMBER_OR_ID = re.compile(r"\S*\d\S*")


class Health:
    """The health of one judge.

    Args:
        name: for messages; "" for a single judge.
        at_endpoint: False for a package's judge or a function.
        stall_s: the longest time without a success.
        pairs: the number of the run's pairs.
    """

    def __init__(
        self,
        name: str,
        clock: Callable[[], float] = time.monotonic,
        *,
        at_endpoint: bool = True,
        stall_s: float = STALL_S,
        pairs: int = _PAIRS_REFUSED_ALIKE,
    ) -> None:
        self._at_endpoint = at_endpoint
        self._name = f"{name}: " if name else ""
        self._clock = clock
        self._stall_s = stall_s
        self._quiet_since = clock()
        self._answered = False
        self._under_way = 0
        self._rounds = 0
        self._pause_until = float("-inf")
        self._failures_in_a_row = 0
        self._most_alike = max(2, min(pairs, _PAIRS_REFUSED_ALIKE))
        self._refused: defaultdict[str, set[int]] = defaultdict(set)  # pairs, by the words

    def begins(self) -> None:
        """Record that a call is made."""
        if not self._under_way and not self._failures_in_a_row:
            self._quiet_since = self._clock()  # it was not asked, so its silence means nothing
        self._under_way += 1

    def ends(self) -> None:
        """Record that a call is over."""
        self._under_way -= 1

    def answered(self) -> None:
        """Record that a call was answered."""
        self._answered = True
        self._rounds = self._failures_in_a_row = 0
        self._quiet_since, self._pause_until = self._clock(), float("-inf")
        self._refused.clear()

    def pause(self) -> None:
        """Begin a pause after an endpoint's failure, unless there is one: 1 s, 2 s, 3 s, … LONGEST_PAUSE_S."""
        now = self._clock()
        if now >= self._pause_until:
            self._rounds += 1
            self._pause_until = now + min(LONGEST_PAUSE_S, float(self._rounds))

    @property
    def left_s(self) -> float:
        """The rest of the pause, in which the judge is not asked; 0 once it has answered."""
        return max(0.0, self._pause_until - self._clock())

    def blames_the_arm(self, failure: Failure, pair: int = 0) -> bool:
        """Return whether a failure is to blame on its arm, rather than on an endpoint that is down.

        Args:
            pair: the number of the arm's pair.

        Raises:
            EndpointError: nothing has succeeded yet, or for too long, or pair after pair is refused for the same reason.
        """
        if failure.permanent:  # a refusal of this pair alone, by an endpoint that works
            self._quiet_since = self._clock()
            return True
        self._failures_in_a_row += 1
        most = _HOPELESS_REFUSALS if failure.refused else _HOPELESS_FAILURES
        is_hopeless = not self._answered and self._failures_in_a_row >= most
        if failure.refused:
            self._compare_refusals(failure.detail, pair)
            if is_hopeless:
                raise EndpointError(
                    f"{self._name}every request was refused; the last time: {failure.detail}"
                )
            return True
        if is_hopeless:
            who, step = "the judge", "mend the judge"
            if self._at_endpoint:
                who, step = "the endpoint", "is the server running, and --base-url right?"
            elif failure.reason == "timeout":
                step = "raise --timeout, or mend the judge"
            raise EndpointError(
                f"{self._name}{who} has not answered a single call ({failure.detail}); {step}"
            )
        if (silent_s := self._clock() - self._quiet_since) > self._stall_s:
            raise EndpointError(
                f"{self._name}nothing was answered for {silent_s:.0f} s; the last failure was: {failure.detail}"
            )
        return self._failures_in_a_row == 1

    def _compare_refusals(self, detail: str, pair: int) -> None:
        """Raise EndpointError if the same words refused several pairs: then they are not about the pairs."""
        alike = self._refused[_NUMBER_OR_ID.sub("#", detail).lower()]
        alike.add(pair)
        if len(alike) >= self._most_alike:
            raise EndpointError(
                f"{self._name}{len(alike)} pairs in a row were refused alike ({detail}); mend that, "
                "then robin resume asks them again"
            )
