"""manifest.json: the settings and sessions of a run, so that it can be continued as the same run, and cited."""

from __future__ import annotations

import platform
import re
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any
from zlib import crc32

import orjson

from robin_cli import __version__
from robin_cli.ask.kinds import Kind
from robin_cli.ask.verdicts import kind_of
from robin_cli.data import workbooks
from robin_cli.data.local import whole_file
from robin_cli.model.decision import Decision, decision_by, target_wrong_of
from robin_cli.model.errors import InputError, RunError, did_you_mean, shown, writing
from robin_cli.model.records import Ends, Scale
from robin_cli.run.layout import MANIFEST, SEGMENTS
from robin_cli.settings.addresses import judge_name
from robin_cli.settings.reading import checked
from robin_cli.settings.setting import Scope
from robin_cli.settings.table import TABLE

FORMAT = 1
"""The format of runs since robin 0.2.0. Runs of earlier, unreleased versions are refused, whatever their format."""
_FIRST = (0, 2)

FILE = MANIFEST
CHECKSUM = "crc32"

REACHED = "max_cost_reached"
"""The key in a session's entry for the limit of money that ended it."""

_DEFAULTS = {name: row.default for name, row in TABLE.items() if row.scope is Scope.RUN}
_TAKEN_OVER = {name for name, row in TABLE.items() if row.scope is Scope.SESSION and row.kept}


def now() -> str:
    """Return the time, UTC, ISO 8601, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


NO_PROMPTS = "no_prompts"
UNKNOWN_SCALES = "unknown_scales"
"""The attributes of files of scores that do not say their scale, in ``data``."""


def ends_of(attributes: Sequence[str], scales: Sequence[Scale]) -> dict[str, tuple[int, int]]:
    """Return the ends of each attribute's scale, as a manifest has them."""
    return {name: (scale.low, scale.high) for name, scale in zip(attributes, scales, strict=True)}


def new_run_id() -> str:
    """Return a random id, which nobody can guess."""
    return secrets.token_hex(8)


def library_versions() -> dict[str, str]:
    """Return the versions that results may depend on."""
    names = ("openai", "numpy", "pyarrow")
    return {
        "robin": __version__,
        "python": platform.python_version(),
        **{name: version(name) for name in names},
    }


