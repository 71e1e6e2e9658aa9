"""The two kinds of question: how good one response is, and which of two is better."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from robin_cli.ask.forms import Form
from robin_cli.ask.ratings import RATING
from robin_cli.ask.rubrics import Rubric
from robin_cli.ask.verdicts import VERDICT
from robin_cli.model.records import ORDERS, PREFERENCE, Pair, Scale


@dataclass(frozen=True, kw_only=True, eq=False)
class Kind:
    """A kind of question.

    Attributes:
        name: ``rate`` or ``prefer``.
        form: how an answer is requested and read.
        variants: names of the ways in which the same is asked; "" if there is one only.
        turned: for each variant, whether an answer rates the other of two responses, so that its value is turned round.
        score_scale: the scale of reported scores; None for that of the answers.
        in_words: returns points of a scale in words; None if the points are plain enough.
        template: the shipped template; ``input``: the one of what decision models read.
        responses: a template's names for the responses, each with the field of :class:`Pair` that holds it.
        values: all names that a template may use.
        fill: returns the values for a pair, a rubric, the number of a variant, and the criterion.
        decision: returns the question for decision models, by a rubric and the criterion.
    """

    name: str
    form: Form
    variants: tuple[str, ...] = ("",)
    turned: tuple[bool, ...] = (False,)
    score_scale: Scale | None = None
    in_words: Callable[[float, Scale], str] | None = None
    template: str
    input: str
    responses: Mapping[str, str]
    values: tuple[str, ...]
    fill: Callable[[Pair, Rubric, int, Rubric | None], Mapping[str, Any]]
    decision: Callable[[Rubric, Rubric | None], Mapping[str, Any]]


def rubric_values(rubric: Rubric) -> Mapping[str, Any]:
    """Return the values of a template that are about the attribute."""
    return {
        "rubric": rubric.text,
        "title": rubric.title,
        "attribute": rubric.attribute,
        "low": rubric.scale.low,
        "high": rubric.scale.high,
    }


def _ask_for_score(rubric: Rubric, _: Rubric | None) -> Mapping[str, Any]:
    examples = "".join(f"\n\n{example.text}" for example in rubric.examples)
    return {
        "type": "score",
        "name": rubric.attribute,
        "instructions": f"Rate the response to the instruction. Criterion: {rubric.title}{examples}",
        "levels": [
            {"label": str(rating), "description": text}
            for rating, text in rubric.level_texts.items()
        ],
    }


RATE = Kind(
    name="rate",
    form=RATING,
    template="absolute-judge",
    input="decisions",
    responses={"response": "response"},
    values=(
        *("instruction", "response", "rubric", "title", "attribute", "low", "high"),
        *("attributes", "reference"),
    ),
    fill=lambda pair, rubric, *_: {"response": pair.response, **rubric_values(rubric)},
    decision=_ask_for_score,
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


def _show_two(
    pair: Pair, rubric: Rubric, variant: int, criterion: Rubric | None
) -> Mapping[str, Any]:
    first, second = pair.response, pair.other or ""
    if PREFER.turned[variant]:
        first, second = second, first
    return {
        "response_a": first,
        "response_b": second,
        "criterion": criterion.text if criterion else "",
        "title": criterion.title if criterion else "",
        "ties": rubric.scale.levels == 3,
    }


def _ask_for_choice(rubric: Rubric, criterion: Rubric | None) -> Mapping[str, Any]:
    by = f" Judge strictly by this rubric.\n\n{criterion.text}" if criterion else ""
    texts = rubric.level_texts
    return {
        "type": "choice",
        "name": rubric.attribute,
        "instructions": f"Which of the two responses to the instruction is better?{by}",
        "choices": [
            {"value": verdict, "description": texts[points]}
            for verdict, points in VERDICT.choices(rubric.scale).items()
        ],
    }


def _say_who_is_better(points: float, scale: Scale) -> str:
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
    in_words=_say_who_is_better,
    template="pairwise-judge",
    input="pairwise-decisions",
    responses={"response_a": "response", "response_b": "other"},
    values=(
        *("instruction", "response_a", "response_b", "criterion", "title", "ties", "reference"),
    ),
    fill=_show_two,
    decision=_ask_for_choice,
)


def kind_of(*, pairwise: bool) -> Kind:
    """Return the kind of question that a run asks."""
    return PREFER if pairwise else RATE
