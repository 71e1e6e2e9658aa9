"""Checks of settings and data against the goal of a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from robin_cli.model.arms import IntArray
from robin_cli.model.decision import BEST, SYSTEM, Decision, is_of_systems
from robin_cli.model.errors import InputError, did_you_mean, shown, typed
from robin_cli.model.records import SYSTEM_COLUMN, Pair, Scale, shared_scale
from robin_cli.policies.systems import FEWEST_PROMPTS, Systems
from robin_cli.run.inquiry import Inquiry
from robin_cli.settings.table import TABLE, Settings
from robin_cli.stats.looks import FIRST, looks_of

if TYPE_CHECKING:
    from robin_cli.ask.prompts import PromptSet

_NOT_WITH = {
    "target_error": "stops at an error of ratings",
    "group": "is for ratings; comparisons are of the responses to one prompt",
    "variances": "says how ratings vary",
}
_NOT_DECIDED = (  # settings of judges that write
    "temperature",
    "top_p",
    "max_tokens",
    "reasoning_effort",
    "samples_per_request",
    "seed",
)
_MOST_DECIDED = 10  # levels that a decision model takes
_MOST_MARGIN = 0.5
_COLUMNS_SHOWN = 12


def _is_usual(settings: Settings, name: str) -> bool:
    return bool(getattr(settings, name) == TABLE[name].default)


def check_pairwise(settings: Settings) -> None:
    """Raise InputError for settings that a pairwise run cannot have, or that only it can have."""
    if not settings.pairwise:
        if settings.no_ties:
            flag = TABLE["no_ties"].flag
            raise InputError(f"{flag}: is for --pairwise; add that, or leave it out")
        return
    for name, why in _NOT_WITH.items():
        if getattr(settings, name) is not None:
            raise InputError(
                f"--pairwise: not with {TABLE[name].flag}, which {why}; leave one of the two out"
            )
    check_verdicts(settings.decide, settings.margin)
    if settings.decide is not None and len(settings.model) > 1:
        raise InputError(
            "--pairwise: --decide best takes one judge there; leave one --model, or judge ratings, where others give a "
            "second opinion"
        )
    if not _is_usual(settings, "mode"):
        raise InputError(
            f"--pairwise: not with --mode {settings.mode}, whose guarantee is that of ratings; leave it out"
        )
    if len(settings.attribute) > 1 or len(settings.rubric) > 1:
        raise InputError(
            "--pairwise: one criterion decides which response is better; name one --attribute, or none, and make a run of each"
        )
    check_view(wide=settings.wide)


def check_verdicts(decide: str | None, margin: float | None) -> None:
    """Raise InputError for settings of ratings: a threshold, differences of means, a margin that is no probability."""
    if is_of_systems(decide):
        raise InputError(
            f"--pairwise: not with --decide {SYSTEM}, which compares ratings; leave it out: systems are ranked as it is"
        )
    if decide is not None and decide.strip() != BEST:
        raise InputError(
            f'--pairwise: not with --decide "{shown(decide, 80)}", a threshold for ratings; --decide {BEST} finds the '
            "best response to each prompt"
        )
    if margin is not None and margin >= _MOST_MARGIN:
        raise InputError(
            f"--margin {margin:g}: with --pairwise a probability by which a response may fall short of ½ and still be "
            f"the best; take one below {_MOST_MARGIN:g}"
        )


def check_together(settings: Settings) -> None:
    """Raise InputError for settings that exclude each other, or that only modify another which is missing."""
    check_pairwise(settings)
    if not _is_usual(settings, "rounds") and not settings.batch:
        raise InputError("--rounds: says in how many --batch asks; give that too, or leave it out")
    is_by_money = settings.budget is None and settings.max_cost is not None
    if is_by_money and not _is_usual(settings, "mode"):
        raise InputError(
            f"--max-cost: no budget for --mode {settings.mode}, whose guarantee needs a number of "
            "calls; give --budget too"
        )


def check_target(settings: Settings, scales: Sequence[Scale]) -> None:
    """Raise InputError for a target error that no score on ``scales`` could exceed, or that all have."""
    error, scale = settings.target_error, shared_scale(scales)
    if error is None:
        return
    width = 1 if scale is None else scale.high - scale.low
    if not 0 < error < width:
        unit = f"in points of the scale {scale}"
        if scale is None:
            unit = "a share of each attribute's scale, as there are several"
        raise InputError(f"--target-error {error:g}: is {unit}, so above 0 and below {width}")


def check_answers(settings: Settings, prompts: PromptSet) -> None:
    body = {"temperature": settings.temperature, "top_p": settings.top_p, **settings.extra_body}
    if "logprobs" in settings.answers and (body["temperature"], body["top_p"]) != (1, 1):
        raise InputError(
            f"--answers logprobs: needs --temperature 1 and --top-p 1, not {body['temperature']} and {body['top_p']}: "
            "endpoints report probabilities before these settings change them, so the scores would be those of another judge"
        )
    if "decisions" not in settings.answers:
        return
    for name, scale in zip(prompts.attributes, prompts.scales, strict=True):
        if scale.levels > _MOST_DECIDED:
            raise InputError(
                f"--answers decisions: {name} has {scale.levels} levels, and a decision model takes {_MOST_DECIDED} at most; "
                "write a rubric with fewer, or use --answers text, json or logprobs"
            )
    for name in _NOT_DECIDED if set(settings.answers) == {"decisions"} else ():
        if not _is_usual(settings, name):
            raise InputError(
                f"--answers decisions: takes no {TABLE[name].flag}, because the model writes nothing; leave it out"
            )


def no_ratings(path: Path, what: str) -> str:
    """Return the error that the pairwise run at ``path`` has no ratings, which ``what`` needs, and the alternatives."""
    instead = f"robin export {typed(path)} (--what ranking, --what preferences), robin status {typed(path)}"
    return f"{path}: compares responses and rates none by itself, so {what} has no data; it has: {instead}"


def check_view(*, wide: bool) -> None:
    if wide:
        raise InputError(
            "--wide: is for several attributes, and comparisons have none; leave it out (each judge in rows of its own: "
            "robin export RUN --what judge-scores)"
        )


@dataclass(eq=False, kw_only=True)
class WantedGoal(Inquiry):
    """The wanted settings beside the pairs of the data. InputError if the pairs do not allow them.

    Attributes:
        notify: called with a warning about the data: prompts that one system alone answered, groups of one.
    """

    settings: Settings
    notify: Callable[[str], None]

    @cached_property
    def decision(self) -> Decision | None:
        decision, settings = super().decision, self.settings
        if decision is None:
            return None
        if len(self.space.judges) > 1 and settings.certify:
            raise InputError(
                "--certify: promises what one judge's own mean would say; leave one --model, or leave --certify out"
            )
        if settings.group is not None and not decision.is_best:
            raise InputError(
                "--group: is for --decide best; thresholds are for each pair by itself"
            )
        return decision

    @cached_property
    def groups(self) -> IntArray:
        """Group of each pair, shape (pairs,)."""
        groups = super().groups
        if caution := check_groups(groups, self.settings.group):
            self.notify(f"{caution}: they are asked no more than twice")
        return groups

    @cached_property
    def systems(self) -> Systems:
        settings, compare, pairs = self.settings, f"--decide {SYSTEM}", self.table
        refused = {
            "target_error": ", at which calls go where a score is least certain",
            "margin": ", which is for decisions on pairs",
            "agree": ", which is for decisions on pairs",
        }
        for name, why in refused.items():
            if getattr(settings, name) is not None:
                raise InputError(
                    f"{compare}: not with {TABLE[name].flag}{why}; leave one of the two out"
                )
        if not _is_usual(settings, "mode"):
            raise InputError(
                f"{compare}: not with --mode {settings.mode}, whose guarantee is for scores; leave one of the two out"
            )
        named = zip(pairs.ids, pairs.systems, strict=True)
        if without := [pair_id for pair_id, system in named if system is None]:
            raise InputError(_without_system(compare, pairs, without))
        systems = super().systems
        if caution := check_systems(systems):
            self.notify(f"{compare}: {caution}")
        if self.target_wrong and not looks_of(systems):
            self.notify(
                f"--target-wrong: ends no run of {int(systems.is_shared.sum())} prompts that systems are compared on; at "
                f"{FIRST} or more it looks for a difference"
            )
        return systems


def _without_system(compare: str, pairs: Sequence[Pair], without: Sequence[str]) -> str:
    if len(without) < len(pairs):
        return (
            f"{compare}: {len(without):,} of {len(pairs):,} pairs do not say which system answered, the first is "
            f'{shown(without[0])}; give them a "{SYSTEM_COLUMN}", or leave them out'
        )
    known = sorted({name for pair in pairs for name in pair.columns})
    listed = ", ".join(map(shown, known[:_COLUMNS_SHOWN])) + ", …" * (len(known) > _COLUMNS_SHOWN)
    has = f"it also has {listed}" if known else "it has no further columns"
    return (
        f"{compare}: the data does not say which system answered ({has}); name the column that does: --columns "
        f"{SYSTEM_COLUMN}=NAME"
    )


TEXTS_SHOWN = ("prompt", "response")
"""Names beside the further columns of the data that can be shown beside a row."""


def check_shown(show: Sequence[str], known: Callable[[], Sequence[str]]) -> None:
    """Raise InputError for a name in ``show`` that is none of the data's columns, which ``known`` returns."""
    for name in show:
        if name not in (allowed := [*known(), *TEXTS_SHOWN]):
            listed = ", ".join(map(shown, allowed))
            raise InputError(
                f"--show {shown(name)}: is no column of the data, which have {listed}{did_you_mean(name, allowed)}"
            )


