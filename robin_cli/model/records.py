"""The records of robin, such as pair, judgment, usage and label, and how they read in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Literal, NamedTuple

Status = Literal["ok", "unparsed", "failed"]
"""``ok``: answered with a rating. ``unparsed``: answered and paid for, without a rating. ``failed``: no answer (refused for
this pair, or given up after retries); it is recorded and costs no budget."""

WORDS = {
    "missing": "missing a rating",
    "out_of_range": "off the scale",
    "not_an_integer": "no whole number",
    "refused": "declined by the judge",
    "filtered": "filtered by the endpoint",
    "connection": "without a connection",
    "timeout": "timed out",
    "rate_limited": "kept waiting by a rate limit",
    "malformed": "answered with no completion",
    "judge_error": "failed in the judge",
    "unanswered": "without an answer from their batch",
    "batch_error": "failed within the batch service",
    "context_length": "too long for the model",
    "bad_request": "refused for now: robin resume asks again, within its budget",
    "reply_too_long": "answered with more than is read",
}
"""Reasons as they read after a number, if that is not the reason's own name."""

PERMANENT_FAILURES = frozenset({"filtered", "context_length", "reply_too_long"})
"""Reasons of a ``failed`` judgment after which asking the same pair again cannot help."""

REFUSALS = PERMANENT_FAILURES | {"bad_request"}
"""Reasons after which a pair is not asked again in this session; the next one asks again unless the reason is permanent."""

UNREADABLE = "unreadable"
"""The reason of a reply without a rating because its body cannot be read; it is paid for."""

RETIRE_AFTER = 5
"""An arm is retired after this many judgments in a row without a rating, or at once on a refusal."""

LONGEST_VISIT = 16
"""An arm is asked so many times in a row at most, by one request if the endpoint takes that."""

MODEL_PREFIX = "replay:"
"""A judge that replays recorded ratings has this before the name of its pool, so that its name says what it is."""

SERVICE_ID = r"^(?!.*(^|/)\.{1,2}(/|$))[!-~]{1,2000}$"
"""An id of a file or a batch from a batch service; some have slashes. It is part of an address, so it may not go up."""

PLACE_COLUMNS = {"line": "source_line", "row": "source_row"}
"""The columns with the number of a pair's line or row in its file, of pairs without an id of their own."""

SYSTEM_COLUMNS = ("system_a", "system_b")
"""The further columns with the systems of the two responses of a comparison."""

GROUP_COLUMN = "pair_group"
"""The column of pairs.parquet with each pair's group, if the data has one; no human rating has this name."""

OTHER_COLUMN = "pair_other"
"""The column of pairs.parquet with response B of each comparison; no human rating has this name."""

SYSTEM_COLUMN = "system"
"""The further column with the response's system."""

PROMPT_ID = "prompt_id"
"""The column of exported scores that says which pairs have the same prompt."""

Value = str | int | float | bool
"""A value in a further column of the data."""

NO_COLUMNS: Mapping[str, Value] = {}
"""The empty columns that all pairs without further columns share; never written."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A prompt and the response to be judged.

    Attributes:
        human: human ratings in the data, by attribute; an attribute without one is missing.
        reference: a model answer for the judge to compare with, if the data has one.
        group: the responses that belong together, if a column names them; all pairs of a data set have one, or none has.
        columns: the rest of the data's row, by the data's own names; no judge sees it.
        other: in a pairwise run, response B of the comparison; ``response`` is A.
    """

    pair_id: str
    prompt: str
    response: str
    human: Mapping[str, float] = field(default_factory=dict)
    reference: str | None = None
    group: str | None = None
    columns: Mapping[str, Value] = field(default_factory=lambda: NO_COLUMNS)
    other: str | None = None


