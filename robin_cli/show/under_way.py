"""The batches of a run that may still be answered: a part of its status, as facts and in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from robin_cli.model.records import number_of
from robin_cli.run.batches import read_batches
from robin_cli.run.reader import RunData


@dataclass(frozen=True, slots=True)
class UnderWay:
    """A batch that may still be answered, ``at`` a service."""

    batch: str | None
    judge: str
    round: int
    requests: int
    state: str
    at: str
    submitted_at: str | None


def under_way(run: RunData) -> list[UnderWay]:
    """Return the batches that may still be answered."""
    return [
        UnderWay(
            each.batch_id,
            each.judge,
            each.round,
            each.requests,
            each.state,
            each.url,
            each.submitted_at or None,
        )
        for each in read_batches(run.path).values()
        if each.is_open
    ]


def under_way_lines(found: Sequence[UnderWay]) -> dict[str, str]:
    """Return the open batches in words; nothing if there are none."""
    lines = []
    for each in found:
        since = f", since {each.submitted_at}" if each.submitted_at else ""
        place = f"at {each.at}: {each.batch or each.state}{since}"
        lines.append(f"round {each.round}, {number_of(each.requests, 'request')} {place}")
    return {
        "under way" if len(lines) == 1 else f"under way {number}": line
        for number, line in enumerate(lines, 1)
    }
