"""Networks and Apps from arrays, tables and graphs, and back."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import builders
from tests.builders import MB, MBIT

from gavotte.errors import GavotteError
from gavotte.formats.app import App
from gavotte.formats.network import Network

NAMES = ["a", "b", "c"]
ROW, SENT = ["source", "target", "rate_bps"], ["source", "target", "bytes"]
RATES = np.array([[0, 8e8, np.nan], [4e8, 0, 2e8], [1e8, 3e8, 0]])


def test_a_network_comes_from_matrices_and_goes_back() -> None:
    network = Network.from_numpy(NAMES, RATES, RATES / 1e12)
    assert network.sharing == "pipe"
    assert network.names == NAMES
    off = ~np.eye(3, dtype=bool)
    np.testing.assert_array_equal(network.to_numpy()[off], RATES[off])
    np.testing.assert_array_equal(network.to_numpy("latency_s")[off], RATES[off] / 1e12)
    assert Network.from_frame(network.to_frame()) == network
    assert Network.from_networkx(network.to_networkx()) == network


def test_a_graph_keeps_hosts_groups_and_sharing() -> None:
    hosts = [
        {"name": "a", "cpus": 2.0, "egress_bps": 300 * MBIT, "machine": "m0", "labels": {"zone": "z1"}},
        {"name": "b", "cpus": 4.0, "resources": {"gpu": 2}},
        {"name": "c", "price_usd": 0.5},
    ]
    groups: list[dict[str, Any]] = [{"name": "rack", "members": ["a", "b"], "up_bps": 500 * MBIT}]
    network = builders.network(hosts, np.full((3, 3), 100 * MBIT), groups=groups, sharing="groups")
    graph = network.to_networkx()
    assert graph.nodes["b"]["resources"] == {"gpu": 2}
    assert graph["a"]["c"]["rate_bps"] == 100 * MBIT
    back = Network.from_networkx(graph)
    assert (back.hosts, back.groups, back.sharing, back.rate_bps) == (
        network.hosts,
        network.groups,
        network.sharing,
        network.rate_bps,
    )


def test_an_edge_without_direction_counts_for_both() -> None:
    graph = nx.Graph()
    graph.add_edge("a", "b", rate_bps=5e8, latency_s=1e-4)
    network = Network.from_networkx(graph)
    assert network.pair_bps(0, 1) == network.pair_bps(1, 0) == 5e8
    assert network.pair_latency_s(1, 0) == 1e-4


def test_an_app_comes_from_a_matrix_a_table_and_a_graph() -> None:
    sizes = np.array([[0, 5 * MB, 0], [0, 0, 7 * MB], [MB, 0, 0]])
    app = App.from_numpy("ring", sizes)
    assert [task.name for task in app.task] == ["t0", "t1", "t2"]
    np.testing.assert_array_equal(app.to_numpy(), sizes)
    assert App.from_frame("ring", app.to_frame()).to_records() == app.to_records()
    phased = builders.app("two", ("a", "b", MB), ("a", "b", 2 * MB, 1), ("b", "a", 3 * MB, 1))
    graph = phased.to_networkx()
    assert [known["phase"] for _, _, known in graph.edges("a", data=True)] == [0, 1]
    back = App.from_networkx("two", graph)
    assert back.task == phased.task
    assert sorted(map(str, back.to_records())) == sorted(map(str, phased.to_records()))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Network.from_numpy(NAMES, RATES[:2]),
            "rate_bps has the shape (2, 3) for 3 hosts; give a square matrix",
        ),
        (lambda: Network.from_numpy(NAMES, [[1.0], [2.0, 3.0]]), "rate_bps is not a matrix of numbers"),
        (lambda: App.from_numpy("x", [["a"]]), "bytes is not a matrix of numbers"),
        (lambda: Network.from_frame(pd.DataFrame([{"source": "a", "target": "b"}])), "a row has no `rate_bps`"),
        (lambda: Network.from_frame(pd.DataFrame([["a", "b", "fast"]], columns=ROW)), "`fast` is not a number"),
        (lambda: App.from_frame("x", pd.DataFrame([["a", "b", None]], columns=SENT)), "bytes"),
        (lambda: App.from_frame("x", pd.DataFrame([["a", "b", pd.NA]], columns=SENT)), "bytes"),
        (lambda: Network.from_numpy(["a", "a", "b"], RATES), "`a`"),
        (lambda: Network.from_numpy(NAMES, -RATES), "rate_bps"),
        (lambda: Network.from_numpy(["a", "b/c", "d"], RATES), "`b/c` is not a host name"),
        (lambda: App.from_numpy("x", [[0, 1]]), "bytes has the shape (1, 2) for 1 tasks; give a square matrix"),
        (lambda: App.from_numpy("x", [[0, -1], [0, 0]]), "bytes"),
        (lambda: App.from_numpy("x", np.array([[0, 0.5], [0, 0]])), "bytes"),
        (lambda: App.from_networkx("x", nx.Graph([("a", "b")])), "the graph has no directions"),
        (lambda: App.from_networkx("x", nx.DiGraph([("a", "b")])), "bytes"),
        (lambda: Network.from_networkx(nx.DiGraph([("a", "b")])), "a row has no `rate_bps`; it has nothing"),
    ],
)
def test_what_is_wrong_is_named(make: Any, message: str) -> None:
    with pytest.raises(GavotteError) as error:
        make()
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@given(st.lists(st.lists(st.one_of(st.none(), st.floats(1, 1e12)), min_size=4, max_size=4), min_size=4, max_size=4))
def test_graphs_and_tables_keep_every_rate(rows: list[list[float | None]]) -> None:
    rates = np.array([[np.nan if each is None else each for each in row] for row in rows])
    network = Network.from_numpy(["a", "b", "c", "d"], rates)
    graph = Network.from_networkx(network.to_networkx())
    np.testing.assert_array_equal(graph.to_numpy(), network.to_numpy())
