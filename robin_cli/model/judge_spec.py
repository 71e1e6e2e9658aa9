"""A judge as a value: its name, addresses, key and prices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

WITHOUT_KEY = "none"
"""The key that is sent where none is needed."""


@dataclass(frozen=True, slots=True)
class JudgeSpec:
    """A judge that a session may ask.

    Attributes:
        name: the model's name.
        base_urls: its addresses, at least one; a stand-in for a function or a package's judge.
        api_key_env: the variable that holds the key; ``-`` for no key.
        key: the key itself, the same at each address.
        prices: price_in, price_out and maybe price_cached in US dollars for a million tokens;
            empty for those of the price list.
        answers: how it answers: text, json, logprobs or decisions.
    """

    name: str
    base_urls: tuple[str, ...]
    api_key_env: str
    key: str = field(default=WITHOUT_KEY, repr=False)
    prices: Mapping[str, float] = field(default_factory=dict)
    answers: str = "text"

    @property
    def has_key(self) -> bool:
        """Whether a key is sent to its addresses."""
        return self.key != WITHOUT_KEY
