"""The shape of the code, held by tests: which way imports point, and who may do what."""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

from robin_cli.policies.registry import POLICIES

PACKAGE = Path(__file__).parent.parent / "robin_cli"
FILES = sorted(PACKAGE.rglob("*.py"))
PLUGINS = PACKAGE.parent / "plugins"
POLICY_CLASSES = {"Uniform", "Robin", "RobinHood", "Dirichlet", "TwoPriors", "Warm", "ByScale"}

# What each part may import of ours, besides itself. Anything may import the model and files.
ALLOWED = {
    "model": set(),
    "files": set(),
    "settings": set(),
    "policies": set(),
    "scheduling": {"policies"},
    "parsing": set(),
    "datasets": set(),
    "prompts": {"datasets", "parsing"},
    "judges": {"datasets", "parsing", "settings"},
    "dispatch": {"judges"},
    "storage": {"datasets", "prompts", "settings"},
    "analysis": {"policies", "scheduling", "storage"},
    "runner": {
        "analysis",
        "datasets",
        "dispatch",
        "judges",
        "parsing",
        "policies",
        "prompts",
        "scheduling",
        "settings",
        "storage",
    },
    "views": {
        "analysis",
        "datasets",
        "judges",
        "parsing",
        "policies",
        "prompts",
        "runner",
        "settings",
        "storage",
    },
    "cli": {
        "analysis",
        "datasets",
        "dispatch",
        "judges",
        "parsing",
        "policies",
        "prompts",
        "runner",
        "settings",
        "storage",
        "views",
    },
    "api": {"analysis", "datasets", "judges", "runner", "settings", "storage", "views"},
    "__init__": {"api"},
    "__main__": {"cli"},
}

# Libraries that only some files may know.
ONLY = {
    "openai": {"judges/transport.py"},
    "datasets": {"datasets/formats/hub.py", "files/hub.py", "views/to_hub.py"},
    "humanize": {"model/errors.py"},
    "fsspec": {"files/remote.py"},
    "huggingface_hub": {"files/hub.py", "views/to_hub.py"},
    "httpx2": {"judges/transport.py"},
    "genai_prices": {"judges/metering.py"},
    "aiohttp": {"files/remote.py", "judges/replay_server.py", "judges/transport.py"},
    "tenacity": {"dispatch/retrying.py", "judges/openai_batches.py"},
    "jinja2": {"prompts/rubrics.py", "prompts/templates.py", "views/report/page.py"},
    "typer": {"cli/*"},
    "rich": {
        "cli/*",
        "api.py",
        "views/fitting.py",  # measures texts as it will show them
        "views/progress.py",
        "views/run_list.py",
        "views/live.py",
        "views/messages.py",
        "views/pairwise_table.py",
        "views/table.py",
        "views/comparing.py",
        "views/status.py",
        "views/plan/comparisons_view.py",
        "views/plan/differences_view.py",
        "views/plan/view.py",
    },
    "scipy": {
        "analysis/agreement.py",
        "analysis/calibration.py",
        "analysis/clustered.py",
        "analysis/forecast.py",
        "analysis/moderated.py",
        "analysis/paired.py",
        "analysis/rating_model.py",
        "analysis/sample_size.py",
    },
    "matplotlib": {"views/curves.py", "views/report/pictures.py"},
    "pyarrow": {
        "datasets/*",
        "datasets/formats/*",
        "files/compression.py",
        "api.py",
        "storage/named.py",
        "storage/pools.py",
        "storage/reader.py",
        "storage/store.py",
        "storage/schema.py",
        "storage/fold.py",
        "storage/lookup.py",
        "storage/merge.py",
        "storage/shards.py",
        "storage/batches.py",
        "storage/snapshot.py",
        "views/comparing.py",
        "views/export.py",
        "views/pairwise.py",
        "views/preferences.py",
        "views/to_hub.py",
        "views/workbook.py",
        "views/status.py",
        "views/summary.py",
        "views/report/rows.py",
        "views/plan/calls.py",
        "views/plan/facts.py",
    },
    "xlsxwriter": {"views/workbook.py"},
    "yaml": {"prompts/rubric_files.py"},
}


@cache
def nodes(file: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(file.read_text(encoding="utf-8"))))


@cache
def imports(file: Path) -> set[str]:
    named = {alias.name for node in nodes(file) if isinstance(node, ast.Import) for alias in node.names}
    return named | {node.module for node in nodes(file) if isinstance(node, ast.ImportFrom) and node.module}


