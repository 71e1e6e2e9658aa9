"""Checks of a row: the pair that it holds, or the reason why it holds none."""

from __future__ import annotations

import hashlib
import math
import re
import shlex
from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from robin_cli.data.chats import (
    CHAT_BEGINS,
    chat_in,
    is_transcript,
    prompt_of,
    split,
    turns_in_lists,
    turns_of,
)
from robin_cli.data.fields import (
    MISSING,
    NOT_READ,
    find,
    found_at,
    is_in,
    names_in,
    no_such_fields,
    too_short,
)
from robin_cli.data.rows import BadRow, Row, check_encodable, kind
from robin_cli.model.errors import shown
from robin_cli.model.records import SYSTEM_COLUMNS, as_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from robin_cli.data.chats import Turns
    from robin_cli.data.fields import Field, Fields
    from robin_cli.model.records import Value

_NO_RATING = frozenset({"", "na", "n/a", "nan", "null", "none"})
"""Texts that mean "no rating" in CSV, in small letters: pandas, R and SQL each write their own."""

_SHARES = {"a": 1.0, "tie": 0.5, "b": 0.0}

_OWN_IDS = f"Correct it, or make ids from the text with --columns id={NOT_READ}."
_GROUPED, _SYSTEM = (
    f"Name the {what}, or leave such rows out with --skip-bad-rows." for what in ("group", "system")
)
_ROUNDED = re.compile(r"\d(?:[.,]\d+)?[eE]\+\d+|\d[.,]\d{4,}[eE]\d+|\d{16,}\.0")
"""A number that a cell, or CSV written from one, holds with fewer digits than it had."""
_LONG = 2**20
_EXACT, _DIGITS = 2**53, 16


class Held(NamedTuple):
    """What a row holds for a pair; the attributes are those of :class:`~robin_cli.model.records.Pair`.

    ``own_id`` is None if the id is made from the texts. ``systems`` are those that fields were mapped to.
    """

    own_id: str | None
    prompt: str
    response: str
    reference: str | None
    group: str | None
    other: str | None
    systems: Mapping[str, str]


_NO_SYSTEMS: Mapping[str, str] = {}


def check_row(row: Row, fields: Fields) -> Held:
    """Return what a row holds; ``fields`` are those that a row with its keys may have. BadRow if it holds no pair.

    Nearly all rows hold texts in ASCII and whole numbers at the first path of each field: these are taken at once.
    """
    reference = group = None
    prompt, response, other = _judged_texts(row, fields)
    if fields.thinking is not None:
        response = fields.thinking.without(response)
        other = None if other is None else fields.thinking.without(other)
    if not prompt or prompt.isspace():
        step = _or_skip("Give the row a prompt")
        raise BadRow(f"{_called(row, fields.prompt)} is empty. {step}", "no prompt")
    if fields.images:
        prompt = "\n".join([prompt, *_images(row, fields)])
    own_id = None
    if fields.id:
        value = row.get(fields.id.path)
        is_plain = type(value) is str and value.isascii() and value.isalnum()
        own_id = str(value) if is_plain else _named(row, fields.id, fields, _OWN_IDS)
    if fields.reference:
        reference = _reference(row, fields.reference, fields)
    if fields.taking and not (
        prompt.isascii() and response.isascii() and other is reference is None
    ):
        fields.taking.check(prompt, response, other, reference)
    if fields.group:
        group = _named(row, fields.group, fields, _GROUPED)
    systems = _NO_SYSTEMS
    if fields.systems:
        systems = {each.name: _named(row, each, fields, _SYSTEM) or "" for each in fields.systems}
    return Held(own_id, prompt, response, reference, group, other, systems)


def _judged_texts(row: Row, fields: Fields) -> tuple[str, str, str | None]:
    """Return the prompt, the response, and the second response if rows hold two."""
    if fields.other is not None:
        return _two_texts(row, fields, fields.other)
    prompt, response = row.get(fields.prompt.path), row.get(fields.response.path)
    if type(prompt) is not str or type(response) is not str:
        return *_texts(row, fields), None
    if response.startswith(CHAT_BEGINS) or prompt[:1] == "[" or prompt is response:
        return *_texts(row, fields), None
    if not (prompt.isascii() and response.isascii()):
        _check_encodable(prompt, row, fields.prompt)
        _check_encodable(response, row, fields.response)
    return prompt, response, None


def _two_texts(row: Row, fields: Fields, other: Field) -> tuple[str, str, str]:
    """Return the prompt and two responses to it, each read as :func:`_texts` does."""
    if missing := [each for each in (fields.response, other) if find(row, each) is MISSING]:
        raise _absent(row, missing[0], missing, fields)
    prompt, response = _texts(row, fields)
    again, second = _texts(row, fields._replace(response=other))
    if again != prompt:
        names = " and ".join(_called(row, each) for each in (fields.response, other))
        raise BadRow(
            f"{names} are conversations that differ before their last answers. {_or_skip('Compare answers to one prompt')}",
            "two prompts",
        )
    return prompt, response, second


