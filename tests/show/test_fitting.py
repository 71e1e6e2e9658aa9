"""Columns fitted to a terminal's width."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len

from robin_cli.show.fitting import Cells, _look, fit, told_apart
from robin_cli.show.text import plain, wrapped

# Short alphabets make texts that are alike; the wide, the joined, the invisible and the hostile are among them.
ids = st.one_of(
    st.text(st.sampled_from("ab-1"), min_size=1, max_size=300),
    st.text(
        st.sampled_from("a你猫👩\u200d\ufe0f\u200b\u0301é 🇩🇪…#1\x1b\u202e\n"),
        min_size=1,
        max_size=300,
    ),
    st.text(min_size=1, max_size=40),
    st.tuples(st.text(st.sampled_from("xy"), max_size=2), st.integers(0, 30)).map(
        lambda each: (
            f"a/very/long/common/prefix-{each[0]}-{'z' * each[1]}/and/an/end/that/is/the/same.json"
        )
    ),
)
numbers = st.floats(-1000, 100_000).map("{:.2f}".format)


@st.composite
def tables(draw: st.DrawFn) -> list[Cells]:
    """Up to 8 attributes, side by side or below each other, and several judges."""
    rows = draw(st.integers(1, 12))
    place = st.integers(0, rows - 1)

    def names(name: str, least: int = 0) -> Cells:
        known = draw(st.lists(ids, min_size=rows, max_size=rows, unique=True))
        places = list(range(rows)) if least else draw(st.lists(place, min_size=rows, max_size=rows))
        return Cells(
            name, [plain(known[at], keep="") for at in places], numbers=[at + 1 for at in places]
        )

    def figures(name: str, rank: int, group: str = "") -> Cells:
        return Cells(name, draw(st.lists(numbers, min_size=rows, max_size=rows)), rank, group=group)

    if draw(st.booleans()):
        groups = [
            plain(each, keep="")
            for each in draw(st.lists(ids, min_size=1, max_size=8, unique=True))
        ]
        each = [
            (figures("score", at, group), figures("interval", 9, group))
            for at, group in enumerate(groups)
        ]
        return [names("pair", 1), *(column for pair in each for column in pair)]
    texts = [names(name) for name in ("attribute", "judge")[: draw(st.integers(0, 2))]]
    return [
        names("pair", 1),
        *texts,
        figures("score", 0),
        *(figures(f"number {at}", at) for at in range(1, 5)),
    ]


@given(tables(), st.integers(40, 250))
def test_cuts_no_number_and_keeps_ids_apart_at_any_width(columns: list[Cells], width: int) -> None:
    fitted = fit(columns, width, 2)
    assert sum(fitted.widths) + 2 * (len(fitted.widths) - 1) <= width
    assert len(fitted.columns) < len(columns) or not fitted.left_out
    for column, taken in zip(fitted.columns, fitted.widths, strict=True):
        assert column.has_words or all(cell_len(cell) <= taken for cell in column.cells)
        if column.numbers is None:
            assert any(column is each for each in columns)  # as it was, nothing cut
        else:
            assert len({_look(cell) for cell in column.cells}) == len(set(column.numbers))
    assert all(cell_len(name) <= span for name, span in fitted.groups)
    assert bool(fitted.left_out) == (width < fitted.all_columns)
    assert not fit(columns, fitted.all_columns, 2).left_out


@given(st.lists(ids, min_size=1, max_size=30, unique=True), st.integers(8, 40))
@example(["#2", "x" * 20, "#3"], 8)
@example(["a\u200b", "a"], 8)
def test_shows_what_differs_where_ids_are_cut(texts: list[str], width: int) -> None:
    shown = told_apart([plain(text, keep="") for text in texts], range(1, len(texts) + 1), width)
    assert all(cell_len(each) <= width for each in shown)
    assert len({_look(each) for each in shown}) == len(texts)


def test_wraps_lines_between_words_and_gives_a_long_command_a_line_of_its_own() -> None:
    line = "everything received is kept in runs/first; to go on: robin resume runs/first -o a-long-name.csv"
    assert wrapped(line, 40).split("\n") == [
        "everything received is kept in",
        "runs/first; to go on:",
        "  robin resume runs/first -o a-long-name.csv",
    ]
    assert wrapped(f"a\n{line}", 200) == f"a\n{line}"
    assert wrapped(f"robin: {'x' * 50} is no file", 30).split("\n") == [
        "robin:",
        "x" * 50,
        "is no file",
    ]


def test_cuts_texts_at_their_end_between_words_and_keeps_what_differs() -> None:
    assert told_apart(["a-long-id-with-a-tail", "short"], [1, 2], 12) == ["a-long-id-w…", "short"]
    questions = ["Why are there two high tides a day?", "Why is the sky blue at noon?"]
    assert told_apart(questions, [1, 2], 20) == ["Why are there two…", "Why is the sky blue…"]
    alike = [f"dataset/2026/split-{part}/responses.jsonl" for part in ("train", "test", "valid")]
    assert told_apart(alike, [1, 2, 3], 20) == [
        "datase…train/respon…",
        "datase…test/respons…",
        "datase…valid/respon…",
    ]
    assert told_apart(["猫" * 9 + "a", "猫" * 9 + "b"], [1, 2], 9) == ["猫…猫猫a", "猫…猫猫b"]
