"""robin plan: what a budget would buy, before it is spent."""

from __future__ import annotations

from functools import partial

from robin_cli.cli.checks import check_first, inputs_of
from robin_cli.cli.options import Invocation, command, is_of_judging
from robin_cli.cli.output import output_of, show


@command(
    "plan pairs.jsonl --budget 50000 --attribute helpfulness",
    "config details json",
    is_of_judging,
)
def plan(call: Invocation) -> None:
    """Estimate what a budget buys, before you spend it.

    It says the calls, tokens, money and time, and how far off scores may be, or how many decisions may be wrong. Takes
    the flags of robin judge, and sends nothing. Without --budget, --target-error or --decide find the calls that reach the
    goal. --variances RUN plans by the ratings of an earlier run on these pairs: its variance, tokens and pace. With
    --pairwise and for comparisons of systems it says calls, tokens, money and time. --format and -o have its table as a
    file.
    """
    settings = call.load_settings()
    check_first(settings)
    from robin_cli.goals.checks import check_together
    from robin_cli.session.inputs import pairs_of
    from robin_cli.session.prompts import prompts_of
    from robin_cli.show.json import print_json
    from robin_cli.show.messages import messages_for
    from robin_cli.show.plan import facts_of, plan_table, print_plan
    from robin_cli.simulate.plan import Plan

    check_together(settings)
    output = output_of(call, inputs_of(settings))
    messages = messages_for(quiet=settings.quiet)
    dataset = pairs_of(settings, prompts_of(settings), messages.note)
    with messages.busy("simulating the run"):
        plan = Plan(settings, dataset, messages.note)
        facts = facts_of(plan)
    if call.flags.json:
        print_json(facts, indent=True)
    else:
        table = plan_table(plan, facts["forecast"])
        page = partial(print_plan, plan, facts, details=call.flags.details)
        show(table, output, messages.note, for_people=True, page=page)
