"""What is compared with what: out of rows of two responses, and of one."""

from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robin_cli.data import comparisons
from robin_cli.data.comparisons import load_comparisons
from robin_cli.data.pairs import Dataset
from robin_cli.model.errors import InputError
from robin_cli.model.records import SYSTEM_COLUMNS
from tests.conftest import refuses
from tests.data.writing import columns_of
from tests.data.writing import written as put

Row = dict[str, Any]


def systems(found: Dataset) -> list[tuple[object, ...]]:
    return [tuple(pair.columns.get(name) for name in SYSTEM_COLUMNS) for pair in found.pairs]


def written(tmp_path: Path, rows: list[Row], name: str = "data.jsonl") -> Path:
    return put(tmp_path, name, rows)


def loaded(tmp_path: Path, rows: list[Row], **how: Any) -> Dataset:
    return load_comparisons(written(tmp_path, rows), **how)


def responses(*systems: str, prompts: int = 1) -> list[Row]:
    return [
        {"prompt": f"q{number}", "response": f"{system} on {number}", "system": system}
        for system in systems
        for number in range(prompts)
    ]


TWO: Row = {
    "prompt": "q",
    "response_a": "one",
    "response_b": "two",
    "system_a": "x",
    "system_b": "y",
}


# rows of two responses


def test_takes_rows_of_two_responses_as_they_are(tmp_path: Path) -> None:
    (pair,) = loaded(tmp_path, [{**TWO, "id": "k", "topic": "maths", "helpfulness": 3}]).pairs

    assert (pair.pair_id, pair.prompt, pair.response, pair.other) == ("k", "q", "one", "two")
    assert columns_of(pair) == {
        "system_a": "x",
        "system_b": "y",
        "topic": "maths",
        "helpfulness": 3,
    }
    assert pair.human == {}


def test_knows_a_repeated_row_again_if_systems_are_numbers_in_some_rows_and_names_in_others(
    tmp_path: Path,
) -> None:
    numbered = {**TWO, "system_a": 3}
    for between in (1, 5000):  # rows that are read together, and rows that are not
        others = [{**TWO, "prompt": f"q{at}"} for at in range(between)]
        assert loaded(tmp_path, [numbered, *others, numbered]).repeated == 1


def test_takes_a_file_that_only_repeats_another(tmp_path: Path) -> None:
    first, second = (tmp_path / f"{name}.jsonl" for name in "ab")
    for path in (first, second):
        path.write_bytes(orjson.dumps(TWO) + b"\n")
    data = load_comparisons([first, second])
    assert (len(data.pairs), data.repeated) == (1, 1)


def test_takes_two_responses_under_the_names_that_columns_says(tmp_path: Path) -> None:
    row = {
        "question": "q",
        "chosen": "one",
        "rejected": "two",
        "model": {"a": "x"},
        "b": "y",
        "uid": 7,
    }
    names = (
        "prompt=question,response_a=chosen,response_b=rejected,system_a=model.a,system_b=b,id=uid"
    )
    (pair,) = loaded(
        tmp_path, [row], columns=dict(each.split("=") for each in names.split(","))
    ).pairs

    assert (pair.pair_id, pair.response, pair.other) == ("7", "one", "two")
    assert columns_of(pair) == {"system_a": "x", "system_b": "y"}


def test_takes_conversations_that_end_in_two_answers(tmp_path: Path) -> None:
    def chat(answer: str, asked: str = "Hi.") -> list[dict[str, str]]:
        return [{"role": "user", "content": asked}, {"role": "assistant", "content": answer}]

    columns = {"response_a": "chosen", "response_b": "rejected"}
    (pair,) = loaded(
        tmp_path, [{"chosen": chat("one"), "rejected": chat("two")}], columns=columns
    ).pairs
    assert (pair.prompt, pair.response, pair.other) == ("Hi.", "one", "two")

    with pytest.raises(
        InputError,
        match=r'1: field "chosen" and field "rejected" are conversations that differ before',
    ):
        loaded(tmp_path, [{"chosen": chat("one"), "rejected": chat("two", "Ho.")}], columns=columns)


