"""What a call takes: tokens, money and time, from the answers of a run where there is one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow.compute as pc

from robin_cli.config import RunConfig
from robin_cli.data.pairs import Dataset
from robin_cli.judges import judge_name, judges_of
from robin_cli.judging.metering import CHARACTERS_PER_TOKEN, Price, prices_of
from robin_cli.judging.rubrics import PromptSet
from robin_cli.runs.reading import RunData

_SAMPLE = 200


@dataclass(frozen=True, slots=True)
class Calls:
    """What one call takes, on average.

    Attributes:
        prompt, completion: tokens; ``completion`` is None where no answer is known.
        cost: dollars, where answers say it; else None, and ``least``, ``most`` may tell its limits.
        least, most: dollars for the prompt alone, and with the longest answer; None without a price.
        price: in words; None without one.
        seconds: of the run as a whole; None where no pace is known.
        source: where the tokens are from, in words.
    """

    prompt: float
    completion: float | None
    cost: float | None
    least: float | None
    most: float | None
    price: str | None
    seconds: float | None
    source: str

    def dollars(self, budget: int) -> tuple[float | None, float | None]:
        """The least and the most that ``budget`` calls may cost; None, None without a price."""
        if self.cost is not None:
            return budget * self.cost, budget * self.cost
        return (None if self.least is None else budget * self.least), (
            None if self.most is None else budget * self.most
        )


def calls_of(
    config: RunConfig, dataset: Dataset, prompts: PromptSet, *, pilot: RunData | None, earlier: RunData | None
) -> Calls:
    """What a call takes.

    Args:
        pilot: a run of the same judge at the same endpoint: it tells tokens, money and pace.
        earlier: a run of perhaps another judge: it tells tokens alone. Used where there is no pilot.

    Raises:
        InputError: one of the two prices is missing, or money is limited without a price.
    """
    prices = _prices(config)
    # With auto concurrency and no cap nothing tells a pace; several judges, and addresses, work at the same time.
    doors = sum(len(judge.base_urls) for judge in judges_of(config)) if config.model else 1
    seconds = None if config.rpm is None else 60 / config.rpm / config.samples_per_request / doors
    run = pilot or earlier
    if run is None:
        prompt = _characters(dataset, prompts) / CHARACTERS_PER_TOKEN / config.samples_per_request
        source = f"estimated, {CHARACTERS_PER_TOKEN:g} characters a token"
        tokens: tuple[float, float | None] = (prompt, None)
        cost = None
    else:
        answers = run.judgments.filter(pc.not_equal(run.judgments["status"], "failed"))
        tokens = (_mean(answers["prompt_tokens"]), _mean(answers["completion_tokens"]))
        cost = _dollars(prices, tokens[0], tokens[1] or 0.0)
        if pilot is not None:
            if not answers["cost_usd"].null_count:
                cost = _mean(answers["cost_usd"])
            seconds = max(filter(None, (seconds, _seconds_a_call(pilot))), default=None)
        source = f"as in {len(answers):,} answers of {run.path} ({', '.join(run.manifest.judges)})"
    least, most = (_dollars(prices, tokens[0], longest) for longest in (0.0, float(config.max_tokens)))
    return Calls(tokens[0], tokens[1], cost, least, most, _in_words(config, prices), seconds, source)


def _prices(config: RunConfig) -> list[Price | None]:
    """The price of each judge at its first address."""
    stated = bool(config.price_in or config.price_out)
    if not config.model and not stated:
        return [None]
    judges = judges_of(config if config.model else replace(config, model=("any",)))
    return [
        prices_of(
            judge.name, judge.base_urls, price_in=judge.price_in, price_out=judge.price_out, max_cost=config.max_cost
        )[0]
        for judge in judges
    ]


def _dollars(prices: Sequence[Price | None], prompt: float, completion: float) -> float | None:
    """A call's cost, if the judges get equal shares of the calls; None unless each has a price."""
    costs = [price.cost(round(1e6 * prompt), round(1e6 * completion)) / 1e6 for price in prices if price is not None]
    return sum(costs) / len(costs) if costs and len(costs) == len(prices) else None


def _in_words(config: RunConfig, prices: Sequence[Price | None]) -> str | None:
    if len(prices) == 1:
        return None if prices[0] is None else str(prices[0])
    if all(price is None for price in prices):
        return None
    each = (f"{judge_name(model)}: {price or 'no price'}" for model, price in zip(config.model, prices, strict=True))
    return "; ".join(each) + "; the judges are taken to get equal shares"


def _seconds_a_call(run: RunData) -> float | None:
    """From the first answer of a run to its last; None where breaks between sessions lie between them, or there are none."""
    if len(run.manifest.sessions) != 1 or len(run.judgments) < 2:
        return None
    at = run.judgments["received_at"].cast("int64").to_numpy()
    return float(at.max() - at.min()) / 1e6 / (len(at) - 1)


def _characters(dataset: Dataset, prompts: PromptSet) -> float:
    """Mean length of what is sent, over an even sample of the pairs and all attributes."""
    sample = dataset.pairs[:: max(1, len(dataset.pairs) // _SAMPLE)]
    lengths = [
        sum(len(message["content"]) for message in prompts.messages(pair, attribute))
        for pair in sample
        for attribute in prompts.rubrics
    ]
    return sum(lengths) / len(lengths)


def _mean(column: Any) -> float:
    return float(pc.mean(column).as_py() or 0.0)
