"""What robin reads out of a judge's answer, shape by shape, and what holds for every text."""

from __future__ import annotations

import re

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from robin_cli.ask.ratings import RATING
from robin_cli.model.records import Scale
from tests.ask.tables import REASONS, each

FIVE = Scale(0, 4)
SEVEN = Scale(1, 7)
HUNDRED = Scale(0, 100)
SIGNED = Scale(-2, 2)


def read(
    text: str | None, scale: Scale = FIVE, *, finish_reason: str | None = None
) -> int | str | None:
    """The rating, or the reason there is none."""
    rating = RATING.parse(text, scale, finish_reason=finish_reason)
    return rating.reason if rating.value is None else rating.value


# fmt: off
RATED = [
    # as asked
    *each(3, "Feedback: Clear and correct.\nRating: 3"),
    *each(0, "Rating: 0"),
    *each(4, "Rating: 4\n"),
    *each(2, "\n\n  Rating: 2  \n\n"),
    # case, spaces and colons
    *each(3, "rating: 3", "RATING: 3", "RaTiNg:3", "Rating : 3", "Rating:\t3", "Rating:\xa03", "Rating:\u30003",
        "Rating：3", "Rating ： ３", "Rating﹕3", "Rating= 3", "Rating 3", "Rating - 3", "Rating – 3", "Rating — 3",
        "Rating—3", "Rating → 3", "Rating is 3", "Rating is: 3"),
    # list marks and quote marks
    *each(3, "- Rating: 3", "* Rating: 3", "+ Rating: 3", "• Rating: 3", "– Rating: 3", "2. Rating: 3",
        "2) Rating: 3", "(2) Rating: 3", "b) Rating: 3", "12.\u200b Rating: 3", "> Rating: 3", "> > **Rating:** 3",
        "1. Feedback: fine\n2. Rating: 3"),
    # headings, emphasis, code, tables
    *each(3, "# Rating: 3", "### **Rating: 3**", "**Rating:** 3", "**Rating**: 3", "**Rating: 3**",
        "***Rating:*** ***3***", "__Rating__: 3", "_Rating: 3_", "**_Rating: 3_**", "Rating: **3**", "Rating: *3*.",
        "Rating: `3`", "`Rating: 3`", "```\nFeedback: fine\nRating: 3\n```", "| Rating | 3 |", "Rating\\: 3",
        "⭐ Rating: 3"),
    # quotation marks and brackets
    *each(3, 'Rating: "3"', "Rating: '3'", "Rating: “3”", "Rating: „3“", "Rating: «3»", "Rating: ‘3’.", "Rating: 「3」",
        '"Rating: 3"', "“Rating”: 3", "[Rating: 3]", "[Rating]: 3", "Rating: [3]", "Rating: [[3]]", "[[Rating: 3]]",
        "Rating: (3)", "Rating (3)", "Rating [3/4]", "Rating: {3}", "Rating: <3>", "<Rating: 3>",
        "<rating>3</rating>", "Rating: 【3】", "Rating: （3）", '{\n  "feedback": "fine",\n  "rating": 3\n}',
        '{"Rating": "3"}'),
    # out of the high end
    *each(3, "Rating: 3/4", "Rating: 3 / 4", "Rating: **3**/4", "Rating: **3** / **4**", "Rating: 3／4",
        "Rating: 3/4.0", "Rating: 3 out of 4", "Rating: 3 Out Of 4.", "Rating: 3 (out of 4)", "Rating: 3 of 4",
        "Rating: 3 stars out of 4", "Rating: 3★/4", "Rating: 3 points (out of 4)", "Rating: 3 out of a possible 4",
        "Rating: 3 out of a maximum of 4", "Rating: 3 on a scale of 0 to 4", "Rating: 3 (scale: 0-4)"),
    *each(4, "Rating: 4/4", "Rating: 4.0/4"),
    *each(0, "Rating: 0/4"),
    # the stated scale is not the rating
    *each(3, "Rating (0-4): 3", "Rating (0–4): 3", "Rating [0-4]: 3", "**Rating (0-4):** 3", "**Rating** (0 to 4): 3",
        "Rating (out of 4): 3", "Rating out of 4: 3", "Rating (/4): 3", "Rating（0-4）：3",
        "Rating (0 = bad, 4 = good): 3", "Rating (0 = bad (really), 4 = good): 3", "Rating (helpfulness) (0-4): 3",
        "Rating (4): 3", "Rating: 3 (0-4)", "Rating on a scale of 0 to 4: 3", "Rating on a scale from 0-4: 3",
        "Rating for style: 3", "Rating for response 2: 3", "Rating of the response: 3",
        "Rating scale: 0-4\nRating: 3", "Rating: 3\nRating scale: 0-4"),
    # the word score
    *each(3, "Rating: Score 3", "Rating: score: 3", "Rating: Score of 3", "Rating: **Score 3**: mostly right",
        "Rating score: 3", "Rating: [Score 3]"),
    # integral decimals and other digits
    *each(3, "Rating: 3.0", "Rating: 3.00", "Rating: 03", "Rating: +3", "Rating: ３", "Rating: ３．０", "Rating: ٣",
        "Rating: 3\ufe0f\u20e3", "Rating: 3分"),
    # a full stop or an explanation after it
    *each(3, "Rating: 3.", "Rating: 3。", "Rating: 3!", "Rating: 3.)", "Rating: 3, mostly right",
        "Rating: 3 because it cites sources", "Rating: 3. It should cite sources or examples.",
        "Rating: 3 - good, but terse", "Rating: 3 — It could be clearer", "Rating: 3: good", "Rating: 3, no sources",
        "Rating: 3 = good", "Rating: 3 points", "Rating: 3 out of 4 points",
        "Rating: 3, one of the best", "Rating: 3/4 good", "Rating: 3, I agree", "Rating: 3⭐", "Rating: 3<br>",
        "Rating: 3/4 (out of 4)",
        "Rating: 3 (good) out of 4", "Rating: 3, on a scale of 0 to 4", "Rating: 3\n\n---"),
    # LaTeX
    *each(3, "Rating: \\boxed{3}", "Rating: $3$", "Rating: $$3$$", "Rating: $\\boxed{3}$", "Rating: \\(3\\)", "Rating: $3/4$",
        "Rating: \\boxed{\\text{3}}", "Rating: \\textbf{3}/4"),
    # alone on the next line
    *each(3, "### Rating\n3", "Rating:\n3", "**Rating:**\n\n**3/4**\n\nBye 1.",
        "Rating:\n3 out of 4\r\n", "Rating:\n\\boxed{3}"),
    # JSON in one line, whatever was requested
    *each(3, '{"Feedback": "x", "Rating": 3}', '```json\n{"Feedback": "Rating: 1", "RATING": "3/4"}\n```',
        '{"feedback": "It prints <think>.", "rating": 3}', '{"rating": 3}<|im_end|>', '<think>x</think>{"rating": 3.0}'),
    # letters of other widths, and characters that nobody sees within the word
    *each(3, "R\u200bating: 3", "Ra\u00adting: 3", "Ｒａｔｉｎｇ：３", "𝐑𝐚𝐭𝐢𝐧𝐠: 𝟑"),
    # which line speaks
    *each(3, "Rating: 3\nThe answer names 2 of 4 causes.", "Rating: 3\nRating: 3", "Rating: 3\n\n**Rating: 3/4**",
        "Rating: Score of the response\n\nFeedback: fine\nRating: 3", "Rating: <your rating>\nRating: 3",
        "Rating:\nRating: 3", "### Rating\nRating: 3", "Rating: 3\nRating explanation: it has 2 flaws",
        "My rating: 1\nRating: 3", "~~Rating: 2~~\nRating: 3", "Rating: 3\n</rating>", "Score: 1\nRating: 3"),
    # line ends
    *each(3, "Feedback: a\r\nRating: 3\r\n", "Feedback: a\rRating: 3\r", "Feedback: a\u2028Rating: 3",
        "Feedback: a\u2029Rating: 3\x85", "Feedback: a\x0bRating: 3\x0c"),
    # a remark that takes nothing back, though another with the same word would
    *each(3, "Rating: 3. Actually useful.", "Rating: 3 (one minor error)", "Rating: 3 - one factual error",
        "Rating: 3 (two small issues)", "Rating: 3 (strict reading)", "Rating: 3 (corrected a misconception)",
        "Rating: 3. It actually answers the question."),
    # what stands around unseen
    *each(3, "\ufeffRating: 3", "\u200bRating:\u200b3\u200b", "\x00Rating: 3\x00",
        "Feedback: \ud800\nRating: 3 \udfff"),
]
# fmt: on

