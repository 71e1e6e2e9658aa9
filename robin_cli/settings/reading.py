"""Reading and checking of settings from flags, variables, TOML files, Python keywords and runs.

A setting comes from its flag, else its ``ROBIN_*`` variable (the CLI reads both), else ``--config``
or ./robin.toml, else its default. Errors name the flag, the variable, or the file and the setting.
"""

from __future__ import annotations

import difflib
import os
import re
import reprlib
import tomllib
from collections.abc import Mapping, Set
from pathlib import Path
from typing import Any

import msgspec

from robin_cli.data.local import read_small_file, shipped
from robin_cli.data.remote import scheme_of
from robin_cli.model.errors import InputError, did_you_mean, shown
from robin_cli.settings.setting import Setting
from robin_cli.settings.table import SIMULATE, SIMULATION, TABLE, Settings, SimulationSettings
from robin_cli.settings.trust import Source, check_found_file

DEFAULT_FILE = "robin.toml"
_PREFIX = "ROBIN_"

# --group names groups for preferences, too
_ONLY_WITH = {
    **dict.fromkeys(("margin", "target_wrong", "certify", "agree"), "decide"),
    "error_rate": "certify",
    "confidence": "agree",
}
"""Settings that need another one."""

_LONGEST_QUOTE = 200
_SHORTENED = reprlib.Repr()
_SHORTENED.maxlevel, _SHORTENED.maxstring, _SHORTENED.maxother = 3, _LONGEST_QUOTE, _LONGEST_QUOTE
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_WORDS = {
    str: "text in quotes",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    Mapping: "a table",
}


def load_settings(flags: Mapping[str, Any], file: str | None) -> Settings:
    """Return the settings from flags and variables (None: not set) and a TOML file.

    Args:
        flags: by name; ``extra_body`` as JSON text, ``columns`` as ``ours=theirs,…``.
        file: the path of a TOML file, or the name of a shipped config; None for ./robin.toml, if it
            exists.

    Raises:
        InputError: an unknown name, a wrong type or a value out of range, with its place; or a
            setting that a ./robin.toml that the user did not name may not have.
    """
    by_flags = checked(flags)
    path = Path(DEFAULT_FILE) if file is None else find_config(file)
    if file is None and not path.is_file():
        return Settings(**together(by_flags, {}))
    in_file = read_toml(path)
    source = Source(str(path))
    if file is None:
        check_found_file(path, in_file, by_flags, TABLE)
    elif "price_in" not in by_flags:
        source = Source(str(path), prices=f"--config {path}")
    return Settings(**together(by_flags, in_file), source=source)


def together(
    flags: dict[str, Any], in_file: dict[str, Any], table: Mapping[str, Setting] = TABLE
) -> dict[str, Any]:
    """Return the settings for a new run, by name. InputError for two that exclude each other.

    Settings of a file with their default values never conflict.
    """
    in_use = {name: value for name, value in in_file.items() if value != table[name].default}
    in_use |= flags
    if "decide" in in_use and "target_error" in in_use:
        raise InputError(
            "--decide and --target-error: a run ends when few decisions are likely wrong, or at an "
            "error; leave one of the two out"
        )
    for name, needed in _ONLY_WITH.items():
        if name in in_use and needed not in in_use:
            raise InputError(f"{TABLE[name].flag}: is for {TABLE[needed].flag}, which is not given")
    return {**in_file, **flags}


def load_simulation(flags: Mapping[str, Any], file: str | None) -> SimulationSettings:
    """Return the settings of ``robin simulate``: flags, else the table [simulate] of a TOML file.

    Raises:
        InputError: there is no pool or budget, an unknown name, or a wrong value.
    """
    in_file = {}
    if file:
        path = find_config(file)
        content = toml_content(path).get(SIMULATE, {})
        if not isinstance(content, dict):
            raise InputError(
                f"{path}: {SIMULATE} must be a table, [{SIMULATE}] with the settings under it"
            )
        if unknown := sorted(content.keys() - SIMULATION.keys()):
            raise InputError(f'{path}: [{SIMULATE}] has no setting "{unknown[0]}"')
        in_file = _from_folder_of(path, checked(content, str(path), SIMULATION), SIMULATION)
    settings = SimulationSettings(**together(checked(flags, table=SIMULATION), in_file, SIMULATION))
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
    """Return the values that are set (not None, no empty list), each as its setting's type.

    Args:
        values: by the name of the setting.
        source: the place of the values for errors; None for flags.
        tidied: False to skip :attr:`Setting.tidy`: a run can be read whatever its addresses are.

    Raises:
        InputError: a value has another type, or is out of range; it names the place.
    """
    return {
        name: _typed(
            table[name], value, f"{source}: {name}" if source else table[name].flag, tidied=tidied
        )
        for name, value in values.items()
        if value is not None and not (isinstance(value, list | tuple) and not value)
    }


def check_variable(name: str, value: Any) -> None:
    """Raise InputError, which names the variable, for a value of the setting ``name`` in it."""
    variable = next(each for each in TABLE[name].variables if os.environ.get(each))
    _typed(TABLE[name], value, variable, tidied=True)


