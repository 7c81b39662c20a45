"""Real broadcasts: every surviving receiver has the same bytes; the others are named with the reason."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from tests import builders
from tests.faults import plug, to_agent, unplug
from tests.shell import GAVOTTE, gavotte, processes_of, until

from gavotte import lab
from gavotte.agents.runtime import RUNTIME_DIR_VARIABLE
from gavotte.errors import AgentError, GavotteError
from gavotte.formats.inventory import read_inventory
from gavotte.formats.network import Network
from gavotte.transfer import BroadcastResult, BroadcastSession, broadcast
from gavotte.transfer.planning import Mechanism

pytestmark = pytest.mark.lab

HOSTS = [f"h{i}" for i in range(6)]
CLOUD = builders.topology([{"name": name, "egress": "50mbit", "ingress": "50mbit"} for name in HOSTS])


@pytest.fixture
def cloud() -> Iterator[lab.Session]:
    """Six equal hosts of 50 Mbit/s. One a test: agents are killed in it."""
    with lab.session(CLOUD, source="tests") as session:
        yield session


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "object"
    path.write_bytes(os.urandom(3_000_001))
    path.chmod(0o640)
    return path


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """It takes more than a second."""
    path = tmp_path / "large"
    path.write_bytes(os.urandom(8_000_000))
    return path


def kill(session: lab.Session, name: str) -> None:
    """End a host's agent, as a crash would."""
    (agent,) = (
        number
        for number, line in processes_of(os.environ[RUNTIME_DIR_VARIABLE]).items()
        if f"{session.folder}/{name}.sock" in line
    )
    os.kill(agent, signal.SIGKILL)


def spread(
    session: lab.Session,
    file: Path,
    folder: Path,
    *,
    mechanism: Mechanism,
    targets: Sequence[str] | None = None,
    network: Network | None = None,
    watch: Callable[[str, int, int], None] | None = None,
) -> BroadcastResult:
    """Broadcast a file from h0 to copies in a folder."""
    return broadcast(
        str(file),
        read_inventory(session.hosts_file),
        "h0",
        str(folder / "out-{host}"),
        targets=targets,
        mechanism=mechanism,
        network=network,
        session=BroadcastSession(watch=watch),
    )


def right(result: BroadcastResult, file: Path) -> set[str]:
    """Return receivers whose copies equal the file."""
    whole = file.read_bytes()
    for each in result.receivers:
        if each.ok:
            assert Path(each.path).read_bytes() == whole
            assert not Path(each.path + ".partial").exists()
    return {each.host for each in result.receivers if each.ok}


def when(share: float, what: Callable[[], None], *, host: str) -> Callable[[str, int, int], None]:
    """Do something once, when a receiver has this share."""
    done = threading.Event()

    def watch(name: str, held: int, total: int) -> None:
        if name == host and held >= share * total and not done.is_set():
            done.set()
            what()

    return watch


def equal(rate_bps: float) -> Network:
    """Hosts that send this much each, so that they are in a chain in their given order."""
    return builders.network([{"name": name, "egress_bps": rate_bps, "ingress_bps": rate_bps} for name in HOSTS])


