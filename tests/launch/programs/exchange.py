"""Each rank sends bytes to the rank of its number on the next host, over TCP.

Arguments: bytes, and what else to do.
"""

import json
import os
import socket
import sys
import threading
import time

size, what = int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else ""
rank, each, count = (int(os.environ[name]) for name in ("RANK", "LOCAL_WORLD_SIZE", "WORLD_SIZE"))
sys.stdout.write(f"{rank} {socket.gethostname()}\n")
sys.stdout.flush()
if what == "fail" and rank == 1:
    sys.exit(3)
if what == "cat" and rank == 0:
    sys.stdout.write(sys.stdin.read())
if what in ("wait", "fail"):
    time.sleep(600)
master = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
listening = socket.create_server(("", 0))
own = listening.getsockname()[1]
if rank == 0:
    addresses: dict[str, tuple[str, int]] = {"0": (master[0], own)}
    files = []
    with socket.create_server(("", master[1])) as server:
        while len(addresses) < count:
            connection, (host, _) = server.accept()
            files.append(connection.makefile("rw"))
            number, port = json.loads(files[-1].readline())
            addresses[str(number)] = (host, port)
    for file in files:
        print(json.dumps(addresses), file=file, flush=True)
else:
    for _ in range(300):
        try:
            connection = socket.create_connection(master, 5)
            break
        except OSError:
            time.sleep(0.1)
    file = connection.makefile("rw")
    print(json.dumps([rank, own]), file=file, flush=True)
    addresses = json.loads(file.readline())


def receive() -> None:
    with listening.accept()[0] as connection:
        while connection.recv(1 << 16):
            pass


receiver = threading.Thread(target=receive)
receiver.start()
host, port = addresses[str((rank + each) % count)]
with socket.create_connection((host, port)) as connection:
    connection.sendall(bytes(size))
    # A connection that is shorter than the time between two looks is known by its address alone.
    time.sleep(1.5)
receiver.join()
