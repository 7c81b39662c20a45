"""Section 7.2: several tenants in one cloud, each with a Choreo of its own, or all with one.

Tenants have ten VMs each, on the same racks, whose uplinks all share. They come one after the other and stay. The fluid
model gives the rate of a new connection on each path alongside the others' transfers: that is a tenant's measurement.
Four ways are compared:

- no measurement (the paper's baselines);
- each tenant's own measurement;
- each tenant's measurement in an idle cloud, such as yesterday's;
- a controller that knows all links and transfers and places each newcomer with them.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
from dataclasses import dataclass

import numpy as np
from benches.choreo.workloads import AT_ONCE, CORES, HOSTS, draw

from gavotte.errors import InfeasibleError
from gavotte.formats.app import App
from gavotte.formats.network import FORMAT, Network
from gavotte.formats.placement import Placement
from gavotte.place import Running, place
from gavotte.simulate import Advance, Conditions, Flows, simulate

TENANTS = 4
RACKS = 5
EGRESS_BPS = (900e6, 1100e6)
UPLINK_BPS = (1.0e9, 2.5e9)
PROBE_BYTES = 1_000_000
TARGET_S = 100.0
"""Approximate time of an application that was placed at random."""
BLIND = ("random", "round-robin", "min-machines")
WAYS = (*BLIND, "greedy, own", "ours, own", "ours, idle", "ours, controller")


@dataclass(frozen=True)
class Tenant:
    """Hosts by their index in the cloud, and their applications."""

    hosts: list[int]
    app: App


def cloud(seed: int) -> Network:
    """Return all tenants' VMs, spread over racks at random."""
    rng = random.Random(seed)
    names = [f"t{tenant}-vm{i}" for tenant in range(TENANTS) for i in range(HOSTS)]
    racks: list[list[str]] = [[] for _ in range(RACKS)]
    for name in names:
        racks[rng.randrange(RACKS)].append(name)
    egress = [rng.uniform(*EGRESS_BPS) for _ in names]
    rates = [[None if m == n else min(egress[m], 1e9) for n in range(len(names))] for m in range(len(names))]
    return Network.model_validate(
        {
            "format": FORMAT,
            "hosts": [
                {"name": name, "cpus": CORES, "egress_bps": cap} for name, cap in zip(names, egress, strict=True)
            ],
            "rate_bps": rates,
            "latency_s": [[None] * len(names) for _ in names],
            "groups": [
                {"name": f"rack{r}", "members": members, "up_bps": (up := rng.uniform(*UPLINK_BPS)), "down_bps": up}
                for r, members in enumerate(racks)
                if members
            ],
            "sharing": "groups",
        }
    )


def tenants(network: Network, seed: int) -> list[Tenant]:
    """Return each tenant's application, in order of arrival, with bytes that take `TARGET_S` at random and alone.

    Raises:
        InfeasibleError: when one cannot be placed.
    """
    items = []
    for number in range(TENANTS):
        hosts = list(range(number * HOSTS, (number + 1) * HOSTS))
        app = draw(10 * seed + number, AT_ONCE).apps[0].model_copy(update={"name": f"app{number}"})
        alone = place(network.of_hosts(hosts), [app], "random", seed=seed)
        factor = TARGET_S / alone.completion_s if alone.completion_s else 1.0
        sent = [t.model_copy(update={"bytes": max(1, int(t.bytes * factor))}) for t in app.transfer]
        items.append(Tenant(hosts, app.model_copy(update={"transfer": sent})))
    return items


