"""Endpoints in a lab: hosts and machines, tenants behind a router, paths made for a sample, limits by cgroup."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from gavotte.agents.binary import agent_binary
from gavotte.agents.runtime import LAB_VARIABLE
from gavotte.campaign.drivers.cgroups import Groups
from gavotte.campaign.drivers.endpoints import Endpoints, Lab, MakesLab, Tunnelled
from gavotte.campaign.drivers.joining import Site, joined
from gavotte.campaign.spelling import spelled_topology
from gavotte.errors import GavotteError, UnsupportedError
from gavotte.formats.campaign import Campaign, Flavour
from gavotte.formats.inventory import Host, Inventory, read_inventory
from gavotte.formats.parts.names import unknown_host
from gavotte.formats.topology import Topology, read_topology
from gavotte.terms.goodput import topology_goodput

MACHINES = "machines/"
HYPERVISOR_BYTE = 254
"""Last byte of a machine's own address on its bridge: hosts have 2 to 251, the gateway 1."""
AGENT_LIMIT_S = 10.0
DATA_PORT = 7411


class LabEndpoints(Endpoints):
    """Endpoints of a campaign in a lab: its hosts, and the machines that a scenario names."""

    kind = "lab"

    def __init__(self, campaign: Campaign, topology: Topology, lab: Lab) -> None:
        self._lab = lab
        self._topology = topology
        self._driver = campaign.driver
        self._own: dict[str, subprocess.Popen[bytes]] = {}
        self._groups: Groups | None = None
        self._machine = {host.name: host.machine or host.name for host in topology.host}
        self._machines = {machine.name for machine in topology.machine}
        base = read_inventory(lab.hosts_file)
        here = set(base.names)
        hosts = [host for host in base.host if host.name in campaign.endpoints]
        hosts += [self._hypervisor(name, base) for name in campaign.endpoints if name not in here]
        self.inventory = base.model_copy(update={"host": hosts})
        addresses = {host.name: host.address for host in base.host}
        if self._driver.tenants:
            self._part(addresses)
        if "nuttcp" in {scenario.engine or campaign.engine for scenario in campaign.scenario}:
            self._pin(campaign.congestion)
        if any(scenario.flavours for scenario in campaign.scenario):
            self._groups = Groups()
            for host in self.inventory.host:
                self._groups.add(host.name, self._processes(host.name))

    def close(self) -> None:
        """Stop the agents that this object has started; the lab continues to run."""
        for process in self._own.values():
            process.kill()
            process.wait()

    def close_groups(self) -> None:
        """Remove the control groups, after the lab has ended."""
        if self._groups is not None:
            self._groups.close()

    def environment(self) -> dict[str, str] | None:
        """Return the environment variables by which a command line finds the lab."""
        return {**os.environ, LAB_VARIABLE: str(self._lab.folder)}

    def command(self, host: str, argv: Sequence[str]) -> list[str]:
        """Return the command line that runs a program in a host's namespaces and control group."""
        words = list(argv) if self._groups is None else self._groups.joining(host, argv)
        return self._lab.command(self._place(host), words)

    def limit(self, flavour: Flavour | None, hosts: Sequence[str]) -> None:
        """Limit the processors of these hosts to those of a flavour, and remove the limits of all other hosts."""
        if self._groups is not None:
            for host in self.inventory.names:
                self._groups.limit(host, flavour if host in hosts else None)

    def distance(self, source: str, target: str) -> int:
        """Return the number of edges between two hosts: 4 between tenants, else 2 between machines, 0 within one."""
        if source == target:
            return 0
        if not {source, target} & self._machines and self._driver.tenant(source) != self._driver.tenant(target):
            return 4
        return 0 if self._machine.get(source, source) == self._machine.get(target, target) else 2

    @contextmanager
    def joined(self, pairs: Sequence[tuple[str, str]], kind: str) -> Iterator[Tunnelled]:
        """Connect all hosts of the pairs by a path of its own; see `joining.joined`."""
        ends = list(dict.fromkeys(end for pair in pairs for end in pair))
        site = Site(address=self.address, shell=self._shell, ask=self.ask, start=self.start)
        with joined(site, ends, kind) as inside:
            yield inside

    def mend(self) -> None:
        """Restart the agents that do not answer."""
        for host in self.inventory.host:
            path = host.agent.removeprefix("unix:")
            if not _listens(path):
                self._start_agent(host.name, path)

    def _place(self, host: str) -> str:
        return f"{MACHINES}{host}" if host in self._machines else host

    def _hypervisor(self, name: str, base: Inventory) -> Host:
        """Start an agent on a machine's bridge, to which its hosts connect, and return the machine as a host."""
        if name not in self._machines:
            raise unknown_host(name, [*base.names, *self._machines], "the lab")
        inside = [host for host in base.host if self._machine[host.name] == name]
        if not inside:
            raise GavotteError(f"machine `{name}` has no hosts to measure from or to", hint="name another one")
        network = inside[0].address.rpartition(".")[0]
        address = f"{network}.{HYPERVISOR_BYTE}"
        path = str(self._lab.folder / f"{name}.machine.sock")
        here = f"ip addr replace {address}/24 dev bridge && ip link set lo up"
        self._shell(name, f"{here} && ip route replace default via {network}.1")
        self._start_agent(name, path)
        return Host(name=name, address=address, agent=f"unix:{path}", cpus=float(os.cpu_count() or 1))

    def _start_agent(self, host: str, path: str) -> None:
        Path(path).unlink(missing_ok=True)
        log = (self._lab.folder / f"{host}.again.log").open("ab")
        argv = [agent_binary(), "serve", "--socket", path, "--data-port", str(DATA_PORT), "--die-with-parent"]
        with log:
            self._own[host] = self._lab.exec(
                self._place(host), argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.environment()
            )
        end = time.monotonic() + AGENT_LIMIT_S
        while not _listens(path):
            if time.monotonic() > end:
                raise GavotteError(f"the agent of {host} does not come up", hint=f"see {log.name}")
            time.sleep(0.02)
        if self._groups is not None:
            self._groups.add(host, self._processes(host))

    def _processes(self, host: str) -> list[int]:
        """Return the process IDs of a host's agent, as this process sees them."""
        socket = next(each.agent for each in self.inventory.host if each.name == host).removeprefix("unix:")
        processes = []
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit():
                with contextlib.suppress(OSError):
                    words = (folder / "cmdline").read_bytes().split(b"\0")
                    if b"serve" in words and socket.encode() in words and b"nsenter" not in words[0]:
                        processes.append(int(folder.name))
        return processes

    def _part(self, addresses: dict[str, str]) -> None:
        """Route traffic between tenants through the router, so that it never stays within one bridge."""
        for name in self._driver.tenants:
            for host in self._driver.tenants[name]:
                if host not in addresses:
                    raise unknown_host(host, addresses, f"the lab, of tenant `{name}`,")
        for host, own in addresses.items():
            network = own.rpartition(".")[0]
            foreign = [
                address
                for other, address in addresses.items()
                if address.rpartition(".")[0] == network and self._driver.tenant(other) != self._driver.tenant(host)
            ]
            if foreign:
                routes = [f"ip route replace {address}/32 via {network}.1" for address in foreign]
                quiet = "for f in /proc/sys/net/ipv4/conf/*/accept_redirects; do echo 0 > $f; done"
                self._shell(host, f"{quiet}; {' && '.join(routes)}")
        for switch in self._topology.switch:
            self.ask(switch.name, "for f in /proc/sys/net/ipv4/conf/*/send_redirects; do echo 0 > $f; done")

    def _pin(self, congestion: str) -> None:
        """Set the congestion control of every socket by routes, because nuttcp has no option for it.

        A namespace's default cannot be an algorithm that the machine restricts, even for root; a route's can.
        """
        each = f"while read -r route; do ip route replace table $table $route congctl {congestion}; done"
        for name in self.inventory.names:
            self._shell(name, f"for table in local main; do ip route show table $table | {each} || exit 1; done")

    def _shell(self, host: str, script: str) -> None:
        """Run a shell script on a host.

        Raises:
            UnsupportedError: when the script fails.
        """
        if shutil.which("ip") is None:
            raise UnsupportedError("`ip` is not installed", hint="install iproute2")
        done = subprocess.run(
            self._lab.command(self._place(host), ["sh", "-c", script]),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=AGENT_LIMIT_S,
            check=False,
            env=self.environment(),
        )
        if done.returncode:
            last_line = (done.stderr.strip().splitlines() or ["nothing"])[-1]
            raise UnsupportedError(f"the kernel refused what {host} needs: {last_line}")


