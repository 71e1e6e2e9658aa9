"""How often each arm got each rating, counted while ratings come."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robin_cli.model.arms import FloatArray
from robin_cli.model.errors import StorageError
from robin_cli.model.records import Judgment, Scale
from robin_cli.model.space import ArmSpace
from robin_cli.run.fold import Fold
from robin_cli.run.lookup import ArmLookup
from robin_cli.run.manifest import ends_of
from robin_cli.run.reader import RunReader, space_of
from robin_cli.run.schema import judgments_table
from robin_cli.stats.intervals import mean_intervals
from robin_cli.stats.level_counts import LevelCounts, counts_by_scale, level_counts
from tests.conftest import refuses
from tests.run.test_fold import FIVE, VALUES, folded
from tests.run.test_store import judgment, manifest

ENDS = st.sampled_from([(0, 4), (1, 10), (-2, 2), (0, 1), (0, 100)])
ANSWERS = st.lists(
    st.tuples(st.integers(0, 5), st.floats(0, 1), st.sampled_from(["text", "logprobs", "none"]))
)


def run_with(rows: list[Judgment], scales: list[Scale]) -> RunReader:
    attributes = tuple(f"a{number}" for number in range(len(scales)))
    made = manifest(attributes=attributes, scale=ends_of(attributes, scales))
    space, table = space_of(made, ["p0", "p1", "p2"]), judgments_table(rows)
    return RunReader(Path("run"), made, {}, ArmLookup(space).arms_of(table), table, Fold(space))


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

    counted = LevelCounts.from_run(run_with(rows[:split], each_scale))
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


@pytest.mark.parametrize("lowest", [0, 1, -2, 10])
@given(values=VALUES)
def test_counts_of_expected_ratings_keep_mean_and_number(
    lowest: int, values: list[tuple[int, int | None]]
) -> None:
    rows = []
    for number, (pair, expected) in enumerate(values):
        value = None if expected is None else lowest + expected / 4096
        rows.append(
            replace(judgment(number, pair=pair), rating=lowest + number % 5, expected_rating=value)
        )
    arm = np.array([each for each, _ in values])
    table = judgments_table(rows)

    counts = level_counts(arm, table, 3, Scale(lowest, lowest + 4))
    arms = folded(arm, table, Scale(lowest, lowest + 4)).arms

    levels = np.linspace(lowest, lowest + 4, counts.shape[1])
    np.testing.assert_allclose(counts.sum(axis=1), arms.n)
    np.testing.assert_allclose(counts @ levels, arms.total)
    low, high = mean_intervals(counts, lowest, lowest + 4)
    rated = arms.n > 0
    means = arms.total[rated] / arms.n[rated]
    assert (low[rated] <= means + 1e-9).all()
    assert (means <= high[rated] + 1e-9).all()


def test_a_rating_off_the_scale_is_said() -> None:
    values: list[dict[str, float]] = [{"rating": 0}, {"rating": 6}]
    values += [
        {"rating": 3, "expected_rating": value}
        for value in (math.nan, math.inf, -math.inf, 1e200, 0.5)
    ]
    for changed in values:
        table = judgments_table([replace(judgment(0), **changed)])  # type: ignore[arg-type]  # no float is a rating
        arm, scale = np.zeros(1, np.int64), Scale(1, 5)
        refuses(StorageError, "outside the scale 1-5", level_counts, arm, table, 1, scale)


@pytest.mark.parametrize("by_logprobs", [False, True])
def test_counts_more_ratings_than_it_takes_at_a_time(*, by_logprobs: bool) -> None:
    space = ArmSpace([f"p{k}" for k in range(7)], ["a", "b"], ["m"], [FIVE, Scale(1, 3)])
    rng, rows = np.random.default_rng(4), 2**19 + 1000
    arm = rng.integers(0, len(space), rows)
    low, high = space.ends
    rating = rng.integers(low[arm].astype(int), high[arm].astype(int) + 1)
    said = pa.array(rating, pa.int32(), mask=rng.random(rows) < 0.1)
    expected = pa.array(rating.astype(float), pa.float64(), mask=np.full(rows, not by_logprobs))

    for scale, arms, counts in counts_by_scale(
        space, arm, pa.table({"rating": said, "expected_rating": expected})
    ):
        # with log probabilities there are finer ones
        of_level = counts[:, :: (counts.shape[1] - 1) // (scale.levels - 1)]
        assert counts.sum() == of_level.sum()
        for level in range(scale.levels):
            there = said.is_valid().to_numpy(zero_copy_only=False) & (rating == scale.low + level)
            assert (
                of_level[:, level].tolist()
                == np.bincount(arm[there], minlength=len(space))[arms].tolist()
            )
