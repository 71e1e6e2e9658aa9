"""Which of several judges agrees better with people: their coefficients on the same pairs, and the difference's interval.

Both judges' coefficients are reckoned in each resample of the prompts, so that what the pairs have in common falls out of the
difference; two intervals that overlap may well be of judges that differ.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np

from robin_cli.analysis.agreement import COEFFICIENTS, coefficients, estimated, levels_of, off_scale, refusal
from robin_cli.analysis.counting import distinct
from robin_cli.analysis.scores import judge_scores, score
from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.errors import InputError
from robin_cli.model.records import Scale, number_of
from robin_cli.storage.reader import RunData


@dataclass(frozen=True, slots=True)
class JudgesApart:
    """One coefficient of two judges with the human ratings of the same pairs; see :class:`agreement.Agreement`.

    Attributes:
        difference: value_a − value_b.
        ci_low, ci_high: its 95 % interval, bootstrap over prompts.
        why: nothing is told; '' where it is.
    """

    a: str
    b: str
    attribute: str
    coefficient: str
    n: int
    n_prompts: int
    value_a: float
    value_b: float
    difference: float
    ci_low: float
    ci_high: float
    why: str = ""


@dataclass(frozen=True)
class _Judge:
    """A judge's scores of the pairs of one run, by attribute."""

    name: str
    run: RunData
    scores: dict[str, FloatArray]


def across_judges(
    runs: Sequence[RunData], notify: Callable[[str], None], human: Sequence[dict[str, FloatArray]] | None = None
) -> list[JudgesApart]:
    """Every two judges of ``runs`` on the pairs that both judged: the runs', or those of one run's panel.

    Args:
        notify: is told what is left out.
        human: human ratings by attribute, shape (pairs,) each, for each run; None for those of the data.

    Raises:
        InputError: one judge, no pairs in common, different scales, or no human ratings.
    """
    ratings = [run.human for run in runs] if human is None else human
    if len({run.path.resolve() for run in runs}) < len(runs):
        raise InputError(f"{runs[-1].path}: is named twice; name another run to compare with")
    judges, attributes = _judges(runs), runs[0].manifest.attributes
    common = [name for name in attributes if all(name in run.manifest.attributes for run in runs)]
    if not common:
        raise InputError(f"{runs[0].path} and {runs[1].path} rate nothing in common; there is nothing to compare")
    if not any(name in each and not np.isnan(each[name]).all() for each in ratings for name in common):
        raise InputError(
            f"{runs[0].path}: no human ratings of {', '.join(common)}, so nothing says which judge agrees better with people; "
            "give some with --labels FILE, or judge data that has them"
        )
    rows = _rows_in_common(runs, notify) if len(runs) > 1 else [np.arange(len(runs[0].pair_ids))]
    places: dict[Path, IntArray] = {run.path: mine for run, mine in zip(runs, rows, strict=True)}
    found = []
    for name in common:
        scale = _scale(runs, name)
        people = np.full(len(rows[0]), np.nan)
        for run, each in zip(runs, ratings, strict=True):
            given = each.get(name, np.full(len(run.pair_ids), np.nan))[places[run.path]]
            people = np.where(np.isnan(people), given, people)
        prompt = runs[0].prompts[rows[0]]
        for a, b in combinations(judges, 2):
            sides = [each.scores[name][places[each.run.path]] for each in (a, b)]
            found += _apart(a.name, b.name, name, sides, people, prompt, scale)
    for why in dict.fromkeys(f"{each.attribute}: {each.why}" for each in found if each.why):
        notify(f"nothing is told of {why}")
    return found


