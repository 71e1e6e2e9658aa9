"""What a pairwise run cannot have, and what only it can, is refused with a next step."""

from __future__ import annotations

import pytest

from robin_cli.goals.best import BestGoal
from robin_cli.goals.checks import check_pairwise
from robin_cli.goals.ranking import PreferencesGoal, RankingGoal
from robin_cli.model.errors import InputError
from robin_cli.settings.table import Settings
from tests.policies.test_matches import matches, tournament


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"no_ties": True}, "--no-ties: is for --pairwise"),
        ({"pairwise": True, "target_error": 0.1}, "not with --target-error"),
        ({"pairwise": True, "variances": "runs/a"}, "not with --variances"),
        ({"pairwise": True, "group": "topic"}, "not with --group"),
        ({"pairwise": True, "decide": "score>=3"}, "--decide best"),
        ({"pairwise": True, "decide": "system"}, "systems are ranked as it is"),
        ({"pairwise": True, "mode": "theory"}, "not with --mode theory"),
        ({"pairwise": True, "attribute": ("helpfulness", "verbosity")}, "one criterion"),
    ],
)
def test_refuses_what_does_not_go_with_comparisons(settings: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        check_pairwise(Settings(**settings))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"pairwise": True},
        {"pairwise": True, "decide": "best", "attribute": ("helpfulness",)},
        {"pairwise": True, "no_ties": True},
    ],
)
def test_takes_what_goes_together(settings: dict[str, object]) -> None:
    check_pairwise(Settings(**settings))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("systems", "wants_best", "judges", "least"),
    [(4, False, 1, 6), (4, True, 2, 20), (2, False, 3, 6)],
)
def test_wants_calls_for_the_fewest_comparisons_that_say_anything(
    systems: int, wants_best: bool, judges: int, least: int
) -> None:
    found = matches(tournament(systems, 5), judges=judges, wants_best=wants_best)
    goal = (BestGoal if wants_best else RankingGoal if systems > 2 else PreferencesGoal)(
        found.space, found
    )
    goal.check_reach(least)
    with pytest.raises(InputError, match=f"raise it to {least} or more"):
        goal.check_reach(least - 1)


def test_says_how_many_comparisons_a_budget_asks_where_it_does_not_ask_all() -> None:
    of_two, of_four = (matches(tournament(systems, 10)) for systems in (2, 4))
    two, four = PreferencesGoal(of_two.space, of_two), RankingGoal(of_four.space, of_four)
    assert two.caution(20) == ""
    assert "asks 4 of 10 comparisons in both orders" in two.caution(9)
    assert four.caution(9) == "", "of many systems not all comparisons are to be asked"
