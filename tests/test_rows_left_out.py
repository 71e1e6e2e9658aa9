"""What the scores do not speak of: rows that were left out, at the start of a run and in its status."""

from __future__ import annotations

import json
from pathlib import Path

from tests.conftest import robin
from tests.judges.wire import completion, serving


def test_says_what_it_left_out_and_that_the_scores_are_of_the_rest(tmp_path: Path) -> None:
    (tmp_path / "pairs.csv").write_text("id,prompt,response\na,p,r\nb,q,\nc,,r\na,s,t\n", encoding="utf-8")
    command = ("judge", "pairs.csv", "-b", "8", "-a", "helpfulness", "--model", "m", "--run", "r", "--skip-bad-rows")
    with serving(lambda number, body: completion(f"Rating: {number % 5}")) as wire:
        judged = robin(*command, "--base-url", wire.url, cwd=tmp_path, exits=0)
    said = " ".join(judged.stderr.split())
    assert "pairs.csv: 2 bad rows of 4 left out (--skip-bad-rows): 1 no prompt, 1 the same pair or id again." in said
    assert "their mean is too high" in said
    assert 'left out: pairs.csv:4: field "prompt" is empty' in said
    assert "1 of 2 responses are empty; they are judged as they are" in said

    facts = json.loads(robin("status", "r", "--json", cwd=tmp_path).stdout)
    assert facts["rows_left_out"] == 2
    assert facts["rows_left_out_because"] == {"no prompt": 1, "the same pair or id again": 1}
    assert facts["rows_left_out_first"][0] == 'pairs.csv:4: field "prompt" is empty'
    assert facts["empty_responses"] == 1
    shown = " ".join(robin("status", "r", cwd=tmp_path).stdout.split())
    assert "the scores are of the 2 pairs that are left, and say nothing of these; the first: pairs.csv:4:" in shown
