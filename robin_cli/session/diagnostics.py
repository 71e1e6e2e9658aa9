"""Early warnings about answers: a cached judge, one that cannot follow the format, one that rates all alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from robin_cli.model.errors import typed
from robin_cli.model.records import Judgment, counted

_SAME_ANSWERS = 20
_LOOKED_AT = 1_000
"""Pairs whose first answers are kept to compare with."""

_TELLING_LENGTH = 24
"""Shorter answers, such as a bare "Rating: 4", are often the same without a cache."""

_ENOUGH = 20
_UNPARSED_SHARE = 0.05
_ALIKE = 50
_ALIKE_ARMS = 10

_REMEDIES = {
    "truncated": "they were cut off: raise --max-tokens in a new run, above all for a model that thinks",
    "filtered": "the endpoint filters them: see which pairs with {export}",
    "refused": "the judge declines to rate them: another judge may not",
    "empty": "they have no text: is the model made for chat?",
}
_READ_THEM = "read some with {export}; --answers json or text, or another --model, may keep to the format in a new run"


class Diagnostics:
    """Looks at every judgment of a session, and warns once of each kind of trouble.

    Args:
        temperature: the run's; at 0, equal answers are expected.
        arms: the number of the run's arms.
        notify: gets a line per warning.
        run: the run directory, for the commands in a line.
        noun: "rating" or "verdict".
    """

    def __init__(
        self,
        *,
        temperature: float,
        arms: int,
        notify: Callable[[str], None],
        run: Path,
        noun: str = "rating",
    ) -> None:
        self._export = f"robin export {typed(run)} --what judgments"
        self._temperature = temperature
        self._noun = noun
        self._alike_arms = min(_ALIKE_ARMS, arms)
        self._notify = notify
        self._answers = 0
        self._reasons: Counter[str] = Counter()
        self._ratings: Counter[float] = Counter()
        self._arms_seen: set[int] = set()
        self._first_texts: dict[int, str] = {}
        self._repeated = 0
        self._open = {"repeats", "unparsed", "alike"}

    def look(self, arm: int, judgment: Judgment) -> None:
        """Look at another judgment of ``arm``."""
        if not self._open or not judgment.counts:
            return
        self._answers += 1
        if judgment.reason is not None:
            self._reasons[judgment.reason] += 1
        if judgment.value is not None:
            self._ratings[judgment.value] += 1
        for name, check in (
            ("repeats", self._repeats),
            ("unparsed", self._unparsed),
            ("alike", self._alike),
        ):
            if name in self._open and (line := check(arm, judgment)) is not None:
                self._open.discard(name)
                if line:
                    self._notify(line)

    def _repeats(self, arm: int, judgment: Judgment) -> str | None:
        """Return a warning, "" to end this check, None to go on with it."""
        if not self._temperature:
            return ""
        if judgment.value is None or len(judgment.text) < _TELLING_LENGTH:
            return None
        if arm not in self._first_texts:
            if len(self._first_texts) < _LOOKED_AT:
                self._first_texts[arm] = judgment.text
            return None
        if judgment.text != self._first_texts[arm]:
            return ""
        self._repeated += 1
        if self._repeated < _SAME_ANSWERS:
            return None
        return (
            f"{_SAME_ANSWERS} of {_SAME_ANSWERS} repeated calls got the same answer, to the letter, at temperature "
            f"{self._temperature:g}: is there a cache, or a fixed seed, between here and the judge? Repeated calls then bring "
            "nothing new; turn it off"
        )

    def _unparsed(self, _arm: int, _judgment: Judgment) -> str | None:
        unparsed = sum(self._reasons.values())
        if self._answers < _ENOUGH or unparsed <= _UNPARSED_SHARE * self._answers:
            return None
        reason = self._reasons.most_common(1)[0][0]
        return (
            f"{unparsed} of {self._answers} answers carry no {self._noun} ({counted(self._reasons, self._noun)}); "
            f"{_REMEDIES.get(reason, _READ_THEM).format(export=self._export)}. They are paid for and count"
        )

    def _alike(self, arm: int, _judgment: Judgment) -> str | None:
        self._arms_seen.add(arm)
        if len(self._ratings) > 1:
            return ""
        if sum(self._ratings.values()) < _ALIKE or len(self._arms_seen) < self._alike_arms:
            return None
        (rating,) = self._ratings
        return (
            f"the first {self._answers} answers, over {len(self._arms_seen)} pairs, all rate {rating:g}: does the judge read "
            f"the responses? Look at its questions (robin render) and its answers ({self._export})"
        )
