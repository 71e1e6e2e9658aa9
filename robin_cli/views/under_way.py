"""The batches of a run that may still be answered: a part of its status, as facts and in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from robin_cli.model.records import number_of
from robin_cli.settings.trust import NO_KEY, Source, doubts, place_of_folder
from robin_cli.storage.batches import engine_command, read_batches, requests_file
from robin_cli.storage.reader import RunData


@dataclass(frozen=True, slots=True)
class UnderWay:
    """A batch that may still be answered, at a service or in a folder; without a service, ``command`` answers it."""

    batch: str | None
    judge: str
    round: int
    requests: int
    state: str
    at: str
    submitted_at: str | None
    command: str | None


def under_way(run: RunData) -> list[UnderWay]:
    """Return the batches that may still be answered; for an engine without a service, with the command to run.

    No command writes into a folder that only a received run names: robin resume asks about that first.
    """
    found = []
    for each in read_batches(run.path).values():
        if each.is_open:
            is_named = each.folder and not doubts(
                Source(kind="run"), [(place_of_folder(each.folder), NO_KEY)]
            )
            file = requests_file(run.path, run.manifest.run_id, each)
            at, to_run = (
                each.folder or each.url,
                engine_command(file, each.judge) if is_named else None,
            )
            since = each.submitted_at or None
            found.append(
                UnderWay(
                    each.batch_id,
                    each.judge,
                    each.round,
                    each.requests,
                    each.state,
                    at,
                    since,
                    to_run,
                )
            )
    return found


def under_way_lines(found: Sequence[UnderWay]) -> dict[str, str]:
    """Return the open batches in words; nothing if there are none."""
    told = []
    for each in found:
        since = f", since {each.submitted_at}" if each.submitted_at else ""
        place = f"at {each.at}: {each.batch or each.state}{since}"
        place = f"to be answered: {each.command}" if each.command else place
        told.append(f"round {each.round}, {number_of(each.requests, 'request')} {place}")
    return {
        "under way" if len(told) == 1 else f"under way {number}": said
        for number, said in enumerate(told, 1)
    }
