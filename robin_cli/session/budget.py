"""The budget, in calls and in money: reserved before a call and settled after it, so that it holds at any concurrency."""

from __future__ import annotations

from collections import Counter

from robin_cli.model.errors import InputError, LimitReached

_UNLIMITED = 2**62


class CallBudget:
    """A budget of ``total`` units: those spent, and those reserved for calls under way, are never more together.

    One unit is one call that is answered. Without a ``total`` it is unlimited.

    Attributes:
        available: units neither spent nor reserved.
    """

    __slots__ = ("available", "is_limited", "reserved", "spent", "total")

    def __init__(self, total: int | None, spent: int = 0) -> None:
        if total is not None and total < spent:
            raise ValueError(f"{spent} units are spent already, more than the total of {total}")
        self.is_limited = total is not None
        self.total = _UNLIMITED if total is None else total
        self.spent = spent
        self.reserved = 0
        self.available = self.total - spent

    @property
    def exhausted(self) -> bool:
        """Whether every unit is spent; units still reserved may come back."""
        return self.spent >= self.total

    def reserve(self, units: int) -> None:
        """Reserve ``units`` for a call about to be made; ValueError if fewer are available."""
        if not 0 < units <= self.available:
            raise ValueError(f"cannot reserve {units} of {self.available} units")
        self.available -= units
        self.reserved += units

    def settle(self, reserved: int, spent: int) -> None:
        """Turn a reservation into ``spent`` units, at most those reserved, and release the others."""
        if not 0 <= spent <= reserved <= self.reserved:
            raise ValueError(
                f"cannot settle {spent} of {reserved} units with {self.reserved} reserved"
            )
        self.reserved -= reserved
        self.spent += spent
        self.available += reserved - spent


class MoneyBudget:
    """A budget of at most ``limit`` US dollars, spent or reserved for calls under way; None: no limit.

    The cost of a call is known only afterwards, so its largest possible cost is reserved before. That cost goes by a price, and
    an endpoint may charge more. So the first call of each judge is made alone, and whatever a call costs beyond its reservation
    is expected of all others.

    Attributes:
        is_budget: whether it finishes a run, in place of cutting it short.
        lost: the possible cost of calls whose payment is unknown. It counts against the limit.
        reached: nothing is under way, and the next call is not covered; set by whoever finds so.

    Args:
        first_alone: see above; False if many calls go out at a time, before any can be paid.
    """

    def __init__(
        self,
        limit: float | None,
        spent: float = 0.0,
        *,
        is_budget: bool = False,
        first_alone: bool = True,
    ) -> None:
        self.limit = limit
        self.spent = spent
        self.lost = 0.0
        self.is_budget = is_budget
        self.reached = False
        self._first_alone = first_alone
        self.reserved = 0.0
        self._under_way: Counter[int] = Counter()  # calls, by judge
        self._known: set[int] = set()  # judges with a paid call
        self._factor = 1.0  # largest cost over its reservation
        self._dearest = 0.0  # largest cost of a call beyond its reservation

    @property
    def in_words(self) -> str:
        """The money spent and lost, in words."""
        lost = f", and up to ${self.lost:.4f} more may be on the bill for calls that were lost with their workers"
        return f"${self.spent:.4f} is spent{lost if self.lost else ''}"

    def covers(self, most: float, judge: int = 0) -> bool:
        """Return whether a call of ``judge`` that may cost ``most`` still fits."""
        if self.limit is None:
            return True
        if self._first_alone and self._under_way[judge] and judge not in self._known:
            return False
        return self._taken(most) <= self.limit

    def end(self, most: float, why: str = "") -> None:
        """Mark the money as reached, as the next call may cost ``most``, or because of ``why``.

        Raises:
            InputError: it is a budget, and paid for no call at all.
            LimitReached: it is only a limit, or without the lost money it would cover the call.
        """
        if not self.is_budget:
            self.reached = True
            why = why or f"the next call may cost up to ${most:.4f}"
            raise LimitReached(f"--max-cost ${self.limit:g} is reached: {self.in_words}, and {why}")
        if self.limit is not None and self.lost and self._taken(most) - self.lost <= self.limit:
            raise LimitReached(
                f"--max-cost ${self.limit:g}: {self.in_words}; robin resume goes on, and counts lost calls at the usual cost"
            )
        if not self.spent and not self._known:
            raise InputError(
                f"--max-cost {self.limit:g}: no call was made, as one may cost up to ${most:.4f} by its price and "
                "--max-tokens; give more, or a smaller --max-tokens"
            )
        self.reached = True

    def hold(self, most: float, judge: int = 0) -> None:
        """Reserve ``most`` for a call, whether it fits or not."""
        self.reserved += most
        self._under_way[judge] += 1

    def settle(self, reserved: float, spent: float | None, judge: int = 0) -> None:
        """Turn a reservation into dollars ``spent``; None: no call was made, or none was answered."""
        self.reserved = max(0.0, self.reserved - reserved)  # a sum of floats may end just below 0
        self._under_way[judge] -= 1
        if spent is None:
            return
        self.spent += spent
        self._known.add(judge)
        if spent > reserved:
            self._dearest = max(self._dearest, spent)
            self._factor = max(self._factor, spent / reserved) if reserved else self._factor

    def lose(self, reserved: float, judge: int = 0) -> None:
        """Keep the reservation of a call whose payment is unknown; it teaches nothing about costs."""
        self.reserved = max(0.0, self.reserved - reserved)
        self._under_way[judge] -= 1
        self.lost += reserved

    def _taken(self, most: float) -> float:
        """Return the dollars taken if one more call that may cost ``most``, and all under way, cost as much as the dearest."""
        calls = self._under_way.total() + 1
        expected = max(self._factor * (self.reserved + most), self._dearest * calls)
        return self.spent + self.lost + expected
