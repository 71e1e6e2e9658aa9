"""Flags, environment and TOML -> one frozen RunConfig.

A setting comes from its flag, else its ``ROBIN_*`` variable (the CLI reads both), else ``--config`` or ./robin.toml, else
its default. Unknown names and wrong types are errors that say where they stand.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson

from robin_cli.errors import InputError, did_you_mean
from robin_cli.shipped import shipped
from robin_cli.small_files import read_small_file
from robin_cli.trust import DEFAULT_KEY_ENV, NO_KEY, Source, check_found_file, host_of, named_in

DEFAULT_FILE = "robin.toml"
FORMATS = ("csv", "tsv", "jsonl", "parquet", "xlsx", "table")
SORTS = ("width", "score", "variance", "data")
"""What can come first in the table of scores: the widest interval, the highest score, the largest variance, the first pair."""
DEFAULT_SORT = "width"
DEFAULT_TOP = 60
AUTO = "auto"
SIMULATE = "simulate"
"""The table of a TOML file that holds the settings of robin simulate."""


@dataclass(frozen=True, slots=True)
class RunConfig:
    """All settings of ``robin judge``. Names are those of the flags, with underscores."""

    data: tuple[str, ...] = ()
    budget: int | None = None
    attribute: str | None = None
    rubric: tuple[str, ...] = ()
    template: str | None = None
    base_url: tuple[str, ...] = ()
    model: tuple[str, ...] = ()
    api_key_env: tuple[str, ...] = (DEFAULT_KEY_ENV,)
    scheduler: str = "robin-hood"
    delta: float = 0.007
    mode: str = "practice"
    objective: str = "worst-case"
    variances: str | None = None
    concurrency: str = AUTO
    samples_per_request: int = 1
    scoring: str = "text"
    answer_format: str = "text"
    rpm: float | None = None
    tpm: float | None = None
    max_cost: float | None = None
    no_fuse: bool = False
    price_in: tuple[float, ...] = ()
    price_out: tuple[float, ...] = ()
    temperature: float = 1.0
    top_p: float = 1.0
    max_tokens: int = 1024
    timeout: float = 120.0
    max_retries: int = 6
    max_reply: float = 4.0
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    seed: int | None = None
    limit: int | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    skip_bad_rows: bool = False
    run: str | None = None
    format: str | None = None
    output: str | None = None
    quiet: bool = False
    debug_http: str | None = None
    with_text: bool = False
    wide: bool = False
    sort: str = DEFAULT_SORT
    top: int = DEFAULT_TOP
    raw: bool = False
    source: Source = field(default_factory=Source)
    """Where the settings that were not flags came from, and whose word they are."""

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes asked for, in order, each once; none where the rubrics' own files say it.

        Raises:
            InputError: an empty name.
        """
        if not self.attribute:
            return ()
        names = [name.strip() for name in self.attribute.split(",")]
        if not all(names):
            raise InputError(f'--attribute "{self.attribute}": an empty name; separate attributes by single commas')
        return tuple(dict.fromkeys(names))

    @property
    def workers(self) -> int | None:
        """Calls under way at a time; None for auto."""
        return None if self.concurrency == AUTO else int(self.concurrency)


_PATHS = frozenset({"run", "output", "variances", "debug_http", "template"})
SEVERAL = frozenset({"data", "base_url", "rubric", "model", "api_key_env", "price_in", "price_out"})
"""Settings that may be given more than once; in a file, as a list."""

