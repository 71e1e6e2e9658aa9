"""Labels of people, read out of any table: rows or columns of attributes, and what is wrong with them, by its place."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from robin_cli.data.given_labels import GivenLabels
from robin_cli.data.labels import load_labels
from robin_cli.model.errors import InputError
from robin_cli.model.records import Scale

ONE = {"style": Scale(0, 4)}
TWO = {"style": Scale(0, 4), "stars": Scale(1, 10)}
IDS = ["p1", "p2", "p3", "=p4", "\xa0＝p5", "17"]


def read(
    path: Path, text: str, scales: dict[str, Scale] = ONE, name: str = "labels.csv"
) -> GivenLabels:
    (path / name).write_text(text, encoding="utf-8")
    return load_labels(path / name, IDS, scales)


def values(found: GivenLabels, attribute: str = "style") -> dict[str, float]:
    return {name: label.value for name, label in found.by_attribute[attribute].items()}


def test_reads_rows_and_leaves_out_those_that_nobody_has_labelled(tmp_path: Path) -> None:
    text = "pair_id,attribute,probability,label,response\np2,style,0.25,3,x\np1,style,0.25,2.5,\np3,style,0.25,,x\n"
    found = read(tmp_path, text + "17,style,0.25,NA,x\n")
    assert values(found) == {"p2": 3.0, "p1": 2.5}
    assert {label.probability for label in found.by_attribute["style"].values()} == {0.25}
    assert len(found) == 2
    assert found.by_attribute["style"]["p1"].place.endswith("labels.csv:3")


def test_matches_ids_of_files_of_scores_without_the_system_before_them(tmp_path: Path) -> None:
    ids, prefixes = ["a.csv/q1", "b.csv/q1", "b.csv/1/q2", "a.csv/q3"], ["a.csv", "b.csv"]

    def of(text: str) -> dict[str, float]:
        (path := tmp_path / "labels.csv").write_text(text, encoding="utf-8")
        return values(load_labels(path, ids, ONE, prefixes=prefixes))

    assert of("pair_id,label\nq3,1\n1/q2,2\na.csv/q1,3\n") == {
        "a.csv/q3": 1.0,
        "b.csv/1/q2": 2.0,
        "a.csv/q1": 3.0,
    }
    assert of("pair_id,system,label\nq1,b.csv,4\nq3,,0\n") == {"b.csv/q1": 4.0, "a.csv/q3": 0.0}
    with pytest.raises(InputError, match=r'csv:2: "q1" .* Write a.csv/q1 or b.csv/q1, or add a'):
        of("pair_id,label\nq1,1\n")
    with pytest.raises(InputError, match='no pair of the run is called "q2"'):
        of("pair_id,label\nq2,1\n")


@pytest.mark.parametrize(
    "name", ["labels.csv", "labels.tsv", "labels.jsonl", "labels.json", "labels.parquet"]
)
def test_reads_every_format_that_data_may_have(tmp_path: Path, name: str) -> None:
    rows = [
        {"pair_id": "p1", "label": 3},
        {"pair_id": "p2", "label": None},
        {"pair_id": "17", "label": 0},
    ]
    frame, path = pd.DataFrame(rows), tmp_path / name
    if path.suffix == ".parquet":
        frame.to_parquet(path)
    elif path.suffix in {".json", ".jsonl"}:
        lines = [json.dumps(row) for row in rows]
        path.write_text(
            "\n".join(lines) if path.suffix == ".jsonl" else f"[{','.join(lines)}]",
            encoding="utf-8",
        )
    else:
        frame.to_csv(path, index=False, sep="\t" if path.suffix == ".tsv" else ",")
    assert values(load_labels(path, IDS, ONE)) == {"p1": 3.0, "17": 0.0}


def test_reads_a_column_for_each_attribute(tmp_path: Path) -> None:
    found = read(tmp_path, "pair_id,stars,style\np1,10,\np2,,4\np3,1,0\n", TWO)
    assert values(found) == {"p2": 4.0, "p3": 0.0}
    assert values(found, "stars") == {"p1": 10.0, "p3": 1.0}
    found = read(tmp_path, "pair_id,style\np1,4\n", TWO)
    assert (values(found), values(found, "stars")) == ({"p1": 4.0}, {})


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        (
            "l.jsonl",
            '{"pair_id": "p1"}\n{"pair_id": 17, "label": "4", "probability": 1}\n',
            {"17": 4.0},
        ),  # none yet
        ("l.csv", "pair_id,label\n'=p4,3\n", {"=p4": 3.0}),  # with the apostrophe of a spreadsheet
        ("l.csv", "pair_id,label\n'\xa0＝p5,3\n", {"\xa0＝p5": 3.0}),
        ("l.csv", "pair_id,label\np1,3\np1,3.0\n", {"p1": 3.0}),  # twice the same
        ("l.csv", "pair_id,label\n", {}),
    ],
)
@pytest.mark.filterwarnings("ignore::robin_cli.model.errors.ReadAs")
def test_reads_labels_as_people_leave_them(
    tmp_path: Path, name: str, text: str, found: dict[str, float]
) -> None:
    labels = read(tmp_path, text, name=name)
    assert (values(labels) if found else dict.fromkeys(range(len(labels)))) == found


REFUSED = r"""
pair_id,label¶p1,3¶p2,five → :3: the label "five" is not a number. Write one
pair_id,label¶p1,"3,5" → :2: the label "3,5" is not a number
pair_id,label¶p1,1e999 → :2: the label "1e999" is not a number
pair_id,label¶p1,5 → :2: the label 5 is off the scale of style, 0-4. Correct it
pair_id,label¶p1,-0.5 → :2: the label -0.5 is off the scale
pair_id,label¶p1,3¶x,3¶y,1¶p2, → :3: no pair of the run is called "x" (2 of 3 labels are of
pair_id,label¶,3 → :2: the pair_id is empty
pair_id,label¶p1,3¶p2,1¶p1,2 → :4: the pair "p1" has the label 2 here, and 3 in {file}:2. Keep one of the
pair_id,label,probability¶p1,3,0.1¶p1,3,0.2 → :3: the pair "p1" has the probability 0.2 here, and 0.1 in {file}:2
pair_id,label,probability¶p1,3,0 → :2: the probability "0" is not above 0 and at most 1
pair_id,label,probability¶p1,3,1.5 → :2: the probability "1.5" is not above 0
pair_id,label,probability¶p1,3,often → :2: the probability "often" is not above 0
pair_id,label,probability¶p1,3,0.5¶p2,3, → :3: the label has no probability, and that in {file}:2 has one
pair_id,stars¶p1,3 → : no column "label", nor one called style; found pair_id, stars. Labels are rows
id,label¶p1,3 → : no column "pair_id"; found id, label. Labels are rows
pair_id,label¶p1,3,4 → :2: the row has 3 cells, the header 2. Correct the row.
pair_id,attribute,label¶p1,stile,3 → :2: the run has no attribute "stile"; did you mean "style"?
pair_id,label,rating¶p1,3,2 → : the columns "label" and "rating" both hold labels.
pair_id,label,style¶p1,3,2 → : the columns "label" and "style" both hold labels.
pair_id,label,Annotator¶p1,3,x → : the column "Annotator" would not be read. Rename
pair_id,label,Labelled At¶p1,3,x → : the column "Labelled At" would not be read. Rename
pair_id,label,label_2¶p1,3,2 → : the column "label_2" would not be read. Write a row
pair_id,rater1,rater2¶p1,3,2 → : the column "rater1" would not be read. Write a row
pair_id,style,style_bob¶p1,3,2 → : the column "style_bob" would not be read. Write
pair_id,Style¶p1,3 → : the column "Style" would not be read. Rename it to style
pair_id,preference_strength¶p1,-3 → : the column "preference_strength" would not be read. Write a row
{"Pair ID": "p1", "label": 3} → : the column "Pair ID" would not be read. Rename it to
{"pair_id": "p1", "label": [3]} → :1: the label a list is not a number
{"pair_id": "p1", "label": true} → :1: the label "True" is not a number
{"pair_id": null, "label": 3} → :1: the pair_id is null
{"label": 3} → :1: the pair_id is null
{"pair_id": "p1", "label": 3 → :1: not valid JSON
{"pair_id": "p1", "labl": 3} → : the column "labl" would not be read. Rename it to label
{"pair_id": "p1", "label": 3}¶{"pair_id": "p2", "lable": 3} → : the column "lable" would not be
{"pair_id": "\u001b[2Jx", "label": 3} → :1: no pair of the run is called "\x1b[2Jx"
"""
OF_TWO = r"""
pair_id,label¶p1,3 → : does not name the attribute of its labels. Give it a column attribute, or columns
pair_id,attribute,label¶p1,,3 → :2: does not name the attribute of its labels
pair_id,attribute,label¶p1,style,7 → :2: the label 7 is off the scale of style, 0-4
pair_id,attribute,label¶p1,stars,0 → :2: the label 0 is off the scale of stars, 1-10
pair_id,note¶p1,3 → : no column "label", nor one called style or stars; found pair_id, note
pair_id,style,starrs¶p1,3,4 → : the column "starrs" would not be read. Rename it to stars
"""
TABLES = [
    (*line.split(" → "), scales)
    for table, scales in ((REFUSED, ONE), (OF_TWO, TWO))
    for line in table.strip().splitlines()
]


@pytest.mark.parametrize(("text", "said", "scales"), [*TABLES, ("", ": the file is empty", ONE)])
def test_refuses_labels_that_cannot_be_used_and_says_where(
    tmp_path: Path, text: str, said: str, scales: dict[str, Scale]
) -> None:
    name = "labels.csv" if text.startswith(("pair_id", "id")) else "l.jsonl"
    with pytest.raises(InputError) as raised:
        read(tmp_path, text.replace("¶", "\n"), scales, name=name)
    place = str(tmp_path / name)
    assert str(raised.value).startswith(place + said.format(file=place))


def test_names_a_file_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "labels.csv").touch()
    with pytest.raises(InputError, match=r"labls\.csv: no such file\. Did you mean labels\.csv\?"):
        load_labels(tmp_path / "labls.csv", IDS, ONE)


def test_counts_the_mean_of_several_people_and_the_last_word_of_each(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    head = "pair_id,attribute,rating,labeller,labelled_at,probability,comment\n"
    path.write_text(
        f"{head}p1,style,4,ann,2026-01-01T10:00:00Z,,\np1,style,2,bob,2026-01-01T10:00:00Z,,\n"
        "p1,style,3,ann,2026-01-01T10:01:00Z,,better\n17,style,1,ann,2026-01-01T10:02:00Z,,\n17,style,,ann,2026-01-01T10:03:00Z,,\n"
    )
    assert values(load_labels(path, IDS, ONE)) == {"p1": 2.5}


def test_takes_the_best_response_of_groups_by_name(tmp_path: Path) -> None:
    path = tmp_path / "best.csv"
    path.write_text("group,best\nq1,p1\nq2,\n")
    assert [(each.group, each.pair_id) for each in load_labels(path, IDS, ONE).best] == [
        ("q1", "p1")
    ]
    path.write_text("group,best\nq1,nobody\n")
    with pytest.raises(InputError, match=r':2: no pair of the run is called "nobody"'):
        load_labels(path, IDS, ONE)


@pytest.mark.parametrize("who", ["annotator", "rater_id", "worker"])
def test_takes_a_usual_column_of_people_for_the_labellers(tmp_path: Path, who: str) -> None:
    found = read(tmp_path, f"pair_id,{who},label\np1,ann,3\np1,bob,4\n")
    assert values(found) == {"p1": 3.5}
    lines = f'{{"pair_id": "p1", "{who}": "ann", "label": 3}}\n{{"pair_id": "p2", "label": 1}}\n'
    assert values(read(tmp_path, lines, name="labels.jsonl")) == {"p1": 3.0, "p2": 1.0}
    with pytest.raises(InputError, match='the column "annotator" would not be read'):
        read(tmp_path, "pair_id,annotator,reviewer,label\np1,ann,bob,3\n")
