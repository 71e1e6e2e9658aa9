"""Which system is better: strengths, ranks and win rates out of preferences between the responses of two."""

from __future__ import annotations

from dataclasses import dataclass

from robin_cli.analysis.intervals import ALPHA
from robin_cli.model.arms import FloatArray, IntArray

LENGTH = "length"
"""The covariate of length control."""


@dataclass(frozen=True, slots=True)
class Covariate:
    """What else than quality the preferences may go by, and how much they do.

    Attributes:
        name: LENGTH.
        coefficient: log odds for the response that is longer by ``unit``·atanh(1)…, positive where the longer is preferred.
        ci_low, ci_high: 1 − α interval.
        unit: characters; the covariate is tanh((length of A − length of B) / unit).
    """

    name: str
    coefficient: float
    ci_low: float
    ci_high: float
    unit: float


@dataclass(frozen=True, slots=True)
class WinRates:
    """How often each system is preferred to each other: shape (m, m) each, nan on the diagonal and where none was compared.

    Attributes:
        rate: the mean preference for the row's system, each comparison counted once.
        ci_low, ci_high: 1 − α interval for prompts like these, each for itself.
        n: comparisons.
        n_prompts: prompts of them.
    """

    rate: FloatArray
    ci_low: FloatArray
    ci_high: FloatArray
    n: IntArray
    n_prompts: IntArray


@dataclass(frozen=True, slots=True)
class Ranking:
    """The systems, by number: shape (m,) each where nothing else is said.

    Attributes:
        strength: natural logarithm, mean 0; see :mod:`robin_cli.model.bradley_terry`.
        ci_low, ci_high: 1 − α interval of each strength for itself, for prompts like these.
        rank: 1 is the best; equal strengths share the better rank.
        rank_low, rank_high: the ranks that are not ruled out, of each system with at least 1 − α.
        n: comparisons of each system that have a preference.
        win_rate: probability that it is preferred to another system, each of the others alike, by the model.
        win_low, win_high: 1 − α interval of that.
        difference_error: the standard error of each difference of strengths, shape (m, m).
        freedom: degrees of freedom of that, shape (m, m).
        p: of no difference, two-sided, each for itself, shape (m, m); nan on the diagonal.
        rates: of every two systems.
        covariate: what was taken out of strengths and ``win_rate``; None where nothing was.
        n_comparisons: with a preference, between two systems.
        n_without: without a preference.
        n_prompts: of those with one.
        is_bounded: False where strengths have a prior in them because the votes alone would make some infinite.
    """

    strength: FloatArray
    ci_low: FloatArray
    ci_high: FloatArray
    rank: IntArray
    rank_low: IntArray
    rank_high: IntArray
    n: IntArray
    win_rate: FloatArray
    win_low: FloatArray
    win_high: FloatArray
    difference_error: FloatArray
    freedom: FloatArray
    p: FloatArray
    rates: WinRates
    covariate: Covariate | None
    n_comparisons: int
    n_without: int
    n_prompts: int
    is_bounded: bool


def ranking(
    preference: FloatArray,
    system: IntArray,
    prompt: IntArray,
    systems: int,
    *,
    lengths: FloatArray | None = None,
    alpha: float = ALPHA,
) -> Ranking:
    """Rank ``systems`` by comparisons, each of which counts once.

    Args:
        preference: probability that A is better, the order's effect taken out, shape (C,); nan without one.
        system: of A and of B, by number, shape (C, 2).
        prompt: any numbers, shape (C,).
        lengths: of the responses A and B in characters, shape (C, 2): preferences that go by length are taken out.
        alpha: each interval, and each range of ranks, holds with about 1 − α.

    Raises:
        NotConnected: no chain of comparisons leads from some systems to others; it says from which.
    """
    raise NotImplementedError
