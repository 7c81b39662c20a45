"""Traffic between hosts of a lab, and the received bytes: run as a program in the lab, by path.

    traffic.py sink PORT SECONDS [--bin S]         counts TCP and UDP payload by source address, in bins; prints JSON
    traffic.py tcp ADDRESS PORT SECONDS FLOWS [AT]  sends as fast as CUBIC allows, set on each socket, from AT on
    traffic.py udp ADDRESS PORT SECONDS BPS [AT]   sends 1400-byte datagrams at a pace
    traffic.py serve PORT SECONDS                  answers each connection's 8 bytes, a length, with that many bytes
    traffic.py fetch ADDRESS PORT COUNT BYTES GAP  requests COUNT times, each on a connection; prints times in seconds
    traffic.py push ADDRESS PORT COUNT BYTES GAP   the same with bytes in the request and an answer of one byte
    traffic.py echo PORT SECONDS                   sends datagrams back
    traffic.py rtt ADDRESS PORT COUNT GAP          sends one datagram after the other there and back; prints seconds

AT is a moment of the monotonic clock. With - for AT, or for SECONDS of a sink, the program prints "ready" and reads
from its standard input when it begins, or ends. `udp` also takes --from ADDRESS, --priority NUMBER and --payload TEXT.

The program needs only Python's own library, because a host starts dozens of it.
"""

from __future__ import annotations

import contextlib
import json
import select
import socket
import sys
import time
from collections import defaultdict

CONGESTION = b"cubic"
"""The lab's default may be BBR, which hardly reacts to loss."""

PAYLOAD = 1400


def sink(port: int, seconds: float | None, bin_s: float) -> None:
    """Count arrivals by source address; the clock is the machine's monotonic one, the same on all lab hosts.

    Without `seconds`, the moment of the end is read once the sockets are open.
    """
    listener = socket.create_server(("", port), family=socket.AF_INET6, backlog=1024, dualstack_ipv6=True)
    datagrams = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    datagrams.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    datagrams.bind(("", port))
    listener.setblocking(False)
    datagrams.setblocking(False)
    bins: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    sources: dict[socket.socket, str] = {}
    begin = time.monotonic()
    waiting = select.epoll()
    byfd = {listener.fileno(): listener, datagrams.fileno(): datagrams}
    for fd in byfd:
        waiting.register(fd, select.EPOLLIN)
    print("ready", flush=True)
    end = float(sys.stdin.readline()) if seconds is None else begin + seconds
    while (left := end - time.monotonic()) > 0:
        for fd, _ in waiting.poll(left):
            ready = byfd[fd]
            if ready is listener:
                flow, (address, *_) = listener.accept()
                flow.setblocking(False)
                sources[flow], byfd[flow.fileno()] = address, flow
                waiting.register(flow.fileno(), select.EPOLLIN)
                continue
            count, address = 0, sources.get(ready, "")
            if ready is datagrams:
                with contextlib.suppress(BlockingIOError):
                    data, (address, *_) = datagrams.recvfrom(65536)
                    count = len(data)
            else:
                try:
                    count = len(ready.recv(1 << 18))
                except BlockingIOError:
                    continue
                except OSError:
                    count = 0
                if not count:
                    waiting.unregister(fd)
                    del byfd[fd]
                    ready.close()
                    continue
            bins[address.removeprefix("::ffff:")][int((time.monotonic() - begin) / bin_s)] += count
    print(
        json.dumps(
            {
                "begin": begin,
                "bin_s": bin_s,
                "bins": {a: [b.get(i, 0) for i in range(int((end - begin) / bin_s))] for a, b in bins.items()},
            }
        )
    )


def family(address: str) -> socket.AddressFamily:
    """IPv4 or IPv6."""
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def tcp(address: str, port: int, seconds: float, flows: int) -> None:
    """Send on several connections until the time is over."""
    end = time.monotonic() + seconds
    block = bytes(1 << 16)
    sockets = []
    waiting = select.epoll()
    for _ in range(flows):
        one = socket.socket(family(address))
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, CONGESTION)
        # Bounded, so that few bytes are on their way when the time is over.
        one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        one.settimeout(max(0.1, end - time.monotonic()))
        one.connect((address, port))
        one.setblocking(False)
        sockets.append(one)
        waiting.register(one.fileno(), select.EPOLLOUT)
    byfd = {one.fileno(): one for one in sockets}
    while byfd and (left := end - time.monotonic()) > 0:
        for fd, _ in waiting.poll(left):
            try:
                byfd[fd].send(block)
            except BlockingIOError:
                continue
            except ConnectionError:
                # The sink's time is over.
                waiting.unregister(fd)
                del byfd[fd]


