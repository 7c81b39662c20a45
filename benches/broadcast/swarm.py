"""One host's part of a BitTorrent swarm, by libtorrent: `swarm.py OBJECT|COPY TORRENT ADDRESS seed|fetch PEER...`.

It prints `ready` when it listens, begins at a line on its input, and prints the seconds until it has everything. All
settings are libtorrent's own but these: members get each other's addresses, which a tracker would provide, and none
searches beyond the lab.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import libtorrent as lt

PORT = 6881
LIMIT_S = 280.0


def main() -> None:
    path, torrent, address, role, *peers = sys.argv[1:]
    session = lt.session(
        {
            "listen_interfaces": f"{address}:{PORT}",
            "outgoing_interfaces": address,
            "enable_dht": False,
            "enable_lsd": False,
            "enable_upnp": False,
            "enable_natpmp": False,
            # Hosts of a lab share a network, from which libtorrent may otherwise accept one peer only.
            "allow_multiple_connections_per_ip": True,
            "alert_mask": 0,
        }
    )
    asked = lt.add_torrent_params()
    asked.ti = lt.torrent_info(torrent)
    asked.save_path = str(Path(path).parent)
    if role == "seed":
        asked.flags |= lt.torrent_flags.seed_mode
        handle = session.add_torrent(asked)
    print("ready", flush=True)
    sys.stdin.readline()
    begin_s = time.monotonic()
    if role != "seed":
        asked.renamed_files = {0: Path(path).name}
        handle = session.add_torrent(asked)
        for peer in peers:
            handle.connect_peer((peer, PORT))
    while not handle.status().is_seeding and time.monotonic() < begin_s + LIMIT_S:
        time.sleep(0.01)
    print(time.monotonic() - begin_s if handle.status().is_seeding else "late", flush=True)
    # It serves the others until it is ended.
    sys.stdin.readline()


if __name__ == "__main__":
    main()
