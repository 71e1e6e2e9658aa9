"""Preferences for training: the best response of each group, against each other one whose score differs clearly.

Two scores differ clearly if the difference is more than t √(V_a/n_a + V_b/n_b), with moderated variances and the degrees of
freedom of Welch and Satterthwaite: right for all such pairs on average, a guarantee for none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from robin_cli.data.chats import turns_in
from robin_cli.goals.comparisons import PairwiseResult
from robin_cli.goals.result import Result, View
from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.decision import BEST
from robin_cli.model.errors import InputError, typed
from robin_cli.model.records import OTHER_COLUMN, number_of
from robin_cli.run.pair_files import read_numbers
from robin_cli.show.columns import PREFERENCES
from robin_cli.show.tables import Table
from robin_cli.stats.pairwise import pairwise_scores
from robin_cli.stats.row_scores import row_scores

_EVEN = 0.5
_MESSAGES = pa.list_(pa.struct([("role", pa.string()), ("content", pa.large_string())]))


@dataclass(frozen=True, slots=True)
class TrainingPreferences:
    """Rows group by group, within a group attribute by attribute, and there in the order of the data; shape (rows,) each."""

    chosen: IntArray  # places of the pairs in the data
    rejected: IntArray
    attribute: IntArray  # number of that by which they are compared
    margin: FloatArray  # the chosen one's score less the rejected one's, in points
    certified: NDArray[np.bool_] | None  # the chosen one as the best of its group; None without any
    alike: int  # rivals of a group's best without a clear difference, or with its very text
    unrated: int  # responses, for each attribute, without a rating, in groups of several
    alone: int  # groups with one response only
    groups: int


def preferences(result: Result) -> TrainingPreferences:
    """Return the preferences in the scores of a run."""
    run, space, scores = result.run, result.run.space, result.scores
    moderated, score = row_scores(space, run.task, run.fold.arms.sums), scores.numbers("score")
    pair, attribute = (
        axis[space.judge == 0].astype(np.int64) for axis in (space.pair, space.attribute)
    )
    sizes = np.bincount(run.pairs.groups)
    contest = run.pairs.groups[pair] * len(space.attributes) + attribute
    of_several = sizes[run.pairs.groups][pair] > 1
    rated = np.flatnonzero(of_several & ~np.isnan(score))

    order = rated[np.lexsort((rated, -score[rated], contest[rated]))]
    _, starts, counts = np.unique(contest[order], return_index=True, return_counts=True)
    lead = np.repeat(order[starts], counts)
    rival = rated[np.lexsort((rated, contest[rated]))]
    lead, rival = lead[rival != lead], rival[rival != lead]

    difference = score[lead] - score[rival]
    response = read_numbers([run.path], "response")
    is_same = response[pair[lead]] == response[pair[rival]]
    width = moderated.half_widths(lead, rival, alpha=run.manifest.error_rate)
    is_clear = (difference > width) & ~is_same
    lead, rival = lead[is_clear], rival[is_clear]
    sure, decided = None, scores.decided
    if decided is not None and decided.certified is not None and decided.task.group is not None:
        is_best = (decided.decision == BEST) & decided.of_rows(decided.certified, other=False)
        sure = is_best[lead]
    return TrainingPreferences(
        pair[lead],
        pair[rival],
        attribute[lead],
        difference[is_clear],
        sure,
        alike=int((~is_clear).sum()),
        unrated=int(of_several.sum()) - len(rated),
        alone=int((sizes == 1).sum()),
        groups=len(sizes),
    )


def preference_table(result: Result, view: View) -> Table:
    """Return a row for each response that differs clearly from its group's best: prompt, chosen, rejected, margin, certified.

    Several attributes have rows of their own, and a column names them. As ``messages`` chosen and rejected are conversations
    that begin with the prompt, which then has no column: open-instruct reads nothing else, and TRL does not accept a text as
    prompt beside them.

    InputError: no group has two responses, or no two differ clearly.
    """
    run, rows = result.run, preferences(result)
    unrated = number_of(rows.unrated, "response")
    if rows.alone == rows.groups:
        raise InputError(
            f"{run.name}: {number_of(rows.groups, 'group')}, and one response in each, so there is none to prefer; judge "
            "several responses to a prompt, or say with --group which of them belong together"
        )
    if not len(rows.chosen):
        without = f", {unrated} without a rating" if rows.unrated else ""
        raise InputError(
            f"{run.name}: no two responses of a group can be told apart ({number_of(rows.alike, 'pair')}{without}); more "
            f"calls may tell them apart: robin resume {typed(run.name)} --budget N"
        )
    counts = [
        number_of(len(rows.chosen), "pair"),
        f"{rows.alike:,} that cannot be told apart {'is' if rows.alike == 1 else 'are'} left out",
    ]
    if rows.unrated:
        counts.append(f"{unrated} {_has(rows.unrated)} no rating")
    if rows.alone:
        counts.append(f"{number_of(rows.alone, 'group')} {_has(rows.alone)} one response only")
    view.notify("; ".join(counts))
    prompt, response = (run.pairs.table[name] for name in ("prompt", "response"))
    prompts = prompt.take(rows.chosen)
    if others := pc.sum(pc.not_equal(prompts, prompt.take(rows.rejected))).as_py():
        view.notify(
            f"{number_of(others, 'pair')} of responses to different prompts: the prompt is that of the chosen one"
        )
    columns = {
        "prompt": prompts,
        "chosen": response.take(rows.chosen),
        "rejected": response.take(rows.rejected),
        "margin": rows.margin,
    }
    if len(run.space.attributes) > 1:
        columns["attribute"] = pa.array(run.space.attributes).take(pa.array(rows.attribute))
    return _filled(columns, rows.certified, view)


def preferred_table(result: PairwiseResult, view: View) -> Table:
    """Return a row for each comparison whose responses differ clearly, in the order of the data.

    ``margin`` is the preference less a half. Raises: as for :func:`preference_table`.
    """
    run, matches, best = result.run, result.matches, result.best
    scores = pairwise_scores(run, alpha=run.manifest.error_rate)
    preference, low, high = map(scores.numbers, ("preference", "ci_low", "ci_high"))
    is_clear, sure = (low > _EVEN) | (high < _EVEN), None
    if best is not None and best.certified is not None:
        leader = np.where(preference > _EVEN, matches.response[:, 0], matches.response[:, 1])
        sure = np.isin(leader, best.leader[best.certified])
        sure &= ~np.isnan(preference) & (preference != _EVEN)
        is_clear |= sure
    without, clear = int(np.isnan(preference).sum()), int(is_clear.sum())
    alike = len(preference) - without - clear
    if not clear:
        none = f", {without:,} without a preference" if without else ""
        raise InputError(
            f"{run.name}: no comparison tells its responses apart ({number_of(alike, 'comparison')} too close{none}); "
            f"more calls may do so: robin resume {typed(run.name)} --budget N"
        )
    counts = [
        number_of(clear, "comparison"),
        f"{alike:,} whose responses cannot be told apart {'is' if alike == 1 else 'are'} left out",
    ]
    if without:
        counts.append(f"{number_of(without, 'comparison')} {_has(without)} no preference")
    view.notify("; ".join(counts))
    texts, ahead = run.pairs.table.filter(pa.array(is_clear)), preference[is_clear] - _EVEN
    for_a, a, b = pa.array(ahead > 0), texts["response"], texts[OTHER_COLUMN]
    columns = {
        "prompt": texts["prompt"],
        "chosen": pc.if_else(for_a, a, b),
        "rejected": pc.if_else(for_a, b, a),
        "margin": np.abs(ahead),
    }
    return _filled(columns, None if sure is None else sure[is_clear], view)


def _filled(columns: dict[str, Any], certified: NDArray[np.bool_] | None, view: View) -> Table:
    if certified is not None:
        columns["certified"] = certified
    if view.messages:
        asked = [
            [_message(*turn) for turn in turns_in(prompt)]
            for prompt in columns.pop("prompt").to_pylist()
        ]
        for name in ("chosen", "rejected"):
            answers = zip(asked, columns[name].to_pylist(), strict=True)
            whole = [[*before, _message("Assistant", answer)] for before, answer in answers]
            columns[name] = pa.array(whole, _MESSAGES)
    order = [name for name in PREFERENCES.columns if name in columns]
    return PREFERENCES.with_values({name: columns[name] for name in order})


def _has(count: int) -> str:
    return "has" if count == 1 else "have"


def _message(speaker: str, text: str) -> dict[str, str]:
    return {"role": speaker.lower(), "content": text}
