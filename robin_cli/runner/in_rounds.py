"""The carrier of a session in rounds, made from its settings: for a batch service, or for an engine that reads files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from robin_cli.judges.metering import Meter
from robin_cli.judges.openai_batches import OpenAIBatches
from robin_cli.judges.openai_http import OpenAIJudge
from robin_cli.model.errors import RunError
from robin_cli.runner.at_service import AtService
from robin_cli.runner.carrying import Carrying
from robin_cli.runner.checking import check_rounds
from robin_cli.runner.connection import as_raised, endpoint_at
from robin_cli.runner.desk import judged_calls
from robin_cli.runner.money import prices_at, with_prices_of
from robin_cli.runner.rounds import Courier, Rounds
from robin_cli.settings.addresses import judges_of
from robin_cli.settings.table import Settings
from robin_cli.storage.batches import Ledger, Submission, engine_command
from robin_cli.storage.store import RunStore

MOST_REQUESTS = 10_000
"""The most requests of a file: vllm run-batch keeps all of it in memory."""


def rounds_of(
    store: RunStore,
    settings: Settings,
    keys: Mapping[str, str],
    notify: Callable[[str], None],
    ledger: Ledger,
    rounds: int,
) -> Carrying:
    """Return the way in which the judges of ``settings`` are asked in rounds.

    Args:
        ledger: the run's batches.
        rounds: the number of rounds for the whole budget; 0 to begin none.
    """
    check_rounds(settings)
    asked, services, prices = {}, {}, []
    for judge in judges_of(settings):
        (url,), (price,) = judge.base_urls, prices_at(judge, settings)
        endpoint = replace(
            endpoint_at(url, judge.name, keys[judge.api_key_env], settings),
            bounded=settings.money_limit is not None,
            logprobs=settings.answers == "logprobs",
        )
        endpoint = as_raised(endpoint, store.manifest)
        asked[judge.name] = OpenAIJudge(endpoint, meter=Meter(price), notify=notify)
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
    """Return ``settings`` for the batches under way, at a service or in files, as they were submitted."""
    folder = ledger.open[0].folder
    asked = replace(
        settings,
        batch=not folder,
        batch_files=folder or None,
    )
    return with_prices_of(asked, was_batch=settings.batch)


class InFiles(Courier):
    """Writes files of requests for an engine into ``folder``, and reads answers from the folders of those under way."""

    most_requests = MOST_REQUESTS

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._written: set[int] = set()  # by this session, so nobody can have answered them

    def check(self, submissions: Sequence[Submission]) -> None:
        if elsewhere := [each for each in submissions if not each.folder]:
            raise RunError(
                f"batch {elsewhere[0].batch_id or elsewhere[0].number} of this run is at {elsewhere[0].url}; robin resume with "
                "--batch takes in its answers"
            )

    def submission(self, number: int, judge: str, of_round: int, requests: int) -> Submission:
        self._written.add(number)
        return Submission(number, judge, of_round, requests, folder=str(self._folder.absolute()))

    def said(self, submissions: Sequence[Submission]) -> str:
        return f"{len(submissions):,} file{'s' * (len(submissions) != 1)} to be answered"

    async def carry(self, submissions: Sequence[Submission], rounds: Rounds) -> bool:
        """Take in the answers in the folders; return False if there are none for ``submissions``."""
        if all(each.number in self._written for each in submissions):
            return False
        answers = [
            path
            for folder in {each.folder for each in submissions}
            for path in _others(Path(folder), rounds.ledger)
        ]
        return bool(answers) and await rounds.take_in(
            sorted(answers), submissions, in_any_state=True
        )

    def to_run(self, ledger: Ledger) -> Sequence[str]:
        """Return vLLM's command for each file without answers."""
        return [engine_command(ledger.requests(each), each.judge) for each in ledger.open]


def _others(folder: Path, ledger: Ledger) -> list[Path]:
    """Return the files in ``folder`` that may hold answers: all but the requests of this run."""
    ours = {ledger.requests(each) for each in ledger.batches.values()}
    with suppress(OSError):
        return [
            path
            for path in folder.iterdir()
            if path.suffix == ".jsonl" and path not in ours and path.is_file()
        ]
    return []
