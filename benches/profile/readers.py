"""Compares readers of captures and exports with other tools.

A capture is made first: full Ethernet frames of 64 TCP connections between 16 hosts. The first reader pays for the page
cache, so each runs once unmeasured. Exports are those of real meters, repeated; sFlow also comes as datagrams over UDP.
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from tests.profile.recording import METERS, write
from tests.profile.test_exports import HERE, KIND, datagrams

from gavotte._core import Exports

HOSTS, CONNECTIONS, PAYLOAD_BYTES = 16, 64, 1460
FRAME_BYTES = 14 + 40 + PAYLOAD_BYTES
BLOCK_FRAMES = 6400
FLOWS_MILLIONS = 1.0


def make_capture(path: Path, size_bytes: int) -> int:
    """Write a pcap of about this many bytes; return its payload."""
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


SPAWNER = """import os, sys
quiet = [(os.POSIX_SPAWN_OPEN, end, "/dev/null", os.O_WRONLY, 0) for end in (1, 2)]
child = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ, file_actions=quiet)
_, status, used = os.wait4(child, 0)
print(status, used.ru_utime + used.ru_stime, used.ru_maxrss)
"""
"""Starts a command from a small process, because Linux counts its parent's memory as the command's own."""


def timed(command: list[str], runs: int) -> tuple[float, float]:
    """Return a command's median processor seconds, which a busy machine changes little, and its peak MB."""
    spent, peak = [], 0.0
    for run in range(runs + 1):
        line = [sys.executable, "-S", "-c", SPAWNER, *command]
        status, cpu_s, most_kb = subprocess.run(line, stdout=subprocess.PIPE, text=True, check=True).stdout.split()
        if status != "0":
            raise SystemExit(f"{command[0]} failed")
        if run:
            spent.append(float(cpu_s))
        peak = max(peak, float(most_kb) / 1e3)
    return statistics.median(spent), peak


def bench_captures(folder: Path, gigabytes: float, runs: int, rows: list[list[str]]) -> bool:
    """Compare speeds; report whether a tenth of the capture takes as much memory, within a tenth."""
    path, tenth = folder / "bench.pcap", folder / "tenth.pcap"
    payload_bytes, tenth_bytes = make_capture(path, int(gigabytes * 1e9)), make_capture(tenth, int(gigabytes * 1e8))
    millions = payload_bytes / PAYLOAD_BYTES / 1e6
    print(f"\ncapture of {path.stat().st_size / 1e9:.2f} GB, {millions:.2f} million packets, {runs} runs")
    script = "from gavotte.profile import profile; import sys; "
    script += "t = profile('pcap', sys.argv[1], name='b').traffic; assert t.bytes == int(sys.argv[2]), t.bytes"
    commands = {
        "gavotte": [sys.executable, "-c", script, str(path), str(payload_bytes)],
        "gavotte, a tenth": [sys.executable, "-c", script, str(tenth), str(tenth_bytes)],
        "tcpdump": ["tcpdump", "-nn", "-q", "-r", str(path)],
        "tshark": ["tshark", "-n", "-q", "-r", str(path), "-z", "conv,ip"],
    }
    peaks = {}
    for name, command in commands.items():
        if shutil.which(command[0]) is None:
            print(f"{name:16} is not installed")
            continue
        cpu_s, peaks[name] = timed(command, runs if name != "tshark" else 1)
        size_bytes = (tenth if name.endswith("tenth") else path).stat().st_size
        rows.append([f"capture, {name}", f"{size_bytes / cpu_s / 1e9:.3f}", "", f"{peaks[name]:.0f}"])
        print(
            f"{name:16} {cpu_s:8.2f} CPU-s {size_bytes / cpu_s / 1e9:7.3f} GB a CPU-second   at most {peaks[name]:6.0f} MB"
        )
    flat = peaks["gavotte"] <= 1.1 * peaks["gavotte, a tenth"]
    print(f"memory for ten times as much: {'the same' if flat else 'MORE'}")
    return flat


