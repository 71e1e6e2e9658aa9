"""The tokens, money and time of a call, from the answers of a run if there is one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow.compute as pc

from robin_cli.judges.metering import CHARACTERS_PER_TOKEN, Meter, Price, most_tokens
from robin_cli.model.exchange import Message
from robin_cli.model.records import number_of
from robin_cli.planning.asking import ratings_a_request
from robin_cli.runner.money import prices_at, spent_before, usual_answer
from robin_cli.settings.addresses import judge_name, judges_of
from robin_cli.settings.table import Settings
from robin_cli.storage.reader import RunData
from robin_cli.views.plan.asked import Asked

_SAMPLE = 200

_SECONDS, _AT_A_TIME = 2.0, 16
"""Taken for the time of an answer, and with --concurrency auto for the calls under way, where nothing tells."""

_WINDOW_S = 24 * 3600.0
"""In which a batch is answered, or comes back in part: the only ``completion_window`` that OpenAI has."""

TAKEN = ("status", "prompt_tokens", "completion_tokens", "cost_usd", "received_at")
"""The columns of a run's judgments with the cost of its calls."""


@dataclass(frozen=True, slots=True)
class Calls:
    """The average cost of one call.

    Attributes:
        config: the settings that they are made with.
        already: the pilot's cost; its calls are part of every budget.
        prompt, completion: tokens; ``completion`` is None if no answer is known.
        cost: dollars, where answers say it; else None, and ``least``, ``most`` may tell its limits.
        least, most: dollars for the prompt alone, and with the longest answer; None without a price.
        usual: dollars of a call, those of an answer of the usual length where nothing better is known; None without a price.
        price: in words; None without one.
        reserve: dollars that must be left for a call to be made under ``--max-cost``; None without a price.
        seconds: a call's share of the run's time; None if no pace is known.
        seconds_assumed: the same by assumption, if no pace is known.
        source: the source of the tokens, in words.
    """

    config: Settings
    already: Already
    prompt: float
    completion: float | None
    cost: float | None
    least: float | None
    most: float | None
    usual: float | None
    price: str | None
    reserve: float | None
    seconds: float | None
    seconds_assumed: float
    source: str

    def tokens(self, budget: int) -> tuple[int, int | None]:
        """Return the tokens in and out of ``budget`` calls; None if no answer is known."""
        done, ahead = self.already, budget - self.already.calls
        out = (
            None
            if self.completion is None
            else round(done.completion_tokens + ahead * self.completion)
        )
        return round(done.prompt_tokens + ahead * self.prompt), out

    def dollars(self, budget: int) -> tuple[float | None, float | None]:
        """Return the lowest and highest cost of ``budget`` calls; None, None without a price."""
        low, high = (self._dollars(budget, each) for each in self._each)
        return low, high

    def _dollars(self, budget: int, each: float | None) -> float | None:
        return (
            None if each is None else self.already.cost_usd + (budget - self.already.calls) * each
        )

    def time(self, budget: int, *, assumed: bool = False) -> float | None:
        """Return the seconds of ``budget`` calls; None without a known pace, unless one may be ``assumed``."""
        each = self.seconds_assumed if self.seconds is None and assumed else self.seconds
        return None if each is None else self.already.seconds + (budget - self.already.calls) * each

    @property
    def bought(self) -> tuple[int | None, int | None]:
        """Return the fewest and the most calls within ``--max-cost``; None for no limit."""
        if self.config.max_cost is None:
            return None, None
        done = self.already.calls
        left = self.config.max_cost - self.already.cost_usd - (self.reserve or 0.0)
        if left < 0:  # a call is made only if the most that it may cost is there
            return done, done
        least, most = (
            None if not each else done + math.floor(left / each) + 1 for each in self._each[::-1]
        )
        return least, most

    def taken(self, spent: int) -> dict[str, Any]:
        """Return the money and time of calls, and whether ``--max-cost`` covers them; None if that depends on answers."""
        (low, high), (least, most), config = self.dollars(spent), self.bought, self.config
        is_within = None if config.max_cost is None else least is None or spent <= least or None
        return {
            "cost_usd_at_least": low,
            "cost_usd_at_most": high,
            "cost_usd_about": self._dollars(spent, self.usual if self.cost is None else self.cost),
            "within_max_cost": False if most is not None and spent > most else is_within,
            "seconds": None if config.batch else self.time(spent),
            "seconds_about": config.rounds * _WINDOW_S
            if config.batch
            else self.time(spent, assumed=True),
        }

    @property
    def _each(self) -> tuple[float | None, float | None]:
        return (self.least, self.most) if self.cost is None else (self.cost, self.cost)


