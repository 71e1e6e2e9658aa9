"""The Hugging Face hub, as far as reading and writing data sets there have it in common."""

from __future__ import annotations

import re

from robin_cli.model.errors import InputError, shown

NAME = re.compile(r"\w[\w.-]*/\w[\w.-]*", re.ASCII)
_TOKEN = re.compile(r"hf_\w+|(?<=Bearer )\S+")


def first_line(error: Exception) -> str:
    """The beginning of what a library says, without a token."""
    return _TOKEN.sub("***", shown((str(error).splitlines() or [""])[0], 200)).rstrip(".")


def no_library(place: str, fact: str, how: str = "") -> InputError:
    """The error where the library ``datasets`` is missing, or too old."""
    return InputError(f'{place}: {fact}. Install it: pip install {how}"robin-judge[datasets]"')


def hush() -> None:
    """Turn the libraries' own bars and lines off: the last failure is told in robin's words."""
    import datasets
    from huggingface_hub.utils import disable_progress_bars, logging  # type: ignore[attr-defined]

    datasets.disable_progress_bars()
    disable_progress_bars()
    datasets.logging.set_verbosity_error()
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
