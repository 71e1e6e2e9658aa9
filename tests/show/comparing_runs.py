"""Pairwise runs for tests, made by judges that are a Bradley–Terry world with an order's effect."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from robin_cli.ask.verdicts import ORDERS, PREFERENCE
from robin_cli.model.records import Pair
from robin_cli.run.reader import RunReader, read_run
from robin_cli.run.schema import JUDGMENTS
from robin_cli.run.writer import RunWriter
from tests.run.test_store import SETTINGS, judgment, manifest


def comparisons(names: Sequence[str], prompts: int, *, named: bool = True) -> list[Pair]:
    """Every two of the systems on each prompt, each as often first as second."""
    found = []
    for prompt in range(prompts):
        for number, two in enumerate(combinations(names, 2)):
            a, b = two if (prompt + number) % 2 else two[::-1]
            columns = {"system_a": a, "system_b": b} if named else {}
            texts = (
                f"Question {prompt}?",
                f"{a} answers {prompt}",
                columns,
                f"{b} answers {prompt}",
            )
            found.append(
                Pair(f"{prompt}:{number}", texts[0], texts[1], columns=texts[2], other=texts[3])
            )
    return found


def compared_run(
    path: Path,
    names: Sequence[str],
    strengths: Sequence[float],
    *,
    prompts: int = 20,
    draws: int = 1,
    first: float = 0.0,
    ties: float = 0.1,
    judges: Sequence[str] = ("m",),
    named: bool = True,
    asked: Sequence[tuple[str, str]] | None = None,
    **change: object,
) -> RunReader:
    """A run in which each comparison is asked so often in each order by each judge.

    Args:
        first: the order's effect.
        ties: the share of verdicts that are.
        asked: the systems between which comparisons are asked; None for all.
    """
    rng = np.random.default_rng(0)
    pairs, strength, rows = (
        comparisons(names, prompts, named=named),
        dict(zip(names, strengths, strict=True)),
        [],
    )
    for number, pair in enumerate(pairs):
        a, b = (texts.partition(" answers ")[0] for texts in (pair.response, str(pair.other)))
        if asked is not None and (a, b) not in asked and (b, a) not in asked:
            continue
        better = 1 / (1 + np.exp(strength[b] - strength[a]))
        for draw in range(draws):
            for judge in judges:
                for order, sign in zip(ORDERS, (1, -1), strict=True):
                    if rng.random() < 2 * abs(first):
                        points = 2 if sign * first > 0 else 0
                    else:
                        points = 1 if rng.random() < ties else 2 * int(rng.random() < better)
                    about: dict[str, Any] = {
                        "attribute": order,
                        "judge": judge,
                        "draw": draw,
                        "rating": points,
                    }
                    about |= {"feedback": f"{order} of {pair.pair_id}"}
                    about |= {"request_id": f"{number}-{draw}-{judge}-{order}"}
                    rows.append(replace(judgment(0), pair_id=pair.pair_id, **about))
    rows.sort(key=lambda row: row.draw)
    settings = {**SETTINGS, "model": list(judges), "pairwise": True} | dict(
        change.pop("settings", {})
    )  # type: ignore[call-overload]
    data = {"source": "pairs.jsonl", "sha256": "0", "pairs": len(pairs), "skipped": 0}
    made = manifest(
        **({"settings": settings, "data": data, "budget": max(len(rows), 1)} | change),
        attributes=(PREFERENCE,),
        scale=(0, 2),
    )
    with RunWriter.create(path, made, pairs) as store:
        store.append(rows)
    return read_run(path, JUDGMENTS.names)