_NUMBERS = frozenset({"price_in", "price_out"})
_EXCERPT = 200
_TAKEN = frozenset({"messages", "model", "n", "stream"})
_Check = tuple[Callable[[Any], bool], str]
_MOST_CALLS = 1_000_000_000
_MOST_AT_A_TIME = 10_000
_DIGITS = 9
_MOST_RETRIES = 1_000
_LONGEST_S = 1_000_000
_CHECKS: Mapping[str, _Check] = {
    "budget": (lambda v: 1 <= v <= _MOST_CALLS, f"a number of judge calls, at least 1 and at most {_MOST_CALLS:,}"),
    "delta": (lambda v: 0 < v <= 1, "a failure probability above 0 and at most 1, for example 0.007"),
    "objective": (lambda v: v in {"worst-case", "mean-error"}, "worst-case or mean-error"),
    "mode": (lambda v: v in {"practice", "theory"}, "practice or theory"),
    "concurrency": (
        lambda v: v == AUTO or (v.isascii() and v.isdecimal() and len(v) <= _DIGITS and 1 <= int(v) <= _MOST_AT_A_TIME),
        f"a number, at most {_MOST_AT_A_TIME:,} and at least 1, or auto",
    ),
    "samples_per_request": (lambda v: 1 <= v <= 128, "a number of ratings, 1 to 128"),
    **dict.fromkeys(("rpm", "tpm"), (lambda v: 0 < v < math.inf, "a number a minute, above 0")),
    "max_cost": (lambda v: 0 < v < math.inf, "US dollars, above 0"),
    **dict.fromkeys(
        ("price_in", "price_out"),
        (lambda v: all(0 <= each < math.inf for each in v), "US dollars for a million tokens, at least 0"),
    ),
    "extra_body": (
        lambda v: not _TAKEN & v.keys(),
        "without " + ", ".join(sorted(_TAKEN)) + ", which robin sets itself (several ratings a request: "
        "--samples-per-request)",
    ),
    "scoring": (lambda v: v in {"text", "logprobs"}, "text or logprobs"),
    "answer_format": (lambda v: v in {"text", "json_schema", "grammar"}, "text, json_schema or grammar"),
    "temperature": (lambda v: 0 <= v <= 2, "between 0 and 2"),
    "top_p": (lambda v: 0 < v <= 1, "above 0 and at most 1"),
    "max_tokens": (lambda v: 1 <= v < 2**31, "1 to 2147483647"),
    "timeout": (lambda v: 0 < v <= _LONGEST_S, f"seconds, above 0 and at most {_LONGEST_S:,}"),
    "max_retries": (lambda v: 0 <= v <= _MOST_RETRIES, f"0 to {_MOST_RETRIES:,}"),
    "max_reply": (lambda v: 0.0625 <= v <= 1024, "MiB, 0.0625 to 1024"),
    "limit": (lambda v: v >= 1, "a number of pairs, at least 1"),
    "columns": (
        lambda v: all(isinstance(each, str) for item in v.items() for each in item),
        'names as text: prompt = "question", response = "answer"',
    ),
    "format": (lambda v: v in FORMATS, "one of " + ", ".join(FORMATS)),
    "sort": (lambda v: v in SORTS, "one of " + ", ".join(SORTS)),
    "top": (lambda v: v >= 1, "a number of rows, at least 1"),
    "seed": (lambda v: 0 <= v < 2**31, "between 0 and 2147483647"),
    "api_key_env": (
        lambda v: all(each == NO_KEY or (each.isidentifier() and not each.startswith("sk_")) for each in v),
        "the NAME of an environment variable that holds the key, never the key itself (- for none)",
    ),
}


def load_config(given: Mapping[str, Any], file: str | None) -> RunConfig:
    """One configuration out of the flags and variables ``given`` (None: not given) and a TOML file.

    Args:
        given: by name; ``extra_body`` as JSON text, ``columns`` as ``ours=theirs,…``.
        file: path of a TOML file, or the name of a shipped config; None for ./robin.toml where there is one.

    Raises:
        InputError: an unknown name, a wrong type or a value out of range, with the place it stands; or what a ./robin.toml
            that was found and not named may not say.
    """
    flags = checked_flags(given)
    if file is not None:
        path = find_config(file)
        return RunConfig(**{**read_toml(path), **flags, "source": Source(str(path))})
    path = Path(DEFAULT_FILE)
    if not path.is_file():
        return RunConfig(**flags)
    found = read_toml(path)
    check_found_file(path, found, flags)
    return RunConfig(**{**found, **flags, "source": Source(str(path), "folder", named_in(flags))})


