"""One session of work on an open run: questions to a judge, answers into the run."""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from robin_cli.allocation.arms import Arms
from robin_cli.allocation.budget import Budget, Purse
from robin_cli.allocation.policies import Policy, PooledPolicy
from robin_cli.allocation.scheduler import HeapScheduler, last_refit
from robin_cli.judging.endpoints import Endpoints
from robin_cli.judging.expectation import Expectation, expected_rating
from robin_cli.judging.judge import Answer, Failure, Question, Reply
from robin_cli.judging.metering import Price
from robin_cli.judging.panel import Panel
from robin_cli.judging.structured import follows, parse_answer, place_of_rating, request_of
from robin_cli.records import RETIRE_AFTER, Judgment, Scale
from robin_cli.runs.engine import Engine, Stats, Stop
from robin_cli.runs.fold import ArmIndex, Spending, retirement_reasons, spending_of
from robin_cli.runs.fuse import Fuse
from robin_cli.runs.opening import policy_of, recorded_prompts
from robin_cli.runs.reading import RunData, read_run
from robin_cli.runs.store import RunStore
from robin_cli.runs.suspicion import Suspicion

_BY_TEXT = Expectation(None, None, None)


@dataclass(frozen=True, slots=True)
class Limits:
    """What a session may spend beside its budget, and how: money in US dollars, None for no limit; ratings a request; whether
    it ends where a judge's answers never hold a rating.
    """

    max_cost: float | None = None
    samples: int = 1
    fuse: bool = True


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a session ended.

    Attributes:
        spent, budget: units of the budget, over all sessions.
        total: tokens and money over all sessions.
        retired: arms that are asked no more because they cannot be rated, counted by reason.
        interrupted: it was asked to stop before the budget was spent.
        stats: of this session.
    """

    spent: int
    budget: int
    total: Spending
    retired: Mapping[str, int]
    interrupted: bool
    stats: Stats


class Session:
    """Works on an open run with a judge; made by the CLI, which displays ``stats`` while :meth:`work` runs."""

    def __init__(
        self,
        store: RunStore,
        endpoints: Sequence[Endpoints],
        stop: Stop,
        *,
        limits: Limits,
        prices: Sequence[Price | None],
        notify: Callable[[str], None],
    ) -> None:
        run = read_run(store.path, store.pairs, texts=False)
        manifest = store.manifest
        self._pairs = run.pairs
        self.index = run.index
        self._prompts = recorded_prompts(manifest)
        self._seed = manifest.seed
        self._answer_format = manifest.answer_format
        self._by_logprobs = manifest.scoring == "logprobs"
        self.arms = run.fold()
        _give_another_chance(self.arms, len(self.index.judges))
        self.budget = Budget(manifest.budget, self.arms.spent)
        self._before = spending_of(run.judgments)
        self.purse = Purse(limits.max_cost, spent_before(run, prices).cost_usd or 0.0)
        policy = _fitted(policy_of(manifest, self.index, store.variances), run)
        self.scheduler = HeapScheduler(self.arms, policy, budget=manifest.budget, judges=len(self.index.judges))
        judges = self.index.judges
        self._notify = notify
        self._ignoring: set[int] = set()  # judges whose answers do not have the format that was asked for
        self._said = said = [f"{name}: " if len(judges) > 1 else "" for name in judges]
        self._suspicions = [
            Suspicion(
                temperature=manifest.settings["temperature"],
                arms=len(self.arms) // len(judges),
                notify=lambda line, who=who: notify(who + line),  # type: ignore[misc]  # mypy does not see the default
            )
            for who in said
        ]
        self._fuses = [Fuse(name if len(judges) > 1 else "") for name in judges] if limits.fuse else []
        self._store = store
        self._stop = stop
        names = list(judges) if len(judges) > 1 else [""]
        self._panel = Panel(endpoints, names)
        self._engine = Engine(
            arms=self.arms,
            scheduler=self.scheduler,
            budget=self.budget,
            purse=self.purse,
            panel=self._panel,
            judge_of=self.index.judge,
            judges=names,
            question=self._question,
            read=self._read,
            write=store.append,
            stop=stop,
            samples=limits.samples,
            watch=self._watch,
        )

    @property
    def stats(self) -> Stats:
        """What this session did so far."""
        return self._engine.stats

    @property
    def total(self) -> Spending:
        """Tokens and money of the run, over all of its sessions."""
        before, stats = self._before, self.stats
        return Spending(
            before.prompt_tokens + stats.prompt_tokens,
            before.completion_tokens + stats.completion_tokens,
            (before.cost_usd or 0.0) + stats.cost_usd if stats.priced or before.cost_usd is not None else None,
            before.complete and not stats.unpriced,
        )

    @property
    def dropped(self) -> int:
        """Calls whose answers were not waited for, because the session ended before they came."""
        return self._engine.stats.dropped

    async def work(self) -> Outcome:
        """Spend the budget. Raises EndpointError, LimitReached, StorageError; whatever ends it, what was received is kept."""
        try:
            await self._engine.run()
        finally:
            await self._panel.aclose()
        return self.outcome()

    def outcome(self) -> Outcome:
        """How things stand."""
        return Outcome(
            spent=self.budget.spent,
            budget=self.budget.total,
            total=self.total,
            retired=self._retired(),
            interrupted=self._stop.requested.is_set() and not self.budget.exhausted,
            stats=self.stats,
        )

    def _retired(self) -> Mapping[str, int]:
        if not self.arms.retired_mask.any():
            return {}
        run = read_run(self._store.path, texts=False)
        return Counter(retirement_reasons(run.index.arms_of(run.judgments), run.judgments, self.arms).values())

    def _question(self, arm: int, draw: int, samples: int) -> Question:
        pair = self._pairs[self.index.pair(arm)]
        messages = self._prompts.messages(pair, self.index.attribute(arm))
        seed = None if self._seed is None else call_seed(self._seed, self.index, arm, draw)
        structure = request_of(self._answer_format, self.index.scale(arm))
        return Question(messages, samples=samples, seed=seed, structure=structure)

    def _read(self, arm: int, draw: int, outcome: Reply | Failure) -> list[Judgment]:
        blank = Judgment(
            pair_id=self._pairs[self.index.pair(arm)].pair_id,
            attribute=self.index.attribute(arm),
            judge=self.index.judges[self.index.judge(arm)],
            draw=draw,
            rating=None,
            status="failed",
            reason=None,
            feedback="",
            text="",
            model=self.index.judges[self.index.judge(arm)],
            finish_reason=None,
            prompt_tokens=None,
            completion_tokens=None,
            cost_usd=None,
            latency_s=outcome.latency_s,
            request_id=None,
            received_at=time.time(),
        )
        if isinstance(outcome, Failure):
            return [replace(blank, reason=outcome.reason, text=outcome.detail)]
        judgments, scale = [], self.index.scale(arm)
        for position, answer in enumerate(outcome.answers):
            rating = parse_answer(
                answer.text,
                scale,
                answer_format=self._answer_format,
                finish_reason=answer.finish_reason,
                refusal=answer.refusal,
            )
            self._watch_structure(self.index.judge(arm), answer)
            expected = self._expected(answer, scale) if rating.value is not None and self._by_logprobs else _BY_TEXT
            first = position == 0
            judgments.append(
                replace(
                    blank,
                    draw=draw + position,
                    rating=rating.value,
                    status="ok" if rating.value is not None else "unparsed",
                    reason=rating.reason,
                    feedback=rating.feedback,
                    text=answer.text,
                    model=outcome.model,
                    finish_reason=answer.finish_reason,
                    prompt_tokens=outcome.usage.prompt_tokens if first else 0,
                    completion_tokens=outcome.usage.completion_tokens if first else 0,
                    cost_usd=outcome.usage.cost_usd if first or outcome.usage.cost_usd is None else 0.0,
                    request_id=outcome.request_id,
                    usage_estimated=first and outcome.usage.estimated,
                    scoring="text" if expected.value is None else "logprobs",
                    expected_rating=expected.value,
                    off_scale_mass=expected.off_scale,
                    text_because=expected.why,
                )
            )
        return judgments

    def _watch(self, arm: int, judgments: Sequence[Judgment]) -> None:
        judge = self.index.judge(arm)
        for judgment in judgments:
            self._suspicions[judge].look(arm, judgment)
        if self._fuses:
            self._fuses[judge].look(judgments)

    def _watch_structure(self, judge: int, answer: Answer) -> None:
        if judge in self._ignoring or answer.finish_reason not in {None, "stop"}:
            return
        if not follows(answer.text, self._answer_format):
            self._ignoring.add(judge)
            self._notify(
                f"{self._said[judge]}answers are not held to --answer-format {self._answer_format}: the endpoint takes it and "
                "ignores it; they are read as they are"
            )

    def _expected(self, answer: Answer, scale: Scale) -> Expectation:
        at = place_of_rating(answer.text, answer_format=self._answer_format)
        if at is None:
            return Expectation(None, None, "unaligned")
        return expected_rating(answer.tokens, answer.text, at, scale)


def _give_another_chance(arms: Arms, judges: int) -> None:
    """Where no answer of a judge ever held a rating the judge was at fault: what was given up for it is asked again."""
    streak = np.frombuffer(arms.streak, dtype=np.int64)
    unreadable = arms.unparsed >= RETIRE_AFTER
    for judge in range(judges):
        if not arms.counts[judge::judges].any():
            streak[judge::judges][unreadable[judge::judges]] = 0


def spent_before(run: RunData, prices: Sequence[Price | None]) -> Spending:
    """What the run's answers took; those from before a price was known count at that of their judge."""
    rows = run.judgments
    spent = spending_of(rows)
    if spent.complete:
        return spent
    cost, complete = spent.cost_usd, True
    unpriced = rows.filter(pc.and_(pc.is_null(rows["cost_usd"]), pc.not_equal(rows["status"], "failed")))
    judge = run.index.arms_of(unpriced) % len(prices)
    for number, price in enumerate(prices):
        if not len(mine := unpriced.filter(pa.array(judge == number))):
            continue
        if price is None:
            complete = False
        else:
            tokens = spending_of(mine)
            cost = (cost or 0.0) + price.cost(tokens.prompt_tokens, tokens.completion_tokens)
    return replace(spent, cost_usd=cost, complete=complete)


def _fitted(policy: Policy, run: RunData) -> Policy:
    """A pooled policy as it was fitted last: on the ratings that there were then, not on those since."""
    if not isinstance(policy, PooledPolicy):
        return policy
    rated = np.cumsum(np.asarray(run.judgments["rating"].is_valid()))
    last = last_refit(int(rated[-1]) if len(rated) else 0, len(run.index))
    if not last:
        return policy
    until = int(np.searchsorted(rated, last)) + 1
    at = run.judgments["received_at"].cast("int64").to_numpy()
    arm = run.index.arms_of(run.judgments)
    while until < len(at) and (at[until], arm[until]) == (at[until - 1], arm[until - 1]):
        until += 1  # ratings of one request were told together
    arms = replace(run, judgments=run.judgments.slice(0, until)).fold()
    return policy.fitted(arms.counts.astype(np.float64), arms.totals, arms.totals_sq)


def call_seed(seed: int, index: ArmIndex, arm: int, draw: int) -> int:
    """The seed of one call, 0 to 2³¹ − 1: never the same for two draws of an arm, alike on every machine."""
    name = f"{seed}\0{index.pair_ids[index.pair(arm)]}\0{index.attribute(arm)}"
    base = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")
    return (base + draw) % 2**31
