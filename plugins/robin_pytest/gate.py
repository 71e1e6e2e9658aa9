"""The fixture ``robin_gate``, which runs robin gate in a test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest

if TYPE_CHECKING:
    from robin_cli.goals.gate import GateResult

pytest_plugins = ["robin_pytest.settled"]


@pytest.fixture
def robin_gate() -> Callable[..., GateResult]:
    """``robin_gate("runs/first", "mean(helpfulness)>=3")``: fail the test, with robin's message, unless the run meets all.

    The keywords ``margin``, ``error_rate`` and ``by`` are the flags of robin gate. An inconclusive requirement fails, too;
    with ``unsettled="skip"`` the test is skipped instead.
    """

    def gate(
        run: str | Path,
        *required: str,
        margin: float | None = None,
        error_rate: float = 0.05,
        by: str | None = None,
        unsettled: Literal["fail", "skip"] = "fail",
    ) -> GateResult:
        # pytest starts without it where no test asks
        from robin_cli.goals.gate import check_requirements
        from robin_cli.show.gate import lines_of

        if not required:
            raise TypeError('robin_gate needs a requirement, for example "mean(helpfulness)>=3"')
        found = check_requirements(Path(run), required, margin=margin, error_rate=error_rate, by=by)
        said = "\n".join([*lines_of(found), *found.notes])
        if found.state == "inconclusive" and unsettled == "skip":
            pytest.skip(said)
        if found.state != "pass":
            pytest.fail(said, pytrace=False)
        return found

    return gate
