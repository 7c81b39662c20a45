"""A store with something for every page of `gavotte serve`."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from gavotte.formats.app import App
from gavotte.formats.history import History
from gavotte.formats.parts.byte_matrix import HostBytes
from gavotte.formats.parts.transfer import Transfer
from gavotte.formats.record import LAUNCH, PAIRS, WALL_S, WATCH, Record
from gavotte.store import Store, StoredApp, open_store

COMMAND = "mpirun -np 16 ./lmp -in <b>melt</b> & exit"
"""A job whose command line has markup in it."""
RUNS = 6


def filled(path: Path, *, hosts: int = 12, snapshots: int = 30, events: int = 3, seed: int = 0) -> list[str]:
    """Fill a store with a network in racks of four, a job, events, a transfer and values; return the hosts."""
    rng = np.random.default_rng(seed)
    names = [f"vm{number:03d}" for number in range(hosts)]
    rack = np.arange(hosts) // 4
    near = rack[:, None] == rack[None, :]
    shape = (snapshots, hosts, hosts)
    beta = np.where(near, 1.2e8, 3e7) * rng.lognormal(0, 0.05, shape)
    beta[snapshots // 2 :, 0, :] *= 0.4
    alpha = np.where(near, 1e-4, 4e-4) * rng.lognormal(0, 0.1, shape)
    beta[:, np.arange(hosts), np.arange(hosts)] = alpha[:, np.arange(hosts), np.arange(hosts)] = np.nan
    now_s = time.time()
    history = History(
        hosts=tuple(names),
        time_s=now_s - 3600.0 * np.arange(snapshots, dtype=np.float64)[::-1],
        alpha_s=alpha,
        beta_Bps=beta,
        hops=np.zeros((hosts, hosts), dtype=np.int64),
        cpus=np.full(hosts, 4.0),
        memory_bytes=np.full(hosts, 8 << 30),
        method="train",
    )
    with open_store(path) as store:
        store.add("cloud", history)
        store.add_records(run(number, now_s, names) for number in range(RUNS))
        store.add_records(event(number, now_s, names) for number in range(events))
        store.add_records(
            Record(kind="night", metric="goodput_bps", value=9e8 + 1e6 * k, time_s=now_s - 60 * k) for k in range(40)
        )
        ring = np.roll(np.diag(np.full(16, 10**7)), 1, axis=1)
        store.keep_app(StoredApp("0a1b", App.from_numpy("melt", ring), COMMAND, now_s))
        _queue(store, names, now_s)
    return names


def run(number: int, now_s: float, hosts: list[str]) -> Record:
    """Return a run of the job; the first one was not predicted."""
    predicted_s = 4.1 if number else None
    labels: dict[str, str | int | float | bool | None] = {
        "job": "0a1b",
        "command": COMMAND,
        "ranks": 16,
        "launcher": "mpirun",
        "predicted_s": predicted_s,
        "low_s": predicted_s and 3.8,
        "high_s": predicted_s and 4.4,
        "default_predicted_s": predicted_s and 6.0,
        "status": 0,
        "placed": number > 0,
        "order": ",".join(hosts[:4] * 4),
    }
    value = 4.2 + 0.05 * number if number else 5.9
    return Record(kind=LAUNCH, metric=WALL_S, value=value, time_s=now_s - 600.0 * (RUNS - number), labels=labels)


def event(number: int, now_s: float, hosts: list[str]) -> Record:
    """Return an event of a watch."""
    host = hosts[number % len(hosts)]
    labels: dict[str, str | int | float | bool | None] = {
        "event": "moved",
        "hosts": host,
        "text": f"moved: 11 of 11 pairs of {host} measured again, times x 2.50",
        "advice": "stay: moving costs more than it saves",
    }
    return Record(kind=WATCH, metric=PAIRS, value=11.0, time_s=now_s - 10.0 * number, labels=labels)


def _queue(store: Store, hosts: list[str], now_s: float) -> None:
    queue = store.queue()
    flows = tuple(HostBytes(a, b, 10**9) for a in hosts[:3] for b in hosts[:3] if a != b)
    under_way = queue.add(Transfer(0, "<i>sort</i>", "ann", 0, 1.0, flows, submitted_s=now_s - 30))
    queue.save(replace(under_way, state="running", started_s=now_s - 29, moved=(300_000_000,) * len(flows)))
