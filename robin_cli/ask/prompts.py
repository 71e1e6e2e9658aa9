"""Makes a judge's messages from template, rubric and pair."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle
from pathlib import Path
from typing import Any

import msgspec

from robin_cli.ask.kinds import PREFER, RATE, Kind, kind_of, rubric_values, verdict_rubric
from robin_cli.ask.rubrics import Rubric, read_rubric, rubric_of, rubric_path
from robin_cli.ask.templates import compile_template, known_templates, read_template
from robin_cli.data.chats import readable_turns
from robin_cli.data.images import Image, numbered
from robin_cli.model.errors import InputError
from robin_cli.model.exchange import Message
from robin_cli.model.records import Pair, Scale

_SHORT = 20
"""Characters of a made-up response."""


def prompt_source(name: str) -> str:
    """Return the text of a shipped rubric or template, to copy from. InputError if there is none of that name."""
    if name in known_templates():
        return read_template(name)
    rubric_of(name)
    return rubric_path(name).read_text(encoding="utf-8")


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
    rubrics = _load_rubrics(attributes, rubric_files, pairwise=pairwise)
    criterion = rubrics[0] if pairwise and rubrics else None
    if pairwise:
        rubrics = [verdict_rubric(criterion, ties=ties)]
    kind = kind_of(pairwise=pairwise)
    writing = {way for way in answers if way != "decisions"}
    prompts = PromptSet(
        rubrics,
        read_template(template or (kind.template if writing else kind.input), kind),
        kind.form.request_json(rubrics[0].scale) if "json" in writing else "",
        criterion,
        f"--template {template}" if template else "--template",
        kind,
        is_mixed=bool(writing) and "decisions" in answers,
    )
    _check_template_fits(prompts, template, writing)
    return prompts


def _load_rubrics(
    attributes: Sequence[str], files: Sequence[str], *, pairwise: bool
) -> list[Rubric]:
    by_attribute: dict[str, Rubric] = {}
    for file in files:
        rubric = read_rubric(Path(file))
        if rubric.attribute in by_attribute:
            raise InputError(
                f'--rubric {file}: "{rubric.attribute}" has a rubric already, from another file'
            )
        by_attribute[rubric.attribute] = rubric
    if unused := [name for name in by_attribute if attributes and name not in attributes]:
        raise InputError(
            f'--rubric: there is one for "{unused[0]}", and --attribute asks for {", ".join(attributes)}; '
            "add it there, or leave --attribute out"
        )
    names = attributes or list(by_attribute)
    if not names and not pairwise:
        raise InputError(
            "--attribute is missing: name what to rate, for example --attribute helpfulness"
        )
    if pairwise and len(names) > 1:
        raise InputError(
            f"--pairwise: one criterion decides which response is better, and there are {', '.join(names)}; name one "
            "--attribute, or none"
        )
    return [by_attribute.get(name) or rubric_of(name) for name in names]


def _check_template_fits(prompts: PromptSet, template: str | None, writing: set[str]) -> None:
    """Check that judges that write answers in the ways ``writing`` can do what the template asks."""
    fact = ""
    if writing and template in {RATE.input, PREFER.input}:
        fact = "is for decision models and asks for no answer; leave it out, or judge with --answers decisions alone"
    elif prompts.asks_all and not writing:
        fact = "asks for JSON, which a decision model does not write; leave it out: one request asks for all attributes"
    elif prompts.asks_all and writing != {"json"}:
        fact = (
            "asks for all attributes in one answer, which is read as JSON; add --answers json, or take another template: "
            f"{', '.join(known_templates(pairwise=False))}"
        )
    if fact:
        raise InputError(f"{prompts.origin}: {fact}")


@dataclass(eq=False)
class PromptSet:
    """The template and the rubrics of a run, ready to render.

    Text from the data is a value for the template, never a template: braces, Jinja marks and rating lines inside a pair reach
    the judge unchanged.

    Attributes:
        rubric_list: one for each attribute, in order.
        source: the text of a Jinja template with a block ``user`` and perhaps a block ``system``.
        request: text at the end of the question, for example how to answer.
        criterion: of the better response in a pairwise run, if there is one.
        origin: where the template comes from, for errors.
        kind: of question.
        images: the folder of images that are files.
        is_mixed: whether decision models read another template than this one, robin's own.

    Raises:
        InputError: a template that is wrong, or asks for unknown values.
    """

    rubric_list: Sequence[Rubric]
    source: str
    request: str = ""
    criterion: Rubric | None = None
    origin: str = "--template"
    kind: Kind = RATE
    images: str = ""
    is_mixed: bool = False

    def __post_init__(self) -> None:
        kind = self.kind
        self.rubrics = {rubric.attribute: rubric for rubric in self.rubric_list}
        self._template = compile_template(self.source, kind, self.origin)
        other = read_template(kind.input) if self.is_mixed else self.source
        self._for_decisions = compile_template(other, kind, self.origin)
        if self.asks_all:
            self.request = ""  # the template itself asks for JSON

    @classmethod
    def from_record(cls, record: Mapping[str, Any], *, pairwise: bool = False) -> PromptSet:
        """Return the prompts of a :attr:`record`; ``pairwise``: they ask which of two responses is better."""
        return cls(
            msgspec.convert(record["rubrics"], list[Rubric]),
            record["template"],
            record.get("request", ""),
            msgspec.convert(record.get("criterion"), Rubric | None),
            "the template of this run (only a new run can have another)",
            kind_of(pairwise=pairwise),
            record.get("images", ""),
            record.get("is_mixed", False),
        )

    @property
    def record(self) -> dict[str, Any]:
        """The prompts as JSON values, as a run's manifest keeps them."""
        record = {
            "template": self.source,
            "request": self.request,
            "rubrics": msgspec.to_builtins(list(self.rubrics.values())),
            "criterion": msgspec.to_builtins(self.criterion),
            "images": self.images,
            "is_mixed": self.is_mixed,
        }
        return {name: value for name, value in record.items() if value}

    @property
    def decided_by(self) -> str:
        """The template that decision models read; "" if all judges read the same."""
        return self._for_decisions.source if self.is_mixed else ""

    @property
    def sha256(self) -> str:
        """Hash of the template and the rubrics' texts: two runs with the same one asked the same questions."""
        digest = hashlib.sha256((self.source + self.request + self.decided_by).encode())
        variants = self.kind.variants
        asked = variants if len(variants) > 1 else self.attributes
        for name, rubric in sorted(dict(zip(asked, cycle(self.rubrics.values()))).items()):
            digest.update(f"\0{name}\0{rubric.scale}\0{rubric.text}".encode())
        if self.criterion is not None:
            digest.update(
                f"\0criterion\0{self.criterion.attribute}\0{self.criterion.text}".encode()
            )
        return digest.hexdigest()

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
    def renamed_ratings(self) -> Mapping[str, str]:
        """Attributes whose rubric names another attribute of the data for human ratings, and its name."""
        return {rubric.attribute: rubric.human for rubric in self.rubrics.values() if rubric.human}

    @property
    def wants_reference(self) -> bool:
        """Whether the template shows a reference answer, which every pair must then have."""
        return "reference" in self._template.asked

    @property
    def asks_all(self) -> bool:
        """Whether the template asks for all attributes in one answer."""
        return "attributes" in self._template.asked

    def asks_together(self, answers: str) -> bool:
        """Return whether one request asks a judge of this form of ``answers`` about several attributes."""
        return answers == "decisions" or (answers == "json" and self.asks_all)

    def structure(self, answers: str, attributes: Sequence[str]) -> Mapping[str, Any]:
        """Return the fields of a request's body that say how to answer for ``attributes``: a schema, or questions."""
        rubrics = [self.rubrics[name] for name in attributes]
        if answers == "decisions":
            return {"questions": [self.kind.decision(each, self.criterion) for each in rubrics]}
        if answers != "json":
            return {}
        name = self.kind.form.name
        return self.kind.form.structure(
            tuple((each.attribute if self.asks_all else name, each.scale) for each in rubrics)
        )

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
            answers: the form of the judge's answers; None if all judges have the same.
            along: the attributes that the same request asks for, if there are several.
        """
        filled = self.kind.fill(pair, self.rubrics[attribute], variant, self.criterion)
        values = {"instruction": readable_turns(pair.prompt), **filled}
        if pair.reference is not None:
            values["reference"] = pair.reference
        if self.asks_all:
            values["attributes"] = [
                rubric_values(self.rubrics[name]) for name in along or [attribute]
            ]
        images: dict[Image, int] = {}
        for name, value in values.items():
            if isinstance(value, str):
                values[name] = numbered(value, self.images, images)
        template = self._for_decisions if answers == "decisions" else self._template
        texts = template.render(values, pair.pair_id)
        texts["user"] += self.request if answers in {None, "json"} else ""
        messages: list[Message] = [{"role": role, "content": text} for role, text in texts.items()]
        return [*messages[:-1], {**messages[-1], "images": tuple(images)}] if images else messages

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
        for attribute in self.attributes:
            for name, field in self.kind.responses.items():
                if not self._shows(field, pair, attribute):
                    raise InputError(
                        f"{self.origin}: never shows {name}: the prompt for {attribute} stays the same whatever it says. Write "
                        f"{{{{ {name} }}}} into the template"
                    )

    def _shows(self, field: str, pair: Pair, attribute: str) -> bool:
        """Return whether a response changes the prompt; its length alone, or a limit on it, do not decide."""

        def saying(text: str) -> list[Message]:
            change: dict[str, Any] = {field: text}
            return self.messages(replace(pair, **change), attribute)

        real = getattr(pair, field)
        long = max(len(real), 1)
        for texts in ((real, "a" * long, "b" * long), ("a" * _SHORT, "b" * _SHORT)):
            try:
                first, *others = map(saying, texts)
            except InputError:  # the template looks into the response: a made-up one may not fit
                return True
            if any(other != first for other in others):
                return True
        return False
