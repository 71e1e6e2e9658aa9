"""The systems of one run, or of several over the same prompts, ready to be compared; or the error that they cannot be."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from robin_cli.data.given_labels import GivenLabels
from robin_cli.data.groups import numbered
from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.errors import InputError, option, shown
from robin_cli.model.records import SYSTEM_COLUMN, Ends, number_of
from robin_cli.policies.systems import FEWEST_PROMPTS
from robin_cli.run.manifest import NO_PROMPTS, Manifest
from robin_cli.run.pair_files import read_numbers, read_prompts
from robin_cli.run.reader import RunReader
from robin_cli.stats.intervals import ALPHA
from robin_cli.stats.labelled import Corrected, corrected
from robin_cli.stats.paired import ENOUGH_FOR_RARE, Difference, Responses, differences
from robin_cli.stats.run_labels import Labels, labels_of
from robin_cli.stats.scores import score
from robin_cli.stats.summaries import PairMeans, pair_means

Notify = Callable[[str], None]

_ASKED_WITH = ("judge", "temperature", "top_p", "reasoning_effort", "extra_body")
"""Settings that two runs must share to have asked the same judge in the same way."""

_MOST_SYSTEMS = 100
_SHOWN = 60


@dataclass(frozen=True)
class Compared:
    """Systems and their differences, by attribute.

    Attributes:
        runs: in which they were judged.
        responses: with a score.
        differences: of every two systems.
        corrected: the differences by people's labels; None for systems without.
        match: the column that matches responses to the same prompt; None for the prompt's text.
        means: the scores behind the last attribute's means, of each run.
        has_labels: whether people's labels were given, usable or not.
        is_robust: whether all intervals are widened.
        n_shared: responses in more than one of the runs; ``is_same``: whether every run has the same responses.
    """

    who: Who
    runs: Sequence[RunReader]
    responses: Mapping[str, Responses]
    differences: Mapping[str, Sequence[Difference]]
    corrected: Mapping[str, Sequence[Corrected | None]]
    match: str | None
    means: Sequence[PairMeans]
    has_labels: bool
    is_robust: bool
    n_shared: int = 0
    is_same: bool = False

    @property
    def systems(self) -> Sequence[str]:
        return self.who.systems

    @property
    def by_first(self) -> list[int | None]:
        """For each run, the number of ratings of each response in its score; None for all."""
        return [each.first for each in self.means]

    @property
    def is_final(self) -> bool:
        """Whether further calls cannot change the scores of some run."""
        return any(each.is_final for each in self.means)

    @property
    def unrated(self) -> dict[str, int]:
        """Responses without a score, which are left out, by attribute."""
        return {
            name: int(self.who.is_used.sum()) - len(each.score)
            for name, each in self.responses.items()
        }


def compared(
    runs: Sequence[RunReader],
    notify: Notify,
    *,
    by: str | None = None,
    match: str | None = None,
    only: tuple[str, str] | None = None,
    given_labels: GivenLabels | None = None,
    as_they_are: bool = False,
    is_robust: bool = False,
) -> Compared:
    """Return the systems of ``runs`` and their differences; systems are the values of a column, or the runs.

    Args:
        notify: called with a line for what is left out.
        by: a column of the data; None if each run is a system.
        match: a column that matches responses to the same prompt, in place of the prompt's text.
        only: two systems, if no others are wanted.
        given_labels: people's labels, in place of the human ratings of the data.
        as_they_are: skip the checks that the judges are alike and the prompts enough.
        is_robust: see :func:`~robin_cli.stats.paired.differences`.

    Raises:
        InputError: runs that were judged in different ways; one system; prompts that do not match, or too few of them.
    """
    if not as_they_are:
        check_alike(runs, notify)
    who = _who(runs, notify, by=by, match=match, only=only)
    names = [run.manifest.attributes for run in runs]
    shared = [name for name in names[0] if all(name in each for each in names)]
    if others := {name for each in names for name in each} - {*shared}:
        notify(
            f"{', '.join(sorted(map(shown, others)))}: not rated in all of the runs, and left out"
        )
    labels, tables = [labels_of(run, given_labels) for run in runs], [score(run) for run in runs]
    responses, found, people, known = {}, {}, {}, list[PairMeans]()
    for name in shared:
        known = [pair_means(run, table, name) for run, table in zip(runs, tables, strict=True)]
        is_there = who.is_used & ~np.isnan(np.concatenate([each.scores for each in known]))
        responses[name] = _responses(runs, name, known, is_there, who)
        if is_robust and math.isinf(responses[name].high):
            raise InputError(
                f"--robust: the scale of {shown(name)} is not known, so nothing bounds what others may score; give it by "
                "--scale LOW-HIGH"
            )
        found[name] = differences(responses[name], len(who.systems), is_robust=is_robust)
        if any(each.is_final for each in known):
            found[name] = [replace(one, shorter=0.0, times_needed=math.inf) for one in found[name]]
        of_name = [each[name] for each in labels]
        people[name] = _corrected(responses[name], of_name, is_there, found[name])
        for why in dict.fromkeys(each.why for each in of_name if each.why):
            notify(f"{name}: the human ratings correct nothing: {why}")
    several = _in_several(runs, who) if by is None and len(runs) > 1 else (0, False)
    result = Compared(
        who,
        runs,
        responses,
        found,
        people,
        match,
        known,
        given_labels is not None,
        is_robust,
        *several,
    )
    _say_what_is_rare(result, notify)
    if not as_they_are:
        _check_enough(result, notify)
        _say_what_is_shared(result, notify)
        _say_what_labels_lack(result, notify)
        _say_what_is_unspent(result, notify)
    return result


@dataclass(frozen=True)
class Who:
    """The systems, and the prompt of each of their responses.

    Attributes:
        by: the column that names the systems; None if each is a run.
        system, prompt: numbers of each pair's system and prompt, the runs one after another, shape (pairs,); −1 for none.
        prompts: the names of the prompts, by number: texts, or values of ``match``.
    """

    systems: Sequence[str]
    by: str | None
    system: IntArray
    prompt: IntArray
    prompts: Sequence[str]

    @property
    def is_used(self) -> NDArray[np.bool_]:
        return (self.prompt >= 0) & (self.system >= 0)


def _who(
    runs: Sequence[RunReader],
    notify: Notify,
    *,
    by: str | None,
    match: str | None,
    only: tuple[str, str] | None,
) -> Who:
    """Return the systems of ``runs`` and their prompts, see :func:`compared`."""
    if by is None and len(runs) == 1 and SYSTEM_COLUMN in runs[0].column_names:
        by = SYSTEM_COLUMN
    if by is None and len(runs) < 2:
        raise InputError(
            f"{runs[0].name}: is one run; name a second one, or the column that names the systems, with --by"
        )
    prompt, names = (
        read_prompts([run.path for run in runs])
        if match is None
        else _numbered([value for run in runs for value in run.column(match)])
    )
    systems, system = _systems(runs, by, only)
    for column, places in ((match, prompt), (None if only else by, system)):
        if column is not None and (without := int((places < 0).sum())):
            notify(
                f"{number_of(without, 'pair')} of {len(places):,} without a {shown(column)} left out"
            )
    found = Who(systems, by, system, prompt, names)
    lacking = [run.name for run in runs if run.manifest.data.get(NO_PROMPTS) and match is None]
    _check_matching(found, notify, match, lacking)
    return found


def _responses(
    runs: Sequence[RunReader],
    attribute: str,
    known: Sequence[PairMeans],
    is_there: NDArray[np.bool_],
    who: Who,
) -> Responses:
    ends = dict(zip(runs[0].manifest.attributes, runs[0].manifest.known_ends, strict=True))
    place = [run.space.attributes.index(attribute) for run in runs]
    counts = [
        run.fold.arms.n if each.first is None else np.minimum(run.fold.arms.n, each.first)
        for run, each in zip(runs, known, strict=True)
    ]
    ratings = [  # on average over the judges
        run.space.by_pair(run.space.by_rater(n).mean(axis=1))[:, at]
        for run, n, at in zip(runs, counts, place, strict=True)
    ]
    return Responses(
        np.concatenate([each.scores for each in known])[is_there],
        np.concatenate([each.error_variances for each in known])[is_there],
        np.concatenate(ratings)[is_there],
        *(who.prompt[is_there], who.system[is_there], *ends[attribute]),
    )


def _corrected(
    responses: Responses,
    given_labels: Sequence[Labels],
    is_there: NDArray[np.bool_],
    differences: Sequence[Difference],
) -> list[Corrected | None]:
    """Return each difference by people's labels; None if neither system has one at its prompts. All hold together."""
    labels = np.concatenate([each.values for each in given_labels])[is_there]
    probability = np.concatenate([each.probability for each in given_labels])[is_there]
    if np.isnan(labels).all():
        return [None] * len(differences)
    scale = Ends(responses.low, responses.high)
    ends = scale if scale.are_known else None

    def correct(difference: Difference, alpha: float) -> Corrected | None:
        weights = np.stack(
            [_weights(responses, difference, system) for system in (difference.a, difference.b)]
        )
        if math.isnan(difference.p) or np.isnan(labels[weights.any(axis=0)]).all():
            return None
        known = (responses.score, labels, probability, responses.prompt, weights * [[1.0], [-1.0]])
        return corrected(*known, ends=ends, alpha=alpha)

    each = [correct(one, ALPHA) for one in differences]
    usable = sum(one is not None and not one.why for one in each)
    return each if usable < 2 else [correct(one, ALPHA / usable) for one in differences]


