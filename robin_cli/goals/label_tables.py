"""People's labels of a run's pairs as tables: what to label next, how good the judge is, where both differ most."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from robin_cli.data.given_labels import opaque_id
from robin_cli.goals.labels import HOW_TO_LABEL, groups_of, labelled_texts, read_labels
from robin_cli.goals.result import Result, View
from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.decision import RELATIONS, Criterion
from robin_cli.model.errors import InputError, option, typed
from robin_cli.model.records import SYSTEM_COLUMN, number_of
from robin_cli.run.reader import RunReader
from robin_cli.show.columns import (
    DISAGREEMENTS,
    JUDGE_QUALITY,
    LABELS_WANTED,
)
from robin_cli.show.tables import Table
from robin_cli.stats.agreed import FEWEST
from robin_cli.stats.judge_quality import JudgeQuality
from robin_cli.stats.labelled import FEWEST_LABELLED
from robin_cli.stats.run_labels import Labels, labels_of, wanted_labels
from robin_cli.stats.summaries import (
    pair_means,
)

_WANTED = 50  # pairs to label, or disagreements to show, by default
_WINNER = Criterion("preference", ">=", 0.5)


def labels_wanted_table(result: Result, view: View) -> Table:
    """Return the next pairs to label, in order: a row for each pair and attribute, the labelled ones first.

    Human ratings in the data, and given ones, are all included. For differences by a column, and for the best of each group,
    whole prompts or groups are drawn.

    InputError: as :func:`~robin_cli.stats.run_labels.wanted_labels`; there is no such column.
    """
    run, notify, by, n = result.run, view.notify, view.by, _WANTED if view.n is None else view.n
    systems = {*run.column(SYSTEM_COLUMN)} - {None} if SYSTEM_COLUMN in run.column_names else set()
    several = len(systems) > 1
    is_blind = several and view.blind
    labels = labels_of(run, read_labels(view.labels, run))
    if n < 1:
        raise InputError(f"--n {n}: at least one pair is needed, such as --n 50")
    values = {name: pair_means(run, result.scores, name).scores for name in labels}
    if by is not None:
        has_none = np.array([group is None for group in groups_of(run, by, notify)])
        values = {name: np.where(has_none, np.nan, scores) for name, scores in values.items()}
    whole = by is not None or several or run.wants_best
    wanted = wanted_labels(run, values, labels, n, whole=whole)
    texts = labelled_texts(run, wanted.pair)
    ids = texts.pop("pair_id")
    table = LABELS_WANTED.with_values(
        {
            "pair_id": [opaque_id(pair_id) for pair_id in ids.to_pylist()] if is_blind else ids,
            "attribute": [run.manifest.attributes[place] for place in wanted.attribute.tolist()],
            "probability": wanted.probability,
            "label": wanted.label,
            **texts,
        }
    )
    is_open, path = np.isnan(wanted.label), typed(run.name)
    pairs = number_of(len(np.unique(wanted.pair[is_open])), "pair")
    those = "" if is_open.all() else "; with those that are labelled"
    step = f"robin export {path} --what summary"
    if by is not None:
        step = f"robin compare {path} {option('--by', by)}"
    notify(
        f"{pairs} to label{those}, of {number_of(wanted.prompts, 'prompt')}. Fill in the column label from the top, and give "
        f"the file to --labels: {step} {option('--labels', view.output or 'FILE')}"
    )
    if is_blind:
        notify(
            "blind: whole prompts, with ids that do not name the systems and that --labels recognises"
        )
    if wanted.prompts < FEWEST_LABELLED:
        prompts, more = len(np.unique(run.prompts)), "draw more: a larger --n"
        step = more if prompts > wanted.prompts else f"this run has only {prompts}"
        notify(f"a mean needs {FEWEST_LABELLED} labelled prompts to be corrected; {step}")
    return table


class _Judged(NamedTuple):
    """The scores of one attribute beside people's labels; shape (rows,) each."""

    attribute: str
    labels: Labels
    pair: IntArray
    score: FloatArray


def _judged(result: Result, view: View) -> Iterator[_Judged]:
    """Yield the scores of each attribute with people's labels. InputError if there is no label at all."""
    run, scores = result.run, result.scores
    labels = labels_of(run, read_labels(view.labels, run))
    if not any(of_attribute.known.any() for of_attribute in labels.values()):
        why = next((f": {of_name.why}" for of_name in labels.values() if of_name.why), "")
        raise InputError(f"{run.name}: there is no label by people{why}; {HOW_TO_LABEL}")
    for name, of_attribute in labels.items():
        rows = scores.of_attribute(run.space, name) & ~np.isnan(scores.numbers("score"))
        pair = run.space.pair[scores.arm[rows]].astype(np.int64)
        yield _Judged(name, of_attribute, pair, scores.numbers("score")[rows])


