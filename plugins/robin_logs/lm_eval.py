"""Read samples of the Language Model Evaluation Harness from samples_TASK_TIME.jsonl, written with --log_samples."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import orjson

from robin_cli.data.compression import split_suffix
from robin_cli.data.logs import Log, Reading
from robin_cli.data.remote import scheme_of
from robin_cli.data.rows import BadRow, Row
from robin_cli.model.errors import shown
from robin_logs.base import OR_SKIP, as_text, folder_of, joined, name_of, scalars

_FILE = re.compile(r"samples_(?P<task>.+)_(?P<time>\d{4}-\d\d-\d\dT[\d.-]+)\.jsonl")
_SAMPLE = {"doc_id", "doc", "target", "arguments", "resps", "filtered_resps"}
_NO_SCORES = _SAMPLE | {"filter", "metrics", "doc_hash", "prompt_hash", "target_hash"}
_MOST_RESULTS = 20
_CHAT = re.compile(r'\s*\[\s*\{\s*"role"')


def _is_sample(row: Row) -> bool:
    return row.keys() >= _SAMPLE


def _reading(place: str) -> Reading:
    """Return the reader of a file's samples. If an answer has several filters, the first counts; the answer is the same."""
    task, time = _task_and_time(place)
    system = _system(place, time)
    counted: list[object] = []

    def rows(sample: Row) -> Iterator[Row]:
        if not counted:
            counted.append(sample.get("filter"))
        if sample.get("filter") not in counted:
            return
        doc_id = name_of(sample["doc_id"])
        called = f"document {shown(doc_id)}"
        answers = _answers(sample["resps"], called)
        row: Row = {
            "prompt": _prompt(sample["arguments"], called),
            "group": joined(task, doc_id),
            **_scores(sample),
            **scalars("doc", sample["doc"]),
        }
        row |= {name: value for name, value in {"system": system, "task": task}.items() if value}
        target = sample["target"]
        if (
            isinstance(target, str) and target and not target.startswith("[")
        ):  # several targets are a list in a text
            row["reference"] = target
        for number, answer in enumerate(answers, 1):
            of_several = number if len(answers) > 1 else ""
            yield {**row, "id": joined(system, task, doc_id, of_several, time), "response": answer}

    return rows


def _scoring(place: str) -> Reading:
    """Return the reader of a file's scores; those of further filters are separate metrics, such as ``exact_match.strict``."""
    task, time = _task_and_time(place)
    system = _system(place, time)
    first: list[object] = []

    def rows(sample: Row) -> Iterator[Row]:
        first.append(sample.get("filter"))
        doc_id, of_filter = (
            name_of(sample["doc_id"]),
            "" if first[-1] == first[0] else name_of(first[-1]),
        )
        del first[1:]
        prompt, responses = "", [""]
        with suppress(BadRow):  # scores may have no texts: those of likelihoods
            prompt = _prompt(sample["arguments"], "")
            responses = _answers(sample["resps"], "")
        scores = {
            ".".join(filter(None, (name, of_filter))): score
            for name, score in _scores(sample).items()
        }
        row: Row = {
            "id": joined(task, doc_id),
            "prompt": prompt,
            "response": responses[0],
            **scalars("doc", sample["doc"]),
        }
        yield {
            **row,
            **scores,
            **{name: value for name, value in {"system": system, "task": task}.items() if value},
        }

    return rows


def _task_and_time(place: str) -> tuple[str, str]:
    """Return the task and the time of a file of samples, from its name; "" for a missing one."""
    found = _FILE.fullmatch(split_suffix(place)[0].rpartition("/")[2])
    return (found["task"], found["time"]) if found else ("", "")


def _prompt(arguments: object, called: str) -> str:
    """Return the prompt: the first argument of the first request; repeated requests have the same one."""
    first = _first(arguments)
    asked = _first(first)
    if isinstance(asked, list) and len(asked) == 1:
        asked = asked[0]
    if isinstance(asked, str) and _CHAT.match(asked):  # chat endpoints get the messages as JSON
        with suppress(orjson.JSONDecodeError):
            asked = orjson.loads(asked)
    return as_text(asked, f"the prompt of {called}")


def _first(arguments: object) -> object:
    """Return the first item of a list or an object; arguments are lists of lists, or objects in newer versions."""
    values = list(arguments.values()) if isinstance(arguments, dict) else arguments
    return values[0] if isinstance(values, list) and values else None


def _answers(resps: object, called: str) -> list[str]:
    """Return the answers before any filter, several if the task repeats its requests."""
    answers = _first(resps)
    if not isinstance(answers, list) or not answers:
        raise BadRow(
            f"{called}: has no answer of the model. Run the task again{OR_SKIP}", "no response"
        )
    found = [answer for answer in answers if isinstance(answer, str)]
    if len(found) < len(answers):
        raise BadRow(
            f"{called}: the task asked how likely given answers are, so that the model wrote no text. Judge one that lets "
            f"it write (output_type: generate_until){OR_SKIP}",
            "no text, but likelihoods",
        )
    return found


def _scores(sample: Row) -> Row:
    """Return the values of the task's metrics; a sample has them by name."""
    return scalars(
        "score", {name: value for name, value in sample.items() if name not in _NO_SCORES}
    )


def _system(place: str, time: str) -> str:
    """Return the model's name from the results file next to the samples, or else from their folder."""
    if not place or scheme_of(place):
        return folder_of(place)
    results = sorted(
        Path(place).absolute().parent.glob(f"*_{time}.json" if time else "results_*.json")
    )
    named = {_named_model(path) for path in results[:_MOST_RESULTS]} - {""}
    return named.pop() if len(named) == 1 else folder_of(place)


def _named_model(results: Path) -> str:
    with suppress(OSError, ValueError):
        found = orjson.loads(results.read_bytes())
        return name_of(found.get("model_name")) if isinstance(found, dict) else ""
    return ""


LOG = Log(_is_sample, _reading, scores=_scoring)
