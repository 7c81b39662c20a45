"""Racks by round trips: on random clouds without visible routers, they are the true ones, or none."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest

from gavotte.agents import agent_pb2 as pb
from gavotte.agents.schedule import Answer, Schedule
from gavotte.agents.tiers import FEWEST_HOSTS, Tiers, find_tiers
from gavotte.formats.history import Floats
from gavotte.terms import Pair
from gavotte.terms.hierarchy import RACK_HOPS

US = 1e-6


class Cloud:
    """Hosts in racks of 16 to 48, racks in pods of eight: round trips of 30, 55 and 85 us, and what hosts add.

    Attributes:
        rack: rack of each host.
        pod: pod of each host.
        asked: pairs that were pinged.
        calls: number of schedules.
        rounds: number of rounds.
        silent: hosts that never answer.
    """

    def __init__(self, hosts: int, seed: int, *, jitter_s: float, unlike_s: float = 1 * US, flat: bool = False) -> None:
        rng, chooser = np.random.default_rng(seed), random.Random(f"cloud {seed}")
        racks: list[int] = []
        while len(racks) < hosts:
            racks += [(racks[-1] if racks else -1) + 1] * min(chooser.randint(16, 48), hosts - len(racks))
        self.rack = np.array(racks)[rng.permutation(hosts)]
        self.pod = self.rack // 8
        near, close = self.rack[:, None] == self.rack[None, :], self.pod[:, None] == self.pod[None, :]
        tiers_s = np.full(near.shape, 85 * US) if flat else np.where(near, 30 * US, np.where(close, 55 * US, 85 * US))
        own_s = rng.uniform(0, unlike_s, hosts)
        self.trips_s: Floats = tiers_s + own_s[:, None] + own_s[None, :]
        self.names = [f"h{number}" for number in range(hosts)]
        self.asked: set[Pair] = set()
        self.calls = self.rounds = 0
        self.silent: set[int] = set()
        self._jitter_s = jitter_s
        self._rng = rng

    def send(self, schedule: Schedule, _round_s: float) -> Iterator[Answer]:
        self.calls, self.rounds = self.calls + 1, self.rounds + len(schedule)
        for number, steps in enumerate(schedule):
            assert len({step.source for step in steps}) == len(steps)
            for step in steps:
                i, j = int(step.source[1:]), int(step.target[1:])
                self.asked.add((min(i, j), max(i, j)))
                reply = pb.ProbeReply(hops=1)
                if not self.silent & {i, j}:
                    waits_s = self._rng.exponential(self._jitter_s, step.probe.ping_pong.repetitions)
                    reply.ping_pong.sizes.add(bytes=1, seconds=(self.trips_s[i, j] + waits_s).tolist())
                yield Answer(number, step.source, step.target, reply)

    def misplaced(self, tiers: Tiers) -> int:
        """Return the number of hosts whose rack has other hosts than the true one."""
        near = self.rack[:, None] == self.rack[None, :]
        np.fill_diagonal(near, val=False)
        return int(((tiers.lengths.matrix() == RACK_HOPS) != near).any(axis=1).sum())


@pytest.mark.parametrize("jitter_us", [10, 40])
@pytest.mark.parametrize("seed", range(3))
def test_few_pings_show_the_racks_of_a_thousand_hosts(jitter_us: float, seed: int) -> None:
    cloud = Cloud(1024, seed, jitter_s=jitter_us * US)
    tiers = find_tiers(cloud.send, cloud.names, cloud.names, seed=seed)
    assert cloud.misplaced(tiers) == 0
    assert tiers.wrong <= 0.01 * tiers.checked
    assert tiers.checked > 1500
    assert len(tiers.breaks_s) == 2
    assert len(cloud.asked) <= 0.04 * 1024 * 1023 / 2
    assert cloud.rounds <= 100
    apart = cloud.pod[:, None] != cloud.pod[None, :]
    assert ((tiers.lengths.matrix() == RACK_HOPS + 4) == apart).all()
    assert "racks are those that round trips show, with breaks at" in tiers.note


@pytest.mark.parametrize("unlike_us", [5, 20])
@pytest.mark.parametrize("hosts", [48, 128, 1024])
def test_racks_are_right_or_unknown_where_hosts_differ(hosts: int, unlike_us: float) -> None:
    answers = 0
    for seed in range(6 if hosts < 1000 else 2):
        cloud = Cloud(hosts, seed, jitter_s=20 * US, unlike_s=unlike_us * US)
        tiers = find_tiers(cloud.send, cloud.names, cloud.names, seed=seed)
        answers += bool(tiers.breaks_s)
        assert not tiers.breaks_s or cloud.misplaced(tiers) <= 0.005 * hosts
    # Delays of 20 us hide differences of 25, and few hosts may be in one rack.
    assert answers >= (5 if hosts < 1000 else 2) or unlike_us == 20


@pytest.mark.parametrize("jitter_us", [1, 40])
@pytest.mark.parametrize("unlike_us", [1, 20])
def test_a_flat_network_has_no_racks(jitter_us: float, unlike_us: float) -> None:
    for seed in range(4):
        cloud = Cloud(200, seed, jitter_s=jitter_us * US, unlike_s=unlike_us * US, flat=True)
        tiers = find_tiers(cloud.send, cloud.names, cloud.names, seed=seed)
        assert tiers.breaks_s == ()
        assert not tiers.lengths.matrix().any()
        assert tiers.note == "the network hides its routers, and round trips do not show racks"
        assert tiers.round_trips_s


def test_two_kinds_of_hosts_are_not_two_racks() -> None:
    cloud = Cloud(120, 1, jitter_s=5 * US, flat=True)
    slow_s = np.where(np.arange(120) % 2, 60 * US, 0.0)
    cloud.trips_s = cloud.trips_s + slow_s[:, None] + slow_s[None, :]
    tiers = find_tiers(cloud.send, cloud.names, cloud.names, seed=1)
    assert tiers.breaks_s == ()


@pytest.mark.parametrize("hosts", [64, 256])
def test_silent_and_unused_hosts_stay_unknown_and_cost_no_other(hosts: int) -> None:
    cloud = Cloud(hosts, 3, jitter_s=10 * US)
    cloud.silent = {7}
    tiers = find_tiers(cloud.send, [name for name in cloud.names if name != "h3"], cloud.names, seed=3)
    assert not tiers.lengths.matrix()[[3, 7]].any()
    assert tiers.unknown == (7,)
    assert "; those of 1 host are unknown" in tiers.note
    others = [host for host in range(hosts) if host not in (3, 7)]
    near = cloud.rack[others][:, None] == cloud.rack[others][None, :]
    np.fill_diagonal(near, val=False)
    assert ((tiers.lengths.matrix()[np.ix_(others, others)] == RACK_HOPS) == near).all()
    assert all(3 not in pair for pair in cloud.asked)


def test_few_hosts_are_not_asked() -> None:
    cloud = Cloud(FEWEST_HOSTS - 1, 0, jitter_s=US)
    assert not find_tiers(cloud.send, cloud.names, cloud.names).lengths.matrix().any()
    assert cloud.asked == set()
