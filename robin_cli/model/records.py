"""The glossary: what a pair, a judgment and a usage are, everywhere in robin.

Every other module speaks in these words.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

Status = Literal["ok", "unparsed", "failed"]
"""``ok``: answered with a rating. ``unparsed``: answered, paid for, and no rating could be read. ``failed``: no answer
came (refused for this pair, or given up after retries); it is recorded, and it costs no budget."""

WORDS = {
    "missing": "missing a rating line",
    "out_of_range": "off the scale",
    "not_an_integer": "no whole number",
    "refused": "declined by the judge",
    "filtered": "filtered by the endpoint",
    "connection": "without a connection",
    "timeout": "timed out",
    "rate_limited": "told to wait for too long",
    "resource_unavailable": "without room at their service tier",
    "malformed": "answered with no completion",
    "judge_error": "failed in the judge",
    "unanswered": "without an answer from their batch",
    "batch_error": "failed within the batch service",
    "context_length": "too long for the model",
    "bad_request": "refused as they are",
    "reply_too_long": "answered with more than is read",
}
"""Reasons as people read them behind a number, where the reason itself does not say it."""

NO_ROOM = "resource_unavailable"
"""The reason of a call that its service tier had no room for."""

PERMANENT_FAILURES = frozenset({"filtered", "context_length", "bad_request", "reply_too_long"})
"""Reasons of a ``failed`` judgment after which asking the same pair again cannot help."""

RETIRE_AFTER = 5
"""An arm is retired after this many judgments in a row without a rating, or at once on a permanent failure."""

MODEL_PREFIX = "replay:"
"""A judge that replays recorded ratings is called this and the name of its pool: whatever names the judge says what it is."""

NORMAL_TIERS = frozenset({"default", "standard", "on_demand", "auto"})
"""What endpoints call the service tier that has the normal price, in requests and answers: OpenAI and Azure, Gemini, Groq."""

BATCH = "batch"
"""The service tier of answers that came by a batch service."""

SERVICE_ID = r"^(?!.*(^|/)\.{1,2}(/|$))[!-~]{1,2000}$"
"""An id that a batch service gave, of a file or a batch; some have slashes. It is part of addresses, so it leads nowhere up."""

COMPARE = "compare"
"""The objective of a run that compares systems."""

ORDERS = ("a-first", "b-first")
"""The variants of the question which of two responses is better: which of them the judge reads first."""

PREFERENCE = "preference"
"""The attribute of a run that compares two responses by no criterion."""

SYSTEM_COLUMNS = ("system_a", "system_b")
"""The further columns that say which systems wrote the two responses of a comparison."""

GROUP_COLUMN = "pair_group"
"""The column of pairs.parquet that says which group each pair is of, where the data said it; no human rating is called so."""

OTHER_COLUMN = "pair_other"
"""The column of pairs.parquet with the responses that comparisons are with; no human rating is called so."""

SYSTEM_COLUMN = "system"
"""The further column that says which system wrote the response."""

Value = str | int | float | bool
"""What a further column of the data holds."""

NO_COLUMNS: Mapping[str, Value] = {}
"""What all pairs without further columns share, and nobody writes to."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A prompt and the response to be judged.

    ``human`` holds the human ratings that came with the data, by attribute; an attribute without one is not in it.
    ``reference``: a model answer for the judge to compare with, where the data has one. ``group``: which responses belong
    together, where a column of the data says it; of the pairs of one data set all have one, or none has. ``columns``: what
    else the data's row holds, by the data's own names; no judge sees it. ``other``: in a pairwise run, where a pair is a
    comparison, its B, with which ``response``, its A, is compared.
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
    """A value of a further column as people write it: 3, 0.5, true."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return str(value)


@dataclass(frozen=True, slots=True)
class Scale:
    """The integer ratings a rubric allows, both ends included."""

    low: int
    high: int

    def __post_init__(self) -> None:
        if self.high <= self.low:
            raise ValueError(f"a scale needs a high end above its low end, got {self.low}-{self.high}")

    @property
    def levels(self) -> int:
        """How many ratings there are on the scale; at least 2."""
        return self.high - self.low + 1

    @property
    def even_variance(self) -> float:
        """The variance of a rating drawn evenly from the scale."""
        return (self.levels**2 - 1) / 12

    @property
    def even_moments(self) -> tuple[float, float]:
        """The means of x and of x² of a rating x drawn evenly from the scale."""
        first = 0.5 * (self.low + self.high)
        return first, first * first + self.even_variance

    def __str__(self) -> str:
        return f"{self.low}-{self.high}"


def shared_scale(scales: Iterable[Scale]) -> Scale | None:
    """The scale that all of ``scales`` are; None where they differ."""
    distinct = set(scales)
    return distinct.pop() if len(distinct) == 1 else None


@dataclass(frozen=True, slots=True)
class Rating:
    """What was read out of one answer of a judge: a rating, or the reason there is none.

    Exactly one of ``value`` and ``reason`` is None. ``feedback`` is the text of the Feedback line, empty if there is none.
    """

    value: int | None
    reason: str | None
    feedback: str = ""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens and money of one request; None where neither the endpoint nor an estimate says.

    ``cached_tokens`` are those of ``prompt_tokens`` that the endpoint did not have to read again, ``reasoning_tokens`` those of
    ``completion_tokens`` that the model thought in before its text. ``estimated``: a part of
    it is not the endpoint's own figure. ``counts_one_choice``: the endpoint is known to count one choice of several only.
    ``service_tier``: at which the endpoint says that it answered; "batch" where its batch service did.
    """

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cost_usd: float | None = None
    cached_tokens: int | None = None
    estimated: bool = False
    counts_one_choice: bool = False
    service_tier: str | None = None
    reasoning_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Judgment:
    """One answer of a judge to one arm, as it stands on disk; or the lack of one (status ``failed``).

    ``judge`` is the name that the judge was asked by (--model), ``model`` what the endpoint says that answered.

    ``draw`` numbers the calls of an arm from 0, so that no two calls of an arm are made with the same seed, before and
    after an interruption. Where one request brought several answers, the first of them carries the tokens and the cost
    of the request and the others 0, so that sums over judgments are right; a cost that is not known is None in all of them.
    ``usage_estimated``: tokens and cost are not (all) the endpoint's own figures. ``received_at`` is UTC, seconds since 1970.
    ``service_tier``, ``cached_tokens`` and ``reasoning_tokens``: see :class:`Usage`.

    ``rating`` is what the text says. ``scoring`` "logprobs": what counts is ``expected_rating``, see
    :mod:`robin_cli.parsing.expectation`; with it comes ``off_scale_mass``. Where log probabilities were asked for and the text
    counts after all, ``text_because`` says why.
    """

    pair_id: str
    attribute: str
    judge: str
    draw: int
    rating: int | None
    status: Status
    reason: str | None
    feedback: str
    text: str
    model: str
    finish_reason: str | None
    prompt_tokens: int | None
    completion_tokens: int | None
    cost_usd: float | None
    latency_s: float
    request_id: str | None
    received_at: float
    usage_estimated: bool = False
    scoring: str = "text"
    expected_rating: float | None = None
    off_scale_mass: float | None = None
    text_because: str | None = None
    service_tier: str | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None

    @property
    def value(self) -> float | None:
        """What enters the score: the expected rating where there is one, else the rating as written."""
        return self.rating if self.expected_rating is None else self.expected_rating

    @property
    def counts(self) -> bool:
        """Whether it spent a unit of the budget: it was answered, with a rating that could be read or not."""
        return self.status != "failed"


