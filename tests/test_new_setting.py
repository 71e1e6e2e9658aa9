"""A new setting is one entry in one file, and a new policy is one file: all the rest follows from it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT, environment, judging, write_pairs

AFTER = "    seed: int | None = _ask("
ENTRY = '    patience: int = _ask("Minutes of patience.", 3, check=_within(1, 9, "minutes, 1 to 9"))\n'
PYTHON = """import sys, robin_cli
given = dict(attribute="helpfulness", base_url=sys.argv[1], model=sys.argv[2], budget=9, quiet=True)
robin_cli.judge("p.jsonl", run="r", patience=4, **given)
try:
    robin_cli.judge("p.jsonl", run="s", patience=12, **given)
except robin_cli.RobinError as error:
    print(error)
"""


POLICY = """from dataclasses import dataclass
from typing import Self
from robin_cli.policies.base import Estimating, Number, Setup, empirical_variance

@dataclass(frozen=True, slots=True)
class Greedy(Estimating):
    objective: str
    warm_up: int = 3

    @classmethod
    def of(cls, setup: Setup) -> Self:
        return cls(setup.objective)

    def estimate(self, n: Number, total: Number, total_sq: Number) -> Number:
        return empirical_variance(n, total, total_sq)
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A folder with a copy of robin to change."""
    folder = tmp_path / "source"
    shutil.copytree(ROOT / "robin_cli", folder / "robin_cli", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "prompts", "configs"):
        (folder / name).symlink_to(ROOT / name)
    return folder


def test_a_new_policy_is_one_file_that_nothing_else_names(source: Path, tmp_path: Path, replay_url: str) -> None:
    (source / "robin_cli" / "policies" / "own" / "very_greedy.py").write_text(POLICY, encoding="utf-8")
    asked = judging(replay_url, write_pairs(tmp_path / "p.jsonl", 2), 9, "--scheduler", "very-greedy", "--run", "r")

    def run(*args: str | Path) -> subprocess.CompletedProcess[str]:
        told = environment(PYTHONPATH=str(source))
        command = [sys.executable, "-m", "robin_cli", *args]
        return subprocess.run(command, cwd=tmp_path, env=told, capture_output=True, text=True)

    done = run(*asked)
    assert done.returncode == 0, done.stderr
    assert run("status", "r").returncode == 0
    simulated = run("simulate", "r", "--schedulers", "uniform,very-greedy", "--budget", "20", "--runs", "2")
    assert "very-greedy" in simulated.stdout, simulated.stderr
    named = run(*asked[:-3], "very_greedy", "--run", "s")
    assert 'uniform, very-greedy; did you mean "very-greedy"?' in named.stderr


def test_a_new_setting_is_one_entry_in_one_file(source: Path, tmp_path: Path, replay_url: str) -> None:
    table = source / "robin_cli" / "settings" / "table.py"
    text = table.read_text(encoding="utf-8")
    assert text.count(AFTER) == 1
    table.write_text(text.replace(AFTER, ENTRY + AFTER), encoding="utf-8")

    def run(*args: str | Path, **env: str) -> subprocess.CompletedProcess[str]:
        told = environment(PYTHONPATH=str(source), COLUMNS="100", **env)
        return subprocess.run([sys.executable, *args], cwd=tmp_path, env=told, capture_output=True, text=True)

    command = ["-m", "robin_cli", *judging(replay_url, write_pairs(tmp_path / "p.jsonl", 2), 6), "--run", "r"]
    assert "--patience" in run("-m", "robin_cli", "judge", "--help").stdout
    assert "--patience" not in run("-m", "robin_cli", "resume", "--help").stdout  # it makes a run what it is
    assert run("-m", "robin_cli", "init").returncode == 0
    written = (tmp_path / "robin.toml").read_text(encoding="utf-8")
    assert "\npatience = 3  " in written
    (tmp_path / "robin.toml").write_text("patience = 10\n", encoding="utf-8")
    assert "robin.toml: patience 10: must be minutes, 1 to 9" in run(*command).stderr
    (tmp_path / "robin.toml").write_text("patience = 5\n", encoding="utf-8")

    done = run(*command, ROBIN_PATIENCE="4")
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "r" / "manifest.json").read_bytes())["settings"]["patience"] == 4
    assert "patience: the run has 4, now 5" in run(*command).stderr
    model = command[command.index("--model") + 1]
    python = run("-c", PYTHON, replay_url, model)
    assert python.returncode == 0, python.stderr
    assert python.stdout == "Python: patience 12: must be minutes, 1 to 9\n"

    command[-1] = "without"
    assert run(*command, "--patience", "3").returncode == 0
    recorded = json.loads((tmp_path / "without" / "manifest.json").read_bytes())["settings"]
    assert "patience" not in recorded  # at its default a run is one from before there was the setting
