"""One session of work on a run: from a configuration to an open run directory, and from that to answers in it."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from robin_cli.allocation.budget import Budget
from robin_cli.allocation.policies import Policy, make_policy
from robin_cli.allocation.scheduler import HeapScheduler
from robin_cli.config import RunConfig, endpoint_of
from robin_cli.data.pairs import Dataset, load_pairs
from robin_cli.errors import InputError, RunError
from robin_cli.judging.judge import Failure, Judge, Question, Reply
from robin_cli.judging.pacing import Pacer
from robin_cli.judging.ratings import parse_rating
from robin_cli.judging.rubrics import PromptSet
from robin_cli.records import Judgment
from robin_cli.runs.engine import Engine, Stats, Stop
from robin_cli.runs.fold import ArmIndex
from robin_cli.runs.manifest import FILE, Manifest, differences
from robin_cli.runs.store import RunStore, read_run

AUTO_CEILING = 64

Notify = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a session ended.

    Attributes:
        spent, budget: units of the budget, over all sessions.
        retired: arms that are asked no more because they cannot be rated.
        interrupted: it was asked to stop before the budget was spent.
        stats: of this session.
    """

    spent: int
    budget: int
    retired: int
    interrupted: bool
    stats: Stats


def open_run(config: RunConfig, notify: Notify) -> RunStore:
    """Make the run that ``config`` asks for, or go on with the one in its ``run`` directory if it is the same.

    Raises:
        InputError: bad data or settings, or a run directory made with other settings.
        RunError, StorageError: the directory cannot be used.
    """
    if config.data is None:
        raise InputError(
            "no data: name a file of prompt-response pairs, robin judge PAIRS.jsonl, or set data in robin.toml"
        )
    if config.budget is None:
        raise InputError("--budget is missing: say how many judge calls to spend, for example --budget 50000")
    attributes = config.attributes
    prompts = PromptSet(attributes)
    dataset = load_pairs(
        Path(config.data), columns=config.columns or None, skip_bad_rows=config.skip_bad_rows, limit=config.limit
    )
    if dataset.skipped:
        notify(f"{config.data}: {dataset.skipped} bad rows left out (--skip-bad-rows)")
    wanted = manifest_of(config, dataset, prompts)
    policy_of(
        wanted, len(dataset.pairs) * len(attributes)
    )  # refuses settings that cannot work before anything is written
    path = Path(config.run) if config.run else Path("runs") / _run_name(attributes)
    if (path / FILE).exists():
        return _continue(path, wanted)
    return RunStore.create(path, wanted, dataset.pairs)


def reopen_run(path: Path, *, budget: int | None) -> RunStore:
    """Open the run at ``path`` to go on with it as it was made, with a larger budget if one is given.

    Raises:
        InputError: a smaller budget, or data or prompts that changed since.
        RunError, StorageError: the directory cannot be used.
    """
    store = RunStore.open(path)
    try:
        _check_unchanged(store.manifest)
        if budget is not None:
            _set_budget(store, budget)
    except BaseException:
        store.close()
        raise
    return store


def manifest_of(config: RunConfig, dataset: Dataset, prompts: PromptSet) -> Manifest:
    """The manifest of a new run.

    Raises:
        InputError: no model, or a budget that does not reach every pair once.
    """
    base_url, model = endpoint_of(config)
    settings: dict[str, Any] = {"base_url": base_url, "model": model}
    for name in ("scheduler", "delta", "mode", "temperature", "top_p", "max_tokens", "extra_body", "limit"):
        settings[name] = getattr(config, name)
    arms = len(dataset.pairs) * len(config.attributes)
    budget = config.budget or 0
    if budget < arms:
        what = "pairs" if len(config.attributes) == 1 else "pairs × attributes"
        raise InputError(
            f"--budget {budget}: reaches {budget} of {arms} {what} once; raise it to {arms} or more, or take fewer pairs "
            f"with --limit {max(1, budget // len(config.attributes))}"
        )
    return Manifest(
        settings=settings,
        budget=budget,
        attributes=config.attributes,
        scale=(prompts.scale.low, prompts.scale.high),
        data={
            "source": dataset.source,
            "sha256": dataset.sha256,
            "pairs": len(dataset.pairs),
            "skipped": dataset.skipped,
            "columns": dict(config.columns),
        },
        prompt={"sha256": prompts.sha256},
        seed=config.seed,
    )


def policy_of(manifest: Manifest, arms: int) -> Policy:
    """The policy that ``manifest`` names; InputError if it does not fit."""
    settings = manifest.settings
    return make_policy(
        settings["scheduler"], arms=arms, budget=manifest.budget, delta=settings["delta"], mode=settings["mode"]
    )


def cautions(manifest: Manifest, arms: int, *, has_key: bool) -> Iterable[str]:
    """What a user should know before money is spent on this run."""
    policy = policy_of(manifest, arms)
    if manifest.settings["scheduler"] == "robin-hood" and manifest.budget < arms * policy.warm_up:
        yield (
            f"the budget of {manifest.budget} is below ROBIN-HOOD's warm-up of {policy.warm_up} calls for each of {arms} "
            f"arms: the calls will be spread evenly, as --scheduler uniform does. It adapts from {arms * policy.warm_up} up"
        )
    if manifest.settings["temperature"] == 0:
        yield "at --temperature 0 a judge hardly varies: repeated calls will tell little; 1 is usual here"
    url = urlsplit(manifest.settings["base_url"])
    if has_key and url.scheme == "http" and not is_loopback(url.hostname or ""):
        yield f"the key goes unencrypted to {url.hostname}: use https"


