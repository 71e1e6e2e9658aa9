"""Inspect (https://inspect.aisi.org.uk): run no further epochs of samples that are settled."""

from __future__ import annotations

from functools import partial
from math import isnan

from inspect_ai.dataset import Sample
from inspect_ai.log import EvalSpec
from inspect_ai.scorer import SampleScore, value_to_float
from inspect_ai.util import EarlyStop

from robin_cli import RobinError, Settled


class SettledSamples:
    """An ``EarlyStopping`` for ``Task(early_stopping=SettledSamples("score>=3", (1, 5)), epochs=16)``.

    Args:
        goal, scale, wrong: as for :class:`robin_cli.Settled`.
        scorer: the score that decides, if the task has several.
    """

    def __init__(
        self,
        goal: str | float,
        scale: tuple[int, int],
        *,
        wrong: float = 0.05,
        scorer: str | None = None,
    ) -> None:
        self._new = partial(Settled, goal, scale, wrong=wrong)
        self._settled, self._scorer, self._number = self._new(), scorer, value_to_float()

    async def start_task(self, task: EvalSpec, samples: list[Sample], epochs: int) -> str:
        self._settled = self._new()  # the models of an eval follow each other
        return "robin"

    async def schedule_sample(self, id: str | int, epoch: int) -> EarlyStop | None:
        if not self._settled.is_settled(id):
            return None
        return EarlyStop(id=id, epoch=epoch, reason=self._settled.decision(id) or "settled")

    async def complete_sample(
        self,
        id: str | int,
        epoch: int,
        scores: dict[str, SampleScore],
    ) -> None:
        name = self._scorer or next(iter(scores), "")
        if name not in scores or (len(scores) > 1 and not self._scorer):
            raise RobinError(f"SettledSamples: scorer={name!r}: the scores are {', '.join(scores)}")
        value = scores[name].score.value
        if not isinstance(value, str | int | float):
            raise RobinError(f"SettledSamples: {name} of {id}: {value!r} is no single rating")
        if not isnan(rating := self._number(value)):  # nan: the sample has no score
            self._settled.add(id, rating)

    async def complete_task(self) -> dict[str, float]:
        return self._settled.summary()
