"""Read promptfoo's results (https://promptfoo.dev) from results.json or results.jsonl."""

from __future__ import annotations

from collections.abc import Iterator

from robin_cli.data.logs import Log
from robin_cli.data.rows import BadRow, Row
from robin_cli.model.errors import shown
from robin_logs.base import OR_SKIP, as_json, as_object, as_text, joined, name_of, scalars

_ID_SHOWN = 8


def _is_result(row: Row) -> bool:
    return row.keys() >= {"prompt", "provider", "vars", "success"} and "raw" in as_object(
        row["prompt"]
    )


def _rows(result: Row) -> Iterator[Row]:
    called = f"test {shown(name_of(result.get('testIdx')))} of {shown(_system(result))}"
    if not as_object(result.get("response")).get("output"):
        error = result.get("error") or "without a message"
        raise BadRow(
            f"{called}: has no output ({shown(error, 80)}). Run it again{OR_SKIP}", "no response"
        )
    names = {"id": name_of(result.get("id")), "group": _test(result)}
    yield {name: text for name, text in names.items() if text} | _texts(result, called)


def _scored(result: Row) -> Iterator[Row]:
    """Return a result's scores; the sample is a test and a prompt, in older versions the prompt's text."""
    test, prompt = _test(result), name_of(result.get("promptId"))[:_ID_SHOWN]
    yield ({"id": joined(test, prompt)} if prompt else {}) | _texts(result, "a test")


def _texts(result: Row, called: str) -> Row:
    """Return the texts of a result and its scores: the total, whether all assertions passed, and those with names."""
    total = {"score": result.get("score"), "pass": result["success"]}
    return {
        "prompt": as_text(as_object(result["prompt"])["raw"], f"the prompt of {called}"),
        "response": as_json(as_object(result.get("response")).get("output")),
        "system": _system(result),
        **scalars("vars", result["vars"]),
        **scalars("score", total | as_object(result.get("namedScores"))),
    }


def _test(result: Row) -> str:
    return joined(result.get("testIdx"), as_object(result.get("testCase")).get("description"))


def _system(result: Row) -> str:
    """Return the label or the id of the provider; older versions have the id alone."""
    provider = as_object(result["provider"])
    return name_of(provider.get("label")) or name_of(provider.get("id", result["provider"]))


LOG = Log(_is_result, lambda _place: _rows, "results", scores=lambda _place: _scored)
