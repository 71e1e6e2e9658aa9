"""The queue at a server of one's own, out of what it tells Prometheus of itself: vLLM's and SGLang's pages, read strictly.

A line is ``vllm:num_requests_waiting{engine="0",model_name="Qwen/Qwen3-8B"} 3.0``, before vLLM's engine V1 without ``engine``.
vLLM has the page always (docs.vllm.ai/en/v0.9.1/usage/metrics.html, with these names since 0.4), SGLang with
``--enable-metrics`` (docs.sglang.io/references/production_metrics.html). What stands before several of them may tell each
one's: these are added up.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from robin_cli.judges.judge import Queue

MOST_BYTES = 2 * 2**20
_MOST_SAMPLES = 4096

_NAMES = {
    "vllm:num_requests_waiting": "waiting",
    "vllm:num_requests_running": "running",
    "sglang:num_queue_reqs": "waiting",
    "sglang:num_running_reqs": "running",
}
_LINES = re.compile(
    rb"^(?P<typed>\# TYPE )?(?P<name>"
    + b"|".join(map(re.escape, map(str.encode, _NAMES)))
    + rb")(?P<rest>[{ \t][^\n]*)$",
    re.MULTILINE,
)
_LABEL = re.compile(r'[ \t]*(?P<name>[a-zA-Z_][a-zA-Z0-9_]*)[ \t]*=[ \t]*"(?P<value>(?:[^"\\]|\\.)*)"[ \t]*(?P<end>,?)')
_END = re.compile(r"[ \t]*\}")
_ESCAPED = re.compile(r"\\(.)")
_VALUE = re.compile(r"[ \t]+(?P<value>[+-]?(?:[0-9.eE+-]{1,40}|Inf|NaN))(?:[ \t]+-?[0-9]{1,20})?[ \t]*")
_MOST = 1e9


def read_queue(page: bytes, model: str) -> Queue:
    """The queue that ``page`` tells of: of ``model`` where it tells it by model, else of all that there are together.

    What has no count yet, as before the first request, or none just now (NaN), has None.

    Raises:
        ValueError: it is no such page, or a count in it is none.
    """
    found: dict[str, list[tuple[Mapping[str, str], float]]] = {"waiting": [], "running": []}
    kinds = set()
    for number, line in enumerate(_LINES.finditer(page)):
        if number > _MOST_SAMPLES:
            raise ValueError("it tells of too many queues")
        kind = _NAMES[line["name"].decode()]
        kinds.add(kind)
        if not line["typed"]:
            labels, value = _sample(line["rest"].decode("utf-8"))
            if not labels.get("priority"):  # SGLang tells the whole, and each priority's part of it
                found[kind].append((labels, value))
    if "waiting" not in kinds:
        raise ValueError("it tells of no queue")
    return Queue(**{kind: _together(samples, model) for kind, samples in found.items()})


def _sample(rest: str) -> tuple[dict[str, str], float]:
    """The labels and the value behind a name. ValueError for what is none."""
    labels: dict[str, str] = {}
    if rest.startswith("{"):
        labels, end = _labels(rest)
        rest = rest[end:]
        rest = rest if rest.startswith((" ", "\t")) else f" {rest}"
    value = _VALUE.fullmatch(rest.rstrip("\r"))
    if value is None:
        raise ValueError("a count in it is none")
    number = float(value["value"])
    if not (math.isnan(number) or 0 <= number <= _MOST):
        raise ValueError("a count in it is none")
    return labels, number


def _labels(rest: str) -> tuple[dict[str, str], int]:
    """The labels at the beginning, and where they end."""
    labels: dict[str, str] = {}
    at, more = 1, True
    while not (found := _END.match(rest, at)):
        label = _LABEL.match(rest, at)
        if label is None or not more:
            raise ValueError("a label in it is none")
        labels[label["name"]] = _ESCAPED.sub(lambda each: {"n": "\n"}.get(each[1], each[1]), label["value"])
        at, more = label.end(), bool(label["end"])
    return labels, found.end()


def _together(samples: list[tuple[Mapping[str, str], float]], model: str) -> float | None:
    """The sum over engines and replicas, of ``model`` if one of them is."""
    own = [value for labels, value in samples if labels.get("model_name") == model]
    values = own or [value for _, value in samples]
    total = math.fsum(values) if values else math.nan
    return None if math.isnan(total) else total


def metrics_url(base_url: str) -> str:
    """Where the page lies: beside /v1 of the address that is asked."""
    return f"{base_url.rstrip('/').removesuffix('/v1')}/metrics"
