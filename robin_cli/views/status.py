"""``robin status``: where a run stands, for people and for scripts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console

from robin_cli.analysis.agreement import CORRELATIONS, Agreement
from robin_cli.analysis.bounds import theorem_bound
from robin_cli.analysis.calibration import Level
from robin_cli.analysis.intervals import ALPHA
from robin_cli.analysis.pairwise import PairwiseResults, pairwise_results
from robin_cli.analysis.run_agreement import agreements, calibrations, reliabilities
from robin_cli.analysis.run_labels import labels_of
from robin_cli.analysis.scores import Scores, score, spread_between
from robin_cli.analysis.summaries import FIRST, Summary, summaries
from robin_cli.analysis.worst_error import estimated_error
from robin_cli.goals.aims import aim_of
from robin_cli.goals.decided import decided_text, decision_facts
from robin_cli.goals.making import goal_of_run
from robin_cli.model.arms import Arms
from robin_cli.model.errors import typed
from robin_cli.model.records import BATCH, GivenLabels, counted, number_of, tier_of
from robin_cli.policies.base import empirical_variance
from robin_cli.policies.registry import traits_of
from robin_cli.render.terminal import print_facts
from robin_cli.results.words import WORST, cost, dollars, error_text, finite, target_text, tiers_text, tokens_text
from robin_cli.runner.in_files import command
from robin_cli.runner.scheduling import policy_of
from robin_cli.settings.addresses import judges_of
from robin_cli.settings.table import Settings
from robin_cli.settings.trust import NO_KEY, Source, doubts, place_of_folder
from robin_cli.storage.batches import read_batches, requests_file
from robin_cli.storage.layout import REJECTED
from robin_cli.storage.locking import is_locked
from robin_cli.storage.manifest import Manifest
from robin_cli.storage.pair_files import count_empty_responses
from robin_cli.storage.reader import RunData, read_run
from robin_cli.storage.rescue import tally
from robin_cli.views.pairwise import check_of_ratings
from robin_cli.views.pairwise_facts import pairwise_facts, result_lines
from robin_cli.views.run_list import state_of
from robin_cli.views.scores import judged_by
from robin_cli.views.summary import LabelsFile, given_labels

READ = ("status", "reason", "text_because", "usage_estimated")
"""The columns of judgments that the facts are of, beside those that are folded."""


def status_of(path: Path, *, labels: LabelsFile = None) -> dict[str, Any]:
    """Facts about the run at ``path``, by name; every value is JSON.

    Args:
        labels: a file of people's labels; without one the human ratings of the data correct its means.

    Raises:
        RunError, StorageError: it cannot be read.
        InputError: the labels cannot be used.
    """
    working = is_locked(path)
    run = read_run(path, READ)
    if run.manifest.is_pairwise:
        if labels is not None:
            check_of_ratings(run, "--labels")
        return facts_of_comparisons(run, pairwise_results(run), working=working)
    return facts_of(run, score(run), working=working, given=given_labels(labels, run))


def facts_of_comparisons(run: RunData, results: PairwiseResults, *, working: bool) -> dict[str, Any]:
    """The facts of :func:`status_of`, of a pairwise run that was read already; ``working``: a process is at work on it."""
    reasons = Counter(run.fold.reasons[arm] for arm in np.flatnonzero(run.fold.arms.retired_mask).tolist())
    return {
        **_work_of(run, reasons, is_over=results.best is not None and results.best.is_over, working=working),
        **pairwise_facts(run, results),
        "decide": str(run.manifest.decision) if run.manifest.wants_best else None,
        "judges": [_asked_of(run, judge) for judge in run.space.judges],
        **_spent_by(run),
    }


def facts_of(run: RunData, scores: Scores, *, working: bool, given: GivenLabels | None = None) -> dict[str, Any]:
    """The facts of :func:`status_of`, of a run that was read already; ``working``: a process is at work on it."""
    arms = run.fold.arms
    several = len(run.manifest.judges) > 1
    each = score(run, by_judge=True) if several else scores
    tables = (scores, each) if several else (scores,)
    aim, decided = aim_of(run, scores.error_bound), scores.decided
    is_over = (decided is not None and decided.is_over) or (aim is not None and aim.reached)
    return {
        **_work_of(run, Counter(filter(None, each.columns["given_up"])), is_over=is_over, working=working),
        "worst_error_estimate": finite(estimated_error(run.space, arms)),
        "error_bound": scores.error_bound,
        "target_error": None if aim is None else aim.error,
        "target_guaranteed": aim is not None and aim.guaranteed,
        "target_reached": None if aim is None else aim.reached,
        "decide": None if decided is None else str(decided.task.decision),
        "decisions": None if decided is None else decision_facts(decided),
        "errors_are": "shares of the scale" if run.space.has_several_scales else "points",
        "error_bound_confidence": 1 - ALPHA,
        "paper_bound": paper_bound(run, arms),
        "means": {
            each.attribute: {**_mean(each), "first_ratings": None if run.task is None else FIRST}
            for each in summaries(run, scores, labels_of(run, given))
        },
        "agreement": _coefficients(agreements(run, *tables)),
        "reliability": _coefficients(reliabilities(run, *tables)),
        "calibration": {
            name: [_in_json(level) for level in told.levels] for name, told in calibrations(run, *tables).items()
        },
        "judges": _judges(run, each),
        "judge_spread": None if scores.between is None else finite(spread_between(scores.between)),
        "judge_spread_over": 0 if scores.between is None else int((~np.isnan(scores.between)).sum()),
        **_spent_by(run),
    }


def _work_of(run: RunData, given_up: Mapping[str, int], *, is_over: bool, working: bool) -> dict[str, Any]:
    """The facts of how far a run came, and of its data.

    Args:
        given_up: arms that are asked no more, counted by reason.
        is_over: its goal is reached.
    """
    arms, manifest, under_way = run.fold.arms, run.manifest, _under_way(run)
    return {
        "run": str(run.path),
        "pairwise": manifest.is_pairwise,
        "state": state_of(manifest, arms.spent, is_over=is_over, working=working, waits=bool(under_way)),
        "budget": manifest.budget,
        "budget_usd": manifest.budget_usd,
        "spent": arms.spent,
        "ratings": int(arms.counts.sum()),
        "unparsed": _reasons(run, "unparsed"),
        "scoring": manifest.scoring,
        "answer_format": manifest.answer_format,
        "rated_by_text": _counted(run.judgments["text_because"]),
        "failed": _reasons(run, "failed"),
        "rescued": tally(run.path, manifest),
        "repeated_judgments": run.fold.draws.set_aside,
        "in_flight_at_stop": None if working else _last(manifest).get("in_flight"),
        "under_way": under_way,
        "pairs": len(run.pair_ids),
        "rows_left_out": manifest.data.get("skipped", 0),
        "rows_left_out_because": manifest.data.get("left_out", {}),
        "rows_left_out_first": manifest.data.get("first_left_out", []),
        "empty_responses": count_empty_responses(run.path),
        "attributes": list(manifest.attributes),
        "arms": len(arms),
        "arms_without_rating": int((arms.counts == 0).sum()),
        "arms_retired": int(arms.retired_mask.sum()),
        "retired_reasons": dict(sorted(given_up.items())),
    }


def _spent_by(run: RunData) -> dict[str, Any]:
    """The facts of what a run cost, who judged, and what it is of."""
    arms, manifest, spent = run.fold.arms, run.manifest, run.fold.spending()
    last = _last(manifest)
    return {
        "prompt_tokens": spent.prompt_tokens,
        "completion_tokens": spent.completion_tokens,
        "cached_share": spent.cached_share,
        "service_tier": _tier_asked(manifest, last),
        "answers_at_tier": spent.at_tier,
        # An endpoint that does not tell the tier was asked at the normal one, where no other is recorded.
        "answers_at_normal_tier": max(spent.at_normal_tier, arms.spent - spent.at_tier)
        if spent.at_tier
        else spent.at_normal_tier,
        "cost_usd": spent.exact_usd,
        "cost_usd_at_least": spent.cost_usd,
        "max_cost_usd": last.get("max_cost"),
        "usage_estimated": pc.sum(run.judgments["usage_estimated"]).as_py() or 0,
        "scheduler": manifest.settings["scheduler"],
        "variances_from": _variances_from(manifest),
        "judge": judged_by(manifest),
        "model": ", ".join(manifest.judges),
        "base_url": _addresses(manifest),
        "data": manifest.data["source"],
        "created_at": manifest.created_at,
        "sessions": len(manifest.sessions),
    }


def _last(manifest: Manifest) -> Mapping[str, Any]:
    """The last session; empty where there was none."""
    return manifest.sessions[-1] if manifest.sessions else {}


def _under_way(run: RunData) -> list[dict[str, Any]]:
    """The batches that may still be answered; for an engine without a service, the command that does it.

    No command writes into a folder that only a received run names: robin resume asks about that first.
    """
    found = []
    for each in read_batches(run.path).values():
        if each.is_open:
            file = requests_file(run.path, run.manifest.run_id, each)
            facts: dict[str, Any] = {"batch": each.batch_id, "judge": each.judge, "round": each.round}
            facts |= {"requests": each.requests, "state": each.state, "at": each.folder or each.url}
            facts["submitted_at"] = each.submitted_at or None
            is_named = each.folder and not doubts(Source(kind="run"), [(place_of_folder(each.folder), NO_KEY)])
            found.append({**facts, "command": command(file, each.judge) if is_named else None})
    return found


def _under_way_lines(facts: dict[str, Any]) -> dict[str, str]:
    """What is under way in words; nothing where nothing is."""
    told = []
    for each in facts["under_way"]:
        since = f", since {each['submitted_at']}" if each["submitted_at"] else ""
        place = f"at {each['at']}: {each['batch'] or each['state']}{since}"
        place = f"to be answered: {each['command']}" if each["command"] else place
        told.append(f"round {each['round']}, {number_of(each['requests'], 'request')} {place}")
    return {"under way" if len(told) == 1 else f"under way {number}": said for number, said in enumerate(told, 1)}


def _addresses(manifest: Manifest) -> list[str]:
    """Where its judges were asked last; nowhere, where they are functions or a package's."""
    settings = Settings(**manifest.last_session, judge=manifest.own_settings["judge"])
    addresses = (
        [url for judge in judges_of(settings) for url in judge.base_urls]
        if settings.at_endpoints and settings.sends
        else []
    )
    return list(dict.fromkeys(addresses))


