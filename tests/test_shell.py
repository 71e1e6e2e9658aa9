"""robin among other programs of a shell: pipes, completion, colours, help and typing errors."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from typer import Context
from typer.main import get_command

from robin_cli import open_run
from robin_cli.cli.app import app
from tests.conftest import (
    ROOT,
    change_manifest,
    environment,
    has,
    judging,
    robin,
    write_pairs,
)
from tests.data.writing import WRITERS
from tests.starting import Robin

COMMANDS = (
    *"judge plan status runs export render parse resume report simulate serve init check".split(),  # noqa: SIM905
    *("compare", "gate", "demo", "rubrics", "results"),
)


def piped(content: bytes, *args: str, cwd: Path) -> subprocess.CompletedProcess[bytes]:
    pipe = subprocess.PIPE
    with Robin(args, cwd=cwd, env=environment(), stdin=pipe, stdout=pipe, stderr=pipe) as process:
        out, err = process.communicate(content, timeout=120)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


PAIRS = [{"id": each, "prompt": each, "response": f"{each} is it"} for each in "abc"]


@pytest.mark.parametrize("suffix", [".jsonl.gz", ".json", ".csv", ".parquet"])
def test_takes_pairs_from_standard_input_in_any_format(
    tmp_path: Path, replay_url: str, suffix: str
) -> None:
    done = piped(WRITERS[suffix](PAIRS), *judging(replay_url, "-", 12, "--run", "r"), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [line.split(b",")[0] for line in done.stdout.splitlines()[1:]] == [
        b'"a"',
        b'"b"',
        b'"c"',
    ]
    if suffix == ".csv":
        robin("resume", "r", "--budget", "15", cwd=tmp_path, exits=0)
        assert len(pd.read_parquet(tmp_path / "r" / "judgments")) == 15


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "standard input: the file is empty"),
        (b'{"prompt": "p"}\n', 'standard input:1: no field "response"'),
        (gzip.compress(b'{"prompt": "p", "response": "r"}\n')[:-9], "cut short or damaged"),
        (gzip.compress(gzip.compress(b"{}")), "is compressed twice"),
        (b"PAR1 and no more", "standard input: "),
    ],
    ids=["empty", "no response", "cut gzip", "gzip in gzip", "no Parquet"],
)
def test_says_what_is_wrong_with_standard_input(
    tmp_path: Path, replay_url: str, content: bytes, said: str
) -> None:
    done = piped(content, *judging(replay_url, "-", 12), cwd=tmp_path)

    assert done.returncode == 2
    assert said in done.stderr.decode()
    assert b"Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


def test_takes_a_budget_as_robin_prints_it(tmp_path: Path) -> None:
    data = str(write_pairs(tmp_path / "pairs.jsonl", 3))
    command = ("plan", data, "-a", "helpfulness", "--budget")

    assert "1,200" in robin(*command, "1,200", cwd=tmp_path, exits=0).stdout
    assert "write 3000 or 3,000" in robin(*command, "3k", cwd=tmp_path).stderr


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (["jugde"], "Did you mean 'judge'?"),
        (["judge", "--bugdet", "5"], "--budget"),
        (
            [
                *("judge", "p.jsonl", "-b", "5", "-a", "helpfullness", "--model", "m"),
                *("--base-url", "http://x/v1"),
            ],
            '"helpfulness"?',
        ),
        (
            ["plan", "p.jsonl", "-b", "9", "-a", "verbosity", "--scheduler", "robinhood"],
            'did you mean "robin-hood"?',
        ),
        (["plan", "p.jsnol", "--budget", "9", "-a", "verbosity"], "Did you mean p.jsonl?"),
        (["judge", "--config", "vlm"], 'did you mean "vllm"?'),
        (["status", "runs/firts"], 'did you mean "first"?'),
    ],
)
def test_suggests_what_was_meant(tmp_path: Path, typed: list[str], meant: str) -> None:
    write_pairs(tmp_path / "p.jsonl", 3)
    (tmp_path / "runs" / "first").mkdir(parents=True)
    (tmp_path / "runs" / "first" / "manifest.json").write_text("{}", encoding="utf-8")

    done = robin(*typed, cwd=tmp_path, exits=2)

    assert meant in " ".join(done.stderr.replace("│", " ").split())


ROBIN = [
    sys.executable,
    "-c",
    "import sys; sys.argv[0] = 'robin'; from robin_cli.cli.app import main; main()",
]
"""As the shell's script calls it: the program's name decides the variable's."""


