"""What manifests of earlier versions are made into, as they are read: functions in one list, each one step.

A step takes the content of manifest.json and returns what the next version would have written; it leaves alone what is so
already. What is written back still says the format that it was made with, so that the robin that made a run can go on with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from robin_cli.model.records import ORDERS, PREFERENCE

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


def name_what_is_preferred(content: Content) -> Content:
    """Before there were variants of a question, the two orders of a comparison stood in the place of attributes."""
    if content["attributes"] != [*ORDERS] or not content["settings"].get("pairwise"):
        return content
    prompt, scale = content["prompt"], content["scale"]
    attribute = prompt["criterion"]["attribute"] if "criterion" in prompt else PREFERENCE
    rubrics = [{**rubric, "attribute": attribute} for rubric in prompt.get("rubrics", ())[:1]]
    return {
        **content,
        "attributes": [attribute],
        "scale": scale if isinstance(scale, list) else {attribute: scale[ORDERS[0]]},
        "prompt": {**prompt, "rubrics": rubrics} if rubrics else prompt,
    }


MIGRATIONS: tuple[Callable[[Content], Content], ...] = (list_addresses, name_what_is_preferred)
