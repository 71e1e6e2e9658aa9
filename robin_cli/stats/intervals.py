"""Confidence intervals for mean ratings that hold at any number of ratings, however it was decided.

An adaptive scheduler asks more where ratings vary, so the number of ratings depends on the ratings, and intervals made
for a fixed number do not hold as they stand. A confidence sequence holds at every number at once, whoever stops when.

The sequence used here bets. If m is the true mean of ratings x in [0, 1], then for every stake 0 < θ < 1 the products
    Π (1 + θ (x/m − 1))   and   Π (1 + θ ((1 − x)/(1 − m) − 1))
are non-negative martingales that start at 1: money made by betting that the mean is above (below) m. So are their averages
W⁺(m), W⁻(m) over a fixed grid of stakes. By Ville's inequality either passes 2/α at any time with probability at most
α/2. The interval is the m at which neither did. W⁺ falls and W⁻ rises in m, so each end is one root.

Products of such averages over several arms are martingales at their true means, too, whatever the order in which the arms
are asked; a part of each arm's money is kept there, so that a lost bet on one costs no more than the rest. So a sum of means
M = Σ w_j m_j is at least the smallest one that some m_1, m_2, … make with Π W_j⁺(m_j) < 2/α.
ln W⁺ is convex in m, so this is a convex problem, and by weak duality every λ ≥ 0 gives a bound that holds,
    M ≥ Σ_j min_m (w_j m + λ ln W_j⁺(m)) − λ ln(2/α),
of which the largest over a grid of λ is taken. For differences and panels it is far above the sum of the arms' own bounds.

Sources: betting confidence sequences, Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting",
JRSS B 86 (2024); averaging over constant stakes, Orabona and Jun, "Tight concentrations and confidence sequences from the
regret of universal portfolio", IEEE Trans. Inf. Theory 70 (2024). The products depend on the ratings' counts alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from robin_cli.model.arms import FloatArray, IntArray

ALPHA = 0.05
"""The intervals hold with probability at least 1 − ALPHA, each for itself."""

_ALL_BUT_ALL = 1.0 - 1e-9
"""The stake for ratings that all agree; of all money nothing would be left to go on with."""

_SHARE = 0.3
"""The part of the money that is bet so."""

# The others even in log-odds, each with money in proportion: small ones for many varied ratings.
_SMALLER = 1.0 / (1.0 + np.exp(-np.arange(-3.0, 5.0)))
_STAKES = np.append(_SMALLER, _ALL_BUT_ALL)
_LOG_MONEY = np.log(np.append((1.0 - _SHARE) * _SMALLER / _SMALLER.sum(), _SHARE))
_BISECTIONS = 40
_NEAR_ENOUGH = 20
"""Bisections where an end only says where tangents are taken: a bound from any tangents holds."""

_TINY = float(np.finfo(np.float32).tiny)

# λ, in widths of the scale: about the distance σ/√n for which a rating more is worth its money.
_MULTIPLIERS = np.geomspace(1e-5, 2.0, 96)
_AT_A_TIME = 2**15

# Where tangents are taken: below the mean, in lengths of the arm's own interval, and above it, in parts of the way to the end.
_BELOW = np.linspace(2.2, 0.0, 32)
_ABOVE = np.array([0.01, 0.03, 0.1, 0.3, 1.0])
_NEAREST = 1e-6
_ROUNDING = 1e-6

_KEPT = 0.15
"""The part of the money that is not bet where arms are bet on together: who has lost all on one could win nothing by others."""

_ROWS_AT_A_TIME = 2**13

_KEPT_OF_DIFFERENCES = 0.3
"""The same where one arm is bet to be high and one low: if the ratings of both lie at one end of the scale, one bet is lost."""


def mean_intervals(
    counts: FloatArray | IntArray, low: float, high: float, *, alpha: float = ALPHA
) -> tuple[FloatArray, FloatArray]:
    """Return anytime-valid intervals for the mean ratings of K arms: lower and upper ends, on the scale, shape (K,) each.

    It is the whole scale for an arm without ratings, and never a point.

    Args:
        counts: how often each arm got each rating, shape (K, L), for L ≥ 2 ratings evenly spaced from ``low`` to ``high``.
        alpha: each interval misses its mean with at most this probability; ValueError outside (0, 1).
    """
    if not 0.0 < alpha < 1.0:
        raise ValueError(f"alpha must lie between 0 and 1, got {alpha}")
    distinct, which = distinct_rows(np.asarray(counts, dtype=np.float64))
    from_below, from_above = np.empty(len(distinct)), np.empty(len(distinct))
    for rows, counted, ratings in _blocks(
        distinct, np.linspace(0.0, high - low, distinct.shape[1])
    ):
        from_below[rows] = _lower_ends(counted, ratings, alpha)
        from_above[rows] = _lower_ends(counted, (high - low) - ratings, alpha)
    return low + from_below[which], high - from_above[which]


@dataclass(frozen=True, slots=True)
class Part:
    """What the mean ratings of K arms add to K sums of means.

    ``counts``, ``low``, ``high``: as for :func:`mean_intervals`. ``weight``: of their means in the sums; not 0.
    """

    counts: FloatArray | IntArray
    low: float
    high: float
    weight: float


def sum_intervals(parts: Sequence[Part], *, alpha: float = ALPHA) -> tuple[FloatArray, FloatArray]:
    """Return anytime-valid intervals for weighted sums of the means of arms that were rated independently of one another.

    Args:
        parts: as the means of several judges, of a weight of 1/J each, or those of two runs, of weights 1 and −1.
        alpha: each interval misses its sum with at most this probability; in (0, 1).
    """
    lower = _least_sums(parts, alpha)
    return lower, -_least_sums([replace(each, weight=-each.weight) for each in parts], alpha)


def log_sum_evidence(
    parts: Sequence[Part], at: FloatArray | float, *, enough: float = -np.inf
) -> FloatArray:
    """Return ln of the least that bets that each sum of means is above ``at`` have come to, shape (K,).

    Where a sum is not above it, it stays below ln 1/α with probability at least 1 − α, whenever one looks. It is inf of
    Σ_j ln W_j⁺(m_j) over the m_j that sum to ``at`` or less, from below:
    max over λ of (Σ_j min_m (w_j m + λ ln W_j⁺(m)) − at) / λ.

    Args:
        parts: as for :func:`sum_intervals`.
        enough: of what is less, any number from there up to this is as good: it takes a tenth of the time.
    """
    at = np.broadcast_to(np.asarray(at, dtype=np.float64), len(parts[0].counts))
    found = _some_sum_evidence(parts, at) if enough > -np.inf else np.full(len(at), np.inf)
    left = np.flatnonzero(found >= enough - _ROUNDING)
    if not len(left):
        return found
    least, multipliers, tables = _tables(
        [replace(each, counts=each.counts[left]) for each in parts], ALPHA
    )
    for some, summed in _summed_tables(tables):
        found[left[some]] = ((summed + (least - at[left[some], None])) / multipliers).max(axis=1)
    return found


def _some_sum_evidence(parts: Sequence[Part], at: FloatArray) -> FloatArray:
    """Σ_j ln W_j⁺(m_j) at some m_j that sum to ``at`` or less, so nowhere below the inf over these; inf where none was found.

    They are the arms' means, moved in proportion to their error variances, which is about where the inf is.
    """
    arms = []
    for each in parts:
        counts = np.asarray(each.counts, dtype=np.float64)
        levels = np.linspace(0.0, each.high - each.low, counts.shape[1])
        mean, n = _means(counts, levels), np.maximum(_summed(counts.T), 1.0)
        spread = _summed(
            count * (level - mean) ** 2 for count, level in zip(counts.T, levels, strict=True)
        )
        arms.append((each, counts, levels, mean, (spread + levels[-1] ** 2 / n) / n**2))
    excess = np.maximum(
        sum(each.weight * (each.low + mean) for each, *_, mean, _ in arms) - at, 0.0
    )
    share = excess / sum(each.weight**2 * error for each, *_, error in arms)
    found, reached, kept = np.zeros(len(at)), np.zeros(len(at)), _kept_of(parts)
    for each, counts, levels, mean, error in arms:
        m = np.clip(mean - share * each.weight * error, 0.0, levels[-1])
        reached += each.weight * (each.low + m)
        counted, upwards = (counts, m) if each.weight > 0 else (counts[:, ::-1], levels[-1] - m)
        for rows, some, ratings in _blocks(counted, levels):
            won = log_wealth(some, ratings, upwards[rows])
            found[rows] += np.logaddexp(won + np.log1p(-kept), np.log(kept))
    return np.where(reached <= at + _ROUNDING, found, np.inf)


def _kept_of(parts: Sequence[Part]) -> float:
    return _KEPT if len({each.weight > 0 for each in parts}) == 1 else _KEPT_OF_DIFFERENCES


def _least_sums(parts: Sequence[Part], alpha: float) -> FloatArray:
    least, multipliers, tables = _tables(parts, alpha)
    found = np.empty(len(tables[0][1]))
    for some, summed in _summed_tables(tables):
        found[some] = (summed - multipliers * np.log(2.0 / alpha)).max(axis=1)
    return least + np.maximum(found, 0.0)


def _summed_tables(
    tables: Sequence[tuple[FloatArray, IntArray]],
) -> Iterator[tuple[slice, FloatArray]]:
    """Yield some rows at a time and the sums of their minima over all parts, shape (rows, multipliers)."""
    for start in range(0, len(tables[0][1]), _AT_A_TIME):
        some = slice(start, start + _AT_A_TIME)
        yield some, np.asarray(sum(table[which[some]] for table, which in tables))


def _tables(
    parts: Sequence[Part], alpha: float
) -> tuple[float, FloatArray, list[tuple[FloatArray, IntArray]]]:
    """Return the least sum, every λ, and for each part the minima of its distinct rows and the index of each row's own.

    ``alpha``: of the interval for which the minima are the most exact.
    """
    least = sum(each.weight * (each.low if each.weight > 0 else each.high) for each in parts)
    widest = max(abs(each.weight) * (each.high - each.low) for each in parts)
    multipliers, kept, tables = _MULTIPLIERS * widest, _kept_of(parts), []
    for each in parts:
        distinct, which = distinct_rows(np.asarray(each.counts, dtype=np.float64))
        width, table = each.high - each.low, np.empty((len(distinct), len(multipliers)))
        for rows, counted, ratings in _blocks(distinct, np.linspace(0, width, distinct.shape[1])):
            upwards = ratings if each.weight > 0 else width - ratings
            table[rows] = _minima(
                counted, upwards, kept, width, abs(each.weight), multipliers, alpha
            )
        tables.append((table, which))
    return least, multipliers, tables


def _tangents(
    counts: FloatArray, ratings: FloatArray, kept: float, m: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return ln of the money bet that means are high, of which a part is ``kept``, and its derivative at ``m``, (K, means)."""
    means = m.shape[1]
    counts, ratings, at = (
        counts.repeat(means, axis=0),
        ratings.repeat(means, axis=0),
        m.reshape(-1, 1),
    )
    log_money = _log_money(counts, ratings, at[:, 0]) + np.log1p(-kept)
    log_wealth = np.logaddexp(np.logaddexp.reduce(log_money), np.log(kept))
    slope = -_summed(
        share
        * _summed((counts * (stake * ratings / (at * ((1.0 - stake) * at + stake * ratings)))).T)
        for share, stake in zip(np.exp(log_money - log_wealth), _STAKES, strict=True)
    )
    return log_wealth.reshape(m.shape), slope.reshape(m.shape)