def make_flows(path: Path, count: int) -> int:
    """Write a pcap of this many flows between as many pairs of hosts, two packets each; return its payload."""
    row = np.zeros((2 * count, 16 + 54), dtype=np.uint8)
    number = np.repeat(np.arange(count), 2)
    row[:, 0:4] = (1_700_000_000 + number // 10_000).astype("<u4").view(np.uint8).reshape(-1, 4)
    row[:, 8:16] = np.frombuffer(np.array([54, FRAME_BYTES], "<u4").tobytes(), np.uint8)
    frame = row[:, 16:]
    frame[:, 12:14] = (8, 0)
    frame[:, 14] = 0x45
    frame[:, 16:18] = divmod(40 + PAYLOAD_BYTES, 256)
    frame[:, 23] = 6
    source, target = number % 1000, number // 1000
    for at, hosts in ((26, source), (30, target + 1000)):
        frame[:, at : at + 4] = (hosts + (10 << 24)).astype(">u4").view(np.uint8).reshape(-1, 4)
    frame[:, 34:38] = np.array([40000, 5000], ">u2").view(np.uint8)
    frame[1::2, 38:42] = np.frombuffer(np.array([PAYLOAD_BYTES + 1], ">u4").tobytes(), np.uint8)
    frame[0::2, 38:42] = np.frombuffer(np.array([1], ">u4").tobytes(), np.uint8)
    frame[:, 46] = 0x50
    with path.open("wb") as stream:
        stream.write(np.array([0xA1B2C3D4, 4 << 16 | 2, 0, 0, 262144, 1], "<u4").tobytes())
        stream.write(row.tobytes())
    return 2 * count * PAYLOAD_BYTES


def flow_exports(count: int) -> list[bytes]:
    """Return datagrams of NetFlow version 5 with this many flows, each between another pair of hosts."""
    row = np.zeros((count, 48), dtype=np.uint8)
    number = np.arange(count)
    for at, hosts in ((0, number % 1000), (4, number // 1000 + 1000)):
        row[:, at : at + 4] = (hosts + (10 << 24)).astype(">u4").view(np.uint8).reshape(-1, 4)
    row[:, 16:24] = np.frombuffer(np.array([10, 15_000], ">u4").tobytes(), np.uint8)
    row[:, 32:36] = np.array([40000, 5000], ">u2").view(np.uint8)
    row[:, 38] = 6
    head = np.array([1000, 1_700_000_000, 0], ">u4").tobytes()
    made = []
    for first in range(0, count, 30):
        flows = row[first : first + 30]
        start = np.array([5, len(flows)], ">u2").tobytes() + head + np.array([first, 0], ">u4").tobytes()
        made.append(start + flows.tobytes())
    return made


def bench_flows(folder: Path, millions: float, rows: list[list[str]]) -> bool:
    """Compare memory with many flows and with a quarter of them; report whether it is the same, within a tenth."""
    count = int(millions * 1e6)
    script = "from gavotte.profile import profile; import sys; "
    script += "t = profile('pcap', sys.argv[1], name='b').traffic; assert t.bytes == int(sys.argv[2]), t.bytes"
    print(f"\n{count} flows, each between another pair of hosts")
    peaks: dict[str, list[float]] = {"capture": [], "--listen": []}
    for flows in (count // 4, count):
        path = folder / "flows.pcap"
        payload_bytes = make_flows(path, flows)
        cpu_s, peak_mb = timed([sys.executable, "-c", script, str(path), str(payload_bytes)], 1)
        peaks["capture"].append(peak_mb)
        size_bytes = path.stat().st_size
        rows.append([f"capture of {flows} flows, gavotte", f"{size_bytes / cpu_s / 1e9:.3f}", "", f"{peak_mb:.0f}"])
        print(f"capture of {flows} flows: {cpu_s:.2f} CPU-s, at most {peak_mb:.0f} MB")
        port, made = 2055, flow_exports(flows)
        listener = str(Path(sys.executable).with_name("gavotte"))
        words = [listener, "profile", "netflow", "--listen", f"127.0.0.1:{port}", "--json"]
        cpu_s, peak_mb = heard(words, port, made)
        peaks["--listen"].append(peak_mb)
        sent_bytes = sum(map(len, made))
        name = f"NetFlow over UDP of {flows} flows, gavotte --listen"
        rows.append([name, *_cells(len(made), sent_bytes, cpu_s), f"{peak_mb:.0f}"])
        print(f"{name}: {cpu_s:.2f} CPU-s, at most {peak_mb:.0f} MB")
    flat = all(most <= 1.1 * few for few, most in peaks.values())
    print(f"memory for four times as many flows: {'the same' if flat else 'MORE'}")
    return flat


def bench_exports(seconds: float) -> None:
    print("\nexports of real meters, repeated")
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


def bench_samples(folder: Path, count: int, rows: list[list[str]]) -> None:
    """Read sFlow from a capture, compared with tshark, and over UDP, compared with sfcapd, by processor time."""
    every = datagrams(HERE / "pmacctd-sflow.pcap.gz")
    many = [every[number % len(every)] for number in range(count)]
    path, port = folder / "sflow.pcap", 6343
    write(path, [(number / 1e4, each, ("10.9.0.1", 9)) for number, each in enumerate(many)], port)
    size_bytes = path.stat().st_size
    print(f"\nsFlow: {count} datagrams, {size_bytes / 1e6:.0f} MB")
    script = "from gavotte.profile import profile; import sys; "
    script += f"t = profile('sflow', sys.argv[1], name='b').traffic; assert t.seen['datagrams'] == {count}"
    commands = {
        "gavotte": [sys.executable, "-c", script, str(path)],
        "tshark": ["tshark", "-n", "-q", "-r", str(path), "-d", f"udp.port=={port},sflow", "-z", "conv,ip"],
    }
    for name, command in commands.items():
        if shutil.which(command[0]) is None:
            print(f"{name:18} is not installed")
            continue
        cpu_s, peak_mb = timed(command, 1)
        rows.append([f"sFlow capture, {name}", *_cells(count, size_bytes, cpu_s), f"{peak_mb:.0f}"])
        print(f"{name:18} {_pace(count, size_bytes, cpu_s)}   at most {peak_mb:6.0f} MB")
    listener = Path(sys.executable).with_name("gavotte")
    place = f"127.0.0.1:{port}"
    listening = {
        "gavotte --listen": [str(listener), "profile", "sflow", "--listen", place, "--json"],
        "sfcapd": ["sfcapd", "-b", "127.0.0.1", "-p", str(port), "-l", str(folder)],
    }
    for name, command in listening.items():
        if shutil.which(command[0]) is None:
            print(f"{name:18} is not installed")
            continue
        idle_s, _ = heard(command, port, [])
        cpu_s, peak_mb = heard(command, port, many)
        rows.append([f"sFlow over UDP, {name}", *_cells(count, size_bytes, cpu_s - idle_s), f"{peak_mb:.0f}"])
        print(f"{name:18} {_pace(count, size_bytes, cpu_s - idle_s)}   at most {peak_mb:6.0f} MB")


def heard(command: list[str], port: int, payloads: list[bytes]) -> tuple[float, float]:
    """Return a listener's processor seconds and peak MB while it gets these datagrams, 5,000 a second."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(5.0)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        began_s = time.perf_counter()
        for number, each in enumerate(payloads):
            sock.sendto(each, ("127.0.0.1", port))
            if number % 50 == 0:
                time.sleep(max(number / 5000 - (time.perf_counter() - began_s), 0))
    time.sleep(2.0)
    if process.poll() is not None:
        raise SystemExit(f"{command[0]} did not listen")
    process.send_signal(signal.SIGTERM)
    most = "0"
    # What it prints at its end takes memory, too.
    while not (ended := os.wait4(process.pid, os.WNOHANG))[0]:
        peaks = re.findall(r"VmHWM:\s*(\d+) kB", Path(f"/proc/{process.pid}/status").read_text())
        most = peaks[0] if peaks else most
        time.sleep(0.01)
    process.returncode = 0
    return ended[2].ru_utime + ended[2].ru_stime, float(most) / 1e3


def _cells(count: int, size_bytes: int, cpu_s: float) -> list[str]:
    return [f"{size_bytes / cpu_s / 1e9:.3f}", f"{count / cpu_s:.0f}"]


def _pace(count: int, size_bytes: int, cpu_s: float) -> str:
    return f"{count / cpu_s:9.0f} datagrams a CPU-second {size_bytes / cpu_s / 1e9:7.3f} GB a CPU-second"


def bench(gigabytes: float, runs: int, seconds: float, rows: list[list[str]]) -> bool:
    """Print speed and memory of all readers, and add a row each; report whether memory is flat."""
    with tempfile.TemporaryDirectory() as folder:
        flat = bench_captures(Path(folder), gigabytes, runs, rows)
    with tempfile.TemporaryDirectory() as folder:
        flat &= bench_flows(Path(folder), FLOWS_MILLIONS, rows)
    with tempfile.TemporaryDirectory() as folder:
        bench_samples(Path(folder), 50_000, rows)
    bench_exports(seconds)
    return flat
