"""The checks that come first: a wrong argument is reported before the libraries that do the work are imported."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from robin_cli.settings.resolve import Resolved
    from robin_cli.settings.table import Settings


def check_before_calls(settings: Settings) -> Resolved:
    """Check a command that makes calls, as far as that is quick, and return what it needs.

    Raises:
        InputError: a setting is wrong, or no key is there.
    """
    from robin_cli.data.read import check_files
    from robin_cli.settings.reading import check_budget
    from robin_cli.settings.resolve import read_keys, resolve
    from robin_cli.show.outputs import check_output

    if not settings.data:
        check_files(settings.data)  # before the key: it is what is always needed
    read_keys(settings)
    check_output(settings.format, settings.output, inputs_of(settings))
    check_budget(settings)
    check_first(settings)
    return resolve(settings)


def check_first(settings: Settings) -> None:
    """Check scheduler, rubrics and files, as far as that is quick. InputError if one is wrong."""
    from robin_cli.data.read import check_files
    from robin_cli.policies.registry import DEFAULT, known_policies, policy_named
    from robin_cli.session.prompts import prompts_of

    if settings.scheduler not in {DEFAULT, *known_policies()}:
        policy_named(settings.scheduler)
    prompts_of(settings)
    check_files(settings.data)


def inputs_of(settings: Settings) -> list[str]:
    """Return the files that a new run reads."""
    from robin_cli.data.read import expanded

    files = (settings.template, settings.source.place)
    return [*expanded(settings.data), *settings.rubric, *filter(None, files)]


def note_doubts(settings: Settings) -> None:
    """Print which settings do not count, and which ROBIN_* variables have nearly the name of one."""
    import difflib
    import os

    from robin_cli.settings.table import TABLE

    lines, known = list(settings.source.notes), [name.upper() for name in TABLE]
    for variable in os.environ:
        name = variable.removeprefix("ROBIN_")
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.7)
        if near and name != variable and name not in known:
            lines.append(
                f"note: {variable} is set, but is not a setting of robin; ROBIN_{near[0]} is one"
            )
    if lines:
        from robin_cli.show.messages import messages_for  # brings rich

        for line in lines:
            messages_for(quiet=settings.quiet).note(line)
