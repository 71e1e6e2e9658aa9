"""Auto: the policy that fits the goal of the run."""

from __future__ import annotations

from robin_cli.model.errors import InputError
from robin_cli.policies.base import Choice, Policy, Setup
from robin_cli.policies.of_goals.apt import Apt
from robin_cli.policies.of_goals.duels import Duels
from robin_cli.policies.of_goals.lucb import Lucb
from robin_cli.policies.of_goals.tournament import Tournament


class Auto(Policy):
    """The default. A goal that has a policy has it under this name; for scores another name is recorded.

    For scores it is two-priors at every budget: no policy did better with unknown variances (docs/evidence/schedulers.md). Only
    ROBIN-HOOD has a theory mode.
    """

    __slots__ = ()

    @classmethod
    def stands_for(cls, setup: Setup) -> Choice:
        """Return the policy and the reason. InputError in theory mode, which has no decisions."""
        is_theory = setup.mode == "theory"
        if is_theory and setup.task is not None:
            raise InputError(
                f"--decide: not with --mode {setup.mode}, whose guarantee is for scores; leave one of the two out"
            )
        of_goal = policy_of_goal(setup)
        if of_goal is not None:
            return Choice("auto", of_goal[1])
        if setup.matches is not None:
            return Choice("uniform", "it asks every comparison equally often, in both orders")
        if setup.systems is not None:
            return Choice(
                "uniform",
                "for --decide system, it asks whole prompts, in random order, before it repeats any",
            )
        if is_theory:
            return Choice("robin-hood", f"--mode {setup.mode} is its own")
        return Choice(
            "two-priors", "it asks where ratings vary, from the second call of each pair on"
        )


def policy_of_goal(setup: Setup) -> tuple[type[Policy], str] | None:
    """Return the policy of the run's goal, and what it asks; None if the goal has none."""
    if setup.task is not None and setup.task.decision.is_best:
        return Lucb, "for --decide best, it asks where the best response is least clear"
    if setup.task is not None:
        return Apt, "for --decide with thresholds, it asks where a side is least clear"
    matches = setup.matches
    if matches is not None and matches.wants_best:
        return (
            Duels,
            "for --decide best, it asks where the best response to a prompt is least clear",
        )
    if matches is not None and matches.ranks_systems:
        return (
            Tournament,
            f"with {len(matches.names)} systems it asks what settles most of their order",
        )
    return None
