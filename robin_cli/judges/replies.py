"""Reading of endpoints' replies, without trusting them: answers, errors, and times to wait.

Pure functions of status, headers and body; the many dialects of "OpenAI-compatible" end here.
"""

from __future__ import annotations

import gc
import json
import re
from collections.abc import Callable, Container, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any, NamedTuple

import orjson

from robin_cli.judges.bodies import MOST_REPLY_BYTES, Body, TooLong
from robin_cli.model.exchange import Answer, Failure
from robin_cli.model.records import Usage


@dataclass(frozen=True, slots=True)
class Unsupported:
    """The endpoint refuses one parameter of the request: ask without it, or with another name for it.

    The ``parameter`` "system" stands for the role of a message, IMAGES for the images in messages, and EITHER for one of two.
    ``most``: a smaller value, of at most so much, would do.
    """

    parameter: str
    detail: str
    most: int = 0


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
    fingerprint: str | None = None


@dataclass(frozen=True, slots=True)
class Unread:
    """A complete answer that cannot be read: it is paid for."""

    detail: str


Problem = Failure | Unsupported | Stop | Unread


def _words(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


# only here Gemini's daily quota differs from one per minute
_DAILY = re.compile(r'"quotaId": ?"[^"]*PerDay')
_BUSY = _words(r"rate.?limit|too.?many.?requests|resource.?exhausted")
_CROWDED = _words(r"back.?pressure|queue is full")  # of Ray Serve and SGLang, with 503
_AFFORDS = _words(r"can only afford (\d+)")  # OpenRouter's: the credit pays for shorter answers
_TOO_LONG = _words(r"too (long|many tokens)|maximum.{0,20}tokens|`inputs`|request too large")
_TOO_MANY = _words(r"too (large|high|big)|at most|exceed|greater|less than|maximum")
_REFUSES = _words(
    r"unsupported|not (supported|enabled|permitted|allowed)|(does|do) not support|unknown|unrecognized|unexpected|extra input|"
    r"must be|only|at most|exceed|greater|invalid|cannot|number of"
)
EITHER = "temperature or top_p"
IMAGES = "images"
_PARAMETERS = {
    EITHER: _words(
        r"temperature.{0,20}top_p.{0,20}(both|together)|both.{0,20}temperature.{0,20}top_p"
    ),
    "max_tokens": re.compile(r"\bmax_tokens\b"),
    "temperature": re.compile(r"\btemperature\b"),
    "top_p": re.compile(r"\btop_p\b"),
    "seed": re.compile(r"\bseed\b"),
    "top_logprobs": re.compile(r"\btop_logprobs\b"),
    "logprobs": _words(r"\blog_?probs\b|log probabilit"),
    "response_format": _words(r"\bresponse_format\b|\bjson_schema\b|structured output"),
    "n": _words(
        r"""['"`]n['"`]|\bn\b ?(>|<|must|=|is|cannot|value|param)|candidate_?count|"""
        r"(number of|multiple|several|one|single) (choice|completion|candidate|sample|generation|sequence)"
    ),
    "reasoning_effort": _words(
        r"reasoning[_. ]effort"
    ),  # last: it is named as the reason that others are refused
}


class _Rule(NamedTuple):
    """What an error means. A rule fits an error with one of its statuses and with its words; None fits any words."""

    statuses: Container[int]
    words: re.Pattern[str] | None
    meaning: Callable[[str], Problem]


def _stop(fact: str, unkeyed: str = "") -> Callable[[str], Problem]:
    return lambda detail: Stop(fact.format(detail), unkeyed.format(detail))


def _affordable(detail: str) -> Problem:
    found = _AFFORDS.search(detail)
    return Unsupported("max_tokens", detail, most=int(found[1]) if found else 0)


_QUOTA = _words(
    r"insufficient_quota|billing_hard_limit|quota.{0,40}(exhausted|daily)|^(?!.*per[ _-]?min).*per[ _-]?day"
    r"|(no|not enough|out of|insufficient) (\w+ )?credits?|credits? (balance|exhausted|used up)"
)
_BROKE = _words(
    r"insufficient_quota|billing_hard_limit|credit balance|insufficient (credit|balance)"
)
_KEY = _words(r"api.?key.{0,20}(not valid|invalid|expired)|(invalid|incorrect).{0,10}api.?key")
_WINDOW = _words(r"context.{0,20}(length|window|size)|exceed_context")
_FILTER = _words(
    r"content.?(filter|policy|management)|responsible.?ai|safety|flagged|requires moderation"
)
_MODEL = _words(
    r"model.{0,80}(not.?found|not exist|unknown|not available|no access)|(unknown|invalid|no such).?model|"
    r"not a valid model|access to.{0,20}model"
)
_NO_SYSTEM = _words(
    r"(system|developer).{0,60}(not|n.t|un|dis)[ -]?(supported|allowed|enabled|accepted|permitted|available)|"
    r"(not|n.t|cannot|unsupported|unknown|invalid|unexpected).{0,30}(system|developer|role)|"
    r"roles must alternate|only.{0,20}(user|assistant).{0,40}role|only user and assistant"
)
_NO_IMAGES = _words(  # without words about a single image: others may be accepted
    r"^(?!.*(format|mime|media.?type|image/|extension|download|fetch)).*("
    r"(image|vision|multi-?modal).{0,60}(not (supported|enabled|available|allowed)|only supported)|not a multi-?modal|"
    r"(not|n.t|cannot|endpoints found that) (support|accept|take|process|handle|read).{0,40}(image|vision|multi)|"
    r"at most 0 image|unknown variant `?image_url|content.{0,60}(must|should) be a (valid )?string)"
)
_SECRET = re.compile(r"[?#].*|(?<=//)[^/?#]*@", re.DOTALL)
"""The parts of an address that may hold a token or a password."""
_PASSING = frozenset({408, 409, 425, 429, 498, *range(500, 600)})
_ENDS = {
    401: "the key was refused ({}); set a good one in the variable that --api-key-env names",
    402: "the account is out of credit ({}); add some, then robin resume",
    403: "the key may not use this model or endpoint ({}); check --model, or take another key",
    404: "no such model or address ({}); check --model, and --base-url, which often ends in /v1; a model that only decides "
    "needs --answers decisions",
    405: "nothing answers chat completions there ({}); check --base-url",
}
_UNKEYED = (
    "it wants a key, and none was sent ({}); set one in OPENAI_API_KEY, or name the variable that holds it with "
    "--api-key-env"
)
_REFUSED = frozenset(range(400, 500)) - _PASSING - _ENDS.keys()
_ANY_BUT_429 = frozenset(range(400, 600)) - {429}
_no_credit = _stop("the quota or credit of this key is used up ({})")
_filtered, _too_long_prompt = partial(Failure, "filtered"), partial(Failure, "context_length")
_RULES = (
    _Rule(_ANY_BUT_429, _NO_IMAGES, partial(Unsupported, IMAGES)),
    _Rule({403}, _FILTER, _filtered),  # OpenRouter's moderation: this prompt, not this key
    _Rule({429}, _QUOTA, _no_credit),
    _Rule({429}, _words("request too large"), _too_long_prompt),  # more than a minute's tokens
    _Rule({402}, _AFFORDS, _affordable),
    _Rule({401}, None, _stop(_ENDS[401], _UNKEYED)),
    *(_Rule({status}, None, _stop(fact)) for status, fact in _ENDS.items()),
    _Rule(_REFUSED, _KEY, _stop("the key was refused ({})")),
    _Rule(_REFUSED, _BROKE, _no_credit),
    _Rule(_REFUSED, _NO_SYSTEM, partial(Unsupported, "system")),
    _Rule(_REFUSED, _MODEL, _stop("the model is not known there ({}); check --model")),
    _Rule(_REFUSED, _FILTER, _filtered),
    _Rule({413}, None, _too_long_prompt),
    _Rule(_REFUSED, _WINDOW, _too_long_prompt),
)
"""The first rule that fits an error counts."""

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|h|m|s)")
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|milli|h|m|s)")
_SECONDS = {"ms": 0.001, "milli": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_TRY_AGAIN = _words(
    r"(?:(?:try|retry|wait)[^\d.,;]{0,40}?\b(?:in|after|for)|wait) (?:about )?((?:\d+(?:\.\d+)?\s*[hms][a-z]*[\s,]*)+)"
)
_WAIT_FIELDS = {
    **dict.fromkeys(("retrydelay", "retryafter", "retryafterseconds", "retryafters"), 1.0),
    "retryafterms": 0.001,
}

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
    body: Body,
    headers: Mapping[str, str],
    limit: int = MOST_REPLY_BYTES,
    content: object = None,
    status: int = 200,
) -> Completion | Problem:
    """Return the completion in the body of a success, or its problem: an error in place of choices, HTML, half a JSON text.

    Args:
        body: the decompressed body of a reply.
        headers: names in lower case.
        limit: the longest reply that is read, in bytes. Reading takes at most about 20 ms per MiB.
        content: the JSON value of ``body``, if it was read already.
        status: that of the reply, for messages.

    Raises:
        TooLong: the texts of the answers are too long, or reading would take too long.
    """
    content = read_json(body, limit) if content is None else content
    if isinstance(content, list) and len(content) == 1:  # Gemini's form of an error
        content = content[0]
    if not isinstance(content, dict):
        return Unread(f"a {status} that is not a JSON object: {_excerpt(body)}")
    choices = content.get("choices")
    choices = choices[:_MOST_CHOICES] if isinstance(choices, list) else None
    if not choices or not all(isinstance(choice, dict) for choice in choices):
        if content.get("error") or content.get("object") == "error":
            return error_in_200(content, headers)
        return Unread(f"a {status} without choices: {_excerpt(body)}")
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
        usage=usage_of(content.get("usage"), one_choice="timings" in content),
        request_id=_name(request_id) or None,
        fingerprint=_name(content.get("system_fingerprint")) or None,
    )


