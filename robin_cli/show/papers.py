"""What goes into a paper: a page of facts as Markdown or LaTeX, and any table in LaTeX (booktabs)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import IO, Any, NamedTuple

import pyarrow as pa

from robin_cli.show.json import rows_of
from robin_cli.show.text import one_line, plain, two_digits

_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|~&$])")
_LATEX = str.maketrans(
    {char: f"\\{char}" for char in "{}$&#_%"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {"<": r"\textless{}", ">": r"\textgreater{}", "`": r"\textasciigrave{}"}
    | {"[": "{[}", "]": "{]}"}  # behind the end of a line it would begin an argument
)


class PaperPart(NamedTuple):
    """A part of a page: facts in a line each, and texts to the letter, by name."""

    title: str
    facts: Mapping[str, str] = {}
    texts: Mapping[str, str] = {}


class Form(NamedTuple):
    """How a page is written: the patterns of its parts, and functions for texts in a line and for texts to the letter."""

    title: str
    part: str
    fact: str
    escaped: Callable[[str], str]
    to_the_letter: Callable[[str], str]


def page_of(title: str, parts: Iterable[PaperPart], form: Form) -> str:
    """Return a page with these parts."""
    lines = [form.title.format(title)]
    for part in parts:
        lines += ["", form.part.format(part.title), ""]
        lines += [
            form.fact.format(*map(form.escaped, map(one_line, fact))) for fact in part.facts.items()
        ]
        for name, text in part.texts.items():
            head = form.fact.format(form.escaped(one_line(name)), "").rstrip()
            lines += ["", head, "", form.to_the_letter(plain(text).rstrip())]
    return "\n".join(lines) + "\n"


def _fenced(text: str) -> str:
    ticks = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{ticks}\n{text}\n{ticks}"


def in_latex(text: str) -> str:
    """Return a text that LaTeX sets as it is, without a dash for two hyphens."""
    return text.translate(_LATEX).replace("--", "-{}-")


def _quoted(text: str) -> str:
    lines = in_latex(text).replace("  ", "~~").split("\n")
    return "\n".join(
        [r"{\ttfamily\raggedright", *(rf"\mbox{{}}{line}\\" for line in lines), r"\par}"]
    )


MARKDOWN = Form("# {}", "## {}", "- {}: {}", lambda text: _MARKDOWN.sub(r"\\\1", text), _fenced)
LATEX = Form(
    "% Texts may hold any character: use lualatex or xelatex.\n\\section*{{{}}}",
    r"\subsection*{{{}}}",
    r"\noindent\textbf{{{}}}: {}\par",
    in_latex,
    _quoted,
)


def write_latex(results: pa.RecordBatchReader, file: IO[bytes]) -> None:
    """Write rows as a booktabs table: numbers with two decimals, both ends of an interval in one column."""
    types = dict(zip(results.schema.names, results.schema.types, strict=True))
    names = [name for name in types if not name.endswith("_high")]
    sides = "".join("l" if pa.types.is_large_string(types[name]) else "r" for name in names)
    heads = ("95 % interval" if name.endswith("_low") else name.replace("_", " ") for name in names)
    lines = [
        f"\\begin{{tabular}}{{{sides}}}",
        r"\toprule",
        _line(map(in_latex, heads)),
        r"\midrule",
    ]
    lines += [_line(_cell(name, row) for name in names) for row in rows_of(results)]
    file.write("\n".join([*lines, r"\bottomrule", "\\end{tabular}\n"]).encode())


def _line(cells: Iterable[str]) -> str:
    return f"{' & '.join(cells)} \\\\"


def _cell(name: str, row: Mapping[str, Any]) -> str:
    value = row[name]
    if value is None:
        return ""
    if name.endswith("_low"):
        ends = (value, row[f"{name.removesuffix('_low')}_high"])
        return f"{{[}}{', '.join(_number(end) for end in ends)}{{]}}"
    if not isinstance(value, float):
        return in_latex(one_line(value))
    if name in {"p", "p_adjusted"}:
        return "$<$ .001" if value < 0.001 else f"{value:.3f}".lstrip("0")
    return _number(value)


def _number(value: float) -> str:
    return (str(value) if isinstance(value, int) else two_digits(value)).replace("-", "$-$")
