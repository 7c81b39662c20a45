"""Write zones of a Network and tasks of an App for Diktyo, the network-aware plugins of Kubernetes' scheduler.

Sources: the plugins NetworkOverhead and TopologicalSort in `pkg/networkaware` of kubernetes-sigs/scheduler-plugins, and
the controllers of diktyo-io. `tests/export/data/crds` names the commits.

The plugins know zones and regions, not nodes: they add up the cost from a pod's zone to those of the pods on which its
workload depends. Within a node the cost is 0, and within a zone 1.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np
import numpy.typing as npt

from gavotte.errors import GavotteError
from gavotte.export.labels import LABEL_VALUE, Keys, check_nodes
from gavotte.export.tree import fitting, tiers, tree_of
from gavotte.formats.app import App, Constraints
from gavotte.formats.network import Network

REGION = "topology.kubernetes.io/region"
ZONE = "topology.kubernetes.io/zone"

COST_S = 1e-5
"""One-way latency that adds 1 to a cost: 10 microseconds, so that racks of a data centre differ."""

MOST_COST = 10_000
"""Largest cost that an AppGroup can allow, 100 ms. Larger ones are written as this, so that it allows all."""

MOST_BYTES = 1 << 20
"""Longest text of an object. An API server keeps objects of 1.5 MiB."""


_LEAST_BYTES = 50
"""Shortest text of a cost."""

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
"""Name that an object and the value of a label can both have."""


@dataclass(frozen=True)
class Zones:
    """Zones and regions of hosts, in the Network's order.

    Attributes:
        zones: each host's zone.
        regions: each host's region; empty = the hosts have none.
        labelled: whether the zones are labels of the hosts. Otherwise they are the nearest switches.
    """

    zones: Sequence[str]
    regions: Sequence[str]
    labelled: bool


def zones_of(network: Network) -> Zones:
    """Return the zones and regions of a Network's hosts: their labels or, without any, the nearest switches.

    Raises:
        GavotteError: when some hosts lack a label that others have, a zone is in two regions, or the groups form no
            tree.
    """
    regions, zones = (_labels(network, key) for key in (REGION, ZONE))
    labelled = bool(zones)
    if not labelled:
        above = tiers(tree_of(network))
        zones = [fitting(above[name][0], LABEL_VALUE) for name in network.names]
    around: dict[str, str] = {}
    for zone, region in zip(zones, regions, strict=False):
        if (other := around.setdefault(zone, region)) != region:
            raise GavotteError(
                f"hosts.labels: zone `{zone}` is in the regions `{other}` and `{region}`",
                hint=f"give zones of different regions different names in `{ZONE}`",
            )
    return Zones(zones, regions, labelled)


def zone_labels(network: Network, _: Keys) -> str:
    """Return a `kubectl label` command for each node with its zone and, if known, its region.

    The commands never replace a zone that a node has: volumes in a cloud are bound to the provider's zones.

    Raises:
        GavotteError: as `zones_of`, or when a host cannot be a node.
    """
    check_nodes(network)
    known = zones_of(network)
    lines = [f"kubectl label node {name} {ZONE}={zone}" for name, zone in zip(network.names, known.zones, strict=True)]
    if known.regions:
        lines = [f"{line} {REGION}={region}" for line, region in zip(lines, known.regions, strict=True)]
    return "".join(f"{line}\n" for line in lines)


def network_topology(network: Network, _: Keys) -> str:
    """Return a NetworkTopology, `gavotte`, with the costs between zones of each region, and between regions.

    1. A cost is the median latency of the pairs of hosts, in units of `COST_S`, rounded up: 1 to `MOST_COST`.
    2. A bandwidth capacity is the median rate of one pair of hosts in bit/s; it is left out if no pair has one.

    Raises:
        GavotteError: as `zones_of`; when there is one zone only, no latency between two zones or regions is known, or
            the object would be too large.
    """
    known = zones_of(network)
    zones_in: dict[str, dict[str, list[int]]] = {}
    for index, zone in enumerate(known.zones):
        region = known.regions[index] if known.regions else ""
        zones_in.setdefault(region, {}).setdefault(zone, []).append(index)
    hosts_in = {region: [host for hosts in zones.values() for host in hosts] for region, zones in zones_in.items()}
    costs = sum(len(family) * (len(family) - 1) for family in [hosts_in, *zones_in.values()])
    if costs * _LEAST_BYTES > MOST_BYTES:
        raise _too_many_zones(known, costs)
    lines = [
        "apiVersion: networktopology.diktyo.x-k8s.io/v1alpha1",
        "kind: NetworkTopology",
        "metadata:",
        "  name: gavotte",
        "spec:",
        "  configmapName: gavotte",
        "  weights:",
        "  - name: UserDefined",
        "    topologyList:",
    ]
    between_regions = _origins(network, hosts_in, "region")
    between_zones = [line for _, zones in sorted(zones_in.items()) for line in _origins(network, zones, "zone")]
    for key, origins in ((REGION, between_regions), (ZONE, between_zones)):
        if origins:
            lines += [f"    - topologyKey: {key}", "      originList:", *origins]
    if not between_regions and not between_zones:
        raise GavotteError(
            f"groups: all hosts are in one zone, `{known.zones[0]}`, and Diktyo has costs between zones only",
            hint=f"group the hosts by racks, or give them the label `{ZONE}`",
        )
    text = "".join(f"{line}\n" for line in lines)
    if len(text) > MOST_BYTES:
        raise _too_many_zones(known, costs)
    return text


def app_group(app: App, *, seconds: float | None = None) -> str:
    """Return an AppGroup with a workload for each task, whose pods have the task's name as their label.

    1. Tasks that exchange bytes depend on each other: the later one of the App on the earlier one. TopologicalSort
       schedules a task after those on which it depends (`ReverseKahn`), so the scheduler sees each pair once.
    2. `minBandwidth` is the larger direction's bytes, divided by `seconds`, in bit/s.
    3. `maxNetworkCost` is the App's `max_latency` in units of `COST_S`, rounded down, or `MOST_COST`.

    Args:
        app: the tasks, their bytes, and no constraints but `max_latency`.
        seconds: time in which the transfers should finish; None = leave `minBandwidth` out.

    Raises:
        GavotteError: when the App has other constraints or a price, or the object would be too large.
    """
    allowed = _allowed_costs(app)
    order = {task.name: index for index, task in enumerate(app.task)}
    directed: dict[tuple[str, str], int] = {}
    for transfer in app.transfer:
        if transfer.source != transfer.target and transfer.bytes:
            ends = (transfer.source, transfer.target)
            directed[ends] = directed.get(ends, 0) + transfer.bytes
    pairs = {_by_order(ends, order) for ends in [*directed, *allowed]}
    earlier: dict[str, list[str]] = {}
    for first, second in sorted(pairs, key=lambda pair: order[pair[0]]):
        earlier.setdefault(second, []).append(first)
    name = group_name(app)
    lines = [
        "apiVersion: appgroup.diktyo.x-k8s.io/v1alpha1",
        "kind: AppGroup",
        "metadata:",
        f"  name: {json.dumps(name)}",
        "spec:",
        f"  numMembers: {len(app.task)}",
        "  topologySortingAlgorithm: ReverseKahn",
        "  workloads:",
    ]
    for task in order:
        lines.append(f"  - workload: {_workload(task)}")
        if task in earlier:
            lines.append("    dependencies:")
        for other in earlier.get(task, []):
            size = max(directed.get((task, other), 0), directed.get((other, task), 0))
            lines.append(f"    - workload: {_workload(other)}")
            if seconds is not None and size:
                lines.append(f'      minBandwidth: "{math.ceil(8 * size / seconds)}"')
            lines.append(f"      maxNetworkCost: {min(allowed.get(ends, MOST_COST) for ends in _both(task, other))}")
    text = "".join(f"{line}\n" for line in lines)
    if len(text) > MOST_BYTES:
        raise GavotteError(
            f"transfer: the AppGroup of {len(pairs)} pairs of tasks has {len(text)} bytes, and Kubernetes keeps "
            f"{MOST_BYTES}",
            hint="leave out the transfers of fewest bytes, or follow a Placement with `gavotte serve --placement`",
        )
    return text


def group_name(app: App) -> str:
    """Return the name of an App's AppGroup, which its pods have as a label."""
    return fitting(app.name, _NAME)


