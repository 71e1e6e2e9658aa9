"""robin gate as a build uses it: exit codes, lines, JUnit XML, a summary page, and errors that say what to do."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest

import robin_cli
from robin_cli.goals.gate import GateResult
from robin_cli.model.decision import Criterion
from robin_cli.show.gate import junit_of, lines_of, markdown_of
from robin_cli.show.words import about
from robin_cli.stats.gate import Settling, Verdict
from robin_cli.stats.requirement import Requirement
from tests.conftest import ROOT, robin
from tests.stats.test_scores import run_of

SCHEMA = ROOT / "tests" / "schemas" / "junit-10.xsd"
Ratings = dict[tuple[str, str, str], list[int | None]]


def check_junit(junit: str) -> None:
    """Hold a file, or its text, against the schema of JUnit files."""
    import xmlschema

    xmlschema.XMLSchema(str(SCHEMA)).validate(junit)


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run r: 40 pairs of 20 prompts on 1 to 5, good ones with a bad one among them."""
    folder = tmp_path_factory.mktemp("gate")
    ratings: Ratings = {
        (f"p{k}", "style", "a"): [5, 4, 5, 5, 4, 5, 5, 5, 4, 5, 5, 5] for k in range(40)
    }
    ratings["p7", "style", "a"] = [1, 1, 2, 1, 1, 1, 2, 1, 1, 1, 1, 1]
    ratings["p9", "style", "a"] = [3, 3]
    run_of(folder, ratings, prompts={f"p{k}": f"prompt {k // 2}" for k in range(40)})
    return folder


def required(*texts: str) -> list[str]:
    return [part for text in texts for part in ("--require", text)]


@pytest.mark.parametrize(
    ("texts", "code", "starts"),
    [
        (["mean(style)>=3.5"], 0, ["PASS mean(style)>=3.5: 4.62, 95 % interval 3."]),
        (["mean(score)<=3.5"], 5, ["FAIL mean(style)<=3.5: 4.62"]),
        (["mean(score)>=4.5"], 6, ["INCONCLUSIVE mean(style)>=4.5: 4.62"]),
        (["share(score>=3)>=0.7"], 0, ["PASS share(style>=3)>=0.7: 0.97"]),
        (
            ["all(score>=3)"],
            5,
            ["FAIL all(style>=3): 38 of 40 pairs shown to meet it, 1 shown not to: p7"],
        ),
        (["mean(score)>=3.5", "mean(score)>=4.5"], 6, ["PASS", "INCONCLUSIVE"]),
        (
            ["mean(score)>=4.5", "all(score>=3)", "mean(score)>=3.5"],
            5,
            ["INCONCLUSIVE", "FAIL", "PASS"],
        ),
    ],
)
def test_says_by_line_and_exit_code_whether_a_run_meets_what_is_required(
    work: Path, texts: list[str], code: int, starts: list[str]
) -> None:
    done = robin("gate", "r", *required(*texts), cwd=work, exits=code)
    caution, *overall, step = done.stderr.splitlines()
    assert caution == "r is not finished: 470 of 1,000 calls spent; to go on: robin resume r"
    has_intervals = any(not text.startswith("all") for text in texts)
    assert len(overall) == has_intervals + (len(texts) > 1)
    assert step.startswith("next: robin re")
    lines = done.stdout.splitlines()
    assert len(lines) == len(starts)
    for line, start in zip(lines, starts, strict=True):
        assert line.startswith(start)
        if "mean" in start or "share" in start:
            assert "(40 pairs of 20 prompts" in line
        assert ("would settle it" in line) == line.startswith("INCONCLUSIVE")


def test_writes_requirements_as_rows_where_a_flag_and_no_variable_says_so(work: Path) -> None:
    asked = ("gate", "r", *required("mean(style)>=3.5", "all(score>=3)"))
    plain = robin(*asked, cwd=work)
    assert (
        robin(*asked, cwd=work, ROBIN_OUTPUT="kept.csv", ROBIN_FORMAT="csv").stdout == plain.stdout
    )
    assert not (work / "kept.csv").exists()
    done = robin(*asked, "-o", "rows.csv", cwd=work)
    assert (done.returncode, done.stdout) == (5, "")
    assert f"\nwrote rows.csv\n{plain.stdout}" in done.stderr
    rows = list(csv.DictReader((work / "rows.csv").read_text(encoding="utf-8").splitlines()))
    assert [(row["requirement"], row["verdict"]) for row in rows] == [
        ("mean(style)>=3.5", "pass"),
        ("all(style>=3)", "fail"),
    ]
    shown = robin(*asked, "--format", "table", cwd=work).stdout.splitlines()
    assert shown[2].split()[:2] == ["mean(style)>=3.5", "pass"]


