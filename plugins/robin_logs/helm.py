"""Read requests of HELM (https://crfm.stanford.edu/helm) from a run's scenario_state.json."""

from __future__ import annotations

from collections.abc import Iterator

from robin_cli.datasets.logs import Log, Reading
from robin_cli.datasets.rows import BadRow, Row
from robin_cli.model.errors import shown
from robin_logs.base import OR_SKIP, as_object, as_text, folder_of, joined, name_of

_HEAD = "adapter_spec"
_TOLD = frozenset({"method", "model"})


def _is_sample(row: Row) -> bool:
    head = row.get(_HEAD)
    return isinstance(head, dict) and head.keys() >= _TOLD and row.keys() >= {"instance", "request"}


def _reading(place: str) -> Reading:
    """Return the reader of a file's requests; the file's folder has the run's name, with scenario and model."""
    scenario, _, said = folder_of(place).partition(":")
    of_scenario = [
        each
        for each in said.split(",")
        if each and not each.startswith(("model=", "model_deployment="))
    ]
    task = ":".join(filter(None, (scenario, ",".join(of_scenario))))

    def rows(sample: Row) -> Iterator[Row]:
        head, instance, request = (
            as_object(sample[name]) for name in (_HEAD, "instance", "request")
        )
        own_id, trial = name_of(instance.get("id")), name_of(sample.get("train_trial_index"))
        changed = name_of(as_object(instance.get("perturbation")).get("name"))
        called = f"instance {shown(own_id)}"
        if sample.get("reference_index") is not None or request.get("max_tokens") == 0:
            raise BadRow(
                f"{called}: the request asks how likely a given answer is, so that the model wrote no text. Judge a run whose "
                f"adapter generates{OR_SKIP}",
                "no text, but likelihoods",
            )
        result = as_object(sample.get("result"))
        system = name_of(request.get("model")) or name_of(head.get("model"))
        row: Row = {
            "prompt": as_text(
                request.get("messages") or request.get("prompt"), f"the prompt of {called}"
            ),
            "system": system,
            "group": joined(task, own_id, changed),
        }
        more = {
            "task": task,
            "split": name_of(instance.get("split")),
            "reference": _reference(instance),
        }
        row |= {name: value for name, value in more.items() if value}
        answers = _answers(result, called)
        for number, answer in enumerate(answers, 1):
            of_several = number if len(answers) > 1 else ""
            own = joined(
                system, task, own_id, changed, trial, of_several, result.get("request_datetime")
            )
            yield {**row, "id": own, "response": answer}

    return rows


def _answers(result: Row, called: str) -> list[str]:
    completions = result.get("completions")
    if result.get("success") is False or not isinstance(completions, list) or not completions:
        said = name_of(result.get("error")) or "no completion"
        raise BadRow(
            f"{called}: has no answer of the model ({shown(said, 80)}). Run it again{OR_SKIP}",
            "no response",
        )
    found = [as_object(each).get("text") for each in completions]
    texts = [text for text in found if isinstance(text, str)]
    if len(texts) < len(found):
        raise BadRow(f"{called}: a completion has no text. Run it again{OR_SKIP}", "no response")
    return texts


def _reference(instance: Row) -> str:
    """Return the correct answer, if there is exactly one."""
    references = instance.get("references")
    each = [
        as_object(reference) for reference in (references if isinstance(references, list) else ())
    ]
    tags = [reference.get("tags") for reference in each]
    correct = [
        one
        for one, tag in zip(each, tags, strict=True)
        if isinstance(tag, list) and "correct" in tag
    ]
    return name_of(as_object(correct[0].get("output")).get("text")) if len(correct) == 1 else ""


LOG = Log(_is_sample, _reading, "request_states", _HEAD, _TOLD)
