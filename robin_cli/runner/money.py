"""Money: what judges cost, what calls will cost, how many a budget pays for, and when it is spent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robin_cli.goals.base import Goal
from robin_cli.judges.metering import CHARACTERS_PER_TOKEN, Price, half_or_twice, price_of
from robin_cli.model.arms import FloatArray
from robin_cli.model.errors import InputError, typed
from robin_cli.model.records import Pair, things_rated
from robin_cli.model.space import ArmSpace
from robin_cli.planning.budget import MoneyBudget
from robin_cli.planning.costs import Costs
from robin_cli.policies.registry import traits_of
from robin_cli.questions.rubrics import PromptSet
from robin_cli.settings.addresses import JudgeAddress, judges_of
from robin_cli.settings.table import TABLE, Settings
from robin_cli.storage.fold import Fold, Spending
from robin_cli.storage.manifest import Manifest

TOKENS_OF_AN_ANSWER = 100.0
"""Tokens of an answer, as long as there is none; a rating with a line or two of feedback."""

_PRICED = 1000
"""Tokens that a price of one is told by: few enough for the lowest step of a list that has several."""


def prices_at(judge: JudgeAddress, settings: Settings) -> list[Price | None]:
    """The price of ``judge`` at each of its addresses; None if none is known at the service tier that calls ask for.

    Raises:
        InputError: one of the two prices is missing, or money is limited and an address has no price.
    """
    flag = "--max-cost" if settings.budget_usd is None else "--budget-usd"
    if not settings.sends and judge.price_in is None:  # an engine of one's own is no provider
        if settings.money_limit is not None:
            raise InputError(
                f"{flag}: no price is known of an engine of your own; give --price-in and --price-out, or leave {flag} out"
            )
        return [None for _ in judge.base_urls]
    given = {"price_in": judge.price_in, "price_out": judge.price_out, "price_cached": judge.price_cached}
    if (judge.price_in is None) != (judge.price_out is None) or (
        judge.price_in is None and judge.price_cached is not None
    ):
        raise InputError("--price-in and --price-out: give both, or neither to go by genai-prices")
    prices = []
    for url in judge.base_urls:
        price = price_of(judge.name, url, **given, tier=settings.tier)
        if price is None or not price.knows(price.tier):
            if settings.money_limit is not None:
                at, there = ("", "") if settings.tier is None else (f" at the service tier {settings.tier}", " there")
                raise InputError(
                    f'{flag}: no price is known for "{judge.name}" at {url}{at}, so it could not be held; give --price-in and '
                    f"--price-out (US dollars for a million tokens{there}), or leave {flag} out"
                )
            price = None
        elif _is_of_a_found_file(settings, given) and settings.money_limit is not None and price.below_list():
            raise InputError(
                f"{settings.source}: {judge.name} costs less there, {price}, than genai-prices has it at {url}, and {flag} "
                "would go by it; give --price-in and --price-out yourself, or say that you trust the file: --config "
                f"{typed(settings.source.place)}"
            )
        prices.append(price)
    return prices


def _is_of_a_found_file(settings: Settings, prices: Mapping[str, float | None]) -> bool:
    """Return whether one of ``prices`` stands in a file of the folder, and not in the command."""
    given = {name for name, price in prices.items() if price is not None}
    return settings.source.kind == "folder" and not given <= set(settings.source.named)


def with_prices_of(settings: Settings, given_for: str | None) -> Settings:
    """``settings``, whose prices were given for the service tier ``given_for``, with such for the tier that they ask for."""
    times = half_or_twice(given_for, settings.tier)
    price_in, price_out, cached = (
        tuple(times * each for each in given)
        for given in (settings.price_in, settings.price_out, settings.price_cached)
    )
    return replace(settings, price_in=price_in, price_out=price_out, price_cached=cached)


def costs_of(
    goal: Goal, pairs: Sequence[Pair], prompts: PromptSet, prices: Sequence[Price | None], answer: float
) -> Costs:
    """What calls cost as far as lengths and prices tell; :class:`Costs` learns the rest.

    Args:
        answer: tokens of one, as long as nothing is known, see :func:`usual_answer`.

    Raises:
        InputError: no call costs anything.
    """
    of_tokens = [
        (0.0, 0.0)
        if price is None
        else (price.cost(_PRICED, 0, tier=price.tier) / _PRICED, price.cost(0, _PRICED, tier=price.tier) / _PRICED)
        for price in prices
    ]
    if not any(map(any, of_tokens)):
        raise InputError(
            "--budget-usd: by these prices a call costs nothing, so it would never be spent; give --budget"
        )
    space = goal.space
    return Costs(
        _lengths(space, pairs, prompts),
        space.judge,
        np.array(of_tokens),
        tokens=(1.0 / CHARACTERS_PER_TOKEN, answer),
        per=goal.per,
        arms_per_pair=space.arms_per_pair,
    )


def usual_answer(longest: int) -> float:
    """Return the tokens of an answer, as long as there is none; ``longest``: those that one may have."""
    return min(TOKENS_OF_AN_ANSWER, float(longest))


def _lengths(space: ArmSpace, pairs: Sequence[Pair], prompts: PromptSet) -> FloatArray:
    """Characters of each arm's prompt, shape (K,), reckoned from the pair's own and what the first one has around it."""
    own = np.array([_length(pair) for pair in pairs], dtype=np.float64)
    around = [
        sum(len(message["content"]) for message in prompts.messages(pairs[0], attribute)) - own[0]
        for attribute in space.attributes
    ]
    return np.asarray(np.maximum(1.0, own[space.pair] + np.array(around)[space.attribute]))


def _length(pair: Pair) -> int:
    return len(pair.prompt) + len(pair.response) + len(pair.other or "") + len(pair.reference or "")


def check_money(settings: Settings) -> None:
    """InputError where no budget of money can be meant."""
    if settings.mode != TABLE["mode"].default:
        raise InputError(
            f"--budget-usd: not with --mode {settings.mode}, whose guarantee goes by a number of calls; give --budget"
        )


@dataclass(frozen=True, slots=True)
class Paid:
    """What the money pays for: ``calls`` about, and dollars of a call on average, at ``least``, ``usually`` and at ``most``."""

    calls: int
    least: float
    usually: float
    most: float


def paid_for(settings: Settings, goal: Goal, pairs: Sequence[Pair], prompts: PromptSet, answer: float | None) -> Paid:
    """What ``--budget-usd`` pays for, at least one call of each arm.

    Args:
        answer: tokens of one, where they are known.

    Raises:
        InputError: it does not pay for so many, however short the answers are; as :func:`check_money` and :func:`costs_of`.
    """
    check_money(settings)
    assert settings.budget_usd is not None  # noqa: S101  # who asks has looked
    limit, evenly = settings.budget_usd, traits_of(settings.scheduler).evenly
    prices = [prices_at(judge, settings)[0] for judge in judges_of(settings)]
    space, longest = goal.space, settings.max_tokens
    costs, least, most = (
        costs_of(goal, pairs, prompts, prices, tokens if answer is None else answer)
        for tokens in (usual_answer(longest), 0.0, float(longest))
    )
    share = np.where(space.settles & (space.judge > 0), space.start / max(1, len(space.pair_ids)), 1.0)
    needed, usually = (float(share @ known.each) for known in (least, costs))
    if goal.asks_all and needed > limit:
        what = things_rated(space.asked_once, len(space.attributes), len(space.judges))
        raise InputError(
            f"--budget-usd {limit:g}: does not pay for the prompts of {what}, each asked once (about ${needed:.3g}); raise it "
            f"to ${usually:.2g} or more, or take fewer pairs with --limit"
        )
    each = [known.of_a_call(evenly=evenly) for known in (least, costs, most)]
    if space.settles:  # beyond what is asked once, all calls are of the dear judge
        share[1::2] += max(0.0, limit - usually) / costs.each[1::2].sum()
        each = [float(share @ known.each / share.sum()) for known in (least, costs, most)]
    fewest = space.asked_once if goal.asks_all else 1
    return Paid(max(fewest, int(min(limit / each[1], 1e9))), *each)


def money_of(manifest: Manifest, settings: Settings, spent: float, *, in_rounds: bool = False) -> MoneyBudget:
    """The money that there is for a session: the run's own budget, or ``--max-cost`` where that is less."""
    own, most = manifest.budget_usd, settings.max_cost
    if own is None or (most is not None and most < own):
        return MoneyBudget(most, spent, first_alone=not in_rounds)
    return MoneyBudget(own, spent, is_budget=True, first_alone=not in_rounds)


def begun_costs(
    manifest: Manifest,
    goal: Goal,
    pairs: Sequence[Pair],
    prompts: PromptSet,
    prices: Sequence[Price | None],
    fold: Fold,
) -> Costs:
    """What calls cost by the answers of ``fold``, learned from those that there were when it was learned last."""
    answer = usual_answer(manifest.own_settings["max_tokens"])
    costs = costs_of(goal, pairs, prompts, prices, answer)
    if fold.fitted is not None:
        _set(costs, fold.fitted_spent)
        costs.learn(fold.fitted[0])
    _set(costs, fold.spent)
    return costs


def _set(costs: Costs, spent: Mapping[str, NDArray[Any]]) -> None:
    costs.prompt_tokens[:] = spent["prompt_tokens"]
    costs.completion_tokens[:] = spent["completion_tokens"]
    costs.dollars[:] = spent["cost_usd"]


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