def checked_flags(given: Mapping[str, Any]) -> dict[str, Any]:
    """The flags that were given, each checked, ``extra_body`` and ``columns`` read.

    Raises:
        InputError: a value out of range, with its flag.
    """
    flags = {name: value for name, value in given.items() if value is not None}
    if isinstance(text := flags.get("extra_body"), str):
        flags["extra_body"] = _json_object(text)
    if isinstance(text := flags.get("columns"), str):
        flags["columns"] = _mapping(text)
    for name in SEVERAL & flags.keys():
        if not flags[name]:
            del flags[name]  # Typer's way to say that a flag of many values was not given
        else:
            flags[name] = tuple(map(float if name in _NUMBERS else str, flags[name]))
    for name, value in flags.items():
        _check_storable(value, f"--{name.replace('_', '-')}")
        _check(name, value, f"--{name.replace('_', '-')}")
    return flags | ({"base_url": checked_urls(flags["base_url"])} if "base_url" in flags else {})


def checked_record(settings: Mapping[str, Any], place: str) -> None:
    """Hold the settings that a run recorded, by name, to what flags are held to; other names are passed over.

    Raises:
        InputError: a value of another type, or out of range.
    """
    declared = {each.name: each for each in fields(RunConfig) if each.name != "source"}
    for name, value in settings.items():
        if name not in declared or (value is None and (name in SEVERAL or declared[name].default is None)):
            continue
        if name in SEVERAL:
            kinds = (int, float) if name in _NUMBERS else (str,)
            listed = value if isinstance(value, list) else [value]
            of_type: object = listed
            if not all(type(each) in kinds for each in listed):
                raise InputError(f"{place}: {name}: not {'numbers' if name in _NUMBERS else 'text'}")
        else:
            of_type = of_its_type(name, value, place)
        _check(name, of_type, f"{place}: {name}")


def read_toml(path: Path) -> dict[str, Any]:
    """The settings in a TOML file; paths in it count from the file's own folder.

    Raises:
        InputError: no such file, not TOML, an unknown name, a wrong type or a value out of range.
    """
    content = toml_content(path)
    known = {each.name for each in fields(RunConfig)} - {"source"}
    settings: dict[str, Any] = {}
    for key, raw in content.items():
        if key == SIMULATE:
            continue
        name = key.replace("-", "_")
        if name not in known:
            hint = did_you_mean(name, known) or "; robin init writes a file with all names"
            raise InputError(f'{path}: unknown setting "{key}"{hint}')
        value = of_its_type(name, raw, path)
        _check(name, value, f"{path}: {key}")
        if isinstance(value, list) and name in SEVERAL:
            here = name in {"data", "rubric"}
            each_as = (lambda one: _from_folder_of(path, str(one))) if here else float if name in _NUMBERS else str
            value = tuple(map(each_as, value))
        ready = name == "template" and not any(mark in str(value) for mark in "./\\")  # the name of a shipped one
        settings[name] = _from_folder_of(path, str(value)) if name in _PATHS and not ready else value
    return settings | ({"base_url": checked_urls(settings["base_url"])} if "base_url" in settings else {})


def toml_content(path: Path) -> dict[str, Any]:
    """What a TOML file holds. InputError where it cannot be read, or is none."""
    try:
        return tomllib.loads(read_small_file(path, str(path)))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    except RecursionError:
        raise InputError(f"{path}: nested too deeply; settings have two levels at most") from None
    except ValueError as error:  # TOMLDecodeError, or a number of thousands of digits
        raise InputError(f"{path}: not TOML that robin can read ({str(error)[:_EXCERPT]})") from None


def find_config(file: str) -> Path:
    """The file of that name that ships with robin, or the TOML file ``file``.

    Raises:
        InputError: there is neither.
    """
    ready = shipped("configs") / f"{file}.toml"
    if "/" not in file and "\\" not in file and ready.is_file():
        return ready  # also where a file of its name lies in the working folder: ./NAME is that one
    path = Path(file)
    if path.is_file() or path.is_fifo():
        return path
    ready_ones = ready_configs()
    raise InputError(
        f"--config {file}: no such file; ready ones, by name, are {', '.join(ready_ones)}{did_you_mean(file, ready_ones)}"
    )


def ready_configs() -> list[str]:
    """Names of the configs that ship with robin, sorted."""
    configs = sorted(shipped("configs").glob("*.toml"))
    return [entry.stem for entry in configs if SIMULATE not in tomllib.loads(entry.read_text(encoding="utf-8"))]


