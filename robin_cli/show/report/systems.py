"""What the report shows of systems on the same prompts, and of two runs: figures and charts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from robin_cli.goals.differences import (
    letters_of,
    notes_of,
    of_leader,
    p_text,
    verdict,
    widened,
)
from robin_cli.goals.found import Found
from robin_cli.model.errors import InputError, abridged, shown
from robin_cli.model.records import SYSTEM_COLUMN, Scale, number_of
from robin_cli.run.reader import RunData
from robin_cli.show.charts import Chart, against, chart, histogram, marks_of, under_one_another
from robin_cli.show.report.page import Tile, coefficient_tile
from robin_cli.show.text import one_line
from robin_cli.stats.agreement import agreement
from robin_cli.stats.paired import Difference
from robin_cli.stats.run_compare import Compared, compared

_MOST_TILES, _MOST_DRAWN = 12, 30  # differences of one attribute
_NAME = 60
_BINS = 48


def systems_in(found: Found) -> tuple[Compared | None, list[str]]:
    """Return a run's systems, if several answered the same prompts, and notes on omissions."""
    run, left_out = found.run, list[str]()
    if SYSTEM_COLUMN not in run.column_names:
        return None, []
    try:
        return compared([run], left_out.append, as_they_are=True), left_out
    except InputError as error:
        return None, found.goal.without_systems(str(error))


def systems_part(found: Compared) -> tuple[list[Tile], list[Chart], str]:
    """Return the differences of systems as figures and as a chart, and notes on them."""
    notes = (f"{line[0].upper()}{line[1:]}." for line in notes_of(found, letters_of(found.systems)))
    return [*_tiles(found)], [*_differences_chart(found)], " ".join(notes)


def _tiles(found: Compared) -> Iterator[Tile]:
    """Yield differences over prompts for each attribute; of two systems also their means."""
    letters = letters_of(found.systems)
    for name, listed in found.differences.items():
        about = f" · {name}" if len(found.differences) > 1 else ""
        for one in _main(found, listed, _MOST_TILES):
            a, b = (letters[found.systems[system]] for system in (one.a, one.b))
            if len(listed) == 1:
                prompts = number_of(one.n_prompts, "prompt")
                over = f"over {prompts} that both answered, each with the same weight"
                yield f"mean of {a}{about}", _number(one.mean_a), over
                yield f"mean of {b}{about}", _number(one.mean_b), "over the same"
            yield f"{a} − {b}{about}", _number(one.difference, "+"), _interval(found, one, (a, b))


def _main(found: Compared, listed: Sequence[Difference], most: int) -> Sequence[Difference]:
    """Return all differences; of more than ``most`` the leading system's, the nearest first."""
    return listed if len(listed) <= most else of_leader(found, listed)[1][:most]


def _number(value: float, sign: str = "") -> str:
    return "–" if math.isnan(value) else f"{value:{sign}.3f}"


def _interval(found: Compared, one: Difference, sides: tuple[str, str]) -> str:
    if math.isnan(one.p):
        return f"of {number_of(one.n_prompts, 'prompt')}: too few to say how prompts differ"
    interval = f"95 % interval {one.ci_low:+.3f} to {one.ci_high:+.3f}{widened(found, one)}"
    better = f"{verdict(one, sides)}{' is better' * one.is_settled}"
    return f"{interval}, p {p_text(one.p_adjusted)}: {better}"


def _differences_chart(found: Compared) -> Iterator[Chart]:
    letters = letters_of(found.systems)
    panels, written_out = {}, dict[str, str]()
    for name, listed in found.differences.items():
        all_known = [one for one in listed if not math.isnan(one.p)]
        known = _main(found, all_known, _MOST_DRAWN)
        if not known:
            continue
        label = "difference, in points"
        if len(known) < len(all_known):
            label += f": the {len(known)} of {len(all_known)} of the leading system"
        values, low, high = (
            np.array([getattr(one, end) for one in known])
            for end in ("difference", "ci_low", "ci_high")
        )
        names = []
        for one in known:
            systems = [found.systems[system] for system in (one.a, one.b)]
            names.append(" − ".join(letters[system] for system in systems))
            written_out[names[-1]] = "\n−\u00a0".join(map(one_line, systems))
        panels[name] = under_one_another(names, values, (low, high), label)
    if panels:
        systems = [f"{letter} is {_short(name)}" for name, letter in letters.items()]
        says = "Right of 0 the first is better. The lines are 95 % intervals over prompts."
        title = "Is A better than B?" if len(found.systems) == 2 else "Which system is better?"
        yield Chart(title, f"{says} {'; '.join(systems)}.", panels, written_out=written_out)


def _short(name: str) -> str:
    return shown(abridged(name, _NAME), _NAME)


def _by_attribute(
    rows: pa.Table, scales: Mapping[str, Scale]
) -> Iterator[tuple[Scale, str, dict[str, Any]]]:
    """Yield each attribute's scale, the words behind its name, and its columns."""
    names = [name for name in scales if pc.any(pc.equal(rows["attribute"], name)).as_py()]
    for name in names:
        mine = rows.filter(pc.equal(rows["attribute"], name)).drop_columns("attribute")
        about = f" · {name}" if len(names) > 1 else ""
        yield scales[name], about, {column: mine[column].to_numpy() for column in mine.column_names}


def pair_charts(
    rows: pa.Table, scales: Mapping[str, Scale], pair_ids: Sequence[str] | None
) -> Iterator[Chart]:
    """Yield how far two runs are apart on each pair; on each prompt without ``pair_ids``."""
    for scale, about, mine in _by_attribute(rows, scales):
        if pair_ids is not None:
            ids = [pair_ids[each] for each in mine["what"].tolist()]
            panel = against(mine["a"], mine["b"], ("score in A", "score in B"), scale, ids)
            says = f"{marks_of({'': panel})} On the dashed line both runs score them alike."
            yield chart(f"Do A and B score alike?{about}", says, panel)
            continue
        width = float(scale.high - scale.low)
        yield chart(
            f"How far are A and B apart?{about}",
            "On how many prompts A scores higher (right of 0) or lower than B, and by how much.",
            histogram(mine["difference"], "A − B", (-width, width), "prompts", bins=_BINS),
        )


def pair_tiles(a: RunData, rows: pa.Table, scales: Mapping[str, Scale]) -> Iterator[Tile]:
    """Yield how many pairs differ, and how alike two runs order them."""
    for scale, about, mine in _by_attribute(rows, scales):
        apart = f"of {len(mine['a']):,}: their 95 % intervals of A − B leave 0 out, each for itself"
        yield f"pairs that differ beyond noise{about}", f"{int(mine['differ'].sum()):,}", apart
        if not np.isnan(mine["difference"]).all():
            coefficients = agreement(mine["a"], mine["b"], a.prompts[mine["what"]], scale)
            rho = next(each for each in coefficients if each.coefficient == "spearman")
            yield coefficient_tile(f"Spearman ρ of A and B{about}", rho)