def _weights(responses: Responses, difference: Difference, system: int) -> FloatArray:
    """Return the weight of each response in a system's mean over the prompts of ``difference``, shape (K,); they sum to 1."""
    is_chosen = (responses.system == system) & np.isin(responses.prompt, difference.prompts)
    weights = np.zeros(len(is_chosen))
    _, which, size = np.unique(responses.prompt[is_chosen], return_inverse=True, return_counts=True)
    weights[is_chosen] = 1.0 / (difference.n_prompts * size[which])
    return weights


def check_alike(runs: Sequence[RunReader], notify: Notify) -> None:
    """Raise InputError, with the differences, unless all of ``runs`` asked the same judge the same about some attribute.

    Scores that every judge has on one scale, such as preferences, can be compared; the differences are then only reported.
    """
    if len({each.path.resolve() for each in runs}) < len(runs):
        raise InputError(f"{runs[-1].name}: is named twice; name another run to compare with")
    first = runs[0]
    for other in runs[1:]:
        if not (differing := differing_in(first.manifest, other.manifest)):
            continue
        if first.manifest.score_scales == other.manifest.score_scales != first.manifest.scales:
            what = "judged in different ways, and the difference includes that"
            notify(f"{what}: {'; '.join(differing)}")
        else:
            raise InputError(
                f"{first.name} and {other.name} were not judged in the same way, so their scores cannot be compared: "
                f"{'; '.join(differing)}. Judge one of them again like the other; robin export RUN --what agreement shows for "
                "each which judge agrees better with people"
            )


