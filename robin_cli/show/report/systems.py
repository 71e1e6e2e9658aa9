"""A report's words and charts for systems compared across two runs or within one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from robin_cli.goals.base import Goal
from robin_cli.goals.differences import (
    better_lines,
    letters_of,
    notes_of,
    of_leader,
    p_text,
    verdict,
    widened,
)
from robin_cli.model.errors import InputError, abridged, shown
from robin_cli.model.records import SYSTEM_COLUMN, number_of
from robin_cli.run.reader import RunData
from robin_cli.show.charts import Chart, under_one_another
from robin_cli.show.text import one_line
from robin_cli.show.words import MOST_LINES
from robin_cli.stats.paired import Difference
from robin_cli.stats.run_compare import Compared, compared

_MOST_TILES = 12
"""Differences of one attribute at the top of a page."""

_MOST_DRAWN = 30
"""Differences of one attribute in a picture."""

_NAME = 60


def systems_in(run: RunData, goal: Goal) -> tuple[Compared | None, list[str]]:
    """Return one run's systems, if several answered the same prompts; and omissions, or the reason for no comparison."""
    if SYSTEM_COLUMN not in run.column_names:
        return None, []
    left_out: list[str] = []
    try:
        return compared([run], left_out.append, as_they_are=True), left_out
    except InputError as error:
        return None, goal.without_systems(str(error))


def headline_of(found: Compared) -> Iterator[tuple[str, str, str]]:
    """Return means and their differences over prompts, for each attribute; of many systems only the differences."""
    letters = letters_of(found.systems)
    for name, listed in found.differences.items():
        about = f" · {name}" if len(found.differences) > 1 else ""
        for one in _main(found, listed, _MOST_TILES):
            a, b = (letters[found.systems[system]] for system in (one.a, one.b))
            if len(listed) == 1:
                over = f"over {number_of(one.n_prompts, 'prompt')} that both answered, each with the same weight"
                yield f"mean of {a}{about}", _number(one.mean_a), over
                yield f"mean of {b}{about}", _number(one.mean_b), "over the same"
            yield f"{a} − {b}{about}", _number(one.difference, "+"), _interval(found, one, (a, b))


def _main(found: Compared, listed: Sequence[Difference], most: int) -> Sequence[Difference]:
    """Return all differences, or if they are more than ``most`` those of the leading system, the nearest first."""
    return listed if len(listed) <= most else of_leader(found, listed)[1][:most]


def _number(value: float, sign: str = "") -> str:
    return "–" if math.isnan(value) else f"{value:{sign}.3f}"


def _interval(found: Compared, one: Difference, sides: tuple[str, str]) -> str:
    if math.isnan(one.p):
        return f"of {number_of(one.n_prompts, 'prompt')}: too few to say how prompts differ"
    better = verdict(one, sides)
    return (
        f"95 % interval {one.ci_low:+.3f} to {one.ci_high:+.3f}{widened(found, one)}, p {p_text(one.p_adjusted)}: "
        + (f"{better} is better" if one.is_settled else better)
    )


def charts_of(found: Compared) -> Iterator[Chart]:
    """Yield the differences with their intervals."""
    letters = letters_of(found.systems)
    panels, written_out = {}, dict[str, str]()
    for name, listed in found.differences.items():
        all_known = [one for one in listed if not math.isnan(one.p)]
        if known := _main(found, all_known, _MOST_DRAWN):
            label = "difference, in points"
            if len(known) < len(all_known):
                label += f": the {len(known)} of {len(all_known)} of the leading system"
            values, low, high = (
                np.array([getattr(one, each) for one in known])
                for each in ("difference", "ci_low", "ci_high")
            )
            names = [
                " − ".join(letters[found.systems[system]] for system in (one.a, one.b))
                for one in known
            ]
            written_out |= {
                name: f"{one_line(found.systems[one.a])}\n−\u00a0{one_line(found.systems[one.b])}"
                for name, one in zip(names, known, strict=True)
            }
            panels[name] = under_one_another(names, values, (low, high), label)
    if panels:
        who = "; ".join(
            f"{letter} is {shown(abridged(name, _NAME), _NAME)}" for name, letter in letters.items()
        )
        says = f"Right of 0 the first is better. The lines are 95 % intervals over prompts. {who}."
        title = "Is A better than B?" if len(found.systems) == 2 else "Which system is better?"
        yield Chart(title, says, panels, written_out=written_out)


def answer_of(found: Compared) -> list[str]:
    """Return which system is better, and by how much, in a limited number of lines."""
    return better_lines(found)[:MOST_LINES]


def notes_on(found: Compared) -> list[str]:
    """Return the conclusions from the differences, and their limits, in sentences."""
    return [f"{line[0].upper()}{line[1:]}." for line in notes_of(found, letters_of(found.systems))]