def read_json(body: Body, limit: int = MOST_REPLY_BYTES) -> object:
    """Return the value of a JSON text; None if it is not JSON. TooLong as :func:`read_completion`."""
    lists, names = body.count(b"[") + body.count(b"{"), body.count(b":")
    if lists > limit / _MIB * _MOST_LISTS_A_MIB or names > limit / _MIB * _MOST_NAMES_A_MIB:
        raise TooLong(f"a reply of too many parts, in {len(body):,} bytes")
    return _json(body)


def listed_models(content: object) -> list[str]:
    """Return the names in an endpoint's list of models; none if it has another form, or is only a part."""
    entries = content.get("data") if isinstance(content, dict) else None
    if not isinstance(entries, list) or (isinstance(content, dict) and content.get("has_more")):
        return []
    return [
        name
        for each in entries
        if isinstance(each, dict) and (name := one_line(_name(each.get("id"))))
    ]


def is_llama_cpp(models: object) -> bool:
    """Return whether a list of models is that of llama.cpp's server."""
    entries = models.get("data") if isinstance(models, dict) else None
    first = entries[0] if isinstance(entries, list) and entries else None
    return isinstance(first, dict) and first.get("owned_by") == "llamacpp"


def slots_in(props: object) -> int | None:
    """Return the slots of llama.cpp's server, by its properties; None if they do not say."""
    slots = props.get("total_slots") if isinstance(props, dict) else None
    return slots if isinstance(slots, int) and slots > 0 else None


