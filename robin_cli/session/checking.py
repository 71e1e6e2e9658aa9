"""Checks that the judges of a session can be asked, before anything is read or paid for."""

from __future__ import annotations

from robin_cli.judges.functions import check_known
from robin_cli.model.errors import InputError
from robin_cli.session.carriers import carrier_of
from robin_cli.session.money import prices_of
from robin_cli.settings.resolve import Resolved
from robin_cli.settings.table import IN_PYTHON


def check_judges(resolved: Resolved, *, is_function: bool = False) -> None:
    """Check that the judges can be asked.

    Args:
        is_function: the judge is a Python function.

    Raises:
        InputError: settings exclude each other, a judge is unknown, or money is limited and a judge
            has no price.
    """
    _check_decisions(resolved)
    _check_cluster(resolved, is_function=is_function)
    if not is_function:
        check_known(resolved.kind)
    for judge in resolved.judges:
        prices_of(judge, resolved)
    if (package := carrier_of(resolved)) is not None:
        with package.loaded(f"--{package.name}") as carrier:
            carrier.check(resolved)


def _check_decisions(resolved: Resolved) -> None:
    """Raise InputError for settings that do not go with decision models."""
    flags = {
        "--batch": resolved.batch,
        "--ray": resolved.ray is not None,
        "--judge": not resolved.at_endpoints,
    }
    flag = next((flag for flag, is_set in flags.items() if is_set), None)
    if flag and any(judge.answers == "decisions" for judge in resolved.judges):
        raise InputError(f"{flag}: does not reach /decisions; leave it out, or --answers decisions")


def _check_cluster(resolved: Resolved, *, is_function: bool) -> None:
    """Raise InputError for settings that do not go with workers elsewhere."""
    if resolved.ray is None:
        return
    if resolved.batch:
        raise InputError(
            "--ray: makes calls one at a time, and --batch in rounds; leave one of the two out"
        )
    if is_function or resolved.kind.startswith(IN_PYTHON):
        raise InputError(
            "--ray: a function runs in this process only; install it on the cluster as a judge of a package "
            "(docs/plug-ins.md), or leave --ray out"
        )
