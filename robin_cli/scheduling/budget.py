"""The budget, in calls and in money: reserved before a call, settled after it, so that it holds at any concurrency."""

from __future__ import annotations

_UNLIMITED = 2**62


class CallBudget:
    """``total`` units, of which some are spent and some reserved for calls under way; never more than ``total`` together.

    One unit is one rating asked for and answered. Without a ``total`` there is no end of them.

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
    def left(self) -> int:
        """Units not spent yet, reserved or not."""
        return self.total - self.spent

    @property
    def exhausted(self) -> bool:
        """Whether every unit is spent; units still reserved may come back."""
        return self.spent >= self.total

    def reserve(self, units: int) -> None:
        """Set ``units`` aside for a call about to be made; ValueError if so many are not available."""
        if not 0 < units <= self.available:
            raise ValueError(f"cannot reserve {units} of {self.available} units")
        self.available -= units
        self.reserved += units

    def settle(self, reserved: int, spent: int) -> None:
        """Turn a reservation into ``spent`` units, at most those reserved, and give the others back."""
        if not 0 <= spent <= reserved <= self.reserved:
            raise ValueError(f"cannot settle {spent} of {reserved} units with {self.reserved} reserved")
        self.reserved -= reserved
        self.spent += spent
        self.available += reserved - spent


class MoneyBudget:
    """At most ``limit`` US dollars, of which some are spent and some reserved for calls under way; None: no limit.

    What a call will cost is known only afterwards, so the most that it can cost is reserved before.
    """

    __slots__ = ("limit", "reserved", "spent")

    def __init__(self, limit: float | None, spent: float = 0.0) -> None:
        self.limit = limit
        self.spent = spent
        self.reserved = 0.0

    def covers(self, most: float) -> bool:
        """Whether a call that may cost ``most`` still fits."""
        return self.limit is None or self.spent + self.reserved + most <= self.limit

    def reserve(self, most: float) -> None:
        """Set ``most`` aside for a call about to be made; ValueError if it does not fit."""
        if not self.covers(most):
            raise ValueError(f"${most:.6f} do not fit into ${self.limit} with ${self.spent + self.reserved:.6f} taken")
        self.reserved += most

    def settle(self, reserved: float, spent: float) -> None:
        """Turn a reservation into what was ``spent``."""
        self.reserved = max(0.0, self.reserved - reserved)  # sums of floats may end a hair below
        self.spent += spent
