"""Verdicts: right where the evidence is sufficient, absent where it is not."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests import builders
from tests.measure.random_clouds import KINDS, Cloud, Score, random_cloud, score
from typer.testing import CliRunner

from gavotte.cli.verbs import app
from gavotte.formats.history import History, write_history
from gavotte.formats.network import Network
from gavotte.formats.parts.evidence import Evidence
from gavotte.measure.sharing import run_experiments, typical_rate
from gavotte.model import model
from gavotte.terms.goodput import GOODPUT_PER_WIRE
from gavotte.terms.hierarchy import hierarchy_of


def learnt(cloud: Cloud, *, noise: float, seed: int = 0) -> tuple[History, Network]:
    oracle = cloud.oracle(noise=noise, seed=seed)
    history = oracle.history()
    tree = hierarchy_of(history.hosts, history.hops)
    result = run_experiments(oracle, tree, typical_rate(history), hosts=range(tree.size), seed=seed)
    history = replace(history, evidence=result.evidence)
    return history, model(history)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_small_clouds_are_told_apart(kind: str, noise: float) -> None:
    scores: list[Score] = []
    for seed in range(12):
        cloud = random_cloud(kind, seed, hosts=6 + seed % 5)
        scores.append(score(cloud, learnt(cloud, noise=noise, seed=seed)[1]))
    assert not [wrong for each in scores for wrong in each.wrong]
    assert sum(each.all_right for each in scores) >= 11


@pytest.mark.rare
@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_cloud_of_64(kind: str) -> None:
    cloud = random_cloud(kind, 1, hosts=64, per_rack=8)
    result = score(cloud, learnt(cloud, noise=0.02)[1])
    assert result.all_right, result


def test_a_hose_gives_each_host_its_cap_and_groups_none() -> None:
    hosts = [{"name": f"vm{i}", "switch": f"tor{i // 3}", "egress": f"{100 + 20 * i}mbit"} for i in range(6)]
    topology = builders.topology(hosts, switches=["core", "tor0", "tor1"])
    _, network = learnt(Cloud("hose", topology), noise=0.0)
    assert network.sharing == "hose"
    for host, modelled in zip(topology.host, network.hosts, strict=True):
        assert host.egress is not None
        assert modelled.egress_bps == pytest.approx(host.egress * GOODPUT_PER_WIRE, rel=0.02)
    assert [group.name for group in network.groups] == ["rack-0", "rack-1"]
    assert not [group for group in network.groups if group.up_bps or group.down_bps]


def test_a_pipe_cloud_has_no_caps() -> None:
    _, network = learnt(random_cloud("pipe", 1, hosts=8), noise=0.01)
    assert network.sharing == "pipe"
    assert {host.egress_bps for host in network.hosts} == {None}


def test_groups_form_the_tree() -> None:
    _, network = learnt(random_cloud("core", 3, hosts=10), noise=0.0)
    assert network.sharing == "groups"
    parents = {group.name: group.parent for group in network.groups}
    assert {name.split("-")[0] for name in parents} >= {"rack", "pod"}
    assert all(str(parent).startswith("pod") for name, parent in parents.items() if name.startswith("rack"))
    Network.model_validate_json(network.model_dump_json())


@pytest.mark.parametrize("seed", range(6))
def test_no_limit_is_below_what_was_seen(seed: int) -> None:
    """Noise lets some rates on a link exceed the link's estimated rate."""
    _, network = learnt(random_cloud("hose", seed, hosts=8), noise=0.05)
    assert any(verdict.rate_bps for verdict in network.verdicts)
    for verdict in network.verdicts:
        assert not verdict.rate_bps or verdict.rate_bps >= (verdict.at_least_bps or 0)
    machine = {host.name: host.machine for host in network.hosts}
    for i, source in enumerate(network.hosts):
        for j, target in enumerate(network.hosts):
            rate_bps = network.rate_bps[i][j]
            if rate_bps and machine[source.name] != machine[target.name]:
                assert rate_bps <= (source.egress_bps or np.inf)
                assert rate_bps <= (target.ingress_bps or np.inf)


