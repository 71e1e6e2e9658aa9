"""MLflow (https://mlflow.org): a scorer that rates a row until it is settled."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from statistics import fmean
from typing import Any

from mlflow.entities import Feedback
from mlflow.genai.scorers import Scorer, scorer

from robin_cli import Settled


def settled_scorer(
    rate: Callable[..., float], settled: Settled, *, name: str | None = None, most: int = 16
) -> Scorer:
    """Return a scorer for ``mlflow.genai.evaluate``: the mean of repeated ratings of a row.

    Args:
        rate: asks the judge once; its parameters are those of a scorer, such as inputs and outputs.
        settled: shared by all rows, whose noise it learns together.
        name: of the feedback; None for that of ``rate``.
        most: ratings of a row at most.
    """
    name = name or rate.__name__

    @wraps(rate)
    def scored(**row: Any) -> Feedback:
        row_id, ratings = object(), list[float]()
        while len(ratings) < most and not settled.is_settled(row_id):
            ratings.append(float(rate(**row)))
            settled.add(row_id, ratings[-1])
        is_settled, decision = settled.is_settled(row_id), settled.decision(row_id)
        about = {"ratings": len(ratings), "settled": is_settled, "decision": decision}
        return Feedback(name=name, value=fmean(ratings), metadata=about)

    return scorer(scored, name=name)
