"""What an error suggests for data with other names: a flag that can be pasted."""

from __future__ import annotations

import difflib
import re
import shlex
from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING

from robin_cli.data.fields import (
    ASIDE,
    KNOWN,
    KNOWN_OF_TWO,
    KNOWN_RATINGS,
    MISSING,
    RESPONSES,
    take_step,
)
from robin_cli.data.rows import is_index
from robin_cli.model.errors import did_you_mean, option, shown
from robin_cli.model.records import SYSTEM_COLUMNS, number_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from robin_cli.data.fields import Field, Fields
    from robin_cli.data.rows import Row

_USUAL = {
    "prompt": "prompt question instruction input query post article document source context history",
    "reference": "reference gold target expected ideal",
    "system": "system model engine generator policy",
    "image": "image picture photo img",
    "response": "response answer output completion reply generation prediction summary decoded text",
    "response_a": "response_a response_1 answer_a output_1 completion_a chosen response1 text_a summary_a conversation_a "
    "response_0 answer_0 output_0 human_ref_a",
    "response_b": "response_b response_2 answer_b output_2 completion_b rejected response2 text_b summary_b conversation_b "
    "response_1 answer_1 output_1 human_ref_b",
    "system_a": "model_a generator_1 model_1 engine_a model1 chosen_model",
    "system_b": "model_b generator_2 model_2 engine_b model2 rejected_model",
}
"""Names in other datasets, the likeliest first. Errors suggest them; robin never takes them by itself."""

_CONVERSATIONS = ("chosen", "conversation_a")
"""Names of responses that often hold their prompt too."""
_QUESTIONS = frozenset(_USUAL["prompt"].split()[:5])
"""Names that certainly mean a prompt."""

_OURS = {*_USUAL, *KNOWN, *KNOWN_RATINGS, "pair_id"}
"""Known names for --columns. Other names are allowed, but a near miss of these is probably misspelt."""

_OF_NO_SYSTEM = """
    uid qid key index idx question_id prompt_id message_tree_id tree_state category topic task language lang split subset
    source date time timestamp turn judge winner label score rating annotator rater worker comment notes name title messages
    conversation conversations
"""
_NO_SYSTEM = {*_OF_NO_SYSTEM.split(), *" ".join(_USUAL.values()).split(), *_OURS}
"""Usual names of columns that hold no responses of a system of that name."""

_MOST_ASIDE = 6


def list_names(names: Sequence[str], most: int = 12) -> str:
    """Return the names of columns or systems for an error, the first ones of many."""
    listed = ", ".join(shown(name) or '""' for name in names[:most])
    return listed + ", …" * (len(names) > most) or "none"


def explain_missing(missing: Iterable[Field], names: Iterable[str], fields: Fields) -> str:
    """Return the message for missing fields: which were looked for, which there are, and a flag that may help."""
    missing, names = list(missing), list(islice(names, 1000))
    looked_for = " or ".join(f'"{shown(field.path)}"{_whose(field, fields)}' for field in missing)
    if {"pair_id", "score", "std_error"} <= set(names):
        return f"no field {looked_for}: these are exported scores; robin export --with-text adds the texts."
    step = ""
    if not fields.response.mapped and {fields.response, fields.other} & {*missing}:
        step = _compare_two(missing, names)
    return f"no field {looked_for}; found {list_names(names)}. {step or _name_fields(missing, names, fields)}"


def explain_short_list(row: Row, field: Field) -> str | None:
    """Return what is wrong with a path that leads past the end of a list; None if it does not."""
    for path in field.paths:
        value: object = row
        steps = path.split(".")
        for at, step in enumerate(steps):
            inner = take_step(value, step)
            if isinstance(value, list) and is_index(step) and inner is MISSING:
                before, items = shown(".".join(steps[:at])), number_of(len(value), "item")
                return f'field "{shown(path)}": "{before}" has {items}, and no {step} (they count from 0)'
            value = inner
    return None


def _whose(field: Field, fields: Fields) -> str:
    """Return which flag names a missing field, and what may be meant by it."""
    if field is fields.group:
        return f" ({option('--group', shown(field.path))})"
    if not field.mapped:
        swapped = [
            rated.name for rated in fields.ratings if rated.mapped and rated.path == field.path
        ]
        return f" (did you mean {field.path}={shown(swapped[0])}?)" if swapped else ""
    meant = "" if field.name in _OURS else did_you_mean(field.name, _OURS)
    return f" (--columns {shlex.quote(f'{field.name}={shown(field.path)}')}{meant})"


