"""Real TCP across links where long packets vanish and no router says so: shorter segments arrive, nothing stalls."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
from tests import builders
from tests.shell import gavotte

from gavotte import lab
from gavotte.formats.inventory import read_inventory
from gavotte.formats.topology import Topology
from gavotte.measure import measure
from gavotte.terms.goodput import goodput_per_wire

pytestmark = [pytest.mark.lab, pytest.mark.rare]

WIRE_BPS = 50e6
NARROW_BYTES = 1400


def black_hole(mtu_bytes: int = 1500, addresses: str = "ipv4") -> Topology:
    """Return x behind an uplink that silently drops packets above 1400 bytes, and y and z at the core."""
    keys: dict[str, Any] = {"egress": "50mbit", "cpus": 2, "mtu": mtu_bytes}
    hosts = [{"name": name, "switch": switch, **keys} for name, switch in (("x", "near"), ("y", "core"), ("z", "core"))]
    switches = [{"name": "core", "icmp": False}, {"name": "near", "icmp": False, "mtu": NARROW_BYTES}]
    return builders.topology(hosts, switches=switches, addresses=addresses)


@pytest.mark.parametrize(("mtu_bytes", "addresses"), [(1500, "ipv4"), (9000, "ipv4"), (1500, "ipv6"), (9000, "ipv6")])
@pytest.mark.parametrize("method", ["train", "bulk"])
def test_paths_get_what_short_packets_carry(method: str, mtu_bytes: int, addresses: str) -> None:
    with lab.session(black_hole(mtu_bytes, addresses), source="tests") as session:
        result = measure(read_inventory(session.hosts_file), method=method)
    assert result.answered == 6, result.failures
    narrow, wide = NARROW_BYTES, mtu_bytes
    assert result.history.mtu().tolist() == [[0, narrow, narrow], [narrow, 0, wide], [narrow, wide, 0]]
    for (source, target), path in result.newest.items():
        share = goodput_per_wire(result.history.mtu()[source, target], ipv6=addresses == "ipv6")
        assert path.reading.goodput_bps == pytest.approx(WIRE_BPS * share, rel=0.08)


@pytest.mark.parametrize("addresses", ["ipv4", "ipv6"])
def test_files_and_shuffles_arrive(tmp_path: Path, addresses: str) -> None:
    content, matrix = tmp_path / "content", tmp_path / "bytes.csv"
    content.write_bytes(bytes(range(256)) * 8_000)
    with matrix.open("w", newline="") as file:
        rows = [("x", "y", 2_000_000), ("y", "x", 2_000_000), ("z", "x", 1_000_000)]
        csv.writer(file).writerows([("source", "target", "bytes"), *rows])
    with lab.session(black_hole(addresses=addresses), source="tests") as session:
        hosts = ["--hosts", str(session.hosts_file)]
        for source in ("x", "y"):
            copy = tmp_path / source
            copy.mkdir()
            words = ["--from", source, "-o", f"{copy}/{{host}}", "--max-seconds", "20"]
            sent = gavotte("broadcast", str(content), *words, *hosts)
            assert sent.returncode == 0, sent.stderr
            for target in {"x", "y", "z"} - {source}:
                assert (copy / target).read_bytes() == content.read_bytes()
        moved = gavotte("shuffle", str(matrix), *hosts, "--max-seconds", "20")
    assert moved.returncode == 0, moved.stderr
