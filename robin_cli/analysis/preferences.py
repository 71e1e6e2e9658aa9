"""Preferences: in each group of responses the best by its score, against each other one that can be told apart from it.

Two responses can be told apart where their scores differ by more than t √(V_a/n_a + V_b/n_b), with moderated variances and
the degrees of freedom of Welch and Satterthwaite: right for all such pairs on average, a guarantee for none.

Certified is what bets on the difference say at any time (:func:`robin_cli.analysis.intervals.log_sum_evidence`), of all
preferences together. Which response leads, and which pairs are told apart, the ratings themselves say; so e-BH counts all pairs
of a group as tried, and what is not told apart as without evidence, which keeps its promise for those that are named.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from robin_cli.analysis.decisions import decide
from robin_cli.analysis.evidence import certified
from robin_cli.analysis.intervals import ALPHA, Part, log_sum_evidence
from robin_cli.analysis.level_counts import LevelCounts
from robin_cli.analysis.moderated import freedom_of_sum, likely_half_widths, moderated
from robin_cli.analysis.scores import rated_parts
from robin_cli.model.arms import FloatArray, IntArray, mean
from robin_cli.model.decision import BEST, MARGIN
from robin_cli.storage.reader import RunData


@dataclass(frozen=True, slots=True)
class Preferences:
    """Rows group by group, within a group attribute by attribute, and there in the order of the data.

    Attributes:
        chosen, rejected: the places of the two pairs in the data, shape (rows,) each.
        attribute: which of the run's attributes they are compared by, shape (rows,).
        margin: the chosen one's score less the rejected one's, in points, shape (rows,).
        certified: where the chosen one is guaranteed to be better, or worse by less than the run's margin, shape (rows,).
        alike: how many rivals of a group's best cannot be told apart from it, or have its very text.
        unrated: how many responses, of each attribute, have no rating, in groups of several.
        alone: how many groups have one response only.
        groups: how many groups there are.
    """

    chosen: IntArray
    rejected: IntArray
    attribute: IntArray
    margin: FloatArray
    certified: NDArray[np.bool_]
    alike: int
    unrated: int
    alone: int
    groups: int


def preferences(run: RunData) -> Preferences:
    """The preferences that the scores of ``run`` hold; a panel's judges count alike."""
    space, arms = run.space, run.fold.arms
    error_rate = run.manifest.settings.get("error_rate") or ALPHA
    found = moderated(space, arms.counts, arms.totals, arms.totals_sq)
    noise, freedom = (space.by_judge(each) for each in (found.error_variance, found.freedom))
    score = space.by_judge(mean(arms.counts, arms.totals)).mean(axis=1)
    first = np.flatnonzero(space.judge == 0)
    pair, attribute = (np.asarray(each[first], dtype=np.int64) for each in (space.pair, space.attribute))
    sizes = np.bincount(run.groups)
    contest = run.groups[pair] * len(space.attributes) + attribute
    of_several = sizes[run.groups][pair] > 1
    rated = np.flatnonzero(of_several & ~np.isnan(score))

    order = rated[np.lexsort((rated, -score[rated], contest[rated]))]
    _, starts, counts = np.unique(contest[order], return_index=True, return_counts=True)
    lead = np.repeat(order[starts], counts)
    rival = rated[np.lexsort((rated, contest[rated]))]
    lead, rival = lead[rival != lead], rival[rival != lead]

    difference = score[lead] - score[rival]
    errors, freedoms = (np.concatenate([each[lead], each[rival]], axis=1) for each in (noise, freedom))
    error = errors.sum(axis=1) / len(space.judges) ** 2
    same = run.responses[pair[lead]] == run.responses[pair[rival]]
    told = (difference > likely_half_widths(error, freedom_of_sum(errors, freedoms), alpha=error_rate)) & ~same
    lead, rival = lead[told], rival[told]
    tried = len(space.attributes) * int((sizes * (sizes - 1) // 2).sum())
    sure = certified(_log_evidence(run, lead, rival, attribute[lead]), error_rate, among=tried)
    if run.task is not None and run.task.group is not None:  # which certified the best of a group against all of it
        decided = decide(run.task, score, LevelCounts.of(run), arms)
        sure |= (decided.decision[lead] == BEST) & decided.certified[rival]
    return Preferences(
        pair[lead],
        pair[rival],
        attribute[lead],
        difference[told],
        sure,
        alike=int((~told).sum()),
        unrated=int(of_several.sum()) - len(rated),
        alone=int((sizes == 1).sum()),
        groups=len(sizes),
    )


def _log_evidence(run: RunData, lead: IntArray, rival: IntArray, attribute: IntArray) -> FloatArray:
    """ln of the bets that the mean of each row in ``lead`` is above that in ``rival`` less the margin; shape (rows,)."""
    of_run = run.manifest.settings.get("margin")
    margins = [MARGIN * (each.high - each.low) if of_run is None else of_run for each in run.space.scales]
    at = -np.array(margins, dtype=np.float64)[attribute]
    found = np.empty(len(lead))
    place = np.empty(len(run.space), dtype=np.int64)
    for rows, parts in rated_parts(run):
        place[rows] = np.arange(len(rows))
        mine = np.flatnonzero(np.isin(lead, rows))
        if len(mine):
            both: list[Part] = [replace(part, counts=part.counts[place[lead[mine]]]) for part in parts]
            both += [replace(part, counts=part.counts[place[rival[mine]]], weight=-part.weight) for part in parts]
            found[mine] = log_sum_evidence(both, at[mine])
    return found
