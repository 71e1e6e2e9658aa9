"""What a run is to decide: which pairs meet thresholds, or which response of each group is best."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import ge, gt, le, lt
from typing import Any

from robin_cli.model.errors import InputError, did_you_mean, shown
from robin_cli.model.records import Scale

BEST = "best"
"""The decision which response of a group is best."""

SCORE = "score"
"""The name that stands for the attribute where there is one."""

MARGIN = 1 / 40
"""Of the scale's width: differences below it do not matter, if nothing else is said."""

KEEP, DROP, REJECTED, UNDECIDED = "keep", "drop", "rejected", "undecided"

RELATIONS: dict[str, Callable[[Any, Any], Any]] = {">=": ge, "<=": le, ">": gt, "<": lt}

_RELATION = re.compile("|".join(RELATIONS) + "|==|=")
_LONGEST_SHOWN = 80


@dataclass(frozen=True, slots=True)
class Criterion:
    """A threshold for one attribute.

    Attributes:
        attribute: whose mean rating is meant.
        relation: of RELATIONS; a mean that has it to the threshold is kept.
        threshold: in points of the attribute's scale.
    """

    attribute: str
    relation: str
    threshold: float

    @property
    def above(self) -> bool:
        """Whether a pair is kept that lies above the threshold; else one that lies below."""
        return self.relation.startswith(">")

    def __str__(self) -> str:
        return f"{self.attribute}{self.relation}{self.threshold:g}"


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to be decided of each pair, or of each group of them.

    Attributes:
        criteria: a pair is kept where all hold; none: which response of each group is best.
        margins: ε of each attribute, in points of its scale: differences below it do not matter.
        error_rate: δ: of what is certified, at most this share is wrong on average.
    """

    criteria: tuple[Criterion, ...]
    margins: tuple[float, ...]
    error_rate: float

    def __str__(self) -> str:
        """As --decide names it."""
        return ",".join(map(str, self.criteria)) or BEST

    @property
    def is_best(self) -> bool:
        """Whether the best of each group is looked for."""
        return not self.criteria


def decision_of(
    text: str, attributes: Sequence[str], scales: Sequence[Scale], *, margin: float | None, error_rate: float
) -> Decision:
    """The decision that --decide, --margin and --error-rate name.

    Args:
        text: ``best``, or thresholds, as for :func:`criteria_of`.
        attributes, scales: what is judged; every attribute has to be part of the decision.
        margin: ε in points, for all attributes; None for MARGIN of each one's scale.

    Raises:
        InputError: as :func:`criteria_of`; an attribute without a threshold; a margin as wide as what is on one side of a
            threshold.
    """
    criteria = () if text.strip() == BEST else criteria_of(text, attributes, scales)
    margins = tuple(MARGIN * (scale.high - scale.low) if margin is None else margin for scale in scales)
    if criteria and (open_ := [name for name in attributes if name not in {each.attribute for each in criteria}]):
        raise InputError(
            f'--decide "{shown(text, _LONGEST_SHOWN)}": says nothing of {", ".join(open_)}, which would be judged on and on; '
            "give it a threshold, or leave it out of --attribute"
        )
    usual = " (a fortieth of the scale, if it is not given)" if margin is None else ""
    for name, scale, points in zip(attributes, scales, margins, strict=True):
        for each in (each for each in criteria if each.attribute == name):
            room = min(each.threshold - scale.low, scale.high - each.threshold)
            if points >= room:
                raise InputError(
                    f"--margin {points:g}{usual}: reaches from the threshold of {each} to an end of its scale {scale}: nothing "
                    f"would be left to decide; take a margin below {room:g}, or another threshold"
                )
        if points >= scale.high - scale.low:
            raise InputError(f"--margin {points:g}: is as wide as the scale {scale} of {name}; take a smaller one")
    return Decision(criteria, margins, error_rate)


def criteria_of(text: str, attributes: Sequence[str], scales: Sequence[Scale]) -> tuple[Criterion, ...]:
    """The thresholds that ``text`` names, as ``score>=3`` or ``helpfulness>=3,verbosity<=2``; a pair is kept where all hold.

    Raises:
        InputError: what is not understood, and where; an attribute that is not judged, or is named twice; a threshold outside
            its scale.
    """
    said = f'--decide "{shown(text, _LONGEST_SHOWN)}"'
    found: list[Criterion] = []
    place = 1
    for part in text.split(","):
        where = f"at character {place + len(part) - len(part.lstrip())}"
        place += len(part) + 1
        name, relation, threshold_text = _compared(part)
        if relation not in RELATIONS or not threshold_text:
            raise InputError(
                f'{said}: "{shown(part.strip(), _LONGEST_SHOWN)}", {where}, is no requirement; write NAME>=NUMBER '
                f"(or >, <, <=), several with commas, in quotes, as in --decide 'score>=3', or --decide {BEST}"
            )
        attribute = attribute_named(name, attributes, f"{said}: {where}")
        if any(each.attribute == attribute for each in found):
            raise InputError(
                f"{said}: {attribute} is named twice, the second time {where}; give each attribute one threshold"
            )
        threshold = number_in(threshold_text, f"{said}: {where}")
        scale = scales[list(attributes).index(attribute)]
        if not scale.low < threshold < scale.high:
            raise InputError(
                f"{said}: {where}: the threshold {threshold:g} is not inside the scale {scale} of {attribute}: nothing would "
                f"be left to decide. For its ends, take a threshold short of them, as {scale.high - 0.5:g}"
            )
        found.append(Criterion(attribute, relation, threshold))
    return tuple(found)


def named_in(text: str) -> list[str]:
    """The attributes that thresholds name, as they stand there; of what is not understood nothing."""
    return [name for name, _, threshold in map(_compared, text.split(",")) if threshold]


def _compared(part: str) -> tuple[str, str, str]:
    """What is compared how with what; the last two are empty where nothing is."""
    relation = _RELATION.search(part)
    if relation is None:
        return part.strip(), "", ""
    return part[: relation.start()].strip(), relation[0], part[relation.end() :].strip()


def attribute_named(name: str, attributes: Sequence[str], where: str) -> str:
    """The attribute that a requirement names, ``score`` standing for the only one; InputError, beginning with ``where``."""
    if name == SCORE and SCORE not in attributes:
        if len(attributes) == 1:
            return attributes[0]
        raise InputError(
            f"{where}: which score? This run judges {', '.join(attributes)}; name them, as {attributes[0]}>=3"
        )
    if name not in attributes:
        near = did_you_mean(name, (*attributes, SCORE) if len(attributes) == 1 else attributes)
        raise InputError(f'{where}: "{shown(name)}" is not judged here, but {", ".join(attributes)}{near}')
    return name


def number_in(text: str, where: str) -> float:
    """The finite number that a requirement names; InputError, beginning with ``where``."""
    try:
        number = float(text) if text.isascii() and "_" not in text else float("nan")
    except ValueError:
        number = float("nan")
    if number - number != 0.0:  # nan, or no end
        raise InputError(f'{where}: "{shown(text)}" is no number')
    return number
