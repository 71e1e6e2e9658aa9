"""The live view, on a real pseudo-terminal."""

from __future__ import annotations

import fcntl
import io
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

import robin_cli
from robin_cli.data.pair_table import PairTable
from robin_cli.goals.scores import ScoresGoal
from robin_cli.goals.watch import Watch
from robin_cli.model.arms import WritableArms
from robin_cli.model.records import Pair, Scale
from robin_cli.model.space import ArmSpace
from robin_cli.run.fold import Spending
from robin_cli.session.budget import MoneyBudget
from robin_cli.show import progress
from robin_cli.show.live import LiveView, Pace
from robin_cli.show.messages import LINE_EVERY_S, Messages, lines_now_and_then
from robin_cli.stats.level_counts import LevelCounts
from tests.conftest import DEMO, REPLAY_MODEL, at_a_terminal, environment, judging, replaying, robin
from tests.starting import Robin


def on_a_terminal(
    *args: str | Path, cwd: Path, when: Callable[[str], bytes | None] | None = None, **env: str
) -> tuple[int, str]:
    """Run robin with stderr on a terminal of 80 × 30; its exit code and all that it wrote there.

    ``when`` sees the output so far, and may say what to type.
    """
    master, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 80, 0, 0))
    start: Any = {"cwd": cwd, "env": environment(TERM="xterm-256color", **env)}
    files: Any = {"stdin": terminal, "stdout": subprocess.DEVNULL, "stderr": terminal}
    by_itself = ("setsid", "--ctty", sys.executable, "-m", "robin_cli")  # so that Ctrl-C reaches it
    process = (
        Robin(args, **start, **files)
        if when is None
        else subprocess.Popen([*by_itself, *map(str, args)], **start, **files)
    )
    os.close(terminal)
    shown = b""
    try:
        while piece := os.read(master, 65536):
            shown += piece
            if when and (typed := when(shown.decode(errors="replace"))):
                os.write(master, typed)
    except OSError:  # Linux's way to say that the other end is closed
        pass
    finally:
        os.close(master)
    return process.wait(timeout=60), shown.decode(errors="replace")


def frames(shown: str) -> list[str]:
    """What the view showed, picture by picture, without colours and movements."""
    return re.findall(r"╭.*?╯", re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown), flags=re.DOTALL)


@pytest.fixture(scope="module")
def slow_judge() -> Iterator[str]:
    """A replay whose answers take a while, so that there is something to see before its end."""
    with replaying(DEMO / "ratings.parquet", "--latency-ms", "40") as url:
        yield url


def test_shows_a_run_while_it_works_and_cleans_up_behind_it(
    tmp_path: Path, slow_judge: str
) -> None:
    priced = ("--price-in", "1", "--price-out", "1", "--run", "r", "--concurrency", "16")
    command = judging(slow_judge, DEMO / "pairs.jsonl", 300, *priced)
    code, shown = on_a_terminal(*command, "-o", "s.csv", cwd=tmp_path)

    assert code == 0
    seen = frames(shown)
    assert len(seen) >= 3
    early, late = seen[0], seen[-1]
    assert "not known (" in early  # the worst error, while pairs are unrated
    for part in (
        "of 300 calls",
        "adaptive",
        "/s · ",
        "in flight",
        "tokens",
        "$",
        "expected error about ",
        "asked most",
    ):
        assert part in late, part
    assert "story-flash-good" in late  # the pair that varies most
    assert shown.count("\x1b[?25l") == shown.count("\x1b[?25h") == 1  # the cursor is back
    assert "300 of 300 calls spent" in shown[shown.rindex("╯") :]


