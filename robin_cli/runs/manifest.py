"""manifest.json: what a run was made with, so that it can be continued as the same run, and cited."""

from __future__ import annotations

import platform
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import orjson

from robin_cli import __version__
from robin_cli.errors import RunError, StorageError, did_you_mean
from robin_cli.files import read_at_most, whole_file
from robin_cli.judges import judge_name
from robin_cli.records import Scale, shared_scale
from robin_cli.runs.manifest_shape import check_manifest

FORMAT = 2
"""2: attributes of several scales. A run of one scale is written as format 1, which earlier versions read."""

FILE = "manifest.json"
_LONGEST = 64 * 2**20

_ID = re.compile(r"[0-9a-f]{16}")


def now() -> str:
    """The time, UTC, ISO 8601, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def ends_of(attributes: Sequence[str], scales: Sequence[Scale]) -> dict[str, Any]:
    """``scale`` and ``format`` of a new manifest, by name: the one scale of all attributes, or that of each."""
    scale = shared_scale(scales)
    if scale is not None:
        return {"scale": (scale.low, scale.high)}
    ends = {attribute: (each.low, each.high) for attribute, each in zip(attributes, scales, strict=True)}
    return {"scale": ends, "format": FORMAT}


def new_run_id() -> str:
    """An id that no other run has, and nobody can guess."""
    return secrets.token_hex(8)


def library_versions() -> dict[str, str]:
    """The versions that a result may depend on."""
    names = ("openai", "numpy", "pyarrow")
    return {"robin": __version__, "python": platform.python_version(), **{name: version(name) for name in names}}


@dataclass(frozen=True, slots=True)
class Manifest:
    """Everything about a run but its pairs and its answers; never a key.

    ``settings`` are those that make the run what it is: to go on with other values would mix two experiments. ``budget``
    may grow; ``sessions`` says when, where and how the run was worked on. ``scale``: its ends, by attribute where they differ.
    """

    settings: Mapping[str, Any]
    budget: int
    attributes: tuple[str, ...]
    scale: tuple[int, int] | Mapping[str, tuple[int, int]]
    data: Mapping[str, Any]
    prompt: Mapping[str, Any]
    seed: int | None
    sessions: tuple[Mapping[str, Any], ...] = ()
    created_at: str = field(default_factory=now)
    versions: Mapping[str, str] = field(default_factory=library_versions)
    format: int = 1

    @property
    def scales(self) -> tuple[Scale, ...]:
        """The scale of each attribute, in order."""
        by_name = self.scale if isinstance(self.scale, Mapping) else dict.fromkeys(self.attributes, self.scale)
        return tuple(Scale(*by_name[attribute]) for attribute in self.attributes)

    @property
    def run_id(self) -> str:
        """What no other run is called; "" for one of robin 0.1.0 that was not worked on since."""
        return str(self.data.get("run_id", ""))

    @property
    def rescued(self) -> int:
        """How many answers the disk did not take at first, that joined the run later."""
        return int(self.data.get("rescued", 0))

    @property
    def models(self) -> tuple[str, ...]:
        """The judges as --model names them, some with an address of their own."""
        model = self.settings["model"]
        return (model,) if isinstance(model, str) else tuple(model)

    @property
    def scoring(self) -> str:
        """What an answer counts as: "text" or "logprobs"."""
        return str(self.settings.get("scoring", "text"))

    @property
    def answer_format(self) -> str:
        """How the judges were asked to answer: one of ANSWER_FORMATS."""
        return str(self.settings.get("answer_format", "text"))

    @property
    def judges(self) -> tuple[str, ...]:
        """The names of the judges."""
        return tuple(map(judge_name, self.models))

    def write(self, run: Path) -> None:
        """Put it at its place in ``run``, in one step. Raises StorageError if the disk refuses."""
        try:
            with whole_file(run / FILE) as file:
                file.write(orjson.dumps(asdict(self), option=orjson.OPT_INDENT_2) + b"\n")
        except OSError as error:
            raise StorageError(f"{run / FILE}: could not be written ({error.strerror})") from error

    def with_session(self, **session: Any) -> Manifest:
        """The same with one more entry in ``sessions``, stamped with the time."""
        return replace(self, sessions=(*self.sessions, {"started_at": now(), **session}))

    def with_session_end(self, **end: Any) -> Manifest:
        """The same with the last session's entry completed, stamped with the time."""
        *earlier, last = self.sessions
        return replace(self, sessions=(*earlier, {**last, "ended_at": now(), **end}))

    def with_data(self, **facts: Any) -> Manifest:
        """The same with more said of its data; among it what robin 0.1.0, which goes on with such runs, does not know."""
        return replace(self, data={**self.data, **facts})

    def with_budget(self, budget: int) -> Manifest:
        """The same with another total budget."""
        return replace(self, budget=budget)


