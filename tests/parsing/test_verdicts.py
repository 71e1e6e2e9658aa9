"""What robin reads out of a judge's verdict on two responses, shape by shape, and what holds for every text."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robin_cli.model.exchange import Answer, Reply
from robin_cli.model.records import ORDERS, UNPARSED_REASONS, Scale, Usage
from robin_cli.model.space import ArmSpace
from robin_cli.parsing.expectation import expected_verdict
from robin_cli.parsing.judgments import AnswerReader
from robin_cli.parsing.structured import VERDICT, follows, grammar_of, parse_answer, place_of_rating, request_of
from robin_cli.parsing.verdicts import parse_verdict, verdict_place

TIES, NO_TIES = Scale(0, 2), Scale(0, 1)
A, TIE, B = 2, 1, 0


def read(text: str | None, scale: Scale = TIES, *, finish_reason: str | None = None) -> int | str | None:
    """The points of the first response, or the reason there are none."""
    found = parse_verdict(text, scale, finish_reason=finish_reason)
    return found.reason if found.value is None else found.value


SAID = [
    # as asked
    ("Feedback: A is clearer.\nVerdict: A", A),
    ("Feedback: B is clearer.\nVerdict: B", B),
    ("Feedback: alike.\nVerdict: tie", TIE),
    ("Verdict: A\n", A),
    ("\n\n  Verdict: B  \n\n", B),
    # case, spaces, colons and width
    ("verdict: a", A),
    ("VERDICT: B", B),
    ("Verdict:B", B),
    ("Verdict : A", A),
    ("Verdict:\tA", A),
    ("Verdict:\u3000A", A),
    ("Verdict：A", A),
    ("Verdict：Ａ", A),
    ("Verdict ： ｂ", B),
    ("Verdict﹕B", B),
    ("Verdict= A", A),
    ("Verdict A", A),
    ("Verdict b", B),
    ("Verdict tie", TIE),
    ("Verdict - A", A),
    ("Verdict — A", A),
    ("Verdict→A", A),
    ("Verdict is B", B),
    ("Verdict is: B", B),
    ("Verdict: TIE", TIE),
    ("Verdict: Tie.", TIE),
    ("Verdict: a tie", TIE),
    ("Verdict: A tie.", TIE),
    ("Verdict: It's a tie", TIE),
    ("Verdict: It is a tie!", TIE),
    # lists, quotes, headings, emphasis, tables, brackets
    ("- Verdict: A", A),
    ("* Verdict: A", A),
    ("• Verdict: A", A),
    ("2. Verdict: A", A),
    ("(2) Verdict: A", A),
    ("b) Verdict: A", A),
    ("> > **Verdict:** B", B),
    ("### **Verdict: B**", B),
    ("**Verdict:** A", A),
    ("**Verdict**: A", A),
    ("**Verdict: A**", A),
    ("***Verdict:*** ***A***", A),
    ("__Verdict__: tie", TIE),
    ("Verdict: **A**", A),
    ("Verdict: *A*.", A),
    ("Verdict: _B_", B),
    ("`Verdict: A`", A),
    ("Verdict: `B`", B),
    ("| Verdict | A |", A),
    ("⚖️ Verdict: A", A),
    ('Verdict: "A"', A),
    ("Verdict: 'A'", A),
    ("Verdict: “tie”", TIE),
    ("Verdict: 「B」", B),
    ("Verdict: [A]", A),
    ("Verdict: [[A]]", A),
    ("[[Verdict: B]]", B),
    ("[Verdict]: A", A),
    ("Verdict: (A)", A),
    ("Verdict (A)", A),
    ("Verdict: {tie}", TIE),
    ("Verdict: <A>", A),
    ("<verdict>A</verdict>", A),
    ("<Verdict: B>", B),
    ("Verdict: 【A】", A),
    ('{\n  "feedback": "fine",\n  "verdict": "A"\n}', A),
    # a word for the response
    ("Verdict: Response A", A),
    ("Verdict: **Response B**", B),
    ("Verdict: response: A", A),
    ("Verdict: Response [A]", A),
    ("Verdict: Assistant B", B),
    ("Verdict: Answer A.", A),
    ("Verdict: Option b", B),
    ("Verdict: Model A is better", A),
    ("Verdict Response A", A),
    # what the verdict is on
    ("Verdict (A, B or tie): B", B),
    ("Verdict (A/B/tie): tie", TIE),
    ("Verdict on helpfulness: A", A),
    ("Verdict for this pair: B", B),
    ("**Verdict (one of A, B and tie):** A", A),
    # an explanation behind it
    ("Verdict: A.", A),
    ("Verdict: A!", A),
    ("Verdict: A?", A),
    ("Verdict: A…", A),
    ("Verdict: A (B is close)", A),
    ("Verdict: A (clearly)", A),
    ("Verdict: A, because B omits the date", A),
    ("Verdict: A because B omits the date", A),
    ("Verdict: B since it is right", B),
    ("Verdict: B overall", B),
    ("Verdict: B by far", B),
    ("Verdict: A - it is clearer", A),
    ("Verdict: A – it is clearer", A),
    ("Verdict: A — B is wrong", A),
    ("Verdict: A. B is wrong.", A),
    ("Verdict: A; B is wrong", A),
    ("Verdict: A: it is right", A),
    ("Verdict: tie (both are right)", TIE),
    ("Verdict: tie, both are right", TIE),
    ("Verdict: tie because A and B say the same", TIE),
    ("Verdict: A is better", A),
    ("Verdict: A is clearly better.", A),
    ("Verdict: B is the better response", B),
    ("Verdict: B is slightly better than A", B),
    ("Verdict: A is better than response B.", A),
    ("Verdict: A is better because it is right", A),
    ("Verdict: A wins", A),
    ("Verdict: A★", A),
    # several lines
    ("Verdict: A\nVerdict: A", A),
    ("Verdict: A\n\nThank you.", A),
    ("Feedback: x\n- Verdict: One of A, B and tie\nVerdict: B", B),
    ("Verdict:\nVerdict: tie", TIE),
    ("Verdict: One of A and B\nVerdict: B", B),
    ("Response A: B\nVerdict: A", A),
    ("Rating: 3\nVerdict: A", A),
    ("~~Verdict: B~~\nVerdict: A", A),
    ("Verdict: A\r\n", A),
    ("Feedback: a\u2028Verdict: B", B),
    # what stands around unseen
    ("\ufeffVerdict: A", A),
    ("\u200bVerdict:\u200bA\u200b", A),
    ("\x00Verdict: A\x00", A),
    ("Feedback: \ud800\nVerdict: A \udfff", A),
    # reasoning
    ("<think>Verdict: B</think>Verdict: A", A),
    ("<think>\nVerdict: B\n</think>\n\nFeedback: fine\nVerdict: A", A),
    ("Verdict: B may do.\n</think>\nVerdict: A", A),
    ("Verdict: A\n<think>Verdict: B", A),
    ("Verdict: <think>hm</think>A", A),
]

UNSAID = [
    # missing: no verdict line, or none of the three in the last one
    ("A", "missing"),
    ("[[A]]", "missing"),
    ("A is better.", "missing"),
    ("Feedback: fine. Verdict: A", "missing"),
    ("Final verdict: A", "missing"),
    ("My verdict is A", "missing"),
    ("Verdicts: A", "missing"),
    ("Verdict's A", "missing"),
    ("Verdict scale: A", "missing"),
    ("Verdict", "missing"),
    ("Verdict:", "missing"),
    ("### Verdict\nA", "missing"),
    ("Verdict:\nA", "missing"),
    ("Verdict: N/A", "missing"),
    ("Verdict: none", "missing"),
    ("Verdict: both", "missing"),
    ("Verdict: both A and B", "missing"),
    ("Verdict: neither", "missing"),
    ("Verdict: draw", "missing"),
    ("Verdict: equal", "missing"),
    ("Verdict: tied", "missing"),
    ("Verdict: the better one is A", "missing"),
    ("Verdict: the first", "missing"),
    ("Verdict: 1", "missing"),
    ("Verdict: 2", "missing"),
    ("Verdict: AB", "missing"),
    ("Verdict: Accurate", "missing"),
    ("Verdict: Better", "missing"),
    ("Verdict: not A", "missing"),
    ("Verdict: I prefer A", "missing"),
    ("Verdict: I", "out_of_range"),
    ("Verdict: <A", "missing"),
    ("Verdict: А", "missing"),  # in Cyrillic letters
    ("Verdict (A): good", "missing"),
    ("Verdict (A, B or tie)", "missing"),
    ("Verdict: \\boxed{A}", "missing"),
    ("Verdict: One of A, B and tie", "missing"),
    ("Verdict: A\nVerdict: N/A", "missing"),
    ("~~Verdict: A~~", "missing"),
    ("</verdict> A", "missing"),
    ("Feedback: fine\\nVerdict: A", "missing"),
    ("<think>\nVerdict: A", "missing"),
    ("<think>\nVerdict: A\n</think>", "missing"),
    ("Rating: 4", "missing"),
    # another letter
    ("Verdict: C", "out_of_range"),
    ("Verdict: [[C]]", "out_of_range"),
    ("Verdict: Response D", "out_of_range"),
    ("Verdict: C (tie)", "missing"),
    # both, or the letter is part of something else
    ("Verdict: A and B", "ambiguous"),
    ("Verdict: A or B", "ambiguous"),
    ("Verdict: A or tie", "ambiguous"),
    ("Verdict: A, B", "ambiguous"),
    ("Verdict: A B", "ambiguous"),
    ("Verdict: A/B", "ambiguous"),
    ("Verdict: A / B", "ambiguous"),
    ("Verdict: A & B", "ambiguous"),
    ("Verdict: A, B or tie", "ambiguous"),
    ("Verdict: A or B or tie", "ambiguous"),
    ("Verdict: A > B", "ambiguous"),
    ("Verdict: A>B", "ambiguous"),
    ("Verdict: [[A>>B]]", "ambiguous"),
    ("Verdict: A < B", "ambiguous"),
    ("Verdict: A=B", "ambiguous"),
    ("Verdict: A -> B", "ambiguous"),
    ("Verdict: A→B", "ambiguous"),
    ("Verdict: A-B", "ambiguous"),
    ("Verdict: A vs. B", "ambiguous"),
    ("Verdict: A versus B", "ambiguous"),
    ("Verdict: A over B", "ambiguous"),
    ("Verdict: A, or perhaps B", "ambiguous"),
    ("Verdict: A? Or B?", "ambiguous"),
    ("Verdict: **A** and **B**", "ambiguous"),
    ("Verdict: Response A and Response B", "ambiguous"),
    ("Verdict: A (B)", "ambiguous"),
    ("Verdict: A (tie)", "ambiguous"),
    ("Verdict: tie, A", "ambiguous"),
    ("Verdict: tie or A", "ambiguous"),
    ("Verdict: tie between A and B", "ambiguous"),
    ("Verdict: tie-break: A", "ambiguous"),
    ("Verdict: tie breaker", "ambiguous"),
    ("Verdict: A is worse than B", "ambiguous"),
    ("Verdict: A is not better", "ambiguous"),
    ("Verdict: A is better in style", "ambiguous"),
    ("Verdict: A is better than A", "ambiguous"),
    ("Verdict: A as well as B", "ambiguous"),
    ("Verdict: A good answer", "ambiguous"),
    ("Verdict: a response that helps", "ambiguous"),
    ("Verdict: A response", "ambiguous"),
    ("Verdict: A-", "ambiguous"),
    ("Verdict: B+", "ambiguous"),
    ("Verdict: A- it is right", "ambiguous"),
    ("Verdict: A's answer", "ambiguous"),
    ("Verdict: A.I. is", "ambiguous"),
    ("Verdict: A%", "ambiguous"),
    ("Verdict: A\nVerdict: B", "ambiguous"),
    ("Verdict: A\nFeedback: or rather\nVerdict: tie", "ambiguous"),
    ("Verdict: A\nVerdict: C", "ambiguous"),
    ("Verdict: A and B\nVerdict: A", "ambiguous"),
    ("Verdict for style: A\nVerdict for facts: B", "ambiguous"),
    # nothing, and refusals
    (None, "empty"),
    ("", "empty"),
    (" \n\t\u3000", "empty"),
    ("I'm sorry, but I can't assist with that.", "refused"),
    ("I cannot evaluate these responses.", "refused"),
]


def test_reads_enough_shapes() -> None:
    assert len({text for text, _ in (*SAID, *UNSAID)}) == len(SAID) + len(UNSAID) >= 200


@pytest.mark.parametrize(("text", "points"), SAID)
def test_reads_a_verdict(text: str, points: int) -> None:
    assert read(text) == points


@pytest.mark.parametrize(("text", "reason"), UNSAID)
def test_says_why_there_is_no_verdict(text: str | None, reason: str) -> None:
    assert read(text) == reason


@pytest.mark.parametrize(("text", "points"), [(text, points) for text, points in SAID if points != TIE])
def test_reads_the_same_where_there_are_no_ties(text: str, points: int) -> None:
    assert read(text, NO_TIES) == points // 2


@pytest.mark.parametrize("text", ["Verdict: tie", "Verdict: a tie", "Verdict: [[Tie]]"])
def test_takes_a_tie_for_off_the_scale_where_the_judge_was_to_choose(text: str) -> None:
    assert read(text, NO_TIES) == "out_of_range"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (None, "truncated"),
        ("Feedback: it goes on", "truncated"),
        ("Verdict:", "truncated"),
        ("Verdict: t", "truncated"),
        ("Verdict: Response", "truncated"),
        ("Verdict: A", "truncated"),
        ("Verdict: A.", "truncated"),
        ("Verdict: **A**", "truncated"),
        ("Verdict: A is", "truncated"),
        ("Verdict: A is better than", "truncated"),
        ("Verdict: A an", "truncated"),
        ("Verdict: tie", "truncated"),
        ("Verdict: A\n", A),
        ("Verdict: A. The date is right", A),
        ("Verdict: A - it omits nothing and", A),
        ("Verdict: tie\nBecause", TIE),
        ("Verdict: A and B\n", "ambiguous"),
    ],
)
def test_reads_a_cut_answer_only_where_its_verdict_was_closed(text: str | None, found: int | str) -> None:
    assert read(text, finish_reason="length") == found


def test_goes_by_what_the_endpoint_says_first() -> None:
    assert read("Verdict: A", finish_reason="content_filter") == "filtered"
    assert parse_verdict("Verdict: A", TIES, refusal="no").reason == "refused"


def test_keeps_the_feedback() -> None:
    assert parse_verdict("Feedback: A is right.\nB is not.\nVerdict: A", TIES).feedback == "A is right.\nB is not."


# what holds for any text


WORDS = ("Verdict", "Feedback:", "Response ", "tie", "and", "or", "is better", "than", "because", "<think>", "</think>")
PIECES = st.sampled_from([*WORDS, *"AABBabC1: \n>*[]().,-—/':："])
TEXTS = st.one_of(st.text(), st.lists(PIECES, max_size=25).map("".join))


@settings(max_examples=500)
@given(TEXTS, st.sampled_from([TIES, NO_TIES]), st.sampled_from([None, "stop", "length", "content_filter"]))
def test_finds_a_verdict_or_a_reason_in_any_text(text: str, scale: Scale, finish_reason: str | None) -> None:
    found = parse_verdict(text, scale, finish_reason=finish_reason)
    assert (found.value is None) == (found.reason in UNPARSED_REASONS)
    assert found.value is None or scale.low <= found.value <= scale.high


def _swapped(text: str) -> str:
    return text.translate(str.maketrans("AB", "BA"))


@settings(max_examples=500)
@given(st.lists(PIECES.filter(lambda piece: piece not in "ab"), max_size=20).map("".join))
def test_favours_neither_letter(tail: str) -> None:
    """The same text with A and B changed for one another says the opposite, but where A may be an article."""
    text = f"Verdict: {tail}"
    one, other = parse_verdict(text, TIES), parse_verdict(_swapped(text), TIES)
    if "tie" not in tail:
        assert one.reason == other.reason
        assert one.value is None or other.value == 2 - one.value


@given(TEXTS)
def test_finds_the_place_of_the_verdict_that_it_reads(text: str) -> None:
    place = verdict_place(text)
    if place is not None and (value := parse_verdict(text, TIES).value) is not None:
        assert text[place].lower() == {A: "a", B: "b", TIE: "t"}[value] or text[place] in "ＡＢａｂ"


@given(st.text())
def test_reads_no_verdict_in_feedback(feedback: str) -> None:
    line = " ".join(feedback.split())
    if "<" not in line and not line.lower().startswith("verdict"):
        assert read(f"Feedback: {line}\nVerdict: B") == B


@pytest.mark.parametrize(
    "text", ["Verdict: " + "A " * 200_000, "Verdict: " + "(" * 200_000, "*" * 300_000, "Verdict" * 50_000]
)
def test_reads_answers_of_any_length(text: str) -> None:
    assert isinstance(read(text), str)


# in JSON, and by a grammar


def in_json(text: str, scale: Scale = TIES, **told: Any) -> tuple[int | None, str | None]:
    found = parse_answer(text, scale, answer_format="json_schema", form=VERDICT, **told)
    return found.value, found.reason


@pytest.mark.parametrize(
    ("text", "value", "reason"),
    [
        ('{"feedback": "fine", "verdict": "A"}', A, None),
        ('{"feedback": "fine", "verdict": "B"}', B, None),
        ('{"feedback": "fine", "verdict": "tie"}', TIE, None),
        ('```json\n{"verdict": "A"}\n```', A, None),
        ('<think>{"verdict": "B"}</think>{"verdict": "A"}', A, None),
        ('{"verdict": " b "}', B, None),
        ('{"verdict": "Response A"}', A, None),
        ('{"verdict": "[[A]]"}', A, None),
        ('{"verdict": "A and B"}', None, "ambiguous"),
        ('{"verdict": "C"}', None, "out_of_range"),
        ('{"verdict": "both"}', None, "missing"),
        ('{"verdict": "A\\nB"}', None, "missing"),
        ('{"verdict": ""}', None, "missing"),
        ('{"verdict": null}', None, "missing"),
        ('{"feedback": "A"}', None, "missing"),
        ('{"rating": 2}', None, "missing"),
        ('{"verdict": 2}', None, "out_of_range"),
        ('{"verdict": true}', None, "out_of_range"),
        ('{"verdict": ["A"]}', None, "out_of_range"),
        ('{"verdict": "A", "verdict": "B"}', None, "ambiguous"),
        ('{"verdict": "A", "verdict": "A"}', A, None),
        ("Feedback: fine\nVerdict: B", B, None),  # the endpoint took the schema, and let the judge write as it likes
        ("[" * 100_000, None, "missing"),
        ("", None, "empty"),
    ],
)
def test_reads_the_verdict_of_an_object(text: str, value: int | None, reason: str | None) -> None:
    assert in_json(text) == (value, reason)


def test_takes_no_tie_in_an_object_where_there_is_none() -> None:
    assert in_json('{"verdict": "tie"}', NO_TIES) == (None, "out_of_range")
    assert in_json('{"verdict": "A"}', NO_TIES) == (1, None)
    assert in_json('{"feedback": "it goes', finish_reason="length") == (None, "truncated")


def test_asks_for_the_verdicts_that_there_are_and_nothing_else() -> None:
    for scale, said in ((TIES, ["A", "B", "tie"]), (NO_TIES, ["A", "B"])):
        schema = request_of("json_schema", scale, VERDICT)["response_format"]["json_schema"]["schema"]
        assert schema["properties"]["verdict"] == {"type": "string", "enum": said}
        assert schema["required"] == ["feedback", "verdict"]
    assert request_of("text", TIES, VERDICT) == {}
    assert grammar_of(TIES, VERDICT) == (
        'root ::= "Feedback: " [^\\n]+ "\\nVerdict: " verdict\nverdict ::= "A" | "B" | "tie"\n'
    )


@pytest.mark.parametrize(
    ("text", "answer_format", "does"),
    [
        ("Feedback: fine\nVerdict: tie\n", "grammar", True),
        ("Feedback: fine\nVerdict: C", "grammar", False),
        ("Feedback: fine\nRating: 3", "grammar", False),
        ('{"verdict": "A"}', "json_schema", True),
        ("Verdict: A", "json_schema", False),
        ("Verdict: A", "text", True),
    ],
)
def test_tells_whether_a_verdict_has_the_structure_that_was_asked_for(
    text: str, answer_format: str, *, does: bool
) -> None:
    assert follows(text, answer_format, VERDICT) is does


@given(st.text(), st.sampled_from(["A", "B", "tie"]))
def test_finds_the_verdict_beside_any_feedback(feedback: str, verdict: str) -> None:
    text = json.dumps({"feedback": feedback, "verdict": verdict})
    assert in_json(text)[0] == {"A": A, "B": B, "tie": TIE}[verdict]
    at = place_of_rating(text, answer_format="json_schema", form=VERDICT)
    assert at is None or text[at:].startswith(verdict)


# log probabilities


def token(text: str, **others: float) -> dict[str, Any]:
    """A token, and the probabilities of those that could have stood there."""
    shown = [{"token": name.replace("_", " "), "logprob": math.log(share)} for name, share in others.items()]
    return {"token": text, "logprob": shown[0]["logprob"] if shown else 0.0, "top_logprobs": shown}


def expected(text: str, *last: dict[str, Any], scale: Scale = TIES) -> tuple[float | None, str | None]:
    place = verdict_place(text)
    assert place is not None
    drawn = "".join(each["token"] for each in last)
    found = expected_verdict([token(text.removesuffix(drawn)), *last], text, place, scale)
    return found.value, found.why


def test_takes_the_probability_of_a_against_b() -> None:
    assert expected("Verdict: A", token(" A", _A=0.75, _B=0.25)) == (1.5, None)
    assert expected("Verdict: B", token(" B", _B=0.25, _A=0.75)) == (1.5, None)
    assert expected("Verdict: tie", token(" tie", _tie=0.5, _A=0.25, _B=0.25)) == (1.0, None)
    assert expected("Verdict: tie", token(" t", _t=0.5, _A=0.5), token("ie")) == (1.5, None)
    assert expected("Verdict: A", token("A", A=0.5, _A=0.25, B=0.25), scale=NO_TIES) == (0.75, None)


def test_goes_by_the_text_where_much_of_the_probability_is_of_no_verdict() -> None:
    assert expected("Verdict: A", token(" A", _A=0.9, _C=0.1)) == (None, "off_scale")
    assert expected("Verdict: A", token(" A", _A=0.9, _Response=0.1)) == (None, "off_scale")
    assert expected("Verdict: A", token(" A", _A=0.9, _a=0.1)) == (None, "off_scale")  # perhaps of "a tie"
    assert expected("Verdict: A", token(" A", _A=0.9, _tie=0.1), scale=NO_TIES) == (None, "off_scale")
    value, why = expected("Verdict: A", token(" A", _A=0.96))
    assert (value, why) == (2.0, None)


@pytest.mark.parametrize("text", ["Verdict: Response A", "Verdict: a tie", "Verdict: It's a tie"])
def test_finds_no_place_behind_words_that_were_drawn_before_the_verdict(text: str) -> None:
    assert isinstance(read(text), int)
    assert verdict_place(text) is None


@given(st.floats(0, 1), st.floats(0, 1))
def test_expects_what_sums_are_exact_of(a: float, tie: float) -> None:
    a, tie = a / 2 + 0.01, tie / 2.1
    left = 1 - a - tie
    others = {"_A": a, "_tie": tie, "_B": left}
    value, _ = expected("Verdict: A", token(" A", **{name: share for name, share in others.items() if share > 0}))
    assert value is not None
    assert value * 2**12 == round(value * 2**12)
    assert value == pytest.approx(2 * a + tie, abs=2**-12)


# as it is kept


SPACE = ArmSpace(["p"], ORDERS, ["judge"], [TIES, TIES], is_pairwise=True)


def kept(arm: int, text: str, tokens: list[dict[str, Any]] | None = None) -> tuple[int | None, float | None]:
    reader = AnswerReader(SPACE, answer_format="text", by_logprobs=tokens is not None, notify=lambda _: None)
    reply = Reply((Answer(text, "stop", tokens=tokens),), "m", Usage(), None, 0.0)
    (judgment,) = reader.judgments(arm, 0, reply)
    assert judgment.attribute == ORDERS[arm]
    assert judgment.text == text
    return judgment.rating, judgment.expected_rating


@pytest.mark.parametrize(("said", "first", "second"), [("A", 2, 0), ("B", 0, 2), ("tie", 1, 1)])
def test_keeps_points_of_the_same_response_in_both_orders(said: str, first: int, second: int) -> None:
    assert kept(0, f"Verdict: {said}") == (first, None)
    assert kept(1, f"Verdict: {said}") == (second, None)


def test_keeps_what_was_to_be_expected_of_the_same_response_in_both_orders() -> None:
    tokens = [token("Verdict:"), token(" A", _A=0.75, _B=0.25)]
    assert kept(0, "Verdict: A", tokens) == (2, 1.5)
    assert kept(1, "Verdict: A", tokens) == (0, 0.5)
    assert kept(1, "Verdict: both", tokens) == (None, None)
