"""What a judge call costs the client: robin, the bare SDK loop and two peers against the same stub server, in one run.

    python benchmarks/engine.py                 # robin and the bare loop: about three minutes
    python benchmarks/engine.py --peers         # also lm-evaluation-harness and inspect_ai, installed on demand

CPU is user and system time of the tool's own process. Every tool is run at two numbers of calls, several times in turn,
and the slope between them is what a call costs: start-up is in neither. Figures are mean ± half the range.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
PAIRS = 200
REPEATS = 3
PEERS = {
    "lm-evaluation-harness": "lm_eval[api]==0.4.13",
    "inspect_ai": "inspect_ai==0.3.285 openai",
}


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one call: CPU in ms and calls a second, each with half the range over the repeats; memory of the larger run."""

    cpu_ms: float
    cpu_spread: float
    rate: float
    rate_spread: float
    rss_mb: float


@contextmanager
def stub(folder: Path, latency_ms: float, faults: int = 0) -> Iterator[str]:
    """The stub server, compiled if need be, with so many faults in a hundred answers; yields its base URL."""
    program = folder / "stub_server"
    if not program.exists():
        try:
            subprocess.run(
                ["cc", "-O2", "-o", str(program), str(HERE / "stub_server.c")], check=True
            )
        except FileNotFoundError:
            sys.exit("benchmarks/engine.py needs a C compiler (cc) for its stub server")
    with subprocess.Popen(
        [str(program), str(latency_ms), str(faults)], stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None  # noqa: S101  # it was asked for
            yield f"http://127.0.0.1:{server.stdout.readline().strip()}/v1"
        finally:
            server.kill()


def measured(command: list[str], folder: Path) -> tuple[float, float, float]:
    """CPU seconds, wall seconds and peak memory (MB) of ``command``; what it prints is kept for its errors."""
    log = folder / "log"
    started = time.perf_counter()
    with log.open("wb") as out:
        process = subprocess.Popen(command, cwd=folder, stdout=out, stderr=out, env=_environment())
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    wall_s = time.perf_counter() - started
    if process.returncode:
        raise RuntimeError(
            f"{command[:3]}: exit {process.returncode}: {log.read_text(errors='replace')[-600:]}"
        )
    return usage.ru_utime + usage.ru_stime, wall_s, usage.ru_maxrss / 1024


def cost(
    command: Callable[[int], list[str]],
    sizes: tuple[int, int],
    folder: Path,
    repeats: int = REPEATS,
) -> Cost:
    """What one more call costs, from runs of both sizes in turn."""
    cpu, rate, rss = [], [], 0.0
    for _ in range(repeats):
        (cpu_small, wall_small, _), (cpu_large, wall_large, rss) = (
            measured(command(n), folder) for n in sizes
        )
        calls = sizes[1] - sizes[0]
        cpu.append(1000 * (cpu_large - cpu_small) / calls)
        rate.append(calls / (wall_large - wall_small))
    return Cost(_mean(cpu), _spread(cpu), _mean(rate), _spread(rate), rss)


def robin(url: str, folder: Path, concurrency: int) -> Callable[[int], list[str]]:
    """``robin judge`` as a user runs it, with so many calls."""

    def command(calls: int) -> list[str]:
        run = tempfile.mkdtemp(dir=folder)
        return [
            *(
                sys.executable,
                "-m",
                "robin_cli",
                "judge",
                "pairs.jsonl",
                "--attribute",
                "helpfulness",
            ),
            *(
                "--budget",
                str(calls),
                "--concurrency",
                str(concurrency),
                "--base-url",
                url,
                "--model",
                "stub",
            ),
            *(
                "--run",
                str(Path(run) / "run"),
                "--output",
                str(Path(run) / "scores.csv"),
                "--quiet",
            ),
        ]

    return command


def bare(url: str, concurrency: int) -> Callable[[int], list[str]]:
    """The SDK in a loop of its own, doing nothing else."""
    return lambda calls: [
        sys.executable,
        str(HERE / "bare_loop.py"),
        url,
        str(calls),
        str(concurrency),
        "prompts.json",
    ]


def lm_eval(url: str, python: Path) -> Callable[[int], list[str]]:
    """lm-evaluation-harness on a task of its own, 64 at a time."""

    def command(calls: int) -> list[str]:
        arguments = f"model=stub,base_url={url}/chat/completions,num_concurrent=64,tokenized_requests=False,max_retries=3"
        return [
            *(
                str(python.with_name("lm_eval")),
                "--model",
                "local-chat-completions",
                "--model_args",
                arguments,
            ),
            *(
                "--tasks",
                "stub_task",
                "--include_path",
                "lm_eval_task",
                "--apply_chat_template",
                "--limit",
                str(calls),
            ),
        ]

    return command


def inspect(url: str, python: Path) -> Callable[[int], list[str]]:
    """inspect_ai's generate() on a task of its own, 64 at a time."""
    return lambda calls: [str(python), "inspect_task.py", url, str(calls)]


def write_inputs(folder: Path, pairs: int = PAIRS) -> None:
    """Pairs, the prompts that robin makes of them, and tasks of the same prompts for the peers."""
    from robin_cli.ask.prompts import load_prompts
    from robin_cli.model.records import Pair

    made = [
        Pair(
            f"p{k}",
            f"Question {k}: " + "why is this so? " * 45,
            f"Answer {k}: " + "because of that. " * 44,
        )
        for k in range(pairs)
    ]
    with (folder / "pairs.jsonl").open("w") as file:
        file.writelines(
            json.dumps({"id": each.pair_id, "prompt": each.prompt, "response": each.response})
            + "\n"
            for each in made
        )
    prompts = load_prompts(["helpfulness"])
    messages = [prompts.messages(pair, "helpfulness") for pair in made]
    (folder / "prompts.json").write_text(json.dumps(messages))
    texts = ["\n\n".join(message["content"] for message in each) for each in messages]
    task = folder / "lm_eval_task"
    task.mkdir()
    with (task / "data.jsonl").open("w") as file:
        file.writelines(json.dumps({"text": texts[k % pairs]}) + "\n" for k in range(9_000))
    (task / "stub.yaml").write_text(
        "task: stub_task\ndataset_path: json\ndataset_kwargs: {data_files: {test: lm_eval_task/data.jsonl}}\n"
        "test_split: test\noutput_type: generate_until\ndoc_to_text: '{{text}}'\ndoc_to_target: 'x'\n"
        "generation_kwargs: {max_gen_toks: 1024, temperature: 1.0, until: []}\n"
        "metric_list: [{metric: exact_match}]\n"
    )
    (folder / "inspect_task.py").write_text(
        "import json, sys\nfrom inspect_ai import Task, eval\nfrom inspect_ai.dataset import Sample\n"
        "from inspect_ai.model import get_model\nfrom inspect_ai.solver import generate\n"
        "url, calls = sys.argv[1], int(sys.argv[2])\n"
        "texts = [chr(10).join(m['content'] for m in each) for each in json.load(open('prompts.json'))]\n"
        "samples = [Sample(input=texts[k % len(texts)]) for k in range(calls)]\n"
        "model = get_model('openai/stub', base_url=url, api_key='none', responses_api=False)\n"
        "eval(Task(dataset=samples, solver=generate()), model=model, max_connections=64, max_samples=128,\n"
        "     display='none', log_dir='inspect_logs')\n"
    )


def peer_python(name: str, cache: Path) -> Path:
    """The interpreter of a peer's own virtual environment, made on demand."""
    folder = cache / name
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        print(f"installing {name} into {folder}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run(
            [str(python), "-m", "pip", "install", "--quiet", *PEERS[name].split()], check=True
        )
        (folder / "ready").touch()
    return python


def start_up() -> list[tuple[str, float, float, set[str]]]:
    """``--help`` and ``--version``: best and median wall seconds of ten, and what heavy was imported."""
    rows = []
    for flag in ("--help", "--version"):
        command = [sys.executable, "-m", "robin_cli", flag]
        walls = []
        for _ in range(10):
            started = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            walls.append(time.perf_counter() - started)
        times = subprocess.run(
            [sys.executable, "-X", "importtime", *command[1:]],
            capture_output=True,
            text=True,
            check=True,
        ).stderr
        imported = {
            line.rpartition("|")[2].strip().partition(".")[0] for line in times.splitlines()
        }
        rows.append(
            (flag, min(walls), sorted(walls)[5], imported & {"openai", "pandas", "pyarrow"})
        )
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--peers", action="store_true", help="measure lm-evaluation-harness and inspect_ai too"
    )
    parser.add_argument(
        "--cache", type=Path, default=Path(tempfile.gettempdir()) / "robin-benchmark-peers"
    )
    options = parser.parse_args()
    found: dict[str, Cost] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_inputs(folder)
        with stub(folder, 0) as url:
            for concurrency in (64, 256):
                found[f"robin judge, {concurrency} at a time"] = cost(
                    robin(url, folder, concurrency), (4_000, 16_000), folder
                )
                found[f"bare AsyncOpenAI, {concurrency} at a time"] = cost(
                    bare(url, concurrency), (1_000, 5_000), folder
                )
            if options.peers:
                peers = (
                    ("lm-evaluation-harness", lm_eval, (1_000, 9_000)),
                    ("inspect_ai", inspect, (200, 1_000)),
                )
                for peer, command, sizes in peers:
                    try:
                        python = peer_python(peer, options.cache)
                        found[f"{peer}, 64 at a time"] = cost(
                            command(url, python), sizes, folder, repeats=2
                        )
                    except (RuntimeError, OSError, subprocess.CalledProcessError) as error:
                        print(f"{peer}: could not be measured: {error}")
        with stub(folder, 200) as url:
            latency = {c: cost(robin(url, folder, c), (4_000, 12_000), folder) for c in (64, 256)}
    report(found, latency)


