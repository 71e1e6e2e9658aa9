"""The key in all that a judge sends becomes "[key]": an endpoint echoes it in errors, and a model may echo it in an answer."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import replace
from urllib.parse import quote

from robin_cli.judges.bodies import Body
from robin_cli.model.exchange import Answer

_LOOKS_LIKE_A_KEY = re.compile(r"\bsk-[A-Za-z0-9_\-]{6,}|(?<=Bearer )[\w.~+/\-]*[\w~+/\-]=*")

_MOST_OF_AN_ERROR = 2000
_SHORTEST_IN_ERRORS = 4
_SHORTEST_IN_ANSWERS = 12
"""Keys of local servers may be words ("none", "EMPTY"), which must stay in answers."""
_NO_KEYS = {"none", "EMPTY"}
"""These words are not secret, and errors use them."""

_NAMES_OF_SECRETS = ("_KEY", "_TOKEN", "_SECRET", "PASSWORD")


def without_secrets(text: str) -> str:
    """Replace the values of environment variables with secret names by "[key]".

    It is for judges by others: only they know which of these they use.
    """
    variables = os.environ.items()
    secrets = {value for name, value in variables if name.upper().endswith(_NAMES_OF_SECRETS)}
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _SHORTEST_IN_ANSWERS:
            text = text.replace(secret, "[key]")
    return text


class Redactor:
    """Replaces one key.

    A key of 12 characters or more is found as it is, and as addresses and JSON write it. A shorter key may be a word, so it is
    only taken out of errors.
    """

    def __init__(self, key: str) -> None:
        in_json = (key.replace("/", "\\" * layers + "/") for layers in range(4))  # JSON in JSON
        forms = sorted({*in_json, quote(key), quote(key, safe="")}, key=len, reverse=True)
        self._forms = forms if len(key) >= _SHORTEST_IN_ANSWERS else []
        self.forms = [form.encode() for form in self._forms]
        self._of_errors: tuple[str, ...] = ()
        if len(key) >= _SHORTEST_IN_ERRORS and key not in _NO_KEYS:
            self._of_errors = key, hashlib.sha256(key.encode()).hexdigest()  # litellm's name of it

    def text(self, text: str) -> str:
        for form in self._forms:
            text = text.replace(form, "[key]")
        return text

    def body(self, body: Body) -> Body:
        """Return the body of a reply, or a part of one, without the key; the same object if the key is not in it."""
        for form in self.forms:
            if form in body:
                body = body.replace(form, b"[key]")
        return body

    def answers(self, answers: tuple[Answer, ...]) -> tuple[Answer, ...]:
        """Return answers without the key, also if parts of an answer formed it together."""
        return tuple(
            replace(
                answer,
                text=self.text(answer.text),
                refusal=answer.refusal and self.text(answer.refusal),
            )
            for answer in answers
        )

    def error(self, text: str) -> str:
        """Return the beginning of an error, without the key, its hash, or anything like a key."""
        text = self.text(text[:_MOST_OF_AN_ERROR])
        for form in self._of_errors:
            text = text.replace(form, "[key]")
        return _LOOKS_LIKE_A_KEY.sub("[key]", text)