def tier_of(name: str | None) -> str | None:
    """A service tier by its name; None for the normal one, whatever it is called."""
    return None if name is None or name in NORMAL_TIERS else name


def number_of(count: int, noun: str) -> str:
    """A count with its noun: "1 call", "3,000 calls"."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def things_rated(arms: int, attributes: int, judges: int) -> str:
    """So many arms, in words: "60 pairs", or what pairs are multiplied by, "120 pairs × attributes"."""
    return number_of(arms, "pair") + " × attributes" * (attributes > 1) + " × judges" * (judges > 1)


def counted(reasons: Mapping[str, int], noun: str = "rating") -> str:
    """Reasons and how often each, as people read them: "3 missing a rating line, 1 truncated"; empty for none.

    ``noun``: what was asked for, a rating or a verdict.
    """
    return ", ".join(f"{count:,} {in_words(reason, noun)}" for reason, count in sorted(reasons.items()))


def in_words(reason: str, noun: str = "rating") -> str:
    """A reason as people read it behind a number; ``noun`` as for :func:`counted`."""
    code = reason.removeprefix("http_")
    if code != reason:
        return f"answered with HTTP {code}"
    return WORDS.get(reason, reason.replace("_", " ")).replace("rating", noun)


@dataclass(frozen=True, slots=True)
class Label:
    """What people say of a pair, the probability with which it was drawn (None: not told), and where that stands."""

    value: float
    probability: float | None
    place: str


@dataclass(frozen=True, slots=True)
class NamedBest:
    """The response that people say is the best of its group (None: not named), and where that stands."""

    pair_id: str
    group: str | None
    place: str


@dataclass(frozen=True, slots=True)
class GivenLabels:
    """Labels by attribute and pair id; every attribute is there, also without labels.

    Attributes:
        source: what errors call it.
        by_labeller: the same of each person, by attribute, pair id and name.
        best: the best responses of groups.
    """

    source: str
    by_attribute: Mapping[str, Mapping[str, Label]]
    by_labeller: Mapping[str, Mapping[str, Mapping[str, Label]]] = field(default_factory=dict)
    best: Sequence[NamedBest] = ()

    def __len__(self) -> int:
        return sum(map(len, self.by_attribute.values())) + len(self.best)