# fmt: off
UNRATED = [
    # missing: no rating line, or no number in the last one
    *each("missing", "The response is good.", "3", "Feedback: it deserves a 3.", "Feedback: fine. Rating: 3",
        "Final rating: 3", "My rating is 3", "Ratings: 4", "Ratingless 4", "Rating4: 3", "Rating's 3",
        "Rating scale: 4", "Rating criteria: 1. accuracy", "Rating", "Rating:", "Rating:\n- 3", "Rating:\n3 flaws",
        "Rating: N/A", "Rating: none", "Rating: three", "Rating: Score of the response",
        "Rating: <an integer from 0 to 4>", "Rating: I would give it a 3", "Rating: ⭐⭐⭐", "Rating: ~3", "Rating: <3",
        "Rating: - 3", "Rating: --3", "Rating (3): good", "Rating (0-4)", "Rating (0-4):",
        "Rating (0 = bad, 4 = good)", "Rating (0 = bad (really), 4", "Rating: 3\nRating: N/A", "Rating: 3\nRating:",
        "~~Rating: 3~~", "</rating> 3", "Feedback: fine\\nRating: 3", "\x1b[1mRating: 3\x1b[0m", "\x00"),
    # out of range: a number, and not one on this scale
    *each("out_of_range", "Rating: 5", "Rating: 33", "Rating: -1", "Rating: −1", "Rating: –1", "Rating -3",
        "Rating: -3/4", "Rating: 8/10", "Rating: 3/5", "Rating: 3/10", "Rating: 3 / **10**", "Rating: 3 out of 5",
        "Rating: 3 (out of 10)", "Rating: 3 of 5 stars", "Rating: 3 stars out of 10", "Rating: 3★/5",
        "Rating: 3 (out of a total of 10)", "Rating: 3 on a scale of 1 to 10", "Rating on a scale of 1 to 10: 3",
        "Rating: 3 on a scale from 1-5", "Rating: 3 (scale 1-5)", "Rating: 3 on a scale of 1 to 4", "Rating (1-5): 3",
        "Rating (out of 10): 3",
        "Rating: 3.5/5", "Rating: 7\nRating: 7", "Rating: " + "9" * 10_000, "Rating: 3/" + "4" * 10_000),
    # not an integer
    *each("not_an_integer", "Rating: 3.5", "Rating: 3,5", "Rating: 4,0", "Rating: 1,000", "Rating: 3.5/4",
        "Rating: **3.5**", "Rating: 3．5", "Rating: ٣٫٥", "Rating: 3.25.", "Rating: 2.999", "Rating: .5", "Rating: 3%",
        "Rating: 3 %", "Rating: 3rd of the answers", "Rating: 3x"),
    # ambiguous: a range, two numbers, two lines
    *each("ambiguous", "Rating: 0-4", "Rating: 3-4", "Rating: 3–4", "Rating: 3 - 4", "Rating: 3 – 4 points",
        "Rating: 3—4", "Rating: **3** - **4**", "Rating: 3~4", "Rating: 3..4", "Rating: 3 to 4", "Rating: 3to4",
        "Rating: 3 or 4", "Rating: 3 or maybe a 4", "Rating: 3, or 4", "Rating: 3 (or 4)", "Rating: 3 or higher",
        "Rating: 3? Or 4?", "Rating: 3 and 4", "Rating: 3 & 4", "Rating: 3 -> 4", "Rating: 3 → 4", "Rating: 3.5-4",
        "Rating: 3/4 - 4/4", "Rating: 3-4/4", "Rating: 3, 4", "Rating: 3 4", "Rating: 3; 4.", "Rating: 3 (4)",
        "Rating: 2 3/4", "Rating: 3/4/4", "Rating: 2 + 1 = 3", "Rating: 0 = bad, 4 = good",
        "Rating: 0 (bad) to 4 (good)", "Rating: 0 (bad), 1 (poor), 2 (fair)", "Rating: 0: bad, 1: poor, 2: fair",
        "Rating: 3½", "Rating: 3 ½", "Rating: 3²", "Rating: 3 (④)", "Rating: 3 – ٤", "Rating: 3e0", "Rating: 3:1 odds",
        "Rating: 3 because 2 of 4 points are covered", "Rating: 3 (2 of 4)", "Rating: 3 (good; not 4)",
        "Rating: 3 and a half", "Rating: 3 out of four", "Rating: 3 (good)/10", "Rating: 0, 1, 2, 3, or 4",
        "Rating: 0|1|2|3|4", "Rating:\n0\n1\n2\n3\n4", '{"rating": "3 or 4"}', '{"rating": 3, "Rating": 4}',
        # taken back
        "Rating: 3-", "Rating: 3+", "Rating: 3 -", "Rating: 3?", "Rating: 3 (?)", "Rating: 3~", "Rating: 3, at most",
        "Rating: 3 max", "Rating: 3 (typo)", "Rating: 3 — mistake, see below", "Rating: 3. I take it back.", "Rating: 3, void",
        "Rating: 3. Let me reconsider.", "Rating: 3 (draft)", "Rating: 3, penalised for length", "Rating: 3. Sorry, not that.",
        "Rating: 3 would be too generous", "Rating: 3... actually less", "Rating: 3. No wait.",
        "Rating: 3, lowered for style", "Rating: 3 (a bit high)", "Rating: 3 minus one", "Rating: 3 if lenient",
        "Rating: 3 points, if generous", "Rating: 3, almost", "Rating: 3 of the claims", "Rating: 3 → lower",
        "Rating: 3 (IV)", "Rating: 3 of 4 claims", "Rating: 3 **of 4** correct", "Rating: 3/4 claims hold", "Rating: 3 errors",
        "Rating: 3. Actually lower.", "Rating: 3. Actually not", "Rating: 3. Actually it is worse", "Rating: 3 (one point off)",
        "Rating: 3, one less", "Rating: 3 (one or two)", "Rating: 3, two errors less", "Rating: 3 (three errors or four)",
        "Rating: 3 (strict)", "Rating: 3, corrected", "Rating: 3 (lowered the score)", "Rating: 3 (raised a bit)",
        "Rating: 2024-01-03", "Rating: 3\nRating: 4", "Rating: 3\nFeedback: or rather\nRating: 2",
        "Rating: 3\nRating: 7", "Rating: 7\nRating: 3", "Rating: 7\nRating: 8", "Rating: 3\nRating: 3.5",
        "Rating: 3/4\nRating: 3/10", "Rating: 0-4\nRating: 3", "Rating for style: 2\nRating for facts: 3"),
    # empty
    *each("empty", None, "", " \r\n\t\u3000"),
]


