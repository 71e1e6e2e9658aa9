"""The file that ``robin init`` writes, and the schema by which editors check it."""

from __future__ import annotations

import json
import textwrap
import tomllib
from collections.abc import Mapping
from typing import Any

from robin_cli.cli.options import with_known
from robin_cli.data.local import shipped
from robin_cli.settings.reading import SIMULATE
from robin_cli.settings.setting import Setting
from robin_cli.settings.table import TABLE
from robin_cli.simulate.settings import SIMULATION

SCHEMA_FILE = "robin.schema.json"
_EXPLAINED = "openai"
_WIDTH = 128
_IN_JSON = {str: "string", int: "integer", float: "number", bool: "boolean", Mapping: "object"}


def starting_file(like: str) -> str:
    """Return a shipped config; openai's is followed by every other setting, explained."""
    config = (shipped("configs") / f"{like}.toml").read_text(encoding="utf-8")
    text = f"#:schema ./{SCHEMA_FILE}\n{config}"
    if like != _EXPLAINED:
        return text
    lines, panel, in_config = [text.rstrip()], "", tomllib.loads(text)
    for setting in (setting for name, setting in TABLE.items() if name not in in_config):
        if setting.panel != panel:
            panel = setting.panel
            lines += ["", f"# {panel}"]
        value = f"{setting.name} = {json.dumps(setting.default)}"
        if setting.example:
            value = f"# {setting.name} = {setting.example}"
        words = _help_of(setting)
        beside = f"{value:<34} # {words}"
        above = [f"# {line}" for line in textwrap.wrap(words, _WIDTH - 2)]
        lines += [beside] if len(beside) <= _WIDTH else [*above, value]
    return "\n".join(lines) + "\n"


def schema() -> dict[str, Any]:
    """Return the JSON schema of a TOML file of settings."""
    simulate = {"type": "object", "properties": _schemas(SIMULATION)}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Settings of robin",
        "type": "object",
        "properties": _schemas(TABLE) | {SIMULATE: {**simulate, "additionalProperties": False}},
        "patternProperties": {"^[a-z]+(-[a-z]+)+$": {}},  # names with hyphens, as flags
        "additionalProperties": False,
    }


def _schemas(table: Mapping[str, Setting]) -> dict[str, Any]:
    """Return each setting's schema; one that accepts other types has only a description."""
    schemas = dict[str, Any]()
    for name, setting in table.items():
        must = f" Must be {setting.check[1]}." if setting.check else ""
        schemas[name] = {"description": _help_of(setting) + must}
        if setting.default is not None:
            schemas[name]["default"] = setting.default
        value: dict[str, Any] = {"type": _IN_JSON[setting.kind]}
        value |= {"enum": setting.choices} if setting.choices else {}
        if setting.several:
            forms = [value, {"type": "array", "items": value}, {"type": "string"}]
            schemas[name]["anyOf"] = forms if setting.by_commas else forms[:2]
        elif not setting.accept:
            schemas[name] |= value
    return schemas


def _help_of(setting: Setting) -> str:
    """Return the help of a setting in a TOML file."""
    is_unwritten = setting.example and setting.default_said
    default = f"(default: {setting.default_said})" if is_unwritten else ""
    words = " ".join(filter(None, [setting.help, setting.note, default]))
    return with_known(words.replace("{again}", "as a list"), setting.name)
