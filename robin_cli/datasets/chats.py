"""Conversations as lists of messages with a role and a content, as texts: a prompt, and the response that is judged."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import orjson

from robin_cli.datasets.rows import BadRow, kind
from robin_cli.model.errors import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from typing_extensions import TypeIs

    from robin_cli.datasets.images import Images

_ROLE = re.compile(r"[A-Za-z][A-Za-z0-9_ -]{0,29}")
_NAMED = re.compile(r"(?:\A|\n\n)(System|User|Assistant): ")
_MARK = "<extra_id_1>"
_STEP = 'Write it as {"role": …, "content": text}, or leave such rows out with --skip-bad-rows.'
_BAD = "a conversation that cannot be used"

Turns = list[tuple[str, str]]
"""Who speaks ("User", "Assistant", "System", …) and what is said."""


def is_chat(value: object) -> TypeIs[list[object]]:
    """Whether this is meant as a conversation: a list that begins with an object."""
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)


def turns_of(messages: Sequence[object], called: str, images: Images | None = None) -> Turns:
    """The turns of a conversation; ``called`` begins the errors. BadRow for a message without a role, or not of text.

    Images are marks in what is said, where ``images`` takes them.
    """
    return [_turn(message, f"message {number} of {called}", images) for number, message in enumerate(messages, 1)]


def split(turns: Turns, called: str) -> tuple[Turns, str]:
    """The turns before the last answer, and that answer. BadRow where the assistant does not speak last."""
    *before, (speaker, said) = turns
    if speaker != "Assistant":
        raise BadRow(
            f"{called} ends with a turn of {shown(speaker.lower())}, so that it holds no response. "
            "End it with the assistant's turn, or name the field of the response: --columns response=NAME",
            _BAD,
        )
    return before, said


def prompt_of(turns: Turns) -> str:
    """The turns as one prompt: a user's only turn as it is, others by :func:`named_turns`."""
    return turns[0][1] if len(turns) == 1 and turns[0][0] == "User" else named_turns(turns)


def named_turns(turns: Iterable[tuple[str, str]]) -> str:
    """The turns, each behind its speaker's name, blank lines between."""
    return "\n\n".join(f"{speaker}: {said}" for speaker, said in turns)


def marked_turns(prompt: str) -> Turns:
    """The turns of one of HelpSteer2's prompts: the user's, then one at each line ``<extra_id_1>Assistant`` or ``…User``."""
    first, *others = prompt.split(f"\n{_MARK}")
    split = (turn.partition("\n") for turn in others)
    return [("User", first), *((speaker.strip(), said) for speaker, _, said in split)]


def turns_in(prompt: str) -> Turns:
    """The turns that a prompt is made of: marked ones, or :func:`named_turns`; else it is one turn of the user's.

    It is split at names only where these make a conversation: user and assistant in turn, perhaps behind the system, the user
    last.
    """
    turns = marked_turns(prompt)
    begin, *named = _NAMED.split(prompt)
    speakers, said = named[::2], named[1::2]
    talk = speakers[1:] if speakers[:1] == ["System"] else speakers
    in_turn = len(talk) % 2 == 1 and all(each == ("User", "Assistant")[at % 2] for at, each in enumerate(talk))
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
        what = "has no content" if content is None else f"has a content that is {kind(content)}, not text"
        raise BadRow(f"{called} {what}. {_STEP}", _BAD)
    texts = []
    for number, part in enumerate(content, 1):
        if images is not None and isinstance(part, dict) and part.get("type") == "image_url":
            image = part.get("image_url")
            told = image if isinstance(image, dict) else {"url": image}
            texts.append(images.mark(told.get("url"), told.get("detail"), f"part {number} of {called}"))
            continue
        text = part.get("text") if isinstance(part, dict) and part.get("type", "text") == "text" else part
        if not isinstance(text, str):
            of = shown(part.get("type", "no type")) if isinstance(part, dict) else kind(part)
            raise BadRow(
                f"part {number} of {called} is no text ({of}), and judges read text. Leave such rows out with --skip-bad-rows.",
                _BAD,
            )
        texts.append(text)
    return "\n".join(texts)


def _calls(calls: object) -> str:
    """The tools that an assistant calls, a line each."""
    if not isinstance(calls, list):
        return ""
    return "\n".join(_call(call) for call in calls if isinstance(call, dict))


def _call(call: Mapping[str, object]) -> str:
    function = call.get("function")
    told = function if isinstance(function, dict) else call
    arguments = told.get("arguments", "")
    try:
        written = arguments if isinstance(arguments, str) else orjson.dumps(arguments).decode()
    except TypeError as error:  # a number past 64 bits, or nested too deeply
        raise BadRow(f"the arguments of a tool call cannot be written ({shown(error)}). {_STEP}", _BAD) from None
    name = function if isinstance(function, str) else told.get("name")  # Inspect's messages hold the name itself
    return f"[calls {name}({written})]"


def readable_turns(prompt: str) -> str:
    """HelpSteer2's multi-turn prompts with named turns, blank lines between; single-turn prompts as they are."""
    turns = marked_turns(prompt)
    return prompt if len(turns) == 1 else named_turns(turns)
