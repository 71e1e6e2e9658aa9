"""Jinja templates of prompts, rendered in Jinja's sandbox."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from jinja2 import StrictUndefined, Template
from jinja2.exceptions import SecurityError
from jinja2.meta import find_undeclared_variables
from jinja2.sandbox import ImmutableSandboxedEnvironment

MOST = 20_000_000
"""The most characters of a prompt, beside three times those of its values."""

_ENVIRONMENT = ImmutableSandboxedEnvironment(
    undefined=StrictUndefined,
    autoescape=False,  # the judge reads plain text
    keep_trailing_newline=True,
)


@lru_cache(maxsize=4)  # a command needs its template more than once
def compiled(source: str) -> tuple[Template, frozenset[str]]:
    """Compile a template; return it with the names of the values that it asks for.

    Raises:
        TemplateSyntaxError: it is no template.
        RecursionError, MemoryError, SyntaxError: it is nested too deeply.
    """
    names = find_undeclared_variables(_ENVIRONMENT.parse(source))
    return _ENVIRONMENT.from_string(source), frozenset(names - _ENVIRONMENT.globals.keys())


def rendered(template: Template, values: Mapping[str, Any]) -> dict[str, str]:
    """Return the texts of a template's blocks ``system`` and ``user``. SecurityError if they are too long."""
    context = template.new_context(dict(values))
    most = MOST + 3 * sum(len(value) for value in values.values() if isinstance(value, str))
    texts: dict[str, str] = {}
    for role in ("system", "user"):
        if role not in template.blocks:
            continue
        pieces: list[str] = []
        for piece in template.blocks[role](context):
            pieces.append(piece)
            most -= len(piece)
            if most < 0:
                raise SecurityError(
                    "the prompt grows beyond the limit; loop over fewer items, or repeat less text"
                )
        texts[role] = "".join(pieces)
    return texts
