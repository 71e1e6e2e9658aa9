"""Redaction of the key in all that a judge sends: an endpoint echoes it in errors, and a model may echo it in an answer."""

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
"""Keys of local servers may be words ("none", "EMPTY"), which must stay in answers."""
_NO_KEYS = {"none", "EMPTY"}
"""These words are not secret, and errors use them."""

_UNSEEN = (
    "\u00ad\u034f\u061c\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff"
)
"""Characters without a width, and soft hyphens: a key that they cut looks whole."""
_IN_ADDRESSES = (
    r"%(?:([0-7][0-9a-fA-F])|[cC]2%[aA][0dD]|[eE]2%80%(?:8[0-9a-fA-F]|[aA][89a-fA-F])"
    r"|[eE]2%81%(?:9[fF]|[aA][0-9a-fA-F])|[eE]3%80%80|[eE][fF]%[bB][bB]%[bB][fF])"
)
_IN_JSON = (
    r"\\(?:(?:x|u00)([0-7][0-9a-fA-F])|x[aA]0|x[aA][dD]"
    r"|u(?:00[aA][0dD]|200[0-9a-fA-F]|202[89a-fA-F]|205[fF]|206[0-9a-fA-F]|3000|[fF][eE][fF]{2}))"
)
_ESCAPES = [re.compile(_IN_ADDRESSES), re.compile(_IN_JSON)]  # ten times as fast as both in one
_BLANK = re.compile(rf"[\s{_UNSEEN}]+")
_CHARACTERS: dict[str | None, str] = {
    None: "",  # for a blank
    **{f"{code:02x}": chr(code) for code in range(128)},
    **{f"{code:02X}": chr(code) for code in range(128)},
}
_LOOKED_AT_FIRST = 2**17
"""The first characters of a long text, which are searched first: a text full of keys is then found at once."""
_MOST_LAYERS = 5
"""The most layers of escapes within escapes to undo."""
_LONGEST_WRAPPED = 6
"""The most characters for one, as in ``\\u0073``."""
_MOST_HELD = 2**18
_LONGEST_FORM = 2**12
"""The bytes without a line end that are searched together, and the most bytes of a key in any form."""

_NAMES_OF_SECRETS = ("_KEY", "_TOKEN", "_SECRET", "PASSWORD")


def without_secrets(text: str) -> str:
    """Replace the values of environment variables with secret names by "[key]".

    It is for judges by others: only they know which of these they use.
    """
    held = {value for name, value in os.environ.items() if name.upper().endswith(_NAMES_OF_SECRETS)}
    for secret in sorted(held, key=len, reverse=True):
        if len(secret) >= _SHORTEST_IN_ANSWERS:
            text = text.replace(secret, "[key]")
    return text


class Redactor:
    """Replaces one key by "[key]".

    A key of 12 characters or more is found as it is, in hexadecimal digits and in base64 (also as a part of a longer text),
    each also inside escapes of URLs or JSON, and cut by line ends or blanks. A shorter key may be a word, so it is only taken
    out of errors, and only as it is.
    """

    def __init__(self, key: str) -> None:
        self._key = key
        self._hash = hashlib.sha256(key.encode()).hexdigest()
        self._is_long = len(key) >= _SHORTEST_IN_ANSWERS

    def text(self, text: str) -> str:
        """Return ``text`` without the key, and otherwise unchanged: other keys stay.

        A text with the key escaped or cut becomes "[key]" as a whole: no working judge sends one.
        """
        if not self.is_in(text):
            return text
        clean = self._forms.sub("[key]", text)
        return "[key]" if self.is_in(clean) else clean

    def _within(self, value: Any) -> Any:
        """Return a JSON value with :meth:`text` of each text in it."""
        if isinstance(value, dict):
            return {self.text(name): self._within(each) for name, each in value.items()}
        if isinstance(value, list):
            return list(map(self._within, value))
        return self.text(value) if isinstance(value, str) else value

    def body(self, body: Body) -> Body:
        """Return the body of a reply without the key; the same object if the key is not in it.

        If the key is escaped or cut, the texts with it are taken out of JSON, and any other body as a whole.
        """
        if not self._is_long:
            return body
        # as the json module does: JSON may also come in UTF-16
        text = body.decode(json.detect_encoding(body) if 0 in body else "utf-8", "replace")
        clean = self.text(text)
        if clean == "[key]":
            with suppress(ValueError, RecursionError):
                clean = self.text(json.dumps(self._within(json.loads(text))))
        return body if clean is text else clean.encode("utf-8", "replace")

    def is_in(self, text: str) -> bool:
        """Return whether a long key is in ``text``, in any form. It runs on every reply, and takes microseconds."""
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
        """Return answers without the key, also if parts of an answer formed it together."""
        texts = ((each, self.text(each.text), each.refusal) for each in answers)
        return tuple(
            replace(each, text=text, refusal=refusal and self.text(refusal))
            for each, text, refusal in texts
        )

    def error(self, text: str, most: int = _MOST_OF_AN_ERROR) -> str:
        """Return the first ``most`` characters of an error, without the key, its hash, or anything like a key."""
        longest = max(_LONGEST_WRAPPED * len(self._key), len(self._hash))
        half_a_key = longest if len(text) >= most else 0
        text = self.text(text[:most])
        if len(self._key) >= _SHORTEST_IN_ERRORS and self._key not in _NO_KEYS:
            text = text.replace(self._key, "[key]")
            text = text.replace(self._hash, "[key]")  # litellm names keys by their hash
        text = _LOOKS_LIKE_A_KEY.sub("[key]", text)
        return (text[:-half_a_key] or "[key]") if half_a_key else text

    @cached_property
    def _cased(self) -> list[str]:
        """The key, and the part of its base64 that does not depend on its neighbours, for each of the three offsets."""
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
    """Writes lines to a file without the key."""

    def __init__(self, file: IO[bytes], redactor: Redactor) -> None:
        self._file = file
        self._redactor = redactor
        self._held = bytearray()

    def write(self, piece: bytes) -> None:
        """Write the lines that ``piece`` completes, and the beginning of a very long one."""
        self._held += piece
        end = self._held.rfind(b"\n") + 1
        if not end and len(self._held) > _MOST_HELD:
            self._held = bytearray(self._redactor.body(self._held))
            end = len(self._held) - _LONGEST_FORM
        if end > 0:
            self._file.write(self._clean(self._held[:end]))
            del self._held[:end]

    def flush(self) -> None:
        """Write the rest, which has no line end."""
        self._file.write(self._clean(self._held))
        self._held.clear()

    def _clean(self, lines: bytearray) -> Body:
        if self._redactor.body(lines) is lines:
            return lines
        return self._redactor.body(b"\n".join(map(self._redactor.body, lines.split(b"\n"))))


def _without_escapes(text: str, escapes: re.Pattern[str]) -> str:
    """Return ``text`` with its escapes undone; five times as fast as one by one."""
    parts: list[str | None] = list(escapes.split(text))
    parts[1::2] = map(_CHARACTERS.__getitem__, parts[1::2])
    return "".join(parts)  # type: ignore[arg-type]  # each None is one of the even ones
