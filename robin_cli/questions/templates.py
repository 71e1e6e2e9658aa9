"""Untrusted templates: Jinja without its unbounded parts, and a limit on what a template makes of one prompt.

A received run brings its template along. So a template is refused before Jinja compiles it unless it holds only the kinds of
nodes below. In these, each value that an expression makes is charged to its prompt by its length. An operation makes at most a
small multiple of its operands; three filters can make more, and are charged first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any

from jinja2 import StrictUndefined, Template, TemplateSyntaxError, Undefined, nodes, pass_context
from jinja2.exceptions import SecurityError
from jinja2.filters import FILTERS, do_indent
from jinja2.meta import TrackingCodeGenerator
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

MOST_TOKENS = 5_000
"""The most names, signs and texts between them in a template. Jinja needs kilobytes for each."""

LEAST = 2_000_000
TIMES = 20
"""The characters that a prompt may make: LEAST and TIMES the characters of its template and its values."""

MOST = 20_000_000
"""The most characters beside three times its values, however long they are."""

_A_VALUE = 16
"""The charge for a value besides its characters: a step of a loop takes time, and an item of a list memory."""

_MOST_BITS = 64
_MOST_LOOPS = 10
"""The most nested loops: Jinja takes seconds for a hundred, and Python refuses the code for twenty."""

_MOST_CHARACTERS = 100
_METER = ""
"""The key of the meter among a prompt's values, which no template can write."""

_MAKE = (
    *("Name", "Const", "Tuple", "List", "Getattr", "Getitem", "Call", "Filter"),
    *("Concat", "Add", "Sub", "Div", "FloorDiv", "Neg", "Pos"),
)
"""Nodes that make values."""

_PLAIN = (
    *(
        "Template",
        "Block",
        "Output",
        "TemplateData",
        "If",
        "For",
        "Assign",
        "AssignBlock",
        "FilterBlock",
        "With",
    ),
    *("Scope", "CondExpr", "And", "Or", "Not", "Compare", "Operand", "Test", "Slice", "Keyword"),
)
_PAIRS = "write a list of pairs: [('a', 'b'), ('c', 'd')]"
_TOGETHER = "put texts and values together with ~, as in {{ 'from ' ~ low ~ ' to ' ~ high }}"
_JOINED = "use the filter join: {{ ['a', 'b'] | join(', ') }}"
_LOOP = "write the text out, or loop over a list"
_COPY = "a template is one file: copy the text into it"
_NAME = "give a name of its own with set"
_INSTEAD: Mapping[str, tuple[str, str]] = {
    "Mul": ("*", "write the text or the number out"),
    "Pow": ("**", "write the number out"),
    "Mod": ("%", f"{_TOGETHER}, or write the number out"),
    "Dict": ("a dictionary", _PAIRS),
    "Include": ("include", _COPY),
    "Extends": ("extends", _COPY),
    "Import": ("import", _COPY),
    "FromImport": ("import", _COPY),
    "Macro": ("macro", _LOOP),
    "CallBlock": ("call", _LOOP),
    "ScopedEvalContextModifier": ("autoescape", "use the filter e where a text is to be escaped"),
    "NSRef": ("namespace", _NAME),
}
_CALLED_INSTEAD: Mapping[str, str] = {
    "range": "write the numbers out, as in {% for number in [1, 2, 3] %}",
    "namespace": _NAME,
    "dict": _PAIRS,
    "joiner": _JOINED,
    "cycler": "ask for the place in the loop: {% if loop.index == 1 %}",
    "lipsum": "write the text out",
    "format": _TOGETHER,
    "join": _JOINED,
    "replace": "use the filter replace: {{ response | replace('a', 'b') }}",
}
_BARE = (
    *(
        "capitalize",
        "count",
        "e",
        "escape",
        "first",
        "float",
        "int",
        "last",
        "length",
        "list",
        "lower",
        "string",
    ),
    *("title", "tojson", "trim", "upper", "wordcount"),
)
"""Filters that may take no arguments."""