def is_loopback(host: str) -> bool:
    """Whether ``host`` is this machine."""
    return host in {"localhost", "::1"} or host.startswith("127.")


class Session:
    """Works on an open run with a judge; made by the CLI, which displays ``stats`` while :meth:`work` runs."""

    def __init__(self, store: RunStore, judge: Judge, pacer: Pacer, stop: Stop) -> None:
        run = read_run(store.path)
        manifest = store.manifest
        self._pairs = run.pairs
        self._index = run.index
        self._prompts = PromptSet(manifest.attributes)
        self._seed = manifest.seed
        self._model = manifest.settings["model"]
        self.arms = run.fold()
        self.budget = Budget(manifest.budget, self.arms.spent)
        self.scheduler = HeapScheduler(self.arms, policy_of(manifest, len(self.arms)))
        self._stop = stop
        self._judge = judge
        self._engine = Engine(
            arms=self.arms,
            scheduler=self.scheduler,
            budget=self.budget,
            judge=judge,
            pacer=pacer,
            question=self._question,
            read=self._read,
            write=store.append,
            stop=stop,
        )

    @property
    def stats(self) -> Stats:
        """What this session did so far."""
        return self._engine.stats

    @property
    def dropped(self) -> int:
        """Calls whose answers were not waited for, because the session ended before they came."""
        return self._engine.stats.dropped

    async def work(self) -> Outcome:
        """Spend the budget. Raises EndpointError, StorageError; whatever ends it, what was received is kept."""
        try:
            await self._engine.run()
        finally:
            await self._judge.aclose()
        return Outcome(
            spent=self.budget.spent,
            budget=self.budget.total,
            retired=int(self.arms.retired_mask.sum()),
            interrupted=self._stop.requested.is_set() and not self.budget.exhausted,
            stats=self.stats,
        )

    def _question(self, arm: int, draw: int, samples: int) -> Question:
        pair = self._pairs[self._index.pair(arm)]
        messages = self._prompts.messages(pair, self._index.attribute(arm))
        seed = None if self._seed is None else call_seed(self._seed, self._index, arm, draw)
        return Question(messages, samples=samples, seed=seed)

    def _read(self, arm: int, draw: int, outcome: Reply | Failure) -> list[Judgment]:
        blank = Judgment(
            pair_id=self._pairs[self._index.pair(arm)].pair_id,
            attribute=self._index.attribute(arm),
            draw=draw,
            rating=None,
            status="failed",
            reason=None,
            feedback="",
            text="",
            model=self._model,
            finish_reason=None,
            prompt_tokens=None,
            completion_tokens=None,
            cost_usd=None,
            latency_s=outcome.latency_s,
            request_id=None,
            received_at=time.time(),
        )
        if isinstance(outcome, Failure):
            return [replace(blank, reason=outcome.reason, text=outcome.detail)]
        judgments = []
        for position, answer in enumerate(outcome.answers):
            rating = parse_rating(
                answer.text, self._prompts.scale, finish_reason=answer.finish_reason, refusal=answer.refusal
            )
            first = position == 0
            judgments.append(
                replace(
                    blank,
                    draw=draw + position,
                    rating=rating.value,
                    status="ok" if rating.value is not None else "unparsed",
                    reason=rating.reason,
                    feedback=rating.feedback,
                    text=answer.text,
                    model=outcome.model,
                    finish_reason=answer.finish_reason,
                    prompt_tokens=outcome.usage.prompt_tokens if first else 0,
                    completion_tokens=outcome.usage.completion_tokens if first else 0,
                    cost_usd=outcome.usage.cost_usd if first else 0.0,
                    request_id=outcome.request_id,
                )
            )
        return judgments


def call_seed(seed: int, index: ArmIndex, arm: int, draw: int) -> int:
    """The seed of one call, 0 to 2³¹ − 1: never the same for two draws of an arm, alike on every machine."""
    name = f"{seed}\0{index.pair_ids[index.pair(arm)]}\0{index.attribute(arm)}"
    base = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")
    return (base + draw) % 2**31


def _continue(path: Path, wanted: Manifest) -> RunStore:
    store = RunStore.open(path)
    try:
        if differing := differences(store.manifest, wanted):
            raise InputError(
                f"{path}: holds a run made with other settings ({'; '.join(differing)}). "
                f"Go on with its own settings, robin resume {path}, or name another --run"
            )
        _set_budget(store, wanted.budget)
    except BaseException:
        store.close()
        raise
    return store


def _set_budget(store: RunStore, budget: int) -> None:
    recorded = store.manifest.budget
    if budget < recorded:
        raise InputError(
            f"--budget {budget}: the run {store.path} has a budget of {recorded}; it can be raised, not lowered"
        )
    if budget > recorded:
        store.set_manifest(store.manifest.with_budget(budget))


def _check_unchanged(manifest: Manifest) -> None:
    if PromptSet(manifest.attributes).sha256 != manifest.prompt["sha256"]:
        raise RunError(
            f"the prompts changed since this run was made (by robin {manifest.versions.get('robin')}): going on would mix two "
            "experiments; use the robin that made it, or start a new run"
        )
    source = Path(str(manifest.data["source"]))
    if source.is_file():
        with source.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest != manifest.data["sha256"]:
            raise RunError(
                f"{source}: changed since this run was made; restore it, or start a new run with another --run. "
                "(The run keeps its own copy of the pairs: moving the changed file away lets it go on with that)"
            )


def _run_name(attributes: tuple[str, ...]) -> str:
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{'-'.join(attributes)}"
