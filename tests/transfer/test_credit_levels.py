"""The credits of hosts while transfers come and go."""

from __future__ import annotations

import pytest
from tests import builders
from tests.builders import MBIT

from gavotte.formats.inventory import Host, Inventory
from gavotte.formats.network import Network
from gavotte.formats.parts.byte_matrix import HostBytes
from gavotte.formats.parts.transfer import MemoryQueue, Transfer
from gavotte.transfer import Controller
from gavotte.transfer.credit_levels import CreditLevels
from gavotte.transfer.underway import ShuffleUnderWay

MB = 1_000_000
CREDIT = {"egress_bps": 20 * MBIT, "peak_bps": 100 * MBIT, "burst_bytes": 40.0 * MB}


def cloud() -> Network:
    return builders.network([{"name": "a", **CREDIT}, {"name": "b"}, {"name": "c"}])


def rate_bps(network: Network) -> float:
    return network.hosts[0].egress_bps or 0.0


def test_a_small_transfer_goes_at_the_peak() -> None:
    levels = CreditLevels(cloud())
    assert rate_bps(levels.network({1: [("a", "b", 10.0 * MB)]}, 0.0)) == pytest.approx(100 * MBIT)


def test_two_transfers_share_one_credit() -> None:
    # 140 MB: 40 at once, 100 MB at 20 Mbit/s = 40 s.
    levels = CreditLevels(cloud())
    both = levels.network({1: [("a", "b", 70.0 * MB)], 2: [("a", "c", 70.0 * MB)]}, 0.0)
    assert rate_bps(both) == pytest.approx(8 * 140 * MB / 40)


def test_the_rate_stays_as_a_transfer_uses_its_credit() -> None:
    levels = CreditLevels(cloud())
    first_bps = rate_bps(levels.network({1: [("a", "b", 140.0 * MB)]}, 0.0))
    sent = first_bps / 8 * 10
    assert rate_bps(levels.network({1: [("a", "b", 140.0 * MB - sent)]}, 10.0)) == pytest.approx(first_bps)


def test_a_transfer_after_another_finds_no_credit_until_it_is_full_again() -> None:
    levels = CreditLevels(cloud())
    levels.network({1: [("a", "b", 50.0 * MB)]}, 0.0)
    # 50 MB in 4 s, of which r has filled 10 MB.
    levels.network({}, 4.0)
    assert rate_bps(levels.network({2: [("a", "b", 5.0 * MB)]}, 4.0)) == pytest.approx(20 * MBIT)
    assert rate_bps(levels.network({2: [("a", "b", 5.0 * MB)]}, 24.0)) == pytest.approx(100 * MBIT)


def test_bytes_from_another_host_or_within_a_machine_use_no_credit() -> None:
    network = builders.network([{"name": "a", "machine": "m", **CREDIT}, {"name": "b", "machine": "m"}, {"name": "c"}])
    levels = CreditLevels(network)
    levels.network({1: [("a", "b", 100.0 * MB), ("c", "a", 100.0 * MB)]}, 0.0)
    levels.network({}, 1.0)
    assert rate_bps(levels.network({2: [("a", "c", 5.0 * MB)]}, 1.0)) == pytest.approx(100 * MBIT)


def test_a_network_without_credits_stays_as_it_is() -> None:
    network = builders.network([{"name": "a", "egress_bps": 20 * MBIT}, {"name": "b"}])
    assert CreditLevels(network).network({1: [("a", "b", 1.0)]}, 0.0) is network


def test_the_controller_paces_a_transfer_by_its_credit() -> None:
    hosts = [
        Host(name=name, address=f"10.0.0.{number}", agent=f"unix:/{name}") for number, name in enumerate("abc", start=1)
    ]
    controller = Controller(Inventory(format="gavotte/hosts/1", host=hosts), cloud(), MemoryQueue())
    live = ShuffleUnderWay(Transfer(1, "", "", 0, 1.0, (HostBytes("a", "b", 10 * MB),)))
    live.started = True
    controller._live[1] = live
    controller._order()
    assert live._sent_bps[0] == pytest.approx(100 * MBIT)