def doubts_of_zones(network: Network) -> list[str]:
    """Return a warning for each zone that gets another name than its group.

    Raises:
        GavotteError: as `zones_of`.
    """
    known = zones_of(network)
    if known.labelled:
        return []
    names = {above[0]: None for above in tiers(tree_of(network)).values()}
    return [
        f"zone `{name}` is written as `{other}`: Kubernetes does not allow its name"
        for name in names
        if (other := fitting(name, LABEL_VALUE)) != name
    ]


def doubts_of_app(app: App) -> list[str]:
    """Return a warning for each task that is written by another name, and if the App's name is another."""
    named = [("application", app.name, group_name(app))]
    named += [("task", task.name, fitting(task.name, LABEL_VALUE)) for task in app.task]
    return [
        f"{kind} `{name}` is written as `{other}`: Kubernetes does not allow its name"
        for kind, name, other in named
        if name != other
    ]


def _too_many_zones(known: Zones, costs: int) -> GavotteError:
    return GavotteError(
        f"groups: the {costs} costs between {len(set(known.zones))} zones are more than the {MOST_BYTES} bytes that "
        "Kubernetes keeps",
        hint=f"give the hosts fewer zones, or regions with the label `{REGION}`",
    )


def _labels(network: Network, key: str) -> list[str]:
    """Return the value of a label of each host; empty = no host has it.

    Raises:
        GavotteError: naming the first host that lacks the label while another has it, or whose value no node can have.
    """
    values = [host.labels.get(key) for host in network.hosts]
    if not any(values):
        return []
    result = []
    for name, value in zip(network.names, values, strict=True):
        if not value or not LABEL_VALUE.fullmatch(value):
            state = f"has `{value}` as label `{key}`, which no node can have" if value else f"has no label `{key}`"
            raise GavotteError(f"hosts.labels: host `{name}` {state}", hint="write the labels of its node there")
        result.append(value)
    return result