def check_groups(groups: IntArray, column: str | None) -> str:
    """Return a warning about groups with one response; "" if there are none.

    Args:
        groups: the group of each pair, numbered from 0.
        column: the column of the data that names them; None for groups by prompt.

    InputError: no group has two responses.
    """
    sizes = np.bincount(groups)
    alone = int((sizes == 1).sum())
    if alone < len(sizes):
        return (
            f"{alone:,} of {len(sizes):,} groups have one response only and nothing to choose"
            if alone
            else ""
        )
    things = "prompts" if column is None else f"groups by {column}"
    step = "name the column" if column is None else "name another column"
    raise InputError(
        f"--decide best: {alone:,} of {len(sizes):,} {things} have one response only, so there is nothing to choose; {step} "
        "that says which responses belong together with --group"
    )


def check_systems(systems: Systems) -> str:
    """Return a warning about systems that are to be compared; "" if there is none.

    InputError: one system only, or too few prompts that two answered.
    """
    names = systems.names
    if len(names) == 1:
        raise InputError(
            f'--decide {SYSTEM}: all pairs are of one system, "{shown(names[0], 60)}"; put the responses of another to '
            f"the same prompts beside them, or name the column that tells systems apart: --columns {SYSTEM_COLUMN}=NAME"
        )
    shared, prompts = int(systems.is_shared.sum()), len(systems.rank)
    if shared < FEWEST_PROMPTS:
        raise InputError(
            f"--decide {SYSTEM}: two systems or more answered {shared} of {prompts:,} prompts, and at least "
            f"{FEWEST_PROMPTS} such are needed; systems are compared on the same prompts, to the letter"
        )
    if alone := prompts - shared:
        return f"one system alone answered {alone:,} of {prompts:,} prompts: they show no difference, and are asked last"
    return ""
