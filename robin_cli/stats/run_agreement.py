"""Agreement, reliability and calibration of a run: of each attribute, of a panel and of each of its judges."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from robin_cli.data.given_labels import GivenLabels
from robin_cli.model.arms import FloatArray, IntArray, sample_variance
from robin_cli.model.errors import InputError
from robin_cli.model.records import Scale
from robin_cli.run.reader import RunReader
from robin_cli.stats.agreement import (
    Agreement,
    Level,
    agreement,
    among,
    calibration,
    off_scale,
    refusal,
    reliability,
)
from robin_cli.stats.run_labels import people_of
from robin_cli.stats.scores import Scores, score


@dataclass(frozen=True, slots=True)
class Calibration:
    """The levels of one attribute; empty if there is a reason ``why``."""

    levels: Sequence[Level]
    why: str = ""


@dataclass(frozen=True)
class Subject:
    """The rows of one attribute, or of one attribute and judge: those of ``table`` that are ``rows``; shape (rows,) each.

    Attributes:
        pair: the place of each row's pair.
        scores, human: of the judge and of people; nan for none.
        scale: of the scores; ``unit``: its points for each of the ratings'.
        of_two: whether the scores are preferences.
    """

    run: RunReader
    table: Scores
    rows: NDArray[np.bool_]
    pair: IntArray
    scores: FloatArray
    human: FloatArray
    scale: Scale
    unit: float
    of_two: bool

    def column(self, name: str) -> FloatArray:
        return self.table.numbers(name)[self.rows]

    @property
    def pair_ids(self) -> list[str]:
        return [self.run.pair_ids[pair] for pair in self.pair.tolist()]

    @property
    def prompt(self) -> IntArray:
        return self.run.prompts[self.pair]


def all_scores(run: RunReader, scores: Scores) -> list[Scores]:
    """Return the ``scores`` of ``run``, and for a panel also those of each judge."""
    return [scores] if len(run.space.judges) == 1 else [scores, score(run, by_judge=True)]


def agreements(
    run: RunReader, *tables: Scores, labels: GivenLabels | None = None, rounds: bool = False
) -> dict[str, list[Agreement]]:
    """Return the agreement of scores of ``run`` with the human ratings, by attribute (and judge); only for those with some.

    ``labels``: people's labels, in place of the human ratings of the data. ``rounds``: as for :func:`agreement`.
    """
    return {
        name: agreement(
            *(each.scores, each.human, each.prompt, each.scale), of_two=each.of_two, rounds=rounds
        )
        for name, each in subjects(run, tables, labels)
        if not np.isnan(each.human).all()
    }


def agreements_among(
    run: RunReader, *tables: Scores, given_labels: GivenLabels | None = None, rounds: bool = False
) -> dict[str, list[Agreement]]:
    """Return the agreement of several people, and of the judges of a panel, by attribute; arguments as :func:`agreements`."""
    by_judge, raters = tables[-1], dict[str, FloatArray]()
    for place, name in enumerate(run.manifest.attributes):
        labels = {} if given_labels is None else given_labels.by_labeller.get(name, {})
        people = sorted({labeller for of_pair in labels.values() for labeller in of_pair})
        of_people = np.full((len(run.pair_ids), len(people)), np.nan)
        for row, pair_id in enumerate(run.pair_ids) if len(people) > 1 else ():
            for labeller, label in labels.get(pair_id, {}).items():
                of_people[row, people.index(labeller)] = label.value
        raters[f"{name} · people"] = of_people
        mine = run.space.attribute[by_judge.arm] == place
        raters[f"{name} · judges"] = run.space.by_pair(by_judge.numbers("score")[mine])
    of_two = run.manifest.kind.score_scale is not None
    return {
        name: among(values, run.prompts, of_two=of_two, rounds=rounds)
        for name, values in raters.items()
        if values.shape[1] > 1
    }


def reliabilities(run: RunReader, *tables: Scores) -> dict[str, list[Agreement]]:
    """Return the agreement of scores of ``run`` with themselves, by attribute (and judge)."""
    arms, found = run.fold.arms, {}
    variance = sample_variance(*arms.sums)
    for name, each in subjects(run, tables):
        of_raters = each.table.arms[each.rows]  # shape (rows, raters)
        n, variances = arms.n[of_raters], each.unit**2 * variance[of_raters]
        found[name] = reliability(each.scores, n, variances, each.prompt)
    return found


def calibrations(
    run: RunReader, *tables: Scores, labels: GivenLabels | None = None
) -> dict[str, Calibration]:
    """Return the human ratings by level of the score, by attribute (and judge), as for :func:`agreements`."""
    found = {}
    for name, each in subjects(run, tables, labels):
        if np.isnan(each.human).all():
            continue
        both = ~(np.isnan(each.scores) | np.isnan(each.human))
        sides = {"score": each.scores[both], "human rating": each.human[both]}
        if why := off_scale(each.human, each.scale) or refusal(each.prompt[both], sides):
            found[name] = Calibration((), why)
        else:
            known = each.scores, each.human, each.prompt, each.scale
            found[name] = Calibration(calibration(*known, of_two=each.of_two))
    return found


def subjects(
    run: RunReader, tables: Sequence[Scores], labels: GivenLabels | None = None
) -> Iterator[tuple[str, Subject]]:
    """Yield the name and the rows of each attribute (and judge) of ``tables``; ``labels``: people's labels."""
    space, scales = run.space, run.manifest.score_scales
    people = [people_of(run, name, labels) for name in space.attributes]
    units = [
        (mine.high - mine.low) / (stored.high - stored.low)
        for mine, stored in zip(scales, space.scales, strict=True)
    ]
    of_two = run.manifest.kind.score_scale is not None
    for table in tables:
        attribute, judge = space.attribute[table.arm], space.judge[table.arm]
        judges = [f" · {name}" for name in space.judges] if "judge" in table.columns else [""]
        for (place, name), (number, about) in product(
            enumerate(space.attributes), enumerate(judges)
        ):
            mine = (attribute == place) & ((judge == number) | (not about))
            pair = np.asarray(space.pair[table.arm[mine]])
            score, human = table.numbers("score")[mine], people[place][pair]
            scale, unit = scales[place], units[place]
            yield (
                f"{name}{about}",
                Subject(run, table, mine, pair, score, human, scale, unit, of_two),
            )


def check_comparable(
    whys: Mapping[str, str], run: RunReader, notify: Callable[[str], None]
) -> None:
    """Report the attributes without a calibration, with the reasons; InputError if there is none at all.

    ``whys``: by attribute (and judge) with human ratings, '' for those with a calibration.
    """
    named = ",".join(f"{attribute}=NAME" for attribute in run.manifest.attributes)
    if not whys:
        raise InputError(
            f"{run.name}: its data has no human ratings of {', '.join(run.manifest.attributes)}, so nothing to hold scores "
            f"against; give people's labels with --labels FILE, or judge data with a field of that name or with --columns "
            f"{shlex.quote(named)}"
        )
    if all("off the scale" in why for why in whys.values()):
        each = "; ".join(f"{name}: {why}" for name, why in whys.items())
        raise InputError(
            f"{run.name}: {each}. Judge with the field that holds them on that scale, --columns {shlex.quote(named)}, or with "
            "a rubric of theirs"
        )
    for name, why in whys.items():
        if why:
            notify(f"{name}: {why}")
