"""Networks of many hosts are learned as version 2, and say what the matrices said."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests import builders
from typer.testing import CliRunner

from gavotte.cli.verbs import app
from gavotte.formats.history import write_history
from gavotte.formats.network import COMPACT, FORMAT, Group, Host, Network, read_network
from gavotte.model import compact
from gavotte.model.compact import KnownPairs, tree_latencies
from gavotte.tables import matrix, nullable

RACKS, HOSTS = 4, 8


def learned(*, jitter: float = 0.0, seed: int = 0) -> tuple[Network, np.ndarray]:
    """Racks of hosts with caps of 1 Gbit/s, a third of whose pairs in the same rack and a tenth of others are known."""
    rng, size = np.random.default_rng(seed), RACKS * HOSTS
    rack = np.arange(size) // HOSTS
    host_s, rack_s = rng.uniform(10e-6, 40e-6, size), rng.uniform(50e-6, 200e-6, RACKS)
    near = rack[:, None] == rack[None, :]
    truth_s = host_s[:, None] + host_s[None, :] + np.where(near, 0.0, rack_s[rack][:, None])
    known = rng.random((size, size)) < np.where(near, 0.6, 0.2)
    seen_s = np.where(known, truth_s * (1 + jitter * rng.exponential(size=truth_s.shape)), np.nan)
    np.fill_diagonal(seen_s, np.nan)
    rates = np.where(known, 1e9, np.nan)
    np.fill_diagonal(rates, np.nan)
    hosts = [Host(name=f"h{m}", egress_bps=1e9, ingress_bps=1e9) for m in range(size)]
    groups = [
        Group(name=f"rack{r}", members=[f"h{m}" for m in np.flatnonzero(rack == r)], up_bps=2e9) for r in range(RACKS)
    ]
    network = Network(
        format=FORMAT,
        hosts=hosts,
        groups=groups,
        sharing="groups",
        rate_bps=nullable(rates),
        latency_s=nullable(seen_s),
    )
    return network, truth_s


def test_latencies_of_hosts_and_groups_are_those_of_the_pairs() -> None:
    network, truth_s = learned()
    done = compact(network)
    assert done.warnings == ()
    assert done.network.compact
    assert done.network.exceptions == []
    fitted_s = matrix(done.network.in_matrices().latency_s)
    off = ~np.eye(len(truth_s), dtype=bool)
    assert np.abs(fitted_s / truth_s - 1)[off].max() < 0.02


def test_delayed_round_trips_make_no_exceptions() -> None:
    network, truth_s = learned(jitter=0.1, seed=1)
    done = compact(network)
    assert len(done.network.exceptions) < 5
    fitted_s = matrix(done.network.in_matrices().latency_s)
    off = ~np.eye(len(truth_s), dtype=bool)
    assert np.median(np.abs(fitted_s / truth_s - 1)[off]) < 0.15


def test_pairs_that_differ_are_exceptions() -> None:
    network, _ = learned(seed=2)
    known = [(i, j) for i, row in enumerate(network.rate_bps) for j, rate in enumerate(row) if rate]
    slow, far = known[3], known[40]
    network.rate_bps[slow[0]][slow[1]] = 3e8
    network.latency_s[far[0]][far[1]] = 0.04
    done = compact(network)
    exceptions = {(each.source, each.target): each for each in done.network.exceptions}
    names = network.names
    assert set(exceptions) == {(names[slow[0]], names[slow[1]]), (names[far[0]], names[far[1]])}
    assert exceptions[names[slow[0]], names[slow[1]]].rate_bps == 3e8
    assert exceptions[names[far[0]], names[far[1]]].latency_s == 0.04
    assert exceptions[names[far[0]], names[far[1]]].rate_bps is None


def test_a_host_far_away_has_its_own_latency() -> None:
    size = 6
    seen_s = np.full((size, size), 1e-4)
    seen_s[5, :] = seen_s[:, 5] = 0.02
    np.fill_diagonal(seen_s, np.nan)
    inside = np.zeros((1, size), dtype=bool)
    inside[0, :5] = True
    source, target = np.nonzero(np.isfinite(seen_s))
    known = KnownPairs(source, target, np.full(len(source), np.nan), seen_s[source, target])
    host_s, group_s = tree_latencies(known, inside)
    sums_s = host_s[5] + host_s[0]
    assert sums_s == pytest.approx(0.02 - group_s[0], rel=0.6)
    assert host_s[0] + host_s[1] == pytest.approx(1e-4)


def test_a_network_that_is_no_tree_keeps_its_matrix() -> None:
    network = builders.network(12, rate_bps=1e8).model_copy(update={"sharing": "pipe"})
    done = compact(network)
    assert done.network is network
    assert "132 pairs of 132 differ from what hosts and groups say" in done.warnings[0]


@pytest.mark.slow
def test_the_command_writes_version_2(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    measured = builders.history(np.full((1, 10, 10), 1e8) * rng.uniform(0.99, 1.01, (1, 10, 10)))
    write_history(tmp_path / "h.npz", measured)
    path = tmp_path / "n.network.json"
    done = CliRunner().invoke(app, ["model", str(tmp_path / "h.npz"), "--compact", "-o", str(path)])
    assert done.exit_code == 0, done.output
    assert json.loads(path.read_text())["format"] == COMPACT
    assert read_network(path).format == FORMAT
