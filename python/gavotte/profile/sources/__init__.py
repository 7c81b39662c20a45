"""Sources of traffic, each with a file and an entry in `SOURCES`. A reader takes a `Request` and returns `Traffic`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gavotte.profile.gathering import Request
from gavotte.profile.naming import Names, address, executor, pod, process, rank
from gavotte.profile.sources.dask import read_dask
from gavotte.profile.sources.exports import read_exports
from gavotte.profile.sources.flows import read_flows
from gavotte.profile.sources.live import read_live
from gavotte.profile.sources.mpip import read_mpip
from gavotte.profile.sources.nccl import read_nccl
from gavotte.profile.sources.ompi import read_ompi
from gavotte.profile.sources.pcap import read_pcap
from gavotte.profile.sources.pmpi import read_pmpi
from gavotte.profile.sources.spark import read_spark
from gavotte.profile.traffic import Traffic

Reader = Callable[[Request], Traffic]
"""Function that reads what a request asks for and returns its Traffic."""


@dataclass(frozen=True)
class Source:
    """Source of traffic: its reader, and what the reader can do.

    Attributes:
        read: the reader.
        names: kind of identifier that the source has for tasks.
        help: description of the source, in one sentence.
        inputs: description of its input files, in one sentence.
        timed: whether it knows when bytes were sent, so that it can return a series.
        listens: whether it can receive its input over UDP.
        watches: whether it watches running processes, without input files.
        captures: whether it can capture packets on an interface.
        counts_calls: whether it knows a collective by its call, and not only by the messages that it consists of.
    """

    read: Reader
    names: Names
    help: str
    inputs: str
    timed: bool = False
    listens: bool = False
    watches: bool = False
    captures: bool = False
    counts_calls: bool = False


def _exports(kind: str, what: str) -> Source:
    return Source(
        read_exports(kind),
        address,
        f"Read what {what}, from a capture or as it comes in.",
        "Captures of the datagrams: pcap or pcapng, gzip or plain.",
        timed=True,
        listens=True,
    )


SOURCES: dict[str, Source] = {
    "pcap": Source(
        read_pcap,
        address,
        "Read captures of tcpdump or Wireshark, or capture.",
        "pcap or pcapng files, gzip or plain; - is standard input.",
        timed=True,
        captures=True,
    ),
    "sflow": _exports("sflow", "sFlow agents sampled"),
    "netflow": _exports("netflow", "NetFlow meters (versions 5 and 9) exported"),
    "ipfix": _exports("ipfix", "IPFIX meters exported"),
    "live": Source(
        read_live,
        process,
        "Watch what sockets send and receive, here or on all hosts.",
        "Processes to watch, by name or number. By default all.",
        timed=True,
        watches=True,
    ),
    "ompi": Source(
        read_ompi,
        rank,
        "Read what Open MPI's monitoring component counted: ranks become tasks.",
        "The *.prof files of all ranks of one run.",
    ),
    "pmpi": Source(
        read_pmpi,
        rank,
        "Read what the counting shim saw of an MPI program: ranks become tasks.",
        "The *.pmpi files of all ranks of one run.",
        counts_calls=True,
    ),
    "spark": Source(
        read_spark,
        executor,
        "Read the shuffles in an event log of Spark: executors become tasks.",
        "Event logs, or folders of rolled ones; plain, gzip or zstd.",
        timed=True,
    ),
    "dask": Source(
        read_dask,
        address,
        "Read the transfer logs of Dask's workers.",
        "JSON of each worker's transfer_incoming_log.",
        timed=True,
    ),
    "nccl": Source(
        read_nccl,
        rank,
        "Read NCCL's debug logs: ranks become tasks.",
        "Logs with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,GRAPH,COLL,TUNING.",
    ),
    "flows": Source(
        read_flows,
        pod,
        "Read flow logs: VPC of AWS or GCP, Hubble.",
        "Text, CSV, JSON lines or Parquet.",
        timed=True,
    ),
    "mpip": Source(
        read_mpip,
        rank,
        "Read the communication matrix of an mpiP report: ranks become tasks.",
        "What mpiP left of a run.",
    ),
}