@dataclass(frozen=True, slots=True)
class Already:
    """A pilot's calls, tokens, dollars and seconds; 0 for unknown ones, and without a pilot."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float = 0.0
    seconds: float = 0.0


def calls_of(asked: Asked) -> Calls:
    """Estimate a call's cost: a pilot has tokens, money and pace; an earlier run, perhaps by another judge, only tokens.

    Raises:
        InputError: one of the two prices is missing, or money is limited without a price.
    """
    config, run = asked.config, asked.run
    pilot = run if asked.pilot else None
    prices, a_request = _prices(config), _a_request(asked)
    # With auto concurrency and no cap nothing tells a pace; several judges, and addresses, work at the same time.
    doors = sum(len(judge.base_urls) for judge in judges_of(config)) if config.model else 1
    seconds = None if config.rpm is None else 60 / config.rpm / a_request / doors
    if run is None:
        lengths = _of_each(asked, _characters)
        prompt = sum(lengths) / len(lengths) / CHARACTERS_PER_TOKEN / a_request
        already, cost, completion = Already(), None, None
        source = f"estimated, {CHARACTERS_PER_TOKEN:g} characters a token"
    else:
        answers = run.judgments.filter(pc.not_equal(run.judgments["status"], "failed"))
        prompt, completion = _mean(answers["prompt_tokens"]), _mean(answers["completion_tokens"])
        if (
            pilot is None
        ):  # which paid a prompt for as many ratings as it asked for, and not as this run will
            requests = pc.sum(pc.greater(answers["prompt_tokens"], 0)).as_py() or len(answers)
            shared = len(answers) / max(1, requests)
            prompt *= shared / max(1.0, min(shared, a_request))
        cost = _dollars(prices, prompt, completion)
        already = Already() if pilot is None else _spent(pilot, len(answers), prices)
        if pilot is not None:
            cost = cost if answers["cost_usd"].null_count else _mean(answers["cost_usd"])
            seconds = max(seconds or 0.0, already.seconds / max(1, len(answers) - 1)) or None
        source = f"as in {number_of(len(answers), 'answer')} of {run.path} ({', '.join(run.manifest.judges)})"
    usually = usual_answer(config.max_tokens) if completion is None else completion
    ends = (0.0, float(config.max_tokens), usually)
    least, most, usual = (_dollars(prices, prompt, length) for length in ends)
    if asked.paid is not None:  # whose prices go by the length of each prompt
        least, most, usual = asked.paid.least, asked.paid.most, asked.paid.usually
        cost = usual if least == most else None
    assumed = _SECONDS / (config.workers or _AT_A_TIME) / a_request
    reserve, price = _reserve(asked, prices), _in_words(config, prices)
    return Calls(
        config,
        already,
        prompt,
        completion,
        cost,
        least,
        most,
        usual,
        price,
        reserve,
        seconds,
        assumed,
        source,
    )


def _a_request(asked: Asked) -> float:
    """Return the average ratings in a request; a scheduler that looks at each rating requests few at a time."""
    if not asked.goal.asks_all:
        return 1.0
    policy, samples = (
        asked.policy(asked.budget, np.ones(len(asked.space))),
        asked.config.samples_per_request,
    )
    return (
        float(samples)
        if policy is None
        else ratings_a_request(asked.budget / len(asked.space), policy.warm_up, samples)
    )


def _spent(pilot: RunData, calls: int, prices: Sequence[Price | None]) -> Already:
    """Return the pilot's cost; its time is from the first answer of each session to its last, summed."""
    spent = spent_before(pilot.fold, prices)
    at = np.sort(pilot.judgments["received_at"].cast("int64").to_numpy()) / 1e6
    starts = [
        datetime.fromisoformat(str(session["started_at"])).timestamp()
        for session in pilot.manifest.sessions
    ]
    parts = np.split(at, np.searchsorted(at, starts[1:]))
    seconds = sum(float(part[-1] - part[0]) for part in parts if len(part))
    return Already(
        calls, spent.prompt_tokens, spent.completion_tokens, spent.exact_usd or 0.0, seconds
    )


