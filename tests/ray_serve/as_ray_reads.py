"""What Ray Serve makes of configurations, a program: JSON of each, with the keys it would overlook, and names of models.

A program, since Ray sets up logging as it is imported, and warns of its own past.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from ray.llm._internal.serve.core.configs.llm_config import LLMConfig
from ray.serve.schema import (
    DeploymentSchema,
    HTTPOptionsSchema,
    ServeApplicationSchema,
    ServeDeploySchema,
)


def overlooked(config: Mapping[str, Any]) -> Iterator[str]:
    """Keys of ``config`` that its schemas do not have; raises where a value is none of theirs."""
    ServeDeploySchema.model_validate(config)
    yield from config.keys() - ServeDeploySchema.model_fields.keys()
    yield from config["http_options"].keys() - HTTPOptionsSchema.model_fields.keys()
    for application in config["applications"]:
        yield from application.keys() - ServeApplicationSchema.model_fields.keys()
        for deployment in application.get("deployments", []):
            yield from deployment.keys() - DeploymentSchema.model_fields.keys()
        for engine in engines(application):
            options = LLMConfig.model_validate(
                engine
            ).deployment_config  # which takes no unknown keys but there
            DeploymentSchema.model_validate({"name": "engine", **options})
            yield from options.keys() - DeploymentSchema.model_fields.keys()


def engines(application: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The engines of an application of ``ray.serve.llm``, without the classes that only their own packages can import."""
    for engine in application["args"].get("llm_configs", []):
        server = engine.get("server_cls")
        if server and importlib.util.find_spec(server.rpartition(".")[0]) is None:
            raise ValueError(f"{server}: Ray has no such class")
        yield {name: value for name, value in engine.items() if name != "server_cls"}


if __name__ == "__main__":
    for name in sys.argv[1:]:
        read = yaml.safe_load(Path(name).read_text(encoding="utf-8"))
        models = [
            LLMConfig.model_validate(each).model_id
            for one in read["applications"]
            for each in engines(one)
        ]
        print(json.dumps({"overlooked": [*overlooked(read)], "models": models}))
