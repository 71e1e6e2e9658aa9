"""fold(judgments): the numbers after all answers on disk, from which the next calls and the scores are computed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from robin_cli.model.arms import FloatArray, IntArray, WritableArms
from robin_cli.model.errors import StorageError
from robin_cli.model.records import PERMANENT_FAILURES, REFUSALS, RETIRE_AFTER, UNRATED, Scale
from robin_cli.model.refits import last_refit
from robin_cli.model.space import ArmSpace
from robin_cli.run.lookup import Draws

COUNTED = (
    "pair_id",
    "attribute",
    "judge",
    "rating",
    "expected_rating",
    "status",
    "reason",
    "scoring",
    "draw",
    "received_at",
    "prompt_tokens",
    "completion_tokens",
    "cost_usd",
    "cached_tokens",
    "reasoning_tokens",
)
"""The columns of judgments that a fold reads."""

SPENT: Mapping[str, type[np.int64 | np.float64]] = {
    "prompts": np.int64,
    "prompt_tokens": np.int64,
    "completion_tokens": np.int64,
    "cost_usd": np.float64,
    "priced": np.int64,
    "unpriced": np.int64,
    "unpriced_prompt_tokens": np.int64,
    "unpriced_completion_tokens": np.int64,
    "cached_tokens": np.int64,
    "prompt_tokens_told": np.int64,
    "reasoning_tokens": np.int64,
}
"""The counters of each judge's spending. ``priced`` counts judgments with a known cost, ``unpriced`` answers without.
``prompts`` counts answered prompts: the tokens of one are counted with its first rating. ``prompt_tokens_told``
are the prompt tokens of answers that report how many were cached."""

RATED = ("rating", "expected_rating")
"""The columns of judgments that scores are computed from."""

_AT_A_TIME = 2**19

_FINE_LEVELS = 64
"""The number of steps over the scale for ratings that are not integers."""


@dataclass(frozen=True, slots=True)
class Spending:
    """Tokens and US dollars of some judgments.

    Attributes:
        cost_usd: the sum of the known costs; None if none is known.
        complete: the cost of every answer is known.
        cached_tokens: prompt tokens that endpoints had cached.
        prompt_tokens_told: prompt tokens of answers that report how many were cached.
        reasoning_tokens: completion tokens that models reasoned with before their text.
        prompts: prompts that were answered, each once for all ratings of its request.
    """

    prompt_tokens: int
    completion_tokens: int
    cost_usd: float | None
    complete: bool
    cached_tokens: int = 0
    prompt_tokens_told: int = 0
    reasoning_tokens: int = 0
    prompts: int = 0

    @property
    def exact_usd(self) -> float | None:
        """The cost of all answers; None if that of one is not known."""
        return self.cost_usd if self.complete else None

    @property
    def cached_share(self) -> float | None:
        """The share of prompt tokens that was cached, among answers that report it; None if none does."""
        return self.cached_tokens / self.prompt_tokens_told if self.prompt_tokens_told else None


class Fold:
    """The numbers after some judgments; more are added in the order they came.

    Attributes:
        judgments: the number of judgments added.
        arms: the arms after them.
        writable: the same arms, writable for the scheduler that goes on from here.
        draws: the calls that have a judgment; it shares the arms' ``next_draw``.
        reasons: for each arm that was given up the reason of its last judgment, which never has a rating.
        fitted: n, total and total_sq of the arms when a pooled policy was last fitted; None before that.
        spent: each judge's spending by the names of SPENT, shape (judges,) each.
    """

    def __init__(self, space: ArmSpace) -> None:
        self.space = space
        self.judgments = 0
        self.writable = WritableArms(len(space))
        self.arms = self.writable.read_only()
        self.draws = Draws(self.writable.column("next_draw"))
        self.reasons: dict[int, str] = {}
        self.fitted: tuple[FloatArray, FloatArray, FloatArray] | None = None
        self.fitted_at = 0
        self.spent = {name: np.zeros(len(space.judges), kind) for name, kind in SPENT.items()}

    @property
    def set_aside(self) -> list[int]:
        """The arms that were given up by the endpoint's fault: the next session asks them again."""
        lasting = PERMANENT_FAILURES | UNRATED
        return [arm for arm, why in self.reasons.items() if why not in lasting]

    def add(self, arm: IntArray, judgments: pa.Table) -> None:
        """Add judgments, with the columns COUNTED. The result is the same as adding them one by one.

        Args:
            arm: the arm of each judgment, shape (rows,).
            judgments: all judgments of a request must be added together.

        Raises:
            StorageError: a rating is outside its scale (the arms are then unchanged), or counters overflow.
        """
        self.check_ratings(arm, judgments)
        before = int(self.arms.counts.sum())
        rated = before + np.cumsum(_mask(judgments["rating"].is_valid()))
        refit = last_refit(int(rated[-1]) if len(rated) else before, self.space.first_fit)
        if refit > self.fitted_at:
            until = int(np.searchsorted(rated, refit)) + 1
            received = judgments["received_at"].cast(pa.int64()).to_numpy()
            while until < len(arm) and (received[until], arm[until]) == (
                received[until - 1],
                arm[until - 1],
            ):
                until += 1  # the planner learns of the ratings of one request together
            self._add(arm[:until], judgments.slice(0, until))
            self.fitted = (
                self.arms.counts.astype(np.float64),
                self.arms.totals.copy(),
                self.arms.totals_sq.copy(),
            )
            self.fitted_at = refit
            arm, judgments = arm[until:], judgments.slice(until)
        self._add(arm, judgments)

    def check_ratings(self, arm: IntArray, judgments: pa.Table) -> None:
        """Raise StorageError if a rating is not on its arm's scale; nan is not."""
        low, high = np.array(
            [(scale.low, scale.high) for scale in self.space.scales], dtype=np.float64
        ).T
        attribute = self.space.attribute[arm]
        for name in ("rating", "expected_rating"):
            values = judgments[name].cast(pa.float64())
            there = _mask(values.is_valid())
            value, of = values.drop_null().to_numpy(), attribute[there]
            if not (within := (low[of] <= value) & (value <= high[of])).all():
                raise _off_scale(self.space.scales[of[~within][0]])

    def _add(self, arm: IntArray, judgments: pa.Table) -> None:
        arms, status = self.writable, judgments["status"]
        ok, failed = _mask(pc.equal(status, "ok")), _mask(pc.equal(status, "failed"))
        value = values_of(judgments)
        # One by one in order, as a running session adds them, so that sums are the same to the last bit.
        np.add.at(arms.counts, arm[ok], 1)
        np.add.at(arms.totals, arm[ok], value[ok])
        np.add.at(arms.totals_sq, arm[ok], value[ok] ** 2)
        np.add.at(arms.unparsed, arm[~ok & ~failed], 1)
        np.add.at(arms.failed, arm[failed], 1)
        np.maximum.at(arms.column("next_draw"), arm, judgments["draw"].to_numpy() + 1)
        self._add_streaks(arm, judgments, ok, failed)
        self._add_spending(self.space.judge[arm], judgments, failed)
        self.judgments += len(arm)

    def _add_streaks(
        self,
        arm: IntArray,
        judgments: pa.Table,
        ok: NDArray[np.bool_],
        failed: NDArray[np.bool_],
    ) -> None:
        seen, which = np.unique(arm, return_inverse=True)
        position = np.arange(len(arm))
        last, last_rated = np.full(len(seen), -1), np.full(len(seen), -1)
        np.maximum.at(last, which, position)
        np.maximum.at(last_rated, which[ok], position[ok])
        streak = self.writable.streaks
        streak[seen[last_rated >= 0]] = 0
        since = position > last_rated[which]
        reason, is_decided = judgments["reason"], _mask(pc.equal(judgments["scoring"], "decisions"))
        is_refused = failed & _mask(pc.is_in(reason, value_set=pa.array(sorted(REFUSALS))))
        final = is_refused | (is_decided & ~ok)
        np.add.at(streak, arm[since], np.where(final, RETIRE_AFTER, 1)[since])
        retired = streak[seen] >= RETIRE_AFTER
        if self.reasons:
            for each in seen[~retired].tolist():
                self.reasons.pop(each, None)
        whys = reason.take(pa.array(last[retired])).to_pylist()
        self.reasons.update(zip(seen[retired].tolist(), map(str, whys), strict=True))

    def _add_spending(
        self, judge: NDArray[np.int32], judgments: pa.Table, failed: NDArray[np.bool_]
    ) -> None:
        cost = judgments["cost_usd"]
        priced = _mask(cost.is_valid())
        unpriced = ~priced & ~failed
        tokens = {
            name: judgments[name].fill_null(0).to_numpy()
            for name in ("prompt_tokens", "completion_tokens")
        }
        added: dict[str, Any] = {
            **tokens,
            "prompts": (tokens["prompt_tokens"] > 0) & ~failed,
            "cost_usd": cost.fill_null(0.0).to_numpy(),
            "priced": priced,
        }
        added |= {
            "unpriced": unpriced,
            **{f"unpriced_{name}": each * unpriced for name, each in tokens.items()},
        }
        added |= _further_tokens(judgments)
        for name, values in added.items():
            np.add.at(self.spent[name], judge, values)
            if self.spent[name].min() < 0:  # an overflow: no summand is negative
                raise StorageError(
                    f"the run's judgments hold too large {name}; restore them from a copy"
                )

    def spending(self, judge: int | None = None) -> Spending:
        """Return the spending of all judges, or of the one with the index ``judge``."""
        took = {
            name: (each.sum() if judge is None else each[judge]).item()
            for name, each in self.spent.items()
        }
        known = took["cost_usd"] if took["priced"] else None
        more = {name: took[name] for name in (*_FURTHER_TOKENS, "prompts")}
        complete = not took["unpriced"]
        return Spending(took["prompt_tokens"], took["completion_tokens"], known, complete, **more)


