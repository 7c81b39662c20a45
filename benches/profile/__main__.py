"""Readers of captures and exports beside other tools, and predictors on made traffic.

    make bench-profile                              a capture of 2 GB; a week of hours, ten seeds
    make bench-profile ARGS="--gigabytes 0.5 --runs 3"

Prints GB a processor second and the largest resident memory of `gavotte profile pcap` beside tcpdump and tshark, whichever are installed,
on a capture that it makes: full Ethernet frames of 64 TCP connections between 16 hosts. Whoever is first pays for the
page cache: each runs once unmeasured. Then datagrams/s of the sFlow and NetFlow readers on what real meters exported,
repeated. Then each predictor's error on synthetic diurnal traffic of four pairs.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from benches.machine import machine
from tests.profile.recording import METERS
from tests.profile.test_exports import HERE, KIND, datagrams

from gavotte._core import Exports
from gavotte.profile import Count, Span, Traffic, predict

HOSTS, CONNECTIONS, PAYLOAD_BYTES = 16, 64, 1460
FRAME_BYTES = 14 + 40 + PAYLOAD_BYTES
BLOCK_FRAMES = 6400


def make_capture(path: Path, size_bytes: int) -> int:
    """Writes a pcap of about so many bytes; returns its payload."""
    row = np.zeros((BLOCK_FRAMES, 16 + FRAME_BYTES), dtype=np.uint8)
    number = np.arange(BLOCK_FRAMES)
    row[:, 8:16] = np.frombuffer(np.array([FRAME_BYTES] * 2, "<u4").tobytes(), np.uint8)
    frame = row[:, 16:]
    frame[:, 12:14] = (8, 0)
    frame[:, 14] = 0x45
    frame[:, 16:18] = divmod(40 + PAYLOAD_BYTES, 256)
    frame[:, 23] = 6
    source, target = number % HOSTS, (number % CONNECTIONS // HOSTS + 1 + number) % HOSTS
    for at, hosts in ((26, source), (30, target)):
        frame[:, at] = 10
        frame[:, at + 3] = hosts
    ports = (40000 + number % CONNECTIONS).astype(">u2").view(np.uint8).reshape(-1, 2)
    frame[:, 34:36], frame[:, 36:38] = ports, (19, 136)
    frame[:, 46] = 0x50
    blocks = max(size_bytes // row.size, 1)
    with path.open("wb") as stream:
        stream.write(np.array([0xA1B2C3D4, 4 << 16 | 2, 0, 0, 262144, 1], "<u4").tobytes())
        for block in range(blocks):
            sent = (block * (BLOCK_FRAMES // CONNECTIONS) + number // CONNECTIONS) * PAYLOAD_BYTES
            frame[:, 38:42] = (sent % (1 << 32)).astype(">u4").view(np.uint8).reshape(-1, 4)
            times = (block * BLOCK_FRAMES + number) * 10
            row[:, 0:4] = (1_700_000_000 + times // 1_000_000).astype("<u4").view(np.uint8).reshape(-1, 4)
            row[:, 4:8] = (times % 1_000_000).astype("<u4").view(np.uint8).reshape(-1, 4)
            stream.write(row.tobytes())
    return blocks * BLOCK_FRAMES * PAYLOAD_BYTES


def timed(command: list[str], runs: int) -> tuple[float, float]:
    """Median processor seconds of a command, which a busy machine changes little, and its largest resident memory in MB."""
    spent, peak = [], 0.0
    for run in range(runs + 1):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, used = os.wait4(process.pid, 0)
        if status:
            raise SystemExit(f"{command[0]} failed")
        if run:
            spent.append(used.ru_utime + used.ru_stime)
        peak = max(peak, used.ru_maxrss / 1e3)
    return statistics.median(spent), peak


def bench_captures(folder: Path, gigabytes: float, runs: int) -> None:
    path = folder / "bench.pcap"
    payload_bytes = make_capture(path, int(gigabytes * 1e9))
    size_bytes = path.stat().st_size
    print(
        f"\ncapture of {size_bytes / 1e9:.2f} GB, {payload_bytes / PAYLOAD_BYTES / 1e6:.2f} million packets, {runs} runs"
    )
    script = "from gavotte.profile import profile; import sys; "
    script += f"t = profile('pcap', sys.argv[1], name='b').traffic; assert t.bytes == {payload_bytes}, t.bytes"
    commands = {
        "gavotte": [sys.executable, "-c", script, str(path)],
        "tcpdump": ["tcpdump", "-nn", "-q", "-r", str(path)],
        "tshark": ["tshark", "-n", "-q", "-r", str(path), "-z", "conv,ip"],
    }
    for name, command in commands.items():
        if shutil.which(command[0]) is None:
            print(f"{name:10} is not installed")
            continue
        cpu_s, peak_mb = timed(command, runs if name != "tshark" else 1)
        print(
            f"{name:10} {cpu_s:8.2f} CPU-s {size_bytes / cpu_s / 1e9:7.3f} GB a CPU-second   at most {peak_mb:6.0f} MB"
        )


def bench_exports(seconds: float) -> None:
    print("\nexports as real meters made them, over and over")
    for meter in sorted(METERS):
        every = datagrams(HERE / f"{meter}.pcap.gz")
        exports = Exports(KIND[METERS[meter][1]], None, None)
        count, start_s = 0, time.perf_counter()
        while time.perf_counter() - start_s < seconds:
            for each in every:
                exports.datagram(each, "127.0.0.1", 9, 1.0)
            count += len(every)
        wall_s = time.perf_counter() - start_s
        size = sum(map(len, every)) / len(every)
        print(f"{meter:14} {count / wall_s:9.0f} datagrams/s {count * size / wall_s / 1e6:8.1f} MB/s")
    print(f"resident at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3:.0f} MB")


def diurnal(seed: int, *, days: int = 7, noise: float = 0.3, walk: float = 0.1) -> Traffic:
    """Hours of four pairs that follow the time of day, with noise of each hour and a walk that lasts."""
    draw = np.random.default_rng(seed)

    def spans() -> Iterator[Span]:
        level = np.zeros(4)
        for hour in range(24 * days):
            level = 0.8 * level + draw.normal(0, walk, 4)
            load = 2 + np.cos(2 * np.pi * (hour / 24 - np.arange(4) / 8))
            sizes = 1e9 * load * np.exp(level + draw.normal(0, noise, 4))
            pairs = {("a", f"b{n}"): Count.exact(round(float(size))) for n, size in enumerate(sizes)}
            yield Span(hour * 3600.0, (hour + 1) * 3600.0, pairs)

    return Traffic(("made",), ("a", *(f"b{n}" for n in range(4))), tuple(spans()))


def bench_predictors(seeds: int) -> None:
    print(
        f"\npredictors on a week of hours, seeds 0 to {seeds - 1}: bytes put to the wrong pair or missed, of those sent"
    )
    for noise, walk in ((0.1, 0.05), (0.3, 0.1), (0.1, 0.3)):
        found = [predict(diurnal(seed, noise=noise, walk=walk)).errors for seed in range(seeds)]
        told = ", ".join(f"{name} {statistics.mean(each[name] for each in found):.1%}" for name in found[0])
        print(f"noise {noise}, walk {walk}: {told}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--gigabytes", type=float, default=2.0)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--seeds", type=int, default=10)
    words = parser.parse_args()
    print(machine())
    with tempfile.TemporaryDirectory() as folder:
        bench_captures(Path(folder), words.gigabytes, words.runs)
    bench_exports(words.seconds)
    bench_predictors(words.seeds)


if __name__ == "__main__":
    main()