def read_manifest(run: Path) -> Manifest:
    """The manifest of the run directory ``run``.

    Raises:
        RunError: there is none, it is damaged, or a newer robin wrote it.
    """
    path = run / FILE
    try:
        content = orjson.loads(read_at_most(path, _LONGEST))
    except FileNotFoundError:
        runs = [each.parent.name for each in run.parent.glob(f"*/{FILE}")]
        near = did_you_mean(run.name, runs) or "; robin runs lists those in ./runs"
        raise RunError(f"{run}: not a run directory (no {FILE}); name a folder that robin judge made{near}") from None
    except NotADirectoryError:
        raise RunError(f"{run}: a file, not a run directory; name a folder that robin judge made") from None
    except OSError as error:
        raise RunError(f"{path}: cannot be read ({error.strerror})") from error
    except orjson.JSONDecodeError as error:
        raise RunError(f"{path}: damaged ({error}); restore the file from a copy") from None
    if not isinstance(content, dict) or not isinstance(content.get("format"), int):
        raise RunError(f"{path}: not a manifest that robin wrote")
    if content["format"] > FORMAT:
        versions = content.get("versions")
        made_by = versions.get("robin") if isinstance(versions, dict) else "a newer version"
        raise RunError(
            f"{path}: format {content['format']}, made by robin {made_by}; this is {__version__}: upgrade robin"
        )
    try:
        return _manifest(content)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise RunError(f"{path}: a field is missing or not known ({error}); restore the file from a copy") from None


def _manifest(content: dict[str, Any]) -> Manifest:
    check_manifest(content)
    for name in ("attributes", "sessions"):
        content[name] = tuple(content[name])
    if not isinstance(content["scale"], dict):
        content["scale"] = tuple(content["scale"])
    if isinstance(url := content["settings"].get("base_url"), str):  # runs from before there could be several
        content["settings"]["base_url"] = [url]
    manifest = Manifest(**content)
    if manifest.run_id and not _ID.fullmatch(manifest.run_id):  # files are named by it
        raise ValueError("run_id is no id")
    if manifest.rescued < 0:
        raise ValueError("rescued is no number of answers")
    return manifest


def settings_of(run: Path) -> dict[str, Any]:
    """What to say of the run ``run`` beside its results. Raises RunError as :func:`read_manifest` does."""
    manifest = read_manifest(run)
    return {
        "run": str(run),
        "budget": manifest.budget,
        "attributes": ", ".join(manifest.attributes),
        **manifest.settings,
        "seed": manifest.seed,
        "data": manifest.data["source"],
        "data (SHA-256)": manifest.data["sha256"],
        "prompt (SHA-256)": manifest.prompt["sha256"],
        "made": _time(manifest.created_at),
        **{f"version of {name}": version for name, version in manifest.versions.items()},
    }


def _time(text: str) -> datetime | str:
    """The time that :func:`now` wrote; the text itself where something else stands."""
    try:
        time = datetime.fromisoformat(text)
    except (ValueError, TypeError):
        return text
    return time if time.tzinfo else text


def differences(recorded: Manifest, wanted: Manifest) -> list[str]:
    """What keeps ``wanted`` from being the run ``recorded``, a line each: names with the recorded and the wanted value."""
    before = _identity(recorded)
    after = _identity(wanted)
    return [
        f"{name}: the run has {before.get(name)}, now {after.get(name)}"
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    ]


def _identity(manifest: Manifest) -> dict[str, Any]:
    return {  # where the judges are reached may differ from session to session
        **{name: value for name, value in manifest.settings.items() if name != "base_url"},
        "model": ", ".join(manifest.judges),
        "attributes": ", ".join(manifest.attributes),
        "scale": ", ".join(map(str, dict.fromkeys(manifest.scales))),
        "seed": manifest.seed,
        "data (SHA-256)": manifest.data["sha256"],
        "prompt (SHA-256)": manifest.prompt["sha256"],
    }
