"""What is said of the data before a run begins."""

from __future__ import annotations

from pathlib import Path

import pytest

from robin_cli.session.inputs import pairs_of
from robin_cli.session.prompts import prompts_of
from robin_cli.settings.table import Settings
from tests.conftest import write_pairs


@pytest.mark.parametrize(
    ("columns", "said"),
    [({"helpfulnes": "stars"}, 'did you mean "helpfulness"?'), ({"tone": "stars"}, None)],
)
def test_says_where_a_mapping_may_be_misspelt(
    tmp_path: Path, columns: dict[str, str], said: str | None
) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 2)
    data.write_text(data.read_text().replace('"prompt"', '"stars": 3, "prompt"'))
    config = Settings(data=(str(data),), attribute=("helpfulness",), columns=columns)
    told: list[str] = []

    pairs = pairs_of(config, prompts_of(config), told.append).pairs

    assert len(pairs) == 2
    assert bool(told) == bool(said)
    assert (said or "") in "".join(told)
