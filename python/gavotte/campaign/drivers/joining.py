"""Paths that a lab makes for two hosts and one sample: VXLAN, GRE, a cable, or an Open vSwitch."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from gavotte.campaign.drivers import gre
from gavotte.errors import UnsupportedError

INSIDE = "10.77"
"""First half of the addresses on these paths."""
VXLAN_MTU = 1450
VXLAN_PORT = 4789
GRE_MTU = 1476
DEVICE = "gvx0"
"""Name of the device on each host. States of endpoints show it during the sample."""
OTHER_DEVICE = "gvx1"
"""The same on the second host of an Open vSwitch."""
REMOVE = f"for device in {DEVICE} {OTHER_DEVICE}; do ip link del $device; done"
PROGRAM_LIMIT_S = 10.0


@dataclass(frozen=True)
class Site:
    """What joining needs of the hosts of a lab.

    Attributes:
        address: returns the address of a host.
        shell: runs a script on a host, and raises UnsupportedError with the last line of its errors.
        ask: runs a script on a host and returns its output, whatever happens.
        start: starts a program on a host, with pipes.
    """

    address: Callable[[str], str]
    shell: Callable[[str, str], None]
    ask: Callable[[str, str], str]
    start: Callable[[str, Sequence[str]], subprocess.Popen[str]]


@contextmanager
def joined(site: Site, ends: Sequence[str], kind: str) -> Iterator[Mapping[str, str]]:
    """Join hosts by a path of its own for the length of a `with` block, and yield their addresses on it.

    Args:
        site: the lab's hosts.
        ends: the hosts; only `tunnel` joins more than two.
        kind: `tunnel` (VXLAN), `gre`, `veth` or `ovs`.

    Raises:
        UnsupportedError: when the kernel or a program for it is missing.
    """
    inside = {end: f"{INSIDE}.{number // 250}.{number % 250 + 1}" for number, end in enumerate(ends)}
    for end in ends:
        # A killed run may have left them, and a switch that has not ended yet keeps its ports.
        site.ask(end, REMOVE)
    with ExitStack() as stack:
        for end in ends:
            stack.callback(site.ask, end, REMOVE)
        {"tunnel": _vxlan, "gre": _gre, "veth": _veth, "ovs": _ovs}[kind](site, inside, stack)
        yield inside


def _vxlan(site: Site, inside: Mapping[str, str], stack: ExitStack) -> None:  # noqa: ARG001
    """Join hosts by a segment that floods all traffic to every host."""
    for end in inside:
        own = site.address(end)
        lines = [f"ip link add {DEVICE} mtu {VXLAN_MTU} type vxlan id 77 local {own} dstport {VXLAN_PORT} nolearning"]
        lines += [_up(inside[end])]
        lines += [
            f"bridge fdb append 00:00:00:00:00:00 dev {DEVICE} dst {site.address(other)}"
            for other in inside
            if other != end
        ]
        site.shell(end, " && ".join(lines))


def _gre(site: Site, inside: Mapping[str, str], stack: ExitStack) -> None:
    """Join two hosts by the kernel's GRE, or by BPF programs if the kernel was built without it."""
    first, second = inside
    try:
        for own, other in ((first, second), (second, first)):
            ends = f"local {site.address(own)} remote {site.address(other)} ttl 64"
            site.shell(own, f"ip link add {DEVICE} mtu {GRE_MTU} type gre {ends}")
    except UnsupportedError:
        site.ask(first, f"ip link del {DEVICE}")
        for own, other in ((first, second), (second, first)):
            _gre_by_bpf(site, own, other, inside, stack)
        return
    for end in inside:
        site.shell(end, _up(inside[end]))


