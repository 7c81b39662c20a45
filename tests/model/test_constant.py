"""A History becomes a Network: summaries over times, machines from hops, caps from the best rates."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.builders import history
from typer.testing import CliRunner

from gavotte.cli.verbs import app
from gavotte.errors import GavotteError
from gavotte.formats.history import Proof, write_history
from gavotte.model import model


@pytest.mark.parametrize(
    ("method", "mbit"), [("last", 400.0), ("min", 400.0), ("median", 200.0), ("mean", 8 / (0.14 / 3))]
)
def test_summaries_are_of_seconds_per_byte(method: str, mbit: float) -> None:
    values = np.array([100e6, 200e6, 400e6])[:, None, None] / 8 * np.ones((3, 2, 2))
    network = model(history(values), method=method)
    rate = network.rate_bps[0][1]
    assert rate is not None
    expected = 3 / (1 / 100e6 + 1 / 200e6 + 1 / 400e6) if method == "mean" else mbit * 1e6
    assert rate == pytest.approx(expected)
    assert network.rate_bps[0][0] is None


def test_last_falls_back_to_the_newest_value() -> None:
    values = np.ones((2, 2, 2)) * 1e6
    values[0, 0, 1] = 3e6
    values[1, 0, 1] = np.nan
    assert model(history(values), method="last").rate_bps[0][1] == pytest.approx(24e6)


def test_hosts_one_hop_apart_share_a_machine_and_do_not_tell_the_cap() -> None:
    values = np.ones((1, 3, 3)) * 1e7
    values[0, 0, 1] = values[0, 1, 0] = 5e8
    network = model(history(values, hops=[[0, 1, 4], [1, 0, 4], [4, 4, 0]]))
    assert network.hosts[0].machine == network.hosts[1].machine != network.hosts[2].machine
    assert [host.egress_bps for host in network.hosts] == [pytest.approx(8e7)] * 3


def test_a_pair_never_measured_is_named() -> None:
    values = np.ones((1, 3, 3)) * 1e6
    values[0, 1, 2] = np.nan
    with pytest.raises(GavotteError, match="h1 to h2"):
        model(history(values))


@pytest.mark.parametrize("fill", [(), ("--fill",)])
def test_a_host_that_was_not_reached_can_be_left_out(tmp_path: Path, fill: tuple[str, ...]) -> None:
    values = np.arange(1.0, 26.0).reshape(1, 5, 5) * 1e6
    values[:, 3] = values[:, :, 3] = np.nan
    values[:, :, 1] = np.nan
    source = tmp_path / "h.npz"
    write_history(source, history(values))
    refused = CliRunner().invoke(app, ["model", str(source), *fill])
    assert isinstance(refused.exception, GavotteError)
    assert "h1 and 1 more" in refused.exception.message
    assert refused.exception.hint.endswith("leave them out: --without h1 --without h3")
    words = ["model", str(source), "--without", "h1", "--without", "h3", "--json"]
    run = CliRunner().invoke(app, words)
    assert run.exit_code == 0, run.output
    document = json.loads(run.stdout)
    assert [host["name"] for host in document["hosts"]] == ["h0", "h2", "h4"]
    assert document["rate_bps"][1] == [pytest.approx(8 * 11e6), None, pytest.approx(8 * 15e6)]
    unknown = CliRunner().invoke(app, [*words, "--without", "h9"])
    assert isinstance(unknown.exception, GavotteError)
    assert (
        str(unknown.exception) == "cannot leave out `h9`, which is not in the History; use one of: h0, h1, h2, h3, h4"
    )


def test_caps_are_the_rates_of_several_connections_where_these_carry_more() -> None:
    several = np.full((2, 3, 3), np.nan)
    several[0, 0, 1], connections = 25e9 / 8, np.zeros((2, 3, 3), dtype=np.int64)
    connections[0, 0, 1] = 8
    network = model(history(np.full((2, 3, 3), 5e9 / 8), several_Bps=several, connections=connections))
    assert [host.egress_bps for host in network.hosts] == pytest.approx([25e9, 5e9, 5e9])
    assert [host.ingress_bps for host in network.hosts] == pytest.approx([5e9, 25e9, 5e9])


@pytest.mark.parametrize(("bucket_bytes", "ingress_bps"), [(100e6, 2e8), (1e6, 5e7)])
def test_a_host_receives_as_fast_as_credits_send(bucket_bytes: float, ingress_bps: float) -> None:
    proof = Proof.empty((1, 3, 3))
    proof.peak_Bps[:], proof.bucket_bytes[:] = 2e8 / 8, bucket_bytes
    network = model(history(np.full((1, 3, 3), 5e7 / 8), proof=proof))
    assert [host.egress_bps for host in network.hosts] == pytest.approx([5e7] * 3)
    assert [host.ingress_bps for host in network.hosts] == pytest.approx([ingress_bps] * 3)
