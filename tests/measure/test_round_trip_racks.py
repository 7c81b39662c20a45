"""Racks by round trips, where the network hides its routers: in played clouds, and with real packets."""

from __future__ import annotations

import numpy as np
import pytest
from tests import builders
from tests.measure.oracle import Oracle
from tests.measure.played_network import PlayedNetwork
from tests.measure.test_sparse_played import off, racks

from gavotte import lab
from gavotte.agents import Budget, enrolled
from gavotte.agents.schedule import carry_out as send_schedule
from gavotte.agents.tiers import find_tiers
from gavotte.formats.inventory import read_inventory
from gavotte.measure import MeasureQuestion, carry_out, plan_measurement
from gavotte.model import check_held_out, model
from gavotte.terms.hierarchy import RACK_HOPS

US, MS = 1e-6, 1e-3


def test_a_measurement_behind_hidden_routers_has_the_racks_of_round_trips() -> None:
    topology = racks(4, 16, 3.0)
    oracle = Oracle(topology)
    of = np.array([str(host.switch) for host in topology.host])
    oracle.hops[oracle.hops > 0] = 1
    network = PlayedNetwork(oracle, seed=1)
    network.trips_s = np.where(of[:, None] == of[None, :], 30 * US, 60 * US)
    network.jitter_s = 10 * US
    with network.held():
        result = carry_out(plan_measurement(MeasureQuestion(network.inventory, seed=1)))
    warnings = " ".join(result.warnings)
    assert "the network hides its routers, so racks are those that round trips show, with breaks at" in warnings
    assert off(result.history, oracle).max() < 0.05
    check = check_held_out(result.history)
    assert check is not None
    assert check.off == 0
    groups = model(result.history).groups
    rack = dict(zip(oracle.names, of.tolist(), strict=True))
    assert len(groups) == 4
    assert all(len({rack[member] for member in group.members}) == 1 and group.up_bps for group in groups)


def test_without_a_difference_of_round_trips_the_measurement_says_so() -> None:
    oracle = Oracle(racks(3, 10, 3.0))
    oracle.hops[oracle.hops > 0] = 1
    network = PlayedNetwork(oracle, seed=2)
    network.jitter_s = 10 * US
    with network.held():
        result = carry_out(plan_measurement(MeasureQuestion(network.inventory, seed=2)))
    assert "the network hides its routers, and round trips do not show racks" in result.warnings
    assert not (result.history.hops > 1).any()


@pytest.mark.lab
def test_real_round_trips_show_the_racks_of_a_lab() -> None:
    switches: list[builders.Named] = ["core", *({"name": f"rack{r}", "latency": "1ms"} for r in range(4))]
    hosts = [{"name": f"vm{m}", "switch": f"rack{m % 4}", "egress": "100mbit"} for m in range(32)]
    topology = builders.topology(hosts, switches=switches)
    with lab.session(topology, source="tiers") as session:
        inventory = read_inventory(session.hosts_file)
        with enrolled(inventory, Budget(max_bytes=1 << 20, max_seconds=60.0)) as fleet:
            names = inventory.names
            tiers = find_tiers(lambda schedule, round_s: send_schedule(fleet, schedule, round_s=round_s), names, names)
    assert len(tiers.breaks_s) == 1
    rack = np.arange(32) % 4
    near = rack[:, None] == rack[None, :]
    np.fill_diagonal(near, val=False)
    assert ((tiers.lengths.matrix() == RACK_HOPS) == near).all()
    assert 0.02 * MS < tiers.breaks_s[0] < 4 * MS
