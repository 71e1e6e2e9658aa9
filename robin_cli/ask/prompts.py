"""Makes a judge's messages from template, rubric and pair."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

import msgspec

from robin_cli.ask.kinds import Kind
from robin_cli.ask.ratings import RATING
from robin_cli.ask.rubrics import Rubric, read_rubric, rubric_of, rubric_path
from robin_cli.ask.templates import compile_template, known_templates, read_template
from robin_cli.ask.verdicts import VERDICT, kind_of, verdict_rubric
from robin_cli.data.chats import readable_turns
from robin_cli.data.images import Image, numbered
from robin_cli.model.errors import InputError
from robin_cli.model.exchange import Message
from robin_cli.model.records import Pair


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
        pairwise: ask which of two responses is better; ``ties``: neither may be.

    Raises:
        InputError: no attribute, one without a rubric, a file that is wrong, several criteria, or a template for JSON alone.
    """
    rubrics = _load_rubrics(attributes, rubric_files, pairwise=pairwise)
    criterion = rubrics[0] if pairwise and rubrics else None
    if pairwise:
        rubrics = [verdict_rubric(criterion, ties=ties)]
    kind, writing = kind_of(pairwise=pairwise), set(answers) - {"decisions"}
    prompts = PromptSet(
        rubrics,
        read_template(template or (kind.template if writing else kind.input), kind),
        kind.request_json(rubrics[0].scale) if "json" in writing else "",
        criterion,
        f"--template {template}" if template else "--template",
        kind,
        is_mixed=bool(writing) and "decisions" in answers,
    )
    fact = ""
    if writing and template in {RATING.input, VERDICT.input}:
        fact = "is for decision models and asks for no answer; leave it out, or judge with --answers decisions alone"
    elif prompts.asks_all and not writing:
        fact = "asks for JSON, which a decision model does not write; leave it out: one request asks for all attributes"
    elif prompts.asks_all and writing != {"json"}:
        others = ", ".join(known_templates(pairwise=False))
        fact = (
            "asks for all attributes in one answer, which is read as JSON; add --answers json, or take another template: "
            f"{others}"
        )
    if fact:
        raise InputError(f"{prompts.origin}: {fact}")
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
    names, fact = attributes or list(by_attribute), ""
    if unused := [name for name in by_attribute if name not in names]:
        fact = (
            f'--rubric: there is one for "{unused[0]}", and --attribute asks for {", ".join(names)}; '
            "add it there, or leave --attribute out"
        )
    elif not names and not pairwise:
        fact = "--attribute is missing: name what to rate, for example --attribute helpfulness"
    elif pairwise and len(names) > 1:
        fact = (
            f"--pairwise: one criterion decides which response is better, and there are {', '.join(names)}; name one "
            "--attribute, or none"
        )
    if fact:
        raise InputError(fact)
    return [by_attribute.get(name) or rubric_of(name) for name in names]


@dataclass(eq=False)
class PromptSet:
    """The template and the rubrics of a run, ready to render.

    Text from the data is a value for the template, never a template: braces, Jinja marks and rating lines inside a pair reach
    the judge unchanged.

    Attributes:
        rubric_list: one for each attribute, in order; ``rubrics``: the same by attribute.
        source: the text of a Jinja template with a block ``user`` and perhaps a block ``system``.
        request: text at the end of the question, for example how to answer.
        criterion: of the better response in a pairwise run, if there is one.
        origin: where the template comes from, for errors.
        kind: of question.
        images: the folder of images that are files.
        is_mixed: whether decision models read another template than this one, robin's own.
        decided_by: that other template; "" if all judges read the same.
        attributes, scales: the rated attributes and their scales, in order.
        human_ratings: for each attribute, the attribute of the data with its human ratings.
        renamed_ratings: the same by attribute, of those whose names differ.
        asks_all: whether the template asks for all attributes in one answer.
        wants_reference: whether it shows a reference answer, which every pair must then have.

    Raises:
        InputError: a template that is wrong, or asks for unknown values.
    """

    rubric_list: Sequence[Rubric]
    source: str
    request: str = ""
    criterion: Rubric | None = None
    origin: str = "--template"
    kind: Kind = RATING
    images: str = ""
    is_mixed: bool = False

    def __post_init__(self) -> None:
        self.rubrics = {rubric.attribute: rubric for rubric in self.rubric_list}
        rubrics = self.rubrics.values()
        self.attributes, self.scales = (
            tuple(self.rubrics),
            tuple(rubric.scale for rubric in rubrics),
        )
        self.renamed_ratings = {
            rubric.attribute: rubric.human for rubric in rubrics if rubric.human
        }
        self.human_ratings = tuple(rubric.human or rubric.attribute for rubric in rubrics)
        self.decided_by = read_template(self.kind.input) if self.is_mixed else ""
        self._template = compile_template(self.source, self.kind, self.origin)
        other = self.decided_by or self.source
        self._for_decisions = compile_template(other, self.kind, self.origin)
        self.asks_all = "attributes" in self._template.asked
        self.wants_reference = "reference" in self._template.asked
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

    def asks_together(self, answers: str) -> bool:
        """Return whether one request asks a judge of this form of ``answers`` about several attributes."""
        return answers == "decisions" or (answers == "json" and self.asks_all)

    def structure(self, answers: str, attributes: Sequence[str]) -> Mapping[str, Any]:
        """Return the fields of a request's body that say how to answer for ``attributes``: a schema, or questions."""
        rubrics = [self.rubrics[name] for name in attributes]
        if answers == "decisions":
            return {"questions": [self.kind.decision(rubric, self.criterion) for rubric in rubrics]}
        if answers != "json":
            return {}
        names = attributes if self.asks_all else [self.kind.noun] * len(rubrics)
        scales = (rubric.scale for rubric in rubrics)
        return self.kind.structure(tuple(zip(names, scales, strict=True)))

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
            values["attributes"] = [self.rubrics[name].values for name in along or [attribute]]
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
