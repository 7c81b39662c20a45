"""Slurm's variables: their meaning, and one line when they make no sense."""

from __future__ import annotations

import socket
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gavotte.agents.sources.slurm import expand_counts, expand_nodes, from_slurm
from gavotte.errors import GavotteError


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every name resolves, each to an address of its own."""
    known: dict[str, str] = {}

    def lookup(name: str, *_: Any, **__: Any) -> list[Any]:
        address = known.setdefault(name, f"10.0.{len(known) // 250}.{len(known) % 250 + 1}")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0))]

    monkeypatch.setattr(socket, "getaddrinfo", lookup)


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        ("node1", ["node1"]),
        ("node[01-03,07],gpu[1-2]x", ["node01", "node02", "node03", "node07", "gpu1x", "gpu2x"]),
        ("n[9-11]", ["n9", "n10", "n11"]),
        ("n[098-101]", ["n098", "n099", "n100", "n101"]),
        ("rack[0-1]n[1,3]", ["rack0n1", "rack0n3", "rack1n1", "rack1n3"]),
        ("a,b-c,d.e", ["a", "b-c", "d.e"]),
    ],
)
def test_node_lists(text: str, nodes: list[str]) -> None:
    assert expand_nodes(text) == nodes


@pytest.mark.parametrize(
    "text",
    ["", ",", "a,,b", "n[1-2", "n1-2]", "n[[1]]", "n[]", "n[2-1]", "n[a-b]", "n[1-]", "n[0-99999999]", "a b", "a,a",
     "[1-2]", "n[1-64][1-64][1-64]", "-x", "n[1-4096],m", "n[" + "9" * 5000 + "]", "$(x)"],
)  # fmt: skip
def test_bad_node_lists_are_one_line(text: str) -> None:
    with pytest.raises(GavotteError, match=r"^\$SLURM_JOB_NODELIST: ") as raised:
        expand_nodes(text)
    assert "\n" not in str(raised.value)
    assert raised.value.hint


@given(st.text(alphabet="nab019[],-. x\n\0²", max_size=30) | st.text(max_size=20))
def test_fuzzed_node_lists(text: str) -> None:
    try:
        nodes = expand_nodes(text)
    except GavotteError as error:
        assert str(error).count("\n") == 0
    else:
        assert nodes
        assert len(set(nodes)) == len(nodes)


@given(st.lists(st.integers(0, 200), min_size=1, max_size=20, unique=True), st.integers(1, 5))
def test_ranges_say_what_they_were_made_of(numbers: list[int], width: int) -> None:
    padded = sorted({f"{number:0{width}}" for number in numbers})
    assert sorted(expand_nodes(f"n[{','.join(padded)}]")) == [f"n{number}" for number in padded]


def test_counts() -> None:
    assert expand_counts("4(x3),2", "$X") == [4, 4, 4, 2]
    for bad in ("", "4(x0)", "4(x)", "x", "4,,2", "4(x99999999)", "-1", "1.5"):
        with pytest.raises(GavotteError, match=r"^\$X: "):
            expand_counts(bad, "$X")


@given(st.text(alphabet="0123456789(x),", max_size=20) | st.text(max_size=10))
def test_fuzzed_counts(text: str) -> None:
    try:
        assert expand_counts(text, "$X")
    except GavotteError as error:
        assert "\n" not in str(error)


def test_an_allocation(names: None) -> None:
    environ = {
        "SLURM_JOB_NODELIST": "Node_[1-2],login",
        "SLURM_JOB_CPUS_PER_NODE": "8(x2),4",
        "SLURM_TASKS_PER_NODE": "1(x3)",
        "SLURM_MEM_PER_NODE": "2048",
    }
    with pytest.raises(GavotteError, match="is not a node"):
        from_slurm(environ | {"SLURM_JOB_NODELIST": "node 1"})
    inventory = from_slurm(environ | {"SLURM_JOB_NODELIST": "Node[1-2],login"})
    assert inventory.names == ["Node1", "Node2", "login"]
    assert [host.agent for host in inventory.host] == ["ssh://Node1", "ssh://Node2", "ssh://login"]
    assert [host.cpus for host in inventory.host] == [8, 8, 4]
    assert {host.memory_bytes for host in inventory.host} == {2 << 30}


def test_cpus_are_what_the_job_has_else_its_tasks_else_left_open(names: None) -> None:
    nodes = {"SLURM_JOB_NODELIST": "n[1-2]"}
    assert [h.cpus for h in from_slurm(nodes | {"SLURM_TASKS_PER_NODE": "3,2"}).host] == [3, 2]
    assert all("cpus" not in host.model_fields_set for host in from_slurm(nodes | {"SLURM_CPUS_ON_NODE": "8"}).host)
    assert from_slurm({"SLURM_NODELIST": "n1", "SLURM_CPUS_ON_NODE": "8"}).host[0].cpus == 8
    with pytest.raises(GavotteError, match=r"\$SLURM_TASKS_PER_NODE: has 3 entries for 2 nodes"):
        from_slurm(nodes | {"SLURM_TASKS_PER_NODE": "3(x3)"})
    with pytest.raises(GavotteError, match="is not set"):
        from_slurm({})


def test_a_name_without_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: Any, **__: Any) -> list[Any]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(GavotteError, match=r"\$SLURM_JOB_NODELIST: n1: `n1` does not resolve here \(Name or service"):
        from_slurm({"SLURM_JOB_NODELIST": "n1"})


def test_a_loopback_address_is_none_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def lookup(name: str, *_: Any, **__: Any) -> list[Any]:
        addresses = {"n1": ["127.0.1.1", "10.0.0.1"], "n2": ["10.0.0.2"], "n3": ["127.0.1.1"]}[name]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0)) for address in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    assert [h.address for h in from_slurm({"SLURM_JOB_NODELIST": "n[1-2]"}).host] == ["10.0.0.1", "10.0.0.2"]
    with pytest.raises(GavotteError, match="which other hosts cannot reach"):
        from_slurm({"SLURM_JOB_NODELIST": "n[2-3]"})
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: lookup("n2"))
    with pytest.raises(GavotteError, match=r"n2: `n2` and `n1` are both 10\.0\.0\.2; use only one"):
        from_slurm({"SLURM_JOB_NODELIST": "n[1-2]"})
