"""Ray's own cluster of several nodes on this machine, as a program of its own: the tests' process knows nothing of Ray.

    RAY_TMPDIR=FOLDER python nodes.py

It prints the address, then does what lines on its standard input say, and prints what came of each as a line of JSON.
"""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

from ray.cluster_utils import Cluster


class Nodes:
    """The commands, by name."""

    def __init__(self) -> None:
        logging.getLogger("ray").setLevel(logging.ERROR)
        # Its head runs no workers, as is usual; the process that is tested is connected to it.
        head = {"num_cpus": 0, "include_dashboard": False}
        self.cluster = Cluster(initialize_head=True, head_node_args=head)
        self.nodes: list[Any] = []

    def add(self, cpus: int = 1) -> dict[str, int]:
        """Begin a node; its number, and the process that its workers are children of."""
        node = self.cluster.add_node(num_cpus=cpus)
        self.nodes.append(node)
        return {"node": len(self.nodes) - 1, "raylet": node.all_processes["raylet"][0].process.pid}


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
