"""A session of work on an open run: its money, its planner, its carrier and its outcome."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from robin_cli.goals.base import Goal
from robin_cli.goals.registry import goal_of_run
from robin_cli.goals.watch import Watch, repeats_of
from robin_cli.run.fold import Spending
from robin_cli.run.writer import RunWriter
from robin_cli.session.budget import MoneyBudget
from robin_cli.session.carriers import Carrying, Under
from robin_cli.session.counters import Stats
from robin_cli.session.desk import RunDesk
from robin_cli.session.ledger import Ledger
from robin_cli.session.money import lost_before, relative_prices, spent_before
from robin_cli.session.scheduling import planner_of
from robin_cli.session.stop import Stop
from robin_cli.settings.resolve import Resolved
from robin_cli.stats.level_counts import LevelCounts


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a session.

    Attributes:
        spent, budget: calls over all sessions; with a budget of money, ``budget`` is endless.
        budget_usd: the budget of money; None for a budget of calls.
        money_reached: the money does not cover another call.
        total: tokens and money over all sessions.
        retired: the number of arms that were given up, by reason.
        interrupted: the session was asked to stop before the run was finished.
        stats: the counters of this session.
        is_over: the goal is reached.
        repeats: all judges repeat themselves.
        is_rated: the run has a rating, of this session or an earlier one.
        goal: the run's goal.
        worked: False if there was nothing to do, and nothing was sent.
    """

    spent: int
    budget: int
    total: Spending
    retired: Mapping[str, int]
    interrupted: bool
    stats: Stats
    is_over: bool
    is_rated: bool
    goal: Goal
    worked: bool = True
    budget_usd: float | None = None
    money_reached: bool = False
    repeats: bool = False

    @property
    def is_spent(self) -> bool:
        """Whether the budget is spent."""
        return self.money_reached or self.spent >= self.budget

    @property
    def finished(self) -> bool:
        """Whether the budget is spent, the goal is reached, or all judges repeat themselves."""
        return self.is_spent or self.is_over or self.repeats


class Session:
    """Works on an open run. Displays read ``stats`` and ``under`` while :meth:`work` runs."""

    def __init__(
        self,
        store: RunWriter,
        carrying: Carrying,
        stop: Stop,
        resolved: Resolved,
        notify: Callable[[str], None],
    ) -> None:
        fold, manifest = store.fold(), store.manifest
        self._store, self._stop, self._before = store, stop, fold.spending()
        self.space, self.pairs, self.arms = store.space, store.pairs, fold.arms
        self.goal = goal_of_run(store)
        self.noun = self.goal.noun
        self.by_money, self.expected_calls = manifest.budget_usd is not None, manifest.budget
        spent_usd = spent_before(fold, carrying.prices).cost_usd or 0.0
        longest_answer = resolved.request["max_tokens"]
        self.lost_usd = lost_before(store, fold, spent_usd, carrying.prices, longest_answer)
        in_rounds = carrying.rounds is not None
        self.money = MoneyBudget(
            manifest.budget_usd if self.by_money else resolved.max_cost,
            spent_usd + self.lost_usd,
            is_budget=self.by_money,
            first_alone=not in_rounds,
        )
        self.watch = Watch(
            self.goal,
            lambda: LevelCounts.at(store.path, self.space),
            manifest.target_of(resolved.session),
        )
        if not resolved.repeat_anyway and carrying.rounds != 1:
            self.watch.repeats = repeats_of(manifest, self.goal)
        prices = relative_prices(carrying.prices)
        self.planner = planner_of(
            *(store, fold, self.goal, self.watch, carrying.rounds, prices),
            may_end_early=resolved.max_cost is not None,
        )
        self.budget = self.planner.budget
        self._desk = RunDesk(store, fold, notify)
        ledger = Ledger(
            *(self._desk, self.planner, self.money, stop),
            longest=resolved.longest_visit,
            health=self._desk.health(resolved),
            notify=notify,
        )
        if not in_rounds and resolved.ray is None:  # these ask about each attribute by itself
            ledger.along = self._desk.asked_along
        self.stats, self._carrier = ledger.stats, carrying.begin(ledger)

    @property
    def under(self) -> Under | None:
        """The state of a run in rounds; None if calls are made one by one."""
        return self._carrier.under

    @property
    def total(self) -> Spending:
        """The run's tokens and money over all sessions."""
        before, stats = self._before, self.stats
        return Spending(
            before.prompt_tokens + stats.prompt_tokens,
            before.completion_tokens + stats.completion_tokens,
            (before.cost_usd or 0.0) + stats.cost_usd
            if stats.priced or before.cost_usd is not None
            else None,
            before.complete and not stats.unpriced,
            before.cached_tokens + stats.cached_tokens,
            before.prompt_tokens_told + stats.prompt_tokens_told,
            before.reasoning_tokens + stats.reasoning_tokens,
        )

    async def work(self) -> Outcome:
        """Spend the budget. Raises EndpointError, LimitReached, StorageError; received answers are always kept."""
        await self._carrier.run()
        outcome = self.outcome()
        return replace(outcome, interrupted=self._stop.requested.is_set() and not outcome.finished)

    def outcome(self, *, worked: bool = True) -> Outcome:
        """Return the outcome so far."""
        return Outcome(
            spent=self.budget.spent,
            budget=self.budget.total,
            total=self.total,
            retired=self._desk.retired(),
            interrupted=False,
            stats=self.stats,
            is_over=self.watch.is_over(self.arms),
            repeats=self.watch.repeats is not None and self.watch.repeats.end_the_run(self.arms),
            is_rated=bool(self.arms.n.any()),
            goal=self.goal,
            worked=worked,
            budget_usd=self._store.manifest.budget_usd,
            money_reached=self.money.is_budget and self.money.reached
            if worked
            else self._store.manifest.money_reached,
        )
