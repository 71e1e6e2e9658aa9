"""What looks wrong in the answers is said once, and early."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from robin_cli.model.records import Judgment
from robin_cli.session.diagnostics import Diagnostics
from tests.conftest import has
from tests.run.test_store import judgment


def told(
    answers: Iterable[tuple[int, Judgment]], *, temperature: float = 1.0, arms: int = 20
) -> list[str]:
    lines: list[str] = []
    diagnostics = Diagnostics(
        temperature=temperature, arms=arms, notify=lines.append, run=Path("runs/a b")
    )
    for arm, each in answers:
        diagnostics.look(arm, [each])
    return lines


def ok(number: int, text: str, rating: int = 3) -> Judgment:
    return replace(judgment(number), status="ok", reason=None, rating=rating, text=text)


def unparsed(number: int, reason: str = "missing") -> Judgment:
    return replace(
        judgment(number), status="unparsed", rating=None, reason=reason, text="I would say three"
    )


def healthy(count: int, arms: int = 20) -> list[tuple[int, Judgment]]:
    generator = random.Random(1)
    return [
        (number % arms, ok(number, f"Feedback number {number}, at length.", generator.randrange(5)))
        for number in range(count)
    ]


def cached(count: int, arms: int = 20) -> list[tuple[int, Judgment]]:
    return [
        (
            number % arms,
            ok(number, f"Feedback: pair {number % arms} is what it is.", number % arms % 5),
        )
        for number in range(count)
    ]


def test_is_silent_about_a_healthy_judge() -> None:
    assert told(healthy(3_000)) == []


@pytest.mark.parametrize("arms", [2, 20])
def test_says_once_that_answers_repeat_to_the_letter(arms: int) -> None:
    lines = told(cached(1_000, arms), arms=arms)
    assert len(lines) == 1
    has(lines[0], "same answer, to the letter", "cache")
    assert told(cached(arms + 20, arms))  # as soon as that
    assert told([*cached(arms + 19, arms), (0, ok(1, "Feedback: another one, at length."))]) == []


def test_expects_repeats_at_temperature_0() -> None:
    assert told(cached(1_000), temperature=0.0) == []


def test_takes_short_answers_that_repeat_for_what_they_are() -> None:
    assert told([(number % 20, ok(number, "Rating: 3", number % 5)) for number in range(500)]) == []


def test_says_once_that_many_answers_carry_no_rating() -> None:
    for reason, remedy in (
        ("truncated", "--max-tokens"),
        ("missing", "robin export"),
        ("refused", "another --model"),
    ):
        mixed = [
            (arm, unparsed(number, reason) if number % 10 == 0 else each)
            for number, (arm, each) in enumerate(healthy(500))
        ]
        lines = told(mixed)
        assert len(lines) == 1, (reason, remedy)
        assert remedy in lines[0], (reason, remedy)


def test_is_silent_about_the_odd_answer_without_a_rating() -> None:
    assert (
        told(
            [
                (arm, unparsed(n) if n % 40 == 39 else each)
                for n, (arm, each) in enumerate(healthy(2_000))
            ]
        )
        == []
    )


def test_says_once_that_everything_gets_one_rating() -> None:
    lines = told(
        [
            (number % 20, ok(number, f"Feedback number {number}, at length.", 4))
            for number in range(500)
        ]
    )
    assert len(lines) == 1
    assert "all rate 4" in lines[0]


def test_ignores_calls_that_failed() -> None:
    failed = replace(judgment(1), status="failed", rating=None, reason="context_length")
    assert told([(number % 20, failed) for number in range(500)]) == []


def test_names_the_run_in_its_commands_and_leaves_other_words_be() -> None:
    for reason in ("missing", "filtered"):
        (line,) = told([(number, unparsed(number, reason)) for number in range(40)])
        assert "robin export 'runs/a b' --what judgments" in line
    (line,) = told(
        [(number % 20, ok(number, f"Feedback {number}, at length.")) for number in range(100)]
    )
    assert "(robin export 'runs/a b' --what judgments)" in line
