"""A panel of judges as a user runs it: several --model, scores of each, and scores of all together."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import robin_cli
from robin_cli.model.errors import InputError
from robin_cli.settings.resolve import judges_of
from robin_cli.settings.table import Settings
from tests.conftest import replaying, robin, write_pairs
from tests.judges.wire import Answer, completion, error, serving

pytestmark = pytest.mark.usefixtures("few_resamples", "no_pictures")
HARSH, MILD = "replay:harsh", "replay:mild"


@pytest.fixture(scope="module")
def two_judges(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A replay of two judges, one of whom gives 1.5 points more and varies more."""
    rng = np.random.default_rng(2)
    rows = [
        {
            "pair_id": f"p{k}",
            "attribute": name,
            "rating": int(np.clip(round(rng.normal(1 + k % 2 + more, sd)), 0, 4)),
        }
        for k in range(12)
        for name, more, sd in (("harsh", 0.0, 0.4), ("mild", 1.5, 0.9))
        for _ in range(40)
    ]
    pool = tmp_path_factory.mktemp("pool") / "ratings.csv"
    pd.DataFrame(rows).to_csv(pool, index=False)
    with replaying(pool) as url:
        yield url


def test_spends_one_budget_over_pairs_and_judges_and_scores_all_alike(
    tmp_path: Path, two_judges: str
) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 10)
    judge: list[str | Path] = [
        *("judge", data, "-a", "helpfulness", "-b", "400", "--base-url", two_judges),
        *("--scheduler", "two-priors"),
    ]
    done = robin(
        *judge,
        *("--model", HARSH, "--model", MILD, "--run", "r", "--concurrency", "8"),
        cwd=tmp_path,
        exits=0,
    )

    scores = pd.read_csv(io.StringIO(done.stdout))
    each = pd.read_csv(
        io.StringIO(robin("export", "r", "--what", "judge-scores", cwd=tmp_path).stdout)
    )
    assert len(scores) == 10
    assert list(each["judge"]) == [HARSH, MILD] * 10
    assert scores["n"].sum() == each["n"].sum() == 400
    by_judge = each.pivot(index="pair_id", columns="judge", values="score").loc[scores["pair_id"]]
    np.testing.assert_allclose(scores["score"], by_judge.mean(axis=1))
    asked = each.groupby("judge")["n"].sum()
    assert abs(asked[MILD] - asked[HARSH]) <= 8  # judges take turns
    noise = (each["std_error"] ** 2).to_numpy().reshape(10, 2).sum(axis=1)
    np.testing.assert_allclose(scores["std_error"], np.sqrt(noise) / 2)
    assert (scores["ci_low"] < scores["score"]).all()
    assert (scores["score"] < scores["ci_high"]).all()

    status = json.loads(robin("status", "r", "--json", cwd=tmp_path).stdout)
    assert [judge["judge"] for judge in status["judges"]] == [HARSH, MILD]
    assert [judge["spent"] for judge in status["judges"]] == [asked[HARSH], asked[MILD]]
    gap = by_judge[MILD] - by_judge[HARSH]
    assert status["judge_spread"] == pytest.approx(
        gap.std(ddof=0) if gap.mean() < 0.1 else gap.mean() / 2**0.5, abs=0.2
    )
    judgments = pd.read_parquet(tmp_path / "r" / "judgments")
    assert judgments["judge"].value_counts().to_dict() == asked.to_dict()

    shown = robin("export", "r", "--format", "table", cwd=tmp_path, COLUMNS="80").stdout
    assert "judges ±" in shown
    assert "…" not in shown.split("judge:")[0]  # numbers are never cut
    wide = pd.read_csv(
        io.StringIO(robin("export", "r", "--what", "judge-scores", "--wide", cwd=tmp_path).stdout)
    )
    assert list(wide[f"helpfulness_{MILD}_n"]) == list(each[each["judge"] == MILD]["n"])