def _compare_two(missing: list[Field], names: list[str]) -> str:
    """Return the step for rows that hold two responses; "" if they seem to hold one."""
    if KNOWN_OF_TWO["response_a"][-1] in names:
        return "Each row holds two responses. Compare them: --pairwise."
    whole = [name.partition(".0.")[0] for name in names]  # also lists of messages
    by_lower = {name.lower().replace(" ", "_"): name for name in whole if _can_be_named(name)}
    sides = zip(*(_USUAL[name].split() for name in RESPONSES), strict=True)
    two = next((side for side in sides if by_lower.keys() >= {*side}), None)
    if two is None:
        return ""
    near = {field.name: _nearest(field, whole) for field in missing if field.name == "prompt"}
    if two[0] in _CONVERSATIONS and str(near.get("prompt")).lower() not in _QUESTIONS:
        near["prompt"] = None  # they hold it, and a "source" says where a row is from
    near |= {name: by_lower[side] for name, side in zip(RESPONSES, two, strict=True)}
    for name in SYSTEM_COLUMNS:
        usual = (by_lower[low] for low in _USUAL[name].split() if low in by_lower)
        near[name] = next(usual, None)
    columns = ",".join(f"{name}={path}" for name, path in near.items() if path not in (None, name))
    flag = f" --columns {shlex.quote(columns)}" if columns else ""
    return f"Each row holds two responses. Compare them: --pairwise{flag}."


def _name_fields(missing: list[Field], names: list[str], fields: Fields) -> str:
    """Return the step that names missing fields: the nearest names, or the columns of several systems."""
    taken = {path for field in fields.all if field not in missing for path in field.paths}
    usable = [name for name in names if _can_be_named(name)]
    free = [
        name
        for name in usable
        if not any(name == path or name.startswith(f"{path}.") for path in taken)
    ]
    columns: dict[str, list[str]] = {}
    flags, rest = [], ""
    for field in missing:
        is_group = field is fields.group
        near = _nearest(field, usable if is_group else free)
        if near is None and field is fields.response and not field.mapped:
            near = _side_by_side_in(free)
        if near is None:
            rest = ", NAME being the field that holds it"
        elif ASIDE in near:
            rest = ", if these columns hold the responses of a system each"
        elif near.lower() == "instruction" and (
            more := {"input", "context"} & {*free}
        ):  # Alpaca, Dolly
            rest = f'; a prompt is one field, so join "{min(more)}" to it first'
        if is_group:
            flags.append(option("--group", near or "NAME"))
        else:
            columns.setdefault(field.name, []).append(shown(near or "NAME", 200))
        free = [name for name in free if name != near]
    if columns:
        named = ",".join(f"{name}={ASIDE.join(paths)}" for name, paths in columns.items())
        flags.insert(0, f"--columns {shlex.quote(named)}")
    return f"Use {' and '.join(flags)}{rest}."


def _side_by_side_in(names: list[str]) -> str | None:
    """Return columns that may hold the responses of a system each, as --columns takes them; None if they are one or many."""
    # the members of one object, as in usage.prompt, are no systems; gpt-5.4 is a name
    begins = {name: re.split(r"\.(?!\d)", name)[0] for name in names}
    members = Counter(begins.values())
    systems = [
        name
        for name, begin in begins.items()
        if members[begin] == 1
        and ".0." not in name
        and name.lower() not in _NO_SYSTEM
        and not name.lower().endswith("_id")
    ]
    return ASIDE.join(systems) if 1 < len(systems) <= _MOST_ASIDE else None


def _can_be_named(name: str) -> bool:
    """Return whether --columns can hold the name, and a shell and a terminal leave it unchanged."""
    return bool(name) and name == name.strip() == shown(name, 200) and not {",", ASIDE} & {*name}


def _nearest(field: Field, names: list[str]) -> str | None:
    by_lower = {name.lower(): name for name in names}
    close = difflib.get_close_matches(field.path.lower(), by_lower, n=1)
    usual = (
        low
        for known in _USUAL.get(field.name, "").split()
        for low in by_lower
        if known in low.split(".")
    )
    near = next(iter(close), None) or next(usual, None)
    return by_lower[near] if near else None
