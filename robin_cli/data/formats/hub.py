"""Data sets of the Hugging Face hub as rows, by hf://owner/name?split=validation."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from robin_cli.data.rows import Table, Wanted
from robin_cli.model.errors import InputError, did_you_mean, shown
from robin_cli.model.plugins import install

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


_NAME = re.compile(r"\w[\w.-]*/\w[\w.-]*", re.ASCII)
_TOKEN = re.compile(r"hf_\w+|(?<=Bearer )\S+")


def _first_line(error: Exception) -> str:
    """Return the first line of a library's error, without tokens."""
    return _TOKEN.sub("***", shown((str(error).splitlines() or [""])[0], 200)).rstrip(".")


def _hush() -> None:
    """Turn off the progress bars and logs of the libraries: robin reports errors itself."""
    import datasets
    from huggingface_hub.utils import disable_progress_bars, logging  # type: ignore[attr-defined]

    datasets.disable_progress_bars()
    disable_progress_bars()
    datasets.logging.set_verbosity_error()
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]


_KEYS = ("split", "config", "revision", "data_dir")
_EXAMPLE = "hf://nvidia/HelpSteer2?split=validation"
_FIRST_WITHOUT_SCRIPTS = 4
"""From this major version of ``datasets`` on, it never runs Python code of a data set."""


class _Address(NamedTuple):
    name: str
    split: str | None
    options: dict[str, str]
    """Arguments of ``load_dataset``."""


def read_hub(url: str, wanted: Wanted) -> Table:
    """Return the rows of a data set; they are downloaded as they are read.

    A folder ``owner/name`` in the working directory comes before the hub, as ``load_dataset`` has it. Only columns that are
    ``wanted``, or hold texts, numbers and times, are decoded. Code in a data set is never run.

    Raises InputError, at once or while the rows are read: no library, no such data set, config or split, no network.
    """
    address = _address(url)
    with _input_errors(url):
        splits = _splits(address)
        rows = splits[_split(address.split, list(splits), url)]
        names = None if rows.features is None else list(_leaf_names(rows.features))
        if names is not None:
            heads = {each.partition(".")[0] for each in wanted.names} | set(wanted.names)
            needed = [each for each in rows.features if each in heads]
            plain = [
                each
                for each, feature in rows.features.items()
                if wanted.others and _is_plain(feature)
            ]
            rows = rows.select_columns(list(dict.fromkeys([*needed, *plain])))
    return Table(names, "row", _rows(rows, url))


def _address(url: str) -> _Address:
    parts = urlsplit(url)
    name = f"{parts.netloc}{parts.path}"
    if not _NAME.fullmatch(name) or parts.fragment:
        # The name is not shown: a token may stand here by mistake.
        raise InputError(
            f"hf://: names no data set. Write hf://OWNER/NAME?split=SPLIT, as {_EXAMPLE}."
        )
    found: dict[str, str] = {}
    for key, value in parse_qsl(parts.query, keep_blank_values=True):
        if key not in _KEYS:
            hint = did_you_mean(key, _KEYS) or f"; there are {', '.join(_KEYS)}"
            raise InputError(
                f'hf://{name}: no setting "{shown(key)}"{hint}. Write it as {_EXAMPLE}.'
            )
        if key in found or not value:
            fault = "stands twice" if key in found else "is empty"
            raise InputError(f"hf://{name}: {key} {fault}. Write it as {_EXAMPLE}.")
        found[key] = value
    split = found.pop("split", None)
    return _Address(
        name, split, {"name" if key == "config" else key: value for key, value in found.items()}
    )


def _splits(address: _Address) -> Mapping[str, Any]:
    import datasets

    if int(datasets.__version__.partition(".")[0]) < _FIRST_WITHOUT_SCRIPTS:
        raise _no_library(f"datasets {datasets.__version__} is too old")
    _hush()
    splits: Mapping[str, Any] = datasets.load_dataset(
        address.name, streaming=True, **address.options
    )
    return splits


def _split(wanted: str | None, splits: list[str], url: str) -> str:
    if wanted is None and len(splits) == 1:
        return splits[0]
    if wanted in splits:
        return str(wanted)
    fact = "has several splits" if wanted is None else f'has no split "{shown(wanted)}"'
    bare = url.partition("?")[0]
    raise InputError(
        f"{bare}: {fact}; it has {', '.join(shown(each) for each in splits[:12])}. "
        f"Name one of them: {bare}?split={shown(splits[-1])}"
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
    return type(feature).__name__ in {"Value", "ClassLabel"} and "binary" not in feature.dtype


def _rows(rows: Any, url: str) -> Iterator[tuple[int, dict[str, object]]]:
    with _input_errors(url):
        yield from enumerate(rows, 1)


@contextmanager
def _input_errors(url: str) -> Iterator[None]:
    """Raise the errors of the library and the network as InputError, short and without tokens."""
    bare = url.partition("?")[0]
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name in {"datasets", "huggingface_hub"}:
            raise _no_library(
                "the library that reads data sets of the Hugging Face hub is not installed"
            ) from None
        raise InputError(
            f"{bare}: needs the library {shown(error.name)}, which is not installed. Install it, or read files."
        ) from None
    except (
        OSError,
        ValueError,
        RuntimeError,
        LookupError,
        TypeError,
        ArithmeticError,
        MemoryError,
    ) as error:
        raise InputError(f"{bare}: {_reason(error, bare)}") from None


def _reason(error: Exception, bare: str) -> str:
    """Return the fact and the next step, by the error's class: the library's messages change."""
    said = _first_line(error)
    kinds = {each.__name__ for each in type(error).__mro__}
    if "DatasetNotFoundError" in kinds:
        return (
            "no such data set on the hub, and no such folder here; or it is private or gated. Check owner and name; "
            "for a private one, hf auth login, or set HF_TOKEN"
        )
    if kinds & {"ConnectionError", "TimeoutError", "HTTPError", "OfflineModeIsEnabled"}:
        return (
            f"the hub cannot be reached ({type(error).__name__}). Check the network (and HF_HUB_OFFLINE), or download "
            "the files elsewhere and name them: robin judge FILE.parquet"
        )
    if kinds & {"EmptyDatasetError", "DataFilesNotFoundError"}:
        return "holds no data files that can be read. Check owner, name and data_dir, or download the files and name them"
    if "config" in said.lower() and isinstance(error, ValueError):
        return f"{said}. Name one: {bare}?config=NAME"
    if "script" in said.lower() and isinstance(error, RuntimeError):
        return "needs code of its own to be run, which robin never does. Convert it to Parquet, and name the files"
    return f"cannot be read: {type(error).__name__}: {said}. Check it on the hub, or download the files and name them"


def _no_library(fact: str) -> InputError:
    return InputError(f"hf://…: {fact}. Install it: {install('datasets')}")


SCHEMES = {"hf": read_hub}
