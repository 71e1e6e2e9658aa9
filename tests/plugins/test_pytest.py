"""The fixtures robin_gate and robin_settled, as the pytest of another project finds them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from robin_cli import Pair, RobinError
from tests.show.tables import make_run

PAIRS = [Pair(f"pair-{k}", f"prompt {k}", f"response {k}") for k in range(3)]
RATINGS: list[list[int | None]] = [[3, 3, 2, 3, 2], [4] * 5, [3] * 4]


def test_passes_fails_or_skips_by_what_a_run_meets(
    tmp_path: Path, robin_gate: Callable[..., Any]
) -> None:
    run = make_run(tmp_path / "r", PAIRS, RATINGS).path
    assert robin_gate(run, "mean(helpfulness)>=0.1").state == "pass"
    with pytest.raises(
        pytest.fail.Exception, match=r"(?s)PASS mean.*FAIL mean\(helpfulness\)<=0.5: 3.20"
    ):
        robin_gate(str(run), "mean(helpfulness)>=0.1", "mean(helpfulness)<=0.5", unsettled="skip")
    with pytest.raises(pytest.fail.Exception, match="INCONCLUSIVE"):
        robin_gate(run, "mean(helpfulness)>=2")
    with pytest.raises(pytest.skip.Exception, match="INCONCLUSIVE"):
        robin_gate(run, "mean(helpfulness)>=2", unsettled="skip")
    with pytest.raises(RobinError, match="not a run directory"):
        robin_gate("runs/none", "mean(helpfulness)>=2")


def test_rates_until_settled(robin_settled: Callable[..., dict[str, float]]) -> None:
    asked: list[str] = []

    def rate(name: str) -> float:
        asked.append(name)
        return {"good": 5, "bad": 1, "split": 1 + 4 * (asked.count(name) % 2)}[name]

    found = robin_settled(rate, ["good"], "score>=3", (1, 5))
    assert (found["settled"], found["keep"], found["ratings"]) == (1, 1, len(asked))
    with pytest.raises(
        pytest.fail.Exception, match=r"(?s)dropped: bad\nnot settled after 9 ratings: split"
    ):
        robin_settled(rate, ["bad", "split", "good"], "score>=3", (1, 5), most=9)
    assert asked.count("split") == 9
    assert robin_settled(rate, ["good", "bad"], 0.5, (1, 5))["settled"] == 2
    with pytest.raises(TypeError, match="needs an id"):
        robin_settled(rate, [], 0.5, (1, 5))
