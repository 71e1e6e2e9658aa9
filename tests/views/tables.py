"""Scores as tests look at them: on a terminal and as rows of files."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from robin_cli.analysis.scores import Scores
from robin_cli.render.terminal import View, print_table
from robin_cli.results.tables import Parts
from robin_cli.storage.reader import RunData
from robin_cli.views.scores import score_table


def score_rows(scores: Scores, run: RunData, **options: Any) -> Parts:
    """The scores as files have them."""
    return score_table(scores, run, **options).parts()


def print_scores(console: Console, scores: Scores, run: RunData, view: View) -> None:
    """Print the scores as a command does."""
    print_table(console, score_table(scores, run, sort=view.sort, wide=view.wide), view)
