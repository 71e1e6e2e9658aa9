"""Helpers shared by the modules of all tools."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from robin_cli.data.chats import prompt_of, turns_of
from robin_cli.data.remote import scheme_of
from robin_cli.data.rows import BadRow, Row, kind

OR_SKIP = ", or leave such samples out with --skip-bad-rows."

_LONGEST = 200
"""The limit on a text's length as a value to group or compare by."""


def as_text(prompt: object, called: str) -> str:
    """Return a prompt, a text or a conversation, in robin's format. BadRow for any other value."""
    if isinstance(prompt, str):
        return prompt
    if isinstance(prompt, list) and prompt:
        return prompt_of(turns_of(prompt, called))
    raise BadRow(
        f"{called} is {kind(prompt)}, no text and no conversation. Correct it{OR_SKIP}", "no prompt"
    )


def as_json(value: object) -> str:
    """Return a text as it is, nothing as an empty text, and any other value as JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, default=str, skipkeys=True)


def scalars(prefix: str, content: object) -> Row:
    """Return the numbers, truth values and short texts of an object, each name with ``prefix``."""
    if not isinstance(content, Mapping):
        return {}
    plain = {name: value for name, value in content.items() if isinstance(value, (str, int, float))}
    return {
        f"{prefix}.{name}": value for name, value in plain.items() if len(str(value)) <= _LONGEST
    }


def folder_of(place: str) -> str:
    """Return the name of a file's folder, here or at an address; "" if it has none."""
    if not place:
        return ""
    return (
        PurePosixPath(place).parent.name if scheme_of(place) else Path(place).absolute().parent.name
    )


def as_object(value: object) -> Row:
    """Return an object; an empty one for any other value."""
    return value if isinstance(value, dict) else {}


def name_of(value: object) -> str:
    """Return an id, a text or a whole number, as a text; "" for any other value."""
    return str(value) if isinstance(value, (str, int)) else ""


def joined(*names: object) -> str:
    """Join the parts of a name, without missing ones."""
    return "/".join(filter(None, map(name_of, names)))
