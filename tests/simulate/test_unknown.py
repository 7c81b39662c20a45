"""Unknown rates are never simulated as fast: a warning if some pairs are unknown, a refusal if all are."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests import builders
from typer.testing import CliRunner

from gavotte.cli.verbs import app as command
from gavotte.errors import GavotteError
from gavotte.formats.app import write_app
from gavotte.formats.inventory import write_inventory
from gavotte.formats.network import Network, write_network
from gavotte.formats.placement import write_placement
from gavotte.simulate import Flows, rates, simulate
from gavotte.transfer import wss_bound, wss_rates

WARNING = "warning: 1 pair has no rate; placement treats them as slower than all others until you measure them"
REFUSED = "error: the network does not say how fast a sends to b; measure that pair, or set its rate_bps"

COMMANDS = {
    "flows": ["simulate", "n.network.json", "flows.csv"],
    "a placement": ["simulate", "p.placement.json", "app.app.toml", "--network", "n.network.json"],
    "guarantees": ["simulate", "n.network.json", "flows.csv", "--guarantee", "g.guarantee.toml"],
    "a shuffle": ["shuffle", "bytes.csv", "--hosts", "h.hosts.toml", "--network", "n.network.json", "--dry-run"],
    "coflows": ["transfers", "simulate", "trace.csv", "--policy", "fair", "--network", "n.network.json"],
}
GUARANTEE = """format = "gavotte/guarantee/1"
[[guarantee]]
host = "a"
egress = "1mbit"
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with all but the Network."""
    monkeypatch.chdir(tmp_path)
    Path("flows.csv").write_text("id,source,target,bytes,start_s\n0,a,b,1000000,0\n")
    Path("bytes.csv").write_text("source,target,bytes\na,b,1000000\n")
    Path("trace.csv").write_text("coflow,arrival_s,source,target,bytes\none,0,a,b,1000000\n")
    Path("g.guarantee.toml").write_text(GUARANTEE)
    write_inventory(Path("h.hosts.toml"), builders.inventory("abc"))
    write_app(Path("app.app.toml"), builders.app("app", ("x", "y", 1_000_000)))
    write_placement(Path("p.placement.json"), builders.placement({"x": "a", "y": "b"}))
    return tmp_path


def nothing(sharing: str = "pipe", **fields: float) -> Network:
    return builders.network("abc", sharing=sharing, **fields)


@pytest.mark.parametrize("verb", COMMANDS)
def test_the_command_says_so(verb: str, here: Path) -> None:
    write_network(
        here / "n.network.json",
        builders.network("abc", [[None, None, 8e6], [8e6, None, 8e6], [8e6, 8e6, None]], sharing="pipe"),
    )
    result = CliRunner().invoke(command, COMMANDS[verb])
    assert result.exit_code == 0
    assert result.stderr.splitlines()[0] == WARNING


@pytest.mark.parametrize("verb", COMMANDS)
def test_where_nothing_is_known_the_command_refuses(verb: str, here: Path) -> None:
    write_network(here / "n.network.json", nothing())
    result = CliRunner().invoke(command, COMMANDS[verb], standalone_mode=False)
    assert isinstance(result.exception, GavotteError)
    assert f"error: {result.exception}" == REFUSED


def test_a_cap_on_the_way_is_enough() -> None:
    flow = Flows(*([value] for value in (0, 1, 1_000_000, 0.0)))  # type: ignore[arg-type]
    racks = [{"name": "rack", "members": ["a"], "up_bps": 8e6}, {"name": "row", "members": ["c"], "down_bps": 8e6}]
    hose = builders.network([{"name": "a", "egress_bps": 8e6}, "b", "c"])
    grouped = builders.network("abc", groups=racks, sharing="groups")
    near = builders.network([{"name": name, "machine": "m"} for name in "ab"])
    assert simulate(hose, flow).makespan_s == pytest.approx(1.0)
    assert simulate(grouped, flow).makespan_s == pytest.approx(1.0)
    assert wss_bound(grouped, [("a", "c", 1e6)])[0] == pytest.approx(1.0)
    assert simulate(near, flow).makespan_s == 0.0
    for network in (hose, grouped):
        with pytest.raises(GavotteError, match="does not say how fast b sends to a"):
            wss_rates(network, [("a", "b", 1e6), ("b", "a", 1e6)])
    with pytest.raises(GavotteError, match="does not say how fast a sends to b"):
        rates(nothing("hose"), flow)


def test_what_a_network_without_pairs_leaves_out_is_unlimited() -> None:
    flow = Flows(*([value] for value in (0, 1, 1_000_000, 0.0)))  # type: ignore[arg-type]
    free = nothing("hose").model_copy(update={"rate_bps": []})
    assert simulate(free, flow).makespan_s == 0.0
    with pytest.raises(GavotteError, match="does not say how fast a sends to b"):
        simulate(free.model_copy(update={"sharing": "pipe"}), flow)