def option(words: list[str], name: str) -> str | None:
    """Remove an option and its value from the words, and return the value."""
    if name not in words:
        return None
    at = words.index(name)
    value = words[at + 1]
    del words[at : at + 2]
    return value


def udp(address: str, port: int, seconds: float, rate_bps: float, options: dict[str, str | None]) -> None:
    """Send at a pace, several datagrams a wake-up."""
    one = socket.socket(family(address), socket.SOCK_DGRAM)
    if own := options["--from"]:
        one.bind((own, 0))
    if priority := options["--priority"]:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, int(priority))
    one.connect((address, port))
    one.setblocking(False)
    text = options["--payload"]
    payload = text.encode() if text else bytes(PAYLOAD)
    begin = time.monotonic()
    sent = 0
    while (now := time.monotonic()) < begin + seconds:
        due = int((now - begin) * rate_bps / 8 / (len(payload) + 42))
        for _ in range(min(64, due - sent)):
            with contextlib.suppress(OSError):
                one.send(payload)
        sent = due
        time.sleep(0.002)


def serve(port: int, seconds: float) -> None:
    """Answer short requests, one after the other, until the time is over."""
    listener = socket.create_server(("", port), backlog=1024)
    end = time.monotonic() + seconds
    print("ready", flush=True)
    while (left := end - time.monotonic()) > 0:
        listener.settimeout(left)
        with contextlib.suppress(OSError):
            flow, _ = listener.accept()
            with flow:
                flow.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, CONGESTION)
                flow.settimeout(10.0)
                more, back = (int.from_bytes(flow.recv(4, socket.MSG_WAITALL), "big") for _ in range(2))
                flow.recv(more, socket.MSG_WAITALL)
                flow.sendall(bytes(back))


def fetch(address: str, port: int, count: int, more: int, back: int, gap_s: float) -> None:
    """Send short flows: a connection, a request with this many bytes more, and an answer of this many bytes each."""
    took = []
    for _ in range(count):
        begin = time.monotonic()
        with socket.create_connection((address, port), timeout=10.0) as flow:
            flow.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, CONGESTION)
            flow.sendall(more.to_bytes(4, "big") + back.to_bytes(4, "big") + bytes(more))
            left = back
            while left and (data := flow.recv(left)):
                left -= len(data)
        took.append(time.monotonic() - begin)
        time.sleep(gap_s)
    print(json.dumps(took))


def echo(port: int, seconds: float) -> None:
    """Send datagrams back until the time is over."""
    one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    one.bind(("", port))
    end = time.monotonic() + seconds
    print("ready", flush=True)
    while (left := end - time.monotonic()) > 0:
        one.settimeout(left)
        with contextlib.suppress(OSError):
            data, sender = one.recvfrom(2048)
            one.sendto(data, sender)


def rtt(address: str, port: int, count: int, gap_s: float) -> None:
    """Measure round trips of datagrams, one at a time."""
    one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    one.connect((address, port))
    one.settimeout(0.5)
    took = []
    for _ in range(count):
        begin = time.perf_counter()
        with contextlib.suppress(OSError):
            one.send(bytes(64))
            one.recv(2048)
            took.append(time.perf_counter() - begin)
        if gap_s:
            time.sleep(gap_s)
    print(json.dumps(took))


def at(words: list[str]) -> None:
    """Wait until the moment in the last argument, if there is one."""
    if len(words) > 4:
        moment = words[4]
        if moment == "-":
            print("ready", flush=True)
            moment = sys.stdin.readline()
        time.sleep(max(0.0, float(moment) - time.monotonic()))


if __name__ == "__main__":
    kind, *words = sys.argv[1:]
    if kind == "sink":
        sink(int(words[0]), None if words[1] == "-" else float(words[1]), float(words[2]) if len(words) > 2 else 0.2)
    elif kind == "serve":
        serve(int(words[0]), float(words[1]))
    elif kind == "echo":
        echo(int(words[0]), float(words[1]))
    elif kind == "rtt":
        rtt(words[0], int(words[1]), int(words[2]), float(words[3]))
    elif kind in ("fetch", "push"):
        size = int(words[3])
        fetch(words[0], int(words[1]), int(words[2]), *((0, size) if kind == "fetch" else (size, 1)), float(words[4]))
    elif kind == "tcp":
        at(words)
        tcp(words[0], int(words[1]), float(words[2]), int(words[3]))
    else:
        options = {name: option(words, name) for name in ("--from", "--priority", "--payload")}
        at(words)
        udp(words[0], int(words[1]), float(words[2]), float(words[3]), options)
