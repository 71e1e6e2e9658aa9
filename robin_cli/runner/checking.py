"""Checks that the judges of a session can be asked, before anything is read or paid for."""

from __future__ import annotations

from pathlib import Path

from robin_cli.files.local import check_whole_file
from robin_cli.judges.functions import Function
from robin_cli.judges.registry import check_known
from robin_cli.model.errors import InputError
from robin_cli.runner.elsewhere import carrier_of_ray
from robin_cli.runner.money import prices_at
from robin_cli.settings.addresses import api_keys, judges_of, places
from robin_cli.settings.table import IN_PYTHON, Settings
from robin_cli.settings.trust import NO_KEY, remember


def check_judges(settings: Settings, function: Function | None = None) -> None:
    """Check that the judges can be asked.

    Args:
        function: the judge, if it is a Python function.

    Raises:
        InputError: there is no endpoint, a host is not trusted (see :func:`api_keys`), a judge is unknown, or money is limited
            and a judge has no price.
    """
    keys = api_keys(settings)
    check_rounds(settings)
    _check_cluster(settings, function)
    if function is None:
        check_known(settings.judge)
    for judge in judges_of(settings):
        prices_at(judge, settings)
    # Before there is a run: one that is killed at once is resumed by its name alone.
    remember(places(settings, keys))
    if settings.ray is not None:
        with carrier_of_ray().loaded("--ray") as carrier:
            carrier.check(settings.ray, secret_names(settings))


def secret_names(settings: Settings) -> list[str]:
    """Return the variables that hold keys."""
    return [name for name in settings.api_key_env if name != NO_KEY]


def _check_cluster(settings: Settings, function: Function | None) -> None:
    """Raise InputError for settings that do not go with workers elsewhere."""
    if settings.ray is None:
        return
    if settings.in_rounds:
        flag = "--batch" if settings.batch else "--batch-files"
        raise InputError(
            f"--ray: makes calls one at a time, and {flag} in rounds; leave one of the two out"
        )
    if function is not None or settings.judge.startswith(IN_PYTHON):
        raise InputError(
            "--ray: a function runs in this process only; install it on the cluster as a judge of a package "
            "(docs/plug-ins.md), or leave --ray out"
        )
    if settings.debug_http is not None:
        raise InputError(
            "--debug-http: requests are not made here with --ray; leave one of the two out"
        )


def check_rounds(settings: Settings) -> None:
    """Raise InputError for settings that do not go with rounds."""
    if not settings.in_rounds:
        return
    flag = "--batch" if settings.batch else "--batch-files"
    if settings.batch and settings.batch_files is not None:
        raise InputError(
            "--batch, --batch-files: the first is for a service, the second for an engine that reads files; give one"
        )
    if not settings.at_endpoints:
        raise InputError(
            f"{flag}: is for endpoints, and the judge {settings.judge} is not one; leave {flag} out"
        )
    if settings.batch_files is not None:
        _check_folder(Path(settings.batch_files))
    if several := next((each for each in judges_of(settings) if len(each.base_urls) > 1), None):
        raise InputError(
            f"{flag}: {several.name} has {len(several.base_urls)} addresses; give only the one for the batches"
        )


def _check_folder(folder: Path) -> None:
    """Make the folder for files. InputError if it cannot be made, or written to."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        check_whole_file(folder / "robin.jsonl")
    except OSError as error:
        raise InputError(
            f"--batch-files {folder}: no files can be written there ({error.strerror}); name another folder"
        ) from error
