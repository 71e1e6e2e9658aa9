"""One session of work on an open run, from the connection to its end: questions to judges, answers into the run."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from robin_cli.analysis.level_counts import LevelCounts
from robin_cli.dispatch.limited import Dispatched
from robin_cli.goals.base import Ending
from robin_cli.goals.making import goal_of_store
from robin_cli.judges.functions import Function
from robin_cli.judges.metering import Price
from robin_cli.model.errors import EndpointError, RobinError, RunError, StorageError, typed
from robin_cli.model.exchange import Failure, Question, Reply
from robin_cli.model.records import Judgment, counted
from robin_cli.model.space import ArmSpace
from robin_cli.planning.asking import give_another_chance
from robin_cli.planning.planner import Planner, Ticket
from robin_cli.planning.rounds import first_depth
from robin_cli.policies.base import Policy
from robin_cli.questions.answers import AnswerReader
from robin_cli.questions.asking import Questions
from robin_cli.runner.connection import as_submitted, endpoints_of, rounds_of
from robin_cli.runner.diagnostics import Diagnostics
from robin_cli.runner.elsewhere import Workers, carrier_of_ray
from robin_cli.runner.engine import Engine, Stats, Stop, end_all
from robin_cli.runner.health import STALL_S, Fuse
from robin_cli.runner.inputs import recorded_prompts
from robin_cli.runner.money import begun, costs_of, money_of, usual_answer
from robin_cli.runner.opening import cautions, policy_of
from robin_cli.runner.rounds import Carrier, RoundJudge, Rounds, Under
from robin_cli.settings.addresses import api_keys, check_folders, judges_of, keyless
from robin_cli.settings.setting import Scope
from robin_cli.settings.table import TABLE, Settings, recorded
from robin_cli.storage.batches import Ledger
from robin_cli.storage.fold import Fold, Spending
from robin_cli.storage.manifest import FILE, REACHED
from robin_cli.storage.segments import judgments_by_arm
from robin_cli.storage.store import RunStore

_MOST_DRAWS = 2**31

_CLOSING_S = 10.0
"""How long a judge may take to close its connections."""


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
        noun: what an answer holds.
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
    noun: str
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
        self.space = store.space
        self.goal = goal = goal_of_store(store)
        prompts = recorded_prompts(manifest)
        self._questions = Questions(prompts, self.space, seed=manifest.seed, answer_format=manifest.answer_format)
        self.arms = fold.arms
        self._reasons = fold.reasons  # why an arm's last answer held no rating, which tells of those retired
        give_another_chance(fold.writable, self.space.judge)
        self._before = fold.spending()
        in_rounds = judges if isinstance(judges, InRounds) else None
        spent_usd = spent_before(fold, prices).cost_usd or 0.0
        self.money = money_of(manifest, settings, spent_usd, in_rounds=in_rounds is not None)
        self.by_money, self.expected_calls = by_money, manifest.budget
        self.costs = None
        if by_money:
            answer = usual_answer(manifest.own_settings["max_tokens"])
            self.costs = begun(costs_of(goal, store.pairs, prompts, prices, answer), fold)
        self._tier = settings.tier
        policy = _fitted(policy_of(manifest, goal, store.variances), fold)
        self.watch = goal.watch(
            lambda: LevelCounts.at(store.path, self.space),
            manifest.own_settings,
            settings.target_error,
            guaranteed=settings.guaranteed,
        )
        first = 1 if policy.evenly and self.watch.may_end_early else policy.warm_up  # which goes out at once
        self.scheduler = Planner(
            fold.writable,
            policy,
            budget=None if by_money else manifest.budget,
            judge=self.space.judge,
            stop=self.watch.stop,
            verdicts=self.watch.verdicts,
            round_depth=None
            if in_rounds is None
            else first_depth(manifest.budget, len(self.space), max(1, in_rounds.rounds), warm_up=first),
            costs=self.costs,
            first_fit=self.space.first_fit,
            together=self.space.together,
            closely=in_rounds is None and settings.samples_per_request == 1 and not settings.may_end_early,
        )
        self.budget = self.scheduler.budget
        named = self.space.judges
        said = [f"{name}: " if len(named) > 1 else "" for name in named]
        self._reader = AnswerReader(
            self.space,
            prompts.kind,
            answer_format=manifest.answer_format,
            by_logprobs=manifest.scoring == "logprobs",
            notify=notify,
        )
        self.noun = noun = goal.noun
        self._diagnostics = [
            Diagnostics(
                temperature=manifest.settings["temperature"],
                arms=int((self.space.judge == 0).sum()),
                notify=lambda line, who=who: notify(who + line),  # type: ignore[misc]  # mypy does not see the default
                run=store.path,
                noun=noun,
            )
            for who in said
        ]
        self._fuses = [Fuse(name if len(named) > 1 else "", noun) for name in named] if not settings.no_fuse else []
        self._store = store
        self._notify = notify
        self._stop = stop
        self.judge_of, self.write, self.sync = self.space.judge.item, store.write, store.sync
        self._engine: Engine | Rounds
        if isinstance(judges, InRounds):
            self._closing: Sequence[Closing] = [judges.carrier, *(each.judge for each in judges.judges)]
            self._engine = Rounds(
                self,
                judges.judges,
                self.scheduler,
                self.money,
                stop,
                judges.ledger,
                judges.carrier,
                calls=manifest.budget,
                is_judged=judged_calls(store, self.space) if judges.ledger.batches else lambda *_: False,
                rounds=judges.rounds,
                warm_up=first,
                samples=settings.samples_per_request,
                notify=notify,
            )
            return
        asked = judges.judges if isinstance(judges, Workers) else judges
        self._closing = asked
        by_name = dict(zip(named if len(named) > 1 else [""], asked, strict=True))
        how: dict[str, Any] = {
            "samples": settings.samples_per_request,
            "at_endpoints": settings.at_endpoints,
            "stall_s": max(STALL_S, 2 * settings.longest_request_s),
        }
        begun_by = judges.engine if isinstance(judges, Workers) else Engine
        self._engine = begun_by(self, by_name, self.scheduler, self.money, stop, **how)

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
        try:
            await self._engine.run()
        finally:
            await _close(self._closing, self._notify)
        outcome = self.outcome()
        return replace(outcome, interrupted=self._stop.requested.is_set() and not outcome.finished)

    def outcome(self, *, worked: bool = True) -> Outcome:
        """How it stands now."""
        return Outcome(
            spent=self.budget.spent,
            budget=self.budget.total,
            total=self.total,
            retired=self._retired(),
            interrupted=False,
            stats=self.stats,
            ending=self.watch.ending(self.arms),
            noun=self.noun,
            tier=self._tier,
            worked=worked,
            to_run=self._engine.to_run if isinstance(self._engine, Rounds) else (),
            budget_usd=self._store.manifest.budget_usd,
            money_reached=self._store.manifest.money_reached if not worked else self.money.reached,
        )

    def _retired(self) -> Mapping[str, int]:
        return Counter(why for arm, why in self._reasons.items() if self.arms.retired(arm))

    def question(self, ticket: Ticket) -> Question:
        """What to ask of the ticket's arm."""
        return self._questions.question(self._store.pairs[self.space.pair.item(ticket.arm)], *ticket)

    def judgments(self, ticket: Ticket, outcome: Reply | Failure) -> list[Judgment]:
        """The judgments in a reply, or the one that records a failure."""
        return self._reader.judgments(ticket.arm, ticket.draw, outcome)

    def unread(self, ticket: Ticket, reply: Reply) -> list[Judgment]:
        """The judgments of a reply that cannot be read."""
        return self._reader.unread(ticket.arm, ticket.draw, reply)

    def took(self, arm: int, judgments: Sequence[Judgment]) -> None:
        """Count what judgments on disk took, by which the scheduler learns what calls cost."""
        if self.costs is None:
            return
        judge = self.space.judge.item(arm)
        for each in judgments:
            self.costs.add(judge, each.prompt_tokens or 0, each.completion_tokens or 0, each.cost_usd or 0.0)

    def told(self, arm: int, judgments: Sequence[Judgment]) -> None:
        """Look at judgments that are on disk; EndpointError where a judge never gives a rating."""
        judge = self.space.judge.item(arm)
        self.watch.add(arm, (each.value for each in judgments if each.value is not None))
        if (reason := judgments[-1].reason) is not None:
            self._reasons[arm] = reason
        for judgment in judgments:
            self._diagnostics[judge].look(arm, judgment)
        if self._fuses:
            self._fuses[judge].look(judgments)


