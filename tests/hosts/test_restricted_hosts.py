"""Hosts that restrict their users: agents are installed by SSH, and verbs work or name the missing privilege."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import tomli_w
from tests.builders import topology
from tests.hosts.cluster import Cluster
from tests.hosts.restrictions import RESTRICTIONS
from tests.shell import GAVOTTE, gavotte, until

from gavotte import lab
from gavotte.formats.inventory import read_inventory

pytestmark = [pytest.mark.lab, pytest.mark.rare, pytest.mark.timeout(240)]

PAIR = ("a", "b")


@contextmanager
def restricted(servers: Cluster, name: str) -> Iterator[Path]:
    """Run hosts a and b under a restriction; yield an inventory of both."""
    path = servers.folder / "pair.hosts.toml"
    servers.write_inventory(path, {host: f"ssh://{host}" for host in PAIR})
    for host in PAIR:
        shutil.rmtree(servers.cache(host), ignore_errors=True)
        servers.restrict(host, RESTRICTIONS[name])
    try:
        yield path
    finally:
        until(lambda: not servers.agents())
        for host in PAIR:
            servers.restrict(host, None)


@pytest.mark.parametrize(
    ("name", "where", "why"),
    [
        ("noexec home", "/run/user/0/gavotte", "cache/gavotte: is mounted noexec, or may not run programs"),
        ("read-only root", "/run/user/0/gavotte", "cache/gavotte: cannot be created"),
        ("tiny folders", "memory, since no folder will do", "/dev/shm/gavotte-0: lacks room for "),
        ("nothing runs", "memory, since no folder will do", "/tmp: accepts no socket"),
    ],
)
def test_an_agent_runs_from_another_place(servers: Cluster, name: str, where: str, why: str) -> None:
    with restricted(servers, name) as inventory:
        result = servers.gavotte("hosts", "install", "--hosts", inventory)
        assert result.returncode == 0, result.stderr
        verdicts = servers.verdicts(inventory)
        assert [host["verdict"] for host in verdicts.values()] == ["ready", "ready"], verdicts
        for host in verdicts.values():
            assert host["place"].startswith(f"runs from {where} (")
            assert why in host["place"]
        done = servers.gavotte("measure", "--hosts", inventory, "--method", "choreo", "--json")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["answered"] == 2
    assert all(host["place"] == "" for host in servers.verdicts(servers.inventory).values())


def test_install_says_where_agents_run_from(servers: Cluster) -> None:
    with restricted(servers, "noexec home") as inventory:
        done = servers.gavotte("hosts", "install", "--hosts", inventory, "--json")
    verdicts = [host["verdict"] for host in json.loads(done.stdout)["hosts"]]
    assert all(verdict.startswith("copied; runs from /run/user/0/gavotte (") for verdict in verdicts), verdicts
    with restricted(servers, "tiny folders") as inventory:
        done = servers.gavotte("hosts", "install", "--hosts", inventory, "--json")
    verdicts = [host["verdict"] for host in json.loads(done.stdout)["hosts"]]
    assert all(verdict.startswith("not kept: each run copies the agent again; ") for verdict in verdicts), verdicts


NET_ADMIN = "CAP_NET_ADMIN: `guarantee` cannot shape what it sends"
UDP = "`profile live` cannot count UDP, and `guarantee` cannot follow demand"


@pytest.mark.parametrize(
    ("name", "lacking"),
    [
        ("no bpf", [f"BPF programs, which the kernel or a system call filter refuses: {UDP}"]),
        ("no capabilities", [NET_ADMIN, f"CAP_BPF: {UDP}"]),
        ("a pod", [NET_ADMIN, f"CAP_BPF: {UDP}"]),
    ],
)
def test_verbs_work_without_privileges(servers: Cluster, tmp_path: Path, name: str, lacking: list[str]) -> None:
    (tmp_path / "bytes.csv").write_text("source,target,bytes\na,b,1000000\nb,a,1000000\n")
    # Without CAP_NET_ADMIN, only the privileges that the kernel gives everyone are available.
    hard_to_get = "cubic" not in Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control").read_text().split()
    with restricted(servers, name) as inventory:
        for host in servers.verdicts(inventory).values():
            assert host["usable"], host["verdict"]
            matches = [part for part in host["lacking"] if not part.startswith("TCP")]
            assert [part[: part.find(" (Operation")] if "CAP_NET" not in part else part for part in matches] == lacking
            if hard_to_get and NET_ADMIN in lacking:
                assert host["lacking"][-1].startswith("TCP `cubic`: transfers use ")
        orders: tuple[list[str | Path], ...] = (
            ["measure", "--json", "--hosts", inventory],
            ["measure", "--method", "bulk", "--seconds", "0.2", "--json", "--hosts", inventory],
            ["shuffle", tmp_path / "bytes.csv", "--json", "--hosts", inventory],
        )
        for order in orders:
            done = servers.gavotte(*order)
            assert done.returncode == 0, done.stderr
        source = servers.folder / "some.bin"
        source.write_bytes(bytes(1 << 20))
        source.chmod(0o644)
        if name != "a pod":  # The only place to read and write is 64 kB in /dev/shm.
            copy = f"{tmp_path}/{{host}}.bin"
            done = servers.gavotte("broadcast", source, "--from", "a", "-o", copy, "--hosts", inventory)
            assert done.returncode == 0, done.stderr
            assert (tmp_path / "b.bin").read_bytes() == bytes(1 << 20)


def test_guarantees_say_what_they_need(tmp_path: Path) -> None:
    text = 'format = "gavotte/guarantee/1"\n' + "".join(
        f'[[guarantee]]\nhost = "{host}"\negress = "50mbit"\ningress = "50mbit"\n' for host in PAIR
    )
    (tmp_path / "g.guarantee.toml").write_text(text)
    with lab.session(
        topology([{"name": name, "rate": "1gbit"} for name in PAIR]), source="tests", agents=False
    ) as cloud:
        hosts = []
        agents = []
        for host in read_inventory(cloud.hosts_file).host:
            socket = tmp_path / f"{host.name}.sock"
            wrapper = RESTRICTIONS["no capabilities"].wrapper
            line = [*wrapper, str(GAVOTTE.parent / "gavotte-agent"), "serve", "--socket", str(socket)]
            agents.append(cloud.exec(host.name, line))
            until(socket.exists)
            hosts.append({"name": host.name, "address": host.address, "agent": f"unix:{socket}"})
        (tmp_path / "h.hosts.toml").write_text(tomli_w.dumps({"format": "gavotte/hosts/1", "host": hosts}))
        done = gavotte("guarantee", "apply", "g.guarantee.toml", "--hosts", "h.hosts.toml", cwd=tmp_path)
    for agent in agents:
        agent.wait(timeout=30)
    assert done.returncode == 1
    assert "CAP_NET_ADMIN" in done.stderr
