"""A judge at an endpoint's ``/decisions``: the probability of every level of each question in one pass, and no text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson

from robin_cli.data.images import with_parts
from robin_cli.judges.bodies import Body, clean_text, excerpt, read_json
from robin_cli.judges.dialect import without_system
from robin_cli.judges.openai_http import OpenAIJudge
from robin_cli.judges.problems import Fatal, Problem, Unread, classify, error_in
from robin_cli.judges.replies import Completion, usage_of
from robin_cli.judges.transport import Response
from robin_cli.model.exchange import Answer, Failure, Message, Question

_ABSENT = frozenset({404, 405, 501})
_UNABLE = re.compile(r"single[ -]token|one token|reasoning (block|section)", re.IGNORECASE)
_INSTEAD = "ask this judge with --answers logprobs, json or text in a new run"


class DecisionsJudge(OpenAIJudge):
    """Asks a decision model. The questions are the ``structure`` of a :class:`Question`, and its messages their input."""

    _writes = False

    @property
    def most_samples(self) -> int:
        return 1

    def body(self, question: Question) -> dict[str, Any]:
        """Return the body of a request: the endpoint takes no option of chat completions."""
        (message,) = without_system(question.messages)
        endpoint = self._endpoint
        return {
            "model": endpoint.model,
            "input": message["content"] if "images" not in message else [message],
            **question.structure,
            **endpoint.extra_body,
        }

    @property
    def _most_tokens(self) -> int:
        return 0

    def _charged(self, question: Question) -> Sequence[Message]:
        questions = orjson.dumps(question.structure.get("questions", ())).decode()
        return [*question.messages, {"role": "user", "content": questions}]

    def _sent(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        if isinstance(body["input"], str):
            return body
        (message,) = with_parts(body["input"])
        text, *images = message["content"]
        urls = [part["image_url"] for part in images]
        parts = [
            {"type": "input_image", "image_url": url["url"], "detail": url.get("detail", "auto")}
            for url in urls
        ]
        content = [{**text, "type": "input_text"}, *parts]
        return {**body, "input": [{"role": "user", "content": content}]}

    def _outcome(self, response: Response, body: Mapping[str, Any]) -> Completion | Problem:
        if response.status in _ABSENT:
            detail = error_in(read_json(response.body)).message
            why = f"{response.status}{detail and ': '}{detail}"
            return Fatal(f"no /decisions for this model ({why}); check --model, or {_INSTEAD}")
        if response.is_good:
            names = [question["name"] for question in body["questions"]]
            return read_decisions(response.body, response.headers, names)
        outcome = classify(response.status, response.body, response.headers)
        if isinstance(outcome, Failure) and outcome.refused and _UNABLE.search(outcome.detail):
            return Fatal(f"cannot answer by /decisions ({outcome.detail}); {_INSTEAD}")
        return outcome


def read_decisions(
    body: Body, headers: Mapping[str, str], names: Sequence[str]
) -> Completion | Unread:
    """Return the answers in the body of a success, one for each question, in their order; some have no name."""
    content = read_json(body)
    content = content if isinstance(content, dict) else {}
    answers = content.get("answers")
    answers = answers if isinstance(answers, list) else []
    is_whole = len(answers) == len(names) and all(
        isinstance(answer, dict) and answer.get("name") in {None, name}
        for answer, name in zip(answers, names, strict=True)
    )
    if not is_whole:
        beginning = excerpt(body)[:300]
        return Unread(f"a 200 without an answer to each of {len(names)} questions: {beginning}")
    usage = usage_of(content.get("usage"))
    return Completion(
        tuple(
            Answer(
                orjson.dumps(answer).decode(),
                refusal="declined" if answer.get("type") == "refusal" else None,
            )
            for answer in answers
        ),
        model=clean_text(content.get("model"))[:200],
        usage=replace(usage, completion_tokens=usage.completion_tokens or 0),
        request_id=headers.get("x-request-id") or None,
    )
