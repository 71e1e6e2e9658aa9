"""No example, page, configuration or help names a model that its provider has withdrawn."""

from __future__ import annotations

import re
import subprocess

from tests.conftest import ROOT

WITHDRAWN = re.compile(r"gpt-4\.1|gpt-4o")
"""gpt-4.1-nano was shut down on 2026-10-23; the others end on 2027-01-14."""

PLACES = (
    *("README.md", "action.yml", "benchmarks", "configs", "docs", "examples"),
    *("robin_cli", "skills"),
)
RECORDED = re.compile(r"(replay:)?gpt-4\.1-nano/[a-z]+")
"""A set of recorded ratings, which keeps the name of its judge."""

OF_RECORDED = {
    "docs/evidence/schedulers.md": "(gpt-4.1-nano, helpfulness, 0 to 4)",
}
"""What names the judge of recorded ratings by itself, by file."""


def test_names_no_withdrawn_model() -> None:
    listed = subprocess.run(
        ["git", "ls-files", *PLACES], cwd=ROOT, capture_output=True, text=True, check=True
    )
    found = []
    for name in listed.stdout.split():
        content = (ROOT / name).read_bytes()
        if b"\0" in content or name.endswith(".parquet"):
            continue
        text = RECORDED.sub("", content.decode("utf-8"))
        if name in OF_RECORDED:
            text = text.replace(OF_RECORDED[name], "")
        found += [f"{name}: {line}" for line in text.splitlines() if WITHDRAWN.search(line)]
    assert not found
