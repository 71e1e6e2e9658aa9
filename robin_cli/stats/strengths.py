"""Strengths of systems: those that make the preferences between their responses most likely, and their errors.

The model is that of Bradley and Terry (:mod:`robin_cli.policies.bradley_terry`), with each comparison counted once, however
often it was asked. Prompts are the sample: the responses to one are compared many times, so errors are sums by prompt. The
model need not hold, nor need votes be independent within a prompt.

With few prompts, or systems compared on few of them, sums of residuals are too small, as the model was fitted to them. So each
prompt's part is the change of the strengths without it, in one step of Newton's method:
    V = (G − 1)/G Σ_g δ_g δ_gᵀ,   δ_g = (H − H_g)⁻¹ s_g,
H being the information, H_g and s_g the prompt's part of it and of the slope (CR3 of Bell and McCaffrey, "Bias reduction in
standard errors for linear regression with multi-stage samples", Survey Methodology 28, 2002). Degrees of freedom are by
Satterthwaite, with the variances of the prompts' parts by the model. One more prompt is counted, with the model's variance of
single votes: if all preferences are equal, such as those of a judge that goes by the order alone, the next prompt may still
differ. If few prompts bear on a system, or if the votes alone would make a strength infinite, the variance is at least the
model's for single votes.
benchmarks/rankings.py measures the coverage.

If earlier verdicts chose what was compared, a system that is unlucky at first keeps its bad luck, and the likeliest strengths
are too far apart. A posterior does not depend on the choice (Rubin, "Inference and missing data", Biometrika 63, 1976). So
strengths then have a Cauchy prior with the scale τ (with a normal one, a system that is far off moves all others), and the log
likelihood ℓ is divided by φ, the mean of V over the variance of single votes, at least 1 if the votes alone would make a
strength infinite. τ is even between the ends of _SPREADS. Each has its evidence as weight, by Laplace's method (Tierney and
Kadane, "Accurate approximations for posterior moments and marginal densities", JASA 81, 1986), β being the mode:
    ln e = ℓ(β)/φ − Σ ln(τ + β²/τ) − ½ ln |H/φ + diag(2/(τ² + β²))|.
The covariance is Σ w (P⁻¹ + (β − β̄)(β − β̄)ᵀ). P has the prior's curvature in place of that of the normal one with the same
slope, for strengths whose sum is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.policies.bradley_terry import PRIOR, chance, fit, of_differences, wins_of

_STEPS = 200
ENDLESS = 30.0
_LEAST_FREEDOM = 0.5
_CELLS_AT_A_TIME = 2**18
"""Numbers held for some prompts together. Products of larger matrices are shared out among threads, which takes longer."""
_FEWEST_ROWS = 16
_MOST_OF = 1.0 - 1e-9
"""The most of a prompt's information that is left out: if it has all there is, no equations would be left."""

_SPREADS = 0.05 * 2.0 ** (0.5 * np.arange(15))
"""τ: each √2 times the one before."""
_CLOSE = 1e-6
"""Precision of a mode."""
_LEAST_WEIGHT = 1e-4
_LEAST_CURVATURE = 0.01
"""Over the precision of the normal distribution with the prior's slope: in its tails the prior bends the other way."""

_FEW = 4.0
"""Degrees of freedom below which the variance is at least the model's."""


