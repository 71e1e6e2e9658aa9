"""The choice between the two kinds of question."""

from __future__ import annotations

from robin_cli.ask.base import Kind
from robin_cli.ask.prefer import PREFER
from robin_cli.ask.rate import RATE


def kind_of(*, pairwise: bool) -> Kind:
    """Return the kind of question that a run asks: which of two responses is better, or how good one is."""
    return PREFER if pairwise else RATE
