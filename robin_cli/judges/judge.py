"""The interface of judges."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from robin_cli.model.exchange import Failure, Question, Reply


class CallLost(Exception):
    """A request was sent, and nobody will know whether it was made and paid for: the call is made again."""


class Judge(ABC):
    """A judge. A new one needs only :meth:`ask`; dispatch adds limits, retries and failover.

    Attributes:
        slots: the requests that the endpoint works on at a time, others wait; None if it does not say.
    """

    slots: int | None = None

    @property
    def most_samples(self) -> int:
        """The most ratings of one request, as far as is known yet; at least 1."""
        return 1

    @abstractmethod
    async def ask(self, question: Question) -> Reply | Failure:
        """Make one request, once; return a Failure if it brings no answer.

        Raises:
            EndpointError: every call would fail.
            CallLost: what came of it is lost.
        """

    def tokens(self, question: Question) -> int:  # noqa: ARG002  # for judges that count tokens
        """Return about how many tokens asking takes; 0 if they are not counted."""
        return 0

    def most_cost(self, question: Question) -> float:  # noqa: ARG002  # for judges with a price
        """Return the most that asking may cost, in US dollars; 0 without a price."""
        return 0.0

    async def aclose(self) -> None:
        return


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a judge's requests. Like messages, they may come from a file by somebody else.

    Attributes:
        reasoning_effort: how much the model reasons, in the API's words; None for its default.
        timeout_s: the limit for one request, from its first byte to its last.
        at_a_time: the most calls under way together.
    """

    model: str
    temperature: float = 1.0
    top_p: float = 1.0
    max_tokens: int = 1024
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    reasoning_effort: str | None = None
    timeout_s: float = 120.0
    at_a_time: int = 256


class Notices:
    """Lines for the user about one endpoint, most of them reported once.

    Args:
        name: the endpoint's name, which begins every line.
        notify: gets the lines.
    """

    def __init__(self, name: str, notify: Callable[[str], None]) -> None:
        self._name, self._notify = name, notify
        self._reported: set[str] = set()

    def say(self, line: str) -> None:
        self._notify(f"{self._name}: {line}")

    def once(self, line: str, *, key: str | None = None) -> None:
        """Report ``line``, unless a line with this ``key`` (by default the line itself) was reported."""
        if (key or line) not in self._reported:
            self._reported.add(key or line)
            self.say(line)