Around = Callable[[Session, Stop], AbstractContextManager[None]]
"""What is around the work of a session: displays that read it, signals that stop it. Entered inside the event loop."""


async def work(
    store: RunStore,
    settings: Settings,
    *,
    notify: Callable[[str], None],
    around: Around,
    cautious: bool = True,
    function: Function | None = None,
) -> Outcome:
    """Spend what is left of the budget of an open run, until it is finished; how that ended, or that it was so before.

    Args:
        notify: is told, a line each, what a user should know while it goes on.
        function: the judge, where it is one that Python handed over.
        cautious: say beforehand what does not fit the budget; a pilot's is small on purpose, and goes out in one round.

    Raises:
        InputError: as :func:`api_keys`.
        EndpointError, LimitReached, StorageError: as :meth:`Session.work`; what was received is kept.
    """

    def note(line: str) -> None:
        notify(f"note: {line}")

    for line in store.notes:
        note(line)
    ledger = Ledger(store.path, store.manifest.run_id, len(store.space))
    check_folders(settings, store.path, {each.folder for each in ledger.open if each.folder})
    is_elsewhere = bool(ledger.open) and (not settings.in_rounds or bool(ledger.open[0].folder) == settings.batch)
    if is_elsewhere:  # what was asked in another way is seen through first
        before = await _session(store, settings, ledger, note, around, function, finish_only=True)
        if before.interrupted or before.to_run:
            return before
    return await _session(store, settings, ledger, note, around, function, cautious=cautious, one_round=not cautious)


