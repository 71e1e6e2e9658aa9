"""What is kept of a reply: a judgment for each answer, and what the request took once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from robin_cli.ask.asking import Interview
from robin_cli.ask.prompts import load_prompts
from robin_cli.model.exchange import Answer, Failure, Reply
from robin_cli.model.records import Judgment, Scale, Usage
from robin_cli.model.space import ArmSpace

SPACE = ArmSpace(["p", "q"], ["clarity", "tone"], ["big", "small"], [Scale(0, 4), Scale(1, 10)])
RATE = load_prompts(["helpfulness"])
USAGE = Usage(prompt_tokens=100, completion_tokens=20, cost_usd=0.5)


def read(
    arm: int, outcome: Reply | Failure, notes: list[str] | None = None, **how: object
) -> list[Judgment]:
    settings = {"answers": ["text"] * 2} | how
    said = [] if notes is None else notes
    return Interview(RATE, SPACE, notify=said.append, **settings).judgments(arm, 7, outcome)  # type: ignore[arg-type]


def reply(*texts: str, usage: Usage = USAGE) -> Reply:
    return Reply(
        tuple(Answer(text, finish_reason="stop") for text in texts), "big-2", usage, "id", 1.5
    )


def test_keeps_a_judgment_for_each_answer_numbered_from_the_draw_on() -> None:
    judgments = read(
        SPACE.arm_at(1, 1, 0).item(), reply("Feedback: so.\nRating: 7", "no idea", "Rating: 10")
    )

    assert [each.draw for each in judgments] == [7, 8, 9]
    assert [each.rating for each in judgments] == [7, None, 10]
    assert [each.status for each in judgments] == ["ok", "unparsed", "ok"]
    assert [each.reason for each in judgments] == [None, "missing", None]
    assert {(each.pair_id, each.attribute, each.judge) for each in judgments} == {
        ("q", "tone", "big")
    }
    assert {(each.model, each.request_id, each.latency_s) for each in judgments} == {
        ("big-2", "id", 1.5)
    }
    assert judgments[0].feedback == "so."


@pytest.mark.parametrize(("cost", "costs"), [(0.5, [0.5, 0.0, 0.0]), (None, [None, None, None])])
def test_counts_what_a_request_took_once(cost: float | None, costs: list[float | None]) -> None:
    usage = replace(USAGE, cost_usd=cost, estimated=True)
    judgments = read(0, reply("Rating: 1", "Rating: 2", "Rating: 3", usage=usage))

    assert [each.prompt_tokens for each in judgments] == [100, 0, 0]
    assert [each.completion_tokens for each in judgments] == [20, 0, 0]
    assert [each.usage_estimated for each in judgments] == [True, False, False]
    assert [each.cost_usd for each in judgments] == costs  # unknown for one is unknown for all


def test_keeps_a_failure_as_one_judgment_with_its_reason() -> None:
    (judgment,) = read(1, Failure("http_500", "oops", 0.25))

    assert (judgment.status, judgment.reason, judgment.text) == ("failed", "http_500", "oops")
    assert (judgment.draw, judgment.judge, judgment.latency_s) == (7, "small", 0.25)
    assert (judgment.rating, judgment.cost_usd, judgment.prompt_tokens) == (None, None, None)


def test_says_once_of_each_judge_that_its_answers_do_not_have_the_format() -> None:
    notes: list[str] = []
    reader = Interview(RATE, SPACE, answers=["json"] * 2, notify=notes.append)
    for arm in (0, 1, 0, 1):
        reader.judgments(arm, 0, reply("Rating: 3"))
    reader.judgments(0, 0, reply('{"feedback": "", "rating": 3}'))

    assert [note.partition(":")[0] for note in notes] == ["big", "small"]
    assert all("--answers json" in note for note in notes)


def test_goes_by_the_text_and_says_why_where_no_log_probabilities_came() -> None:
    (judgment,) = read(0, reply("Feedback: so.\nRating: 3"), answers=["logprobs"] * 2)

    assert (judgment.rating, judgment.expected_rating, judgment.scoring) == (3, None, "text")
    assert judgment.text_because is not None
    (unread,) = read(0, reply("no idea"), answers=["logprobs"] * 2)
    assert unread.text_because is None
