"""One session of work on an open run: its money, its planner and its engine, and how it stands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from robin_cli.analysis.level_counts import LevelCounts
from robin_cli.dispatch.limited import Dispatched
from robin_cli.goals.base import Goal
from robin_cli.goals.making import goal_of_run
from robin_cli.goals.watching import Ending
from robin_cli.judges.metering import Price
from robin_cli.model.errors import RunError
from robin_cli.planning.asking import give_another_chance
from robin_cli.planning.planner import Planner
from robin_cli.planning.rounds import first_depth
from robin_cli.policies.base import Policy
from robin_cli.runner.desk import RunDesk, judged_calls
from robin_cli.runner.elsewhere import Workers
from robin_cli.runner.engine import Engine, Stats, Stop
from robin_cli.runner.health import STALL_S
from robin_cli.runner.inputs import recorded_prompts
from robin_cli.runner.money import begun, costs_of, money_of, spent_before, usual_answer
from robin_cli.runner.rounds import Carrier, RoundJudge, Rounds, Under
from robin_cli.settings.table import Settings
from robin_cli.storage.batches import Ledger
from robin_cli.storage.fold import Fold, Spending
from robin_cli.storage.manifest import FILE
from robin_cli.storage.store import RunStore


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a session ended.

    Attributes:
        spent, budget: units of the budget, over all sessions; where it is of money, ``budget`` has no end.
        budget_usd: the money that the run ends by; None where it ends by calls.
        money_reached: the money does not pay for another call.
        total: tokens and money over all sessions.
        retired: arms that are asked no more because they cannot be rated, counted by reason.
        interrupted: it was asked to stop before the run was finished.
        stats: of this session.
        ending: how the run stands to its goal.
        goal: what the run is for.
        tier: the service tier that was asked for; None for the normal one.
        worked: False where there was nothing to do, and nothing was sent.
        to_run: commands that answer what was written for an engine without a service; then robin resume goes on.
    """

    spent: int
    budget: int
    total: Spending
    retired: Mapping[str, int]
    interrupted: bool
    stats: Stats
    ending: Ending
    goal: Goal
    tier: str | None = None
    worked: bool = True
    to_run: Sequence[str] = ()
    budget_usd: float | None = None
    money_reached: bool = False

    @property
    def is_spent(self) -> bool:
        """Whether the budget is spent."""
        return self.money_reached or self.spent >= self.budget

    @property
    def finished(self) -> bool:
        """Whether the budget is spent, or what the run was to stop at is reached."""
        return self.is_spent or self.ending.is_over


@dataclass(frozen=True, slots=True)
class InRounds:
    """How a session works in rounds: who is asked, what takes requests there, what is under way, and in how many rounds."""

    judges: Sequence[RoundJudge]
    carrier: Carrier
    ledger: Ledger
    rounds: int

    def depth(self, budget: int, arms: int, warm_up: int) -> int:
        """Calls of each arm in the first round."""
        return first_depth(budget, arms, max(1, self.rounds), warm_up=warm_up)


