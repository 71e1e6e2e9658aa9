"""Which settings go with which goal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from robin_cli.model.decision import BEST
from robin_cli.model.errors import InputError, shown, typed
from robin_cli.model.records import COMPARE, Scale, shared_scale
from robin_cli.settings.table import TABLE, Settings
from robin_cli.storage.reader import RunData

_OURS = ("reference", "no_ties")
_NOT_WITH = {
    "target_error": "stops at an error of ratings",
    "group": "is for ratings; comparisons are of the responses to one prompt",
    "variances": "says how ratings vary",
}


_MOST_MARGIN = 0.5

SORTS_OF_COMPARISONS = {
    "width": "widest likely interval first",
    "score": "highest preference for A first",
    "data": "in the order of the data",
}
"""In which orders people may see comparisons."""


def check_pairwise(settings: Settings) -> None:
    """InputError for what a pairwise run cannot have, or what only it can."""
    if not settings.pairwise:
        if named := next((name for name in _OURS if getattr(settings, name)), None):
            raise InputError(f"{TABLE[named].flag}: is for --pairwise; add that, or leave it out")
        return
    for name, why in _NOT_WITH.items():
        if getattr(settings, name) is not None:
            raise InputError(f"--pairwise: not with {TABLE[name].flag}, which {why}; leave one of the two out")
    check_verdicts(settings.decide, settings.objective, settings.margin)
    if settings.mode != TABLE["mode"].default:
        raise InputError(
            f"--pairwise: not with --mode {settings.mode}, whose guarantee is that of ratings; leave it out"
        )
    if len(settings.attributes) > 1 or len(settings.rubric) > 1:
        raise InputError(
            "--pairwise: one criterion decides which response is better; name one --attribute, or none, and make a run of each"
        )
    check_view(sort=settings.sort, wide=settings.wide)


def check_verdicts(decide: str | None, objective: str | None, margin: float | None) -> None:
    """InputError for what no comparisons have: a threshold, differences of ratings, a margin that is no probability."""
    if decide is not None and decide.strip() != BEST:
        raise InputError(
            f'--pairwise: not with --decide "{shown(decide, 80)}", a threshold for ratings; --decide {BEST} finds the '
            "best response to each prompt"
        )
    if objective == COMPARE:
        raise InputError(
            f"--pairwise: not with --objective {COMPARE}, which compares ratings; leave it out: systems are ranked as it is"
        )
    if margin is not None and margin >= _MOST_MARGIN:
        raise InputError(
            f"--margin {margin:g}: with --pairwise a probability by which a response may fall short of ½ and still be "
            f"the best; take one below {_MOST_MARGIN:g}"
        )


def check_together(settings: Settings) -> None:
    """InputError for settings that do not go together, or say how another is meant that is not given: they would do nothing."""
    check_pairwise(settings)
    if settings.tier_fallback and settings.service_tier is None:
        raise InputError(
            "--tier-fallback: says what to do where a --service-tier has no room, and none is given; give one"
        )
    if settings.rounds != TABLE["rounds"].default and not settings.in_rounds:
        raise InputError(
            "--rounds: says in how many --batch or --batch-files asks; give one of the two, or leave it out"
        )


def check_target(settings: Settings, scales: Sequence[Scale]) -> None:
    """InputError where the error to stop at is none that there can be on ``scales``, or there is none to be guaranteed."""
    if settings.target_error is not None:
        check_error("--target-error", settings.target_error, scales)
    elif settings.guaranteed:
        raise InputError("--guaranteed: says how --target-error is meant, and there is none; give one, or leave it out")


def check_error(flag: str, error: float, scales: Sequence[Scale]) -> None:
    """InputError, naming ``flag``, for an ``error`` that no score on these scales could be off by, or that all are within."""
    scale = shared_scale(scales)
    width = 1 if scale is None else scale.high - scale.low
    if not 0 < error < width:
        unit = (
            "a share of each attribute's scale, for there are several"
            if scale is None
            else f"in points of the scale {scale}"
        )
        raise InputError(f"{flag} {error:g}: is {unit}, so above 0 and below {width}")


def no_ratings(path: Path, what: str, *, in_python: bool = False) -> str:
    """Say that the pairwise run at ``path`` has no ratings, which ``what`` is of, and what it has."""
    instead = "Run.scores(), Run.ranking(), Run.preferences()"
    if not in_python:
        instead = f"robin export {typed(path)} (--what ranking, --what preferences), robin status {typed(path)}"
    return f"{path}: compares responses and rates none by itself, so that {what} has nothing to go by; what it says: {instead}"


def check_of_ratings(run: RunData, what: str) -> None:
    """InputError where ``run`` is pairwise: then it has no ratings, which ``what`` is of."""
    if run.manifest.is_pairwise:
        raise InputError(no_ratings(run.path, what))


def check_view(*, sort: str | None, wide: bool) -> None:
    """InputError for a table that comparisons do not make."""
    if wide:
        raise InputError(
            "--wide: is for several attributes, and comparisons have none; leave it out (each judge in rows of its own: "
            "robin export RUN --what judge-scores)"
        )
    if sort not in {None, *SORTS_OF_COMPARISONS}:
        raise InputError(
            f"--sort {sort}: comparisons have none; sort by {', '.join(SORTS_OF_COMPARISONS)} (score: preference for A)"
        )
