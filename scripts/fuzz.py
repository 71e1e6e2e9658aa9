"""Coverage-guided fuzzing of what reads strangers' bytes, by hand: ``pip install atheris``, then

    python scripts/fuzz.py loaders|ratings|journal|batches [libFuzzer's options, as -max_total_time=600]

Anything but a result or an error of robin's own ends it, with the input in a file. Seeds come from the tests' corpus.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import atheris  # type: ignore[import-not-found,unused-ignore]  # by hand; not among the dev dependencies

with atheris.instrument_imports(include=["robin_cli"]):
    from robin_batch.lines import read_lines
    from robin_cli.ask.ratings import RATING
    from robin_cli.data.pairs import load_pairs
    from robin_cli.data.pools import load_pools
    from robin_cli.model.errors import RobinError
    from robin_cli.model.records import Pair, Scale
    from robin_cli.run.manifest import Manifest
    from robin_cli.run.reader import read_run
    from robin_cli.run.writer import RunWriter
    from robin_cli.stats.scores import score

ROOT = Path(__file__).resolve().parent.parent
SUFFIXES = ("jsonl", "json", "csv", "tsv", "parquet", "jsonl.gz", "eval")
FOLDER = Path(tempfile.mkdtemp(prefix="robin-fuzz-"))


def loaders(data: bytes) -> None:
    """The first byte says which format the others are."""
    if not data:
        return
    path = FOLDER / f"pairs.{SUFFIXES[data[0] % len(SUFFIXES)]}"
    path.write_bytes(data[1:])
    for load in (load_pairs, load_pools):
        with suppress(RobinError):
            load(path)


def ratings(data: bytes) -> None:
    """Any text."""
    rating = RATING.parse(data.decode("utf-8", "surrogateescape"), Scale(0, 4))
    if (rating.value is None) == (rating.reason is None):
        raise ValueError(f"neither a rating nor a reason, or both: {rating}")


def journal(data: bytes) -> None:
    """A run whose journal is these bytes, behind a sound first line or not."""
    for head in (b"", b'{"journal":1,"segment":1}\n'):
        (FOLDER / "run" / "journal.jsonl").write_bytes(head + data)
        with suppress(RobinError):
            score(read_run(FOLDER / "run"))


def batches(data: bytes) -> None:
    """A file that came of a batch, and one with a line of these bytes as its response."""
    path = FOLDER / "out.jsonl"
    for head, tail in (
        (b"", b""),
        (b'{"custom_id":"a","response":', b"}"),
        (b'{"custom_id":"a","error":', b"}"),
    ):
        path.write_bytes(head + data + tail)
        list(read_lines([path], 2**16))


def make_run() -> None:
    """A run of two pairs in FOLDER."""
    settings = {
        "scheduler": "uniform",
        "delta": 0.007,
        "mode": "practice",
        "model": "m",
    }
    data = {"source": "x", "sha256": "", "pairs": 2, "human": []}
    manifest = Manifest(
        attributes=("helpfulness",),
        budget=100,
        scale=(0, 4),
        seed=None,
        settings=settings,
        data=data,
        prompt={"sha256": ""},
    )
    pairs = [Pair(f"p{k}", "a prompt", "a response", {}) for k in range(2)]
    RunWriter.create(FOLDER / "run", manifest, pairs).close()


def main() -> None:
    """Fuzz what the first argument names."""
    targets: dict[str, Callable[[bytes], None]] = {
        "loaders": loaders,
        "ratings": ratings,
        "journal": journal,
        "batches": batches,
    }
    name = sys.argv.pop(1)
    if name == "journal":
        make_run()
    seeds = FOLDER / "seeds"
    seeds.mkdir()
    corpus = (ROOT / "tests" / "hostile" / "pairs.jsonl").read_bytes()
    for number, line in enumerate([corpus, *corpus.splitlines()]):
        (seeds / str(number)).write_bytes((b"\0" if name == "loaders" else b"") + line)
    for log in (
        sorted((ROOT / "tests" / "plugins" / "logs" / "written").glob("*/*.eval"))
        if name == "loaders"
        else ()
    ):
        (seeds / log.name).write_bytes(bytes([SUFFIXES.index("eval")]) + log.read_bytes())
    atheris.Setup([*sys.argv, str(seeds)], targets[name])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
