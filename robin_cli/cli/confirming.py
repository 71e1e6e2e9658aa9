"""Asking on a terminal before anything goes to a host that the user did not name."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from robin_cli.config import RunConfig


def confirmed(config: RunConfig) -> RunConfig:
    """``config`` as the user's own word, where the user said yes to its hosts on a terminal; else as it was.

    Without a terminal, and after a no, it stays in doubt, and :func:`robin_cli.judges.api_keys` refuses it.
    """
    from robin_cli.judges import doubtful_hosts
    from robin_cli.output.text import plain
    from robin_cli.trust import Source, question, remember

    on_terminal = sys.stdin is not None and sys.stdin.isatty() and sys.stderr is not None and sys.stderr.isatty()
    if config.source.kind == "user" or not on_terminal or not (doubtful := doubtful_hosts(config)):
        return config
    print(f"robin: {plain(question(config.source, doubtful), keep='')}", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        return config
    if not remember(doubtful):
        print("note: the answer could not be kept in your configuration folder", file=sys.stderr)
    return replace(config, source=Source(config.source.place))
