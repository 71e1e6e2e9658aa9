"""Every command, for every goal, prints and writes what it did before: see tests/golden."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

import pytest

from tests.golden.scenes import OUTPUTS, SCENES, play, rating

_NUMBER = re.compile(r"(?<![\w.])-?\d+\.\d+(?:e-?\d+)?")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with rating() as address:
        yield address


@pytest.mark.parametrize("scene", SCENES)
def test_prints_what_it_printed_before(scene: str, tmp_path: Path, url: str) -> None:
    found = dict(play(scene, tmp_path, url))
    kept = {file.stem: file.read_text(encoding="utf-8") for file in (OUTPUTS / scene).iterdir()}
    assert sorted(found) == sorted(kept)
    differences = [
        f"{name}: {line}" for name in found for line in _differing(kept[name], found[name])
    ]
    assert not differences, "\n".join(
        ["make golden writes the files anew and shows the difference", *differences[:20]]
    )


ANSWERS = {
    "scores": r"mean helpfulness \d\.\d\d \[.*\] \(95 %, over 8 prompts, 24 pairs\)",
    "thresholds": r"kept \d+ of 24; fewer than 1 of the 24 decisions is likely wrong",
    "best": r"found the best of 8 groups; fewer than 1 of the 8 is likely wrong",
    "comparison": r"birch (is better than|and) cedar .*\[.*\] \(95 %, over 8 prompts[,)]",
    "pairwise": r"ranking of 6 systems: 1 \w+.*, 2 \w+.*, 3 \w+",
    "pairwise-best": r"found the best of \d+ of 12 prompts; about \d+ of the 12 are likely wrong",
    "gate": r"PASS mean\(helpfulness\)>=1: \d\.\d\d, 95 % interval ",
}
"""How the answer to each question begins."""


@pytest.mark.parametrize("question", ANSWERS)
def test_answers_in_its_first_lines_and_ends_with_the_answer_and_what_is_useful_next(
    question: str,
) -> None:
    file = "comparison/gate.txt" if question == "gate" else f"{question}/screen.txt"
    screen = (OUTPUTS / file).read_text(encoding="utf-8").split("\n\n", 1)[1].splitlines()
    assert re.match(ANSWERS[question], screen[0])
    *before, step = screen[-4:]
    assert step.startswith("next: robin re")
    assert screen[0] in before or "PASS: of 3 requirements 3 pass" in before
    assert "→" in "".join(before) or "best" not in question


def _differing(before: str, now: str) -> Iterator[str]:
    """The lines that differ by more than the last digits of a number, which other versions of numpy make otherwise."""
    for number, lines in enumerate(
        zip_longest(before.splitlines(), now.splitlines(), fillvalue=""), 1
    ):
        was, is_ = lines
        values = [list(map(float, _NUMBER.findall(line))) for line in lines]
        same_words = _NUMBER.sub("#", was) == _NUMBER.sub("#", is_)
        if not (
            same_words
            and all(
                math.isclose(*each, rel_tol=1e-8, abs_tol=1e-9)
                for each in zip(*values, strict=True)
            )
        ):
            yield f"line {number}: {was!r} is now {is_!r}"
