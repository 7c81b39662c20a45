"""The order of ranks, and the hosts to keep, compared with every possibility."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests import builders
from tests.builders import MBIT
from tests.place.clouds import cloud

from gavotte.errors import GavotteError
from gavotte.formats.app import App, write_app
from gavotte.formats.network import Network
from gavotte.place import Question, RankOrder, keep_hosts, order_ranks, read_pattern

KB = 1000


def racks(*, uplinks_bps: tuple[float, ...] = (20 * MBIT, 50 * MBIT)) -> Network:
    """Six hosts, alternately in two racks with slow uplinks, as a provider may name them."""
    hosts = [{"name": f"h{n}", "egress_bps": 100 * MBIT, "ingress_bps": 100 * MBIT} for n in range(6)]
    groups = [
        {"name": rack, "members": members, "up_bps": rate_bps, "down_bps": rate_bps}
        for rack, members, rate_bps in zip("ab", (["h0", "h2", "h4"], ["h1", "h3", "h5"]), uplinks_bps, strict=True)
    ]
    return builders.network(hosts, None, groups=groups, sharing="groups")


def times_s(network: Network, app: App, orders: Iterable[Sequence[str]]) -> list[float]:
    """The predicted time of each order of hosts."""
    instance = Question(network, [app]).instance
    at = {name: index for index, name in enumerate(instance.hosts)}
    return [instance.core.evaluate(np.array([at[name] for name in each], dtype=np.uint32)).seconds for each in orders]


@pytest.mark.parametrize("pattern", ["ring", "tree", "halo:2x3"])
def test_no_order_is_faster(pattern: str) -> None:
    network = racks()
    app = read_pattern(pattern).application(6)
    order = order_ranks(network, app)
    best_s = min(times_s(network, app, permutations(network.names)))
    assert order.completion_s <= best_s * 1.01  # a smaller saving leaves the given order
    assert order.bound_s <= best_s * (1 + 1e-9)
    assert order.completion_s == pytest.approx(times_s(network, app, [order.hosts])[0])
    assert sorted(order.hosts) == network.names


def test_a_ring_crosses_slow_uplinks_once() -> None:
    order = order_ranks(racks(), read_pattern("ring").application(6))
    crossings = sum(
        int(a[1]) % 2 != int(b[1]) % 2 for a, b in zip(order.hosts, order.hosts[1:] + order.hosts[:1], strict=True)
    )
    assert crossings == 2
    assert order.saving == pytest.approx(2 / 3)
    assert order.undone_by == ["c10d", "slurm"]


def test_the_launchers_that_would_undo_an_order_are_named() -> None:
    known: Any = {"completion_s": 1.0, "bound_s": 1.0, "given_s": 1.0, "warnings": [], "interrupted": False}
    for hosts, launchers in (
        (["n9", "n9", "n10"], ["c10d"]),
        (["n10", "n9"], ["slurm"]),
        (["n10", "n9", "n8"], ["c10d", "slurm"]),
        (["n1", "n2", "n2"], []),
    ):
        assert RankOrder(hosts=hosts, **known).undone_by == launchers


def test_equal_hosts_keep_the_given_order() -> None:
    network = builders.network([{"name": name, "egress_bps": MBIT} for name in ("c", "a", "b")], None)
    order = order_ranks(network, read_pattern("alltoall").application(3))
    assert order.hosts == ["c", "a", "b"]
    assert order.saving == 0


def test_hosts_take_as_few_ranks_as_possible() -> None:
    order = order_ranks(cloud(3), read_pattern("ring").application(5))
    assert max(order.hosts.count(host) for host in order.hosts) == 2
    with pytest.raises(GavotteError, match=r"5 ranks do not fit on 3 hosts of 1; use --per-host 2"):
        order_ranks(cloud(3), read_pattern("ring").application(5), per_host=1)


@pytest.mark.parametrize("pattern", ["ring", "alltoall"])
def test_no_other_hosts_are_better(pattern: str) -> None:
    network = racks()
    app = read_pattern(pattern).application(3)
    chosen = keep_hosts(network, app, 3, one_each=True)
    best_s = min(times_s(network, app, permutations(network.names, 3)))
    assert chosen.completion_s <= best_s * 1.01
    assert chosen.bound_s <= best_s * (1 + 1e-9)
    assert sorted(chosen.keep + chosen.release) == network.names
    assert set(chosen.keep) in ({"h0", "h2", "h4"}, {"h1", "h3", "h5"})
    assert chosen.saving > 0.5


def test_an_app_keeps_its_cores_and_rules() -> None:
    app = builders.app("pair", ("a", "b", 100 * KB), tasks="ab", cpus=2.0)
    chosen = keep_hosts(cloud(4), app, 3)
    assert len(chosen.keep) == 3
    assert chosen.completion_s < chosen.given_s  # vm3 sends fastest, but is not among the first three
    assert "vm3" in chosen.keep


def test_more_hosts_than_there_are_cannot_be_kept() -> None:
    with pytest.raises(GavotteError, match="cannot keep 5 of 4 hosts; keep fewer, or name more hosts"):
        keep_hosts(cloud(4), read_pattern("ring").application(5), 5, one_each=True)


@pytest.mark.parametrize(
    ("text", "ranks", "messages"),
    [
        ("ring", 4, {(0, 1), (1, 2), (2, 3), (3, 0)}),
        ("ring", 1, set()),
        ("alltoall", 3, {(0, 1), (1, 0), (0, 2), (2, 0), (1, 2), (2, 1)}),
        ("tree", 4, {(1, 0), (2, 0), (3, 1), (0, 1), (0, 2), (1, 3)}),
        ("tree", 3, {(1, 0), (2, 0), (0, 1), (0, 2)}),
        ("halo:2x2", 4, {(0, 1), (1, 0), (2, 3), (3, 2), (0, 2), (2, 0), (1, 3), (3, 1)}),
        ("halo:3", 3, {(0, 1), (1, 0), (1, 2), (2, 1)}),
    ],
)
def test_messages_of_patterns(text: str, ranks: int, messages: set[tuple[int, int]]) -> None:
    sent = [(source, target) for source, target, _phase in read_pattern(text).messages(ranks)]
    assert len(sent) == len(messages)
    assert set(sent) == messages


def test_a_trees_rounds_follow_each_other() -> None:
    phases = [(source, target, phase) for source, target, phase in read_pattern("tree").messages(4)]
    assert phases == [(2, 0, 0), (3, 1, 0), (1, 0, 1), (0, 1, 2), (0, 2, 3), (1, 3, 3)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("circle", "--pattern: `circle` is no pattern; use ring, alltoall, tree, halo:4x4x4 or an App"),
        ("halo", "--pattern: cannot read `halo`; use e.g. halo:4x4x4"),
        ("halo:4x", "--pattern: cannot read `halo:4x`"),
        ("halo:0x4", "--pattern: cannot read `halo:0x4`"),
        ("none.app.toml", "none.app.toml"),
    ],
)
def test_bad_patterns_are_named(text: str, message: str) -> None:
    with pytest.raises(GavotteError) as raised:
        read_pattern(text)
    assert message in str(raised.value)


def test_a_pattern_has_its_own_number_of_ranks(tmp_path: Path) -> None:
    with pytest.raises(GavotteError, match="`halo:2x2` has 4 ranks, not 5; use -n 4"):
        read_pattern("halo:2x2").application(5)
    write_app(tmp_path / "a.app.toml", builders.app("job", ("x", "y", KB), tasks="xyz", cpus=3.0))
    pattern = read_pattern(str(tmp_path / "a.app.toml"))
    assert pattern.ranks == 3
    assert [task.cpus for task in pattern.application(3).task] == [1.0] * 3
    with pytest.raises(GavotteError, match="2049 ranks are out of range for `alltoall`; use 1 to 2048"):
        read_pattern("alltoall").application(2049)