_FURTHER_TOKENS = ("cached_tokens", "prompt_tokens_told", "reasoning_tokens")


def _further_tokens(judgments: pa.Table) -> dict[str, NDArray[np.int64]]:
    cached = judgments["cached_tokens"]
    prompt = judgments["prompt_tokens"].fill_null(0).to_numpy()
    # Endpoints may report more cached tokens than were sent, or more reasoning than was answered: neither is possible.
    was_cached = np.minimum(cached.fill_null(0).to_numpy(), prompt)
    reasoning = np.minimum(
        *(
            judgments[name].fill_null(0).to_numpy()
            for name in ("reasoning_tokens", "completion_tokens")
        )
    )
    counts = (was_cached, prompt * _mask(cached.is_valid()), reasoning)
    return dict(zip(_FURTHER_TOKENS, (np.asarray(each, np.int64) for each in counts), strict=True))


def values_of(judgments: pa.Table) -> FloatArray:
    """Return each judgment's value for the score, shape (rows,): the expected rating, else the rating, else 0."""
    return np.asarray(
        pc.coalesce(judgments["expected_rating"], pc.cast(judgments["rating"], pa.float64()))
        .fill_null(0.0)
        .to_numpy(),
        dtype=np.float64,
    )


def counts_by_scale(
    space: ArmSpace, arm: IntArray, judgments: pa.Table
) -> Iterator[tuple[Scale, IntArray, FloatArray]]:
    """Yield each scale, its arms, and their counts of ratings by level, see :func:`level_counts`.

    Args:
        arm: the arm of each judgment, shape (rows,).
        judgments: with the columns RATED.
    """
    groups = space.by_scale()
    if len(groups) == 1:
        yield *groups[0], level_counts(arm, judgments, len(space), groups[0][0])
        return
    for scale, arms in groups:
        place = np.full(len(space), -1)
        place[arms] = np.arange(len(arms))
        yield scale, arms, level_counts(arm, judgments, len(arms), scale, place)


