"""Reading of endpoints' replies, without trusting them: answers, errors, and times to wait.

Pure functions of status, headers and body; the many dialects of "OpenAI-compatible" end here.
"""

from __future__ import annotations

import gc
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

import orjson

from robin_cli.judges.bodies import MOST_REPLY_BYTES, Body, TooLong
from robin_cli.model.exchange import Answer, Failure
from robin_cli.model.records import Usage


@dataclass(frozen=True, slots=True)
class Unsupported:
    """The endpoint refuses one parameter of the request: ask without it, or with another name for it.

    The ``parameter`` "system" stands for the role of a message, and IMAGES for the images in messages.
    """

    parameter: str
    detail: str


@dataclass(frozen=True, slots=True)
class Stop:
    """Every call would fail like this one; ``unkeyed`` is the message to use if no key was sent."""

    detail: str
    unkeyed: str = ""


@dataclass(frozen=True, slots=True)
class Completion:
    """A well-formed chat completion."""

    answers: tuple[Answer, ...]
    model: str
    usage: Usage
    request_id: str | None


Problem = Failure | Unsupported | Stop


def _words(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


_QUOTA = _words(
    r"insufficient_quota|billing_hard_limit|quota.{0,40}(exhausted|daily)|per[ _-]?day|credit"
)
_DAILY = re.compile(
    r'"quotaId": ?"[^"]*PerDay'
)  # only here Gemini's daily quota differs from one per minute
_BROKE = _words(
    r"insufficient_quota|billing_hard_limit|credit balance|insufficient (credit|balance)"
)
_KEY = _words(r"api.?key.{0,20}(not valid|invalid|expired)|(invalid|incorrect).{0,10}api.?key")
_CROWDED = _words(r"back.?pressure|queue is full")  # of Ray Serve and SGLang, with 503
_BUSY = _words(r"rate.?limit|too.?many.?requests|resource.?exhausted")
_WINDOW = _words(r"context.{0,20}(length|window|size)|exceed_context")
_TOO_LONG = _words(r"too (long|many tokens)|maximum.{0,20}tokens|`inputs`|request too large")
_FILTER = _words(
    r"content.?(filter|policy|management)|responsible.?ai|safety|flagged|requires moderation"
)
_MODEL = _words(
    r"model.{0,80}(not.?found|not exist|unknown|not available|no access)|(unknown|invalid|no such).?model|"
    r"not a valid model|access to.{0,20}model"
)
_TOO_MANY = _words(r"too (large|high|big)|at most|exceed|greater|less than|maximum")
_REFUSES = _words(
    r"unsupported|not supported|(does|do) not support|unknown|unrecognized|unexpected|extra input|not permitted|not allowed|"
    r"must be|only|at most|exceed|greater|invalid|cannot|number of"
)
_PARAMETERS = {
    "max_tokens": re.compile(r"\bmax_tokens\b"),
    "temperature": re.compile(r"\btemperature\b"),
    "top_p": re.compile(r"\btop_p\b"),
    "seed": re.compile(r"\bseed\b"),
    "top_logprobs": re.compile(r"\btop_logprobs\b"),
    "logprobs": _words(r"\blog_?probs\b|log probabilit"),
    "response_format": _words(r"\bresponse_format\b|\bjson_schema\b|structured output"),
    "n": _words(
        r"""['"`]n['"`]|\bn\b ?(>|<|must|=|is|cannot|value|param)|number of (choices|completions)"""
    ),
}
_NO_CREDIT = "the quota or credit of this key is used up ({})"
_OF_ALL_CALLS = (
    (_KEY, "the key was refused ({})"),
    (_BROKE, _NO_CREDIT),
    (_MODEL, "the model is not known there ({}); check --model"),
)
_ENDS = {
    401: "the key was refused ({}); set a good one in the variable that --api-key-env names",
    402: "the account is out of credit ({}); add some, then robin resume",
    403: "the key may not use this model or endpoint ({}); check --model, or take another key",
    404: "no such model or address ({}); check --model, and --base-url, which often ends in /v1",
    405: "nothing answers chat completions there ({}); check --base-url",
}
_UNKEYED = (
    "it wants a key, and none was sent ({}); set one in OPENAI_API_KEY, or name the variable that holds it with "
    "--api-key-env"
)
_NO_SYSTEM = _words(
    r"system.{0,20}(role|message|prompt)s?.{0,30}not (supported|allowed)|"
    r"(not|n.t) support.{0,20}system.{0,10}(role|message|prompt)|only user and assistant roles"
)
IMAGES = "images"
_NO_IMAGES = _words(
    r"(image|vision|multi-?modal).{0,60}(not (supported|enabled|available|allowed)|only supported)|not a multi-?modal|"
    r"(not|n.t|cannot|endpoints found that) (support|accept|take|process|handle|read).{0,40}(image|vision|multi-?modal)|"
    r"at most 0 image|unknown variant `?image_url|content.{0,60}(must|should) be a (valid )?string"
)
_ONE_IMAGE = _words(r"format|mime|media.?type|image/|extension|download|fetch")
"""Words about a single image: others may be accepted."""

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|h|m|s)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}

