"""Which system is better: strengths, ranks and win rates out of preferences between the responses of two.

Strengths are those of the model of Bradley and Terry (:mod:`robin_cli.model.bradley_terry`), in which each comparison counts
once, however often it was asked. What is drawn is prompts: the responses to one are compared many times, so errors are sums by
prompt. The model need not hold, nor the votes be independent within a prompt.

With few prompts, or systems that were compared on few of them, sums of residuals are too small, as what they are about was
fitted to them; so each prompt's part is what the strengths change without it, in one step of Newton's method:
    V = (G − 1)/G Σ_g δ_g δ_gᵀ,   δ_g = (H − H_g)⁻¹ s_g,
H the information, H_g and s_g the prompt's part of it and of the slope (CR3 of Bell and McCaffrey, "Bias reduction in standard
errors for linear regression with multi-stage samples", Survey Methodology 28, 2002). Degrees of freedom are by Satterthwaite,
with the variances that the prompts' parts have by the model. One prompt more is counted that varies as single votes do by the
model: where all preferences are alike, as of a judge that goes by the order alone, the next prompt may yet differ. Where few
prompts tell of a system, or the votes alone would make a strength infinite, the variance is at least that of the model, of
single votes. Rates of two systems are bounded as bounded means are (:mod:`robin_cli.analysis.clustered`), and where there are
no others so are p and strengths.
benchmarks/rankings.py measures how often this holds.

Where earlier verdicts chose what was compared, a system that is unlucky at first is left with its bad luck, and the likeliest
strengths are too far apart. A posterior does not mind who chose (Rubin, "Inference and missing data", Biometrika 63, 1976). So
strengths are then drawn from Cauchy's distribution with the scale τ (by a normal one, a system that is far off moves all
others), and the log likelihood ℓ is divided by φ, the mean of V over the variance of single votes, at least 1 where the votes
alone would make a strength infinite. τ is even between the ends of _SPREADS. Each weighs as its evidence by Laplace's method
(Tierney and Kadane, "Accurate approximations for posterior moments and marginal densities", JASA 81, 1986), β being the mode:
    ln e = ℓ(β)/φ − Σ ln(τ + β²/τ) − ½ ln |H/φ + diag(2/(τ² + β²))|.
The covariance is Σ w (P⁻¹ + (β − β̄)(β − β̄)ᵀ), P having the curvature of the prior in place of that of the normal one that has
its slope, of strengths whose sum is 0.

A system's ranks are those that tests of its differences from each other leave, with Holm's correction over these (Mogstad,
Romano, Shaikh and Wilhelm, "Inference for ranks with applications to mobility across neighbourhoods and academic achievement
across countries", Review of Economic Studies 91, 2024).

Length control: the log odds have one more term, of tanh of the difference in length over its spread, and strengths are those
at equal length (Dubois, Galambosi, Liang and Hashimoto, "Length-controlled AlpacaEval", COLM 2024).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from robin_cli.analysis.clustered import clusters_of, probability_beyond, quick_mean_bounds
from robin_cli.analysis.intervals import ALPHA
from robin_cli.analysis.moderated import chance_below, likely_half_widths
from robin_cli.analysis.paired import holm_by_row
from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.bradley_terry import PRIOR, chance, fit, of_differences, win_chances, wins_of

LENGTH = "length"
"""The covariate of length control."""

_EQUAL = 1e-9
_STEPS = 200
_PRECISION = 1e-11
_ENDLESS = 30.0
_LEAST_FREEDOM = 0.5
_CELLS_AT_A_TIME = 2**18
"""Of what is held for some prompts together. Products of larger matrices are shared out among threads, which takes longer."""
_FEWEST_ROWS = 16
_MOST_OF = 1.0 - 1e-9
"""Of a prompt's information, what is left out without it: where it has all there is, no equations would be left."""

_SPREADS = 0.05 * 2.0 ** (0.5 * np.arange(15))
"""τ: each √2 of the one before."""
_WIDE = 4.0
"""The same of the covariate's coefficient, of which is known that it is not very large."""
_CLOSE = 1e-6
"""How near a mode is found."""
_LEAST_WEIGHT = 1e-4
_LEAST_CURVATURE = 0.01
"""Of the precision of the normal distribution with the prior's slope: in its tails the prior bends the other way."""

_FEW = 4.0
"""Degrees of freedom below which the variance is at least that of the model."""


