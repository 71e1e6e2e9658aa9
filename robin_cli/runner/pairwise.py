"""What a pairwise run is asked to do: the settings that go with it, its data, and how far its budget reaches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from robin_cli.model.decision import BEST
from robin_cli.model.errors import InputError, shown
from robin_cli.model.matches import Matches, matches_of
from robin_cli.model.records import COMPARE, Pair, number_of
from robin_cli.model.space import ArmSpace
from robin_cli.settings.table import TABLE, Settings

_OURS = ("reference", "no_ties")
_NOT_WITH = {
    "target_error": "stops at an error of ratings",
    "group": "is for ratings; comparisons are of the responses to one prompt",
    "variances": "says how ratings vary",
}


_MOST_MARGIN = 0.5


def check_pairwise(settings: Settings) -> None:
    """InputError for what a pairwise run cannot have, or what only it can."""
    if not settings.pairwise:
        if named := next((name for name in _OURS if getattr(settings, name)), None):
            raise InputError(f"{TABLE[named].flag}: is for --pairwise; add that, or leave it out")
        return
    for name, why in _NOT_WITH.items():
        if getattr(settings, name) is not None:
            raise InputError(f"--pairwise: not with {TABLE[name].flag}, which {why}; leave one of the two out")
    if settings.decide is not None and settings.decide.strip() != BEST:
        raise InputError(
            f'--pairwise: not with --decide "{shown(settings.decide, 80)}", a threshold for ratings; --decide {BEST} finds the '
            "best response to each prompt"
        )
    if settings.objective == COMPARE:
        raise InputError(
            f"--pairwise: not with --objective {COMPARE}, which compares ratings; leave it out: systems are ranked as it is"
        )
    if settings.mode != TABLE["mode"].default:
        raise InputError(
            f"--pairwise: not with --mode {settings.mode}, whose guarantee is that of ratings; leave it out"
        )
    if settings.margin is not None and settings.margin >= _MOST_MARGIN:
        raise InputError(
            f"--margin {settings.margin:g}: with --pairwise a probability by which a response may fall short of ½ and still be "
            f"the best; take one below {_MOST_MARGIN:g}"
        )
    if len(settings.attributes) > 1 or len(settings.rubric) > 1:
        raise InputError(
            "--pairwise: one criterion decides which response is better; name one --attribute, or none, and make a run of each"
        )


def wanted_matches(settings: Settings, space: ArmSpace, pairs: Sequence[Pair]) -> Matches | None:
    """What the comparisons of ``pairs`` are of; None where the run is not pairwise."""
    if not settings.pairwise:
        return None
    return matches_of(space, pairs, settings.seed, wants_best=settings.decide is not None)


def check_comparisons(budget: int, matches: Matches) -> None:
    """InputError if ``budget`` does not ask enough comparisons in both orders to say anything at all."""
    each = matches.space.arms_per_pair
    if matches.ranks_systems:
        least, what = each * (len(matches.names) - 1), f"a comparison for each of {len(matches.names)} systems but one"
    elif matches.wants_best:
        least, what = each * int(np.unique(matches.prompt).size), "a comparison for each prompt"
    else:
        least, what = each, "one comparison"
    if budget < least:
        judges = f" by {len(matches.space.judges)} judges" if len(matches.space.judges) > 1 else ""
        raise InputError(
            f"--budget {budget}: does not pay for {what} in both orders{judges}; raise it to {least} or more"
        )


def reach(budget: int, matches: Matches) -> str:
    """What a user should know of how many comparisons ``budget`` asks; "" where it asks all in both orders."""
    asked = budget // matches.space.arms_per_pair
    if asked >= len(matches) or matches.ranks_systems or matches.wants_best:
        return ""
    return (
        f"the budget of {budget:,} asks {asked:,} of {number_of(len(matches), 'comparison')} in both orders, drawn at random; "
        "the others get no preference"
    )
