"""Reading and checking of settings from flags, variables, TOML files, Python keywords and runs.

A setting comes from its flag, else its ``ROBIN_*`` variable (the CLI reads both), else ``--config`` or ./robin.toml, else its
default. Errors about unknown names and wrong types name their place.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import reprlib
import textwrap
import tomllib
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from robin_cli.data.local import read_small_file, shipped
from robin_cli.data.remote import scheme_of
from robin_cli.model.errors import InputError, did_you_mean, shown
from robin_cli.settings.setting import Setting, with_known
from robin_cli.settings.table import SIMULATE, SIMULATION, TABLE, Settings, SimulationSettings
from robin_cli.settings.trust import Source, check_found_file

DEFAULT_FILE = "robin.toml"
SCHEMA_FILE = "robin.schema.json"
_NOT_TOGETHER = (
    ("decide", "target_error", "a run ends when few decisions are likely wrong, or at an error"),
)
# --group names groups for preferences, too
_ONLY_WITH = dict.fromkeys(("margin", "target_wrong", "certify", "agree"), "decide")
_ONLY_WITH |= {"error_rate": "certify", "confidence": "agree"}
"""Settings that need another one."""
_EXCERPT = 200
_FEW = 3
_NEAR, _PREFIX = 0.7, "ROBIN_"
_REPR = reprlib.Repr()
"""Shortens values of files by others, which may be nested without end."""
_REPR.maxlevel, _REPR.maxstring, _REPR.maxother = 3, _EXCERPT, _EXCERPT
_EXPLAINED = "openai"
_WIDTH = 128
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_IN_JSON = {str: "string", int: "integer", float: "number", bool: "boolean", Mapping: "object"}
_WORDS = {
    str: "text in quotes",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    Mapping: "a table",
}


def load_settings(given: Mapping[str, Any], file: str | None) -> Settings:
    """Return the settings from the flags and variables ``given`` (None: not given) and a TOML file.

    Args:
        given: by name; ``extra_body`` as JSON text, ``columns`` as ``ours=theirs,…``.
        file: the path of a TOML file, or the name of a shipped config; None for ./robin.toml, if it exists.

    Raises:
        InputError: an unknown name, a wrong type or a value out of range, with its place; or a setting that a ./robin.toml
            that the user did not name may not have.
    """
    flags = checked(given)
    if file is not None:
        path = find_config(file)
        source = Source(str(path))
        if "price_in" not in flags:
            source = replace(source, prices=f"--config {path}")
        return Settings(**together(flags, read_toml(path)), source=source)
    path = Path(DEFAULT_FILE)
    if not path.is_file():
        return Settings(**together(flags, {}))
    found = read_toml(path)
    check_found_file(path, found, flags, TABLE)
    return Settings(**together(flags, found), source=Source(str(path)))


def together(
    flags: dict[str, Any], found: dict[str, Any], table: Mapping[str, Setting] = TABLE
) -> dict[str, Any]:
    """Return the settings for a new run, by name. InputError for two that do not go together.

    ``found``: the settings of a file; those with default values never conflict.
    """
    given = {name: value for name, value in found.items() if value != table[name].default} | flags
    for name, other, why in _NOT_TOGETHER:
        if name in given and other in given:
            raise InputError(
                f"{TABLE[name].flag} and {TABLE[other].flag}: {why}; leave one of the two out"
            )
    for name, needed in _ONLY_WITH.items():
        if name in given and needed not in given:
            raise InputError(f"{TABLE[name].flag}: is for {TABLE[needed].flag}, which is not given")
    return {**found, **flags}


def load_simulation(given: Mapping[str, Any], file: str | None) -> SimulationSettings:
    """Return the settings of ``robin simulate`` from flags and the table [simulate] of a TOML file; flags win.

    Raises:
        InputError: there is no pool or budget, an unknown name, or a wrong value.
    """
    path = find_config(file) if file else None
    table = {} if path is None else toml_content(path).get(SIMULATE, {})
    if not isinstance(table, dict):
        raise InputError(
            f"{path}: {SIMULATE} must be a table, [{SIMULATE}] with the settings under it"
        )
    if unknown := sorted(table.keys() - SIMULATION.keys()):
        raise InputError(f'{path}: [{SIMULATE}] has no setting "{unknown[0]}"')
    found = (
        {}
        if path is None
        else _from_folder_of(path, checked(table, str(path), SIMULATION), SIMULATION)
    )
    settings = SimulationSettings(**together(checked(given, table=SIMULATION), found, SIMULATION))
    for name, example in (("pool", "ratings.parquet"), ("budget", "--budget 50000,100000")):
        if not getattr(settings, name):
            raise InputError(f"no {name}: give one, for example robin simulate {example}")
    return settings


def checked(
    values: Mapping[str, Any],
    source: str | None = None,
    table: Mapping[str, Setting] = TABLE,
    *,
    tidied: bool = True,
) -> dict[str, Any]:
    """Return the given values (not None, no empty list), each as its setting's type.

    Args:
        values: by the name of the setting.
        source: the place of the values for errors; None for flags.
        tidied: False to skip :attr:`Setting.tidy`: a run can be read whatever its addresses are.

    Raises:
        InputError: a value has another type, or is out of range; it names the place.
    """
    return {
        name: _typed(
            table[name],
            value,
            table[name].flag if source is None else f"{source}: {name}",
            tidied=tidied,
        )
        for name, value in values.items()
        if value is not None and not (isinstance(value, list | tuple) and not value)
    }


def check_variable(name: str, value: Any) -> None:
    """Raise InputError, which names the variable, if the setting ``name`` does not accept its value in the environment."""
    variable = next(each for each in TABLE[name].variables if os.environ.get(each))
    _typed(TABLE[name], value, variable, tidied=True)


def doubtful_variables() -> list[str]:
    """Return a line for each ROBIN_* variable that is not a setting, but has nearly the name of one."""
    known = [name.upper() for name in TABLE]
    set_here = (name.removeprefix(_PREFIX) for name in os.environ if name.startswith(_PREFIX))
    near = {
        name: difflib.get_close_matches(name, known, n=1, cutoff=_NEAR)
        for name in set_here
        if name not in known
    }
    return [
        f"note: {_PREFIX}{name} is set, but is not a setting of robin; {_PREFIX}{found[0]} is one"
        for name, found in near.items()
        if found
    ]


def check_budget(settings: Settings) -> None:
    """Raise InputError for settings without a budget, or with a run that is not a local folder."""
    if settings.budget is None and settings.max_cost is None:
        raise InputError(
            "--budget is missing: say how many judge calls to spend, for example --budget 50000, or US dollars, --max-cost 20"
        )
    if settings.run and scheme_of(settings.run):
        raise InputError(
            f"--run {settings.run}: a run is a folder on this machine; its scores may go to an address, with -o"
        )


def check_names(names: Set[str], known: Set[str]) -> None:
    """Raise InputError for the first of ``names`` that is not a setting, with the one that may be meant."""
    if unknown := sorted(names - known):
        raise InputError(f'no setting "{unknown[0]}"{did_you_mean(unknown[0], known)}')


def _typed(setting: Setting, value: Any, place: str, *, tidied: bool) -> Any:
    value = value.item() if getattr(value, "ndim", None) == 0 else value  # a numpy number
    if setting.file and isinstance(value, Path):
        value = str(value)
    if isinstance(value, Mapping):
        value = dict(value)
    _check_storable(value, place)
    if setting.accept:
        value = setting.accept(value, place)
        _check_storable(value, place)  # also the content of a JSON text
    if setting.by_commas and isinstance(value, str):
        value = [item.strip() for item in value.split(",") if item.strip()]
    if setting.several and not isinstance(value, list | tuple):
        value = [value]
    wanted = setting.check[1] if setting.check else _one_of(setting.choices)
    try:
        value = msgspec.convert(value, setting.type, strict=not setting.by_commas)
    except msgspec.ValidationError:
        if wanted and (
            setting.by_commas
            or setting.choices
            or (setting.kind in {str, Mapping} and isinstance(value, setting.kind))
        ):
            raise InputError(f"{place} {_shown(value)}: must be {wanted}") from None
        words = _WORDS[setting.kind] + ", or a list of such" * setting.several
        raise InputError(
            f"{place} must be {words}{'' if setting.secret else f', not {_REPR.repr(value)}'}"
        ) from None
    if setting.check and not setting.check[0](value):
        raise InputError(
            f"{place}{'' if setting.secret else f' {_shown(value)}'}: must be {wanted}"
        )
    return setting.tidy(value, place) if setting.tidy and tidied else value


def _shown(value: Any) -> str:
    items = value if isinstance(value, list | tuple) else [value]
    return shown(
        ", ".join(each if isinstance(each, str) else _REPR.repr(each) for each in items), _EXCERPT
    )


def _one_of(choices: tuple[str, ...]) -> str:
    if len(choices) > _FEW:
        return f"one of {', '.join(choices)}"
    return f"{', '.join(choices[:-1])} or {choices[-1]}" if choices else ""


def _check_storable(value: object, place: str) -> None:
    """Raise InputError for values that cannot be stored or sent, at any depth: NUL, half a character, more than 64 bits."""
    waiting: list[object] = [value]
    seen: dict[int, object] = {}  # Python objects may hold themselves
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        if isinstance(each, Mapping | list | tuple):
            seen[id(each)] = each
        if isinstance(each, Mapping):
            waiting += [*each.keys(), *each.values()]
        elif isinstance(each, list | tuple):
            waiting += each
        elif isinstance(each, int) and not -(2**63) <= each < 2**63:
            raise InputError(f"{place}: a number of more than 64 bits; write a smaller one")
        elif isinstance(each, str) and _UNSTORABLE.search(each):
            raise InputError(
                f"{place}: holds a NUL, or bytes that are not UTF-8; write it without them"
            )


def read_toml(path: Path) -> dict[str, Any]:
    """Return the settings in a TOML file; paths in it are relative to its folder.

    Raises:
        InputError: no such file, not TOML, an unknown name, a wrong type or a value out of range.
    """
    content = {
        name.replace("-", "_"): value
        for name, value in toml_content(path).items()
        if name != SIMULATE
    }
    for name in content:
        if name not in TABLE:
            hint = did_you_mean(name, TABLE.keys()) or "; robin init writes a file with all names"
            raise InputError(f'{path}: unknown setting "{name}"{hint}')
    return _from_folder_of(path, checked(content, str(path)), TABLE)


def _from_folder_of(
    path: Path, settings: Mapping[str, Any], table: Mapping[str, Setting]
) -> dict[str, Any]:
    """Return the settings of a file at ``path``, with relative paths resolved from its folder."""

    def anchored(name: str, value: str) -> str:
        # a shipped template's name
        ready = name == "template" and not any(mark in value for mark in "./\\")
        if ready or value == "-" or scheme_of(value):
            return value
        return str(path.parent / from_home(value))

    def of(name: str, value: Any) -> Any:
        return (
            tuple(anchored(name, each) for each in value)
            if table[name].several
            else anchored(name, value)
        )

    return {
        name: of(name, value) if table[name].file else value for name, value in settings.items()
    }


def toml_content(path: Path) -> dict[str, Any]:
    """Return the content of a TOML file. InputError if it cannot be read, or is not TOML."""
    try:
        return tomllib.loads(read_small_file(path, str(path)))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    except RecursionError:
        raise InputError(f"{path}: nested too deeply; settings have two levels at most") from None
    except ValueError as error:  # TOMLDecodeError, or a number of thousands of digits
        raise InputError(
            f"{path}: not TOML that robin can read ({str(error)[:_EXCERPT]})"
        ) from None


def find_config(file: str) -> Path:
    """Return the path of the shipped config ``file``, or of the TOML file ``file``.

    Raises:
        InputError: there is neither.
    """
    ready = shipped("configs") / f"{file}.toml"
    if "/" not in file and "\\" not in file and ready.is_file():
        return ready  # even if the working folder has a file of this name: write ./NAME for it
    path = Path(file)
    if path.is_file() or path.is_fifo():
        return path
    ready_ones = ready_configs()
    raise InputError(
        f"--config {file}: no such file; ready ones, by name, are {', '.join(ready_ones)}{did_you_mean(file, ready_ones)}"
    )


def ready_configs() -> list[str]:
    """Return the names of the shipped configs, sorted."""
    configs = sorted(shipped("configs").glob("*.toml"))
    return [
        entry.stem
        for entry in configs
        if SIMULATE not in tomllib.loads(entry.read_text(encoding="utf-8"))
    ]


def starting_file(like: str, known: Callable[[str], Iterable[str]]) -> str:
    """Return the file that ``robin init`` writes: a shipped config; openai's is followed by every other setting, explained.

    Args:
        known: returns the known values of a setting.
    """
    text = f"#:schema ./{SCHEMA_FILE}\n" + (shipped("configs") / f"{like}.toml").read_text(
        encoding="utf-8"
    )
    if like != _EXPLAINED:
        return text
    lines, panel, there = [text.rstrip()], "", tomllib.loads(text)
    for each in (setting for name, setting in TABLE.items() if name not in there):
        if each.panel != panel:
            panel = each.panel
            lines += ["", f"# {panel}"]
        value = (
            f"# {each.name} = {each.example}"
            if each.example
            else f"{each.name} = {json.dumps(each.default)}"
        )
        said = with_known(each.said_in_file, partial(known, each.name))
        beside = f"{value:<34} # {said}"
        above = [f"# {line}" for line in textwrap.wrap(said, _WIDTH - 2)]
        lines += [beside] if len(beside) <= _WIDTH else [*above, value]
    return "\n".join(lines) + "\n"


def schema(known: Callable[[str], Iterable[str]]) -> dict[str, Any]:
    """Return the JSON schema of a TOML file of settings, for editors; ``known`` as above."""
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


def _schemas(table: Mapping[str, Setting], known: Callable[[str], Iterable[str]]) -> dict[str, Any]:
    """Return the schema of each setting by name; one that accepts values of other types has only a description."""
    schemas = dict[str, Any]()
    for name, each in table.items():
        must = f" Must be {each.check[1]}." if each.check else ""
        schemas[name] = {"description": with_known(each.said_in_file, partial(known, name)) + must}
        if each.default is not None:
            schemas[name]["default"] = each.default
        one = {"type": _IN_JSON[each.kind]} | ({"enum": each.choices} if each.choices else {})
        if each.several:
            forms = [one, {"type": "array", "items": one}, {"type": "string"}]
            schemas[name]["anyOf"] = forms if each.by_commas else forms[:2]
        elif not each.accept:
            schemas[name] |= one
    return schemas


def from_home(value: str | Path) -> Path:
    """Return ``value`` as a path, with a leading ~ expanded. InputError if the home folder is not known."""
    try:
        return Path(value).expanduser()
    except RuntimeError:
        raise InputError(
            f"{value}: the home folder for ~ is not known; write the whole path"
        ) from None
