"""Preferences for training: the best response of each group, against each other one whose score differs clearly.

Two scores differ clearly if the difference is more than t √(V_a/n_a + V_b/n_b), with moderated variances and the degrees of
freedom of Welch and Satterthwaite: right for all such pairs on average, a guarantee for none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from robin_cli.data.chats import turns_in
from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.decision import BEST
from robin_cli.model.errors import InputError, typed
from robin_cli.model.records import OTHER_COLUMN, number_of
from robin_cli.run.pair_files import read_numbers
from robin_cli.show.columns import PREFERENCES
from robin_cli.show.tables import Table
from robin_cli.stats.pairwise import pairwise_scores
from robin_cli.stats.row_scores import row_scores

if TYPE_CHECKING:
    from robin_cli.goals.found import Found, View
    from robin_cli.goals.preferences import Preferences as Compared


@dataclass(frozen=True, slots=True)
class TrainingPreferences:
    """Rows group by group, within a group attribute by attribute, and there in the order of the data.

    Attributes:
        chosen, rejected: the places of the two pairs in the data, shape (rows,) each.
        attribute: number of the attribute by which they are compared, shape (rows,).
        margin: the chosen one's score less the rejected one's, in points, shape (rows,).
        certified: whether the chosen one is certified as the best of its group, shape (rows,); None without --decide best and
            --certify.
        alike: number of rivals of a group's best without a clear difference, or with its very text.
        unrated: number of responses, for each attribute, without a rating, in groups of several.
        alone: number of groups with one response only.
        groups: number of groups.
    """

    chosen: IntArray
    rejected: IntArray
    attribute: IntArray
    margin: FloatArray
    certified: NDArray[np.bool_] | None
    alike: int
    unrated: int
    alone: int
    groups: int


def preferences(ran: Found) -> TrainingPreferences:
    """Return the preferences in the scores of a run."""
    run = ran.run
    space = run.space
    error_rate = run.manifest.error_rate
    found = row_scores(space, run.task, run.fold.arms.sums)
    score = ran.scores.numbers("score")
    first = np.flatnonzero(space.judge == 0)
    pair, attribute = (
        np.asarray(each[first], dtype=np.int64) for each in (space.pair, space.attribute)
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
    same = response[pair[lead]] == response[pair[rival]]
    told = (difference > found.half_widths(lead, rival, alpha=error_rate)) & ~same
    lead, rival = lead[told], rival[told]
    sure, decided = None, ran.scores.decided
    if decided is not None and decided.certified is not None and decided.task.group is not None:
        sure = (decided.decision == BEST)[lead] & decided.of_rows(decided.certified, other=False)[
            lead
        ]
    return TrainingPreferences(
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


_EVEN = 0.5
_MESSAGES = pa.list_(pa.struct([("role", pa.string()), ("content", pa.large_string())]))


def preference_table(ran: Found, view: View) -> Table:
    """Return a row for each response that differs clearly from its group's best: prompt, chosen, rejected, margin, certified.

    Several attributes have rows of their own, and a column names them. As ``messages`` chosen and rejected are conversations
    that begin with the prompt, which then has no column: open-instruct reads nothing else, and TRL does not accept a text as
    prompt beside them.

    Raises:
        InputError: no group has two responses, or no two differ clearly.
    """
    run, found = ran.run, preferences(ran)
    if found.alone == found.groups:
        raise InputError(
            f"{run.name}: {number_of(found.groups, 'group')}, and one response in each, so there is none to prefer; judge "
            "several responses to a prompt, or say with --group which of them belong together"
        )
    if not len(found.chosen):
        unrated = (
            f", {number_of(found.unrated, 'response')} without a rating" if found.unrated else ""
        )
        raise InputError(
            f"{run.name}: no two responses of a group can be told apart ({number_of(found.alike, 'pair')}{unrated}); more "
            f"calls may tell them apart: robin resume {typed(run.name)} --budget N"
        )
    texts = run.pairs.table
    prompts, chosen, rejected = (
        texts[name].take(rows)
        for name, rows in (
            ("prompt", found.chosen),
            ("response", found.chosen),
            ("response", found.rejected),
        )
    )
    _say(found, view.notify)
    if others := pc.sum(pc.not_equal(prompts, texts["prompt"].take(found.rejected))).as_py():
        view.notify(
            f"{number_of(others, 'pair')} of responses to different prompts: the prompt is that of the chosen one"
        )
    columns = _columns(
        prompts, chosen, rejected, found.margin, found.certified, messages=view.messages
    )
    if len(run.space.attributes) > 1:
        columns["attribute"] = pa.array(run.space.attributes).take(pa.array(found.attribute))
    return PREFERENCES.of(columns)


def preferred_table(ran: Compared, view: View) -> Table:
    """Return a row for each comparison whose responses differ clearly, in the order of the data.

    ``margin`` is the preference less a half. Raises: as for :func:`preference_table`.
    """
    run = ran.run
    found = pairwise_scores(run, alpha=run.manifest.error_rate).columns
    preference, low, high = (
        np.asarray(found[name]) for name in ("preference", "ci_low", "ci_high")
    )
    told, sure = (low > _EVEN) | (high < _EVEN), _is_by_the_best(ran, preference)
    if sure is not None:
        told |= sure
    known = int((~np.isnan(preference)).sum())
    alike = known - int(told.sum())
    if not told.any():
        none = (
            f", {len(preference) - known:,} without a preference" if known < len(preference) else ""
        )
        raise InputError(
            f"{run.name}: no comparison tells its responses apart ({number_of(alike, 'comparison')} too close{none}); "
            f"more calls may do so: robin resume {typed(run.name)} --budget N"
        )
    texts, for_a = run.pairs.table.filter(pa.array(told)), pa.array(preference[told] > _EVEN)
    a, b = texts["response"], texts[OTHER_COLUMN]
    chosen, rejected = pc.if_else(for_a, a, b), pc.if_else(for_a, b, a)
    said = [number_of(int(told.sum()), "comparison")]
    said.append(
        f"{alike:,} whose responses cannot be told apart {'is' if alike == 1 else 'are'} left out"
    )
    if without := len(preference) - known:
        said.append(
            f"{number_of(without, 'comparison')} {'has' if without == 1 else 'have'} no preference"
        )
    view.notify("; ".join(said))
    margin = np.abs(preference[told] - _EVEN)
    return PREFERENCES.of(
        _columns(
            *(texts["prompt"], chosen, rejected, margin),
            None if sure is None else sure[told],
            messages=view.messages,
        )
    )


def _is_by_the_best(ran: Compared, preference: FloatArray) -> NDArray[np.bool_] | None:
    """Return whether each comparison has a leader that is certified as the best of its prompt; None without --certify."""
    matches, best = ran.matches, ran.best
    if best is None or best.certified is None:
        return None
    leader = np.where(preference > _EVEN, matches.response[:, 0], matches.response[:, 1])
    return np.asarray(
        np.isin(leader, best.leader[best.certified]) & ~np.isnan(preference) & (preference != _EVEN)
    )


def _columns(
    prompts: pa.ChunkedArray,
    chosen: pa.ChunkedArray,
    rejected: pa.ChunkedArray,
    margin: FloatArray,
    certified: NDArray[np.bool_] | None,
    *,
    messages: bool,
) -> dict[str, Any]:
    """Return the columns of preference training."""
    columns: dict[str, Any] = {
        "prompt": prompts,
        "chosen": chosen,
        "rejected": rejected,
        "margin": pa.array(margin),
    }
    if certified is not None:
        columns["certified"] = pa.array(certified)
    if messages:
        del columns["prompt"]
        asked = [[_message(*turn) for turn in turns_in(prompt)] for prompt in prompts.to_pylist()]
        for name, answers in (("chosen", chosen), ("rejected", rejected)):
            several = zip(asked, answers.to_pylist(), strict=True)
            whole = [[*before, _message("Assistant", said)] for before, said in several]
            columns[name] = pa.array(whole, _MESSAGES)
    return columns


def _say(found: TrainingPreferences, notify: Callable[[str], None]) -> None:
    said = [number_of(len(found.chosen), "pair")]
    said.append(
        f"{found.alike:,} that cannot be told apart {'is' if found.alike == 1 else 'are'} left out"
    )
    if found.unrated:
        said.append(
            f"{number_of(found.unrated, 'response')} {'has' if found.unrated == 1 else 'have'} no rating"
        )
    if found.alone:
        said.append(
            f"{number_of(found.alone, 'group')} {'has' if found.alone == 1 else 'have'} one response only"
        )
    notify("; ".join(said))


def _message(speaker: str, said: str) -> dict[str, str]:
    return {"role": speaker.lower(), "content": said}
