"""A neighbour on a shared machine: long silence, then a burst of many connections to another neighbour at once.

    python bursts.py SEED WAIT_S LENGTH_S FLOWS HOST...

Waits are exponential, as the RPCA paper's are Poisson (section V-A). A burst has 1 + Exp(FLOWS) connections for
Exp(LENGTH_S). A transfer at the same time takes that many times as long: rare and long-tailed.
"""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import sys
import threading
import time

PORT = 9401
CHUNK = 1 << 14
MOST_FLOWS = 32
MOST_LENGTHS = 4.0
"""Longest burst, so that the share of time with one is the requested share."""


def swallow() -> None:
    """Receive from every connection."""
    listener = socket.create_server(("", PORT), backlog=64)
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=drain, args=(connection,), daemon=True).start()


def drain(connection: socket.socket) -> None:
    """Read to the end."""
    with connection, contextlib.suppress(OSError):
        while connection.recv(CHUNK):
            pass


def fill(host: str, until_s: float) -> None:
    """Send over one connection at full rate until this time; bytes still in its buffer are thrown away."""
    with contextlib.suppress(OSError), socket.create_connection((host, PORT), timeout=5) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 15)
        chunk = bytes(CHUNK)
        while (left_s := until_s - time.monotonic()) > 0:
            connection.settimeout(left_s)
            connection.send(chunk)


def main() -> None:
    """Send bursts until killed."""
    choice = random.Random(int(sys.argv[1]))
    wait_s, length_s, flows = (float(word) for word in sys.argv[2:5])
    threading.Thread(target=swallow, daemon=True).start()
    while True:
        time.sleep(choice.expovariate(1 / wait_s))
        host = choice.choice(sys.argv[5:])
        until_s = time.monotonic() + min(choice.expovariate(1 / length_s), MOST_LENGTHS * length_s)
        count = min(MOST_FLOWS, 1 + int(choice.expovariate(1 / flows)))
        burst = [threading.Thread(target=fill, args=(host, until_s), daemon=True) for _ in range(count)]
        for thread in burst:
            thread.start()
        for thread in burst:
            thread.join()


main()
