"""Guarantees of tasks as constraints: `plan` admits every placement, and an impossible one names the link."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import builders
from tests.examples import examples
from tests.shell import gavotte

from gavotte.errors import GavotteError, InfeasibleError
from gavotte.formats.app import App, write_app
from gavotte.formats.guarantee import FORMAT, Guarantee, read_guarantee, write_guarantee
from gavotte.formats.network import Network, write_network
from gavotte.guarantee import on_hosts, plan, rooms
from gavotte.place import Effort, PlacementLimits, Question, Quota, decide
from gavotte.terms.goodput import GOODPUT_PER_WIRE

MBIT = 1e6 * GOODPUT_PER_WIRE
TASKS = "abcdef"


def of_tasks(mbps: Mapping[str, tuple[float, float]]) -> Guarantee:
    entries = [{"host": task, "egress": f"{out}mbit", "ingress": f"{into}mbit"} for task, (out, into) in mbps.items()]
    return Guarantee.model_validate({"format": FORMAT, "guarantee": entries})


def ring() -> App:
    ways = [(a, b, 1_000_000) for a, b in zip(TASKS, TASKS[1:] + TASKS[0], strict=True)]
    return builders.app("ring", *ways)


def racks(up_mbps: float, *, host_mbps: float = 100) -> Network:
    """Four hosts on two racks, of which only the first has a narrow uplink."""
    groups = [{"name": "r0", "members": ["vm0", "vm1"], "up_bps": up_mbps * MBIT, "down_bps": up_mbps * MBIT}]
    rate = host_mbps * MBIT
    return builders.network(4, rate, 1e-4, egress_bps=rate, ingress_bps=rate, cpus=8.0, groups=groups, sharing="groups")


def limits(wanted: Guarantee, network: Network) -> PlacementLimits:
    result = rooms(wanted, network, list(TASKS))
    return PlacementLimits(
        quotas=tuple(Quota(each.link, each.hosts, each.needs_bps, each.most_bps, each.sends) for each in result)
    )


@pytest.mark.slow
@pytest.mark.parametrize("method", ["optimal", "ilp", "search", "auto"])
def test_no_link_is_asked_for_more_than_it_can_guarantee(method: str) -> None:
    network, wanted = racks(60), of_tasks(dict.fromkeys(TASKS, (40, 40)))
    # 90 Mbit/s a host: two tasks each; 54 behind the uplink: one task; so vm2 and vm3 have two, and one is too many.
    with pytest.raises(InfeasibleError):
        decide(Question(network, [ring()], limits=limits(wanted, network)), Effort(method, time_limit_s=5.0))
    wanted = of_tasks(dict.fromkeys("abcde", (40, 40)))
    placed = decide(
        Question(network, [ring()], limits=limits(wanted, network)), Effort(method, time_limit_s=5.0)
    ).placement
    assert plan(on_hosts(wanted, placed.assignment), network).over == []
    # Without them all would be on one host.
    assert (
        len(set(decide(Question(network, [ring()]), Effort(method, time_limit_s=5.0)).placement.assignment.values()))
        == 1
    )


@pytest.mark.parametrize("method", ["optimal", "search"])
@examples(15)
@given(
    each=st.lists(st.tuples(st.integers(0, 60), st.integers(1, 60)), min_size=6, max_size=6),
    up=st.integers(10, 200),
)
def test_what_is_placed_is_admitted_and_nothing_else_is_refused(
    method: str, each: list[tuple[int, int]], up: int
) -> None:
    network = racks(up)
    wanted = of_tasks({task: (max(out, 1), into) for task, (out, into) in zip(TASKS, each, strict=True)})
    try:
        placed = decide(
            Question(network, [ring()], limits=limits(wanted, network)), Effort(method, time_limit_s=5.0)
        ).placement
    except InfeasibleError:
        # Hosts of a rack are alike, so half of the placements are enough.
        every = (
            dict(zip(TASKS, hosts, strict=True)) for hosts in product(network.names, repeat=6) if hosts[0] != "vm3"
        )
        assert all(_over(wanted, assignment, network) for assignment in every)
        return
    assert not _over(wanted, placed.assignment, network)


def _over(wanted: Guarantee, assignment: Mapping[str, str], network: Network) -> bool:
    """By sums, without the percent that `plan` tolerates."""
    own = {each.host: each for each in wanted.guarantee}
    behind = {"r0": ({"vm0", "vm1"}, network.groups[0].up_bps)}
    behind |= {host.name: ({host.name}, host.egress_bps) for host in network.hosts}
    for way, (hosts, rate) in product(("egress", "ingress"), behind.values()):
        total = sum(getattr(own[task], way) or 0.0 for task, host in assignment.items() if host in hosts)
        assert rate is not None
        if total * GOODPUT_PER_WIRE > rate * 0.9 * (1 + 1e-6):
            return True
    return False


def test_what_no_placement_can_keep_names_the_link() -> None:
    network, free = racks(60), ring().constraints
    pinned = ring().model_copy(update={"constraints": free.model_copy(update={"pin": {"a": "vm0"}})})
    cases = [
        (ring(), {"a": 95}, "task `a` is to have 95.0 Mbit/s, and the widest link of a host, the egress of vm0"),
        (ring(), dict.fromkeys(TASKS, 80), "are to have 480 Mbit/s together, and the links of all hosts"),
        (pinned, {"a": 80}, "link of r0 can guarantee"),
    ]
    for app, mbps, message in cases:
        bounds = limits(of_tasks({task: (rate, rate) for task, rate in mbps.items()}), network)
        with pytest.raises(InfeasibleError, match=message):
            decide(Question(network, [app], limits=bounds))


def test_a_host_has_no_more_than_its_slowest_path() -> None:
    rates = [[None, 50 * MBIT, 20 * MBIT], [50 * MBIT, None, 50 * MBIT], [50 * MBIT, 50 * MBIT, None]]
    network = builders.network(3, [[float("nan") if r is None else r for r in row] for row in rates], 1e-4, cpus=8.0)
    values = {each.link: each.most_bps for each in rooms(of_tasks({"a": (10, 10)}), network, list(TASKS))}
    assert values["path from vm0 to vm2"] == pytest.approx(18e6)


def test_a_guarantee_of_no_task_is_refused() -> None:
    with pytest.raises(GavotteError, match="`z`, which is not a task"):
        rooms(of_tasks({"z": (10, 10)}), racks(60), list(TASKS))


@pytest.mark.slow
def test_the_command_writes_what_hosts_are_to_have(tmp_path: Path) -> None:
    network, wanted = racks(60), of_tasks(dict.fromkeys("abcde", (40, 40)))
    write_network(tmp_path / "n.network.json", network)
    write_app(tmp_path / "ring.app.toml", ring())
    write_guarantee(tmp_path / "t.guarantee.toml", wanted)
    place = ["place", "n.network.json", "ring.app.toml", "--guarantee", "t.guarantee.toml"]
    done = gavotte(*place, "--hosts-guarantee", "h.guarantee.toml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert gavotte("guarantee", "plan", "h.guarantee.toml", "--network", "n.network.json", cwd=tmp_path).returncode == 0
    assert read_guarantee(tmp_path / "h.guarantee.toml").sum_bps("egress") == 200e6
    write_guarantee(tmp_path / "t.guarantee.toml", of_tasks(dict.fromkeys(TASKS, (80, 80))))
    done = gavotte(*place, cwd=tmp_path)
    assert done.returncode == 1
    assert "egress of vm" in done.stderr
