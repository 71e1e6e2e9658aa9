"""People's labels beside a run's decisions: which they agree with, how good the judge is, where both differ most."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from robin_cli.data.given_labels import GivenLabels
from robin_cli.goals.summary import given_labels, labelled_texts
from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.decision import RELATIONS, Criterion
from robin_cli.model.errors import InputError, typed
from robin_cli.model.records import number_of
from robin_cli.run.reader import RunReader, StoredRun
from robin_cli.show.columns import DISAGREEMENTS, JUDGE_QUALITY
from robin_cli.show.tables import Table
from robin_cli.stats.agreed import CONFIDENCE, FEWEST, Agreed, agreed
from robin_cli.stats.judge_quality import JudgeQuality
from robin_cli.stats.run_labels import Labels, labels_of

if TYPE_CHECKING:
    from robin_cli.goals.found import Found, View

_HOW = (
    "give people's labels with --labels FILE; robin export --what labels-wanted draws what to label"
)
_MOST_SHOWN = 50
"""The most disagreements that are listed by default."""
_WINNER = Criterion("preference", ">=", 0.5)


def labelled_decisions(run: StoredRun, given: GivenLabels | None) -> int:
    """Return the number of a run's decisions with all the labels they need, or a named best; ``given``: else the data's own."""
    space, of = run.space, decided_together(run)
    named = {each.pair_id for each in given.best} if given is not None else set()
    known = np.stack([each.known for each in labels_of(run, given).values()], axis=1)
    if of is None:
        return int(known.all(axis=1).sum())
    whole = np.bincount(of, ~known.all(axis=1)) == 0
    if run.task is not None:
        whole &= np.bincount(of) >= 2
    is_named = np.bincount(of, [pair_id in named for pair_id in space.pair_ids]) > 0
    return int((whole | is_named).sum())


def decided_together(run: StoredRun) -> IntArray | None:
    """Return the number of each pair's decision, shape (pairs,), if it takes several: a group, or a prompt's."""
    if run.manifest.is_pairwise:
        return np.unique(run.matches.prompt, return_inverse=True)[1]
    return None if run.task is None else run.task.group


def few_text(run: StoredRun, promise: float, labelled: int, given: GivenLabels | None) -> str:
    """Say that fewer decisions have people's labels than a promise needs, and when one counts."""
    task, each = run.task, ""
    if task is None:
        each = "; a prompt counts once all its comparisons have a label"
    elif task.group is not None:
        each = "; a group counts once all its responses have a label, or its best is named"
    off = [labels.why for labels in labels_of(run, given).values() if labels.why]
    few = f"{number_of(labelled, 'decision')} with people's labels, at least {FEWEST} are needed"
    return "; ".join([f"--agree {promise:g}: {few}{each}", *off])


def agreed_of(
    found: Found,
    given: GivenLabels | None,
    promise: float | None = None,
    confidence: float | None = None,
) -> Agreed | None:
    """Return the decisions that people agree with; None if the run did not ask.

    Args:
        promise, confidence: see :class:`~robin_cli.goals.found.View`.

    Raises:
        InputError: the run decides nothing; the labels are too few, of one side alone, or were not drawn alike.
    """
    run, last = found.run, found.run.manifest.last_session
    share = last.get("agree") if promise is None else promise
    if share is None:
        return None
    sure = last.get("confidence", CONFIDENCE) if confidence is None else confidence
    for name, value in (("--agree", share), ("--confidence", sure)):
        if not 0 < value < 1:
            raise InputError(
                f"{name} {value:g}: must be a share above 0 and below 1, for example 0.9"
            )
    stances, labels = found.stances(given), labels_of(run, given)
    if (labelled := int(stances.labelled.sum())) < FEWEST:
        raise InputError(f"{few_text(run, share, labelled, given)}; {_HOW}")
    if stances.one_side:
        raise InputError(
            f"--agree {share:g}: people {stances.one_side} all {labelled:,} labelled pairs, and {run.name} does not. Labels of "
            "one side say nothing of the other: label pairs that are drawn at random, as robin label draws them, or more"
        )
    for name, each in labels.items():
        if len(np.unique(each.probability[each.known])) > 1:
            raise InputError(
                f"--agree: the labels of {name} were drawn with different probabilities, and a promise takes labels that were "
                "drawn alike; give those of robin label or of robin export --what labels-wanted"
            )
    return agreed(stances, share, sure)