_METHODS = (
    *(
        "capitalize",
        "casefold",
        "endswith",
        "lower",
        "lstrip",
        "removeprefix",
        "removesuffix",
        "rstrip",
        "split",
    ),
    *("splitlines", "startswith", "strip", "title", "upper"),
)
_OF_LOOPS = ("first", "index", "index0", "last", "length", "revindex", "revindex0")


@lru_cache(maxsize=4)  # a command needs its template more than once
def compiled(source: str) -> tuple[Template, frozenset[str]]:
    """Parse and compile a template; return it with the names of the values that it asks for.

    Raises:
        TemplateSyntaxError: it is no template, or holds what templates may not.
        RecursionError, MemoryError, SyntaxError: it is nested too deeply.
    """
    if len(list(islice(_ENVIRONMENT.lex(source), MOST_TOKENS + 1))) > MOST_TOKENS:
        raise TemplateSyntaxError(
            f"has more than {MOST_TOKENS:,} names, signs and texts; write it shorter", 1
        )
    try:
        tree = _ENVIRONMENT.parse(source)
        _Charging().visit(tree)
        names = TrackingCodeGenerator(_ENVIRONMENT)
        names.optimizer = None  # charged values are never constant, and it would look for constants again at each depth
        names.visit(tree)
        return _ENVIRONMENT.from_string(tree), frozenset(names.undeclared_identifiers)
    except ValueError:  # Python limits the digits of a whole number in text
        raise TemplateSyntaxError("a number in it is too long; write a shorter one", 1) from None


def context_of(template: Template, source: str, values: Mapping[str, Any]) -> Context:
    """Return the context that renders ``values``; its blocks raise a SecurityError if the prompt makes too much."""
    held = len(source) + sum(len(value) for value in values.values() if isinstance(value, str))
    return template.new_context(
        {**values, _METER: _Meter(min(LEAST + TIMES * held, MOST + 3 * held))}
    )


class _Meter:
    """The characters that a prompt may still make."""

    def __init__(self, most: int) -> None:
        self._most = self._left = most

    def take(self, characters: int) -> None:
        self._left -= characters
        if self._left < 0:
            raise SecurityError(
                f"the prompt grows beyond {self._most:,} characters; loop over fewer items, or repeat less text"
            )

    def charge(self, value: object) -> None:
        """Charge ``value`` and its items: a list may hold another many times, and each is shown."""
        if isinstance(value, str):
            self.take(_A_VALUE + len(value))
            return
        self.take(_A_VALUE)
        if isinstance(value, list | tuple):
            for each in value:
                self.charge(each)
        elif isinstance(value, int) and value.bit_length() > _MOST_BITS:
            raise SecurityError("a number in it is too large; write a smaller one")
        elif not isinstance(value, int | float | Undefined | None):
            raise SecurityError(
                f"it uses a {type(value).__name__} as a value; use texts, numbers and lists only"
            )