_MIB = 1024 * 1024
MOST_IN_TEXT = 1 / 32
"""The most characters of answers' texts, as a share of the longest reply in bytes: reading ratings takes time."""

_MOST_LISTS_A_MIB = 50_000
_MOST_NAMES_A_MIB = 60_000
"""The most lists and objects, and names, per MiB: they make JSON slow to read. With 20 log probabilities per token there are
33,000 and 50,000."""

_MOST_CHOICES = 128
_MOST_TOKENS = 1 << 15
_MOST_COST_USD = 1000.0
"""The highest cost of one call that is believed from an endpoint: a higher one would end any budget."""

_MOST_NUMBER = 1e15
_MESSAGE = 2000
"""The most characters of an error that are read."""

_NAME = 200
"""The most characters of a name: of a model, a request, or a finish reason."""


def read_completion(
    body: Body, headers: Mapping[str, str], limit: int = MOST_REPLY_BYTES, content: object = None
) -> Completion | Problem:
    """Return the completion in the body of a 200, or its problem: an error inside, no choices, HTML, half a body.

    Args:
        body: the decompressed body of a reply.
        headers: names in lower case.
        limit: the longest reply that is read, in bytes. Reading takes at most about 20 ms per MiB.
        content: the JSON value of ``body``, if it was read already.

    Raises:
        TooLong: the texts of the answers are too long, or reading would take too long.
    """
    content = read_json(body, limit) if content is None else content
    if not isinstance(content, dict):
        return Failure("malformed", f"a 200 that is not a JSON object: {_excerpt(body)}")
    if content.get("error") or content.get("object") == "error":
        return error_in_200(content, headers)
    choices = content.get("choices")
    choices = choices[:_MOST_CHOICES] if isinstance(choices, list) else None
    if not choices or not all(isinstance(choice, dict) for choice in choices):
        return Failure("malformed", f"a 200 without choices: {_excerpt(body)}")
    answered = [choice for choice in choices if not choice.get("error")]
    if not answered:  # OpenRouter's form when the model fails half-way
        return error_in_200(choices[0], headers)
    answers = tuple(_answer(choice) for choice in answered)
    characters = sum(len(each.text) + len(each.refusal or "") for each in answers)
    if characters > limit * MOST_IN_TEXT:
        raise TooLong(f"answers of {characters:,} characters")
    request_id = headers.get("x-request-id") or content.get("id")
    return Completion(
        answers=answers,
        model=_name(content.get("model")),
        usage=_usage(content.get("usage"), one_choice="timings" in content),
        request_id=_name(request_id) or None,
    )


def read_json(body: Body, limit: int = MOST_REPLY_BYTES) -> object:
    """Return the value of a JSON text; None if it is not JSON. TooLong as :func:`read_completion`."""
    lists, names = body.count(b"[") + body.count(b"{"), body.count(b":")
    if lists > limit / _MIB * _MOST_LISTS_A_MIB or names > limit / _MIB * _MOST_NAMES_A_MIB:
        raise TooLong(f"a reply of too many parts, in {len(body):,} bytes")
    return _json(body)


def classify(
    status: int, body: Body, headers: Mapping[str, str], content: object = None
) -> Problem:
    """Return what an HTTP error with this body means for the run; ``content`` as for :func:`read_completion`."""
    error = _error_in(_json(body) if content is None else content, _excerpt(body))
    if status == 429 and _DAILY.search(body.decode("utf-8", "replace")):
        return Stop(f"the quota of this key for the day is used up ({status}: {_excerpt(body)})")
    if 300 <= status < 400:
        return Stop(
            f"the endpoint redirects ({status}) to {_excerpt(headers.get('location', '?').encode())}; give that address"
        )
    return _problem(status, error, headers)


def error_in_200(content: object, headers: Mapping[str, str]) -> Problem:
    """Return what an error without a status means for the run; ``malformed`` if that is unclear."""
    error = _error_in(content, "no message")
    code = number(error.code)
    if code is not None and 400 <= code < 600:
        return _problem(int(code), error, headers)
    problem = _problem(429 if _BUSY.search(error.words) else 400, error, headers)
    if isinstance(problem, Failure) and problem.reason == "bad_request":
        return Failure("malformed", f"a 200 with an error inside: {error.message}")
    return problem


