"""``robin plan``: what a budget would buy, before any of it is spent."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from robin_cli.allocation.arms import FloatArray
from robin_cli.allocation.policies import Setup, make_policy
from robin_cli.config import RunConfig
from robin_cli.data.pairs import load_pairs
from robin_cli.errors import InputError
from robin_cli.judging.rubrics import PromptSet
from robin_cli.output.text import plain
from robin_cli.records import Pair
from robin_cli.runs.fold import ArmIndex
from robin_cli.runs.variances import known_variances
from robin_cli.statistics.bounds import ROBIN_ASSUMES, ROBIN_HOOD_ASSUMES, robin_bound, robin_hood_bound

_CHARACTERS_PER_TOKEN = 4
_SAMPLE = 200
_MULTIPLES = (0.5, 1.0, 2.0, 4.0)


def plan_of(config: RunConfig, notify: Any) -> dict[str, Any]:
    """What ``config`` would do, as JSON values; asks nobody.

    Tokens are estimated from characters, four to one. The bounds need the variances of the ratings, which nobody knows
    before: with ``--variances RUN`` they are that run's, else every pair is assumed to vary as ratings spread evenly over
    the middle half of the scale do.

    Raises:
        InputError: bad data or settings, as ``robin judge`` would say.
    """
    if config.data is None or config.budget is None:
        raise InputError(
            "robin plan needs pairs and a budget: robin plan PAIRS.jsonl --budget 50000 --attribute helpfulness"
        )
    prompts = PromptSet(config.attributes)
    pairs = load_pairs(
        Path(config.data), columns=config.columns or None, skip_bad_rows=config.skip_bad_rows, limit=config.limit
    ).pairs
    index = ArmIndex([pair.pair_id for pair in pairs], config.attributes)
    known = known_variances(Path(config.variances), index, notify) if config.variances else None
    assumed = ((prompts.scale.high - prompts.scale.low) / 2) ** 2 / 12
    variances = known if known is not None else np.full(len(index), assumed)
    prompt_tokens = _tokens_a_call(pairs, prompts)
    budgets = sorted({max(len(index), round(config.budget * each)) for each in _MULTIPLES} | {config.budget})
    return {
        "pairs": len(pairs),
        "attributes": list(config.attributes),
        "arms": len(index),
        "scheduler": config.scheduler,
        "budget": config.budget,
        "calls_an_arm": config.budget / len(index),
        "prompt_tokens": round(prompt_tokens * config.budget),
        "completion_tokens_at_most": config.max_tokens * config.budget,
        "tokens_estimated_from": f"{_CHARACTERS_PER_TOKEN} characters a token",
        "variances_from": config.variances or f"assumed: {assumed:.3g} for every pair",
        "sigma_squared_sum": float(variances.sum()),
        "forecast": [_forecast(config, budget, len(index), variances, prompts) for budget in budgets],
    }


def print_plan(plan: dict[str, Any], *, as_json: bool) -> None:
    """Print what :func:`plan_of` found."""
    if as_json:
        sys.stdout.buffer.write(orjson.dumps(plan, option=orjson.OPT_INDENT_2) + b"\n")
        return
    console = Console()
    console.print(
        Text(
            plain(
                f"{plan['budget']:,} calls over {plan['arms']:,} arms ({plan['pairs']:,} pairs × "
                f"{', '.join(plan['attributes'])}), {plan['calls_an_arm']:.1f} each on average, by {plan['scheduler']}.\n"
                f"About {plan['prompt_tokens']:,} tokens in (estimated, {plan['tokens_estimated_from']}), at most "
                f"{plan['completion_tokens_at_most']:,} out (--max-tokens). Nothing was sent.\n"
                f"Variances of the ratings: {plan['variances_from']}."
            )
        )
    )
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("calls", "warm-up", "typical error", "paper's bound"):
        table.add_column(name, justify="right")
    for row in plan["forecast"]:
        bound = row["bound"]
        table.add_row(
            f"{row['budget']:,}",
            f"{row['warm_up_calls']:,}" if row["warm_up_calls"] else "–",
            f"{row['typical_error']:.3f}",
            "–" if bound is None else f"{bound:.2f}",
        )
    console.print(table)
    notes = ["typical error: the standard error of every score, if calls went in proportion to the variances"]
    notes += sorted({f"paper's bound: assumes {row['assumes']}" for row in plan["forecast"] if row["assumes"]})
    console.print(Text("\n".join(notes)))


def _forecast(config: RunConfig, budget: int, arms: int, variances: FloatArray, prompts: PromptSet) -> dict[str, Any]:
    setup = Setup(arms, budget, prompts.scale, config.delta, "practice", config.objective, variances)
    warm_up = make_policy(config.scheduler, setup).warm_up * arms if config.scheduler == "robin-hood" else 0
    bound, assumes = math.inf, None
    if config.scheduler == "robin":
        bound, assumes = robin_bound(variances, budget, config.delta), ROBIN_ASSUMES
    elif config.scheduler == "robin-hood" and config.mode == "theory":
        setup = Setup(arms, budget, prompts.scale, config.delta, "theory", config.objective, variances)
        try:
            warm_up = make_policy("robin-hood", setup).warm_up * arms
            bound, assumes = robin_hood_bound(variances, budget, config.delta, warm_up // arms), ROBIN_HOOD_ASSUMES
        except InputError:  # a budget of the forecast that theory mode cannot use: no bound
            warm_up = 0
    return {
        "budget": budget,
        "warm_up_calls": warm_up,
        "typical_error": math.sqrt(float(variances.sum()) / budget),
        "bound": bound if math.isfinite(bound) else None,
        "assumes": assumes,
    }


def _tokens_a_call(pairs: Sequence[Pair], prompts: PromptSet) -> float:
    """Mean length of a prompt in tokens, over an even sample of the pairs and all attributes."""
    sample = pairs[:: max(1, len(pairs) // _SAMPLE)]
    lengths = [
        sum(len(message["content"]) for message in prompts.messages(pair, attribute))
        for pair in sample
        for attribute in prompts.rubrics
    ]
    return sum(lengths) / len(lengths) / _CHARACTERS_PER_TOKEN
