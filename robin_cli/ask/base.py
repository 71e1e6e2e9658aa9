"""The interface of a kind of question: the text that a judge reads, its variants, and the form of an answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from robin_cli.ask.forms import Form
from robin_cli.ask.rubric_files import Rubric
from robin_cli.model.records import Pair, Scale


@dataclass(frozen=True)
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
        values: names that a template may use.
        needed: names that it must use.
        filled: returns the values for a pair, a rubric, the number of a variant, and the criterion.
        decision: returns the question for decision models, by a rubric and the criterion.
    """

    name: str
    form: Form
    variants: tuple[str, ...]
    turned: tuple[bool, ...]
    score_scale: Scale | None
    in_words: Callable[[float, Scale], str] | None
    template: str
    input: str
    values: tuple[str, ...]
    needed: tuple[str, ...]
    filled: Callable[[Pair, Rubric, int, Rubric | None], Mapping[str, Any]]
    decision: Callable[[Rubric, Rubric | None], Mapping[str, Any]]

    def asked_for(self, attributes: Sequence[str]) -> Sequence[str]:
        """Return the values of the column ``attribute`` in judgments: with several variants, their names."""
        return self.variants if len(self.variants) > 1 else attributes
