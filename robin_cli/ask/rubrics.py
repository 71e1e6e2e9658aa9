"""Reads and checks rubrics in small TOML or YAML files; every error names its line."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from robin_cli.data.local import read_small_file, shipped
from robin_cli.model.errors import InputError, did_you_mean
from robin_cli.model.records import Scale

MOST_LEVELS = 101
"""The widest scale: 0 to 100."""

_KEYS = ("attribute", "title", "scale", "human", "levels", "examples")
_SUFFIXES = (".toml", ".yaml", ".yml")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_LEVEL = re.compile(r"(-?\d{1,9})(?:\s*-\s*(-?\d{1,9}))?")
_TOML = re.compile(r"""^\s*[\w"'-]+\s*=|^\s*\[""", re.MULTILINE)
"""The start of a line in TOML; no line of a rubric in YAML has it."""


class Example(Struct, frozen=True, forbid_unknown_fields=True):
    response: str
    rating: int
    feedback: str
    prompt: str = ""

    @property
    def text(self) -> str:
        instruction = f"Instruction: {self.prompt}\n" if self.prompt else ""
        return f"Example:\n{instruction}Response: {self.response}\nFeedback: {self.feedback}\nRating: {self.rating}"


# dict=True: a place for the cached text
class Rubric(Struct, frozen=True, forbid_unknown_fields=True, dict=True):
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
        return {
            rating: text for low, high, _, text in self._rows() for rating in range(low, high + 1)
        }

    @cached_property
    def text(self) -> str:
        """The rubric as the judge reads it, in the paper's form: a title line, a line for each level, then the examples."""
        rows = [f"Score {label}: {text}" for _, _, label, text in self._rows()]
        levels = "\n".join((f"{self.title}:", *rows))
        return "\n\n".join((levels, *(example.text for example in self.examples)))

    @property
    def values(self) -> dict[str, Any]:
        """The values of a template that are about the attribute."""
        texts = {"rubric": self.text, "title": self.title, "attribute": self.attribute}
        return {**texts, "low": self.scale.low, "high": self.scale.high}

    def _rows(self) -> Iterator[tuple[int, int, str, str]]:
        """Yield lowest rating, highest rating, label and text of each level, and of each gap between two levels."""
        before, last = "", self.scale.low - 1
        for label, text in self.levels:
            low, high = _ends(label)
            if (first := last + 1) < low:
                gap = f"{first}" if first == low - 1 else f"{first} to {low - 1}"
                between = f"Between what stands at score {before} and what stands at score {label}."
                yield first, low - 1, gap, between
            yield low, high, label, text
            before, last = label, high


def rubric_of(attribute: str) -> Rubric:
    """Return the shipped rubric for ``attribute``. InputError if there is none; it lists the shipped ones."""
    known = known_attributes()
    if attribute not in known:
        near = did_you_mean(attribute, known)
        raise InputError(
            f'--attribute "{attribute}": no rubric for it; there are {", ".join(known)}{near or ", or your own: --rubric FILE"}'
        )
    return read_rubric(rubric_path(attribute))


def known_attributes() -> list[str]:
    return sorted(path.stem for path in rubric_path("*").parent.glob("*.toml"))


def rubric_path(attribute: str) -> Path:
    return shipped("prompts") / "rubrics" / f"{attribute}.toml"


def _read_yaml(text: str) -> Any:
    """Return the content of a YAML file. ValueError if it is none."""
    import yaml  # slow to import, and most rubrics are TOML

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None


def read_rubric(path: Path) -> Rubric:
    """Return the rubric in a file.

    Raises:
        InputError: it cannot be read, has an unknown key or lacks one, or its levels do not match the scale.
    """
    place, suffix = f"--rubric {path}", path.suffix.lower()
    if suffix not in _SUFFIXES and path.is_file():
        raise InputError(f"{place}: a rubric is a .toml or a .yaml file")
    try:
        text = read_small_file(path, place)
        # The name of a pipe has no suffix, so the text decides.
        is_toml = suffix == ".toml" or (suffix not in _SUFFIXES and bool(_TOML.search(text)))
        content = tomllib.loads(text) if is_toml else _read_yaml(text)
    except OSError as error:
        raise InputError(f"{place}: cannot be read ({error.strerror})") from None
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        fact = " ".join(str(error).split())[:300]
        raise InputError(f"{place}: cannot be read: {fact}") from None
    try:
        return _rubric_in(content)
    except _Flaw as flaw:
        lines = text.splitlines()
        start = _line_of("levels", lines) if flaw.is_level else 0
        line = _line_of(flaw.key, lines, start)
        raise InputError(f"{place}{f':{line}' if line else ''}: {flaw.fact}") from None
    except ValueError:  # an integer of thousands of digits has no text
        raise InputError(
            f"{place}: a number in it is too long; ratings are small whole numbers"
        ) from None