def agreed_in(found: Found, view: View) -> NDArray[np.bool_] | None:
    """Return the decisions that people agree with, by the labels of ``view``; None if nobody asked."""
    try:
        told = agreed_of(found, given_labels(view.labels, found.run), view.agree, view.confidence)
    except InputError as error:
        if view.agree is not None:
            raise
        view.notify(str(error))  # the run asked for it once, and its scores are still there
        return None
    if told is None:
        if view.labels is not None:
            raise InputError(
                "--labels: changes no score; --agree SHARE beside it says which decisions people agree with, and --what "
                "summary corrects the mean by it. Add one, or leave it out"
            )
        return None
    if view.agree is not None:
        view.notify(agreed_text(told))
    return told.agreed


def agreed_lines(found: Found) -> list[str]:
    """Return a line on the decisions that people agree with; empty if the run did not ask."""
    told = found.people_agree
    return [] if told is None else [told if isinstance(told, str) else agreed_text(told)]


def agreed_text(found: Agreed) -> str:
    """Return a sentence on how many decisions people agree with, and how many are left to a person."""
    of, sure = len(found.agreed), int(found.agreed.sum())
    if found.why:
        return f"agreed: none of {number_of(of, 'decision')}: {found.why}"
    by = f"{100 * found.confidence:g} % confidence, {found.labelled:,} labelled"
    left = f"; the other {of - sure:,} are for a person, or a dearer judge" if sure < of else ""
    return (
        f"agreed: {sure:,} of {number_of(of, 'decision')}. People agree with at least {100 * found.promise:g} % of them ({by})"
        f"{left}"
    )


def agreed_facts(found: Found) -> dict[str, Any]:
    """Return the same as JSON, by name; empty if the run did not ask."""
    told = found.people_agree
    if not isinstance(told, Agreed):
        return {} if told is None else {"agreed": None}
    facts = {
        "agreed": int(told.agreed.sum()),
        "of": len(told.agreed),
        "promise": told.promise,
        "confidence": told.confidence,
        "labels": told.labelled,
        "labels_disagreed": told.disagreed,
        "why": told.why or None,
    }
    return {"agreed": facts}


class _Judged(NamedTuple):
    """The scores of one attribute beside people's labels; shape (rows,) each."""

    attribute: str
    labels: Labels
    pair: IntArray
    score: FloatArray


def _judged(ran: Found, view: View) -> Iterator[_Judged]:
    """Yield the scores of each attribute with people's labels. InputError if there is no label at all."""
    run, scores = ran.run, ran.scores
    labels = labels_of(run, given_labels(view.labels, run))
    if not any(each.known.any() for each in labels.values()):
        why = next((f": {each.why}" for each in labels.values() if each.why), "")
        raise InputError(f"{run.name}: there is no label by people{why}; {_HOW}")
    for name, own in labels.items():
        mine = np.flatnonzero(scores.of_attribute(run.space, name))
        score = scores.numbers("score")[mine]
        pair = run.space.pair[scores.arm[mine]].astype(np.int64)
        there = ~np.isnan(score)
        yield _Judged(name, own, pair[there], score[there])


def judge_quality_table(ran: Found, view: View) -> Table:
    """Return a row for each attribute: how often the judge decides as people do, by a threshold or between two responses.

    Raises:
        InputError: there is no threshold, too few labels, or only labels of one side.
    """
    run, rows = ran.run, []
    for each in (
        map(_with_winner, _judged(ran, view))
        if ran.run.manifest.is_pairwise
        else _judged(ran, view)
    ):
        criterion = _criterion(run, each.attribute, view.threshold)
        said = each.labels.values[each.pair]
        if criterion is _WINNER:  # a tie has no winner
            said = np.where(said == criterion.threshold, np.nan, said)
        judge = np.asarray(RELATIONS[criterion.relation](each.score, criterion.threshold))
        holds = np.where(
            np.isnan(said), np.nan, RELATIONS[criterion.relation](said, criterion.threshold)
        )
        _check_sides(run, each.attribute, holds, criterion)
        weight = 1.0 / each.labels.probability[each.pair]
        found = JudgeQuality.of(judge, holds, weight, run.prompts[each.pair])
        rows.append(
            {"attribute": each.attribute, "threshold": criterion.threshold, **_cells(found)}
        )
    names = [name for name in JUDGE_QUALITY.columns if name in rows[0]]
    return JUDGE_QUALITY.of({name: [row[name] for row in rows] for name in names})


