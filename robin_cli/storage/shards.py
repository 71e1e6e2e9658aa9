"""Shards, runs on parts of one data set, and the checks that they can become one run."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from robin_cli.model.errors import InputError, RunError, StorageError, shown, typed
from robin_cli.model.records import GROUP_COLUMN, OTHER_COLUMN, SYSTEM_COLUMNS, number_of
from robin_cli.questions.rubrics import PromptSet
from robin_cli.storage.batches import read_batches
from robin_cli.storage.layout import PAIRS, VARIANCES
from robin_cli.storage.locking import left_alone
from robin_cli.storage.manifest import FILE, Manifest, identity, read_manifest
from robin_cli.storage.pair_files import read_column_names, read_pair_batches
from robin_cli.storage.reader import StoredRun

_SHOWN = 60
_NAMED = 4
_OF_A_PART = frozenset(
    {"data (SHA-256)", "limit", "prompt (SHA-256)", "scale", "scheduler", "variances"}
)
"""Parts of a run's identity that may differ between shards, or that have a comparison of their own."""


class Shard(StoredRun):
    """A run on a part of the data."""

    @cached_property
    def pair_ids(self) -> pa.ChunkedArray:
        """The ids of its pairs. StorageError if they cannot be read, or one is there twice."""
        ids = self.pairs.ids.column
        if not len(ids):
            raise StorageError(f"{self.path / PAIRS}: holds no pairs; restore it from a copy")
        if twice := _twice(ids):
            raise StorageError(
                f"{self.path / PAIRS}: holds {shown(twice[0])} twice; restore it from a copy"
            )
        return ids

    @cached_property
    def prompts(self) -> PromptSet | None:
        """The run's own copy of its prompts; None if an older version made the run. RunError if the copy was changed."""
        record = self.manifest.prompt
        if "template" not in record:
            return None
        try:
            prompts = PromptSet.from_record(record, pairwise=self.manifest.is_pairwise)
        except (InputError, KeyError, TypeError, ValueError) as error:
            raise RunError(
                f"{self.path / FILE}: its prompts cannot be read ({error}); restore it from a copy"
            ) from None
        if prompts.sha256 != record["sha256"]:
            raise RunError(
                f"{self.path / FILE}: its template and rubrics are not those that the run was made with (their SHA-256 "
                "differs); restore the file from a copy"
            )
        return prompts


@contextmanager
def opened(paths: Sequence[Path]) -> Iterator[list[Shard]]:
    """Open the runs at ``paths``, and keep other processes from them during the context.

    Raises:
        InputError: there is none, or one is named twice.
        RunError: one is not a run, a process is at work on it, or it waits for batches.
    """
    if not paths:
        raise InputError("robin merge: name the runs to be merged")
    shards = [Shard(path, read_manifest(path)) for path in paths]
    _check_different(shards)
    with ExitStack() as stack:
        for shard in shards:
            stack.enter_context(left_alone(shard.path))
            if waiting := [each for each in read_batches(shard.path).values() if each.is_open]:
                raise RunError(
                    f"{shard.path}: {number_of(len(waiting), 'batch').replace('batchs', 'batches')} of it may still be "
                    f"answered, and would be lost; take in what comes first: robin resume {typed(shard.path)}"
                )
        yield [
            Shard(each.path, read_manifest(each.path)) for each in shards
        ]  # read again, now that nobody writes


def _check_different(shards: Sequence[Shard]) -> None:
    """Raise InputError if two of ``shards`` are the same run, or copies of it."""
    seen: dict[object, Path] = {}
    for shard in shards:
        for key in filter(None, (shard.path.resolve(), shard.manifest.run_id)):
            first = seen.setdefault(key, shard.path)
            if first is not shard.path:
                how = (
                    "is named twice"
                    if shard.path.resolve() == first.resolve()
                    else f"is a copy of {first}, the same run"
                )
                raise InputError(
                    f"{shard.path}: {how}; its answers would count twice: name each run once"
                )


