"""Reads and checks rubrics in small TOML or YAML files; every error names its line."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct

from robin_cli.data.local import read_small_file
from robin_cli.model.errors import InputError, did_you_mean
from robin_cli.model.records import Scale

MOST_LEVELS = 101
"""The widest scale: 0 to 100."""

_KEYS = ("attribute", "title", "scale", "human", "levels", "examples")
_EXAMPLE_KEYS = ("prompt", "response", "feedback", "rating")
_SUFFIXES = (".toml", ".yaml", ".yml")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_LEVEL = re.compile(r"(-?\d{1,9})(?:\s*-\s*(-?\d{1,9}))?")
_TOML = re.compile(r"""^\s*[\w"'-]+\s*=|^\s*\[""", re.MULTILINE)
"""The start of a line in TOML; no line of a rubric in YAML has it."""


class Example(Struct, frozen=True, forbid_unknown_fields=True):
    """A rated response that the judge sees as an example."""

    response: str
    rating: int
    feedback: str
    prompt: str = ""

    @property
    def text(self) -> str:
        """The example as the judge reads it."""
        instruction = f"Instruction: {self.prompt}\n" if self.prompt else ""
        return f"Example:\n{instruction}Response: {self.response}\nFeedback: {self.feedback}\nRating: {self.rating}"


class Rubric(
    Struct, frozen=True, forbid_unknown_fields=True, dict=True
):  # with a place for the text, once it is made
    """The meaning of one attribute's ratings; a run's manifest has the same fields.

    Attributes:
        attribute, title: its name in files and flags, and in the prompt.
        scale: the possible ratings.
        levels: labels ("3", or "21-40" on a wide scale) and texts, from low to high, without overlap; both ends of the scale
            have one, those between need not.
        human: the attribute of the data with its human ratings, if that is another; else "".
        examples: rated responses; may be empty.
    """

    attribute: str
    title: str
    scale: Scale
    levels: tuple[tuple[str, str], ...]
    human: str = ""
    examples: tuple[Example, ...] = ()

    @property
    def level_texts(self) -> dict[int, str]:
        """The text of every rating of the scale."""
        texts: dict[int, str] = {}
        for label, text in _with_gaps(self.levels):
            low, high = _ends(label.replace(" to ", "-"))
            texts |= dict.fromkeys(range(low, high + 1), text)
        return texts

    @cached_property
    def text(self) -> str:
        """The rubric as the judge reads it, in the paper's form: a title line, a line for each level, then the examples."""
        levels = "\n".join(
            (
                f"{self.title}:",
                *(f"Score {label}: {text}" for label, text in _with_gaps(self.levels)),
            )
        )
        return "\n\n".join((levels, *(example.text for example in self.examples)))


def read_rubric(path: Path) -> Rubric:
    """Return the rubric in a file.

    Raises:
        InputError: it cannot be read, has an unknown key or lacks one, or its levels do not match the scale.
    """
    called = f"--rubric {path}"
    try:
        text = read_small_file(path, called)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise InputError(
            f"{called}: cannot be read ({getattr(error, 'strerror', None) or error})"
        ) from None
    suffix = path.suffix.lower()
    if suffix not in _SUFFIXES and path.is_file():
        raise InputError(f"{called}: a rubric is a .toml or a .yaml file")
    # The name of a pipe has no suffix, so the text decides.
    is_toml = suffix == ".toml" or (suffix not in _SUFFIXES and bool(_TOML.search(text)))
    try:
        content = tomllib.loads(text) if is_toml else yaml.safe_load(text)
    except RecursionError:
        raise InputError(
            f"{called}: cannot be read: it is nested too deeply; a rubric has two levels"
        ) from None
    except (
        ValueError,
        TypeError,
        OverflowError,
        yaml.YAMLError,
    ) as error:  # TOMLDecodeError is a ValueError
        raise InputError(
            f"{called}: cannot be read: {' '.join(str(error).split())[:300]}"
        ) from None
    try:
        return _Reader(str(path), text).rubric(content)
    except ValueError:  # an integer of thousands of digits has no text
        raise InputError(
            f"{called}: a number in it is too long; ratings are small whole numbers"
        ) from None


