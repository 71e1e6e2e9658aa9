"""People's ratings and verdicts as numbers: in the fields of a row, or as a single value."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from robin_cli.data.fields import MISSING, NOT_READ, called, find
from robin_cli.data.rows import BadRow, Row, kind
from robin_cli.model.errors import shown

if TYPE_CHECKING:
    from robin_cli.data.fields import Field

_NO_RATING = frozenset({"", "na", "n/a", "nan", "null", "none"})
"""Texts that mean "no rating" in CSV, in small letters: pandas, R and SQL each write their own."""

_SHARES = {
    **dict.fromkeys(("a", "model_a", "a>b"), 1.0),
    **dict.fromkeys(("tie", "tie (bothbad)", "both_bad", "a=b"), 0.5),
    **dict.fromkeys(("b", "model_b", "b>a"), 0.0),
}
"""The share of response A in a verdict, as robin, Chatbot Arena and JudgeBench write it."""

_OF_PLACES = ("better_response_id", "safer_response_id")
"""The columns of PKU-SafeRLHF that say which response is better by its place, 0 or 1, as ``choice`` of Summarize From
Feedback does."""

_EXACT, _DIGITS = 2**53, 16


def read_ratings(row: Row, fields: Sequence[Field], *, of_two: bool) -> dict[str, float]:
    """Return the human ratings in a row's fields by name; several annotators' are a list, of which the mean counts.

    BadRow if a value is no rating. ``of_two``: the row holds two responses, so that a rating may be a verdict.
    """
    ratings = {}
    for field in fields:
        value: Any = row.get(field.paths[0])
        number = _whole_number(value) if type(value) is str else None
        if type(value) is int and -_EXACT < value < _EXACT:
            number = float(value)
        if number is not None and not of_two:  # nearly always
            ratings[field.name] = number
            continue
        value = find(row, field)
        several = value if isinstance(value, list) else [value]
        numbers = [_read_rating(rating, row, field, of_two=of_two) for rating in several]
        if present := [number for number in numbers if number is not None]:
            ratings[field.name] = mean(present)
    return ratings


def mean(ratings: Sequence[float]) -> float:
    """Return the mean of one or more finite ratings; it is finite even if their sum is not."""
    total = sum(ratings)
    if math.isfinite(total):
        return total / len(ratings)
    return sum(rating / len(ratings) for rating in ratings)


def _read_rating(value: Any, row: Row, field: Field, *, of_two: bool) -> float | None:
    value = None if value is MISSING else value
    number = as_share(_as_verdict(value, row, field.path)) if of_two else as_number(value)
    if number is None or math.isnan(number):
        return None
    if math.isinf(number):
        what = f'"{shown(value)}"' if isinstance(value, (str, int, float, Decimal)) else kind(value)
        lacks, give = ("no verdict", "A, B, tie") if of_two else ("not a finite number", "a number")
        flag = shlex.quote(f"{field.name}={NOT_READ}")
        raise BadRow(
            f"the human rating in {called(row, field)} is {what}, {lacks}. "
            f"Give {give} or null, or do not read these ratings: --columns {flag}.",
            "a human rating is not a number",
        )
    return number


@lru_cache(1024)
def _whole_number(text: str) -> float | None:
    """Return the number that digits write; None for any other text."""
    return float(text) if text.isdecimal() and len(text) < _DIGITS else None


def _as_verdict(value: Any, row: Row, path: str) -> Any:
    """Return A, B or tie for a value by which a known data set says it in numbers; others unchanged."""
    is_place = path in _OF_PLACES or (path == "choice" and "summaries" in row)
    if is_place and (place := as_number(value)) in (0, 1):
        return "AB"[int(place)]
    if path == "winner_model_a" and as_number(row.get("winner_tie")) == 1:
        return "tie"  # of Chatbot Arena on Kaggle, which writes 0 for "not A"
    return value


def as_share(value: object) -> float | None:
    """Return a person's verdict on two responses as the share of A: 1 for A, 0.5 for a tie, 0 for B, or a number itself.

    None and inf as :func:`as_number`.
    """
    verdict = _SHARES.get(value.strip().lower()) if isinstance(value, str) else None
    return as_number(value) if verdict is None else verdict


def as_number(value: object) -> float | None:
    """Return a value as a number; None if it is absent, inf if it cannot be a rating."""
    if type(value) is float or value is None:
        return value
    if isinstance(value, str):
        if value.strip().lower() in _NO_RATING:
            return None
        if "_" in value:  # float() would read 1_0 as ten
            return math.inf
    elif isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        return math.inf
    try:
        return float(value)
    except (ValueError, OverflowError):
        return math.inf