def _minima(
    counts: FloatArray,
    ratings: FloatArray,
    kept: float,
    width: float,
    weight: float,
    multipliers: FloatArray,
    alpha: float,
) -> FloatArray:
    """min over m of weight · m + λ ln W⁺(m) for every λ, shape (K, multipliers); m from 0 to ``width``.

    In place of ln W⁺ stand its tangents at some points, which nowhere exceed it, so that what follows holds exactly; they lie
    closest where a sum's end may need them. A minimum is then where two of them meet.
    """
    mean = _means(counts, ratings)[:, None]
    reach = mean - _lower_ends(counts, ratings, alpha, steps=_NEAR_ENOUGH)[:, None]
    at = np.concatenate([mean - reach * _BELOW, mean + (width - mean) * _ABOVE], axis=1)
    at = np.maximum(at, width * _NEAREST)
    log_wealth, slope = _tangents(counts, ratings, kept, at)
    offset = log_wealth - slope * at
    with np.errstate(invalid="ignore", divide="ignore"):
        meet = (offset[:, :-1] - offset[:, 1:]) / (slope[:, 1:] - slope[:, :-1])
    meet = np.where(slope[:, 1:] > slope[:, :-1], np.clip(meet, at[:, :-1], at[:, 1:]), at[:, :-1])
    # The first tangent reaches down to 0, the last up to the end of the scale.
    corners = np.pad(meet, ((0, 0), (1, 1)), constant_values=((0, 0), (0.0, width)))
    of_tangent = np.append(np.arange(-1, meet.shape[1]), meet.shape[1]).clip(0)
    heights = offset[:, of_tangent] + slope[:, of_tangent] * corners
    # Several λ at a time, as many as the processor's cache holds.
    found = np.empty((len(multipliers), len(corners)))
    weighted, heights = np.ascontiguousarray(weight * corners.T), np.ascontiguousarray(heights.T)
    at_once = 1 + _AT_A_TIME // (1 + heights.size)
    for start in range(0, len(multipliers), at_once):
        some = slice(start, start + at_once)
        found[some] = (weighted + multipliers[some, None, None] * heights).min(axis=1)
    return found.T


