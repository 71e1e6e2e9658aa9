"""What a judge is asked where two responses are compared."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robin_cli.ask.prompts import PromptSet, load_prompts
from robin_cli.ask.rubrics import known_attributes, rubric_of
from robin_cli.ask.verdicts import ORDERS, PREFERENCE, VERDICT
from robin_cli.model.errors import InputError
from robin_cli.model.records import Pair, Scale

PAIR = Pair("p", "Say hi.", "Hi from A.", other="Hello from B.", reference="Hi.")


def asked(prompts: PromptSet, order: str, pair: Pair = PAIR) -> str:
    return str(prompts.messages(pair, prompts.attributes[0], ORDERS.index(order))[-1]["content"])


def test_shows_each_response_first_in_its_order() -> None:
    prompts = load_prompts((), pairwise=True)

    assert (prompts.attributes, prompts.kind.variants) == ((PREFERENCE,), ORDERS)
    assert "###Response A:\nHi from A.\n\n###Response B:\nHello from B.\n" in asked(
        prompts, "a-first"
    )
    assert "###Response A:\nHello from B.\n\n###Response B:\nHi from A.\n" in asked(
        prompts, "b-first"
    )


def test_asks_for_ties_only_where_there_may_be_some() -> None:
    with_ties, without = (load_prompts((), pairwise=True, ties=ties) for ties in (True, False))

    assert with_ties.scales == (Scale(0, 2),)
    assert without.scales == (Scale(0, 1),)
    assert "tie" in asked(with_ties, "a-first").split()
    assert "tie" not in asked(without, "a-first").split()
    assert with_ties.sha256 != without.sha256


def test_says_the_criterion_where_there_is_one() -> None:
    plain, by_rubric = (load_prompts(names, pairwise=True) for names in ((), ["helpfulness"]))

    assert rubric_of("helpfulness").text in asked(by_rubric, "b-first")
    assert "rubric" not in asked(plain, "b-first")
    assert (plain.human_ratings, by_rubric.human_ratings) == ((PREFERENCE,), ("helpfulness",))
    assert (
        len(
            {each.sha256 for each in (plain, by_rubric, load_prompts(["verbosity"], pairwise=True))}
        )
        == 3
    )


def test_a_run_keeps_what_it_asked() -> None:
    for criterion in ([], *([each] for each in known_attributes())):
        for ties in (True, False):
            prompts = load_prompts(criterion, answers=["json"], pairwise=True, ties=ties)
            again = PromptSet.from_record(prompts.record, pairwise=True)

            assert (again.sha256, again.scales, again.kind) == (
                prompts.sha256,
                prompts.scales,
                VERDICT,
            )
            assert again.attributes == prompts.attributes == (*criterion, PREFERENCE)[:1]
            assert all(asked(again, order) == asked(prompts, order) for order in ORDERS), (
                criterion,
                ties,
            )


def test_an_echo_of_the_question_takes_nothing_back() -> None:
    for ties in (True, False):
        for criterion in ([], ["helpfulness"]):
            prompts = load_prompts(criterion, pairwise=True, ties=ties)
            echo = asked(prompts, "a-first")

            assert VERDICT.parse(echo, prompts.scales[0]).value is None, (ties, criterion)
            assert (
                VERDICT.parse(f"{echo}\nFeedback: so.\nVerdict: B", prompts.scales[0]).value == 0
            ), (ties, criterion)


def test_says_how_to_answer_in_json() -> None:
    for ties, said in ((True, '"verdict": "A", "B" or "tie"}'), (False, '"verdict": "A" or "B"}')):
        assert asked(
            load_prompts((), answers=["json"], pairwise=True, ties=ties), "a-first"
        ).endswith(said)


@given(st.text(), st.text(), st.text())
def test_sends_both_responses_as_they_are(prompt: str, one: str, two: str) -> None:
    text = asked(load_prompts((), pairwise=True), "b-first", Pair("p", prompt, one, other=two))
    assert f"\n\n###Response A:\n{two}\n\n###Response B:\n{one}\n\n###Output:" in text


def test_a_pairwise_template_of_the_users_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.jinja"
    path.write_text(
        "{% block user %}{{ title }}|{{ instruction }}|{{ response_a }}|{{ response_b }}|{{ ties }}|{{ reference }}"
        "{% endblock %}"
    )
    prompts = load_prompts(["helpfulness"], template=str(path), pairwise=True, ties=False)

    assert asked(prompts, "b-first") == "Helpfulness|Say hi.|Hello from B.|Hi from A.|False|Hi."
    assert prompts.wants_reference


@pytest.mark.parametrize(
    ("template", "said"),
    [
        (
            "absolute-judge",
            r"does not show response_a and response_b, which --pairwise compares; .*\(pairwise-judge\)",
        ),
        (
            "pairwise-jugde",
            r'ready ones, by name, are pairwise-judge; did you mean "pairwise-judge"',
        ),
    ],
)
def test_takes_no_template_for_ratings(template: str, said: str) -> None:
    with pytest.raises(InputError, match=f"--template.*{said}"):
        load_prompts((), template=template, pairwise=True)


def test_takes_no_template_that_shows_one_response_only(tmp_path: Path) -> None:
    path = tmp_path / "mine.jinja"
    path.write_text("{% block user %}{{ response_a }}{% endblock %}")
    with pytest.raises(InputError, match="does not show response_b"):
        load_prompts((), template=str(path), pairwise=True)
    path.write_text("{% block user %}{{ response_a }}{{ response_b }}\n{{ rubric }}{% endblock %}")
    with pytest.raises(
        InputError, match=r'line 2: there is no value "rubric"; there are .*criterion'
    ):
        load_prompts((), template=str(path), pairwise=True)


def test_takes_no_pairwise_template_for_ratings() -> None:
    with pytest.raises(
        InputError,
        match=r"shows two responses, and one is rated here; add --pairwise, or take another: absolute-judge, criteria",
    ):
        load_prompts(["helpfulness"], template="pairwise-judge")


def test_takes_one_criterion() -> None:
    with pytest.raises(
        InputError, match=r"--pairwise: one criterion decides .* helpfulness, verbosity"
    ):
        load_prompts(["helpfulness", "verbosity"], pairwise=True)
