"""Ray's own cluster of some nodes on one machine, a program: it says where its dashboard is, and ends when its input does."""

from __future__ import annotations

import sys
from typing import Any

from ray.cluster_utils import Cluster

SMALL: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 80 << 20}


def main(nodes: int) -> None:
    """Hold the cluster up until standard input ends."""
    cluster = Cluster(
        initialize_head=True,
        head_node_args=SMALL | {"include_dashboard": True, "dashboard_port": 0},
    )
    try:
        for _ in range(1, nodes):
            cluster.add_node(**SMALL)
        print(f"dashboard: {cluster.webui_url}", flush=True)
        sys.stdin.read()
    finally:
        cluster.shutdown()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main(int(sys.argv[1]))