def _blocks(
    counts: FloatArray, levels: FloatArray
) -> Iterator[tuple[IntArray, FloatArray, FloatArray]]:
    """Yield the rows of ``counts`` in blocks: their indices, how often each of their ratings was given, and these ratings.

    Both of shape (rows, different ratings): of the many levels of a long scale each arm has but a few.
    """
    different = (counts > 0).sum(axis=1)
    rising = np.argsort(different, kind="stable")
    for start in range(0, len(counts), _ROWS_AT_A_TIME):
        rows = rising[start : start + _ROWS_AT_A_TIME]
        block = counts[rows]
        places = np.argsort(block == 0, axis=1, kind="stable")[:, : max(1, different[rows[-1]])]
        yield rows, np.take_along_axis(block, places, axis=1), levels[places]


def distinct_rows(counts: FloatArray) -> tuple[FloatArray, IntArray]:
    """Return the distinct rows, and the index of each row among them: ``distinct[which]`` is ``counts``.

    Only of whole numbers, by one number for each row: others are rarely equal, and each row then stays by itself.
    """
    sizes = counts.max(axis=0, initial=0.0) + 1.0
    is_whole = np.log2(sizes).sum() < 62 and not any((each % 1.0).any() for each in counts.T)
    if not is_whole:
        return counts, np.arange(len(counts))
    codes = np.zeros(len(counts), np.int64)
    for column, size in zip(counts.T, sizes, strict=True):
        codes = codes * int(size) + column.astype(np.int64)
    codes, which = np.unique(codes, return_inverse=True)
    distinct = np.empty((len(codes), len(sizes)))
    for column in range(len(sizes) - 1, -1, -1):
        codes, distinct[:, column] = np.divmod(codes, int(sizes[column]))
    return distinct, which


