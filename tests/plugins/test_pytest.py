"""The fixture robin_gate, as the pytest of another project finds it."""

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
