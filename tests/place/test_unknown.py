"""Pairs of unknown rate are never treated as fast."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import builders
from typer.testing import CliRunner

from gavotte.cli.verbs import app as command
from gavotte.errors import GavotteError
from gavotte.formats.app import write_app
from gavotte.formats.network import Sharing, write_network
from gavotte.place import place
from gavotte.simulate import simulate_placement

APP = builders.app("app", ("a", "b", 1_000_000))


@given(
    size=st.integers(2, 5),
    seed=st.integers(0, 10**6),
    sharing=st.sampled_from(["pipe", "hose", "groups"]),
    method=st.sampled_from(["auto", "greedy", "optimal"]),
)
def test_no_placement_uses_an_unknown_pair_while_a_known_one_serves(
    size: int, seed: int, sharing: Sharing, method: str
) -> None:
    rng = np.random.default_rng(seed)
    rates = rng.uniform(1e6, 1e9, (size, size))
    unknown = rng.random((size, size)) < rng.random()
    unknown[rng.permutation(size)[:2].reshape(2, 1), rng.permutation(size)[:2]] = False
    np.fill_diagonal(unknown, True)
    network = builders.network(size, np.where(unknown, np.nan, rates), sharing=sharing)
    known = [(i, j) for i in range(size) for j in range(size) if not unknown[i, j]]
    if not known:
        return
    placement = place(network, [APP], method, seed=0, time_limit_s=0.2)
    hosts = (network.names.index(placement.assignment["a"]), network.names.index(placement.assignment["b"]))
    assert hosts in known
    assert placement.completion_s > 0
    assert simulate_placement(network, [APP], placement) > 0


def test_where_no_pair_has_a_rate_only_caps_limit() -> None:
    network = builders.network(2, egress_bps=8e6)
    assert network.unknown_pairs == 0
    assert place(network, [APP], "greedy").completion_s == pytest.approx(1.0)


@pytest.mark.parametrize("egress_bps", [None, 8e6])
def test_pairs_without_rate_or_cap_are_not_taken_for_unlimited(egress_bps: float | None) -> None:
    network = builders.network(3)
    hosts = [network.hosts[0].model_copy(update={"egress_bps": egress_bps}), *network.hosts[1:]]
    network = network.model_copy(update={"hosts": hosts})
    with pytest.raises(GavotteError, match="does not say how fast"):
        place(network, [APP])
    assert place(network, [builders.app("still", tasks=["a", "b"])]).completion_s == 0


def test_the_command_says_so(tmp_path: Path) -> None:
    write_network(tmp_path / "n.json", builders.network(3, [[None, 8e6, None], [8e6, None, 8e6], [8e6, 8e6, None]]))
    write_app(tmp_path / "a.app.toml", APP)
    result = CliRunner().invoke(command, ["place", str(tmp_path / "n.json"), str(tmp_path / "a.app.toml")])
    assert result.exit_code == 0
    assert "warning: 1 pair has no rate; " in result.stderr
    both = CliRunner().invoke(command, ["place", str(tmp_path / "n.json"), str(tmp_path / "a.app.toml"), "--json"])
    assert json.loads(both.stdout)["warnings"] == [result.stderr.splitlines()[0].removeprefix("warning: ")]


def test_pipes_without_any_rate_are_not_taken_for_unlimited() -> None:
    network = builders.network(2, egress_bps=8e6, sharing="pipe")
    with pytest.raises(GavotteError, match="no pair of hosts has a rate"):
        place(network, [APP])