class _Charging(NodeTransformer):
    """Refuses nodes without a bound and charges every value as it is made, which also stops Jinja from making it early."""

    _loops = 0

    def get_visitor(self, node: nodes.Node) -> Any:
        return getattr(self, f"_{type(node).__name__.lower()}", None)

    def generic_visit(self, node: nodes.Node, *args: Any, **kwargs: Any) -> nodes.Node:
        name = type(node).__name__
        if name not in _MAKE + _PLAIN:
            what, instead = _INSTEAD.get(name, (name.lower(), "leave it out"))
            raise _refused(node, what, instead)
        node = super().generic_visit(node, *args, **kwargs)
        if name in _MAKE and getattr(node, "ctx", "load") == "load":
            return _filtered(node, "charged")
        return node

    def _templatedata(self, node: nodes.TemplateData) -> nodes.Node:
        return self.visit(nodes.Const(node.data, lineno=node.lineno))  # type: ignore[no-any-return]

    def _for(self, node: nodes.For) -> nodes.Node:
        if node.recursive:
            raise _refused(node, "a recursive loop", "write a loop in a loop")
        self._loops += 1
        if self._loops > _MOST_LOOPS:
            raise RecursionError
        self.generic_visit(node)
        self._loops -= 1
        node.iter = _filtered(node.iter, "stepped")
        return node

    def _getattr(self, node: nodes.Getattr) -> nodes.Node:
        if (
            isinstance(node.node, nodes.Name)
            and node.node.name == "loop"
            and node.attr in _OF_LOOPS
        ):
            return _filtered(node, "charged")
        self.visit(node.node)
        raise _refused(
            node,
            f".{node.attr}",
            "values are texts and numbers: use them by their names, or through a filter",
        )

    def _call(self, node: nodes.Call) -> nodes.Node:
        method = node.node
        if not isinstance(method, nodes.Getattr) or method.attr not in _METHODS:
            called = getattr(method, "attr" if isinstance(method, nodes.Getattr) else "name", "")
            allowed = f"of a text you can call {', '.join(f'.{each}()' for each in _METHODS)}"
            raise _refused(node, f"the call {called}()", _CALLED_INSTEAD.get(called, allowed))
        short = all(
            isinstance(each, nodes.Const)
            and (not isinstance(each.value, str) or len(each.value) <= _MOST_CHARACTERS)
            for each in node.args
        )
        if not short or node.kwargs or node.dyn_args or node.dyn_kwargs:
            raise _refused(
                node,
                f".{method.attr}() with this",
                f"give it a text of at most {_MOST_CHARACTERS} characters",
            )
        method.node = self.visit(method.node)
        if method.attr in {"split", "splitlines"}:  # they may make a text of each character
            method.node = _filtered(method.node, "stepped")
        return _filtered(node, "charged")

    def _filter(self, node: nodes.Filter) -> nodes.Node:
        if node.name not in _ENVIRONMENT.filters or node.name in _CHARGES:
            raise _refused(
                node, f"the filter {node.name}", f"there are {', '.join(sorted(_FILTERS))}"
            )
        if node.dyn_args or node.dyn_kwargs or (node.name in _BARE and (node.args or node.kwargs)):
            raise _refused(node, f"the filter {node.name} with such arguments", "leave them out")
        return self.generic_visit(node)


def _filtered(node: nodes.Node, name: str) -> nodes.Filter:
    return nodes.Filter(node, name, [], [], None, None, lineno=node.lineno)


def _refused(node: nodes.Node, what: str, instead: str) -> TemplateSyntaxError:
    return TemplateSyntaxError(f"{what} is not allowed in a template; {instead}", node.lineno)


@pass_context
def _charged(context: Context, value: object) -> object:
    context.parent[_METER].charge(value)
    return value


@pass_context
def _stepped(context: Context, value: Sequence[object]) -> Sequence[object]:
    """Charge the steps of a loop over ``value``."""
    context.parent[_METER].take(_A_VALUE * len(value))
    return value


@pass_context
def _replace(context: Context, value: object, old: object, new: object, count: int = -1) -> str:
    text, old, new = str(value), str(old), str(new)
    context.parent[_METER].take(text.count(old) * len(new))
    return text.replace(old, new, count)


@pass_context
def _join(context: Context, value: Sequence[object], d: object = "") -> str:
    context.parent[_METER].take(len(str(d)) * len(value))
    return str(d).join(map(str, value))


@pass_context
def _indent(
    context: Context,
    value: str,
    width: int | str = 4,
    first: bool = False,  # noqa: FBT001, FBT002
    blank: bool = False,  # noqa: FBT001, FBT002
) -> str:  # Jinja's
    each = len(width) if isinstance(width, str) else max(0, width)
    context.parent[_METER].take(each * (len(str(value).splitlines()) + 1))
    return do_indent(value, width, first, blank)


_CHARGES = {"charged": _charged, "stepped": _stepped}
_FILTERS = {name: FILTERS[name] for name in (*_BARE, "d", "default", "truncate")}
_FILTERS |= {"replace": _replace, "join": _join, "indent": _indent}

_ENVIRONMENT = ImmutableSandboxedEnvironment(
    undefined=StrictUndefined,
    autoescape=False,  # the judge reads plain text
    keep_trailing_newline=True,
    optimized=False,
)
_ENVIRONMENT.filters = _FILTERS | _CHARGES
_ENVIRONMENT.globals = {}
