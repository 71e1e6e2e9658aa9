"""A new setting is one entry in one file, a new policy and a new goal are one file each: all the rest follows from it."""

from __future__ import annotations

import csv
import io
import json
import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import REPLAY_MODEL, ROOT, judging, write_pairs
from tests.many_starts import starts

AFTER = "    seed: int | None = _ask("
ENTRY = (
    '    patience: int = _ask("Minutes of patience.", 3, check=within(1, 9, "minutes, 1 to 9"))\n'
)
ENTRY += '    above: float | None = _ask("Say how many scores are above it.")\n'
PYTHON = """import sys, robin_cli
given = dict(attribute="helpfulness", base_url=sys.argv[3], model=sys.argv[4], budget=9, seed=3, quiet=True)
robin_cli.judge("p.jsonl", run="r", patience=4, **given)
try:
    robin_cli.judge("p.jsonl", run="s", patience=12, **given)
except robin_cli.RobinError as error:
    print(error)
"""


POLICY = """from dataclasses import dataclass
from typing import Self
from robin_cli.model.arms import FloatArray
from robin_cli.policies.base import Estimating, Setup

@dataclass(frozen=True, slots=True)
class Greedy(Estimating):
    warm_up: int = 3

    @classmethod
    def from_setup(cls, setup: Setup) -> Self:
        return cls()

    def estimate(self, n: FloatArray, total: FloatArray, total_sq: FloatArray) -> FloatArray:
        return (n * total_sq - total * total) / (n * n)
"""

PLACE = '    BASELINE: "uniform:Uniform",\n'

GOAL = """from __future__ import annotations
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self
import numpy as np
from robin_cli.goals.base import Words
from robin_cli.goals.facts import Fact
from robin_cli.goals.rated import Rated
from robin_cli.goals.scores import RatingGoal
from robin_cli.model.arms import FloatArray
from robin_cli.run.inquiry import Inquiry
from robin_cli.show.words import finite
from robin_cli.stats.court import Snapshot

class SharesAbove(Rated):
    goal: ShareAbove

    def headline(self) -> Sequence[Fact]:
        share = float(share_above(self.scores.numbers("score"), self.goal.above))
        percent = "–" if math.isnan(share) else f"{100 * share:.0f} %"
        text = f"{percent} of the scores are above {self.goal.above:g}"
        return [Fact("share_above", finite(share), text)]

@dataclass(frozen=True)
class ShareAbove(RatingGoal):
    result_class = SharesAbove
    flag = "--above"
    figures: ClassVar[Mapping[str, str]] = {"share_off": "share_mean"}
    above: float

    @classmethod
    def asked_by(cls, source: Inquiry) -> Self | None:
        above = source.run_settings.get("above")
        return None if above is None else cls(source.space, above)

    def loss(self, snapshot: Snapshot, truth: FloatArray) -> dict[str, FloatArray]:
        shares = [share_above(means, self.above) for means in (snapshot.estimates, truth)]
        return {**super().loss(snapshot, truth), "share": np.abs(shares[0] - shares[1])}

    def known_then(self, row: Mapping[str, Any], words: Words) -> str:
        del words  # they write errors in points
        return f"the share is off by about {row['share_off']:g}"

def share_above(means: FloatArray, above: float) -> FloatArray:
    with np.errstate(invalid="ignore"):
        # nan counts on neither side
        return np.asarray((means > above).sum(axis=-1) / (~np.isnan(means)).sum(axis=-1))
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a copy of robin that has both."""
    folder = tmp_path_factory.mktemp("source")
    # with what is compiled: the times of files are kept
    shutil.copytree(ROOT / "robin_cli", folder / "robin_cli")
    for name in ("pyproject.toml", "prompts", "configs"):
        (folder / name).symlink_to(ROOT / name)
    table = folder / "robin_cli" / "settings" / "table.py"
    text = table.read_text(encoding="utf-8")
    assert text.count(AFTER) == 1
    table.write_text(text.replace(AFTER, ENTRY + AFTER), encoding="utf-8")
    policies = folder / "robin_cli" / "policies"
    (policies / "very_greedy.py").write_text(POLICY, encoding="utf-8")
    registry = (policies / "registry.py").read_text(encoding="utf-8")
    assert registry.count(PLACE) == 1
    registry = registry.replace(PLACE, f'{PLACE}    "very-greedy": "very_greedy:Greedy",\n')
    (policies / "registry.py").write_text(registry, encoding="utf-8")
    (folder / "robin_cli" / "goals" / "share_above.py").write_text(GOAL, encoding="utf-8")
    return folder


def test_a_new_goal_is_one_file_and_a_new_policy_has_one_more_entry_as_a_new_setting(
    source: Path, tmp_path: Path, replay_url: str
) -> None:
    with starts(source, path=source) as changed:
        for check in (check_policy, check_goal, check_setting):
            folder = tmp_path / check.__name__
            folder.mkdir()
            check(partial(changed.robin, cwd=folder), folder, replay_url)
        python = changed.robin(
            "-c", PYTHON, replay_url, REPLAY_MODEL, cwd=tmp_path / "check_setting"
        )
    assert python.returncode == 0, python.stderr
    assert python.stdout == "--patience 12: must be minutes, 1 to 9\n"


