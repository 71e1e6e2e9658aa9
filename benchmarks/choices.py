"""How fast the next call is chosen: choices a second from 1,000 to 1,000,000 arms, and how the cost of one grows.

    python benchmarks/choices.py

One choice is one plan() of a call and one tell() with a rating, in CPU time; calls are chosen in blocks of a sixty-fourth of
the arms. "× 1,000" is the cost of a choice over that at 1,000 arms; a scan of all arms for each would make it 1,000 at
1,000,000. "sides" decides on which side of 2 each arm lies, "best" which of four is best; what is decided is looked at again
and again, and a choice with such a look is the slowest: by the clock on the wall, so longer where the machine has other work.
"first look" is the one at all arms at once, which a run makes when each has two ratings. Last, the longest pauses of an event
loop that makes choices over 10,000,000 arms for a while, 1,000,000 where something is decided, blocks, fits and looks being
made in a thread; beside an idle loop, for what the machine adds.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import islice

import numpy as np

from robin_cli.goals.watch import Watch
from robin_cli.model.arms import WritableArms
from robin_cli.model.decision import decision_of
from robin_cli.model.records import Scale
from robin_cli.model.space import ArmSpace
from robin_cli.policies.base import Setup
from robin_cli.policies.registry import make_policy
from robin_cli.policies.systems import Systems, systems_of
from robin_cli.policies.task import Task
from robin_cli.session.planner import Found, Planner, Ticket
from robin_cli.stats.decisions import Evidence, RunVerdicts
from robin_cli.stats.level_counts import LevelCounts

CHOICES = 200_000
MANY, SECONDS = 10_000_000, 15.0
SIZES = (1_000, 10_000, 100_000, 1_000_000)


SCALE = Scale(0, 4)
TO_DECIDE = {"sides": "score>=2", "best": "best"}
COMPARING = "compare"


def warmed_up(count: int, rng: np.random.Generator) -> WritableArms:
    """Arms with 25 ratings each, of very different variances."""
    arms = WritableArms(count)
    top = rng.binomial(25, rng.random(count) ** 3).astype(np.float64)
    arms.columns.n[:] = 25
    arms.columns.total[:] = 4 * top
    arms.columns.total_sq[:] = 16 * top
    return arms


def task_of(name: str, count: int) -> Task | None:
    """What a policy of that name decides over so many arms; None for one that decides nothing."""
    if name not in TO_DECIDE:
        return None
    decision = decision_of(TO_DECIDE[name], ["a"], [SCALE], margin=None, error_rate=0.05)
    space = ArmSpace([str(number) for number in range(count)], ["a"], ["j"], [SCALE])
    return Task(decision, space, np.arange(count) // 4 if decision.is_best else None)


def systems_for(count: int) -> Systems:
    """Four systems that answered the same prompts."""
    space = ArmSpace([str(number) for number in range(count)], ["a"], ["j"], [SCALE])
    prompt, system = np.divmod(np.arange(count), 4)
    return systems_of(
        space, system, list("abcd"), prompt, [str(number) for number in range(count // 4)], None
    )


def verdicts_of(task: Task, arms: WritableArms) -> RunVerdicts:
    """The decisions after the ratings of ``arms``, which are all at the ends of the scale."""
    counts = LevelCounts(task.space)
    ((_, _, by_level),) = counts.by_scale()
    by_level[:, -1] = arms.columns.total / 4
    by_level[:, 0] = arms.columns.n - by_level[:, -1]
    return RunVerdicts(Evidence(task), counts)


class Watching(Watch):
    """What a planner knows of decisions."""

    def __init__(self, verdicts: RunVerdicts | None) -> None:
        self.verdicts, self.stop, self.repeats, self.decides = verdicts, None, None, False


def seconds_a_choice(name: str, count: int) -> tuple[float, float, float]:
    """Mean over CHOICES choices of the time of one, the longest of them, and that of a look at all arms before."""
    rng = np.random.default_rng(1)
    arms, task = warmed_up(count, rng), task_of(name, count)
    verdicts = None if task is None else verdicts_of(task, arms)
    setup = Setup(count, 100 * count, SCALE, task=task)
    if name == COMPARING:
        setup = replace(setup, systems=systems_for(count))
    policy = make_policy(name if task is None and name != COMPARING else "auto", setup)
    began = time.process_time()
    if verdicts is not None:
        verdicts.look(arms.columns, policy)
    looked = time.process_time() - began
    planner = Planner(arms, policy, watch=Watching(verdicts))
    ratings = rng.choice([0.0, 4.0], CHOICES).tolist()
    longest, started, before = 0.0, time.process_time(), time.perf_counter()
    for rating in ratings:
        ticket = planner.plan()
        assert ticket is not None  # noqa: S101  # the budget has no end
        planner.tell(ticket, (rating,))
        now = (
            time.perf_counter()
        )  # to read the CPU's takes as long as a fifth of a choice on some machines
        longest, before = max(longest, now - before), now
    return (time.process_time() - started) / CHOICES, longest, looked


async def pauses(planner: Planner | None) -> tuple[float, float, int]:
    """The longest pause of a loop that makes choices, the 99.9 % quantile of them in ms, and how many choices it makes."""
    loop, started = asyncio.get_running_loop(), time.perf_counter()
    thinking: set[asyncio.Task[None]] = set()
    under_way: list[Ticket] = []
    gaps, choices = [], 0

    def elsewhere(work: Callable[[], Found], then: Callable[[Found], None]) -> None:
        async def think() -> None:
            then(await asyncio.to_thread(work))

        thinking.add(task := loop.create_task(think()))
        task.add_done_callback(thinking.discard)

    if planner is not None:
        planner.elsewhere = elsewhere
    while (now := time.perf_counter()) < started + SECONDS:
        planned = [] if planner is None else list(islice(iter(planner.plan, None), 8))
        under_way += planned
        if planner is not None and under_way and (len(under_way) > 256 or not planned):
            for ticket in under_way[:8]:
                planner.tell(ticket, (4.0 * (choices % 3 > 0),))
            del under_way[:8]
        choices += len(planned)
        await asyncio.sleep(0.001 if not planned else 0.0)
        gaps.append(1e3 * (time.perf_counter() - now))
    if thinking:
        await asyncio.wait(thinking)
    return max(gaps), float(np.quantile(gaps, 0.999)), choices


def main() -> None:
    """Print the tables."""
    columns = (
        f"{'choices/s':>12} {'µs each':>8} {'× 1,000':>8} {'slowest ms':>10} {'first look ms':>13}"
    )
    print(f"{'scheduler':12} {'arms':>10} {columns}")
    for name in ("uniform", "robin-hood", "two-priors", COMPARING, *TO_DECIDE):
        first = 0.0
        for count in SIZES:
            cost, longest, looked = seconds_a_choice(name, count)
            first = first or cost
            times = (
                f"{1e6 * cost:8.2f} {cost / first:8.2f} {1e3 * longest:10.1f} {1e3 * looked:13.1f}"
            )
            print(f"{name:12} {count:10,} {1 / cost:12,.0f} {times}", flush=True)
    for name, count in (
        ("", 1),
        ("two-priors", MANY),
        ("uniform", MANY),
        ("sides", SIZES[-1]),
        ("best", SIZES[-1]),
    ):
        planner = None
        if name:
            arms, task = warmed_up(count, np.random.default_rng(1)), task_of(name, count)
            policy = make_policy(
                name if task is None and name != COMPARING else "auto",
                Setup(count, 100 * count, SCALE, task=task),
            )
            verdicts = None if task is None else verdicts_of(task, arms)
            planner = Planner(arms, policy, budget=100 * count, watch=Watching(verdicts))
            gc.freeze()  # as robin does: a collection would look through the names of all pairs
        longest, usually, choices = asyncio.run(pauses(planner))
        said = f"pauses of at most {longest:.1f} ms, 99.9 % below {usually:.1f} ms; {choices:,} choices"
        print(f"{name or 'idle':12} {count:10,} {said}", flush=True)


if __name__ == "__main__":
    main()
