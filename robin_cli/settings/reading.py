"""Reading and checking of settings from flags, variables, TOML files, Python keywords and runs.

A setting comes from its flag, else its ``ROBIN_*`` variable, else ``--config`` or ./robin.toml, else
its default. Errors name the flag, the variable, or the file and the setting.
"""

from __future__ import annotations

import os
import shlex
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import orjson

from robin_cli.data.local import read_small_file, shipped
from robin_cli.data.remote import scheme_of
from robin_cli.model.errors import InputError, did_you_mean, shown
from robin_cli.settings.setting import Setting
from robin_cli.settings.table import TABLE, Settings
from robin_cli.settings.trust import Source, check_found_file

DEFAULT_FILE = "robin.toml"
SIMULATE = "simulate"
"""The table of a TOML file with the settings of robin simulate."""

# --group names groups for preferences, too
_ONLY_WITH = {
    **dict.fromkeys(("margin", "target_wrong", "certify", "agree"), "decide"),
    "error_rate": "certify",
    "confidence": "agree",
}
"""Settings that need another one."""

_LONGEST_QUOTE = 200
_WORDS = {
    str: "text in quotes",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    Mapping: "a table",
}
_SWITCHES = {"true": True, "1": True, "yes": True, "on": True}
_SWITCHES |= {"false": False, "0": False, "no": False, "off": False}
_FROM_TEXT: dict[Any, tuple[Callable[[str], Any], str]] = {
    int: (lambda text: int(text.replace(",", "")), "no whole number; write 3000 or 3,000"),
    float: (float, "no number"),
    bool: (lambda text: _SWITCHES[text.lower()], "neither true nor false"),
}
"""How the texts of flags and variables are read, and what is wrong with one that cannot be."""


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


def checked(
    values: Mapping[str, Any],
    source: str | None = None,
    table: Mapping[str, Setting] = TABLE,
) -> dict[str, Any]:
    """Return the values that are set (not None, no empty list), each as its setting's type.

    Args:
        values: by the name of the setting.
        source: the place of the values for errors; None for flags.

    Raises:
        InputError: a value has another type, or is out of range; it names the place.
    """
    return {
        name: _typed(table[name], value, f"{source}: {name}" if source else table[name].flag)
        for name, value in values.items()
        if value is not None and not (isinstance(value, list | tuple) and not value)
    }


def variables(settings: Iterable[Setting]) -> dict[str, Any]:
    """Return the values of ``settings`` in variables; a shell's quotes hold a list's items together.

    Raises:
        InputError: a value is wrong; it names the variable.
    """
    values = dict[str, Any]()
    for setting in settings:
        variable = next(filter(os.environ.get, setting.variables), None)
        if variable is None:
            continue
        text: Any = os.environ[variable]
        is_file = setting.file and os.path.exists(text)  # noqa: PTH110  # Path's raises for a long text
        if setting.several and not setting.by_commas:
            try:
                text = [text] if is_file else shlex.split(text)
            except ValueError as error:
                raise InputError(
                    f"{variable}: cannot be read ({error}); write it as in a shell"
                ) from None
        values[setting.name] = parsed(setting, text, variable)
    return values


def parsed(setting: Setting, value: Any, place: str) -> Any:
    """Return the value of a flag or a variable, whose numbers are texts. InputError as :func:`checked`."""
    if setting.kind in _FROM_TEXT and not setting.by_commas:
        read, wrong = _FROM_TEXT[setting.kind]
        try:
            value = [read(text) for text in value] if setting.several else read(str(value))
        except (ValueError, KeyError):
            quoted = shown(", ".join(map(str, _several(value))), _LONGEST_QUOTE)
            raise InputError(f'{place} "{quoted}": is {wrong}') from None
    return _typed(setting, value, place)


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


def _typed(setting: Setting, value: Any, place: str) -> Any:
    """Return ``value`` as the setting's type: accepted, split, converted, checked and tidied."""
    if getattr(value, "ndim", None) == 0:
        value = value.item()  # a numpy number
    if setting.file and isinstance(value, Path):
        value = str(value)
    if isinstance(value, Mapping):
        value = dict(value)
    if setting.accept:
        value = setting.accept(value, place)
    if setting.by_commas and isinstance(value, str):
        value = [item.strip() for item in value.split(",") if item.strip()]
    if setting.several and not isinstance(value, list | tuple):
        value = [value]
    wanted = setting.check[1] if setting.check else _either(setting.choices)
    quoted = (
        "" if setting.secret else shown(", ".join(map(_plain, _several(value))), _LONGEST_QUOTE)
    )
    try:
        value = msgspec.convert(value, setting.type, strict=not setting.by_commas)
        orjson.dumps(value)
    except msgspec.ValidationError:
        is_of_kind = setting.kind in {str, Mapping} and isinstance(value, setting.kind)
        if wanted and (setting.by_commas or setting.choices or is_of_kind):
            raise InputError(f"{place} {quoted}: must be {wanted}") from None
        words = _WORDS[setting.kind] + ", or a list of such" * setting.several
        instead = "" if setting.secret else f", not {shown(repr(value), _LONGEST_QUOTE)}"
        raise InputError(f"{place} must be {words}{instead}") from None
    except TypeError as error:
        raise InputError(f"{place}: cannot be kept in a file ({error})") from None
    if setting.check and not setting.check[0](value):
        raise InputError(f"{place}{' ' * bool(quoted)}{quoted}: must be {wanted}")
    return setting.tidy(value, place) if setting.tidy else value


def _plain(value: Any) -> str:
    """Return a value as people type it: 0, not 0.0."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def _several(value: Any) -> list[Any] | tuple[Any, ...]:
    return value if isinstance(value, list | tuple) else [value]


def _either(choices: tuple[str, ...]) -> str:
    if len(choices) > 3:
        return f"one of {', '.join(choices)}"
    return f"{', '.join(choices[:-1])} or {choices[-1]}" if choices else ""


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
    return from_folder_of(path, checked(content, str(path)), TABLE)


def from_folder_of(
    path: Path, settings: Mapping[str, Any], table: Mapping[str, Setting]
) -> dict[str, Any]:
    """Return the settings of a file at ``path``, with relative paths resolved from its folder."""

    def resolved(name: str, value: str) -> str:
        is_ready_template = name == "template" and not any(mark in value for mark in "./\\")
        if is_ready_template or value == "-" or scheme_of(value):
            return value
        return str(path.parent / from_home(value))

    from_folder = dict(settings)
    for name, value in settings.items():
        if table[name].file and table[name].several:
            from_folder[name] = tuple(resolved(name, each) for each in value)
        elif table[name].file:
            from_folder[name] = resolved(name, value)
    return from_folder


def toml_content(path: Path) -> dict[str, Any]:
    """Return the content of a TOML file. InputError if it cannot be read, or is not TOML."""
    try:
        return tomllib.loads(read_small_file(path, str(path)))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise InputError(
            f"{path}: not TOML that robin can read ({shown(error, _LONGEST_QUOTE)})"
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
    """Return ``value`` with a leading ~ expanded, if the home folder is known."""
    return Path(os.path.expanduser(value))  # noqa: PTH111  # Path's raises without a home
