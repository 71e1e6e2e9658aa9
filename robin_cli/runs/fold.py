"""fold(judgments): from the answers on disk to the numbers that the next choice and the scores are made from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from robin_cli.allocation.arms import Arms, FloatArray, IntArray
from robin_cli.errors import StorageError
from robin_cli.records import PERMANENT_FAILURES, RETIRE_AFTER, Judgment, Scale, shared_scale

_FINE_LEVELS = 64
"""Steps between the ends of the scale for ratings that are no integers."""


@dataclass(frozen=True, slots=True)
class ArmIndex:
    """Arms are pairs × attributes × judges: arm = (pair · attributes + attribute) · judges + judge.

    ``scales``: one an attribute.
    """

    pair_ids: Sequence[str]
    attributes: Sequence[str]
    judges: Sequence[str]
    scales: Sequence[Scale]

    def __len__(self) -> int:
        return len(self.pair_ids) * self.arms_a_pair

    @property
    def arms_a_pair(self) -> int:
        """How many arms each pair has."""
        return len(self.attributes) * len(self.judges)

    def pair(self, arm: int) -> int:
        """Position of the arm's pair in the data."""
        return arm // self.arms_a_pair

    def attribute(self, arm: int) -> str:
        """The arm's attribute."""
        return self.attributes[arm // len(self.judges) % len(self.attributes)]

    def judge(self, arm: int) -> int:
        """Which of the judges is asked for the arm."""
        return arm % len(self.judges)

    def scale(self, arm: int) -> Scale:
        """The scale that the arm is rated on."""
        return self.scales[arm // len(self.judges) % len(self.attributes)]

    def by_scale(self) -> list[tuple[Scale, IntArray]]:
        """Each scale there is and the arms rated on it, rising; every arm once."""
        attribute = np.arange(len(self)) // len(self.judges) % len(self.attributes)
        of_scale = {scale: [each == scale for each in self.scales] for scale in self.scales}
        return [(scale, np.flatnonzero(np.array(mine)[attribute])) for scale, mine in of_scale.items()]

    @property
    def has_several_scales(self) -> bool:
        """Whether errors of all arms together are shares of their scales, and not points."""
        return shared_scale(self.scales) is None

    @property
    def ends(self) -> tuple[FloatArray, FloatArray]:
        """The lowest and the highest rating of each arm, shape (K,) each."""
        low, high = np.empty(len(self)), np.empty(len(self))
        for scale, arms in self.by_scale():
            low[arms], high[arms] = scale.low, scale.high
        return low, high

    @property
    def units(self) -> FloatArray:
        """What errors are counted in so that those of all arms compare, shape (K,).

        One point where all arms have one scale; else the width of each arm's own.
        """
        units = np.ones(len(self))
        if self.has_several_scales:
            for scale, arms in self.by_scale():
                units[arms] = scale.high - scale.low
        return units

    def label(self, arm: int) -> str:
        """What the arm is of its pair, as far as there are several: its attribute, its judge, or both."""
        attribute = [self.attribute(arm)] if len(self.attributes) > 1 or len(self.judges) == 1 else []
        judge = [self.judges[self.judge(arm)]] if len(self.judges) > 1 else []
        return " · ".join(attribute + judge)

    def name(self, arm: int) -> str:
        """The arm in words: its pair's id, and what it is of its pair where there are several."""
        pair_id = self.pair_ids[self.pair(arm)]
        return pair_id if self.arms_a_pair == 1 else f"{pair_id} · {self.label(arm)}"

    def arms_of(self, judgments: pa.Table) -> IntArray:
        """Arm of each judgment, shape (rows,).

        Raises:
            StorageError: a judgment of a pair, an attribute or a judge that the run does not have.
        """
        pairs = pc.index_in(judgments["pair_id"], value_set=pa.array(self.pair_ids, pa.string()))
        attributes = pc.index_in(judgments["attribute"], value_set=pa.array(self.attributes, pa.string()))
        found = [pairs, attributes]
        if len(self.judges) > 1:  # where there is one, judgments from before its name was recorded are its own
            found.append(pc.index_in(judgments["judge"], value_set=pa.array(self.judges, pa.string())))
        if any(each.null_count for each in found):
            raise StorageError(
                "the run's judgments name a pair, an attribute or a judge that its pairs.parquet and manifest.json do not "
                "have; these files are not of one run"
            )
        arm = np.zeros(len(judgments), dtype=np.int64)
        for each, size in zip(found, (1, len(self.attributes), len(self.judges)), strict=False):
            arm = arm * size + each.to_numpy().astype(np.int64)
        return arm


def fold_judgments(arm: IntArray, judgments: pa.Table, count: int) -> Arms:
    """The arms after ``judgments``, in the order they were received; the same as adding them one by one.

    Args:
        arm: the arm of each judgment, shape (rows,).
        judgments: columns ``rating``, ``expected_rating``, ``status``, ``reason`` and ``draw`` are read.
        count: how many arms there are.
    """
    arms = Arms(count)
    status = judgments["status"]
    ok = _mask(pc.equal(status, "ok"))
    failed = _mask(pc.equal(status, "failed"))
    rating = values_of(judgments)

    arms.counts[:] = np.bincount(arm[ok], minlength=count)
    arms.totals[:] = np.bincount(arm[ok], weights=rating[ok], minlength=count)
    arms.totals_sq[:] = np.bincount(arm[ok], weights=rating[ok] ** 2, minlength=count)
    arms.unparsed[:] = np.bincount(arm[~ok & ~failed], minlength=count)
    arms.failed[:] = np.bincount(arm[failed], minlength=count)

    position = np.arange(len(arm))
    last_rating = np.full(count, -1)
    np.maximum.at(last_rating, arm[ok], position[ok])
    permanent = failed & _mask(pc.is_in(judgments["reason"], value_set=pa.array(sorted(PERMANENT_FAILURES))))
    weight = np.where(permanent, RETIRE_AFTER, 1)
    since = position > last_rating[arm]
    np.frombuffer(arms.streak, dtype=np.int64)[:] = np.bincount(arm[since], weights=weight[since], minlength=count)

    next_draw = np.frombuffer(arms.next_draw, dtype=np.int64)
    np.maximum.at(next_draw, arm, judgments["draw"].to_numpy() + 1)
    return arms


def add_judgment(arms: Arms, arm: int, judgment: Judgment) -> None:
    """One step of the fold, for a run under way."""
    if judgment.value is not None:
        arms.add_rating(arm, float(judgment.value))
    elif judgment.counts:
        arms.add_unparsed(arm)
    else:
        arms.add_failure(arm, permanent=judgment.reason in PERMANENT_FAILURES)


def retirement_reasons(arm: IntArray, judgments: pa.Table, arms: Arms) -> dict[int, str]:
    """Why each retired arm was given up, by arm: the reason of its last judgment, which never carries a rating."""
    retired = arms.retired_mask
    rows = np.flatnonzero(retired[arm])
    reasons = judgments["reason"].take(pa.array(rows)).to_pylist()
    return dict(zip(arm[rows].tolist(), (str(reason) for reason in reasons), strict=True))


@dataclass(frozen=True, slots=True)
class Spending:
    """Tokens and US dollars of some judgments.

    Attributes:
        cost_usd: as far as it is known; None where that of no answer is.
        complete: the cost of every answer is known.
    """

    prompt_tokens: int
    completion_tokens: int
    cost_usd: float | None
    complete: bool

    @property
    def exact_usd(self) -> float | None:
        """What all answers cost together; None where that of one is not known."""
        return self.cost_usd if self.complete else None


def spending_of(judgments: pa.Table) -> Spending:
    """What ``judgments`` took.

    robin 0.1.0 recorded 0 for all but the first answer of a request, also where the first had no cost: 0 beside an answer
    without a cost tells nothing.
    """
    prompt, completion, cost = (
        pc.sum(judgments[name]).as_py() for name in ("prompt_tokens", "completion_tokens", "cost_usd")
    )
    answered = pc.not_equal(judgments["status"], "failed")
    complete = not pc.any(pc.and_(answered, pc.is_null(judgments["cost_usd"]))).as_py()
    return Spending(prompt or 0, completion or 0, cost if complete else cost or None, complete)


def values_of(judgments: pa.Table) -> FloatArray:
    """What each judgment adds to the score: the expected rating where there is one, else the rating; 0 where there is none."""
    return np.asarray(
        pc.coalesce(judgments["expected_rating"], pc.cast(judgments["rating"], pa.float64())).fill_null(0.0).to_numpy(),
        dtype=np.float64,
    )


def counts_by_scale(
    index: ArmIndex, arm: IntArray, judgments: pa.Table
) -> Iterator[tuple[Scale, IntArray, FloatArray]]:
    """Each scale, the arms rated on it, and how often each of them got each rating, see :func:`level_counts`.

    Args:
        arm: the arm of each judgment, shape (rows,).
    """
    groups = index.by_scale()
    if len(groups) == 1:
        yield *groups[0], level_counts(arm, judgments, len(index), groups[0][0])
        return
    for scale, arms in groups:
        place = np.full(len(index), -1)
        place[arms] = np.arange(len(arms))
        mine = place[arm] >= 0
        yield scale, arms, level_counts(place[arm[mine]], judgments.filter(pa.array(mine)), len(arms), scale)


def level_counts(arm: IntArray, judgments: pa.Table, count: int, scale: Scale) -> FloatArray:
    """How often each arm got each rating, shape (count, levels) for levels evenly spaced over the scale.

    With integer ratings alone the levels are the scale's. Expected ratings lie between: then the levels are finer, and each
    such rating is divided between the two next to it so that its value stays. For the intervals that are made from these
    counts that is safe: by concavity of the logarithm the bets win no more on the parts than on the whole.

    Raises:
        StorageError: a rating outside the scale.
    """
    ok = _mask(pc.equal(judgments["status"], "ok"))
    value = values_of(judgments)[ok] - scale.low
    steps = scale.levels - 1
    if value.size and (value.min() < 0 or value.max() > steps):
        raise StorageError(
            f"the run's judgments hold ratings outside the scale {scale}; they were made with another rubric"
        )
    fine = 1 if judgments["expected_rating"].null_count == len(judgments) else max(1, _FINE_LEVELS // steps)
    levels = steps * fine + 1
    below = np.floor(value * fine).astype(np.int64)
    above_share = value * fine - below
    counts = np.bincount(arm[ok] * levels + below, weights=1.0 - above_share, minlength=count * levels)
    between = above_share > 0
    counts += np.bincount(
        arm[ok][between] * levels + below[between] + 1, weights=above_share[between], minlength=count * levels
    )
    return np.asarray(counts.reshape(count, levels), dtype=np.float64)


def _mask(values: pa.ChunkedArray) -> NDArray[np.bool_]:
    return np.asarray(
        values.to_numpy(zero_copy_only=False) if isinstance(values, pa.Array) else values.to_numpy(), bool
    )
