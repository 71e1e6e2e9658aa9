"""The question which of two responses is better, asked in both orders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from robin_cli.ask.base import Kind
from robin_cli.ask.rubric_files import Rubric
from robin_cli.ask.verdicts import VERDICT, points_of, verdicts_of
from robin_cli.model.records import ORDERS, PREFERENCE, Pair, Scale

_OF_TWO = ("response_a", "response_b")


def _filled(
    pair: Pair, rubric: Rubric, variant: int, criterion: Rubric | None
) -> Mapping[str, Any]:
    shown = (pair.response, pair.other or "")
    return {
        **dict(zip(_OF_TWO, shown[::-1] if PREFER.turned[variant] else shown, strict=True)),
        "criterion": criterion.text if criterion else "",
        "title": criterion.title if criterion else "",
        "ties": rubric.scale.levels == 3,
    }


def _decision(rubric: Rubric, criterion: Rubric | None) -> Mapping[str, Any]:
    by = f" Judge strictly by this rubric.\n\n{criterion.text}" if criterion else ""
    texts = rubric.level_texts
    return {
        "type": "choice",
        "name": rubric.attribute,
        "instructions": f"Which of the two responses to the instruction is better?{by}",
        "choices": [
            {"value": verdict, "description": texts[points_of(verdict, rubric.scale) or 0]}
            for verdict in verdicts_of(rubric.scale)
        ],
    }


def _in_words(points: float, scale: Scale) -> str:
    if points in {scale.low, scale.high}:
        return "A is better" if points == scale.high else "B is better"
    share = 100 * (points - scale.low) / (scale.high - scale.low)
    return "tie" if isinstance(points, int) else f"A is better: {share:.0f} %"


PREFER = Kind(
    name="prefer",
    form=VERDICT,
    variants=ORDERS,
    turned=(False, True),
    score_scale=Scale(0, 1),
    in_words=_in_words,
    template="pairwise-judge",
    input="pairwise-decisions",
    values=("instruction", *_OF_TWO, "criterion", "title", "ties", "reference"),
    needed=_OF_TWO,
    filled=_filled,
    decision=_decision,
)


def verdict_rubric(criterion: Rubric | None, *, ties: bool) -> Rubric:
    """Return the rubric of verdicts, whichever response the judge reads first: the better A is, the higher.

    Args:
        criterion: of the better response; None for no particular one.
    """
    verdicts = ("B is better", "a tie", "A is better") if ties else ("B is better", "A is better")
    levels = tuple((str(points), text) for points, text in enumerate(verdicts))
    attribute = PREFERENCE if criterion is None else criterion.attribute
    return Rubric(attribute, "Preference", Scale(0, len(verdicts) - 1), levels)
