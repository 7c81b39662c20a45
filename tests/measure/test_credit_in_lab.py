"""A host that bursts until its credit has run out, measured with real packets."""

from __future__ import annotations

import json

import pytest
from tests import builders
from tests.shell import gavotte

from gavotte import lab
from gavotte.terms.goodput import GOODPUT_PER_WIRE

pytestmark = pytest.mark.lab


def test_bulk_reports_the_rate_after_a_credit_and_the_credit() -> None:
    hosts = [{"name": "a", "egress": "20mbit", "burst": "4MB"}, {"name": "b", "ingress": "80mbit", "egress": "80mbit"}]
    with lab.session(builders.topology(hosts), source="tests") as session:
        done = gavotte("measure", "--hosts", str(session.hosts_file), "--method", "bulk", "--seconds", "1.5", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    (credit,) = found["credits"]
    assert (credit["host"], credit["target"]) == ("a", "b")
    assert credit["peak_bps"] == pytest.approx(GOODPUT_PER_WIRE * 80e6, rel=0.05)
    assert credit["rate_bps"] == pytest.approx(GOODPUT_PER_WIRE * 20e6, rel=0.03)
    assert credit["bytes"] == pytest.approx(GOODPUT_PER_WIRE * 4e6, rel=0.08)
    assert found["rate_bps"][0][1] == credit["rate_bps"]
