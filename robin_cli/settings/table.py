"""Every setting of robin, once: its type, default, check, help, flag, variable and scope.

The flags, robin.toml, the ROBIN_* variables, Python's keywords, manifests, ``robin resume`` and
``robin init`` all come from :data:`TABLE`: a new setting is one more field here, and its use.
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from robin_cli.model.errors import InputError
from robin_cli.model.records import LONGEST_VISIT
from robin_cli.settings.addresses import checked_urls
from robin_cli.settings.setting import Scope, like, positive, setting, share, table_of, within
from robin_cli.settings.trust import AT_ENDPOINTS, DEFAULT_KEY_ENV, NO_KEY, Source

AUTO = "auto"
IN_PYTHON = "python:"
"""Begins the name of a judge that is a Python function; the function's name follows."""

SAMPLES = like(r"auto|[1-9]\d?|1[01]\d|12[0-8]", "a number of ratings, 1 to 128, or auto")
_CONCURRENCY = like(r"auto|[1-9]\d{0,3}|10000", "a number, at most 10,000 and at least 1, or auto")
_RAY = like(
    r"local|[^/]+:[1-9]\d{0,4}",
    "local, or the HOST:PORT that ray start --head printed, without ray://",
)
_VARIABLE = re.compile(rf"{NO_KEY}|(?!sk_)[A-Za-z_]\w*")
_VARIABLES = (
    lambda value: all(map(_VARIABLE.fullmatch, value)),
    "the NAME of an environment variable that holds the key, never the key itself (- for none)",
)
_PRICES = (
    lambda value: all(0 <= each < math.inf for each in value),
    "US dollars for a million tokens, at least 0",
)
_TAKEN = frozenset({"messages", "model", "n", "stream"})
_SECRET = re.compile(r'(api[-_]?key|authorization|password|secret)"', re.IGNORECASE)
_NOT_OURS = (
    lambda value: not _TAKEN & value.keys() and not _SECRET.search(json.dumps(value)),
    (
        f"without {', '.join(sorted(_TAKEN))}, which robin sets itself (several ratings a request: "
        "--samples-per-request), or keys, which --api-key-env gives: a run keeps this object"
    ),
)


def as_text(value: Any, _: str) -> Any:
    return str(value) if type(value) is int else value


def _json_object(value: Any, place: str) -> Any:
    if not isinstance(value, str):
        return value
    try:
        read = json.loads(value)
    except ValueError as error:
        raise InputError(f"{place}: not JSON ({error})") from None
    if not isinstance(read, dict):
        raise InputError(f"{place}: must be a JSON object, for example '{{\"top_k\": 40}}'")
    return read


def _names(value: Any, place: str) -> Any:
    if not isinstance(value, str):
        return value
    items = [item.partition("=") for item in value.split(",") if item.strip()]
    if not items or not all(name.strip() and theirs.strip() for name, _, theirs in items):
        raise InputError(
            f'{place} "{value}": write ours=theirs,ours=theirs, for example prompt=question,response=answer'
        )
    return {name.strip(): theirs.strip() for name, _, theirs in items}


def _is_encoding(name: str) -> bool:
    try:
        "".encode(name)
    except LookupError:
        return False
    return True


