"""Messages of a neighbour: one after the other to random others, with waits of random length between.

    python traffic.py SEED BYTES WAIT_S HOST...

Waits are exponential, as those of the RPCA paper's background are Poisson (section V-A).
"""

from __future__ import annotations

import random
import socket
import sys
import threading
import time

PORT = 9400
CHUNK = 1 << 16


def swallow() -> None:
    """Receive from every connection."""
    listener = socket.create_server(("", PORT), backlog=32)
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=drain, args=(connection,), daemon=True).start()


def drain(connection: socket.socket) -> None:
    """Read to the end."""
    with connection:
        while connection.recv(CHUNK):
            pass


def main() -> None:
    """Send until killed."""
    seed, size_bytes, wait_s = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    choice = random.Random(seed)
    threading.Thread(target=swallow, daemon=True).start()
    chunk = bytes(CHUNK)
    while True:
        time.sleep(choice.expovariate(1 / wait_s))
        try:
            with socket.create_connection((choice.choice(sys.argv[4:]), PORT), timeout=10) as connection:
                for _ in range(size_bytes // CHUNK):
                    connection.sendall(chunk)
        except OSError:
            time.sleep(0.2)  # the other one does not listen yet


main()