OTHER_SCALES = [
    ("Rating: 7", SEVEN, 7), ("Rating: 7/7", SEVEN, 7), ("Rating (1-7): 5", SEVEN, 5),
    ("Rating: 0", SEVEN, "out_of_range"), ("Rating: 3/4", SEVEN, "out_of_range"),
    ("Rating: 85", HUNDRED, 85), ("Rating: 85/100", HUNDRED, 85), ("Rating: 100.", HUNDRED, 100),
    ("Rating: 8.5/10", HUNDRED, "out_of_range"), ("Rating: 1,00", HUNDRED, "not_an_integer"),
    ("Rating: 1 00", HUNDRED, "ambiguous"), ("Rating: 85%", HUNDRED, "not_an_integer"),
    ("Rating: -1", SIGNED, -1), ("Rating: −2", SIGNED, -2), ("Rating: +2", SIGNED, 2), ("Rating: -0", SIGNED, 0),
    ("Rating (-2 to 2): -1", SIGNED, -1), ("Rating: -2-2", SIGNED, "ambiguous"),
    ("Rating: -2 to -1", SIGNED, "ambiguous"), ("Rating: -3", SIGNED, "out_of_range"),
]  # fmt: skip

# fmt: on


# fmt: off
REASONED = [
    *each(3, "<think>Rating: 1</think>Rating: 3", "<think>\nRating: 1\n</think>\n\nFeedback: fine\nRating: 3",
        "<THINK>\nRating: 1\n</Think>\nRating: 3", "Rating: 1 may do.\n</think>\nRating: 3",
        "<think>a</think>\nRating: 1\n</think>\nRating: 3", "<think>a <think> b</think>\nRating: 3",
        "Rating: 3\n<think>Rating: 1</think>", "Rating: 3\n<think>\nRating: 1", "Rating: <think>hm</think>3"),
    *each(3, *(f"{before}\nRating: 1\n{after}Rating: 3" for before, after in [
        ("<thinking>", "</thinking>\n"), ("<critique>", "</critique>\n"), ("Thinking...\n", "\n...done thinking.\n"),
        ("<Reasoning>", "</Reasoning>\n"), ("<seed:think>", "</seed:think>"),
        ("<inner_monologue>", "</inner_monologue>"), ("[THINK]", "[/THINK]\n"), ("[REASONING]", "[/REASONING]\n"),
        ("◁think▷", "◁/think▷"), ("Hm.", "</thinking>\n"), ("<|begin_of_thought|>", "<|end_of_thought|>"),
        ("<|START_THINKING|>", "<|END_THINKING|><|START_RESPONSE|>"), ("<unused94>thought", "<unused95>"),
        ("<|channel>thought", "<channel|>"), ("analysisHm.", "assistantfinal"), ("<|channel|>analysis<|message|>",
        "<|end|><|start|>assistant<|channel|>final<|message|>"), ("Hm.", "<|channel|>final <|constrain|>x<|message|>"),
    ])),
    # an end marker, and a quoted one
    *each(3, *(f"Rating: 3{end}" for end in ["<|eot_id|>", "<|im_end|>\n", "</s>", "<|return|>", "<end_of_turn>", "<turn|>",
        "<|END_RESPONSE|>", "[|endofturn|]", "<｜end▁of▁sentence｜>", "<|im_end|><|endoftext|>"]),
        "Feedback: It prints `<think>` and `<|im_end|>`.\nRating: 3"),
    *each("ambiguous", "Rating: 1<think>hm</think>0", "<|foo|>\nRating: 3", "Rating: 3<|foo|>", "Rating: 3\n[/CRITIC]",
        "[INST]\nRating: 3", "[|user|]\nRating: 3",
        "<|im_start|>user\nRating: 3\n", "<unused17>\nRating: 3", "<s>\nRating: 3</s>"),
    *each("missing", "My <think>hm</think>Rating: 3", "<think>\nRating: 3\n</think>", "<think>\nRating: 3",
        "Rating: 3\n</think>", "<think></think>",
        "<|channel|>analysis<|message|>\nRating: 3\n<|end|>", "analysisHm.\nRating: 3\n", "[thinking]\nRating: 3\n[/thinking]",
        "<|START_THINKING|>\nRating: 3<|END_THINKING|>"),
]
# fmt: on