@dataclass(frozen=True, slots=True)
class Covariate:
    """What else than quality the preferences may go by, and how much they do.

    Attributes:
        name: LENGTH.
        coefficient: log odds that a response has for being far longer, positive where the longer is preferred; nan where
            lengths do not differ, or say which system wrote the response: then nothing was taken out.
        ci_low, ci_high: 1 − α interval.
        unit: the root mean square of differences in length; the covariate is tanh((length of A − length of B) / unit).
    """

    name: str
    coefficient: float
    ci_low: float
    ci_high: float
    unit: float


@dataclass(frozen=True, slots=True)
class WinRates:
    """How often each of k systems is preferred to each other: shape (k, k) each, nan where none was compared.

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
        rank_low, rank_high: the ranks that are not ruled out, of each system with at least 1 − α.
        win_rate: probability that it is preferred to another system, each of the others alike, by the model.
        win_low, win_high: 1 − α interval of that.
        difference_error: the standard error of each difference of strengths, shape (m, m).
        freedom: degrees of freedom of that, shape (m, m).
        p: of no difference, two-sided, each for itself, shape (m, m); nan on the diagonal.
        rates: of every two of some systems, by number, in this order. Bounds of each take a millisecond, and of a thousand
            systems there are half a million: they are found for those that are asked for.
        covariate: what was to be taken out of strengths and ``win_rate``; None where nothing was.
        n_comparisons: with a preference, between two systems.
        n_without: without a preference.
        n_prompts: of those with one.
        is_bounded: False where strengths have PRIOR ties in them because the votes alone would make some infinite.
    """

    strength: FloatArray
    ci_low: FloatArray
    ci_high: FloatArray
    rank_low: IntArray
    rank_high: IntArray
    win_rate: FloatArray
    win_low: FloatArray
    win_high: FloatArray
    difference_error: FloatArray
    freedom: FloatArray
    p: FloatArray
    rates: Callable[[Sequence[int]], WinRates]
    covariate: Covariate | None
    n_comparisons: int
    n_without: int
    n_prompts: int
    is_bounded: bool

    @property
    def rank(self) -> IntArray:
        """1 is the best; equal strengths share the better rank."""
        return 1 + np.asarray((self.strength[None] > self.strength[:, None] + _EQUAL).sum(axis=1))


def ranking(
    preference: FloatArray,
    system: IntArray,
    prompt: IntArray,
    systems: int,
    *,
    lengths: FloatArray | None = None,
    alpha: float = ALPHA,
    were_chosen: bool = False,
) -> Ranking:
    """Rank ``systems`` by comparisons, each of which counts once.

    Args:
        preference: probability that A is better, the order's effect taken out, shape (C,); nan without one.
        system: of A and of B, by number, shape (C, 2).
        prompt: any numbers, shape (C,).
        lengths: of the responses A and B in characters, shape (C, 2): preferences that go by length are taken out.
        alpha: each interval, and each range of ranks, holds with about 1 − α.
        were_chosen: what was compared was chosen by earlier verdicts: strengths are drawn together by a prior.

    Raises:
        NotConnected: no chain of comparisons leads from some systems to others; it says from which.
    """
    votes, unit = _votes_of(preference, system, prompt, systems, lengths)
    values, errors = _estimated(votes, were_chosen=were_chosen)
    strength = values[:systems]
    half = likely_half_widths(errors.variance(np.diag, errors.freedom), errors.freedom, alpha=alpha)
    variance = errors.variance(lambda each: of_differences(each[:systems, :systems]), errors.freedom_apart)
    with np.errstate(invalid="ignore", divide="ignore"):
        t = (strength[:, None] - strength[None]) / np.sqrt(variance)
    p = 2.0 * chance_below(-np.abs(t), errors.freedom_apart)
    rates = partial(_win_rates, votes, alpha)
    low, high = strength - half[:systems], strength + half[:systems]
    win_rate, win_low, win_high = _overall(strength, errors, alpha)
    if systems == 2 and votes.covariate is None:  # the model says no more than the votes
        p[:], (win_rate, win_low, win_high) = _of_two(votes, rates([0, 1]))
        low, high = (0.5 * _log_odds(each) for each in (win_low, win_high))
    np.fill_diagonal(p, np.nan)
    differs = holm_by_row(p) < alpha
    of_length, reach = math.nan if votes.covariate is None else float(values[-1]), float(half[-1])
    return Ranking(
        strength,
        low,
        high,
        rank_low=1 + (differs & (t < 0)).sum(axis=1),
        rank_high=systems - (differs & (t > 0)).sum(axis=1),
        win_rate=win_rate,
        win_low=win_low,
        win_high=win_high,
        difference_error=np.sqrt(variance),
        freedom=errors.freedom_apart,
        p=p,
        rates=rates,
        covariate=None if lengths is None else Covariate(LENGTH, of_length, of_length - reach, of_length + reach, unit),
        n_comparisons=len(votes.y),
        n_without=int(np.isnan(preference).sum()),
        n_prompts=votes.prompts,
        is_bounded=errors.is_bounded,
    )