def bare_name(model: str) -> str:
    """Return a model's name without the folder, variant and version that some endpoints leave out of their lists."""
    return model.rpartition("/")[2].partition(":")[0].removesuffix("-latest").lower()


def classify(
    status: int, body: Body, headers: Mapping[str, str], content: object = None
) -> Problem:
    """Return what an HTTP error with this body means for the run; ``content`` as for :func:`read_completion`."""
    error = error_in(_json(body) if content is None else content, _excerpt(body))
    if status == 429 and _DAILY.search(body.decode("utf-8", "replace")):
        return Stop(f"the quota of this key for the day is used up ({status}: {_excerpt(body)})")
    if 300 <= status < 400:
        to = _SECRET.sub("", headers.get("location", ""))
        where = (
            f"to {_excerpt(to.encode())}; give that address"
            if to
            else "to no address; check --base-url"
        )
        return Stop(f"the endpoint redirects ({status}) {where}")
    return _problem(status, error, headers)


def error_in_200(content: object, headers: Mapping[str, str]) -> Problem:
    """Return what an error without a status means for the run; ``bad_request``, asked again and again, if that is unclear."""
    error = error_in(content, "no message")
    code = number(error.code)
    if code is not None and 400 <= code < 600:
        return _problem(int(code), error, headers)
    problem = _problem(429 if _BUSY.search(error.words) else 400, error, headers)
    if isinstance(problem, Failure) and problem.reason == "bad_request":
        return Failure("bad_request", f"a 200 with an error inside: {error.message}")
    return problem


