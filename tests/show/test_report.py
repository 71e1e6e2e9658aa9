"""robin report, opened in a real browser: it shows what the run holds, asks no network, and executes nothing of the data."""

from __future__ import annotations

import base64
import gzip
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from robin_cli.model.errors import InputError
from robin_cli.model.records import Pair, Scale
from robin_cli.run.reader import RunReader
from robin_cli.show import charts
from robin_cli.show.drawing import picture
from robin_cli.show.report.page import Page as Report
from robin_cli.show.report.page import first_rows, html
from robin_cli.show.report.texts import answers_of, texts_of
from robin_cli.show.status import standing
from robin_cli.stats.curve import error_curve
from robin_cli.stats.scores import score
from robin_cli.stats.worst_error import worst_error
from tests.conftest import ROOT, robin
from tests.run.test_store import SETTINGS
from tests.show.conftest import Open, Seen
from tests.show.tables import make_run, page_of, page_of_two, rated

CORPUS = [
    json.loads(line)
    for line in (ROOT / "tests/hostile/pairs.jsonl").read_text(encoding="utf-8").splitlines()
]
HOSTILE = [row["id"] for row in CORPUS if row["id"].strip() and "\ud800" not in row["id"]]
EXTRA = [
    "</script><script>window.hacked = 1</script>",
    "<svg onload=window.hacked=1>",
    "<iframe src=//evil.example>",
]