def doubtful_variables() -> list[str]:
    """Return a line for each ROBIN_* variable that has nearly the name of a setting's."""
    known, lines = [name.upper() for name in TABLE], []
    for variable in os.environ:
        name = variable.removeprefix(_PREFIX)
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.7)
        if near and name != variable and name not in known:
            lines.append(
                f"note: {variable} is set, but is not a setting of robin; {_PREFIX}{near[0]} is one"
            )
    return lines


def check_budget(settings: Settings) -> None:
    """Raise InputError for settings without a budget, or with a run that is no local folder."""
    if settings.budget is None and settings.max_cost is None:
        raise InputError(
            "--budget is missing: say how many judge calls to spend, for example --budget 50000, "
            "or US dollars, --max-cost 20"
        )
    if settings.run and scheme_of(settings.run):
        raise InputError(
            f"--run {settings.run}: a run is a folder on this machine; its scores may go to an "
            "address, with -o"
        )


def check_names(names: Set[str], known: Set[str]) -> None:
    """Raise InputError for the first of ``names`` that is not a setting."""
    if unknown := sorted(names - known):
        raise InputError(f'no setting "{unknown[0]}"{did_you_mean(unknown[0], known)}')


def _typed(setting: Setting, value: Any, place: str, *, tidied: bool) -> Any:
    """Return ``value`` as the setting's type: accepted, split, converted, checked and tidied."""
    if getattr(value, "ndim", None) == 0:
        value = value.item()  # a numpy number
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
        is_of_kind = setting.kind in {str, Mapping} and isinstance(value, setting.kind)
        if wanted and (setting.by_commas or setting.choices or is_of_kind):
            raise InputError(f"{place} {_quoted(value)}: must be {wanted}") from None
        words = _WORDS[setting.kind] + ", or a list of such" * setting.several
        instead = "" if setting.secret else f", not {_SHORTENED.repr(value)}"
        raise InputError(f"{place} must be {words}{instead}") from None
    if setting.check and not setting.check[0](value):
        instead = "" if setting.secret else f" {_quoted(value)}"
        raise InputError(f"{place}{instead}: must be {wanted}")
    return setting.tidy(value, place) if setting.tidy and tidied else value


def _quoted(value: Any) -> str:
    items = value if isinstance(value, list | tuple) else [value]
    texts = (item if isinstance(item, str) else _SHORTENED.repr(item) for item in items)
    return shown(", ".join(texts), _LONGEST_QUOTE)


def _one_of(choices: tuple[str, ...]) -> str:
    if len(choices) > 3:
        return f"one of {', '.join(choices)}"
    return f"{', '.join(choices[:-1])} or {choices[-1]}" if choices else ""


def _check_storable(value: object, place: str) -> None:
    """Raise InputError for what no file can hold, at any depth: NUL, half a character, 65 bits."""
    if isinstance(value, Mapping):
        value = [*value.keys(), *value.values()]
    if isinstance(value, list | tuple):
        for item in value:
            _check_storable(item, place)
    elif isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise InputError(f"{place}: a number of more than 64 bits; write a smaller one")
    elif isinstance(value, str) and _UNSTORABLE.search(value):
        raise InputError(
            f"{place}: holds a NUL, or bytes that are not UTF-8; write it without them"
        )


def read_toml(path: Path) -> dict[str, Any]:
    """Return the settings in a TOML file; paths in it are relative to its folder.

    Raises:
        InputError: no such file, not TOML, an unknown name, a wrong type or a value out of range.
    """
    content = {name.replace("-", "_"): value for name, value in toml_content(path).items()}
    content.pop(SIMULATE, None)
    for name in content:
        if name not in TABLE:
            hint = did_you_mean(name, TABLE.keys()) or "; robin init writes a file with all names"
            raise InputError(f'{path}: unknown setting "{name}"{hint}')
    return _from_folder_of(path, checked(content, str(path)), TABLE)


def _from_folder_of(
    path: Path, settings: Mapping[str, Any], table: Mapping[str, Setting]
) -> dict[str, Any]:
    """Return the settings of a file at ``path``, with relative paths resolved from its folder."""

    def resolved(name: str, value: str) -> str:
        is_ready_template = name == "template" and not any(mark in value for mark in "./\\")
        if is_ready_template or value == "-" or scheme_of(value):
            return value
        return str(path.parent / from_home(value))

    from_folder = dict(settings)
    for name in settings:
        if table[name].file and table[name].several:
            from_folder[name] = tuple(resolved(name, value) for value in settings[name])
        elif table[name].file:
            from_folder[name] = resolved(name, settings[name])
    return from_folder


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
            f"{path}: not TOML that robin can read ({str(error)[:_LONGEST_QUOTE]})"
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
    names = ready_configs()
    raise InputError(
        f"--config {file}: no such file; ready ones, by name, are {', '.join(names)}"
        f"{did_you_mean(file, names)}"
    )


def ready_configs() -> list[str]:
    """Return the names of the shipped configs, sorted."""
    return [
        file.stem
        for file in sorted(shipped("configs").glob("*.toml"))
        if SIMULATE not in tomllib.loads(file.read_text(encoding="utf-8"))
    ]


def from_home(value: str | Path) -> Path:
    """Return ``value`` with a leading ~ expanded. InputError if the home folder is not known."""
    try:
        return Path(value).expanduser()
    except RuntimeError:
        raise InputError(
            f"{value}: the home folder for ~ is not known; write the whole path"
        ) from None
