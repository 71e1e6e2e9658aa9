"""The Jinja templates of prompts: the shipped ones and users' own, checked, and rendered in Jinja's sandbox."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from jinja2 import StrictUndefined, Template, TemplateError, TemplateSyntaxError
from jinja2.exceptions import SecurityError
from jinja2.meta import find_undeclared_variables
from jinja2.sandbox import ImmutableSandboxedEnvironment

from robin_cli.ask.kinds import Kind
from robin_cli.ask.ratings import RATING
from robin_cli.ask.verdicts import VERDICT
from robin_cli.data.local import read_small_file, shipped
from robin_cli.model.errors import InputError, did_you_mean

MOST = 20_000_000
"""The most characters of a prompt, on top of three times those of its values."""

_SUFFIX = ".jinja"

_OF_EXPRESSIONS = (ArithmeticError, AssertionError, LookupError, NameError, TypeError, ValueError)
"""Errors that expressions in a template raise."""

_ENVIRONMENT = ImmutableSandboxedEnvironment(
    undefined=StrictUndefined,
    autoescape=False,  # the judge reads plain text
    keep_trailing_newline=True,
)

_FOR_SOME = {RATING.input, VERDICT.input, "all-attributes"}
"""The shipped templates that only decision models, or only judges by JSON, may be asked with."""


def known_templates(*, pairwise: bool | None = None) -> list[str]:
    """Return the names of the shipped templates, sorted; ``pairwise`` keeps those that are, or are not, and fit any answers."""
    names = sorted(path.stem for path in shipped("prompts").glob(f"*{_SUFFIX}"))
    if pairwise is None:
        return names
    return [n for n in names if (n == VERDICT.template) == pairwise and n not in _FOR_SOME]


def is_shipped_template(sha256: str) -> bool:
    """Return whether a template with this SHA-256 of its text is one of the shipped ones."""
    texts = (read_template(name) for name in known_templates())
    return any(hashlib.sha256(text.encode()).hexdigest() == sha256 for text in texts)


def read_template(name: str, kind: Kind = RATING) -> str:
    """Return the text of a shipped template, or of a file. InputError if there is none; it lists those for ``kind``."""
    is_shipped = name in known_templates()
    path = shipped("prompts") / f"{name}{_SUFFIX}" if is_shipped else Path(name)
    try:
        return read_small_file(path, f"--template {name}")
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        known = known_templates(pairwise=kind is VERDICT)
        raise InputError(
            f"--template {name}: cannot be read ({getattr(error, 'strerror', None) or error}); ready ones, by name, are "
            f"{', '.join(known)}{did_you_mean(name, known_templates())}"
        ) from None


@dataclass(frozen=True)
class PromptTemplate:
    """A template for one kind of question.

    Attributes:
        origin: where it comes from, for errors.
        asked: names of the values that it asks for.
    """

    origin: str
    asked: frozenset[str]
    template: Template

    def render(self, values: Mapping[str, Any], pair_id: str) -> dict[str, str]:
        """Return the texts of the blocks ``system``, if there is one, and ``user``. InputError if an expression fails."""
        context = self.template.new_context(dict(values))
        most = MOST + 3 * sum(len(value) for value in values.values() if isinstance(value, str))
        texts: dict[str, str] = {}
        try:
            for role in ("system", "user"):
                if role not in self.template.blocks:
                    continue
                pieces: list[str] = []
                for piece in self.template.blocks[role](context):
                    pieces.append(piece)
                    most -= len(piece)
                    if most < 0:
                        raise SecurityError(
                            "the prompt grows beyond the limit; loop over fewer items, or repeat less text"
                        )
                texts[role] = "".join(pieces)
        except (TemplateError, *_OF_EXPRESSIONS, RecursionError) as error:
            raise InputError(
                f"{self.origin}: cannot be rendered for pair {pair_id} ({error})"
            ) from error
        return texts


@lru_cache(maxsize=4)  # a command needs its template more than once
def compile_template(source: str, kind: Kind, origin: str) -> PromptTemplate:
    """Compile a template. InputError if it is none, or does not fit the kind of question."""
    try:
        asked = find_undeclared_variables(_ENVIRONMENT.parse(source)) - _ENVIRONMENT.globals.keys()
        template = _ENVIRONMENT.from_string(source)
    except TemplateSyntaxError as error:
        raise InputError(f"{origin}, line {error.lineno}: {error.message}") from None
    hidden = [name for name in kind.responses if name not in asked]
    unknown = sorted(asked - set(kind.values))
    fact = ""
    if "user" not in template.blocks:
        fact = ": has no block user; write {% block user %} … {% endblock %} around the question"
    elif kind is RATING and asked & VERDICT.responses.keys():
        others = ", ".join(known_templates(pairwise=False))
        fact = f": shows two responses, and one is rated here; add --pairwise, or take another: {others}"
    elif kind is VERDICT and hidden:
        others = ", ".join(known_templates(pairwise=True))
        fact = (
            f": does not show {' and '.join(hidden)}, which --pairwise compares; take one for two responses ({others}), "
            "or leave --template out"
        )
    elif unknown:
        name, lines = unknown[0], enumerate(source.splitlines(), 1)
        line = next((number for number, text in lines if name in text), 0)
        near = did_you_mean(name, kind.values)
        fact = (
            f', line {line}: there is no value "{name}"; there are {", ".join(kind.values)}{near}'
        )
    elif hidden:
        fact = f": never shows {hidden[0]}; write {{{{ {hidden[0]} }}}} into the template"
    if fact:
        raise InputError(f"{origin}{fact}")
    return PromptTemplate(origin, frozenset(asked), template)