def _product(facts: dict[str, Any]) -> str:
    judges = f" × {len(facts['judges'])} judges" if len(facts["judges"]) > 1 else ""
    return f"{number_of(facts['pairs'], 'pair')} × {', '.join(facts['attributes'])}{judges}"


def _scoring_line(facts: dict[str, Any]) -> dict[str, str]:
    asked = {} if facts["answer_format"] == "text" else {"answer format": f"{facts['answer_format']}, as was asked for"}
    if facts["scoring"] == "text":
        return asked
    by_text = sum(facts["rated_by_text"].values())
    why = f"; {by_text:,} by their text: {counted(facts['rated_by_text'])}" if by_text else ""
    return asked | {"scoring": f"{facts['ratings'] - by_text:,} by log probabilities{why}"}


def _rescued_line(facts: dict[str, Any]) -> dict[str, str]:
    found = facts["rescued"]
    says = {
        "taken_back": "taken back",
        "set_aside": f"set aside in {facts['run']}/{REJECTED}",
        "waiting": f"waiting: robin resume {typed(facts['run'])} takes them back",
    }
    said = ", ".join(f"{found[name]:,} {words}" for name, words in says.items() if found[name])
    return {"rescued answers": said} if said else {}


def _row_lines(facts: dict[str, Any]) -> dict[str, str]:
    lines = {}
    scores, what = ("preferences", "comparisons") if facts["pairwise"] else ("scores", "pairs")
    if left_out := facts["rows_left_out"]:
        why = ", ".join(f"{count:,} {reason}" for reason, count in facts["rows_left_out_because"].items())
        first = f"; the first: {facts['rows_left_out_first'][0]}" if facts["rows_left_out_first"] else ""
        lines["rows left out"] = (
            f"{left_out:,}{f' ({why})' if why else ''}: the {scores} are of the {facts['pairs']:,} {what} that are left, and "
            f"say nothing of these{first}"
        )
    if facts["empty_responses"]:
        lines["empty responses"] = f"{facts['empty_responses']:,}, judged as they are"
    return lines