def _gre_by_bpf(site: Site, own: str, other: str, inside: Mapping[str, str], stack: ExitStack) -> None:
    words = site.ask(own, f"ip -o route get {site.address(other)}").split()
    if "dev" not in words:
        raise UnsupportedError(f"{own} has no route to {other}")
    device = words[words.index("dev") + 1]
    gateway = words[words.index("via") + 1] if "via" in words else site.address(other)
    ends = [device, f"{INSIDE}.0.0", site.address(own), site.address(other)]
    # Isolated, so that the programs start without the rest of the package.
    programs = site.start(own, [sys.executable, "-I", gre.__file__, *ends])
    stack.callback(_end, programs)
    assert programs.stdout is not None
    if (line := programs.stdout.readline().strip()) != "ready":
        reason = line or "it printed nothing"
        raise UnsupportedError(
            f"this kernel has no GRE, and BPF cannot replace it: {reason}",
            hint="load the module ip_gre, run as root on Linux 6.6 or later, or use `tunnel`, which is VXLAN",
        )
    stack.callback(site.ask, own, f"ip route del {inside[other]}/32; ip addr del {inside[own]}/32 dev lo")
    route = f"ip route replace {inside[other]}/32 via {gateway} dev {device} src {inside[own]} mtu {GRE_MTU} onlink"
    site.shell(own, f"ip addr replace {inside[own]}/32 dev lo && {route}")


def _up(address: str, device: str = DEVICE) -> str:
    return f"ip addr replace {address}/16 dev {device} && ip link set {device} up"


def _veth(site: Site, inside: Mapping[str, str], stack: ExitStack) -> None:
    first, second = inside
    process = _holding(site, second, stack)
    site.shell(first, f"ip link add {DEVICE} type veth peer name {DEVICE} netns {process}")
    for end in inside:
        site.shell(end, _up(inside[end]))


def _ovs(site: Site, inside: Mapping[str, str], stack: ExitStack) -> None:
    """Join two hosts by ports of an Open vSwitch in user space, which needs no kernel module."""
    first, second = inside
    for program in ("ovsdb-tool", "ovsdb-server", "ovs-vswitchd", "ovs-vsctl"):
        if shutil.which(program, path="/usr/sbin:/usr/bin:/sbin:/bin") is None:
            raise UnsupportedError(f"`{program}` is not installed", hint="install openvswitch-switch")
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gvo-", dir="/tmp")))
    schema = "/usr/share/openvswitch/vswitch.ovsschema"
    database = f"unix:{folder}/db.sock"
    site.shell(first, f"ovsdb-tool create {folder}/conf.db {schema}")
    for words in (
        ["ovsdb-server", f"{folder}/conf.db", f"--remote=punix:{folder}/db.sock", "--no-chdir"],
        ["ovs-vswitchd", database, "--no-chdir", f"--unixctl={folder}/ctl"],
    ):
        daemon = site.start(first, ["env", f"OVS_RUNDIR={folder}", *words, "--verbose=off"])
        stack.callback(_end, daemon)
        site.shell(first, f"n=0; until [ -S {folder}/db.sock ] || [ $n -gt 100 ]; do sleep 0.05; n=$((n+1)); done")
    control = f"ovs-vsctl --db={database} --timeout=5"
    stack.callback(site.ask, first, f"{control} --no-wait del-br gvbr0")
    site.shell(first, f"{control} add-br gvbr0 -- set bridge gvbr0 datapath_type=netdev")
    # The switch knows its ports by name, so they keep theirs.
    for port in (DEVICE, OTHER_DEVICE):
        site.shell(first, f"{control} add-port gvbr0 {port} -- set interface {port} type=internal")
    process = _holding(site, second, stack)
    site.shell(first, f"ip link set {OTHER_DEVICE} netns {process}")
    site.shell(first, _up(inside[first]))
    site.shell(second, _up(inside[second], OTHER_DEVICE))


def _holding(site: Site, host: str, stack: ExitStack) -> int:
    """Start a program on a host that names its network namespace, and return its process ID inside the lab."""
    holder = site.start(host, ["sh", "-c", "echo $$; exec sleep 3600"])
    stack.callback(_end, holder)
    assert holder.stdout is not None
    text = holder.stdout.readline().strip()
    if not text.isdigit():
        raise UnsupportedError(f"no program can be run on {host}: {text or 'it printed nothing'}")
    return int(text)


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.communicate(timeout=PROGRAM_LIMIT_S)
        return
    process.kill()
    process.communicate()
