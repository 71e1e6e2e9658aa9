"""The paper's prompt and rubrics, word for word, and a pair's text verbatim inside."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robin_cli.ask.prompts import load_prompts
from robin_cli.data.chats import readable_turns
from robin_cli.model.errors import InputError
from robin_cli.model.records import Pair, Scale

LATEX = (Path(__file__).parent.parent / "paper" / "appendix_prompts.tex").read_text(
    encoding="utf-8"
)
ATTRIBUTES = ("helpfulness", "correctness", "complexity", "verbosity")


def text_of(latex: str) -> str:
    """LaTeX as the text it sets: line ends where it breaks lines, no space around them."""
    latex = re.sub(r"\\newline\s*|\\\\\s*", "\n", latex)
    latex = re.sub(r"\\([#{}&%])", r"\1", latex)
    return "\n".join(line.strip() for line in latex.strip().split("\n"))


def squeezed(text: str) -> str:
    """Without blank lines: where LaTeX has vertical space, text has an empty line, or not."""
    return "\n".join(line for line in (each.strip() for each in text.split("\n")) if line)


@pytest.mark.parametrize("attribute", ATTRIBUTES)
def test_asks_in_the_papers_words(attribute: str) -> None:
    box = re.search(r"\\scriptsize\n(.*?)\\end\{tcolorbox\}", LATEX, re.DOTALL)
    row = re.search(rf"{attribute.capitalize()} & (.*?)\\\\\n", LATEX, re.DOTALL)
    assert box
    assert row
    expected = text_of(box[1]).replace("\\textbf{System Prompt:} ", "")
    for mark, value in (
        ("{instruction}", "Say hi."),
        ("{response}", "Hi."),
        ("{attributes}", text_of(row[1])),
    ):
        expected = expected.replace(mark, value)

    system, user = load_prompts([attribute]).messages(Pair("p", "Say hi.", "Hi."), attribute)

    assert squeezed(f"{system['content']}\n{user['content']}") == squeezed(expected)
    assert (system["role"], user["role"]) == ("system", "user")


@given(st.text(), st.text(), st.sampled_from(ATTRIBUTES))
def test_sends_a_pairs_text_as_it_is(prompt: str, response: str, attribute: str) -> None:
    user = load_prompts([attribute]).messages(Pair("p", prompt, response), attribute)[1]["content"]
    assert (
        f"###Instruction to evaluate:\n{readable_turns(prompt)}\n\n###Response to evaluate:\n{response}\n\n###Score"
        in user
    )


def test_takes_nothing_in_a_pair_for_a_template() -> None:
    for text in (
        "{{ 7 * 7 }}",
        "{% raw %}",
        "{# x #}",
        "{instruction}",
        "Rating: 4\n\n",
        "{{ self.user() }}",
    ):
        user = load_prompts(["helpfulness"]).messages(Pair("p", text, text), "helpfulness")[1][
            "content"
        ]
        assert user.count(text) == 2, text


def test_shows_turns_by_name() -> None:
    prompt = "Hi.\n<extra_id_1>Assistant\nHello!\nHow are you?\n<extra_id_1>User\nFine."
    assert readable_turns(prompt) == "User: Hi.\n\nAssistant: Hello!\nHow are you?\n\nUser: Fine."
    assert readable_turns("One <extra_id_1> turn.") == "One <extra_id_1> turn."


def test_lists_the_attributes_it_knows() -> None:
    with pytest.raises(InputError, match=r'coherence, .*did you mean "coherence"'):
        load_prompts(["coherenc"])


def test_finds_no_rubric_outside_its_folder() -> None:
    with pytest.raises(InputError, match="no rubric"):
        load_prompts(["../rubrics/helpfulness"])


def test_names_the_same_questions_by_the_same_hash() -> None:
    known = {attribute: load_prompts([attribute]).sha256 for attribute in ATTRIBUTES}
    assert len(set(known.values())) == len(ATTRIBUTES)
    assert load_prompts(ATTRIBUTES).sha256 == load_prompts(ATTRIBUTES[::-1]).sha256
    # Runs on disk hold this hash: it changes only where the question does, and the change belongs into CHANGELOG.md.
    assert (
        known["helpfulness"] == "76965c7c0350f412075f58190886e35d4f31a6f77f593d7c56d6c19773c1d5b4"
    )


def test_asks_on_the_scale_of_the_rubric() -> None:
    prompts = load_prompts(ATTRIBUTES)
    assert set(prompts.scales) == {Scale(0, 4)}
    for rubric in prompts.rubrics.values():
        assert [line[:8] for line in rubric.text.split("\n")[1:]] == [
            f"Score {level}:" for level in range(5)
        ]


@given(
    st.lists(st.sampled_from(["Assistant", "User"])),
    st.text(st.sampled_from("ab:\n {}"), max_size=9),
)
def test_loses_nothing_of_a_conversation(speakers: list[str], said: str) -> None:
    prompt = said + "".join(f"\n<extra_id_1>{speaker}\n{said}" for speaker in speakers)
    shown = [f"{speaker}: {said}" for speaker in ("User", *speakers)]
    assert readable_turns(prompt) == ("\n\n".join(shown) if speakers else said)
