"""How often each arm got each rating, counted while ratings come."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from robin_cli.model.arms import FloatArray
from robin_cli.model.records import Judgment, Scale
from robin_cli.run.fold import Fold
from robin_cli.run.lookup import ArmLookup
from robin_cli.run.manifest import ends_of
from robin_cli.run.reader import RunData, space_of
from robin_cli.run.schema import judgments_table
from robin_cli.stats.level_counts import LevelCounts, counts_by_scale
from tests.run.test_store import judgment, manifest

ENDS = st.sampled_from([(0, 4), (1, 10), (-2, 2), (0, 1), (0, 100)])
ANSWERS = st.lists(
    st.tuples(st.integers(0, 5), st.floats(0, 1), st.sampled_from(["text", "logprobs", "none"]))
)


def run_with(rows: list[Judgment], scales: list[Scale]) -> RunData:
    attributes = tuple(f"a{number}" for number in range(len(scales)))
    made = manifest(attributes=attributes, scale=ends_of(attributes, scales))
    space, table = space_of(made, ["p0", "p1", "p2"]), judgments_table(rows)
    return RunData(Path("run"), made, {}, ArmLookup(space).arms_of(table), table, Fold(space))


@given(scales=st.tuples(ENDS, ENDS), answers=ANSWERS, split=st.integers(0, 20))
def test_are_those_of_all_judgments_wherever_one_begins_to_count(
    scales: tuple[tuple[int, int], ...], answers: list[tuple[int, float, str]], split: int
) -> None:
    each_scale = [Scale(*ends) for ends in scales]
    space = run_with([], each_scale).space
    rows: list[Judgment] = []
    for arm, share, scoring in answers:
        low, high = scales[space.attribute[arm]]
        expected = round((low + share * (high - low)) * 4096) / 4096
        row = replace(
            judgment(0, pair=space.pair[arm]),
            attribute=space.attribute_of(arm),
            rating=round(expected),
        )
        if scoring == "none":
            row = replace(row, rating=None, status="unparsed", reason="missing")
        rows.append(replace(row, expected_rating=expected) if scoring == "logprobs" else row)

    counted = LevelCounts.of(run_with(rows[:split], each_scale))
    for (arm, _, _), row in zip(answers[split:], rows[split:], strict=True):
        counted.add(arm, [] if row.value is None else [row.value])

    run = run_with(rows, each_scale)
    for (scale, arms, counts), (same_scale, same_arms, running) in zip(
        counts_by_scale(space, run.arm, run.judgments), counted.by_scale(), strict=True
    ):
        assert scale == same_scale
        assert arms.tolist() == same_arms.tolist()
        # finer ones, before there is a rating between them, hold nothing
        levels = max(counts.shape[1], running.shape[1])
        np.testing.assert_array_equal(at_levels(counts, levels), at_levels(running, levels))
        assert counted.of_arms(arms).tolist() == running.tolist()


def at_levels(counts: FloatArray, levels: int) -> FloatArray:
    finer = np.zeros((len(counts), levels))
    finer[:, :: (levels - 1) // (counts.shape[1] - 1)] = counts
    return finer
