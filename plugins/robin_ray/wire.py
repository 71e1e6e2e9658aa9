"""Messages between the process that chooses calls and the workers that make them: groups of requests and of results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from robin_cli.model.exchange import Failure
from robin_cli.model.records import Judgment, Scale

Texts = tuple[str, str, str, str | None, str | None]
"""A pair's id, prompt, response, reference, and the response that it is compared with."""


class Posed(NamedTuple):
    """One request to make.

    Attributes:
        number: unique in a session.
        target: the judge and address, by number.
        pair: its position in the data.
        arm: its index among the pair's arms.
        draw, samples: its calls.
        texts: the pair's, if the worker cannot read them itself.
    """

    number: int
    target: int
    pair: int
    arm: int
    draw: int
    samples: int
    texts: Texts | None = None


class Group(msgspec.Struct, array_like=True, gc=False):
    """Requests for one worker.

    Attributes:
        heeded: by target, the number of the worker's refusals with a wait that were known when this was chosen.
    """

    questions: list[Posed]
    heeded: dict[int, int]


class Answered(NamedTuple):
    """A request that was answered: its judgments and its tokens."""

    number: int
    judgments: list[Judgment]
    tokens: int


class Unusable(NamedTuple):
    """A failure that every other request would share: the name of its error in model/errors.py, and the message."""

    number: int
    kind: str
    why: str


class Came(msgspec.Struct, array_like=True, gc=False):
    """Results of requests, with other news.

    Attributes:
        unsent: requests that were not made, because their target asked for a wait.
        bugs: errors in robin's code; the answers are kept without ratings.
        notes: lines for the user.
        most_samples: the most ratings in one reply, by target, if known.
        refusals: by target, how often it asked for a wait.
    """

    answered: list[Answered] = []
    failed: list[tuple[int, Failure]] = []
    unusable: list[Unusable] = []
    unsent: list[int] = []
    bugs: list[str] = []
    notes: list[str] = []
    most_samples: dict[int, int] = {}
    refusals: dict[int, int] = {}


@dataclass(frozen=True, slots=True)
class RemoteRun:
    """The details of a run that a worker needs to make its calls and to read the replies.

    Attributes:
        prompts: from :attr:`PromptSet.record`.
    """

    prompts: str
    attributes: tuple[str, ...]
    judges: tuple[str, ...]
    scales: tuple[Scale, ...]
    pairwise: bool
    answers: tuple[str, ...]
    seed: int | None