@contextmanager
def in_lab(campaign: Campaign, make: MakesLab) -> Iterator[LabEndpoints]:
    """Run a lab of the campaign's topology for the length of a `with` block."""
    assert campaign.driver.topology is not None
    topology = spelled_topology(read_topology(campaign.driver.topology), campaign.endpoints)
    endpoints = None
    try:
        with make(topology) as lab:
            endpoints = LabEndpoints(campaign, topology, lab)
            try:
                yield endpoints
            finally:
                endpoints.close()
    finally:
        if endpoints is not None:
            endpoints.close_groups()


def topology_rate_bps(topology: Topology, tenant: object, source: str, target: str) -> float | None:
    """Return the smallest TCP goodput of the links of a path, bit/s; None if no link is limited."""
    assert callable(tenant)
    hosts = {host.name: host for host in topology.host}
    if source == target or source not in hosts or target not in hosts:
        return None
    machines = {machine.name: machine for machine in topology.machine}
    one, other = hosts[source], hosts[target]
    if one.machine is not None and one.machine == other.machine and tenant(source) == tenant(target):
        rates = [machines[one.machine].machine_rate]
    else:
        nics = [machines[host.machine].rate if host.machine else host.rate for host in (one, other)]
        rates = [*nics, one.egress, other.ingress]
        switches = {switch.name: switch for switch in topology.switch}

        def above(host: str) -> list[str]:
            at: str | None = hosts[host].switch or machines[hosts[host].machine or ""].switch
            parents = []
            while at is not None:
                parents.append(at)
                at = switches[at].parent
            return parents

        up, down = above(source), above(target)
        rates += [switches[name].up for name in up if name not in down]
        rates += [switches[name].down_bps for name in down if name not in up]
    known = [rate for rate in rates if rate is not None]
    return topology_goodput(topology) * min(known) if known else None


def _listens(path: str) -> bool:
    import socket

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(path)
        except OSError:
            return False
        return True
