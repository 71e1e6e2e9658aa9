"""What a judge is to the rest of robin: something that is asked, and answers, cannot for this pair, or not at all."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from robin_cli.model.exchange import Failure, Question, Reply


class Judge(ABC):
    """Something to ask. A new one needs :meth:`ask` alone; limits, retries and failover are wrapped around it by dispatch."""

    @abstractmethod
    async def ask(self, question: Question) -> Reply | Failure:
        """Make one request, once.

        Raises:
            EndpointError: an error after which every call would fail.
        """

    @property
    def most_samples(self) -> int:
        """Ratings that one request brings at most, as far as is known by now; at least 1."""
        return 1

    def tokens(self, question: Question) -> int:  # noqa: ARG002  # for those who count
        """Tokens that asking takes in all, about; 0 where nobody counts them."""
        return 0

    def most_cost(self, question: Question) -> float:  # noqa: ARG002  # for those who have a price
        """What asking costs at most, in US dollars; 0 where no price is known."""
        return 0.0

    async def aclose(self) -> None:
        """Close connections."""
        return


@dataclass(frozen=True, slots=True)
class Options:
    """How a judge is to be asked. They may be another's words, out of a file that came with the data, as the messages are.

    Attributes:
        timeout_s: bounds one request from its first byte to its last.
        max_reply_bytes: of a reply, decompressed, that is read; a longer one is asked for once more, then its pair is given up.
        at_a_time: calls that will ever be under way together.
    """

    model: str
    temperature: float = 1.0
    top_p: float = 1.0
    max_tokens: int = 1024
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    timeout_s: float = 120.0
    max_reply_bytes: int = 4 * 2**20
    at_a_time: int = 256


class Notices:
    """Lines that a user should know of one endpoint, each told once.

    Args:
        name: of the endpoint, in front of every line.
        notify: is told.
    """

    def __init__(self, name: str, notify: Callable[[str], None]) -> None:
        self._name = name
        self._notify = notify
        self._told: set[str] = set()

    def once(self, line: str, *, key: str | None = None) -> None:
        """Tell ``line``, unless a line of this ``key`` (by default, this line) was told."""
        if (key or line) not in self._told:
            self._told.add(key or line)
            self._notify(f"{self._name}: {line}")
