"""Differences of systems as a table and as lines, also for ``robin compare``."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, count, groupby
from operator import itemgetter
from pathlib import Path
from string import ascii_uppercase
from typing import Any

import numpy as np

from robin_cli.goals.labels import LabelsFile, read_labels
from robin_cli.goals.result import Result, View
from robin_cli.model.errors import abridged, shown, typed
from robin_cli.model.records import SYSTEM_COLUMN, first_text, number_of
from robin_cli.policies.systems import FEWEST_PROMPTS
from robin_cli.run.reader import RunReader, read_run
from robin_cli.show.columns import DIFFERENCES, SYSTEMS
from robin_cli.show.tables import Table
from robin_cli.show.text import one_line, two_digits
from robin_cli.show.words import MOST_LINES, about
from robin_cli.stats.labelled import Corrected
from robin_cli.stats.paired import MORE_CALLS, Difference, scores_by_prompt
from robin_cli.stats.run_compare import Compared, compared

_ONE_LOOK = (
    "The intervals hold for one look. If you look again while prompts come in, and stop once 0 is left out, you are wrong in "
    "about a third of cases"
)
_FEW = 3  # the most differences with all their notes
_MOST_NOTED = 6
_MOST_PROMPTS = 10_000
_WORTH_CALLS = 0.2  # the least share by which more calls must shorten an interval to be recommended beside prompts
_MOST_OF_A_PROMPT = 60
_UNKNOWN = "the judge's share of the variance is not known, as hardly any response was rated twice"
_NOT_SETTLED = "not settled"


def comparison_of(
    paths: Sequence[Path],
    notify: Callable[[str], None],
    *,
    by: str | None = None,
    match: str | None = None,
    labels: LabelsFile = None,
    is_robust: bool = False,
) -> Compared:
    """Return the differences of the systems of the runs at ``paths``; see :func:`run_compare.compared`.

    Args:
        labels: a file of people's labels, in place of the human ratings of the data.

    InputError: options that do not go together, or runs that cannot be compared.
    """
    runs = [read_run(path) for path in paths]
    people_labels = read_labels(labels, *runs)
    return compared(
        runs, notify, by=by, match=match, given_labels=people_labels, is_robust=is_robust
    )


Each = tuple[str, Difference, Corrected | None]
"""An attribute, a difference, and that by people's labels, if there are any."""


def all_differences(comparison: Compared) -> Iterator[Each]:
    for name, listed in comparison.differences.items():
        for diff, people in zip(listed, comparison.corrected[name], strict=True):
            yield name, diff, people


def table_of(comparison: Compared, *, has_details: bool = False) -> Table:
    """Return the difference of every two systems; with people's labels, and Wilcoxon's p, if there are such or it is wanted."""
    letters, all_of = letters_of(comparison.systems), list(all_differences(comparison))
    has_labels = comparison.has_labels or any(people is not None for _, _, people in all_of)
    left_out = ("corrected", "n_labels") * (not has_labels) + ("p_wilcoxon",) * (not has_details)
    names = [name for name in DIFFERENCES.columns if not name.startswith(left_out)]
    rows = [_row(comparison, letters, names, *diff) for diff in all_of]
    hidden = set() if has_details else {"std_error", "df", "effect_size"}
    hidden |= {"attribute"} if len(comparison.differences) == 1 else set()
    return DIFFERENCES.with_values(
        {name: [row[name] for row in rows] for name in names},
        terminal=[name for name in DIFFERENCES.terminal if name not in hidden],
        notes=list(map(one_line, notes_of(comparison, letters))),
    )


def better_lines(comparison: Compared) -> list[str]:
    """Return by how much the leading system is better than the others, the nearest first; for each attribute."""
    lines = []
    for name, listed in comparison.differences.items():
        first, of_first = of_leader(comparison, listed)
        about = f"{one_line(name)}: " if len(comparison.differences) > 1 else ""
        lines += [about + _better(comparison, diff, first) for diff in of_first]
    return lines


def at_most(lines: Sequence[str], more: str) -> list[str]:
    """Return the lines that fit an answer; ``more`` is the command that has the others."""
    if len(lines) <= MOST_LINES:
        return list(lines)
    return [*lines[: MOST_LINES - 1], f"and {len(lines) - MOST_LINES + 1:,} more: {more}"]


