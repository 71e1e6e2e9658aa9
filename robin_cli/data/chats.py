"""Conversations, lists of messages with a role and a content, as texts: a prompt, and the response to judge."""

from __future__ import annotations

import ast
import re
from contextlib import suppress
from typing import TYPE_CHECKING

import orjson

from robin_cli.data.rows import BadRow, kind
from robin_cli.model.errors import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from robin_cli.data.images import Images

_ROLE = re.compile(r"[A-Za-z][A-Za-z0-9_ -]{0,29}")
_SPEAKERS = {
    **dict.fromkeys(("human", "prompter"), "User"),
    **dict.fromkeys(("gpt", "chatgpt", "bot", "model"), "Assistant"),
}
"""Roles of ShareGPT and others."""

_NAMED = re.compile(r"(?:\A|\n\n)(System|User|Assistant): ")
_TRANSCRIPT = re.compile(r"(?:\A|\n\n)(Human|Assistant):")
_MESSAGES = re.compile(
    r"\s*\[\s*\{(?=.*['\"](?:role|from)['\"]\s*:)(?=.*['\"](?:content|value)['\"]\s*:)",
    re.DOTALL,
)
"""A list of messages as text."""
_OF_NUMPY = re.compile(r"""\s*\[('[^'\n]*'|"[^"\n]*")\s+('[^'\n]*'|"[^"\n]*")[^,]*\]\s*\Z""")
"""A list of texts without commas; Python would join them."""
_MARK = "<extra_id_1>"
_STEP = 'Write it as {"role": …, "content": text}, or leave such rows out with --skip-bad-rows.'
_BAD = "a conversation that cannot be used"

_TEXTS = frozenset({"text", "input_text", "output_text"})
_REASONING = frozenset({"thinking", "redacted_thinking", "reasoning"})
_MOST_DECODED = 2**22

Turns = list[tuple[str, str]]
"""Speakers ("User", "Assistant", "System", …) with their texts."""

CHAT_BEGINS = ("[", "\n\nHuman:", "Human:")
"""The begin of a text that may hold a conversation."""


def is_transcript(value: object) -> bool:
    """Return whether a text is a transcript of Anthropic's HH."""
    return (
        isinstance(value, str) and value.startswith(CHAT_BEGINS[1:]) and "\n\nAssistant:" in value
    )


def chat_in(value: object, called: str) -> list[object] | None:
    """Return the messages of a conversation: a list that begins with an object, or a text that holds one; None for others.

    The text is JSON, as Python prints such a list, or a transcript of Anthropic's HH. BadRow for a list of messages as text
    that cannot be read.
    """
    if isinstance(value, list):
        return value if value and isinstance(value[0], dict) else None
    if not isinstance(value, str):
        return None
    if is_transcript(value):
        _, *named = _TRANSCRIPT.split(value)
        return [
            {"role": _SPEAKERS.get(speaker.lower(), speaker), "content": said.strip()}
            for speaker, said in zip(named[::2], named[1::2], strict=True)
        ]
    if not _MESSAGES.match(value):
        return None
    messages = _decoded(value)
    if messages is None:
        raise BadRow(
            f"{called} holds a list of messages as text that is no JSON. Write it as JSON, or the data as Parquet or JSON "
            "lines, or leave such rows out with --skip-bad-rows.",
            _BAD,
        )
    return messages


def turns_in_lists(prompt: str, response: str, called: str) -> list[object] | None:
    """Return the conversation of two texts that are JSON lists of texts, the user's turns and the assistant's; else None.

    Raises:
        BadRow: the lists differ in length, or an answer is null.
    """
    both = (prompt, response)
    if any(map(_OF_NUMPY.match, both)) and all(text.lstrip().startswith("[") for text in both):
        raise BadRow(
            f"{called} or its prompt is a list as numpy prints it. Write the lists as JSON, or the data as Parquet, or leave "
            "such rows out with --skip-bad-rows.",
            _BAD,
        )
    asked, said = _decoded(prompt), _decoded(response)
    if not asked or not said or not all(isinstance(each, str) for each in asked):
        return None
    if not all(isinstance(each, str | None) for each in said):
        return None
    if None in said:
        raise BadRow(
            f"{called} holds null in place of an answer. Give every turn an answer, or leave such rows out with "
            "--skip-bad-rows.",
            "no response",
        )
    if len(asked) != len(said):
        raise BadRow(
            f"{called} is a list of {len(said)} texts, and its prompt one of {len(asked)}. Give every turn an answer, or leave "
            "such rows out with --skip-bad-rows.",
            _BAD,
        )
    return [
        {"role": role, "content": text}
        for turn in zip(asked, said, strict=True)
        for role, text in zip(("user", "assistant"), turn, strict=True)
    ]


def _decoded(text: str) -> list[object] | None:
    """Return the list that a text writes as JSON or as Python does; None if it is none."""
    if not text.lstrip().startswith("[") or len(text) > _MOST_DECODED:
        return None
    value: object = None
    with suppress(orjson.JSONDecodeError):
        value = orjson.loads(text)
    if value is None:
        with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
            value = ast.literal_eval(text.strip())
    return value if isinstance(value, list) else None


def turns_of(messages: Sequence[object], called: str, images: Images | None = None) -> Turns:
    """Return the turns of a conversation, which errors name ``called``. BadRow for a message without a role or text.

    If ``images`` reads them, images become marks in the texts. Reasoning between messages is left out.
    """
    return [
        _turn(message, f"message {number} of {called}", images)
        for number, message in enumerate(messages, 1)
        if not (isinstance(message, dict) and message.get("type") in _REASONING)
    ]