def differing_in(a: Manifest, b: Manifest) -> list[str]:
    """Return in words the settings that keep scores of two runs from being compared."""
    found = []

    def note(name: str, first: object, second: object) -> None:
        if first != second:
            found.append(f"{name}: {shown(first, _SHOWN)} and {shown(second, _SHOWN)}")

    note("judge", ", ".join(sorted(a.judges)), ", ".join(sorted(b.judges)))
    for name in _ASKED_WITH:
        note(f"--{name.replace('_', '-')}", a.own_settings[name], b.own_settings[name])
    note("--answers", *(", ".join(run.own_settings["answers"]) for run in (a, b)))
    if any(a.prompt.get(part) != b.prompt.get(part) for part in ("template", "request")):
        found.append("the template of the question")
    rubrics = [
        {each["attribute"]: each for each in one.prompt.get("rubrics", ())} for one in (a, b)
    ]
    scales = [dict(zip(one.attributes, one.scales, strict=True)) for one in (a, b)]
    common = [name for name in a.attributes if name in scales[1]]
    if not common:
        note("attributes", ", ".join(a.attributes), ", ".join(b.attributes))
    for name in common:
        note(f"scale of {name}", *(str(each[name]) for each in scales))
        if rubrics[0].get(name) != rubrics[1].get(name):
            found.append(f"rubric of {name}")
    return found


