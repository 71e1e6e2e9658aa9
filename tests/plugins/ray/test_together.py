"""What holds for all workers together: the pace, what an endpoint says of waiting, keys, and the same scores."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from tests.conftest import DEMO, judging, plant, robin, write_pairs
from tests.plugins.ray.conftest import Nodes, judging_on, places_with
from tests.plugins.ray.judge import judge

pytestmark = [pytest.mark.external, pytest.mark.slow, pytest.mark.whole]


def test_holds_all_workers_to_what_an_endpoint_says_of_waiting(
    nodes: Nodes, tmp_path: Path
) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 20)
    with judge() as asked:
        asked.takes_s = 0.05
        asked.answer = lambda number: (429, {"Retry-After": "4"}) if number == 50 else (200, {})
        run = ("--concurrency", "12", "--run", "run", "-o", "s.csv")
        said = robin(*judging_on(nodes, asked, data, 150, *run), cwd=tmp_path, **nodes.env, exits=0)
    refused_at = asked.arrivals[49] + asked.takes_s
    # What was on its way as it was said still comes; nothing is chosen for as long as it was to wait.
    assert not [at for at in asked.arrivals if refused_at + 1.5 < at < refused_at + 3.9]
    assert len(asked.arrivals) == 151
    assert "too many requests" in said.stderr


def test_leaves_no_key_where_others_could_find_it(nodes: Nodes, tmp_path: Path) -> None:
    key = "sk-marked-for-the-search-0123456789"
    data = write_pairs(tmp_path / "pairs.jsonl", 10)
    found: set[str] = set()
    texts: set[str] = set()
    names: set[str] = set()
    with judge() as asked:
        asked.error = f"this is not right: {key}"

        def answer(number: int) -> tuple[int, dict[str, str]]:
            if number == 60:  # workers are at work, so they have it
                found.update(places_with(key, nodes.folder, nodes.raylets.values()))
                texts.update(places_with("Blue, and 7 more", nodes.folder, nodes.raylets.values()))
                names.update(places_with("ray::Worker", nodes.folder, nodes.raylets.values()))
            return (400 if number == 20 else 500 if number in {10, 30} else 200), {}

        asked.answer = answer
        run = ("--concurrency", "8", "--run", "run", "-o", "s.csv")
        env = {**nodes.env, "OPENAI_API_KEY": key}
        said = robin(*judging_on(nodes, asked, data, 100, *run), cwd=tmp_path, **env, exits=0)
    assert asked.keys == {f"Bearer {key}"}
    assert names  # where it looks, it finds what is there
    assert not texts | found | set(places_with(key, nodes.folder, nodes.raylets.values()))
    assert key not in said.stderr + said.stdout
    assert not [
        file for file in tmp_path.rglob("*") if file.is_file() and key.encode() in file.read_bytes()
    ]


def test_gives_the_same_scores_as_one_process(
    nodes: Nodes, replay_url: str, tmp_path: Path
) -> None:
    command = judging(
        replay_url, DEMO / "pairs.jsonl", 80, "--limit", "20", "--seed", "5", "--concurrency", "1"
    )
    imported = plant(tmp_path, "numpy", "ray", "json", "orjson")
    for name, more in (("alone", ()), ("workers", ("--ray", nodes.address))):
        robin(
            *command, "--run", name, "-o", f"{name}.csv", *more, cwd=tmp_path, **nodes.env, exits=0
        )
    assert (tmp_path / "alone.csv").read_bytes() == (tmp_path / "workers.csv").read_bytes()
    asked = ["pair_id", "draw", "rating", "text", "feedback"]
    alone, by_workers = (
        pd.read_parquet(tmp_path / name / "judgments")[asked] for name in ("alone", "workers")
    )
    assert alone.equals(by_workers)
    assert not imported.exists(), (
        "workers on this machine import what lies in the folder that robin was started in"
    )