def test_a_new_goal_passes_strict_mypy(tmp_path: Path) -> None:
    (tmp_path / "share_above.py").write_text(GOAL, encoding="utf-8")
    config = ["--config-file", str(ROOT / "pyproject.toml"), "--no-warn-unused-configs"]
    command = [sys.executable, "-m", "mypy", "--strict", *config, str(tmp_path / "share_above.py")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_share_of_the_new_goal_leaves_out_what_has_no_score(tmp_path: Path) -> None:
    (tmp_path / "share_above.py").write_text(GOAL, encoding="utf-8")
    share_above = runpy.run_path(str(tmp_path / "share_above.py"))["share_above"]
    means = np.array([[1.0, 3.0, np.nan, np.nan], [np.nan] * 4])
    np.testing.assert_array_equal(share_above(means, 2.0), [0.5, np.nan])


Robin = Callable[..., subprocess.CompletedProcess[str]]


def check_policy(robin: Robin, folder: Path, url: str) -> None:
    asked = judging(
        url, write_pairs(folder / "p.jsonl", 2), 9, "--scheduler", "very-greedy", "--run", "r"
    )
    done = robin(*asked)
    assert done.returncode == 0, done.stderr
    assert robin("status", "r").returncode == 0
    simulated = robin(
        "simulate", "r", "--schedulers", "uniform,very-greedy", "--budget", "8", "--runs", "1"
    )
    assert "very-greedy" in simulated.stdout, simulated.stderr
    named = robin(*asked[:-3], "very_greedy", "--run", "s")
    assert 'uniform, very-greedy; did you mean "very-greedy"?' in named.stderr


def check_goal(robin: Robin, folder: Path, url: str) -> None:
    """The share of scores above a number: one file, and the setting that names the number."""
    asked = judging(url, write_pairs(folder / "p.jsonl", 3), 12, "--above", "1.5")
    both = robin(*asked, "--decide", "score>=2", "--run", "both")
    assert (both.returncode, "--decide and --above: a run has one goal" in both.stderr) == (
        2,
        True,
    ), both.stderr
    assert not (folder / "both").exists()
    planned = robin("plan", *asked[1:], "--details")
    assert planned.returncode == 0, planned.stderr
    forecast = list(csv.DictReader(io.StringIO(robin("plan", *asked[1:], "-o", "-").stdout)))
    off = [row["share_off"] for row in forecast]
    then = f"the share is off by about {off[1]}"
    assert f"Then {then} (in " in " ".join(planned.stdout.split())
    assert re.search("share off +evenly: share off", planned.stdout)
    for row in forecast:
        shown = rf"^ *{row['budget']} .* {row['share_off']} +{row['even_share_off']}$"
        assert re.search(shown, planned.stdout, re.MULTILINE), planned.stdout
    assert (off[0] > off[2], forecast[1]["known_then"]) == (True, then)
    done = robin(*asked, "--run", "r", "--patience", "3")
    assert done.returncode == 0, done.stderr
    # at its default a run is one from before there was the setting
    assert b"patience" not in (folder / "r" / "manifest.json").read_bytes()
    status, facts = robin("status", "r").stdout, json.loads(robin("status", "r", "--json").stdout)
    answer = f"{100 * facts['share_above']:.0f} % of the scores are above 1.5\n"
    assert done.stderr.endswith(f"{answer}next: robin report r -o report.html\n")
    assert status.endswith(f"{answer}next: robin report r -o report.html\n")
    scores = [
        float(row["score"]) for row in csv.DictReader(io.StringIO(robin("export", "r").stdout))
    ]
    assert facts["share_above"] == sum(score > 1.5 for score in scores) / len(scores)
    summary = robin("export", "r", "--what", "summary", "--threshold", "1.5")
    assert summary.returncode == 0, summary.stderr
    assert "has ratings, not comparisons" in robin("export", "r", "--what", "ranking").stderr
    assert robin("report", "r").returncode == 0
    assert answer.strip() in (folder / "r" / "report.html").read_text(encoding="utf-8")
    simulated = robin("simulate", "r", "--budget", "9", "--runs", "1")
    assert simulated.returncode == 0, simulated.stderr
    resumed = robin("resume", "r", "--budget", "15", "--target-error", "3.9")
    ending = "of the scores are above 1.5\nthe target error of 3.9 is reached ("
    assert ending in resumed.stderr, resumed.stderr
    assert json.loads(robin("status", "r", "--json").stdout)["target_reached"] is True


def check_setting(robin: Robin, folder: Path, url: str) -> None:
    command = [*judging(url, write_pairs(folder / "p.jsonl", 2), 6), "--run", "r"]
    assert "--patience" in robin("judge", "--help-all").stdout
    assert "--patience" not in robin("resume", "--help-all").stdout  # it makes a run what it is
    assert robin("init").returncode == 0
    written = (folder / "robin.toml").read_text(encoding="utf-8")
    assert "\npatience = 3  " in written
    (folder / "robin.toml").write_text("patience = 10\n", encoding="utf-8")
    assert "robin.toml: patience 10: must be minutes, 1 to 9" in robin(*command).stderr
    (folder / "robin.toml").write_text("patience = 5\n", encoding="utf-8")
    done = robin(*command, ROBIN_PATIENCE="4")
    assert done.returncode == 0, done.stderr
    assert json.loads((folder / "r" / "manifest.json").read_bytes())["settings"]["patience"] == 4
    assert "patience: the run has 4, now 5" in robin(*command).stderr
