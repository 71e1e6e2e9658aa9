"""Conversations, lists of messages with a role and a content, as texts: a prompt, and the response to judge."""

from __future__ import annotations

import ast
import re
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Any

import orjson

from robin_cli.data.rows import BadRow, kind
from robin_cli.model.errors import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from robin_cli.data.images import Images

Turns = list[tuple[str, str]]
"""Speakers ("User", "Assistant", "System", …) with their texts."""

_ROLE = re.compile(r"[A-Za-z][A-Za-z0-9_ -]{0,29}")
_SPEAKERS = {
    **dict.fromkeys(("human", "prompter"), "User"),
    **dict.fromkeys(("gpt", "chatgpt", "bot", "model"), "Assistant"),
}
"""The roles of ShareGPT and others."""

_NAMED = re.compile(r"(?:\A|\n\n)(System|User|Assistant): ")
_TRANSCRIPT = re.compile(r"(?:\A|\n\n)(Human|Assistant):")
_MESSAGES = re.compile(
    r"\s*(?:array\()?\[\s*\{(?=.*['\"](?:role|from)['\"]\s*:)(?=.*['\"](?:content|value)['\"]\s*:)",
    re.DOTALL,
)
"""A list of messages as text."""
_OF_NUMPY = re.compile(r"""\s*\[('[^'\n]*'|"[^"\n]*")\s+('[^'\n]*'|"[^"\n]*")[^,]*\]\s*\Z""")
"""A list of texts without commas: Python would join them."""
_MARK = "<extra_id_1>"
_REASONING = frozenset({"thinking", "redacted_thinking", "reasoning"})

_OR_SKIP = ", or leave such rows out with --skip-bad-rows."
_STEP = f'Write it as {{"role": …, "content": text}}{_OR_SKIP}'


def _bad(message: str, reason: str = "a conversation that cannot be used") -> BadRow:
    return BadRow(message, reason)


def is_transcript(value: object) -> bool:
    """Return whether a text is a transcript of Anthropic's HH."""
    begins = isinstance(value, str) and value.startswith(("\n\nHuman:", "Human:"))
    return begins and "\n\nAssistant:" in str(value)


def chat_in(value: object, called: str) -> list[Any] | None:
    """Return the messages of a conversation; None if the value is none.

    A conversation is a list that begins with an object, a text that writes such a list as JSON or as Python does, or a
    transcript of Anthropic's HH. BadRow for a list of messages as text that cannot be read.
    """
    if isinstance(value, list):
        return value if value and isinstance(value[0], dict) else None
    if not isinstance(value, str):
        return None
    if is_transcript(value):
        _, *turns = _TRANSCRIPT.split(value)
        both = zip(turns[::2], turns[1::2], strict=True)
        return [{"role": speaker, "content": text.strip()} for speaker, text in both]
    if not _MESSAGES.match(value):
        return None
    messages = _decode_list(value)
    if messages is None:
        raise _bad(
            f"{called} holds a list of messages as text that is no JSON. Write it as JSON, or the data as Parquet or JSON "
            f"lines{_OR_SKIP}"
        )
    return messages


def turns_in_lists(prompt: str, response: str, called: str) -> list[Any] | None:
    """Return the conversation of two texts that are JSON lists of texts, the user's turns and the assistant's; else None.

    Raises:
        BadRow: the lists differ in length, or an answer is null.
    """
    if not (prompt.lstrip().startswith("[") and response.lstrip().startswith("[")):
        return None
    if _OF_NUMPY.match(prompt) or _OF_NUMPY.match(response):
        raise _bad(
            f"{called} or its prompt is a list as numpy prints it. Write the lists as JSON, or the data as Parquet{_OR_SKIP}"
        )
    questions, answers = _decode_list(prompt) or [], _decode_list(response) or []
    are_texts = all(isinstance(text, str) for text in questions)
    if not (
        questions and answers and are_texts and all(isinstance(t, str | None) for t in answers)
    ):
        return None
    if None in answers:
        raise _bad(
            f"{called} holds null in place of an answer. Give every turn an answer{_OR_SKIP}",
            "no response",
        )
    if len(questions) != len(answers):
        raise _bad(
            f"{called} is a list of {len(answers)} texts, and its prompt one of {len(questions)}. Give every turn an "
            f"answer{_OR_SKIP}"
        )
    roles = ("user", "assistant") * len(questions)
    texts = chain.from_iterable(zip(questions, answers, strict=True))
    return [{"role": role, "content": text} for role, text in zip(roles, texts, strict=True)]


def _decode_list(text: str) -> list[Any] | None:
    """Return the list that a text writes as JSON or as Python does; None if it is none."""
    for decode in (orjson.loads, ast.literal_eval):
        # what literal_eval raises for deep nesting is not ValueError
        with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
            value = decode(text.strip())
            return value if isinstance(value, list) else None
    return None


def turns_of(messages: Sequence[object], called: str, images: Images | None = None) -> Turns:
    """Return the turns of a conversation, which errors name ``called``. BadRow for a message without a role or text.

    If ``images`` reads them, images become marks in the texts. Reasoning between messages is left out.
    """
    return [
        _turn(message, f"message {number} of {called}", images)
        for number, message in enumerate(messages, 1)
        if not (isinstance(message, dict) and message.get("type") in _REASONING)
    ]


