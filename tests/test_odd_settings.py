"""Settings that nobody means: numbers of thousands of digits, names that are not UTF-8, addresses as folders."""

from __future__ import annotations

from pathlib import Path

import pytest

import robin_cli
from robin_cli.model.errors import InputError, RobinError
from robin_cli.settings.reading import checked, load_settings
from tests.conftest import judging, refuses, robin, write_pairs

FILES = {
    ".".join("a" * 3000) + " = 1": "unknown setting",
    "budget = " + "9" * 5000: "not TOML that robin can read",
    "budget = 1000000000000": "must be a number of judge calls, at least 1 and at most 1,000,000,000",
    "max_tokens = 9223372036854775807": "must be 1 to 2147483647",
    "limit = 99999999999999999999": "cannot be kept in a file (Integer exceeds 64-bit range)",
    "concurrency = 999999": "at most 10,000 and at least 1, or auto",
    "timeout = 1e300": "at most 1,000,000",
    "max_retries = 1000000": "must be 0 to 1,000",
    "extra_body = { a = 99999999999999999999 }": "Integer exceeds 64-bit range",
}


@pytest.mark.parametrize("content", FILES, ids=lambda content: content[:24])
def test_says_what_is_wrong_in_a_settings_file(tmp_path: Path, content: str) -> None:
    (tmp_path / "c.toml").write_text(content, encoding="utf-8")

    with pytest.raises(InputError) as caught:
        load_settings({}, str(tmp_path / "c.toml"))

    said = str(caught.value)
    assert FILES[content] in said
    assert len(said) < 400


def test_refuses_names_that_no_file_can_have_from_flags_and_from_python(tmp_path: Path) -> None:
    refuses(InputError, "--run: cannot be kept in a file", checked, {"run": "a\udcff"})
    with pytest.raises(RobinError, match=r"--run: cannot be kept in a file .*UTF-8"):
        robin_cli.judge(
            tmp_path / "p.jsonl", attribute="helpfulness", budget=5, model="m", run="a\udcff"
        )


def test_makes_no_folder_called_after_an_address(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 3)

    done = robin(
        *judging("http://127.0.0.1:9/v1", data, 3, "--run", "s3://bucket/run"),
        cwd=tmp_path,
        exits=2,
    )

    assert "--run s3://bucket/run: a run is a folder on this machine" in done.stderr
    assert [each.name for each in tmp_path.iterdir()] == ["pairs.jsonl"]


def test_says_in_one_line_that_a_name_is_too_long(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 3)

    done = robin(
        *judging("http://127.0.0.1:9/v1", data, 3, "--run", "n" * 3000), cwd=tmp_path, exits=2
    )

    assert "File name too long" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert len(done.stderr) < 300


def test_names_by_commas_may_be_given_again(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 5)
    asked = ("judge", data, "--budget", "5", "--base-url", "http://127.0.0.1:1/v1", "--model", "m")
    for names in (("-a", "helpfulness,verbosity"), ("-a", "helpfulness", "-a", "verbosity")):
        refused = robin(*asked, *names, cwd=tmp_path, exits=2).stderr
        assert "reaches 5 of 10 pairs × attributes" in refused
