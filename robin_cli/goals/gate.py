"""Verdicts on what a run is required to meet: its own scores, or those of two systems or runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from robin_cli.goals.registry import goal_of
from robin_cli.model.errors import InputError, did_you_mean, shown, typed
from robin_cli.model.records import SYSTEM_COLUMN, number_of
from robin_cli.run.manifest import FILE
from robin_cli.run.reader import RunReader, read_run
from robin_cli.stats.gate import State, Verdict, judged, measured, measured_difference, together
from robin_cli.stats.requirement import Requirement, requirement_of
from robin_cli.stats.run_compare import Compared, compared
from robin_cli.stats.scores import score

_SHOWN_SYSTEMS = 8


@dataclass(frozen=True, slots=True)
class GateResult:
    """Verdicts on a run's requirements.

    Attributes:
        run: its path as the user named it.
        verdicts: one a requirement, in their order.
        pair_ids: those of the positions in the verdicts.
        spent: calls of the run.
        attributes: how many these are spread over.
        error_rate: δ of each requirement.
        notes: notes on omissions.
        has_judge: whether there is one to ask again: not for scores that were there already.
    """

    run: str
    verdicts: Sequence[Verdict]
    pair_ids: Sequence[str]
    spent: int
    attributes: int
    error_rate: float
    notes: Sequence[str] = ()
    has_judge: bool = True

    @property
    def state(self) -> State:
        """The verdict of all of them together."""
        return together([each.state for each in self.verdicts])


def check_requirements(
    path: Path,
    required: Sequence[str],
    *,
    margin: float | None,
    error_rate: float,
    by: str | None = None,
) -> GateResult:
    """Return the verdicts on the run at ``path``.

    Args:
        by: the column that names the systems of a comparison; None for that of systems.

    Raises:
        InputError: a requirement that is not understood, see :func:`~robin_cli.stats.requirement.requirement_of`, or systems
            that cannot be compared.
        RunError, StorageError: the run cannot be read.
    """
    run = read_run(path)
    manifest, scores, notes = run.manifest, score(run), _cautions(run)
    verdicts = []
    for text in dict.fromkeys(required):
        each = requirement_of(text, manifest.attributes, manifest.known_ends, margin=margin)
        if each.kind == "compare":
            two = _two_systems(run, each, by, notes.append)
            known = measured_difference(two, each.attribute)
        else:
            known = measured(run, scores, each.attribute, each.kind)
        verdicts.append(judged(each, known, error_rate=error_rate, settle=True))
    return GateResult(
        run.name,
        verdicts,
        run.pair_ids,
        run.fold.arms.spent,
        len(manifest.attributes),
        error_rate,
        notes,
        has_judge=run.name == str(path),
    )


def _cautions(run: RunReader) -> list[str]:
    """Return a line that the run is not finished; none for a file of scores."""
    manifest, spent = run.manifest, run.fold.arms.spent
    if manifest.file_of_scores or manifest.is_spent(spent):
        return []
    if goal_of(run).result(run).is_finished:
        return []
    calls = f"{spent:,} of {number_of(manifest.budget, 'call')}"
    return [f"{run.name} is not finished: {calls} spent; to go on: robin resume {typed(run.name)}"]


def _two_systems(
    run: RunReader, requirement: Requirement, by: str | None, notify: Callable[[str], None]
) -> Compared:
    """Return the systems of a requirement: two values of a column of ``run``, or two runs."""
    column, (a, b) = by or SYSTEM_COLUMN, requirement.systems
    known = list(dict.fromkeys(run.column(column))) if by or column in run.column_names else []
    if a in known and b in known:
        return compared([run], notify, by=column, only=(a, b))
    required = f'--require "{shown(requirement, 80)}": '
    if all((Path(name) / FILE).is_file() for name in (a, b)):
        first, *others = [
            (each, dict(zip(each.manifest.attributes, each.manifest.scales, strict=True)))
            for each in (run, read_run(Path(a)), read_run(Path(b)))
        ]
        scale = first[1].get(requirement.attribute)
        for other, scales in others:
            if scales.get(requirement.attribute) != scale:
                raise InputError(
                    f"{required}{other.name} does not rate {shown(requirement.attribute)} on the "
                    f"scale {scale}, as {run.name} does; name runs that do"
                )
        return compared([other for other, _ in others], notify)
    lacking = next((name for name in (a, b) if name not in known), a)
    named = [each for each in known if each is not None]
    where = f'column "{shown(column)}" (name one with --by)'
    if named:
        systems = ", ".join(shown(each) for each in named[:_SHOWN_SYSTEMS])
        where = f'system "{shown(lacking)}" in its column "{shown(column)}"; there are {systems}'
    raise InputError(
        f"{required}{run.name} has no {where}{did_you_mean(lacking, named)}; two runs are compared "
        "by their folders, compare(runs/new,runs/old)"
    )