def _problem(status: int, error: EndpointsError, headers: Mapping[str, str]) -> Problem:
    message, words = error.message, error.words
    detail = message if message.startswith(str(status)) else f"{status}: {message}"
    for rule in _RULES:
        if status in rule.statuses and (rule.words is None or rule.words.search(words)):
            return rule.meaning(detail)
    if status in _PASSING:
        after_s = retry_after_s(headers)
        after_s = error.wait_s if after_s is None else after_s
        is_crowded = after_s is not None or _CROWDED.search(message) is not None
        throttled = status in {429, 498} or (status == 503 and is_crowded)
        reason = "rate_limited" if throttled else f"http_{status}"
        overloaded = throttled or status in {503, 529}
        return Failure(
            reason, detail, retry_after_s=after_s, throttled=throttled, overloaded=overloaded
        )
    if error.param not in _PARAMETERS and _TOO_LONG.search(words):
        return Failure("context_length", detail)
    refused = error.param if error.param in _PARAMETERS else None
    if refused is None and _REFUSES.search(words):
        named = (name for name, pattern in _PARAMETERS.items() if pattern.search(message))
        refused = next(named, None)
    if refused == "max_tokens" and _TOO_MANY.search(message) and "completion_tokens" not in message:
        return refusal(f"{detail}; lower --max-tokens")
    return Unsupported(refused, detail) if refused else refusal(detail)


def refusal(detail: str, latency_s: float = 0.0) -> Failure:
    """Return the failure for a refusal that may have nothing to do with its pair: asked once more, then by robin resume."""
    return Failure("bad_request", detail, latency_s, tries=2)


def retry_after_s(headers: Mapping[str, str], *, now: float | None = None) -> float | None:
    """Return the seconds that the endpoint asks to wait, at least 0; None if it does not.

    Reads ``retry-after-ms``, ``retry-after`` (seconds, or an HTTP date, for which ``now`` is the time, seconds since 1970;
    by default the response's own Date header), then the longest ``x-ratelimit-reset-*`` (``6m0s``, ``500ms``) of a limit
    that has nothing left.
    """
    if (milliseconds := number(headers.get("retry-after-ms"))) is not None:
        return max(0.0, milliseconds / 1000)
    value = headers.get("retry-after", "").strip()
    if (seconds := duration_s(value)) is not None:
        return seconds
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


def too_long(what: object) -> Unread:
    """Return the outcome of a reply that is too long, for the reason ``what``."""
    return Unread(f"{what}; ask for less with --max-tokens, or for fewer ratings a request")


class EndpointsError(NamedTuple):
    """The parts of an endpoint's error; '' for a missing part."""

    code: str
    kind: str
    param: str
    message: str
    wait_s: float | None

    @property
    def words(self) -> str:
        return f"{self.code} {self.kind} {self.message}"


def error_in(content: object, otherwise: str = "") -> EndpointsError:
    """Read an error in any of the dialects; ``otherwise`` is its message if it has none."""
    if isinstance(content, list):  # Gemini's form
        content = content[0] if content else None
    whole = content
    if isinstance(content, dict):
        content = content.get("error", content)  # old vLLM and litellm write it flat
    elif not isinstance(content, str):
        content = None
    error = content if isinstance(content, dict) else {"message": content}
    message = error.get("message")
    line = one_line(clean_text(message[:_MESSAGE] if isinstance(message, str) else message))
    return EndpointsError(
        _name(error.get("code")),
        _name(error.get("type")),
        _name(error.get("param")),
        line or otherwise,
        _wait_s(whole, error, line),
    )


def _wait_s(content: object, error: Mapping[str, Any], message: str) -> float | None:
    """Return the seconds to wait that a body asks for: by ``retryDelay`` or ``retry_after``, else in words."""
    details = error.get("details")
    parts = [error, content, error.get("metadata"), *(details if isinstance(details, list) else [])]
    for name, value in (pair for part in parts if isinstance(part, dict) for pair in part.items()):
        unit_s = _WAIT_FIELDS.get(re.sub("[^a-z]", "", str(name).lower()))
        if unit_s and (seconds := duration_s(clean_text(value))) is not None:
            return seconds * unit_s
    words = _TRY_AGAIN.search(message)
    amounts = _AMOUNT.findall(words[1].lower()) if words else []
    return sum(float(amount) * _SECONDS[unit] for amount, unit in amounts) if words else None


