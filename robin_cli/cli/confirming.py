"""Asking on a terminal before anything goes to a host or into a folder that the user did not name."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from robin_cli.settings.table import Settings


def confirmed(settings: Settings) -> Settings:
    """``settings`` as the user's own word, where the user said yes to its hosts or its folder on a terminal; else as it was.

    Without a terminal, and after a no, it stays in doubt, and :func:`robin_cli.settings.addresses.api_keys` refuses it.
    """
    from robin_cli.render.text import plain
    from robin_cli.settings.addresses import doubtful_places
    from robin_cli.settings.trust import Source, question, remember

    on_terminal = sys.stdin is not None and sys.stdin.isatty() and sys.stderr is not None and sys.stderr.isatty()
    if settings.source.kind == "user" or not on_terminal or not (doubtful := doubtful_places(settings)):
        return settings
    print(f"robin: {plain(question(settings.source, doubtful), keep='')}", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        return settings
    if not remember(doubtful):
        print("note: the answer could not be kept in your configuration folder", file=sys.stderr)
    return replace(settings, source=Source(settings.source.place))
