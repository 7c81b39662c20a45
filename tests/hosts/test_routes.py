"""The `agent` key of an inventory: its three forms, and wrong ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import PydanticCustomError

from gavotte.agents import agent_pb2 as pb
from gavotte.agents.fleet import filled
from gavotte.errors import FormatError
from gavotte.formats.inventory import Host, read_inventory, write_inventory
from gavotte.formats.parts.routes import SshRoute, TlsRoute, UnixRoute, parse_route


@pytest.mark.parametrize(
    ("text", "route"),
    [
        ("unix:/run/a.sock", UnixRoute("/run/a.sock")),
        ("ssh://web1", SshRoute("web1")),
        ("ssh://ada@web1.example:2222", SshRoute("web1.example", "ada", 2222)),
        ("ssh://DOM\\ada@[2001:db8::1]:22?data-port=0", SshRoute("2001:db8::1", "DOM\\ada", 22, 0)),
        ("ssh://[fe80::1%eth0]", SshRoute("fe80::1%eth0")),
        ("tls://10.0.0.1", TlsRoute("10.0.0.1", 7412)),
        ("tls://[::1]:9", TlsRoute("::1", 9)),
        ("tls://10.0.0.1:9?name=gavotte-agent", TlsRoute("10.0.0.1", 9, "gavotte-agent")),
    ],
)
def test_routes(text: str, route: object) -> None:
    assert parse_route(text) == route
    if not isinstance(route, UnixRoute):
        assert parse_route(str(route)) == route


@pytest.mark.parametrize(
    "text",
    ["", "web1", "unix:a.sock", "ssh://", "ssh://-oProxyCommand=x", "ssh://-a@b", "ssh://a:0", "ssh://a:99999", "ssh://a:b",
     "ssh://a b", "ssh://[::::]", "ssh://a?x=1", "ssh://a?data-port=70000", "tls://u@a", "tls://a:1:2",
     "tls://a?name=", "tls://a?data-port=1", "ssh://@a/b", "TLS://a"],
)  # fmt: skip
def test_what_is_none(text: str) -> None:
    with pytest.raises(PydanticCustomError):
        parse_route(text)


@given(st.text(max_size=30) | st.from_regex(r"(ssh|tls)://[^\n]{0,20}", fullmatch=True))
def test_fuzz(text: str) -> None:
    try:
        route = parse_route(text)
    except PydanticCustomError:
        return
    if isinstance(route, SshRoute):
        assert not route.host.startswith("-")
        assert not (route.user or "").startswith("-")


def test_an_inventory_of_all_three(tmp_path: Path) -> None:
    path = tmp_path / "x.hosts.toml"
    path.write_text(
        'format = "gavotte/hosts/1"\nkeys = "keys"\nssh_config = "/etc/c"\n'
        '[[host]]\nname = "a"\naddress = "10.0.0.1"\nagent = "ssh://a"\ncpus = 1\n'
        '[[host]]\nname = "b"\naddress = "10.0.0.2"\nagent = "tls://10.0.0.2"\n'
    )
    inventory = read_inventory(path)
    assert inventory.keys == str(tmp_path / "keys")
    assert inventory.ssh_config == "/etc/c"
    write_inventory(tmp_path / "y.hosts.toml", inventory)
    again = read_inventory(tmp_path / "y.hosts.toml")
    assert again == inventory
    # The difference between a stated core and a missing one survives.
    assert ["cpus" in host.model_fields_set for host in again.host] == [True, False]
    path.write_text(path.read_text().replace("tls://10.0.0.2", "ftp://10.0.0.2"))
    with pytest.raises(
        FormatError, match=r"x\.hosts\.toml: host\[1\]\.agent: `ftp://10\.0\.0\.2` does not name an agent; "
    ):
        read_inventory(path)


def test_agents_fill_in_what_the_inventory_leaves_out() -> None:
    health = pb.HealthReply(cpus=8.0, memory_bytes=1 << 34)
    host = {"name": "a", "address": "10.0.0.1", "agent": "ssh://a"}
    assert filled(Host.model_validate(host), health).cpus == 8.0
    stated = filled(Host.model_validate(host | {"cpus": 1.0, "memory_bytes": 0}), health)
    assert (stated.cpus, stated.memory_bytes) == (1.0, 0)
    assert filled(Host.model_validate(host), pb.HealthReply()).cpus == 1.0