class Session:
    """Works on an open run with its judges; displays read ``stats`` while :meth:`work` runs.

    ``judges``: each for calls one at a time, or what it takes to ask them in rounds.
    """

    def __init__(
        self,
        store: RunStore,
        judges: Sequence[Dispatched] | InRounds | Workers,
        stop: Stop,
        settings: Settings,
        *,
        prices: Sequence[Price | None],
        notify: Callable[[str], None],
    ) -> None:
        fold, manifest = store.fold(), store.manifest
        by_money = manifest.budget_usd is not None
        if not by_money and (spent := fold.arms.spent) > manifest.budget:  # which only a manifest from elsewhere says
            raise RunError(
                f"{store.path}: {spent:,} calls are spent, and the budget in its {FILE} is {manifest.budget:,}; restore the "
                f"file from a copy, or go on with --budget {spent} or more"
            )
        self.space, self.goal, self._store, self._stop = store.space, goal_of_run(store), store, stop
        self.noun = self.goal.noun
        prompts = recorded_prompts(manifest)
        self.arms = fold.arms
        give_another_chance(fold.writable, self.space.judge)
        self._before, self._tier = fold.spending(), settings.tier
        in_rounds = judges if isinstance(judges, InRounds) else None
        spent_usd = spent_before(fold, prices).cost_usd or 0.0
        self.money = money_of(manifest, settings, spent_usd, in_rounds=in_rounds is not None)
        self.by_money, self.expected_calls = by_money, manifest.budget
        costs = None
        if by_money:
            answer = usual_answer(manifest.own_settings["max_tokens"])
            costs = begun(costs_of(self.goal, store.pairs, prompts, prices, answer), fold)
        self.watch = self.goal.watch(
            lambda: LevelCounts.at(store.path, self.space),
            manifest.own_settings,
            settings.target_error,
            guaranteed=settings.guaranteed,
        )
        policy = _fitted(self.goal.policy(manifest, store.variances), fold)
        first = 1 if policy.evenly and self.watch.may_end_early else policy.warm_up  # which goes out at once
        self.planner = Planner(
            fold.writable,
            policy,
            budget=None if by_money else manifest.budget,
            judge=self.space.judge,
            stop=self.watch.stop,
            verdicts=self.watch.verdicts,
            round_depth=None if in_rounds is None else in_rounds.depth(manifest.budget, len(self.space), first),
            costs=costs,
            first_fit=self.space.first_fit,
            together=self.space.together,
            closely=in_rounds is None and settings.samples_per_request == 1 and not settings.may_end_early,
        )
        self.budget = self.planner.budget
        self._desk = RunDesk(store, fold, prompts, costs, self.watch, notify, has_fuses=not settings.no_fuse)
        self._engine: Engine | Rounds
        if isinstance(judges, InRounds):
            self._engine = self._rounds_of(judges, first, settings, notify)
        else:
            self._engine = self._engine_of(judges, settings)

    def _engine_of(self, judges: Sequence[Dispatched] | Workers, settings: Settings) -> Engine:
        """What asks one call at a time, or has workers ask."""
        asked, begun_by = (judges.judges, judges.engine) if isinstance(judges, Workers) else (judges, Engine)
        names = self.space.judges if len(self.space.judges) > 1 else [""]
        return begun_by(
            self._desk,
            dict(zip(names, asked, strict=True)),
            self.planner,
            self.money,
            self._stop,
            samples=settings.samples_per_request,
            at_endpoints=settings.at_endpoints,
            stall_s=max(STALL_S, 2 * settings.longest_request_s),
        )

    def _rounds_of(self, how: InRounds, first: int, settings: Settings, notify: Callable[[str], None]) -> Rounds:
        """What asks in rounds, of which the first goes to ``first`` ratings an arm at least."""
        return Rounds(
            self._desk,
            how.judges,
            self.planner,
            self.money,
            self._stop,
            how.ledger,
            how.carrier,
            calls=self.expected_calls,
            is_judged=judged_calls(self._store, self.space) if how.ledger.batches else lambda *_: False,
            rounds=how.rounds,
            warm_up=first,
            samples=settings.samples_per_request,
            notify=notify,
        )

    @property
    def stats(self) -> Stats:
        """What this session did so far."""
        return self._engine.stats

    @property
    def under(self) -> Under | None:
        """What of a run in rounds is under way; None for one that asks one call at a time."""
        return self._engine.under if isinstance(self._engine, Rounds) else None

    @property
    def total(self) -> Spending:
        """Tokens and money of the run, over all of its sessions."""
        before, stats = self._before, self.stats
        return Spending(
            before.prompt_tokens + stats.prompt_tokens,
            before.completion_tokens + stats.completion_tokens,
            (before.cost_usd or 0.0) + stats.cost_usd if stats.priced or before.cost_usd is not None else None,
            before.complete and not stats.unpriced,
            before.cached_tokens + stats.cached_tokens,
            before.prompt_tokens_told + stats.prompt_tokens_told,
            before.at_tier + stats.at_tier,
            before.at_normal_tier + stats.at_normal_tier,
        )

    async def work(self) -> Outcome:
        """Spend the budget. Raises EndpointError, LimitReached, StorageError; whatever ends it, what was received is kept."""
        await self._engine.run()
        outcome = self.outcome()
        return replace(outcome, interrupted=self._stop.requested.is_set() and not outcome.finished)

    def outcome(self, *, worked: bool = True) -> Outcome:
        """How it stands now."""
        return Outcome(
            spent=self.budget.spent,
            budget=self.budget.total,
            total=self.total,
            retired=self._desk.retired(),
            interrupted=False,
            stats=self.stats,
            ending=self.watch.ending(self.arms),
            goal=self.goal,
            tier=self._tier,
            worked=worked,
            to_run=self._engine.to_run if isinstance(self._engine, Rounds) else (),
            budget_usd=self._store.manifest.budget_usd,
            money_reached=self._store.manifest.money_reached if not worked else self.money.reached,
        )


def _fitted(policy: Policy, fold: Fold) -> Policy:
    """A pooled policy as it was fitted last: on the ratings that there were then, not on those since."""
    return policy.fitted(*fold.fitted) if policy.refits and fold.fitted else policy