def judge_quality_table(result: Result, view: View) -> Table:
    """Return a row for each attribute: how often the judge decides as people do, by a threshold or between two responses.

    InputError: there is no threshold, too few labels, or only labels of one side.
    """
    run, rows, table = result.run, list[dict[str, Any]](), JUDGE_QUALITY
    for attribute, labels, all_pairs, scores in _judged(result, view):
        criterion = _criterion(run, attribute, view.threshold)
        has_winner = np.array(criterion is not _WINNER) | (scores != criterion.threshold)
        pair, score = all_pairs[has_winner], scores[has_winner]
        label = labels.values[pair]
        if criterion is _WINNER:  # a tie of people has no winner either
            label = np.where(label == criterion.threshold, np.nan, label)
        meets = RELATIONS[criterion.relation]
        holds = np.where(np.isnan(label), np.nan, meets(label, criterion.threshold))
        _check_sides(run, attribute, holds, criterion)
        judge, weight = meets(score, criterion.threshold), 1.0 / labels.probability[pair]
        quality = JudgeQuality.from_answers(np.asarray(judge), holds, weight, run.prompts[pair])
        row = {"attribute": attribute, "threshold": criterion.threshold}
        rows.append(row | _cells(quality))
    names = [name for name in table.columns if name in rows[0]]
    return table.with_values({name: [row[name] for row in rows] for name in names})


def _criterion(run: RunReader, attribute: str, threshold: float | None) -> Criterion:
    if run.manifest.is_pairwise:
        return _WINNER
    if threshold is not None:
        return Criterion(attribute, ">=", threshold)
    for criterion in () if run.task is None else run.task.decision.criteria:
        if criterion.attribute == attribute:
            return criterion
    raise InputError(
        f"{run.name} decides by no threshold; name one: robin export {typed(run.name)} --what judge-quality --threshold 3"
    )


def _check_sides(run: RunReader, attribute: str, holds: FloatArray, criterion: Criterion) -> None:
    known = holds[~np.isnan(holds)]
    if len(known) < FEWEST:
        labels = number_of(len(known), "label")
        raise InputError(
            f"{run.name}: {attribute}: {labels} of pairs with a score, {FEWEST} are needed; {HOW_TO_LABEL}"
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


def _cells(quality: JudgeQuality) -> dict[str, Any]:
    cells: dict[str, Any] = {"n_labels": quality.labelled, "share": quality.share}
    for name in ("accuracy", "tpr", "tnr", "precision", "f1", "kappa"):
        share = getattr(quality, name)
        cells |= {name: share.value, f"{name}_low": share.low, f"{name}_high": share.high}
    for name in ("both", "judge_alone", "people_alone", "neither"):
        cells[name] = getattr(quality, name)
    right = quality.corrected
    ends = {"corrected_share_low": right.low, "corrected_share_high": right.high}
    return {**cells, "corrected_share": right.value, **ends}


def disagreements_table(result: Result, view: View) -> Table:
    """Return a row for each labelled pair and attribute, with its texts, in falling order of disagreement."""
    run, parts, most = result.run, list[Any](), _WANTED if view.n is None else view.n
    if most < 1:
        raise InputError(f"--n {most}: at least one disagreement is needed, such as --n 50")
    for name, labels, pair, score in _judged(result, view):
        known = labels.known[pair]
        place = np.full(known.sum(), run.space.attributes.index(name))
        parts.append((place, pair[known], score[known], labels.values[pair[known]]))
    attribute, pair, score, label = (np.concatenate(column) for column in zip(*parts, strict=True))
    width = np.array([float(scale.high - scale.low) for scale in run.manifest.score_scales])
    order = np.argsort(-np.abs(score - label) / width[attribute], kind="stable")[:most]
    texts = labelled_texts(run, pair[order])
    return DISAGREEMENTS.with_values(
        {
            "pair_id": texts.pop("pair_id"),
            "attribute": [run.space.attributes[place] for place in attribute[order]],
            "score": score[order],
            "label": label[order],
            "difference": (score - label)[order],
            **texts,
        }
    )