def test_makes_an_id_that_hangs_on_the_texts_and_the_systems_and_not_on_the_sides(
    tmp_path: Path,
) -> None:
    turned = {**TWO, "response_a": "two", "response_b": "one", "system_a": "y", "system_b": "x"}
    one, other, third = (
        loaded(tmp_path, [row]).pairs[0].pair_id for row in (TWO, turned, {**TWO, "system_a": "z"})
    )

    assert one == other != third
    found = loaded(tmp_path, [TWO, turned, {**TWO, "system_a": "z"}, {**TWO, "prompt": "r"}])
    assert len(found.pairs) == 3
    assert any("1 row left out: the same as an earlier one" in note for note in found.notes)


BAD = r"""
{"prompt": "q", "response_a": "one"} → data.jsonl:1: no field "response_b"; found prompt, response_a\.
{"prompt": "q", "response_a": "one", "response_b": null} → field "response_b" is null
{"prompt": "q", "response_a": 3, "response_b": "two"} → field "response_a" is a number
{"prompt": " ", "response_a": "one", "response_b": "two"} → field "prompt" is empty
{"prompt": "q", "response_a": "one", "response_b": "\ud800"} → surrogate
{"prompt": "q", "response_a": "one", "response_b": []} → field "response_b" is a list, not text
{"response_a": "one", "response_b": "two"} → no field "prompt"
"""


@pytest.mark.parametrize(("row", "said"), [line.split(" → ") for line in BAD.strip().splitlines()])
def test_says_what_is_wrong_with_a_row_of_two(tmp_path: Path, row: str, said: str) -> None:
    refuses(InputError, said, loaded, tmp_path, [json.loads(row)])
    found = loaded(tmp_path, [TWO, json.loads(row)], skip_bad_rows=True)
    assert (len(found.pairs), found.skipped) == (1, 1)


CHOSEN = {"prompt": "q", "chosen": "one", "rejected": "two"}
HALF = {"prompt": "r", "response_a": "one", "response_b": "two", "system_a": "x"}
FOR_TWO = r"--columns .*is for rows that hold two responses"
# rows, the columns that are named, and what is said
REFUSED: list[tuple[list[Row], dict[str, str], str]] = [
    ([TWO], {"promt": "question"}, 'no field "question"'),
    ([CHOSEN], {"response_a": "chosen"}, "--columns response_b=rejected"),
    (
        [TWO, HALF],
        {},
        r"1 of 2 rows do not name the systems of both responses, the first is .*; give",
    ),
    ([TWO], {"response_a": "x", "response": "y"}, FOR_TWO),
    ([TWO], {"system_b": "x", "system": "y"}, FOR_TWO),
    ([TWO], {"response_b": "x", "system": "y"}, FOR_TWO),
    (
        [*responses("x", "y"), {"prompt": "q0", "response": "?", "id": "k"}],
        {},
        r'1 of 3 rows do not name the system that answered, the first is k; give them a "system"',
    ),
    (
        [{"prompt": each, "response": each, "system": each} for each in "xy"],
        {},
        r"nothing to compare: 2 prompts left out: one response only\. A comparison needs two",
    ),
]


@pytest.mark.parametrize(("rows", "columns", "said"), REFUSED)
def test_says_what_keeps_rows_from_being_compared(
    tmp_path: Path, rows: list[Row], columns: dict[str, str], said: str
) -> None:
    refuses(InputError, said, loaded, tmp_path, rows, columns=columns)


def test_takes_rows_that_do_not_say_whose_the_two_responses_are(tmp_path: Path) -> None:
    assert systems(loaded(tmp_path, [{**TWO, "system_a": None, "system_b": None}])) == [
        (None, None)
    ]


def test_refuses_rows_of_one_and_of_two_responses_together(tmp_path: Path) -> None:
    one = written(tmp_path, [TWO], "two.jsonl")
    other = written(tmp_path, responses("x", "y"), "one.jsonl")
    refuses(
        InputError,
        r"1 of 3 rows hold two responses.*make a run of each",
        load_comparisons,
        [one, other],
    )


@pytest.mark.parametrize(
    ("more", "path", "share"),
    [
        ({"winner": "model_b"}, "winner", 0.0),
        ({"winner": "tie (bothbad)"}, "winner", 0.5),
        ({"winner": "both_bad"}, "winner", 0.5),
        ({"label": "A>B"}, "label", 1.0),
        ({"better_response_id": 0}, "better_response_id", 1.0),
        ({"safer_response_id": "1"}, "safer_response_id", 0.0),
        ({"winner_model_a": 0, "winner_tie": 1}, "winner_model_a", 0.5),
        ({"winner_model_a": "1", "winner_tie": "0"}, "winner_model_a", 1.0),
        ({"choice": 0, "summaries": []}, "choice", 1.0),
        ({"choice": 1, "summaries": []}, "choice", 0.0),
    ],
)
def test_reads_the_verdicts_of_other_data_sets(
    tmp_path: Path, more: Row, path: str, share: float
) -> None:
    (pair,) = loaded(tmp_path, [{**TWO, **more}], columns={"preference": path}).pairs
    assert pair.human == {"preference": share}


