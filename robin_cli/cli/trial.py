"""robin try: which judge, and which wording of the question, to take."""

from __future__ import annotations

from robin_cli.cli.options import Invocation, command
from robin_cli.cli.output import is_for_people, output_of, show

TAKEN = frozenset(
    (
        *("data", "attribute", "rubric", "base_url", "model", "api_key_env", "columns", "group"),
        *("labels", "skip_bad_rows", "encoding", "strip_thinking", "limit", "budget", "price_in"),
        *("price_out", "price_cached", "concurrency", "answers", "rpm", "tpm", "temperature"),
        *("top_p", "max_tokens", "reasoning_effort", "timeout", "max_retries", "extra_body"),
        *("seed", "run", "format", "output", "raw", "quiet"),
    )
)
"""The settings of robin judge that a trial takes."""


@command(
    "try pairs.jsonl -a helpfulness --model A --model B --limit 50 --labels people.csv",
    "config template",
    TAKEN,
    name="try",
)
def trial(call: Invocation) -> None:
    """Find which judge and which wording to take.

    Each rates the same pairs once. Every --model is tried with every --template and every --rubric. People say who is
    right, by --labels or by the human ratings of the data; without any, judges are held against those of other families.
    What is clearly worse after 30 labelled prompts is dropped. To go on after an interruption, repeat the command with the
    same --run.
    """
    from robin_cli.cli.trial_runs import run_trial
    from robin_cli.show.messages import messages_for

    settings, output = call.load_settings(), output_of(call)
    messages = messages_for(quiet=settings.quiet)
    results = run_trial(settings, call.flags.template or [""], TAKEN, messages)
    show(results.table(), output, messages.note, for_people=is_for_people(output))
    for line in results.suggestion():
        messages.note(line)
