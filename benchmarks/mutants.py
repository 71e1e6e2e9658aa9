"""Whether the tests notice 60 changed operators and constants each in eight parts of robin that results rest on.

    python -m benchmarks.mutants OUT.csv [PART…]

A row per change: part, file, line, before, after, noticed. The same changes are drawn each time, so that two lists, from
before and after a change of the tests, can be held side by side. Two copies of the project are changed at a time; half an
hour on two cores.
"""

from __future__ import annotations

import ast
import csv
import importlib
import multiprocessing
import os
import random
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

Pool = multiprocessing.get_context("fork").Pool

MUTANTS = 60
COPIES = 2
LIBRARIES = (
    "pytest",
    "hypothesis",
    "numpy",
    "scipy.stats",
    "pandas",
    "pyarrow.parquet",
    "openai",
    "typer",
    "rich.console",
)
"""What is imported before the forks; neither robin nor its tests."""
PARTS = {
    "fold": (
        "robin_cli/run/fold.py",
        "tests/run/test_fold.py tests/run/test_store.py tests/run/test_merge.py",
    ),
    "journal": (
        "robin_cli/run/journal.py",
        "tests/run/test_store.py tests/run/test_any_journal.py",
    ),
    "planner": ("robin_cli/session/*.py", "tests/session tests/policies"),
    "policies": ("robin_cli/policies/**/*.py", "tests/policies tests/session"),
    "intervals": (
        "robin_cli/stats/intervals.py",
        "tests/stats/test_intervals.py tests/stats/test_scores.py",
    ),
    "evidence": (
        "robin_cli/stats/evidence.py",
        "tests/stats/test_evidence.py tests/stats/test_decisions.py",
    ),
    "parsing": ("robin_cli/ask/*.py", "tests/ask"),
    "budgets": (
        "robin_cli/session/budget.py",
        "tests/session tests/test_spending.py tests/test_money_budget.py",
    ),
}
"""What is changed, and the tests that are to notice."""
WARNINGS = ("-W", "ignore::pytest.PytestAssertRewriteWarning")
"""What pytest says of libraries that were imported before it."""
SWAP: dict[type, type] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.And: ast.Or,
    ast.Or: ast.And,
}


def sites(tree: ast.AST) -> Iterator[ast.expr]:
    """Yield what can be changed: comparisons, operators and numbers."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            if type(node.ops[0]) in SWAP:
                yield node
        elif isinstance(node, ast.BinOp | ast.BoolOp):
            if type(node.op) in SWAP:
                yield node
        elif isinstance(node, ast.Constant) and type(node.value) in {int, float} and node.value:
            yield node


def change(node: ast.expr) -> None:
    """Swap the operator of ``node``, or take another number."""
    if isinstance(node, ast.Compare):
        node.ops[0] = SWAP[type(node.ops[0])]()
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        node.value = node.value * 2 + isinstance(node.value, int)
    elif isinstance(node, ast.BinOp | ast.BoolOp):
        node.op = SWAP[type(node.op)]()


def noticed(copy: Path, path: Path, changed: str, tests: str) -> bool:
    """Return whether a test of ``copy`` fails with ``changed`` in place of the text of its file ``path``."""
    source = (copy / path).read_text(encoding="utf-8")
    (copy / path).write_text(changed, encoding="utf-8")
    try:
        with Pool(
            1, initializer=_settle, initargs=(copy,)
        ) as child:  # a fork: the libraries are imported once
            return bool(child.apply_async(_run, (tests.split(),)).get(timeout=300))
    except multiprocessing.TimeoutError:
        return True
    finally:
        (copy / path).write_text(source, encoding="utf-8")


def _settle(copy: Path) -> None:
    os.setsid()
    os.chdir(copy)
    os.environ["PYTHONPATH"] = (
        f"{copy}{os.pathsep}{copy / 'plugins'}"  # for the processes that tests start
    )
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    sys.path[:0] = [str(copy), str(copy / "plugins")]
    sys.dont_write_bytecode = True
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)


def _run(tests: list[str]) -> int:
    return int(
        pytest.main(
            [
                "-q",
                "-x",
                "-p",
                "no:cacheprovider",
                "-p",
                "no:xdist",
                "--hypothesis-seed=0",
                *WARNINGS,
                *tests,
            ]
        )
    )


def changes(parts: Sequence[str]) -> Iterator[tuple[str, Path, int]]:
    """Yield part, file and number of the place in it."""
    for part in parts:
        places = [
            (path, number)
            for path in sorted(Path().glob(PARTS[part][0]))
            for number, _ in enumerate(sites(ast.parse(path.read_text(encoding="utf-8"))))
        ]
        for path, number in random.Random(1).sample(places, min(MUTANTS, len(places))):
            yield part, path, number


def main() -> None:
    """Write the list."""
    out, *parts = sys.argv[1:]
    for library in LIBRARIES:
        importlib.import_module(library)
    waiting, free = iter(changes(parts or list(PARTS))), threading.Lock()
    with (
        Path(out).open("a", encoding="utf-8", newline="") as file,
        tempfile.TemporaryDirectory() as folder,
    ):
        rows = csv.writer(file)

        def work(copy: Path) -> None:
            while True:
                with free:
                    if (one := next(waiting, None)) is None:
                        return
                part, path, number = one
                tree = ast.parse(path.read_text(encoding="utf-8"))
                node = list(sites(tree))[number]
                before = ast.unparse(node)
                change(node)
                found = noticed(
                    copy, path, ast.unparse(ast.fix_missing_locations(tree)), PARTS[part][1]
                )
                with free:
                    rows.writerow([part, path, node.lineno, before, ast.unparse(node), found])
                    file.flush()

        with ThreadPoolExecutor(COPIES) as pool:
            copies = [Path(folder) / str(number) for number in range(COPIES)]
            for copy in copies:
                shutil.copytree(
                    ".", copy, ignore=shutil.ignore_patterns(".*", "__pycache__", "runs")
                )
            list(pool.map(work, copies))


if __name__ == "__main__":
    main()