def test_passes_all_where_every_pair_is_certified_and_takes_margin_and_error_rate(
    tmp_path: Path,
) -> None:
    run_of(tmp_path, {(f"p{k}", "style", "a"): [5, 4, 5, 5, 5] for k in range(3)})
    done = robin("gate", "r", "--require", "all(score>=2)", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (
        0,
        "PASS all(style>=2): each of 3 pairs is shown to meet it\n",
    )
    done = robin("gate", "r", "--require", "all(score>=4)", cwd=tmp_path, exits=6)
    assert re.fullmatch(
        r"INCONCLUSIVE all\(style>=4\): 0 of 3 pairs shown to meet it, 3 open: p0, p1, p2; more calls "
        r"where it is open would settle it \(a new run of robin judge --decide 'style>=4' asks there\)\n",
        done.stdout,
    )
    robin("gate", "r", "--require", "all(score>=4)", "--error-rate", "0.5", cwd=tmp_path, exits=0)
    robin(
        *("gate", "r", "--require", "all(score>=4)", "--margin", "0.9", "--error-rate", "0.1"),
        cwd=tmp_path,
        exits=0,
    )


def test_writes_junit_that_ci_systems_read_and_a_summary(work: Path) -> None:
    three = required("mean(score)>=3.5", "mean(score)>=4.5", "all(score>=3)")
    done = robin(
        "gate", "r", *three, "--junit", "gate.xml", "--summary", "gate.md", cwd=work, exits=5
    )
    assert len(done.stdout.splitlines()) == 3
    check_junit(str(work / "gate.xml"))
    suite = ET.parse(work / "gate.xml").getroot()[0]  # noqa: S314  # robin wrote it
    assert suite.attrib == {
        "name": "robin gate",
        "tests": "3",
        "failures": "1",
        "errors": "0",
        "skipped": "1",
    }
    assert [[child.tag for child in case] for case in suite] == [
        ["system-out"],
        ["skipped"],
        ["failure"],
    ]
    summary = (work / "gate.md").read_text(encoding="utf-8")
    assert summary.startswith("### robin gate: ❌ fail\n\n| | requirement | why |\n")
    assert (
        len(re.findall(r"^\| (?:✅ pass|❔ inconclusive|❌ fail) \|", summary, flags=re.MULTILINE))
        == 3
    )
    printed = robin("gate", "r", *three, "--summary", "-", cwd=work)
    assert printed.stdout == summary
    assert robin("gate", "r", *three, "--junit", "-", cwd=work).stdout == (
        work / "gate.xml"
    ).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["r", "--require", "mean(style)=4"], 'at character 12: "=" is no requirement'),
        (
            ["r", "--require", "mean(tone)>=4"],
            'at character 6: "tone" is not judged here; this run judges style',
        ),
        (
            ["r", "--require", "mean(style)>=9"],
            "at character 14: the threshold 9 is not inside the scale 1-5 of style",
        ),
        (
            ["r", "--require", "share(style>=3)>=90"],
            "at character 18: 90 is no share between 0 and 1",
        ),
        (["r", "--require", "compare(A,B)>=0"], 'r has no column "system" (name one with --by)'),
        (
            ["r", "--require", "all(score>=3)", "--margin", "2"],
            "--margin 2: reaches from the threshold of style>=3",
        ),
        (
            ["r", "--require", "all(score>=3)", "--margin", "nan"],
            "--margin nan: must be a number of points, 0 or more",
        ),
        (
            ["r", "--require", "all(score>=3)", "--error-rate", "1"],
            "--error-rate 1: must be between 0 and 1",
        ),
        (["r"], "--require is missing"),
        (["none", "--require", "mean(style)>=4"], "none"),
        (
            ["r", "--require", "mean(score)>=4", "--junit", "no/gate.xml"],
            "--junit no/gate.xml: cannot be written",
        ),
        (
            ["r", "--require", "mean(score)>=4", "--summary", "r/manifest.json"],
            "--summary r/manifest.json: cannot be",
        ),
        (
            ["r", "--require", "mean(score)>=4", "--summary", "-", "--json"],
            "--summary and --json: would both",
        ),
        (
            ["r", "--require", "mean(score)>=4", "--summary", "x", "--junit", "./x"],
            "--junit and --summary: would both",
        ),
    ],
)
def test_refuses_what_it_cannot_do_and_says_where(
    work: Path, args: Sequence[str], says: str
) -> None:
    done = robin("gate", *args, cwd=work)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in re.sub(r"\s+", " ", done.stderr)
    assert "Traceback" not in done.stderr