def whose(facts: dict[str, Any]) -> str:
    """The judge or the judges of :func:`status_of`, as the owner of a mean."""
    return "the judges'" if len(facts["judges"]) > 1 else "the judge's"


def _judge_lines(facts: dict[str, Any]) -> dict[str, str]:
    judges = facts["judges"]
    if len(judges) < 2:
        return {}
    spread = facts["judge_spread"]
    lines = {f"judge {number}": _judge_line(each) for number, each in enumerate(judges, 1)}
    known = "not known: a judge has fewer than two ratings of every pair" if spread is None else error_of(facts, spread)
    apart = f"standard deviation of their means of one pair, noise taken out; {spread_over(facts)}"
    return {**lines, "between judges": f"{known} ({apart})"}


def spread_over(facts: dict[str, Any]) -> str:
    """What the spread between judges in :func:`status_of` is of."""
    return f"over {number_of(facts['judge_spread_over'], 'score')}"


def tokens_of(facts: dict[str, Any]) -> str:
    """The tokens of :func:`status_of`, in words."""
    tokens = tokens_text(facts["prompt_tokens"], facts["completion_tokens"], facts["cached_share"])
    return "; ".join([tokens, *_tier_line(facts).values()])


def _judge_line(each: dict[str, Any]) -> str:
    means = {name: "–" if mean is None else f"{mean:.2f}" for name, mean in each["mean_scores"].items()}
    mean = ", ".join(f"{told} {name}" if len(means) > 1 else told for name, told in means.items())
    money = "" if each["cost_usd_at_least"] is None else f", {cost_of(each)}"
    over = f"mean {mean} over {number_of(each['scores'], 'score')}"
    return f"{each['judge']}: {number_of(each['spent'], 'call')}, {number_of(each['ratings'], 'rating')}, {over}{money}"


