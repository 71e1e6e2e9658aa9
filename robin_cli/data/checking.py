"""Checks of a row: the pair that it holds, or the reason why it holds none."""

from __future__ import annotations

import hashlib
import math
import re
import shlex
from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from robin_cli.data.chats import (
    chat_in,
    is_transcript,
    prompt_of,
    split_last_answer,
    turns_in_lists,
    turns_of,
)
from robin_cli.data.fields import MISSING, NOT_READ, find, find_at, is_in, names_in
from robin_cli.data.hints import explain_missing, explain_short_list
from robin_cli.data.images import Images
from robin_cli.data.rows import BadRow, Row, check_encodable, kind
from robin_cli.data.thinking import Thinking
from robin_cli.model.errors import shown
from robin_cli.model.records import PLACE_COLUMNS, SYSTEM_COLUMNS, as_text

if TYPE_CHECKING:
    from robin_cli.data.chats import Turns
    from robin_cli.data.columns import FurtherColumns
    from robin_cli.data.fields import Field, Fields
    from robin_cli.data.rows import Unit
    from robin_cli.model.records import Value

_NO_RATING = frozenset({"", "na", "n/a", "nan", "null", "none"})
"""Texts that mean "no rating" in CSV, in small letters: pandas, R and SQL each write their own."""

_SHARES = {
    **dict.fromkeys(("a", "model_a", "a>b"), 1.0),
    **dict.fromkeys(("tie", "tie (bothbad)", "a=b"), 0.5),
    **dict.fromkeys(("b", "model_b", "b>a"), 0.0),
}
"""The share of response A in a verdict, as robin, Chatbot Arena and JudgeBench write it."""

_ROUNDED = re.compile(r"\d(?:[.,]\d+)?[eE]\+\d+|\d[.,]\d{4,}[eE]\d+|\d{16,}\.0")
"""A number that a cell, or CSV written from one, holds with fewer digits than it had."""

_EXACT, _DIGITS = 2**53, 16
_STEPS = {
    "id": f"Correct it, or make ids from the text with --columns id={NOT_READ}.",
    "group": "Name the group, or leave such rows out with --skip-bad-rows.",
    "system": "Name the system, or leave such rows out with --skip-bad-rows.",
}


class Held(NamedTuple):
    """What a row holds: the attributes of a :class:`~robin_cli.model.records.Pair`, and whether the row names its id.

    It is made four times as fast as a Pair, which is a tenth of the time to load data.
    """

    pair_id: str
    prompt: str
    response: str
    human: Mapping[str, float]
    reference: str | None
    group: str | None
    columns: Mapping[str, Value]
    other: str | None
    has_id: bool = True