def _with_gaps(levels: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield the levels, and a line for ratings between two of them that have no text."""
    last = ""
    for label, text in levels:
        if last:
            low, high = _ends(last)[1] + 1, _ends(label)[0] - 1
            if low <= high:
                between = f"{low}" if low == high else f"{low} to {high}"
                yield (
                    between,
                    f"Between what stands at score {last} and what stands at score {label}.",
                )
        yield label, text
        last = label


def _ends(label: str) -> tuple[int, int]:
    """Return the first and the last rating of a level's label. ValueError if it is none."""
    match = _LEVEL.fullmatch(label)
    if match is None:
        raise ValueError(label)
    return int(match[1]), int(match[2] or match[1])


class _Reader:
    """Makes a rubric of a file's content, and finds the line of a key for errors."""

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
                "attribute",
                f'attribute "{attribute}": letters, digits, dots, dashes and underscores only',
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
            raise self._wrong(
                key, f"{key} must be a text" if key in content else f'there is no "{key}"'
            )
        return value

    def _scale(self, value: object) -> Scale:
        ends = value if isinstance(value, list) else []
        if len(ends) != 2 or not all(type(end) is int for end in ends) or ends[0] >= ends[1]:
            raise self._wrong(
                "scale",
                "scale must be two whole numbers, the lowest and the highest rating: [1, 5]",
            )
        scale = Scale(*ends)
        if scale.levels > MOST_LEVELS:
            raise self._wrong(
                "scale", f"scale {scale}: has {scale.levels} ratings; {MOST_LEVELS} are the most"
            )
        return scale

    def _levels(self, value: object, scale: Scale) -> tuple[tuple[str, str], ...]:
        if not isinstance(value, dict) or not value:
            raise self._wrong(
                "levels", 'there are no "levels": a text for each rating of the scale'
            )
        found: list[tuple[int, int, str, str]] = []
        for key, text in value.items():
            label = str(key).strip()
            if not _LEVEL.fullmatch(label) or not isinstance(text, str) or not text.strip():
                raise self._wrong(
                    key,
                    f'level "{key}": write a rating (or a range, 0-20) and its text',
                    level=True,
                )
            low, high = _ends(label)
            if not scale.low <= low <= high <= scale.high:
                raise self._wrong(key, f'level "{key}": not on the scale {scale}', level=True)
            found.append((low, high, label, text.strip()))
        found.sort()
        for (_, before, _, _), (low, _, key, _) in pairwise(found):
            if low <= before:
                raise self._wrong(key, f'level "{key}": {low} has a text already', level=True)
        for end, described in ((scale.low, found[0][0]), (scale.high, found[-1][1])):
            if end != described:
                raise self._wrong(
                    "levels",
                    f"the scale is {scale}, and level {end} has no text; the lowest and the highest need one",
                )
        return tuple((key, text) for _, _, key, text in found)

    def _examples(self, value: object, scale: Scale) -> tuple[Example, ...]:
        if not isinstance(value, list):
            raise self._wrong(
                "examples", "examples must be a list, each with response, rating and feedback"
            )
        examples = []
        for entry in value:
            if not isinstance(entry, dict):
                raise self._wrong("examples", "an example has response, rating and feedback")
            for key in entry:
                if key not in _EXAMPLE_KEYS:
                    raise self._wrong(
                        str(key),
                        f'unknown key "{key}" in an example{did_you_mean(str(key), _EXAMPLE_KEYS)}',
                    )
            rating = entry.get("rating")
            if type(rating) is not int or not scale.low <= rating <= scale.high:
                raise self._wrong(
                    "rating", f"the rating {rating} of an example is not on the scale {scale}"
                )
            texts = {key: self._text(entry, key) for key in ("response", "feedback")}
            examples.append(Example(rating=rating, prompt=str(entry.get("prompt", "")), **texts))
        return tuple(examples)

    def _wrong(self, key: object, fact: str, *, level: bool = False) -> InputError:
        line = self._line_of(str(key), after="levels" if level else "")
        return InputError(f"--rubric {self._source}{f':{line}' if line else ''}: {fact}")

    def _line_of(self, key: str, after: str) -> int:
        """Return the line that sets ``key``, from 1; for a level, one below the line that begins the levels. 0 if none does."""
        name = re.escape(key)
        begins = re.compile(rf"""^\s*(?:-\s*)?(?:["']?{name}["']?\s*[=:]|\[+\s*{name}\s*\]+)""")
        start = self._line_of(after, "") if after else 0
        for number, line in enumerate(self._lines[start:], start + 1):
            if begins.match(line):
                return number
        return 0
