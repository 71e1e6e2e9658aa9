"""robin decides what its ratings show, and asks no more about what is settled."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robin_cli.goals.deciding import decision_facts
from robin_cli.model.arms import WritableArms
from robin_cli.model.decision import decision_of
from robin_cli.model.records import Scale
from robin_cli.model.space import ArmSpace
from robin_cli.policies.base import Policy, Setup
from robin_cli.policies.registry import make_policy
from robin_cli.policies.task import Task
from robin_cli.simulate.runs import DrawnRatings, simulate
from robin_cli.stats.court import DecisionCourt
from robin_cli.stats.decided import Decided, decide, decisions_by
from robin_cli.stats.decisions import Evidence, RunVerdicts
from robin_cli.stats.evidence import log_evidence
from robin_cli.stats.intervals import Part, log_sum_evidence
from robin_cli.stats.level_counts import LevelCounts

SHORT, LONG = Scale(0, 4), Scale(1, 10)
MARGIN = 0.2


def made(
    text: str,
    ratings: list[list[int]],
    *,
    judges: int = 1,
    scales: tuple[Scale, ...] = (SHORT,),
    group: list[int] | None = None,
    error_rate: float = 0.05,
) -> tuple[Task, RunVerdicts, WritableArms]:
    """The task, and its verdicts after these ratings of each arm."""
    names = ("a", "b")[: len(scales)]
    pairs = len(ratings) // (judges * len(scales))
    space = ArmSpace(
        [f"p{each}" for each in range(pairs)], names, [f"j{each}" for each in range(judges)], scales
    )
    decision = decision_of(text, names, scales, margin=MARGIN, error_rate=error_rate)
    task = Task(decision, space, None if group is None else np.array(group))
    arms, verdicts = WritableArms(len(space)), RunVerdicts(Evidence(task), LevelCounts(space))
    for arm, each in enumerate(ratings):
        tell(verdicts, arms, arm, each)
    return task, verdicts, arms


def come_to(verdicts: RunVerdicts, arms: WritableArms) -> Decided:
    assert isinstance(verdicts.evidence, Evidence)
    return decide(verdicts.evidence.task, lambda: verdicts.counts, arms.columns)


def certified_of(decided: Decided) -> list[bool]:
    assert decided.certified is not None
    return [bool(each) for each in decided.certified]


def side_of(verdicts: RunVerdicts) -> np.ndarray[Any, Any]:
    assert isinstance(verdicts.evidence, Evidence)
    return verdicts.evidence.side


def tell(verdicts: RunVerdicts, arms: WritableArms, arm: int, ratings: list[int]) -> None:
    verdicts.add(arm, ratings)
    for rating in ratings:
        arms.add_rating(arm, rating)


def counted(
    ratings: list[int], scale: Scale = SHORT
) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    return np.bincount(np.array(ratings, dtype=np.int64) - scale.low, minlength=scale.levels)[
        None, :
    ]


RATINGS = st.lists(st.integers(1, 4), min_size=0, max_size=9)


@given(st.lists(RATINGS, min_size=4, max_size=4))
def test_keeps_a_pair_where_all_thresholds_are_shown_to_hold_and_drops_it_where_one_is_shown_not_to(
    ratings: list[list[int]],
) -> None:
    _, verdicts, arms = made("a>=3,b<=2", ratings, scales=(SHORT, LONG))

    verdicts.look(arms.columns, Policy())

    for pair in range(2):
        above, below = (
            each[0] for each in log_evidence(counted(ratings[2 * pair]), 0, 4, 3, MARGIN)
        )
        over, under = (
            each[0] for each in log_evidence(counted(ratings[2 * pair + 1], LONG), 1, 10, 2, MARGIN)
        )
        keep, drop = min(above, under), math.log((math.exp(below) + math.exp(over)) / 2)
        assert verdicts.evidence.log[0, pair] == pytest.approx(max(keep, drop))
        assert side_of(verdicts)[0, pair] == (keep >= drop)


def test_has_the_best_of_a_group_only_where_it_is_shown_to_beat_every_rival_by_a_bet_that_pays_for_all_of_them() -> (
    None
):
    clear, close = [4] * 12, [4, 3] * 6
    task, verdicts, arms = made(
        "best", [clear, [0] * 12, close, [1] * 12, [1] * 9, close], group=[0, 0, 1, 1, 1, 1]
    )

    verdicts.look(arms.columns, Policy())

    (one,) = log_sum_evidence(
        [Part(counted(clear), 0, 4, 1.0), Part(counted([0] * 12), 0, 4, -1.0)], -MARGIN
    )
    assert verdicts.evidence.log[0, 0] == pytest.approx(one - math.log(1))
    assert side_of(verdicts)[0].tolist() == [0, 0]
    assert verdicts.evidence.log[0, 1] == -math.inf, "two responses of one group are alike"
    decided = decide(task, lambda: LevelCounts(task.space), arms.columns)
    assert decided.number.tolist() == [0, 0, 1, 1, 1, 1]


def test_tells_of_three_rivals_the_hardest_to_beat() -> None:
    rivals = [[0] * 20, [1] * 14, [0, 1] * 8]
    leader = [4] * 16
    _, verdicts, arms = made("best", [rivals[0], leader, *rivals[1:]], group=[0, 0, 0, 0])

    verdicts.look(arms.columns, Policy())

    each = [
        log_sum_evidence(
            [Part(counted(leader), 0, 4, 1.0), Part(counted(rival), 0, 4, -1.0)], -MARGIN
        )[0]
        for rival in rivals
    ]
    assert side_of(verdicts)[0, 0] == 1
    assert verdicts.evidence.log[0, 0] == pytest.approx(min(each) - math.log(3))


@pytest.mark.parametrize(("text", "group"), [("a>=2", None), ("best", [0, 0, 1, 1])])
def test_settles_what_has_a_quarter_more_evidence_than_it_needs_and_opens_it_again_below_that(
    text: str, group: list[int] | None
) -> None:
    _, verdicts, arms = made(text, [[4], [0], [4], [0]], group=group)
    verdicts.look(arms.columns, Policy())
    assert not verdicts.settled.any()
    needed, mine = math.log(1 / 0.05), [0] if group is None else [0, 1]
    changed = np.empty(0, dtype=np.int64)

    while verdicts.evidence.log[0, 0] < needed + math.log(1.25):
        assert not verdicts.settled[0]
        for arm, rating in ((0, 4), (1, 0))[: len(mine)]:
            tell(verdicts, arms, arm, [rating])
        changed = verdicts.look(arms.columns, Policy())
    assert changed.tolist() == mine
    assert np.flatnonzero(verdicts.settled).tolist() == mine
    assert not verdicts.all_decided

    while verdicts.evidence.log[0, 0] >= needed:
        assert verdicts.settled[0], "a little less is enough to stay"
        tell(verdicts, arms, 0, [0])
        changed = verdicts.look(arms.columns, Policy())
    assert changed.tolist() == mine
    assert not verdicts.settled.any()


def test_is_over_once_every_decision_has_the_evidence_that_it_needs() -> None:
    _, verdicts, arms = made("a>=2", [[4] * 6, [0] * 3])
    told = 0
    while verdicts.look(arms.columns, Policy()).size >= 0 and not verdicts.all_decided:
        tell(verdicts, arms, 1, [0])
        told += 1

    assert told > 0
    assert verdicts.evidence.log.min() >= math.log(1 / 0.05)
    assert come_to(verdicts, arms).decision.tolist() == ["keep", "drop"]
    assert come_to(verdicts, arms).is_over


def test_decides_by_the_mean_and_certifies_what_has_the_evidence() -> None:
    task, verdicts, arms = made("a>=2", [[4] * 30, [2, 3], [2, 1], []])

    decided = come_to(verdicts, arms)

    assert decided.decision.tolist() == ["keep", "keep", "drop", "undecided"]
    assert certified_of(decided) == [True, False, False, False]
    assert decided.tally() == {"keep": 2, "drop": 1, "undecided": 1}
    assert task.decisions == 4


def test_decides_at_the_threshold_itself_as_the_relation_says() -> None:
    for text, side in (("a>=3", "keep"), ("a>3", "drop"), ("a<=3", "keep"), ("a<3", "drop")):
        task, _, _ = made(text, [[3]])

        assert decisions_by(task, np.array([3.0])).tolist() == [side], (text, side)


def test_the_best_of_a_group_has_the_highest_mean_or_is_the_first_of_equals() -> None:
    task, _, _ = made("best", [[]] * 6, group=[0, 0, 0, 1, 1, 2])

    found = decisions_by(task, np.array([2.0, 3.0, 3.0, math.nan, 1.0, 4.0]))

    assert found.tolist() == ["rejected", "best", "rejected", "undecided", "best", ""]


@pytest.mark.parametrize(
    ("text", "group", "scheduler"),
    [("a>=2", None, "auto"), ("a<2", None, "uniform"), ("best", [0, 0, 1, 1, 1, 2], "auto")],
)
def test_counts_what_is_wrong_in_simulated_runs_as_its_definition_has_it(
    text: str, group: list[int] | None, scheduler: str
) -> None:
    rng = np.random.default_rng(3)
    rows = [rng.integers(0, 5, 7) for _ in range(6)]
    task, _, _ = made(text, [[]] * 6, group=group, error_rate=0.5)
    policy = make_policy(scheduler, Setup(6, 60, SHORT, task=task))

    (early, late) = simulate(
        DrawnRatings.from_ratings(rows),
        policy,
        [12, 60],
        9,
        rng,
        court=partial(DecisionCourt, task),
    )

    truth = [float(row.mean()) for row in rows]
    for snapshot in (early, late):
        for run in range(9):
            estimates = snapshot.estimates[run]
            if group is None:
                sign = 1 if text == "a>=2" else -1
                kept = [(each >= 2) if sign > 0 else (each < 2) for each in estimates]
                wrong = [
                    (keep and sign * (mu - 2) < -MARGIN) or (not keep and sign * (mu - 2) > MARGIN)
                    for keep, mu in zip(kept, truth, strict=True)
                ]
            else:
                best = [
                    max((0, 1), key=lambda i: estimates[i]),
                    max((2, 3, 4), key=lambda i: estimates[i]),
                ]
                wrong = [
                    truth[best[0]] < max(truth[:2]) - MARGIN,
                    truth[best[1]] < max(truth[2:5]) - MARGIN,
                ]
            assert snapshot.measured["wrong"][run] == pytest.approx(np.mean(wrong))
            assert snapshot.measured["calls"][run] == snapshot.n[run].sum() <= snapshot.budget


def test_spends_no_call_of_a_simulated_run_after_everything_is_decided() -> None:
    task, _, _ = made("a>=2", [[]] * 5, error_rate=0.2)
    ratings = DrawnRatings.from_ratings(
        [np.array([4]), np.array([0]), np.array([4, 4, 3]), np.array([0, 1]), np.array([4])]
    )
    policy = make_policy("auto", Setup(5, 1000, SHORT, task=task))

    (snapshot,) = simulate(
        ratings, policy, [1000], 6, np.random.default_rng(0), court=partial(DecisionCourt, task)
    )

    assert snapshot.measured["calls"].max() < 100
    assert snapshot.measured["certified"].tolist() == [1.0] * 6
    assert snapshot.budget == 1000


def test_decides_of_simulated_runs_as_of_a_run_with_the_same_ratings() -> None:
    rng = np.random.default_rng(4)
    ratings = [rng.integers(0, 5, rng.integers(2, 9)).tolist() for _ in range(12)]
    for text, group in (("a>=2,b<=5", None), ("best", [0, 0, 1])):
        task, verdicts, arms = made(
            text, ratings, judges=2, scales=(SHORT, Scale(0, 10)), group=group
        )
        verdicts.look(arms.columns, Policy())
        court = DecisionCourt(task, 2)
        for arm, each in enumerate(ratings):
            for rating in each:
                court.add(np.array([1]), np.array([arm]), np.array([float(rating)]))
        sums = arms.columns.sums.by(lambda column: np.stack([np.zeros(12), column]))
        court.look(sums, Policy())

        evidence = court._evidence
        assert court.settled is not None
        assert evidence is not None
        assert court.settled[1].tolist() == verdicts.settled.tolist()
        assert evidence.log[1].tolist() == pytest.approx(verdicts.evidence.log[0].tolist())
        assert evidence.side[1].tolist() == side_of(verdicts)[0].tolist()


@pytest.mark.parametrize(
    ("text", "group"), [("a>=2,b<=5", None), ("best", [0, 1, 0, 2, 1, 0, 3, 1])]
)
def test_decides_part_by_part_as_of_all_at_once(
    text: str, group: list[int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(5)
    ratings = [
        rng.choice([0, 4], rng.integers(0, 99), p=[1 - share, share]).tolist()
        for share in rng.random(32).round()
    ]
    found = []
    for at_once in (1000, 3, 1):
        monkeypatch.setattr("robin_cli.stats.decisions.AT_ONCE", at_once)
        _, verdicts, arms = made(text, ratings, judges=2, scales=(SHORT, Scale(0, 10)), group=group)
        arms.add_failure(7, permanent=True)
        verdicts.look(arms.columns, Policy())
        decided = come_to(verdicts, arms)
        columns = (decided.decision, np.array(certified_of(decided)), decided.likely_wrong)
        found.append([verdicts.settled.tolist(), *(column.tolist() for column in columns)])

    assert len({*found[0][1]}) > 1
    for part_by_part in found[1:]:
        assert part_by_part[:-1] == found[0][:-1]
        assert part_by_part[-1] == pytest.approx(found[0][-1], nan_ok=True)


def test_asks_no_more_about_what_nobody_can_decide_and_certifies_the_rest() -> None:
    task, verdicts, arms = made("a>=2", [[4] * 8, [0] * 8, [4], []], judges=1)
    arms.add_failure(3, permanent=True)
    verdicts.add(3, ())

    verdicts.look(arms.columns, Policy())
    while not verdicts.all_decided:
        tell(verdicts, arms, 2, [4])
        verdicts.look(arms.columns, Policy())

    decided = come_to(verdicts, arms)
    assert decided.decision.tolist() == ["keep", "drop", "keep", "undecided"]
    assert decided.is_over
    assert verdicts.evidence.log[0, :3].min() >= math.log(4 / 3 / 0.05)
    assert verdicts.settled[3]
    assert task.decisions == 4


def test_looks_for_the_best_of_the_responses_that_can_be_rated() -> None:
    _, verdicts, arms = made(
        "best", [[4] * 30, [0] * 30, [], [3], [], []], group=[0, 0, 0, 1, 1, 1]
    )
    assert not certified_of(come_to(verdicts, arms))[0], (
        "a response that is not rated yet may be the best"
    )
    for arm in (2, 4, 5):
        arms.add_failure(arm, permanent=True)
        verdicts.add(arm, ())

    verdicts.look(arms.columns, Policy())

    decided = come_to(verdicts, arms)
    assert decided.decision.tolist() == [
        *("best", "rejected", "undecided"),
        *("best", "undecided", "undecided"),
    ]
    assert certified_of(decided) == [True, False]
    assert decided.is_over, "of one response alone there is nothing to choose"
    assert verdicts.settled[3:].all()


def test_is_not_over_before_it_began() -> None:
    _, verdicts, arms = made("a>=2", [[], []])

    assert not come_to(verdicts, arms).is_over


def test_asks_no_more_about_a_decision_of_which_an_arm_was_given_up() -> None:
    _, verdicts, arms = made("a>=3,b<=2", [[], [4], [4], [1]], scales=(SHORT, LONG))
    arms.add_failure(0, permanent=True)
    verdicts.add(0, ())
    verdicts.look(arms.columns, Policy())
    assert verdicts.evidence.closed[0].tolist() == [True, False]

    _, verdicts, arms = made("best", [[4], [0], [2, 2], [2]], group=[0, 0, 1, 1])
    arms.add_failure(1, permanent=True)
    verdicts.add(1, ())
    verdicts.look(arms.columns, Policy())
    assert verdicts.evidence.closed[0].tolist() == [True, False]


def test_certifies_a_decision_only_with_the_evidence_for_its_own_side() -> None:
    _, verdicts, arms = made("a>=3", [[3] * 40])
    decided = come_to(verdicts, arms)
    assert (decided.decision.tolist(), certified_of(decided)) == (["keep"], [False]), (
        "sure to be below 3.2 alone"
    )

    tell(verdicts, arms, 0, [3] * 60)
    assert certified_of(come_to(verdicts, arms)) == [True]

    # Of four pairs that are open beside it, it alone is certified: that takes five times the evidence, of either side.
    _, beside, arms = made("a>=3", [[3] * 60, [], [], [], []])
    above, below = (each[0] for each in log_evidence(counted([3] * 60), 0, 4, 3, MARGIN))
    assert math.log(1 / 0.05) < above < math.log(5 / 0.05) < below
    assert not certified_of(come_to(beside, arms))[0]


def test_counts_a_group_by_what_leads_where_its_first_response_cannot_be_rated() -> None:
    _, verdicts, arms = made("best", [[], [4] * 20, [0] * 20, [4]], group=[0, 0, 0, 1])
    arms.add_failure(0, permanent=True)
    verdicts.add(0, ())

    decided = come_to(verdicts, arms)

    facts = decision_facts(decided, 0.0)
    assert [facts[name] for name in ("of", "certified", "best", "undecided")] == [1, 1, 1, 0]
    assert facts["likely_wrong_of"] == 1
    assert decided.decision.tolist() == ["undecided", "best", "rejected", ""]


def test_asks_a_decision_for_what_those_leave_to_it_that_were_given_up_short_of_it() -> None:
    _, verdicts, arms = made("a>=2", [[4, 4], [4] * 6, [], []])
    verdicts.look(arms.columns, Policy())
    while verdicts.evidence.log[0, 0] < math.log(1 / 0.05):
        tell(verdicts, arms, 0, [3])
        verdicts.look(arms.columns, Policy())
    assert verdicts.evidence.log[0, 0] < math.log(2 / 0.05)
    for arm in (0, 2, 3):
        arms.add_failure(arm, permanent=True)
        verdicts.add(arm, ())
    verdicts.look(arms.columns, Policy())

    while not verdicts.settled[1]:
        tell(verdicts, arms, 1, [4])
        verdicts.look(arms.columns, Policy())

    assert verdicts.evidence.log[0, 1] >= math.log(4 / 0.05)
    assert verdicts.all_decided
    assert certified_of(come_to(verdicts, arms)) == [False, True, False, False]
