"""A session of work on an open run: its money, its planner, its carrier and its end."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from robin_cli.goals.registry import goal_of_run
from robin_cli.goals.watch import Watch, repeats_of
from robin_cli.run.fold import Spending
from robin_cli.run.writer import RunWriter
from robin_cli.session.budget import MoneyBudget
from robin_cli.session.carriers import Carrying, Under
from robin_cli.session.desk import RunDesk
from robin_cli.session.ledger import Ledger
from robin_cli.session.money import lost_before, relative_prices, usd_before
from robin_cli.session.scheduling import planner_of
from robin_cli.session.stop import Stop
from robin_cli.settings.resolve import Resolved
from robin_cli.stats.level_counts import LevelCounts


class Session:
    """Works on an open run. Displays read ``stats`` and ``under`` while :meth:`work` runs, and afterwards how it ended.

    Attributes:
        budget: of calls; with a budget of money it has no end.
        stats: the counters of this session.
        worked: False if there was nothing to do, and nothing was sent.
        interrupted: the session was asked to stop before the run was finished.
    """

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
        self.budget_usd, self.expected_calls = manifest.budget_usd, manifest.budget
        self.by_money = manifest.budget_usd is not None
        self.worked = self.interrupted = False
        spent_usd = usd_before(fold, carrying.prices)
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
        return self._before + self.stats.spent

    @property
    def retired(self) -> Mapping[str, int]:
        """The number of arms that were given up, by reason."""
        return self._desk.retired()

    @property
    def is_over(self) -> bool:
        """Whether the goal is reached."""
        return self.watch.is_over(self.arms)

    @property
    def repeats(self) -> bool:
        """Whether all judges repeat themselves."""
        return self.watch.repeats is not None and self.watch.repeats.end_the_run(self.arms)

    @property
    def is_spent(self) -> bool:
        """Whether the budget is spent, or its money does not cover another call."""
        if self.budget.exhausted or not self.worked:
            return self.budget.exhausted or self._store.manifest.money_reached
        return self.money.is_budget and self.money.reached

    @property
    def finished(self) -> bool:
        """Whether the budget is spent, the goal is reached, or all judges repeat themselves."""
        return self.is_spent or self.is_over or self.repeats

    async def work(self) -> None:
        """Spend the budget. Raises EndpointError, LimitReached, StorageError; received answers are always kept."""
        self.worked = True
        await self._carrier.run()
        self.interrupted = self._stop.requested.is_set() and not self.finished