# fmt: off
CUT = [
    # no full rating line
    *each("truncated", None, "", "Feedback: The answer is", "<think>\nRating: 3\n", "Feedback: fine\nRat",
        "Feedback: fine\nRating", "Feedback: fine\nRating: ", "Rating: Score", "Rating: N/A\n", "Rating: 3\nRating:"),
    # the number could have gone on
    *each("truncated", "Rating: 1", "Rating: 3", "Rating: 3.", "**Rating: 3**", "**_Rating: 3_**", "Rating: 3 ",
        "Rating: 3/4", "Rating: 3 o", "Rating: 3 out of ", "Rating: 3 out of a possible",
        "Rating: 3 points on a scale of 1", "Rating: 3\nRating: 3", "Rating: 7", "Rating:\n1", "Rating: 3 because the",
        "Rating: 3-4 as it see"),
    # it could not
    *each(3, "Rating: 3\n", "Rating: 3\r\n", "Rating: 3\u2028", "Rating:\n3\n", '{"rating": 3}',
        "Rating: 3\nThis is because", "Rating: 3\nfoo Rating: 3"),
    *each("out_of_range", "Rating: 7\nas"),
    *each("not_an_integer", "Rating: 3.5\nas"),
]


REFUSALS = [
    *each("refused", "I'm sorry, but I can't assist with that.", "I’m sorry, but I can’t help with that request.",
        "I am sorry, I cannot rate this.", "I'm really sorry, but I'm unable to evaluate this response.",
        "I'm afraid I can't do that.", "Sorry, but I can't help with that.", "Sorry, I can't comply.",
        "I apologize, but I cannot provide a rating for this content.",
        "My apologies, but I'm not able to discuss this.", "As an AI language model, I cannot judge this.",
        "As a large language model, I am unable to do so.", "Unfortunately, I can't rate this response.",
        "I can't assist with that.", "I cannot fulfill this request.", "I won't engage with this.",
        "I'm unable to help with that.", "I must decline.", "I'm sorry, but I must respectfully decline.",
        "**I'm sorry, but I can't assist.**",
        "<think>this is harmful</think>\n\nI'm sorry, but I can't assist with that."),
    # plain talk
    *each("missing", "I can't find any flaw in this response.", "I cannot stress enough how good this is.",
        "I'm sorry to say that the response is wrong.", "Sorry, the response is wrong.",
        "Feedback: I'm sorry, but I can't assist with that.",
        "The response says: I'm sorry, but I can't assist with that.", "Unfortunately, the response is wrong.",
        "As an AI language model would say, it is good.", "I'm sorry, but I can't help with that.\nRating: N/A"),
    *each(0, "I'm sorry, but I can't see how this helps.\nRating: 0"),
]  # fmt: skip

