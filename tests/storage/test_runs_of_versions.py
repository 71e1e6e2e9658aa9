"""Run directories that earlier versions made: each opens, resumes, reports and is exported."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from robin_cli import open_run
from robin_cli.model.records import ORDERS, PREFERENCE
from robin_cli.storage.manifest import read_manifest
from robin_cli.storage.migrations import MIGRATIONS, name_what_is_preferred
from tests.conftest import robin

MADE = Path(__file__).parent / "runs-of"
RUNS = {"0.1.0/finished": 14, "0.1.0/killed": 8, "0.2.0/several-scales": 30}
"""The runs, and the calls that were spent on each."""


@pytest.mark.parametrize("name", RUNS)
def test_goes_on_with_what_an_earlier_version_made(
    tmp_path: Path, replay_url: str, name: str
) -> None:
    shutil.copytree(MADE / name, tmp_path / "r")
    before = open_run(tmp_path / "r").judgments()
    assert open_run(tmp_path / "r").status()["spent"] == len(before) == RUNS[name]
    recorded = read_manifest(tmp_path / "r")
    budget = max(40, recorded.budget)

    robin(
        "resume",
        "r",
        "--base-url",
        replay_url,
        "--budget",
        str(budget),
        cwd=tmp_path,
        OPENAI_API_KEY="",
        exits=0,
    )

    after = open_run(tmp_path / "r").judgments()
    assert len(after) == budget
    assert after.iloc[: len(before)].equals(before)
    robin("report", "r", cwd=tmp_path, exits=0)
    robin("export", "r", "-o", "scores.csv", cwd=tmp_path, exits=0)
    assert len((tmp_path / "scores.csv").read_text(encoding="utf-8").splitlines()) == 1 + 3 * len(
        recorded.attributes
    )
    manifest = json.loads((tmp_path / "r" / "manifest.json").read_bytes())
    assert manifest["format"] == json.loads((MADE / name / "manifest.json").read_bytes())["format"]


def test_reads_a_run_from_before_there_could_be_several_judges_and_addresses(
    tmp_path: Path,
) -> None:
    shutil.copytree(MADE / "0.1.0" / "finished", tmp_path / "r")
    manifest = tmp_path / "r" / "manifest.json"
    content = json.loads(manifest.read_bytes())
    content["settings"]["base_url"] = content["settings"]["base_url"][0]
    for name in ("base_url", "api_key_env"):
        content["sessions"][0][name] = content["sessions"][0][name][0]
    content["sessions"][0] |= {"price_in": 0.1, "price_out": None}
    del content["sessions"][0]["model"]
    manifest.write_text(json.dumps(content), encoding="utf-8")

    session = read_manifest(tmp_path / "r").last_session

    assert session["base_url"] == ("http://127.0.0.1:8731/v1",)
    assert (session["api_key_env"], session["price_in"]) == (("OPENAI_API_KEY",), (0.1,))
    assert session["model"] == ("replay:gpt-4.1-nano/helpfulness",)
    assert session["max_retries"] == 6


@pytest.mark.parametrize("name", RUNS)
def test_a_migration_leaves_alone_what_was_migrated(name: str) -> None:
    content = json.loads((MADE / name / "manifest.json").read_bytes())
    for migrated in MIGRATIONS:
        once = migrated(content)
        assert migrated(once) == once
        content = once


def test_reads_a_pairwise_run_from_before_there_were_variants_of_a_question() -> None:
    said = {"title": "Preference", "scale": {"low": 0, "high": 1}}
    rubrics = [{**said, "attribute": order} for order in ORDERS]
    before = {
        "settings": {"pairwise": True},
        "sessions": [],
        "attributes": [*ORDERS],
        "scale": [0, 1],
    }
    plain = name_what_is_preferred({**before, "prompt": {"rubrics": rubrics}})
    by_rubric = name_what_is_preferred(
        {
            **before,
            "prompt": {"rubrics": rubrics, "criterion": {"attribute": "tone"}},
            "scale": {ORDERS[0]: [0, 1]},
        }
    )

    assert (plain["attributes"], plain["prompt"]["rubrics"]) == (
        [PREFERENCE],
        [{**said, "attribute": PREFERENCE}],
    )
    assert (by_rubric["attributes"], by_rubric["scale"]) == (["tone"], {"tone": [0, 1]})
    assert name_what_is_preferred(plain) == plain
