"""Read AlpacaEval's model_outputs.json, and its annotations.json, which has two outputs in each row."""

from __future__ import annotations

from collections.abc import Iterator

from robin_cli.datasets.checking import pair_id_of
from robin_cli.datasets.logs import Log
from robin_cli.datasets.rows import BadRow, Row
from robin_logs.base import OR_SKIP, joined, name_of

_PAIRS = (("output", "generator"), ("output_1", "generator_1"), ("output_2", "generator_2"))
_TAKEN = {"instruction", "input", *(name for pair in _PAIRS for name in pair)}


def _is_sample(row: Row) -> bool:
    one = isinstance(row.get("generator"), str) and "output" in row
    two = {"output_1", "output_2", "generator_1", "generator_2", "preference"} <= row.keys()
    return isinstance(row.get("instruction"), str) and (one or two)


def _rows(sample: Row) -> Iterator[Row]:
    asked = "\n\n".join(
        filter(None, (name_of(sample["instruction"]), name_of(sample.get("input"))))
    )
    others = {
        name: value
        for name, value in sample.items()
        if name not in _TAKEN and "preference" not in name
    }
    preference = sample.get("preference")
    for output, generator in _PAIRS:
        if generator not in sample:
            continue
        answer, system = sample.get(output), name_of(sample[generator])
        if not isinstance(answer, str):
            raise BadRow(
                f'field "{output}" is no text. Generate the answer again{OR_SKIP}', "no response"
            )
        row: Row = {"prompt": asked, "response": answer, "system": system, **others}
        if output != "output" and isinstance(
            preference, (int, float)
        ):  # 1 where the first was preferred, 2 the second
            row["score.preference"] = 2.0 - preference if output == "output_1" else preference - 1.0
        try:
            # Rows have no ids. Two models may give the same answer, so the text alone is no id.
            yield {"id": joined(system, pair_id_of(asked, answer)), **row}
        except UnicodeEncodeError:
            yield row


LOG = Log(_is_sample, lambda _place: _rows)
