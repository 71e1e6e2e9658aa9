"""Rounds for an engine without a service: requests are written as files, and answers read from files, whoever made them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from robin_cli.model.errors import RunError, option, typed
from robin_cli.model.records import number_of
from robin_cli.runner.rounds import Courier, Rounds
from robin_cli.storage.batches import Ledger, Submission

MOST_REQUESTS = 10_000
"""Of one file: vllm run-batch holds all of it in memory."""

_ANSWERS = ".out.jsonl"


class InFiles(Courier):
    """Writes requests into ``folder``, and reads answers from the folders that those under way were written into."""

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
        return f"{number_of(len(submissions), 'file')} to be answered"

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
