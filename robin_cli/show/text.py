"""Make text from data and models harmless for a terminal."""

from __future__ import annotations

import codecs
import io
import re
import shlex
import sys
import unicodedata
from pathlib import Path
from shutil import get_terminal_size, which
from textwrap import wrap
from typing import Any, TextIO

_ACTING = frozenset({"Cc", "Cs", "Zl", "Zp"})
_TURNING = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")

_CALL = re.compile(r"(?<=: )robin(?= [a-z])")
_COMMAND = re.compile(r"(?<=:) (?=\S*\brobin [a-z])")


def plain(text: str, *, keep: str = "\n\t") -> str:
    r"""Return ``text`` with every character that a terminal could act on replaced by a visible one.

    Control characters (escape sequences start with one) and the marks that turn the direction of writing become ``\x1b``
    and the like; those in ``keep`` stay.
    """
    return "".join(_named(char) if _acts(char) and char not in keep else char for char in text)


class HarmlessFile(io.FileIO):
    """An open terminal that text from data cannot act on, however it is written."""

    def __init__(self, descriptor: int, encoding: str = "utf-8") -> None:
        super().__init__(descriptor, "w", closefd=False)
        self._encoding = encoding
        decoder = codecs.getincrementaldecoder(encoding)("backslashreplace")
        self._decoder = io.IncrementalNewlineDecoder(decoder, translate=False)

    def write(self, data: Any) -> int:
        text = self._decoder.decode(bytes(data)).replace("\r\n", "\n")
        left = plain(text).encode(self._encoding, "backslashreplace")
        while left:
            left = left[super().write(left) :]
        return len(data)


def one_line(value: object) -> str:
    """Return ``value`` as text of one line that a terminal cannot act on."""
    return plain(str(value), keep="")


def wrapped(text: str, width: int) -> str:
    """Return ``text`` with lines that wrap between words; a long command behind a colon has a line, to be copied as it is."""
    lines = []
    for line in text.split("\n"):
        prose, *command = [line] if len(line) <= width else _COMMAND.split(line, maxsplit=1)
        lines += wrap(prose, width, break_long_words=False, break_on_hyphens=False) or [""]
        lines += [f"  {each}" for each in command]
    return "\n".join(lines)


def two_digits(value: float, sign: str = "") -> str:
    """Return a number with two decimals, or three where two would hide on which side of 0 it is."""
    is_small = 0.0 < abs(value) < 0.005
    return f"{value:{sign}z.{3 if is_small else 2}f}"


def as_called(text: str) -> str:
    """Return ``text`` with each ``robin`` behind a colon as this command was called, if a shell finds no other robin."""
    called = sys.argv[0]
    if Path(called).name != "robin" or which("robin"):
        return text
    return _CALL.sub(lambda _: shlex.quote(called), text)


def fitted(text: str, stream: TextIO | None) -> str:
    """Return ``text`` with its commands :func:`as_called`, and :func:`wrapped` where ``stream`` is a terminal."""
    text = as_called(text)
    is_terminal = stream is not None and stream.isatty()
    return wrapped(text, get_terminal_size().columns) if is_terminal else text


def _acts(char: str) -> bool:
    return char in _TURNING or unicodedata.category(char) in _ACTING


def _named(char: str) -> str:
    return (
        char.encode("ascii", "backslashreplace").decode("ascii")
        if ord(char) > 0x7F
        else f"\\x{ord(char):02x}"
    )
