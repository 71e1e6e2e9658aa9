"""The decision of a run: whether pairs meet thresholds, or which response of each group is best."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import ge, gt, le, lt
from typing import Any

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
