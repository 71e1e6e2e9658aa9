"""The decision of a run, and its text in --decide: whether pairs meet thresholds, or which response of each group is best."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, nan
from operator import ge, gt, le, lt
from typing import Any

from robin_cli.model.errors import InputError, did_you_mean, shown
from robin_cli.model.records import Scale

BEST = "best"
"""The text of the decision which response of a group is best."""

SYSTEM = "system"
"""The text of the decision which system is better."""

SCORE = "score"
"""The name that stands for the only attribute."""

MARGIN = 1 / 40
"""The default margin, as a share of the scale's width: differences below it do not matter."""

KEEP, DROP, REJECTED, UNDECIDED = "keep", "drop", "rejected", "undecided"

RELATIONS: dict[str, Callable[[Any, Any], Any]] = {">=": ge, "<=": le, ">": gt, "<": lt}

USUAL_TARGET = 0.01
"""The share of the decisions that may be likely wrong when a run ends, unless it has another aim."""

_RELATION = re.compile("|".join(RELATIONS) + "|==|=")
_LONGEST_SHOWN = 80


@dataclass(frozen=True, slots=True)
class Criterion:
    """A threshold for one attribute.

    Attributes:
        attribute: the attribute whose mean rating is compared.
        relation: one of RELATIONS; a pair is kept if its mean has it to the threshold.
        threshold: in points of the attribute's scale.
    """

    attribute: str
    relation: str
    threshold: float

    @property
    def above(self) -> bool:
        """Whether pairs above the threshold are kept, not those below."""
        return self.relation.startswith(">")

    def __str__(self) -> str:
        return f"{self.attribute}{self.relation}{self.threshold:g}"


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision about each pair, or about each group of pairs.

    Attributes:
        criteria: a pair is kept if it meets all; empty for the best response of each group.
        margins: ε of each attribute, in points of its scale: differences below it do not matter.
        error_rate: δ: on average at most this share of what is certified is wrong; None if nothing is certified.
    """

    criteria: tuple[Criterion, ...]
    margins: tuple[float, ...]
    error_rate: float | None

    def __str__(self) -> str:
        """Return the text of --decide."""
        return ",".join(map(str, self.criteria)) or BEST

    @property
    def is_best(self) -> bool:
        """Whether the run looks for the best response of each group."""
        return not self.criteria


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
    settings: Mapping[str, Any], attributes: Sequence[str], scales: Sequence[Scale]
) -> Decision | None:
    """Return the decision by the settings of a run; None if it decides about no pair. InputError as :func:`decision_of`."""
    text = settings["decide"]
    if text is None or is_of_systems(text):
        return None
    error_rate = settings["error_rate"] if settings["certify"] else None
    return decision_of(text, attributes, scales, margin=settings["margin"], error_rate=error_rate)


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
        text: ``best``, or thresholds such as ``score>=3`` or ``helpfulness>=3,verbosity<=2``; a pair must meet all.
        attributes, scales: those of the run; every attribute has to be part of the decision.
        margin: ε in points, for all attributes; None for MARGIN of each one's scale.

    Raises:
        InputError: syntax, with its place; an attribute that is not judged, is named twice or has no threshold; a threshold
            outside its scale; a margin as wide as the scale on one side of a threshold.
    """
    by_name = dict(zip(attributes, scales, strict=True))
    criteria = {} if text.strip() == BEST else _criteria_of(text, by_name)
    if criteria and (missing := [name for name in attributes if name not in criteria]):
        raise InputError(
            f'--decide "{shown(text, _LONGEST_SHOWN)}": sets no threshold for {", ".join(missing)}, so its calls would never '
            "end; give it a threshold, or leave it out of --attribute"
        )
    margins = []
    for name, scale in by_name.items():
        width = scale.high - scale.low
        points = MARGIN * width if margin is None else margin
        margins.append(points)
        if criterion := criteria.get(name):
            room = min(criterion.threshold - scale.low, scale.high - criterion.threshold)
            usual = " (the default, a fortieth of the scale)" if margin is None else ""
            if points >= room:
                raise InputError(
                    f"--margin {points:g}{usual}: reaches from the threshold of {criterion} to an end of its scale {scale}, so "
                    f"nothing would be left to decide; take a margin below {room:g}, or another threshold"
                )
        if points >= width:
            raise InputError(
                f"--margin {points:g}: is as wide as the scale {scale} of {name}; take a smaller one"
            )
    return Decision(tuple(criteria.values()), tuple(margins), error_rate)


def _criteria_of(text: str, scales: Mapping[str, Scale]) -> dict[str, Criterion]:
    """Return the thresholds in ``text`` by attribute. InputError as :func:`decision_of`."""
    flag, place = f'--decide "{shown(text, _LONGEST_SHOWN)}"', 1
    criteria: dict[str, Criterion] = {}
    for part in text.split(","):
        where = f"at character {place + len(part) - len(part.lstrip())}"
        place += len(part) + 1
        name, relation, number = _compared(part)
        if relation not in RELATIONS or not number:
            raise InputError(
                f'{flag}: "{shown(part.strip(), _LONGEST_SHOWN)}", {where}, is no requirement; write NAME>=NUMBER '
                f"(or >, <, <=), several with commas, in quotes, such as --decide 'score>=3', or --decide {BEST}"
            )
        attribute = attribute_named(name, list(scales), f"{flag}: {where}")
        if attribute in criteria:
            raise InputError(
                f"{flag}: {attribute} is named twice, the second time {where}; give each attribute one threshold"
            )
        threshold, scale = number_in(number, f"{flag}: {where}"), scales[attribute]
        if not scale.low < threshold < scale.high:
            raise InputError(
                f"{flag}: {where}: the threshold {threshold:g} is not inside the scale {scale} of {attribute}, so nothing "
                f"would be left to decide; to ask for the top rating, use {scale.high - 0.5:g}"
            )
        criteria[attribute] = Criterion(attribute, relation, threshold)
    return criteria


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
    if name in attributes:
        return name
    if name == SCORE:
        if len(attributes) == 1:
            return attributes[0]
        raise InputError(
            f"{where}: which score? This run judges {', '.join(attributes)}; name one, such as {attributes[0]}>=3"
        )
    near = did_you_mean(name, (*attributes, SCORE) if len(attributes) == 1 else attributes)
    raise InputError(
        f'{where}: "{shown(name)}" is not judged here; this run judges {", ".join(attributes)}{near}'
    )


def number_in(text: str, where: str) -> float:
    """Return the finite number in ``text``; the InputError begins with ``where``."""
    try:
        number = float(text) if text.isascii() and "_" not in text else nan
    except ValueError:
        number = nan
    if not isfinite(number):
        raise InputError(f'{where}: "{shown(text)}" is no number')
    return number