def measured(network: Network, hosts: list[int], others: list[tuple[int, int]]) -> Network:
    """Return a tenant's view: each path's rate alongside others' transfers, a probe at a time, and no groups."""
    rates = [list(row) for row in network.of_hosts(hosts).rate_bps]
    for i, m in enumerate(hosts):
        for j, n in enumerate(hosts):
            if i != j:
                ends = np.array([(m, n), *others], dtype=np.uint32)
                sizes = np.array([PROBE_BYTES, *[1 << 50] * len(others)], dtype=np.uint64)
                flows = Flows(ends[:, 0], ends[:, 1], sizes, np.zeros(len(ends)))
                until_s = 60.0
                took_s = float(simulate(network, flows, Conditions(until_s=until_s)).finish_s[0])
                rates[i][j] = 8 * PROBE_BYTES / took_s if math.isfinite(took_s) else 8 * PROBE_BYTES / until_s
    seen = network.of_hosts(hosts)
    return seen.model_copy(update={"rate_bps": rates, "groups": [], "sharing": "hose"})


def under_way(result: list[tuple[Tenant, Placement]], network: Network) -> list[tuple[int, int]]:
    """Return source and target of each transfer that was placed before."""
    at = {name: index for index, name in enumerate(network.names)}
    ways = [
        (at[placement.assignment[t.source]], at[placement.assignment[t.target]])
        for tenant, placement in result
        for t in tenant.app.transfer
        if t.bytes > 0
    ]
    return [(m, n) for m, n in ways if m != n]


def placed(network: Network, everybody: list[Tenant], way: str, seed: int, limit_s: float) -> list[Placement]:
    """Return each tenant's placement, one after the other."""
    items: list[tuple[Tenant, Placement]] = []
    for tenant in everybody:
        mine = network.of_hosts(tenant.hosts)
        method, _, how = way.partition(", ")
        if how == "controller":
            allowed = {task.name: [network.names[m] for m in tenant.hosts] for task in tenant.app.task}
            present = [Running([each.app], placement) for each, placement in items]
            answer = place(
                network, [tenant.app], "search", seed=seed, time_limit_s=limit_s, allowed=allowed, running=present
            )
        elif not how:
            answer = place(mine, [tenant.app], method, seed=seed)
        else:
            others = under_way(items, network) if how == "own" else []
            seen = measured(network, tenant.hosts, others)
            answer = place(
                seen, [tenant.app], "greedy" if method == "greedy" else "search", seed=seed, time_limit_s=limit_s
            )
        items.append((tenant, answer))
    return [placement for _, placement in items]


def times(seed: int, limit_s: float) -> dict[str, float]:
    """Return the sum of the running times of all tenants by way.

    Raises:
        InfeasibleError: when a method gets stuck.
    """
    network = cloud(seed)
    everybody = tenants(network, seed)
    advance = Advance(network)
    return {
        way: math.fsum(
            advance(
                [tenant.app for tenant in everybody],
                [placement.assignment for placement in placed(network, everybody, way, seed, limit_s)],
            ).finish_s
        )
        for way in WAYS
    }


def main(asked: argparse.Namespace) -> None:
    """Print the sum of times by way, compared with the mean of the baselines."""
    count = 3 if asked.quick else asked.tenant_clouds
    items: list[dict[str, float]] = []
    seed = 1000 * asked.seed
    stuck = 0
    while len(items) < count:
        seed += 1
        try:
            items.append(times(seed, asked.error_limit))
        except InfeasibleError:
            stuck += 1
    print(
        f"\nsection 7.2: {TENANTS} tenants of {HOSTS} VMs, one after the other, in {RACKS} racks with uplinks of "
        f"{UPLINK_BPS[0] / 1e9:g} to {UPLINK_BPS[1] / 1e9:g} Gbit/s; {count} clouds, seeds from {1000 * asked.seed + 1} ({stuck} drawn "
        "again), fluid model; time saved over the mean of the baselines, sum over tenants; paper: future work, no number"
    )
    blind = np.array([statistics.fmean(each[way] for way in BLIND) for each in items])
    for way in WAYS:
        gain = 1 - np.array([each[way] for each in items]) / blind
        error = gain.std(ddof=1) / math.sqrt(count)
        print(
            f"{way:<18} {100 * gain.mean():>6.1f} ± {100 * error:.1f} %  median {100 * float(np.median(gain)):>6.1f} %  "
            f"worse in {100 * float((gain < -0.01).mean()):.0f} %",
            flush=True,
        )
