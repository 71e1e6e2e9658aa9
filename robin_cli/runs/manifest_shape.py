"""What a manifest may hold: it may be another's, and whatever stands in it must not surprise what reads it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from robin_cli.config import checked_record
from robin_cli.errors import InputError
from robin_cli.judges import judge_name
from robin_cli.judging.rubric_files import MOST_LEVELS

_TEXT, _COUNT = (str,), (int,)
_NEEDED = (
    "base_url",
    "model",
    "scheduler",
    "delta",
    "mode",
    "objective",
    "temperature",
    "top_p",
    "max_tokens",
    "extra_body",
)
_ENDS = [_COUNT, _COUNT]
_FARTHEST = 2**31
_SHAPE: Mapping[str, Any] = {
    "settings": {"*": (object,)},
    "budget": _COUNT,
    "attributes": [_TEXT, ...],
    "scale": (list, dict),
    "data": {
        "source": _TEXT,
        "sha256": _TEXT,
        "pairs": _COUNT,
        "skipped?": _COUNT,
        "columns?": {"*": _TEXT},
        "left_out?": {"*": _COUNT},
        "first_left_out?": [_TEXT, ...],
        "files?": [[_TEXT, _TEXT], ...],
        "run_id?": _TEXT,
        "rescued?": _COUNT,
        "*": (object,),
    },
    "prompt": {
        "sha256": _TEXT,
        "rubric_files?": [_TEXT, ...],
        "template_file?": (str, type(None)),
        "template?": _TEXT,
        "request?": _TEXT,
        "rubrics?": [
            {
                "attribute": _TEXT,
                "title": _TEXT,
                "human": _TEXT,
                "scale": {"low": _COUNT, "high": _COUNT},
                "levels": [[_TEXT, _TEXT], ...],
                "examples": [{"response": _TEXT, "rating": _COUNT, "feedback": _TEXT, "prompt?": _TEXT}, ...],
            },
            ...,
        ],
        "*": (object,),
    },
    "seed": (int, type(None)),
    "sessions": [{"started_at": _TEXT, "ended_at?": _TEXT, "in_flight?": (int, type(None)), "*": (object,)}, ...],
    "created_at": _TEXT,
    "versions": {"*": _TEXT},
    "format": _COUNT,
}
"""Types, in tuples of which one must fit; [shape, ...] for any number; of objects, "name?" may lack, "*" is any other name."""


def check_manifest(content: Mapping[str, Any]) -> None:
    """Raise ValueError, with the place, where the JSON of a manifest is not what robin writes."""
    _check(content, _SHAPE, "")
    _check_settings(content["settings"], "settings", needed=_NEEDED)
    for number, session in enumerate(content["sessions"], 1):
        _check_settings(session, f"session {number}")
    _check_settings({name: content[name] for name in ("budget", "seed")}, "manifest")
    _check_scales(content["scale"], content["attributes"], content["prompt"].get("rubrics"))
    judges = content["settings"]["model"]
    for name, several in (("attributes", content["attributes"]), ("model", judges)):
        if not several or (isinstance(several, list) and len(set(several)) < len(several)):
            raise ValueError(f"{name}: none, or one of them twice")
    for session in content["sessions"]:
        datetime.fromisoformat(session["started_at"])
        if session.get("model") and _names(session["model"]) != _names(judges):
            raise ValueError("sessions: judges that are not this run's")


def _names(models: str | list[str]) -> set[str]:
    return set(map(judge_name, [models] if isinstance(models, str) else models))


def _check_scales(scale: Any, attributes: list[str], rubrics: list[dict[str, Any]] | None) -> None:
    each_ends = [scale if isinstance(scale, list) else scale.get(attribute) for attribute in attributes]
    for ends in each_ends:
        _check(ends, _ENDS, "scale")
        if not 0 < ends[1] - ends[0] < MOST_LEVELS or abs(ends[0]) > _FARTHEST:
            raise ValueError(f"scale: {ends[0]} to {ends[1]} is none")
    asked = [(each["attribute"], [each["scale"]["low"], each["scale"]["high"]]) for each in rubrics or ()]
    if rubrics is not None and asked != list(zip(attributes, each_ends, strict=True)):
        raise ValueError("prompt: its rubrics are not those of the attributes")


def _check_settings(settings: Mapping[str, Any], place: str, *, needed: tuple[str, ...] = ()) -> None:
    for name in needed:
        if settings.get(name) is None:
            raise ValueError(f"{place}: no {name}")
    try:
        checked_record(settings, place)
    except InputError as error:
        raise ValueError(str(error)) from None


def _check(value: object, shape: Any, place: str) -> None:
    if isinstance(shape, tuple):
        fits = object in shape or type(value) in shape
        if not fits:
            raise ValueError(f"{place}: not what belongs there")
    elif isinstance(shape, list):
        parts = value if isinstance(value, list) else None
        if parts is None or (shape[-1] is not ... and len(parts) != len(shape)):
            raise ValueError(f"{place}: no such list as belongs there")
        for number, part in enumerate(parts):
            _check(part, shape[0], f"{place}, {number + 1}")
    elif not isinstance(value, dict):
        raise ValueError(f"{place or 'manifest'}: no object")  # noqa: TRY004  # the file is wrong, not the caller
    else:
        _check_fields(value, shape, place)


def _check_fields(value: Mapping[str, Any], shape: Mapping[str, Any], place: str) -> None:
    for name in shape:
        if name not in value and name != "*" and not name.endswith("?"):
            raise ValueError(f"{place and place + ': '}no {name}")
    for name, part in value.items():
        of_it = shape.get(name, shape.get(f"{name}?", shape.get("*")))
        if of_it is None:
            raise ValueError(f"{place and place + ': '}{name[:80]} is not known")
        _check(part, of_it, f"{place and place + ': '}{name[:80]}")
