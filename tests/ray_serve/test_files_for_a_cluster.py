"""What configs/cluster holds is read by those it is for, as far as they can be asked here; what needs a GPU is not run."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from robin_cli import __version__
from robin_cli.settings.addresses import judges_of
from robin_cli.settings.reading import load_settings
from robin_cli.settings.table import Settings
from tests.conftest import ROOT, environment

FILES = ROOT / "configs" / "cluster"
# of KubeRay's ray.io/v1, those that a person writes (ray-operator/apis/ray/v1)
JOB = {
    "entrypoint",
    "backoffLimit",
    "activeDeadlineSeconds",
    "shutdownAfterJobFinishes",
    "ttlSecondsAfterFinished",
}
JOB |= {
    "runtimeEnvYAML",
    "rayClusterSpec",
    "submissionMode",
    "suspend",
    "clusterSelector",
    "submitterPodTemplate",
}
CLUSTER = {
    *(
        "rayVersion",
        "headGroupSpec",
        "workerGroupSpecs",
        "enableInTreeAutoscaling",
        "autoscalerOptions",
    ),
    "authOptions",
}
HEAD = {"rayStartParams", "template", "serviceType", "headService"}
WORKERS = {
    "groupName",
    "replicas",
    "minReplicas",
    "maxReplicas",
    "rayStartParams",
    "template",
    "numOfHosts",
}


def documents(name: str) -> list[Any]:
    return list(yaml.safe_load_all((FILES / name).read_text(encoding="utf-8")))


def settings_of(file: Path) -> Settings:
    return load_settings({}, str(file))


def test_holds_files_of_known_kinds() -> None:
    assert sorted(path.name for path in FILES.iterdir() if path.is_file()) == [
        *(
            "llama-cpp.yaml",
            "llama_server.py",
            "one-address.toml",
            "ray-job.yaml",
            "ray-service.yaml",
        ),
        *("several-addresses.toml", "sglang.yaml", "vllm.yaml"),
    ]


@pytest.mark.slow
def test_deploys_what_ray_serve_can_read() -> None:
    files = [str(FILES / name) for name in ("llama-cpp.yaml", "sglang.yaml", "vllm.yaml")]
    command = [sys.executable, "-m", "tests.ray_serve.as_ray_reads", *files]

    done = subprocess.run(
        command, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=120
    )

    assert done.returncode == 0, done.stderr
    model = [*settings_of(FILES / "one-address.toml").model]
    read = [json.loads(line) for line in done.stdout.splitlines()]
    assert read == [{"overlooked": [], "models": models} for models in ([], model, model)]


@pytest.mark.parametrize(("name", "addresses"), [("one-address", 1), ("several-addresses", 3)])
def test_reads_settings_of_one_judge_at_so_many_addresses(name: str, addresses: int) -> None:
    (judge,) = judges_of(settings_of(FILES / f"{name}.toml"))

    assert len(judge.base_urls) == addresses


def pods(spec: Any) -> list[Any]:
    """What runs in the pods of a cluster, head first; fails where KubeRay would not know a part."""
    assert spec.keys() <= CLUSTER
    assert spec["authOptions"] == {"mode": "token"}  # else who reaches Ray's ports runs anything
    assert spec["headGroupSpec"].keys() <= HEAD
    groups = [spec["headGroupSpec"], *spec["workerGroupSpecs"]]
    assert all(workers.keys() <= WORKERS for workers in groups[1:])
    for group in groups:
        assert all(isinstance(value, str) for value in group["rayStartParams"].values())
        for container in group["template"]["spec"]["containers"]:
            assert spec["rayVersion"] in container["image"]
            limits = container["resources"]["limits"]
            assert all(isinstance(value, str) for value in limits.values())
    return [group["template"]["spec"] for group in groups]


def test_makes_a_service_of_the_same_judge() -> None:
    (service,) = documents("ray-service.yaml")

    assert (service["apiVersion"], service["kind"]) == ("ray.io/v1", "RayService")
    assert service["spec"].keys() <= {"serveConfigV2", "rayClusterConfig"}
    assert [yaml.safe_load(service["spec"]["serveConfigV2"])] == documents("vllm.yaml")
    assert len(pods(service["spec"]["rayClusterConfig"])) == 2


def test_makes_a_job_that_can_be_tried_again_and_has_no_key_in_it(tmp_path: Path) -> None:
    job, given, volume = documents("ray-job.yaml")

    assert (job["apiVersion"], job["kind"]) == ("ray.io/v1", "RayJob")
    assert job["spec"].keys() <= JOB
    assert job["spec"]["backoffLimit"] > 0
    (robin,) = yaml.safe_load(job["spec"]["runtimeEnvYAML"])["pip"]
    assert re.fullmatch(
        rf"robin-judge\[ray\] @ https://\S+/robin_judge-{__version__}-py3-none-any\.whl", robin
    )
    head, *callers = pods(job["spec"]["rayClusterSpec"])
    for pod in [head, *callers]:
        ((key,),) = [container["env"] for container in pod["containers"]]
        assert key["name"] == "OPENAI_API_KEY"
        assert key.keys() == {"name", "valueFrom"}
    mounted = {mount["name"]: mount["mountPath"] for mount in head["containers"][0]["volumeMounts"]}
    held = {each["name"]: each for each in head["volumes"]}
    assert held["settings"]["configMap"] == {"name": given["metadata"]["name"]}
    assert held["runs"]["persistentVolumeClaim"] == {"claimName": volume["metadata"]["name"]}
    assert job["spec"]["entrypoint"] == f"sh {mounted['settings']}/run.sh"
    (tmp_path / "robin.toml").write_text(given["data"]["robin.toml"], encoding="utf-8")
    settings = settings_of(tmp_path / "robin.toml")
    assert str(settings.run).startswith(mounted["runs"])
    (service,) = documents("ray-service.yaml")
    assert settings.base_url == (f"http://{service['metadata']['name']}-serve-svc:8000/v1",)
