"""Requirements of a build on a run: on a mean, a share of pairs, all pairs, or a difference of two systems."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isinf
from typing import Literal, get_args

from robin_cli.model.decision import MARGIN, RELATIONS, SCORE, Criterion, attribute_named, number_in
from robin_cli.model.errors import InputError, did_you_mean, shown
from robin_cli.model.records import Ends, Scale

Kind = Literal["mean", "share", "all", "compare"]

FORMS = "mean(NAME)>=NUMBER, share(NAME>=NUMBER)>=SHARE, all(NAME>=NUMBER) or compare(A,B)>=NUMBER"

_HEAD = re.compile(r"\s*(?P<kind>\w*)\s*(?P<bracket>\(?)")
_COMPARED = re.compile(
    r"\s*(?P<name>.*?)\s*(?P<relation>>=|<=|==|!=|=|>|<)\s*(?P<number>\S+)\s*\Z", re.DOTALL
)
_STEPS = {
    "mean": "behind the bracket write >=NUMBER, as in mean(score)>=3",
    "compare": "behind the bracket write >=NUMBER, as in compare(A,B)>=0",
    "share": "inside the brackets write NAME>=NUMBER, as in share(score>=3)",
    "all": "inside the brackets write NAME>=NUMBER, as in all(score>=3)",
}
"""What to write where a kind's threshold is missing."""
_SHARE_STEP = "behind the bracket write >=SHARE, as in share(score>=3)>=0.9"

Where = Callable[[int], str]
"""Returns the flag, its text and the character at a position: how errors begin."""


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
        return self.criterion.attribute

    def __str__(self) -> str:
        threshold = f"{self.criterion.relation}{self.criterion.threshold:g}"
        if self.kind == "mean":
            return f"mean({self.attribute}){threshold}"
        if self.kind == "compare":
            return f"compare({','.join(map(_quoted, (*self.systems, self.attribute)))}){threshold}"
        share = f"{self.relation}{self.share:g}" if self.kind == "share" else ""
        return f"{self.kind}({self.criterion}){share}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"' if set(name) & set(',"()') else name


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

    def where(at: int) -> str:
        return f"{flag}: at character {at + 1}"

    kind, start = _head(text, where)
    end = text.rfind(")")
    if end < start:
        raise InputError(f'{where(len(text))}: a ")" is missing; write {FORMS}')
    inside, behind = (start, end), (end + 1, len(text))
    systems = tuple[str, ...]()
    if kind in {"share", "all"}:
        compared = _compared(text, inside, where, _STEPS[kind], has_name=True)
        name, name_at = compared["name"], compared.start("name")
    else:
        compared = _compared(text, behind, where, _STEPS[kind], has_name=False)
        name, name_at = text[start:end].strip(), _past_spaces(text, *inside)
    if kind == "compare":
        systems, name = _systems(text[start:end], where(start), attributes)
        name_at = start
    if not name:
        raise InputError(f"{where(name_at)}: which attribute? Name it, or {SCORE} for the only one")
    attribute = attribute_named(name, attributes, where(name_at))
    scale = scales[list(attributes).index(attribute)]
    at = where(compared.start("number"))
    criterion = Criterion(attribute, compared["relation"], number_in(compared["number"], at))
    _check_threshold(kind, criterion, scale, at)
    if kind == "share":
        outer = _compared(text, behind, where, _SHARE_STEP, has_name=False)
        share = _share(outer["number"], where(outer.start("number")), criterion)
        return Requirement(kind, criterion, relation=outer["relation"], share=share)
    if kind == "all":
        if (place := _past_spaces(text, *behind)) < len(text):
            raise InputError(
                f'{where(place)}: nothing belongs behind "all(…)"; leave it out, or ask share(…)'
            )
        if isinf(scale.high):
            raise InputError(
                f"{flag}: needs the scale of {attribute}, which the file does not say; name it with --scale LOW-HIGH"
            )
        return Requirement(kind, criterion, _margin(margin, criterion, scale))
    return Requirement(kind, criterion, systems=systems)


def _past_spaces(text: str, start: int, end: int) -> int:
    """Return the position of the first character between that is no space, or ``end``."""
    return end - len(text[start:end].lstrip())


def _head(text: str, where: Where) -> tuple[Kind, int]:
    """Return the kind, and the position behind the opening bracket."""
    head = _HEAD.match(text)
    assert head is not None  # noqa: S101  # it matches any text
    word, kinds = head["kind"], get_args(Kind)
    if word not in kinds:
        near = did_you_mean(word, kinds) if head["bracket"] else ""
        what = f'"{shown(word)}" is none of {", ".join(kinds)}{near}'
        what = what if word else "a requirement begins with its kind"
        raise InputError(f"{where(head.start('kind'))}: {what}; write {FORMS}")
    if not head["bracket"]:
        raise InputError(f'{where(head.end("kind"))}: a "(" belongs here; write {FORMS}')
    return kinds[kinds.index(word)], head.end()


def _compared(
    text: str, part: tuple[int, int], where: Where, step: str, *, has_name: bool
) -> re.Match[str]:
    """Match relation and number, and a name before them if it ``has_name``, in this part of ``text``."""
    match = _COMPARED.match(text, *part)
    if match is None or (match["name"] and not has_name):
        raise InputError(f"{where(_past_spaces(text, *part))}: {step}")
    if match["relation"] not in RELATIONS:
        raise InputError(
            f'{where(match.start("relation"))}: "{match["relation"]}" is no requirement that ratings could settle; '
            f"write one of {' '.join(RELATIONS)}"
        )
    return match


def _check_threshold(kind: Kind, criterion: Criterion, scale: Scale | Ends, where: str) -> None:
    """Raise InputError for a threshold that every mean of the scale meets, or none."""
    x, reach, of = criterion.threshold, scale.high - scale.low, f"{scale} of {criterion.attribute}"
    if kind == "compare" and not -reach < x < reach:
        what = f"no two means on the scale {of} differ by {x:g}"
    elif kind != "compare" and not scale.low < x < scale.high:
        what = f"the threshold {x:g} is not inside the scale {of}"
    else:
        return
    raise InputError(f"{where}: {what}, so nothing would be left to decide")


def _systems(inside: str, where: str, attributes: Sequence[str]) -> tuple[tuple[str, str], str]:
    try:
        names = [name.strip() for name in next(csv.reader([inside], skipinitialspace=True), [])]
    except csv.Error:  # a line break
        names = []
    if len(names) not in {2, 3} or not all(names) or names[0] == names[1]:
        raise InputError(
            f"{where}: inside the brackets name two systems, as in compare(new,old), and with several "
            'attributes which one, compare(new,old,helpfulness); a name with a comma in it in "quotation marks"'
        )
    if len(names) == 2 and len(attributes) > 1:
        raise InputError(
            f"{where}: of which attribute ({', '.join(attributes)})? Name it behind the systems, as in "
            f"compare(new,old,{attributes[0]})"
        )
    return (names[0], names[1]), names[2] if len(names) == 3 else SCORE


def _share(number: str, where: str, criterion: Criterion) -> float:
    share = number_in(number, where)
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