HOSTILE = "]]></failure>&<script>|`**x**`[y](http://evil.example)\x1b[31m\x00\ufffe\u202e\n| a |@me _z_ http://evil.example"


def gate_result(pair_id: str, attribute: str) -> GateResult:
    requirement = Requirement("all", Criterion(attribute, ">=", 3.0), 0.1)
    numbers = (4.0, float("nan"), float("nan"), 2, 2, 0)
    against = Verdict(requirement, "fail", *numbers, open=[], against=[0])
    left_open = Verdict(
        requirement, "inconclusive", *numbers, open=[0], settling=Settling(is_open=True)
    )
    return GateResult(f"runs/{pair_id}", [against, left_open], [pair_id, "b"], 100, 1, 0.05)


def test_lets_no_name_act_in_lines_junit_or_markdown() -> None:
    found = gate_result(HOSTILE, HOSTILE)
    for line in lines_of(found):
        assert "\n" not in line
        assert not {"\x1b", "\x00", "\u202e"} & set(line)
    junit = junit_of(found)
    check_junit(junit)
    cases = ET.fromstring(junit.encode())[0]  # noqa: S314  # robin wrote it
    assert [[child.tag for child in case] for case in cases] == [["failure"], ["skipped"]]
    assert "\\x1b[31m" in cases[0].attrib["name"]
    markdown = markdown_of(found)
    plain = re.sub(r"&#\d+;", "", markdown)  # each mark of a name is an entity
    assert not re.search(r"[`\[\]*@]|http:|<(?!/?code>)|&", plain)
    rows = [line for line in markdown.splitlines() if line.startswith("| ")]
    assert [row.count("|") for row in rows] == [4, 4, 4]


@pytest.mark.parametrize(
    ("number", "told"), [(0.2, 1), (7, 7), (99.1, 100), (101, 110), (123_456, 130_000)]
)
def test_tells_what_is_needed_in_two_digits(number: float, told: int) -> None:
    assert about(number) == told


def test_takes_the_mean_of_a_run_that_decided_from_the_ratings_that_no_rating_chose(
    tmp_path: Path,
) -> None:
    rng = np.random.default_rng(0)
    means = {f"p{number}": mean for number, mean in enumerate(rng.uniform(0.5, 3.5, 30))}
    pairs = [robin_cli.Pair(name, f"prompt {name}", f"the answer {name} ends") for name in means]

    def judge(messages: Sequence[Mapping[str, str]]) -> str:
        name = re.findall(r"the answer (p\d+) ends", messages[-1]["content"])[0]
        return f"Feedback: fine\nRating: {rng.binomial(4, means[name] / 4)}"

    run = robin_cli.judge(
        pairs,
        judge=judge,
        attribute="helpfulness",
        budget=400,
        decide="score>=2",
        run=str(tmp_path / "r"),
        quiet=True,
    )
    done = robin("gate", "r", "--require", "mean(score)>=2", "--json", cwd=tmp_path)

    ratings = run.judgments().groupby("pair_id")["rating"]
    (verdict,) = json.loads(done.stdout)["requirements"]
    assert verdict["estimate"] == pytest.approx(ratings.head(2).mean())
    assert verdict["estimate"] != pytest.approx(run.scores()["score"].mean(), abs=1e-6)
    assert (
        "the first 2 ratings of each"
        in robin("gate", "r", "--require", "mean(score)>=2", cwd=tmp_path).stdout
    )
