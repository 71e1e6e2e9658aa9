"""Finds the policy of a run: by its name, robin's own or one of another package (entry points), or by what the run wants."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from robin_cli.model.decision import SYSTEM
from robin_cli.model.errors import InputError, did_you_mean
from robin_cli.model.plugins import plugins

if TYPE_CHECKING:
    from robin_cli.policies.base import Policy, Setup

GROUP = "robin.policies"

BASELINE = "uniform"
"""The policy with which others are compared: an even spread."""

DEFAULT = "auto"
"""The policy of a run without --scheduler."""

_PLACES = {
    DEFAULT: "base:Policy",  # it chooses another; the policy of a goal has the usual traits
    "robin": "robin:Robin",
    "robin-hood": "robin_hood:RobinHood",
    "two-priors": "two_priors:TwoPriors",
    BASELINE: "uniform:Uniform",
}
POLICIES = tuple(_PLACES)
"""robin's own."""


class Choice(NamedTuple):
    """The policy that ``auto`` stands for: its name, and the reason. The policy of a goal has no other name."""

    name: str
    why: str

    def text(self, asked: str) -> str:
        """Return the choice in words, for a run with the policy ``asked``."""
        name = "" if self.name == asked else f"{self.name}; "
        return f"--scheduler {asked}: {name}{self.why}"


def known_policies() -> tuple[str, ...]:
    """Return all names, robin's own first; nothing is imported."""
    return tuple(dict.fromkeys((*POLICIES, *plugins(GROUP))))


def policy_named(name: str) -> type[Policy]:
    """Return the class of the policy called ``name``; another package cannot replace robin's own.

    Raises:
        InputError: an unknown name, or a package whose policy cannot be loaded.
    """
    from robin_cli.policies.base import Policy

    if name in _PLACES:
        return _at(_PLACES[name])
    if name not in plugins(GROUP):
        known = known_policies()
        raise InputError(
            f'--scheduler "{name}": known schedulers are {", ".join(known)}{did_you_mean(name, known)}'
        )
    with plugins(GROUP)[name].loaded(f'--scheduler "{name}"') as kind:
        if not (isinstance(kind, type) and issubclass(kind, Policy)):
            raise TypeError(f"it is {kind!r}, and not a subclass of {Policy.__module__}.Policy")
        return kind


def traits_of(name: str) -> type[Policy]:
    """Return the class of the policy that made a run; a plain :class:`Policy` if its package is not installed."""
    try:
        return policy_named(name)
    except InputError:
        return policy_named(DEFAULT)


def chosen(name: str, setup: Setup) -> Choice | None:
    """Return what ``auto`` stands for in the run; None for another name. InputError for settings that it refuses."""
    return _by_goal(setup)[1] if name == DEFAULT else None


def make_policy(name: str, setup: Setup) -> Policy:
    """Return the policy called ``name``, or the one that it stands for, set up for a run.

    Raises:
        InputError: as :func:`policy_named`, or settings that the policy refuses.
    """
    kind = policy_named(name)
    if name == DEFAULT:
        place, (name, _) = _by_goal(setup)
        kind = _at(place)
    if setup.systems is not None and name != BASELINE:
        raise InputError(
            f"--decide {SYSTEM}: asks prompts in an order of its own; leave --scheduler {name} out"
        )
    if setup.matches is not None and name not in {DEFAULT, BASELINE}:
        raise InputError(f"--pairwise: has schedulers of its own; leave --scheduler {name} out")
    # A goal's policy serves all scales, and an even spread does not depend on them.
    if len(setup.by_scale) > 1 and name != DEFAULT and not kind.evenly:
        from robin_cli.policies.by_scale import ByScale

        return ByScale.of_each(setup, lambda alone: make_policy(name, alone))
    if name in _PLACES:
        return kind.from_setup(setup)
    with plugins(GROUP)[name].loaded(f'--scheduler "{name}"'):
        policy = kind.from_setup(setup)
    if not isinstance(getattr(policy, "warm_up", None), int) or policy.warm_up < 1:
        raise InputError(
            f'--scheduler "{name}": its warm_up must be a whole number from 1; report this to its authors'
        )
    return policy


def _by_goal(setup: Setup) -> tuple[str, Choice]:
    """Return the place and the name of the policy that fits the goal of the run, and what it asks.

    For scores it is two-priors at every budget: no policy did better with unknown variances (docs/evidence/schedulers.md).
    InputError for decisions in theory mode, which only ROBIN-HOOD has.
    """
    task, matches, is_theory = setup.task, setup.matches, setup.mode == "theory"
    if task is not None and is_theory:
        raise InputError(
            f"--decide: not with --mode {setup.mode}, whose guarantee is for scores; leave one of the two out"
        )
    if task is not None and task.decision.is_best:
        why = "for --decide best, it asks where the best response is least clear"
        return "deciding:Lucb", Choice(DEFAULT, why)
    if task is not None:
        why = "for --decide with thresholds, it asks where a side is least clear"
        return "deciding:Apt", Choice(DEFAULT, why)
    if matches is not None and matches.wants_best:
        why = "for --decide best, it asks where the best response to a prompt is least clear"
        return "duels:Duels", Choice(DEFAULT, why)
    if matches is not None and matches.ranks_systems:
        why = f"with {len(matches.names)} systems it asks what settles most of their order"
        return "tournament:Tournament", Choice(DEFAULT, why)
    if matches is not None:
        name, why = BASELINE, "it asks every comparison equally often, in both orders"
    elif setup.systems is not None:
        name = BASELINE
        why = "for --decide system, it asks whole prompts, in random order, before it repeats any"
    elif is_theory:
        name, why = "robin-hood", f"--mode {setup.mode} is its own"
    else:
        name, why = "two-priors", "it asks where ratings vary, from the second call of each pair on"
    return _PLACES[name], Choice(name, why)


def _at(place: str) -> type[Policy]:
    module, _, name = place.partition(":")
    kind: type[Policy] = getattr(import_module(f"{__package__}.{module}"), name)
    return kind
