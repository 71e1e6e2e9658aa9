"""Data sets of the Hugging Face hub as rows, by hf://owner/name?split=validation."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from robin_cli.data.rows import Row, RowTable, Wanted
from robin_cli.model.errors import InputError, did_you_mean, shown
from robin_cli.model.plugins import install

_NAME = re.compile(r"\w[\w.-]*/\w[\w.-]*", re.ASCII)
_TOKEN = re.compile(r"hf_\w+|(?<=Bearer )\S+")
_KEYS = {"split": "split", "config": "name", "revision": "revision", "data_dir": "data_dir"}
"""The settings of an address, and the arguments of ``load_dataset`` that they stand for."""

_EXAMPLE = "hf://nvidia/HelpSteer2?split=validation"
_FIRST_WITHOUT_SCRIPTS = 4
"""From this major version of ``datasets`` on, it never runs Python code of a data set."""

_PLAIN = {"Value", "ClassLabel"}
_REASONS = {
    "DatasetNotFoundError": "no such data set on the hub, and no such folder here; or it is private "
    "or gated. Check owner and name; for a private one, hf auth login, or set HF_TOKEN",
    **dict.fromkeys(
        ("ConnectionError", "TimeoutError", "HTTPError", "OfflineModeIsEnabled"),
        "the hub cannot be reached ({kind}). Check the network (and HF_HUB_OFFLINE), or download "
        "the files elsewhere and name them: robin judge FILE.parquet",
    ),
    **dict.fromkeys(
        ("EmptyDatasetError", "DataFilesNotFoundError"),
        "holds no data files that can be read. Check owner, name and data_dir, or download the "
        "files and name them",
    ),
}
"""The fact and the next step by the error's class: the library's messages change."""


def read_hub(url: str, wanted: Wanted) -> RowTable:
    """Return the rows of a data set; they are downloaded as they are read.

    A folder ``owner/name`` in the working directory comes before the hub, as ``load_dataset`` has
    it. Only columns that are ``wanted``, or hold texts, numbers and times, are decoded. Code in a
    data set is never run.

    Raises:
        InputError: no library, no such data set, config or split, no network; also later.
    """
    name, options = _address(url)
    split = options.pop("split", None)
    with _input_errors(url):
        rows = _split_of(_splits(name, options), split, url)
        features = rows.features
        if features is not None:
            heads = {each.partition(".")[0] for each in wanted.names} | {*wanted.names}
            needed = [each for each in features if each in heads]
            plain = [each for each, what in features.items() if wanted.others and _is_plain(what)]
            rows = rows.select_columns(list(dict.fromkeys([*needed, *plain])))
    return RowTable(list(_leaf_names(features)) if features else None, "row", _rows(rows, url))


def _address(url: str) -> tuple[str, dict[str, str]]:
    """Return the name in an address, and its settings. InputError if one is wrong."""
    parts = urlsplit(url)
    name = f"{parts.netloc}{parts.path}"
    if not _NAME.fullmatch(name) or parts.fragment:
        # The name is not shown: a token may stand here by mistake.
        raise InputError(
            f"hf://: names no data set. Write hf://OWNER/NAME?split=SPLIT, as {_EXAMPLE}."
        )
    settings: dict[str, str] = {}
    for key, value in parse_qsl(parts.query, keep_blank_values=True):
        fault = ""
        if key not in _KEYS:
            hint = did_you_mean(key, _KEYS) or f"; there are {', '.join(_KEYS)}"
            fault = f'no setting "{shown(key)}"{hint}'
        elif key in settings or not value:
            fault = f"{key} {'stands twice' if key in settings else 'is empty'}"
        if fault:
            raise InputError(f"hf://{name}: {fault}. Write it as {_EXAMPLE}.")
        settings[key] = value
    return name, {_KEYS[key]: value for key, value in settings.items()}


def _splits(name: str, options: Mapping[str, str]) -> Mapping[str, Any]:
    """Return the splits of a data set. The libraries are quiet: robin reports errors itself."""
    import datasets
    from huggingface_hub.utils import disable_progress_bars, logging  # type: ignore[attr-defined]

    if int(datasets.__version__.partition(".")[0]) < _FIRST_WITHOUT_SCRIPTS:
        raise _no_library(f"datasets {datasets.__version__} is too old")
    datasets.disable_progress_bars()
    disable_progress_bars()
    datasets.logging.set_verbosity_error()
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    splits: Mapping[str, Any] = datasets.load_dataset(name, streaming=True, **options)
    return splits


def _split_of(splits: Mapping[str, Any], name: str | None, url: str) -> Any:
    if name is None and len(splits) == 1:
        return next(iter(splits.values()))
    if name is not None and name in splits:
        return splits[name]
    fact = "has several splits" if name is None else f'has no split "{shown(name)}"'
    bare, names = url.partition("?")[0], [shown(each) for each in splits]
    raise InputError(
        f"{bare}: {fact}; it has {', '.join(names[:12])}. "
        f"Name one of them: {bare}?split={names[-1]}"
    )


def _leaf_names(features: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for name, feature in features.items():
        if isinstance(feature, dict):
            yield from _leaf_names(feature, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def _is_plain(feature: Any) -> bool:
    """Return whether a column holds only texts, numbers and times, also inside objects."""
    if isinstance(feature, dict):
        return all(map(_is_plain, feature.values()))
    return type(feature).__name__ in _PLAIN and "binary" not in feature.dtype


def _rows(rows: Any, url: str) -> Iterator[tuple[int, Row]]:
    with _input_errors(url):
        yield from enumerate(rows, 1)


@contextmanager
def _input_errors(url: str) -> Iterator[None]:
    """Raise the errors of the library and the network as InputError, short and without tokens."""
    bare = url.partition("?")[0]
    try:
        yield
    except InputError:
        raise
    except ModuleNotFoundError as error:
        if error.name in {"datasets", "huggingface_hub"}:
            fact = "the library that reads data sets of the Hugging Face hub is not installed"
            raise _no_library(fact) from None
        raise InputError(
            f"{bare}: needs the library {shown(error.name)}, which is not installed. Install it, or "
            "read files."
        ) from None
    except Exception as error:  # noqa: BLE001  # of datasets, httpx, fsspec and pyarrow
        raise InputError(f"{bare}: {_reason(error, bare)}") from None


def _reason(error: Exception, bare: str) -> str:
    """Return the fact and the next step, without tokens."""
    kinds = [each.__name__ for each in type(error).__mro__]
    if known := next((_REASONS[each] for each in kinds if each in _REASONS), None):
        return known.format(kind=kinds[0])
    message = shown((str(error).splitlines() or [""])[0], 200)
    fact = _TOKEN.sub("***", message).rstrip(".")
    if "config" in fact.lower() and isinstance(error, ValueError):
        return f"{fact}. Name one: {bare}?config=NAME"
    if "script" in fact.lower() and isinstance(error, RuntimeError):
        return "needs code of its own, which robin never runs. Convert it to Parquet, and name the files"
    return f"cannot be read: {kinds[0]}: {fact}. Check it on the hub, or download the files and name them"


def _no_library(fact: str) -> InputError:
    return InputError(f"hf://…: {fact}. Install it: {install('datasets')}")