def split(turns: Turns, called: str) -> tuple[Turns, str]:
    """Return the turns before the last answer, and that answer. BadRow if the assistant does not speak last."""
    *before, (speaker, said) = turns
    if speaker != "Assistant":
        raise BadRow(
            f"{called} ends with a turn of {shown(speaker.lower())}, so it holds no response. "
            "End it with the assistant's turn, or name the field of the response: --columns response=NAME",
            _BAD,
        )
    return before, said


def prompt_of(turns: Turns) -> str:
    """Return the turns as one prompt: a single user's turn unchanged, others as :func:`named_turns`."""
    return turns[0][1] if len(turns) == 1 and turns[0][0] == "User" else named_turns(turns)


def named_turns(turns: Iterable[tuple[str, str]]) -> str:
    """Return the turns as one text, each after its speaker's name, with blank lines between."""
    return "\n\n".join(f"{speaker}: {said}" for speaker, said in turns)


def marked_turns(prompt: str) -> Turns:
    """Split a prompt of HelpSteer2: the user's turn, then one from each line ``<extra_id_1>Assistant`` or ``…User``."""
    first, *others = prompt.split(f"\n{_MARK}")
    split = (turn.partition("\n") for turn in others)
    return [("User", first), *((speaker.strip(), said) for speaker, _, said in split)]


def turns_in(prompt: str) -> Turns:
    """Split a prompt into its turns, by HelpSteer2's marks or as :func:`named_turns`; else it is one turn of the user.

    It is split at names only if these make a conversation: user and assistant in turn, perhaps after the system, the user
    last.
    """
    turns = marked_turns(prompt)
    begin, *named = _NAMED.split(prompt)
    speakers, said = named[::2], named[1::2]
    talk = speakers[1:] if speakers[:1] == ["System"] else speakers
    in_turn = len(talk) % 2 == 1 and all(
        each == ("User", "Assistant")[at % 2] for at, each in enumerate(talk)
    )
    if len(turns) == 1 and not begin and in_turn:
        return list(zip(speakers, said, strict=True))
    return turns


def _turn(message: object, called: str, images: Images | None) -> tuple[str, str]:
    if not isinstance(message, dict):
        raise BadRow(f"{called} is {kind(message)}, not an object. {_STEP}", _BAD)
    if message.get("type") == "function_call":  # an item of OpenAI's responses
        return "Assistant", _call(message)
    if message.get("type") == "function_call_output":
        return "Tool", _text(message.get("output"), called, images)
    role = message.get("role", message.get("from"))
    if not isinstance(role, str) or not _ROLE.fullmatch(role):
        what = f'has the role "{shown(role)}"' if isinstance(role, str) else "has no role"
        raise BadRow(f"{called} {what}. {_STEP}", _BAD)
    content = message.get("content", message.get("value"))
    if content is None:
        content = message.get("refusal")
    calls = [*_calls_in(message.get("tool_calls")), *_calls_in([message.get("function_call")])]
    texts = [] if content is None and calls else [_text(content, called, images)]
    return _SPEAKERS.get(role.lower(), role.capitalize()), "\n".join(filter(None, [*texts, *calls]))


def _text(content: object, called: str, images: Images | None) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        what = (
            "has no content"
            if content is None
            else f"has a content that is {kind(content)}, not text"
        )
        raise BadRow(f"{called} {what}. {_STEP}", _BAD)
    texts = [
        _part(part, f"part {number} of {called}", images) for number, part in enumerate(content, 1)
    ]
    return "\n".join(text for text in texts if text is not None)


def _part(part: object, called: str, images: Images | None) -> str | None:
    """Return a part of a content as text; None for reasoning, which is no part of the answer."""
    if isinstance(part, str):
        return part
    of_kind = part.get("type", "text") if isinstance(part, dict) else None
    if isinstance(part, dict):
        if of_kind in _REASONING:
            return None
        if of_kind == "image_url" and images is not None:
            image = part.get("image_url")
            source = image if isinstance(image, dict) else {"url": image}
            return images.mark(source.get("url"), source.get("detail"), called)
        if of_kind == "tool_use":
            return _call({**part, "arguments": part.get("input", "")})
        if of_kind == "tool_result":
            return _text(part.get("content", ""), called, images)
        text = part.get("refusal" if of_kind == "refusal" else "text")
        if isinstance(text, str) and of_kind in (*_TEXTS, "refusal"):
            return text
    what = kind(part) if of_kind is None else shown(of_kind)
    raise BadRow(
        f"{called} is not text ({what}). Leave such rows out with --skip-bad-rows.",
        _BAD,
    )


def _calls_in(calls: object) -> list[str]:
    """Return the assistant's tool calls as texts."""
    if not isinstance(calls, list):
        return []
    return [_call(call) for call in calls if isinstance(call, dict)]


def _call(call: Mapping[str, object]) -> str:
    function = call.get("function")
    detail = function if isinstance(function, dict) else call
    arguments = detail.get("arguments", "")
    try:
        written = arguments if isinstance(arguments, str) else orjson.dumps(arguments).decode()
    except TypeError as error:  # a number past 64 bits, or nested too deeply
        raise BadRow(
            f"the arguments of a tool call cannot be written ({shown(error)}). {_STEP}", _BAD
        ) from None
    # Inspect's messages hold the name itself
    name = function if isinstance(function, str) else detail.get("name")
    return f"[calls {name}({written})]"


def readable_turns(prompt: str) -> str:
    """Return a multi-turn prompt of HelpSteer2 as :func:`named_turns`, other prompts unchanged."""
    turns = marked_turns(prompt)
    return prompt if len(turns) == 1 else named_turns(turns)
