"""What docs/plug-ins.md shows, and a carrier, installed as a package of those entry points."""

from __future__ import annotations

import importlib
import json
import sys
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

import robin_cli
from robin_cli.data.pairs import load_pairs
from robin_cli.judges.functions import judge_named
from robin_cli.judges.judge import Options
from robin_cli.model.errors import InputError
from robin_cli.model.plugins import plugins
from robin_cli.model.records import Scale
from robin_cli.policies.base import Setup
from robin_cli.policies.registry import make_policy
from tests.conftest import DEMO, REPLAY_MODEL, ROOT, refuses
from tests.data.writing import as_lines, written
from tests.packages import put_package
from tests.test_docs import blocks

PAIRS = DEMO / "pairs.jsonl"

# A carrier that has the answers itself.
CARRIER = """
from robin_cli.judges.judge import Judge
from robin_cli.model.exchange import Answer, Reply
from robin_cli.model.records import Usage
from robin_cli.session.carriers import Carrier, Carrying
from robin_cli.session.ledger import Idle


class Dice(Judge):
    most_samples = 4

    async def ask(self, question):
        rating = Answer(f"Feedback: none.\\nRating: {question.seed % 5}")
        return Reply((rating,) * question.samples, "dice", Usage(), None, 0.0)


class ByDice(Carrier):
    def __init__(self, ledger):
        self.ledger = ledger
        ledger.judges = [Dice()]

    async def run(self):
        ledger = self.ledger
        while not isinstance(call := ledger.choose(ledger.longest), Idle):
            for request in (call, *ledger.others(call)):
                ledger.begin()
                reply = await ledger.judges[request.judge].ask(request.question)
                ledger.asked -= 1
                ledger.append([(request, ledger.judgments(request, reply))])
                await ledger.written()
        await ledger.close()


class ThisMachine:
    @staticmethod
    def check(resolved):
        assert resolved.ray == "local"

    @staticmethod
    def carrying(resolved, store, notify):
        notify("dice are rolled")
        return Carrying(ByDice, closing=[], prices=[None])
"""


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The package of the page, where Python finds it."""
    code = [
        block
        for block in blocks(ROOT / "docs" / "plug-ins.md", "python")
        if "robin.judge(" not in block
    ]
    points = "".join(blocks(ROOT / "docs" / "plug-ins.md", "text"))
    entry_points = tomllib.loads(points)["project"]["entry-points"]
    entry_points["robin.carriers"] = {"ray": "my_package:ThisMachine"}
    put_package(tmp_path / "site", "my-package", "\n".join([*code, CARRIER]), entry_points)
    monkeypatch.syspath_prepend(tmp_path / "site")
    plugins.cache_clear()
    importlib.invalidate_caches()
    yield
    plugins.cache_clear()
    sys.modules.pop("my_package", None)


def test_the_scheduler_and_the_judge_of_the_page_are_known() -> None:
    assert make_policy("greedy", Setup(3, 100, Scale(0, 4))).warm_up == 3
    assert judge_named("length", Options("length")) is not None


def test_the_loader_of_the_page_reads(tmp_path: Path) -> None:
    (pair,) = load_pairs(written(tmp_path, "a.notes", b"Hi => Hello!")).pairs
    assert (pair.prompt, pair.response) == ("Hi", "Hello!")


def test_the_log_of_the_page_is_known_by_its_samples(tmp_path: Path) -> None:
    entries, head = [{"asked": "q", "said": "a"}, {"asked": "q2", "said": ""}], {"model": "m"}
    whole = written(tmp_path, "d.json", json.dumps({"head": head, "entries": entries}).encode())
    lines = written(tmp_path, "d.jsonl", as_lines([{**each, "head": head} for each in entries]))
    for path in (whole, lines):
        (pair,) = load_pairs(path, skip_bad_rows=True).pairs
        assert (pair.prompt, pair.response, pair.columns["system"]) == ("q", "a", "m")


def test_a_carrier_of_a_package_makes_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replay_url: str
) -> None:
    given: dict[str, Any] = {
        "attribute": "helpfulness",
        "base_url": replay_url,
        "model": REPLAY_MODEL,
        "budget": 70,
    }
    given |= {"quiet": True, "ray": "local", "run": str(tmp_path / "run")}
    found = metadata.entry_points(group="robin.carriers")
    refuses(
        InputError,
        "--ray: my-package and robin-judge both add ray",
        robin_cli.judge,
        PAIRS,
        **given,
    )
    strangers = [each for each in found if each.dist is not None and each.dist.name == "my-package"]
    monkeypatch.setattr(
        metadata, "entry_points", lambda *, group: strangers if group == "robin.carriers" else ()
    )
    plugins.cache_clear()
    run = robin_cli.judge(PAIRS, **given, seed=1)
    judgments = run.judgments()
    assert (len(judgments), set(judgments["model"])) == (70, {"dice"})
    assert not judgments.duplicated(["pair_id", "draw"]).any()
    assert len(run.resume(budget=90).judgments()) == 90


def test_says_what_to_install_where_nothing_makes_calls_on_a_cluster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metadata, "entry_points", lambda **_: ())
    plugins.cache_clear()
    given: dict[str, Any] = {
        "attribute": "helpfulness",
        "base_url": "http://127.0.0.1:9/v1",
        "model": "m",
        "ray": "local",
    }
    with pytest.raises(
        InputError,
        match=r"is not installed\. Install it: pip install '\.\[ray\]' in robin's checkout",
    ):
        robin_cli.judge(PAIRS, budget=70, **given)
