"""A sender that comes and goes, and a receiver for its bytes.

    python source.py sink [COUNT]
    python source.py full HOST SECONDS
    python source.py SEED MEAN_S SECONDS HOST LOG

`full` sends all the time. `sink` keeps the bytes that it has received in the file COUNT.
Otherwise times on and off are exponential (Choreo section 3.2), and the first state is
random. LOG gets each change as Unix time and 1 or 0.
"""

from __future__ import annotations

import random
import socket
import struct
import sys
import threading
import time
from pathlib import Path

PORT = 9500
CHUNK = bytes(1 << 16)


COUNT_S = 0.05
"""Time between two counts."""

received = [0]


def sink(count: Path | None) -> None:
    """Receive from every connection."""
    if count is not None:
        threading.Thread(target=keep_count, args=(count,), daemon=True).start()
    listener = socket.create_server(("", PORT), backlog=64)
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=drain, args=(connection,), daemon=True).start()


def drain(connection: socket.socket) -> None:
    """Read to the end."""
    with connection:
        try:
            while data := connection.recv(1 << 18):
                received[0] += len(data)
        except OSError:
            return


def keep_count(path: Path) -> None:
    """Write the number of bytes again and again."""
    while True:
        path.with_suffix(".new").write_text(str(received[0]))
        path.with_suffix(".new").rename(path)
        time.sleep(COUNT_S)


def on(host: str, until: float) -> None:
    """Keep one backlogged cubic connection; at its end it is cut off as if its data had ended."""
    with socket.socket() as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.settimeout(0.2)
        connection.connect((host, PORT))
        while time.time() < until:
            try:
                connection.send(CHUNK)
            except TimeoutError:
                continue


def main() -> None:
    """Send by turns until the time is over."""
    if sys.argv[1] == "sink":
        sink(Path(sys.argv[2]) if len(sys.argv) > 2 else None)
    if sys.argv[1] == "full":
        on(sys.argv[2], time.time() + float(sys.argv[3]))
        return
    choice = random.Random(int(sys.argv[1]))
    mean_s, end = float(sys.argv[2]), time.time() + float(sys.argv[3])
    sending = choice.random() < 0.5
    with Path(sys.argv[5]).open("w", buffering=1) as log:
        while (now := time.time()) < end:
            until = min(end, now + choice.expovariate(1 / mean_s))
            log.write(f"{now} {int(sending)}\n")
            if sending:
                on(sys.argv[4], until)
            else:
                time.sleep(until - now)
            sending = not sending
        log.write(f"{time.time()} 0\n")


if __name__ == "__main__":
    main()
