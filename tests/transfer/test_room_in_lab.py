"""Objects that no receiver's disk can hold are refused before their source reads them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import builders
from tests.shell import gavotte

from gavotte import lab
from gavotte.agents import Fleet
from gavotte.errors import AgentError
from gavotte.formats.inventory import read_inventory
from gavotte.transfer import BroadcastQuestion, HostCache, PullQuestion, broadcast, plan_file, pull, send
from gavotte.transfer.planning import Mechanism

pytestmark = pytest.mark.lab

HOSTS = ["h0", "h1", "h2"]
SIZE_BYTES = 3_000_001


@pytest.fixture
def cloud() -> Iterator[lab.Session]:
    """Three hosts with unlimited links."""
    with lab.session(builders.topology([{"name": name} for name in HOSTS]), source="tests") as session:
        yield session


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "object"
    path.write_bytes(os.urandom(SIZE_BYTES))
    return path


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Paths of the objects that sources read while the test lasts."""
    paths: list[str] = []
    manifest = Fleet.manifest

    def noted(fleet: Fleet, host: str, path: str, **more: int) -> object:
        paths.append(path)
        return manifest(fleet, host, path, **more)

    monkeypatch.setattr(Fleet, "manifest", noted)
    return paths


def tiny_disk(cloud: lab.Session, folder: Path, size: str) -> Path:
    """Mount a small file system, which all hosts of the lab see."""
    folder.mkdir()
    if cloud.run("h1", ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(folder)]).returncode:
        pytest.skip("this user may not mount")
    return folder


def test_an_object_that_no_receiver_can_hold_is_refused_before_it_is_read(
    cloud: lab.Session, file: Path, tmp_path: Path, read: list[str]
) -> None:
    disk = tiny_disk(cloud, tmp_path / "disk", "1m")
    with pytest.raises(AgentError) as refusal:
        broadcast(str(file), read_inventory(cloud.hosts_file), "h0", str(disk / "out-{host}"))
    assert read == []
    message = refusal.value.message
    for host in HOSTS[1:]:
        assert f"{host} needs 3000001 bytes (3.00 MB) in {disk}, where 1048576 bytes (1.05 MB) are free" in message
    line: list[str | Path] = ["broadcast", file, "--hosts", "lab", "--from", "h0", "-o", disk / "out-{host}"]
    done = gavotte(*line, env={**os.environ, **cloud.environment()})
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert message in done.stderr
    assert "free space there, or give -o a folder on a larger disk" in done.stderr


@pytest.mark.parametrize("mechanism", ["chain", "tree", "mesh", "packing", "cornet"])
def test_one_receiver_with_space_is_enough(
    cloud: lab.Session, file: Path, tmp_path: Path, read: list[str], mechanism: Mechanism
) -> None:
    disk = tiny_disk(cloud, tmp_path / "h1", "1m")
    (tmp_path / "h2").mkdir()
    rates = [{"name": name, "egress_bps": 1e9, "ingress_bps": 1e9} for name in HOSTS]
    question = BroadcastQuestion(
        str(file),
        read_inventory(cloud.hosts_file),
        "h0",
        str(tmp_path / "{host}" / "out"),
        network=builders.network(rates),
        mechanism=mechanism,
    )
    result = send(question)
    assert read == [str(file)]
    assert list(result.lost) == ["h1"]
    assert f"{disk}/out.partial: no space for {SIZE_BYTES} bytes" in result.lost["h1"]
    assert (tmp_path / "h2" / "out").read_bytes() == file.read_bytes()
    # Nothing is left behind where there was no space.
    assert cloud.run("h1", ["ls", "-A", str(disk)], capture_output=True, text=True).stdout == ""


def test_the_command_names_the_receiver_without_space(cloud: lab.Session, file: Path, tmp_path: Path) -> None:
    tiny_disk(cloud, tmp_path / "h1", "1m")
    (tmp_path / "h2").mkdir()
    line: list[str | Path] = ["broadcast", file, "--hosts", "lab", "--from", "h0", "-o", tmp_path / "{host}" / "out"]
    done = gavotte(*line, env={**os.environ, **cloud.environment()})
    assert done.returncode == 1
    assert f"1 of 2 receivers did not get the file: h1: {tmp_path}/{{host}}/out.partial: no space for" in done.stderr
    assert (tmp_path / "h2" / "out").read_bytes() == file.read_bytes()


def test_a_folder_for_which_one_receiver_has_no_space_is_left_out_there(cloud: lab.Session, tmp_path: Path) -> None:
    disk = tiny_disk(cloud, tmp_path / "h1", "1m")
    (tmp_path / "h2").mkdir()
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in ("first", "second", "third"):
        (folder / name).write_bytes(os.urandom(700_000))
    result = broadcast(str(folder), read_inventory(cloud.hosts_file), "h0", str(tmp_path / "{host}" / "out"))
    assert list(result.lost) == ["h1"]
    assert "no space for" in result.lost["h1"]
    assert sorted(path.name for path in (tmp_path / "h2" / "out").iterdir()) == ["first", "second", "third"]
    assert cloud.run("h1", ["ls", "-A", str(disk)], capture_output=True, text=True).stdout == ""


def test_what_an_interrupted_broadcast_has_left_needs_no_space(cloud: lab.Session, file: Path, tmp_path: Path) -> None:
    disk = tiny_disk(cloud, tmp_path / "disk", "4m")
    leave = f"head -c {SIZE_BYTES} /dev/zero > {disk}/out.partial"
    assert cloud.run("h1", ["sh", "-c", leave]).returncode == 0
    result = broadcast(str(file), read_inventory(cloud.hosts_file), "h0", str(disk / "out"), targets=["h1"])
    assert result.lost == {}
    assert cloud.run("h1", ["cmp", str(file), str(disk / "out")]).returncode == 0


def test_a_folder_that_is_there_already_needs_no_space(cloud: lab.Session, tmp_path: Path) -> None:
    folder, disk = tmp_path / "folder", tiny_disk(cloud, tmp_path / "disk", "1m")
    folder.mkdir()
    (folder / "one").write_bytes(os.urandom(900_000))
    inventory = read_inventory(cloud.hosts_file)
    for _ in range(2):
        assert broadcast(str(folder), inventory, "h0", str(disk / "copy"), targets=["h1"]).lost == {}


def test_a_pull_to_a_full_disk_is_refused_before_the_object_is_read(
    cloud: lab.Session, file: Path, tmp_path: Path, read: list[str]
) -> None:
    disk = tiny_disk(cloud, tmp_path / "disk", "1m")
    cache = HostCache(str(tmp_path / "cache-{host}"))
    question = PullQuestion(str(file), read_inventory(cloud.hosts_file), "h0", "h2", str(disk / "out"), cache)
    with pytest.raises(AgentError, match=r"h2 needs 3000001 bytes .* 1048576 bytes"):
        pull(question)
    assert read == []


def test_a_plan_reads_nothing(cloud: lab.Session, tmp_path: Path, read: list[str]) -> None:
    sparse = tmp_path / "sparse"
    with sparse.open("wb") as file:
        file.truncate(1 << 40)
    network = builders.network([{"name": name, "egress_bps": 1e9, "ingress_bps": 1e9} for name in HOSTS])
    question = BroadcastQuestion(
        str(sparse), read_inventory(cloud.hosts_file), "h0", str(tmp_path / "out-{host}"), network=network
    )
    assert plan_file(question).bytes == 1 << 40
    assert read == []
    with pytest.raises(AgentError, match=r"h0: .*nothing-there"):
        plan_file(BroadcastQuestion(str(tmp_path / "nothing-there"), question.inventory, "h0", question.output))
