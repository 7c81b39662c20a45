"""The container image of the agent and the manifest that runs it; in a real cluster by `make test-kubernetes`."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.shell import gavotte

from gavotte.agents.binary import agent_binary
from gavotte.agents.reach.keys import KEYS_VARIABLE

ROOT = Path(__file__).resolve().parents[2]
IMAGE = ROOT / "tools" / "image"
READY_S = 120.0


def build(given: Path, folder: Path) -> tuple[Path, Path]:
    """Return the image and the manifest of an agent or wheel."""
    done = subprocess.run([sys.executable, IMAGE, given, folder], capture_output=True, text=True, check=True)
    archive, manifest = map(Path, done.stdout.split())
    return archive, manifest


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return build(Path(agent_binary()), tmp_path_factory.mktemp("image"))


def parts(archive: Path) -> dict[str, bytes]:
    with tarfile.open(archive) as tar:
        files = ((member.name, tar.extractfile(member)) for member in tar.getmembers())
        return {name: file.read() for name, file in files if file is not None}


def blob(files: dict[str, bytes], about: dict[str, Any]) -> bytes:
    """Return what a descriptor stands for, which has the size and the digest that it says."""
    content = files["blobs/" + about["digest"].replace(":", "/")]
    assert (len(content), f"sha256:{hashlib.sha256(content).hexdigest()}") == (about["size"], about["digest"])
    return content


def test_the_image_is_an_oci_layout_whose_digests_fit(built: tuple[Path, Path], tmp_path: Path) -> None:
    files = parts(built[0])
    assert json.loads(files["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    (about,) = json.loads(files["index.json"])["manifests"]
    manifest = json.loads(blob(files, about))
    config = json.loads(blob(files, manifest["config"]))
    layer = blob(files, manifest["layers"][0])
    assert config["rootfs"]["diff_ids"] == [manifest["layers"][0]["digest"]]
    assert config["config"]["User"] == "65532:65532"
    with tarfile.open(fileobj=io.BytesIO(layer)) as tar:
        names = {member.name for member in tar.getmembers() if member.isfile()}
        assert names == {"usr/bin/gavotte-agent", "usr/share/licenses/gavotte/LICENSE"}
        tar.extractall(tmp_path, filter="data")
    done = subprocess.run([tmp_path / "usr/bin/gavotte-agent", "--version"], capture_output=True, text=True, check=True)
    assert built[0].name == f"{done.stdout.split()[0]}_{done.stdout.split()[1]}_{config['architecture']}.oci.tar"
    docker = json.loads(files["manifest.json"])[0]
    assert json.loads(files[docker["Config"]]) == config
    assert docker["Layers"] == ["blobs/" + manifest["layers"][0]["digest"].replace(":", "/")]


def test_a_wheel_gives_the_same_bytes_twice_and_its_licences(tmp_path: Path) -> None:
    wheel = tmp_path / "gavotte-1.whl"
    with zipfile.ZipFile(wheel, "w") as packed:
        packed.write(agent_binary(), "gavotte-1.data/scripts/gavotte-agent")
        packed.writestr("gavotte-1.dist-info/licenses/LICENSE-THIRD-PARTY.txt", "all of them")
    first, second = (build(wheel, tmp_path / name)[0].read_bytes() for name in ("a", "b"))
    assert first == second
    assert b"all of them" in first


def test_what_is_no_agent_is_refused(tmp_path: Path) -> None:
    (tmp_path / "agent").write_text("#!/bin/sh")
    with zipfile.ZipFile(tmp_path / "empty.whl", "w"):
        pass
    for name, says in (
        ("agent", "not a program for amd64 or arm64"),
        ("empty.whl", "has no gavotte-agent; use a wheel of `make dist`"),
        ("none", "no such file"),
    ):
        done = subprocess.run(
            [sys.executable, IMAGE, tmp_path / name, tmp_path], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (1, f"image: {tmp_path / name}: {says}\n")
    assert not list(tmp_path.glob("*.tar"))


def test_the_manifest_gives_agents_no_rights(built: tuple[Path, Path]) -> None:
    by_kind = {document["kind"]: document for document in yaml.safe_load_all(built[1].read_text())}
    assert set(by_kind) == {"Namespace", "NetworkPolicy", "DaemonSet"}
    pod = by_kind["DaemonSet"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["automountServiceAccountToken"] is False
    assert "hostNetwork" not in pod
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    version = built[0].name.split("_")[1]
    assert container["image"] == f"gavotte-agent:{version}"
    policy = by_kind["NetworkPolicy"]["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert policy["podSelector"] == by_kind["DaemonSet"]["spec"]["selector"]


@pytest.mark.skipif(os.environ.get("GAVOTTE_KUBERNETES") != "real", reason="needs a cluster: make test-kubernetes")
@pytest.mark.timeout(300)
def test_a_cluster_runs_the_manifest_and_its_agents_measure(built: tuple[Path, Path], tmp_path: Path) -> None:
    from kubernetes import client, utils

    from gavotte.campaign.drivers import cluster

    api = cluster.connected("")
    core: Any = client.CoreV1Api(api)
    assert gavotte("hosts", "keys", "-o", tmp_path / "keys", "gavotte-agent").returncode == 0
    try:
        utils.create_from_yaml(api, str(built[1]))  # type: ignore[no-untyped-call]
        held = (tmp_path / "keys" / "hosts" / "gavotte-agent").iterdir()
        secret = {"metadata": {"name": "gavotte-agent"}, "stringData": {file.name: file.read_text() for file in held}}
        core.create_namespaced_secret("gavotte", secret)
        end = time.monotonic() + READY_S
        while True:
            listed = core.list_namespaced_pod("gavotte", _preload_content=False).data
            pods = json.loads(listed)["items"]
            ready = [
                pod
                for pod in pods
                if any(
                    each["type"] == "Ready" and each["status"] == "True" for each in pod["status"].get("conditions", [])
                )
            ]
            if len(ready) == 2:
                break
            assert time.monotonic() < end, [pod["status"] for pod in pods]
            time.sleep(1)
        (tmp_path / "pods.json").write_bytes(listed)
        done = gavotte("hosts", "import", "--listing", "pods.json", "-o", "k.hosts.toml", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        keys = {KEYS_VARIABLE: str(tmp_path / "keys")}
        done = gavotte("hosts", "check", "--hosts", "k.hosts.toml", cwd=tmp_path, env=os.environ | keys)
        assert done.returncode == 0, done.stdout + done.stderr
        done = gavotte("measure", "--hosts", "k.hosts.toml", "--json", cwd=tmp_path, env=os.environ | keys)
        assert done.returncode == 0, done.stderr
        document = json.loads(done.stdout)
        assert document["answered"] == document["paths"] == 2
    finally:
        core.delete_namespace("gavotte")