def split_last_answer(turns: Turns, called: str) -> tuple[Turns, str]:
    """Return the turns before the last answer, and that answer. BadRow if the assistant does not speak last."""
    *before, (speaker, answer) = turns
    if speaker != "Assistant":
        raise _bad(
            f"{called} ends with a turn of {shown(speaker.lower())}, so it holds no response. "
            "End it with the assistant's turn, or name the field of the response: --columns response=NAME"
        )
    return before, answer


def prompt_of(turns: Turns) -> str:
    """Return the turns as one prompt: a single user's turn unchanged, others as :func:`named_turns`."""
    return turns[0][1] if len(turns) == 1 and turns[0][0] == "User" else named_turns(turns)


def named_turns(turns: Iterable[tuple[str, str]]) -> str:
    """Return the turns as one text, each after its speaker's name, with blank lines between."""
    return "\n\n".join(f"{speaker}: {text}" for speaker, text in turns)


def _marked_turns(prompt: str) -> Turns:
    """Split a prompt of HelpSteer2: the user's turn, then one from each line ``<extra_id_1>Assistant`` or ``…User``."""
    first, *others = prompt.split(f"\n{_MARK}")
    split = (turn.partition("\n") for turn in others)
    return [("User", first), *((speaker.strip(), text) for speaker, _, text in split)]


def turns_in(prompt: str) -> Turns:
    """Split a prompt into its turns, by HelpSteer2's marks or as :func:`named_turns`; else it is one turn of the user.

    It is split at names only if these make a conversation: user and assistant in turn, perhaps after the system, the user
    last.
    """
    begin, *named = _NAMED.split(prompt)
    turns = list(zip(named[::2], named[1::2], strict=True))
    speakers = [speaker for speaker, _ in turns]
    talk = speakers[1:] if speakers[:1] == ["System"] else speakers
    takes_turns = talk == ["User", "Assistant"] * (len(talk) // 2) + ["User"]
    marked = _marked_turns(prompt)
    return turns if len(marked) == 1 and not begin and takes_turns else marked


def readable_turns(prompt: str) -> str:
    """Return a multi-turn prompt of HelpSteer2 as :func:`named_turns`, other prompts unchanged."""
    turns = _marked_turns(prompt)
    return prompt if len(turns) == 1 else named_turns(turns)


def _turn(message: object, called: str, images: Images | None) -> tuple[str, str]:
    if not isinstance(message, dict):
        raise _bad(f"{called} is {kind(message)}, not an object. {_STEP}")
    if message.get("type") == "function_call":  # an item of OpenAI's responses
        return "Assistant", _write_call(message)
    if message.get("type") == "function_call_output":
        return "Tool", _text(message.get("output"), called, images)
    role = message.get("role", message.get("from"))
    if not isinstance(role, str) or not _ROLE.fullmatch(role):
        what = f'has the role "{shown(role)}"' if isinstance(role, str) else "has no role"
        raise _bad(f"{called} {what}. {_STEP}")
    content = message.get("content", message.get("value"))
    if content in (None, "") and message.get("refusal"):
        content = message["refusal"]
    several = message.get("tool_calls")
    calls = [*(several if isinstance(several, list) else ()), message.get("function_call")]
    texts = [_write_call(call) for call in calls if isinstance(call, dict)]
    if content is not None or not texts:
        texts.insert(0, _text(content, called, images))
    return _SPEAKERS.get(role.lower(), role.capitalize()), "\n".join(filter(None, texts))


def _text(content: object, called: str, images: Images | None) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        what = (
            "has no content"
            if content is None
            else f"has a content that is {kind(content)}, not text"
        )
        raise _bad(f"{called} {what}. {_STEP}")
    parts = (
        _part(part, f"part {number} of {called}", images) for number, part in enumerate(content, 1)
    )
    return "\n".join(text for text in parts if text is not None)


def _part(part: object, called: str, images: Images | None) -> str | None:
    """Return a part of a content as text; None for reasoning, which is no part of the answer."""
    if isinstance(part, str):
        return part
    what = kind(part)
    if isinstance(part, dict):
        match part.get("type", "text"):
            case kind_of_part if kind_of_part in _REASONING:
                return None
            case "image_url" if images is not None:
                image = part.get("image_url")
                source = image if isinstance(image, dict) else {"url": image}
                return images.mark(source.get("url"), source.get("detail"), called)
            case "tool_use":
                return _write_call({**part, "arguments": part.get("input", "")})
            case "tool_result":
                return _text(part.get("content", ""), called, images)
            case "text" | "input_text" | "output_text" if isinstance(part.get("text"), str):
                return str(part["text"])
            case "refusal" if isinstance(part.get("refusal"), str):
                return str(part["refusal"])
            case other:
                what = kind(part) if other is None else shown(other)
    raise _bad(f"{called} is not text ({what}). Leave such rows out with --skip-bad-rows.")


def _write_call(call: dict[str, Any]) -> str:
    """Return a tool call of OpenAI, Anthropic or Inspect, which holds the function's name itself, as text."""
    function = call.get("function")
    detail = function if isinstance(function, dict) else call
    arguments = detail.get("arguments", "")
    try:
        written = arguments if isinstance(arguments, str) else orjson.dumps(arguments).decode()
    except TypeError as error:  # a number past 64 bits, or nested too deeply
        raise _bad(
            f"the arguments of a tool call cannot be written ({shown(error)}). {_STEP}"
        ) from None
    name = function if isinstance(function, str) else detail.get("name")
    return f"[calls {name}({written})]"