def _of_two(votes: _Votes, rates: WinRates) -> tuple[float, list[FloatArray]]:
    """p of two systems, and the win rate of each with its ends."""
    of_first = clusters_of(np.where(votes.a == 0, votes.y, 1.0 - votes.y), votes.prompt)
    of_each = [np.array([each[0, 1], each[1, 0]]) for each in (rates.rate, rates.ci_low, rates.ci_high)]
    return probability_beyond(of_first, 0.0, 1.0, at=0.5), of_each


@dataclass(frozen=True, slots=True)
class _Votes:
    """Comparisons as rows of a logistic model: of ``weight`` votes the part y is for system a and the rest for b.

    ``prompt``: from 0 on, below ``prompts``. ``covariate``: of what else y goes by; None for nothing.
    """

    y: FloatArray
    a: IntArray
    b: IntArray
    weight: FloatArray
    prompt: IntArray
    prompts: int
    systems: int
    covariate: FloatArray | None = None

    @property
    def size(self) -> int:
        """How many coefficients there are: a strength of each system, and perhaps the covariate's."""
        return self.systems + (self.covariate is not None)

    @property
    def derivative(self) -> list[tuple[IntArray, FloatArray]]:
        """That of each row's log odds by the coefficients: of which, and how large."""
        one = np.ones(len(self.y))
        parts = [(self.a, one), (self.b, -one)]
        if self.covariate is not None:
            parts.append((np.full(len(self.y), self.systems), self.covariate))
        return parts

    def log_odds(self, values: FloatArray) -> FloatArray:
        """Those of each row for a."""
        return np.asarray(sum(values[which] * each for which, each in self.derivative))

    def slopes(self, weight: FloatArray, group: IntArray, groups: int) -> FloatArray:
        """Σ weight · d by group, d the derivative; shape (groups, size)."""
        cells = groups * self.size
        found = sum(np.bincount(group * self.size + which, weight * each, cells) for which, each in self.derivative)
        return np.asarray(found, dtype=np.float64).reshape(groups, self.size)

    def squares(self, weight: FloatArray, group: IntArray, groups: int) -> FloatArray:
        """Σ weight · d dᵀ by group; shape (groups, size, size)."""
        found = np.zeros(groups * self.size**2)
        for row, left in self.derivative:
            for column, right in self.derivative:
                place = (group * self.size + row) * self.size + column
                found += np.bincount(place, weight * left * right, len(found))
        return found.reshape(groups, self.size, self.size)

    def curvature(self, values: FloatArray) -> FloatArray:
        """Σ weight · p (1 − p) d dᵀ, shape (size, size)."""
        p = chance(self.log_odds(values))
        return np.asarray(self.squares(self.weight * p * (1.0 - p), np.zeros(len(p), dtype=np.int64), 1)[0])

    def likelihood(self, values: FloatArray) -> float:
        """Its logarithm."""
        odds = self.log_odds(values)
        return float(self.weight @ (self.y * odds - np.logaddexp(0.0, odds)))

    def information(self, values: FloatArray) -> FloatArray:
        """The curvature, and some where there is none, of the sum of all strengths."""
        found = self.curvature(values)
        found[: self.systems, : self.systems] += np.trace(found) / self.systems**2
        return found

    def at(self, rows: IntArray | slice) -> _Votes:
        """Some of them."""
        return replace(
            self,
            y=self.y[rows],
            a=self.a[rows],
            b=self.b[rows],
            weight=self.weight[rows],
            prompt=self.prompt[rows],
            covariate=None if self.covariate is None else self.covariate[rows],
        )