@dataclass(frozen=True, slots=True)
class Votes:
    """Comparisons as rows of a logistic model: y is the share of ``weight`` votes for system a; the rest is for b.

    ``prompt``: number from 0, below ``prompts``.
    """

    y: FloatArray
    a: IntArray
    b: IntArray
    weight: FloatArray
    prompt: IntArray
    prompts: int
    systems: int

    @property
    def derivative(self) -> list[tuple[IntArray, float]]:
        """Derivatives of each row's log odds by the strengths: systems by number, and values."""
        return [(self.a, 1.0), (self.b, -1.0)]

    def log_odds(self, values: FloatArray) -> FloatArray:
        """Return the log odds of each row for a."""
        return values[self.a] - values[self.b]

    def slopes(self, weight: FloatArray, group: IntArray, groups: int) -> FloatArray:
        """Return Σ weight · d by group, d being the derivative; shape (groups, m)."""
        cells = groups * self.systems
        found = sum(
            np.bincount(group * self.systems + which, weight * each, cells)
            for which, each in self.derivative
        )
        return np.asarray(found, dtype=np.float64).reshape(groups, self.systems)

    def squares(self, weight: FloatArray, group: IntArray, groups: int) -> FloatArray:
        """Return Σ weight · d dᵀ by group; shape (groups, m, m)."""
        found = np.zeros(groups * self.systems**2)
        for row, left in self.derivative:
            for column, right in self.derivative:
                place = (group * self.systems + row) * self.systems + column
                found += np.bincount(place, weight * (left * right), len(found))
        return found.reshape(groups, self.systems, self.systems)

    def curvature(self, values: FloatArray) -> FloatArray:
        """Return Σ weight · p (1 − p) d dᵀ, shape (m, m)."""
        p = chance(self.log_odds(values))
        return np.asarray(
            self.squares(self.weight * p * (1.0 - p), np.zeros(len(p), dtype=np.int64), 1)[0]
        )

    def likelihood(self, values: FloatArray) -> float:
        """Return the logarithm of the likelihood."""
        odds = self.log_odds(values)
        return float(self.weight @ (self.y * odds - np.logaddexp(0.0, odds)))

    def information(self, values: FloatArray) -> FloatArray:
        """Return the curvature, plus some in its null direction, the sum of all strengths."""
        found = self.curvature(values)
        return np.asarray(found + np.trace(found) / self.systems**2)

    def at(self, rows: IntArray | slice) -> Votes:
        """Return some of the rows."""
        return replace(
            self,
            y=self.y[rows],
            a=self.a[rows],
            b=self.b[rows],
            weight=self.weight[rows],
            prompt=self.prompt[rows],
        )


def votes_of(preference: FloatArray, system: IntArray, prompt: IntArray, systems: int) -> Votes:
    """Return each comparison of two systems once."""
    between = ~np.isnan(preference) & (system[:, 0] != system[:, 1])
    y, (a, b) = preference[between], system[between].T
    prompts, number = np.unique(prompt[between], return_inverse=True)
    return Votes(y, a, b, np.ones(len(y)), np.asarray(number), len(prompts), systems)


@dataclass(frozen=True, slots=True)
class _Fitted:
    """The fitted logistic model of ``votes``: strengths, of mean 0, as ``values``, and their ``information``."""

    votes: Votes
    values: FloatArray
    information: FloatArray
    is_bounded: bool


def _fitted(votes: Votes) -> _Fitted:
    """Return the strengths that make the votes most likely. NotConnected if there are none."""
    found = fit(wins_of(votes.y, np.stack([votes.a, votes.b], axis=1), votes.systems))
    rows = votes if found.is_bounded else _with_prior(votes)
    return _Fitted(votes, found.values, rows.information(found.values), found.is_bounded)


def _with_prior(votes: Votes) -> Votes:
    """Return the votes with PRIOR ties for every two compared systems."""
    couples = np.unique(np.minimum(votes.a, votes.b) * votes.systems + np.maximum(votes.a, votes.b))
    a, b = np.divmod(couples, votes.systems)
    return replace(
        votes,
        y=np.append(votes.y, np.full(len(a), 0.5)),
        a=np.append(votes.a, a),
        b=np.append(votes.b, b),
        weight=np.append(votes.weight, np.full(len(a), PRIOR)),
    )


def _climbed(votes: Votes, values: FloatArray, prior: _Prior) -> FloatArray | None:
    """Maximize by Newton's method from ``values``; return None if the strengths grow without end."""
    nobody = np.zeros(len(votes.y), dtype=np.int64)

    def height(at: FloatArray) -> float:
        return votes.likelihood(at) + prior.log_density(at)

    for _ in range(_STEPS):
        slope = votes.slopes(votes.weight * (votes.y - chance(votes.log_odds(values))), nobody, 1)[
            0
        ]
        known = votes.curvature(values) + np.diag(prior.curvature(values))
        step = np.linalg.solve(known, slope - prior.precision(values) * values)
        reached = height(values)
        while height(values + step) < reached - 1e-14 * abs(reached):
            step = 0.5 * step
        values = values + step
        if np.abs(step).max() < _CLOSE:
            return values
        if np.abs(values).max() > ENDLESS:
            break
    return None


def estimated(votes: Votes, *, were_chosen: bool) -> tuple[FloatArray, Errors]:
    """Return the strengths and their errors; the prior needs the dispersion over several prompts."""
    fitted = _fitted(votes)
    errors = _errors(fitted)
    return (
        _posterior(fitted, errors) if were_chosen and votes.prompts > 1 else (fitted.values, errors)
    )


