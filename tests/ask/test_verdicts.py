"""What robin reads out of a judge's verdict on two responses, shape by shape, and what holds for every text."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robin_cli.ask.asking import Interview
from robin_cli.ask.expectation import expectation_of
from robin_cli.ask.prompts import load_prompts
from robin_cli.ask.verdicts import ORDERS, PREFERENCE, VERDICT
from robin_cli.model.exchange import Answer, Reply
from robin_cli.model.records import Scale, Usage
from robin_cli.model.space import ArmSpace
from tests.ask.tables import REASONS, each

TIES, NO_TIES = Scale(0, 2), Scale(0, 1)
A, TIE, B = 2, 1, 0


def read(
    text: str | None, scale: Scale = TIES, *, finish_reason: str | None = None
) -> int | str | None:
    """The points of the first response, or the reason there are none."""
    found = VERDICT.parse(text, scale, finish_reason=finish_reason)
    return found.reason if found.value is None else found.value


# fmt: off
SAID = [
    # as asked
    *each(A, "Feedback: A is clearer.\nVerdict: A", "Verdict: A\n"),
    *each(B, "Feedback: B is clearer.\nVerdict: B", "\n\n  Verdict: B  \n\n"),
    *each(TIE, "Feedback: alike.\nVerdict: tie"),
    # case, spaces, colons and width
    *each(A, "verdict: a", "Verdict : A", "Verdict:\tA", "Verdict:\u3000A", "Verdict：A", "Verdict：Ａ", "Verdict= A",
        "Verdict A", "Verdict - A", "Verdict — A", "Verdict→A"),
    *each(B, "VERDICT: B", "Verdict:B", "Verdict ： ｂ", "Verdict﹕B", "Verdict b", "Verdict is B", "Verdict is: B"),
    *each(TIE, "Verdict tie", "Verdict: TIE", "Verdict: Tie.", "Verdict: a tie", "Verdict: A tie.",
        "Verdict: It's a tie", "Verdict: It is a tie!"),
    # lists, quotes, headings, emphasis, tables, brackets
    *each(A, "- Verdict: A", "* Verdict: A", "• Verdict: A", "2. Verdict: A", "(2) Verdict: A", "b) Verdict: A",
        "**Verdict:** A", "**Verdict**: A", "**Verdict: A**", "***Verdict:*** ***A***", "Verdict: **A**",
        "Verdict: *A*.", "`Verdict: A`", "| Verdict | A |", "⚖️ Verdict: A", 'Verdict: "A"', "Verdict: 'A'",
        "Verdict: [A]", "Verdict: [[A]]", "[Verdict]: A", "Verdict: (A)", "Verdict (A)", "Verdict: <A>",
        "<verdict>A</verdict>", "Verdict: 【A】", '{\n  "feedback": "fine",\n  "verdict": "A"\n}'),
    *each(B, "> > **Verdict:** B", "### **Verdict: B**", "Verdict: _B_", "Verdict: `B`", "Verdict: 「B」",
        "[[Verdict: B]]", "<Verdict: B>"),
    *each(TIE, "__Verdict__: tie", "Verdict: “tie”", "Verdict: {tie}"),
    # a word for the response
    *each(A, "Verdict: Response A", "Verdict: response: A", "Verdict: Response [A]", "Verdict: Answer A.",
        "Verdict: Model A is better", "Verdict Response A"),
    *each(B, "Verdict: **Response B**", "Verdict: Assistant B", "Verdict: Option b"),
    # what the verdict is on
    *each(B, "Verdict (A, B or tie): B", "Verdict for this pair: B"),
    *each(TIE, "Verdict (A/B/tie): tie"),
    *each(A, "Verdict on helpfulness: A", "**Verdict (one of A, B and tie):** A"),
    # an explanation behind it
    *each(A, "Verdict: A.", "Verdict: A!", "Verdict: A…", "Verdict: A (clearly)",
        "Verdict: A, because it gives a date", "Verdict: A because it gives the date", "Verdict: A (cites its sources)",
        "Verdict: A - it is clearer", "Verdict: A – it is clearer", "Verdict: A: it is right", "Verdict: A is better",
        "Verdict: A is clearly better.", "Verdict: A is better than response B.",
        "Verdict: A is better because it is right", "Verdict: A wins", "Verdict: A★"),
    *each(B, "Verdict: B since it is right", "Verdict: B overall", "Verdict: B by far",
        "Verdict: B is the better response", "Verdict: B is slightly better than A"),
    *each(TIE, "Verdict: tie (both are right)", "Verdict: tie, both answers are equally clear"),
    # as other judges write them
    *each(A, "Verdict: A>B", "Verdict: A > B", "Verdict: [[A>>B]]", "Verdict: B<A", "Verdict: model_a", "Verdict: Assistant_A",
        "Verdict: \\boxed{A}", "Verdict: Response A > Response B", '{"Feedback": "x", "Verdict": "A"}'),
    *each(TIE, "Verdict: Both", "Verdict: tie (bothbad)", "Verdict: Tie (both bad)", "Verdict: [[A=B]]"),
    # as a sentence with one winner
    *each(A, "Verdict: A beats B", "Verdict: A won", "Verdict: Response A clearly beats Response B.",
        "Verdict: A is preferred over B", "Verdict: A is the winner", "Verdict: A outperforms B because it cites sources"),
    *each(B, "Verdict: B won against A", "Verdict: B is superior to A"),
    *each(TIE, "Verdict: both bad", "Verdict: Both are bad", "Verdict: Both responses are equally good."),
    # alone on the next line
    *each(A, "### Verdict\nA", "Verdict:\n\n**A**\nThank you."),
    # several lines
    *each(A, "Verdict: A\nVerdict: A", "Verdict: A\n\nThank you.", "Response A: B\nVerdict: A",
        "Rating: 3\nVerdict: A", "~~Verdict: B~~\nVerdict: A", "Verdict: A\r\n"),
    *each(B, "Feedback: x\n- Verdict: One of A, B and tie\nVerdict: B", "Verdict: One of A and B\nVerdict: B",
        "Feedback: a\u2028Verdict: B"),
    *each(TIE, "Verdict:\nVerdict: tie"),
    # what stands around unseen
    *each(A, "\ufeffVerdict: A", "\u200bVerdict:\u200bA\u200b", "\x00Verdict: A\x00",
        "Feedback: \ud800\nVerdict: A \udfff"),
    # reasoning
    *each(A, "<think>Verdict: B</think>Verdict: A", "<think>\nVerdict: B\n</think>\n\nFeedback: fine\nVerdict: A",
        "Verdict: B may do.\n</think>\nVerdict: A", "Verdict: A\n<think>Verdict: B", "Verdict: <think>hm</think>A"),
]
# fmt: on

# fmt: off
UNSAID = [
    # missing: no verdict line, or none of the three in the last one
    *each("missing", "A", "[[A]]", "A is better.", "Feedback: fine. Verdict: A", "Final verdict: A",
        "My verdict is A", "Verdicts: A", "Verdict's A", "Verdict scale: A", "Verdict", "Verdict:", "### Verdict\nA is it",
        "Verdict: N/A", "Verdict: none", "Verdict: neither",
        "Verdict: draw", "Verdict: equal", "Verdict: tied", "Verdict: the better one is A", "Verdict: the first",
        "Verdict: 1", "Verdict: 2", "Verdict: AB", "Verdict: Accurate", "Verdict: Better", "Verdict: not A",
        "Verdict: I prefer A", "Verdict: <A"),
    *each("out_of_range", "Verdict: I"),
    *each("missing", "Verdict: А"),  # in Cyrillic letters
    *each("missing", "Verdict (A): good", "Verdict (A, B or tie)",
        "Verdict: One of A, B and tie", "Verdict: A\nVerdict: N/A", "~~Verdict: A~~", "</verdict> A",
        "Feedback: fine\\nVerdict: A", "<think>\nVerdict: A", "<think>\nVerdict: A\n</think>", "Rating: 4"),
    # another letter
    *each("out_of_range", "Verdict: C", "Verdict: [[C]]", "Verdict: Response D"),
    *each("missing", "Verdict: C (tie)"),
    # both, or the letter is part of something else
    *each("ambiguous", "Verdict: A and B", "Verdict: A or B", "Verdict: A or tie", "Verdict: A, B", "Verdict: A B",
        "Verdict: A/B", "Verdict: A / B", "Verdict: A & B", "Verdict: A, B or tie", "Verdict: A or B or tie",
        "Verdict: A > A", "Verdict: A > tie", "Verdict: A >= B", "Verdict: both A and B", "Verdict:\nA\nB", "Verdict: A -> B",
        "Verdict: A→B", "Verdict: A-B", "Verdict: A vs. B", "Verdict: A versus B", "Verdict: A over B",
        "Verdict: A, or perhaps B", "Verdict: A? Or B?", "Verdict: **A** and **B**",
        "Verdict: Response A and Response B", "Verdict: A (B)", "Verdict: A (tie)", "Verdict: tie, A",
        "Verdict: tie or A", "Verdict: tie between A and B", "Verdict: tie-break: A", "Verdict: tie breaker",
        "Verdict: A is worse than B", "Verdict: A is not better", "Verdict: A is better in style",
        "Verdict: A is better than A", "Verdict: A as well as B", "Verdict: A good answer",
        "Verdict: a response that helps", "Verdict: A response", "Verdict: A-", "Verdict: B+",
        "Verdict: A- it is right", "Verdict: A's answer", "Verdict: A.I. is", "Verdict: A%", "Verdict: A\nVerdict: B",
        "Verdict: A\nFeedback: or rather\nVerdict: tie", "Verdict: A\nVerdict: C", "Verdict: A and B\nVerdict: A",
        "Verdict for style: A\nVerdict for facts: B"),
    *each("ambiguous", "Verdict: A beats B? No", "Verdict: A does not beat B", "Verdict: A beats A",
        "Verdict: A barely beats B", "Verdict: A beats B in style", "Verdict: A beats B, but B is safer",
        "Verdict: A lost to B", "Verdict: A would beat B", "Verdict: A is the best of two bad answers",
        "Verdict: both bad, but A is clearer", "Verdict: Both are better", "Verdict: both are good except A",
        "Verdict: A won? B won", "Verdict: A is preferred by some"),
    # more is said: it names a response or judges one, or takes the verdict back
    *each("ambiguous", "Verdict: A. B is better", "Verdict: A: 7, B: 8", "Verdict: A (3)", "Verdict: A (incorrect)",
        "Verdict: A; worse", "Verdict: A, the worse response", "Verdict: A (rejected)", "Verdict: A, the weaker one",
        "Verdict: A is hardly better", "Verdict: A (hallucinated citations)", "Verdict: A, vice versa",
        "Verdict: A; needs work",
        "Verdict: A (off-topic, wrong)", "Verdict: A because B omits the date", "Verdict: A (B is close)", "Verdict: A?",
        "Verdict: A; the other is right", "Verdict: A. The second wins.", "Verdict: A, not as clear", "Verdict: A has errors",
        "Verdict: A - a", "Verdict: A. No wait.", "Verdict: A, actually not", "Verdict: A, if style matters",
        "Verdict: A (maybe)", "Verdict: A ❌", "Verdict: tie, but A is clearer", "Verdict: tie because A and B agree",
        "<|foo|>\nVerdict: A"),
    # nothing, and refusals
    *each("empty", None, "", " \n\t\u3000"),
    *each("refused", "I'm sorry, but I can't assist with that.", "I cannot evaluate these responses."),
]
# fmt: on


def test_reads_enough_shapes() -> None:
    assert len({text for text, _ in (*SAID, *UNSAID)}) == len(SAID) + len(UNSAID) >= 200


def test_reads_a_verdict_or_says_why_there_is_none() -> None:
    for text, found in [*SAID, *UNSAID]:
        assert read(text) == found, (text, found)


def test_reads_the_same_where_there_are_no_ties() -> None:
    for text, points in [(text, points) for text, points in SAID if points != TIE]:
        assert read(text, NO_TIES) == points // 2, (text, points)


def test_takes_a_tie_for_off_the_scale_where_the_judge_was_to_choose() -> None:
    for text in ("Verdict: tie", "Verdict: a tie", "Verdict: [[Tie]]"):
        assert read(text, NO_TIES) == "out_of_range", text


def test_reads_a_cut_answer_only_where_its_verdict_was_closed() -> None:
    for text, found in (
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
        ("Verdict: A. The date is right", "truncated"),
        ("Verdict: A. The date is right\nand", A),
        ("Verdict: tie\nBecause", TIE),
        ("Verdict: A and B\n", "ambiguous"),
    ):
        assert read(text, finish_reason="length") == found, (text, found)


def test_goes_by_what_the_endpoint_says_first() -> None:
    assert read("Verdict: A", finish_reason="content_filter") == "filtered"
    assert VERDICT.parse("Verdict: A", TIES, refusal="no").reason == "refused"


def test_keeps_the_feedback() -> None:
    assert (
        VERDICT.parse("Feedback: A is right.\nB is not.\nVerdict: A", TIES).feedback
        == "A is right.\nB is not."
    )


# what holds for any text


WORDS = (
    "Verdict",
    "Feedback:",
    "Response ",
    "tie",
    "and",
    "or",
    "is better",
    "than",
    "because",
    "<think>",
    "</think>",
)
PIECES = st.sampled_from([*WORDS, *"AABBabC1: \n>*[]().,-—/':："])
TEXTS = st.one_of(st.text(), st.lists(PIECES, max_size=25).map("".join))


@settings(max_examples=150)
@given(
    TEXTS,
    st.sampled_from([TIES, NO_TIES]),
    st.sampled_from([None, "stop", "length", "content_filter"]),
)
def test_finds_a_verdict_or_a_reason_in_any_text(
    text: str, scale: Scale, finish_reason: str | None
) -> None:
    found = VERDICT.parse(text, scale, finish_reason=finish_reason)
    assert (found.value is None) == (found.reason in REASONS)
    assert found.value is None or scale.low <= found.value <= scale.high


def _swapped(text: str) -> str:
    return text.translate(str.maketrans("AB", "BA"))


@settings(max_examples=150)
@given(st.lists(PIECES.filter(lambda piece: piece not in "ab"), max_size=20).map("".join))
def test_favours_neither_letter(tail: str) -> None:
    """The same text with A and B changed for one another says the opposite, but where A may be an article."""
    text = f"Verdict: {tail}"
    one, other = VERDICT.parse(text, TIES), VERDICT.parse(_swapped(text), TIES)
    if "tie" not in tail:
        assert one.reason == other.reason
        assert one.value is None or other.value == 2 - one.value


@given(TEXTS)
def test_finds_the_place_of_the_verdict_that_it_reads(text: str) -> None:
    place = VERDICT.place(text)
    if place is not None and (value := VERDICT.parse(text, TIES).value) is not None:
        assert text[place].lower() == {A: "a", B: "b", TIE: "t"}[value] or text[place] in "ＡＢａｂ"


@given(st.text())
def test_reads_no_verdict_in_feedback(feedback: str) -> None:
    line = " ".join(feedback.split())
    if "<" not in line and not line.lower().startswith("verdict"):
        assert read(f"Feedback: {line}\nVerdict: B") == B


def test_reads_answers_of_any_length() -> None:
    for text in (
        "Verdict: " + "A " * 200_000,
        "Verdict: " + "(" * 200_000,
        "*" * 300_000,
        "Verdict" * 50_000,
    ):
        assert isinstance(read(text), str), text


# in JSON


def in_json(text: str, scale: Scale = TIES, **told: Any) -> tuple[int | None, str | None]:
    found = VERDICT.parse(text, scale, answers="json", **told)
    return found.value, found.reason


def test_reads_the_verdict_of_an_object() -> None:
    for text, value, reason in (
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
        ('{"verdict": "both"}', TIE, None),
        ('{"verdict": "A\\nB"}', None, "ambiguous"),
        ('{"verdict": ""}', None, "missing"),
        ('{"verdict": null}', None, "missing"),
        ('{"feedback": "A"}', None, "missing"),
        ('{"rating": 2}', None, "missing"),
        ('{"verdict": 2}', None, "missing"),
        ('{"verdict": true}', None, "missing"),
        ('{"verdict": ["A"]}', None, "missing"),
        ('{"verdict": "A", "verdict": "B"}', None, "ambiguous"),
        ('{"verdict": "A", "verdict": "A"}', A, None),
        (
            "Feedback: fine\nVerdict: B",
            B,
            None,
        ),  # the endpoint took the schema, and let the judge write as it likes
        ("[" * 100_000, None, "missing"),
        ("", None, "empty"),
    ):
        assert in_json(text) == (value, reason), (text, value, reason)


def test_takes_no_tie_in_an_object_where_there_is_none() -> None:
    assert in_json('{"verdict": "tie"}', NO_TIES) == (None, "out_of_range")
    assert in_json('{"verdict": "A"}', NO_TIES) == (1, None)
    assert in_json('{"feedback": "it goes', finish_reason="length") == (None, "truncated")


def test_asks_for_the_verdicts_that_there_are_and_nothing_else() -> None:
    for scale, said in ((TIES, ["A", "B", "tie"]), (NO_TIES, ["A", "B"])):
        schema = VERDICT.structure((("verdict", scale),))["response_format"]["json_schema"][
            "schema"
        ]
        assert schema["properties"]["verdict"] == {"type": "string", "enum": said}
        assert schema["required"] == ["feedback", "verdict"]


@given(st.text(), st.sampled_from(["A", "B", "tie"]))
def test_finds_the_verdict_beside_any_feedback(feedback: str, verdict: str) -> None:
    text = json.dumps({"feedback": feedback, "verdict": verdict})
    assert in_json(text)[0] == {"A": A, "B": B, "tie": TIE}[verdict]


# log probabilities


def token(text: str, **others: float) -> dict[str, Any]:
    """A token, and the probabilities of those that could have stood there."""
    shown = [
        {"token": name.replace("_", " "), "logprob": math.log(share)}
        for name, share in others.items()
    ]
    return {"token": text, "logprob": shown[0]["logprob"] if shown else 0.0, "top_logprobs": shown}


def expected(
    text: str, *last: dict[str, Any], scale: Scale = TIES
) -> tuple[float | None, str | None]:
    place = VERDICT.place(text)
    assert place is not None
    drawn = "".join(each["token"] for each in last)
    found = expectation_of(VERDICT, [token(text.removesuffix(drawn)), *last], text, place, scale)
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
    # perhaps of "a tie"
    assert expected("Verdict: A", token(" A", _A=0.9, _a=0.1)) == (None, "off_scale")
    assert expected("Verdict: A", token(" A", _A=0.9, _tie=0.1), scale=NO_TIES) == (
        None,
        "off_scale",
    )
    value, why = expected("Verdict: A", token(" A", _A=0.96))
    assert (value, why) == (2.0, None)


def test_finds_no_place_behind_words_that_were_drawn_before_the_verdict() -> None:
    for text in ("Verdict: Response A", "Verdict: a tie", "Verdict: It's a tie"):
        assert isinstance(read(text), int), text
        assert VERDICT.place(text) is None, text


@given(st.floats(0, 1), st.floats(0, 1))
def test_expects_what_sums_are_exact_of(a: float, tie: float) -> None:
    a, tie = a / 2 + 0.01, tie / 2.1
    left = 1 - a - tie
    others = {"_A": a, "_tie": tie, "_B": left}
    value, _ = expected(
        "Verdict: A", token(" A", **{name: share for name, share in others.items() if share > 0})
    )
    assert value is not None
    assert value * 2**12 == round(value * 2**12)
    assert value == pytest.approx(2 * a + tie, abs=2**-12)


# as it is kept


SPACE = ArmSpace(["p"], (PREFERENCE,), ["judge"], [TIES], ORDERS)


def kept(
    arm: int, text: str, tokens: list[dict[str, Any]] | None = None
) -> tuple[int | None, float | None]:
    reader = Interview(
        load_prompts(pairwise=True),
        SPACE,
        answers=["text" if tokens is None else "logprobs"],
        notify=lambda _: None,
    )
    reply = Reply((Answer(text, "stop", tokens=tokens),), "m", Usage(), None, 0.0)
    (judgment,) = reader.judgments(arm, 0, reply)
    assert judgment.attribute == ORDERS[arm]
    assert judgment.text == text
    return judgment.rating, judgment.expected_rating


def test_keeps_points_of_the_same_response_in_both_orders() -> None:
    for said, first, second in (("A", 2, 0), ("B", 0, 2), ("tie", 1, 1)):
        assert kept(0, f"Verdict: {said}") == (first, None), (said, first, second)
        assert kept(1, f"Verdict: {said}") == (second, None), (said, first, second)


def test_keeps_what_was_to_be_expected_of_the_same_response_in_both_orders() -> None:
    tokens = [token("Verdict:"), token(" A", _A=0.75, _B=0.25)]
    assert kept(0, "Verdict: A", tokens) == (2, 1.5)
    assert kept(1, "Verdict: A", tokens) == (0, 0.5)
    assert kept(1, "Verdict: neither", tokens) == (None, None)