def _answer(choice: dict[str, Any]) -> Answer:
    message, logprobs = (
        part if isinstance(part := choice.get(name), dict) else {}
        for name in ("message", "logprobs")
    )
    content, tokens = message.get("content"), logprobs.get("content")
    if isinstance(content, list):  # content parts
        texts = [clean_text(part.get("text")) for part in content if isinstance(part, dict)]
        content = "".join(texts)
    return Answer(
        clean_text(content),
        finish_reason=_name(choice.get("finish_reason")) or None,
        refusal=clean_text(message.get("refusal")) or None,
        tokens=tokens if isinstance(tokens, list) and 0 < len(tokens) <= _MOST_TOKENS else None,
    )


def usage_of(usage: object, *, one_choice: bool = False) -> Usage:
    """Return the endpoint's counts, also those of ``input_tokens`` and ``output_tokens``.

    ``one_choice``: it is llama.cpp's server, which counts one choice of several.

    xAI and Gemini count the tokens of reasoning beside ``completion_tokens``, or in the total alone. So the largest reading is
    what is paid; without a total, reasoning may be counted twice, and the sum is marked as estimated.
    """
    if not isinstance(usage, dict):
        return Usage()
    renamed = {
        name.replace("input_", "prompt_").replace("output_", "completion_"): value
        for name, value in usage.items()
    }
    usage = renamed | usage
    details, of_answer = usage.get("prompt_tokens_details"), usage.get("completion_tokens_details")
    details = details if isinstance(details, dict) else {}
    of_answer = of_answer if isinstance(of_answer, dict) else usage
    names = ("prompt_tokens", "completion_tokens", "total_tokens")
    prompt, completion, total = (tokens_of(usage.get(name)) for name in names)
    reasoning = tokens_of(of_answer.get("reasoning_tokens"))
    is_beside = bool(reasoning) and (not total or (reasoning or 0) > (completion or 0))
    together = (completion or 0) + (reasoning or 0) * is_beside
    paid = max(together, (total or 0) - (prompt or total or 0))
    return Usage(
        prompt_tokens=prompt,
        completion_tokens=paid or completion,
        cost_usd=amount_of(usage.get("cost"), most=_MOST_COST_USD),  # OpenRouter's, in dollars
        cached_tokens=tokens_of(details.get("cached_tokens")),
        estimated=is_beside and not total,
        counts_one_choice=one_choice,
        reasoning_tokens=reasoning,
    )


def tokens_of(value: object) -> int | None:
    """Return a value as a whole number of at least 0; None if it is not one."""
    amount = amount_of(value)
    return None if amount is None else int(amount)


def amount_of(value: object, *, most: float = 1e15) -> float | None:
    """Return a value as a number from 0 to ``most``; None if it is not one."""
    amount = number(value)
    return amount if amount is not None and 0 <= amount <= most else None


_READERS: tuple[Callable[[Body], object], ...] = (
    orjson.loads,
    json.loads,  # for lone surrogates and the like, which orjson refuses
    # for bytes that are not UTF-8: the answer around them is paid for
    lambda body: json.loads(body.decode("utf-8", "replace"), strict=False),
    # for an answer with something behind it, such as the end of a stream
    lambda body: json.JSONDecoder().raw_decode(body.decode("utf-8", "replace").lstrip())[0],
)


def _json(body: Body) -> object:
    while body[:1] == b":":  # comments, by which OpenRouter and others keep a connection open
        body = body.partition(b"\n")[2].lstrip()
    collects = gc.isenabled()
    gc.disable()  # else it would walk all new objects again and again
    try:
        for read in _READERS:
            with suppress(ValueError, RecursionError):
                return read(body)
        return None
    finally:
        if collects:
            gc.enable()


def number(value: object) -> float | None:
    """Return an endpoint's number, which may be a text; None if it is not one, or has more than 15 digits."""
    is_long = isinstance(value, str) and len(value) > _NAME
    if isinstance(value, bool) or not isinstance(value, int | float | str) or is_long:
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if abs(number) <= _MOST_NUMBER else None


def _http_date(text: str) -> float | None:
    for read in (parsedate_to_datetime, datetime.fromisoformat):
        with suppress(ValueError, TypeError, OverflowError):
            return read(text).timestamp()
    return None


def _name(value: object) -> str:
    """Return a short text; '' for a long one."""
    return "" if isinstance(value, str) and len(value) > _NAME else clean_text(value)


def _excerpt(body: Body) -> str:
    # Longer than it is shown: keys are taken out later, and must be whole then.
    return one_line(body[:_MESSAGE].decode("utf-8", "replace")) or "nothing"


def one_line(text: str) -> str:
    """Return a text on one line, without characters that would control a terminal."""
    return " ".join("".join(mark if mark.isprintable() else " " for mark in text).split())