@dataclass(frozen=True, slots=True)
class Errors:
    """Errors of the strengths for prompts like these.

    Attributes:
        clustered: their covariance by prompt, shape (m, m).
        modelled: that by the model, likewise.
        freedom: degrees of freedom of each one's variance, shape (m,).
        freedom_apart: those of the difference of every two strengths, shape (m, m).
        is_bounded: as of the ranking.
    """

    clustered: FloatArray
    modelled: FloatArray
    freedom: FloatArray
    freedom_apart: FloatArray
    is_bounded: bool

    def variance(self, of: Callable[[FloatArray], FloatArray], freedom: FloatArray) -> FloatArray:
        """Return the variance of linear combinations of the strengths, of any shape.

        Args:
            of: maps the strengths' covariance to it.
            freedom: degrees of freedom of each.
        """
        clustered, modelled = of(self.clustered), of(self.modelled)
        tells_little = (freedom < _FEW) | (not self.is_bounded)
        return np.asarray(np.where(tells_little, np.maximum(clustered, modelled), clustered))


@dataclass(frozen=True, slots=True)
class _Prior:
    """A Cauchy prior of each strength, about 0; all its terms are multiplied by ``dispersion``."""

    scale: float
    dispersion: float

    def log_density(self, values: FloatArray) -> float:
        """Return the logarithm of its density, less a constant."""
        return -self.dispersion * float(np.log(self.scale + values**2 / self.scale).sum())

    def precision(self, values: FloatArray) -> FloatArray:
        """Return the precision of the normal distributions with its slopes at ``values``."""
        return 2.0 * self.dispersion / (self.scale**2 + values**2)

    def curvature(self, values: FloatArray) -> FloatArray:
        """Return the downward curvature of the density's logarithm."""
        squares = self.scale**2
        bends = (squares - values**2) / (squares + values**2)
        return np.asarray(self.precision(values) * np.maximum(bends, _LEAST_CURVATURE))


def _posterior(fitted: _Fitted, errors: Errors) -> tuple[FloatArray, Errors]:
    """Return the posterior mean of the strengths and their errors, see the top of this file."""
    votes, m = _by_couple(fitted.votes), fitted.votes.systems
    dispersion = float(np.trace(fitted.information @ errors.clustered)) / (m - 1)
    if not fitted.is_bounded:  # equal votes count as no more than single ones
        dispersion = max(1.0, dispersion)
    mode, modes, evidence = np.zeros(m), [], []
    priors = [_Prior(float(spread), dispersion) for spread in _SPREADS]
    for prior in priors:
        found = _climbed(votes, mode, prior)
        mode = mode if found is None else found
        known = (votes.curvature(mode) + np.diag(prior.precision(mode))) / dispersion
        height = (votes.likelihood(mode) + prior.log_density(mode)) / dispersion
        evidence.append(height - 0.5 * np.linalg.slogdet(known)[1])
        modes.append(mode)
    odds = np.array(evidence) + np.log(_SPREADS)  # on steps of ln τ an even τ has the weight τ
    weight = np.exp(odds - odds.max())
    weight = np.where(weight < _LEAST_WEIGHT, 0.0, weight)
    weight /= weight.sum()
    centre = np.eye(m) - 1.0 / m
    mean, covariance = weight @ np.array(modes), np.zeros((m, m))
    for share, mode, prior in zip(weight, modes, priors, strict=True):
        if share:
            inverse = np.linalg.inv(
                (votes.curvature(mode) + np.diag(prior.curvature(mode))) / dispersion
            )
            covariance += share * (inverse + np.outer(mode - mean, mode - mean))
    covariance = centre @ covariance @ centre
    return centre @ mean, replace(
        errors, clustered=covariance, modelled=covariance, is_bounded=True
    )


def _by_couple(votes: Votes) -> Votes:
    """Return the votes with one row for each couple of systems."""
    low, high = np.minimum(votes.a, votes.b), np.maximum(votes.a, votes.b)
    couples, which, n = np.unique(
        low * votes.systems + high, return_inverse=True, return_counts=True
    )
    y = np.bincount(which, np.where(votes.a == low, votes.y, 1.0 - votes.y)) / n
    a, b = np.divmod(couples, votes.systems)
    return replace(votes, y=y, a=a, b=b, weight=n.astype(np.float64))