def test_each_mechanism_brings_the_same_bytes(cloud: lab.Session, file: Path, tmp_path: Path) -> None:
    line: list[str | Path] = ["broadcast", file, "--hosts", "lab", "--from", "h0", "--json"]
    line += ["--times", tmp_path / "times.json"]
    environment = {**os.environ, **cloud.environment()}
    for mechanism in ("chain", "tree", "binomial", "mesh", "packing", "cornet", "topology", "clustering", "auto"):
        output = tmp_path / (mechanism + "-{host}")
        done = gavotte(*line, "-o", output, "--mechanism", mechanism, env=environment)
        assert done.returncode == 0, done.stderr
        report = json.loads(done.stdout)
        assert [each["host"] for each in report["receivers"]] == HOSTS[1:]
        assert all(each["ok"] and not each["error"] for each in report["receivers"])
        assert report["bytes"] == 3_000_001
        assert report["elapsed_s"] == max(each["finish_s"] for each in report["receivers"])
        # A probe of a moment is an estimate.
        assert (report["bound_s"], report["ratio"]) == (None, None)
        assert report["estimate_s"] > 0
        assert "lower bound" not in done.stderr
        assert "a short probe of the ports gave an estimate" in done.stderr
        for host in HOSTS[1:]:
            copy = tmp_path / f"{mechanism}-{host}"
            assert copy.read_bytes() == file.read_bytes()
            assert copy.stat().st_mode & 0o777 == 0o640
        assert not list(tmp_path.glob("*.partial"))
    planned = gavotte(*line, "-o", tmp_path / "dry-{host}", "--to", "h3,h1", "--dry-run", env=environment)
    assert [each["host"] for each in json.loads(planned.stdout)["receivers"]] == ["h3", "h1"]
    assert not list(tmp_path.glob("dry-*"))


def test_what_is_there_is_not_sent_again(cloud: lab.Session, file: Path, tmp_path: Path) -> None:
    whole = file.read_bytes()
    (tmp_path / "out-h1.partial").write_bytes(whole[:2_000_000] + b"?" * 1_500_000)
    (tmp_path / "out-h2.partial").write_bytes(whole)
    # Equal hosts are in the chain in their given order; a probe would order them by chance.
    equal = builders.network([{"name": name, "egress_bps": 48e6} for name in HOSTS])
    result = spread(cloud, file, tmp_path, targets=["h1", "h2"], mechanism="chain", network=equal)
    assert right(result, file) == {"h1", "h2"}
    assert 900_000 < result.source_sent_bytes < 1_200_000


@pytest.mark.parametrize("mechanism", ["chain", "tree", "mesh", "packing"])
def test_a_relay_that_dies_is_named_and_nobody_else_is_hurt(
    cloud: lab.Session, large: Path, tmp_path: Path, mechanism: Mechanism
) -> None:
    watch = when(0.3, lambda: kill(cloud, "h2"), host="h2")
    result = spread(cloud, large, tmp_path, mechanism=mechanism, watch=watch)
    assert right(result, large) == {"h1", "h3", "h4", "h5"}
    assert list(result.lost) == ["h2"]
    assert "h2" in " ".join(result.changes)


@pytest.mark.parametrize("mechanism", ["chain", "tree", "mesh"])
@pytest.mark.rare
def test_nobody_waits_for_a_relay_that_hangs(
    cloud: lab.Session, large: Path, tmp_path: Path, mechanism: Mechanism
) -> None:
    watch = when(0.3, lambda: to_agent(cloud, "h1", signal.SIGSTOP), host="h1")
    result = spread(cloud, large, tmp_path, network=equal(10e6), mechanism=mechanism, watch=watch)
    assert right(result, large) == {"h2", "h3", "h4", "h5"}
    assert list(result.lost) == ["h1"]
    # A call to it would have waited for an answer.
    assert "its agent has reported nothing for" in result.lost["h1"]


@pytest.mark.parametrize("mechanism", ["chain", "mesh", "packing"])
def test_a_relay_without_a_link_is_put_aside_at_its_first_stall(
    cloud: lab.Session, large: Path, tmp_path: Path, mechanism: Mechanism
) -> None:
    def watch(name: str, held: int, total: int) -> None:
        if name == "h1":
            unplugged(name, held, total)
        if name == "h5" and held == total:
            plug(cloud, "h1", routes[0])

    routes: list[str] = []
    unplugged = when(0.3, lambda: routes.append(unplug(cloud, "h1")), host="h1")
    result = spread(cloud, large, tmp_path, network=equal(10e6), mechanism=mechanism, watch=watch)
    assert right(result, large) >= {"h2", "h3", "h4", "h5"}
    changes = " ".join(result.changes)
    if mechanism != "mesh":
        assert any(line.startswith("h1 ") and line.endswith("is put last") for line in result.changes), changes
    else:
        assert "h1 gets no bytes and passes on no blocks any more" in changes
    assert "h2 gets no bytes" not in changes


