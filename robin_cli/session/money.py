"""Money: the prices of judges, the costs of calls, and the number of calls that a budget pays for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from robin_cli.ask.prompts import PromptSet
from robin_cli.goals.base import Goal
from robin_cli.judges.metering import CHARACTERS_PER_TOKEN, Price, price_of
from robin_cli.model.arms import FloatArray
from robin_cli.model.errors import InputError
from robin_cli.model.judge_spec import JudgeSpec
from robin_cli.model.records import Pair, things_rated
from robin_cli.model.space import ArmSpace
from robin_cli.run.fold import Fold
from robin_cli.run.writer import RunWriter
from robin_cli.session.inputs import recorded_prompts
from robin_cli.settings.resolve import Resolved

TOKENS_OF_AN_ANSWER = 100.0
"""The assumed tokens of an answer before the first one: a rating with a line or two of feedback."""

_PRICED = 1000
"""The tokens from which the price of one is computed: few enough for the lowest step of a price list."""


def prices_of(judge: JudgeSpec, resolved: Resolved) -> list[Price | None]:
    """Return the price of ``judge`` at each of its addresses, as a session asks it."""
    return prices_at(judge, batch=resolved.batch, is_limited=resolved.max_cost is not None)


def prices_at(
    judge: JudgeSpec, *, batch: bool = False, is_limited: bool = False
) -> list[Price | None]:
    """Return the price of ``judge`` at each of its addresses; None if it is unknown.

    Args:
        batch: calls are made by the endpoint's batch service.
        is_limited: money is limited, so a price is needed.

    Raises:
        InputError: money is limited and an address has no price.
    """
    prices = []
    for url in judge.base_urls:
        price = price_of(judge.name, url, **judge.prices, batch=batch)
        if price is None and is_limited:
            at, where = (" at its batch service", " there") if batch else ("", "")
            raise InputError(
                f'--max-cost: no price is known for "{judge.name}" at {url}{at}; give --price-in '
                f"and --price-out (US dollars for a million tokens{where}), or leave --max-cost out"
            )
        prices.append(price and replace(price, is_output_free=judge.answers == "decisions"))
    return prices


def usual_answer(longest: int) -> float:
    """Return the assumed tokens of an answer, at most ``longest``."""
    return min(TOKENS_OF_AN_ANSWER, float(longest))


def tokens_of_prompt(space: ArmSpace, pairs: Sequence[Pair], prompts: PromptSet) -> float:
    """Return about how many tokens a question has, on average: its pair's, and the template's with the first pair."""
    lengths = np.array([_length(pair) for pair in pairs], dtype=np.float64)
    around = [
        sum(len(message["content"]) for message in prompts.messages(pairs[0], attribute))
        - lengths[0]
        for attribute in space.attributes
    ]
    of_arms = np.maximum(1.0, lengths[space.pair] + np.array(around)[space.attribute])
    return float(of_arms.mean()) / CHARACTERS_PER_TOKEN


def _length(pair: Pair) -> int:
    return len(pair.prompt) + len(pair.response) + len(pair.other or "") + len(pair.reference or "")


def dollars_of_call(prices: Sequence[Price | None], prompt: float, answer: float) -> float | None:
    """Return the dollars of a call with so many tokens, on average over the judges; None if a price is unknown."""
    known = [price for price in prices if price is not None]
    if len(known) < len(prices):
        return None
    costs = [prompt * price.cost(_PRICED, 0) + answer * price.cost(0, _PRICED) for price in known]
    return sum(costs) / _PRICED / len(costs)


def relative_prices(prices: Sequence[Price | None]) -> FloatArray | None:
    """Return the price of a usual call of each judge, shape (judges,); None if one is unknown or free."""
    costs = [price.cost(_PRICED, int(TOKENS_OF_AN_ANSWER)) for price in prices if price is not None]
    return np.array(costs) if len(costs) == len(prices) and all(costs) else None


def calls_paid_for(
    limit: float,
    prices: Sequence[Price | None],
    longest: int,
    goal: Goal,
    pairs: Sequence[Pair],
    prompts: PromptSet,
    answer: float | None = None,
) -> int:
    """Return about how many calls ``--max-cost`` pays for, as the budget of a run.

    Args:
        limit: US dollars.
        prices: of each judge at its first address.
        longest: the tokens of an answer, at most.
        answer: the tokens of an answer, if they are known.

    Raises:
        InputError: it does not pay for a call of each arm, even with the shortest answers, or calls
            cost nothing.
    """
    space = goal.space
    prompt = tokens_of_prompt(space, pairs, prompts)
    shortest, usual = (0.0, usual_answer(longest)) if answer is None else (answer, answer)
    least, usually = (
        dollars_of_call(prices, prompt, tokens) or 0.0 for tokens in (shortest, usual)
    )
    if not usually:
        raise InputError(
            "--max-cost: calls cost nothing at these prices, so it would never be spent; give --budget"
        )
    fewest = goal.least_calls
    if fewest * least > limit:
        what = things_rated(fewest, len(space.attributes), len(space.judges))
        raise InputError(
            f"--max-cost {limit:g}: does not pay for one call for each of {what} (${fewest * least:.3g} for the prompts "
            f"alone); raise it to ${fewest * usually:.2g} or more, or take fewer pairs with --limit"
        )
    return max(fewest, int(min(limit / usually, 1e9)))


def usd_before(fold: Fold, prices: Sequence[Price | None]) -> float:
    """Return the dollars that a run cost so far. Answers without a recorded cost count at their judge's price of today."""
    usd = fold.spending().cost_usd or 0.0
    tokens = (fold.spent[f"unpriced_{kind}_tokens"].tolist() for kind in ("prompt", "completion"))
    for price, prompt, completion in zip(prices, *tokens, strict=True):
        usd += 0.0 if price is None else price.cost(prompt, completion)
    return usd


def lost_before(
    store: RunWriter, fold: Fold, spent: float, prices: Sequence[Price | None], longest: int
) -> float:
    """Return the dollars of the calls that earlier sessions may have lost, at the mean of all calls.

    Args:
        spent: the dollars that all calls cost so far.
        longest: the tokens of an answer, at most.
    """
    calls = store.manifest.lost_calls
    if not calls:
        return 0.0
    if requests := fold.spending().prompts or fold.arms.spent:
        return calls * spent / requests
    prompts = recorded_prompts(store.manifest)
    tokens = tokens_of_prompt(store.space, store.pairs, prompts)
    return calls * (dollars_of_call(prices, tokens, usual_answer(longest)) or 0.0)
