"""One judge at one or several addresses. Calls go to the address with the most room, and away from one that fails."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from robin_cli.judges.judge import Judge
from robin_cli.judges.limiter import UNTIL_ONE_ENDS, Limiter, Permit, PermitLine, Sleep
from robin_cli.judges.retrying import Retrying
from robin_cli.model.errors import EndpointError
from robin_cli.model.exchange import Failure, Question, Reply


class Failover(Judge):
    """Asks the address with the most room, and another one if it fails. It is what the loop of a run asks.

    It is asked with a permit, which is taken before a call is chosen, so that the choice uses new answers. The circuit of an
    address opens if calls fail there, or it cannot be used (a key is refused, a model unknown); its calls move to the others.
    If all are open, or there is one address alone, the last call returns, or raises, its failure.

    Args:
        addresses: at least one.

    Attributes:
        limiters: of the addresses, in order.
    """

    def __init__(self, addresses: Sequence[Retrying], *, sleep: Sleep = asyncio.sleep) -> None:
        self._addresses = {address.limiter: address for address in addresses}
        self._judges = [address.judge for address in addresses]
        self.limiters = list(self._addresses)
        self._line = PermitLine(self.take, sleep)
        for limiter in self.limiters:
            limiter.watchers.append(self._line.look_again)

    @property
    def bears(self) -> int:
        """The most requests that may be under way now, at addresses whose circuit is not open; at least 1."""
        able = [address for address in self._addresses.values() if not address.breaker.open_s]
        return max(1, sum(address.bears for address in able))

    @property
    def under_way(self) -> int:
        return sum(limiter.under_way for limiter in self.limiters)

    def take(self) -> Permit | float:
        """Return a permit to begin a call, or how long to wait, see :class:`PermitLine`."""
        wait_s = UNTIL_ONE_ENDS
        for address in sorted(
            self._addresses.values(), key=lambda address: address.limiter.under_way / address.bears
        ):
            taken = address.take()
            if isinstance(taken, Permit):
                return taken
            wait_s = min(wait_s, taken)
        return wait_s

    async def acquire(self, at: Limiter | None = None) -> Permit:
        """Wait for a permit to begin a call, first come, first served, at the address of limiter ``at`` if that works."""
        if at is not None and self._addresses[at].breaker.closed:
            return await at.acquire()
        return await self._line.acquire()

    async def ask(self, question: Question, permit: Permit | None = None) -> Reply | Failure:
        """Ask with ``permit``, which is released, or wait for one. EndpointError if no address can be used."""
        permit = permit or await self.acquire()
        while True:
            address = self._addresses[permit.limiter]
            others = (other for other in self._addresses.values() if other is not address)
            try:
                outcome = await address.ask(question, permit)
            except EndpointError as error:
                if all(other.breaker.open_s for other in others):
                    raise
                why, for_good = str(error), True
            else:
                if isinstance(outcome, Reply) or outcome.permanent:
                    self._succeeded(address)
                    return outcome
                if all(other.breaker.open_s for other in others):
                    return outcome
                why, for_good = outcome.detail, False  # tried long enough there
            if address.breaker.failed(for_good=for_good):
                address.notices.say(f"circuit open, tried again now and then ({why})")
            permit = await self.acquire()

    def _succeeded(self, address: Retrying) -> None:
        if address.breaker.succeeded():
            address.notices.say("answers again")

    @property
    def most_samples(self) -> int:
        return min(judge.most_samples for judge in self._judges)

    def tokens(self, question: Question) -> int:
        return max(judge.tokens(question) for judge in self._judges)

    def most_cost(self, question: Question) -> float:
        return max(judge.most_cost(question) for judge in self._judges)

    async def aclose(self) -> None:
        for judge in self._judges:
            await judge.aclose()
