"""The prompts that settings name; of its own, because it needs none of the libraries that the work does."""

from __future__ import annotations

from robin_cli.ask.prompts import PromptSet, load_prompts
from robin_cli.settings.table import Settings


def prompts_of(settings: Settings) -> PromptSet:
    """Load the template and rubrics that ``settings`` name. InputError as :func:`load_prompts`."""
    return load_prompts(
        settings.attributes,
        settings.rubric,
        settings.template,
        settings.answers,
        pairwise=settings.pairwise,
        ties=not settings.no_ties,
    )
