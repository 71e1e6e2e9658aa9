"""What manifests of earlier versions are made into, as they are read: functions in one list, each one step.

A step takes the content of manifest.json and returns what the next version would have written; it leaves alone what is so
already. What is written back still says the format that it was made with, so that the robin that made a run can go on with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_SEVERAL = ("base_url", "model", "api_key_env", "price_in", "price_out")

Content = dict[str, Any]


def list_addresses(content: Content) -> Content:
    """Before panels of judges, a run had one address, and a session one value of each, or none."""
    settings = content["settings"]
    if isinstance(url := settings.get("base_url"), str):
        settings = {**settings, "base_url": [url]}
    return {**content, "settings": settings, "sessions": [_listed(session) for session in content["sessions"]]}


def _listed(session: Content) -> Content:
    values = {name: session[name] for name in _SEVERAL if name in session}
    lists = {
        name: [] if value is None else value if isinstance(value, list) else [value] for name, value in values.items()
    }
    return session | lists


MIGRATIONS: tuple[Callable[[Content], Content], ...] = (list_addresses,)
