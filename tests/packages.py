"""Packages of others where Python finds them: what pip would leave there, without pip."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

from tests.conftest import ROOT


def put_package(site: Path, name: str, code: str, points: Mapping[str, Mapping[str, str]]) -> None:
    """Put a package of one module, ``code``, into ``site``; ``points``: by group the entry points, from name to object."""
    module = name.replace("-", "_")
    info = site / f"{module}-1.dist-info"
    info.mkdir(parents=True)
    (site / f"{module}.py").write_text(code, encoding="utf-8")
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n", encoding="utf-8"
    )
    lines = [
        f"[{group}]\n" + "".join(f"{each} = {found}\n" for each, found in of.items())
        for group, of in points.items()
    ]
    (info / "entry_points.txt").write_text("".join(lines), encoding="utf-8")


def put_example(site: Path, name: str) -> None:
    """Put a package of ``examples/`` into ``site``, with the entry points that its project names (test_wheel.py builds it)."""
    folder = ROOT / "examples" / name
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (module,) = folder.glob("*.py")
    put_package(site, project["name"], module.read_text(encoding="utf-8"), project["entry-points"])