def _problem(status: int, error: _Error, headers: Mapping[str, str]) -> Problem:
    message, after_s = error.message, retry_after_s(headers)
    detail = message if message.startswith(str(status)) else f"{status}: {message}"
    if status != 429 and _NO_IMAGES.search(error.words) and not _ONE_IMAGE.search(error.words):
        return Unsupported(IMAGES, detail)
    if status == 403 and _FILTER.search(
        message
    ):  # OpenRouter's moderation: this prompt, not this key
        return Failure("filtered", detail)
    if status == 429 and _QUOTA.search(error.words):
        return Stop(_NO_CREDIT.format(detail))
    if (
        status == 429 and "request too large" in message.lower()
    ):  # more tokens than a whole minute allows
        return Failure("context_length", detail)
    if status in _ENDS:
        return Stop(
            _ENDS[status].format(detail), unkeyed=_UNKEYED.format(detail) if status == 401 else ""
        )
    if status in {408, 409, 425, 429, 498} or status >= 500:
        throttled = status in {429, 498} or (
            status == 503 and (after_s is not None or _CROWDED.search(message) is not None)
        )
        return Failure(
            "rate_limited" if throttled else f"http_{status}",
            detail,
            retry_after_s=after_s,
            throttled=throttled,
            overloaded=throttled or status in {503, 529},
        )
    return _bad_request(status, error, detail)


def _bad_request(status: int, error: _Error, detail: str) -> Problem:
    message, words, param = error.message, error.words, error.param
    for pattern, fact in _OF_ALL_CALLS:
        if pattern.search(words):
            return Stop(fact.format(detail))
    if _FILTER.search(words):
        return Failure("filtered", detail)
    if (
        status == 413
        or _WINDOW.search(words)
        or (param not in _PARAMETERS and _TOO_LONG.search(words))
    ):
        return Failure("context_length", detail)
    if _NO_SYSTEM.search(message):
        return Unsupported("system", detail)
    refused = param if param in _PARAMETERS else None
    if refused is None and _REFUSES.search(words):
        refused = next(
            (parameter for parameter, pattern in _PARAMETERS.items() if pattern.search(message)),
            None,
        )
    if refused == "max_tokens" and _TOO_MANY.search(message) and "completion_tokens" not in message:
        return Failure("bad_request", f"{detail}; lower --max-tokens")
    return Unsupported(refused, detail) if refused else Failure("bad_request", detail)


def retry_after_s(headers: Mapping[str, str], *, now: float | None = None) -> float | None:
    """Return the seconds that the endpoint asks to wait, at least 0; None if it does not.

    Reads ``retry-after-ms``, ``retry-after`` (seconds, or an HTTP date, for which ``now`` is the time, seconds since 1970;
    by default the response's own Date header), then the longest ``x-ratelimit-reset-*`` (``6m0s``, ``500ms``) of a limit
    that has nothing left.
    """
    if (milliseconds := number(headers.get("retry-after-ms"))) is not None:
        return max(0.0, milliseconds / 1000)
    value = headers.get("retry-after", "").strip()
    if (seconds := number(value)) is not None:
        return max(0.0, seconds)
    if value and (at := _http_date(value)) is not None:
        since = now if now is not None else _http_date(headers.get("date", ""))
        return max(0.0, at - since) if since is not None else None
    resets = [
        seconds
        for name in headers
        if name.startswith("x-ratelimit-remaining-")
        and number(headers[name]) == 0
        and (seconds := duration_s(headers.get(name.replace("remaining", "reset"), ""))) is not None
    ]
    return max(resets, default=None)


def duration_s(text: str) -> float | None:
    """Return the seconds of ``6m0s``, ``1m30s``, ``500ms`` or a plain number; None for other texts."""
    if (seconds := number(text)) is not None:
        return max(0.0, seconds)
    text = text.strip()
    if not text or _DURATION.sub("", text):
        return None
    return sum(float(amount) * _SECONDS[unit] for amount, unit in _DURATION.findall(text))


def clean_text(value: object) -> str:
    """Return a text that can be stored, with lone surrogates replaced; '' for None, objects and lists."""
    if not isinstance(value, str):
        return "" if value is None or isinstance(value, dict | list) else str(value)
    return value.encode("utf-8", "replace").decode("utf-8")


def too_long(what: object) -> Failure:
    """Return the failure for a reply that is too long, for the reason ``what``."""
    return Failure(
        "reply_too_long",
        f"{what}; ask for less with --max-tokens, or for fewer ratings a request",
        tries=2,
    )


