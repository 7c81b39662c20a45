"""Join two tables that are on different Dask workers, where Dask chooses the worker and where Gavotte's rates do.

    python examples/dask/rates.py [--repetitions 3] [--mbit 100]

Host h1 has a table of 8 MB, and h2 one of 6 MB. Port h2 sends at a tenth of `--mbit`. Dask moves the smaller table,
which crosses that port. A JSON line for each way has the median seconds of a join, and the workers that did it.
"""

from __future__ import annotations

import json
import statistics
import time
from typing import Any

import numpy as np
from cluster import in_lab, parser, senders
from distributed import Client, wait

import gavotte
from gavotte.transfer.dask import Rates

TABLES = {"h1": 8_000_000, "h2": 6_000_000}


def table(size: int, seed: int) -> Any:
    """Return a table of this many bytes."""
    return np.random.default_rng(seed).integers(0, 256, size, dtype=np.uint8)


def join(one: Any, other: Any) -> int:
    """Return something that needs both tables."""
    return int(one.sum(dtype=np.int64) + other.sum(dtype=np.int64))


def joined(client: Client, seed: int) -> tuple[float, str]:
    """Join two new tables; return the seconds that it took, and the name of the worker that did it."""
    names = {each["name"]: address for address, each in client.scheduler_info(n_workers=-1)["workers"].items()}
    tables = [client.submit(table, size, seed, workers=[names[name]], pure=False) for name, size in TABLES.items()]
    wait(tables)
    begin = time.monotonic()
    done = client.submit(join, *tables, pure=False)
    done.result()
    took_s = time.monotonic() - begin
    (address,) = next(iter(client.who_has(done).values()))
    return took_s, next(name for name, known in names.items() if known == address)


def main() -> None:
    """Run in a new lab, or in the cluster that `--at` names."""
    given = parser(__doc__, repetitions=3).parse_args()
    if given.at is None:
        words = ["--repetitions", str(given.repetitions), "--ways", *given.ways]
        in_lab(__file__, words, workers=2, mbit=given.mbit, egress_mbit={"h2": max(1, given.mbit // 10)})
        return
    with senders(given.at, given.hosts, 2) as (client, _):
        inventory = gavotte.read_inventory(given.hosts)
        network = gavotte.model(gavotte.measure(inventory).history)
        took: dict[str, list[tuple[float, str]]] = {way: [] for way in given.ways}
        for seed in range(given.repetitions):
            for way in given.ways:
                if way == "gavotte":
                    client.register_plugin(Rates(network, inventory))
                took[way].append(joined(client, seed))
                if way == "gavotte":
                    client.unregister_scheduler_plugin(Rates.name)
        for way, joins in took.items():
            median_s = statistics.median(took_s for took_s, _ in joins)
            print(
                json.dumps({"way": way, "join_s": round(median_s, 3), "workers": sorted({name for _, name in joins})})
            )


if __name__ == "__main__":
    main()
