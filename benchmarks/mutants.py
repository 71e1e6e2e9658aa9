"""Whether the tests notice 60 changed operators and constants each in eight parts of robin that results rest on.

    python -m benchmarks.mutants OUT.csv [PART…]     in a copy of the project: files are changed, and put back

A row per change: part, file, line, before, after, noticed. The same changes are drawn each time, so that two lists, from
before and after a change of the tests, can be held side by side. An hour on two cores.
"""

from __future__ import annotations

import ast
import csv
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

MUTANTS = 60
PARTS = {
    "fold": (
        "robin_cli/storage/fold.py",
        "tests/storage/test_fold.py tests/storage/test_store.py tests/storage/test_merge.py",
    ),
    "journal": ("robin_cli/storage/journal.py", "tests/storage/test_store.py tests/storage/test_any_journal.py"),
    "scheduler": ("robin_cli/scheduling/*.py", "tests/scheduling tests/policies"),
    "policies": ("robin_cli/policies/**/*.py", "tests/policies tests/scheduling"),
    "intervals": ("robin_cli/analysis/intervals.py", "tests/analysis/test_intervals.py tests/analysis/test_scores.py"),
    "evidence": ("robin_cli/analysis/evidence.py", "tests/analysis/test_evidence.py tests/analysis/test_decisions.py"),
    "parsing": ("robin_cli/parsing/*.py", "tests/parsing"),
    "budgets": ("robin_cli/scheduling/budget.py", "tests/scheduling tests/test_spending.py tests/test_money_budget.py"),
}
"""What is changed, and the tests that are to notice."""
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


def noticed(path: Path, changed: str, tests: list[str]) -> bool:
    """Return whether a test fails with ``changed`` in place of the file's text."""
    source = path.read_text(encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "--hypothesis-seed=0",
        *tests,
    ]
    path.write_text(changed, encoding="utf-8")
    try:
        return bool(subprocess.run(command, capture_output=True, timeout=300, check=False).returncode)
    except subprocess.TimeoutExpired:
        return True
    finally:
        path.write_text(source, encoding="utf-8")


def main() -> None:
    """Write the list."""
    out, *parts = sys.argv[1:]
    with Path(out).open("a", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        for part in parts or PARTS:
            pattern, tests = PARTS[part]
            places = [
                (path, number)
                for path in sorted(Path().glob(pattern))
                for number, _ in enumerate(sites(ast.parse(path.read_text(encoding="utf-8"))))
            ]
            for path, number in random.Random(1).sample(places, min(MUTANTS, len(places))):
                tree = ast.parse(path.read_text(encoding="utf-8"))
                node = list(sites(tree))[number]
                before = ast.unparse(node)
                change(node)
                found = noticed(path, ast.unparse(ast.fix_missing_locations(tree)), tests.split())
                rows.writerow([part, path, node.lineno, before, ast.unparse(node), found])
                file.flush()


if __name__ == "__main__":
    main()