def _systems(
    runs: Sequence[RunReader], by: str | None, only: tuple[str, str] | None
) -> tuple[list[str], IntArray]:
    """Return the names of the systems, and each pair's system in all runs, −1 for none of them."""
    if by is None:
        paths = [run.name for run in runs]
        result = [
            path if at == paths.index(path) else f"{path} ({at + 1})"
            for at, path in enumerate(paths)
        ]
        return result, np.repeat(np.arange(len(runs)), [len(run.pair_ids) for run in runs])
    system, names = _numbered([value for run in runs for value in run.column(by)])
    if only is not None:
        order = {name: place for place, name in enumerate(only)}
        place = np.array([*(order.get(name, -1) for name in names), -1])
        return list(only), place[system]
    if len(names) < 2:
        what = f'there is "{shown(names[0])}" alone' if names else "no pair has one"
        raise InputError(
            f"{option('--by', by)}: {what}, and a comparison needs two systems; name another column"
        )
    if len(names) > _MOST_SYSTEMS:
        raise InputError(
            f"{option('--by', by)}: has {len(names):,} different values, and at most {_MOST_SYSTEMS} systems are compared; "
            "name the column of systems"
        )
    return names, system


def _numbered(values: Sequence[str | None]) -> tuple[IntArray, list[str]]:
    """Return the place of each value among the distinct ones, −1 for None, and these."""
    found, names = numbered(value for value in values if value is not None)
    places = np.full(len(values), -1, dtype=np.int64)
    places[[value is not None for value in values]] = found
    return places, names


def _in_several(runs: Sequence[RunReader], who: Who) -> tuple[int, bool]:
    """Return the number of responses in more than one of the runs, and whether all are in all."""
    response = read_numbers([run.path for run in runs], "response")
    if not response.any():  # files without responses do not say that these are the same
        return 0, False
    each = np.split(
        who.prompt * (response.max(initial=0) + 1) + response,
        np.cumsum([len(run.pair_ids) for run in runs]),
    )
    _, times = np.unique(np.concatenate(list(map(np.unique, each))), return_counts=True)
    return int((times > 1).sum()), bool((times == len(runs)).all())


def _say_what_is_rare(comparison: Compared, notify: Notify) -> None:
    for name, listed in comparison.differences.items():
        reach = comparison.responses[name].reach
        if some := [one.n_prompts for one in listed if one.may_miss_rare(reach)]:
            notify(
                f"{name}: the difference is nearly the same at most of {min(some)} prompts, and fewer than {ENOUGH_FOR_RARE} "
                "cannot show rare large ones, such as at one prompt in 20"
            )


def _say_what_is_shared(comparison: Compared, notify: Notify) -> None:
    if comparison.who.by is not None:
        return
    # a row of comparisons has both sides, and is the same in every run
    if all(len(run.space.variants) > 1 for run in comparison.runs):
        ids = read_numbers([run.path for run in comparison.runs], "pair_id")
        if some := len(np.unique(ids)) - min(len(run.pair_ids) for run in comparison.runs):
            what = f"{number_of(some, 'comparison')} not in all of the runs"
            notify(f"{what}: these may differ in what was compared, not in how it was judged")
    elif again := comparison.n_shared:
        differ = "it differs" if again == 1 else "they differ"
        shared = number_of(again, "response")
        notify(f"the runs share {shared}; {differ} only by the judge's noise")