def print_status(facts: dict[str, Any]) -> None:
    """Print what :func:`status_of` found."""
    print_facts(Console(soft_wrap=True), lines_of(facts))


def lines_of(facts: dict[str, Any]) -> dict[str, str]:
    """The facts of :func:`status_of` in words, by name."""
    of_what, lines_of_results = "rating", _score_lines
    if facts["pairwise"]:
        of_what, lines_of_results = "verdict", _comparison_lines
    in_flight = facts["in_flight_at_stop"]
    lines = {
        "run": facts["run"],
        "state": facts["state"],
        "budget": " ".join(spent_of_budget(facts)),
        f"{of_what}s": f"{facts['ratings']:,}",
        f"without a {of_what}": counted(facts["unparsed"], of_what) or "none",
        **_scoring_line(facts),
        "failed calls": counted(facts["failed"]) or "none",
        **_rescued_line(facts),
        **(
            {"repeated": f"{number_of(facts['repeated_judgments'], 'judgment')}, not counted"}
            if facts["repeated_judgments"]
            else {}
        ),
        **_row_lines(facts),
        "in flight at stop": "unknown: it was killed, or is new" if in_flight is None else str(in_flight),
        **_under_way_lines(facts),
        **lines_of_results(facts),
        "given up": counted(facts["retired_reasons"], of_what) or "none",
        "tokens": tokens_text(facts["prompt_tokens"], facts["completion_tokens"], facts["cached_share"], unit="")
        + (f" (of {number_of(facts['usage_estimated'], 'request')} estimated)" if facts["usage_estimated"] else ""),
        **_tier_line(facts),
        "cost": _cost_line(facts),
        **({} if facts["variances_from"] is None else {"warm start": _warm_line(facts)}),
        "judge": f"{facts['judge']}{', at ' if facts['base_url'] else ''}{', '.join(facts['base_url'])}",
        "data": facts["data"],
        "made": f"{facts['created_at']}, {facts['sessions']} session{'s' * (facts['sessions'] != 1)}",
    }
    if facts["state"] == "working":
        del lines["in flight at stop"]
    if facts["state"] in {"stopped", "waiting"}:
        limit, known = facts["max_cost_usd"], facts["cost_usd_at_least"]
        more = " --max-cost MORE" if limit and known and known > 0.9 * limit else ""
        lines["to go on"] = f"robin resume {typed(facts['run'])}{more}"
    return lines


def _score_lines(facts: dict[str, Any]) -> dict[str, str]:
    """What a run says of each pair, and how sure that is."""
    at_once = f", for all {facts['arms']:,} scores at once" if facts["arms"] > 1 else ""
    scale_note = f"at {100 * facts['error_bound_confidence']:.0f} % confidence{at_once}"
    return {
        "scores": f"{facts['arms']:,} ({_product(facts)}), "
        f"{facts['arms_without_rating']:,} without a rating, {facts['arms_retired']:,} given up",
        WORST: ": ".join(worst_of(facts)),
        "error bound": f"no score is further than {error_of(facts, facts['error_bound'])} from {whose(facts)} mean "
        f"({scale_note})",
        **_target_line(facts),
        **_decision_lines(facts),
        **{f"mean of {name}": mean_line(found) for name, found in facts["means"].items() if found["n_pairs"]},
        **_human_lines(facts),
        **{f"reliability of {name}": reliability_line(found) for name, found in facts["reliability"].items()},
        **_judge_lines(facts),
    }


