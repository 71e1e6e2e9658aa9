"""Rubrics and templates of a user's own: what they may be, and what is said of those that are wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robin_cli.ask.prompts import PromptSet, load_prompts, prompt_source
from robin_cli.ask.rubrics import known_attributes, read_rubric, rubric_of
from robin_cli.ask.templates import known_templates
from robin_cli.data.pair_table import PairTable
from robin_cli.model.errors import InputError
from robin_cli.model.records import Pair, Scale

TONE = """\
attribute = "tone"
title = "Tone"
scale = [1, 3]

[levels]
1 = "Rude."
2 = "Neutral."
3 = "Kind."
"""


def written(folder: Path, text: str, name: str = "tone.toml") -> str:
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder / name)


def test_asks_by_a_rubric_of_the_users_own(tmp_path: Path) -> None:
    prompts = load_prompts((), [written(tmp_path, TONE)])

    user = prompts.messages(Pair("p", "Say hi.", "Hi."), "tone")[1]["content"]

    assert (prompts.attributes, prompts.scales) == (("tone",), (Scale(1, 3),))
    assert "Tone:\nScore 1: Rude.\nScore 2: Neutral.\nScore 3: Kind.\n" in user
    assert "an integer between 1 and 3" in user


def test_reads_yaml_as_toml(tmp_path: Path) -> None:
    yaml = "attribute: tone\ntitle: Tone\nscale: [1, 3]\nlevels:\n  1: Rude.\n  2: Neutral.\n  3: Kind.\n"

    assert read_rubric(Path(written(tmp_path, yaml, "tone.yaml"))) == read_rubric(
        Path(written(tmp_path, TONE))
    )


def test_a_wide_scale_has_ranges_for_levels(tmp_path: Path) -> None:
    wide = 'attribute = "tone"\nscale = [0, 100]\n[levels]\n"0-49" = "Bad."\n50 = "Fair."\n"51-100" = "Good."\n'

    rubric = read_rubric(Path(written(tmp_path, wide)))

    assert rubric.text == "Tone:\nScore 0-49: Bad.\nScore 50: Fair.\nScore 51-100: Good."
    assert rubric.scale.levels == 101


@pytest.mark.parametrize("name", ["tone.toml", "tone.yaml"])
def test_takes_a_scale_of_which_only_some_ratings_have_words(tmp_path: Path, name: str) -> None:
    toml = 'attribute = "tone"\nscale = [1, 10]\n[levels]\n1 = "Rude."\n"6-8" = "Polite."\n10 = "Kind."\n'
    yaml = "attribute: tone\nscale: [1, 10]\nlevels:\n  1: Rude.\n  6-8: Polite.\n  10: Kind.\n"

    prompts = load_prompts((), [written(tmp_path, toml if name.endswith("toml") else yaml, name)])

    user = prompts.messages(Pair("p", "Say hi.", "Hi."), "tone")[1]["content"]
    assert (
        "Tone:\nScore 1: Rude.\nScore 2 to 5: Between what stands at score 1 and what stands at score 6-8.\n"
        "Score 6-8: Polite.\nScore 9: Between what stands at score 6-8 and what stands at score 10.\nScore 10: Kind.\n"
    ) in user
    assert PromptSet.from_record(prompts.record).sha256 == prompts.sha256


def test_shows_examples_to_the_judge(tmp_path: Path) -> None:
    example = '[[examples]]\nresponse = "Go away."\nfeedback = "Rude indeed."\nrating = 1\n'

    prompts = load_prompts((), [written(tmp_path, TONE + example)])
    plain = load_prompts((), [written(tmp_path, TONE)])

    user = prompts.messages(Pair("p", "Say hi.", "Hi."), "tone")[1]["content"]
    assert (
        "Score 3: Kind.\n\nExample:\nResponse: Go away.\nFeedback: Rude indeed.\nRating: 1\n\n###Output:"
        in user
    )
    assert prompts.sha256 != plain.sha256


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("3 = ", "4 = ", ':8: level "4": not on the scale 1-3'),
        (
            '1 = "Rude."\n',
            "",
            ":5: the scale is 1-3, and level 1 has no text; the lowest and the highest need one",
        ),
        (
            '3 = "Kind."',
            "",
            ":5: the scale is 1-3, and level 3 has no text; the lowest and the highest need one",
        ),
        (
            "[1, 3]",
            "[1, 0x" + "f" * 9000 + "]",
            "a number in it is too long; ratings are small whole numbers",
        ),
        ("3 = ", '"2-3" = ', ':8: level "2-3": 2 has a text already'),
        ("2 = ", "two = ", ':7: level "two": write a rating'),
        ('"Rude."', "0", ':6: level "1": write a rating'),
        ("title", "titel", ':2: unknown key "titel"; did you mean "title"?'),
        ("[1, 3]", "[3, 1]", ":3: scale must be two whole numbers"),
        ("[1, 3]", "[1, 500]", ":3: scale 1-500: has 500 ratings; 101 are the most"),
        ('attribute = "tone"', 'attribute = "a,b"', ':1: attribute "a,b": letters'),
        ('attribute = "tone"', "", 'there is no "attribute"'),
        ("[levels]", "[levels", "cannot be read: "),
        ("[levels]\n", "", "unknown key"),
    ],
)
def test_says_what_is_wrong_with_a_rubric_and_on_which_line(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    path = written(tmp_path, TONE.replace(old, new))

    with pytest.raises(InputError) as refused:
        load_prompts((), [path])

    assert str(refused.value).startswith(f"--rubric {path}")
    assert said in str(refused.value)


def test_says_what_is_wrong_with_an_example(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=":12: the rating 5 of an example is not on the scale 1-3"):
        load_prompts(
            (),
            [
                written(
                    tmp_path, TONE + '[[examples]]\nresponse = "x"\nfeedback = "y"\nrating = 5\n'
                )
            ],
        )


@given(st.binary(max_size=300), st.sampled_from([".toml", ".yaml"]))
def test_any_file_is_a_rubric_or_an_error(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, suffix: str
) -> None:
    path = tmp_path_factory.mktemp("any") / f"r{suffix}"
    path.write_bytes(content)

    with pytest.raises(InputError, match="--rubric"):
        read_rubric(path)


def test_attributes_have_scales_of_their_own(tmp_path: Path) -> None:
    prompts = load_prompts(["tone", "helpfulness"], [written(tmp_path, TONE)])

    assert prompts.scales == (Scale(1, 3), Scale(0, 4))
    assert PromptSet.from_record(prompts.record).scales == prompts.scales


def test_an_own_rubric_takes_the_place_of_a_ready_one(tmp_path: Path) -> None:
    mine = TONE.replace('"tone"', '"helpfulness"')

    assert load_prompts(["helpfulness"], [written(tmp_path, mine)]).scales == (Scale(1, 3),)
    with pytest.raises(
        InputError, match='there is one for "helpfulness", and --attribute asks for verbosity'
    ):
        load_prompts(["verbosity"], [written(tmp_path, mine)])


def test_a_template_of_the_users_own(tmp_path: Path) -> None:
    template = written(
        tmp_path,
        "{% block user %}{{ title }}? {{ response }} ({{ low }}-{{ high }}){% endblock %}",
        "t.jinja",
    )

    (message,) = load_prompts(["helpfulness"], template=template).messages(
        Pair("p", "q", "{{ low }}"), "helpfulness"
    )

    assert message == {"role": "user", "content": "Helpfulness? {{ low }} (0-4)"}


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("{% block system %}x{% endblock %}", "has no block user"),
        (
            "\n{% block user %}{{ responce }}{% endblock %}",
            'line 2: there is no value "responce"; .*"response"',
        ),
        ("{% block user %}\n{% if %}{% endblock %}", "line 2: "),
        (
            "{% block user %}{{ response.__class__.__mro__ }}{% endblock %}",
            "cannot be rendered .*unsafe",
        ),
        ("{% block user %}{{ response }}{{ 1 // 0 }}{% endblock %}", "cannot be rendered"),
        ("{% block user %}{{ response + 1 }}{% endblock %}", "cannot be rendered"),
        (
            "{% block user %}{{ response }}{% include 'x' %}{% endblock %}",
            "cannot be rendered .*no loader",
        ),
    ],
)
def test_says_what_is_wrong_with_a_template(tmp_path: Path, template: str, said: str) -> None:
    with pytest.raises(InputError, match=f"--template.*{said}"):
        load_prompts(["helpfulness"], template=written(tmp_path, template, "t.jinja")).messages(
            Pair("p", "q", "r"), "helpfulness"
        )


def test_compares_with_a_reference_answer() -> None:
    prompts = load_prompts(["correctness"], template="with-reference")

    assert prompts.wants_reference
    assert (
        "###Reference answer:\nParis.\n"
        in prompts.messages(Pair("p", "q", "r", reference="Paris."), "correctness")[1]["content"]
    )
    with pytest.raises(
        InputError, match=r'1 of 2 pairs have none, the first "b"; .*--columns reference=NAME'
    ):
        prompts.check_references([Pair("a", "q", "r", reference="x"), Pair("b", "q", "r")])


def test_the_rubric_comes_first_in_the_same_words_where_a_cache_is_to_find_it() -> None:
    pair = Pair("p", "Alpha", "one")
    usual, first = (load_prompts(["helpfulness"], template=name) for name in (None, "rubric-first"))
    asked, early = (each.messages(pair, "helpfulness")[1]["content"] for each in (usual, first))
    rubric = usual.rubrics["helpfulness"].text
    assert sorted(asked.splitlines()) == sorted(early.splitlines())
    assert asked.index(rubric) > asked.index("Alpha")
    assert early.index(rubric) < early.index("Alpha")


def test_names_the_ready_templates() -> None:
    with pytest.raises(
        InputError,
        match="ready ones, by name, are absolute-judge, criteria, rubric-first, with-reference; "
        'did you mean "with-reference"',
    ):
        load_prompts(["correctness"], template="with-refrence")


def test_compares_with_the_human_ratings_that_a_rubric_names() -> None:
    prompts = load_prompts(["summary-coherence"])

    (pair,) = PairTable.from_pairs([Pair("p", "q", "r", {"coherence": 6.0})]).with_ratings(
        prompts.renamed_ratings
    )

    assert pair.human == {"coherence": 6.0, "summary-coherence": 6.0}


def test_a_run_keeps_its_prompts() -> None:
    for template in set(known_templates(pairwise=False)) - {"decisions"}:
        for attribute in known_attributes():
            prompts = load_prompts([attribute], template=template, answers=["json"])

            again = PromptSet.from_record(prompts.record)

            pair = Pair("p", "q", "r", reference="s")
            assert again.sha256 == prompts.sha256, (template, attribute)
            assert again.messages(pair, attribute) == prompts.messages(pair, attribute), (
                template,
                attribute,
            )


@pytest.mark.parametrize("attribute", known_attributes())
def test_every_ready_rubric_can_be_copied(tmp_path: Path, attribute: str) -> None:
    copied = read_rubric(Path(written(tmp_path, prompt_source(attribute), "copy.toml")))

    assert copied == rubric_of(attribute)
    assert copied.attribute == attribute
    assert len(copied.levels) == copied.scale.levels