def _apart(
    a: str, b: str, attribute: str, sides: Sequence[FloatArray], people: FloatArray, prompt: IntArray, scale: Scale
) -> list[JudgesApart]:
    both = ~(np.isnan(sides[0]) | np.isnan(sides[1]) | np.isnan(people))
    x, y, human, prompt = sides[0][both], sides[1][both], people[both], prompt[both]
    count, prompts = len(human), distinct(prompt)
    why = off_scale(people, scale) or refusal(prompt, {f"score of {a}": x, f"score of {b}": y, "human rating": human})
    if why:
        nothing = (np.nan,) * 5
        return [JudgesApart(a, b, attribute, name, count, prompts, *nothing, why) for name in COEFFICIENTS]

    def of_both(x: FloatArray, y: FloatArray, human: FloatArray) -> tuple[float, ...]:
        levels = levels_of(human)
        of_a, of_b = (np.array(coefficients(each, human, levels_of(each), levels)) for each in (x, y))
        return (*of_a, *of_b, *(of_a - of_b))

    size = len(COEFFICIENTS)
    told = estimated([*COEFFICIENTS] * 3, of_both, (x, y, human), prompt)
    return [
        JudgesApart(
            *(a, b, attribute, name, count, prompts),
            *(told[at].value, told[size + at].value, told[2 * size + at].value),
            *(told[2 * size + at].ci_low, told[2 * size + at].ci_high),
            why=told[2 * size + at].why,
        )
        for at, name in enumerate(COEFFICIENTS)
    ]


def _judges(runs: Sequence[RunData]) -> list[_Judge]:
    """The judges of one run's panel, or of each run what judged it."""
    if len(runs) == 1:
        run, table = runs[0], judge_scores(runs[0])
        if len(run.space.judges) < 2:
            raise InputError(f"{run.path}: one judge; name a second run over the same pairs, judged by another")
        named = np.array(table.columns["judge"])
        means, attribute = np.asarray(table.columns["score"], dtype=np.float64), np.array(table.columns["attribute"])
        return [
            _Judge(
                name,
                run,
                {each: means[(named == name) & (attribute == each)] for each in run.manifest.attributes},
            )
            for name in run.space.judges
        ]
    names = [" + ".join(run.manifest.judges) for run in runs]
    if len(set(names)) < len(names):  # the same judge, asked in another way
        names = [str(run.path) for run in runs]
    found = []
    for name, run in zip(names, runs, strict=True):
        table = score(run)
        means, attribute = np.asarray(table.columns["score"], dtype=np.float64), np.array(table.columns["attribute"])
        found.append(_Judge(name, run, {each: means[attribute == each] for each in run.manifest.attributes}))
    return found


def _rows_in_common(runs: Sequence[RunData], notify: Callable[[str], None]) -> list[IntArray]:
    """Where each run has the pairs that all have, with the same texts. InputError where there are none."""
    places = [{pair_id: row for row, pair_id in enumerate(run.pair_ids)} for run in runs]
    shared = [pair_id for pair_id in runs[0].pair_ids if all(pair_id in each for each in places)]
    rows = [np.array([each[pair_id] for pair_id in shared], dtype=np.int64) for each in places]
    first = runs[0].pairs.table
    alike = np.ones(len(shared), dtype=np.bool_)
    for run, mine in zip(runs[1:], rows[1:], strict=True):
        other = run.pairs.table
        for name in ("prompt", "response"):
            one, two = (
                np.array(table[name].take(at).to_pylist(), dtype=object)
                for table, at in ((first, rows[0]), (other, mine))
            )
            alike &= one == two
    if not alike.any():
        raise InputError(
            f"{runs[0].path} and {runs[1].path} have no pair in common, by id and text; judges are compared on the same pairs"
        )
    if (~alike).any():
        notify(f"{number_of(int((~alike).sum()), 'pair')} of one id with other texts left out")
    if alone := [number_of(len(run.pair_ids) - len(shared), "pair") for run in runs if len(run.pair_ids) > len(shared)]:
        notify(f"{', '.join(alone)} that not all runs have left out")
    return [mine[alike] for mine in rows]


def _scale(runs: Sequence[RunData], attribute: str) -> Scale:
    scales = {dict(zip(run.manifest.attributes, run.manifest.scales, strict=True))[attribute] for run in runs}
    if len(scales) > 1:
        raise InputError(
            f"{attribute}: is rated on different scales ({', '.join(sorted(map(str, scales)))}); judges are compared on one"
        )
    return scales.pop()