async def _session(
    store: RunStore,
    settings: Settings,
    ledger: Ledger,
    note: Callable[[str], None],
    around: Around,
    function: Function | None,
    *,
    cautious: bool = False,
    finish_only: bool = False,
    one_round: bool = False,
) -> Outcome:
    """As :func:`work`; ``finish_only``: see through what is under way, in the way it was asked, and begin nothing."""
    session_settings = recorded(settings, Scope.SESSION)  # the next session is to go on as was wanted of this one
    if finish_only:
        settings = as_submitted(settings, ledger)
    stop, keys = Stop(), api_keys(settings)
    rounds = 0 if finish_only else 1 if one_round else settings.rounds
    asked, closing, prices = _asked(store, settings, ledger, keys, note, function, rounds)
    session = Session(store, asked, stop, settings, prices=prices, notify=note)
    already = session.outcome(worked=False)
    if already.finished and not ledger.open:
        await _close(closing, note)
        _record_target(store, settings)
        return already
    judges = judges_of(settings)
    if cautious:
        for name in keyless(judges, keys, settings.api_key_env):
            note(f"no key goes to {name}: name one for each judge, an --api-key-env for each --model (- for none)")
        keyed = [url for judge in judges if keys[judge.api_key_env] != "none" for url in judge.base_urls]
        policy = policy_of(store.manifest, session.goal, store.variances)
        for caution in cautions(store.manifest, session.goal, policy, settings, keyed):
            note(caution)
    if isinstance(asked, InRounds):
        try:
            asked.carrier.check(ledger.open)
        except RobinError:
            await _close(closing, note)
            raise
    store.begin(session_settings)
    try:
        with around(session, stop):
            outcome = await session.work()
    except BaseException:
        with suppress(StorageError):  # what went wrong first says more
            store.end(in_flight=session.stats.dropped)
        raise
    reached = {REACHED: store.manifest.budget_usd} if session.money.reached else {}
    store.end(in_flight=session.stats.dropped, **reached)
    return outcome