def _comparison_lines(facts: dict[str, Any]) -> dict[str, str]:
    """What a pairwise run says of its comparisons and systems."""
    judges = facts["judges"] if len(facts["judges"]) > 1 else []
    told = {f"judge {number}": _pairwise_judge_line(each) for number, each in enumerate(judges, 1)}
    return {**result_lines(facts), **told}


def _pairwise_judge_line(each: dict[str, Any]) -> str:
    money = "" if each["cost_usd_at_least"] is None else f", {cost_of(each)}"
    return f"{each['judge']}: {number_of(each['spent'], 'call')}, {number_of(each['ratings'], 'verdict')}{money}"


def _tier_asked(manifest: Manifest, last: Mapping[str, Any]) -> str | None:
    """The service tier that the last session with one asked for; None for the normal one."""
    own = manifest.settings.get("extra_body", {}).get("service_tier")
    for session in (last, *reversed(manifest.sessions)):
        asked = BATCH if session.get("batch") else own or session.get("service_tier")
        if (tier := tier_of(None if asked is None else str(asked))) is not None:
            return tier
    return None


def _tier_line(facts: dict[str, Any]) -> dict[str, str]:
    text = tiers_text(facts["answers_at_tier"], facts["answers_at_normal_tier"], facts["service_tier"])
    return {"service tier": text} if text else {}


def spent_of_budget(facts: dict[str, Any]) -> tuple[str, str]:
    """How much of the budget in :func:`status_of`, and that it is spent."""
    if facts["budget_usd"] is None:
        return f"{facts['spent']:,} of {number_of(facts['budget'], 'call')}", "spent"
    known = dollars(0) if facts["cost_usd_at_least"] is None else cost_of(facts)
    return f"{known} of {dollars(facts['budget_usd'])}", f"spent in {number_of(facts['spent'], 'call')}"


def _target_line(facts: dict[str, Any]) -> dict[str, str]:
    if facts["target_error"] is None:
        return {}
    error = target_text(facts["target_error"], as_share=facts["errors_are"] != "points")
    of = "error bound" if facts["target_guaranteed"] else "likely worst error"
    return {"target error": f"{error}, {'reached' if facts['target_reached'] else 'not reached'} (by the {of})"}


def _decision_lines(facts: dict[str, Any]) -> dict[str, str]:
    found = facts["decisions"]
    return {} if found is None else {"decide": facts["decide"], "decided": decided_text(found)}


def paper_bound(run: RunData, arms: Arms) -> dict[str, Any]:
    """The paper's bound on the worst error for this scheduler at the budget spent, and what it assumes; null if it has none.

    Its Theorem 2 covers ROBIN-HOOD in theory mode alone: with the constants of practice mode the bound was exceeded in 45 %
    of 200 simulated runs at δ = 0.2 (30 pairs, 6,000 calls).

    The true variances it needs are not known: estimates (1/n) stand in for them, so it is no guarantee.
    """
    settings = run.manifest.settings
    delta = float(settings["delta"])
    measured = arms.counts > 0
    theorem = traits_of(settings["scheduler"]).theorem(settings["mode"])
    if theorem is None or not measured.all():
        return {"value": None, "delta": delta, "assumes": None}
    estimated = empirical_variance(arms.counts.astype(np.float64), arms.totals, arms.totals_sq) / run.space.units**2
    warm_up = 0 if theorem == 1 else policy_of(run.manifest, goal_of_run(run), None).warm_up
    value, assumes = theorem_bound(theorem, estimated, arms.spent, delta, warm_up)
    return {"value": value, "delta": delta, "assumes": assumes}


