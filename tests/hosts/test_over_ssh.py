"""Real SSH servers in the hosts of a lab: agents are installed, started, used, and never left behind."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.hosts.cluster import CONTROLLER, HOSTS, Cluster, keygen
from tests.shell import until

pytestmark = [pytest.mark.lab, pytest.mark.timeout(180)]


@pytest.fixture(autouse=True)
def nothing_left(servers: Cluster, runtime: Path) -> Iterator[None]:
    """Every test ends without agents, tunnels and their folders."""
    yield
    until(lambda: not servers.agents())
    assert not [folder for folder in runtime.glob("r-*") if not (folder / "swept-by-test").exists()]


@contextmanager
def changed(path: Path, text: str) -> Iterator[None]:
    """Hold other content in a file for a block."""
    before = path.read_bytes()
    path.write_text(text)
    try:
        yield
    finally:
        path.write_bytes(before)


def ready_but(result: dict[str, dict[str, Any]], *bad: str) -> None:
    """Assert that all hosts can be used except these, which have one line with the reason."""
    assert {name for name, host in result.items() if host["verdict"] == "ready"} == set(result) - set(bad), result
    for name in bad:
        assert not result[name]["usable"]
        assert "\n" not in result[name]["verdict"]


def descendants(pid: int) -> list[int]:
    children = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            children += [int(child) for child in task.read_text().split()]
    return children + [below for child in children for below in descendants(child)]


def named(pid: int, name: str) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip() == name
    return False


def test_the_agent_is_copied_once_and_checked_each_time(servers: Cluster) -> None:
    for host in HOSTS:
        shutil.rmtree(servers.cache(host), ignore_errors=True)
    result = servers.gavotte("hosts", "install", "--hosts", servers.inventory, "--json")
    assert result.returncode == 0, result.stderr
    assert [(h["name"], h["copied"]) for h in json.loads(result.stdout)["hosts"]] == [(name, True) for name in HOSTS]
    kept = {host: next((servers.cache(host) / "gavotte").iterdir()) for host in HOSTS}
    assert all(re.fullmatch(r"gavotte-agent-[0-9.]+-[0-9a-f]{16}", path.name) for path in kept.values())
    assert all(path.stat().st_mode & 0o777 == 0o700 for path in kept.values())
    # One is damaged, so that one and no other is copied again.
    with kept["b"].open("r+b") as file:
        file.seek(1000)
        file.write(b"damage")
    result = servers.gavotte("hosts", "install", "--hosts", servers.inventory, "--json")
    assert [h["copied"] for h in json.loads(result.stdout)["hosts"]] == [False, True, False, False]
    assert kept["b"].read_bytes() == kept["a"].read_bytes()


def test_other_versions_are_shown_replaced_and_removed(servers: Cluster) -> None:
    def asked(*words: str) -> dict[str, dict[str, Any]]:
        done = servers.gavotte("hosts", "install", "--hosts", servers.inventory, *words, "--json")
        assert done.returncode == 0, done.stderr
        return {host["name"]: host for host in json.loads(done.stdout)["hosts"]}

    asked()
    old, broken = (servers.cache("a") / "gavotte" / f"gavotte-agent-0.1.0-{mark}" for mark in ("old", "broken"))
    old.write_text("#!/bin/sh\necho gavotte-agent 0.1.0\n")
    broken.write_bytes(b"\x7fELF")
    for path in (old, broken):
        path.chmod(0o700)
    shown = asked("--dry-run")
    assert sorted(shown["a"]["verdict"].split("; ")) == ["also 0.1.0", "also one that does not run", "this version"]
    assert shown["b"]["verdict"] == "this version"
    assert old.exists()
    replaced = asked()
    assert replaced["a"]["verdict"] == "already installed; 0.1.0, one that does not run removed (2 files)"
    assert [path.name for path in old.parent.iterdir()] == [Path(shown["b"]["copies"][0]["path"]).name]
    removed = asked("--remove")
    assert all(re.fullmatch(r"[0-9.]+ removed", host["verdict"]) for host in removed.values()), removed
    assert not old.parent.exists()
    old.parent.mkdir()
    assert asked("--dry-run")["a"]["verdict"] == "no agent"
    assert old.parent.exists(), "a dry run removes nothing"
    assert {host["verdict"] for host in asked("--dry-run").values()} == {"no agent"}
    assert {host["verdict"] for host in asked("--remove").values()} == {"no agent"}


def test_check_tells_how_hosts_are(servers: Cluster, tmp_path: Path) -> None:
    output = tmp_path / "full.hosts.toml"
    done = servers.gavotte("hosts", "check", "--hosts", servers.inventory, "-o", output)
    assert done.returncode == 0, done.stderr
    kernel = os.uname().release
    assert all(re.search(rf"^{host} +yes +\S+ +{re.escape(kernel)} +\d+ .*ready", done.stdout, re.M) for host in HOSTS)
    assert done.stderr == "4 of 4 hosts can be used\n12 of 12 pairs can be used\n"
    assert output.read_text().count("memory_bytes = ") == 4


def test_measure_over_ssh(servers: Cluster) -> None:
    done = servers.gavotte("measure", "--hosts", servers.inventory, "--method", "choreo", "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["answered"] == result["paths"] == 12
    assert result["hosts"] == list(HOSTS)
    rates = [rate for row in result["rate_bps"] for rate in row if rate is not None]
    # The exactness of trains is tested in tests/measure; a busy machine disturbs one now and then.
    assert 150e6 < statistics.median(rates) < 210e6, rates


def test_hosts_by_ssh_config_and_by_hostfile(servers: Cluster, tmp_path: Path) -> None:
    env = {"GAVOTTE_SSH_CONFIG": str(servers.config)}
    done = servers.gavotte("measure", "--hosts", "ssh-config:[ab]", "--json", env=env)
    assert json.loads(done.stdout)["answered"] == 2, done.stderr
    hostfile = tmp_path / "hosts"
    hostfile.write_text("".join(f"{servers.addresses[name]} slots=2\n" for name in "cd"))
    done = servers.gavotte("hosts", "check", "--hosts", f"mpi:{hostfile}", "--json", env=env)
    assert [(h["cpus"], h["verdict"]) for h in json.loads(done.stdout)["hosts"]] == [(2.0, "ready")] * 2, done.stderr
    done = servers.gavotte(
        "hosts", "import", "--ssh-config", servers.config, "--match", "a,c", "-o", tmp_path / "i.toml"
    )
    assert done.returncode == 0, done.stderr
    assert set(servers.verdicts(tmp_path / "i.toml")) == {"a", "c"}


def test_a_wrong_key(servers: Cluster) -> None:
    with changed(servers.folder / "b" / "authorized_keys", (servers.folder / "other_key.pub").read_text()):
        verdicts = servers.verdicts(servers.inventory)
        ready_but(verdicts, "b")
        assert verdicts["b"]["verdict"] == "permission denied (publickey); make `ssh b true` work without a question"
        done = servers.gavotte("measure", "--hosts", servers.inventory, "--json")
    assert done.returncode == 0
    result = json.loads(done.stdout)
    assert result["answered"] == 6
    assert list(result["missing"]) == ["b"]
    assert "warning: b: permission denied (publickey)" in done.stderr


def test_unknown_and_changed_host_keys(servers: Cluster, tmp_path: Path) -> None:
    known = servers.folder / "known_hosts"
    lines = known.read_text().splitlines()
    keygen(tmp_path / "stranger")
    stranger = f"{servers.addresses['c']} {(tmp_path / 'stranger.pub').read_text().strip()}"
    with changed(known, "\n".join([lines[0], stranger, lines[3]]) + "\n"):
        verdicts = servers.verdicts(servers.inventory)
    ready_but(verdicts, "b", "c")
    assert verdicts["b"]["verdict"] == "its host key is not known; connect once with `ssh b` and check it"
    assert verdicts["c"]["verdict"].startswith("its host key has changed; ")


def test_unreachable_hosts(servers: Cluster, tmp_path: Path) -> None:
    agents = {
        "a": "ssh://a",
        "b": "ssh://root@192.0.2.1",
        "c": f"ssh://{servers.addresses['c']}:23",
        "d": "ssh://x.invalid",
    }
    servers.write_inventory(tmp_path / "x.toml", agents)
    done = servers.gavotte("hosts", "check", "--hosts", tmp_path / "x.toml", "--json")
    assert done.returncode == 1
    assert done.stderr == "1 of 4 hosts can be used\n"
    values = {host["name"]: host for host in json.loads(done.stdout)["hosts"]}
    ready_but(values, "b", "c", "d")
    assert re.match("timed out|No route to host|Network is unreachable", values["b"]["verdict"])
    assert values["c"]["verdict"].startswith("connection refused; ")
    assert values["d"]["verdict"].startswith("no address for x.invalid (")


def test_none_of_them(servers: Cluster, tmp_path: Path) -> None:
    servers.write_inventory(tmp_path / "x.toml", {name: f"ssh://{servers.addresses[name]}:23" for name in "ab"})
    done = servers.gavotte("measure", "--hosts", tmp_path / "x.toml")
    assert done.returncode == 1
    assert re.search(r"^error: none of 2 agents can be used; a: connection refused", done.stderr, re.M)


def test_a_file_in_place_of_the_cache_moves_the_agent_to_another_folder(servers: Cluster) -> None:
    cache = servers.cache("b")
    shutil.rmtree(cache, ignore_errors=True)
    cache.write_text("in the way")
    try:
        hosts = servers.verdicts(servers.inventory)
    finally:
        cache.unlink()
    assert [host["verdict"] for host in hosts.values()] == ["ready"] * len(HOSTS)
    assert hosts["b"]["place"].startswith("runs from ")
    assert "cannot be created" in hosts["b"]["place"]
    assert {hosts[name]["place"] for name in HOSTS if name != "b"} == {""}


def test_a_data_port_that_is_taken(servers: Cluster, tmp_path: Path) -> None:
    listen = "import socket, sys; s = socket.create_server(('', 7411)); print('up', flush=True); sys.stdin.read()"
    taker = servers.cloud.exec("b", ["python3", "-c", listen], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert taker.stdout is not None
        assert taker.stdout.readline() == b"up\n"
        verdicts = servers.verdicts(servers.inventory)
        ready_but(verdicts, "b")
        assert verdicts["b"]["verdict"].startswith("its data port is in use")
        servers.write_inventory(tmp_path / "x.toml", {"a": "ssh://a", "b": "ssh://b?data-port=7500"})
        verdicts = servers.verdicts(tmp_path / "x.toml")
        assert verdicts["b"]["data_port"] == 7500
    finally:
        taker.communicate()


def test_a_server_that_forbids_to_forward_sockets(servers: Cluster) -> None:
    with reconfigured(servers, "d", "AllowStreamLocalForwarding no"):
        verdicts = servers.verdicts(servers.inventory)
    ready_but(verdicts, "d")
    assert "it needs `AllowStreamLocalForwarding yes`" in verdicts["d"]["verdict"]


def test_a_login_that_talks(servers: Cluster) -> None:
    place = servers.folder / "c"
    (place / "banner").write_text("Welcome!\nPermission denied (to be sad)\n" * 3)
    noisy = 'command="echo hello; echo gavotte; eval \\"$SSH_ORIGINAL_COMMAND\\"" '
    keys = place / "authorized_keys"
    with reconfigured(servers, "c", f"Banner {place / 'banner'}"), changed(keys, noisy + keys.read_text()):
        ready_but(servers.verdicts(servers.inventory))


def test_a_connection_that_the_user_holds_is_joined(servers: Cluster) -> None:
    """As with a second factor that must be typed: only the open connection gets in."""
    control = f"Host b\n  ControlPath {servers.folder}/cm\n"
    with changed(servers.config, control + servers.config.read_text()):
        line = ["ssh", "-F", str(servers.config), "-M", "-N", "b"]
        master = servers.cloud.exec(CONTROLLER, line, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            until((servers.folder / "cm").exists)
            with changed(servers.folder / "b" / "authorized_keys", "\n"):
                for _ in range(2):
                    ready_but(servers.verdicts(servers.inventory))
            assert master.poll() is None
        finally:
            for pid in descendants(master.pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGTERM)
            master.terminate()
            master.wait()


@contextmanager
def measuring(servers: Cluster, *, count: int) -> Iterator[subprocess.Popen[str]]:
    """Start a measurement that holds all four agents."""
    arguments = ("measure", "--hosts", str(servers.inventory), "--method", "bulk", "--count", str(count), "--json")
    process = servers.start(*arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        until(lambda: len(servers.agents()) == 4 or process.poll() is not None)
        assert process.poll() is None, process.communicate()
        yield process
    finally:
        process.terminate()
        process.communicate()


def test_killed_ssh_servers_and_agents(servers: Cluster) -> None:
    with measuring(servers, count=3) as process:
        time.sleep(1.0)
        for pid in descendants(servers.servers["b"].pid):
            if named(pid, "sshd"):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        try:
            agent = next(pid for pid in descendants(servers.servers["c"].pid) if named(pid, "gavotte-agent-0"))
            os.kill(agent, signal.SIGKILL)
            output, message = process.communicate(timeout=120)
            until(lambda: not servers.agents())
            outcome = servers.verdicts(servers.inventory)
        finally:
            servers.servers["b"].wait(timeout=10)
            servers.serve("b")
    assert process.returncode == 0, message
    result = json.loads(output)
    verdicts = result["missing"] | result["lost"]
    assert sorted(verdicts) == ["b", "c"], (verdicts, result["failures"])
    # The last snapshot still has the paths between a and d.
    assert result["rate_bps"][0][3] is not None
    assert result["rate_bps"][3][0] is not None
    ready_but(outcome, "b")
    assert outcome["b"]["verdict"].startswith("connection refused")
    ready_but(servers.verdicts(servers.inventory))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_controller_that_is_killed_leaves_no_agent(servers: Cluster, runtime: Path, number: signal.Signals) -> None:
    with measuring(servers, count=50) as process:
        controller = next(pid for pid in [process.pid, *descendants(process.pid)] if named(pid, "gavotte"))
        sockets = [Path(line.split(" --socket ")[1].split()[0]) for line in servers.agents()]
        tunnels = [pid for pid in descendants(controller) if named(pid, "ssh")]
        assert len(tunnels) == 4
        os.kill(controller, number)
        _, message = process.communicate(timeout=60)
    until(lambda: not servers.agents())
    until(lambda: not any(named(pid, "ssh") for pid in tunnels))
    until(lambda: not any(socket.exists() for socket in sockets))
    if number == signal.SIGKILL:
        left = list(runtime.glob("r-*"))
        assert len(left) == 1
        (left[0] / "swept-by-test").touch()
        ready_but(servers.verdicts(servers.inventory))
        assert not left[0].exists()
    else:
        assert message.splitlines()[-1].startswith("error: "), message


@contextmanager
def reconfigured(servers: Cluster, host: str, setting: str) -> Iterator[None]:
    """Run a host's SSH server with one more setting for a block."""
    settings = servers.folder / host / "sshd_config"
    before = settings.read_bytes()
    with changed(settings, settings.read_text() + setting + "\n"):
        try:
            restart(servers, host)
            yield
        finally:
            settings.write_bytes(before)
            restart(servers, host)


def restart(servers: Cluster, host: str) -> None:
    for pid in descendants(servers.servers[host].pid):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    servers.servers[host].terminate()
    servers.servers[host].wait(timeout=10)
    servers.serve(host)