@pytest.mark.parametrize("width", [25, 30, 41, 52, 59, 60, 80])
def test_the_view_cuts_no_number_however_narrow_the_terminal(width: int) -> None:
    names = [f"a-rather-long-name-{k}" for k in range(8)]
    space = ArmSpace([*names, f"{0:016x}"], ["helpfulness"], ["m"], [Scale(0, 4)])
    arms = WritableArms(9)
    for arm in range(9):
        for _ in range(1_000 + arm):
            arms.add_rating(arm, 2.0)
    session: Any = SimpleNamespace(
        space=space,
        pairs=PairTable.from_pairs(
            Pair(each, "What is \x1b[1mrobin?", "A bird.") for each in space.pair_ids
        ),
        arms=arms.columns,
        stats=SimpleNamespace(
            unparsed={"missing": 4_321},
            failed={"http_503": 12},
            ratings=1,
            in_flight=256,
            refused=148,
            waited_s=12.0,
        ),
        budget=SimpleNamespace(spent=1_234_567, total=9_876_543, left=1),
        money=MoneyBudget(2_000.0),
        by_money=False,
        total=Spending(
            123_456_789,
            98_765_432,
            1_234.56,
            complete=False,
            cached_tokens=41,
            prompt_tokens_told=100,
        ),
        planner=SimpleNamespace(warming_up=False),
        watch=Watch(ScoresGoal(space), lambda: LevelCounts(space), 0.125),
        noun="rating",
        under=None,
    )
    out = io.StringIO()
    Console(file=out, width=width).print(LiveView(session).render())

    lines = out.getvalue().splitlines()
    assert all(len(line) <= width for line in lines)
    words = " ".join(line.strip("│ ") for line in lines).split()
    numbers = "148 12 9,876,543 1,234,567 256 123,456,789 98,765,432 41 $1,234.56 $2,000.00 4,321 503 1,008 0.00 0.125"
    for number in numbers.split():
        assert any(word.strip(",()") == number for word in words), number
    if width == 80:
        # before its hash, how its prompt begins
        assert re.search(r"asked most .*: What is", out.getvalue())


def test_says_a_line_now_and_then_where_there_is_no_terminal() -> None:
    said, told = [], threading.Event()

    def note(line: str) -> None:
        said.append(line)
        told.set()

    with lines_now_and_then(lambda: "3 of 24 parts done", note, every_s=0.001):
        assert told.wait(30)
    after = len(said)

    assert set(said) == {"3 of 24 parts done"}
    assert len(said) == after  # and no more once it is over


def test_says_off_a_terminal_how_long_it_has_been_at_work() -> None:
    written, told = io.StringIO(), threading.Event()

    class Log(Console):
        def print(self, *values: Any, **kind: Any) -> None:
            super().print(*values, **kind)
            told.set()

    with Messages(Log(file=written), quiet=False).busy("simulating the run"):
        pass
    assert not written.getvalue()  # short work needs no word
    with Messages(Log(file=written), quiet=False).busy("simulating the run", every_s=0.001):
        assert told.wait(30)
    assert written.getvalue().startswith("simulating the run for 0 s\n")


def screen(shown: str, columns: int = 80) -> str:
    """What is left to see of ``shown`` on a terminal; of its movements it knows those that the view makes."""
    lines, row, column = [[" "] * columns], 0, 0
    for move, kind, char in re.findall(
        r"\x1b\[([?0-9;]*)([A-Za-z])|([^\x1b])", shown, flags=re.DOTALL
    ):
        if kind == "A":
            row = max(0, row - int(move or 1))
        elif kind == "K":
            lines[row] = [" "] * columns
        elif char == "\r":
            column = 0
        elif char and (char == "\n" or column == columns):
            row, column = row + 1, 0
            lines += [[" "] * columns for _ in range(row + 1 - len(lines))]
        if char and char not in "\r\n":
            lines[row][column] = char
            column += 1
    return "\n".join("".join(line).rstrip() for line in lines)


