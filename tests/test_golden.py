"""Every command, for every goal, prints and writes what it did before: see tests/golden."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

import pytest

from tests.golden.scenes import OUTPUTS, SCENES, judges, play

_NUMBER = re.compile(r"(?<![\w.])-?\d+\.\d+(?:e-?\d+)?")


@pytest.fixture
def urls() -> Iterator[tuple[str, str]]:
    """The addresses of the judge that rates and of the one that compares."""
    with judges() as found:
        yield found


@pytest.mark.parametrize("scene", SCENES)
def test_prints_what_it_printed_before(scene: str, tmp_path: Path, urls: tuple[str, str]) -> None:
    found = dict(play(scene, tmp_path, urls))
    kept = {file.stem: file.read_text(encoding="utf-8") for file in (OUTPUTS / scene).iterdir()}
    assert sorted(found) == sorted(kept)
    differences = [f"{name}: {line}" for name in found for line in _differing(kept[name], found[name])]
    assert not differences, "\n".join(["make golden writes the files anew and shows the difference", *differences[:20]])


def _differing(before: str, now: str) -> Iterator[str]:
    """The lines that differ by more than the last digits of a number, which other versions of numpy make otherwise."""
    for number, lines in enumerate(zip_longest(before.splitlines(), now.splitlines(), fillvalue=""), 1):
        was, is_ = lines
        values = [list(map(float, _NUMBER.findall(line))) for line in lines]
        same_words = _NUMBER.sub("#", was) == _NUMBER.sub("#", is_)
        if not (
            same_words and all(math.isclose(*each, rel_tol=1e-8, abs_tol=1e-9) for each in zip(*values, strict=True))
        ):
            yield f"line {number}: {was!r} is now {is_!r}"