def of_leader(comparison: Compared, listed: Sequence[Difference]) -> tuple[int, list[Difference]]:
    """Return the number of the leading system, and its differences from the others, the nearest first."""
    lead = np.zeros(len(comparison.systems))
    for diff in listed:
        lead[[diff.a, diff.b]] += np.nan_to_num([diff.difference, -diff.difference])
    first = int(lead.argmax())
    of_first = (diff for diff in listed if first in {diff.a, diff.b})
    return first, sorted(of_first, key=lambda diff: abs(diff.difference))


def _better(comparison: Compared, diff: Difference, first: int) -> str:
    """Return whether the system ``first``, one of the two, is better than the other, and by how much."""
    sign, other = (1, diff.b) if diff.a == first else (-1, diff.a)
    leader, rival = (shown(abridged(one_line(comparison.systems[at]))) for at in (first, other))
    ahead, prompts = sign * diff.difference, number_of(diff.n_prompts, "prompt")
    both, over = f"{leader} and {rival}", f"over {prompts}"
    if math.isnan(diff.p):
        return f"{both} cannot be told apart {over}: {FEWEST_PROMPTS} are needed"
    low, high = sorted((sign * diff.ci_low, sign * diff.ci_high))
    if math.isnan(low):
        step = "--scale LOW-HIGH gives an interval"
        return f"{both} differ by {ahead:z.2f} at each of {prompts}; {step}"
    value, *ends = map(two_digits, (ahead, low, high))
    known = f"{value} [{', '.join(ends)}] (95 %, {over}{widened(comparison, diff)})"
    if comparison.is_same:
        return f"{both} have the very same responses; by the judge alone they differ by {known}"
    if diff.is_settled:
        return f"{leader} is {'better' if ahead > 0 else 'worse'} than {rival} by {known}"
    return f"{both} cannot be told apart: {known}; {next(_settling(comparison, diff)).partition(', if')[0]}"


def widened(comparison: Compared, diff: Difference) -> str:
    """Return that and why the interval is widened, behind a comma; "" if it is not."""
    if comparison.is_robust:
        return ", widened by --robust"
    if not diff.is_widened:
        return ""
    carriers, share = diff.carriers()
    carry = f"{len(carriers)} of them {'carries' if len(carriers) == 1 else 'carry'} {_percent(share)} of the variance"
    return f", widened: {carry if share else 'all differ alike'}"


def _row(
    comparison: Compared,
    letters: Mapping[str, str],
    names: Sequence[str],
    attribute: str,
    diff: Difference,
    people: Corrected | None,
) -> dict[str, Any]:
    """Return one row, by the ``names`` of DIFFERENCES, and further ones."""
    sides = _sides(comparison, diff, letters)
    is_known = not math.isnan(diff.p)
    return {
        **{name: getattr(diff, name) for name in names if hasattr(diff, name)},
        "a": comparison.systems[diff.a],
        "b": comparison.systems[diff.b],
        "attribute": attribute,
        "prompts_needed": None
        if comparison.is_same or math.isnan(diff.prompts_needed)
        else math.ceil(diff.prompts_needed),
        "widened": diff.is_widened or comparison.is_robust,
        "corrected_difference": people and people.estimate,
        "corrected_low": people and people.low,
        "corrected_high": people and people.high,
        "n_labels": people.n_labels if people else 0,
        "df": diff.n_prompts - 1 if is_known else None,
        "which": " − ".join(sides),
        "p_text": p_text(diff.p_adjusted) if is_known else "",
        "better": verdict(diff, sides) if is_known else f"fewer than {FEWEST_PROMPTS} prompts",
        "by_people": "" if people is None or people.why else by_people(people, sides),
    }


def _sides(comparison: Compared, diff: Difference, letters: Mapping[str, str]) -> tuple[str, str]:
    return letters[comparison.systems[diff.a]], letters[comparison.systems[diff.b]]


def p_text(p: float) -> str:
    return "< .001" if p < 0.001 else f"{p:.3f}".lstrip("0") if p < 1 else "1"


def verdict(diff: Difference, sides: tuple[str, str]) -> str:
    return sides[diff.difference < 0] if diff.is_settled else _NOT_SETTLED


def by_people(people: Corrected, sides: tuple[str, str]) -> str:
    """Return the same by people's labels."""
    return sides[people.estimate < 0] if people.low * people.high > 0 else _NOT_SETTLED


