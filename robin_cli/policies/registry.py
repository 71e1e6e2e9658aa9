"""Finds policies by name: robin's own, a file each in own/, and those of other packages (entry points)."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, TypeGuard

from robin_cli.model.decision import SYSTEM
from robin_cli.model.errors import InputError, did_you_mean
from robin_cli.model.plugins import plugins
from robin_cli.policies import own

if TYPE_CHECKING:
    from robin_cli.policies.base import Choice, Policy, Setup

GROUP = "robin.policies"

BASELINE = "uniform"
"""The policy with which others are compared: an even spread."""

DEFAULT = "auto"
"""The policy of a run without --scheduler."""

_OWN = {
    each.name.replace("_", "-"): f"{own.__name__}.{each.name}"
    for each in iter_modules(own.__path__)
}
POLICIES = tuple(_OWN)
"""robin's own."""


def known_policies() -> tuple[str, ...]:
    """Return all names, robin's own first; nothing is imported."""
    return tuple(dict.fromkeys((*POLICIES, *plugins(GROUP))))


def policy_named(name: str) -> type[Policy]:
    """Return the policy called ``name``; another package cannot replace robin's own.

    Raises:
        InputError: an unknown name, or a package whose policy cannot be loaded.
    """
    from robin_cli.policies.base import Policy

    def is_policy(kind: object) -> TypeGuard[type[Policy]]:
        return isinstance(kind, type) and issubclass(kind, Policy)

    if name in _OWN:
        of_file = vars(import_module(_OWN[name])).values()
        (policy,) = (kind for kind in of_file if is_policy(kind) and kind.__module__ == _OWN[name])
        return policy
    if name not in plugins(GROUP):
        known = known_policies()
        raise InputError(
            f'--scheduler "{name}": known schedulers are {", ".join(known)}{did_you_mean(name, known)}'
        )
    with plugins(GROUP)[name].loaded(f'--scheduler "{name}"') as kind:
        if not is_policy(kind):
            raise TypeError(f"it is {kind!r}, and not a subclass of {Policy.__module__}.Policy")
        return kind


def traits_of(name: str) -> type[Policy]:
    """Return the class of the policy that made a run; a plain :class:`Policy` if its package is not installed."""
    from robin_cli.policies.base import Policy

    try:
        return policy_named(name)
    except InputError:
        return Policy


def chosen(name: str, setup: Setup) -> Choice | None:
    """Return the policy that ``name`` chooses for the run; None if it is one itself.

    Raises:
        InputError: as :func:`policy_named`, or settings that it refuses.
    """
    return policy_named(name).stands_for(setup)


def make_policy(name: str, setup: Setup) -> Policy:
    """Return the policy called ``name``, or the one that it chooses, set up for a run.

    Raises:
        InputError: as :func:`policy_named`, or settings that the policy refuses.
    """
    if instead := chosen(name, setup):
        name = instead.name
    kind = policy_named(name)
    is_of_goal = name == DEFAULT
    if setup.systems is not None and name != BASELINE:
        raise InputError(
            f"--decide {SYSTEM}: asks prompts in an order of its own; leave --scheduler {name} out"
        )
    if setup.matches is not None and not is_of_goal and name != BASELINE:
        raise InputError(f"--pairwise: has schedulers of its own; leave --scheduler {name} out")
    if is_of_goal:
        from robin_cli.policies.own.auto import policy_of_goal

        of_goal = policy_of_goal(setup)
        assert of_goal is not None  # noqa: S101  # else it stands for another
        return of_goal[0].of(setup)
    if name in _OWN:
        return kind.of(setup)
    with plugins(GROUP)[name].loaded(f'--scheduler "{name}"'):
        policy = kind.of(setup)
    if not isinstance(getattr(policy, "warm_up", None), int) or policy.warm_up < 1:
        raise InputError(
            f'--scheduler "{name}": its warm_up must be a whole number from 1; report this to its authors'
        )
    return policy