@dataclass(frozen=True)
class Manifest:
    """All facts about a run except its pairs and its answers; never a key.

    Attributes:
        settings: the settings of the run: other values would make it another experiment.
        budget: in calls; it may grow. If ``budget_usd`` is set, that is the budget, and this is about the calls it pays for.
        scale: the ends of each attribute's scale.
        sessions: when, where and how the run was worked on.
    """

    settings: Mapping[str, Any]
    budget: int
    attributes: tuple[str, ...]
    scale: Mapping[str, tuple[int, int]]
    data: Mapping[str, Any]
    prompt: Mapping[str, Any]
    seed: int | None
    sessions: tuple[Mapping[str, Any], ...] = ()
    created_at: str = field(default_factory=now)
    versions: Mapping[str, str] = field(default_factory=library_versions)
    format: int = FORMAT
    budget_usd: float | None = None

    @property
    def limit_reached(self) -> float | None:
        """The limit of money that ended the last session; None if something else did."""
        return self.sessions[-1].get(REACHED) if self.sessions else None

    @property
    def money_reached(self) -> bool:
        """Whether the last session ended because the money was spent, and none was added since."""
        return self.budget_usd is not None and self.limit_reached == self.budget_usd

    @property
    def lost_calls(self) -> int:
        """The most calls that were under way when sessions ended: they may be on the bill."""
        return sum(session.get("in_flight") or 0 for session in self.sessions)

    def is_spent(self, calls: int) -> bool:
        """Return whether the budget is spent after ``calls`` calls."""
        return calls >= self.budget if self.budget_usd is None else self.money_reached

    @property
    def scales(self) -> tuple[Scale, ...]:
        """The scale of each attribute, in order."""
        unknown = self.data.get(UNKNOWN_SCALES, ())
        return tuple(
            Scale(*self.scale[name], is_guessed=name in unknown) for name in self.attributes
        )

    @property
    def score_scales(self) -> tuple[Scale, ...]:
        """The scales of reported scores, in order: 0 to 1 for preferences, whatever verdicts are worth."""
        return (
            self.scales
            if self.kind.score_scale is None
            else (self.kind.score_scale,) * len(self.scales)
        )

    @property
    def known_ends(self) -> tuple[Ends, ...]:
        """The ends of the scales of reported scores, in order: unknown for files of scores that do not say them."""
        return tuple(scale.ends for scale in self.score_scales)

    @property
    def file_of_scores(self) -> str:
        """The file that a temporary run was made of; "" for a run that a judge was asked for."""
        return str(self.data.get("file_of_scores", ""))

    @property
    def run_id(self) -> str:
        """The unique id of the run; "" before it is made."""
        return str(self.data.get("run_id", ""))

    @property
    def kept(self) -> tuple[int, int]:
        """The numbers of segments, and of judgments after them, when the last session ended; (0, 0) if not recorded."""
        segments, behind = self.data.get("kept", (0, 0))
        return int(segments), int(behind)

    @property
    def models(self) -> tuple[str, ...]:
        """The judges as --model names them, some with their own address."""
        model = self.settings["model"]
        return (model,) if isinstance(model, str) else tuple(model)

    @property
    def answers(self) -> tuple[str, ...]:
        """The way each judge is asked to answer."""
        answers: tuple[str, ...] = self.own_settings["answers"]
        return answers * len(self.models) if len(answers) == 1 else answers

    @property
    def judges(self) -> tuple[str, ...]:
        """The names of the judges."""
        return tuple(map(judge_name, self.models))

    @cached_property
    def decision(self) -> Decision | None:
        """The decision to make; None without one."""
        return decision_by(self.own_settings, self.attributes, self.scales)

    @property
    def error_rate(self) -> float:
        """The most that may be wrong of all that is certified, on average, as a share."""
        return float(self.own_settings["error_rate"])

    @property
    def target_wrong(self) -> float:
        """The share of likely wrong decisions at which the last session ends; 0: never."""
        return target_wrong_of({**self.own_settings, **self.last_session})

    @property
    def repeat_anyway(self) -> bool:
        """Whether a judge that repeats itself is asked on."""
        return bool(self.last_session.get("repeat_anyway"))

    @property
    def expected(self) -> tuple[bool, ...]:
        """Whether the ratings of each judge are expectations."""
        return tuple(answers in {"logprobs", "decisions"} for answers in self.answers)

    @property
    def has_levels_of_digits(self) -> bool:
        """Whether each level that a judge may write is one token: a digit, or a verdict's letter."""
        return all(scale.is_of_digits for scale in self.scales)

    def target_of(self, session: Mapping[str, Any]) -> float | None:
        """Return the error, or the share of likely wrong decisions, at which a session ends.

        None for none; ``session``: its settings by name.
        """
        if self.own_settings["decide"] is None:
            error: float | None = session["target_error"]
            return error
        return target_wrong_of({**self.own_settings, **session})

    @property
    def is_pairwise(self) -> bool:
        """Whether two responses are compared, instead of one rated."""
        return bool(self.settings.get("pairwise"))

    @property
    def kind(self) -> Kind:
        """The kind of the run's question."""
        return kind_of(pairwise=self.is_pairwise)

    @property
    def criteria(self) -> tuple[str, ...]:
        """The attribute of the rubric by which responses are compared in a pairwise run, if it has one."""
        criterion = self.prompt.get("criterion")
        return (str(criterion["attribute"]),) if criterion else ()

    @cached_property
    def own_settings(self) -> Mapping[str, Any]:
        """The settings of the run by name; one that is not recorded has its default."""
        recorded = {name: value for name, value in self.settings.items() if name in _DEFAULTS}
        return _DEFAULTS | checked(recorded, "settings")

    @cached_property
    def last_session(self) -> Mapping[str, Any]:
        """The settings of the last session that the next one takes over, by name, with the judges and their addresses."""
        last = self.sessions[-1] if self.sessions else {}
        before = {name: self.settings[name] for name in ("base_url", "model")}
        taken_over = {name: value for name, value in last.items() if name in _TAKEN_OVER}
        return checked(before | taken_over, "its last session")

    def says(self, session: Mapping[str, Any]) -> bool:
        """Return whether the last session had the settings of ``session`` that the next one would take over."""
        last = self.last_session
        kept = {name: value for name, value in session.items() if TABLE[name].kept}
        return bool(self.sessions) and all(
            last.get(name, TABLE[name].default) == value for name, value in kept.items()
        )

    def write(self, run: Path) -> None:
        """Write manifest.json to ``run``, in one step. StorageError if the disk refuses."""
        content = asdict(self)
        if self.budget_usd is None:
            del content["budget_usd"]
        with writing(run / FILE), whole_file(run / FILE) as file:
            file.write(sealed(content))

    def with_session(self, **session: Any) -> Manifest:
        """Return the manifest with another session, stamped with the time."""
        return replace(self, sessions=(*self.sessions, {"started_at": now(), **session}))

    def with_session_end(self, **end: Any) -> Manifest:
        """Return the manifest with the end of the last session, stamped with the time."""
        return self.with_last_session(ended_at=now(), **end)

    def with_last_session(self, **changed: Any) -> Manifest:
        """Return the manifest with changed facts of the last session, if there is one."""
        last = [{**session, **changed} for session in self.sessions[-1:]]
        return replace(self, sessions=(*self.sessions[:-1], *last))

    def with_data(self, **facts: Any) -> Manifest:
        """Return the manifest with more facts in ``data``."""
        return replace(self, data={**self.data, **facts})