def test_counts_the_mean_of_several_verdicts_on_a_comparison_in_either_order(
    tmp_path: Path,
) -> None:
    swapped = {**TWO, "response_a": TWO["response_b"], "response_b": TWO["response_a"]}
    swapped |= {"system_a": TWO["system_b"], "system_b": TWO["system_a"]}
    rows = [{**TWO, "v": "A"}, {**TWO, "v": "B"}, {**swapped, "v": "B"}, {**TWO, "v": None}]
    found = loaded(tmp_path, rows, columns={"preference": "v"})
    assert [pair.human for pair in found.pairs] == [{"preference": pytest.approx(2 / 3)}]
    assert (found.merged, found.repeated) == (2, 1)


# rows of one response


def test_compares_every_two_responses_to_a_prompt(tmp_path: Path) -> None:
    found = loaded(
        tmp_path,
        [
            *responses("x", "y", "z", prompts=2),
            {"prompt": "q9", "response": "alone", "system": "x"},
        ],
    )

    assert sorted(
        (pair.prompt, *sorted(map(str, of)))
        for pair, of in zip(found.pairs, systems(found), strict=True)
    ) == [(prompt, *two) for prompt in ("q0", "q1") for two in (("x", "y"), ("x", "z"), ("y", "z"))]
    assert all(str(pair.columns["system_a"]) in pair.response for pair in found.pairs)
    assert all(str(pair.columns["system_b"]) in (pair.other or "") for pair in found.pairs)
    assert len({pair.pair_id for pair in found.pairs}) == 6
    assert found.notes == (f"{found.source}: 1 prompt left out: one response only",)


def test_draws_the_sides_so_that_no_system_is_always_a_and_no_order_of_rows_matters(
    tmp_path: Path,
) -> None:
    rows = responses("x", "y", prompts=200)
    found = loaded(tmp_path, rows)
    again = loaded(tmp_path, rows[::-1])

    firsts = sum(a == "x" for a, _ in systems(found))
    assert 70 < firsts < 130
    assert {(pair.pair_id, pair.response) for pair in found.pairs} == {
        (pair.pair_id, pair.response) for pair in again.pairs
    }


def test_keeps_of_two_rows_what_they_say_alike(tmp_path: Path) -> None:
    rows = responses("x", "y")
    rows[0] |= {"topic": "maths", "tokens": 3, "level": 1, "reference": "gold"}
    rows[1] |= {"topic": "maths", "tokens": 4, "level": True, "reference": "gold"}
    (pair,) = loaded(tmp_path, rows).pairs

    assert pair.reference == "gold"
    assert {name: value for name, value in pair.columns.items() if name not in SYSTEM_COLUMNS} == {
        "topic": "maths"
    }


def test_makes_ids_of_the_rows_ids_that_no_other_has(tmp_path: Path) -> None:
    texts = {"a": "1", "b~c": "2", "a~b": "3", "c": "4"}
    rows = [
        {"prompt": "q", "id": key, "response": text, "system": key} for key, text in texts.items()
    ]
    found = loaded(tmp_path, rows)
    assert len({pair.pair_id for pair in found.pairs}) == 6
    assert any(pair.pair_id in ("a~c", "c~a") for pair in found.pairs)


def test_leaves_the_same_response_out_and_counts_it(tmp_path: Path) -> None:
    rows = [*responses("x", "y", "z"), {"prompt": "q0", "response": " x on 0\n", "system": "copy"}]
    found = loaded(tmp_path, rows)

    assert len(found.pairs) == 5
    assert "1 comparison left out: the two responses are the same" in found.notes[0]


def test_compares_no_system_with_itself_unless_the_best_response_is_wanted(tmp_path: Path) -> None:
    rows = [*responses("x", "y"), {"prompt": "q0", "response": "again", "system": "x"}]

    found = loaded(tmp_path, rows)
    assert len(found.pairs) == 2
    assert "1 comparison left out: both responses are of the same system" in found.notes[0]
    assert len(loaded(tmp_path, rows, wants_best=True).pairs) == 3