def _asked(
    store: RunStore,
    settings: Settings,
    ledger: Ledger,
    keys: Mapping[str, str],
    note: Callable[[str], None],
    function: Function | None,
    rounds: int,
) -> tuple[Sequence[Dispatched] | InRounds | Workers, Sequence[Closing], Sequence[Price | None]]:
    """Who is asked, and how; what of it is to be closed; and what each judge costs."""
    if settings.in_rounds:
        by_rounds, carrier, prices = rounds_of(settings, store.manifest.run_id, keys, note)
        return InRounds(by_rounds, carrier, ledger, rounds), [carrier, *(each.judge for each in by_rounds)], prices
    if settings.ray is not None:
        with carrier_of_ray().loaded("--ray", passing=OSError) as carrier:
            workers, prices = carrier.workers(settings, store, keys, note)
        return workers, workers.judges, prices
    judges, prices = endpoints_of(settings, store.manifest.budget, keys, note, function)
    return judges, judges, prices


def _record_target(store: RunStore, settings: Settings) -> None:
    """Have the run say what it is finished by, where that is not what its last session was to stop at."""
    target = {"target_error": settings.target_error, "guaranteed": settings.guaranteed}
    if any(store.manifest.last_session.get(name, TABLE[name].default) != value for name, value in target.items()):
        store.set_manifest(store.manifest.with_last_session(**target))


class Closing(Protocol):
    """What has connections."""

    async def aclose(self) -> None:
        """Close them."""


async def _close(judges: Iterable[Closing], notify: Callable[[str], None]) -> None:
    """Close all ``judges``; what fails is no more than a line, for the answers are here."""
    for closing in [asyncio.create_task(judge.aclose()) for judge in judges]:
        await asyncio.wait({closing}, timeout=_CLOSING_S)
        if not closing.done():
            notify(f"a judge was not closed within {_CLOSING_S:g} s, and is left to itself")
            await end_all([closing])
        elif not closing.cancelled() and (error := closing.exception()) is not None:
            notify(" ".join(str(error).split()) or type(error).__name__)


def check_rated(outcome: Outcome, run: Path) -> None:
    """EndpointError if a session ended before its run was finished, without a single rating."""
    if not outcome.finished and not outcome.stats.ratings:
        noun, stats = outcome.noun, outcome.stats
        reason = stats.last_failure or counted(stats.unparsed, noun) or f"given up: {counted(outcome.retired, noun)}"
        raise EndpointError(
            f"no call was answered with a {noun} ({reason}); robin export {typed(run)} --what judgments has all"
        )


def spent_before(fold: Fold, prices: Sequence[Price | None]) -> Spending:
    """What a run's answers took; those from before a price was known count at that of their judge."""
    spent = fold.spending()
    cost, complete = spent.cost_usd, True
    tokens = zip(fold.spent["unpriced_prompt_tokens"], fold.spent["unpriced_completion_tokens"], strict=True)
    for price, unpriced, (prompt, completion) in zip(prices, fold.spent["unpriced"], tokens, strict=True):
        if unpriced and price is None:
            complete = False
        elif unpriced and price is not None:
            cost = (cost or 0.0) + price.cost(int(prompt), int(completion), tier=price.tier)
    return replace(spent, cost_usd=cost, complete=complete)


def judged_calls(store: RunStore, space: ArmSpace) -> Callable[[int, int], bool]:
    """Whether a call, by arm and draw, has a judgment on disk."""
    found = [
        np.unique(arm * _MOST_DRAWS + judgments["draw"].to_numpy())
        for arm, judgments in judgments_by_arm(store.path, space, ["draw"])
    ]
    keys = np.unique(np.concatenate([np.empty(0, dtype=np.int64), *found]))

    def is_judged(arm: int, draw: int) -> bool:
        at = int(np.searchsorted(keys, arm * _MOST_DRAWS + draw))
        return at < len(keys) and int(keys[at]) == arm * _MOST_DRAWS + draw

    return is_judged


def _fitted(policy: Policy, fold: Fold) -> Policy:
    """A pooled policy as it was fitted last: on the ratings that there were then, not on those since."""
    return policy.fitted(*fold.fitted) if policy.refits and fold.fitted else policy
