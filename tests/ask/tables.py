"""Tables of what is read out of many texts."""

from __future__ import annotations

from typing import TypeVar

Found = TypeVar("Found")
Text = TypeVar("Text")


def each(found: Found, *texts: Text) -> list[tuple[Text, Found]]:
    """Return rows of a table: in each of ``texts`` the same is found."""
    return [(text, found) for text in texts]


REASONS = (
    "missing",
    "out_of_range",
    "not_an_integer",
    "ambiguous",
    "truncated",
    "refused",
    "empty",
    "filtered",
)
"""Why an answer may hold no rating: these words are public."""