def notes_of(comparison: Compared, letters: Mapping[str, str]) -> list[str]:
    known = [diff for diff in all_differences(comparison) if not math.isnan(diff[1].p)]
    several, are_many = len(comparison.differences) > 1, len(known) > _FEW
    lines = []
    for name, diff, people in known[:_MOST_NOTED]:
        sides = _sides(comparison, diff, letters)
        which = f"{f'{name}, ' * several}{' − '.join(sides)}: "
        notes = [
            *([] if comparison.is_same else _settling(comparison, diff)),
            *([] if are_many else [_noise(diff)]),
            *_carried(comparison, diff),
        ]
        if notes:
            lines.append(which + "; ".join(notes))
        if people is not None and not people.why:  # else it is said once, where labels were given
            lines.append(which + _by_people(diff, people, sides))
    if len(known) > _MOST_NOTED:
        lines.append(
            f"{len(known) - _MOST_NOTED} more pairs are in the table; --json and CSV have everything about them"
        )
    if are_many:
        lines.append(_noise_of_all([diff for _, diff, _ in known]))
    pairs = max(map(len, comparison.differences.values()))
    all_of = f"; those of {pairs} differences{' of each attribute' * several} hold together (Bonferroni), and p is Holm's"
    are_wide = comparison.is_robust or any(diff.is_widened for _, diff, _ in known)
    wide = (
        "; where few prompts carry the variance, no narrower than a bound for any scores (Gaffke)"
    )
    lines.append(
        f"95 % intervals and p are of the paired t test over prompts{all_of * (pairs > 1)}{wide * are_wide}"
    )
    if any(diff.p_adjusted < 0.05 and not diff.is_settled for _, diff, _ in known):
        lines.append("A p below .05 whose interval holds 0 is not settled: Holm's p is less strict")
    if firsts := sorted({first for first in comparison.by_first if first is not None}):
        lines.append(
            f"Scores here are of {' or '.join(map(first_text, firsts))} of each response: later calls depended on these, and a "
            "mean of all would be biased"
        )
    return [*lines, _ONE_LOOK]


def next_step(comparison: Compared) -> str:
    """Return the commands whose calls would settle a difference, the fewest; "" if none would."""
    have_judges = all(run.name == str(run.path) for run in comparison.runs)  # files have none
    if comparison.is_same or not have_judges:
        return ""
    times = min((diff.times_needed for _, diff, _ in all_differences(comparison)), default=math.inf)
    if math.isinf(times):
        return ""
    return " && ".join(
        f"robin resume {typed(run.name)} {_budget(run, times)}" for run in comparison.runs
    )


def _budget(run: RunReader, times: float) -> str:
    if run.manifest.budget_usd is not None:
        return f"--max-cost {times * run.manifest.budget_usd:.3g}"
    return f"--budget {about(times * run.fold.arms.spent)}"


def _settling(comparison: Compared, diff: Difference) -> Iterator[str]:
    if diff.is_settled:
        return
    if math.isnan(diff.ci_low):
        yield "prompts that all differ alike have no interval without a scale: --scale LOW-HIGH"
    elif diff.times_needed < math.inf:
        calls = (diff.times_needed - 1.0) * sum(run.fold.arms.spent for run in comparison.runs)
        more = number_of(about(calls), "more call")
        yield f"about {more} for these prompts would settle it, if the difference is as large as it looks"
    elif math.isnan(diff.prompts_needed):
        yield "no number of prompts like these would settle a difference of 0"
    elif diff.prompts_needed > max(_MOST_PROMPTS, 10 * diff.n_prompts):
        yield f"more than {_MOST_PROMPTS:,} prompts would be needed to settle so small a difference"
    else:
        more = number_of(about(diff.prompts_needed - diff.n_prompts), "more prompt")
        yield f"about {more} would settle it, if the difference is as large as it looks"


def _carried(comparison: Compared, diff: Difference) -> Iterator[str]:
    prompts, share = diff.carriers()
    if len(prompts):
        names = " and ".join(
            f'"{shown(comparison.who.prompts[at], _MOST_OF_A_PROMPT)}"' for at in prompts
        )
        carry = "carries" if len(prompts) == 1 else "carry"
        yield f"{names} {carry} {_percent(share)} of the variance: read what both answered there"


def _noise(diff: Difference) -> str:
    if math.isnan(diff.noise_share):
        return _UNKNOWN
    noise = f"{_percent(diff.noise_share)} of the variance is the judge's noise"
    if diff.shorter == 0:
        return f"{noise}; later calls cannot reduce it: they do not count"
    helps = "; more prompts are what helps" if diff.shorter < _WORTH_CALLS else ""
    most = f"{_percent(diff.shorter)}{helps}"
    return f"{noise}: {MORE_CALLS} more calls per response would shorten this interval by at most {most}"