def check_together(shards: Sequence[Shard]) -> None:
    """Raise InputError if the settings of ``shards`` differ, with a line for each difference."""
    found = [identity(shard.manifest) for shard in shards]
    for shard, own in zip(shards, found, strict=True):
        own["budget"] = "judge calls" if shard.manifest.budget_usd is None else "US dollars"
        own["variances"] = (
            "none to begin with" if own.get("variances") is None else "an earlier run's"
        )
    names = sorted({name for own in found for name in own} - _OF_A_PART | {"variances"})
    differing: dict[str, Sequence[object]] = {
        name: values for name in names if _differ(values := [own.get(name) for own in found])
    }
    differing |= (
        _differing_scales(shards) | _differing_prompts(shards) | _differing_schedulers(shards)
    )
    differing = differing or _differing_files(shards)
    if differing:
        lines = [f"  {name}: {_grouped(shards, values)}" for name, values in differing.items()]
        raise InputError(
            "these are not shards of one run: their settings differ\n"
            + "\n".join(lines)
            + "\nname runs that were made with the same settings; robin compare shows others side by side"
        )


def _differ(values: Sequence[object]) -> bool:
    return any(value != values[0] for value in values)


def _differing_scales(shards: Sequence[Shard]) -> dict[str, Sequence[object]]:
    """Return the scales that differ, by attribute; nothing if the attributes differ."""
    if _differ([shard.manifest.attributes for shard in shards]):
        return {}
    of_each = zip(*(shard.manifest.scales for shard in shards), strict=True)
    named = zip(shards[0].manifest.attributes, of_each, strict=True)
    return {f"scale of {attribute}": scales for attribute, scales in named if _differ(scales)}


def _differing_prompts(shards: Sequence[Shard]) -> dict[str, Sequence[object]]:
    """Return the parts of the question that differ: the template, the request added to it, each rubric."""
    prompts = [shard.prompts for shard in shards]  # RunError for a changed copy
    digests = [shard.manifest.prompt["sha256"] for shard in shards]
    if not _differ(digests):
        return {}
    parts = [_parts(each) for each in prompts if each is not None]
    names = (
        [name for name in parts[0] if all(name in each for each in parts)]
        if len(parts) == len(shards)
        else []
    )
    differing = {
        name: list(map(_brief, values))
        for name in names
        if _differ(values := [each[name] for each in parts])
    }
    return {**differing} if differing else {"prompt (SHA-256)": [digest[:12] for digest in digests]}


def _parts(prompts: PromptSet) -> Mapping[str, str]:
    record = prompts.record
    parts = {"template": record["template"], "answer request": record.get("request", "")}
    parts |= {
        f"rubric of {name}": f"{each.scale} {each.text}" for name, each in prompts.rubrics.items()
    }
    criterion = prompts.criterion
    return parts | {
        "criterion": "" if criterion is None else f"{criterion.attribute} {criterion.text}"
    }


def _brief(text: str) -> str:
    """Return the beginning of a text with its length and digest."""
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    return f'"{shown(" ".join(text.split()), _SHOWN)}" ({number_of(len(text), "character")}, SHA-256 {digest})'


def _differing_schedulers(shards: Sequence[Shard]) -> dict[str, Sequence[object]]:
    """Return the schedulers if they differ; robin's own choices, which depend on the budget, may."""
    own = [shard.manifest.settings["scheduler"] for shard in shards]
    asked = [scheduler_asked(shard.manifest) for shard in shards]
    return {"scheduler": own} if _differ(own) and _differ(asked) else {}


def scheduler_asked(manifest: Manifest) -> str:
    """Return the scheduler that the user asked for, such as auto; robin may have chosen the run's own for it."""
    return str(manifest.data.get("scheduler_asked") or manifest.settings["scheduler"])


def _differing_files(shards: Sequence[Shard]) -> dict[str, Sequence[object]]:
    """Return parts of the data that some shards have and others lack, and that a merged run needs from all or none."""
    wanted = {
        "groups of pairs": [GROUP_COLUMN in shard.pairs.has for shard in shards],
        "second responses": [OTHER_COLUMN in shard.pairs.has for shard in shards],
        "variances to begin with": [(shard.path / VARIANCES).exists() for shard in shards],
    }
    if len(shards[0].manifest.kind.variants) > 1:
        wanted["names of systems"] = [
            set(SYSTEM_COLUMNS) <= set(read_column_names(shard.path)) for shard in shards
        ]
    return {
        name: [("none", "some")[each] for each in has]
        for name, has in wanted.items()
        if _differ(has)
    }


