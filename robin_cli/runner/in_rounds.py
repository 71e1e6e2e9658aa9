"""From a session's settings to what takes its requests away in rounds: a service, or files for an engine without one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from robin_cli.judges.metering import Meter
from robin_cli.judges.openai_batches import OpenAIBatches
from robin_cli.judges.openai_http import OpenAIJudge
from robin_cli.model.errors import RunError, option, typed
from robin_cli.runner.at_service import AtService
from robin_cli.runner.carrying import Carrying
from robin_cli.runner.checking import check_rounds
from robin_cli.runner.connection import as_raised, endpoint_at
from robin_cli.runner.desk import judged_calls
from robin_cli.runner.money import prices_at, with_prices_of
from robin_cli.runner.rounds import Courier, Rounds
from robin_cli.settings.addresses import judges_of
from robin_cli.settings.table import Settings
from robin_cli.storage.batches import Ledger, Submission
from robin_cli.storage.store import RunStore

MOST_REQUESTS = 10_000
"""Of one file: vllm run-batch holds all of it in memory."""

_ANSWERS = ".out.jsonl"


def rounds_of(
    store: RunStore,
    settings: Settings,
    keys: Mapping[str, str],
    notify: Callable[[str], None],
    ledger: Ledger,
    rounds: int,
) -> Carrying:
    """Each judge that ``settings`` name, to be asked in rounds, what takes its requests away, and its price there.

    Args:
        ledger: of what is under way.
        rounds: in which the whole budget goes out; 0: none is begun.
    """
    check_rounds(settings)
    asked, services, prices = {}, {}, []
    for judge in judges_of(settings):
        (url,), (price,) = judge.base_urls, prices_at(judge, settings)
        endpoint = replace(
            endpoint_at(url, judge.name, keys[judge.api_key_env], settings),
            bounded=settings.money_limit is not None,
            logprobs=settings.scoring == "logprobs",
        )
        endpoint = as_raised(endpoint, store.manifest)
        asked[judge.name] = OpenAIJudge(endpoint, meter=Meter(price, tier=settings.tier), notify=notify)
        prices.append(price)
        if settings.batch:
            services[judge.name] = OpenAIBatches(endpoint, notify=notify)
    courier: Courier = AtService(services, store.manifest.run_id, notify)
    if settings.batch_files is not None:
        courier = InFiles(Path(settings.batch_files))
    begin = partial(
        Rounds,
        judges=asked,
        ledger=ledger,
        courier=courier,
        is_judged=judged_calls(store, store.space) if ledger.batches else lambda *_: False,
        rounds=rounds,
        notify=notify,
    )
    return Carrying(begin, [courier, *asked.values()], prices, rounds)


def as_submitted(settings: Settings, ledger: Ledger) -> Settings:
    """``settings`` for seeing through what is under way: at a service, or in files."""
    folder = ledger.open[0].folder
    asked = replace(settings, batch=not folder, batch_files=folder or None, service_tier=None, tier_fallback=False)
    return with_prices_of(asked, settings.tier)


class InFiles(Courier):
    """For an engine without a service: writes requests into ``folder``, and reads answers from where those under way lie."""

    most_requests = MOST_REQUESTS

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._written: set[int] = set()  # by this session: nobody can have answered them

    def check(self, submissions: Sequence[Submission]) -> None:
        if elsewhere := [each for each in submissions if not each.folder]:
            raise RunError(
                f"batch {elsewhere[0].batch_id or elsewhere[0].number} of this run is at {elsewhere[0].url}; robin resume with "
                "--batch takes in what came of it"
            )

    def submission(self, number: int, judge: str, of_round: int, requests: int) -> Submission:
        self._written.add(number)
        return Submission(number, judge, of_round, requests, folder=str(self._folder.absolute()))

    def said(self, submissions: Sequence[Submission]) -> str:
        return f"{len(submissions):,} file{'s' * (len(submissions) != 1)} to be answered"

    async def carry(self, submissions: Sequence[Submission], rounds: Rounds) -> bool:
        """Take in what lies there by now; False where there is nothing of ``submissions``."""
        if all(each.number in self._written for each in submissions):
            return False
        answers = [
            path for folder in {each.folder for each in submissions} for path in _others(Path(folder), rounds.ledger)
        ]
        return bool(answers) and await rounds.take_in(sorted(answers), submissions, in_any_state=True)

    def to_run(self, ledger: Ledger) -> Sequence[str]:
        """A command of vLLM's for each file that is not answered."""
        return [command(ledger.requests(each), each.judge) for each in ledger.open]


def command(requests: Path, model: str) -> str:
    """What answers the requests in a file."""
    answers = requests.with_suffix(_ANSWERS)
    return f"vllm run-batch -i {typed(requests)} -o {typed(answers)} {option('--model', model)}"


def _others(folder: Path, ledger: Ledger) -> list[Path]:
    """The files in ``folder`` that may hold answers: all but the requests of this run."""
    ours = {ledger.requests(each) for each in ledger.batches.values()}
    with suppress(OSError):
        return [path for path in folder.iterdir() if path.suffix == ".jsonl" and path not in ours and path.is_file()]
    return []
