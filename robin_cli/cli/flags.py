"""The flags of single commands, beside those of settings: each once, with its help."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from robin_cli.settings.setting import Scope, setting, table_of, within

PANEL = "Options"
_flag = partial(setting, panel=PANEL, scope=Scope.OUTPUT, in_python=False)
_argument = partial(_flag, argument=True)
_PORT = within(0, 65535, "0 to 65535")
_COUNT = within(1, 10**9, "a number of pairs, at least 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """All flags of single commands, named as they are typed, with underscores; None or empty: not typed."""

    # fmt: off
    run: str | None = _argument("A run directory, or a file of scores. (default: the newest run)", metavar="RUN")
    runs: tuple[str, ...] = _argument("Run directories or files of scores: several to compare. (default: the newest run)",
        (), metavar="RUN")
    folder: str = _argument("The folder that holds them.", "runs", metavar="FOLDER")
    pool: str | None = _argument("Recorded ratings: a table pair_id, rating[, attribute, group], or a run.", metavar="POOL")
    file: str = _argument("JSON lines with a field text; - for standard input.", "-", metavar="FILE")
    name: str | None = _argument("A rubric or a template to show, as it is in its file.", metavar="NAME")

    config: str | None = _flag("TOML file, or the name of a ready one. (default: ./robin.toml)",
        metavar="FILE", panel="Run and output")
    json: bool = _flag("JSON, for scripts.", default=False)
    details: bool = _flag("All that is known, and what a paper needs.", default=False)
    labels: str | None = _flag("People's labels of its pairs, with columns pair_id and label: they correct its means.",
        metavar="FILE")
    by: str | None = _flag("Column of the data that says which system answered.", metavar="COLUMN")
    template: tuple[str, ...] = _flag("A prompt to try; repeat the flag for several.", (), metavar="FILE")
    pair: str | None = _flag("The pair's id; of a comparison the comparison's. (default: the first pair)", metavar="ID")

    what: str = _flag("What to write, as summary or ranking; robin results lists what a run has.", "scores", metavar="WHAT")
    messages: bool = _flag("Preferences as conversations, for trainers of chat models: jsonl or parquet.", default=False)
    threshold: float | None = _flag("Summary: also the share of scores at it or above.", metavar="T")
    round: bool = _flag("Agreement: state κ and ordinal α even if rounding decides many pairs.", default=False)
    n: int | None = _flag("How many pairs to label. (default: 50)", check=_COUNT)
    match: str | None = _flag("Column that says which responses answer the same prompt. (default: the prompt's text)",
        metavar="COLUMN")
    robust: bool = _flag("Widen all intervals, as if few prompts carried them.", default=False)

    require: tuple[str, ...] = _flag("mean(A)>=N, share(A>=N)>=SHARE, all(A>=N) or compare(X,Y)>=N; repeat the flag.",
        (), metavar="REQUIREMENT")
    error_rate: float = _flag("How often a verdict on a requirement may be wrong.", 0.05, metavar="D",
        check=(lambda rate: 0.0 < rate < 1.0, "between 0 and 1, as 0.05"))
    margin: float | None = _flag("In all: a pair whose mean is so near its threshold counts either way.",
        metavar="E", default_said="1/40 of the scale", check=within(0.0, 1e9, "a number of points, 0 or more"))
    junit: str | None = _flag("Write JUnit XML, one test case per requirement.", metavar="FILE")
    summary: str | None = _flag("Write Markdown for a build's summary page; - for standard output.", metavar="FILE")

    output: str | None = _flag("The HTML file, or - for standard output. (default: RUN/report.html)",
        short="-o", metavar="FILE")
    figures: str | None = _flag("A folder for the pictures as SVG and PDF, for papers.", metavar="DIR")
    labeller: str = _flag("Your name, saved with each label.", "", metavar="NAME", default_said="the page asks")
    no_browser: bool = _flag("Open no browser, and only print the address.", default=False)
    port: int | None = _flag("Port on 127.0.0.1; 0 for a free one.", check=_PORT)
    latency_ms: float = _flag("Wait so many milliseconds before each answer.", 0.0,
        check=within(0.0, 1e9, "a number of milliseconds, 0 or more"))
    seed: int | None = _flag("Choose the ratings by this number: the same requests get the same answers.",
        check=within(0, 2**63, "0 or more"))
    like: str = _flag("Start from the settings for openai, vllm, ollama or llama-cpp.", "openai", metavar="NAME")
    force: bool = _flag("Replace a robin.toml that is there.", default=False)
    # fmt: on


FLAGS = table_of(Flags, variables=False)
