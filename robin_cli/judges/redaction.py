"""The key taken out of whatever a judge says: an endpoint echoes it in errors, and a model may echo it in an answer."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import IO, Any

from robin_cli.judges.bodies import Body
from robin_cli.model.exchange import Answer

_LOOKS_LIKE_A_KEY = re.compile(r"\bsk-[A-Za-z0-9_\-]{6,}|(?<=Bearer )[\w.~+/\-]*[\w~+/\-]=*")

_MOST_OF_AN_ERROR = 2000
_SHORTEST_IN_ERRORS = 4
_SHORTEST_IN_ANSWERS = 12
"""Local servers are given words for keys ("none", "EMPTY"), which answers may use and must keep."""
_NO_KEYS = {"none", "EMPTY"}
"""Such words hide nothing, and errors use them, too."""

_UNSEEN = "\u00ad\u034f\u061c\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff"
"""Characters without a width, and soft hyphens: what is cut by them looks whole."""
_IN_ADDRESSES = (
    r"%(?:([0-7][0-9a-fA-F])|[cC]2%[aA][0dD]|[eE]2%80%(?:8[0-9a-fA-F]|[aA][89a-fA-F])"
    r"|[eE]2%81%(?:9[fF]|[aA][0-9a-fA-F])|[eE]3%80%80|[eE][fF]%[bB][bB]%[bB][fF])"
)
_IN_JSON = (
    r"\\(?:(?:x|u00)([0-7][0-9a-fA-F])|x[aA]0|x[aA][dD]"
    r"|u(?:00[aA][0dD]|200[0-9a-fA-F]|202[89a-fA-F]|205[fF]|206[0-9a-fA-F]|3000|[fF][eE][fF]{2}))"
)
_ESCAPES = [re.compile(_IN_ADDRESSES), re.compile(_IN_JSON)]  # searched for ten times as fast as both in one
_BLANK = re.compile(rf"[\s{_UNSEEN}]+")
_CHARACTERS: dict[str | None, str] = {
    None: "",  # of a blank
    **{f"{code:02x}": chr(code) for code in range(128)},
    **{f"{code:02X}": chr(code) for code in range(128)},
}
_LOOKED_AT_FIRST = 2**17
"""Characters of a long text that are looked at by themselves: of one full of keys, they say so at once."""
_MOST_LAYERS = 5
"""Of escapes within escapes that are looked through."""
_LONGEST_WRAPPED = 6
"""Characters that stand for one: as in ``\\u0073``, and a blank behind it."""
_MOST_HELD = 2**18
_LONGEST_FORM = 2**12
"""Bytes of a file without a line end that are looked through together, and that a key in it may take."""


_NAMES_OF_SECRETS = ("_KEY", "_TOKEN", "_SECRET", "PASSWORD")


def without_secrets(text: str) -> str:
    """Put "[key]" in the place of what environment variables hold whose names say that it is secret.

    For judges that others wrote: only they know which of these they use.
    """
    held = {value for name, value in os.environ.items() if name.upper().endswith(_NAMES_OF_SECRETS)}
    for secret in sorted(held, key=len, reverse=True):
        if len(secret) >= _SHORTEST_IN_ANSWERS:
            text = text.replace(secret, "[key]")
    return text


class Redactor:
    """Knows one key, and puts "[key]" in its place.

    A key of 12 characters or more is found as it is, in hexadecimal digits and in base64 (also as a part of what was
    encoded), and each of these within escapes of addresses or JSON and cut by line ends or blanks. A shorter one may be a
    word, so it is taken out of errors alone, and only as it is.
    """

    def __init__(self, key: str) -> None:
        self._key = key
        self._hash = hashlib.sha256(key.encode()).hexdigest()
        self._is_long = len(key) >= _SHORTEST_IN_ANSWERS

    def text(self, text: str) -> str:
        """Return ``text`` without the key, and otherwise to the letter: what looks like another key stays.

        A text that holds the key escaped, or cut, is taken out whole: no judge that works sends one.
        """
        if not self.is_in(text):
            return text
        clean = self._forms.sub("[key]", text)
        return "[key]" if self.is_in(clean) else clean

    def _within(self, value: Any) -> Any:
        """Return what JSON holds with each text in it as :meth:`text` has it."""
        if isinstance(value, dict):
            return {self.text(name): self._within(each) for name, each in value.items()}
        if isinstance(value, list):
            return list(map(self._within, value))
        return self.text(value) if isinstance(value, str) else value

    def body(self, body: Body) -> Body:
        """Return the body of a reply without the key; the same object if it is not in there.

        Of JSON that holds the key escaped, or cut, the texts that do are taken out; of anything else all.
        """
        if not self._is_long:
            return body
        # as json reads it: JSON may come in UTF-16, too
        text = body.decode(json.detect_encoding(body) if 0 in body else "utf-8", "replace")
        clean = self.text(text)
        if clean == "[key]":
            with suppress(ValueError, RecursionError):
                clean = self.text(json.dumps(self._within(json.loads(text))))
        return body if clean is text else clean.encode("utf-8", "replace")

    def is_in(self, text: str) -> bool:
        """Return whether a long key is in ``text``, in any form; asked of every reply, so it takes microseconds."""
        if not self._is_long:
            return False
        if len(text) > _LOOKED_AT_FIRST and self.is_in(text[:_LOOKED_AT_FIRST]):
            return True
        for _ in range(_MOST_LAYERS):
            while "\\\\" in text:
                text = text.replace("\\\\", "\\")
            if "\\" in text:
                text = text.replace("\\n", "").replace("\\r", "").replace("\\t", "")
            text = "".join(text.split()) if text.isascii() else _BLANK.sub("", text)
            bare = text.replace("\\", "")
            if any(form in bare for form in self._cased) or self._hex in bare.lower():
                return True
            wrapped = text
            for escapes in _ESCAPES:
                text = _without_escapes(text, escapes)
            if text == wrapped:
                return False
        return False

    def answers(self, answers: tuple[Answer, ...]) -> tuple[Answer, ...]:
        """Return answers without a key that several parts of one made up together."""
        return tuple(
            replace(each, text=self.text(each.text), refusal=each.refusal and self.text(each.refusal))
            for each in answers
        )

    def error(self, text: str, most: int = _MOST_OF_AN_ERROR) -> str:
        """The first ``most`` characters of an error, without the key, its hash, or anything that looks like a key."""
        half_a_key = max(_LONGEST_WRAPPED * len(self._key), len(self._hash)) if len(text) >= most else 0
        text = self.text(text[:most])
        if len(self._key) >= _SHORTEST_IN_ERRORS and self._key not in _NO_KEYS:
            text = text.replace(self._key, "[key]")
            text = text.replace(self._hash, "[key]")  # litellm names keys by it
        text = _LOOKS_LIKE_A_KEY.sub("[key]", text)
        return (text[:-half_a_key] or "[key]") if half_a_key else text

    @cached_property
    def _cased(self) -> list[str]:
        """The key, and what all of base64 that holds it has in common, at each place that it may have there."""
        forms, key = {self._key: None}, self._key.encode()
        for before in range(3):
            first, end = -(-before * 8 // 6), (before + len(key)) * 8 // 6
            for alphabet in (b"+/", b"-_"):
                forms[base64.b64encode(bytes(before) + key, alphabet)[first:end].decode()] = None
        return list(forms)

    @cached_property
    def _hex(self) -> str:
        return self._key.encode().hex()

    @cached_property
    def _forms(self) -> re.Pattern[str]:
        return re.compile("|".join([*map(re.escape, self._cased), f"(?i:{self._hex})"]))


class WithoutKey:
    """Writes lines to a file, without the key."""

    def __init__(self, file: IO[bytes], redactor: Redactor) -> None:
        self._file = file
        self._redactor = redactor
        self._held = bytearray()

    def write(self, piece: bytes) -> None:
        """Write the lines that ``piece`` brings to an end, and the beginning of a very long one."""
        self._held += piece
        end = self._held.rfind(b"\n") + 1
        if not end and len(self._held) > _MOST_HELD:
            self._held = bytearray(self._redactor.body(self._held))
            end = len(self._held) - _LONGEST_FORM
        if end > 0:
            self._file.write(self._clean(self._held[:end]))
            del self._held[:end]

    def flush(self) -> None:
        """Write the rest, which no line end is behind."""
        self._file.write(self._clean(self._held))
        self._held.clear()

    def _clean(self, lines: bytearray) -> Body:
        if self._redactor.body(lines) is lines:
            return lines
        return self._redactor.body(b"\n".join(map(self._redactor.body, lines.split(b"\n"))))


def _without_escapes(text: str, escapes: re.Pattern[str]) -> str:
    """Return what ``text`` is once its escapes are undone; five times as fast as one by one."""
    parts: list[str | None] = list(escapes.split(text))
    parts[1::2] = map(_CHARACTERS.__getitem__, parts[1::2])
    return "".join(parts)  # type: ignore[arg-type]  # each None is one of the even ones
