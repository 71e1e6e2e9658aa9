"""Ray's own cluster of several nodes on this machine, as a program of its own: the tests' process knows nothing of Ray.

    RAY_TMPDIR=FOLDER python nodes.py

It prints the address, then does what lines on its standard input say, and prints what came of each as a line of JSON.
"""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

import ray
from ray._common.usage.usage_constants import CLUSTER_METADATA_KEY
from ray._raylet import GcsClient  # type: ignore[attr-defined]  # it is compiled
from ray.cluster_utils import Cluster


class Nodes:
    """The commands, by name."""

    def __init__(self) -> None:
        logging.getLogger("ray").setLevel(logging.ERROR)
        # Its head runs no workers, as is usual; the process that is tested is connected to it.
        head = {"num_cpus": 0, "include_dashboard": False}
        self.cluster = Cluster(initialize_head=True, head_node_args=head)
        self.nodes: list[Any] = []

    def add(self, cpus: int = 1, env: dict[str, str] | None = None) -> dict[str, int]:
        """Begin a node; its number, and the process that its workers are children of."""
        node = self.cluster.add_node(num_cpus=cpus, env_vars=env)
        self.nodes.append(node)
        return {"node": len(self.nodes) - 1, "raylet": node.all_processes["raylet"][0].process.pid}

    def remove(self, node: int) -> None:
        """End a node, as if its machine was switched off."""
        self.cluster.remove_node(self.nodes[node], allow_graceful=False)

    def say_versions(
        self, ray_version: str | None = None, python_version: str | None = None
    ) -> None:
        """Have the cluster say that it is of these versions; of its own again where none are given."""
        own = {
            "ray_version": ray.__version__,
            "python_version": ".".join(map(str, sys.version_info[:3])),
        }
        said = own | {
            name: value
            for name, value in (("ray_version", ray_version), ("python_version", python_version))
            if value is not None
        }
        client = GcsClient(address=self.cluster.address)
        before = json.loads(client.internal_kv_get(CLUSTER_METADATA_KEY, namespace=b"cluster"))
        client.internal_kv_put(
            CLUSTER_METADATA_KEY, json.dumps(before | said).encode(), True, namespace=b"cluster"
        )


def main() -> None:
    """Serve until standard input ends."""
    nodes = Nodes()
    print(json.dumps(nodes.cluster.address), flush=True)
    for line in sys.stdin:
        name, given = json.loads(line)
        print(json.dumps(getattr(nodes, name)(**given)), flush=True)
    nodes.cluster.shutdown()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main()