def test_completes_commands_flags_and_values(tmp_path: Path) -> None:
    of_bash = {
        "plan -a helpfulness,ver": "helpfulness,verbosity",
        "judge --scheduler t": "two-priors",
        "judge --config ll": "llama-cpp",
    }
    asked = [("zsh", "judge --sch"), ("fish", "ju"), *(("bash", typed) for typed in of_bash)]
    code = """import os, sys
from robin_cli.cli.app import main
os.environ["_TYPER_COMPLETE_FISH_ACTION"] = "get-args"
for each in sys.argv[1:]:
    shell, line = each.split(":")
    line, sys.argv = f"robin {line}", ["robin"]
    words = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split()) - 1), "_TYPER_COMPLETE_ARGS": line}
    os.environ |= {**words, "_ROBIN_COMPLETE": f"complete_{shell}"}
    try:
        main()
    except SystemExit:
        print("\\0", flush=True)
"""
    command = [sys.executable, "-c", code, *map(":".join, asked)]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=True
    )
    shown = done.stdout.split("\0\n")[:-1]
    for offered, said in zip(("--scheduler", "judge", *of_bash.values()), shown, strict=True):
        assert offered in said


def test_bash_completes_with_what_is_installed(tmp_path: Path) -> None:
    sourced = environment(_ROBIN_COMPLETE="source_bash")
    script = subprocess.run(
        ROBIN, cwd=tmp_path, env=sourced, capture_output=True, text=True, check=True
    ).stdout
    program = f"#!{sys.executable}\nfrom robin_cli.cli.app import main\nmain()\n"
    (tmp_path / "robin").write_text(program, encoding="utf-8")
    (tmp_path / "robin").chmod(0o755)
    asked = f"{script}\nCOMP_WORDS=(robin judge --sched); COMP_CWORD=2; _robin_completion robin; echo ${{COMPREPLY[@]}}"

    env = environment(PATH=f"{tmp_path}:{os.environ['PATH']}")
    done = subprocess.run(
        ["bash", "-c", asked], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )

    assert done.stdout.strip() == "--scheduler", done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_explains_every_command_within_80_columns_and_with_an_example(
    tmp_path: Path, command: str
) -> None:
    shown = robin(command, "--help", cwd=tmp_path, COLUMNS="80").stdout

    has(shown, "Example: robin " + command, "--help")
    assert max(map(len, shown.splitlines())) <= 80
    assert "\x1b" not in shown
    # what it takes, and not its type
    assert not re.search(r"<(bool|list|path|str|int|float)", shown, re.IGNORECASE)


def groups_of(shown: str) -> list[str]:
    return re.findall(r"^(\w.*):$", shown, re.MULTILINE)


def test_the_first_help_fits_on_a_screen_and_another_lists_everything(tmp_path: Path) -> None:
    first, whole = (
        robin(flag, cwd=tmp_path, COLUMNS="80", exits=0).stdout for flag in ("--help", "--help-all")
    )
    tools = {"render", "parse", "simulate", "serve"}
    assert len(first.splitlines()) <= 24
    assert max(map(len, first.splitlines())) <= 80
    assert {name for name in COMMANDS if f" {name} " not in first} == tools
    has(first, "robin --help-all", "no key, no network")
    has(whole, *(f" {name} " for name in COMMANDS), "--version", "Documentation: ")


def test_the_help_of_a_flag_is_a_line() -> None:
    for command in get_command(app).commands.values():  # type: ignore[attr-defined]
        for param in command.get_params(Context(command)):
            said = (getattr(param, "help", None) or "").split(" (default")[0]
            assert len(said) <= 90, f"{command.name} {param.name}: {said}"


def test_shows_the_flags_of_an_afternoon_or_all(tmp_path: Path) -> None:
    few, all_of_them = (
        robin("judge", flag, cwd=tmp_path, COLUMNS="80").stdout for flag in ("--help", "--help-all")
    )

    for shown, lines in ((few, 82), (all_of_them, 182)):
        assert groups_of(shown) == [
            "Arguments",
            "Data and judge",
            "How the budget is spent",
            "How the judge is asked",
            "Run and output",
            "Options",
        ]
        assert len(shown.splitlines()) < lines
    has(all_of_them, "--top-p", "--price-in")
    assert "--top-p" not in few
    assert "ROBIN_MAX_COST for --max-cost" in " ".join(few.split())
    assert "--top-p" in robin("judge", "--topp", "1", cwd=tmp_path, exits=2).stderr


def test_resumes_the_newest_unfinished_run_if_none_is_named(
    tmp_path: Path, replay_url: str
) -> None:
    data = str(write_pairs(tmp_path / "pairs.jsonl", 3))
    for name in ("runs/older", "runs/unfinished", "runs/finished"):
        robin(*judging(replay_url, data, 9, "--run", name), cwd=tmp_path, exits=0)
    for name in ("runs/older", "runs/unfinished"):
        change_manifest(tmp_path / name, lambda manifest: manifest.update(budget=12))
    for name in ("runs/unfinished", "runs/older"):
        done = robin("resume", "--quiet", "-o", "s.csv", cwd=tmp_path, exits=0)
        has(done.stderr, f"run: {name}, the newest unfinished one")
        assert open_run(tmp_path / name).status()["spent"] == 12
    has(robin("resume", cwd=tmp_path, exits=2).stderr, "runs/ holds no unfinished one")


