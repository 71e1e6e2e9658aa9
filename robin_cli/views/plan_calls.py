"""What the calls of a planned run take: tokens, money and time, from an earlier run's answers if there is one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc

from robin_cli.datasets.pairs import Dataset
from robin_cli.goals.checks import check_target, check_together
from robin_cli.judges.metering import CHARACTERS_PER_TOKEN, Price
from robin_cli.model.errors import InputError
from robin_cli.model.records import Scale, number_of
from robin_cli.model.space import ArmSpace
from robin_cli.planning.asking import ratings_a_request
from robin_cli.policies.base import Policy
from robin_cli.questions.rubrics import PromptSet
from robin_cli.runner.money import prices_at, usual_answer
from robin_cli.settings.addresses import judge_name, judges_of
from robin_cli.settings.table import Settings
from robin_cli.storage.manifest import FILE
from robin_cli.storage.reader import RunData, read_run

_TAKEN = ("status", "prompt_tokens", "completion_tokens", "latency_s")
"""The columns of a run's judgments that say what its calls took."""

_SAMPLE = 200
_SECONDS, _AT_A_TIME = 2.0, 16
"""Assumed time of an answer, and with --concurrency auto the calls under way at a time, if nothing is known."""

_WINDOW_S = 24 * 3600.0
"""The time in which a batch is answered: the only ``completion_window`` that OpenAI has."""


@dataclass(frozen=True, slots=True)
class CallCost:
    """What one call takes on average: tokens in and out, US dollars, seconds; None for what is not known.

    Calls that share a request share its prompt. ``least``, ``usual`` and ``most`` are US dollars with an empty answer, a usual
    one and the longest. ``source``, ``price`` and ``pace`` say in words where tokens, dollars and seconds come from.
    """

    prompt: float
    completion: float | None
    longest: int
    a_request: float
    source: str
    least: float | None
    usual: float | None
    most: float | None
    price: str | None
    seconds: float
    pace: str

    def figures(self, calls: int, config: Settings) -> dict[str, Any]:
        """Return the money and time of ``calls``, and whether --max-cost pays for them; None if that depends on answers."""
        low, about, high = (
            None if each is None else calls * each for each in (self.least, self.usual, self.most)
        )
        is_within = None
        if config.max_cost is not None and low is not None and high is not None:
            is_within = (
                True if high <= config.max_cost else False if low > config.max_cost else None
            )
        return {
            "cost_usd_at_least": low,
            "cost_usd_at_most": high,
            "cost_usd_about": about,
            "within_max_cost": is_within,
            "seconds": config.rounds * _WINDOW_S if config.batch else calls * self.seconds,
        }

    def facts(self, calls: int) -> dict[str, Any]:
        """Return what ``calls`` take, for JSON."""
        return {
            "requests": round(calls / self.a_request),
            "prompt_tokens": round(calls * self.prompt),
            "completion_tokens": None
            if self.completion is None
            else round(calls * self.completion),
            "completion_tokens_at_most": round(calls * self.longest),
            "tokens_from": self.source,
            "price": self.price,
            "seconds_from": self.pace,
        }

    def calls_for(self, dollars: float) -> int | None:
        """Return about how many calls ``dollars`` pay for; None without a price, or if calls cost nothing."""
        return int(dollars / self.usual) if self.usual else None


def call_cost(
    config: Settings,
    dataset: Dataset,
    prompts: PromptSet,
    run: RunData | None,
    policy: Policy | None,
    calls_an_arm: float,
) -> CallCost:
    """Estimate what a call takes; an earlier ``run`` tells the tokens, and with the same judges the pace.

    ``policy``: of the run; None if an arm is not asked several times at once. InputError as :func:`prices_at`.
    """
    samples = config.samples_per_request
    a_request = 1.0 if policy is None else ratings_a_request(calls_an_arm, policy.warm_up, samples)
    prompt, completion, source = _tokens(dataset, prompts, run, a_request)
    prices = _prices(config)
    usual = usual_answer(config.max_tokens) if completion is None else completion
    least, about, most = (
        _dollars(prices, prompt, out) for out in (0.0, usual, float(config.max_tokens))
    )
    seconds, pace = _pace(config, run)
    return CallCost(
        prompt,
        completion,
        config.max_tokens,
        a_request,
        source,
        least,
        about,
        most,
        "; ".join(str(price or "no price") for price in prices) if any(prices) else None,
        seconds / a_request,
        pace,
    )


