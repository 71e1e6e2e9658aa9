"""What a cheap judge is worth before a dear one: python -m benchmarks.settle. Simulated; docs/evidence/decisions.md has it.

Budgets are in calls of the dear judge for each response. A call of the cheap one costs PRICE of one: what gpt-5.4-mini took of
gpt-5.4 for the same answers, by their recorded tokens and the list prices of 2026.
"""

from __future__ import annotations

from pathlib import Path

from robin_cli.settings.table import SimulationSettings
from robin_cli.simulation.experiment import conduct
from robin_cli.simulation.pools import subjects_of
from robin_cli.storage.pools import load_pools

POOL = Path(__file__).parent.parent / "configs" / "pools" / "rewardbench2.parquet"
PRICE, WORTH, RUNS = 0.29, (0.5, 0.75, 1.0, 1.5, 2.0), 20


def table(wording: str, decide: str, runs: int = RUNS) -> None:
    """Print what is wrong, and of the bests what is right, by the dear judge alone and by both, at each budget."""
    cheap, dear = f"gpt-5.4-mini {wording}", f"gpt-5.4 {wording}"
    pairs = len(load_pools(POOL)[dear].ratings)
    found = {}
    for settle in (None, dear):
        spent = {
            round(pairs * (each if settle is None else 1 + each - PRICE)): each
            for each in WORTH
            if settle is not None or each >= 1
        }
        settings = SimulationSettings(
            pool=str(POOL),
            decide=decide,
            attribute=(dear if settle is None else cheap,),
            settle=settle,
            budget=tuple(spent),
            runs=runs,
            schedulers=("auto",),
        )
        for row in conduct(subjects_of(settings, None), settings, lambda *_: None):
            shown = [
                f"{100 * row.figure('wrong_mean'):.2f} ± {100 * row.figure('wrong_sem'):.2f} % wrong"
            ]
            if "right_mean" in row.columns:
                shown.append(
                    f"{100 * row.figure('right_mean'):.1f} ± {100 * row.figure('right_sem'):.1f} % right"
                )
            found[settle is not None, spent[row.budget]] = ", ".join(shown)
    for each in WORTH:
        print(
            f"{wording} {decide}, {each:g}: {found.get((False, each), '–')}; both: {found[True, each]}",
            flush=True,
        )


def main() -> None:
    """Print the table."""
    for wording in ("base", "criteria"):
        for decide in ("best", "score>=5", "score>=7"):
            table(wording, decide)


if __name__ == "__main__":
    main()
