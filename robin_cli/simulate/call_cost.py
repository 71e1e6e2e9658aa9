"""What the calls of a planned run take: tokens, money and time, from an earlier run's answers if there is one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from robin_cli.ask.prompts import PromptSet
from robin_cli.data.pairs import Dataset
from robin_cli.judges.metering import CHARACTERS_PER_TOKEN, Price
from robin_cli.model.judge_spec import JudgeSpec
from robin_cli.model.records import number_of
from robin_cli.model.space import ArmSpace
from robin_cli.run.manifest import FILE
from robin_cli.run.reader import RunReader, read_run
from robin_cli.session.asking import visits_of
from robin_cli.session.money import dollars_of_call, prices_at, tokens_of_prompt, usual_answer
from robin_cli.settings.resolve import judges_of
from robin_cli.settings.table import Settings

_TAKEN = ("status", "prompt_tokens", "completion_tokens", "latency_s")
"""The columns of a run's judgments that say what its calls took."""

_SECONDS, _AT_A_TIME = 2.0, 16
"""Assumed time of an answer, and with --concurrency auto the concurrent calls, if nothing is known."""

_WINDOW_S = 24 * 3600.0
"""The time in which a batch is answered: the only ``completion_window`` that OpenAI has."""


@dataclass(frozen=True, slots=True)
class CallCost:
    """What one call takes on average: tokens in and out, US dollars, seconds; None for what is not known.

    Attributes:
        a_request: calls that share a request, and so its prompt and its time.
        dollars: with an empty answer, a usual one and the longest.
        source, price, pace: where tokens, dollars and seconds come from, in words.
    """

    a_request: float
    prompt: float
    completion: float | None
    source: str
    dollars: tuple[float | None, float | None, float | None]
    price: str | None
    seconds: float
    pace: str

    def figures(self, calls: int, config: Settings) -> dict[str, Any]:
        """Return the money and time of ``calls``, and whether --max-cost pays for them; None if that depends on answers."""
        low, about, high = (None if each is None else calls * each for each in self.dollars)
        limit, is_within = config.max_cost, None
        if limit is not None and low is not None and high is not None:
            is_within = None if low <= limit < high else high <= limit
        return {
            "cost_usd_at_least": low,
            "cost_usd_at_most": high,
            "cost_usd_about": about,
            "within_max_cost": is_within,
            "seconds": config.rounds * _WINDOW_S if config.batch else calls * self.seconds,
        }


def call_cost(
    config: Settings,
    prompts: PromptSet,
    dataset: Dataset,
    space: ArmSpace,
    run: RunReader | None,
    first_visit: int,
    calls_an_arm: float,
) -> CallCost:
    """Estimate what a call takes; an earlier ``run`` tells the tokens, and with the same judges the pace.

    Args:
        first_visit: calls of the first visit of an arm.

    Raises:
        InputError: as :func:`prices_at`.
    """
    if run is None:
        completion, source = None, f"estimated, {CHARACTERS_PER_TOKEN:g} characters a token"
        prompt = tokens_of_prompt(space, dataset.pairs, prompts)
    else:
        prompt, completion, source = _tokens_of(run)
    calls = max(1, round(calls_an_arm))
    a_request = calls / visits_of(calls, first_visit, config.longest_visit)
    _, prices = priced_judges(config)
    usual = usual_answer(config.max_tokens) if completion is None else completion
    shared = prompt / a_request
    # at most: the endpoint may take one rating per prompt only
    parts = ((shared, 0.0), (shared, usual), (prompt, config.max_tokens))
    least, about, most = (dollars_of_call(prices, *part) for part in parts)
    seconds, pace = _pace(config, run)
    return CallCost(
        a_request,
        shared,
        completion,
        source,
        (least, about, most),
        "; ".join(price.text(config.source.prices) if price else "no price" for price in prices)
        if any(prices)
        else None,
        seconds / a_request,
        pace,
    )


def earlier_run(source: str | None) -> RunReader | None:
    """Return the run in ``source``; None if that is a pool, or nothing."""
    is_run = source is not None and (Path(source) / FILE).is_file()
    return read_run(Path(str(source)), _TAKEN) if is_run else None


def _tokens_of(run: RunReader) -> tuple[float, float, str]:
    """Return the tokens in of the run's requests and out of its calls, and their source in words."""
    answers = run.judgments.filter(pc.not_equal(run.judgments["status"], "failed"))
    requests = pc.sum(pc.greater(answers["prompt_tokens"], 0)).as_py() or len(answers)
    prompt = _mean(answers["prompt_tokens"]) * len(answers) / max(1, requests)
    judges = ", ".join(run.manifest.judges)
    source = f"as in {number_of(len(answers), 'answer')} of {run.path} ({judges})"
    return prompt, _mean(answers["completion_tokens"]), source


def priced_judges(config: Settings) -> tuple[tuple[JudgeSpec, ...], list[Price | None]]:
    """Return the judges, and the price of each at its first address."""
    judges, is_limited = judges_of(config), config.max_cost is not None
    return judges, [
        prices_at(judge, batch=config.batch, is_limited=is_limited)[0] for judge in judges
    ]


def _pace(config: Settings, run: RunReader | None) -> tuple[float, str]:
    """Return a request's share of the run's time in seconds, and its source in words."""
    judges, workers = judges_of(config), config.workers or _AT_A_TIME
    answer, source = _SECONDS, "assumed"
    if run is not None and set(run.manifest.judges) == {judge.name for judge in judges}:
        measured = _mean(run.judgments["latency_s"])
        if measured > 0:
            answer, source = measured, f"as in {run.path}"
    if config.rpm is not None:
        limit = 60 / config.rpm / sum(len(judge.base_urls) for judge in judges)
        if limit > answer / workers:
            return limit, f"--rpm {config.rpm:g}"
    return answer / workers, f"{source}: {answer:.2g} s an answer, {workers} at a time"


def _mean(column: Any) -> float:
    return float(pc.mean(column).as_py() or 0.0)
