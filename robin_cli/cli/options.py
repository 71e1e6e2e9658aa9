"""The flags of the commands, each once. A flag not given is None, so that the layers below it can speak.

Each has a ``ROBIN_*`` variable of its name; the help says so once, not at every flag, or it would be twice as long.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer


def _calls(text: str | int) -> int:
    """A number as people and robin write it: 3,000 as well as 3000."""
    try:
        return int(str(text).replace(",", ""))
    except ValueError:
        raise typer.BadParameter(f'"{text}" is no whole number; write 3000 or 3,000') from None


def _attributes(incomplete: str) -> list[str]:
    from robin_cli.judging.rubrics import known_attributes

    *before, last = incomplete.split(",")
    return [",".join([*before, name]) for name in known_attributes() if name.startswith(last)]


def _templates(incomplete: str) -> list[str]:
    from robin_cli.judging.rubrics import known_templates

    return [name for name in known_templates() if name.startswith(incomplete)]


def _configs(incomplete: str) -> list[str]:
    from robin_cli.config import ready_configs

    return [name for name in ready_configs() if name.startswith(incomplete)]


def _among(*names: str) -> Callable[[str], list[str]]:
    def complete(incomplete: str) -> list[str]:
        return [name for name in names if name.startswith(incomplete)]

    return complete


_option = partial(typer.Option, show_envvar=False)

_DATA = "Data and judge"
_SPEND = "How the budget is spent"
_ASK = "How the judge is asked"
_OUT = "Run and output"


def _data(named: list[str] | None) -> list[str] | None:
    """What was named, else what ROBIN_DATA says, read as a shell reads it: Typer would split a path at its blanks."""
    told = os.environ.get("ROBIN_DATA", "")
    try:
        return named or ([told] if told and Path(told).exists() else shlex.split(told))
    except (OSError, ValueError) as error:
        raise typer.BadParameter(f"ROBIN_DATA: cannot be read ({error}); write it as in a shell") from None


Data = Annotated[
    list[str] | None,
    typer.Argument(
        help="Prompt-response pairs: .jsonl, .json, .csv or .tsv (also .gz), .parquet; several, a quoted glob, - for "
        "standard input, hf://owner/name?split=… for a data set of the Hugging Face hub.",
        callback=_data,
        metavar="DATA",
        show_default=False,
        show_envvar=False,
    ),
]
Run = Annotated[
    Path, typer.Argument(help="A run directory, as robin judge makes them.", metavar="RUN", show_default=False)
]
Attribute = Annotated[
    str | None,
    _option(
        "--attribute",
        "-a",
        help="What to rate: one rubric, or several by commas.",
        envvar="ROBIN_ATTRIBUTE",
        autocompletion=_attributes,
        rich_help_panel=_DATA,
    ),
]
Rubric = Annotated[
    list[str] | None,
    _option(
        help="A rubric of your own, .toml or .yaml; given again, several. robin rubrics shows the ready ones.",
        metavar="FILE",
        envvar="ROBIN_RUBRIC",
        rich_help_panel=_DATA,
    ),
]
Template = Annotated[
    str | None,
    _option(
        help="A prompt of your own, or the name of a ready one. (default: absolute-judge)",
        metavar="FILE",
        envvar="ROBIN_TEMPLATE",
        autocompletion=_templates,
        rich_help_panel=_DATA,
    ),
]
BaseUrl = Annotated[
    list[str] | None,
    _option(
        help="Address of an OpenAI-compatible endpoint, also from OPENAI_BASE_URL; given again, the calls are spread over all.",
        metavar="URL",
        envvar=["ROBIN_BASE_URL", "OPENAI_BASE_URL"],
        rich_help_panel=_DATA,
    ),
]
Models = Annotated[
    list[str] | None,
    _option(
        "--model",
        help="The judge's model name, or NAME@https://address/v1; given again, a panel of judges.",
        envvar="ROBIN_MODEL",
        metavar="NAME",
        rich_help_panel=_DATA,
    ),
]
ApiKeyEnv = Annotated[
    list[str] | None,
    _option(
        help="Environment variable that holds the key; given again, one for each --model. (default: OPENAI_API_KEY)",
        envvar="ROBIN_API_KEY_ENV",
        metavar="VARIABLE",
        rich_help_panel=_DATA,
    ),
]
Columns = Annotated[
    str | None,
    _option(
        help="Names in the data: prompt=question,response=answer,…; id=- ignores the data's ids.",
        envvar="ROBIN_COLUMNS",
        rich_help_panel=_DATA,
    ),
]
SkipBadRows = Annotated[
    bool | None,
    _option(
        "--skip-bad-rows",
        help="Leave bad rows out and count them.",
        envvar="ROBIN_SKIP_BAD_ROWS",
        rich_help_panel=_DATA,
    ),
]
Limit = Annotated[
    int | None,
    _option(help="Take the first K pairs only.", envvar="ROBIN_LIMIT", metavar="K", rich_help_panel=_DATA),
]
Budget = Annotated[
    int | None,
    _option(
        "--budget",
        "-b",
        help="Judge calls to spend, in all.",
        envvar="ROBIN_BUDGET",
        metavar="N",
        parser=_calls,
        rich_help_panel=_SPEND,
    ),
]
Scheduler = Annotated[
    str | None,
    _option(
        help="robin-hood, two-priors, dirichlet, robin or uniform. (default: robin-hood)",
        envvar="ROBIN_SCHEDULER",
        autocompletion=_among("robin-hood", "two-priors", "dirichlet", "robin", "uniform"),
        rich_help_panel=_SPEND,
    ),
]
Delta = Annotated[
    float | None,
    _option(help="ROBIN-HOOD's failure probability. (default: 0.007)", envvar="ROBIN_DELTA", rich_help_panel=_SPEND),
]
Mode = Annotated[
    str | None,
    _option(
        help="ROBIN-HOOD's constants: practice or theory. (default: practice)",
        envvar="ROBIN_MODE",
        autocompletion=_among("practice", "theory"),
        rich_help_panel=_SPEND,
    ),
]
Objective = Annotated[
    str | None,
    _option(
        help="What is made small: worst-case (the largest error) or mean-error. (default: worst-case)",
        envvar="ROBIN_OBJECTIVE",
        autocompletion=_among("worst-case", "mean-error"),
        rich_help_panel=_SPEND,
    ),
]
Variances = Annotated[
    str | None,
    _option(
        help="An earlier run on these pairs, or a pool, to begin with what varied there.",
        envvar="ROBIN_VARIANCES",
        metavar="RUN",
        rich_help_panel=_SPEND,
    ),
]
Concurrency = Annotated[
    str | None,
    _option(
        help="Calls under way at a time: N or auto. (default: auto)", envvar="ROBIN_CONCURRENCY", rich_help_panel=_ASK
    ),
]
Samples = Annotated[
    int | None,
    _option(
        "--samples-per-request",
        help="Ratings wanted of one request, for one prompt paid (the API's n). (default: 1)",
        envvar="ROBIN_SAMPLES_PER_REQUEST",
        metavar="N",
        rich_help_panel=_ASK,
    ),
]
Scoring = Annotated[
    str | None,
    _option(
        help="What an answer counts as: its text, or logprobs, the mean over the rating's tokens. (default: text)",
        envvar="ROBIN_SCORING",
        metavar="text|logprobs",
        autocompletion=_among("text", "logprobs"),
        rich_help_panel=_ASK,
    ),
]
AnswerFormat = Annotated[
    str | None,
    _option(
        help="How the judge answers: text, json_schema or grammar, where the endpoint enforces it. (default: text)",
        envvar="ROBIN_ANSWER_FORMAT",
        metavar="FORMAT",
        autocompletion=_among("text", "json_schema", "grammar"),
        rich_help_panel=_ASK,
    ),
]
Rpm = Annotated[
    float | None,
    _option(help="Requests a minute at most, for each address.", envvar="ROBIN_RPM", rich_help_panel=_ASK),
]
Tpm = Annotated[
    float | None,
    _option(help="Tokens a minute at most, for each address.", envvar="ROBIN_TPM", rich_help_panel=_ASK),
]
MaxCost = Annotated[
    float | None,
    _option(
        help="Stop before more US dollars are spent, over all sessions of the run.",
        envvar="ROBIN_MAX_COST",
        metavar="USD",
        rich_help_panel=_SPEND,
    ),
]
NoFuse = Annotated[
    bool | None,
    _option(
        "--no-fuse",
        help="Go on although the first 50 answers of a judge hold no rating.",
        envvar="ROBIN_NO_FUSE",
        rich_help_panel=_SPEND,
    ),
]
PriceIn = Annotated[
    list[float] | None,
    _option(
        help="US dollars for a million tokens sent; given again, for each --model. (default: genai-prices')",
        envvar="ROBIN_PRICE_IN",
        metavar="USD",
        rich_help_panel=_SPEND,
    ),
]
PriceOut = Annotated[
    list[float] | None,
    _option(
        help="US dollars for a million tokens answered.",
        envvar="ROBIN_PRICE_OUT",
        metavar="USD",
        rich_help_panel=_SPEND,
    ),
]
Temperature = Annotated[
    float | None,
    _option(help="Sampling temperature. (default: 1)", envvar="ROBIN_TEMPERATURE", rich_help_panel=_ASK),
]
TopP = Annotated[
    float | None, _option(help="Nucleus sampling. (default: 1)", envvar="ROBIN_TOP_P", rich_help_panel=_ASK)
]
MaxTokens = Annotated[
    int | None,
    _option(help="Longest answer, in tokens. (default: 1024)", envvar="ROBIN_MAX_TOKENS", rich_help_panel=_ASK),
]
Timeout = Annotated[
    float | None,
    _option(help="Longest request, in seconds. (default: 120)", envvar="ROBIN_TIMEOUT", rich_help_panel=_ASK),
]
MaxRetries = Annotated[
    int | None,
    _option(help="Retries of a call after errors. (default: 6)", envvar="ROBIN_MAX_RETRIES", rich_help_panel=_ASK),
]
MaxReply = Annotated[
    float | None,
    _option(
        help="Longest reply that is read, in MiB. (default: 4)",
        envvar="ROBIN_MAX_REPLY",
        metavar="MIB",
        rich_help_panel=_ASK,
    ),
]
ExtraBody = Annotated[
    str | None,
    _option(
        help="JSON object to add to every request.", envvar="ROBIN_EXTRA_BODY", metavar="JSON", rich_help_panel=_ASK
    ),
]
Seed = Annotated[
    int | None,
    _option(help="Send each call a seed of its own, made from this one.", envvar="ROBIN_SEED", rich_help_panel=_ASK),
]
RunDir = Annotated[
    str | None,
    _option(
        "--run",
        help="Run directory. (default: runs/TIME-ATTRIBUTE)",
        envvar="ROBIN_RUN",
        metavar="DIR",
        rich_help_panel=_OUT,
    ),
]
Config = Annotated[
    str | None,
    _option(
        help="TOML file, or the name of a ready one. (default: ./robin.toml)",
        autocompletion=_configs,
        metavar="FILE",
        rich_help_panel=_OUT,
    ),
]
Format = Annotated[
    str | None,
    _option(
        help="csv, tsv, jsonl, parquet, xlsx or table. (default: by the file's name)",
        envvar="ROBIN_FORMAT",
        autocompletion=_among("csv", "tsv", "jsonl", "parquet", "xlsx", "table"),
        rich_help_panel=_OUT,
    ),
]
Output = Annotated[
    str | None,
    _option(
        "--output",
        "-o",
        help="File for the scores, or - for standard output.",
        envvar="ROBIN_OUTPUT",
        metavar="FILE",
        rich_help_panel=_OUT,
    ),
]
WithText = Annotated[
    bool | None,
    _option("--with-text", help="Add prompt and response.", envvar="ROBIN_WITH_TEXT", rich_help_panel=_OUT),
]
Wide = Annotated[
    bool | None,
    _option(
        "--wide",
        help="A row a pair, each attribute in columns of its own.",
        envvar="ROBIN_WIDE",
        rich_help_panel=_OUT,
    ),
]
Sort = Annotated[
    str | None,
    _option(
        help="What the table shows first: the largest width (of the interval), score or variance; or data. (default: width)",
        envvar="ROBIN_SORT",
        metavar="ORDER",
        autocompletion=_among("width", "score", "variance", "data"),
        rich_help_panel=_OUT,
    ),
]
Top = Annotated[
    int | None,
    _option(
        help="Rows of the table. (default: 60)", envvar="ROBIN_TOP", metavar="N", parser=_calls, rich_help_panel=_OUT
    ),
]
Raw = Annotated[
    bool | None,
    _option(
        "--raw",
        help="CSV and TSV to the letter, for joins, not for spreadsheets: an id or text that begins with = + - @ gets no "
        "apostrophe in front.",
        envvar="ROBIN_RAW",
        rich_help_panel=_OUT,
    ),
]
DebugHttp = Annotated[
    str | None,
    _option(
        help="Add every request and answer to a file, without the key: for bug reports.",
        envvar="ROBIN_DEBUG_HTTP",
        metavar="FILE",
        rich_help_panel=_OUT,
    ),
]
Quiet = Annotated[
    bool | None,
    _option("--quiet", "-q", help="Nothing on stderr but errors.", envvar="ROBIN_QUIET", rich_help_panel=_OUT),
]
