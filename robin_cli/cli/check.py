"""robin check: what an endpoint supports, and what robin judge will do about it."""

from __future__ import annotations

import typer

from robin_cli.cli.options import Invocation, command
from robin_cli.model.errors import EndpointError, InputError

_MOST_OF_REPLY = 20_000


@command(
    "check --base-url http://localhost:8000/v1 --model my-judge",
    "config json",
    lambda setting: setting.of_question,
)
def check(call: Invocation) -> None:
    """Ask an endpoint what it supports.

    robin sends about five requests, each paid for, and says what robin judge will do about what it finds. The first
    asks for a judgment; with --pairwise, which of two responses is better, in both orders. Several judges and addresses are
    checked one after another; --json prints an object for each.
    """
    import asyncio

    from msgspec import to_builtins

    from robin_cli.judges.capabilities import look_at
    from robin_cli.model.exchange import Failure
    from robin_cli.session.connection import endpoint_alone, endpoint_at
    from robin_cli.session.prompts import prompts_of_check
    from robin_cli.settings.resolve import resolve
    from robin_cli.show.capabilities import facts_of
    from robin_cli.show.json import print_json
    from robin_cli.show.terminal import print_facts, stdout_console
    from robin_cli.show.text import plain

    settings = call.load_settings()
    if settings.no_ties and not settings.pairwise:
        raise InputError("--no-ties: is for --pairwise; add that, or leave it out")
    if not settings.at_endpoints:
        raise InputError(
            f'{settings.source}: judge = "{settings.judge}": robin check asks endpoints, and this judge is at none; ask it for '
            f"a few ratings instead: robin judge --judge {settings.judge} --limit 3 --budget 3"
        )
    resolved, prompts = resolve(settings), prompts_of_check(settings)

    def notify(line: str) -> None:
        typer.echo(f"note: {line}", err=True)

    addresses = [(judge, url) for judge in resolved.judges for url in judge.base_urls]
    for judge, url in addresses:
        asked = endpoint_alone(resolved, judge, url, notify)
        endpoint = endpoint_at(url, judge, resolved)
        answer = asyncio.run(look_at(*asked, endpoint, prompts, notify))
        if isinstance(answer, Failure):
            step = "; is the server running, and --base-url right?" if answer.transient else ""
            raise EndpointError(
                f"{url}: the judgment of {judge.name} failed: {' '.join(answer.detail.split())}{step}"
            )
        if call.flags.json:
            print_json(to_builtins(answer))
            continue
        facts = facts_of(answer, samples_all=settings.temperature == settings.top_p == 1)
        lines = {name.replace("_", " "): value for name, value in facts.items()}
        print_facts(stdout_console(), lines)
        typer.echo(f"\nThe first judgment's raw reply:\n{plain(answer.raw_reply[:_MOST_OF_REPLY])}")