def _errors(fitted: _Fitted) -> Errors:
    """Return the errors, see the top of this file.

    A prompt bears only on the systems compared on it. With E their columns of the unit matrix, and H_g = E A Eᵀ, s_g = E a,
    there are as many equations as these systems: (H − H_g)⁻¹ s_g = H⁻¹ E (I − A Eᵀ H⁻¹ E)⁻¹ a.
    """
    inverse = np.asarray(np.linalg.inv(fitted.information), dtype=np.float64)
    votes, m = fitted.votes, fitted.votes.systems
    p = chance(votes.log_odds(fitted.values))
    known = p * (1.0 - p)
    parts = inverse @ votes.curvature(fitted.values) @ inverse
    clustered, own, apart = np.zeros((m, m)), np.zeros(m), np.zeros((m, m))
    for rows, some, members in _by_prompt(votes):
        groups = len(members)
        slope = some.slopes(some.y - p[rows], some.prompt, groups)
        each = some.squares(known[rows], some.prompt, groups)
        of_members = inverse[members]
        among = np.take_along_axis(of_members, members[:, None], axis=2)
        left_out = np.linalg.solve(
            np.eye(members.shape[1]) - _MOST_OF * each @ among, slope[..., None]
        )
        change = (of_members * left_out).sum(axis=1)
        clustered += change.T @ change
        shares = each @ of_members
        by_itself = (shares * of_members).sum(axis=1)
        own += (by_itself**2).sum(axis=0)
        if members.shape[1] == 2:
            _add_fourth_powers(apart, each[:, 0, 0], of_members[:, 0] - of_members[:, 1])
        else:
            _add_squares(apart, by_itself[:, None], shares, of_members)
    count = votes.prompts
    clustered *= (count - 1) / count if count > 1 else np.nan
    inverse -= inverse.mean()  # removes the value added in the null direction
    clustered += inverse / max(count, 1)
    freedom = _freedom(np.diag(parts), own)
    freedom_apart = _freedom(of_differences(parts), np.triu(apart) + np.triu(apart, 1).T)
    return Errors(clustered, inverse, freedom, freedom_apart, fitted.is_bounded)


def _by_prompt(votes: Votes) -> Iterator[tuple[IntArray, Votes, IntArray]]:
    """Yield some prompts at a time: their rows, their votes with systems numbered within each prompt, and their systems.

    Systems are numbers, shape (prompts, most); a prompt with fewer systems has others behind them, on which it does not
    bear.
    """
    m, prompt = votes.systems, np.tile(votes.prompt, 2)
    cells, cell = np.unique(prompt * m + np.concatenate([votes.a, votes.b]), return_inverse=True)
    starts = np.searchsorted(cells, np.arange(votes.prompts + 1) * m)
    a, b = (cell - starts[prompt]).reshape(2, -1)
    counts = np.diff(starts)
    order = np.argsort(-counts, kind="stable")  # prompts with equally many systems together
    rank = np.argsort(order)[votes.prompt]
    rows, start = np.argsort(rank, kind="stable"), 0
    while start < votes.prompts:
        most = int(counts[order[start]])
        chosen = order[start : start + max(1, _CELLS_AT_A_TIME // (most * m))]
        mine = rows[slice(*np.searchsorted(rank[rows], [start, start + len(chosen)]).tolist())]
        members = cells[np.minimum(starts[chosen, None] + np.arange(most), len(cells) - 1)] % m
        yield (
            mine,
            replace(votes.at(mine), a=a[mine], b=b[mine], prompt=rank[mine] - start, systems=most),
            members,
        )
        start += len(chosen)


def _add_squares(
    into: FloatArray, by_itself: FloatArray, shares: FloatArray, of_members: FloatArray
) -> None:
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
    """Return Satterthwaite's degrees of freedom, of sums over prompts of parts of variances and their squares, less one."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.maximum(parts**2 / squares - 1.0, _LEAST_FREEDOM))


def _add_fourth_powers(into: FloatArray, weight: FloatArray, z: FloatArray) -> None:
    """Add the same for prompts that compare one couple: Σ w² (z_i − z_j)⁴, multiplied out.

    Args:
        weight: w, shape (prompts,).
        z: shape (prompts, m).
    """
    squares = z * z
    weighed = weight[:, None] ** 2 * squares
    even, odd = weighed.T @ squares, (weighed * z).T @ z
    own = np.diag(even)
    into += own[:, None] + own + 6.0 * even - 4.0 * (odd + odd.T)