class RowReader:
    """Reads rows as pairs.

    Attributes:
        fields: those of the rows of the current source.
        images: the reader of images that rows name.
        thinking: counts reasoning in responses, and removes it on demand.
    """

    fields: Fields

    def __init__(self, further: FurtherColumns, *, strip_thinking: bool) -> None:
        self.images, self.thinking = Images(), Thinking(strip_thinking)
        self._further = further

    def enter(self, fields: Fields, place: str, unit: Unit) -> None:
        """Read rows of the source at ``place`` from now on; ``unit`` is what numbers them."""
        self.fields = fields
        self._place_column = PLACE_COLUMNS[unit]
        self.images.enter(place)
        self._further.enter(fields)
        self._narrow = lru_cache(1024)(fields.narrow)

    def read(self, row: Row, number: int) -> Held:
        """Return what a row holds; ``number`` is its place. BadRow if it holds no pair."""
        fields = self._narrow(tuple(row))
        prompt, response, other = self._read_texts(row, fields)
        if not prompt or prompt.isspace():
            step = _or_skip("Give the row a prompt")
            raise BadRow(f"{_called(row, fields.prompt)} is empty. {step}", "no prompt")
        if fields.images:
            prompt = "\n".join([prompt, *self._image_marks(row)])
        pair_id = self._read_name(row, fields.id) if fields.id else None
        reference = None
        if field := fields.reference:
            # a field of this name that is not mapped may hold anything
            is_one = field.mapped or isinstance(find(row, field), str)
            reference = self._read_text(row, field) or None if is_one else None
        if not (prompt.isascii() and response.isascii() and other is reference is None):
            self.images.check(prompt, response, other, reference)
        group = self._read_name(row, fields.group) if fields.group else None
        systems = {field.name: self._read_name(row, field) for field in fields.systems}
        human = {}
        for field in fields.ratings:
            value: Any = row.get(field.paths[0])
            if type(value) is str:
                is_plain = value.isdecimal() and len(value) < _DIGITS
            else:
                is_plain = type(value) is int and -_EXACT < value < _EXACT
            if is_plain:  # nearly always
                human[field.name] = float(value)
            elif (rating := read_rating(row, field, of_two=other is not None)) is not None:
                human[field.name] = rating
        columns = self._further.of_row(row)
        columns |= {name: system for name, system in systems.items() if system}
        if pair_id:
            return Held(pair_id, prompt, response, human, reference, group, columns, other)
        pair_id = make_pair_id(prompt, response, other, columns)
        columns[self._place_column] = number  # a person does not find a hash in the file
        return Held(pair_id, prompt, response, human, reference, group, columns, other, False)  # noqa: FBT003

    def _read_texts(self, row: Row, fields: Fields) -> tuple[str, str, str | None]:
        """Return the prompt, the response, and the second response if rows hold two."""
        without = self.thinking.without
        if fields.other is None:
            prompt: Any = row.get(fields.prompt.paths[0])
            response: Any = row.get(fields.response.paths[0])
            is_plain = type(prompt) is str and type(response) is str and prompt is not response
            if not (is_plain and prompt.isascii() and response.isascii() and prompt[:1] != "["):
                prompt, response = self._read_both(row, fields.response)
            return prompt, without(response), None
        sides = (fields.response, fields.other)
        absent = [field for field in sides if find(row, field) is MISSING]
        if absent:
            raise self._absent(row, absent[0], absent)
        (prompt, first), (again, second) = (self._read_both(row, side) for side in sides)
        if again != prompt:
            step = _or_skip("Compare answers to one prompt")
            names = " and ".join(_called(row, side) for side in sides)
            raise BadRow(
                f"{names} are conversations that differ before their last answers. {step}",
                "two prompts",
            )
        return prompt, without(first), without(second)

    def _read_both(self, row: Row, of_response: Field) -> tuple[str, str]:
        """Return the prompt and a response, each from a text or a conversation."""
        of_prompt = self.fields.prompt
        asked, answer = find(row, of_prompt), find(row, of_response)
        is_text = isinstance(answer, str)
        if is_text and isinstance(asked, str) and asked[:1] != "[" and asked is not answer:
            # Beside a prompt of its own, a text is the response, whatever it looks like.
            return self._read_text(row, of_prompt), self._read_text(row, of_response)
        name = _called(row, of_response)
        if self.fields.chat and MISSING in (asked, answer):
            chat = find(row, self.fields.chat)
            chat_name = _called(row, self.fields.chat)
            # A conversation that holds the response also holds its prompt.
            if chat is not MISSING and chat_in(chat, chat_name) is not None:
                asked, answer, name = (
                    chat if asked is MISSING else asked,
                    chat if answer is MISSING else answer,
                    chat_name,
                )
        if is_text and isinstance(asked, str) and asked is not answer:
            messages = turns_in_lists(asked, str(answer), name)
            asked = asked if messages is None else answer
        else:
            messages = chat_in(answer, name)
        before: Turns = []
        if messages is None:
            response = self._read_text(row, of_response)
            if asked is answer and of_prompt.path == of_response.path:
                raise BadRow(
                    f"{name} is one text, named both as prompt and as response. Name the field of each: "
                    "--columns prompt=NAME,response=NAME.",
                    "one text for prompt and response",
                )
        else:
            turns = turns_of(messages, name, self.images)
            before, response = split_last_answer(turns, name)
            if not before and asked is answer:
                step = _or_skip("Give it a prompt")
                raise BadRow(f"{name} holds nothing before its last answer. {step}", "no prompt")
            check_encodable(response, _called(row, of_response))
        if before and (asked is answer or asked is MISSING or not of_prompt.mapped):
            prompt = prompt_of(before)
        else:
            prompt = self._read_prompt(row, asked, response)
        check_encodable(prompt, _called(row, of_prompt))
        return prompt, response

    def _read_prompt(self, row: Row, asked: object, response: str) -> str:
        """Return the prompt of a field that holds it alone, a text or a conversation that may end in the response."""
        name = _called(row, self.fields.prompt)
        if not is_in(row, self.fields.prompt) and self.fields.chat:
            name = _called(row, self.fields.chat)
        messages = None if is_transcript(asked) else chat_in(asked, name)
        if messages is None:
            return self._read_text(row, self.fields.prompt)
        turns = turns_of(messages, name, self.images)
        return prompt_of(
            turns[:-1] if turns[-1] == ("Assistant", response) and len(turns) > 1 else turns
        )

    def _read_text(self, row: Row, field: Field) -> str:
        value = find(row, field)
        if isinstance(value, str):
            if not value.isascii():
                check_encodable(value, _called(row, field))
            return value
        if value is MISSING:
            required = self.fields.required()
            raise self._absent(row, field, [each for each in required if not is_in(row, each)])
        if value is None:
            step = _or_skip(f"Give the row a {field.name}")
            raise BadRow(f"{_called(row, field)} is null. {step}", f"no {field.name}")
        flag = shlex.quote(f"{field.name}={shown(find_at(row, field)[0])}.0")
        item = f" (or name an item of it: --columns {flag})" if isinstance(value, list) else ""
        raise BadRow(
            f"{_called(row, field)} is {kind(value)}, not text. {_or_skip(f'Write it as text{item}')}",
            f"the {field.name} is not text",
        )

    def _absent(self, row: Row, field: Field, missing: Sequence[Field]) -> BadRow:
        fact = explain_short_list(row, field) if field.mapped else None
        message = (
            f"{fact}. {_or_skip('Name another item')}"
            if fact
            else explain_missing(missing, names_in(row), self.fields)
        )
        return BadRow(message, f"no {field.name}")

    def _image_marks(self, row: Row) -> list[str]:
        """Return the marks of the images in their own columns: a list holds several, null or an empty text none."""
        marks = []
        for field in self.fields.images:
            value = find(row, field)
            if value is MISSING:
                raise self._absent(row, field, [field])
            urls = value if isinstance(value, list) else [value]
            present = [url for url in urls if url not in [None, ""] and kind(url) != "NaN"]
            marks += [self.images.mark(url, "", _called(row, field)) for url in present]
        return marks

    def _read_name(self, row: Row, field: Field) -> str | None:
        """Return the name of the row's pair, group or system, a text or a whole number as text; None if it needs none."""
        value = find(row, field)
        if type(value) is int or (type(value) is str and value.isascii() and value.isalnum()):
            return str(value)
        if isinstance(value, str) and value:
            if not value.isascii():
                check_encodable(value, _called(row, field))
            if _ROUNDED.fullmatch(value.strip()):
                step = f", or make ids from the text with --columns id={NOT_READ}"
                raise BadRow(
                    f"the {field.name} {value} was rounded by a spreadsheet, so different ones may be the same. Save the "
                    f"column as text{step if field.name == 'id' else ''}.",
                    f"a rounded {field.name}",
                )
            return value
        if value is MISSING and field.mapped:
            raise self._absent(row, field, [field])
        is_absent = value is MISSING or value is None or value == "" or kind(value) == "NaN"
        if is_absent and not field.mapped:
            return None
        fact, reason = f"{kind(value)}, not text or a whole number", f"the {field.name} is not text"
        if is_absent:
            fact, reason = "null or empty", f"no {field.name}"
        step = _STEPS.get(field.name, _STEPS["system"])
        raise BadRow(f"the {field.name} in {_called(row, field)} is {fact}. {step}", reason)


