"""The prompts that settings name; of its own, because it needs none of the libraries that the work does."""

from __future__ import annotations

from dataclasses import replace

from robin_cli.ask.prompts import PromptSet, load_prompts
from robin_cli.settings.table import Settings


def prompts_of_check(settings: Settings) -> PromptSet:
    """Load the prompts for the question of ``robin check``: its first attribute, or helpfulness."""
    has_rubric = settings.rubric or settings.pairwise
    attribute = settings.attribute[:1] or (() if has_rubric else ("helpfulness",))
    return prompts_of(replace(settings, attribute=attribute, answers=("text", "decisions")))


def prompts_of(settings: Settings) -> PromptSet:
    """Load the template and rubrics that ``settings`` name. InputError as :func:`load_prompts`."""
    return load_prompts(
        settings.attribute,
        settings.rubric,
        settings.template,
        settings.answers,
        pairwise=settings.pairwise,
        ties=not settings.no_ties,
    )
