"""Cautions for the user before a run spends money."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

from robin_cli.goals.base import Goal
from robin_cli.model.records import things_rated
from robin_cli.policies.registry import traits_of
from robin_cli.run.writer import RunWriter
from robin_cli.settings.addresses import is_loopback
from robin_cli.settings.resolve import Resolved


def cautions(store: RunWriter, goal: Goal, resolved: Resolved) -> Iterable[str]:
    """Yield lines for the user."""
    manifest = store.manifest
    for name in resolved.keyless:
        yield f"no key goes to {name}: name one for each judge, an --api-key-env for each --model (- for none)"
    keyed_urls = [url for judge in resolved.judges if judge.has_key for url in judge.base_urls]
    policy = goal.policy(manifest.own_settings, manifest.budget, store.variances)
    arms, scheduler = len(goal.space), manifest.settings["scheduler"]
    if caution := goal.caution(manifest.budget):
        yield caution
    elif goal.asks_all and not policy.evenly and manifest.budget < arms * policy.warm_up:
        what = things_rated(arms, len(manifest.attributes), len(manifest.judges))
        better = "; --scheduler two-priors adapts from the second call per pair, and is the better choice here"
        yield (
            f"the budget of {manifest.budget:,} is below {scheduler.upper()}'s warm-up of {policy.warm_up} calls for each of "
            f"{what}: the calls will be spread evenly, as --scheduler uniform does. It adapts from {arms * policy.warm_up:,} "
            f"up{better if goal.wants_scores else ''}"
        )
    if resolved.target_error is not None and traits_of(scheduler).starves:
        yield (
            f"--target-error: --scheduler {scheduler}, which this run has, may never ask a pair again after its first ratings "
            "agreed, so the error may stay above the target until the budget is spent; a new run with --scheduler "
            "two-priors reaches the target"
        )
    if manifest.settings["temperature"] == 0:
        yield "at --temperature 0 a judge hardly varies, so repeated calls bring little; 1 is usual here"
    if "logprobs" in manifest.answers and not manifest.has_levels_of_digits:
        wide = next(scale for scale in manifest.scales if not scale.is_of_digits)
        yield (
            f"--answers logprobs: a level of the scale {wide.low} to {wide.high} may take two tokens; such ratings are read "
            "from the text, with all of its noise. A rubric from 0 to 9 at most avoids it"
        )
    for url in map(urlsplit, keyed_urls):
        if url.scheme == "http" and not is_loopback(url.hostname or ""):
            yield f"the key goes unencrypted to {url.hostname}: use https"
