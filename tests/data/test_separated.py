"""CSV as programs all over the world write it: what separates it, how it is encoded, and how its numbers are written."""

from __future__ import annotations

import codecs
import warnings
from pathlib import Path

import pytest

from robin_cli.data.labels import load_labels
from robin_cli.data.pairs import load_pairs
from robin_cli.data.pools import load_pools
from robin_cli.model.errors import InputError, ReadAs
from robin_cli.model.records import Scale
from tests.conftest import has, robin
from tests.data.writing import columns_of, complaint, written

WORDS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "strokes"}
MARKS = {
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
    codecs.BOM_UTF8: "utf-8",
}
ENCODINGS = [
    *MARKS.items(),
    (b"", "utf-8"),
    (b"", "cp1252"),
    (b"", "utf-16-le"),
    (b"", "utf-16-be"),
]
NAMES = {
    "utf-8": "UTF-8",
    "cp1252": 'Windows-1252 ("Où"; --encoding names another)',
    "utf-16-le": "UTF-16",
    "utf-16-be": "UTF-16",
}


def said_of(path: Path) -> list[str]:
    """What robin says of how it reads a file, which has the two pairs below."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ReadAs)
        first, second = load_pairs(path).pairs
    assert (first.prompt, first.response, dict(first.human)) == (
        "Où?\nÀ Æ",
        "L’été, là",
        {"helpfulness": 3.5},
    )
    assert (second.prompt, second.response, dict(second.human)) == (
        "b",
        "3,5",
        {"helpfulness": 2.0},
    )
    assert columns_of(second) == {"price": "1,5"}
    return [str(each.message).replace(f"{path.parent}/", "") for each in caught]


@pytest.mark.parametrize("mark", WORDS)
@pytest.mark.parametrize(("begin", "encoding"), ENCODINGS)
@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
def test_reads_any_separator_and_encoding_and_says_what_is_not_usual(
    tmp_path: Path, mark: str, begin: bytes, encoding: str, suffix: str
) -> None:
    comma = mark != ","
    rows = [
        ["prompt", "response", "helpfulness", "price"],
        ['"Où?\nÀ Æ"', '"L’été, là"', "3,5" if comma else "3.5", ""],
    ]
    text = "\r\n".join(mark.join(row) for row in [*rows, ["b", '"3,5"', "2", '"1,5"'], []])
    path = written(tmp_path, f"pairs{suffix}", begin + text.encode(encoding))
    usual = mark == ("," if suffix == ".csv" else "\t")
    parts = [f"read as {NAMES[encoding]}", *[f"separated by {WORDS[mark]}"] * (not usual)]
    notes = [", ".join(parts)] * (parts != ["read as UTF-8"])
    notes += ["numbers have a decimal comma"] * comma
    assert said_of(path) == [f"pairs{suffix}: {'; '.join(notes)}"] * bool(notes)


def test_takes_the_first_lines_word_for_the_separator(tmp_path: Path) -> None:
    path = written(tmp_path, "pairs.csv", b"sep=^\r\nprompt^response\r\np,x;y^r\r\n^r\r\n")
    with pytest.warns(ReadAs, match=r"pairs.csv: read as UTF-8, separated by \^"):
        assert complaint(path).startswith('pairs.csv:4: field "prompt" is empty.')


AMBIGUOUS = {
    "marks": (
        b"prompt;response;helpfulness\np;r;3,5\nq;s;2.5\n",
        ':3: "2.5" has another decimal mark',
    ),
    "both": (
        "prompt,response\np,é\n".encode() + b"q,\xe9\n",
        ':3: byte 0xE9 in column "response" is not UTF-8.',
    ),
    "other": (
        b"prompt,response\np,\xe9\n" + "q,é\n".encode(),
        ':2: byte 0xE9 in column "response" is not UTF-8.',
    ),
    "unknown": (
        b"prompt,response\np,a\xb9\xacb \x81\xa9\x8dx\n",
        ": is not UTF-8, and its encoding is not recognised. Save it as UTF-8, or name its encoding, as --encoding cp1252",
    ),
    "cells": (
        b"prompt;response\np;r;s\n",
        ":2: the row has 3 cells, the header 2. Put cells that hold a semicolon",
    ),
    "torn": (
        "prompt,response\np,r\n".encode("utf-16")[:-1],
        ": begins as UTF-16, and is cut short or damaged",
    ),
    "thousands": (
        b'prompt,response,helpfulness\np,r,"1,234"\n',
        ':2: the human rating in field "helpfulness" is "1,234"',
    ),
}


@pytest.mark.parametrize("name", AMBIGUOUS)
@pytest.mark.filterwarnings("ignore::robin_cli.model.errors.ReadAs")
def test_guesses_nothing(tmp_path: Path, name: str) -> None:
    content, fact = AMBIGUOUS[name]
    assert complaint(written(tmp_path, "pairs.csv", content)).startswith(f"pairs.csv{fact}")


def test_reads_labels_and_pools_alike(tmp_path: Path) -> None:
    path = written(tmp_path, "labels.csv", "pair_id;label;comment\nä;3,5;x\n".encode("cp1252"))
    with pytest.warns(
        ReadAs,
        match=r"labels.csv: read as Windows-1252, separated by semicolons; numbers have a decimal comma",
    ):
        assert load_labels(path, {"ä"}, {"a": Scale(0, 4)}).by_attribute["a"]["ä"].value == 3.5
    path = written(tmp_path, "pool.csv", b"pair_id\trating\na\t3\na\t4,0\n")
    with pytest.warns(
        ReadAs, match=r"pool.csv: read as UTF-8, separated by tabs; numbers have a decimal comma"
    ):
        assert load_pools(path)["pool"].ratings[0].tolist() == [3, 4]


def test_says_it_where_a_user_reads_it(tmp_path: Path) -> None:
    written(tmp_path, "pairs.csv", "prompt;response\np;é\n".encode("cp1252"))
    done = robin("plan", "pairs.csv", "-a", "helpfulness", "-b", "9", cwd=tmp_path, exits=0)
    has(done.stderr, 'note: pairs.csv: read as Windows-1252 ("é"; --encoding names another)')
    other = robin(
        *("plan", "pairs.csv", "-a", "helpfulness", "-b", "9", "--encoding", "cp1251"),
        cwd=tmp_path,
        exits=0,
    )
    has(other.stderr, 'note: pairs.csv: read as Windows-1251 ("й"')


SAID = {
    "cp1250": "Zażółć gęślą jaźń, proszę",
    "cp1251": "Столица Франции? Париж",
    "koi8_r": "Столица Франции? Париж",
    "cp1252": "L’été, où? Über Größe",
    "cp1253": "Ποια είναι η πρωτεύουσα; Η Αθήνα",
    "cp1254": "Türkiye'nin başkenti neresidir? Yaşıyor",
    "cp1255": "מהי בירת צרפת? פריז",
    "cp1256": "ما هي عاصمة فرنسا؟ باريس",
    "cp874": "เมืองหลวงของฝรั่งเศส",
    "cp932": "日本の首都は？ 東京です。",
    "gb18030": "法国的首都是什么？巴黎",
    "big5": "法國的首都是什麼？巴黎",
    "cp949": "프랑스의 수도는? 파리",
    "cp1257": "Trumpas atsakymas lietuvių kalba, ačiū už klausimą",
    "euc_jp": "日本の首都は？ 東京です。",
    "iso8859_2": "Příliš žluťoučký kůň, čtyři šípy",
    "mac_greek": "Ποια είναι η πρωτεύουσα; Η Αθήνα",
    "mac_roman": "Cet été, un café frappé à Nîmes",
    "mac_cyrillic": "Моя столица? Россия, Париж",
}


@pytest.mark.parametrize("language", ["", "What is this in that language, please? The answer is "])
@pytest.mark.parametrize("encoding", SAID)
def test_recognises_the_encoding_of_a_few_words_and_quotes_one(
    tmp_path: Path, encoding: str, language: str
) -> None:
    text = f'id,prompt,response\r\n1,"{language}{SAID[encoding]}",x\r\n'
    path = written(tmp_path, "pairs.csv", text.encode(encoding))
    with pytest.warns(ReadAs, match=r'read as .* \(".+"; --encoding names another\)'):
        (pair,) = load_pairs(path).pairs
    assert pair.prompt == language + SAID[encoding]


SIGNS = {
    "times": ("cp1252", "Compute 3 × 4 ÷ 2 ± 5"),
    "money": ("cp1252", "£5 at a café"),
    "marks": ("cp1252", "Lego® § 5, 1º, ½ ©"),
    "French": ("cp1252", "Ça va\xa0? Oui\xa0! Très bien\xa0: merci."),
    "German": ("cp1252", "Das ist „schön“ – 5 µm"),
    "Serbian": ("cp1251", "То је љубав према њој и ћирилица."),
    "Mac": ("mac_roman", "£5 • 20° – café"),
    "Japanese": ("cp932", "AIとは、人工知能"),
    "Chinese": ("gb18030", "用Python写代码"),
}


@pytest.mark.parametrize("name", SIGNS)
@pytest.mark.filterwarnings("ignore::robin_cli.model.errors.ReadAs")
def test_takes_signs_for_no_letters_of_another_language(tmp_path: Path, name: str) -> None:
    encoding, text = SIGNS[name]
    path = written(tmp_path, "pairs.csv", f'prompt,response\np,"{text}"\n'.encode(encoding))
    assert load_pairs(path).pairs[0].response == text


def test_takes_no_code_page_of_dos_for_another(tmp_path: Path) -> None:
    for answer in ("Können Männer Häuser hören?", "A Müller."):
        rows = f"prompt,response\nWas?,{answer}\n".encode("cp437")
        assert "its encoding is not recognised" in complaint(written(tmp_path, "pairs.csv", rows))


@pytest.mark.parametrize("shift", ["", "x"])
def test_recognises_the_encoding_of_long_files(tmp_path: Path, shift: str) -> None:
    rows = "".join(f"{k},日本の首都は,{shift}東京です\r\n" for k in range(2_000))
    path = written(tmp_path, "pairs.csv", f"id,prompt,response\r\n{rows}".encode("shift_jis"))
    with pytest.warns(ReadAs, match="Shift-JIS"):
        assert load_pairs(path).pairs[0].prompt == "日本の首都は"


@pytest.mark.filterwarnings("ignore::robin_cli.model.errors.ReadAs")
def test_takes_the_encoding_that_is_named(tmp_path: Path) -> None:
    rows = '{"prompt": "Où?", "response": "là"}\n'
    path = written(tmp_path, "pairs.jsonl", rows.encode("cp1252"))
    assert "--encoding NAME" in complaint(path)
    assert load_pairs(path, encoding="cp1252").pairs[0].prompt == "Où?"
    path = written(tmp_path, "wide.jsonl", rows.encode("utf-16"))
    assert load_pairs(path).pairs[0].prompt == "Où?"
    for order in ("le", "be"):  # without a mark
        path = written(tmp_path, "pairs.csv", "prompt,response\n問,é\n".encode(f"utf-16-{order}"))
        assert load_pairs(path, encoding="UTF16").pairs[0].prompt == "問"
    path = written(tmp_path, "pairs.csv", b"prompt,response\np,r\n")
    assert complaint(path, encoding="utf-16").startswith("pairs.csv: no field")
    path = written(tmp_path, "pairs.csv", "prompt,response\np,\x9d\n".encode("latin-1"))
    assert complaint(path, encoding="cp1252") == (
        'pairs.csv:2: byte 0x9D in column "response" is not Windows-1252. Save the whole file as UTF-8, '
        "or name its encoding: --encoding NAME."
    )


def test_finds_the_header_below_a_title(tmp_path: Path) -> None:
    rows = b"Results of May;;\r\n;;\r\nid;prompt;response\r\n1;p;r\r\n"
    with pytest.warns(ReadAs, match="separated by semicolons; the column names are in line 3"):
        (pair,) = load_pairs(written(tmp_path, "pairs.csv", rows)).pairs
    assert (pair.pair_id, pair.prompt, pair.response) == ("1", "p", "r")


def test_takes_a_spreadsheets_errors_for_missing_and_drops_empty_columns_beside(
    tmp_path: Path,
) -> None:
    rows = b"prompt,response,helpfulness\np,r,#N/A,,\nq,s,#DIV/0!\nt,#hash,3\n"
    path = written(tmp_path, "pairs.csv", rows)
    with pytest.warns(ReadAs, match="2 spreadsheet errors such as #N/A counted as missing"):
        pairs = load_pairs(path).pairs
    assert [(pair.response, dict(pair.human)) for pair in pairs] == [
        ("r", {}),
        ("s", {}),
        ("#hash", {"helpfulness": 3}),
    ]
    path = written(tmp_path, "wrong.csv", b"prompt,response\np,#WERT!\nq,r\n")
    with pytest.warns(ReadAs):
        assert complaint(path).startswith('wrong.csv:2: field "response" is null.')


def test_leaves_the_column_names_out_that_stand_again_among_the_rows(tmp_path: Path) -> None:
    for mark in (b"", codecs.BOM_UTF8):  # two files of Excel, joined
        rows = mark + b"prompt,response\np,r\n" + mark + b"prompt,response\nq,s\n"
        path = written(tmp_path, "pairs.csv", rows)
        with pytest.warns(ReadAs, match="1 row with the column names again left out"):
            assert [pair.prompt for pair in load_pairs(path).pairs] == ["p", "q"]
    line = codecs.BOM_UTF8 + b'{"prompt": "p", "response": "r"}\n'
    path = written(tmp_path, "pairs.jsonl", line + line.replace(b'p",', b'q",'))
    assert [pair.prompt for pair in load_pairs(path).pairs] == ["p", "q"]


def test_reads_quotes_of_tsv_that_do_not_pair_up_as_they_are(tmp_path: Path) -> None:
    path = written(tmp_path, "pairs.tsv", b'prompt\tresponse\n"Hi\tb\nc\t5" pipe\n')
    with pytest.warns(ReadAs, match="quotes are read as they are"):
        assert [pair.prompt for pair in load_pairs(path).pairs] == ['"Hi', "c"]
    path = written(tmp_path, "broken.tsv", b'prompt\tresponse\n"a ""b"""\tc\n"d\te\n')
    assert complaint(path).startswith("broken.tsv:3: a quote opened in this row is never closed")
    rows = b'prompt\tresponse\n"a\tb"\t"c ""d"""\n'
    assert load_pairs(written(tmp_path, "quoted.tsv", rows)).pairs[0].response == 'c "d"'


def test_reads_spaces_after_separators_as_no_part_of_cells(tmp_path: Path) -> None:
    path = written(tmp_path, "pairs.csv", b'prompt, response\np, "a, b"\n q, s\n')
    pairs = load_pairs(path).pairs
    assert [(pair.prompt, pair.response) for pair in pairs] == [("p", "a, b"), ("q", "s")]
    path = written(tmp_path, "plain.csv", b"prompt,response\np, r\n")
    assert load_pairs(path).pairs[0].response == " r"


def test_keeps_utf_8_with_few_wrong_bytes(tmp_path: Path) -> None:
    path = written(
        tmp_path, "pairs.csv", b"prompt,response\np,r\n" + "été là é".encode() + b"\xe9,s\n"
    )
    assert complaint(path).startswith('pairs.csv:3: byte 0xE9 in column "prompt" is not UTF-8')


def test_advises_no_flag_that_a_command_lacks(tmp_path: Path) -> None:
    path = written(tmp_path, "labels.csv", b"pair_id,label,comment\na,1,a\xb9\xacb \x81\xa9\x8dx\n")
    with pytest.raises(InputError, match=r"is not recognised. Save it as UTF-8$"):
        load_labels(path, {"a"}, {"a": Scale(0, 4)})
