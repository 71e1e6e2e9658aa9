"""The README and docs/ as a reader uses them: every shell and Python block runs, against a judge that replays ratings."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from tests.batch_server import batch_server
from tests.comparing_judge import comparing
from tests.conftest import DEMO, REPLAY_MODEL, ROOT, environment, replaying
from tests.starting import Robin, run_here

pytestmark = pytest.mark.usefixtures("few_resamples", "no_pictures")

SKILL = ROOT / "skills" / "robin" / "SKILL.md"
PAGES = sorted([ROOT / "README.md", SKILL, *(ROOT / "docs").glob("*.md")])
MODELS = [REPLAY_MODEL, "replay:llama-3-1-8b/helpfulness"]
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
LABELS = ROOT / "tests" / "labels_of_demo.csv"
EVIDENCE = [str(page.relative_to(ROOT)) for page in (ROOT / "docs" / "evidence").glob("*.md")]

# Stands in for the commands that a reader would give to a judge that costs money, or that take long: robin with the replay
# for every judge, fewer pairs and smaller budgets, make without the tests that this is one of,
# pip without a second installation.
ROBIN = """import os, sys

args, kept, models = sys.argv[1:], [], 0
asks = args[:1] and args[0] in {{"judge", "plan", "check", "resume", "try"}}
# fewer than all pairs do not pass a gate, and of the others the person labelled some
whole = {{"runs/keep", "runs/gate", "runs/people"}} & {{*args}} or "ROBIN_BUDGET" in os.environ
while args:
    arg = args.pop(0)
    if asks and arg in {{"--base-url", "--model"}}:
        models += arg == "--model"
        args.pop(0)
    elif asks and arg == "--answers" and args[0] == "decisions":  # the replay writes
        args.pop(0)
    elif args and arg == "--budget" and kept[0] == "simulate":
        kept += [arg, ",".join(str(max(60, int(each) // 400)) for each in args.pop(0).split(","))]
    elif asks and arg == "--budget":
        least = 75 if kept[0] == "resume" else 130 if whole else 50
        kept += [arg, str(min(int(args[0]), least + int(args.pop(0)) // 200))]
    elif asks and arg == "--max-cost" and "--budget" not in [*kept, *args]:
        kept += [arg, str(0.004 + float(args.pop(0)) / 8000)]
    else:
        kept.append(arg)
if asks:
    if "ROBIN_BUDGET" in os.environ:
        os.environ["ROBIN_BUDGET"] = "150"
    # what was sent to the batch service is read there
    batches = "--batch" in kept or (kept[0] == "resume" and os.path.isdir(kept[1] + "/batches"))
    pairwise = "--pairwise" in kept
    kept += ["--base-url", os.environ["PAIRWISE_URL" if pairwise else "BATCHES_URL" if batches else "JUDGE_URL"]]
    for model in (["m"] if pairwise else {models!r})[: max(1, models)] * (kept[0] != "resume"):
        kept += ["--model", model]
    if "--ray" in kept:  # tests/plugins/ray has a cluster
        at = kept.index("--ray")
        del kept[at : at + 2]
    if kept[0] == "plan" and "--decide" in kept:
        kept += ["--margin", "0.9"]  # what is clear ends soon, and so does its simulation
    if kept[0] in {{"judge", "plan"}} and "--limit" not in kept and not whole:
        kept += ["--limit", "20"]
    if kept[0] == "try":  # fewer pairs, which a person labelled
        kept[kept.index("--labels") + 1] = {labels!r}
        kept[kept.index("--limit") + 1] = "12"
    if "--max-cost" in kept:
        kept += ["--price-in", "0.1", "--price-out", "0.4"]
if kept[:1] == ["label"]:  # a person's work, recorded
    import shutil

    shutil.copy({labels!r}, kept[1] + "/labels.csv")
    sys.exit()
if kept[:1] == ["simulate"]:
    kept += ["--runs", "2"]
    if "rewardbench2" in kept:
        kept += ["--limit", "24", "--budget", "24,36"]
    elif "configs/pools/paper_digitised.parquet" in kept:
        kept += ["--limit", "8"]
"""
STARTED = """
from robin_cli.cli.app import main

sys.argv = ["robin", *kept]
if __name__ == "__main__":  # simulate starts processes
    main()
"""
# The same by a fork, which saves a second of work at each command: the test's process starts it, with this one's files.
HANDED_OVER = """
import json, socket

with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as desk:
    desk.connect({socket!r})
    told = json.dumps([kept, os.getcwd(), dict(os.environ)])
    socket.send_fds(desk, [told.encode()], [0, 1, 2])
    sys.exit(int(desk.recv(32)))
"""
# tests/test_wheel.py runs the demo.
MAKE = '#!/bin/sh\nexec /usr/bin/env -i PATH="/usr/bin:/bin" make -n -C {root} "$@"\n'
PIP = '#!/bin/sh\n[ "$*" = "install ." ] && [ -f {root}/pyproject.toml ]\n'
# python3 -m venv, in the workflow of a build: its robin is the one here, and its pip installs nothing but the checkout.
MAKES_AN_ENVIRONMENT = """#!/bin/sh
[ "$1 $2" = "-m venv" ] && mkdir -p "$3/bin" && cp {bin}/robin "$3/bin/robin" &&
  printf '#!/bin/sh\\n[ "$*" = "-m pip install --quiet {root}" ]\\n' > "$3/bin/python" && chmod +x "$3/bin/python"
"""
# The models of docs/examples/answer.py are the judges that there are: what they "answer" are ratings.
PYTHON = """#!/bin/sh
case "$1" in
  docs/examples/answer.py)
    prompts=$2 && shift 2
    OPENAI_BASE_URL=$JUDGE_URL OPENAI_API_KEY=none exec {python} {root}/docs/examples/answer.py "$prompts" {models} ;;
  *) exec {python} "$@" ;;
esac
"""


# What stands in for vLLM: it answers a file of requests by the judges that there are, one after another.
VLLM = """#!{python}
import json, os, sys, urllib.request

asked, answered = sys.argv[sys.argv.index("-i") + 1], sys.argv[sys.argv.index("-o") + 1]
with open(asked, encoding="utf-8") as lines, open(answered, "w", encoding="utf-8") as out:
    for line in map(json.loads, lines):
        url, body = os.environ["JUDGE_URL"] + "/chat/completions", json.dumps(line["body"]).encode()
        request = urllib.request.Request(url, body, {{"Content-Type": "application/json"}})
        with urllib.request.urlopen(request) as got:
            response = {{"status_code": 200, "request_id": "vllm-batch-1", "body": json.load(got)}}
        print(json.dumps({{"id": "vllm-1", "custom_id": line["custom_id"], "response": response, "error": None}}), file=out)
"""


@pytest.fixture(scope="module")
def batches_url(judges_url: str) -> Iterator[str]:
    """The same judges behind a batch service."""
    with batch_server(upstream=judges_url) as server:
        yield server.url


@pytest.fixture(scope="module")
def pools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first ratings of each judge of the paper, and of each of those of the best responses."""
    folder = tmp_path_factory.mktemp("pools")
    for name, each in {"paper_digitised.parquet": 1800, "rewardbench2.parquet": 4000}.items():
        ratings = pd.read_parquet(ROOT / "configs" / "pools" / name)
        ratings.groupby("attribute").head(each).to_parquet(folder / name)
    return folder


@pytest.fixture(scope="module")
def judges_url(pools: Path) -> Iterator[str]:
    """Both judges of the paper."""
    with replaying(pools / "paper_digitised.parquet") as url:
        yield url


@pytest.fixture(scope="module")
def pairwise_url() -> Iterator[str]:
    """A judge of two responses, with an order's effect."""
    with comparing(order_effect=0.3) as url:
        yield url


@pytest.fixture
def desk(
    tmp_path: Path, pools: Path, judges_url: str, batches_url: str, pairwise_url: str
) -> tuple[Path, dict[str, str]]:
    """A folder with the demo's pairs and tools' logs, and an environment in which the docs' commands mean what they say."""
    programs = tmp_path / "bin"
    programs.mkdir()
    robin = f"#!{sys.executable}\n{ROBIN}{STARTED}"
    for name, program in {
        "robin": robin,
        "make": MAKE,
        "pip": PIP,
        "python3": PYTHON,
        "vllm": VLLM,
    }.items():
        asked = MODELS if name == "robin" else " ".join(MODELS)
        write_program(
            programs / name,
            program.format(python=sys.executable, root=ROOT, models=asked, labels=str(LABELS)),
        )
    folder = tmp_path / "desk"
    folder.mkdir()
    shutil.copy(DEMO / "pairs.jsonl", folder)
    shutil.copytree(ROOT / "configs", folder / "configs")
    shutil.copytree(pools, folder / "configs" / "pools", dirs_exist_ok=True)
    logs = ROOT / "tests" / "plugins" / "logs" / "written"
    for kind, place in {"inspect": "logs", "lm-eval": "results"}.items():
        shutil.copytree(logs / kind, folder / place)
    urls = {"JUDGE_URL": judges_url, "BATCHES_URL": batches_url, "PAIRWISE_URL": pairwise_url}
    return folder, environment(PATH=f"{programs}:{os.environ['PATH']}", **urls)


def write_program(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


def handing_over(
    programs: Path, command: list[str], **named: Any
) -> subprocess.CompletedProcess[str]:
    """Run a command whose robin, that in ``programs``, runs here; or is a fork of this process's helper, in a pipe."""
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as desk,
        ThreadPoolExecutor() as pool,  # two ends of a pipe run together
        (programs / "said").open("w+", encoding="utf-8") as out,
        (programs / "noted").open("w+", encoding="utf-8") as err,
    ):
        address = f"\0robin-{os.getpid()}"  # no file: a path would be too long
        desk.bind(address)
        desk.listen()
        text = f"#!/usr/bin/env -S {sys.executable} -I -S\n{ROBIN}{HANDED_OVER}"
        write_program(
            programs / "robin", text.format(models=MODELS, labels=str(LABELS), socket=address)
        )
        with subprocess.Popen(command, stdout=out, stderr=err, **named) as process:
            pool.submit(_close_after, process, desk)
            while asking := _next(desk):
                _answer(asking, pool)
        for file in (out, err):
            file.seek(0)
        return subprocess.CompletedProcess(command, process.returncode, out.read(), err.read())


def _close_after(process: subprocess.Popen[str], desk: socket.socket) -> None:
    process.wait()
    desk.shutdown(socket.SHUT_RDWR)


def _next(desk: socket.socket) -> socket.socket | None:
    try:
        return desk.accept()[0]
    except OSError:  # it is closed
        return None


def _answer(asking: socket.socket, pool: ThreadPoolExecutor) -> None:
    told, files, *_ = socket.recv_fds(asking, 1 << 20, 3)
    args, cwd, env = json.loads(told)
    if any(stat.S_ISFIFO(os.fstat(file).st_mode) for file in files):
        pool.submit(_start, asking, args, Path(cwd), env, files)
        return
    here = run_here(args, cwd=Path(cwd), env=env)
    assert here is not None  # or each command would take a second of imports
    for file, said in zip(files[1:], here[1:], strict=True):
        os.write(file, said)
    _ended(asking, files, here[0])


def _start(
    asking: socket.socket, args: list[str], cwd: Path, env: dict[str, str], files: list[int]
) -> None:
    with Robin(args, cwd=cwd, env=env, stdin=files[0], stdout=files[1], stderr=files[2]) as process:
        for file in files:
            os.close(file)
        status = process.wait()
    _ended(asking, [], status)


def _ended(asking: socket.socket, files: list[int], status: int) -> None:
    for file in files:
        os.close(file)
    with asking:
        asking.send(str(status if status >= 0 else 128 - status).encode())


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(
        rf"^```{language}\n(.*?)^```$",
        page.read_text(encoding="utf-8"),
        flags=re.DOTALL | re.MULTILINE,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name for name, page in zip(NAMES, PAGES, strict=True) if blocks(page, "sh")]
)
def test_every_shell_block_runs(name: str, desk: tuple[Path, dict[str, str]]) -> None:
    folder, env = desk
    script = "set -euo pipefail\n" + "\n".join(blocks(ROOT / name, "sh"))

    done = handing_over(folder.parent / "bin", ["bash", "-x", "-c", script], cwd=folder, env=env)

    assert done.returncode == 0, done.stderr[-3000:]
    assert "Traceback" not in done.stderr


def test_the_workflow_of_a_build_runs(desk: tuple[Path, dict[str, str]]) -> None:
    # as GitHub does: each step by a shell of its own that ends at the first error; other actions, and secrets, are GitHub's own
    folder, env = desk
    workflow = yaml.safe_load((ROOT / "docs" / "examples" / "gate.yml").read_text(encoding="utf-8"))
    (job,) = workflow["jobs"].values()
    (used,) = [step for step in job["steps"] if step.get("uses") == "./robin"]
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    assert used["with"].keys() <= action["inputs"].keys()
    assert {name for name, each in action["inputs"].items() if each.get("required")} <= used[
        "with"
    ].keys()
    known = {
        f"inputs.{name}": str(used["with"].get(name, each.get("default")))
        for name, each in action["inputs"].items()
    }
    known["github.action_path"] = str(ROOT)
    write_program(
        folder.parent / "bin" / "python3",
        MAKES_AN_ENVIRONMENT.format(root=ROOT, bin=folder.parent / "bin"),
    )
    of_github = {
        name: str(folder / name) for name in ("GITHUB_STEP_SUMMARY", "GITHUB_PATH", "RUNNER_TEMP")
    }
    for name in ("GITHUB_STEP_SUMMARY", "GITHUB_PATH"):
        (folder / name).touch()

    lines: list[str] = []
    for step in action["runs"]["steps"]:
        assert "${{" not in step["run"]  # what a workflow gives is no part of a command
        given = {name: known[text.strip("${} ")] for name, text in step.get("env", {}).items()}
        path = ":".join(
            [*(folder / "GITHUB_PATH").read_text(encoding="utf-8").split(), env["PATH"]]
        )
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        of_step = {**env, **of_github, **given, "PATH": path}
        done = handing_over(folder.parent / "bin", command, cwd=folder, env=of_step)
        assert done.returncode == 0, done.stderr
        lines = done.stdout.splitlines()

    assert [line.split()[0] for line in lines] == ["PASS", "PASS"]
    assert (
        (folder / "GITHUB_STEP_SUMMARY")
        .read_text(encoding="utf-8")
        .startswith("### robin gate: ✅ pass\n")
    )
    assert (folder / "RUNNER_TEMP" / "robin" / "path" / "robin").exists()
    kept = next(
        step["with"]["path"].split() for step in job["steps"] if step.get("if") == "always()"
    )
    assert all((folder / name).is_file() for name in kept)


# docs/beside.md runs beside the tools that it is about: make test-beside.
@pytest.mark.parametrize(
    "name",
    [
        name
        for name, page in zip(NAMES, PAGES, strict=True)
        if page.name != "beside.md" and blocks(page, "python")
    ],
)
def test_every_python_block_runs(
    name: str,
    desk: tuple[Path, dict[str, str]],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    folder, env = desk
    page = "\n".join(blocks(ROOT / name, "python"))
    assert "robin.judge(" in page
    # none of their sentences is about how much was asked
    page = re.sub(r"budget=(\d+)", lambda found: f"budget={120 + int(found[1]) // 50}", page)
    page = page.replace(
        'model="gpt-6-luna"', f'model="{REPLAY_MODEL}", base_url="{env["JUDGE_URL"]}"'
    )

    monkeypatch.chdir(folder)
    for variable in set(os.environ) - set(env):
        monkeypatch.delenv(variable)
    for variable, value in env.items():
        monkeypatch.setenv(variable, value)
    exec(compile(page, name, "exec"), {"__name__": "__main__"})  # noqa: S102

    assert "story-flash-good" not in capfd.readouterr().err


@pytest.mark.parametrize("name", NAMES)
def test_blocks_are_of_a_known_kind(name: str) -> None:
    page = ROOT / name
    opened = re.findall(r"^```(.*)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)

    assert set(opened) <= {"sh", "python", "text", ""}
    assert opened.count("") == len(opened) / 2  # each one ends
    # a table's rows follow its head
    assert not re.search(r"\n\n\|.*\n(?!\|-)", page.read_text(encoding="utf-8"))
    assert not re.search(
        r"^    +(robin|make|export|cat|pip) ", page.read_text(encoding="utf-8"), flags=re.MULTILINE
    )


def test_the_pages_for_users_stay_short() -> None:
    texts = [
        page.read_text(encoding="utf-8")
        for page in PAGES
        if page.name not in {"architecture.md", "SKILL.md"}
    ]
    words = sum(len(text.split()) for text in texts if not text.startswith("<!-- Generated"))
    assert words <= 15_000, "shorten a page, or move what was measured to docs/evidence"
    evidence = [(ROOT / name).read_text(encoding="utf-8") for name in EVIDENCE]
    assert sum(len(text.split()) for text in evidence) <= 10_000
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 900
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").split("\n## ")
    assert len(changes[1].splitlines()) <= 60


def test_the_glossary_has_25_terms_of_25_words() -> None:
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    terms = re.findall(r"^- \*\*(.+?)\*\*: (.+)$", text, flags=re.MULTILINE)
    assert len(terms) == 25
    assert [term for term, meaning in terms if len(meaning.split()) > 25] == []


@pytest.mark.parametrize("name", EVIDENCE)
def test_every_table_of_the_evidence_names_the_command_that_prints_it(name: str) -> None:
    sections = re.split(r"^#+ ", (ROOT / name).read_text(encoding="utf-8"), flags=re.MULTILINE)
    tables = [section for section in sections if "\n|---" in section]
    command = re.compile(r"python -m\s+benchmarks\.|robin\s+simulate")
    assert [section.splitlines()[0] for section in tables if not command.search(section)] == []


@pytest.mark.parametrize("name", [*NAMES, *EVIDENCE, "SECURITY.md", "CONTRIBUTING.md"])
def test_links_lead_somewhere(name: str) -> None:
    page = ROOT / name
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if not target.startswith(("http://", "https://")):
            path, _, heading = target.partition("#")
            linked = page.parent / path if path else page
            assert linked.exists(), target
            assert not heading or heading in headings(linked), target


def headings(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {
        re.sub(r"[^\w\- ]", "", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title))
        .lower()
        .replace(" ", "-")
        for title in titles
    }


def test_troubleshooting_quotes_messages_that_robin_says() -> None:
    sources = "".join(
        path.read_text(encoding="utf-8") for path in (ROOT / "robin_cli").rglob("*.py")
    )
    sources += "".join(
        path.read_text(encoding="utf-8") for path in (ROOT / "plugins").rglob("*.py")
    )
    joined = re.sub(r'"\s*f?"', "", sources)  # literals over several lines
    joined = re.sub(r"\{(self\._)?noun\}", "rating", joined)
    page = (
        (ROOT / "docs" / "troubleshooting.md")
        .read_text(encoding="utf-8")
        .split("## From the numbers")[0]
    )
    quoted = re.findall(r"^### (.+)$", page, flags=re.MULTILINE)

    assert len(quoted) > 15
    assert [message for message in quoted if message not in joined] == []


def test_the_notebook_runs_in_a_kernel(
    desk: tuple[Path, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    import nbformat
    from nbclient import NotebookClient

    folder, env = desk
    monkeypatch.setenv("JUDGE_URL", env["JUDGE_URL"])
    source = ROOT / "docs" / "notebook.ipynb"
    notebook = nbformat.read(source, as_version=4)
    stored = [json.dumps(cell.get("outputs", [])) for cell in notebook.cells]
    for cell in notebook.cells:
        cell.source = re.sub(
            r"budget=(\d+)", lambda found: f"budget={int(found[1]) // 20}", cell.source
        )

    (folder / "docs").mkdir()
    where = {"metadata": {"path": folder / "docs"}}
    NotebookClient(notebook, timeout=240, kernel_name="python3", resources=where).execute()

    shown = [[output.output_type for output in cell.get("outputs", [])] for cell in notebook.cells]
    assert shown == [
        [output["output_type"] for output in json.loads(outputs)] for outputs in stored
    ]
    # a picture for readers who do not run it
    assert any("image/png" in outputs for outputs in stored)
    assert "error" not in str(shown)
    assert any("ci_low" in outputs for outputs in stored)
    assert not re.search(r"/(home|root|tmp|work|usr)/", "".join(stored))


def test_the_columns_of_the_scores_are_named_where_python_is_explained() -> None:
    (first, *_) = blocks(ROOT / "docs" / "python.md", "python")
    assert '"ci_low", "ci_high"' in first
