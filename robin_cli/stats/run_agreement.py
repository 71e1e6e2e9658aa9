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
    """The rows of one attribute, or of one attribute and judge: those of ``table`` that are ``mine``. Columns: shape (rows,).

    Attributes:
        people: people's rating of each pair, shape (pairs,); nan for none.
        scale: of the scores; ``unit``: its points for each of the ratings'.
        of_two: whether the scores are preferences.
    """

    run: RunReader
    table: Scores
    mine: NDArray[np.bool_]
    people: FloatArray
    scale: Scale
    unit: float
    of_two: bool

    def column(self, name: str) -> FloatArray:
        return self.table.numbers(name)[self.mine]

    @property
    def scores(self) -> FloatArray:
        """Shape (rows,), as are human ratings and prompts."""
        return self.column("score")

    @property
    def human(self) -> FloatArray:
        return self.people[self._pair]

    @property
    def pair_ids(self) -> list[str]:
        return [self.run.pair_ids[pair] for pair in self._pair.tolist()]

    @property
    def prompt(self) -> IntArray:
        return self.run.prompts[self._pair]

    @property
    def _pair(self) -> IntArray:
        return np.asarray(self.run.space.pair[self.table.arm[self.mine]])

    @property
    def noise(self) -> tuple[IntArray, FloatArray]:
        """Ratings of each rater in the scores, and their variances, shape (rows, raters) each."""
        arm, arms = self.table.arms[self.mine], self.run.fold.arms
        n = arms.n[arm]
        return n, self.unit**2 * sample_variance(n, arms.total[arm], arms.total_sq[arm])


def all_scores(run: RunReader, scores: Scores) -> list[Scores]:
    """Return the ``scores`` of ``run``, and for a panel also those of each judge."""
    return [scores] if len(run.space.judges) == 1 else [scores, score(run, by_judge=True)]


def agreements(
    run: RunReader, *tables: Scores, given: GivenLabels | None = None, rounds: bool = False
) -> dict[str, list[Agreement]]:
    """Return the agreement of scores of ``run`` with the human ratings, by attribute (and judge); only for those with some.

    ``given``: people's labels, in place of the human ratings of the data. ``rounds``: as for :func:`agreement`.
    """
    return {
        name: agreement(
            *(each.scores, each.human, each.prompt, each.scale), of_two=each.of_two, rounds=rounds
        )
        for name, each in subjects(run, tables, given)
        if not np.isnan(each.human).all()
    }


def agreements_among(
    run: RunReader, *tables: Scores, given: GivenLabels | None = None, rounds: bool = False
) -> dict[str, list[Agreement]]:
    """Return the agreement of several people, and of the judges of a panel, by attribute; arguments as :func:`agreements`."""
    by_judge, raters = tables[-1], dict[str, FloatArray]()
    for place, name in enumerate(run.manifest.attributes):
        labels = {} if given is None else given.by_labeller.get(name, {})
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
    return {
        name: reliability(each.scores, *each.noise, each.prompt)
        for name, each in subjects(run, tables)
    }


def calibrations(
    run: RunReader, *tables: Scores, given: GivenLabels | None = None
) -> dict[str, Calibration]:
    """Return the human ratings by level of the score, by attribute (and judge), as for :func:`agreements`."""
    return {
        name: _calibration(each)
        for name, each in subjects(run, tables, given)
        if not np.isnan(each.human).all()
    }


def _calibration(each: Subject) -> Calibration:
    both = ~(np.isnan(each.scores) | np.isnan(each.human))
    sides = {"score": each.scores[both], "human rating": each.human[both]}
    if why := off_scale(each.human, each.scale) or refusal(each.prompt[both], sides):
        return Calibration((), why)
    return Calibration(
        calibration(each.scores, each.human, each.prompt, each.scale, of_two=each.of_two)
    )


def subjects(
    run: RunReader, tables: Sequence[Scores], given: GivenLabels | None = None
) -> Iterator[tuple[str, Subject]]:
    """Yield the name and the rows of each attribute (and judge) of ``tables``; ``given``: people's labels."""
    space, scales = run.space, run.manifest.score_scales
    people = [people_of(run, name, given) for name in space.attributes]
    units = [
        (mine.high - mine.low) / (stored.high - stored.low)
        for mine, stored in zip(scales, space.scales, strict=True)
    ]
    of_two = run.manifest.kind.score_scale is not None
    for scores in tables:
        attribute, judge = space.attribute[scores.arm], space.judge[scores.arm]
        judges = [f" · {name}" for name in space.judges] if "judge" in scores.columns else [""]
        for (place, name), (number, about) in product(
            enumerate(space.attributes), enumerate(judges)
        ):
            mine = (attribute == place) & ((judge == number) | (not about))
            yield (
                f"{name}{about}",
                Subject(run, scores, mine, people[place], scales[place], units[place], of_two),
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
