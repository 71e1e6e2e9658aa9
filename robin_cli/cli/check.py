"""robin check: what an endpoint supports, and what robin judge will do about it."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Annotated

import typer

from robin_cli.cli import options as opt

if TYPE_CHECKING:
    from robin_cli.config import RunConfig
    from robin_cli.judges import JudgeAddress
    from robin_cli.judging.capabilities import Capabilities
    from robin_cli.judging.judge import Failure
    from robin_cli.judging.metering import Price


_QUESTION = "What is the capital of France?"
_ANSWER = "The capital of France is Paris."


def register(app: typer.Typer) -> None:
    """Add the command of this file to ``app``."""
    app.command(epilog="Example: robin check --base-url http://localhost:8000/v1 --model my-judge")(check)


def check(
    attribute: opt.Attribute = None,
    rubric: opt.Rubric = None,
    template: opt.Template = None,
    base_url: opt.BaseUrl = None,
    model: opt.Models = None,
    api_key_env: opt.ApiKeyEnv = None,
    temperature: opt.Temperature = None,
    top_p: opt.TopP = None,
    max_tokens: opt.MaxTokens = None,
    timeout: opt.Timeout = None,
    max_reply: opt.MaxReply = None,
    extra_body: opt.ExtraBody = None,
    price_in: opt.PriceIn = None,
    price_out: opt.PriceOut = None,
    debug_http: opt.DebugHttp = None,
    config: opt.Config = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object an address, for scripts.")] = False,
) -> None:
    """Ask the endpoint for one judgment, say what it supports and what robin judge will do about it.

    It makes five requests or so, each paid for. Several judges and addresses are checked one after another.
    """
    given = {name: value for name, value in locals().items() if name not in {"config", "json"}}
    from rich.console import Console

    from robin_cli.cli.confirming import confirmed
    from robin_cli.config import load_config
    from robin_cli.errors import EndpointError
    from robin_cli.judges import api_keys, judges_of
    from robin_cli.judging.judge import Failure
    from robin_cli.output.capabilities import facts_of, print_json
    from robin_cli.output.table import print_facts

    settings = confirmed(load_config(given, config))
    judges = judges_of(settings)
    keys = api_keys(settings)
    for judge, url in ((each, url) for each in judges for url in each.base_urls):
        found, price = asyncio.run(_look(settings, judge, url, keys[judge.api_key_env]))
        if isinstance(found, Failure):
            raise EndpointError(f"{url}: the judgment of {judge.name} failed: {' '.join(found.detail.split())}")
        if json:
            print_json(url, found, price)
        else:
            facts = facts_of(url, found, price, samples_all=settings.temperature == settings.top_p == 1)
            print_facts(Console(), {name.replace("_", " "): value for name, value in facts.items()})


async def _look(
    config: RunConfig, asked: JudgeAddress, base_url: str, key: str
) -> tuple[Capabilities | Failure, Price | None]:
    from robin_cli.judging.capabilities import capabilities_of
    from robin_cli.judging.metering import Meter, prices_of
    from robin_cli.judging.openai_judge import Endpoint, OpenAIJudge, reply_bytes
    from robin_cli.judging.pacing import Pacer
    from robin_cli.judging.rubrics import load_prompts
    from robin_cli.records import Pair

    named = config.attributes[:1] or (() if config.rubric else ("helpfulness",))
    prompts = load_prompts(named, config.rubric, config.template)
    (price,) = prices_of(asked.name, [base_url], price_in=asked.price_in, price_out=asked.price_out, max_cost=None)
    endpoint = Endpoint(
        base_url=base_url,
        model=asked.name,
        api_key=key,
        temperature=config.temperature,
        top_p=config.top_p,
        max_tokens=config.max_tokens,
        extra_body=config.extra_body,
        timeout_s=config.timeout,
        max_retries=2,
        max_reply_bytes=reply_bytes(config.max_reply),
        debug_http=config.debug_http,
    )
    pacer = Pacer(1, ceiling=1, clock=time.monotonic)
    judge = OpenAIJudge(endpoint, pacer, meter=Meter(price), notify=lambda line: typer.echo(f"note: {line}", err=True))
    pair = Pair("check", _QUESTION, _ANSWER, reference=_ANSWER)
    try:
        attribute = next(iter(prompts.rubrics))
        return await capabilities_of(judge, prompts.messages(pair, attribute), prompts.rubrics[attribute].scale), price
    finally:
        await judge.aclose()