def make_pair_id(
    prompt: str, response: str, other: str | None, columns: Mapping[str, Value]
) -> str:
    """Return the id that a pair's texts make. That of a comparison does not depend on which response is A."""
    if other is None:
        return pair_id_of(prompt, response)
    systems = [as_text(columns.get(name, "")) for name in SYSTEM_COLUMNS]
    written = sorted(zip((response, other), systems, strict=True))
    return pair_id_of(prompt, "\0".join(f"{len(text)}\0{text}{system}" for text, system in written))


def pair_id_of(prompt: str, response: str) -> str:
    """Return the first 16 hex digits of the SHA-256 of prompt and response, the same on every machine.

    Each text is hashed as UTF-8, verbatim, after its length in bytes (8 bytes, big-endian), so that different pairs never give
    the same bytes. Raises UnicodeEncodeError for half a surrogate pair, which UTF-8 cannot hold.
    """
    hashed = hashlib.sha256()
    for text in (prompt.encode(), response.encode()):
        hashed.update(len(text).to_bytes(8, "big"))
        hashed.update(text)
    return hashed.hexdigest()[:16]


def mean(ratings: Sequence[float]) -> float:
    """Return the mean of one or more finite ratings; it is finite even if their sum is not."""
    total = sum(ratings)
    if math.isfinite(total):
        return total / len(ratings)
    return sum(rating / len(ratings) for rating in ratings)


