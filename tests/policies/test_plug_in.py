"""A policy of another package: installed, named in an entry point, and then like robin's own."""

from __future__ import annotations

import importlib
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from robin_cli.model.errors import InputError
from robin_cli.model.plugins import plugins
from robin_cli.model.records import Scale
from robin_cli.policies.base import Columns, Setup
from robin_cli.policies.registry import POLICIES, known_policies, make_policy, policy_named
from tests.conftest import DEMO, judging, robin
from tests.packages import put_example, put_package
from tests.simulate.test_runs import check_asks_the_same_arms


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the example in it."""
    folder = tmp_path_factory.mktemp("site")
    put_example(folder, "robin-policy-shrinkage")
    return folder


@pytest.fixture
def importable(site: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(site)
    plugins.cache_clear()
    importlib.invalidate_caches()
    yield
    sys.modules.pop("robin_policy_shrinkage", None)
    plugins.cache_clear()


def test_simulates_and_judges_by_a_policy_that_a_package_brings(
    site: Path, tmp_path: Path, replay_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(site)
    plugins.cache_clear()
    names = ("--schedulers", "uniform,shrinkage", "--limit", "10", "--runs", "2", "--budget", "100")
    simulated = robin("simulate", DEMO / "ratings.parquet", *names, cwd=tmp_path, exits=0)
    table = pd.read_csv(io.StringIO(simulated.stdout))
    assert set(table["scheduler"]) == {"uniform", "shrinkage"}
    assert (table["wce_mean"] > 0).all()

    # one after another: how far it gets ahead with many under way is a matter of how quickly they are answered
    one = ("--concurrency", "1", "--run", "r")
    command = judging(
        replay_url, DEMO / "pairs.jsonl", 150, "--limit", "6", "--scheduler", "shrinkage", *one
    )
    judged = robin(*command, cwd=tmp_path, exits=0)
    n = pd.read_csv(io.StringIO(judged.stdout))["n"]
    assert n.sum() == 150
    assert n.max() > 1.5 * n.min()  # it adapts
    monkeypatch.undo()
    plugins.cache_clear()
    robin("status", "r", cwd=tmp_path, exits=0)  # what is there can be read without the package
    missing = robin("resume", "r", "--budget", "1600", cwd=tmp_path, exits=2)
    assert '"shrinkage": known schedulers are auto, robin, robin-hood' in missing.stderr


@pytest.mark.usefixtures("importable")
@pytest.mark.parametrize("several_scales", [False, True])
def test_asks_the_same_arms_in_a_simulation_as_in_a_run(*, several_scales: bool) -> None:
    check_asks_the_same_arms("shrinkage", several_scales=several_scales)


@pytest.mark.usefixtures("importable")
def test_names_policies_of_packages_behind_its_own() -> None:
    assert known_policies() == (*POLICIES, "shrinkage")
    with pytest.raises(InputError, match=r"uniform, shrinkage; did you mean .shrinkage"):
        policy_named("shrinkag")


@pytest.mark.usefixtures("importable")
def test_draws_a_variance_toward_that_of_all_pairs() -> None:
    policy = make_policy("shrinkage", Setup(3, 100, Scale(0, 4)))
    n, total, total_sq = (
        np.array([4.0, 4.0, 1.0]),
        np.array([8.0, 4.0, 3.0]),
        np.array([32.0, 4.0, 9.0]),
    )
    fitted = policy.fitted(n, total, total_sq)
    # sums of squares within pairs, and 2 for an even draw
    pooled = ((32 - 16) + 0 + 2.0) / (3 + 3 + 0 + 1)
    expected = np.array([(16 + 2 * pooled) / 5, 2 * pooled / 5, pooled]) / n
    np.testing.assert_allclose(
        fitted.priority(Columns(n, np.zeros(3), total, total_sq, np.arange(3))), expected
    )


def install(site: Path, code: str, target: str) -> None:
    """Put a package into ``site`` whose policy "broken" is ``target`` in ``code``; it claims the name of robin's own, too."""
    points = dict.fromkeys(("broken", "uniform"), f"broken_policy:{target}")
    put_package(site, "broken-policy", code, {"robin.policies": points})


def put_broken(code: str, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same, where this Python finds it."""
    install(tmp_path, code, target)
    monkeypatch.syspath_prepend(tmp_path)
    plugins.cache_clear()
    monkeypatch.delitem(sys.modules, "broken_policy", raising=False)


RAISING = """
from robin_cli.policies.base import Policy
class Mine(Policy):
    @classmethod
    def from_setup(cls, setup): raise ZeroDivisionError("by zero")
"""


NO_PRIORITY = """
from robin_cli.policies.base import Policy
class Mine(Policy):
    warm_up = 2
    @classmethod
    def from_setup(cls, setup): return cls()
    def priority(self, arms): return arms.n * float("nan")
"""


def test_ends_a_run_whose_policy_knows_no_priority_and_keeps_its_answers(
    tmp_path: Path, replay_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_broken(NO_PRIORITY, "Mine", tmp_path, monkeypatch)
    more = ("--scheduler", "broken", "--run", "r", "--limit", "8", "--concurrency", "2")
    done = robin(*judging(replay_url, DEMO / "pairs.jsonl", 80, *more), cwd=tmp_path, exits=2)
    assert "--scheduler: broken_policy.Mine gives arm" in done.stderr
    assert "Traceback" not in done.stderr
    status = robin("status", "r", "--json", cwd=tmp_path)
    assert 0 < json.loads(status.stdout)["spent"] <= 80
    plugins.cache_clear()


@pytest.mark.parametrize(
    ("code", "target", "said"),
    [
        ("import nowhere", "Policy", "ModuleNotFoundError: No module named 'nowhere'"),
        ("", "Missing", "AttributeError: module .broken_policy. has no attribute"),
        ("import sys; sys.exit(0)", "Policy", "SystemExit: 0"),
        (RAISING, "Mine", "ZeroDivisionError: by zero"),
        (
            "Policy = 3",
            "Policy",
            "TypeError: it is 3, and not a subclass of robin_cli.policies.base.Policy",
        ),
    ],
)
def test_names_the_package_whose_policy_is_broken(
    code: str, target: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_broken(code, target, tmp_path, monkeypatch)
    with pytest.raises(
        InputError,
        match=f'--scheduler "broken": the package broken-policy, which .*{said}.* pip uninstall broken-policy',
    ):
        make_policy("broken", Setup(3, 100, Scale(0, 4)))
    assert make_policy(
        "uniform", Setup(3, 100, Scale(0, 4))
    ).evenly  # robin's own cannot be replaced
    plugins.cache_clear()
