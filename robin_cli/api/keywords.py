"""The keywords of :func:`robin_cli.judge`, for editors: all settings, by the names of the flags with underscores.

A test holds them equal to the settings table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict


class JudgeSettings(TypedDict, total=False):
    """Settings of ``robin judge``, see ``robin judge --help-all``; None counts as not given."""

    attribute: str | Sequence[str] | None
    rubric: str | Path | Sequence[str | Path] | None
    template: str | Path | None
    base_url: str | Sequence[str] | None
    model: str | Sequence[str] | None
    api_key_env: str | Sequence[str] | None
    columns: Mapping[str, str] | None
    pairwise: bool | None
    no_ties: bool | None
    labels: str | Path | None
    skip_bad_rows: bool | None
    encoding: str | None
    strip_thinking: bool | None
    limit: int | None
    budget: int | None
    scheduler: str | None
    delta: float | None
    mode: Literal["practice", "theory"] | None
    decide: str | None
    group: str | None
    margin: float | None
    target_wrong: float | None
    certify: bool | None
    error_rate: float | None
    agree: float | None
    confidence: float | None
    variances: str | Path | None
    repeat_anyway: bool | None
    target_error: float | None
    max_cost: float | None
    price_in: float | Sequence[float] | None
    price_out: float | Sequence[float] | None
    price_cached: float | Sequence[float] | None
    batch: bool | None
    rounds: int | None
    concurrency: int | str | None
    ray: str | None
    samples_per_request: int | str | None
    answers: Literal["text", "json", "logprobs", "decisions"] | Sequence[str] | None
    rpm: float | None
    tpm: float | None
    temperature: float | None
    top_p: float | None
    max_tokens: int | None
    reasoning_effort: str | None
    timeout: float | None
    max_retries: int | None
    extra_body: Mapping[str, Any] | None
    seed: int | None
    run: str | Path | None
    quiet: bool | None