# fmt: on


FEEDBACK = [
    ("Feedback: Clear.\nRating: 3", "Clear."),
    ("Feedback: Clear.\nAnd correct.\n\nRating: 3\nBye", "Clear.\nAnd correct."),
    ("Feedback:\nClear.\n\nShort.\nRating: 3", "Clear.\n\nShort."),
    ("**Feedback:** *Very* clear.\n**Rating:** 3", "*Very* clear."),
    ("**Feedback**: Clear.\n**Rating**: 3", "Clear."),
    ("### Feedback\nClear.\n### Rating: 3", "Clear."),
    ("1. feedback：Clear.\n2. rating：3", "Clear."),
    ("- `Feedback`: Clear.", "Clear."),
    ("Feedback: A.\nFeedback: B.\nRating: 3", "A.\nFeedback: B."),
    ("Feedback: (here)\nRating: (here)\nFeedback: Clear.\nRating: 3", "Clear."),
    ("Feedback: Clear.\nRating: 3\nRating: 3", "Clear."),
    ("Rating: 3\nFeedback: Clear.\nBye", "Clear.\nBye"),
    ("Feedback: Clear.\nRating: 3\nFeedback: Anew.", "Clear."),
    ("<think>Feedback: Hm.</think>Feedback: Clear.\nRating: 3", "Clear."),
    ("Feedback: Clear but cut", "Clear but cut"),
    ("Feedback:\nRating: 3", ""),
    ("Clear.\nRating: 3", ""),
    ("Feedbacks: Clear.\nRating: 3", ""),
    ("My feedback: Clear.\nRating: 3", ""),
    ("Feedback is hard.\nRating: 3", ""),
    ("", ""),
    (None, ""),
]


