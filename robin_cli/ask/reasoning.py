"""Separates the answer from the reasoning around it, by the tags and channel markers of many models.

An answer that holds another marker of this kind is not read, for it may be reasoning too.
"""

from __future__ import annotations

import re

from robin_cli.ask.marks import to_plain_letters

# Feedback may quote a marker in backticks.
_IS_QUOTED = r"(?<=`)[^`\n]{1,80}`"

_STEM = (
    "think|thought|reason|reflect|analy[sz]|scratch|monolog|deliberat|rationale|draft|inner_|brainstorm"
    "|critiqu|planning|working"
)
_NAME = rf"(?:[\w:.▁-]{{0,30}}(?:{_STEM})[\w:.▁-]{{0,30}}|cot|internal|notes|plan)\s?"

# <|channel|>analysis<|message|>…<|end|><|start|>assistant<|channel|>final<|message|>…
_HEADER = r"(?:<\|(?:end|call)\|>\s*+)?(?:<\|start\|>\s*+\w*+\s*+)?<\|channel\|>\s*+"
_MESSAGE = r"\b[^<]{0,80}(?:<\|constrain\|>[^<]{0,80})?<\|message\|>"

_MARKER = re.compile(
    rf"""(?=[<\[◁⟨〈《【a.]|\A)(?!{_IS_QUOTED})(?:
    (?P<final> {_HEADER}final{_MESSAGE} | assistantfinal | <\|(?:START_RESPONSE|begin_of_solution)\|>)
    | (?P<channel> {_HEADER}\w++{_MESSAGE} | assistant(?:analysis|commentary))
    | (?P<closes> [<\[◁⟨〈《【][|\s]?(?:(?:/|end)\s?{_NAME}|{_NAME}(?<=end))\|?[>\]▷⟩〉》】]
        | <unused95> | <channel\|> | <\|inner_suffix\|> | \.{{3}}done\ thinking\.?)
    | (?P<opens> [<◁⟨〈《【][|\s]?{_NAME}(?:\s\w++=[^<>\n]{{0,80}})?\|?[>▷⟩〉》】] | <unused94> | <\|channel>
        | \[(?:think(?:ing)?|(?-i:[A-Z_]{{0,30}}(?:{_STEM.upper()})[A-Z_]{{0,30}}))\]
        # a server may strip the markers around these words; Ollama writes others
        | \A\s*+(?-i:(?:analysis|thought)(?![ :])|Thinking\.{{3}}(?=\s*+\n)))
    )""",
    re.IGNORECASE | re.VERBOSE,
)

_END = re.compile(
    r"(?:(?:[<\[][|/]?[\w▁]{0,30}(?:end|eo[mst]|return|stop|turn)[\w▁]{0,30}\|?[>\]]|</s>)\s*+){1,3}\Z",
    re.IGNORECASE,
)

_UNKNOWN = re.compile(
    rf"""(?=[<\[◁])(?!{_IS_QUOTED})(?:
    <\|[^<>|\n]{{1,60}}\|> | <\|[^\s<>|]{{1,60}}> | <[^\s<>|]{{1,60}}\|> | ◁[^\s◁▷]{{1,60}}▷ | <<[^\s<>]{{1,60}}>>
    | </?(?:s|bos|eos|pad|unk|sep|mask|(?:start|end)_of_\w++|(?:fim|tool)_\w++|(?!h\d)[a-z_]{{2,30}}\d++)>
    | \[\|[^\[\]|\n]{{1,60}}\|\] | \[/?(?:INST|CLS|SEP|BOS|EOS|(?:AVAILABLE|SYSTEM|TOOL)_\w++)\]
    | \[/(?!rating|verdict|feedback)(?-i:[A-Z_]++)\]
    )""",
    re.IGNORECASE | re.VERBOSE,
)


def without_reasoning(text: str) -> str:
    """Return the text with spaces in place of reasoning and of end markers, as long as before.

    Some servers put the opening tag into the prompt. So a lone ``</think>`` ends reasoning that began with the text. A
    ``<think>`` without an end goes on to the end.
    """
    spans: list[tuple[int, int]] = []
    start, last = 0, "closes"
    for marker in _MARKER.finditer(to_plain_letters(text)):
        kind = marker.lastgroup or ""
        if last in {"closes", "final"}:
            spans.append((start, marker.start()))
            # What follows "final" is an answer, whatever channel comes next.
            if kind == "closes" or (kind in {"channel", "final"} and last != "final"):
                spans.clear()
        start, last = marker.end(), kind
    if last in {"closes", "final"}:
        spans.append((start, len(text)))
    answer = _fill(text, spans)
    end = _END.search(to_plain_letters(answer))
    return _fill(answer, [(0, end.start())]) if end else answer


def has_unknown_marker(answer: str) -> bool:
    """Return whether the answer holds a marker whose meaning is not known."""
    return _UNKNOWN.search(to_plain_letters(answer)) is not None


def _fill(text: str, spans: list[tuple[int, int]]) -> str:
    """Return the spans of the text at their places, with spaces for all else."""
    pieces, at = [], 0
    for start, end in spans:
        pieces += [" " * (start - at), text[start:end]]
        at = end
    return "".join([*pieces, " " * (len(text) - at)])
