"""Makes the example's files: runs PageRank in a lab of 16 hosts and captures its packets at the switch.

    python examples/pagerank/capture.py [FOLDER [-- OPTIONS OF PAGERANK.PY]]

It needs `mpirun` of Open MPI and `tcpdump`, and writes to FOLDER, by default python/gavotte/demo/pagerank, where the
demo reads them:

    pagerank.pcap.gz    headers of all segments with payload that crossed the switch
    truth.json          the program's own counts
    ranks.hosts         rank of each address

`gavotte profile pcap pagerank.pcap.gz --tasks ranks.hosts -o pagerank.app.toml` then makes the App.
"""

from __future__ import annotations

import argparse
import gzip
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gavotte.errors import GavotteError
from gavotte.formats.topology import read_topology
from gavotte.lab import Session, session

HERE = Path(__file__).parent
TARGET = HERE.parents[1] / "python" / "gavotte" / "demo" / "pagerank"
SWITCH = "core"
NEEDED = {"mpirun": "openmpi-bin", "tcpdump": "tcpdump"}

SNAP_BYTES = 72
"""Linux cooked header 20, IPv4 20, TCP with time stamps 32: the headers and nothing of the payload."""

FILTER = "tcp and (tcp[tcpflags] & tcp-syn != 0 or ip[2:2] - ((ip[0] & 0xf) << 2) - ((tcp[12] & 0xf0) >> 2) != 0)"
"""Openings of connections and segments with payload; bare acknowledgements would be 40 % of the file."""

FLUSH_S = 0.5
"""Time for tcpdump to fetch the last packets from the kernel. Without its immediate mode the kernel passes packets in
blocks that may be a second old, and those in the last block are lost.
"""


@contextmanager
def capturing(lab: Session, target: Path) -> Iterator[None]:
    """Capture all packets that enter the switch, each once, while the block runs."""
    command = ["tcpdump", "-i", "any", "-Q", "in", "-B", "16384", "-s", str(SNAP_BYTES), "-Z", "root"]
    tcpdump = lab.exec(
        SWITCH, [*command, "--immediate-mode", "-w", str(target), FILTER], stderr=subprocess.PIPE, text=True
    )
    assert tcpdump.stderr is not None
    message = ""
    try:
        for line in tcpdump.stderr:
            message = line
            if "listening on" in line:
                break
        else:
            raise GavotteError(f"tcpdump did not start: {message.strip()}")
        yield
        time.sleep(FLUSH_S)
    finally:
        tcpdump.terminate()  # not SIGINT, which is ignored below a shell's background job
        sys.stderr.write(tcpdump.communicate()[1])


def job(lab: Session, scratch: Path, arguments: list[str]) -> str:
    """Run the program with one rank a host, started from the first; return the line it prints.

    Open MPI names its temporary files by host and process number. All labs have the same ones, so each job gets a
    folder of its own.
    """
    hosts = [host.name for host in lab.status().hosts]
    mca = {
        "btl": "tcp,self",
        "btl_tcp_if_include": "eth0",
        "oob_tcp_if_include": "eth0",
        "mpi_yield_when_idle": "1",
        "orte_tmpdir_base": str(scratch),
    }
    options = [word for key, value in mca.items() for word in ("--mca", key, value)]
    mpirun = ["mpirun", "-n", str(len(hosts)), "--host", ",".join(hosts), "--map-by", "node", "--bind-to", "none"]
    program = [sys.executable, str(HERE / "pagerank.py"), *arguments]
    environment = lab.environment() | {"OPENBLAS_NUM_THREADS": "1"}
    command = [*mpirun, *options, "-x", "OPENBLAS_NUM_THREADS", *program]
    ran = lab.run(hosts[0], command, env=environment, stdout=subprocess.PIPE, text=True)
    if ran.returncode:
        raise GavotteError(f"mpirun left with status {ran.returncode}", hint=str(ran.stdout).strip())
    return str(ran.stdout)


def truth_text(line: str) -> str:
    """Format the program's line with one row of the matrix a line."""
    report = json.loads(line)
    rows = ",\n".join(f"    {json.dumps(row)}" for row in report.pop("payload_bytes"))
    return json.dumps(report, indent=2)[:-2] + f',\n  "payload_bytes": [\n{rows}\n  ]\n}}\n'


def main() -> int:
    """Capture one run."""
    parser = argparse.ArgumentParser(description="capture one run of PageRank in a lab")
    parser.add_argument("folder", type=Path, nargs="?", default=TARGET, help="where the files go")
    parser.add_argument("options", nargs="*", help="passed on to pagerank.py, behind a --")
    asked = parser.parse_args()
    folder = asked.folder
    for program, package in NEEDED.items():
        if shutil.which(program) is None:
            sys.stderr.write(f"error: `{program}` is not installed; install Debian's {package}\n")
            return 1
    topology = HERE / "cloud.topology.toml"
    try:
        with tempfile.TemporaryDirectory() as scratch:
            raw = Path(scratch) / "raw.pcap"
            with session(read_topology(topology), source=str(topology), agents=False) as lab:
                hosts = lab.status().hosts
                with capturing(lab, raw):
                    line = job(lab, Path(scratch), asked.options)
            packed = gzip.compress(raw.read_bytes(), 9, mtime=0)
    except GavotteError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    (folder / "pagerank.pcap.gz").write_bytes(packed)
    (folder / "truth.json").write_text(truth_text(line))
    ranks = "".join(f"{host.address} rank-{rank}\n" for rank, host in enumerate(hosts))
    (folder / "ranks.hosts").write_text("# Rank i ran on the i-th host of cloud.topology.toml.\n" + ranks)
    return 0


if __name__ == "__main__":
    sys.exit(main())