def test_reads_a_rating_in_any_dress_or_says_why_there_is_none() -> None:
    for text, found in [*RATED, *UNRATED, *REASONED, *REFUSALS]:
        assert read(text) == found, (text, found)


def test_reads_a_cut_answer_only_if_its_rating_line_is_full() -> None:
    for text, expected in CUT:
        assert read(text, finish_reason="length") == expected, (text, expected)
    for reason in ("error", "abort", "MAX_TOKENS", "model_length", "tool_calls", "unheard-of"):
        assert read("Rating: 1", finish_reason=reason) == "truncated", reason
    for complete in (None, "", "stop", "STOP", "end_turn", "eos"):
        assert read("Rating: 1", finish_reason=complete) == 1, complete


def test_reads_ratings_on_any_scale() -> None:
    for text, scale, expected in OTHER_SCALES:
        assert read(text, scale) == expected, (text, scale, expected)


def test_believes_the_endpoint_that_an_answer_was_refused_or_filtered() -> None:
    for text in (None, "", "Rating: 3"):
        assert RATING.parse(text, FIVE, refusal="I can't help with that.").reason == "refused", text
        for reason in ("content_filter", "SAFETY", "RECITATION", "PROHIBITED_CONTENT"):
            assert RATING.parse(text, FIVE, finish_reason=reason).reason == "filtered", (
                text,
                reason,
            )
        assert (
            RATING.parse(text, FIVE, finish_reason="content_filter", refusal="No.").reason
            == "filtered"
        ), text


