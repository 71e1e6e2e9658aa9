"""The README and docs/ as a reader uses them: every shell and Python block runs, against a judge that replays ratings."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests.conftest import DEMO, REPLAY_MODEL, ROOT, environment

PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]

# Stands in for the commands that a reader would give to a judge that costs money, or that take long: robin with the replay
# for every judge and smaller budgets, make without the tests that this is one of, pip without a second installation.
ROBIN = """#!{python}
import os, sys
from robin_cli.cli.app import main

args, kept = sys.argv[1:], []
asks = args[:1] and args[0] in {{"judge", "plan", "check", "resume"}}
while args:
    arg = args.pop(0)
    if asks and arg in {{"--base-url", "--model"}}:
        args.pop(0)
    elif args and arg == "--budget" and kept[0] == "simulate":
        kept += [arg, ",".join(str(max(200, int(each) // 20)) for each in args.pop(0).split(","))]
    elif asks and arg == "--budget":
        kept += [arg, str(min(int(args[0]), 300 + int(args.pop(0)) // 100))]
    else:
        kept.append(arg)
if asks:
    kept += ["--base-url", os.environ["JUDGE_URL"]]
    kept += ["--model", {model!r}] * (kept[0] != "resume")
    if "--max-cost" in kept:
        kept += ["--price-in", "0.1", "--price-out", "0.4"]
if kept[:1] == ["simulate"]:
    kept += ["--runs", "2"]
sys.argv = ["robin", *kept]
if __name__ == "__main__":  # simulate starts processes
    main()
"""
MAKE = """#!/bin/sh
case "$1" in
  demo) cd {root} && exec {python} scripts/demo.py ;;
  *) exec /usr/bin/env -i PATH="/usr/bin:/bin" make -n -C {root} "$@" ;;
esac
"""
PIP = '#!/bin/sh\n[ "$*" = "install ." ] && [ -f {root}/pyproject.toml ]\n'
PYTHON = '#!/bin/sh\nexec {python} "$@"\n'


@pytest.fixture
def desk(tmp_path: Path, replay_url: str) -> Iterator[tuple[Path, dict[str, str]]]:
    """A folder with the demo's pairs and an environment in which the docs' commands mean what they say."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, program in {"robin": ROBIN, "make": MAKE, "pip": PIP, "python3": PYTHON}.items():
        text = program.format(python=sys.executable, root=ROOT, model=REPLAY_MODEL)
        (programs / name).write_text(text, encoding="utf-8")
        (programs / name).chmod(0o755)
    folder = tmp_path / "desk"
    folder.mkdir()
    shutil.copy(DEMO / "pairs.jsonl", folder)
    shutil.copytree(ROOT / "configs", folder / "configs")
    before = set(ROOT.glob("runs/demo-*"))
    yield folder, environment(PATH=f"{programs}:{os.environ['PATH']}", JUDGE_URL=replay_url)
    for made in set(ROOT.glob("runs/demo-*")) - before:  # what make demo leaves
        shutil.rmtree(made)


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, page in zip(NAMES, PAGES, strict=True) if blocks(page, "sh")])
def test_every_shell_block_runs(name: str, desk: tuple[Path, dict[str, str]]) -> None:
    folder, env = desk
    script = "set -euo pipefail\n" + "\n".join(blocks(ROOT / name, "sh"))

    done = subprocess.run(
        ["bash", "-x", "-c", script], cwd=folder, env=env, capture_output=True, text=True, timeout=300, check=False
    )

    assert done.returncode == 0, done.stderr[-3000:]
    assert "Traceback" not in done.stderr


def test_every_python_block_runs(desk: tuple[Path, dict[str, str]]) -> None:
    folder, env = desk
    page = "\n".join(blocks(ROOT / "docs" / "python.md", "python"))
    assert "robin.judge(" in page
    page = page.replace('model="gpt-4.1-nano"', f'model="{REPLAY_MODEL}", base_url="{env["JUDGE_URL"]}"')

    done = subprocess.run(
        [sys.executable, "-c", page], cwd=folder, env=env, capture_output=True, text=True, timeout=300, check=False
    )

    assert done.returncode == 0, done.stderr
    assert "story-flash-good" not in done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_blocks_are_of_a_known_kind(name: str) -> None:
    page = ROOT / name
    opened = re.findall(r"^```(.*)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)

    assert set(opened) <= {"sh", "python", "text", ""}
    assert opened.count("") == len(opened) / 2  # each one ends
    assert not re.search(r"^    +(robin|make|export|cat|pip) ", page.read_text(encoding="utf-8"), flags=re.MULTILINE)


@pytest.mark.parametrize("name", NAMES)
def test_links_lead_somewhere(name: str) -> None:
    page = ROOT / name
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if not target.startswith(("http://", "https://", "#")):
            assert (page.parent / target.split("#")[0]).exists(), target


def test_troubleshooting_quotes_messages_that_robin_says() -> None:
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "robin_cli").rglob("*.py"))
    joined = re.sub(r'"\s*f?"', "", sources)  # literals over several lines
    page = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8").split("## From the numbers")[0]
    quoted = re.findall(r"^### (.+)$", page, flags=re.MULTILINE)

    assert len(quoted) > 20
    assert [message for message in quoted if message not in joined] == []


def test_the_notebook_runs_in_a_kernel(desk: tuple[Path, dict[str, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    folder, env = desk
    monkeypatch.setenv("JUDGE_URL", env["JUDGE_URL"])
    source = ROOT / "docs" / "notebook.ipynb"
    notebook = nbformat.read(source, as_version=4)  # type: ignore[no-untyped-call]
    stored = [json.dumps(cell.get("outputs", [])) for cell in notebook.cells]

    NotebookClient(notebook, timeout=240, kernel_name="python3", resources={"metadata": {"path": folder}}).execute()

    shown = [[output.output_type for output in cell.get("outputs", [])] for cell in notebook.cells]
    assert shown == [[output["output_type"] for output in json.loads(outputs)] for outputs in stored]
    assert any("image/png" in outputs for outputs in stored)  # a picture for readers who do not run it
    assert "error" not in str(shown)