def _lower_ends(
    counts: FloatArray, levels: FloatArray, alpha: float, *, steps: int = _BISECTIONS
) -> FloatArray:
    """Return the smallest m that is not rejected, in points above the low end, shape (K,)."""
    below = np.zeros(len(counts))
    # The mean itself is never bet against: at m = x̄ no stake has made money (concavity of the logarithm).
    above = _means(counts, levels)
    for _ in range(steps):
        middle = 0.5 * (below + above)
        # a mean of the scale that no bet has won against
        stands = (middle > 0) & (log_wealth(counts, levels, middle) < np.log(2.0 / alpha))
        below, above = np.where(stands, below, middle), np.where(stands, middle, above)
    return below


def _means(counts: FloatArray, levels: FloatArray) -> FloatArray:
    """Return mean ratings, shape (K,); 0 without any."""
    n, total = _summed(counts.T), _summed((counts * levels).T)
    return np.asarray(np.divide(total, n, out=np.zeros(len(counts)), where=n > 0))


def log_wealth(counts: FloatArray, levels: FloatArray, m: FloatArray) -> FloatArray:
    """Return ln W⁺(m), shape (K,); levels and m from 0 on."""
    return np.asarray(np.logaddexp.reduce(_log_money(counts, levels, m)))


def _log_money(counts: FloatArray, levels: FloatArray, m: FloatArray) -> FloatArray:
    """ln of what the bets at each stake have come to, shape (stakes, K); their sum is W⁺(m)."""
    odds = (levels / np.maximum(m, _TINY)[:, None] - 1.0).T
    won = _summed(
        count * np.log1p(_STAKES[:, None] * each)
        for count, each in zip(counts.T, odds, strict=True)
    )
    return np.asarray(won + _LOG_MONEY[:, None])


def _summed(terms: Iterable[FloatArray]) -> FloatArray:
    """Their sum, one by one: numpy's own sums take orders that hang on shapes, so on what rows stand beside a row.

    A resumed run looks at other rows together, and is to find the same bits.
    """
    found, *others = terms
    for each in others:
        found = found + each
    return found
