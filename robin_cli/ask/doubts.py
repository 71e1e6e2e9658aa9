"""Finds words behind a value that make it doubtful: another number, or words that take the value back."""

from __future__ import annotations

import re
from unicodedata import category

from robin_cli.ask.marks import INK, MARKS, MINUS, OPEN

_NUMBER = re.compile(
    r"\d|\b(?:zero|one|two|three|four|five|six|seven|eight|nine|ten|half|halves|quarters?|thirds?|dozen|hundred)\b|半",
    re.IGNORECASE,
)

# "3 errors" is a count, and so is "one minor error": it counts what is in the response, and is no other rating.
THINGS = r"""(?:answer|case|check|claim|constraint|example|error|fact|flaw|gap|instruction|issue|item|mistake|omission
    |part|problem|question|requirement|sentence|slip|source|statement|step|test|criteri(?:on|a))s?\b"""

_NO_NUMBER = re.compile(
    rf"\b(?:(?:one|two|three|four|five)\s+(?:(?!less|more|point|or\b|to\b|minus|but\b)[a-z]+\s+){{0,2}}{THINGS}(?!\s+(?:less|more|off|too))"
    r"|one\s+(?:of\s+(?:the|these|those|its|his|her|their|our|my)|can|could|may|might|must|should|would)"
    r"|(?:any|every|no|some)[ -]?one)\b",
    re.IGNORECASE | re.VERBOSE,
)

# Right behind a value: "3-", "3?", "3 or 4", "3 would be too generous", "3, if lenient", "3 (maybe)".
_HEDGE = re.compile(
    rf"""[{INK}{OPEN}]*+[+{MINUS}~±](?!\s) | [{MARKS}{OPEN}]*+(?:[+{MINUS}](?=[{MARKS}]*+\Z)|[-=]>|[?→⇒↑↓↗↘])
    | (?:\s*+(?:stars?|points?)\b)?[{MARKS}]*+(?:
        and|at|below|can|could|depending|down|feels|higher|instead|is|leaning|less|lower|max|may|might|more|must|nearly|now|of|otherwise|out
        |over|rather|seems|should|than|then|times|till?|to|too|tops|under|until|up|versus|vs|was|when|were|would
    )(?![^\W_])
    | [{MARKS}{OPEN},;.:!…—–/=-]*+(?-i:I[IVX]++|[VX][IVX]*+)(?![^\W_])  # Roman numerals
    | [{MARKS}{OPEN},;.:!…—–-]*+(?:
        (?:draft|error|mistake|wrong)\b(?=[^\w\s]|\Z)|(?:arguably|if|maybe|n?or|nope|perhaps|possibly|probably|unless)\b|h+mm*+\b|no\b(?=\s*+[,.;:!—–-])|\?
        |(?:about|almost|around|not(?:\ (?:quite|really|sure))?|roughly)\W*+\Z
    )""",
    re.IGNORECASE | re.VERBOSE,
)

# Anywhere behind it. The object of a verb, and the word behind "actually" or "strict", say whether it is about the rating.
_RETRACTION = re.compile(
    r"""\b(?:
    (?:adjust|bump|correct|deduct|decreas|demot|dock|downgrad|increas|lower|rais|reconsider|reduc|retract|revis|subtract|upgrad)
        (?:ed|ing|ion)(?!\ (?:an?|all|any|its|some|the)\ (?!bit|few|grade|half|level|little|lot|mark|notch|number|point|rating
        |score|step|touch))
    |cancel\w*|deleted|dis(?:card|regard)\w*|halve[ds]?|nah|overr(?:ated|uled)|penal\w+|placeholder|provisional\w*|re(?:consider|think)
    |sorry|superseded|takes?\ (?:it|that|this)\ back|typo|undo|void(?:ed)?
    |or\ (?:above|below|better|even|higher|less|lower|maybe|more|perhaps|possibly|rather|so|worse)
    |actually(?!\ (?!an?\b|better|closer|higher|i\b|i['’]|it\b|it['’]|just|less|let|lower|make|more|nearer|no|only|rather|should
        |that|this|worse|would|wrong)[a-z])
    |at\ (?:the\ )?(?:best|least|most|worst)|(?:bit|little|quite|too)\ (?:high|kind|low|much)|borderline|deducts?
    |generous|harsh|higher|(?:ignore|scratch|strike)\ that|i\ mean|lenient|lowers?|minus|never\ ?mind
    |(?:not|un)\ ?(?:certain|final|sure)|on\ reflection|oops|plus|second\ thoughts?
    |strict(?!\ (?:criteria|interpretation|reading|standards?)\b)|tentative|up\ to|wait|withdrawn?
    )\b""",
    re.IGNORECASE | re.VERBOSE,
)


def is_doubtful(rest: str) -> bool:
    """Return whether the rest of a line, behind a value, has another number or takes the value back."""
    rest = _NO_NUMBER.sub("it", rest)
    return (
        any(pattern.search(rest) is not None for pattern in (_NUMBER, _RETRACTION))
        or _HEDGE.match(rest) is not None
        or (not rest.isascii() and any(category(letter).startswith("N") for letter in rest))
    )
