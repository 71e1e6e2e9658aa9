"""Checks of a row: the pair that it holds, or the reason why it holds none."""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Mapping, Sequence
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
from robin_cli.data.fields import MISSING, NOT_READ, called, find, find_at, is_in, names_in
from robin_cli.data.hints import explain_missing, explain_short_list, list_names
from robin_cli.data.human_ratings import read_ratings
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

_ROUNDED = re.compile(r"\d(?:[.,]\d+)?[eE]\+\d+|\d[.,]\d{4,}[eE]\d+|\d{16,}\.0")
"""A number that a cell, or CSV written from one, holds with fewer digits than it had."""

_LISTED = 6
_OR_SKIP = "or leave such rows out with --skip-bad-rows."
_IDS_OF_TEXTS = f"make ids from the text with --columns id={NOT_READ}"


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

    def read(self, row: Row | BadRow, number: int) -> Held:
        """Return what a row holds; ``number`` is its place. BadRow if it holds no pair."""
        if isinstance(row, BadRow):
            raise row
        fields = self._narrow(tuple(row))
        prompt, response, other = self._read_texts(row, fields)
        if not prompt or prompt.isspace():
            raise _bad(row, fields.prompt, "is empty", "Give the row a prompt", "no prompt")
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
        systems = [(field.name, self._read_name(row, field)) for field in fields.systems]
        human = read_ratings(row, fields.ratings, of_two=other is not None)
        columns = self._further.of_row(row)
        for name, system in systems:
            if system:
                columns[name] = system
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
            fact = f"and {called(row, fields.other)} are conversations that differ before their last answers"
            raise _bad(row, fields.response, fact, "Compare answers to one prompt", "two prompts")
        return prompt, without(first), without(second)

    def _read_both(self, row: Row, of_response: Field) -> tuple[str, str]:
        """Return the prompt and a response, each from a text or a conversation."""
        of_prompt, of_chat = self.fields.prompt, self.fields.chat
        asked, answer = find(row, of_prompt), find(row, of_response)
        is_text = isinstance(answer, str)
        if is_text and isinstance(asked, str) and asked[:1] != "[" and asked is not answer:
            # Beside a prompt of its own, a text is the response, whatever it looks like.
            return self._read_text(row, of_prompt), self._read_text(row, of_response)
        source = of_response
        if of_chat and MISSING in (asked, answer):
            chat = find(row, of_chat)
            if chat is not MISSING and chat_in(chat, called(row, of_chat)) is not None:
                # A conversation that holds the response also holds its prompt.
                asked, answer = (chat if value is MISSING else value for value in (asked, answer))
                source = of_chat
        name = called(row, source)
        if is_text and isinstance(asked, str) and asked is not answer:
            messages = turns_in_lists(asked, str(answer), name)
            if messages is not None:
                asked = answer
            elif chat_in(asked, called(row, of_prompt)) is not None:
                messages = chat_in(answer, name)  # as CSV writes two lists of messages
        else:
            messages = chat_in(answer, name)
        before: Turns = []
        if messages is not None:
            before, response = split_last_answer(turns_of(messages, name, self.images), name)
            if not before and asked is answer:
                fact = "holds nothing before its last answer"
                raise _bad(row, source, fact, "Give it a prompt", "no prompt")
            check_encodable(response, called(row, of_response))
        else:
            response = self._read_text(row, of_response)
            if asked is answer and of_prompt.path == of_response.path:
                raise BadRow(
                    f"{name} is one text, named both as prompt and as response. Name the field of each: "
                    "--columns prompt=NAME,response=NAME.",
                    "one text for prompt and response",
                )
        if before and (asked is answer or asked is MISSING or not of_prompt.mapped):
            prompt = prompt_of(before)
        else:
            prompt = self._read_prompt(row, asked, response)
        check_encodable(prompt, called(row, of_prompt))
        return prompt, response

    def _read_prompt(self, row: Row, asked: object, response: str) -> str:
        """Return the prompt of a field that holds it alone, a text or a conversation that may end in the response."""
        source = self.fields.prompt
        if not is_in(row, source) and self.fields.chat:
            source = self.fields.chat
        messages = None if is_transcript(asked) else chat_in(asked, called(row, source))
        if messages is None:
            return self._read_text(row, self.fields.prompt)
        turns = turns_of(messages, called(row, source), self.images)
        repeats = turns[-1] == ("Assistant", response) and len(turns) > 1
        return prompt_of(turns[:-1] if repeats else turns)

    def _read_text(self, row: Row, field: Field) -> str:
        value = find(row, field)
        if isinstance(value, str):
            if not value.isascii():
                check_encodable(value, called(row, field))
            return value
        if value is MISSING:
            required = self.fields.required()
            raise self._absent(row, field, [other for other in required if not is_in(row, other)])
        if value is None:
            raise _bad(row, field, "is null", f"Give the row a {field.name}", f"no {field.name}")
        step = "Write it as text"
        path = find_at(row, field)[0]
        if isinstance(value, list):
            flag = shlex.quote(f"{field.name}={shown(path)}.0")
            step += f" (or name an item of it: --columns {flag})"
        if isinstance(value, dict) and value:
            members = list_names(list(names_in({path: value})), _LISTED)
            step += f" (or name the member that holds it, with --columns {field.name}=: {members})"
        fact, reason = f"is {kind(value)}, not text", f"the {field.name} is not text"
        raise _bad(row, field, fact, step, reason)

    def _absent(self, row: Row, field: Field, missing: Sequence[Field]) -> BadRow:
        reason = f"no {field.name}"
        if field.mapped and (fact := explain_short_list(row, field)):
            return BadRow(f"{fact}. Name another item, {_OR_SKIP}", reason)
        return BadRow(explain_missing(missing, names_in(row), self.fields), reason)

    def _image_marks(self, row: Row) -> list[str]:
        """Return the marks of the images in their own columns: a list holds several, null or an empty text none."""
        marks = []
        for field in self.fields.images:
            value = find(row, field)
            if value is MISSING:
                raise self._absent(row, field, [field])
            urls = value if isinstance(value, list) else [value]
            present = [url for url in urls if url not in [None, ""] and kind(url) != "NaN"]
            marks += [self.images.mark(url, "", called(row, field)) for url in present]
        return marks

    def _read_name(self, row: Row, field: Field) -> str | None:
        """Return the name of the row's pair, group or system, a text or a whole number as text; None if it needs none."""
        value, name = find(row, field), field.name.partition("_")[0]
        if type(value) is int or (type(value) is str and value.isascii() and value.isalnum()):
            return str(value)
        if isinstance(value, str) and value:
            if not value.isascii():
                check_encodable(value, called(row, field))
            if _ROUNDED.fullmatch(value.strip()):
                raise BadRow(
                    f"the {name} {value} was rounded by a spreadsheet, so different ones may be the same. Save the column as "
                    f"text{f', or {_IDS_OF_TEXTS}' if name == 'id' else ''}.",
                    f"a rounded {name}",
                )
            return value
        if value is MISSING and field.mapped:
            raise self._absent(row, field, [field])
        fact, reason = f"{kind(value)}, not text or a whole number", f"the {name} is not text"
        if value in (MISSING, None, "") or kind(value) == "NaN":
            fact, reason = "null or empty", f"no {name}"
            if not field.mapped:
                return None
        step = (
            f"Correct it, or {_IDS_OF_TEXTS}." if name == "id" else f"Name the {name}, {_OR_SKIP}"
        )
        raise BadRow(f"the {name} in {called(row, field)} is {fact}. {step}", reason)


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


def _bad(row: Row, field: Field, fact: str, step: str, reason: str) -> BadRow:
    return BadRow(f"{called(row, field)} {fact}. {step}, {_OR_SKIP}", reason)
