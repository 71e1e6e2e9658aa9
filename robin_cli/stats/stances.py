"""Whether people's labels agree with each decision of a run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robin_cli.data.given_labels import GivenLabels, NamedBest
from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.decision import UNDECIDED
from robin_cli.model.errors import InputError, shown
from robin_cli.run.reader import RunReader
from robin_cli.stats.decided import Decided, decisions_by, rows_of_groups
from robin_cli.stats.pairwise_decisions import Best
from robin_cli.stats.run_labels import labels_of

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Stances:
    """The decisions of a run, and people's; shape (decisions,) each.

    Attributes:
        likely_wrong: the estimated probability that the run's own decision is wrong, 0 to 1; nan without one.
        agrees: 1 if people decide the same, 0 if they do not, nan without a label.
        prompt: number of its prompt.
        one_side: the decision of all labels, if they agree and some of the run's decisions differ; else "".
    """

    likely_wrong: FloatArray
    agrees: FloatArray
    prompt: IntArray
    one_side: str = ""

    @property
    def labelled(self) -> NDArray[np.bool_]:
        """Whether each decision has a rating and a label."""
        return ~np.isnan(self.agrees) & ~np.isnan(self.likely_wrong)


def stances_of(run: RunReader, decided: Decided, given_labels: GivenLabels | None) -> Stances:
    """Return people's decisions beside those of ``run``: about thresholds by their labels, about groups by labels of all
    responses, or by the best one that they name. InputError for a named one that is not in its group.

    ``given_labels``: people's labels, in place of the human ratings of the data.
    """
    labels, first = labels_of(run, given_labels), decided.first
    values = np.stack([each.values for each in labels.values()], axis=1).ravel()
    one_side = ""
    if decided.task.group is None:
        theirs, ours = decisions_by(decided.task, values)[first], decided.decision[first]
        # otherwise labels would decide which pairs count
        is_whole = ~np.isnan(run.space.by_pair(values)).any(axis=1)
        agrees = np.where(is_whole, theirs == ours, np.nan)
        sides = np.unique(theirs[is_whole])
        one_side = str(sides[0]) if len(sides) == 1 and {*sides} != {*ours} - {UNDECIDED} else ""
    else:
        rows = rows_of_groups(decided.task)
        of_group = np.where(rows >= 0, values[rows], -np.inf)
        is_best = values[first] >= of_group.max(axis=1) - _ROUNDING
        agrees = np.where(np.isnan(of_group).any(axis=1), np.nan, is_best)
        if given_labels is not None and given_labels.best:
            agrees = _by_name(run, decided, rows, given_labels, agrees)
    pair = run.space.pair[run.space.by_rater(np.arange(len(run.space)))[first, 0]]
    return Stances(decided.likely_wrong, agrees, run.prompts[pair], one_side)


def stances_of_best(run: RunReader, best: Best, given_labels: GivenLabels | None) -> Stances:
    """Return people's decision about the best response to each prompt of a pairwise run: the same if they prefer no other.

    ``given_labels``: labels of comparisons, 0 (B) to 1 (A).
    """
    matches = run.matches
    (labels,) = labels_of(run, given_labels).values()
    of = np.searchsorted(best.prompt, matches.prompt)
    leader = best.leader[of]
    is_a, is_b = (matches.response == leader[:, None]).T
    mine, sign = (is_a | is_b) & (leader >= 0), np.where(is_a, 1.0, -1.0)
    agrees = np.ones(len(best.prompt))
    said = np.where(np.isnan(labels.values), np.nan, sign * (labels.values - 0.5) >= 0)
    with np.errstate(invalid="ignore"):  # nan stays, and is no error
        np.minimum.at(agrees, of[mine], said[mine])
    missing = best.leader < 0
    likely_wrong = np.where(missing, np.nan, best.likely_wrong)
    return Stances(likely_wrong, np.where(missing, np.nan, agrees), best.prompt)


def _by_name(
    run: RunReader, decided: Decided, rows: IntArray, labels: GivenLabels, agrees: FloatArray
) -> FloatArray:
    """Return ``agrees`` with the labels that name the best response of a group."""
    assert decided.task.group is not None  # noqa: S101  # for the types
    pair_of = run.space.pair[run.space.by_rater(np.arange(len(run.space)))[:, 0]]
    names = [run.pairs.group_names[each] for each in decided.task.group[pair_of[rows[:, 0]]]]
    found = agrees.copy()
    places = {
        run.pair_ids[pair_of[row]]: number for number, of in enumerate(rows) for row in of[of >= 0]
    }
    said: dict[int, NamedBest] = {}
    for named in labels.best:
        number = places.get(named.pair_id)
        if number is None or named.group not in {None, names[number]}:
            of = "" if named.group is None else f' of the group "{shown(named.group)}"'
            raise InputError(
                f'{named.place}: "{shown(named.pair_id)}" is no response{of} that has a rival. Name group and pair_id as in '
                "robin export"
            )
        if (other := said.setdefault(number, named)).pair_id != named.pair_id:
            raise InputError(
                f'{named.place}: the best of "{shown(names[number])}" is "{shown(named.pair_id)}" here, and '
                f'"{shown(other.pair_id)}" by {other.place}. Keep one of the two rows'
            )
        found[number] = run.pair_ids[pair_of[decided.first[number]]] == named.pair_id
    return found
