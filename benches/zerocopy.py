"""Compares system calls that send and receive bulk TCP without copies to those that the agent uses, on links without a limit.

    make bench-zerocopy [ARGS="--samples 12 --seconds 0.4"]

A sender and a receiver in C (`zerocopy.c`) use one system call each. The first way of each table is the agent's:

- Probes send one block of zeros by `write` again and again, and the receiver discards (`MSG_TRUNC`).
- Broadcasts send a file by `pread` and `write`, and the receiver reads, because it checks every byte.

The ways take turns, so that other work on the machine affects all of them. A ratio is the median over samples of a way's
rate, or processor time, to the agent's in the same turn, with the interval that contains the middle half. `s/GB` is the
processor time of both programs for each gigabyte that arrived; work of the kernel in interrupts counts for the program
that it interrupts. The last table compares agents' own transfers over a veth link with and without `--encrypt`, with the processor
time of both agents. `copied` is the share of sends with `MSG_ZEROCOPY` whose bytes the kernel copied after all.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benches.encrypted import costs
from benches.machine import machine

from gavotte import lab
from gavotte.formats.topology import FORMAT, Topology

PROBES = (
    ("write", "discard"),
    ("zerocopy", "discard"),
    ("sendfile", "discard"),
    ("write", "splice"),
    ("write", "read"),
)
BROADCASTS = (("file", "read"), ("sendfile", "read"), ("zerocopy", "read"), ("file", "splice"))
LINKS = ("veth", "loopback", "agents")
FILE_BYTES = 64 << 20
LIMIT_S = 30
TWO_HOSTS = Topology.model_validate(
    {
        "format": FORMAT,
        "switch": [{"name": "s"}],
        "host": [{"name": "a", "switch": "s"}, {"name": "b", "switch": "s"}],
    }
)
PORTS = itertools.count(7000)


@dataclass(frozen=True)
class Sample:
    """One transfer: its rate, the processor time of each side per gigabyte, and the share of sends that were copied."""

    rate_bps: float
    sender_s_per_gb: float
    receiver_s_per_gb: float
    copied: float | None


@dataclass(frozen=True)
class Bench:
    """What all samples have in common."""

    session: lab.Session
    program: Path
    file: Path
    seconds: float

    def sample(self, receiver: str, address: str, connections: int, way: tuple[str, str]) -> Sample:
        """Send from host a to an address of the host `receiver` by a way: the sender's call and the receiver's."""
        send, receive = way
        port, count = str(next(PORTS)), str(connections)
        line = [str(self.program), "receive", port, count, receive]
        listening = self.session.exec(receiver, line, stdout=subprocess.PIPE, text=True)
        assert listening.stdout is not None
        try:
            listening.stdout.readline()
            words = ["send", address, port, count, str(self.seconds), send, str(self.file)]
            sent = self.session.run("a", [str(self.program), *words], capture_output=True, text=True, timeout=LIMIT_S)
            _, sender_s, uncopied, copied = map(float, sent.stdout.split())
            arrived, seconds, receiver_s = map(float, listening.stdout.readline().split())
            listening.wait(LIMIT_S)
        finally:
            listening.stdout.close()
        notices = uncopied + copied
        gb = arrived / 1e9
        return Sample(8 * arrived / seconds, sender_s / gb, receiver_s / gb, copied / notices if notices else None)

    def turns(
        self, receiver: str, address: str, connections: int, ways: Sequence[tuple[str, str]], samples: int
    ) -> list[list[Sample]]:
        """Return the samples of each way; each turn begins with the next way, and the first turn does not count."""
        taken: list[list[Sample]] = [[] for _ in ways]
        for turn in range(samples + 1):
            for place in range(len(ways)):
                number = (turn + place) % len(ways)
                sample = self.sample(receiver, address, connections, ways[number])
                if turn:
                    taken[number].append(sample)
        return taken


def ratio(values: Sequence[float], own: Sequence[float]) -> str:
    """Format the median of values to those of the agent's way in the same turn, and the interval of the middle half."""
    low, middle, high = statistics.quantiles((one / other for one, other in zip(values, own, strict=True)), n=4)
    return f"{middle:5.2f} ({low:.2f} to {high:.2f})"


def rows(ways: Sequence[tuple[str, str]], taken: Sequence[Sequence[Sample]]) -> Iterator[str]:
    """Yield a line of the table for each way."""
    rates = [[sample.rate_bps / 1e9 for sample in samples] for samples in taken]
    times = [[sample.sender_s_per_gb + sample.receiver_s_per_gb for sample in samples] for samples in taken]
    for number, ((send, receive), samples) in enumerate(zip(ways, taken, strict=True)):
        copied = [sample.copied for sample in samples if sample.copied is not None]
        sender_s = statistics.median(sample.sender_s_per_gb for sample in samples)
        yield (
            f"{send:9} {receive:8} {statistics.median(rates[number]):7.2f} {ratio(rates[number], rates[0]):>21} "
            f"{statistics.median(times[number]):6.3f} {sender_s:10.3f} {ratio(times[number], times[0]):>21} "
            f"{f'{statistics.mean(copied):7.0%}' if copied else ''}".rstrip()
        )


def main() -> None:
    """Print a table for each link, number of connections and use."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=12, help="of each way")
    parser.add_argument("--seconds", type=float, default=0.4, help="of each sample")
    parser.add_argument("--connections", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--only", choices=LINKS, nargs="+", default=LINKS)
    parser.add_argument("--agent-samples", type=int, default=3, help="transfers of agents, with and without encryption")
    arguments = parser.parse_args()
    if arguments.samples < 2:
        parser.error("--samples must be at least 2")
    with (
        tempfile.TemporaryDirectory(prefix="gavotte-zerocopy-") as name,
        lab.session(TWO_HOSTS, agents=False) as session,
    ):
        program, file = Path(name, "zerocopy"), Path(name, "file")
        source = Path(__file__).with_name("zerocopy.c")
        subprocess.run(["cc", "-O2", "-Wall", "-Wextra", "-o", str(program), str(source)], check=True)
        file.write_bytes(os.urandom(FILE_BYTES))
        bench = Bench(session, program, file, arguments.seconds)
        address = session.run("a", ["getent", "ahostsv4", "b"], capture_output=True, text=True).stdout.split()[0]
        links = {"veth": ("b", address), "loopback": ("a", "127.0.0.1")}
        print(f"machine: {machine()}\n{arguments.samples} samples of {arguments.seconds} s of each way")
        for link in [link for link in arguments.only if link in links]:
            for connections in arguments.connections:
                for use, ways in (("probes", PROBES), ("broadcasts", BROADCASTS)):
                    taken = bench.turns(*links[link], connections, ways, arguments.samples)
                    print(f"\n{use}, {link}, {connections} connection{'s' if connections > 1 else ''}")
                    print(
                        "send      receive   Gbit/s  ratio (middle half)    s/GB  of sender  ratio (middle half)  copied"
                    )
                    for row in rows(ways, taken):
                        print(row, flush=True)
        if "agents" in arguments.only:
            print("\nagents, veth, 1 connection\nkind      bytes      Gbit/s   s/GB")
            for row in costs(TWO_HOSTS, arguments.agent_samples):
                print(row, flush=True)
        print(f"\nload at the end {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
