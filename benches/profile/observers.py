"""Observers of a running job in the lab, as a user would have them: tcpdump, sFlow agents, live counters, the shim."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from gavotte import lab
from gavotte.errors import GavotteError
from gavotte.formats.inventory import read_inventory

GAVOTTE = str(Path(sys.executable).parent / "gavotte")
SNAP_BYTES = 96
SFLOW_PORT = 6343
AGENT = """daemonize: false
pcap_interface: eth0
plugins: sfprobe
sfprobe_receiver: {collector}:{port}
sampling_rate: {rate}
"""
START_S = 30.0
LONGEST_S = 90.0
EXPORT_S = 2.5
"""Longest time that pmacct's agents keep samples: they fill a datagram, or wait a second."""

Tasks = dict[str, str]


def spent_s(*words: str, without: str = "\0") -> dict[int, float]:
    """Return the processor seconds up to now of each program whose command line has one of these words, by process.

    pmacct's agents rename themselves, so they cannot be counted.

    Args:
        words: any of which counts.
        without: a word that excludes a program.
    """
    seconds = {}
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            line = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if any(word in line for word in words) and without not in line:
                threads = process.glob("task/*/schedstat")
                seconds[int(process.name)] = sum(int(each.read_text().split()[0]) for each in threads) / 1e9
    return seconds


def said(process: subprocess.Popen[str], word: str) -> list[str]:
    """Wait until a program has written a line with that word to stderr; return a list that receives its later lines.

    Raises:
        GavotteError: when it ends before.
    """
    assert process.stderr is not None
    stream = process.stderr
    later: list[str] = []

    def drain() -> None:
        with stream:
            later.extend(stream)

    for line in stream:
        if word in line:
            threading.Thread(target=drain, daemon=True).start()
            return later
    raise GavotteError(f"{process.args!r} ended before it was ready")


def _read(result: Path, messages: list[str]) -> dict[str, object]:
    """Return a command's output; a launcher in the lab may end before its program has written everything.

    Raises:
        GavotteError: with its stderr, if it printed nothing.
    """
    end_s = time.monotonic() + START_S
    while not (text := result.read_text()).endswith("}\n"):
        if time.monotonic() > end_s:
            raise GavotteError(f"{result.stem} found nothing", hint=" ".join(messages)[-300:])
        time.sleep(0.1)
    read: dict[str, object] = json.loads(text)
    return read


class Observers:
    """Observers of the hosts of one lab.

    Args:
        session: the lab.
        hosts: that have a task each.
        collector: a host without a task, which receives samples.
        folder: for their output.
        rate: one packet in this many is sampled.
    """

    def __init__(self, session: lab.Session, hosts: Sequence[str], collector: str, folder: Path, rate: int) -> None:
        self._lab, self._hosts, self._collector, self._folder, self._rate = session, hosts, collector, folder, rate
        self._address = {host.name: host.address for host in read_inventory(session.hosts_file).host}
        self._own = folder / "observers"
        self._own.mkdir(exist_ok=True)
        self.programs = {"pcap": (str(self._own),), "live": (f"serve --socket {session.folder}/",)}
        """Words of the command lines of each source's programs on the hosts, for `spent_s`."""
        self._tasks = self._own / "tasks"
        self._tasks.write_text("".join(f"{self._address[host]} t{n}\n" for n, host in enumerate(hosts)))

    @contextmanager
    def _running(self, lines: Sequence[tuple[str, list[str]]], word: str, *, stop: int) -> Iterator[None]:
        """Run programs on hosts, from when each has printed `word` until the block ends."""
        started = [
            self._lab.exec(
                host,
                line,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
            for host, line in lines
        ]
        try:
            for each in started:
                said(each, word)
            yield
        finally:
            for each in started:
                each.send_signal(stop)
            for each in started:
                try:
                    each.wait(START_S)
                except subprocess.TimeoutExpired:
                    each.kill()
                    each.wait()

    @contextmanager
    def pcap(self) -> Iterator[Callable[[], dict[str, object]]]:
        """Run one tcpdump a host, for the host's egress."""
        files = [self._own / f"{host}.pcap" for host in self._hosts]
        words = ["tcpdump", "-i", "eth0", "-Q", "out", "-B", "16384", "-s", str(SNAP_BYTES), "-Z", "root", "-w"]
        lines = [(host, [*words, str(file)]) for host, file in zip(self._hosts, files, strict=True)]
        with self._running(lines, "listening", stop=signal.SIGINT):
            yield lambda: self._profile("pcap", *map(str, files))
            time.sleep(0.5)

    @contextmanager
    def sflow(self) -> Iterator[Callable[[], dict[str, object]]]:
        """Run one pmacct a host that samples, and our collector."""
        words = [GAVOTTE, "profile", "sflow", "--listen", f"{self._address[self._collector]}:{SFLOW_PORT}"]
        words += ["--tasks", str(self._tasks), "--json"]
        result = self._own / "sflow.json"
        lines = []
        for host in self._hosts:
            config = self._own / f"{host}.pmacct"
            config.write_text(AGENT.format(collector=self._address[self._collector], port=SFLOW_PORT, rate=self._rate))
            lines.append((host, ["pmacctd", "-f", str(config)]))
        with result.open("w") as output:
            listening = self._lab.exec(self._collector, words, stdout=output, stderr=subprocess.PIPE, text=True)
            try:
                messages = said(listening, "waiting")
                with self._running(lines, "eth0", stop=signal.SIGINT):
                    time.sleep(0.5)
                    yield lambda: _read(result, messages)
                    time.sleep(EXPORT_S)
            finally:
                listening.send_signal(signal.SIGINT)
                listening.wait(START_S)

    @contextmanager
    def live(self) -> Iterator[Callable[[], dict[str, object]]]:
        """Have the agents read sockets."""
        result = self._own / "live.json"
        words = [GAVOTTE, "profile", "live", "--hosts", "lab", "--for", str(LONGEST_S), "--tasks", str(self._tasks)]
        with result.open("w") as output:
            watching = subprocess.Popen(
                [*words, "--json"], stdout=output, stderr=subprocess.PIPE, text=True, env=self._lab.environment()
            )
            try:
                messages = said(watching, "waiting")
                yield lambda: _read(result, messages)
                time.sleep(0.5)
            finally:
                watching.send_signal(signal.SIGINT)
                watching.wait(START_S)

    def _profile(self, source: str, *inputs: str) -> dict[str, object]:
        words = [GAVOTTE, "profile", source, *inputs, "--tasks", str(self._tasks), "--min-bytes", "0", "--json"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode:
            raise GavotteError(done.stderr.strip().splitlines()[-1])
        document: dict[str, object] = json.loads(done.stdout)
        return document
