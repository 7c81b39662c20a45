"""Endpoints from Kubernetes: compared with recorded conversations with a real cluster, and with the cluster itself.

`make test-kubernetes` starts a cluster whose pods really run (`tests/campaign/cluster`) and runs this file with
`GAVOTTE_KUBERNETES=real`, or `record`, which writes the conversations again.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.campaign.conversations import played, recorded
from tests.campaign.studies import campaign
from tests.shell import GAVOTTE, gavotte, until

from gavotte import hosts
from gavotte.campaign.drivers import cluster
from gavotte.campaign.drivers.cluster import Cluster, Place, Pod, complaint, mark_of, placed
from gavotte.campaign.drivers.forwarding import reason_of
from gavotte.campaign.drivers.kubernetes import inventory_of
from gavotte.errors import GavotteError
from gavotte.formats.campaign import Campaign, read_campaign
from gavotte.formats.record import read_samples

MODE = os.environ.get("GAVOTTE_KUBERNETES", "")
RECORDINGS = Path(__file__).parent / "recorded" / "kubernetes"
IMAGE = "gavotte.test/agent:1"
ZONE = "topology.kubernetes.io/zone"
NODES: list[dict[str, Any]] = [{"name": "a", "labels": {ZONE: "zone2"}}, {"name": "b", "same_node_as": "a"}]


def study(name: str, nodes: list[dict[str, Any]] = NODES, **more: Any) -> Campaign:
    made_by = {"kind": "kubernetes", "image": IMAGE, "wait_s": 60.0, "node": nodes, **more}
    ends = {"kind": "shuffle", "source": ["a"], "target": ["b", "node1"]}
    return campaign(ends, name=name, driver=made_by)


@contextmanager
def talking(name: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Return a client of the cluster, recorded or not, or of its recorded answers."""
    from kubernetes import client

    if MODE == "real":
        yield cluster.connected("")
    elif MODE == "record":
        RECORDINGS.mkdir(parents=True, exist_ok=True)
        api = cluster.connected("")
        with recorded(RECORDINGS / f"{name}.json"):
            yield api
    else:
        # Recorded pods need no waiting: each sleep advances the clock.
        clock = [0.0]
        fake_time = SimpleNamespace(
            monotonic=lambda: clock[0], sleep=lambda seconds: clock.append(clock.pop() + seconds)
        )
        monkeypatch.setattr(cluster, "time", fake_time)
        with played(RECORDINGS / f"{name}.json"):
            yield client.ApiClient(client.Configuration(host="https://10.44.0.1:6443"))


def keys(folder: Path) -> dict[str, bytes]:
    hosts.keys(folder, [hosts.Bearer("agent", ("127.0.0.1",))])
    return {file.name: file.read_bytes() for file in (folder / "hosts" / "agent").iterdir()}


def made(mine: Cluster, asked: Campaign, folder: Path) -> dict[str, Pod]:
    where = mine.places(asked.endpoints)
    mine.make(where, keys(folder))
    return mine.ready(where)