def _judges(run: RunData, scores: Scores) -> list[dict[str, Any]]:
    """Each judge of a panel: its calls, its ratings, their mean over pairs for each attribute, and its money."""
    names, attributes = run.space.judges, run.space.attributes
    means = np.asarray(scores.columns["score"])
    found = []
    for number, name in enumerate(names):
        is_rated = (run.space.judge == number) & ~np.isnan(means)
        rated = {name: means[is_rated & (run.space.attribute == place)] for place, name in enumerate(attributes)}
        by_attribute = {name: float(each.mean()) if len(each) else None for name, each in rated.items()}
        found.append(
            {
                **_asked_of(run, name),
                "mean_scores": by_attribute,
                "mean_score": by_attribute[attributes[0]] if len(attributes) == 1 else None,
                "scores": sum(map(len, rated.values())),
            }
        )
    return found


def _asked_of(run: RunData, judge: str) -> dict[str, Any]:
    """The calls of a judge, its ratings and its money."""
    place, arms = run.space.judges.index(judge), run.fold.arms
    mine = run.space.judge == place
    ratings, spent = int(arms.counts[mine].sum()), run.fold.spending(place)
    return {
        "judge": judge,
        "spent": ratings + int(arms.unparsed[mine].sum()),
        "ratings": ratings,
        "cost_usd": spent.exact_usd,
        "cost_usd_at_least": spent.cost_usd,
    }


def _mean(each: Summary) -> dict[str, Any]:
    """The mean of one attribute, the judge's own and as labels correct it; null where there are none."""
    told = each.corrected
    corrected = (math.nan, math.nan, math.nan) if told is None else (told.estimate, told.low, told.high)
    return {
        "mean": finite(each.mean.value),
        "ci_low": finite(each.mean.low),
        "ci_high": finite(each.mean.high),
        "n_pairs": each.pairs,
        "n_prompts": each.prompts,
        **dict(zip(("corrected_mean", "corrected_low", "corrected_high"), map(finite, corrected), strict=True)),
        "n_labels": 0 if told is None else told.n_labels,
        "n_labelled_prompts": 0 if told is None else told.n_prompts,
        "labels_are": None
        if told is None or each.labels is None
        else ("of the data" if each.labels.of_data else "given"),
        "not_corrected_because": (told.why if told is not None else "")
        or (each.labels.why if each.labels else "")
        or None,
    }


def _coefficients(found: Mapping[str, Sequence[Agreement]]) -> dict[str, Any]:
    """Each coefficient, by attribute and name."""
    return {attribute: {each.coefficient: _in_json(each) for each in listed} for attribute, listed in found.items()}


def _in_json(told: Agreement | Level) -> dict[str, Any]:
    return {name: finite(value) if isinstance(value, float) else value for name, value in asdict(told).items()}


def error_of(facts: dict[str, Any], error: float) -> str:
    """An error among the facts of :func:`status_of`, in the words of its unit."""
    return error_text(error, as_share=facts["errors_are"] != "points")


def worst_of(facts: dict[str, Any]) -> tuple[str, str]:
    """The worst error in :func:`status_of`, and what it is of or why it is not known."""
    estimate = facts["worst_error_estimate"]
    if estimate is None:
        return "not known", "some scores have no rating yet" if facts["arms_without_rating"] else "no score is left"
    single = " of a single judge" if len(facts["judges"]) > 1 else ""
    return (
        f"about {error_of(facts, estimate)}",
        f"how far the score{single} furthest from its judge's mean is off, estimated",
    )


def _variances_from(manifest: Manifest) -> str | None:
    """The run or pool whose variances the scheduler began with; None for a run that began with none."""
    return None if traits_of(manifest.settings["scheduler"]).evenly else manifest.settings.get("variances")


def _warm_line(facts: dict[str, Any]) -> str:
    how = (
        "taken for the true ones"
        if traits_of(facts["scheduler"]).needs_variances
        else "a prior, outvoted as ratings come in"
    )
    return f"{facts['scheduler']} began with the variances of {facts['variances_from']} ({how})"


def paper_line(facts: dict[str, Any]) -> str:
    """Say what the paper's bound is, what it assumes, or why there is none."""
    bound = facts["paper_bound"]
    if bound["assumes"] is None:
        return "none: it holds for --scheduler robin, and for robin-hood with --mode theory, once every pair is rated"
    if bound["value"] is None:
        return "none before the warm-up is over"
    guarantee = f"δ = {bound['delta']:g}; variances estimated: no guarantee; assumes {bound['assumes']}"
    return f"{error_of(facts, bound['value'])} ({guarantee})"


