"""Labels of nodes that follow the Network, with an API server of a few lines. A real one: test_labels_in_cluster.py."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from tests import builders
from tests.api_server import Quiet, listening, write_kubeconfig
from tests.serve.served import RACKS, racks, serving
from tests.shell import gavotte, until

from gavotte.formats.network import write_network
from gavotte.serve.labelling import MARK

pytestmark = pytest.mark.slow

OLDER = "network.topology.nvidia.com/"
TIER = "fabric.topograph.run/tier-"
KIND = {"kind": "NodeList", "apiVersion": "v1"}


class Nodes:
    """The part of an API server that lists and patches nodes, two a page."""

    def __init__(self, names: list[str]) -> None:
        self.nodes: dict[str, dict[str, Any]] = {
            name: {"metadata": {"name": name, "labels": {}, "annotations": {}}} for name in names
        }
        self.patches = 0
        self.damaged = b""

    def labels(self, name: str) -> dict[str, str]:
        labels: dict[str, str] = self.nodes[name]["metadata"]["labels"]
        return labels

    @contextmanager
    def answering(self, port: int = 0) -> Iterator[int]:
        """Answer at a port until the end of the block."""
        owner = self

        class Handler(Quiet, BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked = parse_qs(urlsplit(self.path).query)
                at, names = int(asked.get("continue", ["0"])[0]), sorted(owner.nodes)
                more = {"continue": str(at + 2)} if at + 2 < len(names) else {}
                page = [owner.nodes[name] for name in names[at : at + 2]]
                self.send_json(owner.damaged or KIND | {"metadata": more, "items": page})

            def do_PATCH(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                node = owner.nodes[self.path.rpartition("/")[2]]
                for part, changes in body["metadata"].items():
                    for key, value in changes.items():
                        if value is None:
                            node["metadata"][part].pop(key, None)
                        else:
                            node["metadata"][part][key] = value
                owner.patches += 1
                self.send_json(owner.damaged or node)

        with listening(Handler, port) as number:
            yield number


def kubeconfig(path: Path, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make this cluster the current one."""
    write_kubeconfig(path, {"c": port})
    monkeypatch.setenv("KUBECONFIG", str(path))


def test_labels_follow_the_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = Nodes(["other", "vm0", "vm1", "vm2", "vm3"])
    nodes.labels("vm1")["zone"] = "z1"
    nodes.labels("vm3")[f"{TIER}0"] = "of-the-provider"
    with nodes.answering() as port:
        kubeconfig(tmp_path / "config", port, monkeypatch)
        with serving(tmp_path, "--label-nodes", network=racks()) as served:
            until(lambda: f"{TIER}0" in nodes.labels("vm2"))
            assert nodes.labels("vm0") == {f"{TIER}0": "rack-0", f"{TIER}1": "pod-0", f"{TIER}2": "root"}
            assert nodes.labels("vm1") == nodes.labels("vm0") | {"zone": "z1"}
            until(lambda: f"{TIER}1" in nodes.labels("vm3"))
            assert nodes.labels("vm3")[f"{TIER}0"] == "of-the-provider"
            assert nodes.labels("other") == {}
            patches = nodes.patches
            # A new Network: vm2 is in rack 0 now, and vm0 has left.
            groups = [RACKS[0] | {"members": ["vm1", "vm2", "vm3"]}, RACKS[1] | {"members": ["vm1", "vm2"]}]
            changed = builders.network(["vm1", "vm2", "vm3"], 1e9, groups=groups)
            write_network(tmp_path / "n.network.json", changed)
            until(lambda: nodes.labels("vm2").get(f"{TIER}0") == "rack-0" and not nodes.labels("vm0"))
            # All hosts are below one switch now, so that no third tier is left.
            assert nodes.labels("vm1") == {"zone": "z1", f"{TIER}0": "rack-0", f"{TIER}1": "pod-0"}
            assert nodes.patches > patches
        assert "node vm3 has fabric.topograph.run/tier-0=of-the-provider, which others have set" in served.complaints
        assert "vm4 of the Network: no node has that name" in served.complaints
        assert "4 nodes got other labels" in served.complaints
        # After a restart it knows which labels are its own, and changes nothing that is right.
        patches = nodes.patches
        del nodes.labels("vm1")[f"{TIER}1"]
        nodes.labels("vm2")[f"{TIER}0"] = "wrong"
        with serving(tmp_path, "--label-nodes"):
            until(lambda: nodes.labels("vm2")[f"{TIER}0"] == "rack-0" and f"{TIER}1" in nodes.labels("vm1"))
        assert nodes.patches == patches + 2
        assert MARK not in nodes.nodes["vm0"]["metadata"]["annotations"]