def _with_winner(each: _Judged) -> _Judged:
    """Return the comparisons in which the judge prefers one of the two."""
    has_one = each.score != _WINNER.threshold
    return each._replace(pair=each.pair[has_one], score=each.score[has_one])


def _criterion(run: RunReader, attribute: str, threshold: float | None) -> Criterion:
    """Return the judge's criterion. InputError if there is none."""
    if run.manifest.is_pairwise:
        return _WINNER
    if threshold is not None:
        return Criterion(attribute, ">=", threshold)
    asked = () if run.task is None else run.task.decision.criteria
    if (own := next((each for each in asked if each.attribute == attribute), None)) is None:
        raise InputError(
            f"{run.name} decides by no threshold; name one: robin export {typed(run.name)} --what judge-quality --threshold 3"
        )
    return own


def _check_sides(run: RunReader, attribute: str, holds: FloatArray, criterion: Criterion) -> None:
    known = holds[~np.isnan(holds)]
    if len(known) < FEWEST:
        raise InputError(
            f"{run.name}: {attribute}: {number_of(len(known), 'label')} of pairs with a score, {FEWEST} are needed; {_HOW}"
        )
    if len(sides := np.unique(known)) == 1:
        named = f"are {'' if sides[0] else 'not '}{criterion.relation} {criterion.threshold:g}"
        more = ", or take another --threshold"
        if criterion is _WINNER:
            named, more = f"prefer {'A' if sides[0] else 'B'}", ""
        raise InputError(
            f"{run.name}: all {len(known):,} labels of {attribute} {named}, so it is unknown how the judge does on the others; "
            f"label more{more}"
        )


def _cells(found: JudgeQuality) -> dict[str, Any]:
    cells: dict[str, Any] = {}
    for name in ("accuracy", "tpr", "tnr", "precision", "f1", "kappa"):
        share = getattr(found, name)
        cells |= {name: share.value, f"{name}_low": share.low, f"{name}_high": share.high}
    right = found.corrected
    return {
        **cells,
        "n_labels": found.labelled,
        **{
            name: getattr(found, name)
            for name in ("both", "judge_alone", "people_alone", "neither")
        },
        "share": found.said,
        "corrected_share": right.value,
        "corrected_share_low": right.low,
        "corrected_share_high": right.high,
    }


def disagreements_table(ran: Found, view: View) -> Table:
    """Return a row for each labelled pair and attribute, with its texts, in falling order of disagreement."""
    run, parts = ran.run, []
    if view.n is not None and view.n < 1:
        raise InputError(f"--n {view.n}: at least one disagreement is needed, such as --n 50")
    for each in _judged(ran, view):
        known = np.flatnonzero(each.labels.known[each.pair])
        place = run.space.attributes.index(each.attribute)
        label = each.labels.values[each.pair[known]]
        parts.append((np.full(len(known), place), each.pair[known], each.score[known], label))
    attribute, pair, score, label = (np.concatenate(column) for column in zip(*parts, strict=True))
    width = np.array(
        [scale.high - scale.low for scale in run.manifest.score_scales], dtype=np.float64
    )
    order = np.argsort(-np.abs(score - label) / width[attribute], kind="stable")[
        : _MOST_SHOWN if view.n is None else view.n
    ]
    texts = labelled_texts(run, pair[order])
    values: dict[str, Any] = {
        "pair_id": texts.pop("pair_id"),
        "attribute": [run.space.attributes[each] for each in attribute[order]],
        "score": score[order],
        "label": label[order],
        "difference": (score - label)[order],
        **texts,
    }
    return DISAGREEMENTS.of(values)
