"""What a call takes: tokens, money and time, from the answers of a run where there is one."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow.compute as pc

from robin_cli.analysis.forecast import Expected
from robin_cli.analysis.simulation import round_ends_of
from robin_cli.datasets.pairs import Dataset
from robin_cli.judges.metering import CHARACTERS_PER_TOKEN, Meter, Price, most_tokens
from robin_cli.model.exchange import Message
from robin_cli.model.records import BATCH, number_of
from robin_cli.questions.rubrics import PromptSet
from robin_cli.runner.connection import prices_at
from robin_cli.runner.session import spent_before
from robin_cli.settings.addresses import judge_name, judges_of
from robin_cli.settings.table import Settings
from robin_cli.storage.reader import RunData
from robin_cli.views.plan.prospect import Prospect

_SAMPLE = 200

TAKEN = ("status", "prompt_tokens", "completion_tokens", "cost_usd", "received_at")
"""The columns of a run's judgments that say what its calls took."""


@dataclass(frozen=True, slots=True)
class Calls:
    """What one call takes, on average.

    Attributes:
        already: what the pilot took, of which the calls are part of every budget.
        prompt, completion: tokens; ``completion`` is None where no answer is known.
        cost: dollars, where answers say it; else None, and ``least``, ``most`` may tell its limits.
        least, most: dollars for the prompt alone, and with the longest answer; None without a price.
        price: in words; None without one.
        reserve: dollars that must be left for a call to be made under ``--max-cost``; None without a price.
        seconds: of the run as a whole; None where no pace is known.
        source: where the tokens are from, in words.
    """

    already: Already
    prompt: float
    completion: float | None
    cost: float | None
    least: float | None
    most: float | None
    price: str | None
    reserve: float | None
    seconds: float | None
    source: str

    def tokens(self, budget: int) -> tuple[int, int | None]:
        """Tokens in and out of ``budget`` calls; None where no answer is known."""
        done, ahead = self.already, budget - self.already.calls
        out = None if self.completion is None else round(done.completion_tokens + ahead * self.completion)
        return round(done.prompt_tokens + ahead * self.prompt), out

    def dollars(self, budget: int) -> tuple[float | None, float | None]:
        """The least and the most that ``budget`` calls may cost; None, None without a price."""
        ahead = budget - self.already.calls
        low, high = (None if each is None else self.already.cost_usd + ahead * each for each in self._each)
        return low, high

    def time(self, budget: int) -> float | None:
        """Seconds of ``budget`` calls; None where no pace is known."""
        ahead = budget - self.already.calls
        return None if self.seconds is None else self.already.seconds + ahead * self.seconds

    def bought(self, limit: float) -> tuple[int | None, int | None]:
        """The least and the most calls that ``limit`` dollars pay for, as ``--max-cost`` counts; None for no end."""
        done = self.already.calls
        left = limit - self.already.cost_usd - (self.reserve or 0.0)
        if left < 0:  # a call is made only if the most that it may cost is there
            return done, done
        least, most = (None if not each else done + math.floor(left / each) + 1 for each in self._each[::-1])
        return least, most

    @property
    def _each(self) -> tuple[float | None, float | None]:
        return (self.least, self.most) if self.cost is None else (self.cost, self.cost)


