"""The file that ``robin init`` writes, and the schema by which editors check it."""

from __future__ import annotations

import json
import textwrap
import tomllib
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from robin_cli.data.local import shipped
from robin_cli.settings.setting import Setting, with_known
from robin_cli.settings.table import SIMULATE, SIMULATION, TABLE

SCHEMA_FILE = "robin.schema.json"
_EXPLAINED = "openai"
_WIDTH = 128
_IN_JSON = {str: "string", int: "integer", float: "number", bool: "boolean", Mapping: "object"}

Known = Callable[[str], Iterable[str]]
"""Returns the known values of a setting."""


def starting_file(like: str, known: Known) -> str:
    """Return a shipped config; openai's is followed by every other setting, explained."""
    config = (shipped("configs") / f"{like}.toml").read_text(encoding="utf-8")
    text = f"#:schema ./{SCHEMA_FILE}\n{config}"
    if like != _EXPLAINED:
        return text
    lines, panel, in_config = [text.rstrip()], "", tomllib.loads(text)
    for setting in (each for name, each in TABLE.items() if name not in in_config):
        if setting.panel != panel:
            panel = setting.panel
            lines += ["", f"# {panel}"]
        value = (
            f"# {setting.name} = {setting.example}"
            if setting.example
            else f"{setting.name} = {json.dumps(setting.default)}"
        )
        words = with_known(setting.said_in_file, partial(known, setting.name))
        beside = f"{value:<34} # {words}"
        above = [f"# {line}" for line in textwrap.wrap(words, _WIDTH - 2)]
        lines += [beside] if len(beside) <= _WIDTH else [*above, value]
    return "\n".join(lines) + "\n"


def schema(known: Known) -> dict[str, Any]:
    """Return the JSON schema of a TOML file of settings."""
    simulate = {
        "type": "object",
        "properties": _schemas(SIMULATION, known),
        "additionalProperties": False,
    }
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Settings of robin",
        "type": "object",
        "properties": _schemas(TABLE, known) | {SIMULATE: simulate},
        "patternProperties": {"^[a-z]+(-[a-z]+)+$": {}},  # names with hyphens, as flags
        "additionalProperties": False,
    }


def _schemas(table: Mapping[str, Setting], known: Known) -> dict[str, Any]:
    """Return each setting's schema; one that accepts other types has only a description."""
    schemas = dict[str, Any]()
    for name, setting in table.items():
        must = f" Must be {setting.check[1]}." if setting.check else ""
        words = with_known(setting.said_in_file, partial(known, name))
        schemas[name] = {"description": words + must}
        if setting.default is not None:
            schemas[name]["default"] = setting.default
        one: dict[str, Any] = {"type": _IN_JSON[setting.kind]}
        one |= {"enum": setting.choices} if setting.choices else {}
        if setting.several:
            forms = [one, {"type": "array", "items": one}, {"type": "string"}]
            schemas[name]["anyOf"] = forms if setting.by_commas else forms[:2]
        elif not setting.accept:
            schemas[name] |= one
    return schemas
