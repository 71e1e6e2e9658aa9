"""robin judge and robin resume: the main job."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from robin_cli.cli import options as opt

if TYPE_CHECKING:
    from robin_cli.config import RunConfig
    from robin_cli.runs.store import RunStore


def register(app: typer.Typer) -> None:
    """Add the commands of this file to ``app``."""
    app.command(epilog="Example: robin judge pairs.jsonl --budget 50000 --attribute helpfulness --model gpt-4.1-nano")(
        judge
    )
    app.command(epilog="Example: robin resume runs/20261120T101500Z-helpfulness --budget 80000")(resume)


def judge(
    data: opt.Data = None,
    attribute: opt.Attribute = None,
    rubric: opt.Rubric = None,
    template: opt.Template = None,
    base_url: opt.BaseUrl = None,
    model: opt.Models = None,
    api_key_env: opt.ApiKeyEnv = None,
    columns: opt.Columns = None,
    skip_bad_rows: opt.SkipBadRows = None,
    limit: opt.Limit = None,
    budget: opt.Budget = None,
    scheduler: opt.Scheduler = None,
    delta: opt.Delta = None,
    mode: opt.Mode = None,
    objective: opt.Objective = None,
    variances: opt.Variances = None,
    max_cost: opt.MaxCost = None,
    no_fuse: opt.NoFuse = None,
    price_in: opt.PriceIn = None,
    price_out: opt.PriceOut = None,
    concurrency: opt.Concurrency = None,
    samples_per_request: opt.Samples = None,
    scoring: opt.Scoring = None,
    answer_format: opt.AnswerFormat = None,
    rpm: opt.Rpm = None,
    tpm: opt.Tpm = None,
    temperature: opt.Temperature = None,
    top_p: opt.TopP = None,
    max_tokens: opt.MaxTokens = None,
    timeout: opt.Timeout = None,
    max_retries: opt.MaxRetries = None,
    max_reply: opt.MaxReply = None,
    extra_body: opt.ExtraBody = None,
    seed: opt.Seed = None,
    run: opt.RunDir = None,
    config: opt.Config = None,
    format: opt.Format = None,  # noqa: A002  # the flag's name
    output: opt.Output = None,
    with_text: opt.WithText = None,
    wide: opt.Wide = None,
    sort: opt.Sort = None,
    top: opt.Top = None,
    raw: opt.Raw = None,
    quiet: opt.Quiet = None,
    debug_http: opt.DebugHttp = None,
) -> None:
    """Spend a budget of judge calls over prompt-response pairs, and print the scores.

    Every setting can also come from robin.toml (robin init writes one), or from a variable of its name: ROBIN_MAX_COST for
    --max-cost.
    """
    given = dict(locals())
    from robin_cli.config import load_config

    _judge(load_config(given, given.pop("config")))


def resume(
    run: opt.Run,
    base_url: opt.BaseUrl = None,
    model: opt.Models = None,
    api_key_env: opt.ApiKeyEnv = None,
    budget: opt.Budget = None,
    max_cost: opt.MaxCost = None,
    no_fuse: opt.NoFuse = None,
    price_in: opt.PriceIn = None,
    price_out: opt.PriceOut = None,
    concurrency: opt.Concurrency = None,
    samples_per_request: opt.Samples = None,
    rpm: opt.Rpm = None,
    tpm: opt.Tpm = None,
    timeout: opt.Timeout = None,
    max_retries: opt.MaxRetries = None,
    max_reply: opt.MaxReply = None,
    format: opt.Format = None,  # noqa: A002  # the flag's name
    output: opt.Output = None,
    with_text: opt.WithText = None,
    wide: opt.Wide = None,
    sort: opt.Sort = None,
    top: opt.Top = None,
    raw: opt.Raw = None,
    quiet: opt.Quiet = None,
    debug_http: opt.DebugHttp = None,
) -> None:
    """Go on with an interrupted run, or give a finished one a larger total budget.

    The run's own settings apply; only the flags here can differ.
    """
    given = dict(locals())
    _resume(given.pop("run"), given)


def _judge(config: RunConfig) -> None:
    from robin_cli.cli.confirming import confirmed
    from robin_cli.cli.work import spend
    from robin_cli.data.sources import expanded
    from robin_cli.judges import api_keys
    from robin_cli.output.export import check_output
    from robin_cli.output.messages import messages_for
    from robin_cli.runs.connection import connection_of
    from robin_cli.runs.opening import open_run

    config = confirmed(config)
    api_keys(config)  # no endpoint is the first thing to say: before data is read or a folder made
    connection = connection_of(config)
    own = [*config.rubric, *filter(None, (config.template, config.source.place))]
    check_output(config.format, config.output, [*expanded(config.data), *own])
    messages = messages_for(config)
    with open_run(config, messages.note) as store, _delivered(store, config):
        spend(store, connection, config, messages)


def _resume(run: Path, given: dict[str, Any]) -> None:
    from robin_cli.cli.confirming import confirmed
    from robin_cli.cli.work import spend
    from robin_cli.config import checked_flags
    from robin_cli.judges import api_keys
    from robin_cli.output.export import check_output
    from robin_cli.output.messages import messages_for
    from robin_cli.runs.connection import connection_of, resumed
    from robin_cli.runs.manifest import read_manifest
    from robin_cli.runs.opening import reopen_run, sources_of

    config = confirmed(resumed(run, checked_flags(given)))  # a robin.toml here is not this run's
    api_keys(config)  # before the run is opened
    check_output(config.format, config.output, [name for name, _ in sources_of(read_manifest(run))])
    messages = messages_for(config)
    connection = connection_of(config)
    with reopen_run(run, budget=config.budget) as store, _delivered(store, config):
        spend(store, connection, config, messages)


@contextmanager
def _delivered(store: RunStore, config: RunConfig) -> Iterator[None]:
    """Print or write the scores at the end of the work, also of work that its money ended."""
    from robin_cli.errors import LimitReached

    try:
        yield
    except LimitReached:
        _deliver(store, config)
        raise
    _deliver(store, config)


def _deliver(store: RunStore, config: RunConfig) -> None:
    from rich.console import Console

    from robin_cli.errors import StorageError
    from robin_cli.output.export import Results, export, scores_table
    from robin_cli.output.messages import messages_for
    from robin_cli.output.scores import score
    from robin_cli.output.table import View, print_scores
    from robin_cli.runs.manifest import settings_of
    from robin_cli.runs.reading import read_run

    data = read_run(store.path, texts=False)
    scores = score(data)
    messages = messages_for(config)
    try:
        if config.format == "table" or (config.output is None and config.format is None and sys.stdout.isatty()):
            print_scores(Console(), scores, data, View(config.sort, config.top, wide=config.wide))
            return
        table = scores_table(scores, data, with_text=config.with_text, wide=config.wide)
        export(
            Results.of(table),
            settings_of(store.path),
            fmt=config.format,
            output=config.output,
            raw=config.raw,
            notify=messages.note,
        )
    except StorageError as error:
        raise StorageError(f"{error}. All ratings are kept: robin export {store.path} -o FILE") from error
    if config.output not in {None, "-"}:
        messages.note(f"scores: {config.output}")
