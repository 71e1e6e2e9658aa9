"""The scenes: which commands make a run, and which read it."""

from __future__ import annotations

import csv
import html
import io
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from tests.comparing_judge import comparing
from tests.conftest import DEMO, leaving_out_pictures, replaying, robin

DATA = Path(__file__).parent / "data"
OUTPUTS = Path(__file__).parent / "outputs"
URL, PAIRWISE_URL = "http://127.0.0.1:1/v1", "http://127.0.0.1:2/v1"
"""What the outputs say in place of the addresses that the judges got this time."""

_JUDGE = "--base-url {url} --concurrency 1 --seed 7"
_ONE = f"{_JUDGE} --model replay:mild"
_RATED = f"judge pairs.jsonl -a helpfulness {_ONE} --run run"
_PAIRWISE = "judge responses.jsonl --pairwise --base-url {pairwise_url} --concurrency 1 --seed 7 --model m --run run"


_SCREEN = {"screen": "resume run --format table 2>&1"}
"""What people see at the end of a run: rows, then the lines on standard error."""
_READ = {
    "status": "status run",
    "details": "status run --details",
    "status-json": "status run --json",
    "table": "export run --format table",
    "report": "report run -o report.html",
}
_OF_SYSTEMS = {
    "summary": "export run --what summary --by system --threshold 2.5",
    "compare": "compare run --by system --format csv",
    "compare-json": "compare run --by system --json",
    "gate": "gate run --require 'mean(helpfulness)>=1' --require 'share(helpfulness>=1)>=0.2' "
    "--require 'compare(alder,birch)>=-3' 2>&1",
}
_ANSWERS = {"judgments": "export run --what judgments"}
_MORE = {
    "agreement": "export run --what agreement",
    "calibration": "export run --what calibration",
    "preferences": "export run --what preferences --format jsonl",
    "summary-labelled": "export run --what summary --by topic --labels labels.csv",
    "compare-labelled": "compare run --by system --labels labels.csv --format csv",
    "wide": "export run --wide --with-text --format tsv",
    "results": "results run",
    "simulate": "simulate run --budget 60,120 --schedulers uniform,two-priors --runs 3",
    "gate-failed": "gate run --require 'mean(helpfulness)>=3.9' --json",
    "gate-open": "gate run --require 'mean(helpfulness)>=2.0' --junit junit.xml --summary -",
    "scores": "export run",
    "resume": "resume run",
    "resumed": "resume run --budget 120",
    "again": "judge pairs.jsonl -a helpfulness --budget 120 " + _ONE + " --run run",
    "other-settings": "judge pairs.jsonl -a helpfulness --budget 120 --temperature 0.5 "
    + _ONE
    + " --run run",
    "no-run": "status nowhere",
    "runs": "runs",
}
_PREFERENCES = {"ranking": "export run --what ranking", "results": "results run"}

SCENES: Mapping[str, Mapping[str, str]] = {
    "scores": {
        "judge": f"{_RATED} --budget 96",
        **_SCREEN,
        **_READ,
        **_ANSWERS,
        **_OF_SYSTEMS,
        **_MORE,
    },
    "robin-hood": {
        "judge": f"{_RATED} --budget 90 --limit 8 --scheduler robin-hood --delta 0.1",
        **_READ,
    },
    "target-error": {"judge": f"{_RATED} --budget 150 --target-error 0.6", **_READ},
    "attributes": {
        "judge": f"judge pairs.jsonl -a helpfulness,correctness {_ONE} --run run --budget 120",
        **_READ,
        "wide": "export run --wide",
        "agreement": "export run --what agreement",
    },
    "panel": {
        "judge": f"judge pairs.jsonl -a helpfulness {_JUDGE} --model replay:mild --model replay:strict --run run --budget 120",
        **_READ,
        **_ANSWERS,
        "judge-scores": "export run --what judge-scores",
    },
    "thresholds": {
        "judge": f"{_RATED} --budget 180 --decide 'score>=2'",
        **_SCREEN,
        **_READ,
        "summary": _OF_SYSTEMS["summary"],
        "gate": _OF_SYSTEMS["gate"],
        "simulate": "simulate run --decide 'score>=2' --budget 60 --runs 3",
    },
    "best": {
        "judge": f"{_RATED} --budget 140 --decide best",
        **_SCREEN,
        **_READ,
        "preferences": "export run --what preferences",
        "labels-wanted": "export run --what labels-wanted --n 5",
        "simulate": "simulate run --decide best --budget 60 --runs 3",
    },
    "comparison": {
        "judge": f"{_RATED} --budget 110 --decide system",
        **_SCREEN,
        **_READ,
        **_OF_SYSTEMS,
    },
    "money": {"judge": f"{_RATED} --max-cost 0.03 --price-in 1 --price-out 4", **_READ},
    "pairwise": {
        "judge": f"{_PAIRWISE} --limit 12 --budget 60",
        **_SCREEN,
        **_READ,
        **_ANSWERS,
        **_PREFERENCES,
        "simulate": "simulate run --pairwise --budget 60 --runs 2",
    },
    "pairwise-best": {
        "judge": f"{_PAIRWISE} --limit 12 --budget 60 --decide best",
        **_SCREEN,
        **_READ,
        **_PREFERENCES,
    },
    "before": {
        "plan": f"plan pairs.jsonl -a helpfulness {_ONE} --budget 120 --price-in 1 --price-out 4",
        "plan-json": f"plan pairs.jsonl -a helpfulness {_ONE} --budget 120 --price-in 1 --price-out 4 --json",
        "plan-thresholds": f"plan pairs.jsonl -a helpfulness {_ONE} --limit 12 --budget 60 --decide 'score>=2' --margin 1",
        "plan-best": f"plan pairs.jsonl -a helpfulness {_ONE} --limit 6 --budget 36 --decide best --margin 1",
        "plan-pairwise": "plan responses.jsonl --pairwise --model m --limit 10 --budget 100",
        "render": "render pairs.jsonl --pair q0/alder -a helpfulness",
        "render-pairwise": "render responses.jsonl --pairwise --pair 2b66",
        "parse": "parse answers.jsonl",
        "rubrics": "rubrics",
        "no-budget": f"judge pairs.jsonl -a helpfulness {_ONE}",
        "no-endpoint": "judge pairs.jsonl -a helpfulness --budget 10",
        "no-data": "judge nowhere.jsonl -a helpfulness --budget 10 --model m",
        "check": "check --model replay:mild --base-url {url}",
    },
}
"""Command lines by the name of their output, in the order they are given, by the name of the scene."""