def test_sends_each_key_to_its_own_judge_alone(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 3)
    with (
        serving(lambda *_: completion()) as one,
        serving(lambda *_: completion("Rating: 1")) as other,
    ):
        done = robin(
            *("judge", data, "-a", "helpfulness", "-b", "24", "--run", "r", "--concurrency", "2"),
            *("--base-url", one.url, "--model", "first", "--model", f"second@{other.url}"),
            *("--api-key-env", "KEY_ONE", "--api-key-env", "KEY_TWO"),
            cwd=tmp_path,
            KEY_ONE="sk-one-1111",
            KEY_TWO="sk-two-2222",
            exits=0,
        )
        told = [
            (
                {body["model"] for body in wire.bodies},
                {headers["Authorization"] for headers in wire.headers},
            )
            for wire in (one, other)
        ]
    assert told == [({"first"}, {"Bearer sk-one-1111"}), ({"second"}, {"Bearer sk-two-2222"})]
    assert set(pd.read_csv(io.StringIO(done.stdout))["score"]) == {2.0}

    with (
        serving(lambda *_: completion()) as one,
        serving(lambda *_: completion("Rating: 1")) as moved,
    ):
        keys = {"KEY_ONE": "sk-one-1111", "KEY_TWO": "sk-two-2222"}
        again = ["resume", "r", "--budget", "30", "--base-url", one.url]
        done = robin(
            *again,
            *("--model", f"second@{moved.url}", "--model", "first"),
            cwd=tmp_path,
            **keys,
            exits=0,
        )
        for wire, name, key in ((one, "first", "sk-one-1111"), (moved, "second", "sk-two-2222")):
            assert {body["model"] for body in wire.bodies} == {name}
            assert {headers["Authorization"] for headers in wire.headers} == {f"Bearer {key}"}
        done = robin(
            *again[:2],
            *("--budget", "36", "--model", "first", "--model", "third"),
            cwd=tmp_path,
            **keys,
            exits=2,
        )
        assert "this run's judges are first, second, not first, third" in done.stderr


def test_sends_no_key_to_a_judge_elsewhere_that_none_was_named_for(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 2)
    with serving(lambda *_: completion()) as one, serving(lambda *_: completion()) as other:
        where = ["--base-url", one.url, "--model", "first", "--model", f"second@{other.url}"]
        judge: list[str | Path] = ["judge", data, "-a", "helpfulness", "-b", "8", "--run", "r"]
        done = robin(*judge, *where, cwd=tmp_path, OPENAI_API_KEY="sk-one-1111", exits=0)
        assert {headers["Authorization"] for headers in one.headers} == {"Bearer sk-one-1111"}
        assert not [headers for headers in other.headers if "sk-one" in str(headers)]
    assert "no key goes to second" in done.stderr


def test_counts_each_judges_money_by_its_own_price(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 2)
    with serving(lambda *_: completion()) as wire:
        robin(
            *("judge", data, "-a", "helpfulness", "-b", "24", "--run", "r"),
            *("--base-url", wire.url, "--scheduler", "uniform"),
            *("--model", "dear", "--model", "free", "--max-cost", "5"),
            *("--price-in", "100", "--price-in", "0", "--price-out", "200", "--price-out", "0"),
            cwd=tmp_path,
            exits=0,
        )
    status = json.loads(robin("status", "r", "--json", cwd=tmp_path).stdout)
    dear, free = (judge["cost_usd"] for judge in status["judges"])
    assert free == 0
    judgments = pd.read_parquet(tmp_path / "r" / "judgments")
    tokens = judgments[judgments["judge"] == "dear"][["prompt_tokens", "completion_tokens"]].sum()
    assert dear == pytest.approx(tokens.iloc[0] * 1e-4 + tokens.iloc[1] * 2e-4)


def test_keeps_one_judge_busy_while_another_asks_to_wait_and_to_the_addresss_concurrency(
    tmp_path: Path,
) -> None:
    models: list[str] = []
    at_a_time: list[int] = []
    under_way = 0

    async def answer(number: int, body: dict[str, Any]) -> Answer:
        nonlocal under_way
        models.append(body["model"])
        at_a_time.append(under_way := under_way + 1)
        await asyncio.sleep(0.005)  # the model thinks
        under_way -= 1
        if models.count("limited") == 1 and body["model"] == "limited":
            return error(429, "slow down", {"retry-after": "2"})
        return completion(f"Rating: {number % 5}")

    data = write_pairs(tmp_path / "pairs.jsonl", 20)
    with serving(answer) as wire:
        robin(
            *("judge", data, "-a", "helpfulness", "-b", "40", "--base-url", wire.url, "--run", "r"),
            *("--model", "limited", "--model", "free", "--concurrency", "2"),
            cwd=tmp_path,
            exits=0,
        )
    waited_from, waited_to = [place for place, name in enumerate(models) if name == "limited"][:2]
    assert models[waited_from:waited_to].count("free") > 10
    assert models.count("free") == 20
    assert max(at_a_time) == 2, "the slots of the address are for both judges together"


