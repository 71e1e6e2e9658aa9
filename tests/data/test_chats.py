"""Conversations as lists of messages, and items of lists by their number."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from robin_cli.data.chats import readable_turns
from robin_cli.data.comparisons import load_comparisons
from robin_cli.data.pairs import load_pairs
from robin_cli.model.errors import InputError
from tests.data.writing import WRITERS, as_lines, complaint, written

NESTED = [".jsonl", ".json", ".parquet"]
USER, ANSWER = {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello!"}
LONG = [
    {"role": "system", "content": "Be brief."},
    USER,
    ANSWER,
    {"role": "user", "content": "A haiku, please."},
    {"role": "assistant", "content": "Old pond."},
]
READ = "System: Be brief.\n\nUser: Hi\n\nAssistant: Hello!\n\nUser: A haiku, please."


def loaded(folder: Path, suffix: str, row: dict[str, Any], **columns: str) -> tuple[str, str]:
    (pair,) = load_pairs(
        written(folder, f"chat{suffix}", WRITERS[suffix]([row])), columns=columns or None
    ).pairs
    return pair.prompt, pair.response


@pytest.mark.parametrize("suffix", NESTED)
def test_reads_a_conversation_as_prompt_and_response(tmp_path: Path, suffix: str) -> None:
    for name in ("messages", "conversation"):
        assert loaded(tmp_path, suffix, {name: [USER, ANSWER]}) == ("Hi", "Hello!")
        assert loaded(tmp_path, suffix, {name: LONG, "id": "a"}) == (READ, "Old pond.")
    assert loaded(tmp_path, suffix, {"prompt": LONG[:-1], "response": "Old pond."}) == (
        READ,
        "Old pond.",
    )
    assert loaded(tmp_path, suffix, {"prompt": LONG[:-1], "response": LONG[-1:]}) == (
        READ,
        "Old pond.",
    )
    assert loaded(tmp_path, suffix, {"messages": LONG[:-1], "response": "Old pond."}) == (
        READ,
        "Old pond.",
    )
    assert loaded(tmp_path, suffix, {"messages": LONG, "response": "Old pond."}) == (
        READ,
        "Old pond.",
    )
    # its first turn
    assert loaded(tmp_path, suffix, {"prompt": "Hi", "messages": LONG}) == (READ, "Old pond.")
    assert loaded(tmp_path, suffix, {"prompt": "p", "response": "r", "messages": LONG}) == (
        "p",
        "r",
    )
    assert readable_turns(READ) == READ


@pytest.mark.parametrize("suffix", NESTED)
def test_reads_a_conversation_that_is_named_and_guesses_none_of_two(
    tmp_path: Path, suffix: str
) -> None:
    row = {"chosen": LONG, "rejected": [*LONG[:-1], ANSWER]}
    assert loaded(tmp_path, suffix, row, prompt="chosen", response="chosen") == (READ, "Old pond.")
    assert loaded(tmp_path, suffix, row, prompt="rejected", response="rejected") == (READ, "Hello!")
    assert loaded(tmp_path, suffix, {"q": "Say hi.", **row}, prompt="q", response="rejected") == (
        "Say hi.",
        "Hello!",
    )
    said = complaint(written(tmp_path, f"chat{suffix}", WRITERS[suffix]([row])))
    assert 'no field "prompt" or "response"' in said


@pytest.mark.parametrize("suffix", NESTED)
def test_names_tools_and_joins_parts_of_text(tmp_path: Path, suffix: str) -> None:
    parts = [{"type": "text", "text": "What is"}, {"type": "text", "text": "the weather?"}]
    in_parts = [{"role": "user", "content": parts}, {"role": "assistant", "content": parts}]
    assert loaded(tmp_path, suffix, {"messages": in_parts}) == (
        "What is\nthe weather?",
        "What is\nthe weather?",
    )
    call = {
        "id": "1",
        "type": "function",
        "function": {"name": "weather", "arguments": '{"city": "Oslo"}'},
    }
    messages = [
        {"role": "user", "content": "Oslo?", "tool_calls": None},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "Rain.", "tool_calls": None},
        {"role": "assistant", "content": "It rains.", "tool_calls": None},
    ]
    prompt = 'User: Oslo?\n\nAssistant: [calls weather({"city": "Oslo"})]\n\nTool: Rain.'
    assert loaded(tmp_path, suffix, {"messages": messages}) == (prompt, "It rains.")


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_reads_a_prompt_and_a_response_that_are_both_lists_as_text(
    tmp_path: Path, suffix: str
) -> None:
    texts = {"prompt": json.dumps([USER]), "response": json.dumps([ANSWER])}
    assert loaded(tmp_path, suffix, texts) == ("Hi", "Hello!")
    beside = {"prompt": "Hi", "response": json.dumps([ANSWER])}  # a model may answer with a list
    assert loaded(tmp_path, suffix, beside) == ("Hi", json.dumps([ANSWER]))


SHORT = {"USER": json.dumps(USER), "ANSWER": json.dumps(ANSWER), "DEEP": "[" * 300 + "]" * 300}
HOSTILE = r"""
[USER] → field "messages" ends with a turn of user, so it holds no response. End it with
[ANSWER] → field "messages" holds nothing before its last answer. Give it a prompt, or leave
[USER, "Hello!"] → message 2 of field "messages" is text, not an object. Write it as {"role"
[USER, {"content": "x"}] → message 2 of field "messages" has no role. Write it as
[{"role": 7, "content": "x"}, ANSWER] → message 1 of field "messages" has no role.
[{"role": "user:\nSystem", "content": "x"}, ANSWER] → has the role "user:\nSystem".
[USER, {"role": "assistant", "content": null}] → message 2 of field "messages" has no content.
[USER, {"role": "assistant", "content": 7}] → has a content that is a number, not text.
[{"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "x"}}]}, ANSWER]
  → part 1 of message 1 of field "messages" is not text (input_audio).
[USER, {"role": "assistant", "content": "\ud800"}] → holds half of a surrogate pair
[USER, {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": DEEP}}]}]
  → the arguments of a tool call cannot be written
"""


def rows_of(table: str) -> list[list[str]]:
    """The lines of a table, with its short words for messages written out."""
    for short, long in SHORT.items():
        table = table.replace(short, long)
    return [line.split(" → ") for line in table.strip().replace("\n  ", " ").splitlines()]


@pytest.mark.parametrize(("messages", "expected"), rows_of(HOSTILE))
def test_says_what_is_wrong_with_a_conversation(
    tmp_path: Path, messages: str, expected: str
) -> None:
    good = json.dumps({"messages": [USER, ANSWER]})
    path = written(tmp_path, "chat.jsonl", f'{good}\n{{"messages": {messages}}}\n'.encode())
    said = complaint(path)
    assert said.startswith("chat.jsonl:2: ")
    assert expected in said
    assert len(load_pairs(path, skip_bad_rows=True).pairs) == 1


@pytest.mark.parametrize("suffix", NESTED)
def test_leads_into_lists_by_number(tmp_path: Path, suffix: str) -> None:
    row = {
        "q": ["first", "second"],
        "reply": {"choices": [{"message": {"content": "a"}}, {"message": {"content": "b"}}]},
        "uid": ["x"],
    }
    columns = {"prompt": "q.-1", "response": "reply.choices.1.message.content", "id": "uid.0"}
    assert loaded(tmp_path, suffix, row, **columns) == ("second", "b")

    path = written(tmp_path, f"chat{suffix}", WRITERS[suffix]([row]))
    place = "chat.jsonl:1" if suffix == ".jsonl" else f"chat{suffix}:row 1"
    assert complaint(
        path, columns={**columns, "response": "reply.choices.2.message.content"}
    ).startswith(
        f'{place}: field "reply.choices.2.message.content": "reply.choices" has 2 items, and no 2 (they count from 0).'
    )
    assert f'{place}: field "uid.-2": "uid" has 1 item, and no -2' in complaint(
        path, columns={**columns, "id": "uid.-2"}
    )
    said = complaint(path, columns={**columns, "prompt": "q"})
    assert said.startswith(
        f'{place}: field "q" is a list, not text. Write it as text (or name an item of it: --columns'
    )


def test_reads_of_parquet_only_the_lists_that_are_asked_for(tmp_path: Path) -> None:
    pq.write_table(
        pa.table({"prompt": ["p"], "response": ["r"], "messages": [[USER]]}), tmp_path / "a.parquet"
    )
    data = (tmp_path / "a.parquet").read_bytes()
    column = pq.ParquetFile(tmp_path / "a.parquet").metadata.row_group(0).column(2)
    start, length = column.dictionary_page_offset, column.total_compressed_size
    path = written(tmp_path, "a.parquet", data[:start] + b"\xff" * length + data[start + length :])
    assert load_pairs(path).pairs[0].prompt == "p"


FORMS = r"""
[{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "A"}] → "Hi" → "A"
[USER, {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "A"}]}]
  → "Hi" → "A"
[USER, {"role": "assistant", "content": null, "refusal": "No."}] → "Hi" → "No."
[USER, {"role": "assistant", "content": "", "refusal": "No."}] → "Hi" → "No."
[USER, {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}] → "Hi" → "No."
[{"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}, {"type": "reasoning", "summary": []}, {"role":
  "assistant", "content": [{"type": "output_text", "text": "A"}]}] → "Hi" → "A"
[USER, {"role": "assistant", "content": [{"type": "text", "text": "Well"}, {"type": "tool_use", "id": "1", "name":
  "f", "input": {"x": 1}}]}, {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content":
  "42"}]}, ANSWER] → "User: Hi\n\nAssistant: Well\n[calls f({\"x\":1})]\n\nUser: 42" → "Hello!"
[USER, {"type": "function_call", "name": "f", "arguments": "{}", "call_id": "1"}, {"type": "function_call_output",
  "call_id": "1", "output": "42"}, ANSWER] → "User: Hi\n\nAssistant: [calls f({})]\n\nTool: 42" → "Hello!"
"""


@pytest.mark.parametrize(("messages", "prompt", "response"), rows_of(FORMS))
def test_reads_the_messages_of_other_tools(
    tmp_path: Path, messages: str, prompt: str, response: str
) -> None:
    texts = json.loads(prompt), json.loads(response)
    assert loaded(tmp_path, ".jsonl", {"conversations": json.loads(messages)}) == texts


def test_reads_transcripts_of_hh(tmp_path: Path) -> None:
    begin = "\n\nHuman: Hi\n\nAssistant: Hello!\n\nHuman: Why?\n\nAssistant: "
    row = {"chosen": begin + "So.", "rejected": begin + "No."}
    prompt = "User: Hi\n\nAssistant: Hello!\n\nUser: Why?"
    for suffix in (".jsonl", ".csv"):
        assert loaded(tmp_path, suffix, row, prompt="rejected", response="rejected") == (
            prompt,
            "No.",
        )
    columns = {"response_a": "chosen", "response_b": "rejected"}
    for suffix in (".jsonl", ".csv"):
        path = written(tmp_path, f"two{suffix}", WRITERS[suffix]([row]))
        (pair,) = load_comparisons(path, columns=columns).pairs
        assert (pair.prompt, pair.response, pair.other) == (prompt, "So.", "No.")


def test_reads_conversations_as_text_in_cells_or_refuses_them(tmp_path: Path) -> None:
    for write in (json.dumps, str):
        assert loaded(tmp_path, ".csv", {"messages": write(LONG)}) == (READ, "Old pond.")
        lists = {"prompt": json.dumps(["Hi", "Why?"]), "response": json.dumps(["Hello!", "So."])}
        assert loaded(tmp_path, ".csv", lists) == (
            "User: Hi\n\nAssistant: Hello!\n\nUser: Why?",
            "So.",
        )
    # an answer may be JSON
    asked = {"prompt": "Colours, as JSON.", "response": '["red", "blue"]'}
    assert loaded(tmp_path, ".csv", asked) == ("Colours, as JSON.", '["red", "blue"]')
    printed = str(LONG).replace("}, {", "}\n {")  # as numpy prints a list
    said = complaint(written(tmp_path, "a.csv", WRITERS[".csv"]([{"messages": printed}])))
    assert said.startswith(
        'a.csv:2: field "messages" holds a list of messages as text that is no JSON. Write it as JSON'
    )
    lists = {"prompt": '["Hi", "Why?"]', "response": '["Hello!"]'}
    said = complaint(written(tmp_path, "b.csv", WRITERS[".csv"]([lists])))
    assert 'field "response" is a list of 1 texts, and its prompt one of 2.' in said
    lists["response"] = '["Hello!", null]'
    said = complaint(written(tmp_path, "c.csv", WRITERS[".csv"]([lists])))
    assert 'field "response" holds null in place of an answer.' in said


def test_refuses_one_text_as_prompt_and_response(tmp_path: Path) -> None:
    path = written(tmp_path, "a.jsonl", as_lines([{"text": "Why? So."}]))
    assert complaint(path, columns={"prompt": "text", "response": "text"}).startswith(
        'a.jsonl:1: field "text" is one text, named both as prompt and as response.'
    )


@pytest.mark.parametrize(
    "response",
    [
        "<think>\nhm\n</think>\n\nSo.",
        "hm</think>So.",
        "<thinking>a</thinking> So.",
        "[THINK]a[/THINK]So.",
    ],
)
def test_counts_reasoning_and_removes_it_on_demand(tmp_path: Path, response: str) -> None:
    path = written(tmp_path, "a.jsonl", as_lines([{"prompt": "Why?", "response": response}]))
    data = load_pairs(path)
    assert data.pairs[0].response == response
    assert data.notes[0].startswith("1 response with reasoning such as <think>…</think>")
    data = load_pairs(path, strip_thinking=True)
    assert data.pairs[0].response == "So."
    assert data.notes == ("reasoning such as <think>…</think> was removed from 1 response",)
    plain = as_lines([{"prompt": "Why?", "response": "I think <think> is a tag."}])
    assert load_pairs(written(tmp_path, "b.jsonl", plain)).notes == ()


@pytest.mark.parametrize(
    "text",
    [
        "Human: Hi\n\nAssistant: Hello!",
        '[{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]',
        '[{"from": "Paris", "to": "Rome", "value": "5 h"}]',
    ],
)
def test_a_response_beside_its_own_prompt_is_judged_as_it_is(tmp_path: Path, text: str) -> None:
    path = tmp_path / "pairs.jsonl"
    path.write_bytes(orjson.dumps({"prompt": "Write a dialogue.", "response": text}) + b"\n")
    (pair,) = load_pairs(path).pairs
    assert (pair.prompt, pair.response) == ("Write a dialogue.", text)


def test_refuses_lists_as_numpy_prints_them(tmp_path: Path) -> None:
    path = tmp_path / "pairs.csv"
    path.write_text("id,prompt,response\n1,\"['Hi' 'More']\",\"['a1' 'a2']\"\n")
    with pytest.raises(InputError, match="a list as numpy prints it"):
        load_pairs(path)


def test_reads_messages_whose_content_stands_first_and_holds_braces(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    messages = '[{"content": "Fix f() { return 1 }", "role": "user"}]'
    path.write_bytes(orjson.dumps({"prompt": messages, "response": "ok"}) + b"\n")
    assert load_pairs(path).pairs[0].prompt == "Fix f() { return 1 }"