def _votes_of(
    preference: FloatArray, system: IntArray, prompt: IntArray, systems: int, lengths: FloatArray | None
) -> tuple[_Votes, float]:
    """Each comparison of two systems once, with the length as a covariate where it says something; and the length's unit."""
    between = ~np.isnan(preference) & (system[:, 0] != system[:, 1])
    y, (a, b) = preference[between], system[between].T
    prompts, number = np.unique(prompt[between], return_inverse=True)
    votes = _Votes(y, a, b, np.ones(len(y)), np.asarray(number), len(prompts), systems)
    if lengths is None or not len(y):
        return votes, 0.0
    longer = (lengths[:, 0] - lengths[:, 1])[between].astype(np.float64)
    # About 0 and not about their mean: which of the two responses is called A says nothing.
    unit = math.sqrt(float(np.mean(longer**2)))
    controlled = replace(votes, covariate=np.tanh(longer / max(unit, _EQUAL)))
    return controlled if _is_told_apart(controlled) else votes, unit


@dataclass(frozen=True, slots=True)
class _Fitted:
    """The logistic model of ``votes``: ``values`` of its coefficients and their ``information``; strengths have mean 0."""

    votes: _Votes
    values: FloatArray
    information: FloatArray
    is_bounded: bool


def _fitted(votes: _Votes) -> _Fitted:
    """The coefficients that make the votes most likely. NotConnected where there are no such strengths."""
    found = fit(wins_of(votes.y, np.stack([votes.a, votes.b], axis=1), votes.systems))
    values, is_bounded = found.values, found.is_bounded
    rows = votes if is_bounded else _with_prior(votes)
    if votes.covariate is not None:
        start = np.append(values, 0.0)
        climbed = _climbed(rows, start)
        if climbed is None:
            rows, is_bounded = _with_prior(votes), False
            climbed = _climbed(rows, start)
        values = start if climbed is None else climbed
    return _Fitted(votes, values, rows.information(values), is_bounded)


def _is_told_apart(votes: _Votes) -> bool:
    """Whether the covariate says something that the systems do not say already."""
    information = votes.information(np.zeros(votes.size))
    beside, itself = information[:-1, -1], float(information[-1, -1])
    return itself - float(beside @ np.linalg.pinv(information[:-1, :-1]) @ beside) > _EQUAL * max(itself, _EQUAL)


def _with_prior(votes: _Votes) -> _Votes:
    """The same with PRIOR ties for every two systems that were compared, half of them at either end of the covariate."""
    couples = np.unique(np.minimum(votes.a, votes.b) * votes.systems + np.maximum(votes.a, votes.b))
    a, b = np.divmod(np.tile(couples, 2), votes.systems)
    signs = np.repeat([1.0, -1.0], len(couples))
    return replace(
        votes,
        y=np.append(votes.y, np.full(len(a), 0.5)),
        a=np.append(votes.a, a),
        b=np.append(votes.b, b),
        weight=np.append(votes.weight, np.full(len(a), 0.5 * PRIOR)),
        covariate=None if votes.covariate is None else np.append(votes.covariate, signs),
    )


def _climbed(votes: _Votes, values: FloatArray, prior: _Prior | None = None) -> FloatArray | None:
    """Newton's method from ``values``; None where the coefficients grow without end."""
    nobody = np.zeros(len(votes.y), dtype=np.int64)

    def height(at: FloatArray) -> float:
        return votes.likelihood(at) + (0.0 if prior is None else prior.log_density(at))

    for _ in range(_STEPS):
        slope = votes.slopes(votes.weight * (votes.y - chance(votes.log_odds(values))), nobody, 1)[0]
        if prior is None:
            step = np.linalg.solve(votes.information(values), slope)
        else:
            known = votes.curvature(values) + np.diag(prior.curvature(values))
            step = np.linalg.solve(known, slope - prior.precision(values) * values)
        reached = height(values)
        while height(values + step) < reached - 1e-14 * abs(reached):
            step = 0.5 * step
        values = values + step
        if np.abs(step).max() < (_PRECISION if prior is None else _CLOSE):
            if prior is None:
                values[: votes.systems] -= values[: votes.systems].mean()
            return values
        if np.abs(values).max() > _ENDLESS:
            break
    return None