def _say_what_labels_lack(comparison: Compared, notify: Notify) -> None:
    known = [
        each for listed in comparison.corrected.values() for each in listed if each is not None
    ]
    if comparison.has_labels and not known:
        what = "no label is of a response that is compared here"
        notify(f"--labels: {what}, so nothing is corrected")
    for why in dict.fromkeys(each.why for each in known if each.why and comparison.has_labels):
        notify(f"not corrected by labels: {why}")


def _say_what_is_unspent(comparison: Compared, notify: Notify) -> None:
    for run, means in zip(comparison.runs, comparison.means, strict=True):
        manifest, spent = run.manifest, run.fold.arms.spent
        last = manifest.last_session
        has_target = last.get("target_error") is not None or last.get("target_wrong")
        if manifest.is_spent(spent) or means.is_final or has_target:
            continue
        of = f"of {manifest.budget:,} calls are"
        if manifest.budget_usd is not None:
            of = f"calls for some of ${manifest.budget_usd:g} are"
        notify(
            f"{run.name}: {spent:,} {of} spent. The intervals hold for one look, so compare once all are: "
            "repeated looks find too many differences"
        )


def _check_matching(who: Who, notify: Notify, match: str | None, nameless: Sequence[str]) -> None:
    """Report prompts that not all systems answered. InputError if no two answered the same; ``nameless``: files without."""
    systems, names = who.systems, who.prompts
    answered = np.zeros((len(names), len(systems)), dtype=bool)
    answered[who.prompt[who.is_used], who.system[who.is_used]] = True
    count = answered.sum(axis=1)
    alone = np.flatnonzero((count > 0) & (count < len(systems)))
    if not len(alone):
        return
    lacking = systems[int(np.flatnonzero(~answered[alone[0]])[0])]
    what = "prompts" if match is None else f"values of {shown(match)}"
    some = f"{len(alone):,} of {int((count > 0).sum()):,} {what} are not answered by all systems"
    first = f'the first, "{shown(names[alone[0]], _SHOWN)}", is not answered by {shown(lacking, _SHOWN)}'
    if count.max() >= 2:
        notify(f"{some} and count only where two have them: {first}")
        return
    if nameless:
        raise InputError(
            f"{nameless[0]}: has no prompts, so nothing says which responses answer the same one; export it with --with-text"
        )
    step = ""
    if who.by:
        step = "; a column that is the same for all answers to a prompt names no systems"
    if not match:
        step += "; if texts differ where the prompts are the same, name a column that says so with --match"
    raise InputError(f"no two systems answered the same prompts: {some}: {first}{step}")


def _check_enough(comparison: Compared, notify: Notify) -> None:
    """Raise InputError if no two systems have enough common prompts; report the others."""
    for name, count in comparison.unrated.items():
        if count:
            notify(f"{name}: {number_of(count, 'response')} without a rating left out")
    listed = [(name, one) for name, each in comparison.differences.items() for one in each]
    few = [(name, one) for name, one in listed if one.n_prompts < FEWEST_PROMPTS]
    if len(few) == len(listed):
        most = max((one.n_prompts for _, one in few), default=0)
        more = ", or spend more budget if some have no rating yet" * any(
            comparison.unrated.values()
        )
        raise InputError(
            f"{number_of(most, 'prompt')} with a rating of both systems: {FEWEST_PROMPTS} are needed to know how prompts "
            f"differ. Judge more prompts{more}"
        )
    for name, one in few:
        a, b = (shown(comparison.systems[each], _SHOWN) for each in (one.a, one.b))
        common = f"{number_of(one.n_prompts, 'prompt')} in common, and {FEWEST_PROMPTS} are needed"
        notify(f"{name}: {a} and {b} have {common}; their difference is not reported")