def read_rating(row: Row, field: Field, *, of_two: bool) -> float | None:
    """Return the human rating in a row's field, the mean of a list of several annotators'; None if there is none.

    BadRow if a value is no rating. ``of_two``: the row holds two responses, so that the rating may be a verdict.
    """
    value = find(row, field)
    if not isinstance(value, list):
        return _one_rating(value, row, field, of_two=of_two)
    ratings = [_one_rating(each, row, field, of_two=of_two) for each in value]
    present = [rating for rating in ratings if rating is not None]
    return mean(present) if present else None


def _one_rating(value: Any, row: Row, field: Field, *, of_two: bool) -> float | None:
    value = None if value is MISSING else value
    number = as_share(value) if of_two else as_number(value)
    if number is None or math.isnan(number):
        return None
    if math.isinf(number):
        what = f'"{shown(value)}"' if isinstance(value, (str, int, float, Decimal)) else kind(value)
        lacks, give = ("no verdict", "A, B, tie") if of_two else ("not a finite number", "a number")
        flag = shlex.quote(f"{field.name}={NOT_READ}")
        raise BadRow(
            f"the human rating in {_called(row, field)} is {what}, {lacks}. "
            f"Give {give} or null, or do not read these ratings: --columns {flag}.",
            "a human rating is not a number",
        )
    return number


def as_share(value: object) -> float | None:
    """Return a person's verdict on two responses as the share of A: 1 for A, 0.5 for a tie, 0 for B, or a number itself.

    None and inf as :func:`as_number`.
    """
    verdict = _SHARES.get(value.strip().lower()) if isinstance(value, str) else None
    return as_number(value) if verdict is None else verdict


def as_number(value: object) -> float | None:
    """Return a value as a number; None if it is absent, inf if it cannot be a rating."""
    if type(value) is float or value is None:
        return value
    if isinstance(value, str):
        if value.strip().lower() in _NO_RATING:
            return None
        if "_" in value:  # float() would read 1_0 as ten
            return math.inf
    elif isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        return math.inf
    try:
        return float(value)
    except (ValueError, OverflowError):
        return math.inf


def _or_skip(step: str) -> str:
    return f"{step}, or leave such rows out with --skip-bad-rows."


def _called(row: Row, field: Field) -> str:
    """Return the name of a row's field for errors: the path where it was found."""
    return f'field "{shown(find_at(row, field)[0])}"'
