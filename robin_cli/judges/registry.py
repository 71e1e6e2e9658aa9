"""Judges by name: robin's own, at OpenAI-compatible endpoints, and those of installed packages.

A package adds one by an entry point of the group ``robin.judges``, which leads to a :class:`~robin_cli.judges.judge.Judge` that
is made from :class:`~robin_cli.judges.judge.Options`, or to a function from messages to text. It is loaded when it is named.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from robin_cli.judges.functions import FunctionJudge
from robin_cli.judges.judge import Judge, Options
from robin_cli.model.errors import InputError, did_you_mean
from robin_cli.model.plugins import plugins
from robin_cli.settings.trust import AT_ENDPOINTS

GROUP = "robin.judges"


def check_known(name: str) -> None:
    """Raise InputError unless there is exactly one judge of this name."""
    if name not in (names := [AT_ENDPOINTS, *plugins(GROUP)]):
        raise InputError(
            f'--judge: no "{name}"; there are: {", ".join(names)} (others come with packages){did_you_mean(name, names)}'
        )
    if name != AT_ENDPOINTS:
        plugins(GROUP)[name].package(f"--judge {name}")


def judge_named(name: str, options: Options) -> Judge:
    """Make the judge that a package adds as ``name``. InputError, which names the package, if it cannot be made."""
    check_known(name)
    with plugins(GROUP)[name].loaded(f"--judge {name}") as found:
        return judge_of(found, options)


def judge_of(found: Any, options: Options) -> Judge:
    """Make a judge of ``found``, a subclass of Judge or a function. TypeError if it is neither."""
    if isinstance(found, type) and issubclass(found, Judge):
        made: Callable[[Options], Judge] = found
        return made(options)
    if not callable(found):
        raise TypeError(f"it is {type(found).__name__}: neither a Judge nor a function")
    return FunctionJudge(found, options)
