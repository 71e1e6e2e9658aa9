"""What passes between the process that decides and those that make calls: groups of questions, and groups of what came."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from robin_cli.model.exchange import Failure
from robin_cli.model.records import Judgment, Scale

Texts = tuple[str, str, str, str | None, str | None]
"""Of a pair: its id, prompt, response, reference, and the response it is compared with."""


class Posed(NamedTuple):
    """One request to be made.

    Attributes:
        number: of the request; no two of a session have the same.
        target: which address of which judge.
        pair: its position in the data.
        arm: which of its pair's arms.
        draw, samples: its calls.
        at_normal_tier: ask at the normal service tier.
        texts: of the pair, where they do not reach the worker in another way.
    """

    number: int
    target: int
    pair: int
    arm: int
    draw: int
    samples: int
    at_normal_tier: bool = False
    texts: Texts | None = None


class Group(msgspec.Struct, array_like=True, gc=False):
    """Questions for one worker.

    Attributes:
        heeded: by target, of how many refusals that say how long to wait the worker has told, and this was chosen after.
    """

    questions: list[Posed]
    heeded: dict[int, int]


class Answered(NamedTuple):
    """A request that was answered: its judgments, and the tokens that it took."""

    number: int
    judgments: list[Judgment]
    tokens: int


class Unusable(NamedTuple):
    """A request after which every other would fail: the kind of error, by its name in model/errors.py, and what it says."""

    number: int
    kind: str
    why: str


class Came(msgspec.Struct, array_like=True, gc=False):
    """What came of questions, and what is to be known besides.

    Attributes:
        unsent: requests that were not made: their target said to wait.
        bugs: errors of robin's own; the answers they were made of are kept without ratings.
        notes: lines for the user.
        most_samples: ratings that one request brings at most, by target, where that was learnt.
        refusals: by target, how often it said how long to wait.
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
class Run:
    """What a worker has to know of a run to make its calls and to read what comes.

    Attributes:
        prompts: as :attr:`PromptSet.record` has them.
        path, identity: where the run's pairs lie, and what tells them from others, where texts are read there.
    """

    prompts: str
    attributes: tuple[str, ...]
    judges: tuple[str, ...]
    scales: tuple[Scale, ...]
    pairwise: bool
    answer_format: str
    by_logprobs: bool
    seed: int | None
    path: str = ""
    identity: str = ""