def check_plan(config: Settings, scales: Sequence[Scale]) -> None:
    """Raise InputError for settings that judge refuses, or that say neither a budget nor a goal to find one for."""
    check_together(config)
    check_target(config, scales)
    finds_it = (config.pairwise, config.decide, config.target_error)
    if not (config.budget or config.max_cost or any(finds_it)):
        raise InputError(
            "--budget is missing: say what budget to plan for, for example --budget 50000, or what to reach, for example "
            "--target-error 0.2"
        )


def earlier_run(source: str | None) -> RunData | None:
    """Return the run in ``source``; None if that is a pool, or nothing."""
    is_run = source is not None and (Path(source) / FILE).is_file()
    return read_run(Path(str(source)), _TAKEN) if is_run else None


def planned_space(config: Settings, prompts: PromptSet, dataset: Dataset) -> ArmSpace:
    """Return the arms of the run; without --model they are those of one judge."""
    judges = [judge_name(model) for model in config.model] or ["judge"]
    return ArmSpace(
        *(dataset.pairs.ids, prompts.attributes, judges, prompts.scales), prompts.kind.variants
    )


def _tokens(
    dataset: Dataset, prompts: PromptSet, run: RunData | None, a_request: float
) -> tuple[float, float | None, str]:
    """Return the tokens in and out of a call, and their source in words."""
    if run is None:
        pairs = dataset.pairs
        places = range(0, len(pairs), max(1, len(pairs) // _SAMPLE))
        lengths = [
            sum(len(message["content"]) for message in prompts.messages(pairs[at], name))
            for at in places
            for name in prompts.rubrics
        ]
        tokens = float(np.mean(lengths)) / CHARACTERS_PER_TOKEN / a_request
        return tokens, None, f"estimated, {CHARACTERS_PER_TOKEN:g} characters a token"
    answers = run.judgments.filter(pc.not_equal(run.judgments["status"], "failed"))
    requests = pc.sum(pc.greater(answers["prompt_tokens"], 0)).as_py() or len(answers)
    prompt = _mean(answers["prompt_tokens"]) * len(answers) / max(1, requests) / a_request
    judges = ", ".join(run.manifest.judges)
    source = f"as in {number_of(len(answers), 'answer')} of {run.path} ({judges})"
    return prompt, _mean(answers["completion_tokens"]), source


def _pace(config: Settings, run: RunData | None) -> tuple[float, str]:
    """Return a request's share of the run's time in seconds, and its source in words."""
    answer, workers = _SECONDS, config.workers or _AT_A_TIME
    source = f"assumed: {_SECONDS:g} s an answer, {workers} at a time"
    if run is not None and set(run.manifest.judges) == set(map(judge_name, config.model)):
        measured = _mean(run.judgments["latency_s"])
        if measured > 0:
            answer, source = (
                measured,
                f"as in {run.path}: {measured:.2g} s an answer, {workers} at a time",
            )
    doors = sum(len(judge.base_urls) for judge in judges_of(config)) if config.model else 1
    limit = 0.0 if config.rpm is None else 60 / config.rpm / doors
    return (
        (limit, f"--rpm {config.rpm:g}") if limit > answer / workers else (answer / workers, source)
    )


def _prices(config: Settings) -> list[Price | None]:
    """Return the price of each judge at its first address."""
    is_stated = bool(config.price_in or config.price_out)
    if not config.model and not is_stated:
        return [None]
    judges = judges_of(config if config.model else replace(config, model=("any",)))
    return [prices_at(judge, config)[0] for judge in judges]


def _dollars(prices: Sequence[Price | None], prompt: float, completion: float) -> float | None:
    """Return a call's cost, with equal shares of calls for all judges; None unless each has a price."""
    known = [price for price in prices if price is not None]
    if len(known) < len(prices):
        return None
    costs = [prompt * price.cost(1000, 0) + completion * price.cost(0, 1000) for price in known]
    return sum(costs) / 1000 / len(costs)


def _mean(column: Any) -> float:
    return float(pc.mean(column).as_py() or 0.0)
