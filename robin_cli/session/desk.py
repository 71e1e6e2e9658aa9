"""The desk of a session: it makes questions of calls and judgments of answers, and watches over the judges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from robin_cli.ask.asking import Interview
from robin_cli.model.exchange import Failure, Question, Reply
from robin_cli.model.records import Judgment
from robin_cli.model.space import ArmSpace
from robin_cli.run.fold import Fold
from robin_cli.run.segments import judgments_by_arm
from robin_cli.run.writer import RunWriter
from robin_cli.session.diagnostics import Diagnostics
from robin_cli.session.health import STALL_S, Health
from robin_cli.session.inputs import recorded_prompts
from robin_cli.session.planner import Ticket
from robin_cli.settings.resolve import Resolved

_MOST_DRAWS = 2**31


class RunDesk:
    """Makes questions of tickets and judgments of replies, and stores judgments in the run.

    Args:
        fold: the fold of the judgments on disk.
        notify: gets lines about a judge for the user.

    Attributes:
        names: the judges' names for messages; [""] for a single judge.
    """

    def __init__(self, store: RunWriter, fold: Fold, notify: Callable[[str], None]) -> None:
        manifest, space = store.manifest, store.space
        prompts = recorded_prompts(manifest)
        noun = prompts.kind.noun
        self._asks_together = list(map(prompts.asks_together, manifest.answers))
        self._store, self._space, self._arms = store, space, fold.arms
        self._reasons = fold.reasons  # by arm, why its last answer had no rating
        self._interview = Interview(
            prompts, space, answers=manifest.answers, notify=notify, seed=manifest.seed
        )
        self.names = names = space.judges if len(space.judges) > 1 else [""]
        self._diagnostics = [
            Diagnostics(
                name,
                # a decision model draws nothing: its answers may be equal
                temperature=manifest.settings["temperature"] * (answers != "decisions"),
                arms=int((space.judge == 0).sum()),
                notify=notify,
                run=store.path,
                noun=noun,
            )
            for name, answers in zip(names, manifest.answers, strict=True)
        ]

    def health(self, resolved: Resolved) -> list[Health]:
        """Return the health of each judge at the begin of a session."""
        stall_s, pairs = max(STALL_S, 2 * resolved.timeout_s), len(self._store.pairs)
        return [
            Health(name, at_endpoint=resolved.at_endpoints, stall_s=stall_s, pairs=pairs)
            for name in self.names
        ]

    def judge_of(self, arm: int) -> int:
        """Return the number of an arm's judge."""
        return self._space.judge.item(arm)

    def pair_of(self, arm: int) -> int:
        """Return the number of an arm's pair."""
        return self._space.pair.item(arm)

    def write(self, judgments: Sequence[Judgment]) -> None:
        """Hand judgments to the operating system."""
        self._store.write(judgments)

    def record_under_way(self, calls: int) -> None:
        """Record in the run that up to ``calls`` calls are under way."""
        self._store.set_manifest(self._store.manifest.with_last_session(in_flight=calls))

    def sync(self) -> None:
        """Wait until all that was written is on disk; called in a thread."""
        self._store.sync()

    def retired(self) -> Mapping[str, int]:
        """Return the number of arms that were given up, by reason."""
        return Counter(why for arm, why in self._reasons.items() if self._arms.is_retired[arm])

    def asked_along(self, arm: int) -> Sequence[int]:
        """Return the arms that a request for ``arm`` may ask too, itself included."""
        return self._space.asked_along(arm) if self._asks_together[self.judge_of(arm)] else (arm,)

    def question(self, ticket: Ticket, *others: Ticket) -> Question:
        """Return the question for a request: of one ticket, or of several of one pair and judge."""
        arms = [other.arm for other in (ticket, *others)] if others else ()
        return self._interview.question(self._store.pairs[self.pair_of(ticket.arm)], *ticket, arms)

    def judgments(self, ticket: Ticket, outcome: Reply | Failure) -> list[Judgment]:
        """Return the judgments in a reply, or the one that records a failure."""
        return self._interview.judgments(ticket.arm, ticket.draw, outcome)

    def unread(self, ticket: Ticket, reply: Reply) -> list[Judgment]:
        """Return the judgments of a reply that cannot be read."""
        return self._interview.unread(ticket.arm, ticket.draw, reply)

    def look(self, arm: int, judgments: Sequence[Judgment]) -> None:
        """Look at judgments that are on disk. EndpointError if a judge never gives a rating."""
        judge = self._space.judge.item(arm)
        if (reason := judgments[-1].reason) is not None:
            self._reasons[arm] = reason
        if reason == "truncated" and not judgments[-1].counts:
            self._record_longer(judgments[-1].judge)
        self._diagnostics[judge].look(arm, judgments)

    def _record_longer(self, judge: str) -> None:
        """Make later sessions allow longer answers from the start."""
        known = self._store.manifest.data.get("longer_answers", [])
        if judge not in known:
            self._store.set_manifest(self._store.manifest.with_data(longer_answers=[*known, judge]))


def judged_calls(store: RunWriter, space: ArmSpace) -> Callable[[int, int], bool]:
    """Return a function that tells whether a call, by arm and draw, has a judgment on disk."""
    parts = [
        np.unique(arm * _MOST_DRAWS + judgments["draw"].to_numpy())
        for arm, judgments in judgments_by_arm(store.path, space, ["draw"])
    ]
    keys = np.unique(np.concatenate([np.empty(0, dtype=np.int64), *parts]))

    def is_judged(arm: int, draw: int) -> bool:
        at = int(np.searchsorted(keys, arm * _MOST_DRAWS + draw))
        return at < len(keys) and int(keys[at]) == arm * _MOST_DRAWS + draw

    return is_judged
