"""A Network's groups as the switches of schedulers, as text."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Annotated, Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from tests import builders
from tests.export.schemas import faults
from typer.testing import CliRunner

from gavotte.cli.verbs import app as gavotte
from gavotte.errors import GavotteError
from gavotte.export import TOPOLOGY_FORMATS, doubts, export_network
from gavotte.export.tree import fitting, tiers, tree_of
from gavotte.formats.network import Network, write_network
from gavotte.formats.placement import write_placement

PODS = builders.network(
    [{"name": "a", "machine": "m2"}, "b", {"name": "c", "machine": "m1"}, {"name": "d", "machine": "m1"}, "e"],
    latency_s=1e-4,
    groups=[
        {"name": "pod", "members": ["a", "b", "c", "d"]},
        {"name": "rack-0", "members": ["a", "b"], "parent": "pod", "up_bps": 1e9, "down_bps": 5e8},
    ],
)
"""A rack in a pod, hosts of the pod outside of racks, and a host outside of pods."""
KUEUE = "kueue.x-k8s.io_topologies"
VOLCANO = "topology.volcano.sh_hypernodes"


def groups(*parents: str | None) -> list[dict[str, Any]]:
    """Return a group `gN` of host `a` for each parent."""
    return [{"name": f"g{number}", "members": ["a"], "parent": parent} for number, parent in enumerate(parents)]


def test_slurm_gets_switches_before_those_around_them() -> None:
    assert export_network(PODS, "slurm-conf") == (
        "SwitchName=root-hosts Nodes=e\n"
        "SwitchName=pod-hosts Nodes=c,d\n"
        "SwitchName=rack-0 Nodes=a,b LinkSpeed=500\n"
        "SwitchName=pod Switches=rack-0,pod-hosts\n"
        "SwitchName=root Switches=pod,root-hosts\n"
    )


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Switch(_Strict):
    switch: Annotated[str, Field(min_length=1, max_length=64)]
    children: str | None = None
    nodes: str | None = None


class _Tree(_Strict):
    switches: Annotated[list[_Switch], Field(min_length=1)]


class _Block(_Strict):
    block: Annotated[str, Field(min_length=1)]
    nodes: Annotated[str, Field(min_length=1)]


class _Blocks(_Strict):
    block_sizes: Annotated[list[Annotated[int, Field(ge=1)]], Field(min_length=1)]
    blocks: Annotated[list[_Block], Field(min_length=1)]


class SlurmTopology(_Strict):
    """A topology of Slurm's `topology.yaml`.

    Sources: `doc/man/man5/topology.yaml.5` of SchedMD/slurm (25.05, commit 0b755e6c3053), and the checks of
    `src/plugins/topology/block/block_record.c` (commit 01cec7faa194).
    """

    topology: Annotated[str, Field(min_length=1)]
    cluster_default: bool = False
    tree: _Tree | None = None
    block: _Blocks | None = None
    flat: bool | None = None

    @model_validator(mode="after")
    def _as_slurm_checks(self) -> SlurmTopology:
        assert [self.tree, self.block, self.flat].count(None) == 2, "exactly one type"
        if self.tree is not None:
            names = [switch.switch for switch in self.tree.switches]
            assert len(set(names)) == len(names), "unique names"
            assert all((switch.children is None) != (switch.nodes is None) for switch in self.tree.switches)
        if self.block is not None:
            names = [block.block for block in self.block.blocks]
            assert len(set(names)) == len(names), "unique names"
            sizes = self.block.block_sizes
            assert all(len(block.nodes.split(",")) >= sizes[0] for block in self.block.blocks), "a block is too small"
            levels = [size / sizes[0] for size in sizes]
            assert levels == sorted(set(levels)), "sizes must grow"
            assert all(level.is_integer() and int(level).bit_count() == 1 and level <= 1 << 15 for level in levels)
        return self


def test_slurms_yaml_has_the_fields_of_its_manual() -> None:
    documents = yaml.safe_load(export_network(PODS, "slurm-yaml"))
    tree, blocks = [SlurmTopology.model_validate(document) for document in documents]
    assert [next(iter(document)) for document in documents] == ["topology"] * 2, "the name must be the first attribute"
    assert (tree.topology, tree.cluster_default) == ("gavotte", True)
    assert (blocks.topology, blocks.cluster_default) == ("gavotte-blocks", False)
    assert documents[0]["tree"] == {
        "switches": [
            {"switch": "root", "children": "pod,root-hosts"},
            {"switch": "pod", "children": "rack-0,pod-hosts"},
            {"switch": "rack-0", "nodes": "a,b"},
            {"switch": "pod-hosts", "nodes": "c,d"},
            {"switch": "root-hosts", "nodes": "e"},
        ]
    }
    assert documents[1]["block"] == {
        "block_sizes": [1],
        "blocks": [
            {"block": "rack-0", "nodes": "a,b"},
            {"block": "pod-hosts", "nodes": "c,d"},
            {"block": "root-hosts", "nodes": "e"},
        ],
    }
    damaged = [
        documents[0] | {"flat": True},
        documents[1] | {"block": documents[1]["block"] | {"block_sizes": [2]}},
        documents[1] | {"block": documents[1]["block"] | {"block_sizes": [1, 3]}},
        documents[1] | {"block": documents[1]["block"] | {"sizes": [1]}},
    ]
    for document in damaged:
        with pytest.raises(ValidationError):
            SlurmTopology.model_validate(document)


def even(pods: int, racks: int, hosts: int) -> Network:
    """Return a Network of equal pods with equal racks of equally many hosts."""
    names = [f"n{number}" for number in range(pods * racks * hosts)]
    listed: list[dict[str, Any]] = []
    for pod in range(pods):
        own = names[pod * racks * hosts : (pod + 1) * racks * hosts]
        listed.append({"name": f"pod-{pod}", "members": own})
        for rack in range(racks):
            members = own[rack * hosts : (rack + 1) * hosts]
            listed.append({"name": f"rack-{pod}-{rack}", "members": members, "parent": f"pod-{pod}"})
    return builders.network(names, groups=listed)


@pytest.mark.parametrize(
    ("shape", "sizes"),
    [((2, 2, 3), [3, 6]), ((2, 4, 2), [2, 8]), ((2, 3, 2), [2]), ((1, 4, 2), [2]), ((3, 2, 1), [1, 2])],
)
def test_blocks_are_combined_where_a_tier_has_a_power_of_two_of_them(
    shape: tuple[int, int, int], sizes: list[int]
) -> None:
    *blocks, last = export_network(even(*shape), "slurm-blocks").splitlines()
    assert last == f"BlockSizes={','.join(map(str, sizes))}"
    assert blocks[0] == f"BlockName=rack-0-0 Nodes={','.join(f'n{number}' for number in range(shape[2]))}"
    assert len(blocks) == shape[0] * shape[1]
    document = yaml.safe_load(export_network(even(*shape), "slurm-yaml"))[1]
    assert document["block"]["block_sizes"] == sizes


def test_topograph_gets_as_many_layers_for_each_host() -> None:
    domain = {"accelerator.topograph.run/domain": "m1"}
    assert json.loads(export_network(PODS, "topograph")) == {
        "instances": [
            {"id": "a", "network_layers": ["rack-0", "pod", "root"]},
            {"id": "b", "network_layers": ["rack-0", "pod", "root"]},
            {"id": "c", "network_layers": ["pod-hosts", "pod", "root"], "labels": domain},
            {"id": "d", "network_layers": ["pod-hosts", "pod", "root"], "labels": domain},
            {"id": "e", "network_layers": ["root-hosts", "root-hosts-tier1", "root"]},
        ]
    }


def test_nodes_get_labels_and_lose_them_again() -> None:
    text = export_network(PODS, "topograph-labels")
    tier = "fabric.topograph.run/tier-"
    assert text.splitlines()[0] == f"kubectl label --overwrite node a {tier}0=rack-0 {tier}1=pod {tier}2=root"
    assert text.splitlines()[2].split(" node c ")[1] == (
        f"{tier}0=pod-hosts {tier}1=pod {tier}2=root accelerator.topograph.run/domain=m1"
    )
    undo = TOPOLOGY_FORMATS["topograph-labels"].undo.format(file="-").removesuffix(" | sh")
    undone = subprocess.run(["sh", "-c", undo], input=text, capture_output=True, text=True, check=True).stdout
    assert (
        undone.splitlines()[2] == f"kubectl label node c {tier}0- {tier}1- {tier}2- accelerator.topograph.run/domain-"
    )


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl")
@pytest.mark.parametrize("older_labels", [False, True])
def test_kubectl_sets_and_removes_the_labels(older_labels: bool, tmp_path: Path) -> None:
    """On a file instead of a cluster: kubectl checks keys and values alike."""
    odd = builders.network("ab", groups=[{"name": "rack:0", "members": ["a"]}, {"name": "r" * 64, "members": ["b"]}])
    node, script = tmp_path / "node.yaml", tmp_path / "labels.sh"
    for network in (PODS, odd):
        node.write_text("apiVersion: v1\nkind: Node\nmetadata: {name: any}\n")
        script.write_text(export_network(network, "topograph-labels", older_labels=older_labels))
        undo = TOPOLOGY_FORMATS["topograph-labels"].undo.format(file=script).removesuffix(" | sh")
        undone = subprocess.run(["sh", "-c", undo], capture_output=True, text=True, check=True).stdout
        for line, back in zip(script.read_text().splitlines(), undone.splitlines(), strict=True):
            pairs = line.split(" node ")[1].split()[1:]
            assert labelled(node, line) == dict(pair.split("=") for pair in pairs)
            assert labelled(node, back) == {}


def labelled(node: Path, line: str) -> dict[str, str]:
    """Run a `kubectl label` command on a file, keep the result there, and return the node's labels."""
    before, after = line.split(" node ")
    command = [*before.split(), "--local", "-f", str(node), "-o", "yaml", *after.split()[1:]]
    node.write_text(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    labels: dict[str, str] = yaml.safe_load(node.read_text())["metadata"].get("labels") or {}
    return labels


def test_older_labels_name_three_tiers() -> None:
    older = "network.topology.nvidia.com"
    text = export_network(PODS, "topograph-labels", older_labels=True)
    assert text.splitlines()[2].split("node c ")[1] == (
        f"{older}/leaf=pod-hosts {older}/spine=pod {older}/core=root {older}/accelerator=m1"
    )
    levels = yaml.safe_load(export_network(PODS, "kueue", older_labels=True))["spec"]["levels"]
    assert [level["nodeLabel"].split("/")[1] for level in levels] == ["core", "spine", "leaf", "hostname"]
    four = builders.network("ab", groups=groups(None, "g0", "g1"))
    assert tree_of(four).height == 4
    with pytest.raises(GavotteError, match="4 tiers of switches, and the older labels have 3; leave out --older-label"):
        export_network(four, "topograph-labels", older_labels=True)


def test_a_long_name_is_hashed_as_by_topograph() -> None:
    """Topograph's own test has this name and its label (pkg/engines/k8s/labeler_test.go)."""
    name = "S3very-very-long-id-to-check-label-value-limits-of-63-characters"
    network = builders.network("ab", groups=[{"name": name, "members": ["a", "b"]}])
    assert "fabric.topograph.run/tier-0=xf946c4acef2d5939\n" in export_network(network, "topograph-labels")
    assert json.loads(export_network(network, "topograph"))["instances"][0]["network_layers"] == [name]
    assert doubts(network, "topograph") == []
    assert doubts(network, "topograph-labels") == [
        f"switch `{name}` is written as `xf946c4acef2d5939`: topograph-labels does not allow its name"
    ]


def test_ray_gets_the_rack_and_no_value_that_it_drops() -> None:
    lines = export_network(PODS, "ray").splitlines()
    assert lines[4] == (
        'ssh -n e ray start --address="$RAY_HEAD" --labels=ray.io/gpu-domain=root-hosts,'
        "gavotte.io/host=e,fabric.topograph.run/tier-0=root-hosts,fabric.topograph.run/tier-1=root-hosts-tier1,"
        "fabric.topograph.run/tier-2=root"
    )
    zero = builders.network("ab", groups=[{"name": "0", "members": ["a", "b"]}])
    values = export_network(zero, "ray").split("--labels=")[1].split("\n")[0].split(",")
    assert {value.split("=")[1] for value in values} == {f"x{0xAF63AD4C86019CAF:x}", "a"}
    assert "tier-0=0\n" in export_network(zero, "topograph-labels")


def test_kueue_accepts_the_levels_and_refuses_others() -> None:
    document = yaml.safe_load(export_network(PODS, "kueue"))
    levels = document["spec"]["levels"]
    assert faults(KUEUE, document) == []
    assert [level["nodeLabel"] for level in levels] == [
        *(f"fabric.topograph.run/tier-{tier}" for tier in (2, 1, 0)),
        "kubernetes.io/hostname",
    ]
    deepest = builders.network("ab", groups=groups(None, *(f"g{number}" for number in range(13))))
    document = yaml.safe_load(export_network(deepest, "kueue"))
    assert len(document["spec"]["levels"]) == 16
    assert faults(KUEUE, document) == []
    for wrong in (levels[::-1], [levels[0], *levels], [], [{"nodeLabel": f"x/{number}"} for number in range(17)]):
        document["spec"]["levels"] = wrong
        assert len(faults(KUEUE, document)) == 1


def test_volcano_accepts_the_hypernodes_and_refuses_others() -> None:
    documents = list(yaml.safe_load_all(export_network(PODS, "volcano")))
    assert [each for document in documents for each in faults(VOLCANO, document)] == []
    members = {
        document["metadata"]["name"]: (
            document["spec"]["tier"],
            {(each["type"], each["selector"]["exactMatch"]["name"]) for each in document["spec"]["members"]},
        )
        for document in documents
    }
    assert members == {
        "root": (3, {("HyperNode", "pod"), ("HyperNode", "root-hosts")}),
        "pod": (2, {("HyperNode", "rack-0"), ("HyperNode", "pod-hosts")}),
        "rack-0": (1, {("Node", "a"), ("Node", "b")}),
        "pod-hosts": (1, {("Node", "c"), ("Node", "d")}),
        "root-hosts": (1, {("Node", "e")}),
    }
    selector = documents[0]["spec"]["members"][0]["selector"]
    for wrong in ({}, selector | {"regexMatch": {"pattern": ".*"}}, {"exactMatch": {"name": "Rack"}}):
        documents[0]["spec"]["members"][0]["selector"] = wrong
        assert len(faults(VOLCANO, documents[0])) == 1


@pytest.mark.parametrize("form", ["topograph-labels", "volcano"])
def test_a_host_that_cannot_be_a_node_is_one_line(form: str) -> None:
    with pytest.raises(GavotteError, match=r"host `Node_1` cannot be a node of Kubernetes.*; measure the nodes by"):
        export_network(builders.network(["Node_1"]), form)


def test_groups_that_are_no_tree_are_one_line() -> None:
    crossing = [{"name": "x", "members": ["a", "b"]}, {"name": "y", "members": ["b", "c"]}]
    with pytest.raises(GavotteError, match="host `b` is in the groups `x` and `y`, and neither is within the other"):
        export_network(builders.network("abc", groups=crossing), "slurm-conf")
    for depth in (16, 2000):
        deep = builders.network("a", groups=groups(None, *(f"g{number}" for number in range(depth - 1))))
        with pytest.raises(GavotteError, match="has 16 tiers or more; remove groups: schedulers accept 15"):
            export_network(deep, "slurm-conf")


def test_machines_in_a_rack_are_no_switches() -> None:
    hosts = [{"name": name, "machine": machine} for name, machine in zip("abcdef", "mmnnop", strict=True)]
    racks = [
        {"name": "rack-0", "members": ["a", "b", "c", "d"]},
        {"name": "machine-0", "members": ["a", "b"], "parent": "rack-0"},
        {"name": "machine-1", "members": ["c", "d"], "parent": "rack-0"},
        {"name": "rack-1", "members": ["e", "f"]},
    ]
    assert export_network(builders.network(hosts, groups=racks), "slurm-conf").splitlines() == [
        "SwitchName=rack-1 Nodes=e,f",
        "SwitchName=rack-0 Nodes=a,b,c,d",
        "SwitchName=root Switches=rack-0,rack-1",
    ]
    alone = [{"name": "machine-0", "members": ["a", "b"]}, {"name": "machine-1", "members": ["c", "d"]}]
    assert "SwitchName=machine-0 Nodes=a,b\n" in export_network(builders.network(hosts, groups=alone), "slurm-conf")


def test_groups_within_a_machine_are_sub_domains() -> None:
    hosts = [{"name": name, "machine": machine} for name, machine in zip("abcdefg", "mmmmnnp", strict=True)]
    nested = [
        {"name": "rack", "members": list("abcdefg")},
        {"name": "socket-0", "members": ["a", "b"], "parent": "rack"},
        {"name": "socket-1", "members": ["c", "d"], "parent": "rack"},
        {"name": "machine-n", "members": ["e", "f"], "parent": "rack"},
    ]
    network = builders.network(hosts, groups=nested)
    domain, sub = "accelerator.topograph.run/domain", "accelerator.topograph.run/sub-domain"
    labels = {each["id"]: each.get("labels") for each in json.loads(export_network(network, "topograph"))["instances"]}
    assert labels == {
        **{name: {domain: "m", sub: "socket-0"} for name in "ab"},
        **{name: {domain: "m", sub: "socket-1"} for name in "cd"},
        **{name: {domain: "n"} for name in "ef"},
        "g": None,
    }
    assert f" {domain}=m {sub}=socket-0\n" in export_network(network, "topograph-labels")
    assert "socket" not in export_network(network, "topograph-labels", older_labels=True)


def test_added_switches_have_names_of_their_own() -> None:
    taken = [{"name": "root", "members": ["a"]}, {"name": "root-2-hosts", "members": ["b"]}]
    assert export_network(builders.network("abc", groups=taken), "slurm-conf").splitlines() == [
        "SwitchName=root-2-hosts-2 Nodes=c",
        "SwitchName=root-2-hosts Nodes=b",
        "SwitchName=root Nodes=a",
        "SwitchName=root-2 Switches=root,root-2-hosts,root-2-hosts-2",
    ]


@st.composite
def networks(draw: st.DrawFn) -> Network:
    """Draw nested groups, in any order in the file."""
    hosts = draw(st.integers(1, 8))
    names = [f"vm{number}" for number in range(hosts)]
    members: dict[str, set[str]] = {}
    parents: dict[str, str | None] = {}
    for number in range(draw(st.integers(0, 6))):
        parent = draw(st.sampled_from([None, *members]))
        siblings = {host for name, own in members.items() if parents[name] == parent for host in own}
        choices = sorted((members[parent] if parent else set(names)) - siblings)
        if choices:
            name = f"g{number}"
            members[name] = set(draw(st.lists(st.sampled_from(choices), min_size=1, unique=True)))
            parents[name] = parent
    order = draw(st.permutations(list(members)))
    listed = [{"name": name, "members": sorted(members[name]), "parent": parents[name]} for name in order]
    return builders.network(hosts, groups=listed)


@given(networks())
def test_slurm_accepts_the_trees_and_blocks_of_all_networks(network: Network) -> None:
    tree, blocks = map(SlurmTopology.model_validate, yaml.safe_load(export_network(network, "slurm-yaml")))
    assert tree.tree is not None
    assert blocks.block is not None
    leaves = {switch.switch: switch.nodes for switch in tree.tree.switches if switch.nodes is not None}
    assert {block.block: block.nodes for block in blocks.block.blocks} == leaves
    # Blocks that Slurm combines are all the blocks below one switch.
    above = tiers(tree_of(network))
    ways = [above[block.nodes.split(",")[0]] for block in blocks.block.blocks]
    for size in blocks.block.block_sizes[1:]:
        count = size // blocks.block.block_sizes[0]
        pairs = [tuple(ways[start : start + count]) for start in range(0, len(ways), count)]
        assert any(all(len({way[tier] for way in pair}) == 1 for pair in pairs) for tier in range(len(ways[0])))


@given(networks())
def test_every_group_is_a_switch_above_exactly_its_hosts(network: Network) -> None:
    root = tree_of(network)
    under: dict[str, set[str]] = {}
    for switch in reversed(list(root.walk())):
        assert bool(switch.hosts) != bool(switch.children)
        under[switch.name] = set(switch.hosts).union(*(under[child.name] for child in switch.children))
    assert under[root.name] == set(network.names)
    assert len(under) == len(list(root.walk())), "no name is used twice"
    assert {group.name: under[group.name] for group in network.groups} == {
        group.name: set(group.members) for group in network.groups
    }
    layers = tiers(root)
    assert set(layers) == set(network.names)
    assert {len(layer) for layer in layers.values()} == {root.height}
    places = {(name, tier) for layer in layers.values() for tier, name in enumerate(layer)}
    assert len({name for name, _ in places}) == len(places), "a switch is on one tier"
    for name, hosts in under.items():
        assert {host for host, layer in layers.items() if name in layer} == hosts


def test_without_groups_all_hosts_are_at_one_switch() -> None:
    flat = builders.network("ab")
    assert export_network(flat, "slurm-conf") == "SwitchName=root Nodes=a,b\n"
    assert doubts(flat, "slurm-conf") == ["the network has no groups, so that all hosts are at one switch"]
    assert doubts(PODS, "slurm-conf") == []


def test_names_of_switches_have_only_characters_of_the_format() -> None:
    odd = builders.network("ab", groups=[{"name": "rack[0],#1=ü", "members": ["a"]}])
    for form in ("slurm-conf", "slurm-yaml", "topograph-labels", "volcano", "ray"):
        names = TOPOLOGY_FORMATS[form].names
        assert fitting("rack[0],#1=ü", names) in export_network(odd, form)
        assert "#" not in export_network(odd, form)


def test_command_line_writes_and_prints_usage(tmp_path: Path) -> None:
    source, target = tmp_path / "n.network.json", tmp_path / "topology"
    write_network(source, PODS)
    runner = CliRunner()
    for form in TOPOLOGY_FORMATS:
        shown = runner.invoke(gavotte, ["export", str(source), "--format", form])
        written = runner.invoke(gavotte, ["export", str(source), "--format", form, "-o", str(target)])
        facts = json.loads(runner.invoke(gavotte, ["export", str(source), "--format", form, "--json"]).stdout)
        assert (shown.exit_code, written.exit_code) == (0, 0), shown.output + written.output
        assert shown.stdout == target.read_text() == facts["content"] == export_network(PODS, form)
        assert f"undo: {facts['undo']}\n" in shown.stderr
        assert facts["hosts"] == 5


def test_options_of_the_other_noun_are_one_line(tmp_path: Path) -> None:
    network, placement = tmp_path / "n.network.json", tmp_path / "p.placement.json"
    write_network(network, PODS)
    write_placement(placement, builders.placement({"t": "a"}))
    for words, message in [
        ([network, "--format", "kueue", "--app", "x"], "--app is for a Placement, and kueue writes a Network; leave"),
        ([placement, "--format", "csv", "--older-labels"], "csv has no labels; leave out --older-labels"),
        ([network, "--format", "volcano", "--older-labels"], "volcano has no labels; leave out --older-labels"),
        ([network, "--format", "csv"], f"{network}: is a Network; use a Placement"),
        ([placement, "--format", "kueue"], f"{placement}: is a Placement; use a Network"),
    ]:
        result = CliRunner().invoke(gavotte, ["export", *map(str, words)])
        assert isinstance(result.exception, GavotteError)
        assert message in str(result.exception)
    with pytest.raises(GavotteError, match=r"unknown format `pbs`; use .*csv, slurm-conf, slurm-blocks, slurm-yaml"):
        export_network(PODS, "pbs")
    with pytest.raises(GavotteError, match="format `csv` is not for a Network; use slurm-conf"):
        export_network(PODS, "csv")
