"""What the report shows of systems on the same prompts, and of two runs: figures and charts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from robin_cli.goals.differences import (
    letters_of,
    of_leader,
    table_of,
)
from robin_cli.goals.people import range_of
from robin_cli.goals.result import Result
from robin_cli.model.errors import InputError, abridged, shown
from robin_cli.model.records import SYSTEM_COLUMN, Scale, number_of
from robin_cli.run.reader import RunReader
from robin_cli.show.charts import (
    SIZE,
    Chart,
    against,
    chart,
    histogram,
    marks_of,
    under_one_another,
)
from robin_cli.show.tables import Table
from robin_cli.show.text import one_line
from robin_cli.stats.agreement import agreement
from robin_cli.stats.paired import Difference
from robin_cli.stats.run_compare import Compared, compared

_MOST_DRAWN = 30  # differences of one attribute
_NAME = 60
_BINS = 48


def systems_in(result: Result) -> tuple[Compared | None, list[str]]:
    """Return a run's systems, if several answered the same prompts, and notes on omissions."""
    run, left_out = result.run, list[str]()
    if SYSTEM_COLUMN not in run.column_names:
        return None, []
    try:
        return compared([run], left_out.append, as_they_are=True), left_out
    except InputError as error:
        return None, [f"{error}."] if result.goal.systems else []


def systems_table(comparison: Compared) -> Table:
    """Return the differences of systems, with what their letters stand for."""
    table = table_of(comparison)
    return replace(table, notes=[_legend(comparison), *table.notes])


def _legend(comparison: Compared) -> str:
    letters = letters_of(comparison.systems).items()
    return "; ".join(
        f"{letter} is {shown(abridged(name, _NAME), _NAME)}" for name, letter in letters
    )


def _main(comparison: Compared, listed: Sequence[Difference]) -> Sequence[Difference]:
    """Return all differences; of many the leading system's, the nearest first."""
    return listed if len(listed) <= _MOST_DRAWN else of_leader(comparison, listed)[1][:_MOST_DRAWN]


def differences_chart(comparison: Compared) -> Iterator[Chart]:
    """Yield the differences of systems with their intervals."""
    letters = letters_of(comparison.systems)
    panels, written_out = {}, dict[str, str]()
    for name, listed in comparison.differences.items():
        all_known = [one for one in listed if not math.isnan(one.p)]
        known = _main(comparison, all_known)
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
            systems = [comparison.systems[system] for system in (one.a, one.b)]
            names.append(" − ".join(letters[system] for system in systems))
            written_out[names[-1]] = "\n−\u00a0".join(map(one_line, systems))
        panels[name] = under_one_another(names, values, (low, high), label)
    if panels:
        says = "Right of 0 the first is better. The lines are 95 % intervals over prompts."
        title = "Is A better than B?" if len(comparison.systems) == 2 else "Which system is better?"
        # one or two differences need little room
        height = 1.2 + 0.4 * sum(len(panel.y.names) for panel in panels.values())
        size = (SIZE[0], min(SIZE[1], height))
        legend = f"{says} {_legend(comparison)}."
        yield Chart(title, legend, panels, size=size, written_out=written_out)


def _by_attribute(
    rows: pa.Table, scales: Mapping[str, Scale]
) -> Iterator[tuple[Scale, str, dict[str, Any]]]:
    """Yield each attribute's scale, the words behind its name, and its columns."""
    names = [name for name in scales if pc.any(pc.equal(rows["attribute"], name)).as_py()]
    for name in names:
        part = rows.filter(pc.equal(rows["attribute"], name)).drop_columns("attribute")
        about = f" · {name}" if len(names) > 1 else ""
        yield scales[name], about, {column: part[column].to_numpy() for column in part.column_names}


def pair_charts(
    rows: pa.Table, scales: Mapping[str, Scale], pair_ids: Sequence[str] | None
) -> Iterator[Chart]:
    """Yield how far two runs are apart on each pair; on each prompt without ``pair_ids``."""
    for scale, about, columns in _by_attribute(rows, scales):
        if pair_ids is not None:
            ids = [pair_ids[each] for each in columns["what"].tolist()]
            panel = against(columns["a"], columns["b"], ("score in A", "score in B"), scale, ids)
            says = f"{marks_of({'': panel})} On the dashed line both runs score them alike."
            yield chart(f"Do A and B score alike?{about}", says, panel)
            continue
        width = float(scale.high - scale.low)
        yield chart(
            f"How far are A and B apart?{about}",
            "On how many prompts A scores higher (right of 0) or lower than B, and by how much.",
            histogram(columns["difference"], "A − B", (-width, width), "prompts", bins=_BINS),
        )


def pair_lines(a: RunReader, rows: pa.Table, scales: Mapping[str, Scale]) -> dict[str, str]:
    """Return how many pairs differ, and how alike two runs order them, by name."""
    lines = {}
    for scale, about, columns in _by_attribute(rows, scales):
        lines[f"pairs that differ beyond noise{about}"] = (
            f"{int(columns['differ'].sum()):,} of {len(columns['a']):,}: their 95 % intervals of A − B "
            "leave 0 out, each for itself"
        )
        if not np.isnan(columns["difference"]).all():
            coefficients = agreement(columns["a"], columns["b"], a.prompts[columns["what"]], scale)
            rho = next(each for each in coefficients if each.coefficient == "spearman")
            value = "–" if math.isnan(rho.value) else f"{rho.value:z.2f}"
            over = f"bootstrap over {number_of(rho.n_prompts, 'prompt')}"
            interval = f"95 % interval {range_of(rho.ci_low, rho.ci_high)}, {over}"
            lines[f"Spearman ρ of A and B{about}"] = f"{value}; {rho.why or interval}"
    return lines
