"""What a build may require, in words: what is understood, and where what is not."""

from __future__ import annotations

import pytest

from robin_cli.model.decision import Criterion
from robin_cli.model.errors import InputError
from robin_cli.model.records import Scale
from robin_cli.stats.requirement import Requirement, requirement_of

NAMES, SCALES = ("helpfulness", "verbosity (words)"), (Scale(0, 4), Scale(1, 10))


def test_understands_what_is_required() -> None:
    for text, expected in (
        ("mean(helpfulness)>=3", Requirement("mean", Criterion("helpfulness", ">=", 3))),
        (
            "  mean ( helpfulness )  <  2.5 ",
            Requirement("mean", Criterion("helpfulness", "<", 2.5)),
        ),
        ("mean(verbosity (words))>5", Requirement("mean", Criterion("verbosity (words)", ">", 5))),
        (
            "share(helpfulness>=3)>=0.9",
            Requirement("share", Criterion("helpfulness", ">=", 3), 0, ">=", 0.9),
        ),
        (
            "share(verbosity (words) <= 3) < .25",
            Requirement("share", Criterion("verbosity (words)", "<=", 3), 0, "<", 0.25),
        ),
        ("all(helpfulness>1)", Requirement("all", Criterion("helpfulness", ">", 1), 0.1)),
        (
            "compare( new , old, verbosity (words) ) > -0.5",
            Requirement(
                "compare", Criterion("verbosity (words)", ">", -0.5), systems=("new", "old")
            ),
        ),
        (
            'compare("a, b","say ""so""",helpfulness)>=0',
            Requirement("compare", Criterion("helpfulness", ">=", 0), systems=("a, b", 'say "so"')),
        ),
    ):
        assert requirement_of(text, NAMES, SCALES) == expected, (text, expected)
        assert requirement_of(str(expected), NAMES, SCALES) == expected, (text, expected)


def test_takes_score_for_the_only_attribute_and_a_margin_in_points() -> None:
    found = requirement_of("all(score>=3)", NAMES[:1], SCALES[:1], margin=0.5)
    assert (str(found), found.margin) == ("all(helpfulness>=3)", 0.5)


@pytest.mark.parametrize(
    ("text", "place", "fact"),
    [
        ("", 1, "a requirement begins with its kind"),
        (
            "median(helpfulness)>=3",
            1,
            '"median" is none of mean, share, all, compare; did you mean "mean"?',
        ),
        ("score>=3", 1, '"score" is none of mean, share, all, compare; write mean(NAME)'),
        ("  compare(A,B)>=0", 11, "of which attribute (helpfulness, verbosity (words))?"),
        ("compare(A)>=0", 9, "inside the brackets name two systems"),
        ("compare(A,A,helpfulness)>=0", 9, "inside the brackets name two systems"),
        ("compare(A,B,C,helpfulness)>=0", 9, "inside the brackets name two systems"),
        ("compare(A,B,tone)>=0", 9, '"tone" is not judged here'),
        ("compare(A,B,helpfulness)", 25, "behind the bracket write >=NUMBER"),
        (
            "compare(A,B,helpfulness)>=4",
            27,
            "no two means on the scale 0-4 of helpfulness differ by 4",
        ),
        ("mean", 5, 'a "(" belongs here'),
        ("mean helpfulness>=3", 5, 'a "(" belongs here'),
        ("mean(helpfulness>=3", 20, 'a ")" is missing'),
        ("mean(helpfulness)", 18, "behind the bracket write >=NUMBER"),
        ("mean(helpfulness>=3)", 21, "behind the bracket write >=NUMBER"),
        ("mean(helpfulness) = 3", 19, '"=" is no requirement that ratings could settle'),
        ("mean(helpfulness)>=high", 20, '"high" is no number'),
        ("mean(helpfulness)>=nan", 20, '"nan" is no number'),
        ("mean(helpfulness)>=3 4", 18, "behind the bracket write >=NUMBER"),
        ("mean()>=3", 6, "which attribute?"),
        ("mean( helpfulnes)>=3", 7, '"helpfulnes" is not judged here'),
        ("mean(score)>=3", 6, "which score? This run judges helpfulness, verbosity (words)"),
        ("mean(helpfulness)>=4", 20, "the threshold 4 is not inside the scale 0-4 of helpfulness"),
        ("mean(helpfulness)>=-1", 20, "the threshold -1 is not inside the scale 0-4"),
        ("share(helpfulness)>=0.9", 7, "inside the brackets write NAME>=NUMBER"),
        ("share(helpfulness>=9)>=0.9", 20, "the threshold 9 is not inside the scale"),
        ("share(helpfulness!=3)>=0.9", 18, '"!=" is no requirement'),
        ("share(helpfulness>=3)", 22, "behind the bracket write >=SHARE"),
        (
            "share(helpfulness>=3)>=90",
            24,
            "90 is no share between 0 and 1; write nine tenths as 0.9",
        ),
        ("share(helpfulness>=3)>=0", 24, "0 is no share between 0 and 1"),
        ("share(helpfulness>=3)>=1", 24, "ask all(helpfulness>=3)"),
        ("all(helpfulness>=3)>=0.9", 20, 'nothing belongs behind "all(…)"'),
    ],
)
def test_says_where_a_requirement_is_not_understood(text: str, place: int, fact: str) -> None:
    with pytest.raises(InputError) as raised:
        requirement_of(text, NAMES, SCALES)
    assert str(raised.value).startswith(f'--require "{text}": at character {place}: ')
    assert fact in str(raised.value)


@pytest.mark.parametrize(
    ("text", "margin"), [("all(helpfulness>=3.95)", None), ("all(helpfulness>=3)", 1.0)]
)
def test_refuses_a_margin_that_leaves_nothing_to_decide(text: str, margin: float | None) -> None:
    with pytest.raises(
        InputError, match=r"--margin .*: reaches from the threshold .* to the end of the scale 0-4"
    ):
        requirement_of(text, NAMES, SCALES, margin=margin)


def test_takes_a_line_break_for_no_part_of_a_name() -> None:
    with pytest.raises(InputError, match="at character 9: inside the brackets name two systems"):
        requirement_of("compare(A\nB,C,helpfulness)>=0", NAMES, SCALES)
