"""The fixture robin_gate, as the pytest of another project finds it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from robin_cli import RobinError
from tests.storage.test_runs_of_versions import MADE

RUN = MADE / "0.1.0" / "finished"


def test_passes_fails_or_skips_by_what_a_run_meets(robin_gate: Callable[..., Any]) -> None:
    assert robin_gate(RUN, "mean(helpfulness)>=0.1").state == "pass"
    with pytest.raises(
        pytest.fail.Exception, match=r"(?s)PASS mean.*FAIL mean\(helpfulness\)>=3.9: 3.25"
    ):
        robin_gate(str(RUN), "mean(helpfulness)>=0.1", "mean(helpfulness)>=3.9", unsettled="skip")
    with pytest.raises(pytest.fail.Exception, match="INCONCLUSIVE"):
        robin_gate(RUN, "mean(helpfulness)>=2")
    with pytest.raises(pytest.skip.Exception, match="INCONCLUSIVE"):
        robin_gate(RUN, "mean(helpfulness)>=2", unsettled="skip")
    with pytest.raises(RobinError, match="not a run directory"):
        robin_gate("runs/none", "mean(helpfulness)>=2")
