"""What --answers logprobs saves: the variance of a score at equal calls, by log probabilities against by text.

    python -m benchmarks.logprobs [PAIRS] [CALLS_A_PAIR]

Runs of `robin judge`, evenly over the pairs, on llama.cpp's server with the tiny judge of tests/servers, asked the way it was
trained, and without the cuts to its distribution (top_k, min_p) that this server makes by default. Each answer holds both:
the rating that its text drew, and the expected one. So both scores come of the same calls, and the ratio of their mean
variances has a bootstrap over pairs. Once with feedback before the rating, once with a grammar that lets the judge rate only:
then nothing but the rating itself is left to vary. Both ways of scoring must have the same mean: their difference is given
with its standard error.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from tests.conftest import environment, llama_server

TEMPLATE = """{% block user %}Criterion: {{ attribute }}
Response: {{ response }}
Rate from {{ low }} to {{ high }}.{% endblock %}
"""
WORDS = (
    "clear precise solid water",
    "poor lacking vague",
    "the answer is fair and mixed",
    "wrong table good",
    "strong",
)
UNCUT = {"top_k": 0, "min_p": 0, "top_n_sigma": -1}


def write_inputs(folder: Path, pairs: int) -> None:
    """Pairs in words that the tiny judge knows, and its template."""
    rng = np.random.default_rng(1)
    words = " ".join(WORDS).split()
    rows = [
        {
            "id": f"p{k}",
            "prompt": "q",
            "response": f"the answer is {' '.join(rng.choice(words, 4))}",
        }
        for k in range(pairs)
    ]
    (folder / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "tiny.jinja").write_text(TEMPLATE)


def judgments_of(
    folder: Path, url: str, name: str, budget: int, extra: dict[str, object]
) -> pd.DataFrame:
    """The judgments of one run that were rated by log probabilities."""
    command = [
        "judge",
        "pairs.jsonl",
        "-a",
        "helpfulness",
        "-b",
        str(budget),
        "--scheduler",
        "uniform",
        "--run",
        name,
    ]
    command += [
        "--template",
        "tiny.jinja",
        "--base-url",
        url,
        "--model",
        "tiny-judge",
        "--answers",
        "logprobs",
        "-q",
    ]
    command += [
        "--extra-body",
        json.dumps(UNCUT | extra),
        "--concurrency",
        "8",
        "-o",
        f"{name}.csv",
    ]
    subprocess.run(
        [sys.executable, "-m", "robin_cli", *command], cwd=folder, env=environment(), check=True
    )
    return pd.read_parquet(folder / name / "judgments")


def compare(judgments: pd.DataFrame) -> None:
    """Print how much less the expected ratings vary within a pair, and that their mean is the same."""
    by = judgments["scoring"].value_counts().to_dict()
    print(
        f"  {len(judgments)} calls; rated by {by}; kept to the text: {judgments['text_because'].value_counts().to_dict()}"
    )
    both = judgments[judgments["scoring"] == "logprobs"]
    print(f"  mean probability off the scale {both['off_scale_mass'].mean():.5f}")
    variances = both.groupby("pair_id")[["rating", "expected_rating"]].var().to_numpy().T
    pairs = variances.shape[1]
    rng = np.random.default_rng(0)
    drawn = [variances[:, rng.integers(0, pairs, pairs)].mean(axis=1) for _ in range(2000)]
    low, high = np.quantile([expected / text for text, expected in drawn], [0.025, 0.975])
    text, expected = variances.mean(axis=1)
    print(
        f"  mean variance of a call's rating, over {pairs} pairs: text {text:.4f}, logprobs {expected:.4f}"
    )
    print(
        f"  variance of a score at equal calls, logprobs over text: {expected / text:.3f} [{low:.3f}, {high:.3f}] (95 %)"
    )
    difference = both["expected_rating"] - both["rating"]
    print(
        f"  difference of the means {difference.mean():+.4f} ± {difference.sem():.4f} (standard error)"
    )


def main() -> None:
    """Run twice and compare."""
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    calls = int(sys.argv[2]) if len(sys.argv) > 2 else 50
    with tempfile.TemporaryDirectory() as name, llama_server(Path(name) / "server.log") as url:
        folder = Path(name)
        write_inputs(folder, pairs)
        for run, extra in (
            ("feedback", {}),
            ("rating-alone", {"grammar": 'root ::= "Rating: " [0-4]'}),
        ):
            print(run)
            compare(judgments_of(folder, url, run, pairs * calls, dict(extra)))


if __name__ == "__main__":
    main()
