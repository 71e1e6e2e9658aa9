"""Preferences in the columns that preference training reads."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from robin_cli.analysis.intervals import ALPHA
from robin_cli.analysis.pairwise import matches_of_run, pairwise_scores
from robin_cli.analysis.pairwise_decisions import run_best
from robin_cli.analysis.preferences import Preferences, preferences
from robin_cli.datasets.chats import turns_in
from robin_cli.model.arms import FloatArray
from robin_cli.model.errors import InputError, typed
from robin_cli.model.records import OTHER_COLUMN, number_of
from robin_cli.storage.reader import RunData

_EVEN = 0.5
_MESSAGES = pa.list_(pa.struct([("role", pa.string()), ("content", pa.large_string())]))


def preferences_of(
    run: RunData, notify: Callable[[str], None] = lambda _line: None, *, messages: bool = False
) -> pa.Table:
    """A row for each response that can be told apart from the best of its group: prompt, chosen, rejected, margin, certified.

    With several attributes each has rows of its own, and a column says which. Of a pairwise run a row for each comparison whose
    responses can be told apart; margin is how far the preference is above a half.

    Args:
        notify: is told what is left out.
        messages: chosen and rejected are conversations that begin with the prompt, which then has no column: open-instruct
            reads nothing else, and TRL no prompt that is a text beside them.

    Raises:
        InputError: no group has two responses, or no two can be told apart.
    """
    if run.manifest.is_pairwise:
        return _of_comparisons(run, notify, messages=messages)
    found = preferences(run)
    if found.alone == found.groups:
        raise InputError(
            f"{run.path}: {number_of(found.groups, 'group')}, and one response in each, so there is none to prefer; judge "
            "several responses to a prompt, or say with --group which of them belong together"
        )
    if not len(found.chosen):
        unrated = f", {number_of(found.unrated, 'response')} without a rating" if found.unrated else ""
        raise InputError(
            f"{run.path}: no two responses of a group can be told apart ({number_of(found.alike, 'pair')}{unrated}); more "
            f"calls tell more of them apart: robin resume {typed(run.path)} --budget N"
        )
    texts = run.pairs.table
    prompts, chosen, rejected = (
        texts[name].take(rows)
        for name, rows in (("prompt", found.chosen), ("response", found.chosen), ("response", found.rejected))
    )
    _say(found, notify)
    if others := pc.sum(pc.not_equal(prompts, texts["prompt"].take(found.rejected))).as_py():
        notify(f"{number_of(others, 'pair')} of responses to different prompts: the prompt is that of the chosen one")
    columns = _columns(prompts, chosen, rejected, found.margin, found.certified, messages=messages)
    if len(run.space.attributes) > 1:
        columns["attribute"] = pa.array(run.space.attributes).take(pa.array(found.attribute))
    return pa.table(columns)


def _of_comparisons(run: RunData, notify: Callable[[str], None], *, messages: bool) -> pa.Table:
    """The rows of a pairwise run, in the order of the data."""
    error_rate = run.manifest.settings.get("error_rate") or ALPHA
    found = pairwise_scores(run, alpha=error_rate).columns
    preference, low, high = (np.asarray(found[name]) for name in ("preference", "likely_low", "likely_high"))
    certified = np.asarray(found["certified"]) | _is_by_the_best(run, preference)
    told = (low > _EVEN) | (high < _EVEN) | certified
    known = int((~np.isnan(preference)).sum())
    alike = known - int(told.sum())
    if not told.any():
        none = f", {len(preference) - known:,} without a preference" if known < len(preference) else ""
        raise InputError(
            f"{run.path}: of no comparison the responses can be told apart ({number_of(alike, 'comparison')} too close{none}); "
            f"more calls tell more of them apart: robin resume {typed(run.path)} --budget N"
        )
    texts, for_a = run.pairs.table.filter(pa.array(told)), pa.array(preference[told] > _EVEN)
    a, b = texts["response"], texts[OTHER_COLUMN]
    chosen, rejected = pc.if_else(for_a, a, b), pc.if_else(for_a, b, a)
    said = [number_of(int(told.sum()), "comparison")]
    said.append(f"{alike:,} whose responses cannot be told apart {'is' if alike == 1 else 'are'} left out")
    if without := len(preference) - known:
        said.append(f"{number_of(without, 'comparison')} {'has' if without == 1 else 'have'} no preference")
    notify("; ".join(said))
    margin = np.abs(preference[told] - _EVEN)
    return pa.table(_columns(texts["prompt"], chosen, rejected, margin, certified[told], messages=messages))


def _is_by_the_best(run: RunData, preference: FloatArray) -> NDArray[np.bool_]:
    """Which comparisons a response leads that is certified to be the best of its prompt, where that is looked for."""
    matches = matches_of_run(run)
    if not matches.wants_best:
        return np.zeros(len(matches), dtype=np.bool_)
    best = run_best(run)
    leader = np.where(preference > _EVEN, matches.response[:, 0], matches.response[:, 1])
    return np.asarray(np.isin(leader, best.leader[best.certified]) & ~np.isnan(preference) & (preference != _EVEN))


def _columns(
    prompts: pa.ChunkedArray,
    chosen: pa.ChunkedArray,
    rejected: pa.ChunkedArray,
    margin: FloatArray,
    certified: NDArray[np.bool_],
    *,
    messages: bool,
) -> dict[str, pa.ChunkedArray | pa.Array]:
    """The columns that preference training reads."""
    columns = {
        "prompt": prompts,
        "chosen": chosen,
        "rejected": rejected,
        "margin": pa.array(margin),
        "certified": pa.array(certified),
    }
    if messages:
        asked = [[_message(*turn) for turn in turns_in(prompt)] for prompt in columns.pop("prompt").to_pylist()]
        for name in ("chosen", "rejected"):
            answers = columns[name].to_pylist()
            whole = [[*before, _message("Assistant", said)] for before, said in zip(asked, answers, strict=True)]
            columns[name] = pa.array(whole, _MESSAGES)
    return columns


def _say(found: Preferences, notify: Callable[[str], None]) -> None:
    said = [number_of(len(found.chosen), "pair")]
    said.append(f"{found.alike:,} that cannot be told apart {'is' if found.alike == 1 else 'are'} left out")
    if found.unrated:
        said.append(f"{number_of(found.unrated, 'response')} {'has' if found.unrated == 1 else 'have'} no rating")
    if found.alone:
        said.append(f"{number_of(found.alone, 'group')} {'has' if found.alone == 1 else 'have'} one response only")
    notify("; ".join(said))


def _message(speaker: str, said: str) -> dict[str, str]:
    return {"role": speaker.lower(), "content": said}
