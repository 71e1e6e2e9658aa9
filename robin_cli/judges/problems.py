"""What an error of an endpoint means: is the call made again, is it waited for, does it count, whose fault is it?

``_RULES`` decides it, by the status and the words; many dialects of "OpenAI-compatible" end here. What a rule may say:

===========  ================================  ================================================
``ends``     not made again                    the key's, the model's or the address's: the session ends
``retires``  not made again                    the pair's: it is asked no more
``adapts``   at once, without a parameter      nobody's: it does not count
``waits``    as soon as there is room          nobody's, it is no error: all calls wait as long as the endpoint asks,
                                               fewer are made at a time, for PATIENCE_S at most (``retrying.py``)
``slows``    up to ``--max-retries`` times     the endpoint's; fewer calls at a time may help it
nothing      up to ``--max-retries`` times     the endpoint's
===========  ================================  ================================================

An error that no rule fits refuses a parameter, which is adapted, or the request: :func:`refuse`, once more, then by ``robin
resume``; it may be the pair's fault, and of many pairs the request's (``session/health.py``). A complete answer that cannot be
read is :class:`Unread`: it is paid for.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

from robin_cli.judges.bodies import (
    Body,
    clean_text,
    excerpt,
    number,
    one_line,
    read_json,
    short_text,
)
from robin_cli.model.exchange import Failure


@dataclass(frozen=True, slots=True)
class Fatal:
    """Every call would fail like this one; ``unkeyed`` is the message to use if no key was sent."""

    detail: str
    unkeyed: str = ""


@dataclass(frozen=True, slots=True)
class Unread:
    """A complete answer that cannot be read: it is paid for."""

    detail: str


Problem = Failure | Fatal | Unread


class ErrorParts(NamedTuple):
    """The parts of an endpoint's error; '' for a missing part. ``wait_s``: the seconds that its body asks to wait."""

    code: str
    kind: str
    param: str
    message: str
    wait_s: float | None

    @property
    def words(self) -> str:
        return f"{self.code} {self.kind} {self.message}"