def level_counts(
    arm: IntArray, judgments: pa.Table, count: int, scale: Scale, place: IntArray | None = None
) -> FloatArray:
    """Return how often each arm got each rating, shape (count, levels), for levels evenly spaced over the scale.

    If all ratings are integers, the levels are the scale's. With expected ratings the levels are finer, and each rating is
    split between its two neighbours so that its value stays. Intervals from these counts stay valid: by concavity of the
    logarithm the bets win no more on the parts than on the whole.

    Args:
        arm: the arm of each judgment, shape (rows,).
        judgments: with the columns RATED.
        place: the row of each arm in the counts, negative for none; None if it is the arm itself.

    Raises:
        StorageError: a rating outside the scale.
    """
    is_fine = judgments["expected_rating"].null_count < len(judgments)
    fine = steps_between_levels(scale) if is_fine else 1
    levels = (scale.levels - 1) * fine + 1
    counts = np.zeros(count * levels)
    for start in range(0, len(arm), _AT_A_TIME):
        some = judgments.slice(start, _AT_A_TIME)
        row = (
            arm[start : start + _AT_A_TIME]
            if place is None
            else place[arm[start : start + _AT_A_TIME]]
        )
        counted = _mask(some["rating"].is_valid()) & (row >= 0)
        value = values_of(some)[counted] - scale.low
        if not ((value >= 0) & (value <= scale.levels - 1)).all():  # nan is not
            raise _off_scale(scale)
        below = np.floor(value * fine).astype(np.int64)
        above_share = value * fine - below
        at = row[counted] * levels + below
        between = above_share > 0
        np.add.at(counts, at, 1.0 - above_share)
        np.add.at(counts, at[between] + 1, above_share[between])
    return counts.reshape(count, levels)


def steps_between_levels(scale: Scale) -> int:
    """Return the number of steps per point of ``scale`` for ratings that are not integers."""
    return max(1, _FINE_LEVELS // (scale.levels - 1))


def _off_scale(scale: Scale) -> StorageError:
    return StorageError(
        f"the run's judgments hold ratings outside the scale {scale}; they were made with another rubric, or the run was "
        "changed: restore it from a copy"
    )


def _mask(values: pa.ChunkedArray) -> NDArray[np.bool_]:
    return np.asarray(
        values.to_numpy(zero_copy_only=False)
        if isinstance(values, pa.Array)
        else values.to_numpy(),
        bool,
    )
