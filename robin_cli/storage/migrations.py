"""Migrations of manifests of earlier versions, applied as they are read: a list of functions, one per step.

A step takes the content of manifest.json and returns what the next version would have written; newer content it returns
unchanged. The format number stays, so that the version that made a run can go on with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from robin_cli.model.records import ORDERS, PREFERENCE

_SEVERAL = ("base_url", "model", "api_key_env", "price_in", "price_out")

Content = dict[str, Any]


def list_addresses(content: Content) -> Content:
    """Make lists of addresses and models: before panels of judges, runs and sessions had one value of each, or none."""
    settings = content["settings"]
    if isinstance(url := settings.get("base_url"), str):
        settings = {**settings, "base_url": [url]}
    return {
        **content,
        "settings": settings,
        "sessions": [_listed(session) for session in content["sessions"]],
    }


def _listed(session: Content) -> Content:
    values = {name: session[name] for name in _SEVERAL if name in session}
    lists = {
        name: [] if value is None else value if isinstance(value, list) else [value]
        for name, value in values.items()
    }
    return session | lists


def name_what_is_preferred(content: Content) -> Content:
    """Name the attribute of comparisons: before questions had variants, their two orders stood in its place."""
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
