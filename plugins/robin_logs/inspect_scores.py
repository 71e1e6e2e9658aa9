"""Write scores for Inspect's ``precomputed_scores``: a line for each sample and epoch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import orjson

from robin_cli.data.logs import Judged
from robin_cli.model.errors import InputError, shown


def write_scores(
    judged: Sequence[Judged], _judged_file: Callable[[], bytes], notify: Callable[[str], None]
) -> bytes:
    """Return the lines; Inspect ignores the names of model and task in them."""
    lines = []
    for each in judged:
        task, group, epoch = (each.columns.get(name) for name in ("task", "group", "epoch"))
        if not isinstance(group, str) or not isinstance(epoch, int):
            raise InputError(
                f"--what inspect: {shown(each.pair_id)} is no sample of Inspect's; judge .eval or .json logs of it"
            )
        several = len(each.points) > 1
        lines.append(
            {
                "id": group.removeprefix(f"{task}/"),
                "epoch": epoch,
                "value": each.points if several else next(iter(each.points.values())),
                "explanation": each.reason,
                "model": each.columns.get("system"),
                "task": task,
            }
        )
    if judged and len(judged[0].points) > 1:
        metrics = ", ".join(f"{name!r}: [mean()]" for name in judged[0].points)
        notify(f"several scores a line: in Python precomputed_scores(FILE, metrics={{{metrics}}})")
    logs = {f"{line['model']} {line['task']}": None for line in lines}
    if len(logs) > 1:
        notify(
            f"lines of {len(logs)} logs ({', '.join(logs)}); Inspect takes those of one, so choose them by model and task"
        )
    return b"".join(orjson.dumps(line) + b"\n" for line in lines)
