"""The commands and the job of the guide with real Ray nodes on hosts of a lab, which its lines reach over SSH."""

from __future__ import annotations

import json
import os
import secrets
import shlex
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.guides import block
from tests.hosts.cluster import CONTROLLER, Cluster, cluster, lacking
from tests.hosts.restrictions import Restriction
from tests.shell import processes_of, until

from gavotte.export import export_network
from gavotte.formats.network import read_network

PYTHON = os.environ.get("GAVOTTE_RAY", "")
"""A Python that has Ray."""

pytestmark = [
    pytest.mark.lab,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not PYTHON, reason="`make test-ray` runs it with real Ray"),
]

PAGE = "schedulers/ray"
NETWORK = Path(__file__).parents[2] / "examples" / "schedulers" / "racks.network.json"
HOSTS = ("vm0", "vm1", "vm2")
"""Hosts of the guide that run Ray: both of one rack, and one of another."""
DEADLINE_S = 300

JOB = """
import json
{job}
node_ids = ray.util.placement_group_table(group)["bundles_to_node_id"].values()
nodes = {{each["NodeID"]: each for each in ray.nodes()}}
others = ray.util.placement_group([{{"CPU": 1}}] * 3, topology_strategy={{"ray.io/gpu-domain": "STRICT_PACK"}})
fits = others.wait(10)
ray.util.remove_placement_group(others)
ray.util.remove_placement_group(group)
anywhere = ray.util.placement_group([{{"CPU": 1}}] * 3)
fits_anywhere = anywhere.wait(60)
ray.util.remove_placement_group(anywhere)
where = ray.remote(lambda: ray.get_runtime_context().get_node_id())
task = where.options(num_cpus=1, label_selector={{"fabric.topograph.run/tier-0": "rack-1"}}).remote()
print(json.dumps({{
    "labels": {{each["NodeManagerAddress"]: each["Labels"] for each in nodes.values()}},
    "group": sorted(nodes[each]["NodeManagerAddress"] for each in node_ids),
    "three in a rack": fits,
    "three anywhere": fits_anywhere,
    "task": nodes[ray.get(task, timeout=60)]["NodeManagerAddress"],
}}))
"""
"""The guide's job, then what the scheduler did with it, with a group that no rack has room for, and with a task."""


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if lacking():
        pytest.skip(lacking())
    # Ray's sockets are in this folder, which each host has for itself, and the kernel limits the length of their names.
    with tempfile.TemporaryDirectory(prefix="r", dir="/tmp") as rooms:
        folder = tmp_path_factory.mktemp("ray")
        token = folder / "token"
        token.write_text(secrets.token_hex(32))
        settings = {
            "PATH": f"{Path(PYTHON).parent}:/usr/bin:/bin",
            "RAY_TMPDIR": rooms,
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": token,
            "RAY_OVERRIDE_RESOURCES": json.dumps({"CPU": 1, "object_store_memory": 80_000_000}),
            "RAY_raylet_start_wait_time_s": "180",
        }
        wrapper = ("env", *(shlex.quote(f"{key}={value}") for key, value in settings.items()))
        restriction = Restriction(f"mount -t tmpfs none {rooms}", wrapper)
        with cluster(folder, HOSTS, restriction) as made:
            if made.cloud.status().rootless:
                pytest.skip("an SSH server needs root")
            yield made


def run(hosts: Cluster, script: str, folder: Path) -> str:
    """Run lines of the guide on the controller's host, where `ssh` knows the hosts; return what they printed."""
    known = f'mount --bind {hosts.config} /etc/ssh/ssh_config && exec "$@"'
    line = [
        "unshare",
        "--mount",
        "sh",
        "-c",
        known,
        "sh",
        "bash",
        "-euo",
        "pipefail",
        "-c",
        f"exec 2>&1; cd {folder}\n{script}",
    ]
    options: dict[str, Any] = {"capture_output": True, "text": True, "timeout": DEADLINE_S}
    done = hosts.cloud.run(CONTROLLER, line, **options)
    assert done.returncode == 0, done.stdout
    return str(done.stdout)


def raylets() -> list[str]:
    """Return the addresses of the lab's Ray nodes."""
    lines = [line for line in processes_of("RAY_OVERRIDE_RESOURCES").values() if "raylet/raylet" in line]
    return sorted({line.split("--node_ip_address=")[1].split()[0] for line in lines})


def test_a_placement_group_lands_in_one_rack_and_ray_is_stopped_again(hosts: Cluster, tmp_path: Path) -> None:
    exported = export_network(read_network(NETWORK), "ray")
    lines = [line for line in exported.splitlines(keepends=True) if line.split()[2] in HOSTS]
    (tmp_path / "ray-start.sh").write_text("".join(lines))
    one, other, outside = (hosts.addresses[name] for name in HOSTS)
    try:
        run(hosts, block(PAGE, 'ssh -n vm0 "$(sed'), tmp_path)
        assert raylets() == [one, other, outside]
        (tmp_path / "job.py").write_text(JOB.format(job=block(PAGE, "import ray")))
        document = json.loads(run(hosts, f"ssh -n vm0 python {tmp_path}/job.py", tmp_path).splitlines()[-1])
    finally:
        run(hosts, block(PAGE, "sed 's/ray start.*/ray stop/'"), tmp_path)
    assert document["group"] == [one, other]
    assert (document["three in a rack"], document["three anywhere"]) == (False, True)
    assert document["task"] == outside
    for line, address in zip(lines, (one, other, outside), strict=True):
        labels = dict(each.split("=") for each in line.split("--labels=")[1].strip().split(","))
        assert document["labels"][address].items() >= labels.items()
    until(lambda: raylets() == [])
