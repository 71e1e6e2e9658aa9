"""What goals have in common that go by ratings of single responses. One that adds nothing has all that they have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from robin_cli.analysis.scores import score
from robin_cli.goals.aims import ErrorWatch
from robin_cli.goals.base import Goal
from robin_cli.goals.found import Builder, Found, View
from robin_cli.goals.rated import Rated
from robin_cli.goals.tables.agreement import agreement_table, calibration_table
from robin_cli.goals.tables.preferences import preference_table
from robin_cli.goals.tables.scores import decision_table, score_table
from robin_cli.goals.tables.summary import labels_wanted_table, summary_table
from robin_cli.goals.watching import Counts, Watch
from robin_cli.model.errors import InputError
from robin_cli.model.records import things_rated
from robin_cli.results.tables import Table
from robin_cli.storage.reader import RunData


def _scores(found: Found, view: View) -> Table:
    return score_table(found.scores, found.run, sort=view.sort, with_text=view.with_text, wide=view.wide)


def _judge_scores(found: Found, view: View) -> Table:
    scores = score(found.run, by_judge=True)
    return score_table(scores, found.run, sort=view.sort, with_text=view.with_text, wide=view.wide)


class Rating(Goal):
    """A goal that goes by ratings: scores of pairs and attributes."""

    tables: ClassVar[Mapping[str, Builder]] = {
        "scores": _scores,
        "judge-scores": _judge_scores,
        "decisions": lambda found, view: decision_table(found.scores, found.run, with_text=view.with_text),
        "agreement": lambda found, view: agreement_table(found, view.notify),
        "calibration": lambda found, view: calibration_table(found, view.notify),
        "preferences": lambda found, view: preference_table(found, view.notify, messages=view.messages),
        "summary": summary_table,
        "labels-wanted": labels_wanted_table,
    }

    def found(self, run: RunData) -> Found:
        """Return what ``run`` says."""
        return Rated(run, self)

    def check_reach(self, budget: int) -> None:
        """InputError if ``budget`` calls do not reach every arm once."""
        space = self.space
        arms = len(space)
        if budget < arms:
            what = things_rated(arms, len(space.attributes), len(space.judges))
            raise InputError(
                f"--budget {budget}: reaches {budget:,} of {what} once; raise it to {arms} or more, or take fewer pairs "
                f"with --limit {max(1, budget // space.arms_per_pair)}"
            )

    def watch(self, counts: Counts, own: Mapping[str, Any], target: float | None, *, guaranteed: bool) -> Watch:
        """Watch the largest error."""
        del own
        return ErrorWatch(self.space, target, counts() if guaranteed else None)

    def has_none(self, run: RunData, what: str, *, in_python: bool) -> str:
        """Say why there is no table of comparisons, and what to do."""
        del in_python
        return (
            f"{run.name}: rates responses one by one, so that {what} has nothing to go by; systems that ratings are of are "
            "compared by robin compare, and two responses at a time by a run of robin judge --pairwise"
        )