def test_takes_an_empty_refusal_for_none() -> None:
    assert RATING.parse("Rating: 3", FIVE, finish_reason="stop", refusal="").value == 3


def test_keeps_the_feedback_without_its_label() -> None:
    for text, feedback in FEEDBACK:
        assert RATING.parse(text, FIVE).feedback == feedback, (text, feedback)


LONG = 50_000
HEADS = ["", "Rating", "Rating:", "Rating: 3", "Rating: 3 or", "Rating (", "Rating of", "Feedback"]
FILLINGS = [
    " ", "*", "(", ")", "()", "(a)", "((a)", "1", "1.", "1-", "1 to ", "/1", "of 1 ", "<", "<1", "<think>", "</think>",
    "\n", "\r", "-", "=", "1=", ":", ", ", "1, ", "or a ", "a ", "to ", "I am ", "sorry ", "Rating ", "\x00", "\ud800",
    "１", "“", "Rating:\n", "Rating: 3\n", "rating: 1 2\n", "Feedback:\n",
]  # fmt: skip


def test_gets_through_any_length_of_anything() -> None:
    def filled(head: str, filling: str, size: int) -> str:
        return head + filling * (size // len(filling)) + "x"

    for filling in FILLINGS:
        parts = "\n".join(filled(head, filling, LONG // len(HEADS)) for head in HEADS)
        lines = "\n" in filling or "\r" in filling
        for text in (
            [parts]
            if lines
            else [parts, *(filled(head, filling, LONG) for head in ("Rating: 3", "I'm sorry"))]
        ):
            assert RATING.parse(text, FIVE, finish_reason="length").reason in (None, *REASONS), (
                filling
            )
            assert lines or RATING.parse(text, FIVE).reason in (None, *REASONS), filling


# a busy machine is no reason to fail
UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

SCALES = st.builds(
    lambda low, width: Scale(low, low + width), st.integers(-20, 20), st.integers(1, 100)
)
ENDINGS = st.sampled_from([None, "stop", "length", "content_filter", "tool_calls", "\ud800"])
ANYTHING = st.text(alphabet=st.characters(exclude_categories=()))
PIECES = [
    "Rating", "rating", "RATING", "Feedback", "score", "is", "for", "of", "out of", "or", "to", "scale", "stars", "N/A",
    "because", ":", "：", " ", "\n", "\r\n", "\u2028", "*", "**", "_", "`", "> ", "- ", "1. ", "#", "|", "~~", '"', "“",
    "(", ")", "[", "]", "<", ">", "<think>", "</think>", "0", "1", "3", "4", "10", "３", "²", "½", ".5", ",5", ".0",
    "-", "–", "—", "−", "+", "/", "/4", "=", "%", "...", "~", "\x00", "\ud800", "\ufeff", "\u200b",
    "I'm sorry, but I can't", "Rating: 3", "\nRating: ", "\nRating (0-4): ",
]  # fmt: skip
FRAGMENTS = st.lists(st.sampled_from(PIECES) | ANYTHING).map("".join)
TEXTS = st.one_of(ANYTHING, FRAGMENTS)


def without_rating_lines(text: str) -> str:
    """The text with a word put before Rating wherever it comes first in a line, and without markers."""
    text = re.sub("think", "thank", text, flags=re.IGNORECASE)
    return "".join(
        re.sub("rating", "my rating", line, flags=re.IGNORECASE)
        for line in text.splitlines(keepends=True)
    )


@settings(UNHURRIED, max_examples=80)
@given(text=st.none() | TEXTS, scale=SCALES, finish_reason=ENDINGS, refusal=st.none() | ANYTHING)
def test_gives_a_rating_on_the_scale_or_a_known_reason(
    text: str | None, scale: Scale, finish_reason: str | None, refusal: str | None
) -> None:
    rating = RATING.parse(text, scale, finish_reason=finish_reason, refusal=refusal)
    if rating.value is None:
        assert rating.reason in REASONS
    else:
        assert rating.reason is None
        assert scale.low <= rating.value <= scale.high


BEFORE = [
    *("", "  ", "- ", "* ", "• ", "> ", "1. ", "2) ", "### ", "**", "_", "`"),
    '"',
    "“",
    "[",
    "\ufeff",
    "> - **",
]


LABELS = [
    "Rating", "rating", "RATING", "**Rating**", "Rating ({low}-{high})", "Rating (out of {high})",
    "Rating for style",
]  # fmt: skip

COLONS = [": ", ":", " : ", "：", ":** ", ":\t", ": Score ", ": score: ", ": \u200b"]
NUMBERS = [
    "{k}", "{k}.0", "{k}/{high}", "{k} / {high}", "{k} out of {high}", "**{k}**", "`{k}`", '"{k}"', "“{k}”", "[{k}]",
    "[[{k}]]", "({k})", "<{k}>", "{k} ({low}-{high})", "{k} (out of {high})", "**{k}**/{high}",
]  # fmt: skip


AFTER = [
    "", ".", "**", "**.", " ", "!", ", mostly right", " because it holds", ". It has flaws.", " — good", "\nBye 1.", "\r\n",
    "<|im_end|>",
]  # fmt: skip


@settings(UNHURRIED, max_examples=60)
@given(
    data=st.tuples(*map(st.sampled_from, (BEFORE, LABELS, COLONS, NUMBERS, AFTER))),
    scale=st.builds(
        lambda low, width: Scale(low, low + width), st.integers(0, 20), st.integers(1, 100)
    ),
    place=st.integers(0, 100),
    full_width=st.booleans(),
)
def test_reads_each_rating_back_in_any_dress(
    data: tuple[str, ...], scale: Scale, place: int, full_width: bool
) -> None:
    k = scale.low + place % scale.levels
    digits = (
        str(k).translate({ord("0") + digit: ord("０") + digit for digit in range(10)})
        if full_width
        else str(k)
    )
    text = "".join(data).format(k=digits, low=scale.low, high=scale.high)
    assert read(text, scale) == k
    assert read(f"Feedback: fine\n{text}", scale) == k


@UNHURRIED
@given(text=TEXTS.map(without_rating_lines), scale=SCALES, finish_reason=ENDINGS)
def test_reads_no_rating_where_no_line_starts_with_rating(
    text: str, scale: Scale, finish_reason: str | None
) -> None:
    assert RATING.parse(text, scale, finish_reason=finish_reason).value is None


@UNHURRIED
@given(before=TEXTS.map(without_rating_lines), said=TEXTS, scale=SCALES, finish_reason=ENDINGS)
def test_reads_the_same_whatever_stands_before(
    before: str, said: str, scale: Scale, finish_reason: str | None
) -> None:
    answer = "Rating:" + re.sub("think", "thank", said, flags=re.IGNORECASE)
    assert read(f"{before}\n{answer}", scale, finish_reason=finish_reason) == read(
        answer, scale, finish_reason=finish_reason
    )


@UNHURRIED
@given(said=TEXTS, k=st.integers(0, 4), other=st.integers(-100, 100))
def test_never_picks_one_of_two_lines_that_differ(said: str, k: int, other: int) -> None:
    expected = k if k == other else "ambiguous"
    middle = without_rating_lines(said)
    assert read(f"Rating: {other}\n{middle}\nRating: {k}") == expected
