"""The checks that come first: a wrong argument is reported before the libraries that do the work are imported."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from robin_cli.settings.table import Settings


def check_first(settings: Settings, *, sends: bool) -> None:
    """Check keys, budget, rubrics, scheduler and files of ``settings``, as far as that is quick.

    Args:
        sends: False for a command that makes no calls, so that it needs neither a key nor a budget.

    Raises:
        InputError: a setting is wrong.
    """
    from robin_cli.data.sources import check_files
    from robin_cli.policies.registry import DEFAULT, known_policies, policy_named
    from robin_cli.session.prompts import prompts_of
    from robin_cli.settings.addresses import api_keys
    from robin_cli.settings.reading import check_budget
    from robin_cli.show.outputs import check_output

    if not settings.data:
        check_files(settings.data)  # before the key: it is what is always needed
    if sends:
        api_keys(settings)
        check_output(settings.format, settings.output, inputs_of(settings))
        check_budget(settings)
    if settings.scheduler not in {DEFAULT, *known_policies()}:
        policy_named(settings.scheduler)
    prompts_of(settings)
    check_files(settings.data)


def inputs_of(settings: Settings) -> list[str]:
    """Return the files that a new run reads."""
    from robin_cli.data.sources import expanded

    files = (settings.template, settings.source.place)
    return [*expanded(settings.data), *settings.rubric, *filter(None, files)]


def check_output_of(run: Path, settings: Settings) -> None:
    """Raise InputError for an output of ``run`` that cannot be written, or that is its data."""
    from robin_cli.session.inputs import files_read_by
    from robin_cli.show.outputs import check_output

    check_output(settings.format, settings.output, files_read_by(run))


def note_doubts(settings: Settings) -> None:
    """Print which variables and settings do not count."""
    from robin_cli.settings.reading import doubtful_variables

    if lines := (*doubtful_variables(), *settings.source.notes):
        from robin_cli.show.messages import messages_for

        for line in lines:
            messages_for(quiet=settings.quiet).note(line)