def test_a_limit_is_printed_only_where_one_was_found(tmp_path: Path) -> None:
    history, network = learnt(random_cloud("hose", 2, hosts=8), noise=0.0)
    bare = replace(history, evidence=())
    result = sum(bool(host.egress_bps) + bool(host.ingress_bps) for host in network.hosts)
    for measured, limits in ((history, result), (bare, 0)):
        write_history(tmp_path / "h.npz", measured)
        lines = CliRunner().invoke(app, ["model", str(tmp_path / "h.npz")]).stdout.splitlines()
        rows = [line for line in lines if line.split()[:1] and line.split()[0] in history.hosts]
        assert len(rows) == 8
        cells = [re.split(r"  +", row.strip())[1:3] for row in rows]
        assert sum(not cell.startswith(("at least", "-")) for row in cells for cell in row) == limits
    assert 4 < result < 16


def test_the_table_of_links_knows_what_the_table_of_hosts_knows(tmp_path: Path) -> None:
    # Experiments on racks cross hosts' links, too, but seldom at these links' full rate.
    history, _ = learnt(random_cloud("hose", 2, hosts=8), noise=0.0)
    record = next(each for each in history.evidence if len(each.pairs) > 1)
    write_history(tmp_path / "h.npz", replace(history, evidence=(record,)))
    lines = CliRunner().invoke(app, ["model", str(tmp_path / "h.npz")]).stdout.splitlines()
    hosts = {words[0]: words[1:] for line in lines if (words := line.split())[:1] and words[0] in history.hosts}
    links = {line.split("  ")[0].strip(): line for line in lines if line.startswith(("out of", "into"))}
    for name, (_, _, rate, *_) in hosts.items():
        # A link without a verdict is not listed.
        assert f"out of {name}" not in links or rate in links[f"out of {name}"].split()
    assert links


def test_without_evidence_nothing_changes() -> None:
    history = replace(random_cloud("hose", 0, hosts=6).oracle().history(), evidence=())
    network = model(history)
    assert network.sharing == "hose"
    assert all(host.egress_bps for host in network.hosts)
    assert not network.verdicts


def drop(history: History, keep: int) -> History:
    """Keep only the first tries of each link."""
    seen: dict[str, int] = {}
    kept = []
    for record in history.evidence:
        seen[record.subject] = seen.get(record.subject, 0) + 1
        if seen[record.subject] <= keep:
            kept.append(record)
    return replace(history, evidence=tuple(kept))


def test_one_experiment_claims_nothing() -> None:
    history, _ = learnt(random_cloud("hose", 4, hosts=8), noise=0.0)
    network = model(drop(history, 1))
    assert {host.egress_bps for host in network.hosts} == {None}
    assert any("no other confirms it" in verdict.evidence for verdict in network.verdicts)


def test_a_loss_with_two_explanations_claims_neither() -> None:
    """Both pairs cross the uplinks of their host, machine and rack, and no other experiment was ever tried."""
    cloud = random_cloud("tor", 1, hosts=8)
    history, _ = learnt(cloud, noise=0.0)
    tree = hierarchy_of(history.hosts, history.hops)
    source = next(i for i in range(tree.size) if len(tree.path(i, (i + 1) % tree.size)) > 3)
    targets = [t for t in range(tree.size) if t != source and len(tree.path(source, t)) > 3][:2]
    record = Evidence(
        pairs=[(history.hosts[source], history.hosts[target]) for target in targets],
        alone_bps=[80e6, 80e6],
        together_bps=[40e6, 40e6],
        sum_bps=80e6,
        low_bps=79e6,
        high_bps=81e6,
        overlap_s=0.3,
        verdict="shared",
    )
    network = model(replace(history, evidence=(record, record)))
    assert all(verdict.verdict in ("unknown", "open") for verdict in network.verdicts)
    assert network.sharing == "hose"


def test_a_foreign_host_in_the_evidence_is_passed_over() -> None:
    history, network = learnt(random_cloud("pipe", 2, hosts=6), noise=0.0)
    stranger = history.evidence[0].model_copy(update={"pairs": [("x", "y")] * len(history.evidence[0].pairs)})
    again = model(replace(history, evidence=(*history.evidence, stranger)))
    assert again.sharing == network.sharing
