"""The sources of traffic: one file each, one entry each. A reader takes inputs and names, and returns one `Traffic`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gavotte.profile.naming import Names, address, rank
from gavotte.profile.sources.mpip import read_mpip
from gavotte.profile.sources.pcap import read_pcap
from gavotte.profile.traffic import Traffic

Reader = Callable[[Sequence[str | Path], Mapping[str, str] | None], Traffic]
"""From inputs and what they call a task to its name (None: infer the tasks) to the Traffic."""


@dataclass(frozen=True)
class Source:
    """One source of traffic.

    Attributes:
        read: its reader.
        names: what it calls a task.
        help: what it reads, in one sentence.
        inputs: what its inputs are, in one sentence.
    """

    read: Reader
    names: Names
    help: str
    inputs: str


SOURCES: dict[str, Source] = {
    "pcap": Source(
        read_pcap, address, "Read captures of tcpdump or Wireshark.", "pcap or pcapng files, gzip or plain."
    ),
    "mpip": Source(
        read_mpip,
        rank,
        "Read the communication matrix of an mpiP report: ranks become tasks.",
        "What mpiP left of a run.",
    ),
}
