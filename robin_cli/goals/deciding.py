"""What goals of decisions have in common: they are watched by how many decisions are likely wrong, and say so."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robin_cli.goals.facts import Fact, line
from robin_cli.goals.stopping import StoppingRule, reached
from robin_cli.model.arms import Arms, FloatArray, IntArray
from robin_cli.model.decision import BEST, KEEP, UNDECIDED
from robin_cli.model.records import SYSTEM_COLUMN, number_of
from robin_cli.policies.milestones import TEST_GROWTH
from robin_cli.policies.task import Task
from robin_cli.run.reader import RunReader
from robin_cli.show.fitting import told_apart
from robin_cli.show.text import one_line
from robin_cli.show.words import finite, share_text
from robin_cli.stats.decided import Decided
from robin_cli.stats.likely_wrong import share_of
from robin_cli.stats.pairwise_decisions import Best

SHOWN = 3
"""The number of winners in an answer."""
_PROMPT = 28
"""The width of a prompt in it, in cells."""


class WithDecisions(ABC):
    """The part of a goal of decisions, each likely wrong with a chance that a run knows."""

    decides = True

    @property
    @abstractmethod
    def first_test(self) -> int:
        """The calls after which a run may be good enough."""

    @abstractmethod
    def decided(self, arms: Arms) -> tuple[str, FloatArray]:
        """Return what is decided, in words, and the chance that each decision is wrong; ``arms`` may change meanwhile."""

    @abstractmethod
    def is_good_enough(self, arms: Arms, target: float) -> bool:
        """Return whether at most the share ``target`` of the decisions is likely wrong."""

    def is_reached(self, arms: Arms, target: float) -> bool:
        return target > 0 and self.is_good_enough(arms, target)

    def stopping(self, target: float) -> StoppingRule:
        return reached(lambda arms: self.is_reached(arms, target), self.first_test, TEST_GROWTH)

    def standing(self, arms: Arms, target: float) -> list[Fact]:
        del target
        kept, chances = self.decided(arms)
        wrong = number_wrong(chances, "decision")
        return [
            line("decided", kept),
            Fact("likely_wrong_share", share_of(chances), wrong, "likely wrong"),
        ]


def certainty_facts(
    chances: FloatArray, target: float, sure: NDArray[np.bool_] | None, error_rate: float | None
) -> dict[str, Any]:
    facts = {
        "likely_wrong": float(np.nansum(chances)),
        "likely_wrong_share": finite(share_of(chances)),
        "likely_wrong_of": int((~np.isnan(chances)).sum()),
        "target_wrong": target,
    }
    if sure is not None:
        facts |= {"certified": int(sure.sum()), "error_rate": error_rate}
    return facts


def decision_facts(decided: Decided, target: float) -> dict[str, Any]:
    """Return the decisions of a run as JSON; ``target``: the share likely wrong at which it ends, 0 for none."""
    task, decision = decided.task, decided.task.decision
    return {
        "of": decided.decisions,
        "each": _noun(task),
        **decided.tally(),
        **certainty_facts(decided.likely_wrong, target, decided.certified, decision.error_rate),
        "margins": dict(zip(task.space.attributes, decision.margins, strict=True)),
    }


def decided_lines(decided: Decided) -> list[str]:
    task, noun = decided.task, "" if decided.task.decision.is_best else "decision"
    head = f"{kept_text(task, decided.tally())}; {wrong_text(decided.likely_wrong, noun)}"
    return [head, *certified_lines(decided.certified, things(task), task.decision.error_rate)]


def kept_text(task: Task, tally: Mapping[str, int]) -> str:
    unknown = tally[UNDECIDED]
    if not task.decision.is_best:
        unrated = f", {unknown:,} not rated" if unknown else ""
        return f"kept {tally[KEEP]:,} of {task.decisions:,}{unrated}"
    rated = f"{tally[BEST]:,} of " if unknown else ""
    return f"found the best of {rated}{things(task)}"


def wrong_text(chances: FloatArray, noun: str = "") -> str:
    """Return how many decisions are likely wrong, in a clause; see :func:`number_wrong`."""
    verb = "are" if round(float(np.nansum(chances))) > 1 else "is"
    return f"{number_wrong(chances, noun)} {verb} likely wrong"


def number_wrong(chances: FloatArray, noun: str = "") -> str:
    """Return how many decisions are likely wrong: "about 2 of the 300 decisions".

    Args:
        chances: that each is wrong; nan if it is unknown.
        noun: a decision; "" for none.
    """
    known = chances[~np.isnan(chances)]
    count = round(float(known.sum()))
    number = f"about {count:,}" if count else "fewer than 1"
    return f"{number} of the {number_of(len(known), noun) if noun else f'{len(known):,}'}"


def certified_lines(
    sure: NDArray[np.bool_] | None, things: str, error_rate: float | None
) -> list[str]:
    """Return how many of ``things`` are certified, and the promise; empty without --certify."""
    if sure is None or error_rate is None:
        return []
    if not sure.any():
        return [f"none of {things} is certified yet"]
    return [f"{int(sure.sum()):,} of {things} certified ({promise(error_rate)})"]


def promise(error_rate: float) -> str:
    return f"at most {100 * error_rate:g} % of these wrong on average"


def margin_text(task: Task) -> str:
    margins = [f"{margin:g}" for margin in task.decision.margins]
    if len({*margins}) == 1:
        return f"margin {margins[0]}"
    named = zip(margins, task.space.attributes, strict=True)
    return "margins " + ", ".join(f"{margin} {name}" for margin, name in named)


def target_lines(share: float, target: float) -> list[Fact]:
    """Return a line on the share that is likely wrong beside the ``target`` at which the run ends; empty without one."""
    if not target:
        return []
    now = "not known" if math.isnan(share) else share_text(share)
    if share > target and now == share_text(target):
        now = f"{100 * share:.3g} %"
    stands = "reached" if share <= target else "not reached"
    goal = f"at most {share_text(target)} of the decisions likely wrong"
    return [line("target", f"{goal}: {stands} ({now})")]


def wrong_then(wrong: float, decisions: float) -> str:
    """Return the share of wrong decisions of simulated runs, in words; no share is less than so many ``decisions`` show."""
    # of n events without one that is wrong, 95 % confidence shows less than 3/n
    share = share_text(wrong) if wrong else f"fewer than {share_text(3.0 / decisions)}"
    return f"{share} of the decisions are wrong"


def things(task: Task) -> str:
    """Return the decisions in words with their number: "60 pairs"."""
    several = task.decision.is_best and len(task.space.attributes) > 1
    return number_of(task.decisions, _noun(task)) + " × attributes" * several


def _noun(task: Task) -> str:
    return "group" if task.decision.is_best else "pair"


def best_facts(best: Best, target: float, error_rate: float) -> dict[str, Any]:
    sure = certainty_facts(best.likely_wrong, target, best.certified, error_rate)
    return {"of": len(best.prompt), "leading": int((best.leader >= 0).sum()), **sure}


def best_text(best: Best) -> str:
    leading, prompts = int((best.leader >= 0).sum()), number_of(len(best.prompt), "prompt")
    some = "" if leading == len(best.prompt) else f"{leading:,} of "
    return f"found the best of {some}{prompts}"


def names_of(run: RunReader, pairs: IntArray) -> list[str]:
    """Return the names of the systems of some responses, or the ids of these without one."""
    has_systems = SYSTEM_COLUMN in run.column_names
    systems = run.column(SYSTEM_COLUMN) if has_systems else [None] * len(run.pair_ids)
    return [systems[pair] or run.pair_ids[pair] for pair in pairs.tolist()]


def winners_text(run: RunReader, places: IntArray, names: Sequence[str], column: str) -> str:
    """Return the first winners as "prompt → winner".

    Args:
        places: a pair of each prompt or group, shape (prompts,).
        names: the winners of the first SHOWN of them.
        column: of the pairs, shown for the prompt.
    """
    wanted = places[:SHOWN].tolist()
    texts, start = dict[int, str](), 0
    for part in run.pairs.texts(column):
        texts |= {
            place: one_line(part[place - start].as_py())
            for place in wanted
            if start <= place < start + len(part)
        }
        start += len(part)
        if len(texts) == len({*wanted}):
            break
    shown = told_apart([texts[place] for place in wanted], range(len(wanted)), _PROMPT)
    winners = [f"{prompt} → {one_line(name)}" for prompt, name in zip(shown, names, strict=True)]
    more = [f"and {len(places) - SHOWN:,} more"] if len(places) > SHOWN else []
    return "; ".join([*winners, *more])
