"""Conversations, lists of messages with a role and a content, as texts: a prompt, and the response to judge."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import orjson

from robin_cli.data.rows import BadRow, kind
from robin_cli.model.errors import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from typing_extensions import TypeIs

    from robin_cli.data.images import Images

_ROLE = re.compile(r"[A-Za-z][A-Za-z0-9_ -]{0,29}")
_NAMED = re.compile(r"(?:\A|\n\n)(System|User|Assistant): ")
_MARK = "<extra_id_1>"
_STEP = 'Write it as {"role": …, "content": text}, or leave such rows out with --skip-bad-rows.'
_BAD = "a conversation that cannot be used"

Turns = list[tuple[str, str]]
"""Speakers ("User", "Assistant", "System", …) with their texts."""


def is_chat(value: object) -> TypeIs[list[object]]:
    """Return whether a value looks like a conversation: a list that begins with an object."""
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)


def turns_of(messages: Sequence[object], called: str, images: Images | None = None) -> Turns:
    """Return the turns of a conversation, which errors name ``called``. BadRow for a message without a role or text.

    If ``images`` reads them, images become marks in the texts.
    """
    return [
        _turn(message, f"message {number} of {called}", images)
        for number, message in enumerate(messages, 1)
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
    role = message.get("role")
    if not isinstance(role, str) or not _ROLE.fullmatch(role):
        what = f'has the role "{shown(role)}"' if isinstance(role, str) else "has no role"
        raise BadRow(f"{called} {what}. {_STEP}", _BAD)
    content, calls = message.get("content"), _calls(message.get("tool_calls"))
    if content is None and calls:
        return role.capitalize(), calls
    return role.capitalize(), "\n".join(filter(None, [_text(content, called, images), calls]))


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
    texts = []
    for number, part in enumerate(content, 1):
        if images is not None and isinstance(part, dict) and part.get("type") == "image_url":
            image = part.get("image_url")
            source = image if isinstance(image, dict) else {"url": image}
            texts.append(
                images.mark(source.get("url"), source.get("detail"), f"part {number} of {called}")
            )
            continue
        text = (
            part.get("text")
            if isinstance(part, dict) and part.get("type", "text") == "text"
            else part
        )
        if not isinstance(text, str):
            what = shown(part.get("type", "no type")) if isinstance(part, dict) else kind(part)
            raise BadRow(
                f"part {number} of {called} is not text ({what}). Leave such rows out with --skip-bad-rows.",
                _BAD,
            )
        texts.append(text)
    return "\n".join(texts)


def _calls(calls: object) -> str:
    """Return the assistant's tool calls, a line each."""
    if not isinstance(calls, list):
        return ""
    return "\n".join(_call(call) for call in calls if isinstance(call, dict))


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
