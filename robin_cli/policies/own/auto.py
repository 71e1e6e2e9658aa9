"""Auto: chooses the policy that fits the goal of the run."""

from __future__ import annotations

from robin_cli.model.errors import InputError
from robin_cli.policies.base import Choice, Policy, Setup


class Auto(Policy):
    """The default. It chooses among policies once, by the goal: a run keeps its policy.

    For scores it is two-priors at every budget: no policy did better with unknown variances (docs/evidence/schedulers.md). Only
    ROBIN-HOOD has a theory mode. Runs that became robin-hood in an earlier version keep it.
    """

    __slots__ = ()
    among = ("robin-hood", "two-priors")

    @classmethod
    def stands_for(cls, setup: Setup) -> Choice:
        """Return the policy and the reason. InputError in theory mode, which has no decisions."""
        of_theory, usual = cls.among
        is_theory = setup.mode == "theory"
        if (task := setup.task) is not None:
            if is_theory:
                raise InputError(
                    f"--decide: not with --mode {setup.mode}, whose guarantee is for scores; leave one of the two out"
                )
            if task.decision.is_best:
                return Choice(
                    "lucb", "for --decide best, it asks where the best response is least clear"
                )
            return Choice(
                "apt", "for --decide with thresholds, it asks where a side is least clear"
            )
        if (matches := setup.matches) is not None:
            if matches.wants_best:
                return Choice(
                    "duels",
                    "for --decide best, it asks where the best response to a prompt is least clear",
                )
            if matches.ranks_systems:
                systems = len(matches.names)
                return Choice(
                    "tournament", f"with {systems} systems it asks what settles most of their order"
                )
            return Choice(
                "preferences", "it asks a comparison more often, the less certain its preference is"
            )
        if setup.systems is not None:
            return Choice(
                "paired",
                "for --objective compare, it asks prompts not asked yet before it repeats any",
            )
        if is_theory:
            return Choice(of_theory, f"--mode {setup.mode} is its own")
        return Choice(usual, "it asks where ratings vary, from the second call of each pair on")
