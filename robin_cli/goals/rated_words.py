"""What a run of ratings says, in words, from its facts in ``robin status --json``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from robin_cli.analysis.agreement import CORRELATIONS
from robin_cli.goals.decided import decided_text
from robin_cli.goals.judges import cost_of
from robin_cli.model.errors import typed
from robin_cli.model.records import number_of
from robin_cli.results.words import WORST, error_text, target_text


def score_lines(facts: Mapping[str, Any]) -> dict[str, str]:
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


def _product(facts: Mapping[str, Any]) -> str:
    judges = f" × {len(facts['judges'])} judges" if len(facts["judges"]) > 1 else ""
    return f"{number_of(facts['pairs'], 'pair')} × {', '.join(facts['attributes'])}{judges}"


def _target_line(facts: Mapping[str, Any]) -> dict[str, str]:
    if facts["target_error"] is None:
        return {}
    error = target_text(facts["target_error"], as_share=facts["errors_are"] != "points")
    of = "error bound" if facts["target_guaranteed"] else "likely worst error"
    return {"target error": f"{error}, {'reached' if facts['target_reached'] else 'not reached'} (by the {of})"}


def _decision_lines(facts: Mapping[str, Any]) -> dict[str, str]:
    found = facts["decisions"]
    return {} if found is None else {"decide": facts["decide"], "decided": decided_text(found)}


def worst_of(facts: Mapping[str, Any]) -> tuple[str, str]:
    """The worst error in :func:`status_of`, and what it is of or why it is not known."""
    estimate = facts["worst_error_estimate"]
    if estimate is None:
        return "not known", "some scores have no rating yet" if facts["arms_without_rating"] else "no score is left"
    single = " of a single judge" if len(facts["judges"]) > 1 else ""
    return (
        f"about {error_of(facts, estimate)}",
        f"how far the score{single} furthest from its judge's mean is off, estimated",
    )


def error_of(facts: Mapping[str, Any], error: float) -> str:
    """An error among the facts of :func:`status_of`, in the words of its unit."""
    return error_text(error, as_share=facts["errors_are"] != "points")


def whose(facts: Mapping[str, Any]) -> str:
    """The judge or the judges of :func:`status_of`, as the owner of a mean."""
    return "the judges'" if len(facts["judges"]) > 1 else "the judge's"


def _judge_lines(facts: Mapping[str, Any]) -> dict[str, str]:
    judges = facts["judges"]
    if len(judges) < 2:
        return {}
    spread = facts["judge_spread"]
    lines = {f"judge {number}": _judge_line(each) for number, each in enumerate(judges, 1)}
    known = "not known: a judge has fewer than two ratings of every pair" if spread is None else error_of(facts, spread)
    apart = f"standard deviation of their means of one pair, noise taken out; {spread_over(facts)}"
    return {**lines, "between judges": f"{known} ({apart})"}


def _judge_line(each: dict[str, Any]) -> str:
    means = {name: "–" if mean is None else f"{mean:.2f}" for name, mean in each["mean_scores"].items()}
    mean = ", ".join(f"{told} {name}" if len(means) > 1 else told for name, told in means.items())
    money = "" if each["cost_usd_at_least"] is None else f", {cost_of(each)}"
    over = f"mean {mean} over {number_of(each['scores'], 'score')}"
    return f"{each['judge']}: {number_of(each['spent'], 'call')}, {number_of(each['ratings'], 'rating')}, {over}{money}"


def spread_over(facts: Mapping[str, Any]) -> str:
    """What the spread between judges in :func:`status_of` is of."""
    return f"over {number_of(facts['judge_spread_over'], 'score')}"


def paper_line(facts: Mapping[str, Any]) -> str:
    """Say what the paper's bound is, what it assumes, or why there is none."""
    bound = facts["paper_bound"]
    if bound["assumes"] is None:
        return "none: it holds for --scheduler robin, and for robin-hood with --mode theory, once every pair is rated"
    if bound["value"] is None:
        return "none before the warm-up is over"
    guarantee = f"δ = {bound['delta']:g}; variances estimated: no guarantee; assumes {bound['assumes']}"
    return f"{error_of(facts, bound['value'])} ({guarantee})"


def _human_lines(facts: Mapping[str, Any]) -> dict[str, str]:
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
