"""What is told of a run: each attribute, a panel and each of its judges, by value and by what is left out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import evalica
import numpy as np
import pandas as pd
import pytest

import robin_cli.stats.agreement
from robin_cli.data.given_labels import GivenLabels, Label
from robin_cli.model.errors import InputError
from robin_cli.model.records import Scale
from robin_cli.run.reader import RunReader
from robin_cli.stats.agreement import agreement
from robin_cli.stats.run_agreement import (
    agreements,
    agreements_among,
    all_scores,
    calibrations,
    check_comparable,
    reliabilities,
)
from robin_cli.stats.scores import score
from tests.stats.test_scores import ATTRIBUTES, JUDGES, Rated, run_of

PAIRS = 44


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(robin_cli.stats.agreement, "resamples_for", lambda _: 60)


def ratings(k: int, place: int) -> list[int | None]:
    """Of a pair, by the judge at this place."""
    return [k % 3 + place, k % 3 + k // 3 % 2 + 1]


def humans(high: float) -> dict[str, dict[str, float]]:
    return {f"p{k}": {"style": high if k == 11 else k % 5 + 1.0} for k in range(PAIRS)}


def scored(
    tmp_path: Path, human: dict[str, dict[str, float]], prompt_of: Callable[[int], int] = int
) -> RunReader:
    given: Rated = {
        (f"p{k}", attribute, judge): ratings(k, place)
        for k in range(PAIRS)
        for attribute in ATTRIBUTES
        for place, judge in enumerate(JUDGES, 1)
    }
    prompts = {f"p{k}": f"prompt {prompt_of(k)}" for k in range(PAIRS)}
    return run_of(tmp_path, given, human=human, prompts=prompts)


def test_correlates_the_scores_of_the_panel_and_of_each_judge_with_human_ratings(
    tmp_path: Path,
) -> None:
    run = scored(tmp_path, humans(2.0), lambda k: k // 2)
    found = agreements(run, *all_scores(run, score(run)))
    assert list(found) == ["style", "style · a", "style · b"]  # nobody rated the stars
    human = np.array([humans(2.0)[f"p{k}"]["style"] for k in range(PAIRS)])
    means = {
        judge: np.array(
            [np.mean([each for each in ratings(k, place) if each]) for k in range(PAIRS)]
        )
        for place, judge in enumerate(JUDGES, 1)
    }
    means |= {"panel": (means["a"] + means["b"]) / 2}
    for name, of in (("style", "panel"), ("style · a", "a"), ("style · b", "b")):
        assert found[name] == agreement(means[of], human, np.arange(PAIRS) // 2, Scale(1, 5))
        assert found[name][1].value == pytest.approx(np.corrcoef(means[of], human)[0, 1])
        assert found[name][0].n_prompts == PAIRS / 2
    assert agreements(run, score(run)).keys() == {"style"}


def test_tells_the_reliability_of_the_panel_and_of_each_judge_without_human_ratings(
    tmp_path: Path,
) -> None:
    run = scored(tmp_path, {})
    panel, each = all_scores(run, score(run))
    found = reliabilities(run, panel, each)
    assert list(found) == ["style", "stars", "style · a", "style · b", "stars · a", "stars · b"]
    means, variances = np.zeros((2, PAIRS)), np.zeros((2, PAIRS))
    for place in (1, 2):
        given = [[each for each in ratings(k, place) if each is not None] for k in range(PAIRS)]
        means[place - 1] = np.mean(given, axis=1)
        variances[place - 1] = np.var(given, axis=1, ddof=1)
    total, noise = means.mean(axis=0).var(ddof=1), variances.mean(axis=1) / 2  # two ratings each
    assert [told.coefficient for told in found["stars"]] == ["reliability", "ceiling"]
    assert found["stars"][0].value == pytest.approx((total - noise.sum() / 4) / total)
    total = means[1].var(ddof=1)
    assert [told.coefficient for told in found["style · b"]] == ["reliability", "ceiling", "icc"]
    assert found["style · b"][0].value == pytest.approx(max(0, (total - noise[1]) / total))
    assert found["style · b"][2].value == pytest.approx((total - noise[1]) / (total + noise[1]))


def test_tells_no_reliability_of_pairs_asked_once(tmp_path: Path) -> None:
    given: Rated = {(f"p{k}", "style", "a"): [k % 5 + 1] for k in range(PAIRS)}
    run = run_of(tmp_path, given, prompts={f"p{k}": str(k) for k in range(PAIRS)})
    (found,) = reliabilities(run, score(run)).values()
    assert all(np.isnan([told.value, told.ci_low, told.ci_high]).all() for told in found)
    few = "too few pairs were asked twice to know the judge's noise: 0 further ratings of pairs already rated"
    assert {told.why for told in found} == {f"{few}, 30 are needed"}


def test_tells_human_ratings_by_score(tmp_path: Path) -> None:
    run = scored(tmp_path, humans(2.0))
    found = calibrations(run, *all_scores(run, score(run)))
    assert list(found) == ["style", "style · a", "style · b"]
    means = np.array([np.mean([each for each in ratings(k, 1) if each]) for k in range(PAIRS)])
    human = np.array([humans(2.0)[f"p{k}"]["style"] for k in range(PAIRS)])
    levels = np.floor(means + 0.5)
    assert [each.level for each in found["style · a"].levels] == sorted(set(levels))
    for each in found["style · a"].levels:
        mine = levels == each.level
        assert each.n == mine.sum()
        assert each.mean_human == pytest.approx(human[mine].mean())


def test_tells_no_agreement_with_human_ratings_of_another_scale(tmp_path: Path) -> None:
    run = scored(tmp_path, humans(50.0))
    found = agreements(run, score(run))
    assert {each.n for each in found["style"]} == {PAIRS}
    assert f"1 of {PAIRS} human ratings are off the scale 1-5" in found["style"][0].why
    assert calibrations(run, score(run))["style"].why == found["style"][0].why
    with pytest.raises(
        InputError, match="--columns style=NAME,stars=NAME, or with a rubric of theirs"
    ):
        check_comparable({"style": found["style"][0].why}, run, lambda _: None)


def test_tells_nothing_of_few_prompts(tmp_path: Path) -> None:
    run = scored(tmp_path, humans(2.0), lambda k: k % 19)
    told = calibrations(run, score(run))["style"]
    why = "20 prompts with a score and a human rating are needed; this run has 19"
    assert (told.levels, told.why) == ((), why)
    few = "no interval below 20 prompts; this run has 19"
    for found in (agreements(run, score(run)), reliabilities(run, score(run))):
        alone = found["style"][0]
        assert (np.isnan(alone.value), np.isnan(alone.ci_low), alone.why) == (False, True, few)


def test_says_of_what_there_is_no_agreement(tmp_path: Path) -> None:
    run = scored(tmp_path, {})
    assert calibrations(run, score(run)) == {}
    with pytest.raises(InputError, match="has no human ratings of style, stars"):
        check_comparable({}, run, lambda _: None)
    human = {f"p{k}": {"style": 3.0, "stars": float(k % 7 + 1)} for k in range(PAIRS)}
    run = scored(tmp_path / "one", human)
    said: list[str] = []
    check_comparable(
        {name: each.why for name, each in calibrations(run, score(run)).items()}, run, said.append
    )
    assert said == ["style: all human ratings are alike"]


def test_tells_how_far_people_and_judges_agree_among_themselves(tmp_path: Path) -> None:
    run = scored(tmp_path, {}, lambda k: k // 2)
    tables = all_scores(run, score(run))
    people = [{k: float(k % 5 + 1) for k in range(30)}, {k: float(k % 4 + 1) for k in range(40)}]
    labels = {
        f"p{k}": {
            name: Label(of[k], None, "") for name, of in zip("xy", people, strict=True) if k in of
        }
        for k in range(40)
    }
    given = GivenLabels("", {"style": {}, "stars": {}}, {"style": labels, "stars": {}})
    found = agreements_among(run, *tables, given_labels=given)
    assert list(found) == ["style · people", "style · judges", "stars · judges"]
    both = [[of[k] for k in range(30)] for of in people]
    assert found["style · people"][0].n == 30
    assert found["style · people"][0].value == pytest.approx(
        evalica.alpha(pd.DataFrame(both), distance="interval").alpha
    )
    means = [
        [np.mean([each for each in ratings(k, p) if each]) for k in range(PAIRS)] for p in (1, 2)
    ]
    alpha = evalica.alpha(pd.DataFrame(means), distance="interval").alpha
    judges = found["style · judges"][0]
    assert judges.value == pytest.approx(alpha)
    assert judges.ci_low < alpha < judges.ci_high


def test_one_judge_is_correlated_once(tmp_path: Path) -> None:
    given: Rated = {(f"p{k}", "style", "a"): [k % 5 + 1] for k in range(PAIRS)}
    run = run_of(tmp_path, given, human=humans(2.0))
    assert list(agreements(run, *all_scores(run, score(run)))) == ["style"]


def test_takes_pairs_of_the_same_words_for_one_prompt(tmp_path: Path) -> None:
    given: Rated = {(f"p{k}", "style", "a"): [1] for k in range(4)}
    run = run_of(tmp_path, given, prompts={"p0": "a", "p1": "b", "p2": "a", "p3": "a "})
    first, second, third, other = run.prompts.tolist()
    assert first == third
    assert len({first, second, other}) == 3