_ENCODING = (_is_encoding, "an encoding that Python knows, as cp1252, shift_jis or mac_roman")
RUN, INPUT, SESSION = Scope.RUN, Scope.INPUT, Scope.SESSION
_data = partial(setting, panel="Data and judge", scope=INPUT)
_spend = partial(setting, panel="How the budget is spent", scope=RUN)
_ask = partial(setting, panel="How the judge is asked", scope=RUN)
_out = partial(setting, panel="Run and output", scope=Scope.OUTPUT, in_python=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings of ``robin judge``, named as their flags, with underscores."""

    # A setting is a line of help, and a line of properties.
    # fmt: off
    data: tuple[str, ...] = _data(
        "Pairs as JSON, CSV, Parquet, xlsx, ods or logs: files, quoted globs, -, or addresses.",
        (), argument=True, metavar="DATA", example='"pairs.jsonl"', in_python=False, file="read")
    attribute: tuple[str, ...] = _data("What to rate: one rubric, or several by commas.",
        (), short="-a", example='"helpfulness"', of_question=True, by_commas=True)
    rubric: tuple[str, ...] = _data(
        "A rubric of your own, .toml or .yaml; {again}, several.",
        (), metavar="FILE", example='"tone.toml"', of_question=True, file="read")
    template: str | None = _data("A prompt of your own, or the name of a ready one.",
        metavar="FILE", default_said="absolute-judge", example='"prompt.jinja"', of_question=True, file="read")
    base_url: tuple[str, ...] = _data(
        "Address of an OpenAI-compatible endpoint; {again}, calls are spread over all.",
        (), scope=SESSION, metavar="URL", variables=("OPENAI_BASE_URL",), example='"https://api.openai.com/v1"',
        of_question=True, tidy=checked_urls)
    model: tuple[str, ...] = _data("The judge's model, or NAME@URL; {again}, a panel, or with --decide a second opinion.",
        (), scope=SESSION, metavar="NAME", example='"gpt-6-luna"', of_question=True)
    judge: str = _data("Kind of judge: openai, or one that a package adds.",
        AT_ENDPOINTS, scope=RUN, metavar="NAME")
    api_key_env: tuple[str, ...] = _data("Environment variable that holds the key; {again}, one for each --model.",
        (DEFAULT_KEY_ENV,), scope=SESSION, metavar="VARIABLE", of_question=True, secret=True, check=_VARIABLES)
    columns: Mapping[str, str] = _data(
        "Names in the data, as response=answer,system=model; id=- ignores the data's ids.",
        {}, example='{ prompt = "question", response = "answer", id = "uid" }', accept=_names,
        check=(lambda _: True, 'names as text: prompt = "question", response = "answer"'))
    pairwise: bool = _data("Ask which of two responses is better, in both orders, in place of ratings.",
        default=False, scope=RUN, example="true", of_question=True,
        note="Data: response_a and response_b, or a row a response, with the same prompt and another system.")
    no_ties: bool = _data("With --pairwise: the judge has to choose.", default=False, scope=RUN, example="true",
        of_question=True)
    labels: str | None = _data("People's labels of some pairs; the run keeps them.",
        scope=SESSION, metavar="FILE", example='"labels.csv"', kept=False, file="read", in_python=True)
    skip_bad_rows: bool = _data("Leave bad rows out and count them.", default=False, example="true")
    encoding: str | None = _data("Encoding of CSV and JSON files that are not UTF-8, as cp1251.",
        scope=RUN, metavar="NAME", default_said="recognised in CSV", example='"cp1251"', check=_ENCODING)
    strip_thinking: bool = _data("Remove reasoning such as <think>…</think> from responses.",
        default=False, scope=RUN, example="true")
    limit: int | None = _data("Take the first K pairs only.",
        scope=RUN, metavar="K", example="100", always=True, check=within(1, math.inf, "a number of pairs, at least 1"))

    budget: int | None = _spend("Judge calls to spend, in all; --max-cost alone is a budget too.",
        scope=INPUT, short="-b", example="50000",
        check=within(1, 10**9, "a number of judge calls, at least 1 and at most 1,000,000,000"))
    scheduler: str = _spend("Who chooses the next pair: {known}.",
        "auto", always=True,
        note="Auto: what decide or pairwise wants; else two-priors, or robin-hood in mode theory.")
    delta: float = _spend("ROBIN-HOOD's failure probability.",
        0.007, always=True, check=positive("a failure probability above 0 and at most 1, for example 0.007", 1),
        note="Smaller: a longer warm-up.")
    mode: Literal["practice", "theory"] = _spend("ROBIN-HOOD's constants: practice or theory.",
        "practice", always=True, note="Theory is for very large budgets.")
    decide: str | None = _spend(
        "Spend calls on undecided pairs: 'score>=3', best (the best of each group), or system.",
        metavar="WHAT", example='"score>=3"', note="Several thresholds by commas, as \"helpfulness>=3,verbosity<=2\".")
    group: str | None = _spend("Column that says which pairs are of one group.",
        metavar="COLUMN", default_said="those of one prompt", example='"question_id"',
        check=(bool, "the name of a column"))
    margin: float | None = _spend("With --decide: differences that do not matter.",
        metavar="E", default_said="1/40 of the scale", example="0.1",
        check=positive("points of the scale, above 0"))
    target_wrong: float | None = _spend("With --decide: stop once this share of the decisions is likely wrong; 0: never.",
        scope=SESSION, metavar="X", default_said="0.01; with --certify, --agree or system: never", example="0.05",
        check=(lambda value: 0 <= value < 0.5, "a share from 0 to below 0.5, as 0.05"))
    certify: bool = _spend("With --decide: certify decisions, and spend half of the calls on nearly certified ones.",
        default=False, example="true")
    error_rate: float = _spend("With --certify: share of the certified decisions that may be wrong.",
        0.05, check=share("a share above 0 and below 1, for example 0.05"))
    agree: float | None = _spend("With --decide: certify what people agree with, at least this share, by --labels.",
        scope=SESSION, metavar="P", example="0.9", check=share("a share above 0 and below 1, as 0.9"),
        note="Or by the human ratings of the data.")
    confidence: float = _spend("With --agree: how sure that is.",
        0.9, scope=SESSION, check=share("a probability above 0 and below 1, as 0.9"))
    variances: str | None = _spend("An earlier run on these pairs, or a pool: the variances of --scheduler robin.",
        metavar="RUN", example='"runs/earlier"', always=True, file="read",
        note="robin plan takes it with every scheduler, and plans by its ratings.")
    repeat_anyway: bool = _spend("Spend the budget also on a judge that repeats itself.",
        default=False, scope=SESSION, example="true", note="Schedulers uniform, robin and robin-hood do so if they are named.")
    target_error: float | None = _spend("Stop once the expected error of the worst score is at most E points.",
        scope=SESSION, metavar="E", example="0.3", check=positive("an error above 0, in points of the scale"),
        note="A share of each attribute's scale, where there are several scales.")
    max_cost: float | None = _spend("US dollars to spend at most, over all sessions; without --budget they are the budget.",
        scope=SESSION, metavar="USD", example="5.0", check=positive("US dollars, above 0"))
    price_in: tuple[float, ...] = _spend("US dollars per million input tokens; {again}, for each --model.",
        (), scope=SESSION, metavar="USD", default_said="those of genai-prices", example="0.1", of_question=True, check=_PRICES)
    price_out: tuple[float, ...] = _spend("US dollars per million output tokens.",
        (), scope=SESSION, metavar="USD", example="0.4", of_question=True, check=_PRICES)
    price_cached: tuple[float, ...] = _spend("US dollars per million input tokens that the endpoint had cached.",
        (), scope=SESSION, metavar="USD", default_said="price-in", example="0.05", of_question=True, check=_PRICES)
    batch: bool = _spend("Ask by the endpoint's batch service, at half the price, in rounds that take hours.",
        default=False, scope=SESSION, example="true")
    rounds: int = _spend("Rounds in which the budget goes out by --batch.",
        4, scope=SESSION, check=within(1, 100, "a number of rounds, 1 to 100"))

    concurrency: str = _ask("Calls under way at a time, at each address: N or auto.",
        AUTO, scope=SESSION, accept=as_text, check=_CONCURRENCY)
    ray: str | None = _ask("Workers on a Ray cluster make the calls: its HOST:PORT, or local.",
        scope=SESSION, metavar="ADDRESS", example='"10.0.0.1:6379"', kept=False, check=_RAY)
    samples_per_request: str = _ask("Ratings of a pair at a time, for one prompt paid if the endpoint takes n: N or auto.",
        AUTO, scope=SESSION, accept=as_text, check=SAMPLES)
    answers: tuple[Literal["text", "json", "logprobs", "decisions"], ...] = _ask(
        "How the judge answers: text, json, logprobs or decisions; {again}, for each --model.",
        ("text",), metavar="FORM")
    rpm: float | None = _ask("Requests a minute at most, of each judge at each address.",
        scope=SESSION, example="500", check=positive("a number a minute, above 0"))
    tpm: float | None = _ask("Tokens a minute at most, of each judge at each address.",
        scope=SESSION, example="200000", check=positive("a number a minute, above 0"))
    temperature: float = _ask("Sampling temperature.",
        1.0, always=True, of_question=True, check=within(0, 2, "between 0 and 2"))
    top_p: float = _ask("Nucleus sampling.",
        1.0, always=True, of_question=True, check=positive("above 0 and at most 1", 1))
    max_tokens: int = _ask("Longest answer, in tokens; four times as many for one that is cut before its text.",
        1024, always=True, of_question=True, check=within(1, 2**31 - 1, "1 to 2147483647"),
        note="Raise it for models that think before they answer.")
    reasoning_effort: str | None = _ask("How much the model reasons before it answers: none, minimal, low, medium, high.",
        metavar="EFFORT", example='"none"', always=True, of_question=True,
        check=like("[a-z]{1,20}", "a word, as none or low"))
    timeout: float = _ask("Longest request, in seconds.",
        120.0, scope=SESSION, of_question=True,
        check=positive("seconds, above 0 and at most 1,000,000", 10**6))
    max_retries: int = _ask("Retries of a call after errors.",
        6, scope=SESSION, check=within(0, 1_000, "0 to 1,000"), note="Too many requests are waited out beside these.")
    extra_body: Mapping[str, Any] = _ask("JSON object to add to every request.",
        {}, metavar="JSON", example="{ top_k = 40 }", always=True, of_question=True, accept=_json_object,
        check=_NOT_OURS)
    seed: int | None = _ask("Send each call a seed of its own, made from this one.",
        scope=INPUT, example="7", check=within(0, 2**31 - 1, "between 0 and 2147483647"))

    run: str | None = _out("Run directory.",
        scope=INPUT, metavar="DIR", default_said="runs/TIME-ATTRIBUTE", example='"runs/my-run"', in_python=True,
        file="written")
    format: Literal["csv", "tsv", "jsonl", "parquet", "xlsx", "table"] | None = _out(
        "csv, tsv, jsonl, parquet, xlsx or table.",
        default_said="by the file's name", example='"csv"')
    output: str | None = _out("File for the table, or - for standard output.",
        short="-o", metavar="FILE", example='"scores.csv"', file="written")
    with_text: bool = _out("Add prompt and response.", default=False, example="true")
    wide: bool = _out("One row per pair, each attribute in columns of its own.", default=False, example="true")
    show: tuple[str, ...] = _out("Columns of the data beside each row.",
        (), by_commas=True, metavar="COLUMNS", example='["topic", "prompt"]')
    guaranteed: bool = _out("Add intervals that hold for each pair, at any stop.", default=False, example="true")
    raw: bool = _out(
        "CSV and TSV to the letter: no apostrophe before texts that begin with = + - @.",
        default=False, example="true")
    quiet: bool = _out("Nothing on stderr but errors.", default=False, short="-q", example="true", in_python=True)
    # fmt: on
    source: Source = field(default_factory=Source)
    """The source of the settings that were not flags."""

    def __post_init__(self) -> None:
        if not self.model and not self.at_endpoints:
            object.__setattr__(self, "model", (self.judge.removeprefix(IN_PYTHON),))

    @property
    def at_endpoints(self) -> bool:
        """Whether the judge is at addresses, with keys."""
        return self.judge == AT_ENDPOINTS

    @property
    def workers(self) -> int | None:
        """The calls under way at a time; None for auto."""
        return None if self.concurrency == AUTO else int(self.concurrency)

    @property
    def longest_visit(self) -> int:
        """The ratings of a pair asked for at a time, at most."""
        return longest_visit(self.samples_per_request)


def longest_visit(samples: str) -> int:
    """Return the calls of a visit at most, by --samples-per-request."""
    return LONGEST_VISIT if samples == AUTO else min(LONGEST_VISIT, int(samples))


TABLE = table_of(Settings)


def recorded(settings: Settings, scope: Scope) -> dict[str, Any]:
    """Return the settings of a scope by name, as they are recorded."""
    of_scope = {
        name: getattr(settings, name) for name, each in TABLE.items() if each.scope is scope
    }
    if scope is not Scope.RUN:
        return of_scope
    return {
        name: value
        for name, value in of_scope.items()
        if TABLE[name].always or value != TABLE[name].default
    }