def part(file: Path) -> str:
    return file.relative_to(PACKAGE).parts[0].removesuffix(".py")


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_imports_point_down_only(file: Path) -> None:
    allowed = ALLOWED[part(file)] | {part(file), "model", "files"}
    ours = {name.split(".")[1] for name in imports(file) if name.startswith("robin_cli.")}
    assert ours <= allowed


@pytest.mark.parametrize("plugin", sorted(each.name for each in PLUGINS.iterdir() if each.is_dir()))
def test_finds_its_plug_ins_by_entry_points_alone(plugin: str) -> None:
    assert not [file for file in FILES if plugin in {name.split(".")[0] for name in imports(file)}]
    entries = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]
    assert any(target.startswith(f"{plugin}.") for group in entries.values() for target in group.values())
    page = (PACKAGE.parent / "docs" / "plug-ins.md").read_text(encoding="utf-8")
    may = {*re.findall(r"`(robin_cli\.[\w.]+)`", page), plugin}
    used = {
        name for file in (PLUGINS / plugin).rglob("*.py") for name in imported_names(file) if name.startswith("robin_")
    }
    assert not {name for name in used if not any(f"{name}.".startswith(f"{each}.") for each in may)}


def test_keeps_ray_in_one_file() -> None:
    files = [*FILES, *PLUGINS.rglob("*.py")]
    assert [file.name for file in files if "ray" in {name.split(".")[0] for name in imports(file)}] == ["on_ray.py"]


def imported_names(file: Path) -> set[str]:
    froms = [node for node in nodes(file) if isinstance(node, ast.ImportFrom)]
    plain = {alias.name for node in nodes(file) if isinstance(node, ast.Import) for alias in node.names}
    return plain | {f"{node.module}.{alias.name}" for node in froms for alias in node.names}


@pytest.mark.parametrize("library", ONLY)
def test_keeps_each_library_in_its_place(library: str) -> None:
    users = {file.relative_to(PACKAGE) for file in FILES if library in {name.split(".")[0] for name in imports(file)}}
    assert users, f"{library} is not used: take it out of here and of pyproject.toml"
    assert not {user for user in users if not any(user.match(pattern) for pattern in ONLY[library])}


def test_leaves_no_file_to_threads_of_pyarrow() -> None:
    # pyarrow's read_table reads ahead in threads: one that still holds a Python file as the interpreter ends aborts the process
    assert not [file for file in FILES if "pq.read_table(" in file.read_text(encoding="utf-8")]


def test_compares_no_policys_name_and_asks_no_policys_kind() -> None:
    # traits are asked for instead: a policy is one file that nothing else names
    for file in FILES:
        if part(file) == "policies":
            continue
        for node in nodes(file):
            if isinstance(node, ast.Compare):
                said = ast.unparse(node)
                names = {each.value for each in ast.walk(node) if isinstance(each, ast.Constant)} & set(POLICIES)
                assert not names - {"robin"}, f"{file}: {said}"
                assert not (names and "scheduler" in said), f"{file}: {said}"
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("robin_cli.policies."):
                kinds = {each.name for each in node.names if each.name in POLICY_CLASSES}
                assert not kinds, f"{file}: {kinds}"


def test_lets_the_scheduler_alone_write_the_arms() -> None:
    # but for the fold, which builds them anew from what is on disk
    writers = {"model/arms.py", "storage/fold.py"}
    for file in FILES:
        if part(file) == "scheduling" or str(file.relative_to(PACKAGE)) in writers:
            continue
        for node in nodes(file):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                assert node.func.attr not in {"add_rating", "add_unparsed", "add_failure"}, file
            targets = node.targets if isinstance(node, ast.Assign) else []
            targets = [node.target] if isinstance(node, ast.AugAssign) else targets
            for target in targets:
                assert not re.search(r"\barms\.\w+\[", ast.unparse(target)), f"{file}: {ast.unparse(node)}"


def test_computes_arms_from_coordinates_in_one_place() -> None:
    stride = re.compile(r"(%|//|::) *(len\()?[\w.]*(judges|attributes)\b|reshape\([^)]*judges")
    for file in FILES:
        if str(file.relative_to(PACKAGE)) != "model/space.py":
            found = stride.search(file.read_text(encoding="utf-8"))
            assert found is None, f"{file}: {found.group()}"
