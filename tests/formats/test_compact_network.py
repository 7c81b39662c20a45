"""Networks of version 2: latencies of hosts and groups, and pairs that differ, instead of matrices."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gavotte import _core
from gavotte.errors import FormatError
from gavotte.formats.network import COMPACT, FORMAT, MOST_IN_MATRICES, Network, read_network, write_network

MS = 1e-3


def content(size: int = 6, **changes: Any) -> dict[str, Any]:
    """Two racks in a pod, and a host outside; `h0` and `h1` share a machine, and `h1` to `h3` differs."""
    hosts = [
        {"name": f"h{m}", "egress_bps": (m + 1) * 1e9, "ingress_bps": 4e9, "latency_s": (m + 1) * MS}
        for m in range(size)
    ]
    hosts[0]["machine"] = hosts[1]["machine"] = "m"
    groups = [
        {"name": "a", "members": ["h0", "h1"], "up_bps": 1.5e9, "latency_s": 10 * MS, "parent": "pod"},
        {"name": "b", "members": ["h2", "h3"], "down_bps": 1.2e9, "latency_s": 20 * MS, "parent": "pod"},
        {"name": "pod", "members": ["h0", "h1", "h2", "h3"], "latency_s": 100 * MS},
    ]
    exceptions = [
        {"source": "h1", "target": "h3", "rate_bps": 0.7e9},
        {"source": "h4", "target": "h5", "latency_s": 500 * MS},
        {"source": "h0", "target": "h1", "rate_bps": 8e9},
    ]
    whole = {"format": COMPACT, "sharing": "groups", "hosts": hosts, "groups": groups, "exceptions": exceptions}
    return whole | changes


def written(tmp_path: Path, whole: dict[str, Any]) -> Path:
    path = tmp_path / "n.network.json"
    path.write_text(json.dumps(whole))
    return path


def test_what_hosts_and_groups_say_adds_up() -> None:
    network = Network.model_validate(content())
    assert network.pair_latency_s(2, 3) == pytest.approx(7 * MS)
    assert network.pair_latency_s(0, 2) == pytest.approx(14 * MS)
    assert network.pair_latency_s(2, 0) == pytest.approx(24 * MS)
    assert network.pair_latency_s(3, 5) == pytest.approx(130 * MS)
    assert network.pair_latency_s(5, 3) == pytest.approx(10 * MS)
    assert network.pair_latency_s(4, 5) == pytest.approx(500 * MS)
    assert (network.pair_bps(1, 3), network.pair_bps(3, 1), network.pair_latency_s(1, 1)) == (0.7e9, None, None)
    assert network.knows_latency


def test_few_hosts_are_read_into_matrices(tmp_path: Path) -> None:
    network = read_network(written(tmp_path, content()))
    tree = Network.model_validate(content())
    assert (network.format, network.exceptions, network.hosts[0].latency_s) == (FORMAT, [], None)
    for m in range(6):
        for n in range(6):
            known_s = tree.pair_latency_s(m, n)
            assert network.pair_latency_s(m, n) == (known_s if known_s is None else pytest.approx(known_s))
    assert network.pair_bps(1, 3) == 0.7e9
    assert network.pair_bps(0, 2) == 1e9
    assert network.pair_bps(1, 2) == 1.2e9
    assert network.pair_bps(2, 4) == 3e9
    assert network.pair_bps(0, 1) == 8e9
    assert network.pair_bps(1, 0) is None


def test_compiled_networks_know_the_same() -> None:
    tree = Network.model_validate(content())
    known = tree.in_matrices()
    compiled, by_matrix = _core.Network(tree), _core.Network(known)
    for m in range(6):
        for n in range(6):
            if m == n:
                continue
            assert compiled.latency_s(m, n) == pytest.approx(by_matrix.latency_s(m, n))
    kinds = {key for key, _ in compiled.deciding()}
    assert ("pair", 1, 3) in kinds
    assert ("pair", 0, 1) in kinds
    assert ("pair", 0, 2) not in kinds


def test_many_hosts_stay_without_matrices_and_are_written_as_they_were(tmp_path: Path) -> None:
    path = written(tmp_path, content(MOST_IN_MATRICES + 1))
    network = read_network(path)
    assert network.compact
    again = tmp_path / "again.network.json"
    write_network(again, network)
    assert read_network(again) == network
    assert set(json.loads(again.read_text())) == {
        "format", "hosts", "groups", "sharing", "verdicts", "notes", "band", "beside", "cross_beside", "exceptions",
    }  # fmt: skip


def test_some_hosts_of_many_keep_their_exceptions() -> None:
    fewer = Network.model_validate(content()).of_hosts([3, 1, 4])
    assert [(each.source, each.target) for each in fewer.exceptions] == [("h1", "h3")]
    assert fewer.pair_bps(1, 0) == 0.7e9
    assert fewer.pair_latency_s(1, 0) == pytest.approx(16 * MS)


def test_version_1_is_written_without_the_keys_of_version_2(tmp_path: Path) -> None:
    path = tmp_path / "n.network.json"
    write_network(path, Network.model_validate(content()).in_matrices())
    whole = json.loads(path.read_text())
    assert not {"exceptions", "checked"} & whole.keys()
    assert "latency_s" not in whole["hosts"][0]
    assert "latency_s" not in whole["groups"][0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rate_bps": [[None] * 6] * 6}, "rate_bps: is a matrix, which gavotte/network/2 does not have; remove it"),
        (
            {"format": FORMAT, "groups": []},
            "exceptions: belongs to gavotte/network/2; use that format, and no matrices",
        ),
        ({"format": FORMAT, "exceptions": []}, r"hosts\[0\].latency_s: belongs to gavotte/network/2"),
        ({"format": "gavotte/network/3"}, "format: is 'gavotte/network/3'; use 'gavotte/network/1' or "),
        ({"format": "gavotte/app/1"}, "is an App; use a Network"),
        ({"exceptions": [{"source": "h1", "target": "h9"}]}, r"exceptions\[0\].target: `h9` is not a host"),
        ({"exceptions": [{"source": "h1", "target": "h1"}]}, r"exceptions\[0\]: is within a host; remove it"),
        (
            {"exceptions": [{"source": "h1", "target": "h2"}] * 2},
            r"exceptions\[1\]: is the second of its pair; remove it",
        ),
        ({"exceptions": [{"source": "h1", "target": "h2", "rate_bps": 0}]}, r"exceptions\[0\].rate_bps: is 0"),
        ({"checked": {"pairs": 0, "off": 0, "share_at_most": 2, "confidence": 0.95}}, "checked"),
    ],
)
def test_mistakes_are_named(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=message):
        read_network(written(tmp_path, content(**changes)))
