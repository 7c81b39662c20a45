"""Replays of a traced MPI job by SimGrid's SMPI, on a platform made from a measured Network."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import quoteattr

from gavotte.formats.network import Network
from gavotte.formats.trace import MpiTrace
from gavotte.profile.traces.smpi import FLOPS_PER_S, smpi_lines
from gavotte.terms.goodput import GOODPUT_PER_WIRE

MAIN = Path("/usr/lib/x86_64-linux-gnu/simgrid/smpireplaymain")
REPLAY_S = 300.0
USUAL_LATENCY_S = 5e-5
"""Latency of pairs without a measured one."""


def available() -> bool:
    """Whether SimGrid is installed."""
    return shutil.which("smpirun") is not None and MAIN.exists()


def platform(network: Network) -> str:
    """Return a SimGrid platform with a link for each cap of a host and of a group, and a route for each ordered pair.

    SMPI's default model takes the headers of packets off the links' rates, so they are those of the wire.
    """
    lines = ["<?xml version='1.0'?>", '<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">']
    lines += ['<platform version="4.1">', '<zone id="z" routing="Full">']
    lines += [f'<host id={quoteattr(name)} speed="{FLOPS_PER_S / 1e9:g}Gf"/>' for name in network.names]
    links: dict[str, float] = {}
    for host in network.hosts:
        links |= {f"{host.name} out": host.egress_bps or 0.0, f"{host.name} in": host.ingress_bps or 0.0}
    for group in network.groups:
        links |= {f"{group.name} up": group.up_bps or 0.0, f"{group.name} down": group.down_bps or 0.0}
    links = {name: rate_bps for name, rate_bps in links.items() if rate_bps}
    for name, rate_bps in links.items():
        rate = f"{rate_bps / GOODPUT_PER_WIRE / 8:.0f}Bps"
        lines.append(f'<link id={quoteattr(name)} bandwidth="{rate}" latency="0s"/>')
    latencies: dict[float, str] = {}
    for i, source in enumerate(network.names):
        for j, target in enumerate(network.names):
            if i == j:
                continue
            latency_s = network.pair_latency_s(i, j) or USUAL_LATENCY_S
            name = latencies.setdefault(round(latency_s, 6), f"latency {len(latencies)}")
            left = [f"{g.name} up" for g in network.groups if source in g.members and target not in g.members]
            entered = [f"{g.name} down" for g in network.groups if target in g.members and source not in g.members]
            way = [f"{source} out", *left, *entered, f"{target} in"]
            route = "".join(f"<link_ctn id={quoteattr(link)}/>" for link in [*(w for w in way if w in links), name])
            ends = f"src={quoteattr(source)} dst={quoteattr(target)}"
            lines.append(f'<route {ends} symmetrical="NO">{route}</route>')
    first = next(number for number, line in enumerate(lines) if line.startswith("<route"))
    waits = [
        f'<link id={quoteattr(name)} bandwidth="1e12Bps" latency="{latency_s:.6f}s" sharing_policy="FATPIPE"/>'
        for latency_s, name in latencies.items()
    ]
    return "\n".join([*lines[:first], *waits, *lines[first:], "</zone>", "</platform>", ""])


class Smpi:
    """A traced job that SMPI replays in any order of hosts."""

    def __init__(self, network: Network, trace: MpiTrace, folder: Path) -> None:
        """Write the trace and the platform.

        Args:
            network: the Network.
            trace: the job's trace.
            folder: folder for files.
        """
        self._folder = folder
        self._ranks = len(trace.ranks)
        (folder / "job.smpi").write_text("".join(f"{line}\n" for line in smpi_lines(trace)))
        (folder / "list").write_text(f"{folder / 'job.smpi'}\n")
        (folder / "platform.xml").write_text(platform(network))

    def seconds(self, order: Sequence[str]) -> float:
        """Return the time of the job from MPI_Init to MPI_Finalize in an order of hosts.

        Raises:
            RuntimeError: with what SMPI printed, when it fails.
        """
        (self._folder / "hosts").write_text("".join(f"{host}\n" for host in order))
        words: list[str | Path] = ["smpirun", "-no-privatize", "-replay", self._folder / "list"]
        words += ["-np", str(self._ranks), "-hostfile", self._folder / "hosts"]
        words += ["-platform", self._folder / "platform.xml", MAIN, "--cfg=smpi/host-speed:1Gf"]
        ran = subprocess.run(words, capture_output=True, text=True, timeout=REPLAY_S, check=False, cwd=self._folder)
        match = re.search(r"Simulation time ([\d.]+)", ran.stderr)
        if ran.returncode or match is None:
            raise RuntimeError(ran.stderr[-2000:])
        return float(match[1])
