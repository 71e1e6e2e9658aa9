"""Reasoning in responses, as models write it before their answer: counted, and removed if the user wants that."""

from __future__ import annotations

import re
from dataclasses import dataclass

from robin_cli.model.records import number_of

_REASONING = re.compile(
    r"\s*(?:<think(?:ing)?>|\[THINK\]).*?(?:</think(?:ing)?>|\[/THINK\]|\Z)\s*", re.DOTALL
)
_ENDED = re.compile(r"(?:(?!<think|\[THINK\]).)*?(?:</think(?:ing)?>|\[/THINK\])\s*", re.DOTALL)
"""Some templates begin the reasoning in the prompt, so that a response holds its end alone. Answers may name tags."""


@dataclass
class Thinking:
    """Removes reasoning from responses, or counts those that have some."""

    strip: bool = False
    count: int = 0

    def without(self, response: str) -> str:
        """Return the response, without the reasoning before its answer if that is to be removed."""
        if "think" not in response and "THINK" not in response:  # nearly always
            return response
        reasoning = _REASONING.match(response) or _ENDED.match(response)
        if reasoning is None:
            return response
        self.count += 1
        return response[reasoning.end() :] if self.strip else response

    def notes(self) -> list[str]:
        """Return a line for the user if a response has reasoning."""
        responses = number_of(self.count, "response")
        if not self.count:
            return []
        if self.strip:
            return [f"reasoning such as <think>…</think> was removed from {responses}"]
        return [
            f"{responses} with reasoning such as <think>…</think>, which the judge reads too; --strip-thinking removes it"
        ]