def _estimated(votes: _Votes, *, were_chosen: bool) -> tuple[FloatArray, _Errors]:
    """The coefficients and their errors; the prior needs what several prompts say of the dispersion."""
    fitted = _fitted(votes)
    errors = _errors(fitted)
    return _posterior(fitted, errors) if were_chosen and votes.prompts > 1 else (fitted.values, errors)


@dataclass(frozen=True, slots=True)
class _Errors:
    """How far the coefficients may be off for prompts like these.

    Attributes:
        clustered: their covariance by prompt, shape (size, size).
        modelled: that by the model, likewise.
        freedom: degrees of freedom of each one's variance, shape (size,).
        freedom_apart: those of the difference of every two strengths, shape (m, m).
        is_bounded: as of the ranking.
    """

    clustered: FloatArray
    modelled: FloatArray
    freedom: FloatArray
    freedom_apart: FloatArray
    is_bounded: bool

    def variance(self, of: Callable[[FloatArray], FloatArray], freedom: FloatArray) -> FloatArray:
        """That of linear combinations of the coefficients, of any shape.

        Args:
            of: from the coefficients' covariance to that.
            freedom: degrees of freedom of each.
        """
        clustered, modelled = of(self.clustered), of(self.modelled)
        tells_little = (freedom < _FEW) | (not self.is_bounded)
        return np.asarray(np.where(tells_little, np.maximum(clustered, modelled), clustered))


@dataclass(frozen=True, slots=True)
class _Prior:
    """Cauchy's distribution of each coefficient, about 0, with a scale each; all told times ``dispersion``."""

    scale: FloatArray
    dispersion: float

    def log_density(self, values: FloatArray) -> float:
        """Its logarithm, less a constant."""
        return -self.dispersion * float(np.log(self.scale + values**2 / self.scale).sum())

    def precision(self, values: FloatArray) -> FloatArray:
        """Of the normal distributions that have its slopes at ``values``."""
        return 2.0 * self.dispersion / (self.scale**2 + values**2)

    def curvature(self, values: FloatArray) -> FloatArray:
        """That of the density's logarithm, downwards."""
        squares = self.scale**2
        bends = (squares - values**2) / (squares + values**2)
        return np.asarray(self.precision(values) * np.maximum(bends, _LEAST_CURVATURE))


def _posterior(fitted: _Fitted, errors: _Errors) -> tuple[FloatArray, _Errors]:
    """The mean of the coefficients and their errors where strengths have a prior, see the top of this file."""
    votes, m = _by_couple(fitted.votes), fitted.votes.systems
    dispersion = float(np.trace(fitted.information @ errors.clustered)) / (votes.size - 1)
    if not fitted.is_bounded:  # votes that are all alike are no more than single ones
        dispersion = max(1.0, dispersion)
    of_others = np.full(votes.size - m, _WIDE)
    mode, modes, evidence = np.zeros(votes.size), [], []
    priors = [_Prior(np.append(np.full(m, spread), of_others), dispersion) for spread in _SPREADS]
    for prior in priors:
        found = _climbed(votes, mode, prior)
        mode = mode if found is None else found
        known = (votes.curvature(mode) + np.diag(prior.precision(mode))) / dispersion
        height = (votes.likelihood(mode) + prior.log_density(mode)) / dispersion
        evidence.append(height - 0.5 * np.linalg.slogdet(known)[1])
        modes.append(mode)
    odds = np.array(evidence) + np.log(_SPREADS)  # on steps of ln τ an even τ weighs as τ
    weight = np.exp(odds - odds.max())
    weight = np.where(weight < _LEAST_WEIGHT, 0.0, weight)
    weight /= weight.sum()
    centre = np.eye(votes.size)
    centre[:m, :m] -= 1.0 / m
    mean, covariance = weight @ np.array(modes), np.zeros((votes.size, votes.size))
    for share, mode, prior in zip(weight, modes, priors, strict=True):
        if share:
            inverse = np.linalg.inv((votes.curvature(mode) + np.diag(prior.curvature(mode))) / dispersion)
            covariance += share * (inverse + np.outer(mode - mean, mode - mean))
    covariance = centre @ covariance @ centre
    return centre @ mean, replace(errors, clustered=covariance, modelled=covariance, is_bounded=True)