def left(api: Any, mark: str) -> list[str]:
    from kubernetes import client

    selector = f"{cluster.MARK}={mark}"
    items: list[Any] = [
        *client.CoreV1Api(api).list_namespaced_pod("default", label_selector=selector).items,
        *client.CoreV1Api(api).list_namespaced_secret("default", label_selector=selector).items,
        *client.AppsV1Api(api).list_namespaced_daemon_set("default", label_selector=selector).items,
    ]
    return [each.metadata.name for each in items]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_agents_run_where_hints_say_and_are_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = study("places")
    lines: list[str] = []
    with talking("places", monkeypatch) as api:
        mine = Cluster(api, asked.driver, mark_of(asked), lines.append)
        where = mine.places(asked.endpoints)
        assert where == {"a": Place("node2", 0), "b": Place("node2", 1), "node1": Place("node1", 0)}
        mine.make(where, keys(tmp_path))
        pods = mine.ready(where)
        assert {name: pod.node for name, pod in pods.items()} == {"a": "node2", "b": "node2", "node1": "node1"}
        assert len({pod.address for pod in pods.values()}) == 3
        assert lines
        assert all("of 3 agents are ready" in line for line in lines)
        inventory = inventory_of(pods, {"a": 1001, "b": 1002, "node1": 1003}, asked.driver, tmp_path)
        assert inventory.host[2].agent == "tls://127.0.0.1:1003"
        assert inventory.host[2].labels == {"machine": "node1"}
        assert len(left(api, mark_of(asked))) == 6
        # A run that was killed at this point would leave them; the next one begins by deleting them.
        again = Cluster(api, asked.driver, mark_of(asked), lines.append)
        again.delete()
        assert left(api, mark_of(asked)) == []


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("name", "wrong", "says"),
    [
        ("no-image", {"image": "127.0.0.1:9/none:1"}, r"(ErrImagePull|ImagePullBackOff).*none:1"),
        ("no-agent", {"image": "gavotte.test/pause:1"}, r"gavotte-agent.*not found"),
        ("no-namespace", {"namespace": "none"}, r'did not make the agents: namespaces "none" not found'),
        ("no-nodes", {"node_selector": {"disk": "golden"}}, r"no node that takes pods has the labels of `a`"),
    ],
)
def test_what_a_cluster_cannot_do_is_told_and_nothing_stays(
    name: str, wrong: dict[str, Any], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = study(name, wait_s=12.0, **wrong)
    with talking(name, monkeypatch) as api:
        mine = Cluster(api, asked.driver, mark_of(asked), lambda _line: None)
        with pytest.raises(GavotteError, match=says):
            made(mine, asked, tmp_path)
        mine.delete()
        assert left(api, mark_of(asked)) == []


def test_endpoints_get_nodes_of_their_own_unless_they_share_one() -> None:
    cluster_of = {"n1": {"zone": "x"}, "n2": {"zone": "x", "disk": "fast"}, "n3": {"zone": "y"}}

    def where(*nodes: dict[str, Any], also: tuple[str, ...] = ()) -> dict[str, str]:
        names = [*(node["name"] for node in nodes), *also]
        result = placed(names, study("x", list(nodes)).driver, cluster_of)
        return {name: f"{place.node}/{place.slot}" for name, place in result.items()}

    zone_x, fast = {"name": "p", "labels": {"zone": "x"}}, {"name": "q", "labels": {"disk": "fast"}}
    # The first node must not take the only node that another one can have.
    assert where({"name": "p", "labels": {"zone": "x"}}, fast) == {"p": "n1/0", "q": "n2/0"}
    assert where(zone_x, {"name": "r", "same_node_as": "p"}, also=("n3",)) == {"p": "n1/0", "r": "n1/1", "n3": "n3/0"}
    with pytest.raises(GavotteError, match="none is left for"):
        where(zone_x, fast, {"name": "s", "labels": {"zone": "x"}})
    with pytest.raises(GavotteError, match=r"no node that takes pods is called `n9`.*"):
        where(zone_x, also=("n9",))
    with pytest.raises(GavotteError, match="a circle"):
        where({"name": "p", "same_node_as": "q"}, {"name": "q", "same_node_as": "p"})
    with pytest.raises(GavotteError, match="no endpoint"):
        where({"name": "p", "same_node_as": "z"})


def test_what_a_pod_says() -> None:
    def pod(**status: Any) -> Any:
        plain = {"container_statuses": None, "conditions": None, "reason": None, "message": None, "phase": "Pending"}
        return SimpleNamespace(status=SimpleNamespace(**{**plain, **status}))

    unplaced = SimpleNamespace(type="PodScheduled", status="False", reason="Unschedulable", message="0/2 nodes")
    assert complaint(pod(conditions=[unplaced])) == ("Unschedulable", "Unschedulable: 0/2 nodes")
    ended = SimpleNamespace(exit_code=1, reason="Error", message=None)
    waits = SimpleNamespace(
        state=SimpleNamespace(waiting=SimpleNamespace(reason="CrashLoopBackOff", message="back-off"), terminated=None),
        last_state=SimpleNamespace(terminated=ended),
    )
    assert complaint(pod(container_statuses=[waits])) == (
        "CrashLoopBackOff",
        "CrashLoopBackOff: it ended with 1: Error",
    )
    assert complaint(None) == ("", "has no pod yet")
    text = '(0)\nReason: Handshake status 500 -+-+- {"kind":"Status","message":"dialing \\"x\\" failed","code":500}'
    assert reason_of(RuntimeError(text)) == 'dialing \\"x\\" failed'


def test_marks_are_labels() -> None:
    for name in ("study", "Größe:µ", "x" * 128, "-"):
        mark = mark_of(study(name))
        assert len(mark) <= 52
        assert mark == mark.strip("-").lower()
        assert mark.replace("-", "").isalnum()
    assert mark_of(study("a:b")) != mark_of(study("a.b"))


@pytest.mark.skipif(MODE != "real", reason="needs pods that run: make test-kubernetes")
@pytest.mark.timeout(300)
def test_samples_between_pods_and_nothing_after_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "s.campaign.toml"
    path.write_text(
        'format = "gavotte/campaign/1"\nname = "killed"\nrepetitions = 4\nseconds = 0.5\ncongestion = "reno"\n'
        f'[driver]\nkind = "kubernetes"\nimage = "{IMAGE}"\nwait_s = 60\n'
        '[[driver.node]]\nname = "b"\nsame_node_as = "node1"\n'
        '[[scenario]]\nname = "near"\nkind = "pair"\nsource = ["node1"]\ntarget = ["b"]\n'
        '[[scenario]]\nname = "far"\nkind = "pair"\nsource = ["node1"]\ntarget = ["node2"]\nconnections = [2]\n'
        '[[scenario]]\nname = "other"\nkind = "pair"\nsource = ["node1"]\ntarget = ["node2"]\n'
        'engine = "iperf3"\nrepetitions = 1\n'
    )
    output = tmp_path / "r.jsonl"
    line = [str(GAVOTTE), "campaign", "run", str(path), "-o", str(output), "--resume"]
    running = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    until(lambda: output.exists() and len(output.read_text().splitlines()) >= 2, deadline_s=120)
    running.send_signal(signal.SIGKILL)
    running.communicate()
    api, mark = cluster.connected(""), mark_of(read_campaign(path))
    assert len(left(api, mark)) == 6
    done = gavotte(*line[1:], timeout=200)
    assert done.returncode == 0, done.stderr
    samples = read_samples(output)
    assert len(samples) == len({sample.sample for sample in samples}) == 9
    far = next(sample for sample in samples if sample.scenario == "far")
    assert (far.metrics["distance"].value, far.metrics["hops"].value) == (2, 3)
    near = next(sample for sample in samples if sample.scenario == "near")
    assert near.metrics["distance"].value == 0
    assert "kernel" in near.metadata["before"]["b"]
    assert left(api, mark) == []
