"""The flags of the commands, each once. A flag not given is None, so that the layers below it can speak."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

_DATA = "Data and judge"
_SPEND = "How the budget is spent"
_ASK = "How the judge is asked"
_OUT = "Run and output"

Data = Annotated[
    str | None,
    typer.Argument(
        help="Prompt-response pairs: .jsonl, .jsonl.gz, .json, .parquet or .csv.",
        envvar="ROBIN_DATA",
        show_default=False,
    ),
]
Run = Annotated[Path, typer.Argument(help="A run directory, as robin judge makes them.", show_default=False)]
Attribute = Annotated[
    str | None,
    typer.Option(
        "--attribute",
        "-a",
        help="What to rate: one rubric, or several by commas.",
        envvar="ROBIN_ATTRIBUTE",
        rich_help_panel=_DATA,
    ),
]
BaseUrl = Annotated[
    list[str] | None,
    typer.Option(
        help="Address of an OpenAI-compatible endpoint; given again, the calls are spread over all.",
        envvar=["ROBIN_BASE_URL", "OPENAI_BASE_URL"],
        rich_help_panel=_DATA,
    ),
]
Model = Annotated[str | None, typer.Option(help="The judge's model name.", envvar="ROBIN_MODEL", rich_help_panel=_DATA)]
ApiKeyEnv = Annotated[
    str | None,
    typer.Option(
        help="Environment variable that holds the key. (default: OPENAI_API_KEY)",
        envvar="ROBIN_API_KEY_ENV",
        rich_help_panel=_DATA,
    ),
]
Columns = Annotated[
    str | None,
    typer.Option(
        help="Names in the data: prompt=question,response=answer,…; id=- ignores the data's ids.",
        envvar="ROBIN_COLUMNS",
        rich_help_panel=_DATA,
    ),
]
SkipBadRows = Annotated[
    bool | None,
    typer.Option(
        "--skip-bad-rows",
        help="Leave bad rows out and count them.",
        envvar="ROBIN_SKIP_BAD_ROWS",
        rich_help_panel=_DATA,
    ),
]
Limit = Annotated[
    int | None,
    typer.Option(help="Take the first K pairs only.", envvar="ROBIN_LIMIT", metavar="K", rich_help_panel=_DATA),
]
Budget = Annotated[
    int | None,
    typer.Option("--budget", "-b", help="Judge calls to spend, in all.", envvar="ROBIN_BUDGET", rich_help_panel=_SPEND),
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        help="robin-hood, two-priors, dirichlet, robin or uniform. (default: robin-hood)",
        envvar="ROBIN_SCHEDULER",
        rich_help_panel=_SPEND,
    ),
]
Delta = Annotated[
    float | None,
    typer.Option(
        help="ROBIN-HOOD's failure probability. (default: 0.007)", envvar="ROBIN_DELTA", rich_help_panel=_SPEND
    ),
]
Mode = Annotated[
    str | None,
    typer.Option(
        help="ROBIN-HOOD's constants: practice or theory. (default: practice)",
        envvar="ROBIN_MODE",
        rich_help_panel=_SPEND,
    ),
]
Objective = Annotated[
    str | None,
    typer.Option(
        help="What is made small: worst-case (the largest error) or mean-error. (default: worst-case)",
        envvar="ROBIN_OBJECTIVE",
        rich_help_panel=_SPEND,
    ),
]
Variances = Annotated[
    str | None,
    typer.Option(
        help="Earlier run, or pool, to take known variances from (for robin).",
        envvar="ROBIN_VARIANCES",
        metavar="RUN",
        rich_help_panel=_SPEND,
    ),
]
Concurrency = Annotated[
    str | None,
    typer.Option(
        help="Calls under way at a time: N or auto. (default: auto)", envvar="ROBIN_CONCURRENCY", rich_help_panel=_ASK
    ),
]
Samples = Annotated[
    int | None,
    typer.Option(
        "--samples-per-request",
        help="Ratings wanted of one request, for one prompt paid (the API's n). (default: 1)",
        envvar="ROBIN_SAMPLES_PER_REQUEST",
        metavar="N",
        rich_help_panel=_ASK,
    ),
]
Rpm = Annotated[
    float | None,
    typer.Option(help="Requests a minute at most, for each address.", envvar="ROBIN_RPM", rich_help_panel=_ASK),
]
Tpm = Annotated[
    float | None,
    typer.Option(help="Tokens a minute at most, for each address.", envvar="ROBIN_TPM", rich_help_panel=_ASK),
]
MaxCost = Annotated[
    float | None,
    typer.Option(
        help="Stop before more US dollars are spent, over all sessions of the run.",
        envvar="ROBIN_MAX_COST",
        metavar="USD",
        rich_help_panel=_SPEND,
    ),
]
PriceIn = Annotated[
    float | None,
    typer.Option(
        help="US dollars for a million tokens sent. (default: as genai-prices lists it)",
        envvar="ROBIN_PRICE_IN",
        metavar="USD",
        rich_help_panel=_SPEND,
    ),
]
PriceOut = Annotated[
    float | None,
    typer.Option(
        help="US dollars for a million tokens answered.",
        envvar="ROBIN_PRICE_OUT",
        metavar="USD",
        rich_help_panel=_SPEND,
    ),
]
Temperature = Annotated[
    float | None,
    typer.Option(help="Sampling temperature. (default: 1)", envvar="ROBIN_TEMPERATURE", rich_help_panel=_ASK),
]
TopP = Annotated[
    float | None, typer.Option(help="Nucleus sampling. (default: 1)", envvar="ROBIN_TOP_P", rich_help_panel=_ASK)
]
MaxTokens = Annotated[
    int | None,
    typer.Option(help="Longest answer, in tokens. (default: 1024)", envvar="ROBIN_MAX_TOKENS", rich_help_panel=_ASK),
]
Timeout = Annotated[
    float | None,
    typer.Option(help="Longest request, in seconds. (default: 120)", envvar="ROBIN_TIMEOUT", rich_help_panel=_ASK),
]
MaxRetries = Annotated[
    int | None,
    typer.Option(help="Retries of a call after errors. (default: 6)", envvar="ROBIN_MAX_RETRIES", rich_help_panel=_ASK),
]
ExtraBody = Annotated[
    str | None,
    typer.Option(
        help="JSON object to add to every request.", envvar="ROBIN_EXTRA_BODY", metavar="JSON", rich_help_panel=_ASK
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(
        help="Send each call a seed of its own, made from this one.", envvar="ROBIN_SEED", rich_help_panel=_ASK
    ),
]
RunDir = Annotated[
    str | None,
    typer.Option(
        "--run",
        help="Run directory. (default: runs/TIME-ATTRIBUTE)",
        envvar="ROBIN_RUN",
        metavar="DIR",
        rich_help_panel=_OUT,
    ),
]
Config = Annotated[
    str | None,
    typer.Option(
        help="TOML file, or the name of a ready one. (default: ./robin.toml)", metavar="FILE", rich_help_panel=_OUT
    ),
]
Format = Annotated[
    str | None,
    typer.Option(
        help="csv, tsv, jsonl, parquet, xlsx or table. (default: by the file's name)",
        envvar="ROBIN_FORMAT",
        rich_help_panel=_OUT,
    ),
]
Output = Annotated[
    str | None,
    typer.Option(
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
    typer.Option("--with-text", help="Add prompt and response.", envvar="ROBIN_WITH_TEXT", rich_help_panel=_OUT),
]
DebugHttp = Annotated[
    str | None,
    typer.Option(
        help="Add every request and answer to a file, without the key: for bug reports.",
        envvar="ROBIN_DEBUG_HTTP",
        metavar="FILE",
        rich_help_panel=_OUT,
    ),
]
Quiet = Annotated[
    bool | None,
    typer.Option("--quiet", "-q", help="Nothing on stderr but errors.", envvar="ROBIN_QUIET", rich_help_panel=_OUT),
]
