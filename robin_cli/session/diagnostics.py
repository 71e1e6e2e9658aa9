"""What a judge's answers show: a session ends if they never have a rating, and other trouble is reported once, and early."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from robin_cli.judges.bodies import one_line
from robin_cli.model.errors import EndpointError, Unrated, typed
from robin_cli.model.records import UNREADABLE, Judgment, counted

ANSWERS = 50
"""One of a judge's first so many answers in a session must have a rating."""

_UNREADABLE = 25
"""A session ends after so many replies in a row that cannot be read."""

_SAME_ANSWERS = 20
_LOOKED_AT = 1_000
"""Pairs whose first answers are kept to compare with."""

_TELLING_LENGTH = 24
"""Shorter answers, such as a bare "Rating: 4", are often the same without a cache."""

_ENOUGH, _UNPARSED_SHARE = 20, 0.05
_ALIKE, _ALIKE_ARMS = 50, 10
_EXCERPT = 160

_CURES = {
    "truncated": "they were cut off: raise --max-tokens",
    "empty": "they hold no text: raise --max-tokens if the model thinks first, or take one that is made for chat",
    "refused": "the judge declines: take another --model, or another --template",
    "filtered": "the endpoint filters them: take another --model or --base-url",
}
_CURE = "--answers json or text, or another --model, may keep to the format"
"""What helps against answers without a rating, by reason: in a new run, as a run's settings are fixed."""


class Diagnostics:
    """Looks at the answers of one judge in a session.

    Args:
        judge: its name, for messages; "" for a single judge.
        temperature: the run's; at 0, equal answers are expected.
        arms: the number of the judge's arms.
        notify: gets a line per warning.
        run: the run directory, for the commands in a line.
        noun: "rating" or "verdict".
    """

    def __init__(
        self,
        judge: str = "",
        *,
        temperature: float = 0.0,
        arms: int = 0,
        notify: Callable[[str], None] = lambda _: None,
        run: Path = Path(),
        noun: str = "rating",
    ) -> None:
        self._name, self._noun = f"{judge}: " if judge else "", noun
        self._export = f"robin export {typed(run)} --what judgments"
        self._temperature, self._notify = temperature, notify
        self._alike_arms = min(_ALIKE_ARMS, arms)
        self._answers = self._unread = self._repeated = self._tokens = 0
        self._reasons = Counter[str]()
        self._ratings = Counter[float]()
        self._arms_seen, self._first_texts = set[int](), dict[int, str]()
        self._example = ""  # an answer without a rating
        self._checks = [self._repeats, self._unparsed, self._alike]

    def look(self, arm: int, judgments: Sequence[Judgment]) -> None:
        """Look at the judgments of one request of ``arm``; failed calls are not answers.

        Raises:
            EndpointError: too many answers had no rating, or could not be read.
        """
        answers = [judgment for judgment in judgments if judgment.counts]
        for judgment in answers:
            self._answers += 1
            if judgment.value is None:
                self._reasons[judgment.reason or "missing"] += 1
                self._example = self._example or _beginning(judgment.text)
                self._tokens = max(self._tokens, judgment.completion_tokens or 0)
            else:
                self._ratings[judgment.value] += 1
            for check in list(self._checks):
                if (line := check(arm, judgment)) is not None:
                    self._checks.remove(check)
                    if line:
                        self._notify(f"{self._name}{line}")
        if answers:
            self._unread = self._unread + 1 if answers[0].reason == UNREADABLE else 0
            self._check_ratings(answers[0])

    def _check_ratings(self, first: Judgment) -> None:
        if self._unread >= _UNREADABLE:
            raise EndpointError(
                f"{self._name}{self._unread} replies in a row cannot be read, and count as paid for: "
                f"{_beginning(first.text)}; mend the server, then robin resume"
            )
        if self._ratings or self._reasons.total() < ANSWERS:
            return
        looks = f"None has any text, after up to {self._tokens:,} tokens"
        if self._example:
            looks = f'One of them: "{self._example}"'
        raise Unrated(
            f"{self._name}the first {self._reasons.total()} answers have no {self._noun}: "
            f"{counted(self._reasons, self._noun)}. {looks}; {self._cure}, in a new run. robin check shows a raw reply. If the "
            "server was at fault, mend it and go on with robin resume"
        )

    # Each check returns a warning, "" to end the check, None to go on with it.

    def _repeats(self, arm: int, judgment: Judgment) -> str | None:
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
        unparsed = self._reasons.total()
        if self._answers < _ENOUGH or unparsed <= _UNPARSED_SHARE * self._answers:
            return None
        return (
            f"{unparsed} of {self._answers} answers carry no {self._noun} ({counted(self._reasons, self._noun)}); "
            f"{self._cure}, in a new run. They are paid for and count; read some with {self._export}"
        )

    @property
    def _cure(self) -> str:
        return _CURES.get(self._reasons.most_common(1)[0][0], _CURE)

    def _alike(self, arm: int, _judgment: Judgment) -> str | None:
        self._arms_seen.add(arm)
        if len(self._ratings) > 1:
            return ""
        if self._ratings.total() < _ALIKE or len(self._arms_seen) < self._alike_arms:
            return None
        (rating,) = self._ratings
        return (
            f"the first {self._answers} answers, over {len(self._arms_seen)} pairs, all rate {rating:g}: does the judge read "
            f"the responses? Look at its questions (robin render) and its answers ({self._export})"
        )


def _beginning(text: str) -> str:
    """Return the beginning of an answer on one line, without characters that would control a terminal."""
    shown = one_line(text[: 4 * _EXCERPT])
    return shown if len(shown) <= _EXCERPT else f"{shown[:_EXCERPT]}…"