def sealed(content: Mapping[str, Any]) -> bytes:
    """Return the file of a manifest's ``content``, with its checksum."""
    whole = {**content, CHECKSUM: _checksum(content)}
    return orjson.dumps(whole, option=orjson.OPT_INDENT_2) + b"\n"


def _checksum(content: Mapping[str, Any]) -> int:
    return crc32(orjson.dumps(content, option=orjson.OPT_SORT_KEYS))


def read_manifest(run: Path) -> Manifest:
    """Read the manifest of the run directory ``run``.

    Raises:
        RunError: there is none, it is damaged, or another version of robin made it, which this one does not read.
    """
    path = run / FILE
    try:
        content = orjson.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        runs = [other.parent.name for other in run.parent.glob(f"*/{FILE}")]
        near = did_you_mean(run.name, runs) or "; robin runs lists those in ./runs"
        what = (
            "a file, not a run directory" if run.is_file() else f"not a run directory (no {FILE})"
        )
        raise RunError(f"{run}: {what}; name a folder that robin judge made{near}") from None
    except OSError as error:
        raise RunError(f"{path}: cannot be read ({error.strerror})") from error
    except orjson.JSONDecodeError as error:
        raise RunError(f"{path}: damaged ({error}); restore the file from a copy") from None
    if not isinstance(content, dict) or not isinstance(content.get("format"), int):
        raise RunError(f"{path}: not a manifest that robin wrote")
    made_by = shown(dict(content.get("versions") or {}).get("robin"), 20)
    release = tuple(int(part) for part in made_by.split(".")[:2] if part.isdecimal())
    if content["format"] != FORMAT or release < _FIRST:
        raise RunError(
            f"{path}: made by robin {made_by} in format {content['format']}, which robin {__version__} does not read: upgrade "
            f'robin, or judge anew. Its ratings: pd.read_parquet("{run / SEGMENTS}")'
        )
    if content.pop(CHECKSUM, None) != _checksum(content):
        raise RunError(
            f"{path}: damaged or changed (its checksum is of other content); restore the file from a copy"
        )
    try:
        return _manifest_of(content)
    except (AttributeError, LookupError, TypeError, ValueError, InputError) as error:
        raise RunError(
            f"{path}: a field is missing or not known ({error}); restore the file from a copy"
        ) from None


