"""What the modules of all tools share."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from robin_cli.datasets.chats import prompt_of, turns_of
from robin_cli.datasets.rows import BadRow, Row, kind
from robin_cli.files.remote import scheme_of

OR_SKIP = ", or leave such samples out with --skip-bad-rows."

_LONGEST = 200
"""Longer texts are no values to group or compare by."""


def as_text(prompt: object, called: str) -> str:
    """What a model was asked, a text or a conversation, as robin writes it. BadRow for anything else."""
    if isinstance(prompt, str):
        return prompt
    if isinstance(prompt, list) and prompt:
        return prompt_of(turns_of(prompt, called))
    raise BadRow(f"{called} is {kind(prompt)}, no text and no conversation. Correct it{OR_SKIP}", "no prompt")


def scalars(prefix: str, found: object) -> Row:
    """The numbers, truth values and short texts of an object, by their names behind ``prefix``."""
    if not isinstance(found, Mapping):
        return {}
    plain = {name: value for name, value in found.items() if isinstance(value, (str, int, float))}
    return {f"{prefix}.{name}": value for name, value in plain.items() if len(str(value)) <= _LONGEST}


def folder_of(place: str) -> str:
    """The name of the folder that a file lies in, here or at an address; "" where it lies nowhere."""
    if not place:
        return ""
    return PurePosixPath(place).parent.name if scheme_of(place) else Path(place).absolute().parent.name


def as_object(value: object) -> Row:
    """A value that should be an object; an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def name_of(value: object) -> str:
    """The text or the whole number that names something, as a text; "" for anything else."""
    return str(value) if isinstance(value, (str, int)) else ""


def joined(*names: object) -> str:
    """A name made of several, without those that are missing."""
    return "/".join(filter(None, map(name_of, names)))
