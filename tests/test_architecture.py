"""The shape of the code, held by tests: which way imports point, and how large things may get."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "robin_cli"
FILES = sorted(PACKAGE.rglob("*.py"))

# What each part may import of ours, besides itself. Anything may import records, errors and files.
ALLOWED = {
    "records": set(),
    "errors": set(),
    "files": set(),
    "shipped": set(),
    "small_files": set(),
    "trust": set(),
    "config": {"shipped", "small_files", "trust"},
    "judges": {"config", "trust"},
    "allocation": set(),
    "statistics": {"allocation"},
    "data": set(),
    "judging": {"data", "shipped", "small_files"},
    "runs": {"allocation", "config", "data", "judges", "judging", "statistics", "trust"},
    "output": {"allocation", "config", "data", "judges", "judging", "runs", "shipped", "small_files", "statistics"},
    "cli": {"allocation", "config", "data", "judges", "judging", "output", "runs", "shipped", "statistics", "trust"},
    "api": {"config", "data", "judges", "output", "runs", "trust"},
    "__init__": {"api"},
    "__main__": {"cli"},
}

# Libraries that only some files may know.
ONLY = {
    "openai": {"judging/transport.py"},
    "datasets": {"data/hub.py"},
    "huggingface_hub": {"data/hub.py"},
    "tenacity": {"judging/openai_judge.py"},
    "httpx2": {"judging/transport.py"},
    "genai_prices": {"judging/metering.py"},
    "aiohttp": {"judging/replay_server.py", "judging/transport.py"},
    "jinja2": {"judging/rubrics.py", "output/report/page.py"},
    "typer": {"cli/*"},
    "rich": {
        "cli/*",
        "api.py",
        "output/fitting.py",  # measures texts as it will show them
        "output/progress.py",
        "output/run_list.py",
        "output/live.py",
        "output/messages.py",
        "output/table.py",
        "output/status.py",
        "output/simulated.py",
        "output/plan/view.py",
    },
    "scipy": {
        "statistics/agreement.py",
        "statistics/forecast.py",
        "statistics/rating_model.py",
        "statistics/worst_error.py",
    },
    "matplotlib": {"output/curves.py", "output/report/pictures.py"},
    "pyarrow": {
        "data/*",
        "api.py",
        "runs/reading.py",
        "runs/store.py",
        "runs/schema.py",
        "runs/fold.py",
        "runs/session.py",
        "output/export.py",
        "output/workbook.py",
        "output/status.py",
        "output/report/rows.py",
        "output/plan/calls.py",
    },
    "xlsxwriter": {"output/workbook.py"},
    "yaml": {"judging/rubric_files.py"},
}


def imports(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def part(file: Path) -> str:
    return file.relative_to(PACKAGE).parts[0].removesuffix(".py")


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_imports_point_down_only(file: Path) -> None:
    allowed = ALLOWED[part(file)] | {part(file), "records", "errors", "files", "robin_cli"}
    ours = {name.split(".")[1] for name in imports(file) if name.startswith("robin_cli.")}
    assert ours <= allowed


@pytest.mark.parametrize("library", ONLY)
def test_keeps_each_library_in_its_place(library: str) -> None:
    users = {file.relative_to(PACKAGE) for file in FILES if library in {name.split(".")[0] for name in imports(file)}}
    assert users, f"{library} is not used: take it out of here and of pyproject.toml"
    assert not {user for user in users if not any(user.match(pattern) for pattern in ONLY[library])}


def test_keeps_files_and_functions_small() -> None:
    for file in FILES:
        text = file.read_text(encoding="utf-8")
        assert text.count("\n") <= 600, file
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert (node.end_lineno or 0) - node.lineno < 60, f"{file}: {node.name}"


def test_leaves_no_file_to_threads_of_pyarrow() -> None:
    # pyarrow's read_table reads ahead in threads: one that still holds a Python file as the interpreter ends aborts the process
    assert not [file for file in FILES if "pq.read_table(" in file.read_text(encoding="utf-8")]