@pytest.mark.parametrize("mechanism", ["chain", "mesh"])
def test_a_source_that_changes_meanwhile_is_the_reason(
    cloud: lab.Session, large: Path, tmp_path: Path, mechanism: Mechanism
) -> None:
    def change() -> None:
        with large.open("r+b") as source:
            source.seek(5_000_000)
            source.write(bytes(1_000_000))

    result = spread(
        cloud, large, tmp_path, network=equal(20e6), mechanism=mechanism, watch=when(0.2, change, host="h1")
    )
    assert right(result, large) == set()
    assert set(result.lost.values()) == {f"{large} on h0 changed while it was sent"}


def test_a_source_that_dies_after_a_full_copy_is_not_missed(large: Path, tmp_path: Path) -> None:
    slow = [{"name": "h0", "egress": "80mbit"}, {"name": "h1"}, {"name": "h2", "ingress": "8mbit"}]
    with lab.session(builders.topology(slow), source="tests") as session:
        watch = when(1.0, lambda: kill(session, "h0"), host="h1")
        result = spread(session, large, tmp_path, mechanism="chain", watch=watch)
        assert right(result, large) == {"h1", "h2"}
        assert "h0" in " ".join(result.changes)


def test_a_source_that_dies_early_fails_all_with_the_reason(cloud: lab.Session, large: Path, tmp_path: Path) -> None:
    watch = when(0.1, lambda: kill(cloud, "h0"), host="h1")
    result = spread(cloud, large, tmp_path, mechanism="chain", watch=watch)
    assert right(result, large) == set()
    assert all("h0" in why for why in result.lost.values())
    assert (tmp_path / "out-h1.partial").exists()


def test_a_copy_that_cannot_be_kept_is_told(cloud: lab.Session, file: Path, tmp_path: Path) -> None:
    for host in ("h1", "h2", "h4", "h5"):
        (tmp_path / host).mkdir()
    (tmp_path / "elsewhere").write_bytes(b"untouched")
    (tmp_path / "h2" / "out.partial").symlink_to(tmp_path / "elsewhere")
    line: list[str | Path] = [
        "broadcast",
        file,
        "--hosts",
        "lab",
        "--from",
        "h0",
        "-o",
        tmp_path / "{host}" / "out",
        "--json",
    ]
    done = gavotte(*line, env={**os.environ, **cloud.environment()})
    report = json.loads(done.stdout)
    assert done.returncode == 1
    assert {each["host"] for each in report["receivers"] if each["ok"]} == {"h1", "h4", "h5"}
    assert "2 of 5 receivers did not get the file" in done.stderr
    assert f"h3: {tmp_path}/{{host}}/out.partial: No such file" in done.stderr
    assert f"make the folder `{tmp_path}/{{host}}` on each of them, or give -o a folder" in done.stderr
    assert (tmp_path / "elsewhere").read_bytes() == b"untouched"


def test_a_relay_that_is_slower_than_believed_is_put_last(tmp_path: Path) -> None:
    names = HOSTS[:4]
    slow = [{"name": name, "egress": "2mbit" if name == "h1" else "24mbit"} for name in names]
    believed = builders.network([{"name": name, "egress_bps": 23e6} for name in names])
    file = tmp_path / "object"
    file.write_bytes(os.urandom(9_000_000))
    with lab.session(builders.topology(slow), source="tests") as session:
        result = spread(session, file, tmp_path, mechanism="chain", network=believed)
    assert right(result, file) == {"h1", "h2", "h3"}
    assert any("h1" in change and "is put last" in change for change in result.changes)