def _noise_of_all(known: Sequence[Difference]) -> str:
    measured = [diff for diff in known if not math.isnan(diff.noise_share)]
    if not measured:
        return _UNKNOWN[0].upper() + _UNKNOWN[1:]
    least, most = (_percent(end(diff.noise_share for diff in measured)) for end in (min, max))
    return (
        f"{least} to {most} of the variance is the judge's noise: {MORE_CALLS} more calls per response would shorten "
        f"no interval by more than {_percent(max(diff.shorter for diff in measured))}"
    )


def _by_people(diff: Difference, people: Corrected, sides: tuple[str, str]) -> str:
    labels = number_of(people.n_labels, "label")
    judge, labelled = verdict(diff, sides), by_people(people, sides)
    if labelled == _NOT_SETTLED:
        few = "are too few to confirm it: their interval holds 0"
        bear_out = "settle neither" if judge == labelled else few
    else:
        other = f"do not bear that out: {labelled} is better"
        bear_out = "bear that out" if judge == labelled else other
    prefers = f"The judge prefers {judge}"
    if judge == _NOT_SETTLED:
        prefers = "The judge finds neither better"
    return (
        f"{prefers}; {labels} of people {bear_out}. They correct the difference to {people.estimate:+.2f} (95 % interval "
        f"{people.low:+.2f} to {people.high:+.2f}, for one look): the judge seems {abs(diff.difference - people.estimate):.2f} "
        f"too kind to {sides[diff.difference < people.estimate]}{people.caution and '; '}{people.caution}"
    )


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share == 0 or share >= 0.01 else "1 %"


def letters_of(names: Sequence[str]) -> dict[str, str]:
    more = (f"S{number}" for number in count(27))
    return dict(zip(names, chain(ascii_uppercase, more), strict=False))


def legend(comparison: Compared) -> str:
    letters = letters_of(comparison.systems)
    return "; ".join(f"{letter}: {one_line(name)}" for name, letter in letters.items())


def systems_table(result: Result, view: View) -> Table:
    """Return a row for each attribute and system, the highest mean first, with its difference from that one.

    InputError: there is no column of systems, or they share too few prompts.
    """
    people_labels = read_labels(view.labels, result.run)
    comparison = compared(
        [result.run], view.notify, by=view.by or SYSTEM_COLUMN, given_labels=people_labels
    )
    rows: list[dict[str, Any]] = []
    for name, of_attribute in groupby(table_of(comparison).records(), itemgetter("attribute")):
        means = _means_of(comparison, name)
        best, *others = means
        by_rival = {
            row["b"] if row["a"] == best else row["a"]: row
            for row in of_attribute
            if best in {row["a"], row["b"]}
        }
        rows += [{"attribute": name, **means[best]}]
        rows += [_from_best(by_rival[system], best) | means[system] for system in others]
    shared = min(diff.n_prompts for listed in comparison.differences.values() for diff in listed)
    if shared < max(row["n_prompts"] for row in rows):
        view.notify(
            "a mean is over all prompts of its system, a difference over those that both answered"
        )
    return SYSTEMS.with_values({name: [row.get(name) for row in rows] for name in SYSTEMS.columns})


def _means_of(comparison: Compared, attribute: str) -> dict[str, dict[str, Any]]:
    """Return the name, mean and prompts of each system that answered any, the highest mean first."""
    means: dict[str, dict[str, Any]] = {}
    scores = scores_by_prompt(comparison.responses[attribute], len(comparison.systems))
    for system, row in zip(comparison.systems, scores, strict=True):
        known = row[~np.isnan(row)]
        if len(known):
            mean, prompts = float(known.mean()), len(known)
            means[system] = {"system": system, "mean": mean, "n_prompts": prompts}
    return dict(sorted(means.items(), key=lambda item: -item[1]["mean"]))


def _from_best(row: Mapping[str, Any], best: str) -> dict[str, Any]:
    """Return the row of a system with its difference from the best one; none if they share too few prompts."""
    sign = -1.0 if row["a"] == best else 1.0
    value, *ends = (
        None if row[name] is None else sign * row[name]
        for name in ("difference", "ci_low", "ci_high")
    )
    known = sorted(end for end in ends if end is not None)
    figures = dict(zip(("difference_low", "difference_high"), known, strict=False))
    return {**row, "difference": value, **figures}
