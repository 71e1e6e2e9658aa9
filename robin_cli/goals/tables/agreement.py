"""Agreement with human ratings, and human ratings by score, as tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from robin_cli.analysis.run_agreement import (
    agreements,
    all_scores,
    calibrations,
    check_comparable,
    reliabilities,
    whys_of,
)
from robin_cli.results.columns import AGREEMENT, CALIBRATION
from robin_cli.results.tables import Table

if TYPE_CHECKING:
    from robin_cli.goals.found import Found


def agreement_table(ran: Found, notify: Callable[[str], None] = lambda _line: None) -> Table:
    """Agreement with human ratings, and the judge's own reliability.

    Args:
        ran: what the run says.
        notify: is told of what there is no agreement, and why.

    Raises:
        InputError: there is none of anything, see :func:`~robin_cli.analysis.run_agreement.check_comparable`.
    """
    run = ran.run
    tables = all_scores(run, ran.scores)
    found = agreements(run, *tables)
    check_comparable(whys_of(found), run, notify)
    own = reliabilities(run, *tables)
    return _by_attribute(AGREEMENT, {name: (*found.get(name, ()), *own[name]) for name in own})


def calibration_table(ran: Found, notify: Callable[[str], None] = lambda _line: None) -> Table:
    """Human ratings by level of the score.

    Args and Raises: as for :func:`agreement_table`.
    """
    run = ran.run
    found = calibrations(run, *all_scores(run, ran.scores))
    check_comparable({name: told.why for name, told in found.items()}, run, notify)
    return _by_attribute(CALIBRATION, {name: told.levels for name, told in found.items()})


def _by_attribute(table: Table, found: Mapping[str, Sequence[Any]]) -> Table:
    """A row each, with its attributes as columns behind the name."""
    rows = [(name, each) for name, several in found.items() for each in several]
    values = {column: [getattr(each, column) for _, each in rows] for column in table.columns if column != "attribute"}
    return table.of({"attribute": [name for name, _ in rows], **values})
