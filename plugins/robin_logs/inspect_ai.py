"""Read samples of Inspect (https://inspect.aisi.org.uk) from .eval and .json logs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress

from robin_cli.data.logs import Log
from robin_cli.data.rows import BadRow, Row
from robin_cli.model.errors import shown
from robin_logs.base import OR_SKIP, as_object, as_text, joined, name_of, scalars

HEAD = "eval"
_ATTACHMENT = "attachment://"
"""The prefix of a reference to a text among the sample's attachments; the attachment's name follows."""

_TOLD = frozenset({"task", "model"})
_RUN_SHOWN = 8


def _is_sample(row: Row) -> bool:
    head = row.get(HEAD)
    return (
        isinstance(head, dict)
        and head.keys() >= _TOLD
        and row.keys() >= {"epoch", "input", "output"}
    )


def _rows(sample: Row) -> Iterator[Row]:
    head = as_object(sample[HEAD])
    task, model, epoch = map(name_of, (head.get("task"), head.get("model"), sample["epoch"]))
    sample_id = name_of(sample.get("id"))
    called = f"sample {shown(sample_id)}, epoch {shown(epoch)}"
    if error := sample.get("error"):
        said = name_of(as_object(error).get("message")) or "without a message"
        raise BadRow(
            f"{called}: ended in an error ({shown(said, 80)}). Run it again{OR_SKIP}",
            "the sample failed",
        )
    texts = _Texts(as_object(sample.get("attachments")), called)
    # Since 0.3.70 a sample has an id for each execution; a log that continues an interrupted one keeps it.
    run = next(
        filter(None, map(name_of, (sample.get("uuid"), head.get("eval_id"), head.get("run_id")))),
        "",
    )
    row: Row = {
        "id": joined(model, task, sample_id, epoch, run[:_RUN_SHOWN]),
        "prompt": _prompt(sample, texts, called),
        "response": _response(sample["output"], texts, called),
        "system": model,
        "group": joined(task, sample_id),
        "task": task,
        "epoch": sample["epoch"],
    }
    target = sample.get("target")
    only = target[0] if isinstance(target, list) and len(target) == 1 else target
    if isinstance(only, str) and only:
        row["reference"] = texts.text(only)
    yield {**row, **_scores(sample.get("scores")), **scalars("metadata", sample.get("metadata"))}


def _scored(sample: Row) -> Iterator[Row]:
    """Return a sample's scores. Its input and output may be no texts; a failed sample has no score."""
    head = as_object(sample[HEAD])
    task, model = name_of(head.get("task")), name_of(head.get("model"))
    texts, prompt, response = _Texts(as_object(sample.get("attachments")), ""), "", ""
    with suppress(BadRow):
        prompt = _prompt(sample, texts, "")
        response = _response(sample["output"], texts, "")
    row: Row = {
        "id": joined(task, sample.get("id")),
        "prompt": prompt,
        "response": response,
        "system": model,
        "task": task,
    }
    yield {**row, **_scores(sample.get("scores")), **scalars("metadata", sample.get("metadata"))}


def _prompt(sample: Row, texts: _Texts, called: str) -> str:
    prompt = as_text(texts.conversation(sample["input"]), f"the input of {called}")
    choices = sample.get("choices")
    if not isinstance(choices, list) or not choices:
        return prompt
    lettered = (
        f"{chr(ord('A') + at)}) {name_of(choice)}" for at, choice in enumerate(choices[:26])
    )
    return "\n".join([prompt, "", *lettered])


def _response(output: object, texts: _Texts, called: str) -> str:
    choices = as_object(output).get("choices")
    first = as_object(choices[0]) if isinstance(choices, list) and choices else {}
    message = as_object(first.get("message"))
    said = texts.answer(as_object(output).get("completion") or message.get("content"))
    if not said and message.get("tool_calls"):
        raise BadRow(
            f"{called}: the last output calls a tool, and says nothing. Let the task end in an answer{OR_SKIP}",
            "nothing but a call of a tool",
        )
    if said is None:
        raise BadRow(f"{called}: has no output of the model. Run it again{OR_SKIP}", "no response")
    return said


def _scores(scores: object) -> Row:
    """Return the scorers' values as they wrote them: C and I for correct and incorrect, numbers, or several by name."""
    found: Row = {}
    for name, score in as_object(scores).items():
        value = as_object(score).get("value")
        found |= (
            scalars(f"score.{name}", value)
            if isinstance(value, dict)
            else scalars("score", {name: value})
        )
    return found


class _Texts:
    """The texts of one sample; some are among its attachments, stored once for all uses."""

    def __init__(self, attachments: Mapping[str, object], called: str) -> None:
        self._attachments, self._called = attachments, called

    def text(self, text: str) -> str:
        """Return a text, or the attachment that it refers to. BadRow if that is missing."""
        if not text.startswith(_ATTACHMENT):
            return text
        found = self._attachments.get(text.removeprefix(_ATTACHMENT))
        if not isinstance(found, str):
            raise BadRow(
                f"{self._called}: refers to {shown(text)}, which the log does not hold. Copy the log again{OR_SKIP}",
                "an attachment is missing",
            )
        return found

    def conversation(self, value: object) -> object:
        """Return the input with its texts filled in, without models' reasoning."""
        if isinstance(value, str):
            return self.text(value)
        return [self._message(each) for each in value] if isinstance(value, list) else value

    def _message(self, message: object) -> object:
        if not isinstance(message, dict):
            return message
        content = message.get("content")
        if isinstance(content, list):
            content = [
                self._part(part) for part in content if as_object(part).get("type") != "reasoning"
            ]
        return {**message, "content": self.text(content) if isinstance(content, str) else content}

    def _part(self, part: object) -> object:
        """Return the text of a part of a content; the part itself if it has none, such as a picture."""
        found = as_object(part)
        text = found.get("text") if found.get("type") == "text" else None
        return self.text(text) if isinstance(text, str) else part

    def answer(self, content: object) -> str | None:
        """Return a model's answer, joined if it is in parts, without pictures and reasoning; None if there is no content."""
        if isinstance(content, list):
            content = "\n".join(
                said for part in content if isinstance(said := self._part(part), str)
            )
        return self.text(content) if isinstance(content, str) else None


LOG = Log(_is_sample, lambda _place: _rows, "samples", HEAD, _TOLD, lambda _place: _scored)
