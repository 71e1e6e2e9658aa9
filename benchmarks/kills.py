"""Answers that a SIGKILL loses: robin judge over HTTP, killed at random moments, many times.

    python -m benchmarks.kills              # 1,000 kills: about half an hour
    python -m benchmarks.kills 50 --seed 3  # so many, of other moments

Runs take turns in their shape (one judge, a panel of two, five ratings a request, log probabilities, all of these) and in
how many calls they make at a time, 1 to 256. The killed process says of each reply, as the transport returns it, which it
is, with a write that nothing can take back. Lost is a reply that the run does not hold when it is opened afterwards; the one
that was returned last the process may have had in hand, to read it and to write it down, and is counted by itself.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from pathlib import Path

PAIRS = 200
BUDGET = 20_000
CALLS = (1, 2, 4, 16, 64, 256)
ALONE = ["--samples-per-request", "1"]
SAMPLES = ["--samples-per-request", "5"]
LOGPROBS = ["--answers", "logprobs", "--temperature", "1", "--top-p", "1"]
SHAPES = {
    "one judge": ALONE,
    "a panel": None,
    "five a request": SAMPLES,
    "log probabilities": [*ALONE, *LOGPROBS],
    "all of these": None,
}
ID = re.compile(rb'"id":"([^"]+)"')
TEXT = "Feedback: it answers what was asked, and says no more than that.\nRating: "


def reply(number: int, request: dict[str, object]) -> bytes:
    """A completion with as many choices as ``request`` asks for."""
    count = request.get("n", 1)
    assert isinstance(count, int)  # noqa: S101  # robin sends nothing else
    rating = str(random.randrange(5))
    tokens = [{"token": TEXT, "logprob": 0.0, "top_logprobs": []}]
    others = [{"token": str(other), "logprob": -1.6} for other in range(5)]
    tokens.append({"token": rating, "logprob": -1.6, "top_logprobs": others})
    choice = {"message": {"content": TEXT + rating}, "finish_reason": "stop"}
    if request.get("logprobs"):
        choice["logprobs"] = {"content": tokens}
    body = {
        "id": f"r{number}",
        "model": "m",
        "choices": [choice | {"index": at} for at in range(count)],
    }
    body["usage"] = {"prompt_tokens": 9, "completion_tokens": 9 * count}
    return json.dumps(body, separators=(",", ":")).encode()


async def serve(ready: threading.Event, urls: list[str]) -> None:
    """Answer for ever, after up to 20 ms, each reply under an id of its own."""
    numbers = itertools.count()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                found = re.search(rb"(?i)content-length: (\d+)", head)
                body = await reader.readexactly(int(found[1]) if found else 0)
                await asyncio.sleep(random.uniform(0, 0.02))
                data = reply(next(numbers), json.loads(body))
                lines = (
                    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
                    % len(data)
                )
                writer.write(lines + data)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0, backlog=1024)
    urls.append(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1")
    ready.set()
    await server.serve_forever()


def judge_until_killed(arguments: list[str], returned: Path) -> None:
    """Be robin, and add the id of each reply to ``returned`` as the transport returns it."""
    from robin_cli.cli.app import main
    from robin_cli.judges.transport import Response, Transport

    post = Transport.post
    file = os.open(returned, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    async def noted(self: Transport, body: bytes) -> Response:
        response = await post(self, body)
        found = ID.search(response.body)
        os.write(file, (found[1] if found else b"-") + b"\n")
        return response

    setattr(Transport, "post", noted)  # noqa: B010  # mypy: a method
    sys.argv = ["robin", *arguments]
    main()


def killed(folder: Path, url: str, shape: str, calls: int) -> tuple[int, int, int]:
    """How many replies one run had got as it was killed, and how many of them it lost: that in hand, and others."""
    from robin_cli.run.segments import read_judgments
    from robin_cli.run.writer import RunWriter

    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    pairs = [{"id": f"p{k}", "prompt": f"Say {k}.", "response": str(k)} for k in range(PAIRS)]
    (folder / "pairs.jsonl").write_text(
        "".join(json.dumps(each) + "\n" for each in pairs), encoding="utf-8"
    )
    panel = ["--model", f"other@{url}"]
    of_panel = {"a panel": [*panel, *ALONE], "all of these": [*panel, *SAMPLES, *LOGPROBS]}
    more = of_panel.get(shape) or SHAPES[shape] or []
    words = [
        "judge",
        "pairs.jsonl",
        "-b",
        str(BUDGET),
        "-a",
        "helpfulness",
        "--base-url",
        url,
        "--model",
        "m",
    ]
    words += ["--concurrency", str(calls), "--run", "run", "--quiet", "-o", "s.csv", *more]
    words += ["--repeat-anyway"]  # the choices of a reply have one rating
    returned = folder / "returned"
    until = random.randint(1, 10 + 8 * calls)
    child = os.fork()
    if not child:
        os.chdir(folder)
        log = os.open("log", os.O_WRONLY | os.O_CREAT)
        os.dup2(log, 1)
        os.dup2(log, 2)
        try:
            judge_until_killed(words, returned)
        finally:
            os._exit(1)
    while not returned.exists() or returned.read_bytes().count(b"\n") < until:
        if os.waitpid(child, os.WNOHANG)[0]:
            sys.exit(f"it ended by itself: {(folder / 'log').read_text()}")
        time.sleep(0.001)
    time.sleep(random.uniform(0, 0.02))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    RunWriter.open(folder / "run").close()
    kept: Counter[str] = Counter()
    for table in read_judgments(folder / "run", columns=["request_id"]):
        kept.update(table["request_id"].to_pylist())
    wanted = 5 if SAMPLES[1] in more else 1
    names = returned.read_text().split()
    twice = [name for name, count in kept.items() if count > wanted]
    assert not twice, f"an answer is there twice: {twice}"  # noqa: S101  # what this is to find
    lost = [name for name in names if not kept[name]]
    in_hand = names[-1] in lost
    return len(names), in_hand, len(lost) - in_hand


def main() -> None:
    """Kill, and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kills", type=int, nargs="?", default=1000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    random.seed(given.seed)
    os.environ |= {"OPENAI_API_KEY": "none", "PYTHONHASHSEED": "0"}
    import robin_cli.cli.judge
    import robin_cli.session.session  # noqa: F401  # once, before there are processes to fork

    ready, urls = threading.Event(), list[str]()
    read, write = os.pipe()
    server = os.fork()
    if not server:
        threading.Thread(
            target=lambda: (ready.wait(), os.write(write, urls[0].encode())), daemon=True
        ).start()
        asyncio.run(serve(ready, urls))
    url = os.read(read, 200).decode()
    totals: dict[tuple[str, int], list[int]] = defaultdict(lambda: [0] * 4)
    try:
        with tempfile.TemporaryDirectory() as folder:
            for number, (calls, shape) in zip(
                range(given.kills), itertools.cycle(itertools.product(CALLS, SHAPES)), strict=False
            ):
                came = killed(Path(folder) / "r", url, shape, calls)
                row = totals[shape, calls]
                row[:] = [sum(both) for both in zip(row, (1, *came), strict=True)]
                print(f"\r{number + 1} of {given.kills}", end="", file=sys.stderr, flush=True)
    finally:
        os.kill(server, signal.SIGKILL)
    print("\nshape,calls_at_a_time,kills,replies,lost_in_hand,lost")
    for (shape, calls), row in sorted(totals.items()):
        print(f"{shape},{calls},{','.join(map(str, row))}")
    print(f"all,,{','.join(str(sum(each)) for each in zip(*totals.values(), strict=True))}")


if __name__ == "__main__":
    main()