class _Flaw(Exception):  # never leaves this module
    """A fault at a key of a rubric; a level stands below the line that begins the levels."""

    def __init__(self, key: object, fact: str, *, is_level: bool = False) -> None:
        self.key, self.fact, self.is_level = str(key), fact, is_level


def _line_of(key: str, lines: Sequence[str], start: int = 0) -> int:
    """Return the line that sets the key, from 1; 0 if none behind line ``start`` does."""
    name = re.escape(key)
    begins = re.compile(rf"""^\s*(?:-\s*)?(?:["']?{name}["']?\s*[=:]|\[+\s*{name}\s*\]+)""")
    numbers = range(start + 1, len(lines) + 1)
    return next((number for number in numbers if begins.match(lines[number - 1])), 0)


def _rubric_in(content: object) -> Rubric:
    if not isinstance(content, dict):
        raise _Flaw("", "a rubric has attribute, title, scale and levels")
    if unknown := [key for key in content if key not in _KEYS]:
        near = did_you_mean(str(unknown[0]), _KEYS)
        raise _Flaw(unknown[0], f'unknown key "{unknown[0]}"{near}')
    attribute = _text_in(content, "attribute")
    if not _NAME.fullmatch(attribute):
        rule = "letters, digits, dots, dashes and underscores only"
        raise _Flaw("attribute", f'attribute "{attribute}": {rule}')
    ends = content.get("scale")
    if (
        not (isinstance(ends, list) and len(ends) == 2)
        or not all(type(end) is int for end in ends)
        or ends[0] >= ends[1]
    ):
        fact = "scale must be two whole numbers, the lowest and the highest rating: [1, 5]"
        raise _Flaw("scale", fact)
    scale = Scale(*ends)
    if scale.levels > MOST_LEVELS:
        fact = f"scale {scale}: has {scale.levels} ratings; {MOST_LEVELS} are the most"
        raise _Flaw("scale", fact)
    return Rubric(
        attribute,
        _text_in(content, "title", default=attribute.capitalize()),
        scale,
        _levels_in(content.get("levels"), scale),
        _text_in(content, "human") if "human" in content else "",
        _examples_in(content.get("examples", []), scale),
    )


def _text_in(content: Mapping[Any, object], key: str, default: str | None = None) -> str:
    value = content.get(key, default)
    if not isinstance(value, str) or not value.strip():
        raise _Flaw(key, f"{key} must be a text" if key in content else f'there is no "{key}"')
    return value


def _levels_in(value: object, scale: Scale) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, dict) or not value:
        raise _Flaw("levels", 'there are no "levels": a text for each rating of the scale')
    rows: list[tuple[int, int, str, str]] = []
    for key, text in value.items():
        label = str(key).strip()
        if not _LEVEL.fullmatch(label) or not isinstance(text, str) or not text.strip():
            fact = f'level "{key}": write a rating (or a range, 0-20) and its text'
            raise _Flaw(key, fact, is_level=True)
        low, high = _ends(label)
        if not scale.low <= low <= high <= scale.high:
            raise _Flaw(key, f'level "{key}": not on the scale {scale}', is_level=True)
        rows.append((low, high, label, text.strip()))
    rows.sort()
    for (_, before, _, _), (low, _, label, _) in pairwise(rows):
        if before >= low:
            raise _Flaw(label, f'level "{label}": {low} has a text already', is_level=True)
    for end, first in ((scale.low, rows[0][0]), (scale.high, rows[-1][1])):
        if end != first:
            lacks = f"the scale is {scale}, and level {end} has no text"
            raise _Flaw("levels", f"{lacks}; the lowest and the highest need one")
    return tuple((label, text) for _, _, label, text in rows)


def _ends(label: str) -> tuple[int, int]:
    """Return the first and the last rating of a level's label. ValueError if it is none."""
    match = _LEVEL.fullmatch(label)
    if match is None:
        raise ValueError(label)
    return int(match[1]), int(match[2] or match[1])


def _examples_in(value: object, scale: Scale) -> tuple[Example, ...]:
    try:
        examples = msgspec.convert(value, tuple[Example, ...])
    except msgspec.ValidationError as error:
        raise _Flaw("examples", f"examples: {error}") from None
    for example in examples:
        if not scale.low <= example.rating <= scale.high:
            fact = f"the rating {example.rating} of an example is not on the scale {scale}"
            raise _Flaw("rating", fact)
    return examples
