"""Hosts from a kubeconfig, with an API server of a few lines. A real one: test_kubeconfig_in_cluster.py."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.api_server import Quiet, listening, write_kubeconfig
from tests.shell import gavotte

from gavotte.agents import resolve_hosts
from gavotte.agents.sources import from_kubeconfig
from gavotte.agents.sources import kubeconfig as source
from gavotte.agents.sources.listings import from_listings
from gavotte.errors import GavotteError


def node(name: str, address: str, ready: str = "True", **spec: Any) -> dict[str, Any]:
    """Return a node as an API server of Kubernetes 1.37 describes one, without the parts that say nothing of hosts."""
    return {
        "metadata": {
            "name": name,
            "labels": {"topology.kubernetes.io/zone": "zone1", "kubernetes.io/os": "linux"},
            "creationTimestamp": "2026-11-30T10:00:00Z",
        },
        "spec": {"podCIDR": "10.45.1.0/24", **spec},
        "status": {
            "capacity": {"cpu": "4", "memory": "16393204Ki", "pods": "110"},
            "allocatable": {"cpu": "3920m", "memory": "16Gi", "pods": "110"},
            "addresses": [{"type": "Hostname", "address": name}, {"type": "InternalIP", "address": address}],
            "conditions": [{"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": ready}],
        },
    }


NODES = [
    node("node1", "10.44.0.11"),
    node("node2", "10.44.0.12"),
    node("node3", "10.44.0.13", ready="Unknown"),
    node("node4", "10.44.0.14", unschedulable=True),
]


@contextmanager
def api_server(nodes: list[dict[str, Any]], status: int = 200, message: str = "", page: int = 3) -> Iterator[int]:
    """Answer requests for nodes, some a page, until the end of the block."""

    class Handler(Quiet, BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            at = int(parse_qs(urlsplit(self.path).query).get("continue", ["0"])[0])
            more = {"continue": str(at + page)} if at + page < len(nodes) else {}
            answer: dict[str, Any] = {"kind": "NodeList", "apiVersion": "v1", "metadata": more}
            answer["items"] = nodes[at : at + page]
            if status != 200:
                answer = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": status}
            self.send_json(answer, status)

    with listening(Handler) as port:
        yield port


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no kubeconfig but those of the test."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    for name in [name for name in os.environ if name.startswith("KUBERNETES_SERVICE")]:
        monkeypatch.delenv(name)


def test_nodes_are_hosts(tmp_path: Path) -> None:
    with api_server(NODES) as port:
        write_kubeconfig(tmp_path / "config", {"c": port})
        listing = from_kubeconfig()
    assert listing.absent == {"node3": "not ready", "node4": "unschedulable"}
    first, second = listing.inventory.host
    assert (first.name, first.address, first.agent) == ("node1", "10.44.0.11", "ssh://10.44.0.11")
    assert (second.name, second.address) == ("node2", "10.44.0.12")
    assert (first.cpus, first.memory_bytes) == (3.92, 16 << 30)
    assert first.labels == {"topology.kubernetes.io/zone": "zone1"}


def test_they_are_those_that_kubectl_lists(tmp_path: Path) -> None:
    (tmp_path / "nodes.json").write_text(json.dumps({"kind": "List", "items": NODES}))
    with api_server(NODES) as port:
        write_kubeconfig(tmp_path / "config", {"c": port})
        assert from_kubeconfig() == from_listings([tmp_path / "nodes.json"])


def test_the_kubeconfig_is_read_as_kubectl_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with api_server(NODES[:1]) as one, api_server(NODES[1:2]) as two:
        write_kubeconfig(tmp_path / "config", {"c": one})
        write_kubeconfig(tmp_path / "more", {"arn:aws:eks:eu:1:cluster/x": two}, current="none")
        # Several files are merged, the first one's context counts, and missing ones do not matter.
        joined = os.pathsep.join(str(tmp_path / name) for name in ("config", "none", "more"))
        monkeypatch.setenv("KUBECONFIG", joined)
        assert resolve_hosts("kubeconfig:arn:aws:eks:eu:1:cluster/x").names == ["node2"]
        # A current context that is damaged does not matter to those who name another.
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "more"))
        assert resolve_hosts("kubeconfig:arn:aws:eks:eu:1:cluster/x").names == ["node2"]
        # Without the variable, or with an empty one, it is in the home.
        (tmp_path / ".kube").mkdir()
        (tmp_path / "config").rename(tmp_path / ".kube" / "config")
        monkeypatch.setenv("KUBECONFIG", "")
        assert resolve_hosts("kubeconfig").names == ["node1"]
        monkeypatch.delenv("KUBECONFIG")
        assert resolve_hosts("kubeconfig:c").names == ["node1"]


def test_the_command_line_takes_it_wherever_it_takes_hosts(tmp_path: Path) -> None:
    with api_server(NODES) as port:
        write_kubeconfig(tmp_path / "config", {"c": port})
        shown = gavotte("hosts", "list", "--hosts", "kubeconfig:c", cwd=tmp_path)
        assert shown.returncode == 0, shown.stderr
        assert "10.44.0.12" in shown.stdout
        assert "3.92  17.2 GB" in shown.stdout
        assert "warning: node3: left out: not ready\nwarning: node4: left out: unschedulable\n" in shown.stderr
        words = ("--kubeconfig", "--context", "c", "--user", "ada", "--match", "node1,node4", "-o", "k.hosts.toml")
        done = gavotte("hosts", "import", *words, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert done.stderr == "warning: node4: left out: unschedulable\n1 host in k.hosts.toml\n"
    host = resolve_hosts(str(tmp_path / "k.hosts.toml")).host[0]
    assert (host.agent, host.cpus, host.labels) == (
        "ssh://ada@10.44.0.11",
        3.92,
        {"topology.kubernetes.io/zone": "zone1"},
    )
    for wrong in ("--context c --slurm", "--kubeconfig --slurm", "--slurm --user ada"):
        assert gavotte("hosts", "import", *wrong.split(), cwd=tmp_path).returncode == 2


NO_QUANTITY = node("a", "10.0.0.1") | {"status": {"allocatable": {"cpu": "many"}}}
FORBIDDEN = 'nodes is forbidden: User "me" cannot list resource "nodes" in API group "" at the cluster scope'


@pytest.mark.parametrize(
    ("nodes", "status", "text", "message", "hint"),
    [
        ([], 200, "", "kubeconfig: the cluster has no nodes", "name another context"),
        (NODES[2:], 200, "", "kubeconfig: no host runs; node3: not ready", "start them"),
        (NODES, 403, FORBIDDEN, f"Kubernetes did not list its nodes: {FORBIDDEN}", "`nodes: list`"),
        (NODES, 401, "Unauthorized", "Kubernetes did not list its nodes: Unauthorized", "log in again"),
        ([NO_QUANTITY], 200, "", "kubeconfig: items[0]: cpu `many`", "3920m"),
        ([node("a", "10.0.0.1") | {"status": {}}], 200, "", "kubeconfig: items[0]: `a` has no address", "--match"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_cluster_is_one_line(
    nodes: list[dict[str, Any]], status: int, text: str, message: str, hint: str, tmp_path: Path
) -> None:
    with api_server(nodes, status, text) as port:
        write_kubeconfig(tmp_path / "config", {"c": port})
        with pytest.raises(GavotteError) as raised:
            from_kubeconfig()
    assert str(raised.value).startswith(message)
    assert "\n" not in str(raised.value)
    assert hint in raised.value.hint


@pytest.mark.parametrize(
    ("content", "context", "message"),
    [
        (None, "", "no kubeconfig is at {config}"),
        (None, "x", "no kubeconfig is at {config}"),
        ("{c}", "x", "{config}: has no context `x`; its contexts are c"),
        ("", "", "Invalid kube-config. {config} file is empty"),
        ("a: [", "", "{config}: is not a kubeconfig"),
        ("[1]", "", "{config}: is not a kubeconfig"),
        ('{"contexts": [3]}', "", "{config}: is not a kubeconfig"),
        ('{"contexts": []}', "x", "{config}: has no context `x`; it has no contexts"),
        ("\0", "", "{config}: is not a kubeconfig"),
    ],
)
def test_what_is_wrong_with_a_kubeconfig_is_one_line(
    content: str | None, context: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "config"
    if content == "{c}":
        write_kubeconfig(path, {"c": 1})
    elif content is not None:
        path.write_text(content)
    with pytest.raises(GavotteError) as raised:
        from_kubeconfig(context)
    assert str(raised.value).startswith(f"{message.format(config=path)}; set KUBECONFIG")


def test_an_api_server_that_is_away_is_one_line_before_the_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "DEADLINE_S", 0.5)
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        write_kubeconfig(tmp_path / "config", {"c": port})
        with pytest.raises(GavotteError, match=r"did not list its nodes: .*Connection refused") as raised:
            from_kubeconfig()
        assert "0x" not in str(raised.value)
        # It takes connections, and answers nothing.
        bound.listen()
        begin = time.monotonic()
        with pytest.raises(GavotteError, match=r"did not list its nodes: .*timed out") as raised:
            from_kubeconfig()
    assert time.monotonic() - begin < 5
    assert "\n" not in str(raised.value)
    assert raised.value.hint == "is the cluster of your kubeconfig up?"


def test_without_the_client_the_extra_is_named(tmp_path: Path) -> None:
    code = "import sys; sys.modules['kubernetes'] = None; from gavotte.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "hosts", "list", "--hosts", "kubeconfig"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1, done.stderr
    assert done.stderr == "error: `kubernetes` is not installed; pip install 'gavotte[kubernetes]'\n"
