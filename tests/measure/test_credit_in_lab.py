"""A host that bursts until its credit has run out, measured with real packets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests import builders
from tests.shell import gavotte

from gavotte import lab
from gavotte.formats.history import read_history
from gavotte.formats.inventory import read_inventory
from gavotte.formats.topology import Topology
from gavotte.measure import measure
from gavotte.measure.plan.methods.bulk import bulk
from gavotte.model import model
from gavotte.place import evaluate
from gavotte.run import run
from gavotte.simulate import simulate_placement
from gavotte.terms.goodput import GOODPUT_PER_WIRE

pytestmark = pytest.mark.lab


CREDIT_BYTES = 45_000_000
PEAK_BPS, RATE_BPS = GOODPUT_PER_WIRE * 80e6, GOODPUT_PER_WIRE * 20e6


def bursting() -> Topology:
    """A host that sends at 80 Mbit/s for 6 s and then at 20, and a receiver."""
    return builders.topology(
        [
            {"name": "a", "egress": "20mbit", "burst": f"{CREDIT_BYTES}b", "ingress": "80mbit"},
            {"name": "c", "egress": "80mbit", "ingress": "80mbit"},
        ]
    )


@pytest.mark.rare
def test_transfers_take_as_long_as_the_measured_credit_predicts() -> None:
    # Longer than the credit lasts.
    with lab.session(bursting(), source="tests") as session:
        measurement = measure(read_inventory(session.hosts_file), method=bulk(seconds=8.0), seed=1)
    network = model(measurement.history)
    host = network.hosts[0]
    assert host.egress_bps == pytest.approx(RATE_BPS, rel=0.03)
    assert host.peak_bps == pytest.approx(PEAK_BPS, rel=0.05)
    assert host.burst_bytes == pytest.approx(GOODPUT_PER_WIRE * CREDIT_BYTES, rel=0.05)
    within = builders.app("within", ("x", "y", 50_000_000), constraints={"pin": {"y": "c"}, "apart": [["x", "y"]]})
    beyond = builders.app("beyond", ("x", "y", 65_000_000), constraints={"pin": {"y": "c"}, "apart": [["x", "y"]]})
    # The credit covers 57 MB.
    for app, seconds in (
        (within, 8 * 50e6 / PEAK_BPS),
        (beyond, 8 * (65e6 - GOODPUT_PER_WIRE * CREDIT_BYTES) / RATE_BPS),
    ):
        placement = evaluate(network, [app], {"x": "a", "y": "c"})
        assert placement.completion_s == pytest.approx(seconds, rel=0.06)
        assert simulate_placement(network, [app], placement) == pytest.approx(placement.completion_s, rel=0.01)
        # A new lab has a full bucket.
        with lab.session(bursting(), source="tests") as session:
            result = run(placement, [app], read_inventory(session.hosts_file))
        assert result.completion_s == pytest.approx(placement.completion_s, rel=0.06)


def test_bulk_reports_the_rate_after_a_credit_and_the_credit() -> None:
    # The credit lasts 1.1 s: half as long was missed while three other labs ran.
    hosts = [{"name": "a", "egress": "20mbit", "burst": "8MB"}, {"name": "b", "ingress": "80mbit", "egress": "80mbit"}]
    with lab.session(builders.topology(hosts), source="tests") as session:
        done = gavotte("measure", "--hosts", str(session.hosts_file), "--method", "bulk", "--seconds", "2.5", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    (credit,) = document["credits"]
    assert (credit["host"], credit["target"]) == ("a", "b")
    assert credit["peak_bps"] == pytest.approx(GOODPUT_PER_WIRE * 80e6, rel=0.05)
    assert credit["rate_bps"] == pytest.approx(GOODPUT_PER_WIRE * 20e6, rel=0.03)
    assert credit["bytes"] == pytest.approx(GOODPUT_PER_WIRE * 8e6, rel=0.08)
    assert document["rate_bps"][0][1] == credit["rate_bps"]


def test_hosts_that_send_for_longer_show_credits_that_probes_do_not_use_up(tmp_path: Path) -> None:
    hosts = [
        {"name": "a", "egress": "20mbit", "burst": "4MB", "ingress": "80mbit"},
        {"name": "b", "egress": "80mbit", "ingress": "80mbit"},
        {"name": "c", "egress": "60mbit", "ingress": "80mbit"},
    ]
    file = tmp_path / "h.npz"
    with lab.session(builders.topology(hosts), source="tests") as session:
        words = ("measure", "--hosts", str(session.hosts_file), "--seed", "1", "--json", "-o", str(file))
        brief, long = (gavotte(*words, *more) for more in ((), ("--sustain", "2")))
    assert brief.returncode == long.returncode == 0, brief.stderr + long.stderr
    unseen, document = json.loads(brief.stdout), json.loads(long.stdout)
    assert unseen["credits"] == []
    (credit,) = document["credits"]
    assert credit["host"] == "a"
    assert credit["peak_bps"] == pytest.approx(GOODPUT_PER_WIRE * 80e6, rel=0.05)
    assert credit["rate_bps"] == pytest.approx(GOODPUT_PER_WIRE * 20e6, rel=0.06)
    assert credit["bytes"] == pytest.approx(GOODPUT_PER_WIRE * 4e6, rel=0.25)
    # Both paths of the host have the lower rate, though only one carried the transfer.
    assert document["rate_bps"][0][1:] == [credit["rate_bps"]] * 2
    assert document["rate_bps"][1][0] == pytest.approx(GOODPUT_PER_WIRE * 80e6, rel=0.05)
    assert "a sends at 76" in long.stderr
    assert "all 6 paths have a rate; then each host sends for 2 s (--sustain)" in long.stderr
    assert "--sustain)" not in brief.stderr
    network = model(read_history(file))
    assert network.hosts[0].peak_bps == pytest.approx(GOODPUT_PER_WIRE * 80e6, rel=0.05)
    # Hosts without a credit were seen for the bytes of their transfer, too.
    assert (network.hosts[1].seen_bytes or 0) > 1.2 * GOODPUT_PER_WIRE * 80e6 / 8
