"""What a new run records of itself."""

from __future__ import annotations

from typing import Any

from robin_cli.datasets.pairs import Dataset
from robin_cli.goals.base import Goal
from robin_cli.model.errors import InputError
from robin_cli.questions.rubrics import PromptSet
from robin_cli.settings.addresses import judges_of
from robin_cli.settings.setting import Scope
from robin_cli.settings.table import Settings, recorded
from robin_cli.settings.trust import OPENAI_URL
from robin_cli.storage.manifest import FORMAT, Manifest, ends_of


def manifest_of(settings: Settings, dataset: Dataset, prompts: PromptSet, goal: Goal) -> Manifest:
    """The manifest of a new run.

    Raises:
        InputError: no model, or a budget that does not reach far enough, see :meth:`Goal.check_reach`.
    """
    judges = judges_of(settings)
    own = {
        "base_url": list(settings.base_url or (OPENAI_URL,) * settings.sends) if settings.at_endpoints else [],
        "model": settings.model[0] if len(judges) == 1 else list(settings.model),
        **recorded(settings, Scope.RUN),
    }
    sampling: dict[str, Any] = {"temperature": settings.temperature, "top_p": settings.top_p, **settings.extra_body}
    if settings.scoring == "logprobs" and (sampling["temperature"], sampling["top_p"]) != (1, 1):
        raise InputError(
            f"--scoring logprobs: needs --temperature 1 and --top-p 1, not {sampling['temperature']} and {sampling['top_p']}: "
            "endpoints tell probabilities from before these change them, so the scores would be those of another judge"
        )
    goal.check_reach(settings.budget or 0)
    left_out = {"left_out": dict(dataset.left_out), "first_left_out": list(dataset.first_left_out)}
    is_new = settings.budget_usd is not None or settings.pairwise
    return Manifest(
        settings=own,
        budget=settings.budget or 0,
        attributes=prompts.attributes,
        budget_usd=settings.budget_usd,
        **ends_of(prompts.attributes, prompts.scales) | ({"format": FORMAT} if is_new else {}),
        data={
            "source": dataset.source,
            "sha256": dataset.sha256,
            "pairs": len(dataset.pairs),
            "skipped": dataset.skipped,
            **(left_out if dataset.skipped else {}),
            "columns": dict(settings.columns),
            **goal.data,
            **({"files": [list(file) for file in dataset.files]} if len(dataset.files) > 1 else {}),
        },
        prompt={
            "sha256": prompts.sha256,
            "rubric_files": list(settings.rubric),
            "template_file": settings.template,
            **prompts.record,
        },
        seed=settings.seed,
    )
