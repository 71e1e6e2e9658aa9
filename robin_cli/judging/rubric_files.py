"""Rubrics out of small TOML or YAML files, checked; every complaint names its line."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from robin_cli.errors import InputError, did_you_mean
from robin_cli.records import Scale

MOST_LEVELS = 101
"""The widest scale: 0 to 100."""

_KEYS = ("attribute", "title", "scale", "human", "levels", "examples")
_EXAMPLE_KEYS = ("prompt", "response", "feedback", "rating")
_SUFFIXES = (".toml", ".yaml", ".yml")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_LEVEL = re.compile(r"(-?\d+)(?:\s*-\s*(-?\d+))?")


@dataclass(frozen=True, slots=True)
class Example:
    """A response that was rated already, for the judge to go by."""

    response: str
    rating: int
    feedback: str
    prompt: str = ""

    @property
    def text(self) -> str:
        """The example as the judge reads it."""
        instruction = f"Instruction: {self.prompt}\n" if self.prompt else ""
        return f"Example:\n{instruction}Response: {self.response}\nFeedback: {self.feedback}\nRating: {self.rating}"


@dataclass(frozen=True, slots=True)
class Rubric:
    """What one attribute's ratings mean.

    Attributes:
        attribute, title: its name in files and flags, and in the prompt.
        scale: the ratings there are.
        levels: a label ("3", or "21-40" on a wide scale) and a text each, from low to high, the whole scale covered once.
        human: whose human ratings its scores are compared with, where that is another attribute of the data; else "".
        examples: may be none.
    """

    attribute: str
    title: str
    scale: Scale
    levels: tuple[tuple[str, str], ...]
    human: str = ""
    examples: tuple[Example, ...] = ()

    @property
    def text(self) -> str:
        """The rubric as the judge reads it, in the paper's form: a title line, then a line a level; then the examples."""
        levels = "\n".join((f"{self.title}:", *(f"Score {label}: {text}" for label, text in self.levels)))
        return "\n\n".join((levels, *(example.text for example in self.examples)))


