"""Makes a judge's messages from template, rubric and pair."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any

import msgspec
from jinja2 import TemplateError, TemplateSyntaxError

from robin_cli.ask.base import Kind
from robin_cli.ask.kinds import kind_of
from robin_cli.ask.prefer import PREFER, verdict_rubric
from robin_cli.ask.rate import RATE, values_of
from robin_cli.ask.rubric_files import Rubric, read_rubric
from robin_cli.ask.templates import compiled, rendered
from robin_cli.data.chats import readable_turns
from robin_cli.data.images import Image, numbered
from robin_cli.data.local import read_small_file, shipped
from robin_cli.model.errors import InputError, did_you_mean
from robin_cli.model.exchange import Message
from robin_cli.model.records import Pair, Scale

_FOR_SOME = {RATE.input, PREFER.input, "all-attributes"}
"""The shipped templates that only decision models, or only judges by JSON, may be asked with."""

_SUFFIX = ".jinja"
_RENDERING = (
    *(TemplateError, ArithmeticError, AssertionError, LookupError),
    *(NameError, TypeError, ValueError, RecursionError),
)
"""Errors that expressions in a template raise."""

_SHORT = 20
"""Characters of a made-up response."""


def rubric_of(attribute: str) -> Rubric:
    """Return the shipped rubric for ``attribute``.

    Raises:
        InputError: there is none; the message lists the shipped ones.
    """
    known = known_attributes()
    if attribute not in known:
        near = did_you_mean(attribute, known)
        raise InputError(
            f'--attribute "{attribute}": no rubric for it; there are {", ".join(known)}{near or ", or your own: --rubric FILE"}'
        )
    return read_rubric(_rubrics() / f"{attribute}.toml")


def known_attributes() -> list[str]:
    """Return the attributes with a shipped rubric, sorted."""
    return sorted(entry.stem for entry in _rubrics().glob("*.toml"))


def known_templates(*, pairwise: bool | None = None) -> list[str]:
    """Return the names of the shipped templates, sorted; ``pairwise`` keeps those that are, or are not, and fit any answers."""
    names = sorted(entry.stem for entry in shipped("prompts").glob(f"*{_SUFFIX}"))
    if pairwise is None:
        return names
    return [n for n in names if (n == PREFER.template) == pairwise and n not in _FOR_SOME]


def is_shipped_template(sha256: str) -> bool:
    """Return whether a template with this SHA-256 of its text is one of the shipped ones."""
    texts = map(_template_text, known_templates())
    return any(hashlib.sha256(text.encode()).hexdigest() == sha256 for text in texts)


def prompt_source(name: str) -> str:
    """Return the text of a shipped rubric or template, to copy from. InputError if there is none of that name."""
    if name in known_templates():
        return _template_text(name)
    rubric_of(name)
    return (_rubrics() / f"{name}.toml").read_text(encoding="utf-8")


def load_prompts(
    attributes: Sequence[str] = (),
    rubric_files: Sequence[str] = (),
    template: str | None = None,
    answers: Sequence[str] = ("text",),
    *,
    pairwise: bool = False,
    ties: bool = True,
) -> PromptSet:
    """Return the prompts of a run.

    Args:
        attributes: those to rate; empty for those of the files. In a pairwise run, the one criterion of the better response,
            or none.
        rubric_files: rubrics of the user's own; each replaces a shipped one of its attribute.
        template: a file, or the name of a shipped one; None for the paper's, or robin's own for comparisons. Beside judges
            that write, decision models read robin's own.
        answers: of each judge; for JSON the question ends with that request.
        pairwise: ask which of two responses is better.
        ties: allow the answer that neither is better.

    Raises:
        InputError: no attribute, one without a rubric, a file that is wrong, several criteria, or a template for JSON alone.
    """
    own: dict[str, Rubric] = {}
    for file in rubric_files:
        rubric = read_rubric(Path(file))
        if rubric.attribute in own:
            raise InputError(
                f'--rubric {file}: "{rubric.attribute}" has a rubric already, from another file'
            )
        own[rubric.attribute] = rubric
    if unused := [name for name in own if attributes and name not in attributes]:
        raise InputError(
            f'--rubric: there is one for "{unused[0]}", and --attribute asks for {", ".join(attributes)}; '
            "add it there, or leave --attribute out"
        )
    wanted = tuple(attributes) or tuple(own)
    if not wanted and not pairwise:
        raise InputError(
            "--attribute is missing: name what to rate, for example --attribute helpfulness"
        )
    if pairwise and len(wanted) > 1:
        raise InputError(
            f"--pairwise: one criterion decides which response is better, and there are {', '.join(wanted)}; name one "
            "--attribute, or none"
        )
    rubrics = [own.get(name) or rubric_of(name) for name in wanted]
    kind = kind_of(pairwise=pairwise)
    writing = [form for form in answers if form != "decisions"]
    text = _template_text(template or (kind.template if writing else kind.input), kind)
    is_mixed = 0 < len(writing) < len(answers)
    criterion = rubrics[0] if pairwise and rubrics else None
    asked = [verdict_rubric(criterion, ties=ties)] if pairwise else rubrics
    request = kind.form.request("json" if "json" in writing else "", asked[0].scale)
    named = f"--template {template}" if template else "--template"
    prompts = PromptSet(asked, text, request, criterion, named, kind, is_mixed=is_mixed)
    if writing and template in {RATE.input, PREFER.input}:
        raise InputError(
            f"{named}: is for decision models and asks for no answer; leave it out, or judge with --answers decisions alone"
        )
    if prompts.asks_all and not writing:
        raise InputError(
            f"{named}: asks for JSON, which a decision model does not write; leave it out: one request asks for all attributes"
        )
    if prompts.asks_all and set(writing) - {"json"}:
        raise InputError(
            f"{named}: asks for all attributes in one answer, which is read as JSON; add --answers json, or take another "
            f"template: {', '.join(known_templates(pairwise=False))}"
        )
    return prompts


class PromptSet:
    """The template and the rubrics of a run, ready to render.

    Text from the data is a value for the template, never a template: braces, Jinja marks and rating lines inside a pair reach
    the judge unchanged.

    Args:
        rubrics: one for each attribute, in order.
        template: the text of a Jinja template with a block ``user`` and perhaps a block ``system``.
        request: text at the end of the question, for example how to answer.
        criterion: of the better response in a pairwise run, if there is one.
        named: the template's name in errors.
        kind: of question.
        images: the folder of images that are files.
        is_mixed: whether decision models read another template than this one, robin's own.

    Attributes:
        decided_by: the text of that one; "" if all judges read the same.

    Raises:
        InputError: a template that is wrong, or asks for unknown values.
    """

    def __init__(
        self,
        rubrics: Sequence[Rubric],
        template: str,
        request: str = "",
        criterion: Rubric | None = None,
        named: str = "--template",
        kind: Kind = RATE,
        images: str = "",
        *,
        is_mixed: bool = False,
    ) -> None:
        self.images = images
        self.kind = kind
        self._source = template
        self.decided_by = _template_text(kind.input, kind) if is_mixed else ""
        self._named = named
        self.rubrics = {rubric.attribute: rubric for rubric in rubrics}
        self.criterion = criterion
        self._variables = self._checked()
        self._for_decisions = compiled(self.decided_by or template)[0]
        self._request = "" if self.asks_all else request

    @classmethod
    def from_record(cls, record: Mapping[str, Any], *, pairwise: bool = False) -> PromptSet:
        """Return the prompts of a :attr:`record`; ``pairwise``: they ask which of two responses is better."""
        rubrics = msgspec.convert(record["rubrics"], list[Rubric])
        criterion = msgspec.convert(record.get("criterion"), Rubric | None)
        named = "the template of this run (only a new run can have another)"
        kind, images = kind_of(pairwise=pairwise), record.get("images", "")
        text, request = record["template"], record.get("request", "")
        is_mixed = record.get("is_mixed", False)
        return cls(rubrics, text, request, criterion, named, kind, images, is_mixed=is_mixed)

    @property
    def record(self) -> dict[str, Any]:
        """The prompts as JSON values, as a run's manifest keeps them."""
        request = {"request": self._request} if self._request else {}
        criterion = {"criterion": msgspec.to_builtins(self.criterion)} if self.criterion else {}
        rubrics = msgspec.to_builtins(list(self.rubrics.values()))
        images = {"images": self.images} if self.images else {}
        mixed = {"is_mixed": True} if self.decided_by else {}
        rest = {**criterion, **images, **mixed}
        return {"template": self._source, **request, "rubrics": rubrics, **rest}

    @property
    def attributes(self) -> tuple[str, ...]:
        """The rated attributes, in order."""
        return tuple(self.rubrics)

    @property
    def scales(self) -> tuple[Scale, ...]:
        """The scale of each attribute, in order."""
        return tuple(rubric.scale for rubric in self.rubrics.values())

    @property
    def human_ratings(self) -> tuple[str, ...]:
        """For each attribute, the attribute of the data with its human ratings."""
        return tuple(rubric.human or rubric.attribute for rubric in self.rubrics.values())

    @property
    def wants_reference(self) -> bool:
        """Whether the template shows a reference answer, which every pair must then have."""
        return "reference" in self._variables

    @property
    def asks_all(self) -> bool:
        """Whether the template asks for all attributes in one answer."""
        return "attributes" in self._variables

    def structure(self, answers: str, attributes: Sequence[str]) -> Mapping[str, Any]:
        """Return the fields of a request's body that say how to answer for ``attributes``: a schema, or questions."""
        form = self.kind.form
        if answers == "decisions":
            asked = (self.kind.decision(self.rubrics[name], self.criterion) for name in attributes)
            return {"questions": list(asked)}
        if answers != "json":
            return {}
        scales = (
            (name if self.asks_all else form.name, self.rubrics[name].scale) for name in attributes
        )
        return form.structure(tuple(scales))

    def asks_together(self, answers: str) -> bool:
        """Return whether one request asks a judge of this form of ``answers`` about several attributes."""
        return answers == "decisions" or (answers == "json" and self.asks_all)

    @property
    def sha256(self) -> str:
        """Hash of the template and the rubrics' texts: two runs with the same one asked the same questions."""
        digest = hashlib.sha256((self._source + self._request + self.decided_by).encode())
        rubrics = dict(
            zip(self.kind.asked_for(self.attributes), cycle(self.rubrics.values()), strict=False)
        )
        for asked, rubric in sorted(rubrics.items()):
            digest.update(f"\0{asked}\0{rubric.scale}\0{rubric.text}".encode())
        if self.criterion is not None:
            digest.update(
                f"\0criterion\0{self.criterion.attribute}\0{self.criterion.text}".encode()
            )
        return digest.hexdigest()

    def messages(
        self,
        pair: Pair,
        attribute: str,
        variant: int = 0,
        answers: str | None = None,
        along: Sequence[str] = (),
    ) -> list[Message]:
        """Return the messages that ask for ``attribute`` of ``pair``: perhaps a system message, and the user's.

        Images are numbered in the texts, and listed in this order under ``images`` in the user's message.

        Args:
            variant: of the question, by number, see :attr:`Kind.variants`.
            answers: the judge's form of answers; None for that of all judges.
            along: the attributes that the same request asks for, if there are several.
        """
        template = self._for_decisions if answers == "decisions" else self._template
        filled = self.kind.filled(pair, self.rubrics[attribute], variant, self.criterion)
        values = {"instruction": readable_turns(pair.prompt), **filled}
        if pair.reference is not None:
            values["reference"] = pair.reference
        if self.asks_all:
            values["attributes"] = [values_of(self.rubrics[name]) for name in along or [attribute]]
        images: dict[Image, int] = {}
        values = {
            name: numbered(value, self.images, images) if isinstance(value, str) else value
            for name, value in values.items()
        }
        try:
            texts = rendered(template, values)
        except _RENDERING as error:
            raise InputError(
                f"{self._named}: cannot be rendered for pair {pair.pair_id} ({error})"
            ) from error
        texts["user"] += self._request if answers in {None, "json"} else ""
        messages: list[Message] = [{"role": role, "content": text} for role, text in texts.items()]
        return [*messages[:-1], {**messages[-1], "images": tuple(images)}] if images else messages

    @property
    def renamed_ratings(self) -> Mapping[str, str]:
        """Attributes whose rubric names another attribute of the data for human ratings, and its name."""
        return {rubric.attribute: rubric.human for rubric in self.rubrics.values() if rubric.human}

    def check_references(self, pairs: Sequence[Pair]) -> None:
        """InputError if the template shows a reference answer and one of ``pairs`` has none."""
        if not self.wants_reference:
            return
        lacking = [pair.pair_id for pair in pairs if pair.reference is None]
        if lacking:
            raise InputError(
                f"--template: shows a reference answer, and {len(lacking)} of {len(pairs)} pairs have none, the first "
                f'"{lacking[0]}"; say where it stands with --columns reference=NAME'
            )

    def check_responses_shown(self, pair: Pair) -> None:
        """InputError if a prompt of ``pair`` stays the same whatever a response says: every rating would be of nothing."""
        ways: list[tuple[str, str | None, Callable[[str], Pair]]] = [
            (
                (self.kind.needed or ("response",))[0],
                pair.response,
                lambda text: replace(pair, response=text),
            ),
            ("response_b", pair.other, lambda text: replace(pair, other=text)),
        ]
        for attribute in self.attributes:
            for name, here, saying in ways:
                if here is not None and not self._shows(here, attribute, saying):
                    raise InputError(
                        f"{self._named}: never shows {name}: the prompt for {attribute} stays the same whatever it says. Write "
                        f"{{{{ {name} }}}} into the template"
                    )

    def _shows(self, here: str, attribute: str, saying: Callable[[str], Pair]) -> bool:
        """Return whether a response changes the prompt; its length alone, or a limit on it, do not decide."""
        long = max(len(here), 1)
        for texts in ((here, "a" * long, "b" * long), ("a" * _SHORT, "b" * _SHORT)):
            try:
                first, *others = (self.messages(saying(text), attribute) for text in texts)
            except InputError:  # the template looks into the response: a made-up one may not fit
                return True
            if any(other != first for other in others):
                return True
        return False

    def _checked(self) -> frozenset[str]:
        """Compile the template, and return the values that it asks for."""
        try:
            self._template, asked = compiled(self._source)
        except TemplateSyntaxError as error:
            raise InputError(f"{self._named}, line {error.lineno}: {error.message}") from None
        except (
            RecursionError,
            MemoryError,
            SyntaxError,
        ):  # from Jinja's parser, or Python's on Jinja's output
            raise InputError(
                f"{self._named}: its expressions or blocks are nested too deeply; write it flatter"
            ) from None
        if "user" not in self._template.blocks:
            raise InputError(
                f"{self._named}: has no block user; write {{% block user %}} … {{% endblock %}} around the question"
            )
        known, needed = self.kind.values, self.kind.needed
        if not asked.issuperset(needed):
            raise InputError(
                f"{self._named}: does not show {' and '.join(each for each in needed if each not in asked)}, which --pairwise "
                f"compares; take one for two responses ({', '.join(known_templates(pairwise=True))}), or leave --template out"
            )
        if not needed and not asked.isdisjoint(PREFER.needed):
            raise InputError(
                f"{self._named}: shows two responses, and one is rated here; add --pairwise, or take another: "
                f"{', '.join(known_templates(pairwise=False))}"
            )
        for name in sorted(asked - set(known)):
            line = next(
                (at for at, text in enumerate(self._source.splitlines(), 1) if name in text), 0
            )
            raise InputError(
                f'{self._named}, line {line}: there is no value "{name}"; there are {", ".join(known)}'
                f"{did_you_mean(name, known)}"
            )
        return asked


def _template_text(template: str | None, kind: Kind = RATE) -> str:
    name = template or kind.template
    ready = shipped("prompts") / f"{name}{_SUFFIX}"
    path = ready if "/" not in name and "\\" not in name and ready.is_file() else Path(name)
    try:
        return read_small_file(path, f"--template {name}")
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        known = known_templates(pairwise=kind is PREFER)
        raise InputError(
            f"--template {name}: cannot be read ({getattr(error, 'strerror', None) or error}); ready ones, by name, are "
            f"{', '.join(known)}{did_you_mean(name, known_templates())}"
        ) from None


def _rubrics() -> Path:
    return shipped("prompts") / "rubrics"
