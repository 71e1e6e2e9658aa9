"""The work at the page of ``robin label``: whole prompts at random, blind, each label on disk at once."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from datetime import UTC, datetime
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from robin_cli.data.chats import readable_turns
from robin_cli.goals.labels import decided_together, labelled_texts, read_labels
from robin_cli.goals.registry import goal_of_run
from robin_cli.model.errors import InputError, StorageError
from robin_cli.model.records import number_of
from robin_cli.run.labels import add_labels, kept_labels, remove_label
from robin_cli.run.layout import LABELS
from robin_cli.run.reader import RunReader
from robin_cli.session.inputs import recorded_prompts
from robin_cli.show.text import one_line
from robin_cli.stats.agreement import krippendorff
from robin_cli.stats.run_labels import labelling_order

MOST_COMMENT = 2_000
"""Characters of a comment."""


class Item(NamedTuple):
    """A thing to label: a pair and an attribute, by number."""

    pair: int
    attribute: int


class Labelling:
    """A run's labels while people work on them.

    Args:
        run: the run, whose scored pairs are labelled, whole prompts in the random order of
            ``labels-wanted``.
        n: pairs that each person is to label, those labelled before included; more if they would
            end within a group, a part of which decides nothing.

    Attributes:
        items: what is labelled, in order.
        said: each person's labels, by the number of the item.

    Raises:
        InputError: no pair has a score, or the labels that the run keeps cannot be read.
    """

    def __init__(self, run: RunReader, n: int) -> None:
        self.run, self._prompts = run, recorded_prompts(run.manifest)
        self.is_of_two = run.manifest.is_pairwise
        self._is_kept = kept_labels(run.path) is not None
        if self._is_kept:
            add_labels(run.path)  # says whether labels can be added to those that there are
        scores = goal_of_run(run).result(run).scores.numbers("score")
        is_rated = ~np.isnan(run.space.by_pair(scores)).any(axis=1)
        order = [pair for pair in labelling_order(run).tolist() if is_rated[pair]]
        group = decided_together(run)
        while group is not None and n < len(order) and group[order[n]] == group[order[n - 1]]:
            n += 1
        attributes = run.manifest.attributes
        self.items = [Item(pair, each) for pair in order[:n] for each in range(len(attributes))]
        if not self.items:
            raise InputError(
                f"{run.name}: no pair has a score, so there is nothing to label; judge first"
            )
        self.given_labels: dict[str, dict[int, float]] = defaultdict(dict)
        self._last: dict[str, list[tuple[int, dict[str, Any]]]] = defaultdict(list)
        self._comments: dict[tuple[str, int], str] = {}
        self._skipped: dict[str, set[int]] = defaultdict(set)
        given = read_labels(None, run)
        labels = {} if given is None else given.by_labeller
        for number, (pair, attribute) in enumerate(self.items):
            of_pair = labels.get(attributes[attribute], {}).get(run.pair_ids[pair], {})
            for labeller, label in of_pair.items():
                self.given_labels[labeller][number] = label.value

    @property
    def caution(self) -> str:
        """Return the notes before the first label; "" if none."""
        if all(np.isnan(values).all() for values in self.run.human.values()):
            return ""
        return (
            f"your labels replace the data's human ratings in this run; delete {LABELS} to go back"
        )

    def shown(self, labeller: str) -> dict[str, Any]:
        """Return the page's next content for one person; ``item`` is None once all is labelled."""
        said, skipped = self.given_labels[labeller], self._skipped[labeller]
        left = (k for k in range(len(self.items)) if k not in said and k not in skipped)
        number = next(left, None)
        return {
            "labelled": len(said),
            "wanted": len(self.items) - len(skipped),
            "can_undo": bool(self._last[labeller]),
            "item": None if number is None else self._item(number, labeller),
            "note": self.caution,
        }

    def label(self, labeller: str, number: int, value: float, comment: str) -> None:
        """Save a label; it is on disk when this returns. InputError for an invalid one, StorageError if the disk refuses."""
        self._check(number, value)
        if self._is_swapped(number, labeller):
            value = 1.0 - value
        row = self._write(labeller, number, value, comment)
        self.given_labels[labeller][number] = value
        self._last[labeller].append((number, row))

    def skip(self, labeller: str, number: int, comment: str) -> None:
        """Hide an item from this person while the page is open; a comment is saved like a label's."""
        self._check(number)
        row = self._write(labeller, number, None, comment) if comment else {}
        self._skipped[labeller].add(number)
        self._last[labeller].append((number, row))

    def undo(self, labeller: str) -> None:
        """Take back the person's last label, or skip, and its row."""
        if not (last := self._last[labeller]):
            return
        number, row = last[-1]
        if row:
            self._check_file()
            remove_label(self.run.path, row)
        last.pop()
        if number in self._skipped[labeller]:
            self._skipped[labeller].discard(number)
        else:
            self.given_labels[labeller].pop(number, None)

    def agreement(self) -> str:
        """Return the agreement of several people, in words; "" for one person, or if no pair has two labels."""
        people = [said for said in self.given_labels.values() if said]
        both = {
            number for one, other in combinations(people, 2) for number in one.keys() & other.keys()
        }
        if not both:
            return ""
        table = np.array([[said.get(number, np.nan) for said in people] for number in sorted(both)])
        alpha = krippendorff(table)
        value = "not known, as all labels are alike" if np.isnan(alpha) else f"{alpha:.2f}"
        return f"{len(people)} people, {number_of(len(both), 'pair')} with several labels: Krippendorff's α {value}"

    def _is_swapped(self, number: int, labeller: str) -> bool:
        """Return whether response B comes first: labellers must not learn which system is A."""
        key = f"{labeller}\0{self.run.pair_ids[self.items[number].pair]}"
        return self.is_of_two and hashlib.sha256(key.encode()).digest()[0] % 2 == 1

    def _item(self, number: int, labeller: str) -> dict[str, Any]:
        """Return the visible parts of an item: no id, no system, no score."""
        pair, attribute = self.items[number]
        texts = {
            name: each[0].as_py()
            for name, each in labelled_texts(self.run, np.array([pair])).items()
            if name != "pair_id"
        }
        texts["prompt"] = readable_turns(texts["prompt"])
        if self._is_swapped(number, labeller):
            texts["response_a"], texts["response_b"] = texts["response_b"], texts["response_a"]
        name = self.run.manifest.attributes[attribute]
        rubric = self._prompts.rubrics.get(name)
        return {
            "number": number,
            "attribute": name,
            "rubric": "" if rubric is None else rubric.text,
            "choices": self._choices(attribute),
            "comment": self._comments.get((labeller, number), ""),
        } | texts

    def _check(self, number: int, value: float | None = None) -> None:
        if not 0 <= number < len(self.items):
            raise InputError("there is no such item on this page; load it again")
        attribute = self.items[number].attribute
        if value is not None and value not in {each for _, each in self._choices(attribute)}:
            scale = self.run.manifest.score_scales[attribute]
            raise InputError(f"the label {value:g} is off the scale {scale}")

    def _choices(self, attribute: int) -> list[tuple[str, float]]:
        if self.is_of_two:
            return [("A", 1.0), ("tie", 0.5), ("B", 0.0)]
        scale = self.run.manifest.score_scales[attribute]
        return [(str(level), float(level)) for level in range(int(scale.low), int(scale.high) + 1)]

    def _check_file(self) -> None:
        if self._is_kept and kept_labels(self.run.path) is None:
            raise StorageError(
                f"{self.run.path / LABELS}: is gone, with the labels in it; put it back, or begin anew with robin label"
            )

    def _write(
        self, labeller: str, number: int, value: float | None, comment: str
    ) -> dict[str, Any]:
        """Add a row to the file; return it."""
        pair, attribute = self.items[number]
        row = {
            "pair_id": self.run.pair_ids[pair],
            "attribute": self.run.manifest.attributes[attribute],
            "rating": "" if value is None else f"{value:g}",
            "labeller": labeller,
            "labelled_at": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
            "comment": one_line(" ".join(comment.split())[:MOST_COMMENT]),
        }
        self._check_file()
        add_labels(self.run.path, [row])
        self._is_kept = True
        if comment:
            self._comments[labeller, number] = comment
        return row


def changes(run: RunReader) -> list[str]:
    """Return the effect of labels on the run's means and decisions, in words."""
    found = goal_of_run(run).result(run, read_labels(None, run))
    return [*found.mean_lines(), *found.agreed_lines()]