@dataclass(frozen=True, slots=True)
class Already:
    """What a pilot took: calls, tokens, dollars and seconds; 0 for what is not known, and without a pilot."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float = 0.0
    seconds: float = 0.0


def calls_of(
    config: Settings,
    dataset: Dataset,
    prompts: PromptSet,
    *,
    a_request: float,
    pilot: RunData | None,
    earlier: RunData | None,
) -> Calls:
    """What a call takes.

    Args:
        a_request: ratings that a request will ask for on average.
        pilot: a run of the same judge at the same endpoint: it tells tokens, money and pace.
        earlier: a run of perhaps another judge: it tells tokens alone. Used where there is no pilot.

    Raises:
        InputError: one of the two prices is missing, or money is limited without a price.
    """
    prices = _prices(config)
    # With auto concurrency and no cap nothing tells a pace; several judges, and addresses, work at the same time.
    doors = sum(len(judge.base_urls) for judge in judges_of(config)) if config.model else 1
    seconds = None if config.rpm is None else 60 / config.rpm / a_request / doors
    run = pilot or earlier
    already = Already()
    if run is None:
        lengths = _of_each(dataset, prompts, _characters)
        prompt = sum(lengths) / len(lengths) / CHARACTERS_PER_TOKEN / a_request
        source = f"estimated, {CHARACTERS_PER_TOKEN:g} characters a token"
        tokens: tuple[float, float | None] = (prompt, None)
        cost = None
    else:
        answers = run.judgments.filter(pc.not_equal(run.judgments["status"], "failed"))
        tokens = (_mean(answers["prompt_tokens"]), _mean(answers["completion_tokens"]))
        if pilot is None:  # which paid a prompt for as many ratings as it asked for, and not as this run will
            requests = pc.sum(pc.greater(answers["prompt_tokens"], 0)).as_py() or len(answers)
            shared = len(answers) / max(1, requests)
            tokens = (tokens[0] * shared / max(1.0, min(shared, a_request)), tokens[1])
        cost = _dollars(prices, tokens[0], tokens[1] or 0.0, config.tier)
        if pilot is not None:
            spent = spent_before(pilot.fold, prices)
            tokens_spent = spent.prompt_tokens, spent.completion_tokens
            already = Already(len(answers), *tokens_spent, spent.exact_usd or 0.0, _seconds_of(pilot))
            if not answers["cost_usd"].null_count:
                cost = _mean(answers["cost_usd"])
            pace = already.seconds / max(1, len(answers) - 1)
            seconds = max(filter(None, (seconds, pace)), default=None)
        source = f"as in {number_of(len(answers), 'answer')} of {run.path} ({', '.join(run.manifest.judges)})"
    least, most = (_dollars(prices, tokens[0], longest, config.tier) for longest in (0.0, float(config.max_tokens)))
    reserve = _reserve(config, dataset, prompts, prices)
    return Calls(already, tokens[0], tokens[1], cost, least, most, _in_words(config, prices), reserve, seconds, source)


def _reserve(config: Settings, dataset: Dataset, prompts: PromptSet, prices: Sequence[Price | None]) -> float | None:
    """Dollars that are set aside for a request before it is made, on average; None unless each judge has a price."""
    if not all(prices):
        return None
    longest = most_tokens(config.extra_body, config.max_tokens)
    meters = [Meter(price, tier=config.tier, falls_back=config.tier_fallback) for price in prices]

    def reserved(messages: list[Message]) -> float:
        return sum(meter.most(messages, longest, config.samples_per_request) for meter in meters) / len(meters)

    each = _of_each(dataset, prompts, reserved)
    return sum(each) / len(each)


def _prices(config: Settings) -> list[Price | None]:
    """The price of each judge at its first address."""
    stated = bool(config.price_in or config.price_out)
    if not config.model and not stated:
        return [None]
    judges = judges_of(config if config.model else replace(config, model=("any",)))
    return [prices_at(judge, config)[0] for judge in judges]


def at_tier(calls: Calls, config: Settings, tier: str | None) -> Calls | None:
    """The same calls paid at another service tier than ``config`` asks for; None where no price is known there.

    What was measured of answers is taken to change as the list does.
    """
    prices = _prices(config)
    if not all(price is not None and price.knows(tier) for price in prices):
        return None
    least, most = (_dollars(prices, calls.prompt, longest, tier) for longest in (0.0, float(config.max_tokens)))
    cost, now, there = (
        calls.cost,
        *(_dollars(prices, calls.prompt, calls.completion or 0.0, at) for at in (config.tier, tier)),
    )
    if cost is not None and now and there is not None:
        cost *= there / now
    return replace(calls, cost=cost, least=least, most=most)


def _dollars(prices: Sequence[Price | None], prompt: float, completion: float, tier: str | None) -> float | None:
    """A call's cost at a tier, if the judges get equal shares of the calls; None unless each has a price."""
    tokens = round(1e6 * prompt), round(1e6 * completion)
    costs = [price.cost(*tokens, tier=tier) / 1e6 for price in prices if price is not None]
    return sum(costs) / len(costs) if costs and len(costs) == len(prices) else None


def _in_words(config: Settings, prices: Sequence[Price | None]) -> str | None:
    if len(prices) == 1:
        return None if prices[0] is None else "; ".join(filter(None, (str(prices[0]), prices[0].beside)))
    if all(price is None for price in prices):
        return None
    each = (f"{judge_name(model)}: {price or 'no price'}" for model, price in zip(config.model, prices, strict=True))
    return "; ".join(each) + "; the judges are taken to get equal shares" * (config.budget_usd is None)


