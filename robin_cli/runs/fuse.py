"""A judge whose answers never hold a rating is asked no further: what it costs buys nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from robin_cli.errors import EndpointError
from robin_cli.records import Judgment, counted

ANSWERS = 50
"""Answers of one judge, from the beginning of a session, of which one at least must hold a rating."""

_EXCERPT = 160
_REMEDIES = {
    "truncated": "They were cut off: raise --max-tokens",
    "empty": "They hold no text: raise --max-tokens if the model thinks first, or take one that is made for chat",
    "refused": "The judge declines: take another --model, or another --template",
    "filtered": "The endpoint filters them: take another --model or --base-url",
}
_FORMAT = "Hold it to the format with --answer-format json_schema, or take another --model"


class Fuse:
    """Is shown the judgments of one judge in a session, until one holds a rating or it blows.

    Args:
        judge: its name, for the message; empty where there is only one.
    """

    def __init__(self, judge: str = "") -> None:
        self._said = f"{judge}: " if judge else ""
        self._reasons: Counter[str] = Counter()
        self._example = ""
        self._tokens = 0
        self._rated = False

    def look(self, judgments: Sequence[Judgment]) -> None:
        """Look at the judgments of one request; calls that failed are not answers.

        Raises:
            EndpointError: ANSWERS answers came, and none held a rating.
        """
        if self._rated:
            return
        for judgment in judgments:
            if judgment.rating is not None:
                self._rated = True
                return
            if judgment.counts:
                self._reasons[judgment.reason or "missing"] += 1
                self._example = self._example or _one_line(judgment.text)
                self._tokens = max(self._tokens, judgment.completion_tokens or 0)
        if self._reasons.total() >= ANSWERS:
            raise EndpointError(self._message())

    def _message(self) -> str:
        reason = self._reasons.most_common(1)[0][0]
        if self._example:
            looks = f'One of them: "{self._example}"'
        else:
            looks = f"None holds any text, after up to {self._tokens:,} tokens"
        return (
            f"{self._said}the first {self._reasons.total()} answers hold not one rating: {counted(self._reasons)}. {looks}. "
            f"{_REMEDIES.get(reason, _FORMAT)}, in a new run. Once the server is mended robin resume goes on with this one; "
            "--no-fuse goes on in any case"
        )


def _one_line(text: str) -> str:
    """The beginning of an answer without line ends, and without anything that would steer a terminal."""
    shown = " ".join("".join(mark if mark.isprintable() else " " for mark in text[: 4 * _EXCERPT]).split())
    return shown if len(shown) <= _EXCERPT else f"{shown[:_EXCERPT]}…"
