"""fold(judgments): the numbers after all answers on disk, from which the next calls and the scores are computed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from robin_cli.model.arms import FloatArray, IntArray, WritableArms
from robin_cli.model.records import PERMANENT_FAILURES, REFUSALS, RETIRE_AFTER, UNREADABLE
from robin_cli.model.space import ArmSpace
from robin_cli.policies.milestones import fits_from

COUNTED = (
    *("pair_id", "attribute", "judge", "rating", "expected_rating", "status", "reason", "scoring"),
    *("draw", "received_at", "prompt_tokens", "completion_tokens", "cost_usd"),
    *("cached_tokens", "reasoning_tokens"),
)
"""The columns of judgments that a fold reads."""

SPENT = (
    *("prompts", "prompt_tokens", "completion_tokens", "cost_usd", "priced", "unpriced"),
    *("unpriced_prompt_tokens", "unpriced_completion_tokens"),
    *("cached_tokens", "prompt_tokens_told", "reasoning_tokens"),
)
"""The counters of each judge's spending. ``priced`` counts judgments with a known cost, ``unpriced`` answers without.
``prompts`` counts answered prompts: a prompt's tokens stand on its first rating alone. ``prompt_tokens_told``
are the prompt tokens of answers that report how many were cached."""

RATED = ("rating", "expected_rating")
"""The columns of judgments that scores are computed from."""

UNRATED = frozenset({"missing", "out_of_range", "not_an_integer", "ambiguous"}) | frozenset(
    {"truncated", "refused", "empty", "filtered", UNREADABLE}
)
"""Reasons of an ``unparsed`` judgment: asking the same pair again rarely helps."""


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

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = None
    complete: bool = True
    cached_tokens: int = 0
    prompt_tokens_told: int = 0
    reasoning_tokens: int = 0
    prompts: int = 0

    def __add__(self, other: Spending) -> Spending:
        """Return the spending of both."""
        costs = [each.cost_usd for each in (self, other) if each.cost_usd is not None]
        return Spending(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            sum(costs) if costs else None,
            self.complete and other.complete,
            self.cached_tokens + other.cached_tokens,
            self.prompt_tokens_told + other.prompt_tokens_told,
            self.reasoning_tokens + other.reasoning_tokens,
            self.prompts + other.prompts,
        )

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
        reasons: for each arm that was given up the reason of its last judgment; that one has no rating.
        fitted: n, total and total_sq of the arms when a pooled policy was last fitted; None before that.
        fitted_at: the number of ratings at that time.
        spent: each judge's spending by the names of SPENT, shape (judges,) each.
    """

    def __init__(self, space: ArmSpace) -> None:
        self.space = space
        self.judgments = 0
        self.writable = WritableArms(len(space))
        self.arms = self.writable.read_only()
        self.reasons: dict[int, str] = {}
        self.fitted: tuple[FloatArray, FloatArray, FloatArray] | None = None
        self.fitted_at = 0
        self.spent = {
            name: np.zeros(len(space.judges), np.float64 if name == "cost_usd" else np.int64)
            for name in SPENT
        }

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
        """
        before = int(self.arms.n.sum())
        rated = before + np.cumsum(judgments["rating"].is_valid().to_numpy())
        refit = fits_from(self.space.first_fit).until(rated[-1] if len(rated) else before)
        if refit > self.fitted_at:
            until = int(np.searchsorted(rated, refit)) + 1
            received = judgments["received_at"].cast(pa.int64()).to_numpy()
            while until < len(arm) and (received[until], arm[until]) == (
                received[until - 1],
                arm[until - 1],
            ):
                until += 1  # the planner learns of the ratings of one request together
            self._add(arm[:until], judgments.slice(0, until))
            arms = self.arms
            self.fitted = arms.n.astype(np.float64), arms.total.copy(), arms.total_sq.copy()
            self.fitted_at = refit
            arm, judgments = arm[until:], judgments.slice(until)
        self._add(arm, judgments)

    def _add(self, arm: IntArray, judgments: pa.Table) -> None:
        arms, value = self.writable.columns, values_of(judgments)
        ok, failed = (
            pc.equal(judgments["status"], status).to_numpy() for status in ("ok", "failed")
        )
        # One by one in order, as a running session adds them, so that sums are the same to the last bit.
        np.add.at(arms.n, arm[ok], 1)
        np.add.at(arms.total, arm[ok], value[ok])
        np.add.at(arms.total_sq, arm[ok], value[ok] ** 2)
        np.add.at(arms.n_unparsed, arm[~ok & ~failed], 1)
        np.add.at(arms.n_failed, arm[failed], 1)
        np.maximum.at(arms.next_draw, arm, judgments["draw"].to_numpy() + 1)
        self._add_streaks(arm, judgments, ok, failed)
        for name, values in _spending_of(judgments, failed).items():
            np.add.at(self.spent[name], self.space.judge[arm], values)
        self.judgments += len(arm)

    def _add_streaks(
        self,
        arm: IntArray,
        judgments: pa.Table,
        ok: NDArray[np.bool_],
        failed: NDArray[np.bool_],
    ) -> None:
        """Count the judgments of each arm since its last rating, and keep the reasons of arms that are given up."""
        judged, which = np.unique(arm, return_inverse=True)
        position = np.arange(len(arm))
        last, last_rated = np.full(len(judged), -1), np.full(len(judged), -1)
        np.maximum.at(last, which, position)
        np.maximum.at(last_rated, which[ok], position[ok])
        streak = self.writable.columns.streak
        streak[judged[last_rated >= 0]] = 0
        since = position > last_rated[which]
        is_refusal = pc.is_in(judgments["reason"], value_set=pa.array(sorted(REFUSALS))).to_numpy()
        is_decided = pc.equal(judgments["scoring"], "decisions").to_numpy()
        final = (failed & is_refusal) | (is_decided & ~ok)
        np.add.at(streak, arm[since], np.where(final, RETIRE_AFTER, 1)[since])
        retired = streak[judged] >= RETIRE_AFTER
        if self.reasons:
            for back in judged[~retired].tolist():
                self.reasons.pop(back, None)
        whys = judgments["reason"].take(pa.array(last[retired])).to_pylist()
        self.reasons.update(zip(judged[retired].tolist(), map(str, whys), strict=True))

    def spending(self, judge: int | None = None) -> Spending:
        """Return the spending of all judges, or of the one with the index ``judge``."""
        took = {
            name: (values.sum() if judge is None else values[judge]).item()
            for name, values in self.spent.items()
        }
        return Spending(
            took["prompt_tokens"],
            took["completion_tokens"],
            took["cost_usd"] if took["priced"] else None,
            complete=not took["unpriced"],
            cached_tokens=took["cached_tokens"],
            prompt_tokens_told=took["prompt_tokens_told"],
            reasoning_tokens=took["reasoning_tokens"],
            prompts=took["prompts"],
        )


def _spending_of(judgments: pa.Table, failed: NDArray[np.bool_]) -> dict[str, NDArray[Any]]:
    """Return what each judgment adds to the counters SPENT, shape (rows,) each."""
    tokens = {
        name: judgments[name].fill_null(0).to_numpy()
        for name in ("prompt_tokens", "completion_tokens", "cached_tokens", "reasoning_tokens")
    }
    prompt, completion = tokens["prompt_tokens"], tokens["completion_tokens"]
    priced = judgments["cost_usd"].is_valid().to_numpy()
    unpriced = ~priced & ~failed
    return {
        "prompts": (prompt > 0) & ~failed,
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "cost_usd": judgments["cost_usd"].fill_null(0.0).to_numpy(),
        "priced": priced,
        "unpriced": unpriced,
        "unpriced_prompt_tokens": prompt * unpriced,
        "unpriced_completion_tokens": completion * unpriced,
        # Endpoints may report more cached tokens than were sent, or more reasoning than was answered: neither is possible.
        "cached_tokens": np.minimum(tokens["cached_tokens"], prompt),
        "prompt_tokens_told": prompt * judgments["cached_tokens"].is_valid().to_numpy(),
        "reasoning_tokens": np.minimum(tokens["reasoning_tokens"], completion),
    }


def values_of(judgments: pa.Table) -> FloatArray:
    """Return each judgment's value for the score, shape (rows,): the expected rating, else the rating, else 0."""
    rating = pc.cast(judgments["rating"], pa.float64())
    return np.asarray(pc.coalesce(judgments["expected_rating"], rating).fill_null(0.0).to_numpy())