def rating() -> AbstractContextManager[str]:
    """The address of the judge that rates."""
    return replaying(DATA / "ratings.csv", "--seed", "1")


def play(name: str, folder: Path, url: str) -> Iterator[tuple[str, str]]:
    """Play a scene in an empty folder, with the judge that rates at ``url``; yield the name and content of each output."""
    # what a check asks without a seed is answered by how much was asked before
    own = rating() if "check" in SCENES[name] else nullcontext(url)
    with own as rating_url, comparing() as pairwise_url:
        yield from _play(name, folder, (rating_url, pairwise_url))


def _play(name: str, folder: Path, urls: tuple[str, str]) -> Iterator[tuple[str, str]]:
    for file in (
        DATA / "pairs.jsonl",
        DATA / "labels.csv",
        DATA / "answers.jsonl",
        DEMO / "responses.jsonl",
    ):
        shutil.copy(file, folder)
    for output, command in SCENES[name].items():
        before = {path for path in folder.iterdir() if path.is_file()}
        typed, both = command.removesuffix(" 2>&1"), command.endswith(" 2>&1")
        with leaving_out_pictures():
            done = robin(*shlex.split(typed.format(url=urls[0], pairwise_url=urls[1])), cwd=folder)
        # What went wrong is said on standard error; of what went well the words there are golden where that is asked for.
        text = f"$ robin {command}\nexit {done.returncode}\n"
        text += f"{done.stderr}\n" if done.returncode not in {0, 5, 6} else "\n"
        printed = _without_times(done.stdout) if "--what judgments" in command else done.stdout
        yield output, _masked(text + printed + done.stderr * both, folder, urls)
        for path in sorted({path for path in folder.iterdir() if path.is_file()} - before):
            content = path.read_text(encoding="utf-8")
            yield (
                f"{output}-{path.stem}",
                _masked(_words(content) if path.suffix == ".html" else content, folder, urls),
            )


def _without_times(judgments: str) -> str:
    """Judgments as CSV, without what no two runs have in common: times, and which of two judges answered first."""
    rows = sorted(
        csv.DictReader(io.StringIO(judgments)),
        key=lambda row: (row["judge"], row["pair_id"], int(row["draw"])),
    )
    out = io.StringIO()
    names = [name for name in rows[0] if name not in {"latency_s", "request_id", "received_at"}]
    writer = csv.DictWriter(out, names, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


_MASKS = (
    (re.compile(r"robin-[0-9a-f]{8}-"), "robin-ID-"),
    (re.compile(r"answered in s .*"), "answered in s  SECONDS"),
    (re.compile(r'"created":\d+'), '"created":TIME'),
    (re.compile(r"20\d\d-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|\+00:00| UTC)?"), "TIME"),
)


def _masked(text: str, folder: Path, urls: tuple[str, str]) -> str:
    """``text`` without what no two runs have in common: places, times and ids."""
    text = text.replace(str(folder), "FOLDER")
    for url, shown in zip(urls, (URL, PAIRWISE_URL), strict=True):
        text = text.replace(url, shown).replace(url.removesuffix("/v1"), shown.removesuffix("/v1"))
    for mask, shown in _MASKS:
        text = mask.sub(shown, text)
    return text


def _words(page: str) -> str:
    """The words of an HTML page, a line per element: no scripts, no styles, no pictures."""
    page = re.sub(r"(?s)<(script|style|svg)\b.*?</\1>|<!--.*?-->", "", page)
    lines = (html.unescape(part).strip() for part in re.sub(r"<[^>]*>", "\n", page).splitlines())
    return "\n".join(filter(None, lines)) + "\n"
