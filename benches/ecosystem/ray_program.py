"""Ray's own collective, and a shuffle of Ray Data, on some nodes: WORKERS NODES FILE, and `WAY: JOB` in each line of stdin.

`default` leaves the choice of nodes to Ray. `gavotte` asks for one rack by the labels that were measured. Prints
the seconds, and writes the addresses of the nodes to the file.
"""

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import ray
import ray.data
from ray.util import collective
from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

MEGABYTES, ROUNDS = 8, 4
BLOCK_MEGABYTES, ROW_BYTES = 24, 1000
"""Data on each node before the shuffle, and the size of one row."""
READY_S = 240


class Rank:
    """One rank of a collective."""

    def join(self, ranks: int, rank: int, name: str) -> None:
        collective.init_collective_group(ranks, rank, "gloo", name)

    def reduce(self, name: str, rounds: int) -> float:
        import torch

        sums = torch.ones(MEGABYTES * 250_000)
        begin = time.monotonic()
        for _ in range(rounds):
            collective.allreduce(sums, name)
        return time.monotonic() - begin


Member: Any = ray.remote(num_cpus=1)(Rank)


def all_reduce(group: PlacementGroup, ranks: int) -> float:
    """Add up a tensor over all ranks, several times."""
    name = f"sum-{time.monotonic_ns()}"
    members = [
        Member.options(
            scheduling_strategy=PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=rank)
        ).remote()
        for rank in range(ranks)
    ]
    ray.get([each.join.remote(ranks, rank, name) for rank, each in enumerate(members)], timeout=READY_S)
    ray.get([each.reduce.remote(name, 1) for each in members], timeout=READY_S)
    took_s: float = max(ray.get([each.reduce.remote(name, ROUNDS) for each in members], timeout=READY_S))
    for each in members:
        ray.kill(each)
    return took_s


def rows(batch: dict[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
    """Return a block of rows for each number of a batch."""
    count = len(batch["id"]) * BLOCK_MEGABYTES * 1_000_000 // ROW_BYTES
    return {"row": np.random.default_rng(0).integers(0, 256, (count, ROW_BYTES), dtype=np.uint8)}


def random_shuffle(group: PlacementGroup, ranks: int) -> float:
    """Shuffle the rows of a dataset that lies on the nodes of a group.

    Tasks of Ray Data run on these nodes by their labels. Within the group itself they would wait for each other.
    """
    nodes = ray.util.placement_group_table(group)["bundles_to_node_id"].values()
    remove_placement_group(group)
    here = {"ray.io/node-id": f"in({','.join(nodes)})"}
    blocks = ray.data.range(ranks, override_num_blocks=ranks).map_batches(rows, label_selector=here).materialize()
    begin = time.monotonic()
    blocks.random_shuffle(seed=0, label_selector=here).materialize()
    return time.monotonic() - begin


JOBS = {"all-reduce": all_reduce, "random shuffle": random_shuffle}


def main() -> None:
    ranks, nodes = int(sys.argv[1]), int(sys.argv[2])
    ray.init(address="auto", log_to_driver=False)
    end_s = time.monotonic() + READY_S
    while sum(each["Alive"] for each in ray.nodes()) < nodes and time.monotonic() < end_s:
        time.sleep(0.5)
    names = {each["NodeID"]: each["NodeManagerAddress"] for each in ray.nodes()}
    for line in sys.stdin:
        way, _, job = line.strip().partition(": ")
        end_s = time.monotonic() + READY_S
        # Ray would choose among the nodes that the last group has left free: of two racks, the other one.
        while ray.available_resources().get("CPU", 0) < nodes and time.monotonic() < end_s:
            time.sleep(0.1)
        chosen = {"topology_strategy": {"ray.io/gpu-domain": "STRICT_PACK"}} if way == "gavotte" else {}
        group = placement_group([{"CPU": 1}] * ranks, **chosen)
        ray.get(group.ready(), timeout=READY_S)
        at = ray.util.placement_group_table(group)["bundles_to_node_id"]
        took_s = JOBS[job](group, ranks)
        remove_placement_group(group)
        Path(sys.argv[3]).write_text(" ".join(names[at[rank]] for rank in range(ranks)))
        print(f"seconds {took_s:.3f}", flush=True)


if __name__ == "__main__":
    main()
