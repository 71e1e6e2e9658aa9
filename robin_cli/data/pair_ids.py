"""The id of a pair whose data gives it none."""

from __future__ import annotations

import hashlib


def pair_id_of(prompt: str, response: str) -> str:
    """The first 16 hex digits of the SHA-256 of prompt and response, the same on every machine.

    Each text is hashed as UTF-8, verbatim, after its length in bytes (8 bytes, big-endian), so that no two different
    pairs give the same bytes. Raises UnicodeEncodeError for half a surrogate pair, which UTF-8 cannot hold.
    """
    first, second = prompt.encode("utf-8"), response.encode("utf-8")
    text = len(first).to_bytes(8, "big") + first + len(second).to_bytes(8, "big") + second
    return hashlib.sha256(text).hexdigest()[:16]