def test_says_which_judge_is_not_known_and_lets_the_right_one_take_the_place(
    tmp_path: Path,
) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 2)

    def respond(_number: int, body: dict[str, object]) -> Answer:
        return (
            completion()
            if body["model"] in {"good", "better"}
            else error(404, f"no model {body['model']}")
        )

    with serving(respond) as wire:
        judge: list[str | Path] = [
            *("judge", data, "-a", "helpfulness", "-b", "8", "--base-url", wire.url, "--run", "r")
        ]
        judge += ["--concurrency", "1"]
        wrong = robin(*judge, "--model", "bad", "--model", "worse", cwd=tmp_path, exits=3)
        right = robin(*judge, "--model", "better", "--model", "good", cwd=tmp_path, exits=0)
    assert "bad: http" in wrong.stderr or "worse: http" in wrong.stderr
    # nothing was answered before: the empty run made way
    assert right.returncode == 0, right.stderr


def test_scores_stand_under_their_own_names_whatever_judges_are_called(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 2)
    names = ["=x", 'say "y"', "z\u2028"[:1]]
    with serving(lambda *_: completion()) as wire:
        judge: list[str | Path] = [
            *("judge", data, "-a", "helpfulness", "-b", "12", "--base-url", wire.url, "--run", "r")
        ]
        robin(
            *judge, *(each for name in names for each in ("--model", name)), cwd=tmp_path, exits=0
        )
    text = robin("export", "r", "--what", "judge-scores", "--wide", cwd=tmp_path).stdout
    wide = pd.read_csv(io.StringIO(text))
    assert [column for column in wide.columns if column.endswith("_n")] == [
        f"helpfulness_{name}_n" for name in names
    ]
    assert (wide[[f"helpfulness_{name}_score" for name in names]] == 3).all(axis=None)
    shown = robin("export", "r", "--what", "judge-scores", "--format", "table", cwd=tmp_path).stdout
    assert 'say "y"' in shown


def test_is_the_same_from_python(tmp_path: Path, two_judges: str) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 4)
    asked: dict[str, Any] = {
        "attribute": "helpfulness",
        "scheduler": "uniform",
        "base_url": two_judges,
        "quiet": True,
    }
    run = robin_cli.judge(data, budget=48, model=[HARSH, MILD], run=tmp_path / "r", **asked)

    each = run.judge_scores()
    assert list(each["judge"]) == [HARSH, MILD] * 4
    assert set(each["n"]) == {6}
    np.testing.assert_allclose(
        run.scores()["score"], each["score"].to_numpy().reshape(4, 2).mean(axis=1)
    )
    assert run.resume(budget=56, quiet=True).status()["spent"] == 56


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model": ()}, "--model is missing"),
        ({"model": ("a", "a@http://localhost:1/v1")}, '"a" is named twice'),
        ({"model": ("@http://localhost:1/v1",)}, "an empty name"),
        ({"model": ("a@http://user:secret@localhost/v1",)}, "must hold no user, password"),
        ({"model": ("a", "b", "c"), "api_key_env": ("A", "B")}, "--api-key-env: 2 for 3 judges"),
    ],
)
def test_says_what_is_wrong_with_a_panel(change: dict[str, tuple[str, ...]], said: str) -> None:
    with pytest.raises(InputError) as refused:
        judges_of(Settings(**change))  # type: ignore[arg-type]
    assert said in str(refused.value)
    assert "secret" not in str(refused.value)


def test_reads_names_that_hold_an_at_sign() -> None:
    found = judges_of(
        Settings(
            model=("claude@2025", "m@https://x.example/v1/"), base_url=("http://localhost:1/v1",)
        )
    )
    assert [(each.name, each.base_urls) for each in found] == [
        ("claude@2025", ("http://localhost:1/v1",)),
        ("m", ("https://x.example/v1",)),
    ]
