"""The clouds and the rivals of `make bench-scale`."""

from __future__ import annotations

import numpy as np
import pytest
from benches.scale.clouds import measured, racks_alone
from benches.scale.completion import RIVALS, Samples
from benches.scale.worlds import World, drawn_cloud, low_rank_world, pairs_of, plane_world
from tests import builders
from tests.measure.oracle import Oracle


def oracle_of(world: World) -> Oracle:
    """The same cloud for the tests' own oracle, which shares no code with the world."""
    switches: list[dict[str, object]] = [{"name": "core"}]
    switches += [{"name": f"pod{at}", "up": f"{pod.rate_bps:.0f}bit"} for at, pod in enumerate(world.pods)]
    for at, rack in enumerate(world.racks):
        parent = f"pod{world.pod[rack.hosts[0]]}" if world.pods else "core"
        switches.append({"name": f"rack{at}", "parent": parent, "up": f"{rack.rate_bps:.0f}bit"})
    vms: list[dict[str, object]] = []
    for host, name in enumerate(world.names):
        caps = {"egress": world.egress_bps[host], "ingress": world.ingress_bps[host]}
        limits = {cap: f"{bps:.0f}bit" for cap, bps in caps.items() if np.isfinite(bps)}
        vms.append({"name": name, "switch": f"rack{world.rack[host]}", **limits})
    return Oracle(builders.topology(vms, switches=switches))


@pytest.mark.parametrize("seed", [0, 1, 3])
def test_rates_of_a_world_are_those_of_the_oracle(seed: int) -> None:
    world = drawn_cloud(100, seed)
    oracle = oracle_of(world)
    order = np.random.default_rng(seed).permutation(100)
    sources, targets = order[:50], order[50:]
    pairs = list(zip(sources.tolist(), targets.tolist(), strict=True))
    assert world.shares_bps(sources, targets) == pytest.approx(oracle.rates(pairs), rel=1e-5)
    alone_bps = [oracle.rates([pair])[0] for pair in pairs]
    assert world.rates_bps(sources, targets) == pytest.approx(alone_bps, rel=1e-5)


def test_clouds_are_as_the_page_says() -> None:
    tiers = set()
    for seed in range(20):
        world = drawn_cloud(300, seed)
        tiers.add(len(world.pods) > 0)
        assert sorted(host for rack in world.racks for host in rack.hosts) == list(range(300))
        assert all(16 <= len(rack.hosts) <= 48 for rack in world.racks)
        for rack in (*world.racks, *world.pods):
            assert 0.99 < world.egress_bps[list(rack.hosts)].sum() / rack.rate_bps < 8.01
        assert len(world.dead) == 3
        assert 0.02 < 1 - len(set(world.machine.tolist())) / 300 < 0.2
    assert tiers == {True, False}


def test_a_small_cloud_is_measured_and_compared() -> None:
    world = drawn_cloud(100, 0)
    outcome = measured(world, 0)
    assert outcome.errors is not None
    assert np.quantile(outcome.errors, 0.99) < 0.05
    assert outcome.holds
    alone = racks_alone(world, 0, "only racks")
    assert alone.misplaced == outcome.misplaced == 0
    assert alone.small == outcome.small


def test_all_pairs_of_hosts_that_answer_are_compared_once() -> None:
    world = drawn_cloud(100, 1)
    sources, targets = pairs_of(world, 10_000, 0)
    assert len(set(zip(sources.tolist(), targets.tolist(), strict=True))) == len(sources) == 99 * 98
    assert not world.dead & set(sources.tolist())


@pytest.mark.parametrize(
    ("name", "world", "settings"),
    [
        ("ALS", low_rank_world(100, 0), {"logarithms": False, "centred": False, "rank": 3, "ridge": 1e-4}),
        ("DMFSGD", low_rank_world(100, 0), {"logarithms": False, "rank": 3, "ridge": 1e-4, "step": 0.1}),
        ("Vivaldi", plane_world(100, 0), {"dimensions": 2, "heights": True, "step": 0.25}),
    ],
)
def test_rivals_predict_the_worlds_that_favour_them(name: str, world: World, settings: dict[str, float | bool]) -> None:
    sources, targets = pairs_of(world, 10_000, 0)
    known = np.random.default_rng(0).random(len(sources)) < 0.5
    samples = Samples(100, sources[known], targets[known], world.rates_bps(sources, targets)[known])
    (rival,) = [each for each in RIVALS if each.name == name]
    predicted_bps = rival.learn(samples, settings, 0)(sources[~known], targets[~known])
    errors = np.abs(predicted_bps / world.rates_bps(sources, targets)[~known] - 1)
    assert np.median(errors) < 0.02
