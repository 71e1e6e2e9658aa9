"""Money: the prices of judges, the costs of calls, and the number of calls that a budget pays for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from robin_cli.ask.prompts import PromptSet
from robin_cli.goals.base import Goal
from robin_cli.judges.metering import CHARACTERS_PER_TOKEN, Price, batch_share, price_of
from robin_cli.model.arms import FloatArray
from robin_cli.model.errors import InputError
from robin_cli.model.records import Pair, things_rated
from robin_cli.model.space import ArmSpace
from robin_cli.run.fold import Fold, Spending
from robin_cli.run.manifest import Manifest
from robin_cli.run.store import RunStore
from robin_cli.session.budget import MoneyBudget
from robin_cli.session.inputs import recorded_prompts
from robin_cli.settings.addresses import JudgeAddress, judges_of
from robin_cli.settings.table import TABLE, Settings

TOKENS_OF_AN_ANSWER = 100.0
"""The assumed tokens of an answer before the first one: a rating with a line or two of feedback."""

_PRICED = 1000
"""The tokens from which the price of one is computed: few enough for the lowest step of a price list."""


def prices_at(judge: JudgeAddress, settings: Settings) -> list[Price | None]:
    """Return the price of ``judge`` at each of its addresses; None if it is unknown.

    Raises:
        InputError: one of the two prices is missing, or money is limited and an address has no price.
    """
    given = {
        "price_in": judge.price_in,
        "price_out": judge.price_out,
        "price_cached": judge.price_cached,
    }
    if (judge.price_in is None) != (judge.price_out is None) or (
        judge.price_in is None and judge.price_cached is not None
    ):
        raise InputError("--price-in and --price-out: give both, or neither to use genai-prices")
    prices = []
    for url in judge.base_urls:
        price = price_of(judge.name, url, **given, batch=settings.batch)
        if price is None and settings.max_cost is not None:
            at, there = (" at its batch service", " there") if settings.batch else ("", "")
            raise InputError(
                f'--max-cost: no price is known for "{judge.name}" at {url}{at}; give --price-in and --price-out (US dollars '
                f"for a million tokens{there}), or leave --max-cost out"
            )
        is_output_free = judge.answers == "decisions"
        prices.append(price and replace(price, is_output_free=is_output_free))
    return prices


def with_prices_of(settings: Settings, *, was_batch: bool) -> Settings:
    """Return ``settings`` with prices given for calls with ``was_batch``, converted to their own way."""
    times = batch_share(was_batch=was_batch, batch=settings.batch)
    price_in, price_out, cached = (
        tuple(times * each for each in given)
        for given in (settings.price_in, settings.price_out, settings.price_cached)
    )
    return replace(settings, price_in=price_in, price_out=price_out, price_cached=cached)


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
    settings: Settings,
    goal: Goal,
    pairs: Sequence[Pair],
    prompts: PromptSet,
    answer: float | None = None,
) -> int:
    """Return about how many calls ``--max-cost`` pays for, as the budget of a run.

    Args:
        answer: the tokens of an answer, if they are known.

    Raises:
        InputError: it does not pay for a call of each arm, even with the shortest answers; calls cost nothing; or the settings
            need a number of calls.
    """
    limit, space, longest = settings.max_cost, goal.space, settings.max_tokens
    assert limit is not None  # noqa: S101  # callers check it
    if settings.mode != TABLE["mode"].default:
        raise InputError(
            f"--max-cost: no budget for --mode {settings.mode}, whose guarantee needs a number of calls; give --budget too"
        )
    prices = [prices_at(judge, settings)[0] for judge in judges_of(settings)]
    prompt = tokens_of_prompt(space, pairs, prompts)
    shortest, usual = (0.0, usual_answer(longest)) if answer is None else (answer, answer)
    least, usually = (dollars_of_call(prices, prompt, each) or 0.0 for each in (shortest, usual))
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


def money_of(
    manifest: Manifest, settings: Settings, spent: float, *, in_rounds: bool = False
) -> MoneyBudget:
    """Return the money for a session: the run's budget if that is of money, else ``--max-cost``."""
    budget = manifest.budget_usd
    limit = settings.max_cost if budget is None else budget
    return MoneyBudget(limit, spent, is_budget=budget is not None, first_alone=not in_rounds)


def spent_before(fold: Fold, prices: Sequence[Price | None]) -> Spending:
    """Return the spending of a run. Answers without a recorded cost count at their judge's price, if it is known now."""
    spent = fold.spending()
    cost, complete = spent.cost_usd, True
    tokens = zip(
        fold.spent["unpriced_prompt_tokens"], fold.spent["unpriced_completion_tokens"], strict=True
    )
    for price, unpriced, (prompt, completion) in zip(
        prices, fold.spent["unpriced"], tokens, strict=True
    ):
        if unpriced and price is None:
            complete = False
        elif unpriced and price is not None:
            cost = (cost or 0.0) + price.cost(int(prompt), int(completion))
    return replace(spent, cost_usd=cost, complete=complete)


def lost_before(
    store: RunStore,
    fold: Fold,
    spent: float,
    settings: Settings,
    prices: Sequence[Price | None],
) -> float:
    """Return the dollars of the calls that earlier sessions may have lost, at the mean of those that cost ``spent``."""
    calls = store.manifest.lost_calls
    if not calls:
        return 0.0
    if requests := fold.spending().prompts or fold.arms.spent:
        return calls * spent / requests
    prompts = recorded_prompts(store.manifest)
    tokens = tokens_of_prompt(store.space, store.pairs, prompts)
    return calls * (dollars_of_call(prices, tokens, usual_answer(settings.max_tokens)) or 0.0)
