"""robin beside Inspect, DeepEval, MLflow and pytest: the real packages, with judges that ask no model."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from robin_cli import Settled

PAGE = Path(__file__).parents[2] / "docs" / "beside.md"


@pytest.fixture(autouse=True)
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of its own, and nothing for the tools to send."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DEEPEVAL_TELEMETRY_OPT_OUT", "1")
    # MLflow's server and its database are not installed
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"file:{tmp_path}/mlruns")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("INSPECT_DISPLAY", "none")


class Judge:
    """Rates texts, and counts how often it was asked; one of them it never decides on."""

    def __init__(self, low: float = 1, high: float = 5) -> None:
        self.low, self.high, self.asked = low, high, list[str]()

    def __call__(self, text: str) -> float:
        self.asked.append(text)
        wavers = "split" in text and self.asked.count(text) % 2
        return self.low if "bad" in text or wavers else self.high


def inspect_log(judge: Judge, **how: Any) -> Any:
    from inspect_ai import Task, eval  # noqa: A004
    from inspect_ai.dataset import Sample
    from inspect_ai.scorer import Score, mean, scorer
    from inspect_ai.solver import solver

    from robin_beside.inspect_ai import SettledSamples

    @solver  # type: ignore[untyped-decorator]
    def silent() -> Any:
        async def solve(state: Any, generate: Any) -> Any:
            return state

        return solve

    @scorer(metrics=[mean()])  # type: ignore[untyped-decorator]
    def judged() -> Any:
        async def score(state: Any, target: Any) -> Any:
            return Score(value="CI"[judge(state.input_text) < 1])

        return score

    task = Task(
        dataset=[Sample(id=k, input=text) for k, text in enumerate(["good", "bad", "split"])],
        solver=silent(),
        scorer=judged(),
        epochs=12,
        early_stopping=SettledSamples("score>=0.5", (0, 1), **how),
    )
    return eval(task, model="mockllm/model", max_samples=1)[0]


def test_inspect_runs_no_further_epochs_of_settled_samples() -> None:
    judge = Judge(0, 1)
    log = inspect_log(judge)

    assert log.status == "success"
    stopping = log.results.early_stopping
    assert (stopping.manager, stopping.metadata["settled"]) == ("robin", 2)
    assert {(stop.id, stop.reason) for stop in stopping.early_stops} == {(0, "keep"), (1, "drop")}
    assert 2 <= judge.asked.count("good") < 6
    assert judge.asked.count("split") == 12
    assert stopping.metadata["ratings"] == len(judge.asked) == 36 - len(stopping.early_stops)
    assert inspect_log(Judge(0, 1), scorer="judged").status == "success"


def test_inspect_refuses_a_score_that_is_not_there() -> None:
    log = inspect_log(Judge(0, 1), scorer="other")
    assert log.status == "error"
    assert "the scores are judged" in log.error.message


def test_inspects_own_manager_takes_the_same_arguments() -> None:
    import inspect

    from inspect_ai.util import EarlyStopping

    from robin_beside.inspect_ai import SettledSamples

    for name in ("start_task", "schedule_sample", "complete_sample", "complete_task"):
        parameters = inspect.signature(getattr(EarlyStopping, name)).parameters
        assert list(inspect.signature(getattr(SettledSamples, name)).parameters) == list(parameters)


@pytest.fixture
def metric() -> Any:
    from deepeval.metrics import BaseMetric

    class Judged(BaseMetric):  # type: ignore[misc]
        judge, threshold, evaluation_cost = Judge(0.1, 0.9), 0.5, 0.25

        def measure(self, test_case: Any, *args: Any, **kwargs: Any) -> float:
            self.score = self.judge(test_case.actual_output)
            self.reason = "because"
            return self.score

        async def a_measure(self, test_case: Any, *args: Any, **kwargs: Any) -> float:
            await asyncio.sleep(0)
            return self.measure(test_case)

        @property
        def __name__(self) -> str:
            return "judged"

    return Judged()


def test_deepeval_measures_until_each_case_is_settled(metric: Any) -> None:
    from deepeval import evaluate
    from deepeval.test_case import LLMTestCase

    from robin_beside.deepeval import SettledMetric

    texts, settled = ["good", "bad", "split", "good"], Settled("score>=0.5", (0, 1))
    cases = [LLMTestCase(input=f"{k}?", actual_output=text) for k, text in enumerate(texts)]
    done = evaluate(cases, [SettledMetric(metric, settled, most=8)])

    by_place = {result.input: result.metrics_data[0] for result in done.test_results}
    assert [by_place[f"{k}?"].success for k in (0, 1, 3)] == [True, False, True]
    assert [by_place[f"{k}?"].score for k in (0, 1, 3)] == pytest.approx([0.9, 0.1, 0.9])
    assert by_place["2?"].reason == "mean of 8 ratings, not settled. because"
    counts = [metric.judge.asked.count(text) for text in ("good", "bad", "split")]
    assert counts[2] == 8
    assert 4 <= counts[0] < 16
    assert by_place["2?"].evaluation_cost == pytest.approx(8 * 0.25)
    assert settled.summary()["ratings"] == sum(counts)


def test_deepeval_measures_one_case_alone(metric: Any) -> None:
    from deepeval.test_case import LLMTestCase

    from robin_beside.deepeval import SettledMetric

    one = SettledMetric(metric, Settled("score>=0.5", (0, 1)))
    assert one.measure(LLMTestCase(input="?", actual_output="bad")) == pytest.approx(0.1)
    assert not one.is_successful()
    assert metric.score is None  # copies of it measure


def test_mlflow_rates_rows_until_they_are_settled() -> None:
    import mlflow

    from robin_beside.mlflow import settled_scorer

    judge, settled = Judge(), Settled("score>=3", (1, 5))

    def helpful(inputs: dict[str, str], outputs: str) -> float:
        return judge(outputs)

    rows = [{"inputs": {"q": text}, "outputs": text} for text in ("good", "bad", "split")]
    done = mlflow.genai.evaluate(data=rows, scorers=[settled_scorer(helpful, settled, most=9)])

    assert done.metrics["helpful/mean"] == pytest.approx((5 + 1 + 25 / 9) / 3)
    assert settled.summary()["settled"] == 2
    assert judge.asked.count("split") == 9
    assert settled.summary()["ratings"] == len(judge.asked) < 20
    scorer = settled_scorer(helpful, settled, name="kind")
    feedback = scorer(inputs={}, outputs="good")
    assert (scorer.name, feedback.name, feedback.value) == ("kind", "kind", 5)
    assert feedback.metadata["settled"] in {True, "True"}
    assert feedback.metadata["decision"] == "keep"


def blocks() -> dict[str, str]:
    """The code under each heading of the page."""
    parts = re.split(r"^#+ (.*)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    found = {
        title: "\n".join(re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE))
        for title, text in zip(parts[::2], parts[1::2], strict=True)
    }
    return {title: code for title, code in found.items() if code}


def deepeval_model() -> Any:
    from deepeval.models import DeepEvalBaseLLM

    class Model(DeepEvalBaseLLM):  # type: ignore[misc]
        def load_model(self) -> Any:
            return self

        def get_model_name(self) -> str:
            return "stub"

        def generate(self, prompt: str) -> str:
            return '{"score": 9, "reason": "helpful"}'

        async def a_generate(self, prompt: str) -> str:
            return self.generate(prompt)

    return Model("stub")


def inspect_model() -> Any:
    from inspect_ai.model import ModelOutput, ModelUsage, get_model

    def reply(*_: Any) -> Any:
        output = ModelOutput.from_content(model="mockllm", content="GRADE: C")
        output.usage = ModelUsage()  # else it counts tokens, with a file from the network
        return output

    return get_model("mockllm/model", custom_outputs=reply)


STUBS: dict[str, Callable[[], dict[str, Any]]] = {
    "Your tool makes the calls": lambda: {"answers": ["good", "bad"]},
    "Inspect": lambda: {"model": inspect_model()},
    "DeepEval": lambda: {"model": deepeval_model()},
    "MLflow": dict,
}


@pytest.mark.parametrize("title", STUBS)
def test_the_page_runs(title: str) -> None:
    code = re.sub(r'"(openai/)?gpt-6-\w+"', "model", blocks()[title])
    names: dict[str, Any] = {"ask_your_judge": Judge(), **STUBS[title]()}
    exec(compile(code, title, "exec"), names)  # noqa: S102

    if title == "Inspect":
        assert names["log"].status == "success"
        assert names["log"].results.early_stopping.metadata["keep"] == 1
        assert len(names["log"].samples) < 16
    if title == "DeepEval":
        assert names["result"].test_results[0].success
    if title == "MLflow":
        assert names["results"].metrics == {"helpful/mean": 5}


@pytest.mark.parametrize(("low", "exit_code"), [(4, 0), (1, 1)])
def test_the_fixture_of_the_page_runs(tmp_path: Path, low: int, exit_code: int) -> None:
    title = "pytest"
    stub = f"def ask_your_judge(answer):\n    return {low} if answer == '4' else 5\n\n\n"
    (tmp_path / "test_page.py").write_text(stub + blocks()[title], encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:deepeval"],
        env={**os.environ, "NO_COLOR": "1"}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == exit_code, done.stdout
    assert ("dropped: 4" in done.stdout) == bool(exit_code)
    assert set(blocks()) == {*STUBS, title}
