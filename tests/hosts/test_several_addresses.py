"""Hosts with several addresses and behind NAT: each other host finds the one that it reaches."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from tests import builders, faults
from tests.hosts import firewalls
from tests.shell import until

from gavotte import lab
from gavotte.agents import Budget, Fleet, enrolled
from gavotte.agents import agent_pb2 as pb
from gavotte.errors import AgentError
from gavotte.formats.inventory import Inventory, read_inventory
from gavotte.hosts import check
from gavotte.lab import crew
from gavotte.measure import measure

pytestmark = [
    pytest.mark.lab,
    pytest.mark.timeout(180),
    pytest.mark.skipif(bool(firewalls.lacking()), reason=firewalls.lacking()),
]

NOWHERE = "198.51.100.7"
ASSIGN = """ip addr add "$1/32" dev "$(ip route show default | sed 's/.* dev \\([^ ]*\\).*/\\1/')" """
"""Lets a host answer the router's questions for an address."""


@pytest.fixture(scope="module")
def cloud() -> Iterator[lab.Session]:
    """Three hosts at one switch. Host b has an address that no host reaches; host c is behind a NAT."""
    with lab.session(builders.topology([{"name": name, "rate": "100mbit"} for name in "abc"]), source="tests") as made:
        inside = addresses(made)["c"]
        outside = outside_of(inside)
        done = made.run("c", ["sh", "-c", ASSIGN, "sh", outside], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        script = f"""
            add table ip outside
            add chain ip outside closed {{ type filter hook prerouting priority -300; }}
            add rule ip outside closed ip daddr {inside} tcp dport 7411 drop
            add rule ip outside closed ip daddr {inside} udp dport 7411 drop
            add chain ip outside arriving {{ type nat hook prerouting priority -100; }}
            add rule ip outside arriving ip daddr {outside} dnat to {inside}
            add chain ip outside leaving {{ type nat hook postrouting priority 100; }}
            add rule ip outside leaving ip saddr {inside} snat to {outside}
        """
        done = made.run("c", ["nft", "-f", "-"], input=script, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        yield made


def outside_of(inside: str) -> str:
    """Return the address outside the NAT, of the same network as the one inside."""
    return f"{inside.rpartition('.')[0]}.77"


def addresses(cloud: lab.Session) -> dict[str, str]:
    return {host.name: host.address for host in read_inventory(cloud.hosts_file).host}


@pytest.fixture
def inventory(cloud: lab.Session) -> Inventory:
    own = addresses(cloud)
    several = {
        "b": {"address": NOWHERE, "addresses": [own["b"]]},
        "c": {"address": own["c"], "addresses": [outside_of(own["c"])]},
    }
    known = read_inventory(cloud.hosts_file)
    return known.model_copy(update={"host": [h.model_copy(update=several.get(h.name, {})) for h in known.host]})


def test_the_check_reports_the_addresses_that_hosts_reach(cloud: lab.Session, inventory: Inventory) -> None:
    reached = addresses(cloud)
    reached["c"] = outside_of(reached["c"])
    state = check(inventory)
    assert {(path.source, path.target): (path.tcp, path.udp) for path in state.paths} == {
        (source, target): ("ok", "ok") for source in "abc" for target in "abc" if source != target
    }
    assert all(path.target_address == reached[path.target] for path in state.paths)
    assert state.rules == ()


def test_paths_to_and_from_these_hosts_are_measured(inventory: Inventory) -> None:
    measurement = measure(inventory)
    assert np.isfinite(measurement.history.beta_Bps).sum() == 6


def await_admission(fleet: Fleet, name: str) -> None:
    """Admit a host as soon as gRPC tries its agent again."""
    until(lambda: fleet.admit(name) == "")


def test_a_host_that_joins_late_finds_addresses_and_is_found(cloud: lab.Session, inventory: Inventory) -> None:
    own = addresses(cloud)
    for name, reached in (("b", own["b"]), ("c", outside_of(own["c"]))):
        faults.kill_agent(cloud, name)
        try:
            with enrolled(inventory, Budget(1_000_000, 60.0), shared=True) as fleet:
                assert name in fleet.missing
                faults.start_agent(cloud, name)
                await_admission(fleet, name)
                for source in sorted({"a", "b", "c"} - {name}):
                    assert fleet.address(source, name) == reached
                    assert fleet.address(name, source) == {**own, "c": outside_of(own["c"])}[source]
                for answer in fleet.greet({"a": [name], name: ["a"]}, tcp_only=True, limit_s=2.0).values():
                    assert not isinstance(answer, AgentError)
                    assert [each.tcp for each in answer] == [pb.RECEPTION_ANSWERED]
        finally:
            if not crew.answers(crew.socket_path(cloud.folder, name)):
                faults.start_agent(cloud, name)


def test_without_the_further_addresses_nothing_reaches_them(inventory: Inventory) -> None:
    alone = [host.model_copy(update={"addresses": []}) for host in inventory.host]
    state = check(inventory.model_copy(update={"host": alone}))
    assert not {path.target for path in state.paths if path.tcp == "ok"} & {"b", "c"}
