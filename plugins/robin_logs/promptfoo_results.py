"""Write promptfoo's results with a run's scores in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import orjson

from robin_cli.data.logs import Judged
from robin_cli.model.errors import InputError

_NO_FAILURE, _FAILED_ASSERTION, _ERROR = 0, 1, 2
"""promptfoo's ``failureReason``."""


def write_results(
    judged: Sequence[Judged], judged_file: Callable[[], bytes], notify: Callable[[str], None]
) -> bytes:
    """Return the file that was judged with ``score``, ``pass`` and ``reason`` of each result that has a score.

    ``score`` is a share of the scale, as promptfoo's are; the points are named scores. Without a
    decision a result passes or fails as before.
    """
    try:
        whole = orjson.loads(judged_file())
        results, prompts = whole["results"]["results"], whole["results"]["prompts"]
    except (ValueError, TypeError, KeyError):
        raise InputError(
            "--what promptfoo: judge results.json, as promptfoo eval -o writes it"
        ) from None
    by_id = {each.pair_id: each for each in judged}
    known = [result for result in results if result.get("id") in by_id]
    if not known:
        raise InputError(
            "--what promptfoo: no result has the id of a score; judge results with ids"
        )
    for result in known:
        _fill(result, by_id[result["id"]])
    for place, prompt in enumerate(prompts):
        _count(prompt, [each for each in results if each.get("promptIdx") == place])
    passed, failed = _outcomes(results)
    whole["results"]["stats"] |= {"successes": passed, "failures": failed}
    if len(known) < len(results):
        notify(
            f"{len(results) - len(known)} of {len(results)} results have no score, and stay as they are"
        )
    return orjson.dumps(whole, option=orjson.OPT_INDENT_2)


def _fill(result: dict[str, Any], judged: Judged) -> None:
    passes = result["success"] if judged.passes is None else judged.passes
    verdict = {"pass": passes, "score": judged.share, "reason": judged.reason}
    named = {**(result.get("namedScores") or {}), **judged.points}
    grading = result.get("gradingResult") or {}
    assertion = {"type": "llm-rubric", "value": f"robin: {', '.join(judged.points)}"}
    parts = [*(grading.get("componentResults") or []), {**verdict, "assertion": assertion}]
    result |= {
        "success": passes,
        "score": judged.share,
        "namedScores": named,
        "failureReason": _NO_FAILURE if passes else _FAILED_ASSERTION,
        "gradingResult": {**grading, **verdict, "namedScores": named, "componentResults": parts},
    }


def _count(prompt: dict[str, Any], results: Sequence[dict[str, Any]]) -> None:
    """Count the results of a prompt and a provider anew, as promptfoo shows them above its column."""
    scores = [each.get("namedScores") or {} for each in results]
    names = dict.fromkeys(name for each in scores for name in each)
    passed, failed = _outcomes(results)
    prompt["metrics"] = (prompt.get("metrics") or {}) | {
        "score": sum(each.get("score") or 0 for each in results),
        "testPassCount": passed,
        "testFailCount": failed,
        "namedScores": {name: sum(each.get(name, 0) for each in scores) for name in names},
        "namedScoresCount": {name: sum(name in each for each in scores) for name in names},
    }


def _outcomes(results: Sequence[dict[str, Any]]) -> tuple[int, int]:
    """Return how many results pass, and how many fail without an error."""
    passed = sum(each["success"] for each in results)
    errors = sum(each.get("failureReason") == _ERROR for each in results)
    return passed, len(results) - passed - errors
