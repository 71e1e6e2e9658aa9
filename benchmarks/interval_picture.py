"""Draw docs/images/intervals.png: some pairs' ratings with both intervals, and how wide these are as ratings come in.

python -m benchmarks.interval_picture docs/images/intervals.png
"""

from __future__ import annotations

import sys

import matplotlib as mpl
import numpy as np

mpl.use("agg")
from matplotlib import pyplot as plt

from benchmarks.coverage import POOLS, SIZES, Rated, likely, normal_widths, sets_of
from robin_cli.model.records import Scale
from robin_cli.stats.intervals import mean_intervals

SHOWN = {
    "5 ratings, all 3": [0, 0, 0, 5, 0],
    "20 ratings, all 3": [0, 0, 0, 20, 0],
    "20 ratings, 2s and 3s": [0, 0, 9, 11, 0],
    "20 ratings, 0s and 4s": [9, 0, 0, 0, 11],
    "100 ratings, 0s and 4s": [45, 0, 0, 0, 55],
}
SCALE = Scale(0, 4)
COLOURS = {"ci": "#2f5d8a", "guaranteed": "#9db4c8"}


def main() -> None:
    """Draw it into the file that is named."""
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(10, 3.6), width_ratios=[1.25, 1], layout="constrained"
    )
    sets, rng = sets_of(POOLS, 300), np.random.default_rng(1)
    shown = len(SHOWN)
    counts = np.concatenate(
        [list(SHOWN.values()), rng.multinomial(20, sets[0].shares)]
    )  # among other pairs of the run
    run = Rated("", SCALE, counts / counts.sum(axis=1, keepdims=True))
    ends = {"guaranteed": mean_intervals(counts, 0, 4), "ci": likely(run, counts)}
    places = np.arange(shown)[::-1]
    for kind, (low, high) in ends.items():
        left.hlines(
            places,
            low[:shown],
            high[:shown],
            color=COLOURS[kind],
            linewidth=7 if kind == "ci" else 3,
            label=kind,
        )
    left.plot(run.means[:shown], places, "|", color="black", markersize=13)
    left.set(yticks=places, yticklabels=SHOWN, xlim=(-0.1, 4.1), ylim=(-0.5, shown - 0.5))
    left.set(xlabel="rating", title="Five of the 305 pairs of a run")
    left.legend(loc="lower left", frameon=False)
    for kind in ends:
        widths = []
        for size in SIZES:
            each = []
            for rated in sets:
                drawn = rng.multinomial(size, rated.shares)
                low, high = likely(rated, drawn) if kind == "ci" else mean_intervals(drawn, 0, 4)
                each.append((high - low).mean() / normal_widths(rated, size).mean())
            widths.append(np.mean(each))
        right.plot(SIZES, widths, "o-", color=COLOURS[kind], label=kind)
    right.axhline(1.0, color="grey", linestyle=":", label="normal, σ known")
    right.set(
        xscale="log",
        xticks=SIZES,
        xticklabels=SIZES,
        ylim=(0, None),
        xlabel="ratings a pair",
        title="Mean width",
    )
    right.set_ylabel("over 2 · 1.96 σ/√n")
    right.minorticks_off()
    right.legend(frameon=False)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(sys.argv[1], dpi=110)


if __name__ == "__main__":
    main()