def test_ctrl_c_says_what_it_does_and_how_to_go_on_and_a_pair_cannot_act_on_the_terminal(
    tmp_path: Path, slow_judge: str
) -> None:
    rows = [
        {"id": f"\x1b]0;owned\x07[blink]{k}[/]", "prompt": "p", "response": f"r{k}"}
        for k in range(3)
    ]
    (tmp_path / "p.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    pressed: list[bool] = []

    def once_it_runs(shown: str) -> bytes | None:
        if pressed or "owned" not in shown:
            return None
        pressed.append(True)
        return b"\x03"

    command = judging(slow_judge, tmp_path / "p.jsonl", 50_000, "--run", "r", "--concurrency", "8")
    code, shown = on_a_terminal(*command, cwd=tmp_path, when=once_it_runs, COLUMNS="80")
    resumed = robin("status", "r", "--json", cwd=tmp_path)

    assert code == 130
    assert re.search(r"calls? under way may finish, 10 s at most", shown)
    assert "To go on: robin resume r" in shown
    assert not set("╭│╰") & set(screen(shown))  # the "^C" of the terminal itself pushed a line down
    assert json.loads(resumed.stdout)["state"] == "stopped"
    assert r"\x1b]0;owned\x07[blink]" in frames(shown)[-1]
    assert "\x1b]" not in shown


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"budget": 80}, r"adaptive · worst score: expected error about \d"),
        (
            {"budget": 80, "decide": "score>=3"},
            r".*decided: kept \d+ of 12(, \d+ not rated)? · likely wrong: ",
        ),
    ],
)
def test_without_a_terminal_it_says_a_line_now_and_then(
    tmp_path: Path,
    slow_judge: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, Any],
    said: str,
) -> None:
    assert LINE_EVERY_S == 30
    monkeypatch.setattr(
        progress,
        "lines_now_and_then",
        lambda line, note, _every: lines_now_and_then(line, note, 0.05),
    )
    judge: dict[str, Any] = {"base_url": [slow_judge], "model": [REPLAY_MODEL], "concurrency": 4}
    robin_cli.judge(
        DEMO / "pairs.jsonl",
        attribute="helpfulness",
        run=tmp_path / "r",
        limit=12,
        **judge,
        **settings,
    )

    # four calls, and perhaps an answer on its way to the disk
    line = rf"^\d+ of {settings['budget']} calls · [\d.]+/s · .* · [45] in flight · {said}"
    assert re.search(line, capsys.readouterr().err, flags=re.MULTILINE)


def test_quiet_says_nothing(tmp_path: Path, replay_url: str) -> None:
    command = judging(replay_url, DEMO / "pairs.jsonl", 60, "--quiet", "-o", "s.csv")
    assert at_a_terminal(*command, cwd=tmp_path, TERM="xterm-256color") == (0, "")


def test_the_pace_is_that_of_the_last_minute() -> None:
    now = [0.0]
    pace = Pace(lambda: now[0])
    done = 0
    for _ in range(100):
        now[0] += 1
        done += 10
        pace.rate(done)
    assert pace.rate(done) == pytest.approx(10)
    for _ in range(61):
        now[0] += 1
        pace.rate(done)

    assert pace.rate(done) == 0
    assert pace.left(9, 0) == "no answer in the last minute"
    assert Pace(lambda: now[0]).left(9, 0) == "no answer yet"  # seconds after it began


def test_a_pace_below_a_tenth_names_the_reason_and_the_number_that_worked() -> None:
    now = [0.0]
    pace, rate = Pace(lambda: now[0]), 0.0
    for second in range(1, 121):
        now[0] += 1
        rate = pace.rate(min(10 * second, 600), in_flight=32 if second <= 60 else 1)

    assert "10.0/s" in pace.slow(rate, 148)
    assert "148 requests refused" in pace.slow(rate, 148)
    assert "--concurrency 32" in pace.slow(rate, 148)
    assert not pace.slow(2.0, 148)


def test_a_view_that_fails_does_not_end_the_run() -> None:
    view = LiveView(SimpleNamespace(stats=None))  # type: ignore[arg-type]  # nothing that it needs

    assert "the run goes on" in str(view.render().renderable)