def _by_couple(votes: _Votes) -> _Votes:
    """The same votes, a row a couple of systems where nothing else tells them apart."""
    if votes.covariate is not None:
        return votes
    low, high = np.minimum(votes.a, votes.b), np.maximum(votes.a, votes.b)
    couples, which, n = np.unique(low * votes.systems + high, return_inverse=True, return_counts=True)
    y = np.bincount(which, np.where(votes.a == low, votes.y, 1.0 - votes.y)) / n
    a, b = np.divmod(couples, votes.systems)
    return replace(votes, y=y, a=a, b=b, weight=n.astype(np.float64))


def _errors(fitted: _Fitted) -> _Errors:
    """See the top of this file.

    A prompt tells of those systems alone that were compared on it. With E their columns of the unit matrix, and H_g = E A Eᵀ,
    s_g = E a, equations are as many as these systems: (H − H_g)⁻¹ s_g = H⁻¹ E (I − A Eᵀ H⁻¹ E)⁻¹ a.
    """
    inverse = np.asarray(np.linalg.inv(fitted.information), dtype=np.float64)
    votes, m, size = fitted.votes, fitted.votes.systems, fitted.votes.size
    p = chance(votes.log_odds(fitted.values))
    known = p * (1.0 - p)
    parts = inverse @ votes.curvature(fitted.values) @ inverse
    clustered, own, apart = np.zeros((size, size)), np.zeros(size), np.zeros((m, m))
    for rows, some, members in _by_prompt(votes):
        groups = len(members)
        slope = some.slopes(some.y - p[rows], some.prompt, groups)
        each = some.squares(known[rows], some.prompt, groups)
        of_members = inverse[members]
        among = np.take_along_axis(of_members, members[:, None], axis=2)
        left_out = np.linalg.solve(np.eye(members.shape[1]) - _MOST_OF * each @ among, slope[..., None])
        change = (of_members * left_out).sum(axis=1)
        clustered += change.T @ change
        shares = each @ of_members
        by_itself = (shares * of_members).sum(axis=1)
        own += (by_itself**2).sum(axis=0)
        if members.shape[1] == 2:
            _add_fourth_powers(apart, each[:, 0, 0], of_members[:, 0] - of_members[:, 1])
        else:
            _add_squares(apart, by_itself[:, None, :m], shares[..., :m], of_members[..., :m])
    count = votes.prompts
    clustered *= (count - 1) / count if count > 1 else np.nan
    inverse[:m, :m] -= inverse[:m, :m].mean()  # what stood in for the sum of all strengths
    clustered += inverse / max(count, 1)
    freedom = _freedom(np.diag(parts), own)
    freedom_apart = _freedom(of_differences(parts[:m, :m]), np.triu(apart) + np.triu(apart, 1).T)
    return _Errors(clustered, inverse, freedom, freedom_apart, fitted.is_bounded)


