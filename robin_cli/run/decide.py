"""The decision that the text of --decide asks for."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from robin_cli.model.decision import (
    BEST,
    MARGIN,
    RELATIONS,
    SCORE,
    SYSTEM,
    Criterion,
    Decision,
)
from robin_cli.model.errors import InputError, did_you_mean, shown
from robin_cli.model.records import Scale

_RELATION = re.compile("|".join(RELATIONS) + "|==|=")
_LONGEST_SHOWN = 80

USUAL_TARGET = 0.01
"""The share of the decisions that may be likely wrong when a run ends, unless it has another aim."""


def target_wrong_of(settings: Mapping[str, Any]) -> float:
    """Return the share of likely wrong decisions at which a run with these settings ends; 0: never."""
    if settings.get("target_wrong") is not None:
        return float(settings["target_wrong"])
    has_other_aim = settings["certify"] or settings.get("agree") is not None
    return 0.0 if has_other_aim or is_of_systems(settings["decide"]) else USUAL_TARGET


def is_of_systems(decide: str | None) -> bool:
    """Return whether ``decide`` asks which system is better; no pair is decided then."""
    return decide is not None and decide.strip() == SYSTEM


def decision_by(
    own: Mapping[str, Any], attributes: Sequence[str], scales: Sequence[Scale]
) -> Decision | None:
    """Return the decision by the settings of a run; None if it decides about no pair. InputError as :func:`decision_of`."""
    if own["decide"] is None or is_of_systems(own["decide"]):
        return None
    error_rate = own["error_rate"] if own["certify"] else None
    return decision_of(
        own["decide"], attributes, scales, margin=own["margin"], error_rate=error_rate
    )


def decision_of(
    text: str,
    attributes: Sequence[str],
    scales: Sequence[Scale],
    *,
    margin: float | None,
    error_rate: float | None,
) -> Decision:
    """Return the decision of --decide, --margin and --error-rate.

    Args:
        text: ``best``, or thresholds, as for :func:`criteria_of`.
        attributes, scales: those of the run; every attribute has to be part of the decision.
        margin: ε in points, for all attributes; None for MARGIN of each one's scale.

    Raises:
        InputError: as :func:`criteria_of`; an attribute without a threshold; a margin as wide as the scale on one side of a
            threshold.
    """
    criteria = () if text.strip() == BEST else criteria_of(text, attributes, scales)
    margins = tuple(
        MARGIN * (scale.high - scale.low) if margin is None else margin for scale in scales
    )
    if criteria and (
        open_ := [name for name in attributes if name not in {each.attribute for each in criteria}]
    ):
        raise InputError(
            f'--decide "{shown(text, _LONGEST_SHOWN)}": sets no threshold for {", ".join(open_)}, so its calls would never '
            "end; give it a threshold, or leave it out of --attribute"
        )
    usual = " (the default, a fortieth of the scale)" if margin is None else ""
    for name, scale, points in zip(attributes, scales, margins, strict=True):
        for each in (each for each in criteria if each.attribute == name):
            room = min(each.threshold - scale.low, scale.high - each.threshold)
            if points >= room:
                raise InputError(
                    f"--margin {points:g}{usual}: reaches from the threshold of {each} to an end of its scale {scale}, so "
                    f"nothing would be left to decide; take a margin below {room:g}, or another threshold"
                )
        if points >= scale.high - scale.low:
            raise InputError(
                f"--margin {points:g}: is as wide as the scale {scale} of {name}; take a smaller one"
            )
    return Decision(criteria, margins, error_rate)


def criteria_of(
    text: str, attributes: Sequence[str], scales: Sequence[Scale]
) -> tuple[Criterion, ...]:
    """Return the thresholds in ``text``, such as ``score>=3`` or ``helpfulness>=3,verbosity<=2``; a pair must meet all.

    Raises:
        InputError: syntax, with its place; an attribute that is not judged, or is named twice; a threshold outside its scale.
    """
    flag = f'--decide "{shown(text, _LONGEST_SHOWN)}"'
    found: list[Criterion] = []
    place = 1
    for part in text.split(","):
        where = f"at character {place + len(part) - len(part.lstrip())}"
        place += len(part) + 1
        name, relation, threshold_text = _compared(part)
        if relation not in RELATIONS or not threshold_text:
            raise InputError(
                f'{flag}: "{shown(part.strip(), _LONGEST_SHOWN)}", {where}, is no requirement; write NAME>=NUMBER '
                f"(or >, <, <=), several with commas, in quotes, such as --decide 'score>=3', or --decide {BEST}"
            )
        attribute = attribute_named(name, attributes, f"{flag}: {where}")
        if any(each.attribute == attribute for each in found):
            raise InputError(
                f"{flag}: {attribute} is named twice, the second time {where}; give each attribute one threshold"
            )
        threshold = number_in(threshold_text, f"{flag}: {where}")
        scale = scales[list(attributes).index(attribute)]
        if not scale.low < threshold < scale.high:
            raise InputError(
                f"{flag}: {where}: the threshold {threshold:g} is not inside the scale {scale} of {attribute}, so nothing "
                f"would be left to decide; to ask for the top rating, use {scale.high - 0.5:g}"
            )
        found.append(Criterion(attribute, relation, threshold))
    return tuple(found)


def named_in(text: str) -> list[str]:
    """Return the attribute names in the thresholds of ``text``, skipping parts without a threshold."""
    return [name for name, _, threshold in map(_compared, text.split(",")) if threshold]


def _compared(part: str) -> tuple[str, str, str]:
    """Split a threshold into name, relation and number; the last two are empty without a relation."""
    relation = _RELATION.search(part)
    if relation is None:
        return part.strip(), "", ""
    return part[: relation.start()].strip(), relation[0], part[relation.end() :].strip()


def attribute_named(name: str, attributes: Sequence[str], where: str) -> str:
    """Return the attribute called ``name``, ``score`` being the only one; the InputError begins with ``where``."""
    if name == SCORE and SCORE not in attributes:
        if len(attributes) == 1:
            return attributes[0]
        raise InputError(
            f"{where}: which score? This run judges {', '.join(attributes)}; name one, such as {attributes[0]}>=3"
        )
    if name not in attributes:
        near = did_you_mean(name, (*attributes, SCORE) if len(attributes) == 1 else attributes)
        raise InputError(
            f'{where}: "{shown(name)}" is not judged here; this run judges {", ".join(attributes)}{near}'
        )
    return name


def number_in(text: str, where: str) -> float:
    """Return the finite number in ``text``; the InputError begins with ``where``."""
    try:
        number = float(text) if text.isascii() and "_" not in text else float("nan")
    except ValueError:
        number = float("nan")
    if number - number != 0.0:  # nan, or infinite
        raise InputError(f'{where}: "{shown(text)}" is no number')
    return number
