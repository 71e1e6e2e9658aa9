"""Auto: the policy that is for what the run is to find."""

from __future__ import annotations

from robin_cli.model.errors import InputError
from robin_cli.policies.base import Choice, Policy, Setup
from robin_cli.policies.own.robin_hood import RobinHood


class Auto(Policy):
    """The default. It chooses among policies by what is wanted, once: a run keeps what it became.

    That is two-priors for scores, at every budget: no policy did better if variances are unknown (docs/evidence/schedulers.md).
    Only ROBIN-HOOD has a theory mode. Runs that became robin-hood in an earlier version keep it.
    """

    __slots__ = ()
    takes_prior = True
    among = ("robin-hood", "two-priors")

    @classmethod
    def stands_for(cls, setup: Setup) -> Choice:
        """Return the policy and why it is that one. InputError in theory mode, which has nothing to do with decisions."""
        of_theory, usual = cls.among
        is_theory = cls.theorem(setup.mode) is not None
        if (task := setup.task) is not None:
            if is_theory:
                raise InputError(
                    f"--decide: not with --mode {setup.mode}, whose guarantee is that of scores; leave one of the two out"
                )
            if task.decision.is_best:
                return Choice("lucb", "for --decide best, it asks where the best response is not clear")
            return Choice("apt", "for --decide with thresholds, it asks where a side is not clear")
        if (matches := setup.matches) is not None:
            if matches.wants_best:
                return Choice("duels", "for --decide best, it asks where the best response to a prompt is not clear")
            if matches.ranks_systems:
                systems = len(matches.names)
                return Choice("tournament", f"with {systems} systems it asks what tells most of their order")
            return Choice("preferences", "it asks each comparison the more often the less certain its preference is")
        if setup.systems is not None:
            return Choice("paired", "for --objective compare, it asks prompts not asked yet before it repeats any")
        if is_theory:
            return Choice(of_theory, f"--mode {setup.mode} is its own")
        return Choice(usual, "it asks where ratings vary, from the second call of each pair on")

    @classmethod
    def theorem(cls, mode: str) -> int | None:
        """That of ROBIN-HOOD."""
        return RobinHood.theorem(mode)