def test_a_relay_whose_bytes_come_wrong_is_left(cloud: lab.Session, large: Path, tmp_path: Path) -> None:
    whole = large.read_bytes()
    (tmp_path / "out-h1.partial").write_bytes(whole)
    equal = builders.network([{"name": name, "egress_bps": 48e6} for name in HOSTS])

    def corrupt() -> None:
        with (tmp_path / "out-h1").open("r+b") as copy:
            copy.seek(6_000_000)
            copy.write(bytes(1_000_000))

    result = spread(
        cloud,
        large,
        tmp_path,
        targets=["h1", "h2", "h3"],
        mechanism="chain",
        network=equal,
        watch=when(0.2, corrupt, host="h2"),
    )
    # The blocks on the relay's disk are its own; no other host has them.
    assert result.lost == {}
    assert (tmp_path / "out-h2").read_bytes() == (tmp_path / "out-h3").read_bytes() == whole
    assert sum(each.bad_blocks for each in result.receivers) >= 3
    assert any("was corrupt" in change for change in result.changes)


def test_a_full_disk_is_told_and_hurts_nobody_else(cloud: lab.Session, file: Path, tmp_path: Path) -> None:
    for host in HOSTS[1:]:
        (tmp_path / host).mkdir()
    mounted = cloud.run("h3", ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(tmp_path / "h3")])
    if mounted.returncode:
        pytest.skip("this user may not mount")
    result = broadcast(str(file), read_inventory(cloud.hosts_file), "h0", str(tmp_path / "{host}" / "out"))
    assert right(result, file) == {"h1", "h2", "h4", "h5"}
    assert "no space for 3000001 bytes" in result.lost["h3"]


def test_a_controller_that_is_killed_goes_on_from_what_is_there(
    cloud: lab.Session, large: Path, tmp_path: Path
) -> None:
    line: list[str | Path] = [GAVOTTE, "broadcast", large, "--hosts", cloud.hosts_file, "--from", "h0", "--json"]
    line += ["-o", tmp_path / "out-{host}", "--to", "h1,h2", "--mechanism", "chain"]
    whole, partial = large.read_bytes(), tmp_path / "out-h1.partial"
    first = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until(lambda: partial.exists() and partial.read_bytes()[3_000_000:3_000_100] == whole[3_000_000:3_000_100])
    finally:
        first.kill()
        first.wait()
    assert not (tmp_path / "out-h2").exists()
    second = subprocess.run(line, capture_output=True, text=True, check=False)
    assert second.returncode == 0, second.stderr
    assert json.loads(second.stdout)["source_sent_bytes"] < 6_000_000
    assert (tmp_path / "out-h1").read_bytes() == (tmp_path / "out-h2").read_bytes() == whole


def test_nonsense_is_refused(cloud: lab.Session, file: Path, tmp_path: Path) -> None:
    inventory = read_inventory(cloud.hosts_file)
    output = str(tmp_path / "out-{host}")
    with pytest.raises(GavotteError, match="no host `q`"):
        broadcast(str(file), inventory, "q", output)
    with pytest.raises(GavotteError, match="has the file already"):
        broadcast(str(file), inventory, "h0", output, targets=["h0"])
    with pytest.raises(GavotteError, match="not the absolute path"):
        broadcast(str(file), inventory, "h0", "out-{host}")
    with pytest.raises(AgentError, match="nothing-there"):
        broadcast(str(tmp_path / "nothing-there"), inventory, "h0", output)


def test_an_object_of_bytes_is_brought_like_a_file(cloud: lab.Session, tmp_path: Path) -> None:
    inventory = read_inventory(cloud.hosts_file)
    content = os.urandom(100_000)
    result = broadcast(memoryview(content), inventory, "h1", str(tmp_path / "out-{host}"), targets=["h0", "h2"])
    assert {Path(each.path).read_bytes() == content for each in result.receivers} == {True}
    far = [host.model_copy(update={"agent": "ssh://far"}) for host in inventory.host]
    with pytest.raises(GavotteError, match="cannot read this process's memory"):
        broadcast(b"1", inventory.model_copy(update={"host": far}), "h1", str(tmp_path / "out-{host}"))


