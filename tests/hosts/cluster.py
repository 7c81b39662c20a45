"""A lab whose hosts are reached as a tenant's are: by real SSH servers, one in each host's namespaces."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tomli_w
from tests.builders import topology
from tests.hosts.restrictions import Restriction
from tests.shell import GAVOTTE, until

from gavotte import lab
from gavotte.formats.inventory import Inventory, read_inventory

HOSTS = ("a", "b", "c", "d")
CONTROLLER = "boss"


def sshd() -> str | None:
    """The SSH server; it must be called by its full path."""
    return shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/sbin")


def lacking() -> str:
    """The reason why SSH servers cannot run on this machine; empty if they can."""
    for program in ("ssh", "ssh-keygen", "unshare"):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    return "" if sshd() else "openssh-server is not installed"


class Cluster:
    """Hosts with SSH servers, and another one on which the controller runs."""

    def __init__(self, cloud: lab.Session, folder: Path, hosts: Sequence[str] = HOSTS) -> None:
        self.cloud = cloud
        self.hosts = hosts
        self.folder = folder
        self.addresses = {host.name: host.address for host in read_inventory(cloud.hosts_file).host}
        self.config = folder / "ssh_config"
        self.inventory = folder / "ssh.hosts.toml"
        self.servers: dict[str, subprocess.Popen[bytes]] = {}
        for name in ("user_key", "other_key"):
            keygen(folder / name)

    def cache(self, host: str) -> Path:
        """Where the agent is kept on a host."""
        return self.folder / host / "cache"

    def serve(self, host: str, restriction: Restriction | None = None) -> None:
        """Start a host's SSH server, whose users are restricted, and wait until it greets."""
        restriction = restriction or Restriction()
        place = self.folder / host
        if not place.exists():
            place.mkdir()
            keygen(place / "host_key")
            shutil.copy(self.folder / "user_key.pub", place / "authorized_keys")
            settings = {
                "AddressFamily": "inet",
                "AuthorizedKeysFile": place / "authorized_keys",
                "HostKey": place / "host_key",
                "LogLevel": "ERROR",
                "PasswordAuthentication": "no",
                "KbdInteractiveAuthentication": "no",
                "PermitRootLogin": "yes",
                "PidFile": "none",
                # Below the first level bash does not read ~/.bashrc, which may wait for anything.
                "SetEnv": f"XDG_CACHE_HOME={self.cache(host)} SHLVL=1",
                "StrictModes": "no",
                "UsePAM": "no",
            }
            write_settings(place / "sshd_config", settings)
        settings_now = []
        if restriction.wrapper:
            command = f'{" ".join(restriction.wrapper)} sh -c "$SSH_ORIGINAL_COMMAND"'
            settings_now = ["-o", f"ForceCommand={command}"]
        # Its privilege separation needs /run/sshd, which must not be made on the machine that runs the tests.
        mounts = f" && {restriction.mounts}" if restriction.mounts else ""
        script = f'mount -t tmpfs none /run && mkdir -m 755 /run/sshd{mounts} && exec "$@"'
        line = [
            "unshare",
            "--mount",
            "sh",
            "-c",
            script,
            "sh",
            str(sshd()),
            "-D",
            "-e",
            "-f",
            str(place / "sshd_config"),
            *settings_now,
        ]
        environment = {**self.cloud.environment(), "CACHE": str(self.cache(host)), "PLACE": str(place)}
        with (place / "sshd.log").open("ab") as log:
            self.servers[host] = self.cloud.exec(
                host, line, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment
            )
        connect = f"socket.create_connection(('{self.addresses[host]}', 22), 2)"
        probe = f"import socket; assert {connect}.recv(4) == b'SSH-'"

        def answers() -> bool:
            assert self.servers[host].poll() is None, (place / "sshd.log").read_text()
            asked = self.cloud.run(CONTROLLER, [sys.executable, "-c", probe], stderr=subprocess.DEVNULL)
            return asked.returncode == 0

        until(answers)

    def restrict(self, host: str, restriction: Restriction | None) -> None:
        """Start a host's SSH server again, under other restrictions or none."""
        self.servers[host].terminate()
        self.servers[host].wait(timeout=30)
        self.serve(host, restriction)

    def configure(self) -> None:
        """Write the controller's ssh configuration, known hosts and inventory."""
        keys = [f"{self.addresses[h]} {(self.folder / h / 'host_key.pub').read_text().strip()}" for h in self.hosts]
        (self.folder / "known_hosts").write_text("\n".join(keys) + "\n")
        common = {
            "IdentityFile": self.folder / "user_key",
            "IdentitiesOnly": "yes",
            "UserKnownHostsFile": self.folder / "known_hosts",
            "User": "root",
        }
        blocks = ((f"Host {name}", {"HostName": self.addresses[name]}) for name in self.hosts)
        write_settings(self.config, common, *blocks)
        self.write_inventory(self.inventory, {name: f"ssh://{name}" for name in self.hosts})

    def write_inventory(self, path: Path, agents: dict[str, str], **top: str) -> Inventory:
        """Write an inventory of these agents and read it back."""
        entries = [{"name": n, "address": self.addresses[n], "agent": agent} for n, agent in agents.items()]
        path.write_text(
            tomli_w.dumps({"format": "gavotte/hosts/1", "ssh_config": str(self.config), **top, "host": entries})
        )
        return read_inventory(path)

    def start(self, *arguments: str | Path, **options: Any) -> subprocess.Popen[str]:
        """Start the command line on the controller's host."""
        line = [str(GAVOTTE), *map(str, arguments)]
        return self.cloud.exec(CONTROLLER, line, text=True, **options)

    def gavotte(self, *arguments: str | Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Run the command line on the controller's host."""
        line = [str(GAVOTTE), *map(str, arguments)]
        environment = {**self.cloud.environment(), **(env or {})}
        return self.cloud.run(CONTROLLER, line, capture_output=True, text=True, timeout=90, env=environment)

    def verdicts(self, inventory: Path, **options: Any) -> dict[str, dict[str, Any]]:
        """Run `hosts check` and return its verdict on each host."""
        done = self.gavotte("hosts", "check", "--hosts", inventory, "--json", **options)
        assert done.stdout, done.stderr
        return {host["name"]: host for host in json.loads(done.stdout)["hosts"]}

    def agents(self) -> list[str]:
        """Return the command lines of the agents of this cluster."""
        items = []
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = entry.read_bytes().split(b"\0")
            except OSError:
                continue
            if words[0].startswith(str(self.folder).encode()) and b"serve" in words:
                items.append(b" ".join(words).decode())
        return items


def keygen(path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(path)], check=True)


def write_settings(path: Path, common: dict[str, Any], *blocks: tuple[str, dict[str, Any]]) -> None:
    lines = []
    for title, settings in (*blocks, ("", common)) if blocks else (("", common),):
        if blocks:
            lines.append(title or "Host *")
        lines += [f"{key} {value}" for key, value in settings.items()]
    path.write_text("\n".join(lines) + "\n")


@contextmanager
def cluster(folder: Path, hosts: Sequence[str] = HOSTS, restriction: Restriction | None = None) -> Iterator[Cluster]:
    """Run a lab with SSH servers on some hosts, whose users are restricted."""
    servers: dict[str, subprocess.Popen[bytes]] = {}
    cloud = topology([{"name": name, "rate": "1gbit", "egress": "200mbit"} for name in (*hosts, CONTROLLER)])
    try:
        with lab.session(cloud, source="tests", agents=False) as session:
            made = Cluster(session, folder, hosts)
            servers = made.servers
            for host in hosts:
                made.serve(host, restriction)
            made.configure()
            yield made
    finally:
        # They died with the lab.
        for server in servers.values():
            server.wait(timeout=30)