def _human_lines(facts: dict[str, Any]) -> dict[str, str]:
    lines = {}
    for name, found in facts["agreement"].items():
        lines[f"human {name}"] = agreement_line(found)
        if found["pearson"]["value"] is not None:
            lines[f"levels of {name}"] = levels_line(found)
    if any(facts["calibration"].values()):
        lines["calibration"] = f"human ratings by score: robin export {typed(facts['run'])} --what calibration"
    return lines or {"human ratings": "none"}


def mean_line(found: dict[str, Any]) -> str:
    """The mean of one attribute in :func:`status_of`, and what labels make of it or why they do not."""
    over = f"{number_of(found['n_pairs'], 'pair')} of {number_of(found['n_prompts'], 'prompt')}"
    first = f", the first {found['first_ratings']} ratings of each" if found["first_ratings"] else ""
    own = f"{found['mean']:.2f} {range_of(found)} by the judge (95 %, over {over}{first})"
    if found["corrected_mean"] is not None:
        ends = f"[{found['corrected_low']:.2f}, {found['corrected_high']:.2f}]"
        labels = number_of(found["n_labels"], "label" if found["labels_are"] == "given" else "human rating")
        of = number_of(found["n_labelled_prompts"], "prompt")
        return f"{own}; {found['corrected_mean']:.2f} {ends} corrected by {labels} of {of}"
    why = found["not_corrected_because"]
    return f"{own}; not corrected by labels: {why}" if why else own


def agreement_line(found: dict[str, Any]) -> str:
    """The correlations of one attribute in :func:`status_of`, or why there are none."""
    pearson = found["pearson"]
    if pearson["value"] is None:
        return f"no agreement is told: {pearson['why']}"
    over = f"{number_of(pearson['n_prompts'], 'prompt')}, {number_of(pearson['n'], 'pair')}"
    return _told({name: found[name] for name in CORRELATIONS}, f"95 % bootstrap over {over}")


def levels_line(found: dict[str, Any]) -> str:
    """How often the levels of one attribute in :func:`status_of` agree, where there are correlations."""
    return _told({"weighted κ": found["kappa"], "Krippendorff's α": found["alpha"]}, "scores and ratings rounded")


def reliability_line(found: dict[str, Any]) -> str:
    """How far a judge in :func:`status_of` agrees with itself, or why that is not told."""
    if found["reliability"]["value"] is None:
        return f"not told: {found['reliability']['why']}"
    named = {"scores": "reliability", "one rating (ICC)": "icc", "so correlation with a human at most": "ceiling"}
    over = f"95 % bootstrap over {number_of(found['reliability']['n_prompts'], 'prompt')}"
    return _told({words: found[name] for words, name in named.items() if name in found}, over)


def _told(named: Mapping[str, dict[str, Any]], note: str) -> str:
    values = {name: "–" if each["value"] is None else f"{each['value']:z.2f}" for name, each in named.items()}
    parts = [f"{name} {values[name]} {range_of(each)}" for name, each in named.items()]
    whys = dict.fromkeys(f"; {each['why']}" for each in named.values() if each["why"])
    return f"{', '.join(parts)} ({note}{''.join(whys)})"


def range_of(each: dict[str, Any]) -> str:
    """The interval of a coefficient in :func:`status_of`."""
    return "[–]" if each["ci_low"] is None else f"[{each['ci_low']:z.2f}, {each['ci_high']:z.2f}]"


def _reasons(run: RunData, status: str) -> dict[str, int]:
    return _counted(run.judgments.filter(pc.equal(run.judgments["status"], status))["reason"])


def _counted(reasons: pa.ChunkedArray) -> dict[str, int]:
    return {each["values"]: each["counts"] for each in sorted(reasons.drop_null().value_counts().to_pylist(), key=str)}


def cost_of(facts: dict[str, Any]) -> str:
    """The money of :func:`status_of`, or of one of its judges, in words."""
    return cost(facts["cost_usd_at_least"], complete=facts["cost_usd"] is not None)


def _cost_line(facts: dict[str, Any]) -> str:
    limit = facts["max_cost_usd"]
    of = f" of {dollars(limit)} (--max-cost)" if limit else ""
    if facts["cost_usd_at_least"] is None:
        return "unknown: no price (--price-in, --price-out)" if facts["spent"] else f"no answer yet{of}"
    return cost_of(facts) + of + ("" if facts["cost_usd"] is not None else "; of some answers no price is known")