def test_a_folder_is_brought_with_all_that_is_in_it(cloud: lab.Session, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    (folder / "inner" / "empty").mkdir(parents=True)
    (folder / "inner").chmod(0o750)
    for number in range(40):
        (folder / "inner" / f"file{number}").write_bytes(os.urandom(number * 997))
    (folder / "large").write_bytes(os.urandom(2_000_000))
    (folder / "large").chmod(0o755)
    (folder / "link").symlink_to("inner/file3")
    line: list[str | Path] = ["broadcast", folder, "--hosts", "lab", "--from", "h0", "-o", tmp_path / "copy-{host}"]
    environment = {**os.environ, **cloud.environment()}
    # Leftovers of an earlier broadcast: a file of its own, and half of a needed one.
    (tmp_path / "copy-h2.partial" / "inner").mkdir(parents=True)
    (tmp_path / "copy-h2.partial" / "stale").write_bytes(b"1")
    (tmp_path / "copy-h2.partial" / "large").write_bytes((folder / "large").read_bytes()[:1_500_000])
    done = gavotte(*line, env=environment)
    assert done.returncode == 0, done.stderr

    def listed(path: Path) -> dict[str, tuple[int, bytes]]:
        values = {}
        for each in sorted(path.rglob("*")):
            content = (
                str(each.readlink()).encode() if each.is_symlink() else b"" if each.is_dir() else each.read_bytes()
            )
            values[str(each.relative_to(path))] = (each.lstat().st_mode, content)
        return values

    for host in HOSTS[1:]:
        assert listed(tmp_path / f"copy-{host}") == listed(folder)
    # Another run finds all of it in place; different files are not overwritten.
    (tmp_path / "copy-h1" / "large").write_bytes(b"mine")
    again = gavotte(*line, "--json", env=environment)
    assert again.returncode == 1
    errors = {each["host"]: each["error"] for each in json.loads(again.stdout)["receivers"] if not each["ok"]}
    assert list(errors) == ["h1"]
    assert "exists already and differs" in errors["h1"]
    assert (tmp_path / "copy-h1" / "large").read_bytes() == b"mine"


def test_an_empty_file_is_a_file(cloud: lab.Session, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.touch()
    result = broadcast(str(empty), read_inventory(cloud.hosts_file), "h0", str(tmp_path / "out-{host}"))
    assert right(result, empty) == set(HOSTS[1:])


def test_incomplete_copies_are_named_and_removed(cloud: lab.Session, tmp_path: Path) -> None:
    big = tmp_path / "big"
    with big.open("wb") as file:
        file.truncate(200_000_000)
    words = ["broadcast", str(big), "--hosts", "lab", "--from", "h0", "--to", "h1,h2", "-o", f"{tmp_path}/got-{{host}}"]
    environment = {**os.environ, **cloud.environment()}
    with subprocess.Popen([GAVOTTE, *words], env=environment, stderr=subprocess.PIPE, text=True) as sending:
        until(lambda: len(list(tmp_path.glob("got-*.partial"))) == 2)
        sending.send_signal(signal.SIGINT)
        _, message = sending.communicate(timeout=30)
    assert f"receivers keep what has arrived at {tmp_path}/got-{{host}}.partial" in message
    assert (tmp_path / "got-h1.partial").exists()
    # An agent lets go of the file when it notices that the controller is gone.
    until(lambda: gavotte(*words, "--discard", env=environment).returncode == 0)
    assert not list(tmp_path.glob("got-*"))
    again = gavotte(*words, "--discard", env=environment)
    assert f"no receiver has {tmp_path}/got-{{host}}.partial" in again.stderr
    assert big.exists()