def _manifest_of(content: Mapping[str, Any]) -> Manifest:
    """Return the manifest in a file, whose checksum is right: robin wrote it, here or elsewhere.

    Raises:
        TypeError, LookupError, ValueError, InputError: a run that another version of robin made, or that somebody changed
            so that keys would go to no address.
    """
    manifest = Manifest(
        **{
            **content,
            "attributes": tuple(content["attributes"]),
            "sessions": tuple(content["sessions"]),
            "scale": {name: (low, high) for name, (low, high) in content["scale"].items()},
        }
    )
    if unknown := manifest.settings.keys() - TABLE.keys():
        raise ValueError(f"settings: unknown {min(unknown)}")
    if not re.fullmatch(r"[0-9a-f]{16}", manifest.run_id):  # hosts are trusted by it
        raise ValueError("data: run_id is none")
    _ = manifest.own_settings, manifest.last_session, manifest.decision  # these check the settings
    return manifest


def sources_of(manifest: Manifest) -> list[tuple[str, str]]:
    """Return the files that the pairs of a run were read from, each with its SHA-256 at that time."""
    files = manifest.data.get("files") or [(manifest.data["source"], manifest.data["sha256"])]
    return [(workbooks.file_of(str(name)), str(recorded)) for name, recorded in files]


def files_read_by(run: Path) -> list[str]:
    """Return the files that the pairs of ``run`` were read from, which no output may replace. RunError if there is no run.

    A relative name may have been given in any folder above the run, so the name in each of them is returned.
    """
    names = [name for name, _ in sources_of(read_manifest(run))]
    return [
        *names,
        *(
            str(folder / name)
            for folder in run.absolute().parents
            for name in names
            if "://" not in name
        ),
    ]


def name_of(run: Path) -> str:
    """Return the name of the run for users: its path, or the file of scores that it was made of."""
    return read_manifest(run).file_of_scores or str(run)


def newest_run() -> Path:
    """Return the newest run in ``runs/`` that can be read. InputError if there is none."""
    folder = Path("runs")
    made: list[tuple[str, Path]] = []
    for path in folder.glob(f"*/{FILE}"):
        with suppress(RunError):
            made.append((read_manifest(path.parent).created_at, path.parent))
    if not made:
        raise InputError(
            f"no run is named, and {folder}/ holds none; name one, or make one with robin judge"
        )
    return max(made)[1]


def differences(recorded: Manifest, wanted: Manifest) -> list[str]:
    """Return a line for each setting in which ``wanted`` differs from the run ``recorded``, with both values."""
    before, after = _identity(recorded), _identity(wanted)
    return [
        f"{name}: the run has {before.get(name)}, now {after.get(name)}"
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    ]


def _identity(manifest: Manifest) -> dict[str, Any]:
    """Return the facts that identify a run, by name."""
    return {  # addresses may differ from session to session
        **_DEFAULTS,
        **{name: value for name, value in manifest.settings.items() if name != "base_url"},
        "model": ", ".join(manifest.judges),
        "answers": ", ".join(manifest.own_settings["answers"]),
        "attributes": ", ".join(manifest.attributes),
        "scale": ", ".join(map(str, dict.fromkeys(manifest.scales))),
        "seed": manifest.seed,
        "columns": manifest.data.get("columns", {}),
        "data (SHA-256)": manifest.data["sha256"],
        "prompt (SHA-256)": manifest.prompt["sha256"],
    }