def id_of_two(prompt: str, response: str, other: str, columns: Mapping[str, Value]) -> str:
    """Return the id of a comparison, as :func:`pair_id_of`; it does not depend on which response is A."""
    systems = [as_text(columns.get(name, "")) for name in SYSTEM_COLUMNS]
    written = sorted(zip((response, other), systems, strict=True))
    return pair_id_of(prompt, "\0".join(f"{len(text)}\0{text}{system}" for text, system in written))


def _texts(row: Row, fields: Fields) -> tuple[str, str]:
    """Return the prompt and the response, each from a text or a conversation."""
    asked, said = find(row, fields.prompt), find(row, fields.response)
    name = _called(row, fields.response)
    if fields.chat and MISSING in (asked, said):
        chat = find(row, fields.chat)
        if chat is not MISSING and chat_in(chat, _called(row, fields.chat)) is not None:
            # A conversation that holds the response also holds its prompt.
            asked, said = (chat if each is MISSING else each for each in (asked, said))
            name = _called(row, fields.chat)
    # Beside a prompt of its own, a text is the response, whatever it looks like.
    is_own = isinstance(said, str) and isinstance(asked, str) and asked is not said
    messages = None if is_own else chat_in(said, name)
    if messages is None and isinstance(asked, str) and isinstance(said, str):
        messages = turns_in_lists(asked, said, name) if asked is not said else None
        asked = said if messages is not None else asked
    asked_name = _called(row, fields.prompt) if is_in(row, fields.prompt) else name
    before: Turns = []
    if messages is not None:
        before, response = split(turns_of(messages, name, fields.taking), name)
        _check_encodable(response, row, fields.response)
        if not before and asked is said:
            raise BadRow(
                f"{name} holds nothing before its last answer. {_or_skip('Give it a prompt')}",
                "no prompt",
            )
    else:
        response = _text(row, fields.response, fields)
        if asked is said and fields.prompt.path == fields.response.path:
            raise BadRow(
                f"{name} is one text, named both as prompt and as response. Name the field of each: "
                "--columns prompt=NAME,response=NAME.",
                "one text for prompt and response",
            )
    if before and not (fields.prompt.mapped and asked is not MISSING and asked is not said):
        prompt = prompt_of(before)
    elif (asking := None if is_transcript(asked) else chat_in(asked, asked_name)) is not None:
        turns = turns_of(asking, asked_name, fields.taking)
        prompt = prompt_of(
            turns[:-1] if turns[-1] == ("Assistant", response) and len(turns) > 1 else turns
        )
    else:
        prompt = _text(row, fields.prompt, fields)
    _check_encodable(prompt, row, fields.prompt)
    return prompt, response


def _text(row: Row, field: Field, fields: Fields) -> str:
    value = find(row, field)
    if isinstance(value, str):
        _check_encodable(value, row, field)
        return value
    if value is MISSING:
        raise _absent(
            row, field, [each for each in fields.required() if not is_in(row, each)], fields
        )
    if value is None:
        raise BadRow(
            f"{_called(row, field)} is null. {_or_skip(f'Give the row a {field.name}')}",
            f"no {field.name}",
        )
    flag = shlex.quote(f"{field.name}={shown(found_at(row, field)[0])}.0")
    step = "Write it as text" + (
        f" (or name an item of it: --columns {flag})" if isinstance(value, list) else ""
    )
    raise BadRow(
        f"{_called(row, field)} is {kind(value)}, not text. {_or_skip(step)}",
        f"the {field.name} is not text",
    )


def _absent(row: Row, field: Field, missing: Sequence[Field], fields: Fields) -> BadRow:
    fact = too_short(row, field) if field.mapped else None
    message = (
        f"{fact}. {_or_skip('Name another item')}"
        if fact
        else no_such_fields(missing, names_in(row), fields)
    )
    return BadRow(message, f"no {field.name}")


def _reference(row: Row, field: Field, fields: Fields) -> str | None:
    if field.mapped or isinstance(
        find(row, field), str
    ):  # an unmapped field of this name may hold anything
        return _text(row, field, fields) or None
    return None


def _images(row: Row, fields: Fields) -> Iterator[str]:
    """Yield the marks of the images in their own columns: a list holds several, null or an empty text none."""
    for field in fields.images:
        value = find(row, field)
        if value is MISSING:
            raise _absent(row, field, [field], fields)
        for url in value if isinstance(value, list) else [value]:
            if fields.taking is not None and url not in [None, ""] and kind(url) != "NaN":
                yield fields.taking.mark(url, "", _called(row, field))


