"""What a call takes: tokens, money and time, from the answers of a run where there is one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc

from robin_cli.config import OPENAI_URL, RunConfig
from robin_cli.data.pairs import Dataset
from robin_cli.judging.metering import CHARACTERS_PER_TOKEN, Price, prices_of
from robin_cli.judging.rubrics import PromptSet
from robin_cli.runs.reading import RunData

_SAMPLE = 200


@dataclass(frozen=True, slots=True)
class Calls:
    """What one call takes, on average.

    Attributes:
        prompt, completion: tokens; ``completion`` is None where no answer is known.
        longest: tokens of the longest answer allowed.
        cost: dollars, where answers say it; else None, and ``price`` may tell its limits.
        seconds: of the run as a whole; None where no pace is known.
        source: where the tokens are from, in words.
    """

    prompt: float
    completion: float | None
    longest: int
    cost: float | None
    price: Price | None
    seconds: float | None
    source: str

    def dollars(self, budget: int) -> tuple[float | None, float | None]:
        """The least and the most that ``budget`` calls may cost; None, None without a price."""
        if self.cost is not None:
            return budget * self.cost, budget * self.cost
        if self.price is None:
            return None, None
        prompt = round(budget * self.prompt)
        return self.price.cost(prompt, 0), self.price.cost(prompt, budget * self.longest)


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
    price = _price(config)
    seconds = (
        None if config.rpm is None else 60 / config.rpm / config.samples_per_request / max(1, len(config.base_url))
    )
    run = pilot or earlier
    if run is None:
        prompt = _characters(dataset, prompts) / CHARACTERS_PER_TOKEN / config.samples_per_request
        source = f"estimated, {CHARACTERS_PER_TOKEN:g} characters a token"
        return Calls(prompt, None, config.max_tokens, None, price, seconds, source)
    answers = run.judgments.filter(pc.not_equal(run.judgments["status"], "failed"))
    tokens = [_mean(answers[name]) for name in ("prompt_tokens", "completion_tokens")]
    cost = None if price is None else price.cost(*(round(1e6 * each) for each in tokens)) / 1e6
    if pilot is not None:
        if not answers["cost_usd"].null_count:
            cost = _mean(answers["cost_usd"])
        seconds = max(filter(None, (seconds, _seconds_a_call(pilot))), default=None)
    source = f"as in {len(answers):,} answers of {run.path} ({run.manifest.settings['model']})"
    return Calls(tokens[0], tokens[1], config.max_tokens, cost, price, seconds, source)


def _price(config: RunConfig) -> Price | None:
    if config.model is None and config.price_in is None and config.price_out is None:
        return None
    given = {"price_in": config.price_in, "price_out": config.price_out, "max_cost": config.max_cost}
    return prices_of(config.model or "", config.base_url or (OPENAI_URL,), **given)[0]


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
