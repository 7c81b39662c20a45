"""Has real flow meters read a capture, and records their exported datagrams.

    python -m tests.profile.recording FOLDER

makes tests/profile/recorded/*.pcap.gz again, from the example's capture, with Debian's softflowd and pmacct.
"""

from __future__ import annotations

import gzip
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import dpkt

CAPTURE = Path(__file__).parents[2] / "python" / "gavotte" / "demo" / "pagerank" / "pagerank.pcap.gz"
PMACCT = """daemonize: false
pcap_savefile: {capture}
plugins: {plugin}
{more}
"""
SFLOW = "sfprobe_receiver: 127.0.0.1:{port}\nsampling_rate: {rate}\n"
NFPROBE = "nfprobe_receiver: 127.0.0.1:{port}\nnfprobe_version: {version}\n{aggregate}\n"

AGGREGATE = "aggregate: src_host,dst_host,src_port,dst_port,proto"

METERS = {
    "softflowd-5": ("softflowd", "5"),
    "softflowd-9": ("softflowd", "9"),
    "softflowd-10": ("softflowd", "10"),
    "pmacctd-sflow": ("pmacctd", "sflow"),
    "pmacctd-9": ("pmacctd", "9"),
    "pmacctd-10": ("pmacctd", "10"),
}


def available(meter: str) -> bool:
    """Whether the meter's program is installed."""
    return shutil.which(METERS[meter][0]) is not None


def record(meter: str, capture: Path, target: Path, *, rate: int = 1) -> int:
    """Write the meter's export of a capture as a pcap of its datagrams; return their number."""
    program, kind = METERS[meter]
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
        if program == "softflowd":
            files = ["-p", f"/tmp/softflowd-{port}", "-c", "none"]
            command = ["softflowd", "-d", "-r", str(capture), "-n", f"127.0.0.1:{port}", "-v", kind, *files]
        else:
            more = (
                SFLOW.format(port=port, rate=rate)
                if kind == "sflow"
                else NFPROBE.format(port=port, version=kind, aggregate=AGGREGATE)
            )
            plugin = "sfprobe" if kind == "sflow" else "nfprobe"
            config = Path(folder) / "pmacctd.conf"
            config.write_text(PMACCT.format(capture=capture, plugin=plugin, more=more))
            command = ["pmacctd", "-f", str(config)]
        meter_process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        items: list[tuple[float, bytes, tuple[str, int]]] = []
        sock.settimeout(0.5)
        silent = 0
        # softflowd reads, waits, exports and ends; pmacctd exports and stays.
        while silent < (6 if items else 20):
            try:
                payload, sender = sock.recvfrom(65535)
                items.append((time.time(), payload, sender))
                silent = 0
            except TimeoutError:
                silent += 1
        meter_process.terminate()
        try:
            meter_process.wait(10)
        except subprocess.TimeoutExpired:
            meter_process.kill()
            meter_process.wait()
        sock.settimeout(0.2)
        while True:
            try:
                payload, sender = sock.recvfrom(65535)
                items.append((time.time(), payload, sender))
            except TimeoutError:
                break
        Path(f"/tmp/softflowd-{port}").unlink(missing_ok=True)
    write(target, items, port)
    return len(items)


def write(target: Path, result: list[tuple[float, bytes, tuple[str, int]]], port: int = 6343) -> None:
    """Write datagrams as a pcap of raw IP."""
    with target.open("wb") as stream:
        writer = dpkt.pcap.Writer(stream, linktype=101)
        for time_s, payload, (address, source_port) in result:
            udp = dpkt.udp.UDP(sport=source_port, dport=port, data=payload, ulen=8 + len(payload))
            ip = dpkt.ip.IP(src=socket.inet_aton(address), dst=socket.inet_aton("127.0.0.1"), p=17, data=udp)
            ip.len = 20 + 8 + len(payload)
            writer.writepkt(bytes(ip), ts=time_s)


def ethernet(cooked: bytes) -> bytes:
    """Convert a cooked capture (Linux, version 2) to Ethernet, the only kind that some meters read."""
    head = struct.pack("=IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 1)
    out = [head]
    at = 24
    while at < len(cooked):
        seconds, ticks, kept, wire = struct.unpack_from("<IIII", cooked, at)
        frame = cooked[at + 16 : at + 16 + kept]
        out.append(struct.pack("=IIII", seconds, ticks, kept - 6, wire - 6) + bytes(12) + frame[:2] + frame[20:])
        at += 16 + kept
    return b"".join(out)


def main(folder: Path) -> None:
    """Make the recordings of the tests."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        Path(scratch).chmod(0o755)  # softflowd gives up its privileges before it reads
        plain = Path(scratch) / "plain.pcap"
        plain.write_bytes(ethernet(gzip.decompress(CAPTURE.read_bytes())))
        for meter in METERS:
            result = Path(scratch) / f"{meter}.pcap"
            count = record(meter, plain, result, rate=20)
            target = folder / f"{meter}.pcap.gz"
            target.write_bytes(gzip.compress(result.read_bytes(), mtime=0))
            print(f"{meter}: {count} datagrams, {target.stat().st_size} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
