"""Checks that the judges of a session can be asked, before anything is read or paid for."""

from __future__ import annotations

from robin_cli.judges.functions import Function
from robin_cli.judges.registry import check_known
from robin_cli.model.errors import InputError
from robin_cli.session.elsewhere import carrier_of_ray
from robin_cli.session.money import prices_at
from robin_cli.settings.addresses import api_keys, judges_of
from robin_cli.settings.table import IN_PYTHON, Settings
from robin_cli.settings.trust import NO_KEY


def check_judges(settings: Settings, function: Function | None = None) -> None:
    """Check that the judges can be asked.

    Args:
        function: the judge, if it is a Python function.

    Raises:
        InputError: there is no endpoint, a host is not trusted (see :func:`api_keys`), a judge is unknown, or money is limited
            and a judge has no price.
    """
    api_keys(settings)
    _check_decisions(settings)
    check_rounds(settings)
    _check_cluster(settings, function)
    if function is None:
        check_known(settings.judge)
    for judge in judges_of(settings):
        prices_at(judge, settings)
    if settings.ray is not None:
        with carrier_of_ray().loaded("--ray") as carrier:
            carrier.check(settings.ray, secret_names(settings))


def secret_names(settings: Settings) -> list[str]:
    """Return the variables that hold keys."""
    return [name for name in settings.api_key_env if name != NO_KEY]


def _check_decisions(settings: Settings) -> None:
    """Raise InputError for settings that do not go with decision models."""
    flags = {
        "--batch": settings.batch,
        "--ray": settings.ray is not None,
        "--judge": not settings.at_endpoints,
    }
    flag = next((flag for flag, is_set in flags.items() if is_set), None)
    if flag and "decisions" in settings.answers:
        raise InputError(f"{flag}: does not reach /decisions; leave it out, or --answers decisions")


def _check_cluster(settings: Settings, function: Function | None) -> None:
    """Raise InputError for settings that do not go with workers elsewhere."""
    if settings.ray is None:
        return
    if settings.batch:
        raise InputError(
            "--ray: makes calls one at a time, and --batch in rounds; leave one of the two out"
        )
    if function is not None or settings.judge.startswith(IN_PYTHON):
        raise InputError(
            "--ray: a function runs in this process only; install it on the cluster as a judge of a package "
            "(docs/plug-ins.md), or leave --ray out"
        )


def check_rounds(settings: Settings) -> None:
    """Raise InputError for settings that do not go with rounds."""
    if not settings.batch:
        return
    if not settings.at_endpoints:
        raise InputError(
            f"--batch: is for endpoints, and the judge {settings.judge} is not one; leave it out"
        )
    if several := next((each for each in judges_of(settings) if len(each.base_urls) > 1), None):
        raise InputError(
            f"--batch: {several.name} has {len(several.base_urls)} addresses; give only the one for the batches"
        )