def code_and_message(content: object) -> tuple[str, str]:
    """Return the code and message of an error in any dialect; '' for a missing part."""
    error = _error_in(content, "")
    return error.code, error.message


class _Error(NamedTuple):
    """The parts of an endpoint's error; '' for a missing part."""

    code: str
    kind: str
    param: str
    message: str

    @property
    def words(self) -> str:
        return f"{self.code} {self.kind} {self.message}"


def _error_in(content: object, otherwise: str) -> _Error:
    """Read an error in any of the dialects; ``otherwise`` is its message if it has none."""
    if isinstance(content, list):  # Gemini's form
        content = content[0] if content else None
    if isinstance(content, dict):
        content = content.get("error", content)  # old vLLM and litellm write it flat
    elif not isinstance(content, str):
        content = None
    error = content if isinstance(content, dict) else {"message": content}
    message = error.get("message")
    line = _one_line(clean_text(message[:_MESSAGE] if isinstance(message, str) else message))
    return _Error(
        _name(error.get("code")),
        _name(error.get("type")),
        _name(error.get("param")),
        line or otherwise,
    )


def _answer(choice: dict[str, Any]) -> Answer:
    message = choice.get("message")
    message = message if isinstance(message, dict) else {}
    content = message.get("content")
    if isinstance(content, list):  # content parts
        content = "".join(
            clean_text(part.get("text")) for part in content if isinstance(part, dict)
        )
    return Answer(
        text=clean_text(content),
        finish_reason=_name(choice.get("finish_reason")) or None,
        refusal=clean_text(message.get("refusal")) or None,
        tokens=_tokens_of(choice),
    )


def _usage(usage: object, *, one_choice: bool) -> Usage:
    """Return the endpoint's counts. ``one_choice``: it is llama.cpp's server, which counts one choice of several."""
    if not isinstance(usage, dict):
        return Usage()
    details, of_answer = usage.get("prompt_tokens_details"), usage.get("completion_tokens_details")
    return Usage(
        prompt_tokens=tokens_of(usage.get("prompt_tokens")),
        completion_tokens=tokens_of(usage.get("completion_tokens")),
        cost_usd=amount_of(
            usage.get("cost"), most=_MOST_COST_USD
        ),  # OpenRouter's field, in dollars
        cached_tokens=tokens_of(details.get("cached_tokens"))
        if isinstance(details, dict)
        else None,
        counts_one_choice=one_choice,
        reasoning_tokens=tokens_of(of_answer.get("reasoning_tokens"))
        if isinstance(of_answer, dict)
        else None,
    )


def _tokens_of(choice: dict[str, Any]) -> Sequence[Mapping[str, Any]] | None:
    logprobs = choice.get("logprobs")
    content = logprobs.get("content") if isinstance(logprobs, dict) else None
    return content if isinstance(content, list) and 0 < len(content) <= _MOST_TOKENS else None


def tokens_of(value: object) -> int | None:
    """Return a value as a whole number of at least 0; None if it is not one."""
    amount = amount_of(value)
    return None if amount is None else int(amount)


def amount_of(value: object, *, most: float = 1e15) -> float | None:
    """Return a value as a number from 0 to ``most``; None if it is not one."""
    amount = number(value)
    return amount if amount is not None and 0 <= amount <= most else None


def _json(body: Body) -> object:
    collects = gc.isenabled()
    gc.disable()  # else it would walk all new objects again and again
    try:
        with suppress(orjson.JSONDecodeError):
            return orjson.loads(body)
        with suppress(ValueError, RecursionError):
            return json.loads(body)  # for lone surrogates and the like, which orjson refuses
        with suppress(
            ValueError, RecursionError
        ):  # for bytes that are not UTF-8: the answer around them is paid for
            return json.loads(body.decode("utf-8", "replace"), strict=False)
        return None
    finally:
        if collects:
            gc.enable()


def number(value: object) -> float | None:
    """Return an endpoint's number, which may be a text; None if it is not one, or has more than 15 digits."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, str) and len(value) > _NAME:
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if abs(number) <= _MOST_NUMBER else None


def _http_date(text: str) -> float | None:
    try:
        return parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None


def _name(value: object) -> str:
    """Return a short text; '' for a long one."""
    return "" if isinstance(value, str) and len(value) > _NAME else clean_text(value)


def _excerpt(body: Body) -> str:
    # Longer than it is shown: keys are taken out later, and must be whole then.
    return _one_line(body[:_MESSAGE].decode("utf-8", "replace")) or "nothing"


def _one_line(text: str) -> str:
    """Return a text on one line, without characters that would control a terminal."""
    return " ".join("".join(mark if mark.isprintable() else " " for mark in text).split())