def test_older_labels_replace_the_new_ones_and_a_command_removes_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = Nodes(["other", "vm0", "vm1", "vm2", "vm3"])
    nodes.labels("other")[f"{TIER}0"] = "of-others"
    with nodes.answering() as port:
        kubeconfig(tmp_path / "config", port, monkeypatch)
        with serving(tmp_path, "--label-nodes", network=racks()):
            until(lambda: f"{TIER}2" in nodes.labels("vm3"))
        nodes.labels("vm0")["zone"] = "z1"
        older = {f"{OLDER}leaf": "rack-0", f"{OLDER}spine": "pod-0", f"{OLDER}core": "root"}
        with serving(tmp_path, "--label-nodes", "--older-labels"):
            until(lambda: nodes.labels("vm0") == older | {"zone": "z1"})
            until(lambda: f"{OLDER}leaf" in nodes.labels("vm3"))
        done = gavotte("serve", "--remove-labels", "--context", "c", cwd=tmp_path, env=os.environ)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "labels removed from 4 nodes\n")
        assert nodes.labels("vm0") == {"zone": "z1"}
        assert [nodes.labels(f"vm{number}") for number in (1, 2, 3)] == [{}, {}, {}]
        assert nodes.labels("other") == {f"{TIER}0": "of-others"}
        assert all(MARK not in node["metadata"]["annotations"] for node in nodes.nodes.values())
        done = gavotte("serve", "--remove-labels", cwd=tmp_path, env=os.environ)
        assert done.stderr == "labels removed from 0 nodes\n"


def test_an_api_server_that_goes_and_comes_back_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = Nodes(["vm0", "vm2"])
    with nodes.answering() as port:
        kubeconfig(tmp_path / "config", port, monkeypatch)
        with serving(tmp_path, "--label-nodes", network=racks()) as served:
            until(lambda: f"{TIER}0" in nodes.labels("vm2"))
            for damaged in (b"{", b"[]"):
                nodes.damaged = damaged
                write_network(tmp_path / "n.network.json", racks())
                time.sleep(3)
            nodes.damaged = b""
            del nodes.labels("vm0")[f"{TIER}0"]
            until(lambda: f"{TIER}0" in nodes.labels("vm0"))
            until(lambda: served.ask("/healthz").status == 200)
    assert "Traceback" not in served.complaints
    assert served.complaints.count("trying again until it does") == 1, served.complaints
    assert "Kubernetes labels nodes again\n" in served.complaints


def test_an_api_server_that_is_away_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = Nodes(["vm0"])
    with nodes.answering() as port:
        kubeconfig(tmp_path / "config", port, monkeypatch)
    with serving(tmp_path, "--label-nodes", network=racks()) as served:
        time.sleep(3)
        assert served.ask("/healthz").status == 200
        with nodes.answering(port):
            until(lambda: f"{TIER}0" in nodes.labels("vm0"))
    assert served.complaints.count("Kubernetes did not label nodes") == 1, served.complaints
    assert "trying again until it does" in served.complaints
    assert "Traceback" not in served.complaints


def test_what_cannot_be_labelled_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_network(tmp_path / "n.network.json", racks())
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in [name for name in os.environ if name.startswith("KUBERNETES_SERVICE")]:
        monkeypatch.delenv(name)
    for words, message in (
        (("--label-nodes",), "error: no kubeconfig is at "),
        (("--context", "c"), "error: a context is only used to label nodes and to watch pods; add --label-nodes"),
    ):
        done = gavotte("serve", "--network", "n.network.json", "--port", "0", *words, cwd=tmp_path)
        assert done.returncode == 1
        assert done.stderr.startswith(message)
        assert done.stderr.count("\n") == 1