def of_its_type(name: str, value: object, place: object) -> object:
    """``value`` as the setting's type; TOML and Python have types of their own, and a number may stand for a float or for text.

    Raises:
        InputError: it is of another type; ``place`` says where it stands.
    """
    if hasattr(value, "item"):  # a number of numpy's
        value = value.item()
    _check_storable(value, f"{place}: {name}")
    declared = next(each.type for each in fields(RunConfig) if each.name == name)
    if name == "attribute" and isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ",".join(value)
    if name in SEVERAL:
        listed = value if isinstance(value, list) else [value]
        kinds = (int, float) if name in _NUMBERS else (str,)
        if listed and all(type(each) in kinds for each in listed):
            return listed
    if name == "concurrency" and type(value) is int:
        return str(value)
    if type(value) is int and "float" in str(declared):
        return float(value)
    wanted = {"str": str, "int": int, "float": float, "bool": bool, "Mapping": dict, "tuple": list}
    kind = next(kind for word, kind in wanted.items() if str(declared).startswith(word))
    if type(value) is not kind:
        raise InputError(f"{place}: {name} must be {_NAMES[kind]}, not {value!r}")
    return value


_NAMES = {
    str: "text in quotes",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    dict: "a table",
    list: "text in quotes, or a list of such",
}


def _check_storable(value: object, place: str) -> None:
    """InputError for what no file, address or request takes, at any depth: NUL, half a character, more than 64 bits."""
    waiting: list[object] = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, Mapping):
            waiting += [*each.keys(), *each.values()]
        elif isinstance(each, list | tuple):
            waiting += each
        elif isinstance(each, int) and not -(2**63) <= each < 2**63:
            raise InputError(f"{place}: a number of more than 64 bits; none is needed here")
        elif isinstance(each, str) and any(char == "\0" or "\ud800" <= char <= "\udfff" for char in each):
            raise InputError(f"{place}: holds a NUL, or bytes that are no UTF-8, which no name can; write it without")


def _check(name: str, value: Any, place: str) -> None:
    if name not in _CHECKS:
        return
    holds, wanted = _CHECKS[name]
    if (isinstance(value, float) and math.isnan(value)) or not holds(value):
        shown = "" if name == "api_key_env" else f" {value}"
        raise InputError(f"{place}{shown}: must be {wanted}")
    if name == "extra_body":
        try:
            orjson.dumps(value)
        except TypeError as error:
            raise InputError(f"{place}: cannot be sent ({error}); give what JSON has") from None


def checked_urls(urls: Sequence[object], flag: str = "--base-url") -> tuple[str, ...]:
    """Addresses, each once, without a stroke at the end. InputError, naming ``flag``, for what is none or would leak."""
    checked = []
    for url in urls:
        try:
            parts = urlsplit(str(url))
            if "@" in parts.netloc or parts.query or parts.fragment:
                raise InputError(
                    f"{flag}: must hold no user, password or query (it is written to disk); keys go into --api-key-env"
                )
            host_of(str(url))
        except ValueError:
            raise InputError(f"{flag}: must be an address such as http://localhost:8000/v1, in ASCII") from None
        checked.append(str(url).rstrip("/"))
    return tuple(dict.fromkeys(checked))


def _json_object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"--extra-body: not JSON ({error})") from None
    if not isinstance(value, dict):
        raise InputError("--extra-body: must be a JSON object, for example '{\"top_k\": 40}'")
    return value


def _mapping(text: str) -> dict[str, str]:
    items = [item.partition("=") for item in text.split(",") if item.strip()]
    if not items or not all(name.strip() and theirs.strip() for name, _, theirs in items):
        raise InputError(
            f'--columns "{text}": write ours=theirs,ours=theirs, for example prompt=question,response=answer'
        )
    return {name.strip(): theirs.strip() for name, _, theirs in items}


def _from_folder_of(path: Path, value: str) -> str:
    return value if value == "-" or value.startswith("hf://") else str(path.parent / from_home(value))


def from_home(value: str | Path) -> Path:
    """``value`` as a path, with the home folder for a ~ at its beginning; InputError where that is not known."""
    try:
        return Path(value).expanduser()
    except RuntimeError:
        raise InputError(f"{value}: the home folder that ~ stands for is not known; write the path out") from None