def _origins(network: Network, family: Mapping[str, Sequence[int]], noun: str) -> list[str]:
    """Return the lines of an `originList`: the costs between all places of a family.

    Args:
        network: the latencies and rates.
        family: zones of one region, or regions, each with the indices of its hosts.
        noun: what they are, for the message.

    Raises:
        GavotteError: when no latency between two of them is known.
    """
    latencies_s, rates_bps = network.to_numpy("latency_s"), _rates_bps(network)
    lines: list[str] = []
    origin = None
    for source, target in permutations(sorted(family), 2):
        if source != origin:
            origin = source
            lines += [f"      - origin: {json.dumps(source)}", "        costList:"]
        pairs = np.ix_(family[source], family[target])
        latency_s, rate_bps = _median(latencies_s[pairs]), _median(rates_bps[pairs])
        if latency_s is None:
            raise GavotteError(
                f"latency_s: no latency is known from {noun} `{source}` to {noun} `{target}`",
                hint="measure their hosts in one measurement, or write `latency_s` into the Network",
            )
        lines += [f"        - destination: {json.dumps(target)}", f"          networkCost: {_cost(latency_s)}"]
        if rate_bps is not None:
            lines.append(f'          bandwidthCapacity: "{rate_bps:.0f}"')
    return lines


def _rates_bps(network: Network) -> npt.NDArray[np.float64]:
    """Return the (N, N) rates of pairs in bit/s, at most what the hosts' caps allow; NaN = unknown."""
    egress, ingress = (
        np.array([np.inf if cap is None else cap for cap in caps])
        for caps in ([host.egress_bps for host in network.hosts], [host.ingress_bps for host in network.hosts])
    )
    rates = np.nan_to_num(network.to_numpy("rate_bps"), nan=np.inf, posinf=np.inf)
    rates = np.minimum(rates, np.minimum(egress[:, np.newaxis], ingress[np.newaxis, :]))
    return np.where(np.isfinite(rates), rates, np.nan)


def _median(values: npt.NDArray[np.float64]) -> float | None:
    """Return the median of the values that are known; None = none is."""
    known = values[~np.isnan(values)]
    return float(np.median(known)) if known.size else None


def _cost(latency_s: float) -> int:
    # Rounding first keeps a latency of 20 units from becoming 21.
    return min(max(math.ceil(round(latency_s / COST_S, 6)), 1), MOST_COST)


def _allowed_costs(app: App) -> dict[tuple[str, str], int]:
    """Return the largest cost by source and target that an App's constraints allow.

    Raises:
        GavotteError: naming the first constraint that no AppGroup can express.
    """
    for key in Constraints.model_fields:
        if key != "max_latency" and getattr(app.constraints, key):
            raise GavotteError(
                f"constraints.{key}: an AppGroup has bounds on latency only",
                hint="write this as the pods' affinity and leave it out here, or use `gavotte serve --placement`",
            )
    allowed: dict[tuple[str, str], int] = {}
    for index, bound in enumerate(app.constraints.max_latency):
        if bound.price_s is not None:
            raise GavotteError(
                f"constraints.max_latency[{index}].price_s: an AppGroup has no prices", hint="leave out `price_s`"
            )
        cost = min(math.floor(round(bound.seconds / COST_S, 6)), MOST_COST)
        ends = (bound.source, bound.target)
        allowed[ends] = min(allowed.get(ends, cost), cost)
    return allowed


def _by_order(ends: tuple[str, str], order: Mapping[str, int]) -> tuple[str, str]:
    return ends if order[ends[0]] < order[ends[1]] else (ends[1], ends[0])


def _both(one: str, other: str) -> tuple[tuple[str, str], tuple[str, str]]:
    return (one, other), (other, one)


def _workload(task: str) -> str:
    """Return a workload as YAML in one line. The plugins compare the selector with the pods' label."""
    name = fitting(task, LABEL_VALUE)
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "name": name, "selector": name})