def _seconds_of(run: RunData) -> float:
    """From the first answer of each session to its last, summed."""
    at = np.sort(run.judgments["received_at"].cast("int64").to_numpy()) / 1e6
    starts = [datetime.fromisoformat(str(session["started_at"])).timestamp() for session in run.manifest.sessions]
    parts = np.split(at, np.searchsorted(at, starts[1:]))
    return sum(float(part[-1] - part[0]) for part in parts if len(part))


def _of_each(dataset: Dataset, prompts: PromptSet, measured: Callable[[list[Message]], float]) -> list[float]:
    """What ``measured`` gives of the messages about an even sample of the pairs, for all attributes."""
    places = range(0, len(dataset.pairs), max(1, len(dataset.pairs) // _SAMPLE))
    # Nothing here has a name that would hold one pair's texts while the next one's are read.
    return [measured(prompts.messages(dataset.pairs[at], name)) for at in places for name in prompts.rubrics]


def _characters(messages: list[Message]) -> float:
    return float(sum(len(message["content"]) for message in messages))


def _mean(column: Any) -> float:
    return float(pc.mean(column).as_py() or 0.0)


_WINDOW_S = 24 * 3600.0
"""In which a batch is answered, or comes back in part: the only ``completion_window`` that OpenAI has."""

_FLEX = "flex"
_PLAIN: dict[str, Any] = {"service_tier": None, "tier_fallback": False, "batch": False, "batch_files": None}
_WAYS: dict[str | None, dict[str, Any]] = {
    None: _PLAIN,
    _FLEX: {**_PLAIN, "service_tier": _FLEX},
    BATCH: {**_PLAIN, "batch": True},
}
"""By the service tier at which they are paid, what is set for them."""


def ways_of(prospect: Prospect, calls: Calls, budget: int, expected: Mapping[int, Expected]) -> list[dict[str, Any]]:
    """What ``budget`` calls take and reach by each way of which a price is known; nothing where that leaves no choice.

    Nor where the budget is of money, of which each way makes another number of calls, or goes out in files.

    Args:
        expected: errors of the way that is planned, by budget.
    """
    config = prospect.config
    if not config.model or config.budget_usd is not None or config.batch_files is not None:
        return []
    found: dict[str | None, tuple[Calls, Expected | None, Prospect]] = {}
    errors: dict[int | None, Expected | None] = {prospect.rounds: expected.get(budget)}
    for tier, changed in _WAYS.items():
        if (paid := at_tier(calls, config, tier)) is not None:
            way = prospect if tier == config.tier else replace(prospect, config=replace(config, **changed))
            if way.rounds not in errors:
                errors[way.rounds] = way.expected(config.scheduler, [budget]).get(budget)
            found[tier] = paid, errors[way.rounds], way
    if len(found) < 2:
        return []
    return [_way(tier, *each, budget, is_planned=tier == config.tier) for tier, each in found.items()]


def _way(
    tier: str | None, calls: Calls, expected: Expected | None, way: Prospect, budget: int, *, is_planned: bool
) -> dict[str, Any]:
    low, high = calls.dollars(budget)
    rounds = None if way.rounds is None else _rounds(way, way.rounds, budget)
    # A pilot's pace is that of the way it was made, and at flex nobody knows: it depends on how much room there is.
    seconds = calls.time(budget) if is_planned or not (tier == _FLEX or calls.already.calls) else None
    if rounds is not None:
        seconds = rounds * _WINDOW_S
    return {
        "way": tier or "one call at a time",
        "is_planned": is_planned,
        "scheduler": way.scheduler_at(budget),
        "rounds": rounds,
        "cost_usd_at_least": low,
        "cost_usd_at_most": high,
        "seconds": seconds,
        "seconds_are": "about" if rounds is None else "at most",
        "worst_error": expected and expected.worst,
        "worst_error_sem": expected and expected.worst_sem,
        "mean_error": expected and expected.mean,
    }


def _rounds(way: Prospect, rounds: int, budget: int) -> int:
    """How many there are: what a policy wants before it looks at any answer makes one."""
    policy = way.policy(way.config.scheduler, budget, np.ones(way.arms))
    return rounds if policy is None else len(round_ends_of(policy, budget, way.arms, rounds))
