"""Topologies for the lab's tests."""

from __future__ import annotations

from typing import Any

from tests.builders import topology

from gavotte.formats.topology import Topology


def tree_of_ten(**host: Any) -> Topology:
    """Ten hosts on eight machines in four racks under two aggregation switches."""
    switches: list[dict[str, Any]] = [{"name": "core"}]
    switches += [{"name": f"agg{i}", "parent": "core", "up": "10gbit"} for i in range(2)]
    switches += [{"name": f"tor{i}", "parent": f"agg{i // 2}", "up": "4gbit", "down": "5gbit"} for i in range(4)]
    machines = [
        {"name": f"pm{i}", "switch": f"tor{i // 2}", "rate": "1gbit", "machine_rate": "4gbit"} for i in range(8)
    ]
    hosts = [{"name": f"vm{i}", "machine": f"pm{max(0, i - 2)}", **host} for i in range(10)]
    return topology(hosts, switches=switches, machine=machines)