def _by_prompt(votes: _Votes) -> Iterator[tuple[IntArray, _Votes, IntArray]]:
    """Some prompts at a time: which votes are of them, these with systems numbered within each prompt, and which these are.

    What each prompt tells of are coefficients by number, shape (prompts, most); one of fewer systems has others behind them, of
    which it says nothing.
    """
    m, prompt = votes.systems, np.tile(votes.prompt, 2)
    cells, cell = np.unique(prompt * m + np.concatenate([votes.a, votes.b]), return_inverse=True)
    starts = np.searchsorted(cells, np.arange(votes.prompts + 1) * m)
    a, b = (cell - starts[prompt]).reshape(2, -1)
    counts = np.diff(starts)
    order = np.argsort(-counts, kind="stable")  # prompts of as many systems together
    rank = np.argsort(order)[votes.prompt]
    rows, start = np.argsort(rank, kind="stable"), 0
    while start < votes.prompts:
        most = int(counts[order[start]])
        chosen = order[start : start + max(1, _CELLS_AT_A_TIME // (most * votes.size))]
        mine = rows[slice(*np.searchsorted(rank[rows], [start, start + len(chosen)]).tolist())]
        members = cells[np.minimum(starts[chosen, None] + np.arange(most), len(cells) - 1)] % m
        if votes.covariate is not None:
            members = np.pad(members, ((0, 0), (0, 1)), constant_values=m)
        yield mine, replace(votes.at(mine), a=a[mine], b=b[mine], prompt=rank[mine] - start, systems=most), members
        start += len(chosen)


def _add_squares(into: FloatArray, by_itself: FloatArray, shares: FloatArray, of_members: FloatArray) -> None:
    """Add to ``into`` the squares of each prompt's parts of the variances of all differences, in its upper triangle.

    Args:
        by_itself: parts of the variance of each strength, shape (prompts, 1, m).
        shares, of_members: covariances are their products, shape (prompts, systems, m) each.
    """
    ones, m = np.ones_like(by_itself), by_itself.shape[2]
    left = np.concatenate([by_itself, ones, -2.0 * shares], axis=1).transpose(0, 2, 1)
    right = np.concatenate([ones, by_itself, of_members], axis=1)
    at_a_time = max(_FEWEST_ROWS, _CELLS_AT_A_TIME // (len(left) * m))
    for start in range(0, m, at_a_time):
        by_two = left[:, start : start + at_a_time] @ right[..., start:]
        into[start : start + at_a_time, start:] += np.einsum("gij,gij->ij", by_two, by_two)


def _freedom(parts: FloatArray, squares: FloatArray) -> FloatArray:
    """Satterthwaite's, of sums over prompts of their parts of variances and of the squares of these, less one for the mean."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.maximum(parts**2 / squares - 1.0, _LEAST_FREEDOM))


def _overall(strength: FloatArray, errors: _Errors, alpha: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The chance of each system against the others, each alike, and its interval, which is even in log odds."""
    m = len(strength)
    each = win_chances(strength)
    np.fill_diagonal(each, 0.0)
    rate = each.sum(axis=1) / (m - 1)
    slope = each * (1.0 - each)
    np.fill_diagonal(slope, 0.0)
    contrasts = np.zeros((m, len(errors.freedom)))
    contrasts[:, :m] = (np.diag(slope.sum(axis=1)) - slope) / (m - 1) / (rate * (1.0 - rate))[:, None]
    variance = errors.variance(lambda each: ((contrasts @ each) * contrasts).sum(axis=1), errors.freedom[:m])
    half = likely_half_widths(variance, errors.freedom[:m], alpha=alpha)
    odds = np.log(rate / (1.0 - rate))
    with np.errstate(invalid="ignore"):
        return rate, chance(odds - half), chance(odds + half)


def _log_odds(rate: FloatArray) -> FloatArray:
    """Those of a rate; without end they are taken to be _ENDLESS."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.clip(np.log(rate) - np.log1p(-rate), -_ENDLESS, _ENDLESS))


def _add_fourth_powers(into: FloatArray, weight: FloatArray, z: FloatArray) -> None:
    """The same of prompts that compare one couple: Σ w² (z_i − z_j)⁴, multiplied out.

    Args:
        weight: w, shape (prompts,).
        z: shape (prompts, m).
    """
    squares = z * z
    weighed = weight[:, None] ** 2 * squares
    even, odd = weighed.T @ squares, (weighed * z).T @ z
    own = np.diag(even)
    into += own[:, None] + own + 6.0 * even - 4.0 * (odd + odd.T)


def _win_rates(votes: _Votes, alpha: float, among: Sequence[int]) -> WinRates:
    """The mean preference of every two of the systems ``among`` that were compared."""
    k = len(among)
    place = np.full(votes.systems, -1)
    place[list(among)] = np.arange(k)
    votes = votes.at(np.flatnonzero((place[votes.a] >= 0) & (place[votes.b] >= 0)))
    a, b = place[votes.a], place[votes.b]
    rate, low, high = np.full((3, k, k), np.nan)
    n, prompts = np.zeros((2, k, k), dtype=np.int64)
    y = np.where(a > b, 1.0 - votes.y, votes.y)
    couple = np.minimum(a, b) * k + np.maximum(a, b)
    order = np.argsort(couple, kind="stable")
    couples, starts = np.unique(couple[order], return_index=True)
    for (i, j), rows in zip(np.stack(np.divmod(couples, k), axis=1).tolist(), np.split(order, starts[1:]), strict=True):
        clusters = clusters_of(y[rows], votes.prompt[rows])
        rate[i, j], count = clusters.mean, int(clusters.times.sum())
        low[i, j], high[i, j] = quick_mean_bounds(clusters, 0.0, 1.0, alpha=alpha)
        rate[j, i], low[j, i], high[j, i] = 1.0 - rate[i, j], 1.0 - high[i, j], 1.0 - low[i, j]
        n[i, j] = n[j, i] = len(rows)
        prompts[i, j] = prompts[j, i] = count
    return WinRates(rate, low, high, n, prompts)