def as_text(value: Value) -> str:
    """Return a value of a further column as people write it: 3, 0.5, true."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return str(value)


class Ends(NamedTuple):
    """The ends of a scale that scores are known to keep; infinite where nothing says them."""

    low: float = -inf
    high: float = inf

    @property
    def are_known(self) -> bool:
        """Whether there is a scale."""
        return self.high < inf

    def __str__(self) -> str:
        return f"{self.low:g}-{self.high:g}"


@dataclass(frozen=True, slots=True)
class Scale:
    """The integer ratings a rubric allows, both ends included. One that ``is_guessed`` holds the scores, and bounds none."""

    low: int
    high: int
    is_guessed: bool = field(default=False, compare=False)

    def __post_init__(self) -> None:
        if self.high <= self.low:
            raise ValueError(
                f"a scale needs a high end above its low end, got {self.low}-{self.high}"
            )

    @property
    def levels(self) -> int:
        """Number of ratings on the scale, at least 2."""
        return self.high - self.low + 1

    @property
    def is_of_digits(self) -> bool:
        """Whether each level is one digit, which is one token everywhere."""
        return self.low >= 0 and self.high <= 9

    @property
    def usual_variance(self) -> float:
        """About the variance of a judge's ratings before any repeats: a ninth of the width, squared; more on few levels.

        On two levels an unsure judge says either: ¼.
        """
        width = float(self.high - self.low)
        return max(width**2 / 81.0, 1.0 / (4.0 * width))

    @property
    def even_variance(self) -> float:
        """The variance of a rating drawn evenly from the scale."""
        return (self.levels**2 - 1) / 12

    @property
    def ends(self) -> Ends:
        """The ends that ratings are known to keep."""
        return Ends() if self.is_guessed else Ends(float(self.low), float(self.high))

    @property
    def prior(self) -> tuple[float, float]:
        """The variance that a pooled one begins with, and its degrees of freedom: 0 if the scale is guessed."""
        return (0.0, 0.0) if self.is_guessed else (self.even_variance, 1.0)

    @property
    def even_moments(self) -> tuple[float, float]:
        """The means of x and of x² of a rating x drawn evenly from the scale."""
        first = 0.5 * (self.low + self.high)
        return first, first * first + self.even_variance

    def __str__(self) -> str:
        return f"{self.low}-{self.high}"


def shared_scale(scales: Iterable[Scale]) -> Scale | None:
    """Return the common scale of ``scales``; None if they differ."""
    distinct = set(scales)
    return distinct.pop() if len(distinct) == 1 else None


@dataclass(frozen=True, slots=True)
class Rating:
    """The rating in one answer of a judge, or the reason that there is none.

    Exactly one of ``value`` and ``reason`` is None. ``feedback`` is the text of the Feedback line, "" without one.
    """

    value: int | None
    reason: str | None
    feedback: str = ""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens and money of one request; None if neither the endpoint nor an estimate has the number.

    ``cached_tokens`` are the ``prompt_tokens`` that the endpoint did not read again, ``reasoning_tokens`` the
    ``completion_tokens`` before the text. ``estimated``: a part is not the endpoint's own figure. ``counts_one_choice``: the
    endpoint counts only one of several choices.
    """

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cost_usd: float | None = None
    cached_tokens: int | None = None
    estimated: bool = False
    counts_one_choice: bool = False
    reasoning_tokens: int | None = None

    @property
    def rest(self) -> Usage:
        """The usage of the further judgments of one request, so that sums over judgments are right."""
        cached = None if self.cached_tokens is None else 0
        reasoning = None if self.reasoning_tokens is None else 0
        cost = None if self.cost_usd is None else 0.0
        return Usage(0, 0, cost, cached, reasoning_tokens=reasoning)


@dataclass(frozen=True, slots=True)
class Judgment:
    """One answer of a judge to one arm, as it stands on disk; or the lack of one (status ``failed``).

    ``judge`` is the name in --model, ``model`` the name that the endpoint reports.

    ``draw`` numbers the calls of an arm from 0, across interruptions, so that no two calls of an arm have the same seed. If one
    request brought several answers, the first carries its tokens and cost and the others 0, so that sums over judgments are
    right; an unknown cost is None in all of them. ``usage_estimated``: a part is not the endpoint's own figure.
    ``received_at`` is UTC, seconds since 1970. For the other tokens see :class:`Usage`.

    ``rating`` is the rating in the text. With ``scoring`` "logprobs", ``expected_rating`` counts instead, see
    :mod:`robin_cli.ask.expectation`; ``off_scale_mass`` comes with it. With "decisions" it counts too, ``rating`` is the
    likeliest level, and ``probabilities`` are those of all levels, as JSON. If log probabilities were requested and the text
    counts after all, ``text_because`` has the reason.
    """

    pair_id: str
    attribute: str
    judge: str
    draw: int
    status: Status
    model: str
    latency_s: float
    received_at: float
    rating: int | None = None
    reason: str | None = None
    feedback: str = ""
    text: str = ""
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cost_usd: float | None = None
    request_id: str | None = None
    usage_estimated: bool = False
    scoring: str = "text"
    expected_rating: float | None = None
    off_scale_mass: float | None = None
    text_because: str | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    fingerprint: str | None = None
    probabilities: str | None = None

    @property
    def value(self) -> float | None:
        """The number that enters the score: the expected rating if there is one, else the rating in the text."""
        return self.rating if self.expected_rating is None else self.expected_rating

    @property
    def is_final(self) -> bool:
        """Whether it has no rating and the judge would answer the same again, as decision models draw nothing."""
        return self.status == "unparsed" and self.scoring == "decisions"

    @property
    def counts(self) -> bool:
        """Whether it spent a unit of the budget: it was answered, with or without a rating."""
        return self.status != "failed"


def number_of(count: int, noun: str) -> str:
    """Return a count with its noun: "1 call", "3,000 calls"."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def first_text(ratings: int, *, is_panel: bool = False) -> str:
    """Return which ratings of a pair count: its first ones, and with several judges the first judge's."""
    whose = "first judge's " if is_panel else ""
    return f"the {whose}first {'rating' if ratings == 1 else f'{ratings:,} ratings'}"


def things_rated(arms: int, attributes: int, judges: int) -> str:
    """Return a number of arms in words: "60 pairs", or with several attributes "120 pairs × attributes"."""
    return number_of(arms, "pair") + " × attributes" * (attributes > 1) + " × judges" * (judges > 1)


def counted(reasons: Mapping[str, int], noun: str = "rating") -> str:
    """Return reasons and their counts in words: "3 missing a rating, 1 truncated"; "" for none.

    ``noun``: the thing requested, a rating or a verdict.
    """
    return ", ".join(
        f"{count:,} {in_words(reason, noun)}" for reason, count in sorted(reasons.items())
    )


def in_words(reason: str, noun: str = "rating") -> str:
    """Return a reason as it reads after a number; ``noun`` as for :func:`counted`."""
    code = reason.removeprefix("http_")
    if code != reason:
        return f"answered with HTTP {code}"
    return WORDS.get(reason, reason.replace("_", " ")).replace("rating", noun)
