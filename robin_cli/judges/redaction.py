"""The key taken out of whatever a judge says: an endpoint echoes it in errors, and a model may echo it in an answer."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import replace

from robin_cli.model.exchange import Reply

_LOOKS_LIKE_A_KEY = re.compile(r"\bsk-[A-Za-z0-9_\-]{6,}|(?<=Bearer )\S+")

_MOST_OF_AN_ERROR = 2000
_SHORTEST_IN_ERRORS = 4
_SHORTEST_IN_ANSWERS = 12
"""Local servers are given words for keys ("none", "EMPTY"), which answers may use and must keep."""
_NO_KEYS = {"none", "EMPTY"}
"""Such words hide nothing, and errors use them, too."""


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
    """Knows one key, and puts "[key]" in its place."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._hash = hashlib.sha256(key.encode()).hexdigest()

    def error(self, text: str, most: int = _MOST_OF_AN_ERROR) -> str:
        """The first ``most`` characters of an error, without the key, its hash, or anything that looks like a key."""
        half_a_key = max(len(self._key), len(self._hash)) if len(text) >= most else 0
        text = text[:most]
        if len(self._key) >= _SHORTEST_IN_ERRORS and self._key not in _NO_KEYS:
            text = text.replace(self._key, "[key]")
            text = text.replace(self._hash, "[key]")  # litellm names keys by it
        text = _LOOKS_LIKE_A_KEY.sub("[key]", text)
        return (text[:-half_a_key] or "[key]") if half_a_key else text

    def reply(self, reply: Reply) -> Reply:
        """A reply without the key, and otherwise to the letter: what looks like a key may be part of a feedback."""
        said = [reply.model, reply.request_id or ""]
        said += [text for each in reply.answers for text in (each.text, each.refusal or "")]
        if len(self._key) < _SHORTEST_IN_ANSWERS or not any(self._key in text for text in said):
            return reply
        answers = tuple(
            replace(each, text=self._out_of(each.text), refusal=each.refusal and self._out_of(each.refusal))
            for each in reply.answers
        )
        request_id = reply.request_id and self._out_of(reply.request_id)
        return replace(reply, answers=answers, model=self._out_of(reply.model), request_id=request_id)

    def _out_of(self, text: str) -> str:
        return text.replace(self._key, "[key]")
