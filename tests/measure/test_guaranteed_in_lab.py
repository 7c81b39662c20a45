"""A measurement names the hosts whose sending bandwidth guarantees limit."""

from __future__ import annotations

import pytest
from tests.builders import topology

from gavotte import lab
from gavotte.formats.guarantee import Guarantee
from gavotte.formats.inventory import read_inventory
from gavotte.guarantee import apply, clear
from gavotte.measure import measure
from gavotte.measure.sharing import learn_sharing

pytestmark = [pytest.mark.lab, pytest.mark.rare]


def test_a_measurement_names_the_hosts_that_guarantees_limit() -> None:
    """Limits follow demand: of paths of 40 Mbit/s, measurements next to guarantees of 30 showed 31.7 to 40."""
    hosts = [{"name": name, "switch": "core", "egress": "40mbit", "ingress": "80mbit"} for name in "abc"]
    kept = [{"host": host, "egress": "30mbit"} for host in "ab"] + [{"host": "c", "ingress": "60mbit"}]
    with lab.session(topology(hosts, switches=["core"]), source="tests") as cloud:
        inventory = read_inventory(cloud.hosts_file)
        apply(Guarantee.model_validate({"format": "gavotte/guarantee/1", "guarantee": kept}), inventory)
        during = measure(inventory)
        _, sharing = learn_sharing(inventory, during.history)
        clear(inventory)
        after = measure(inventory)
    # A host that is only guaranteed what it receives is not limited.
    assert during.guaranteed_bps == sharing.guaranteed_bps == {"a": 30e6, "b": 30e6}
    for warnings in (during.warnings, sharing.warnings):
        named = [line for line in warnings if "guarantees limit what a, b may send" in line]
        assert len(named) == 1
        assert "gavotte guarantee clear" in named[0]
    assert after.guaranteed_bps == {}
    assert not any("guarantee" in line for line in after.warnings)
