"""Choosing hosts of a Network keeps all its matrices and groups in step."""

from __future__ import annotations

import random
from typing import get_args

from gavotte.formats.network import FORMAT, MATRICES, Doubt, Group, Host, Network


def test_hosts_in_another_order_keep_all_that_is_known_of_them() -> None:
    size, choice = 5, random.Random(1)
    matrices = {
        key: [
            [
                None if i == j else choice.choice(get_args(Doubt)) if key == "doubt" else 1.0 + choice.random()
                for j in range(size)
            ]
            for i in range(size)
        ]
        for key in MATRICES
    }
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
