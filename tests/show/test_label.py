"""robin label: people label at a page of this machine, in a real browser and with the keyboard alone."""

from __future__ import annotations

import csv
import json
import re
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import robin_cli as robin
from robin_cli.run.reader import read_run
from robin_cli.show.label.work import Labelling
from robin_cli.stats.agreement import krippendorff
from tests.conftest import environment
from tests.starting import Robin

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PAIRS = [
    robin.Pair(
        f"p{k}",
        f"Question {k // 2} <b>bold</b>",
        f"Answer {k} <script>alert(1)</script>",
        columns={"system": "secret-7b"},
    )
    for k in range(8)
]


def rate(messages: Any) -> str:
    return f"Feedback: fine\nRating: {int(re.findall(r'Answer ([0-9])', messages[-1]['content'])[-1]) % 5}"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    robin.judge(
        PAIRS, judge=rate, attribute="helpfulness", budget=16, run=tmp_path / "run", quiet=True
    )
    return tmp_path / "run"


@contextmanager
def page(run: Path, *flags: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The address of a page for ``run``."""
    streams: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    command = ["label", str(run), "--no-browser", *flags]
    with Robin(command, cwd=run.parent, env=environment(), **streams) as started:
        assert started.stdout is not None
        try:
            yield started.stdout.readline().strip(), started
        finally:
            if started.poll() is None:
                started.send_signal(signal.SIGINT)


def kept(run: Path) -> list[tuple[str, str, str, str]]:
    with (run / "labels.csv").open(newline="") as file:
        return [
            (row["pair_id"], row["rating"], row["labeller"], row["comment"])
            for row in csv.DictReader(file)
        ]


def ask(address: str, what: str, **more: Any) -> dict[str, Any]:
    body = json.dumps({"labeller": "bob", **more}).encode()
    with urllib.request.urlopen(urllib.request.Request(f"{address}{what}", body)) as reply:  # noqa: S310
        answer: dict[str, Any] = json.load(reply)
    return answer


def test_labels_with_the_keyboard_alone(run: Path, browser: Browser) -> None:
    with page(run) as (address, started):
        tab = browser.new_page(viewport={"width": 400, "height": 800})
        complaints: list[str] = []
        tab.on("console", lambda message: complaints.append(message.text))
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.goto(address)
        tab.wait_for_selector("#labeller:focus")
        tab.keyboard.type("ann")
        tab.keyboard.press("Enter")
        tab.wait_for_selector("#item:not([hidden])")
        shown = tab.inner_text("body")
        assert "<script>alert(1)</script>" in shown, "what data hold is shown as it is"
        assert "secret-7b" not in shown
        assert not re.search(r"\bp[0-7]\b", shown), "blind: no system, no id"
        assert "The response" in shown or "Score 0" in shown, "with the rubric"
        assert tab.evaluate("document.documentElement.scrollWidth") <= 400
        names = tab.locator("button, input, pre, progress").evaluate_all(
            "all => all.map(e => e.getAttribute('aria-label') || e.textContent || (e.labels && e.labels[0]?.textContent) || '')"
        )
        assert all(name.strip() for name in names), "a screen reader has a name for each"

        def pressed(key: str, count: str) -> None:
            tab.keyboard.press(key)
            tab.wait_for_selector(f"#count:has-text('{count}')")

        pressed("3", "1 of 8")
        pressed("u", "0 of 8")
        tab.keyboard.press("c")
        tab.keyboard.type("too =short, 4")
        tab.keyboard.press("Enter")
        pressed("4", "1 of 8")
        tab.keyboard.press("c")
        tab.keyboard.type("no idea")
        tab.keyboard.press("Enter")
        pressed("s", "1 of 7")
        pressed("u", "1 of 8")
        assert tab.input_value("#comment") == "no idea", "what is taken back keeps its comment"
        pressed("s", "1 of 7")
        for number in range(2, 8):
            pressed("0", f"{number} of 7")
        tab.wait_for_selector("#end:not([hidden])")
        tab.keyboard.press("Enter")  # on Done, which has the focus
        _, said = started.communicate(timeout=20)
        tab.close()
    assert not complaints
    assert started.returncode == 0
    lines = kept(run)
    assert [line[1] for line in lines] == ["4", "", *"000000"]
    assert [line[2:] for line in lines[:2]] == [("ann", "too =short, 4"), ("ann", "no idea")]
    assert len({line[0] for line in lines if line[1]}) == 7
    assert "mean helpfulness" in said, "ends with what the labels changed"
    facts = robin.open_run(run).status()["means"]["helpfulness"]
    assert "labels of" in str(facts["not_corrected_because"]) or facts["n_labels"] == 7


def test_several_people_are_told_apart_and_nobody_else_can_see_or_label(run: Path) -> None:
    with page(run, "--n", "4") as (address, served):
        for wrong, headers in (
            (re.sub(r"/[^/]+/$", "/x/", address), {}),
            (address, {"Host": "evil.example"}),
            (f"{address}show", {"Origin": "https://evil.example"}),
        ):
            data = b"{}" if wrong.endswith("show") else None
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(urllib.request.Request(wrong, data, headers))  # noqa: S310
            assert refused.value.code in {403, 404}
            refused.value.close()
        with urllib.request.urlopen(address) as reply:  # noqa: S310
            assert "default-src 'none'" in reply.headers["Content-Security-Policy"]
        assert not (run / "labels.csv").exists()

        first = ask(address, "show")
        assert (first["wanted"], first["item"]["number"]) == (4, 0)
        for number in range(4):
            ask(address, "label", number=number, value=number)
            ask(address, "label", labeller="ann", number=number, value=min(4, number + number % 2))
        assert "agreement" not in ask(address, "show"), "it would sway who labels"
        for value in (9, 2.5, -1):
            assert "off the scale" in ask(address, "label", number=0, value=value)["error"]
        rows = kept(run)
        ask(address, "label", labeller="=cat", number=1, value=2, comment="=1+1\x1b")
        assert kept(run)[-1][1:] == ("2", "'=cat", "'=1+1\\x1b")
        ask(address, "undo", labeller="=cat")
        assert kept(run) == rows, "an undo leaves no row"
        assert ask(address, "undo", labeller="carl")["labelled"] == 0
        (run / "labels.csv").rename(run / "away.csv")
        assert "labels.csv: is gone" in ask(address, "label", number=1, value=2)["error"]
        assert not (run / "labels.csv").exists()
        (run / "away.csv").rename(run / "labels.csv")
        ask(address, "done")
        _, printed = served.communicate(timeout=20)
    for name in ("ann", "bob"):
        assert f"4 labels by {name} saved in {run / 'labels.csv'}" in printed
    assert "2 people, 4 pairs with several labels: Krippendorff's α 0." in printed
    again = Labelling(read_run(run), 4).shown("bob")
    assert (again["labelled"], again["note"]) == (4, ""), "what was labelled is there the next time"


def test_says_that_labels_take_the_place_of_the_ratings_of_the_data(tmp_path: Path) -> None:
    pairs = [
        robin.Pair(f"p{k}", f"Question {k}", f"Answer {k}", {"helpfulness": 3.0}) for k in range(2)
    ]
    robin.judge(
        pairs, judge=rate, attribute="helpfulness", budget=2, run=tmp_path / "run", quiet=True
    )
    assert (
        Labelling(read_run(tmp_path / "run"), 2)
        .shown("ann")["note"]
        .startswith("your labels replace")
    )


def test_the_agreement_is_krippendorffs() -> None:
    said = np.array(
        [
            [1, 2, 3, 3, 2, 1, 4, 1, 2, np.nan, np.nan, np.nan],
            [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, np.nan, 3],
            [np.nan, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, np.nan],
            [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, np.nan],
        ],
        float,
    )
    # Krippendorff 2011, interval metric
    assert krippendorff(said.T) == pytest.approx(0.849, abs=5e-4)
