"""The interface of a kind of question: what is shown to a judge, in which variants, and what an answer holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from robin_cli.model.records import Pair, Scale
from robin_cli.parsing.forms import Form
from robin_cli.questions.rubric_files import Rubric


@dataclass(frozen=True)
class Kind:
    """A kind of question.

    Attributes:
        name: ``rate`` or ``prefer``.
        form: how an answer is asked for and read.
        variants: the ways in which the same is asked, by name; one, called "", where there is one only.
        turned: of each variant, whether an answer is about the other of two responses, so that its value is turned round.
        told: the scale on which scores are told; None for that of the answers.
        said: an answer of so many points of a scale in words; None where the points say it themselves.
        template: the shipped template.
        values: what a template may show.
        needed: what it must show of these.
        filled: the values for a pair and a rubric, of the variant of that number; the last argument is the criterion.
    """

    name: str
    form: Form
    variants: tuple[str, ...]
    turned: tuple[bool, ...]
    told: Scale | None
    said: Callable[[float, Scale], str] | None
    template: str
    values: tuple[str, ...]
    needed: tuple[str, ...]
    filled: Callable[[Pair, Rubric, int, Rubric | None], Mapping[str, Any]]

    def asked_for(self, attributes: Sequence[str]) -> Sequence[str]:
        """Return what judgments have in their column ``attribute``: of several variants their names."""
        return self.variants if len(self.variants) > 1 else attributes
