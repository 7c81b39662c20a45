"""The columns contain every set that a placement below the cap can have, and never overestimate its time."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from tests.place.clouds import cloud, ring

from gavotte.errors import InfeasibleError
from gavotte.formats.network import Network
from gavotte.place.columns import build_instance
from gavotte.place.exact.columns import MOST_SETS, host_columns


def clouds() -> list[Network]:
    base = cloud(3, cpus=3.0)
    rates = [[None, 9e6, 5e6], [7e6, None, 8e6], [6e6, 4e6, None]]
    mated = [host.model_copy(update={"machine": "pm0" if m < 2 else None}) for m, host in enumerate(base.hosts)]
    return [
        base.model_copy(update={"rate_bps": rates}),
        base.model_copy(update={"rate_bps": rates, "sharing": "pipe"}),
        base.model_copy(update={"hosts": mated, "rate_bps": rates}),
    ]


@pytest.mark.parametrize("network", clouds(), ids=["hose", "pipe", "machine"])
def test_columns_are_complete_and_never_too_slow(network: Network) -> None:
    instance = build_instance(network, [ring(apart=[["a", "b"]])], network.sharing)
    placements = {}
    for hosts in product(range(3), repeat=6):
        try:
            placements[hosts] = instance.core.evaluate(np.array(hosts, dtype=np.uint32)).seconds
        except InfeasibleError:
            continue
    cap_s = float(np.median(list(placements.values())))
    columns = host_columns(instance, cap_s)
    assert columns is not None
    known = {(column.units, column.host): sum(column.least_s) for column in columns}
    checked = 0
    for hosts, seconds in placements.items():
        if seconds > cap_s or hosts[0] == hosts[1]:
            continue
        for host in set(hosts):
            units = tuple(unit for unit, at in enumerate(hosts) if at == host)
            assert known[units, host] <= seconds * (1 + 1e-9)
            checked += 1
    assert checked > 100
    every = host_columns(instance, max(placements.values()))
    assert every is not None
    assert len(columns) < len(every)


def test_too_many_sets_are_left_alone() -> None:
    tasks = "abcdefghijklmn"
    instance = build_instance(cloud(3, cpus=14.0), [ring(tasks)], "hose")
    assert 2 ** len(tasks) > MOST_SETS
    assert host_columns(instance, 1.0) is None