def test_lists_the_runs_here(tmp_path: Path, replay_url: str) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 3)
    for budget in ("9", "12"):
        robin(*judging(replay_url, str(data), int(budget)), cwd=tmp_path, exits=0)
    (tmp_path / "runs" / "broken").mkdir()
    (tmp_path / "runs" / "broken" / "manifest.json").write_text("{", encoding="utf-8")
    nothing = robin("runs", "elsewhere", cwd=tmp_path)
    none = robin("status", cwd=tmp_path / "runs", exits=2)

    shown = robin("runs", cwd=tmp_path, COLUMNS="100").stdout
    facts = [json.loads(line) for line in robin("runs", "--json", cwd=tmp_path).stdout.splitlines()]

    assert [run["state"] for run in facts] == ["damaged", "finished", "finished"]
    assert [(run["spent"], run["budget"], run["ratings"]) for run in facts[1:]] == [
        (9, 9, 9),
        (12, 12, 12),
    ]
    assert all(run["run"] in shown for run in facts)
    assert "12 of 12" in shown
    assert (nothing.returncode, nothing.stdout) == (0, "")
    assert "no runs in elsewhere" in nothing.stderr
    assert "no run is named" in none.stderr
    listed = robin("results", "--format", "csv", cwd=tmp_path, exits=0).stdout
    has(listed, '"scores",3,', '"judgments",12,')
    assert "ranking" not in listed
    for command in ("status", "export", "report", "gate --require mean(helpfulness)>=0.01"):
        assert (
            f"run: {facts[2]['run']}, the newest one"
            in robin(*command.split(), cwd=tmp_path, exits=0).stderr
        )


WRONG = {
    "judge nope.jsonl -b 5 -a helpfulness --base-url http://localhost:9/v1": "no such file",
    "judge p.jsonl -b 5 -a nope --base-url http://localhost:9/v1": "no rubric for it",
    "judge p.jsonl -b 5 --base-url http://localhost:9/v1 -o s.foo": "known formats",
    "plan p.bin -a helpfulness": "the format is not known",
    "render 'none*.csv' -a helpfulness": "matches no file",
    "compare nope nope": "not a run directory",
    "resume nope --budget 9": "not a run directory",
}


def test_a_wrong_argument_is_reported_before_libraries_are_imported(tmp_path: Path) -> None:
    write_pairs(tmp_path / "p.jsonl", 3)
    (tmp_path / "p.bin").write_bytes(b"x")
    code = """import shlex, sys
from robin_cli.cli.app import main
for typed in sys.argv[1:]:
    sys.argv = ["robin", *shlex.split(typed)]
    try:
        main()
    except SystemExit as end:
        print(end.code, [name for name in ("numpy", "pyarrow", "openai", "aiohttp", "rich") if name in sys.modules])
        print("\\0", end="", file=sys.stderr, flush=True)
"""
    command = [sys.executable, "-c", code, *WRONG]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=True
    )

    assert done.stdout == "2 []\n" * len(WRONG)
    for said, told in zip(WRONG.values(), done.stderr.split("\0")[:-1], strict=True):
        assert said in told


def test_names_itself_as_it_was_called_where_a_shell_finds_no_robin(tmp_path: Path) -> None:
    write_pairs(tmp_path / "p.jsonl", 3)
    program = tmp_path / "bin" / "robin"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\nfrom robin_cli.cli.app import main\nmain()\n")
    program.chmod(0o700)
    done = subprocess.run(
        [program, "judge", "p.jsonl"], cwd=tmp_path, env=environment(PATH="", PYTHONPATH=str(ROOT)),
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert f"needs neither: {program} demo" in done.stderr


def test_commands_bring_no_library_that_they_do_not_need(tmp_path: Path, replay_url: str) -> None:
    # openai takes half a second; pyarrow imports pandas at its first array
    data = str(write_pairs(tmp_path / "pairs.jsonl", 3))
    robin(*judging(replay_url, data, 9, "--run", "r"), cwd=tmp_path, exits=0)
    code = """import sys
from robin_cli.cli.app import main
for command in ("status r", "export r -o s.xlsx"):
    sys.argv = ["robin", *command.split()]
    try:
        main()
    except SystemExit:
        pass
    print(command, [name for name in ("openai", "aiohttp") if name in sys.modules])
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=True
    )
    has(done.stdout, "status r []\n", "export r -o s.xlsx []\n")
    assert pd.read_excel(tmp_path / "s.xlsx", engine="openpyxl")["n"].sum() == 9


def test_the_scale_of_a_file_of_scores_is_no_setting_of_a_run(tmp_path: Path) -> None:
    for command in ("judge", "plan", "render"):
        refused = robin(command, "--scale", "0-4", cwd=tmp_path, exits=2)
        assert "No such option: --scale" in refused.stderr
