"""The shape of the code, held by tests: which way imports point, and who may do what."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import sys
import tomllib
from functools import cache
from itertools import chain
from pathlib import Path

import pytest

import robin_cli.policies
from robin_cli.model.arms import Arms, WritableArms
from robin_cli.policies.base import Policy
from robin_cli.policies.registry import POLICIES

PACKAGE = Path(__file__).parent.parent / "robin_cli"
FILES = sorted(PACKAGE.rglob("*.py"))
PLUGINS = PACKAGE.parent / "plugins"

# What each part may import of ours, besides itself. Anything may import the model, and anything but policies data.
ALLOWED = {
    "model": set(),
    "data": set(),
    "settings": set(),
    "policies": set(),
    "ask": set(),
    "judges": {"ask", "settings"},
    "run": {"ask", "policies", "settings"},
    "stats": {"policies", "run"},
    "goals": {"ask", "policies", "run", "settings", "show", "stats"},
    "session": {"ask", "goals", "judges", "policies", "run", "settings", "stats"},
    "simulate": {"ask", "goals", "judges", "policies", "run", "session", "settings", "stats"},
    "show": {
        "ask",
        "goals",
        "judges",
        "policies",
        "run",
        "session",
        "settings",
        "simulate",
        "stats",
    },
    "cli": {
        "ask",
        "goals",
        "judges",
        "policies",
        "run",
        "session",
        "settings",
        "show",
        "simulate",
    },
    "api": {"goals", "judges", "policies", "run", "session", "settings", "show", "stats"},
    "__init__": {"api"},
    "__main__": {"cli"},
}

# To be taken away: the modules of a folder further down that one above it still imports.
STILL_UPWARD = {
    ("goals", "show"): {"columns", "fitting", "tables", "text", "words"},
}

# Libraries that stand behind a seam: the files, or the folders, that know them.
ONLY = {
    "openai": {"judges/sdk.py"},
    "httpx2": {"judges/sdk.py"},
    "yarl": {"judges/sdk.py", "judges/transport.py"},
    "aiohttp": {
        "data/remote.py",
        "judges/batch_files.py",
        "judges/replay_server.py",
        "judges/transport.py",
        "show/label/server.py",
    },
    "tenacity": {"judges/retrying.py"},
    "genai_prices": {"judges/metering.py"},
    "fsspec": {"data/remote.py"},
    "datasets": {"data/formats/hub.py"},
    "huggingface_hub": {"data/formats/hub.py"},
    "jinja2": {"ask/templates.py", "show/report/page.py"},
    "yaml": {"ask/rubrics.py"},
    "humanize": {"model/errors.py"},
    "typer": {"cli/*"},
    "rich": {"cli/*", "show/*", "show/*/*"},
    "matplotlib": {"show/drawing.py", "show/simulated.py"},
    "xlsxwriter": {"show/xlsx.py"},
    "scipy": {"policies/bradley_terry.py", "stats/*", "simulate/*"},
}


@cache
def nodes(file: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(file.read_text(encoding="utf-8"))))


@cache
def imports(file: Path) -> set[str]:
    named = {
        alias.name for node in nodes(file) if isinstance(node, ast.Import) for alias in node.names
    }
    return named | {
        node.module for node in nodes(file) if isinstance(node, ast.ImportFrom) and node.module
    }


def part(file: Path) -> str:
    return file.relative_to(PACKAGE).parts[0].removesuffix(".py")


def test_imports_point_down_only() -> None:
    for file in FILES:
        allowed = ALLOWED[part(file)] | {part(file), "model", "data"}
        if part(file) == "policies":
            allowed -= {"data"}
        ours = [name.split(".")[1:] for name in imports(file) if name.startswith("robin_cli.")]
        assert {of for of, *_ in ours} <= allowed, file
        for of, *module in ours:
            known = STILL_UPWARD.get((part(file), of))
            assert known is None or module[0] in known, file


@pytest.mark.parametrize("plugin", sorted(each.name for each in PLUGINS.iterdir() if each.is_dir()))
def test_finds_its_plug_ins_by_entry_points_alone(plugin: str) -> None:
    assert not [file for file in FILES if plugin in {name.split(".")[0] for name in imports(file)}]
    entries = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text(encoding="utf-8"))[
        "project"
    ]["entry-points"]
    is_entered = any(
        target.startswith(f"{plugin}.") for group in entries.values() for target in group.values()
    )
    assert is_entered != (plugin == "robin_beside")  # which users import
    docs = PACKAGE.parent / "docs"
    pages = "".join(
        (docs / name).read_text(encoding="utf-8") for name in ("plug-ins.md", "architecture.md")
    )
    may = {*re.findall(r"`(robin_cli\.[\w.]+)`", pages), plugin}
    used = {
        name
        for file in (PLUGINS / plugin).rglob("*.py")
        for name in imported_names(file)
        if name.startswith("robin_")
    }
    assert not {name for name in used if not any(f"{name}.".startswith(f"{each}.") for each in may)}


def test_keeps_ray_in_one_file() -> None:
    files = [*FILES, *PLUGINS.rglob("*.py")]
    assert [
        file.name for file in files if "ray" in {name.split(".")[0] for name in imports(file)}
    ] == ["on_ray.py"]


def imported_names(file: Path) -> set[str]:
    froms = [node for node in nodes(file) if isinstance(node, ast.ImportFrom)]
    plain = {
        alias.name for node in nodes(file) if isinstance(node, ast.Import) for alias in node.names
    }
    return plain | {f"{node.module}.{alias.name}" for node in froms for alias in node.names}


@pytest.mark.parametrize("library", ONLY)
def test_keeps_each_library_in_its_place(library: str) -> None:
    users = {
        file.relative_to(PACKAGE)
        for file in FILES
        if library in {name.split(".")[0] for name in imports(file)}
    }
    assert users, f"{library} is not used: take it out of here and of pyproject.toml"
    assert not {user for user in users if not any(user.match(pattern) for pattern in ONLY[library])}


def test_uses_no_library_that_its_package_does_not_bring() -> None:
    project = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text(encoding="utf-8"))[
        "project"
    ]
    wanted = [
        *project["dependencies"],
        *chain.from_iterable(project["optional-dependencies"].values()),
    ]
    brought = {re.split(r"[^\w-]", each)[0].lower().replace("-", "_") for each in wanted}
    brought |= {
        "aiohttp",
        "yarl",
        "huggingface_hub",
        "yaml",
    }  # by openai[aiohttp], datasets, pyyaml
    brought |= {"_typeshed", "typing_extensions"}  # for types alone
    brought |= {"pytest", "inspect_ai", "deepeval", "mlflow"}  # which alone load what is for them
    used = {
        name.split(".")[0] for file in [*FILES, *PLUGINS.rglob("*.py")] for name in imports(file)
    }
    assert {
        each for each in used - brought - sys.stdlib_module_names if not each.startswith("robin_")
    } == set()


def test_leaves_no_file_to_threads_of_pyarrow() -> None:
    # pyarrow's read_table reads ahead in threads: one that still holds a Python file as the interpreter ends aborts the process
    assert not [file for file in FILES if "pq.read_table(" in file.read_text(encoding="utf-8")]


def kinds_of(kind: type) -> set[str]:
    return {kind.__name__}.union(*map(kinds_of, kind.__subclasses__()))


def test_compares_no_policys_name_and_asks_no_policys_kind() -> None:
    # traits are asked for instead: a policy is one file that nothing else names
    for module in pkgutil.walk_packages(robin_cli.policies.__path__, "robin_cli.policies."):
        importlib.import_module(module.name)
    kinds = kinds_of(Policy) - {Policy.__name__}
    assert len(kinds) > len(POLICIES)
    for file in FILES:
        if part(file) == "policies":
            continue
        for node in nodes(file):
            if isinstance(node, ast.Compare):
                said = ast.unparse(node)
                names = {
                    each.value for each in ast.walk(node) if isinstance(each, ast.Constant)
                } & set(POLICIES)
                assert not names - {"robin"}, f"{file}: {said}"
                assert not (names and "scheduler" in said), f"{file}: {said}"
        of_policies = {
            name for name in imported_names(file) if name.startswith("robin_cli.policies.")
        }
        assert not {name for name in of_policies if name.split(".")[-1] in kinds}, file


def test_lets_the_scheduler_and_the_fold_alone_write_the_arms() -> None:
    # the columns of all others are read-only; who has those that are not names the class, or asks the fold for them
    naming, asking = set(), set()
    for file in FILES:
        place = str(file.relative_to(PACKAGE))
        naming |= {
            place
            for node in nodes(file)
            if isinstance(node, ast.Name) and node.id == "WritableArms"
        }
        asking |= {
            place
            for node in nodes(file)
            if isinstance(node, ast.Attribute) and node.attr == "writable"
        }
    assert {place for place in naming if place != "session/planner.py"} == {
        "model/arms.py",
        "run/fold.py",
        "session/scheduling.py",
    }
    assert asking == {"run/fold.py", "run/state.py", "session/scheduling.py"}
    arms = WritableArms(2).read_only()
    for name in Arms.__slots__:
        with pytest.raises(ValueError, match="read-only"):
            getattr(arms, name)[0] = 1


def test_computes_arms_from_coordinates_in_one_place() -> None:
    def mentions_an_axis(node: ast.AST | None) -> bool:
        return node is not None and bool(re.search(r"\b(judges|attributes)\b", ast.unparse(node)))

    for file in FILES:
        if str(file.relative_to(PACKAGE)) == "model/space.py":
            continue
        for node in nodes(file):
            strides: list[ast.AST | None] = []
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod | ast.FloorDiv):
                strides = (
                    [] if isinstance(node.left, ast.Constant | ast.JoinedStr) else [node.right]
                )
            elif isinstance(node, ast.Slice):
                strides = [node.step]
            elif isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in {
                "reshape",
                "divmod",
                "tile",
            }:
                strides = list(node.args)
            assert not any(map(mentions_an_axis, strides)), f"{file}: {ast.unparse(node)}"


OF_A_KIND = {
    "is_pairwise",
    "compares",
    "wants_best",
    "ranks_systems",
    "is_best",
    "asks_each",
    "noun",
}
OF_A_GOAL = {"task", "systems", "matches"}


def asks_the_kind(test: ast.AST) -> bool:
    """Return whether ``test`` asks what kind of run there is: a flag, or which of the objects of a goal there is."""
    for node in ast.walk(test):
        if isinstance(node, ast.Attribute) and node.attr in OF_A_KIND:
            return True
        if isinstance(node, ast.Compare) and isinstance(node.left, ast.Attribute | ast.Name):
            name = node.left.attr if isinstance(node.left, ast.Attribute) else node.left.id
            if name in OF_A_GOAL and any(
                isinstance(each, ast.Constant) and each.value is None for each in node.comparators
            ):
                return True
    return False


def conditions(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.If | ast.IfExp | ast.While | ast.Assert):
        return [node.test]
    if isinstance(node, ast.BoolOp):
        return node.values[:-1]
    if isinstance(node, ast.comprehension):
        return node.ifs
    return [node.subject] if isinstance(node, ast.Match) else []


# To be taken away: how often a file still asks what kind of run there is. Goals and questions know; a policy is for one goal.
STILL_ASKS: dict[str, int] = {"run/inquiry.py": 5}


def test_asks_for_the_kind_of_a_run_in_goals_and_questions_alone() -> None:
    found = {
        str(file.relative_to(PACKAGE)): sum(
            asks_the_kind(test) for node in nodes(file) for test in conditions(node)
        )
        for file in FILES
        if part(file) not in {"goals", "ask", "policies"}
    }
    assert {file: count for file, count in found.items() if count > STILL_ASKS.get(file, 0)} == {}


MOST_IMPORTS = 15
STILL_IMPORTS: dict[str, int] = {"simulate/plan.py": 16}


def test_imports_few_modules_of_ours_anywhere() -> None:
    ours = {
        str(file.relative_to(PACKAGE)): len(
            {each for each in imports(file) if each.startswith("robin_cli.")}
        )
        for file in FILES
    }
    del ours["cli/app.py"]  # which puts the commands together
    assert {
        file: count for file, count in ours.items() if count > STILL_IMPORTS.get(file, MOST_IMPORTS)
    } == {}


LONGEST = 80
STILL_LONG: dict[str, int] = {}


def test_has_no_long_function() -> None:
    lines = {
        f"{file.relative_to(PACKAGE)}: {node.name}": (node.end_lineno or 0) - node.lineno + 1
        for file in FILES
        for node in nodes(file)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert {
        name: count for name, count in lines.items() if count > STILL_LONG.get(name, LONGEST)
    } == {}


# To be taken away: files behind the edge that see all settings. resolve() gives the others values. This only shrinks.
STILL_SEES_SETTINGS = {
    "goals/checks.py",
    "goals/registry.py",
    "session/inputs.py",
    "session/prompts.py",
    "run/recorded.py",
    "session/resuming.py",
    "show/status.py",
    "simulate/call_cost.py",
    "simulate/plan.py",
}


def test_shows_settings_to_the_edge_alone() -> None:
    edge = {"cli", "api", "settings"}
    users = {
        str(file.relative_to(PACKAGE))
        for file in FILES
        if "robin_cli.settings.table.Settings" in imported_names(file) and part(file) not in edge
    }
    assert users - {"session/opening.py"} == STILL_SEES_SETTINGS
    assert not [
        file
        for file in PLUGINS.rglob("*.py")
        if "robin_cli.settings.table.Settings" in imported_names(file)
    ]


def test_no_two_classes_have_the_same_name() -> None:
    named: dict[str, list[str]] = {}
    for file in [*FILES, *PLUGINS.rglob("*.py")]:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                named.setdefault(node.name, []).append(str(file))
    assert {name: places for name, places in named.items() if len(places) > 1} == {}


FORBIDDEN_NAMES = {
    *("told", "found", "given", "said", "gated", "foreseen"),
    *("own", "mine", "each", "one", "there", "of"),
}


def named(node: ast.AST) -> list[str]:
    """The names that a definition, a parameter, an attribute or a field of a class introduces."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return [node.name]
    if isinstance(node, ast.ClassDef):
        fields = [each.target for each in node.body if isinstance(each, ast.AnnAssign)]
        return [node.name, *(field.id for field in fields if isinstance(field, ast.Name))]
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        return [node.attr]
    return [node.arg] if isinstance(node, ast.arg) else []


def test_names_things_by_what_they_are() -> None:
    places = [
        f"{file}: {name}"
        for file in FILES
        for node in nodes(file)
        for name in named(node)
        if name.strip("_").lower() in FORBIDDEN_NAMES
    ]
    assert places == []
