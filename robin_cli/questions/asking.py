"""From a call to the question that asks it: the messages, the seed, and the format of the answer."""

from __future__ import annotations

import hashlib

from robin_cli.model.exchange import Question
from robin_cli.model.records import Pair
from robin_cli.model.space import ArmSpace
from robin_cli.questions.rubrics import PromptSet


class Questions:
    """Makes the questions of a run.

    Args:
        seed: the run's own; None: no call is sent one.
        answer_format: one of ANSWER_FORMATS.
    """

    def __init__(self, prompts: PromptSet, space: ArmSpace, *, seed: int | None, answer_format: str) -> None:
        self._prompts = prompts
        self._space = space
        self._seed = seed
        self._answer_format = answer_format

    def question(self, pair: Pair, arm: int, draw: int, samples: int = 1) -> Question:
        """What to ask of ``arm``, which is one of ``pair``'s, for its calls from ``draw`` on."""
        space = self._space
        messages = self._prompts.messages(pair, space.attribute_of(arm), space.variant.item(arm))
        seed = None if self._seed is None else call_seed(self._seed, space, arm, draw)
        structure = self._prompts.kind.form.structure(self._answer_format, space.scale_of(arm))
        return Question(messages, samples=samples, seed=seed, structure=structure)


def call_seed(seed: int, space: ArmSpace, arm: int, draw: int) -> int:
    """The seed of one call, 0 to 2³¹ − 1: never the same for two draws of an arm, alike on every machine."""
    name = f"{seed}\0{space.pair_ids[space.pair.item(arm)]}\0{space.asked_as(arm)}"
    base = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")
    return (base + draw) % 2**31
