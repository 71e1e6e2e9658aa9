"""Makes the question of a call: its messages, its seed, and the format of the answer."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from robin_cli.ask.prompts import PromptSet
from robin_cli.model.exchange import Question
from robin_cli.model.records import Pair
from robin_cli.model.space import ArmSpace


class Questions:
    """Makes the questions of a run.

    Args:
        seed: the run's own; None sends none.
        answers: of each judge, as --answers has it.
    """

    def __init__(
        self, prompts: PromptSet, space: ArmSpace, *, seed: int | None, answers: Sequence[str]
    ) -> None:
        self._prompts = prompts
        self._space = space
        self._seed = seed
        self._answers = answers

    def question(
        self, pair: Pair, arm: int, draw: int, samples: int = 1, along: Sequence[int] = ()
    ) -> Question:
        """Return the question for calls of ``arm``, one of ``pair``'s, from ``draw``.

        Args:
            along: the arms that the request asks, if there are several.
        """
        prompts, space = self._prompts, self._space
        answers, variant = self._answers[space.judge.item(arm)], space.variant.item(arm)
        names = [space.attribute_of(asked) for asked in along or [arm]]
        messages = prompts.messages(pair, names[0], variant, answers, names)
        seed = None if self._seed is None else call_seed(self._seed, space, arm, draw)
        return Question(
            messages,
            samples=len(names) if answers == "decisions" else samples,
            seed=seed,
            structure=prompts.structure(answers, names),
        )


def call_seed(seed: int, space: ArmSpace, arm: int, draw: int) -> int:
    """Return the seed of one call, 0 to 2³¹ − 1: different for two draws of an arm, the same on every machine."""
    name = f"{seed}\0{space.pair_ids[space.pair.item(arm)]}\0{space.asked_as(arm)}"
    base = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")
    return (base + draw) % 2**31