def report(found: dict[str, Cost], latency: dict[int, Cost]) -> None:
    """The table, and each bar with its figure."""
    ours = found["robin judge, 64 at a time"]
    print(
        f"\n{'at 0 ms':36} {'CPU ms a call':>16} {'calls/s':>14} {'memory MB':>10} {'over robin':>11}"
    )
    for name, each in found.items():
        print(
            f"{name:36} {each.cpu_ms:9.2f} ± {each.cpu_spread:4.2f} {each.rate:8,.0f} ± {each.rate_spread:3,.0f}"
            f" {each.rss_mb:10,.0f} {each.cpu_ms / ours.cpu_ms:11.1f}"
        )
    print("\nbars (this machine, this run)")
    ratio = ours.cpu_ms / found["bare AsyncOpenAI, 64 at a time"].cpu_ms
    bar("CPU a call, 64 at a time, ms", ours.cpu_ms, 1.0)
    bar("over the bare SDK loop's", ratio, 0.5)
    for concurrency, least in ((64, 0.95), (256, 0.70)):
        share = latency[concurrency].rate / (concurrency / 0.2)
        bar(f"of the ideal rate at 200 ms, {concurrency} at a time", share, least, at_least=True)
    for (flag, best, median, heavy), most in zip(start_up(), (0.35, 0.2), strict=True):
        bar(
            f"robin {flag}, s (median {median:.2f}; heavy imports: {', '.join(heavy) or 'none'})",
            best,
            most,
        )


def bar(what: str, figure: float, limit: float, *, at_least: bool = False) -> None:
    """One bar: the figure, what it must be, and whether it is."""
    holds = figure >= limit if at_least else figure <= limit
    print(
        f"{what:62} {figure:6.2f}   {'≥' if at_least else '≤'} {limit:4.2f}   {'holds' if holds else 'DOES NOT HOLD'}"
    )


def _environment() -> dict[str, str]:
    paths = os.pathsep.join([str(HERE.parent), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    return {
        **os.environ,
        "PYTHONPATH": paths,
        "OPENAI_API_KEY": "none",
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_OFFLINE": "1",
    }


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def _spread(values: list[float]) -> float:
    return (max(values) - min(values)) / 2


if __name__ == "__main__":
    main()