def _words(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


EITHER, IMAGES, SYSTEM = "temperature or top_p", "images", "system"
"""What an endpoint may refuse besides a parameter: one of two of them, the images in messages, and the role of a message."""

_PARAMETERS = {
    EITHER: _words(
        r"temperature.{0,20}top_p.{0,20}(both|together)|both.{0,20}temperature.{0,20}top_p"
    ),
    **{
        name: re.compile(rf"\b{name}\b")
        for name in ("max_tokens", "temperature", "top_p", "seed", "top_logprobs")
    },
    "logprobs": _words(r"\blog_?probs\b|log probabilit"),
    "response_format": _words(r"\bresponse_format\b|\bjson_schema\b|structured output"),
    "n": _words(
        r"""['"`]n['"`]|\bn\b ?(>|<|must|=|is|cannot|value|param)|candidate_?count|"""
        r"(number of|multiple|several|one|single) (choice|completion|candidate|sample|generation|sequence)"
    ),
    # last: it is named as the reason that others are refused
    "reasoning_effort": _words(r"reasoning[_. ]effort"),
}
_REFUSES = _words(
    r"unsupported|not (supported|enabled|permitted|allowed)|(does|do) not support|unknown|unrecognized|unexpected|extra input|"
    r"must be|only|at most|exceed|greater|invalid|cannot|number of"
)
_TOO_MANY = _words(r"too (large|high|big)|at most|exceed|greater|less than|maximum")
_TOO_LONG = _words(r"too (long|many tokens)|maximum.{0,20}tokens|`inputs`|request too large")
_WINDOW = _words(r"context.{0,20}(length|window|size)|exceed_context")

_BUSY = _words(r"rate.?limit|too.?many.?requests|resource.?exhausted")
_CROWDED = _words(r"back.?pressure|queue is full")  # of Ray Serve and SGLang
_DAILY = re.compile(rb'"quotaId": ?"[^"]*PerDay')  # only here Gemini's differs from one per minute
_QUOTA = _words(
    r"insufficient_quota|billing_hard_limit|quota.{0,40}(exhausted|daily)|^(?!.*per[ _-]?min).*per[ _-]?day"
    r"|(no|not enough|out of|insufficient) (\w+ )?credits?|credits? (balance|exhausted|used up)"
)
_AFFORDS = _words(r"can only afford (\d+)")  # OpenRouter's: the credit pays for shorter answers
_BROKE = _words(
    r"insufficient_quota|billing_hard_limit|credit balance|insufficient (credit|balance)"
)
_KEY = _words(r"api.?key.{0,20}(not valid|invalid|expired)|(invalid|incorrect).{0,10}api.?key")
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
_NO_IMAGES = _words(  # not of a single image, as others may be accepted, and not in the name of a model
    r"^(?!.*(format|mime|media.?type|image/|extension|download|fetch)).*("
    r"(?<![-/.\w])(image\w*|vision|multi-?modal)(?![-/.:]?\w).{0,60}"
    r"(not (supported|enabled|available|allowed)|only supported)|not a multi-?modal|"
    r"(not|n.t|cannot|endpoints found that) (support|accept|take|process|handle|read).{0,40}(image|vision|multi)|"
    r"at most 0 image|unknown variant `?image_url|content.{0,60}(must|should) be a (valid )?string)"
)

_PASSING = frozenset({408, 409, 425, 429, 498, *range(500, 600)})
_ENDS = {
    402: "the account is out of credit ({}); add some, then robin resume",
    403: "the key may not use this model or endpoint ({}); check --model, or take another key",
    404: "no such model or address ({}); check --model, and --base-url, which often ends in /v1; a model that only decides "
    "needs --answers decisions",
    405: "nothing answers chat completions there ({}); check --base-url",
}
_REFUSED = frozenset(range(400, 500)) - _PASSING - {401, *_ENDS}
_ANY_BUT_429 = frozenset(range(400, 600)) - {429}
_NO_CREDIT = "the quota or credit of this key is used up ({})"
_BAD_KEY = "the key was refused ({}); set a good one in the variable that --api-key-env names"
_NO_KEY = (
    "it wants a key, and none was sent ({}); set one in OPENAI_API_KEY, or name the variable "
    "that holds it with --api-key-env"
)


_SECRET = re.compile(r"[?#].*|(?<=//)[^/?#]*@", re.DOTALL)
"""The parts of an address that may hold a token or a password."""


class _Rule(NamedTuple):
    """What an error means that has one of these statuses, these words and this body; None fits any.

    ``unkeyed``: in place of ``ends`` if no key was sent. ``waits``: None if only when the endpoint asks for it.
    """

    statuses: Container[int]
    words: re.Pattern[str] | None = None
    body: re.Pattern[bytes] | None = None
    ends: str = ""
    unkeyed: str = ""
    retires: str = ""
    adapts: str = ""
    waits: bool | None = False
    slows: bool = False


_RULES = (
    _Rule(range(300, 400), ends="the endpoint redirects ({status}) to {place}"),
    _Rule(_ANY_BUT_429, _NO_IMAGES, adapts=IMAGES),
    _Rule({403}, _FILTER, retires="filtered"),  # OpenRouter's moderation: not this key
    _Rule({429}, body=_DAILY, ends="the quota of this key for the day is used up ({})"),
    _Rule({429}, _QUOTA, ends=_NO_CREDIT),
    _Rule({429}, _words("request too large"), retires="context_length"),  # for any minute
    _Rule({429, 498}, waits=True),
    _Rule({402}, _AFFORDS, adapts="max_tokens"),
    _Rule({401}, ends=_BAD_KEY, unkeyed=_NO_KEY),
    *(_Rule({status}, ends=fact) for status, fact in _ENDS.items()),
    _Rule({503}, _CROWDED, waits=True),
    _Rule({503}, waits=None, slows=True),
    _Rule({529}, slows=True),
    _Rule(_PASSING),
    _Rule(_REFUSED, _KEY, ends="the key was refused ({})"),
    _Rule(_REFUSED, _BROKE, ends=_NO_CREDIT),
    _Rule(_REFUSED, _NO_SYSTEM, adapts=SYSTEM),
    _Rule(_REFUSED, _MODEL, ends="the model is not known there ({}); check --model"),
    _Rule(_REFUSED, _FILTER, retires="filtered"),
    _Rule({413}, retires="context_length"),
    _Rule(_REFUSED, _WINDOW, retires="context_length"),
)
"""The first rule that fits an error counts."""


def classify(
    status: int, body: Body, headers: Mapping[str, str], content: object = None
) -> Problem:
    """Return what an HTTP error with this body means; ``content`` is the JSON value of ``body``, if it was read already."""
    error = error_in(read_json(body) if content is None else content, excerpt(body))
    return _meaning(status, error, headers, body)


def error_in_200(content: object, headers: Mapping[str, str]) -> Problem:
    """Return what an error without a status means for the run; ``bad_request``, asked again and again, if that is unclear."""
    error = error_in(content, "no message")
    code = number(error.code)
    if code is not None and 400 <= code < 600:
        return _meaning(int(code), error, headers)
    problem = _meaning(429 if _BUSY.search(error.words) else 400, error, headers)
    if isinstance(problem, Failure) and problem.reason == "bad_request" and not problem.parameter:
        return Failure("bad_request", f"a 200 with an error inside: {error.message}")
    return problem


def _meaning(
    status: int, error: ErrorParts, headers: Mapping[str, str], body: Body = b""
) -> Problem:
    """Return what the first rule that fits says of an error; without one, which parameter is refused, if any is."""
    detail = error.message
    if not detail.startswith(str(status)):
        detail = f"{status}: {detail}"
    for rule in _RULES:
        if (
            status in rule.statuses
            and (rule.words is None or rule.words.search(error.words))
            and (rule.body is None or rule.body.search(body))
        ):
            break
    else:
        return _refused_parameter(error, detail)
    if rule.ends:
        to, place = _SECRET.sub("", headers.get("location", "")), "no address; check --base-url"
        if to:
            place = f"{excerpt(to.encode())}; give that address"
        ends = rule.ends.format(detail, status=status, place=place)
        return Fatal(ends, rule.unkeyed.format(detail))
    if rule.retires:
        return Failure(rule.retires, detail)
    if rule.adapts:
        afforded = _AFFORDS.search(error.words)
        return refuse(detail, rule.adapts, int(afforded[1]) if afforded else 0)
    after_s = retry_after_s(headers)
    after_s = error.wait_s if after_s is None else after_s
    waits = after_s is not None if rule.waits is None else rule.waits
    reason = "rate_limited" if waits else f"http_{status}"
    slows = waits or rule.slows
    return Failure(reason, detail, retry_after_s=after_s, throttled=waits, overloaded=slows)


def _refused_parameter(error: ErrorParts, detail: str) -> Failure:
    """Return which parameter the endpoint refuses; a refusal for any other reason."""
    refused = error.param if error.param in _PARAMETERS else ""
    if not refused and _TOO_LONG.search(error.words):
        return Failure("context_length", detail)
    if not refused and _REFUSES.search(error.words):
        names = (name for name, words in _PARAMETERS.items() if words.search(error.message))
        refused = next(names, "")
    is_too_many = refused == "max_tokens" and _TOO_MANY.search(error.message)
    if is_too_many and "completion_tokens" not in error.message:
        return refuse(f"{detail}; lower --max-tokens")
    return refuse(detail, refused)


def refuse(detail: str, parameter: str = "", most: int = 0) -> Failure:
    """Return the failure for a refusal that may have nothing to do with its pair: asked once more, then by robin resume."""
    return Failure("bad_request", detail, tries=2, parameter=parameter, most=most)


def too_long(what: object) -> Unread:
    """Return the outcome of a reply that is too long, for the reason ``what``."""
    return Unread(f"{what}; ask for less with --max-tokens, or for fewer ratings a request")


# ── what an error says ────────────────────────────────────────────────────────────────────────────

_MESSAGE = 2000
"""The most characters of an error that are read."""

_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|milli|h|m|s)")
_SECONDS = {"ms": 0.001, "milli": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_TRY_AGAIN = _words(
    r"(?:(?:try|retry|wait)[^\d.,;]{0,40}?\b(?:in|after|for)|wait) (?:about )?((?:\d+(?:\.\d+)?\s*[hms][a-z]*[\s,]*)+)"
)
_WAIT_FIELDS = {
    **dict.fromkeys(("retrydelay", "retryafter", "retryafterseconds", "retryafters"), 1.0),
    "retryafterms": 0.001,
}


def error_in(content: object, otherwise: str = "") -> ErrorParts:
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
    code, kind, param = (short_text(error.get(name)) for name in ("code", "type", "param"))
    return ErrorParts(code, kind, param, line or otherwise, _wait_s(whole, error, line))


def _wait_s(content: object, error: Mapping[str, Any], message: str) -> float | None:
    """Return the seconds to wait that a body asks for: by ``retryDelay`` or ``retry_after``, else in words."""
    details = error.get("details")
    parts = [error, content, error.get("metadata"), *(details if isinstance(details, list) else [])]
    for name, value in (pair for part in parts if isinstance(part, dict) for pair in part.items()):
        unit_s = _WAIT_FIELDS.get(re.sub("[^a-z]", "", str(name).lower()))
        if unit_s and (seconds := duration_s(clean_text(value))) is not None:
            return seconds * unit_s
    words = _TRY_AGAIN.search(message)
    return _sum_s(words[1].lower()) if words else None


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that the endpoint asks to wait, at least 0; None if it does not.

    Reads ``retry-after-ms``, ``retry-after`` (seconds, or a date, beside the response's own), then the longest
    ``x-ratelimit-reset-*`` (``6m0s``, ``500ms``) of a limit that has nothing left.
    """
    if (milliseconds := number(headers.get("retry-after-ms"))) is not None:
        return max(0.0, milliseconds / 1000)
    value = headers.get("retry-after", "").strip()
    if (seconds := duration_s(value)) is not None:
        return seconds
    if value and (at := _date(value)) is not None:
        now = _date(headers.get("date", ""))
        return None if now is None else max(0.0, at - now)
    resets = [
        duration_s(headers.get(name.replace("remaining", "reset"), ""))
        for name in headers
        if name.startswith("x-ratelimit-remaining-") and number(headers[name]) == 0
    ]
    return max((seconds for seconds in resets if seconds is not None), default=None)


def duration_s(text: str) -> float | None:
    """Return the seconds of ``6m0s``, ``1m30s``, ``500ms`` or a plain number; None for other texts."""
    if (seconds := number(text)) is not None:
        return max(0.0, seconds)
    text = text.strip()
    return _sum_s(text) if text and not _AMOUNT.sub("", text).strip() else None


def _sum_s(text: str) -> float:
    return sum(float(amount) * _SECONDS[unit] for amount, unit in _AMOUNT.findall(text))


def _date(text: str) -> float | None:
    for read in (parsedate_to_datetime, datetime.fromisoformat):
        with suppress(ValueError, TypeError, OverflowError):
            return read(text).timestamp()
    return None