def _grouped(shards: Sequence[Shard], values: Sequence[object]) -> str:
    """Return a text with each value and the runs that have it."""
    groups: list[tuple[object, list[Path]]] = []
    for shard, value in zip(shards, values, strict=True):
        paths = next((paths for known, paths in groups if known == value), None)
        if paths is None:
            groups.append((value, paths := []))
        paths.append(shard.path)
    return "; ".join(
        f"{_value(value)} in {_listed(list(map(str, paths)))}" for value, paths in groups
    )


def _value(value: object) -> str:
    return "none" if value is None or value == "" else shown(value, 3 * _SHOWN)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMED]) + (
        f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    )


def check_apart(shards: Sequence[Shard]) -> None:
    """Raise InputError if a pair is in two of ``shards``."""
    ids = pa.chunked_array(
        [chunk for shard in shards for chunk in shard.pair_ids.chunks], pa.large_string()
    )
    twice = _twice(ids)
    if not twice:
        return
    first = twice[0]
    those = [shard for shard in shards if pc.index(shard.pair_ids, first).as_py() >= 0]
    texts = [_texts_of(shard, first) for shard in those]
    more = (
        f", and so {'is' if len(twice) == 2 else 'are'} {len(twice) - 1:,} more"
        if len(twice) > 1
        else ""
    )
    fact = f'the pair "{shown(first)}" is in {" and in ".join(str(shard.path) for shard in those[:_NAMED])}{more}'
    if _differ(texts):
        raise InputError(
            f"{fact}; it has other texts in each, so the parts use the same ids for different pairs. Give every pair an id of "
            "its own over all parts, or have ids made from the texts (--columns id=-), and judge again"
        )
    raise InputError(
        f"{fact}; its calls in both runs would be added up. Shards must have different pairs: leave out all but one of these "
        "runs, or judge parts that share no pair"
    )


def _twice(ids: pa.ChunkedArray) -> list[str]:
    """Return the values that are in ``ids`` more than once, in order."""
    counted = pc.value_counts(ids)
    repeated = pc.greater(counted.field("counts"), 1)
    return list(counted.field("values").filter(repeated).to_pylist())


def _texts_of(shard: Shard, pair_id: str) -> list[object]:
    """Return the texts of one pair."""
    names = ("pair_id", "prompt", "response", OTHER_COLUMN)
    for batch in read_pair_batches(shard.path, lambda name: name in names):
        found = pc.index(batch.column("pair_id"), pair_id).as_py()
        if found >= 0:
            return [batch.column(name)[found].as_py() for name in batch.schema.names]
    return []


def check_groups_named_once(shards: Sequence[Shard]) -> None:
    """Raise InputError if two of ``shards`` have groups of the same name without a common prompt: they may differ."""
    if GROUP_COLUMN not in shards[0].pairs.has:
        return
    of_each = [
        pc.unique(pa.chunked_array(shard.pairs.texts(GROUP_COLUMN), pa.large_string()))
        for shard in shards
    ]
    both = _twice(pa.chunked_array(of_each, pa.large_string()))
    if not both:
        return
    prompts = [_prompts_of(shard, pa.array(both, pa.large_string())) for shard in shards]
    for name in both:
        those = [
            (shard, found[name])
            for shard, found in zip(shards, prompts, strict=True)
            if name in found
        ]
        (first, known), *others = those
        for other, theirs in others:
            if not known & theirs:
                raise InputError(
                    f'the group "{shown(name)}" is in {first.path} and in {other.path}, with no prompt in common: nothing '
                    "tells whether it is one group or two of the same name. Give groups names of their own over all parts, and "
                    "judge again"
                )


def _prompts_of(shard: Shard, groups: pa.Array) -> dict[str, set[int]]:
    """Return the hashes of the prompts of each of ``groups``."""
    found: dict[str, set[int]] = {}
    for batch in read_pair_batches(shard.path, lambda name: name in {GROUP_COLUMN, "prompt"}):
        mine = batch.filter(pc.is_in(batch.column(GROUP_COLUMN), value_set=groups))
        for name, prompt in zip(
            mine.column(GROUP_COLUMN).to_pylist(), mine.column("prompt").to_pylist(), strict=True
        ):
            found.setdefault(name, set()).add(hash(prompt))
    return found
