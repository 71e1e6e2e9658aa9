"""Auto: ROBIN-HOOD where the budget leaves it enough after its warm-up, else the policy that adapts from the second call on."""

from __future__ import annotations

from robin_cli.model.errors import InputError
from robin_cli.model.matches import Matches
from robin_cli.model.task import Task
from robin_cli.policies.base import Choice, Policy, Setup
from robin_cli.policies.own.robin_hood import RobinHood

_WARM_UPS = 1.5
"""Budgets from so many warm-ups on go to ROBIN-HOOD; below, most of its calls would be spread evenly."""


class Auto(Policy):
    """The default. It chooses among policies by the budget, once: a run keeps what it became when its budget is raised."""

    __slots__ = ()
    takes_prior = True
    among = ("robin-hood", "two-priors")

    @classmethod
    def stands_for(cls, setup: Setup) -> Choice:
        """ROBIN-HOOD from 1.5 times its warm-up on, and in theory mode, which only it has; else two-priors.

        Two-priors also for a run in rounds: in four of them, at 50 calls a pair, ROBIN-HOOD's worst error was 1.2 times that of
        one call at a time, two-priors' 1.01 times (docs/batches.md).

        Two-priors also for a run that stops at an error: ROBIN-HOOD may never ask an arm again whose first ratings agreed, and
        the largest error then stays that arm's. On the paper's 1,016 pairs (gpt-4.1-nano, complexity) it was 0.33 from 50,000
        calls on, and estimated at 0.22 from 200,000 on; two-priors had it at 0.12 with 400,000, estimated and true.

        Raises:
            InputError: δ or a mode that ROBIN-HOOD refuses.
        """
        if setup.task is not None:
            return cls._deciding(setup, setup.task)
        if setup.matches is not None:
            return cls._pairwise(setup.matches)
        if setup.systems is not None:
            return Choice("paired", "for --objective compare, it asks prompts not asked yet before it repeats any")
        warm_up = RobinHood.of(setup).warm_up
        if cls.theorem(setup.mode) is not None:
            return Choice(cls.among[0], f"--mode {setup.mode} is its own")
        least = _WARM_UPS * warm_up
        hundredths = setup.budget * 100 // setup.arms
        calls = f"{hundredths // 100:,}" if hundredths >= 10_000 else f"{hundredths / 100:g}"
        budget = f"the budget is {calls} call{'s' * (calls != '1')} a score"
        after, at_once = cls.among
        if setup.to_target:
            return Choice(
                at_once, f"the run is to stop at an error, and {after} may leave one that comes down no further"
            )
        if setup.by_money:
            return Choice(
                at_once, f"of money, {after} would spend {warm_up} calls a score evenly before it looks at costs"
            )
        if setup.rounds is not None:
            return Choice(at_once, f"calls go out in rounds, where it does better than {after}")
        if setup.budget >= least * setup.arms:
            return Choice(after, f"{budget}, at least {_WARM_UPS:g} times its warm-up of {warm_up}")
        return Choice(at_once, f"{budget}, and {after}, whose warm-up is {warm_up}, is taken from {least:g} up")

    @staticmethod
    def _pairwise(matches: Matches) -> Choice:
        """The policy that is for what is wanted of comparisons."""
        if matches.wants_best:
            return Choice("duels", "for --decide best, it asks where the best response to a prompt is not clear")
        if matches.ranks_systems:
            return Choice("tournament", f"with {len(matches.names)} systems it asks what tells most of their order")
        return Choice("preferences", "it asks each comparison the more often the less certain its preference is")

    @classmethod
    def _deciding(cls, setup: Setup, task: Task) -> Choice:
        """The policy that is for decisions of this kind. InputError in theory mode, which has nothing to do with them."""
        if cls.theorem(setup.mode) is not None:
            raise InputError(
                f"--decide: not with --mode {setup.mode}, whose guarantee is that of scores; leave one of the two out"
            )
        if task.decision.is_best:
            return Choice("lucb", "for --decide best, it asks where the best response is not clear")
        return Choice("apt", "for --decide with thresholds, it asks where a side is not clear")

    @classmethod
    def theorem(cls, mode: str) -> int | None:
        """That of ROBIN-HOOD."""
        return RobinHood.theorem(mode)
