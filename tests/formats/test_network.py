"""Choosing hosts of a Network keeps all its matrices and groups in step."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import get_args

import pytest
from tests import builders

from gavotte.errors import FormatError
from gavotte.formats.network import FORMAT, MATRICES, Doubt, Group, Host, Network, read_network


def test_hosts_in_another_order_keep_all_that_is_known_of_them() -> None:
    size, choice = 5, random.Random(1)

    def value(key: str) -> object:
        if key == "doubt":
            return choice.choice(get_args(Doubt))
        if key == "policed":
            return choice.random() < 0.5
        if key == "loss":
            return choice.random()
        if key in ("mtu_bytes", "connections"):
            return choice.randint(1280, 9216) if key == "mtu_bytes" else choice.randint(1, 64)
        return 1.0 + choice.random()

    matrices = {key: [[None if i == j else value(key) for j in range(size)] for i in range(size)] for key in MATRICES}
    hosts = [Host(name=f"h{i}", cpus=i + 1) for i in range(size)]
    groups = [Group(name="a", members=["h0", "h3"]), Group(name="b", members=["h1", "h2"])]
    network = Network.model_validate({"format": FORMAT, "hosts": hosts, "groups": groups} | matrices)
    chosen = [3, 0, 4]
    fewer = network.of_hosts(chosen)
    assert Network.model_validate(fewer.model_dump()) == fewer
    assert fewer.names == ["h3", "h0", "h4"]
    assert [host.cpus for host in fewer.hosts] == [4, 1, 5]
    assert [(group.name, group.members) for group in fewer.groups] == [("a", ["h0", "h3"])]
    for key in MATRICES:
        assert getattr(fewer, key) == [[matrices[key][i][j] for j in chosen] for i in chosen]
    assert set(MATRICES) == {
        name for name, value in network.model_dump().items() if value and isinstance(value[0], list)
    }


@pytest.mark.parametrize("rate_bps", [0.0, 5e-324, 1e-300, 0.5, 1e307])
def test_rates_that_no_path_has_are_refused(rate_bps: float, tmp_path: Path) -> None:
    content = json.loads(builders.network(2, rate_bps=1e8).model_dump_json())
    content["rate_bps"][0][1] = rate_bps
    path = tmp_path / "n.network.json"
    path.write_text(json.dumps(content))
    with pytest.raises(FormatError, match=r"rate_bps\[0\]\[1\]: is"):
        read_network(path)


def test_a_network_without_matrices_has_no_pair_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "n.network.json"
    hosts = [{"name": f"h{m}", "egress_bps": 1e9} for m in range(3)]
    path.write_text(json.dumps({"format": FORMAT, "hosts": hosts, "price_usd_per_gb": [[None] * 3] * 3}))
    network = read_network(path)
    assert (network.rate_bps, network.latency_s, network.unknown_pairs) == ([], [], 0)
    assert network.pair_bps(0, 1) is None
    assert network.pair_latency_s(0, 1) is None
    assert network.cautious() is network
    assert not network.any_rate
    assert network.of_hosts([2, 0]).rate_bps == []
    assert network.to_numpy().shape == (3, 3)
    assert [row["rate_bps"] for row in network.to_records()] == [None] * 6
