"""The question how good one response is, by a rubric."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from robin_cli.model.records import Pair
from robin_cli.parsing.ratings import RATING
from robin_cli.questions.base import Kind
from robin_cli.questions.rubric_files import Rubric


def _filled(
    pair: Pair, rubric: Rubric, variant: int, criterion: Rubric | None
) -> Mapping[str, Any]:
    del variant, criterion
    return {
        "response": pair.response,
        "rubric": rubric.text,
        "title": rubric.title,
        "attribute": rubric.attribute,
        "low": rubric.scale.low,
        "high": rubric.scale.high,
    }


RATE = Kind(
    name="rate",
    form=RATING,
    variants=("",),
    turned=(False,),
    score_scale=None,
    in_words=None,
    template="absolute-judge",
    values=("instruction", "response", "rubric", "title", "attribute", "low", "high", "reference"),
    needed=(),
    filled=_filled,
)
