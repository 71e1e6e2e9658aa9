"""The docs site: what is read off the program, and that no link of it leads nowhere."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from robin_cli.settings.table import TABLE
from scripts.docs_site import build, commands, exit_code_page, man, settings
from tests.conftest import ROOT


def test_has_a_page_that_has_every_command_and_every_flag() -> None:
    known = {
        each.name: {name for flags in each.flags.values() for name, _ in flags}
        for each in commands()
    }
    assert {"judge", "resume", "gate", "demo"} <= known.keys()
    assert {each.flag for each in TABLE.values()} <= {
        word for names in known["judge"] for word in re.split("[ ,]+", names)
    }
    assert "--require REQUIREMENT" in known["gate"]


def test_tells_agents_of_commands_and_flags_that_there_are() -> None:
    text = (ROOT / "skills" / "robin" / "SKILL.md").read_text(encoding="utf-8")
    _, head, body = text.split("---\n", 2)
    about = yaml.safe_load(head)
    assert about["name"] == "robin"
    assert len(about["description"]) <= 1024
    known = {
        each.name: {
            word
            for flags in each.flags.values()
            for names, _ in flags
            for word in re.split("[ ,]+", names)
        }
        for each in commands()
    }
    for command, words in re.findall(r"`robin ([a-z]+)([^`]*)`", body):
        assert {word for word in words.split() if word.startswith("-")} <= known[command]
    assert set(re.findall(r"--\w[\w-]+", body)) <= {*set().union(*known.values()), "--version"}


def test_has_a_man_page_that_names_every_command() -> None:
    # .venv/bin/python -m scripts.docs_site man > docs/robin.1
    assert (ROOT / "docs" / "robin.1").read_text(encoding="utf-8") == man()


@pytest.mark.parametrize(("name", "page"), [("settings", settings), ("exit-codes", exit_code_page)])
def test_has_pages_of_the_settings_and_the_exit_codes(name: str, page: Callable[[], str]) -> None:
    # .venv/bin/python -m scripts.docs_site settings > docs/settings.md
    assert (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8") == page()


def test_builds_with_links_that_lead_somewhere(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    status = build(tmp_path)
    assert status == 0, capfd.readouterr().out[-2000:]
    site = tmp_path / "site"
    told = (site / "llms.txt").read_text(encoding="utf-8")
    listed = re.findall(r"^- \[.+?\]\((.+?)\)", told, re.MULTILINE)
    assert {
        "README.md",
        "docs/quick-start.md",
        "docs/columns.md",
        "docs/settings.md",
        "reference/judge.md",
    } <= {*listed}
    for page in listed:
        assert (site / page).is_file()
        assert (site / page.replace("README.md", "").replace(".md", "") / "index.html").is_file()
    pages = {f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")}
    assert pages - {*listed} <= {"docs/README.md"}  # no page is where no one finds it
    assert "docs/decisions/" in {
        each["location"] for each in json.loads((site / "search.json").read_text())["items"]
    }
    exits = (site / "docs" / "exit-codes.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| (\d+) \|", exits, re.MULTILINE) == [
        "0",
        "1",
        "2",
        "3",
        "4",
        "5",
        "6",
        "130",
    ]
