"""Convert the inputs and outputs of models, in the formats of traces, to robin's format."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

import orjson

from robin_cli.datasets.chats import turns_of
from robin_cli.datasets.formats.json_rows import NotJSON, parse
from robin_cli.datasets.rows import BadRow, Row, kind
from robin_cli.model.errors import shown
from robin_logs.base import OR_SKIP, as_object, as_text, name_of

NO_CALL = "spans that are no call of a model"

_CALLS = {"tool_call", "server_tool_call", "tool_use", "tool-call", "toolUse"}
_RESULTS = {
    "tool_call_response",
    "server_tool_call_response",
    "tool_result",
    "tool-result",
    "toolResult",
}
_THOUGHTS = {"reasoning", "thinking", "redacted_thinking", "reasoningContent"}
"""The types of a message's parts, in OpenTelemetry, Anthropic, the AI SDK and Bedrock."""


def asked(value: object, called: str) -> str:
    """Return a model's input: messages, also as JSON in a text; a text; or any other value as JSON. BadRow if empty."""
    messages = messages_in(value, "user")
    return as_text(
        messages or (value if value is None or isinstance(value, str) else _written(value)), called
    )


def answered(value: object, called: str) -> str:
    """Return a model's output, with its tool calls, like :func:`asked`."""
    if messages := messages_in(value, "assistant"):
        return said(messages, called)
    if value is None or value == "":
        raise BadRow(f"{called} is not there. Ask again{OR_SKIP}", "no response")
    return value if isinstance(value, str) else _written(value)


def said(messages: Sequence[object], called: str) -> str:
    """Return the texts of one answer's messages."""
    return "\n\n".join(text for _, text in turns_of(messages, called))


def messages_in(value: object, role: str, *, known: bool = False) -> list[object] | None:
    """Return a value's messages in chat format. None if it has none, as an answer may itself be JSON.

    Args:
        role: the role of messages without one.
        known: whether they are messages even without a role.
    """
    found = parsed(value)
    for name in (
        "messages",
        "choices",
    ):  # a request, and a reply, as they went to the endpoint and came
        if isinstance(found, dict) and isinstance(found.get(name), list):
            found = found[name]
    several = [found] if isinstance(found, dict) else found
    if (
        not isinstance(several, list)
        or not several
        or not all(isinstance(each, dict) for each in several)
    ):
        return None
    if not known and not all(map(_has_role, several)):
        return None
    return [_message(as_object(each), role) for each in several]


def numbered(flat: Mapping[str, object], prefix: str) -> list[Row]:
    """Return the objects of a list flattened into numbered names: prefix.0.role, prefix.0.content, …"""
    found: dict[int, Row] = {}
    for name, value in flat.items():
        if name.startswith(f"{prefix}."):
            number, _, rest = name[len(prefix) + 1 :].partition(".")
            if rest and number.isdecimal() and len(number) < 7:
                found.setdefault(int(number), {})[rest] = value
    return [found[number] for number in sorted(found)]


def parsed(value: object) -> object:
    """Decode a text of JSON that is an object or a list; return any other value unchanged."""
    if isinstance(value, str) and value[:64].lstrip()[:1] in {"[", "{"}:
        with suppress(NotJSON, UnicodeEncodeError):
            return parse(value.encode())
    return value


def numbers(prefix: str, found: Iterable[tuple[object, object]]) -> Row:
    """Return the numbers among named values, each name with ``prefix``."""
    return {
        f"{prefix}.{name}": value
        for name, value in found
        if isinstance(name, str)
        and (type(value) is int or (type(value) is float and math.isfinite(value)))
    }


def _has_role(found: Row) -> bool:
    return "role" in found or "message.role" in found or "role" in as_object(found.get("message"))


def _message(found: Row, role: str) -> Row:
    """Return a message with its parts as texts, and its tool calls."""
    inner = parsed(found.get("message"))
    if isinstance(inner, (str, list)):
        found = {**found, "content": inner}
    flat = _plain(inner if isinstance(inner, dict) else found, "message.")
    calls = [_call(each) for each in _list(flat.get("tool_calls")) or numbered(flat, "tool_calls")]
    parts = next(
        filter(None, (flat.get("parts"), flat.get("contents"), numbered(flat, "contents"))),
        flat.get("content"),
    )
    texts: object = parts
    if isinstance(parts, list):
        texts = [text for part in parts if (text := _part(part, calls)) is not None]
    return {
        "role": flat.get("role") or role,
        "content": texts or None if calls else texts,
        "tool_calls": calls,
    }


def _part(part: object, calls: list[Row]) -> object:
    """Return a part's text; None for reasoning, and for a tool call, which is appended to ``calls``; others unchanged."""
    if not isinstance(part, dict):
        return part
    flat = _plain(part, "message_content.")
    of = name_of(flat.get("type")) or next(iter(flat), "")
    body = as_object(flat.get(of)) or flat
    if of in _CALLS:
        calls.append(_call(body))
        return None
    if of in _THOUGHTS:
        return None
    if of in _RESULTS:
        value = _first(body, "response", "result", "content", "output")
        return value if isinstance(value, str) else _written(value)
    text = _first(flat, "text", "content")
    return (
        text
        if isinstance(text, str) and of in {"text", "content", "input_text", "output_text"}
        else part
    )


def _call(found: object) -> Row:
    """Return a tool call as a name and arguments."""
    flat = _plain(as_object(found), "tool_call.")
    told = {**flat, **as_object(flat.get("tool_call"))}
    told |= as_object(told.get("function"))
    arguments = _first(told, "arguments", "input", "args", "function.arguments")
    name = _first(told, "name", "toolName", "function.name")
    return {"name": name_of(name), "arguments": "" if arguments is None else arguments}


def _first(found: Row, *names: str) -> object:
    return next((found[name] for name in names if found.get(name) is not None), None)


def _plain(found: Row, prefix: str) -> Row:
    return {name.removeprefix(prefix): value for name, value in found.items()}


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _written(value: object) -> str:
    try:
        return orjson.dumps(value, default=str).decode()
    except TypeError as error:
        raise BadRow(
            f"{kind(value)} cannot be written as JSON ({shown(error, 80)}). Correct it{OR_SKIP}",
            "not JSON",
        ) from None
