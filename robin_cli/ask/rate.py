"""The question how good one response is, by a rubric."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from robin_cli.ask.base import Kind
from robin_cli.ask.ratings import RATING
from robin_cli.ask.rubric_files import Rubric
from robin_cli.model.records import Pair


def _filled(
    pair: Pair, rubric: Rubric, variant: int, criterion: Rubric | None
) -> Mapping[str, Any]:
    del variant, criterion
    return {"response": pair.response, **values_of(rubric)}


def values_of(rubric: Rubric) -> Mapping[str, Any]:
    """Return the values of a template that are about the attribute."""
    return {
        "rubric": rubric.text,
        "title": rubric.title,
        "attribute": rubric.attribute,
        "low": rubric.scale.low,
        "high": rubric.scale.high,
    }


def _decision(rubric: Rubric, criterion: Rubric | None) -> Mapping[str, Any]:
    del criterion
    examples = "".join(f"\n\n{example.text}" for example in rubric.examples)
    levels = (
        {"label": str(rating), "description": text} for rating, text in rubric.level_texts.items()
    )
    return {
        "type": "score",
        "name": rubric.attribute,
        "instructions": f"Rate the response to the instruction. Criterion: {rubric.title}{examples}",
        "levels": list(levels),
    }


RATE = Kind(
    name="rate",
    form=RATING,
    variants=("",),
    turned=(False,),
    score_scale=None,
    in_words=None,
    template="absolute-judge",
    input="decisions",
    values=(
        *("instruction", "response", "rubric", "title", "attribute", "low", "high"),
        *("attributes", "reference"),
    ),
    needed=(),
    filled=_filled,
    decision=_decision,
)
