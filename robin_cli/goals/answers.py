"""The winners in an answer."""

from __future__ import annotations

from collections.abc import Sequence

from robin_cli.model.arms import IntArray
from robin_cli.model.records import SYSTEM_COLUMN
from robin_cli.run.reader import RunReader
from robin_cli.show.fitting import told_apart
from robin_cli.show.text import one_line

SHOWN = 3
"""The number of winners in an answer."""
_PROMPT = 28
"""The width of a prompt in it, in cells."""


def names_of(run: RunReader, pairs: IntArray) -> list[str]:
    """Return the names of the systems of some responses, or the ids of these without one."""
    has_systems = SYSTEM_COLUMN in run.column_names
    systems = run.column(SYSTEM_COLUMN) if has_systems else [None] * len(run.pair_ids)
    return [systems[pair] or run.pair_ids[pair] for pair in pairs.tolist()]


def winners_text(run: RunReader, places: IntArray, names: Sequence[str], column: str) -> str:
    """Return the first winners as "prompt → winner".

    Args:
        places: a pair of each prompt or group, shape (prompts,).
        names: the winners of the first SHOWN of them.
        column: of the pairs, shown for the prompt.
    """
    wanted = places[:SHOWN].tolist()
    texts, start = dict[int, str](), 0
    for part in run.pairs.texts(column):
        texts |= {
            place: one_line(part[place - start].as_py())
            for place in wanted
            if start <= place < start + len(part)
        }
        start += len(part)
        if len(texts) == len({*wanted}):
            break
    shown = told_apart([texts[place] for place in wanted], range(len(wanted)), _PROMPT)
    winners = [f"{prompt} → {one_line(name)}" for prompt, name in zip(shown, names, strict=True)]
    more = [f"and {len(places) - SHOWN:,} more"] if len(places) > SHOWN else []
    return "; ".join([*winners, *more])