def read_rubric(path: Path) -> Rubric:
    """The rubric in a file.

    Raises:
        InputError: it cannot be read, or is no rubric: an unknown or missing key, or levels that do not match the scale.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"--rubric {path}: cannot be read ({error.strerror})") from error
    except UnicodeDecodeError:
        raise InputError(f"--rubric {path}: is not UTF-8; save it as UTF-8") from None
    if path.suffix.lower() not in _SUFFIXES:
        raise InputError(f"--rubric {path}: a rubric is a .toml or a .yaml file")
    try:
        content = tomllib.loads(text) if path.suffix.lower() == ".toml" else yaml.safe_load(text)
    except (tomllib.TOMLDecodeError, yaml.YAMLError, RecursionError) as error:
        raise InputError(f"--rubric {path}: cannot be read: {' '.join(str(error).split())}") from None
    return _Reader(str(path), text).rubric(content)


class _Reader:
    """Makes a rubric of a file's content, and knows on which line of its text a key stands."""

    def __init__(self, source: str, text: str) -> None:
        self._source = source
        self._lines = text.splitlines()

    def rubric(self, content: object) -> Rubric:
        if not isinstance(content, dict):
            raise self._wrong("", "a rubric has attribute, title, scale and levels")
        for key in content:
            if key not in _KEYS:
                raise self._wrong(str(key), f'unknown key "{key}"{did_you_mean(str(key), _KEYS)}')
        attribute = self._text(content, "attribute")
        if not _NAME.fullmatch(attribute):
            raise self._wrong(
                "attribute", f'attribute "{attribute}": letters, digits, dots, dashes and underscores only'
            )
        scale = self._scale(content.get("scale"))
        return Rubric(
            attribute,
            self._text(content, "title", default=attribute.capitalize()),
            scale,
            self._levels(content.get("levels"), scale),
            self._text(content, "human", default=attribute) if "human" in content else "",
            self._examples(content.get("examples", []), scale),
        )

    def _text(self, content: Mapping[Any, object], key: str, default: str | None = None) -> str:
        value = content.get(key, default)
        if not isinstance(value, str) or not value.strip():
            raise self._wrong(key, f"{key} must be a text" if key in content else f'there is no "{key}"')
        return value

    def _scale(self, value: object) -> Scale:
        ends = value if isinstance(value, list) else []
        if len(ends) != 2 or not all(type(end) is int for end in ends) or ends[0] >= ends[1]:
            raise self._wrong("scale", "scale must be two whole numbers, the lowest and the highest rating: [1, 5]")
        scale = Scale(*ends)
        if scale.levels > MOST_LEVELS:
            raise self._wrong("scale", f"scale {scale}: has {scale.levels} ratings; {MOST_LEVELS} are the most")
        return scale

    def _levels(self, value: object, scale: Scale) -> tuple[tuple[str, str], ...]:
        if not isinstance(value, dict) or not value:
            raise self._wrong("levels", 'there are no "levels": a text for each rating of the scale')
        found: list[tuple[int, int, str, str]] = []
        for key, text in value.items():
            match = _LEVEL.fullmatch(str(key).strip())
            if match is None or not isinstance(text, str) or not text.strip():
                raise self._wrong(key, f'level "{key}": write a rating (or a range, 0-20) and its text', level=True)
            low = int(match[1])
            high = low if match[2] is None else int(match[2])
            if not scale.low <= low <= high <= scale.high:
                raise self._wrong(key, f'level "{key}": not on the scale {scale}', level=True)
            found.append((low, high, str(key).strip(), text.strip()))
        found.sort()
        expected = scale.low
        for low, high, key, _ in found:
            if low < expected:
                raise self._wrong(key, f'level "{key}": {low} has a text already', level=True)
            if low > expected:
                raise self._wrong("levels", f"the scale is {scale}, and level {expected} has no text")
            expected = high + 1
        if expected <= scale.high:
            raise self._wrong("levels", f"the scale is {scale}, and level {expected} has no text")
        return tuple((key, text) for _, _, key, text in found)

    def _examples(self, value: object, scale: Scale) -> tuple[Example, ...]:
        if not isinstance(value, list):
            raise self._wrong("examples", "examples must be a list, each with response, rating and feedback")
        examples = []
        for entry in value:
            if not isinstance(entry, dict):
                raise self._wrong("examples", "an example has response, rating and feedback")
            for key in entry:
                if key not in _EXAMPLE_KEYS:
                    raise self._wrong(
                        str(key), f'unknown key "{key}" in an example{did_you_mean(str(key), _EXAMPLE_KEYS)}'
                    )
            rating = entry.get("rating")
            if type(rating) is not int or not scale.low <= rating <= scale.high:
                raise self._wrong("rating", f"the rating {rating} of an example is not on the scale {scale}")
            texts = {key: self._text(entry, key) for key in ("response", "feedback")}
            examples.append(Example(rating=rating, prompt=str(entry.get("prompt", "")), **texts))
        return tuple(examples)

    def _wrong(self, key: object, fact: str, *, level: bool = False) -> InputError:
        line = self._line_of(str(key), after="levels" if level else "")
        return InputError(f"--rubric {self._source}{f':{line}' if line else ''}: {fact}")

    def _line_of(self, key: str, after: str) -> int:
        """Where ``key`` is set, from 1; for a level, below the line that begins the levels. 0 if it is nowhere."""
        name = re.escape(key)
        begins = re.compile(rf"""^\s*(?:-\s*)?(?:["']?{name}["']?\s*[=:]|\[+\s*{name}\s*\]+)""")
        start = self._line_of(after, "") if after else 0
        for number, line in enumerate(self._lines[start:], start + 1):
            if begins.match(line):
                return number
        return 0
