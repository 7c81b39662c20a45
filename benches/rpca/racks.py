"""Trees and rings that know racks' links, compared with those that do not, and the cost of the true price."""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

import numpy as np
from benches.rpca import traces
from benches.rpca.stats import saved

from gavotte.collective import TreeSearch, plan, replay
from gavotte.formats.collective import Operation
from gavotte.formats.network import Group, Network

SIZES = ((24, 6), (64, 8), (196, 14))
"""Number of hosts, and hosts in a rack."""
HOST_BPS, PAIR_BPS, RACK_BPS = (2e8, 1e9), (1e8, 1e9), (4e8, 2e9)
"""Uniform ranges: a host's caps, a pair's rate, a rack's links."""
CASES: tuple[tuple[Operation, str, int], ...] = (
    ("broadcast", "search", 8 << 20),
    ("scatter", "search", 1 << 20),
    ("allgather", "ring", 1 << 20),
    ("allreduce", "ring", 8 << 20),
)


def cloud(size: int, rack: int, seed: int) -> Network:
    """Return hosts with caps, at random in racks behind links of their own."""
    generator = np.random.default_rng(seed)
    names = [f"h{i}" for i in generator.permutation(size)]
    groups = [
        Group(
            name=f"r{k}",
            members=names[k : k + rack],
            up_bps=generator.uniform(*RACK_BPS),
            down_bps=generator.uniform(*RACK_BPS),
        )
        for k in range(0, size, rack)
    ]
    plain = traces.network_of(8 / generator.uniform(*PAIR_BPS, (size, size)))
    hosts = [
        host.model_copy(
            update={"egress_bps": generator.uniform(*HOST_BPS), "ingress_bps": generator.uniform(*HOST_BPS)}
        )
        for host in plain.hosts
    ]
    return plain.model_copy(update={"hosts": hosts, "groups": groups, "sharing": "groups"})


def figures(arguments: argparse.Namespace) -> None:
    """Print the saving from knowing the racks' links, and the time of a search and of a price."""
    print(
        f"\nSearches that know racks' links next to those that know hosts' caps alone, {arguments.seeds} clouds, "
        "by the fluid model; s to search, of which one price"
    )
    for size, rack in SIZES:
        for operation, algorithm, size_bytes in CASES:
            rows: dict[str, list[float]] = {"knows": [], "blind": [], "promised": [], "search": [], "price": []}
            for seed in range(arguments.seed, arguments.seed + arguments.seeds):
                network = cloud(size, rack, seed)
                now = traces.history_of(np.array([8 / network.to_numpy()]))
                now = replace(now, alpha_s=network.to_numpy("latency_s")[None])
                started = time.process_time()
                made = plan(
                    network, operation, size_bytes=size_bytes, algorithm=algorithm, search=TreeSearch(seed=seed)
                )
                rows["search"].append(time.process_time() - started)
                started = time.process_time()
                rows["knows"].append(float(replay(now, made, network)[0]))
                rows["price"].append(time.process_time() - started)
                caps_alone = network.model_copy(update={"sharing": "hose"})
                blind = plan(
                    caps_alone, operation, size_bytes=size_bytes, algorithm=algorithm, search=TreeSearch(seed=seed)
                )
                rows["blind"].append(float(replay(now, blind, network)[0]))
                rows["promised"].append(blind.predicted_s)
            mean = {name: float(np.mean(values)) for name, values in rows.items()}
            print(
                f"  N = {size:<3} {operation:<9} {mean['knows']:8.3f} s, "
                f"{saved(np.array(rows['knows']), np.array(rows['blind']))} % less than {mean['blind']:8.3f} s "
                f"(predicted {mean['promised']:.3f});  search {mean['search']:.2f} s, price {mean['price']:.3f} s",
                flush=True,
            )