def test_needs_no_system_where_the_best_response_is_wanted(tmp_path: Path) -> None:
    rows = [
        {"prompt": "q", "response": each, "topic": 1} for each in ("one", "two", "three", "two")
    ]

    refuses(
        InputError,
        r"\(there are: topic\).*--columns system=NAME; .*--decide best",
        loaded,
        tmp_path,
        rows,
    )
    found = loaded(tmp_path, rows, wants_best=True)
    assert len(found.pairs) == 3
    assert "1 row left out: the same as an earlier one" in found.notes[0]


def test_asks_once_about_the_same_two_responses_where_the_best_is_wanted(tmp_path: Path) -> None:
    rows = [
        {"prompt": "q", "response": text, "system": system}
        for system, text in (("x", "one"), ("y", "one"), ("z", "two"))
    ]
    assert len(loaded(tmp_path, rows, wants_best=True).pairs) == 1
    assert len(loaded(tmp_path, rows).pairs) == 2


def test_takes_the_first_prompts_that_there_is_something_to_compare_of(tmp_path: Path) -> None:
    rows = [
        {"prompt": "alone", "response": "x", "system": "x"},
        *responses("x", "y", "z", prompts=5),
    ]
    found = loaded(tmp_path, rows, limit=2)

    assert {pair.prompt for pair in found.pairs} == {"q0", "q1"}
    assert len(found.pairs) == 6
    refuses(InputError, "--limit 0", loaded, tmp_path, rows, limit=0)


def test_refuses_more_comparisons_than_can_be_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparisons, "MOST_COMPARISONS", 5)
    rows = responses("x", "y", "z", prompts=2)
    refuses(
        InputError, r"make 6 comparisons; at most 5 are possible.*--limit", loaded, tmp_path, rows
    )
    assert len(loaded(tmp_path, rows, limit=1).pairs) == 3


@pytest.mark.parametrize("many", [2000, 2001])
def test_refuses_more_systems_than_are_ranked(tmp_path: Path, many: int) -> None:
    rows = [
        {**TWO, "prompt": f"q{at}", "system_a": f"s{at}", "system_b": f"s{at + 1}"}
        for at in range(many - 1)
    ]
    if many > 2000:
        said = r"data.jsonl: has 2,001 systems; at most 2,000 can be ranked"
        refuses(InputError, said, loaded, tmp_path, rows)
    assert len(loaded(tmp_path, rows, wants_best=many > 2000).pairs) == many - 1


def test_names_the_systems_that_no_comparison_connects(tmp_path: Path) -> None:
    apart = [{**row, "prompt": f"other {row['prompt']}"} for row in responses("u", "v")]
    rows = [*responses("x", "y"), *apart]
    said = r"its 4 systems fall into 2 parts that no comparison connects: .*\|.*make a run of each"
    refuses(InputError, said, loaded, tmp_path, rows)
    assert loaded(tmp_path, rows, wants_best=True).pairs


def test_says_which_systems_are_in_no_comparison(tmp_path: Path) -> None:
    found = loaded(
        tmp_path, [*responses("x", "y"), {"prompt": "alone", "response": "r", "system": "w"}]
    )
    assert found.notes[-1].endswith("in no comparison, and not ranked: w")


# whatever comes


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.text(max_size=4),
    st.lists(st.text(max_size=2), max_size=2),
)
KEYS = st.sampled_from(
    ["prompt", "response", "response_a", "response_b", "system", "system_a", "system_b", "id", "x"]
)


@given(
    st.lists(st.dictionaries(KEYS, VALUES, max_size=9), min_size=1, max_size=6),
    st.booleans(),
    st.booleans(),
)
def test_makes_comparisons_or_an_error_of_any_rows(
    rows: list[Row], skip: bool, wants_best: bool
) -> None:
    data = BytesIO("\n".join(json.dumps(row) for row in rows).encode())
    try:
        found = load_comparisons(data, called="rows", skip_bad_rows=skip, wants_best=wants_best)
    except InputError:
        return
    assert len({pair.pair_id for pair in found.pairs}) == len(found.pairs) > 0
    for pair in found.pairs:
        assert pair.other is not None
        assert pair.response.strip() != pair.other.strip()
        assert pair.prompt.strip()
        assert not pair.human
