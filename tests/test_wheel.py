"""What pip installs works from any folder."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path

import pytest

from robin_cli import __version__
from tests.conftest import ROOT, environment

# One command after another; the demo with few of its calls.
ROBIN = """
import sys
sys.path.insert(0, sys.argv.pop(1))
from robin_cli.cli import demo
from robin_cli.cli.app import main
demo._BUDGET = 150
for command in sys.argv[1:]:
    sys.argv = ["robin", *command.split()]
    try:
        main()
    except SystemExit as end:
        print("exit", end.code, flush=True)
"""


@pytest.mark.slow
def test_ships_prompts_and_configs_inside_the_wheel(tmp_path: Path) -> None:
    site = tmp_path / "site"
    built = tmp_path / "dist"
    command = ["-m", "hatchling", "build", "-d", str(built)]
    subprocess.run([sys.executable, *command], cwd=ROOT, check=True, timeout=300)
    (sdist,), (wheel_file,) = built.glob("*.tar.gz"), built.glob("*.whl")
    assert (sdist.name, wheel_file.name) == (
        f"robin_judge-{__version__}.tar.gz",
        f"robin_judge-{__version__}-py3-none-any.whl",
    )
    subprocess.run(
        [sys.executable, "-m", "check_wheel_contents", wheel_file], cwd=ROOT, check=True, timeout=60
    )
    # the tests of plug-ins have the others
    examples = [str(ROOT / "examples" / "robin-policy-shrinkage")]
    command = [
        *("-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-compile")
    ]
    subprocess.run(
        [sys.executable, *command, "--target", site, sdist, *examples], check=True, timeout=300
    )
    (tmp_path / "p.jsonl").write_text(
        json.dumps({"id": "x", "prompt": "Hi.", "response": "Ho."}), encoding="utf-8"
    )

    (tmp_path / "runs").write_text("", encoding="utf-8")  # as in a folder where nothing can be made
    commands = ["render p.jsonl --pair x --attribute helpfulness", "init --like vllm"]
    commands += ["demo --run d/first", "demo --run d/first", "demo"]
    shown = subprocess.run(
        [sys.executable, "-c", ROBIN, site, *commands],
        cwd=tmp_path, env=environment(), capture_output=True, text=True, encoding="utf-8",
    )  # fmt: skip
    assert re.findall("^exit (.*)$", shown.stdout, re.MULTILINE) == ["0", "0", "0", "2", "2"]
    assert "Score 4: The response is extremely helpful" in shown.stdout
    assert "vllm serve" in (tmp_path / "robin.toml").read_text(encoding="utf-8")
    assert (site / "robin_cli" / "_shipped" / "configs" / "demo" / "pairs.jsonl").is_file()
    assert (site / "robin_cli" / "py.typed").is_file()
    assert (site / "share" / "man" / "man1" / "robin.1").is_file()
    assert not (site / "tests").exists()
    distribution = {each.name: each for each in distributions(path=[str(site)])}
    assert distribution.keys() == {"robin-judge", *(Path(example).name for example in examples)}
    wheel = distribution.pop("robin-judge")
    for example in distribution.values():
        assert {(site / f"{point.module}.py").is_file() for point in example.entry_points} == {True}
    added = {
        (each.group, each.name): each.module
        for each in wheel.entry_points
        if each.group != "console_scripts"
    }
    assert {
        ("robin.carriers", "ray"),
        ("robin.datasets", ".eval"),
        ("robin.logs", "lm-eval"),
        ("pytest11", "robin"),
    } <= added.keys()
    assert all((site / f"{module.replace('.', '/')}.py").is_file() for module in added.values())

    assert "no model\nreads the responses" in shown.stderr
    assert "60 pairs" in shown.stdout + shown.stderr
    assert (
        len((tmp_path / "d" / "first" / "scores.csv").read_text(encoding="utf-8").splitlines())
        == 61
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "d",
        "dist",
        "p.jsonl",
        "robin.toml",
        "runs",
        "site",
    ]
    assert (
        "\nrobin: --run d/first: is there already, and the demo writes over nothing; name another folder\n"
        in shown.stderr
    )
    assert "no run can be kept here" in shown.stderr
    assert shown.stderr.endswith("name another folder with --run\n")