def _reserve(asked: Asked, prices: Sequence[Price | None]) -> float | None:
    """Return the dollars reserved before a request, on average; None unless each judge has a price."""
    config = asked.config
    if not all(prices):
        return None
    longest = most_tokens(config.extra_body, config.max_tokens)
    meters = [Meter(price) for price in prices]

    def reserved(messages: list[Message]) -> float:
        return sum(
            meter.most(messages, longest, config.samples_per_request) for meter in meters
        ) / len(meters)

    each = _of_each(asked, reserved)
    return sum(each) / len(each)


def _prices(config: Settings) -> list[Price | None]:
    """Return the price of each judge at its first address."""
    stated = bool(config.price_in or config.price_out)
    if not config.model and not stated:
        return [None]
    judges = judges_of(config if config.model else replace(config, model=("any",)))
    return [prices_at(judge, config)[0] for judge in judges]


def _at_other_price(calls: Calls, *, batch: bool) -> Calls | None:
    """Return the cost of the same calls with or without the batch service; None if that has no known price.

    What was measured of answers is taken to change as the list does.
    """
    prices = _prices(calls.config)
    others = [None if price is None else price.at(batch=batch) for price in prices]
    if None in others:
        return None
    out, longest = calls.completion or 0.0, float(calls.config.max_tokens)
    now = _dollars(prices, calls.prompt, out)
    there, least, most = (_dollars(others, calls.prompt, length) for length in (out, 0.0, longest))
    cost = (
        calls.cost if calls.cost is None or not now or there is None else calls.cost * there / now
    )
    return replace(calls, cost=cost, least=least, most=most)


def _dollars(prices: Sequence[Price | None], prompt: float, completion: float) -> float | None:
    """Return a call's cost, with equal shares of calls for all judges; None unless each has a price."""
    tokens = round(1e6 * prompt), round(1e6 * completion)
    costs = [price.cost(*tokens) / 1e6 for price in prices if price is not None]
    return sum(costs) / len(costs) if costs and len(costs) == len(prices) else None


def _in_words(config: Settings, prices: Sequence[Price | None]) -> str | None:
    if len(prices) == 1:
        return None if prices[0] is None else str(prices[0])
    if all(price is None for price in prices):
        return None
    each = (
        f"{judge_name(model)}: {price or 'no price'}"
        for model, price in zip(config.model, prices, strict=True)
    )
    return "; ".join(each) + "; the judges are taken to get equal shares"


def _of_each(asked: Asked, measured: Callable[[list[Message]], float]) -> list[float]:
    """Return ``measured`` of the messages for an even sample of the pairs, for all attributes."""
    pairs, prompts = asked.dataset.pairs, asked.prompts
    places = range(0, len(pairs), max(1, len(pairs) // _SAMPLE))
    # Nothing here has a name that would hold one pair's texts while the next one's are read.
    return [
        measured(prompts.messages(pairs[at], name)) for at in places for name in prompts.rubrics
    ]


def _characters(messages: list[Message]) -> float:
    return float(sum(len(message["content"]) for message in messages))


def _mean(column: Any) -> float:
    return float(pc.mean(column).as_py() or 0.0)


def ways_of(
    calls: Calls, budget: int, reached: Callable[[Settings], dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return the cost and result of ``budget`` calls in each way with a known price; nothing if there is no choice.

    Args:
        reached: what they reach with these settings; ``rounds`` among it, where they are fewer than the settings say.
    """
    config = calls.config
    if not config.model:
        return []
    found = {
        batch: paid for batch in (False, True) if (paid := _at_other_price(calls, batch=batch))
    }
    if len(found) < 2:
        return []
    rows = []
    for batch, paid in found.items():
        is_planned = batch == config.batch
        way = config if is_planned else replace(config, batch=batch)
        row = {"rounds": way.rounds if batch else None, **reached(way)}
        low, high = paid.dollars(budget)
        # A pilot's pace is that of the way it was made.
        seconds = paid.time(budget) if is_planned or not calls.already.calls else None
        rows.append(
            {
                "way": "batch" if batch else "one call at a time",
                "is_planned": is_planned,
                "cost_usd_at_least": low,
                "cost_usd_at_most": high,
                "seconds": seconds if row["rounds"] is None else row["rounds"] * _WINDOW_S,
                "seconds_are": "about" if row["rounds"] is None else "at most",
                **row,
            }
        )
    return rows
