"""robin check: what an endpoint supports, and what robin judge will do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from robin_cli.cli import options as opt

if TYPE_CHECKING:
    from robin_cli.judges.capabilities import Capabilities
    from robin_cli.judges.metering import Price
    from robin_cli.model.exchange import Failure
    from robin_cli.settings.addresses import JudgeAddress
    from robin_cli.settings.table import Settings


_QUESTION = "What is the capital of France?"
_ANSWER = "The capital of France is Paris."
_WRONG = "The capital of France is Lyon."


app = typer.Typer()


@app.command(
    cls=opt.taking(lambda setting: setting.of_question),
    epilog="Example: robin check --base-url http://localhost:8000/v1 --model my-judge",
)
def check(
    ctx: typer.Context,
    config: opt.Config = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object an address, for scripts.")] = False,
) -> None:
    """Ask the endpoint for one judgment, say what it supports and what robin judge will do about it.

    With --pairwise it is asked which of two responses is better, in both orders. It makes five requests or so, each paid for.
    Several judges and addresses are checked one after another.
    """
    import asyncio

    from rich.console import Console

    from robin_cli.cli.work import confirmed
    from robin_cli.model.errors import EndpointError, InputError
    from robin_cli.model.exchange import Failure
    from robin_cli.render.terminal import print_facts
    from robin_cli.settings.addresses import api_keys, judges_of
    from robin_cli.settings.reading import load_settings
    from robin_cli.views.capabilities import facts_of, print_json

    settings = load_settings(ctx.obj, config)
    if settings.no_ties and not settings.pairwise:
        raise InputError("--no-ties: is for --pairwise; add that, or leave it out")
    if not settings.at_endpoints:
        raise InputError(
            f'{settings.source}: judge = "{settings.judge}": robin check asks endpoints, and this judge is at none; ask it for '
            f"a few ratings instead: robin judge --judge {settings.judge} --limit 3 --budget 3"
        )
    settings = confirmed(settings)
    judges = judges_of(settings)
    keys = api_keys(settings)
    for judge, url in ((each, url) for each in judges for url in each.base_urls):
        found, price = asyncio.run(_look(settings, judge, url, keys[judge.api_key_env]))
        if isinstance(found, Failure):
            further = "; --tier-fallback asks at the normal tier" if found.lacks_room else ""
            raise EndpointError(
                f"{url}: the judgment of {judge.name} failed: {' '.join(found.detail.split())}{further}"
            )
        if json:
            print_json(url, found, price)
        else:
            facts = facts_of(url, found, price, samples_all=settings.temperature == settings.top_p == 1)
            print_facts(Console(), {name.replace("_", " "): value for name, value in facts.items()})


async def _look(
    settings: Settings, asked: JudgeAddress, base_url: str, key: str
) -> tuple[Capabilities | Failure, Price | None]:
    import time
    from dataclasses import replace

    from robin_cli.dispatch.limited import Limited
    from robin_cli.dispatch.limiter import Limiter
    from robin_cli.dispatch.retrying import Retrying
    from robin_cli.judges.capabilities import capabilities_of
    from robin_cli.judges.judge import Notices
    from robin_cli.judges.metering import Meter
    from robin_cli.judges.openai_http import OpenAIJudge
    from robin_cli.model.records import Pair
    from robin_cli.questions.rubrics import load_prompts
    from robin_cli.runner.connection import endpoint_at, prices_at

    named = settings.attributes[:1] or (() if settings.rubric or settings.pairwise else ("helpfulness",))
    prompts = load_prompts(
        named, settings.rubric, settings.template, pairwise=settings.pairwise, ties=not settings.no_ties
    )
    unlimited = replace(settings, max_cost=None, budget_usd=None)
    (price,) = prices_at(replace(asked, base_urls=(base_url,)), unlimited)

    def notify(line: str) -> None:
        typer.echo(f"note: {line}", err=True)

    notices = Notices(base_url, notify)
    judge = OpenAIJudge(
        endpoint_at(base_url, asked.name, key, settings),
        meter=Meter(price, tier=settings.tier, falls_back=settings.tier_fallback),
        notify=notify,
    )
    limited = Limited(judge, Limiter(1, ceiling=1, clock=time.monotonic), notices)
    patient = Retrying(limited, max_retries=2, notices=notices, no_room_s=60.0)
    pair = Pair("check", _QUESTION, _ANSWER, reference=_ANSWER, other=_WRONG)
    try:
        attribute, kind = prompts.attributes[0], prompts.kind
        seen = await capabilities_of(
            judge,
            patient,
            prompts.messages(pair, attribute),
            prompts.scales[0],
            form=kind.form,
            swapped=prompts.messages(pair, attribute, 1) if len(kind.variants) > 1 else None,
        )
        return seen, price
    finally:
        await judge.aclose()
