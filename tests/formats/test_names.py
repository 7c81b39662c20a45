"""Names of hosts as Slurm, Windows domains, Kubernetes and people write them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError
from tests.builders import app, history, inventory, network, topology

from gavotte.errors import FormatError, GavotteError
from gavotte.formats.guarantee import Guarantee
from gavotte.formats.inventory import read_inventory
from gavotte.formats.parts.byte_matrix import HostBytes, spelled_as
from gavotte.formats.parts.names import HostName, known_as, not_a_host_name
from gavotte.place import place, select_hosts
from gavotte.simulate import read_flows
from gavotte.transfer.question import receivers_of

NAMES = ["Node01", "rackA-2", "x_1", "web1.example.com", "_gateway"]


@pytest.mark.parametrize("name", [*NAMES, "A", "0", "a.b-c_d", "n" * 63, ".".join(["n" * 63] * 3), "ip-10-0-0-1"])
def test_names_that_others_write_are_accepted(name: str) -> None:
    assert inventory([name]).names == [name]


@pytest.mark.parametrize(
    "name",
    ["", "-n", "n-", ".n", "n.", "a..b", "..", "a/b", "a b", "a,b", "n[1-3]", "a:b", "a\n", "ä", "n" * 64, "n.n" * 85],
)
def test_names_that_are_unsafe_in_paths_options_and_lists_are_refused(name: str) -> None:
    assert not_a_host_name(name)
    with pytest.raises(ValidationError):
        TypeAdapter(HostName).validate_python(name)


@given(st.text(st.sampled_from("aZ0_-./, [\n"), max_size=12))
def test_no_accepted_name_is_a_path_an_option_or_a_list(name: str) -> None:
    if not not_a_host_name(name):
        assert not set(name) & set("/, []\n")
        assert not name.startswith(("-", "."))
        assert ".." not in name


def test_two_hosts_that_differ_in_case_only_are_refused_with_one_line(tmp_path: Path) -> None:
    path = tmp_path / "two.hosts.toml"
    entries = [
        f'[[host]]\nname = "{name}"\naddress = "10.0.0.{i}"\nagent = "ssh://h{i}"\n'
        for i, name in enumerate(["Node01", "node01"])
    ]
    path.write_text('format = "gavotte/hosts/1"\n' + "".join(entries))
    with pytest.raises(FormatError) as caught:
        read_inventory(path)
    assert caught.value.field == "host[1].name"
    assert "\n" not in str(caught.value)
    assert "`node01` and `Node01` of host[0] differ in upper and lower case only" in str(caught.value)


def test_no_noun_has_two_hosts_that_differ_in_case_only() -> None:
    with pytest.raises(ValidationError, match="differ in upper and lower case only"):
        network(["A", "a"], 1e9)
    with pytest.raises(ValidationError, match="differ in upper and lower case only"):
        topology(["A", "a"])
    with pytest.raises(ValidationError, match="already names a switch"):
        topology(["Core"])
    entries = [{"host": name, "egress": "1mbit"} for name in ("A", "a")]
    with pytest.raises(ValidationError, match="differ in upper and lower case only"):
        Guarantee.model_validate({"format": "gavotte/guarantee/1", "guarantee": entries})


def test_a_topology_takes_names_that_the_kernel_takes_as_hostnames() -> None:
    assert [host.name for host in topology(NAMES, switches=["Core_1"]).host] == NAMES
    with pytest.raises(ValidationError):
        topology(["n" * 60 + ".example"])


def test_the_known_spelling_is_found() -> None:
    assert known_as("node01", NAMES) == "Node01"
    assert known_as("WEB1.Example.com", NAMES) == "web1.example.com"
    assert known_as("node1", NAMES) == "node1"


def test_receivers_are_found_without_regard_to_case() -> None:
    hosts = inventory(NAMES)
    assert receivers_of(hosts, "node01", ["X_1", "RACKA-2"]) == ["x_1", "rackA-2"]
    assert receivers_of(hosts, "NODE01", None) == NAMES[1:]
    with pytest.raises(GavotteError, match="named twice"):
        receivers_of(hosts, "x_1", ["node01", "Node01"])


def test_pins_and_allowed_hosts_are_found_without_regard_to_case() -> None:
    believed = network(NAMES, 1e9)
    pinned = app("sort", ("a", "b", 1000), tasks=["a", "b"], constraints={"pin": {"a": "node01"}})
    allowed = select_hosts(believed, [pinned], only=[("b", ["RACKA-*"])])
    assert place(believed, [pinned], "greedy", allowed=allowed).assignment == {"a": "Node01", "b": "rackA-2"}
    placed = place(believed, [pinned], "greedy", allowed={"b": ["X_1"]})
    assert placed.assignment == {"a": "Node01", "b": "x_1"}


def test_other_files_find_hosts_without_regard_to_case(tmp_path: Path) -> None:
    path = tmp_path / "flows.csv"
    path.write_text("id,source,target,bytes,start_s\nf,node01,X_1,5,0\n")
    assert read_flows(path, NAMES).source.tolist() == [0]
    assert read_flows(path, NAMES).target.tolist() == [2]
    assert spelled_as([HostBytes("node01", "X_1", 5)], NAMES) == [HostBytes("Node01", "x_1", 5)]
    entry: dict[str, Any] = {"format": "gavotte/guarantee/1", "guarantee": [{"host": "NODE01", "egress": "1mbit"}]}
    assert Guarantee.model_validate(entry).spelled_as(NAMES).hosts == ["Node01"]


def test_a_history_leaves_out_hosts_without_regard_to_case() -> None:
    measured = history(np.full((1, 3, 3), 1e6), hosts=("Node01", "x_1", "y"))
    assert measured.without(["node01"]).hosts == ("x_1", "y")
