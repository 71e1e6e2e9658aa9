"""Goal: on which side of a threshold each pair lies."""

from __future__ import annotations

from robin_cli.goals.deciding import Deciding


class Threshold(Deciding):
    """Which pairs are kept, for their mean ratings meet thresholds."""