def twenty(path: Path, *, shift: int = 0, name: str = "pair") -> RunReader:
    """A run of 20 pairs, five ratings each, which vary more and more."""
    pairs = [
        Pair(
            f"{name}-{k:02}",
            f"What is {k}?",
            f"It is {k}.",
            {"helpfulness": float(k % 5)},
            columns={"attribute": "odd" if k % 2 else "even", "score": k},
        )
        for k in range(20)
    ]
    ratings: list[list[int | None]] = [
        [max(0, min(4, 2 + shift + (k // 5) * (-1) ** draw)) for draw in range(5)]
        for k in range(20)
    ]
    ratings[3] = [None, None, 4]
    return make_run(path, pairs, ratings, budget=98)


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunReader, Report, str]:
    """The run of `twenty`, its report, and that as HTML."""
    run = twenty(tmp_path_factory.mktemp("usual") / "r")
    page = page_of(run, working=False, guaranteed=True)
    return run, page, html(page)


def test_opens_offline_with_its_pictures_and_fits_a_phone(
    tmp_path: Path, opened: Open, usual: tuple[RunReader, Report, str]
) -> None:
    seen = opened(usual[2])
    pictures = seen.page.locator("figure svg")
    assert seen.page.locator("figure h2").all_inner_texts() == [
        "How do the scores spread?",
        "Where did the calls go?",
        "How sure is the least certain score?",
        "Do scores agree with people?",
        "How do people rate helpfulness at each score?",
    ]
    assert all(len(each.get_attribute("aria-label") or "") > 20 for each in pictures.all())
    for width, scheme in ((1200, "light"), (1200, "dark"), (390, "light")):
        seen.show(width, scheme)
        assert (
            min(pictures.evaluate_all("all => all.map(each => each.getBoundingClientRect().width)"))
            > 300
        )
        assert seen.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (
            width,
            scheme,
        )
        ground, ink = (
            seen.page.evaluate(f"getComputedStyle(document.body).{name}")
            for name in ("backgroundColor", "color")
        )
        drawn = pictures.first.locator("text").first.evaluate("each => getComputedStyle(each).fill")
        assert drawn == ink  # one drawing, in the colours of either
        brightness = [sum(map(int, re.findall(r"\d+", colour)[:3])) for colour in (ground, ink)]
        assert (brightness[0] < brightness[1]) == (scheme == "dark"), (width, scheme)
    assert seen.complaints == []
    assert [url.partition("#")[0] for url in seen.requests] == [(tmp_path / "report.html").as_uri()]


def test_draws_each_kind_of_picture_once_for_light_dark_and_paper_and_says_what_a_mark_is() -> None:
    values = np.linspace(0.0, 4.0, 9)
    many = np.tile(values, 200)
    ends = (values[:2] - 1, values[:2] + 1)
    panels = {
        "histogram": charts.histogram(values, "score", (0.0, 4.0)),
        "course": charts.course(np.arange(1, 10), values, values[::-1], "error"),
        "against": charts.against(
            values, values, ("one", "other"), Scale(0, 4), [f"<pair> {at}" for at in range(9)]
        ),
        "dense": charts.against(many, many, ("one", "other"), Scale(0, 4), ["dense"] * 1800),
        "intervals": charts.under_one_another(["a", "<b>"], values[:2], ends, "strength"),
        "shares": charts.shares(
            ["a", "<b>"], np.array([[np.nan, 0.7], [0.3, np.nan]]), np.eye(2) > 0, ("", "")
        ),
    }
    drawn = picture(charts.Chart("", "says <it>", panels), 3)
    said = re.findall(r"<title>([^<]*)</title>", drawn)
    for each in ("3.8 to 4: 1", "this run: 4 after 9", "0.50, 95 % interval -0.50 to 1.50"):
        assert each in said
    assert "&lt;b&gt; is preferred to a in 30 %" in said
    assert "&lt;pair&gt; 8: one 4, other 4" in said
    assert "dense" not in "".join(said)
    assert 'fill-opacity="0.7"' in drawn  # of the few marks
    assert not re.search(r"style|#[0-9a-f]{6}\b|<b>|<it>|<image|xmlns:|<metadata", drawn)
    assert {"--ink", "--line", "--mark-0", "--mark-1"} <= set(
        re.findall(r"var\((--[\w-]+)\)", drawn)
    )
    assert set(re.findall(r"url\(#([^)]+)\)", drawn)) <= set(re.findall(r' id="(c3-[^"]+)"', drawn))
    assert drawn.count("this run</text>") == 1  # in one legend, below


def test_shows_the_numbers_of_the_run_in_each_order_and_draws_intervals_where_they_are(
    opened: Open, usual: tuple[RunReader, Report, str]
) -> None:
    run, _, text = usual
    seen = opened(text)
    shows_first_the_widest_the_most_varied_or_the_furthest_from_human(seen, run)
    columns = score(run).columns
    seen.page.select_option("#order", label="order of the data")
    assert seen.rows() == list(columns["pair_id"])
    assert seen.column("score") == [f"{value:.2f}" for value in np.asarray(columns["score"], float)]
    assert seen.column("ratings") == [str(value) for value in np.asarray(columns["n"])]
    for name, low, high in (
        ("95 %", "ci_low", "ci_high"),
        ("guaranteed", "guaranteed_low", "guaranteed_high"),
    ):
        ends = np.column_stack([np.asarray(columns[low], float), np.asarray(columns[high], float)])
        assert seen.column(name) == [f"{bottom:.2f} – {top:.2f}" for bottom, top in ends]
    answer, means = (seen.page.locator(where).inner_text() for where in (".answer", ".figures"))
    status = standing(run, working=False)
    said = [
        *status.result.answer,
        "worst score: expected error about",
        "98 of 98 calls spent; 2 answers without a rating",
        "cost unknown",
    ]
    places = [answer.index(each) for each in said]
    assert places == sorted(places)  # the answer first, how sure that is, what it cost
    (mean,) = status.result.means
    assert f"{mean.mean.value:.2f}\t{mean.mean.low:.2f} – {mean.mean.high:.2f}" in means
    facts = seen.page.locator(".facts").inner_text()
    assert f"worst score\texpected error about {status.facts['worst_error']:.2f}" in facts
    assert "without a rating" in seen.page.locator(".facts").inner_text()
    seen.show(390)
    draws_each_interval_where_its_numbers_are(seen, run)


def test_sorts_and_filters_by_mouse_and_by_keyboard_and_lets_no_other_script_run(
    opened: Open, usual: tuple[RunReader, Report, str]
) -> None:
    seen = opened(usual[2])
    page = seen.page
    variance = seen.head("variance")
    variance.locator("button").click()
    variances = [float(text) for text in seen.column("variance") if text != "–"]
    assert variances == sorted(variances, reverse=True)
    assert seen.column("variance")[-1] == "–"  # one rating has no variance
    assert variance.get_attribute("aria-sort") == "descending"
    page.keyboard.press("Enter")  # the button has the focus
    assert variance.get_attribute("aria-sort") == "ascending"
    assert [float(text) for text in seen.column("variance") if text != "–"] == sorted(variances)

    page.fill("#find", "PAIR-1")
    assert {row[:6] for row in seen.rows()} == {"pair-1"}
    assert "10 of 10 rows shown, 20 in all" in page.inner_text("#shown")
    page.fill("#find", "")
    page.select_option("#view", label="with unparsed answers")
    assert seen.rows() == ["pair-03"]
    # What the data say of a pair can be looked for and chosen by, though it is not shown.
    page.select_option("#view", label="attribute: odd")
    assert len(seen.rows()) == 10
    page.fill("#find", "3 ODD")
    assert seen.rows() == ["pair-13", "pair-03"]
    page.fill("#find", "")
    page.select_option("#view", label="with unparsed answers")

    row = page.locator("tbody tr.row").first
    for cell in (0, 2, row.locator("td").count() - 1):
        row.locator("td").nth(cell).click()
        page.wait_for_selector(".texts pre")
        row.locator("td").nth(cell).click()
        assert page.locator(".texts").count() == 0
    page.locator("tbody tr.row button").first.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector(".texts pre")
    assert page.locator("tr.row button").first.get_attribute("aria-expanded") == "true"
    texts = page.locator(".texts").inner_text()
    assert "What is 3?" in texts
    assert "It is 3." in texts
    assert texts.count("missing") == 2
    assert "Rating 4" in texts
    page.keyboard.press("Enter")
    assert page.locator(".texts").count() == 0
    assert seen.complaints == []
    lets_no_other_script_run_and_nothing_out(seen)


def draws_each_interval_where_its_numbers_are(seen: Seen, run: RunReader) -> None:
    columns = {name: np.asarray(values) for name, values in score(run).columns.items()}
    drawn = seen.page.locator("tbody svg").evaluate_all("""bars => bars.map((bar) => {
        const whole = bar.getBoundingClientRect();
        const ends = (mark) => {
            const box = bar.querySelector(mark).getBoundingClientRect();
            return [box.left, box.right].map((x) => 4 * (x - whole.left) / whole.width);
        };
        return [ends(".thick"), ends(".thin"), ends(".tick"), ends(".ring")];
    })""")
    pixel = 4 / 96
    for row, (thick, thin, tick, ring) in enumerate(drawn):
        assert thick == pytest.approx([columns["ci_low"][row], columns["ci_high"][row]], abs=pixel)
        assert thin == pytest.approx(
            [columns["guaranteed_low"][row], columns["guaranteed_high"][row]], abs=pixel
        )
        assert np.mean(tick) == pytest.approx(columns["score"][row], abs=pixel)
        assert np.mean(ring) == pytest.approx(columns["human"][row], abs=pixel)
    bar = seen.page.get_by_role("img", name="on the scale from 0 to 4").nth(1)
    texts = {name: seen.column(name)[1] for name in ("score", "95 %", "guaranteed", "human")}
    assert bar.locator("title").text_content() == (
        ", ".join(f"{name} {text}" for name, text in texts.items()) + " on the scale from 0 to 4"
    )


def shows_first_the_widest_the_most_varied_or_the_furthest_from_human(
    seen: Seen, run: RunReader
) -> None:
    columns = {
        name: np.asarray(values) for name, values in score(run).columns.items() if name != "pair_id"
    }
    keys = {
        "widest interval": columns["ci_high"] - columns["ci_low"],
        "largest variance": columns["variance"],
        "furthest from human": np.abs(columns["score"] - columns["human"]),
    }
    assert seen.page.locator("#order option").all_inner_texts() == [*keys, "order of the data"]
    for name, key in keys.items():
        if name != "widest interval":  # which it opens with
            seen.page.select_option("#order", label=name)
        places = [int(row[-2:]) for row in seen.rows()]
        shown = np.nan_to_num(key[places], nan=-1)
        assert (np.diff(shown) <= 1e-3).all(), name
        assert seen.page.locator("th[aria-sort]").count() == 0
    seen.head("interval").locator("button").click()
    assert seen.head("95 %").get_attribute("aria-sort") == "descending"
    assert int(seen.rows()[0][-2:]) == np.argmax(keys["widest interval"])


def test_keeps_of_too_many_rows_those_that_come_first_in_each_order_and_a_sample() -> None:
    width, variance, apart = np.arange(100.0), -np.arange(100.0), np.full(100, np.nan)
    apart[[50, 60]] = 1, 2
    kept = first_rows(100, width, variance, apart, most=22)
    first, last = set(range(10)), set(range(90, 100))
    assert len(kept) == 22
    assert {0, 1, 2, 3, 4, 5, 50, 60, 94, 95, 96, 97, 98, 99} <= set(kept.tolist())
    assert set(kept.tolist()) - first - last - {50, 60}  # of which no order says that they matter
    assert first_rows(100, width, variance, apart, most=22).tolist() == kept.tolist()
    assert first_rows(100, width, variance, apart, most=100).tolist() == list(range(100))


def test_puts_first_a_pair_of_which_nothing_is_known(tmp_path: Path, opened: Open) -> None:
    run = make_run(
        tmp_path / "r", [Pair(f"p{k}", "x", "y") for k in range(3)], [[0, 4, 0, 4], [], [2, 2, 2]]
    )
    seen = opened(html(page_of(run, draws=False)))
    assert seen.rows() == ["p1", "p0", "p2"]
    assert seen.column("95 %")[0] == "–"


def test_shows_what_was_rated_of_a_run_that_has_hardly_begun_and_says_which_rows_it_leaves_out(
    tmp_path: Path, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(first_rows, "__kwdefaults__", {"most": 5})
    pairs = [Pair(f"p{k:02}", "x", "y") for k in range(40)]
    run = make_run(tmp_path / "r", pairs, [[3] if k in {17, 23, 31} else [] for k in range(40)])
    seen = opened(html(page_of(run, working=False)))
    assert len(seen.rows()) == 5
    assert seen.rows()[:3] == ["p17", "p23", "p31"]
    left_out = seen.page.inner_text("#left-out")
    for said in (
        "Of 40 rows the table has 5",
        "and of a random sample",
        "The other 35 are left out",
    ):
        assert said in left_out
    assert "No pair has two ratings" in seen.page.inner_text("body")
    assert seen.page.locator("figure h2").all_inner_texts() == ["How do the scores spread?"]


def test_compares_shares_of_scales_of_their_own(tmp_path: Path, opened: Open) -> None:
    run = rated(
        tmp_path, ["same", "varies"], ("large", "small"), scale={"small": (0, 4), "large": (0, 100)}
    )
    seen = opened(html(page_of(run, draws=False)))
    for order in ("widest interval", "largest variance", "furthest from human"):
        seen.page.select_option("#order", label=order)
        assert seen.column("attribute")[0] == "small", order
    assert seen.page.get_by_role("img", name="on the scale from 0 to 100").count() == 2


def test_executes_nothing_of_a_hostile_run(tmp_path: Path, opened: Open) -> None:
    texts = [*HOSTILE, *EXTRA]
    pairs = [Pair(text, text, f"{text} said") for text in texts]
    settings = {**SETTINGS, "temperature": 1.0, "base_url": ["http://x/v1"], "model": EXTRA[0]}
    data = {"source": EXTRA[1], "sha256": "0", "pairs": len(pairs), "skipped": 0}
    run = make_run(
        tmp_path / "r",
        pairs,
        [[k % 5, 4, None] for k in range(len(texts))],
        settings=settings,
        data=data,
    )
    seen = opened(html(page_of(run, working=False)))
    page = seen.page
    assert page.locator("tbody tr.row").count() == len(texts)
    page.locator("tr.row button").evaluate_all("all => all.forEach(each => each.click())")
    page.locator(".texts pre").nth(len(texts) - 1).wait_for()
    shown = page.locator(".texts pre").evaluate_all("all => all.map(each => each.textContent)")
    assert set(texts) <= set(shown)  # to the letter
    assert page.evaluate("window.hacked") is None
    assert (
        page.locator("main script, main iframe, main object, main [onload], main [onerror]").count()
        == 0
    )
    assert (
        page.locator("tbody svg").count()
        == page.locator("tr.row td.bar > svg").count()
        == len(texts)
    )
    assert page.locator("main img").count() == 0
    assert page.locator("a").count() == 1  # the one to the pairs
    assert (seen.dialogs, seen.complaints, len(seen.requests)) == ([], [], 1)


def lets_no_other_script_run_and_nothing_out(seen: Seen) -> None:
    seen.page.evaluate("""() => {
        const script = document.createElement("script");
        script.textContent = "window.hacked = 1";
        document.body.append(script);
        const image = document.createElement("img");
        image.src = "http://127.0.0.1:9/leak";
        document.body.append(image);
        return fetch("http://127.0.0.1:9/leak").catch(() => 0);
    }""")
    assert seen.page.evaluate("window.hacked") is None
    assert sum("Content Security Policy" in line for line in seen.complaints) >= 3


@pytest.mark.parametrize(
    ("count", "share"), [(500, 20), pytest.param(10_000, 1, marks=pytest.mark.whole)]
)
def test_stays_below_5_mb_for_10000_pairs(
    tmp_path: Path,
    opened: Open,
    usual: tuple[RunReader, Report, str],
    monkeypatch: pytest.MonkeyPatch,
    count: int,
    share: int,
) -> None:
    monkeypatch.setattr(
        texts_of, "__kwdefaults__", {"room": (texts_of.__kwdefaults__ or {})["room"] // share}
    )
    rng = np.random.default_rng(0)
    words = ["".join(map(chr, rng.integers(97, 123, rng.integers(2, 9)))) for _ in range(3000)]

    def text(count: int) -> str:
        return " ".join(words[k] for k in rng.integers(0, len(words), count))

    pairs = [
        Pair(f"pair-{k:06}", text(100), text(200), {"helpfulness": float(k % 5)})
        for k in range(count)
    ]
    ratings: list[list[int | None]] = [list(map(int, rng.integers(0, 5, 3))) for _ in pairs]
    run = make_run(tmp_path / "r", pairs, ratings, feedback=text(30), budget=3 * count)
    page = html(page_of(run, draws=share == 1))
    without_pictures = html(replace(usual[1], charts=[]))
    of_rows = len(page.encode()) - len(without_pictures.encode())
    assert len(usual[2].encode()) + share * of_rows < 5_000_000
    seen = opened(page)
    assert f"100 of {count:,} rows shown" in seen.page.inner_text("#shown")
    assert "texts are cut to" in seen.page.inner_text("caption")
    seen.page.click("#more")
    assert seen.page.locator("tbody tr.row").count() == 200
    seen.page.fill("#find", pairs[-1].pair_id)
    seen.page.click("tbody tr.row button")
    seen.page.wait_for_selector(".texts pre")
    assert seen.page.locator(".texts pre").first.inner_text()[:10] == pairs[-1].prompt[:10]
    assert seen.complaints == []


def test_compares_two_runs_pair_by_pair(tmp_path: Path, opened: Open) -> None:
    same = [Pair(f"p{k}", f"prompt {k}", f"response {k}") for k in range(6)]
    low: list[list[int | None]] = [[1, 1, 0] * 20 for _ in same]
    high: list[list[int | None]] = [[4, 4, 3] * 20 if k < 2 else [1, 1, 0] * 20 for k in range(6)]
    a = make_run(tmp_path / "a", same, low, budget=360)
    b = make_run(
        tmp_path / "b", [*same[1:], Pair("only-b", "x", "y")], [*high[1:], [2, 2]], budget=400
    )
    page = html(replace(page_of_two(a, b), charts=[]))
    seen = opened(page)
    assert seen.rows() == ["p1", "p2", "p3", "p4", "p5"]
    assert seen.column("A − B") == ["-3.00", "0.00", "0.00", "0.00", "0.00"]
    line, middle = seen.page.locator("tr.row svg").first.evaluate(
        "bar => ['.thick', '.zero'].map((mark) => bar.querySelector(mark).getBoundingClientRect().left)"
    )
    assert line < middle  # B is higher for sure
    seen.page.select_option("#view", label="differ beyond noise")
    assert seen.rows() == ["p1"]
    seen.page.locator("tr.row button").first.click()
    seen.page.wait_for_selector(".texts li")
    assert "B: Rating 3" in seen.page.locator(".texts").inner_text()
    said = " ".join(seen.page.locator(".warning").all_inner_texts())
    assert "5 scores are in both; 1 are in A alone and 1 in B alone" in said
    assert "no interval below 20 prompts" in page
    assert "Run B is stopped: 302 of 400 calls are spent" in said
    assert seen.complaints == []


def test_says_of_each_panel_what_its_marks_are() -> None:
    zeros, names = np.zeros(1501), ("score", "rating")
    many, few = (
        charts.against(zeros, each, names, Scale(0, 4), ["a"] * 1501)
        for each in (zeros, np.append(np.zeros(1500), np.nan))
    )
    assert charts.marks_of({"a": few, "b": few}) == "Each mark is a pair."
    assert charts.marks_of({"a": many, "b": many}) == "The stronger the colour, the more pairs."
    mixed = "The stronger the colour, the more pairs; of b, c each mark is a pair."
    assert charts.marks_of({"a": many, "b": few, "c": few}) == mixed


def test_draws_human_ratings_by_score_with_their_numbers_where_there_are_enough(
    tmp_path: Path, usual: tuple[RunReader, Report, str]
) -> None:
    run, page, text = usual
    (found,) = (each for each in page.charts if each.title == "Do scores agree with people?")
    assert "Each mark is a pair." in found.says
    marks = re.findall(r"<text[^>]*>([^<]*)</text>", text.rpartition("<svg")[2])
    levels = np.floor(np.asarray(score(run).columns["score"]) + 0.5)
    assert marks[-2:] == [str(count) for count in np.unique(levels, return_counts=True)[1]]
    few = [Pair(f"p{k}", "one prompt", f"{k}", {"helpfulness": float(k % 5)}) for k in range(30)]
    drawn = page_of(make_run(tmp_path / "few", few, [[k % 4, 2] for k in range(30)]))
    titles = {each.title for each in drawn.charts}
    assert "Do scores agree with people?" in titles
    assert "How do people rate helpfulness at each score?" not in titles


def test_shows_the_most_uncertain_decisions_first_and_by_a_view(
    tmp_path: Path, opened: Open
) -> None:
    pairs = [Pair(f"pair-{k}", f"What is {k}?", f"It is {k}.") for k in range(5)]
    ratings: list[list[int | None]] = [[4] * 40, [0] * 40, [4] * 40, [3, 4, 2], [None] * 5]
    settings = {**SETTINGS, "decide": "score>=3", "scheduler": "uniform"}
    run = make_run(tmp_path / "r", pairs, ratings, settings=settings, budget=128)
    page = page_of(run)
    assert page.charts[0].title == "How many decisions are likely wrong?"
    assert "This run ends above the even spread" in page.charts[0].says  # it hardly asked of pair-3
    seen = opened(html(replace(page, charts=page.charts[:1])), 390, "dark")

    assert seen.rows()[0] == "pair-3"
    seen.page.select_option("#order", label="order of the data")
    assert seen.column("decision") == ["keep", "drop", "keep", "keep", "undecided"]
    seen.page.select_option("#view", label="likely wrong above 5 %")
    assert seen.rows() == ["pair-3"]
    assert "kept 3 of 5" in seen.page.locator("body").inner_text()
    assert seen.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert not seen.complaints


def test_shows_how_good_the_judge_is_and_opens_the_texts_on_which_people_say_otherwise(
    tmp_path: Path, opened: Open
) -> None:
    def made(count: int, folder: str) -> str:
        pairs = [
            Pair(f"pair-{k}", f"What is {k}?", f"It is <b>{k}</b>.", {"helpfulness": k % 5})
            for k in range(count)
        ]
        ratings: list[list[int | None]] = [[0 if k == 4 else k % 5] * 3 for k in range(count)]
        settings = {**SETTINGS, "decide": "score>=3", "scheduler": "uniform"}
        run = make_run(tmp_path / folder, pairs, ratings, settings=settings, budget=3 * count)
        return html(page_of(run, draws=False))

    seen = opened(made(30, "r"), 390)
    quality = seen.page.locator("#labelled .figures").inner_text()
    assert "0.97\t0.83 – 1.00" in quality  # accuracy
    # of 30 people keep 12, and the judge all but one
    assert "\t11\t0\t1\t18" in quality
    seen.page.locator("#labelled summary").click()
    assert (
        "pair-4 judge 0.00, people 4.00\nPrompt\nWhat is 4?\nResponse\nIt is <b>4</b>."
        in seen.page.locator("#labelled details").inner_text().replace("\n\n", "\n")
    )
    seen.head("score").locator("button").click()
    assert seen.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert not seen.complaints
    few = "r2: helpfulness: 24 labels of pairs with a score, 25 are needed"
    assert few in made(24, "r2")


def test_puts_what_two_systems_answered_to_a_prompt_beside_each_other(tmp_path: Path) -> None:
    # 0 and 9 were answered by one of them, 8 twice by A
    asked = {"a": [*range(8), 8, 8], "b": [*range(9, 0, -1)]}
    runs = [
        make_run(
            tmp_path / name,
            [
                Pair(f"{name}{at}", f"prompt {prompt}", f"{name}{at} to {prompt}")
                for at, prompt in enumerate(prompts)
            ],
            [[at % 4, 2] for at in range(len(prompts))],
        )
        for name, prompts in asked.items()
    ]

    page = page_of_two(runs[0], runs[1])

    _, texts_of_page = page.rows.texts(page.rows.first())
    shown = [
        texts
        for block in texts_of_page.blocks
        for texts, _ in json.loads(gzip.decompress(base64.b64decode(block)))
    ]
    assert sorted(shown) == [
        [
            f"prompt {prompt}",
            "\n\n".join(f"a{at} to {prompt}" for at in at_a),
            f"b{9 - prompt} to {prompt}",
        ]
        for prompt, at_a in [*((each, [each]) for each in range(1, 8)), (8, [8, 9])]
    ]


def test_counts_pairs_of_one_id_with_other_texts(tmp_path: Path) -> None:
    pairs = [Pair(f"p{k}", f"prompt {k}", "same") for k in range(6)]
    other = [
        Pair("new", "prompt 0", "same"),
        *(replace(each, response=f"{each.pair_id}") for each in pairs[4:1:-1]),
    ]
    a, b = (
        make_run(tmp_path / name, each, [[1, 2]] * len(each))
        for name, each in (("a", pairs), ("b", [*other, *pairs[:2]]))
    )

    for runs in ((a, b), (b, a)):
        warnings = " ".join(page_of_two(*runs).warnings)
        assert "3 pairs of one id have other texts in B than in A." in warnings
    assert "other texts" not in " ".join(page_of_two(a, a).warnings)


def test_says_why_runs_cannot_be_compared(tmp_path: Path) -> None:
    run = twenty(tmp_path / "a")
    other = make_run(tmp_path / "b", [Pair("elsewhere", "x", "y")], [[1, 2]])
    wide = make_run(tmp_path / "c", [Pair("pair-01", "x", "y")], [[1, 2]], scale=(1, 5))
    with pytest.raises(InputError, match="no pair and attribute in common, and no prompt either"):
        page_of_two(run, other)
    with pytest.raises(InputError, match="different scales"):
        page_of_two(run, wide)
    assert "one run, or two" in robin("report", "a", "b", "c", cwd=tmp_path).stderr
    unwritable = robin("report", "a", "-o", "no/where.html", cwd=tmp_path, exits=2)
    assert "-o no/where.html: cannot be written" in unwritable.stderr


def test_ends_the_course_where_the_run_stands(tmp_path: Path) -> None:
    pairs = [Pair(f"p{k}", "x", "y") for k in range(4)]
    run = make_run(tmp_path / "r", pairs, [[0, 4] * 10, [2] * 20, [3, 4] * 10, [1] * 20])
    curve = error_curve(run)
    assert curve.calls[-1] == 80
    kept = ~run.fold.arms.is_retired
    assert curve.run[-1] == worst_error(run.space, run.fold.arms.sums, kept)
    assert curve.even[-1] == pytest.approx(curve.run[-1])  # it was spread evenly


def test_shows_a_run_without_a_single_rating(tmp_path: Path, opened: Open) -> None:
    run = make_run(tmp_path / "r", [Pair("p0", "x", "y"), Pair("p1", "x", "z")], [[None], []])
    seen = opened(html(page_of(run, working=False)))
    assert seen.column("score") == ["–", "–"]
    assert (
        "This run is stopped: 1 of 100 calls are spent."
        in seen.page.locator(".warning").all_inner_texts()
    )
    assert seen.complaints == []


def test_cuts_texts_until_they_fit_and_keeps_what_differs(tmp_path: Path) -> None:
    run = make_run(
        tmp_path / "r", [Pair("p0", "x" * 300, "y")], [[1, 1, 1, 1, 1, 4, 2]], feedback="z" * 500
    )
    answers = answers_of(run, [0])
    assert [each[3][-1] for each in answers(0, None, None)] == [*"1111142"]
    shown = answers(0, 10, 3)
    assert [rating for *_, rating, _ in shown] == ["Rating 1", "Rating 4", "Rating 2"]
    assert {feedback for *_, feedback in shown} == {"z" * 9 + "…"}
    rng = np.random.default_rng(0)
    pairs = [
        Pair(f"p{k}", "".join(map(chr, rng.integers(33, 1000, 3000))), "r") for k in range(200)
    ]
    whole = texts_of(2, pairs.__getitem__, lambda *_: [])
    assert (whole.longest, len(whole.blocks)) == (None, 1)
    cut = texts_of(len(pairs), pairs.__getitem__, lambda *_: [], room=200_000)
    assert cut.longest
    assert sum(map(len, cut.blocks)) <= 200_000
    read: list[int] = []

    def pair(k: int) -> Pair:
        read.append(k)
        return Pair(f"p{k}", "x" * 2**20, "r")

    long = texts_of(40, pair, lambda *_: [])
    # more than 32 MiB are not held, though they would fit, packed
    assert (long.longest, len(read)) == (20_000, 32 + 40)
