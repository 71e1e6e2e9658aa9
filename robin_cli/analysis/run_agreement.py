"""What agreement, reliability and calibration of a run are: of each attribute, of a panel and of each of its judges."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from robin_cli.analysis.agreement import Agreement, agreement, off_scale, refusal
from robin_cli.analysis.calibration import Level, calibration
from robin_cli.analysis.reliability import reliability
from robin_cli.analysis.scores import Scores, judge_scores, score
from robin_cli.model.arms import FloatArray, IntArray, sample_variance
from robin_cli.model.errors import InputError
from robin_cli.model.records import Scale
from robin_cli.storage.reader import RunData


@dataclass(frozen=True, slots=True)
class Calibration:
    """The levels of one attribute; none where nothing is told, and ``why``."""

    levels: Sequence[Level]
    why: str = ""


@dataclass(frozen=True, slots=True)
class _Subject:
    """The rows of one attribute, or of one attribute and judge: shape (rows,) each.

    ``n`` and ``variances`` are of each judge that the scores are of: shape (rows, judges).
    """

    scores: FloatArray
    n: IntArray
    variances: FloatArray
    human: FloatArray
    prompt: IntArray
    scale: Scale


def all_scores(run: RunData) -> list[Scores]:
    """The scores of ``run``; of a panel also those of each judge."""
    return [score(run)] if len(run.space.judges) == 1 else [score(run), judge_scores(run)]


def agreements(run: RunData, *tables: Scores) -> dict[str, list[Agreement]]:
    """How scores of ``run`` agree with the human ratings, by attribute (and judge); only where there are human ratings."""
    return {
        name: agreement(each.scores, each.human, each.prompt, each.scale)
        for name, each in _subjects(run, tables)
        if not np.isnan(each.human).all()
    }


def reliabilities(run: RunData, *tables: Scores) -> dict[str, list[Agreement]]:
    """How scores of ``run`` agree with themselves, by attribute (and judge)."""
    return {
        name: reliability(each.scores, each.n, each.variances, each.prompt) for name, each in _subjects(run, tables)
    }


def calibrations(run: RunData, *tables: Scores) -> dict[str, Calibration]:
    """The human ratings by level of the score, by attribute (and judge); told where :func:`agreements` are."""
    return {name: _calibration(each) for name, each in _subjects(run, tables) if not np.isnan(each.human).all()}


def _calibration(each: _Subject) -> Calibration:
    both = ~(np.isnan(each.scores) | np.isnan(each.human))
    sides = {"score": each.scores[both], "human rating": each.human[both]}
    if why := off_scale(each.human, each.scale) or refusal(each.prompt[both], sides):
        return Calibration((), why)
    return Calibration(calibration(each.scores, each.human, each.prompt, each.scale))


def _subjects(run: RunData, tables: Sequence[Scores]) -> Iterator[tuple[str, _Subject]]:
    scale_of = dict(zip(run.manifest.attributes, run.manifest.scales, strict=True))
    arms = run.fold.arms
    every_variance = sample_variance(arms.counts, arms.totals, arms.totals_sq)
    for scores in tables:
        named = [np.array(scores.columns[name]) for name in ("attribute", "judge") if name in scores.columns]
        means, human = (np.asarray(scores.columns[name], dtype=np.float64) for name in ("score", "human"))
        judges = len(run.space.judges) if "judges" in scores.columns else 1
        arm = scores.arm[:, None] + np.arange(judges)  # a panel's are one after another
        prompt = run.prompts[run.space.pair[scores.arm]]
        for key in dict.fromkeys(zip(*(each.tolist() for each in named), strict=True)):
            mine = np.all([each == name for each, name in zip(named, key, strict=True)], axis=0)
            counts, variances = arms.counts[arm[mine]], every_variance[arm[mine]]
            yield (
                " · ".join(key),
                _Subject(means[mine], counts, variances, human[mine], prompt[mine], scale_of[key[0]]),
            )


def check_comparable(whys: Mapping[str, str], run: RunData, notify: Callable[[str], None]) -> None:
    """Say of what nothing is told, and why.

    Args:
        whys: by attribute (and judge) with human ratings, '' for what is told.

    Raises:
        InputError: there is none of anything, for want of human ratings or because all are off the scale.
    """
    named = ",".join(f"{attribute}=NAME" for attribute in run.manifest.attributes)
    if not whys:
        raise InputError(
            f"{run.path}: its data has no human ratings of {', '.join(run.manifest.attributes)}, so there is no agreement to "
            f"tell; judge data that has them, in a field of that name or with --columns {shlex.quote(named)}. How far the "
            "judge agrees with itself is in robin status"
        )
    if all("off the scale" in why for why in whys.values()):
        each = "; ".join(f"{name}: {why}" for name, why in whys.items())
        raise InputError(
            f"{run.path}: {each}. Judge with the field that holds them on that scale, --columns {shlex.quote(named)}, or with "
            "a rubric of theirs"
        )
    for name, why in whys.items():
        if why:
            notify(f"{name}: no agreement is told: {why}")


def whys_of(found: Mapping[str, Sequence[Agreement]]) -> dict[str, str]:
    """Why there is no agreement, by attribute (and judge); '' where there is."""
    return {name: listed[0].why if np.isnan(listed[0].value) else "" for name, listed in found.items()}