def _check_encodable(text: str, row: Row, field: Field) -> None:
    if not text.isascii():
        check_encodable(text, _called(row, field))


def _named(row: Row, field: Field, fields: Fields, step: str) -> str | None:
    """Return the name of the row's pair, group or system, a text or a whole number as text; None if it needs none."""
    value = find(row, field)
    if type(value) is int:
        return str(value)
    if isinstance(value, str) and value:
        _check_encodable(value, row, field)
        if _ROUNDED.fullmatch(value.strip()):
            own = f", or make ids from the text with --columns id={NOT_READ}"
            raise BadRow(
                f"the {field.name} {value} was rounded by a spreadsheet, so different ones may be the same. Save the column as "
                f"text{own * (field.name == 'id')}.",
                f"a rounded {field.name}",
            )
        return value
    if value is MISSING and field.mapped:
        raise _absent(row, field, [field], fields)
    is_absent = value is MISSING or value is None or value == "" or kind(value) == "NaN"
    if is_absent and not field.mapped:
        return None
    what = "null or empty" if is_absent else f"{kind(value)}, not text or a whole number"
    reason = f"no {field.name}" if is_absent else f"the {field.name} is not text"
    raise BadRow(f"the {field.name} in {_called(row, field)} is {what}. {step}", reason)


def pair_id_of(prompt: str, response: str) -> str:
    """Return the first 16 hex digits of the SHA-256 of prompt and response, the same on every machine.

    Each text is hashed as UTF-8, verbatim, after its length in bytes (8 bytes, big-endian), so that different pairs never give
    the same bytes. Raises UnicodeEncodeError for half a surrogate pair, which UTF-8 cannot hold.
    """
    first, second = prompt.encode(), response.encode()
    parts = (len(first).to_bytes(8, "big"), first, len(second).to_bytes(8, "big"), second)
    if len(first) + len(second) < _LONG:
        return hashlib.sha256(b"".join(parts)).hexdigest()[:16]
    hashed = hashlib.sha256()
    for part in parts:  # joined they would take as much memory again
        hashed.update(part)
    return hashed.hexdigest()[:16]


def mean(ratings: Sequence[float]) -> float:
    """Return the mean of one or more finite ratings; it is finite even if their sum is not."""
    total = sum(ratings)
    return (
        total / len(ratings)
        if math.isfinite(total)
        else sum(each / len(ratings) for each in ratings)
    )


def check_ratings(
    rows: Sequence[Row], field: Field, *, of_two: bool
) -> list[float | BadRow | None]:
    """Return the human rating in a field of each row: None if it is absent, BadRow if it is none."""
    values: list[Any] = [row.get(field.path) for row in rows]
    kinds = set(map(type, values))
    if kinds == {int} and max(values) < _EXACT and min(values) > -_EXACT:
        return list(map(float, values))
    if kinds == {str} and all(map(str.isdecimal, values)) and max(map(len, values)) < _DIGITS:
        return list(map(float, values))
    return [_rating_or_error(row, field, of_two=of_two) for row in rows]


def _rating_or_error(row: Row, field: Field, *, of_two: bool) -> float | BadRow | None:
    try:
        return _rating(row, field, of_two=of_two)
    except BadRow as error:
        return error


def _rating(row: Row, field: Field, *, of_two: bool) -> float | None:
    value = find(row, field)
    if value is MISSING:
        return None
    if isinstance(value, list):  # of several annotators: HelpSteer2's disagreements
        rated = [
            rating
            for each in value
            if (rating := one_rating(each, row, field, of_two=of_two)) is not None
        ]
        return mean(rated) if rated else None
    return one_rating(value, row, field, of_two=of_two)


def one_rating(value: object, row: Row, field: Field, *, of_two: bool = False) -> float | None:
    """Return the finite rating in a field, None if it is absent; BadRow for anything else.

    ``of_two``: the row holds two responses, so the rating may be a verdict.
    """
    number = as_share(value) if of_two else as_number(value)
    if number is None or math.isnan(number):
        return None
    if math.isinf(number):
        what = f'"{shown(value)}"' if isinstance(value, (str, int, float, Decimal)) else kind(value)
        lacks, give = ("no verdict", "A, B, tie") if of_two else ("not a finite number", "a number")
        raise BadRow(
            f"the human rating in {_called(row, field)} is {what}, {lacks}. "
            f"Give {give} or null, or do not read these ratings: --columns {shlex.quote(f'{field.name}={NOT_READ}')}.",
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
    return f'field "{shown(found_at(row, field)[0])}"'
