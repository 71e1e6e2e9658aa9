"""``robin export --what methods``: what a paper needs to say about a run, on one page; configs/paper has the words."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from robin_cli import __version__
from robin_cli.data.local import shipped
from robin_cli.goals.labels import LabelsFile, read_labels
from robin_cli.model.errors import InputError
from robin_cli.model.records import SYSTEM_COLUMN, number_of
from robin_cli.policies.registry import DEFAULT
from robin_cli.run.reader import RunReader, read_run
from robin_cli.session.inputs import recorded_prompts
from robin_cli.show.status import READ, Status, standing
from robin_cli.show.text import one_line, plain

_ASKED = ("answers", "temperature", "top_p", "max_tokens", "reasoning_effort", "extra_body", "seed")
_OF_THE_PAPER = ("robin", "robin-hood")
_COMBINED = ("panel", "second opinion")
_CALLS = ("without a rating", "without a verdict", "failed calls", "cost")
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|~&$])")


def methods_page(path: Path, *, labels: LabelsFile = None) -> str:
    """Return the page on the run at ``path`` as Markdown.

    Args:
        labels: a file of people's labels, in place of the human ratings of the data.

    Raises:
        RunError, StorageError: the run cannot be read.
        InputError: it is a file of scores, or the labels cannot be used.
    """
    run = read_run(path, (*READ, "model", "fingerprint", "received_at"))
    if not (texts := prompt_of(run)):
        raise InputError(
            f"{run.name}: scores without a judge's prompt; name the run that made them"
        )
    status = standing(run, working=False, labels=read_labels(labels, run))
    words = tomllib.loads((shipped("configs") / "paper" / "methods.toml").read_text("utf-8"))
    spent = _allocation(run, words["allocation"])
    made = {name: words["intervals"][name] for name in _intervals(status)}
    forms = {*run.manifest.answers, *["pairwise"] * run.manifest.is_pairwise}
    if len(run.space.judges) > 1:
        forms.add(_COMBINED[run.task is not None])
    judge = dict(_judge(run)) | {
        name: each for name, each in words["answers"].items() if name in forms
    }
    sentences = " ".join([*judge.values(), *spent.values(), *made.values()])
    keys = set(re.findall(r"\[([a-z-]+)\]", sentences))
    robin = f"@software{{robin,\n  title = {{robin-judge}},\n  version = {{{__version__}}}\n}}"
    cited = [robin, *(each for key, each in words["references"].items() if key in keys)]
    parts = {
        "Data": dict(_data(run)),
        "Judge": judge,
        "Calls": calls_of(status),
        "Allocation": spent,
        "Intervals": made,
    }
    lines = ["# Methods"]
    for title, facts in parts.items():
        lines += ["", f"## {title}", ""]
        lines += [f"- {_escaped(name)}: {_escaped(fact)}" for name, fact in facts.items()]
    for title, exact in (("Prompt", texts), ("References", {"BibTeX": "\n".join(cited)})):
        lines += ["", f"## {title}", ""]
        for name, text in exact.items():
            lines += [f"- {_escaped(name)}:", "", _fenced(plain(text).rstrip()), ""]
        lines.pop()
    return "\n".join(lines) + "\n"


def methods_row(path: Path) -> list[tuple[str, int, str, str]]:
    """Return the row of ``robin results`` for the page; none for a file of scores."""
    row = ("methods", 1, "What a paper needs to say about the run", "page")
    return [row] if prompt_of(read_run(path)) else []


def _escaped(text: str) -> str:
    return _MARKDOWN.sub(r"\\\1", one_line(text))


def _fenced(text: str) -> str:
    ticks = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{ticks}\n{text}\n{ticks}"


def _allocation(run: RunReader, words: Mapping[str, str]) -> dict[str, str]:
    """Return the goal and its limits, and the rule by which calls are chosen, in ``words``."""
    asked = {**run.manifest.settings, **run.manifest.last_session}
    scheduler, decide = asked["scheduler"], asked.get("decide")
    spent = {"goal": f"--decide {decide}"} if decide else {}
    names = ["margin", "target_wrong", "target_error", "error_rate"]
    if scheduler in _OF_THE_PAPER:
        names += ["mode", "delta", "concurrency", "samples_per_request"]
    for name in names:
        if (value := asked.get(name)) is not None:
            spent[f"--{name.replace('_', '-')}"] = (
                f"{value:g}" if isinstance(value, float) else str(value)
            )
    of_goal = "ranking" if not decide else decide if decide in words else "thresholds"
    rule = words.get(of_goal if scheduler == DEFAULT else scheduler)
    return {**spent, f"scheduler {scheduler}": rule or "A policy of another package."}


def settings_sheet(path: Path) -> Mapping[str, Any]:
    """Return the settings of a run for a sheet of a workbook, and its calls, dates and prompt unless it is a file of scores."""
    run = read_run(path, (*READ, "received_at"))
    texts = prompt_of(run)
    calls = {**calls_of(standing(run, working=False)), **texts} if texts else {}
    manifest, decision = run.manifest, run.manifest.decision
    of_decision: dict[str, Any] = {}
    if decision is not None:
        margins = dict(zip(manifest.attributes, decision.margins, strict=True))
        margin = margins if len(set(decision.margins)) > 1 else decision.margins[0]
        of_decision = {"margin": margin, "error_rate": decision.error_rate}
    return {
        "run": run.name,
        "budget": manifest.budget,
        **({} if manifest.budget_usd is None else {"budget_usd": manifest.budget_usd}),
        "attributes": ", ".join(manifest.attributes),
        "scale": {
            name: f"{ends.low:g}-{ends.high:g}"
            for name, ends in zip(manifest.attributes, manifest.known_ends, strict=True)
            if ends.are_known
        },
        **manifest.settings,
        **of_decision,
        "ci_low, ci_high of scores": "95 % interval that holds on average over pairs. In version 0.1 it held for each pair, as "
        "guaranteed_low, guaranteed_high of --guaranteed do.",
        "seed": manifest.seed,
        "data": manifest.data["source"],
        "data (SHA-256)": manifest.data["sha256"],
        "prompt (SHA-256)": manifest.prompt["sha256"],
        "made": datetime.fromisoformat(manifest.created_at),
        **{f"version of {name}": version for name, version in manifest.versions.items()},
        **calls,
    }


def _data(run: RunReader) -> Iterator[tuple[str, str]]:
    data = run.manifest.data
    yield "source", data["source"]
    yield "SHA-256", data["sha256"]
    prompts = number_of(len(np.unique(run.prompts)), "prompt")
    yield "size", f"{number_of(len(run.pair_ids), 'pair')} of {prompts}"
    yield "rows left out", f"{data.get('skipped', 0):,}"


def _judge(run: RunReader) -> Iterator[tuple[str, str]]:
    manifest, answers = run.manifest, run.judgments
    answers = answers.filter(pc.not_equal(answers["status"], "failed"))
    yield "asked", ", ".join(manifest.judges)
    yield "served", _counts(answers["model"])
    yield "fingerprints", _counts(answers["fingerprint"]) or "none sent"
    asked = {**manifest.own_settings, **manifest.last_session, "seed": manifest.seed}
    sent = [name for name in _ASKED if asked.get(name) not in (None, {})]
    if set(asked["answers"]) == {"decisions"}:
        sent = [name for name in sent if name in {"answers", "extra_body"}]
    asked |= {"answers": " and ".join(asked["answers"])}
    yield "settings", ", ".join(f"{name} {asked[name]}" for name in sent)
    ends = zip(manifest.attributes, manifest.known_ends, strict=True)
    yield "scale", ", ".join(f"{name} {each}" for name, each in ends if each.are_known)
    yield "software", ", ".join(f"{name} {each}" for name, each in manifest.versions.items())


def _counts(values: pa.ChunkedArray) -> str:
    counts = values.drop_null().value_counts().to_pylist()
    return ", ".join(f"{each['values']} ({number_of(each['counts'], 'answer')})" for each in counts)


def calls_of(status: Status) -> dict[str, str]:
    """Return the calls of a run in words, by name, and their dates."""
    lines, times = status.lines, status.result.run.judgments["received_at"]
    first, last = pc.min_max(times).as_py().values()
    dates = (
        {} if first is None else {"dates": f"{first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M} UTC"}
    )
    problems = {name: lines[name] for name in _CALLS if name in lines}
    return {"calls": lines.get("budget", "none")} | problems | dates


def prompt_of(run: RunReader) -> dict[str, str]:
    """Return the template and the rubrics to the letter, by name; none for a file of scores."""
    record = run.manifest.prompt
    if "template" not in record:
        return {}
    prompts = recorded_prompts(run.manifest)
    criterion = [] if prompts.criterion is None else [prompts.criterion]
    rubrics = {
        f"rubric of {each.attribute}": each.text for each in (*prompts.rubrics.values(), *criterion)
    }
    text = record["template"] + record.get("request", "")
    judges = zip(run.manifest.judges, run.manifest.answers, strict=True)
    read = {judge: prompts.decided_by if how == "decisions" else text for judge, how in judges}
    asked = {f"prompt of {judge}": each for judge, each in read.items()}
    return {**(asked if prompts.decided_by else {"prompt": text}), **rubrics}


def _intervals(status: Status) -> Iterator[str]:
    """Yield the names of the intervals that the run has."""
    run, people = status.result.run, status.result.people
    if "ranking" in status.result.tables:
        yield "preferences"
    else:
        yield from ("scores", "guaranteed", "means")
        yield from ["systems"] * (SYSTEM_COLUMN in run.column_names)
        yield from ["decisions"] * (run.task is not None)
    yield from ["labels"] * any(each.corrected for each in people.means)
    yield from ["agreement"] * bool(people.agreement or people.among)
    known = any(not math.isnan(found[0].value) for found in people.reliability.values())
    yield from ["reliability"] * known
