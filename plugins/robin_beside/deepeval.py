"""DeepEval (https://deepeval.com): repeat a metric until its test case is settled."""

from __future__ import annotations

from copy import copy
from statistics import fmean
from typing import Any

from deepeval.metrics import BaseMetric
from deepeval.test_case import LLMTestCase

from robin_cli import Settled


class SettledMetric(BaseMetric):  # type: ignore[misc]  # DeepEval is not installed where types are checked
    """The mean score of repeated measurements. It succeeds if the test case is kept.

    Args:
        metric: measures once. A copy of it makes each measurement.
        settled: shared by all test cases, whose noise it learns together.
        most: measurements of a test case at most.
    """

    def __init__(self, metric: BaseMetric, settled: Settled, most: int = 16) -> None:
        # DeepEval copies a metric by the attributes that its parameters name
        self.metric, self.settled, self.most = metric, settled, most
        self.threshold, self.async_mode = metric.threshold, metric.async_mode
        self.evaluation_model = metric.evaluation_model

    def measure(self, test_case: LLMTestCase, *args: Any, **kwargs: Any) -> float:
        case, measured = object(), list[BaseMetric]()
        while len(measured) < self.most and not self.settled.is_settled(case):
            measured.append(copy(self.metric))
            self.settled.add(case, measured[-1].measure(test_case, *args, **kwargs))
        return self._conclude(case, measured)

    async def a_measure(self, test_case: LLMTestCase, *args: Any, **kwargs: Any) -> float:
        case, measured = object(), list[BaseMetric]()
        while len(measured) < self.most and not self.settled.is_settled(case):
            measured.append(copy(self.metric))
            self.settled.add(case, await measured[-1].a_measure(test_case, *args, **kwargs))
        return self._conclude(case, measured)

    def _conclude(self, case: object, measured: list[BaseMetric]) -> float:
        costs = [metric.evaluation_cost for metric in measured]
        self.evaluation_cost = None if None in costs else sum(costs)
        self.score = fmean(metric.score for metric in measured)
        decision = self.settled.decision(case)
        self.success = decision == "keep" if decision else super().is_successful()
        is_open = "" if self.settled.is_settled(case) else ", not settled"
        self.reason = (
            f"mean of {len(measured)} ratings{is_open}. {measured[-1].reason or ''}".strip()
        )
        return self.score

    def is_successful(self) -> bool:
        return self.error is None and bool(self.success)

    @property
    def __name__(self) -> str:
        return f"{self.metric.__name__} (settled)"
