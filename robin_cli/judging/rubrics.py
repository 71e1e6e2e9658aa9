"""Template + rubric + pair -> the messages a judge is asked with."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from jinja2 import StrictUndefined, Template, TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from robin_cli.errors import InputError, did_you_mean
from robin_cli.judging.judge import Message
from robin_cli.records import Pair, Scale
from robin_cli.shipped import shipped

_TURN = "<extra_id_1>"
_TEMPLATE = "absolute-judge.jinja"


@dataclass(frozen=True, slots=True)
class Rubric:
    """What one attribute's ratings mean: a text for each level of a scale."""

    attribute: str
    title: str
    scale: Scale
    levels: tuple[str, ...]

    @property
    def text(self) -> str:
        """The rubric as the judge reads it, in the paper's form: a title line, then a line a level."""
        lines = (f"Score {self.scale.low + step}: {level}" for step, level in enumerate(self.levels))
        return "\n".join((f"{self.title}:", *lines))


def load_rubric(attribute: str) -> Rubric:
    """The shipped rubric for ``attribute``.

    Raises:
        InputError: there is none; the message lists those there are.
    """
    path = shipped("prompts") / "rubrics" / f"{attribute}.toml"
    known = known_attributes()
    if attribute not in known:
        near = did_you_mean(attribute, known)
        raise InputError(f'--attribute "{attribute}": no rubric for it; there are {", ".join(known)}{near}')
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    low, high = content["scale"]
    levels = content["levels"]
    return Rubric(attribute, content["title"], Scale(low, high), tuple(levels[str(k)] for k in range(low, high + 1)))


def known_attributes() -> list[str]:
    """The attributes that a rubric is shipped for, sorted."""
    folder = shipped("prompts") / "rubrics"
    return sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))


class PromptSet:
    """The template and the rubrics of a run, ready to render.

    What comes from the data is a value for the template, never a template: braces, Jinja marks and rating lines inside a
    pair reach the judge as they are.

    Raises:
        InputError: an attribute without a rubric, or rubrics of different scales.
    """

    def __init__(self, attributes: Sequence[str]) -> None:
        self._source = (shipped("prompts") / _TEMPLATE).read_text(encoding="utf-8")
        self.rubrics = {attribute: load_rubric(attribute) for attribute in attributes}
        scales = {rubric.scale for rubric in self.rubrics.values()}
        if len(scales) > 1:
            raise InputError(f"--attribute: one run needs one scale; these have {', '.join(sorted(map(str, scales)))}")
        (self.scale,) = scales

    @cached_property
    def _template(self) -> Template:
        environment = ImmutableSandboxedEnvironment(
            undefined=StrictUndefined,
            autoescape=False,  # the judge reads plain text
            keep_trailing_newline=True,
        )
        return environment.from_string(self._source)

    @property
    def sha256(self) -> str:
        """Of the template and the rubrics' texts: two runs with the same hash asked the same questions."""
        digest = hashlib.sha256(self._source.encode())
        for attribute in sorted(self.rubrics):
            rubric = self.rubrics[attribute]
            digest.update(f"\0{attribute}\0{rubric.scale}\0{rubric.text}".encode())
        return digest.hexdigest()

    def messages(self, pair: Pair, attribute: str) -> list[Message]:
        """The system and the user message that ask for ``attribute`` of ``pair``."""
        rubric = self.rubrics[attribute]
        values = {
            "instruction": readable_turns(pair.prompt),
            "response": pair.response,
            "rubric": rubric.text,
            "low": rubric.scale.low,
            "high": rubric.scale.high,
        }
        context = self._template.new_context(values)
        try:
            return [
                {"role": role, "content": "".join(self._template.blocks[role](context))} for role in ("system", "user")
            ]
        except TemplateError as error:
            raise InputError(f"{_TEMPLATE}: cannot be rendered ({error})") from error


def readable_turns(prompt: str) -> str:
    """HelpSteer2's multi-turn prompts with named turns, blank lines between; single-turn prompts as they are.

    There a line ``<extra_id_1>Assistant`` or ``<extra_id_1>User`` begins a turn, and the first turn is the user's.
    """
    turns = prompt.split(f"\n{_TURN}")
    if len(turns) == 1:
        return prompt
    named = [f"User: {turns[0]}"]
    for turn in turns[1:]:
        speaker, _, said = turn.partition("\n")
        named.append(f"{speaker.strip()}: {said}")
    return "\n\n".join(named)
