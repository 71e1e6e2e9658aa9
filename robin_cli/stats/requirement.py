"""Requirements of a build on a run: on a mean, a share of pairs, all pairs, or a difference of two systems."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import isinf
from typing import Literal

from robin_cli.model.decision import MARGIN, RELATIONS, SCORE, Criterion, attribute_named, number_in
from robin_cli.model.errors import InputError, did_you_mean, shown
from robin_cli.model.records import Ends, Scale

Kind = Literal["mean", "share", "all", "compare"]

KINDS: dict[str, Kind] = {"mean": "mean", "share": "share", "all": "all", "compare": "compare"}

FORMS = "mean(NAME)>=NUMBER, share(NAME>=NUMBER)>=SHARE, all(NAME>=NUMBER) or compare(A,B)>=NUMBER"

_HEAD = re.compile(r"\s*(?P<kind>\w*)\s*(?P<bracket>\(?)")
_RELATION = r"(?P<relation>>=|<=|==|!=|=|>|<)\s*(?P<number>\S+)\s*\Z"
_INNER = re.compile(r"\s*(?P<name>.*?)\s*" + _RELATION, re.DOTALL)
_OUTER = re.compile(r"\s*" + _RELATION)


@dataclass(frozen=True, slots=True)
class Requirement:
    """One requirement.

    Attributes:
        criterion: the threshold for a mean, or a difference of means; for a share and for all, that of each pair's mean rating.
        margin: ε of all, in points: a pair within it of the threshold counts either way.
        relation, share: the threshold of a share.
        systems: the two systems of a difference, the first minus the second; else empty.
    """

    kind: Kind
    criterion: Criterion
    margin: float = 0.0
    relation: str = ">="
    share: float = 1.0
    systems: tuple[str, ...] = ()

    @property
    def attribute(self) -> str:
        """The attribute whose scores are required."""
        return self.criterion.attribute

    def __str__(self) -> str:
        each = self.criterion
        if self.kind == "mean":
            return f"mean({each.attribute}){each.relation}{each.threshold:g}"
        if self.kind == "compare":
            names = ",".join(map(_quoted, (*self.systems, each.attribute)))
            return f"compare({names}){each.relation}{each.threshold:g}"
        return f"{self.kind}({each})" + (
            f"{self.relation}{self.share:g}" if self.kind == "share" else ""
        )


def requirement_of(
    text: str,
    attributes: Sequence[str],
    scales: Sequence[Scale | Ends],
    *,
    margin: float | None = None,
) -> Requirement:
    """Return the requirement of a --require, such as ``mean(helpfulness)>=3``, ``share(score>=3)>=0.9`` or ``all(score>=2)``.

    Args:
        attributes, scales: those of the run; ``score`` stands for the only attribute.
        margin: ε in points; None for MARGIN of the scale.

    Raises:
        InputError: syntax, with the character; an attribute that is not judged; a threshold that is not inside its scale, or a
            share that is not between 0 and 1; a margin that leaves nothing to decide.
    """
    flag = f'--require "{shown(text, 80)}"'
    kind, start = _head(text, flag)
    end = text.rfind(")")
    if end < start:
        raise InputError(f'{flag}: at character {len(text) + 1}: a ")" is missing; write {FORMS}')
    inside, behind = text[start:end], text[end + 1 :]
    if kind == "mean":
        outer = _compared(
            _OUTER, behind, end + 1, flag, "behind the bracket write >=NUMBER, as in mean(score)>=3"
        )
        return Requirement(
            kind, _criterion(inside, outer, start, end + 1, flag, attributes, scales)
        )
    if kind == "compare":
        outer = _compared(
            _OUTER,
            behind,
            end + 1,
            flag,
            "behind the bracket write >=NUMBER, as in compare(A,B)>=0",
        )
        systems, name = _systems(inside, start + 1, flag, attributes)
        criterion = _criterion(
            name, outer, start, end + 1, flag, attributes, scales, is_difference=True
        )
        return Requirement(kind, criterion, systems=systems)
    inner = _compared(
        _INNER,
        inside,
        start,
        flag,
        f"inside the brackets write NAME>=NUMBER, as in {kind}(score>=3)",
    )
    criterion = _criterion(
        inner["name"], inner, start + inner.start("name"), start, flag, attributes, scales
    )
    if kind == "all":
        if behind.strip():
            place = end + 2 + len(behind) - len(behind.lstrip())
            raise InputError(
                f'{flag}: at character {place}: nothing belongs behind "all(…)"; leave it out, or ask share(…)'
            )
        scale = scales[list(attributes).index(criterion.attribute)]
        if isinf(scale.high):
            raise InputError(
                f"{flag}: needs the scale of {criterion.attribute}, which the file does not say; name it with --scale LOW-HIGH"
            )
        return Requirement(kind, criterion, _margin(margin, criterion, scale))
    outer = _compared(
        _OUTER,
        behind,
        end + 1,
        flag,
        "behind the bracket write >=SHARE, as in share(score>=3)>=0.9",
    )
    share = _share(outer, end + 1, flag, criterion)
    return Requirement(kind, criterion, relation=outer["relation"], share=share)


def _head(text: str, flag: str) -> tuple[Kind, int]:
    """Return the kind, and the position behind the opening bracket."""
    head = _HEAD.match(text)
    word = head["kind"] if head else ""
    place = 1 + (head.start("kind") if head else 0)
    if word not in KINDS:
        near = did_you_mean(word, KINDS) if head and head["bracket"] else ""
        what = (
            f'"{shown(word)}" is none of {", ".join(KINDS)}{near}'
            if word
            else "a requirement begins with its kind"
        )
        raise InputError(f"{flag}: at character {place}: {what}; write {FORMS}")
    if head is None or not head["bracket"]:
        raise InputError(
            f'{flag}: at character {place + len(word)}: a "(" belongs here; write {FORMS}'
        )
    return KINDS[word], head.end()


def _compared(
    pattern: re.Pattern[str], text: str, offset: int, flag: str, step: str
) -> re.Match[str]:
    """Match relation and number, and a name if ``pattern`` has one; ``offset``: characters before ``text``."""
    match = pattern.match(text)
    if match is None:
        place = offset + 1 + len(text) - len(text.lstrip())
        raise InputError(f"{flag}: at character {place}: {step}")
    if match["relation"] not in RELATIONS:
        place = offset + 1 + match.start("relation")
        raise InputError(
            f'{flag}: at character {place}: "{match["relation"]}" is no requirement that ratings could settle; '
            f"write one of {' '.join(RELATIONS)}"
        )
    return match


def _criterion(
    name: str,
    compared: re.Match[str],
    name_at: int,
    compared_at: int,
    flag: str,
    attributes: Sequence[str],
    scales: Sequence[Scale | Ends],
    *,
    is_difference: bool = False,
) -> Criterion:
    """Return the threshold for ``name``, or for a difference of it; ``…_at``: characters before either part."""
    place = name_at + 1 + len(name) - len(name.lstrip())
    name = name.strip()
    if not name:
        raise InputError(
            f"{flag}: at character {place}: which attribute? Name it, or {SCORE} for the only one"
        )
    attribute = attribute_named(name, attributes, f"{flag}: at character {place}")
    where = f"{flag}: at character {compared_at + 1 + compared.start('number')}"
    threshold = number_in(compared["number"], where)
    scale = scales[list(attributes).index(attribute)]
    reach = scale.high - scale.low
    if is_difference and not -reach < threshold < reach:
        raise InputError(
            f"{where}: no two means on the scale {scale} of {attribute} differ by {threshold:g}, so nothing would be left to "
            "decide"
        )
    if not is_difference and not scale.low < threshold < scale.high:
        raise InputError(
            f"{where}: the threshold {threshold:g} is not inside the scale {scale} of {attribute}, so nothing would be left "
            "to decide"
        )
    return Criterion(attribute, compared["relation"], threshold)


def _systems(
    inside: str, place: int, flag: str, attributes: Sequence[str]
) -> tuple[tuple[str, str], str]:
    """Return the two systems of a comparison, and the attribute; ``place``: the character at which they begin."""
    try:
        names = [name.strip() for name in next(csv.reader([inside], skipinitialspace=True), [])]
    except csv.Error:  # a line break
        names = []
    if len(names) not in {2, 3} or not all(names) or names[0] == names[1]:
        raise InputError(
            f"{flag}: at character {place}: inside the brackets name two systems, as in compare(new,old), and with several "
            'attributes which one, compare(new,old,helpfulness); a name with a comma in it in "quotation marks"'
        )
    if len(names) == 2 and len(attributes) > 1:
        raise InputError(
            f"{flag}: at character {place}: of which attribute ({', '.join(attributes)})? Name it behind the systems, as in "
            f"compare(new,old,{attributes[0]})"
        )
    return (names[0], names[1]), names[2] if len(names) == 3 else SCORE


def _quoted(name: str) -> str:
    """Return ``name`` as it stands in a comparison."""
    return '"' + name.replace('"', '""') + '"' if set(name) & set(',"()') else name


def _share(compared: re.Match[str], offset: int, flag: str, criterion: Criterion) -> float:
    where = f"{flag}: at character {offset + 1 + compared.start('number')}"
    share = number_in(compared["number"], where)
    if share == 1:
        raise InputError(
            f"{where}: no sample shows a share of 1 of all there are; ask all({criterion}), of this run's own pairs"
        )
    if not 0 < share < 1:
        raise InputError(
            f"{where}: {share:g} is no share between 0 and 1; write nine tenths as 0.9"
        )
    return share


def _margin(points: float | None, criterion: Criterion, scale: Scale | Ends) -> float:
    """Return the margin in points, or the default; InputError if it reaches to an end of the scale."""
    margin = MARGIN * (scale.high - scale.low) if points is None else points
    room = min(criterion.threshold - scale.low, scale.high - criterion.threshold)
    if margin >= room:
        raise InputError(
            f"--margin {margin:g}: reaches from the threshold of {criterion} to the end of the scale {scale}, so nothing would "
            f"be left to decide; take one below {room:g}"
        )
    return margin
