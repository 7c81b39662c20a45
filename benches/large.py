"""Runs each verb on a Network of 10,000 hosts and Apps of up to 10,000 tasks: time, memory, and failures.

    make bench-large [ARGS="--hosts 10000 --only place ranks --keep FOLDER"]

Hosts are in racks of 16 to 48, racks in pods of 16, and both kinds of uplinks are oversubscribed 2 to 6 times. The
Network is of version 2: hosts, racks and pods have latencies, and one of a thousand hosts has a slow pair. Commands that search have the default time limit of 10 s.

- *seconds* and *CPU* are the wall-clock and processor time of the command, from its start to its end.
- *MB* is the most memory that one of its processes had.
- The goal is 30 s and 4 GB for each command.

`measure` and `model` are missing: a History has a value of each pair. So is `watch --hosts`, which needs agents.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import select
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benches.machine import machine
from benches.recorded import command_line, write_figure

from gavotte.export import FORMATS, JOB_FORMATS, TOPOLOGY_FORMATS
from gavotte.formats.app import FORMAT as APP
from gavotte.formats.network import COMPACT as NETWORK

GAVOTTE = str(Path(sys.executable).with_name("gavotte"))
GOAL_S, GOAL_MB = 30.0, 4000
LIMIT_S = 300.0
"""Time after which a command is ended."""
LIMIT_BYTES = 12 << 30
"""Address space that a command may use."""
DIFFERENT, CANNOT_TELL = 3, 4
"""Exit statuses of `compare` that are results."""

RACK_HOSTS = (16, 48)
RACKS_A_POD = 16
CAPS_GBIT = (1, 10, 25)
OVERSUBSCRIBED = (2, 3, 4, 6)
HOST_S, RACK_S = (10e-6, 20e-6), (10e-6, 30e-6)
"""Half a round trip of hosts to their racks, and what racks and pods add."""
SLOW_EVERY = 1000
GBIT = 1e9

COLUMNS = f"{'command':<86} {'seconds':>8} {'CPU':>7} {'MB':>6}  goal"


@dataclass(frozen=True)
class Run:
    """One command: its name, wall-clock and processor seconds, memory, and its failure, if it failed."""

    name: str
    wall_s: float
    cpu_s: float
    memory_mb: float
    failure: str = ""

    @property
    def kept(self) -> bool:
        """Whether the command did its work within the goal."""
        return not self.failure and self.wall_s <= GOAL_S and self.memory_mb <= GOAL_MB

    def cells(self) -> list[str]:
        """Return the row of the table, as docs/results has it."""
        verdict = self.failure or ("met" if self.kept else "missed")
        return [f"`{self.name}`", f"{self.wall_s:.1f}", f"{self.cpu_s:.1f}", f"{self.memory_mb:.0f}", verdict]

    def line(self) -> str:
        """Return the row of the table."""
        verdict = self.failure or ("kept" if self.kept else "missed")
        return f"{self.name:<86} {self.wall_s:>8.1f} {self.cpu_s:>7.1f} {self.memory_mb:>6.0f}  {verdict}"


def network(count: int, seed: int) -> dict[str, Any]:
    """Draw a Network, as its file has it."""
    rng = random.Random(f"large {count} {seed}")
    hosts: list[dict[str, Any]] = []
    racks: list[dict[str, Any]] = []
    while len(hosts) < count:
        size = min(rng.randint(*RACK_HOSTS), count - len(hosts))
        cap_bps = rng.choice(CAPS_GBIT) * GBIT
        names = [f"h{len(hosts) + at}" for at in range(size)]
        # A tenth of a rack's hosts are slower than the others.
        caps = [cap_bps * (0.5 if rng.random() < 0.1 else 1.0) for _ in names]
        labels = {"zone": f"z{len(racks) // RACKS_A_POD}"}
        hosts += [
            {
                "name": name,
                "cpus": 4,
                "egress_bps": cap,
                "ingress_bps": cap,
                "price_usd": cap / GBIT,
                "labels": labels,
                "latency_s": rng.uniform(*HOST_S),
            }
            for name, cap in zip(names, caps, strict=True)
        ]
        up_bps = sum(caps) / rng.choice(OVERSUBSCRIBED)
        rack = {"name": f"rack{len(racks)}", "members": names, "up_bps": up_bps, "down_bps": up_bps}
        racks.append(rack | {"latency_s": rng.uniform(*RACK_S)})
    pods: list[dict[str, Any]] = []
    for start in range(0, len(racks), RACKS_A_POD):
        inside = racks[start : start + RACKS_A_POD]
        up_bps = sum(rack["up_bps"] for rack in inside) / rng.choice(OVERSUBSCRIBED)
        members = [name for rack in inside for name in rack["members"]]
        pod = {"name": f"pod{len(pods)}", "members": members, "up_bps": up_bps, "down_bps": up_bps}
        pods.append(pod | {"latency_s": rng.uniform(*RACK_S)})
        for rack in inside:
            rack["parent"] = pods[-1]["name"]
    slow = [
        {"source": f"h{at}", "target": f"h{rng.randrange(at)}", "rate_bps": 0.1 * GBIT, "latency_s": 1e-3}
        for at in range(SLOW_EVERY, len(hosts), SLOW_EVERY)
    ]
    return {"format": NETWORK, "hosts": hosts, "groups": [*racks, *pods], "exceptions": slow, "sharing": "groups"}


def app(name: str, tasks: int, seed: int, *, near: int) -> dict[str, Any]:
    """Draw an App, as its file has it: tasks send to the next ones and to `near` others at random."""
    rng = random.Random(f"large {name} {tasks} {seed}")
    names = [f"t{at}" for at in range(tasks)]
    ways = [(at, (at + step) % tasks) for at in range(tasks) for step in (1, 32 % tasks or 1)]
    ways += [(at, rng.randrange(tasks)) for at in range(tasks) for _ in range(near)]
    sent = [
        {"source": names[m], "target": names[n], "bytes": rng.randint(1, 100) * 1_000_000}
        for m, n in dict.fromkeys(ways)
        if m != n
    ]
    return {"format": APP, "name": name, "task": [{"name": each, "cpus": 1} for each in names], "transfer": sent}


def prepare(folder: Path, hosts: int, seed: int) -> None:
    """Write the files that the commands read."""
    drawn = network(hosts, seed)
    write(folder / "n.network.json", drawn)
    for slower in drawn["hosts"][:40]:
        slower["egress_bps"] /= 2
    write(folder / "later.network.json", drawn)
    write(folder / "small.app.json", app("small", 60, seed, near=3))
    write(folder / "middle.app.json", app("middle", min(1000, hosts), seed, near=2))
    write(folder / "large.app.json", app("large", hosts, seed, near=1))
    rng = random.Random(f"large flows {seed}")
    lines = ["id,source,target,bytes,start_s"]
    lines += [
        f"f{at},h{rng.randrange(hosts)},h{rng.randrange(hosts)},{rng.randint(1, 100) * 1_000_000},{rng.random():.3f}"
        for at in range(hosts)
    ]
    (folder / "flows.csv").write_text("\n".join(lines) + "\n", "utf-8")
    edge = {"run": "r", "operation": 0, "edges": 1, "tree": "t", "source": "h0", "target": "h1"}
    seen = [
        {"kind": "run", "metric": "transfer_s", "value": 0.1, "time_s": float(at), "labels": edge | {"operation": at}}
        for at in range(20)
    ]
    (folder / "seen.jsonl").write_text("".join(json.dumps(each) + "\n" for each in seen), "utf-8")


def write(path: Path, content: dict[str, Any]) -> None:
    """Write one file."""
    path.write_text(json.dumps(content) + "\n", "utf-8")


def commands(hosts: int) -> Iterator[str]:
    """Yield each command but `serve`; later ones read what earlier ones wrote."""
    net = "n.network.json"
    for size in ("small", "middle", "large"):
        yield f"place {net} {size}.app.json -o {size}.placement.json"
    yield f"place {net} large.app.json --method greedy"
    yield f"place {net} small.app.json --explain"
    yield f"place {net} small.app.json --goal hosts"
    yield f"place {net} small.app.json --goal price"
    yield f"place {net} small.app.json --sharing hose"
    yield f"place {net} small.app.json --running middle.placement.json:middle.app.json"
    for pattern in ("ring", "tree", f"halo:{hosts // 400}x20x20"):
        yield f"ranks --network {net} --pattern {pattern}"
    yield f"ranks --network {net} --pattern alltoall -n 64"
    yield f"keep {hosts // 2} --network {net} --pattern ring"
    yield f"keep 64 --network {net} --pattern alltoall"
    yield f"keep {hosts // 4} --network {net} --app large.app.json"
    yield f"map {net} small.app.json"
    for operation in ("broadcast", "reduce", "allreduce"):
        yield f"collective {net} --operation {operation} --bytes 8mb -o {operation}.tree.json"
    # Of one rank's block.
    for operation in ("scatter", "gather", "allgather"):
        yield f"collective {net} --operation {operation} --bytes 64kb -o {operation}.tree.json"
    yield f"collective {net} --operation broadcast --bytes 8mb --algorithm binomial"
    yield f"collective {net} --operation all --settings openmpi"
    yield f"report --network {net} -o n.html"
    for size in ("small", "large"):
        yield f"report --network {net} --app {size}.app.json --placement {size}.placement.json -o {size}.html"
        yield f"simulate {size}.placement.json {size}.app.json --network {net}"
    yield f"simulate {net} flows.csv -o finish.csv"
    for form in TOPOLOGY_FORMATS:
        yield f"export {net} --format {form} -o {form}.txt"
    for form in FORMATS:
        yield f"export large.placement.json --format {form} --network {net} -o {form}.txt"
    for form, known in JOB_FORMATS.items():
        job = f"middle.placement.json --network {net}" if known.tiered else "small.app.json"
        yield f"export {job} --format {form} -o {form}.txt"
    yield f"compare {net} {net}"
    yield f"compare {net} later.network.json"
    yield f"compare {net} later.network.json --placement small.placement.json --app small.app.json"
    yield f"watch {net} --observations seen.jsonl --count 20"


def limited() -> None:
    """Bound the memory of a command, so that one that grows too far fails and spares the machine."""
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT_BYTES, LIMIT_BYTES))


def started(words: list[str], folder: Path, stdout: Any) -> subprocess.Popen[bytes]:
    """Start a command in a process group of its own."""
    env = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    # With it, each run would compile all modules again, which no user's does.
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    return subprocess.Popen(
        [GAVOTTE, *words],
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=(folder / "stderr").open("wb"),
        start_new_session=True,
        preexec_fn=limited,
    )


def ended(name: str, process: subprocess.Popen[bytes], begin_s: float, folder: Path, *, stopped: bool) -> Run:
    """Wait for a process, and return what it took. It may end by an interrupt if it was `stopped`."""
    failure = ""
    while not (result := os.wait4(process.pid, os.WNOHANG))[0]:
        if time.monotonic() - begin_s > LIMIT_S:
            os.killpg(process.pid, signal.SIGKILL)
            failure = f"ended after {LIMIT_S:.0f} s"
            result = os.wait4(process.pid, 0)
            break
        time.sleep(0.02)
    wall_s = time.monotonic() - begin_s
    _, status, usage = result
    process.returncode = os.waitstatus_to_exitcode(status)
    fine = {0} | ({DIFFERENT, CANNOT_TELL} if name.startswith("compare") else set())
    if not failure and not stopped and process.returncode not in fine:
        lines = (folder / "stderr").read_text("utf-8", "replace").strip().splitlines() or ["no message"]
        failure = f"exit {process.returncode}: {next((line for line in lines if 'error' in line.lower()), lines[-1])}"
    return Run(name, wall_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1000, failure)


def run(name: str, folder: Path) -> Run:
    """Run one command to its end."""
    begin_s = time.monotonic()
    with (folder / "stdout").open("wb") as stdout:
        return ended(name, started(name.split(), folder, stdout), begin_s, folder, stopped=False)


def serve(folder: Path) -> Iterator[Run]:
    """Start `gavotte serve`, open pages, and yield what the start, each page and the whole process took."""
    begin_s = time.monotonic()
    words = "serve --network n.network.json --placement small.placement.json --app small.app.json --port 0 --json"
    process = started(words.split(), folder, subprocess.PIPE)
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], LIMIT_S)
    line = process.stdout.readline() if ready else b""
    if not line:
        yield ended(words, process, begin_s, folder, stopped=False)
        return
    address = json.loads(line)["address"]
    yield Run("serve, until its address is printed", time.monotonic() - begin_s, 0.0, 0.0)
    for page in ("/", "/metrics"):
        page_s = time.monotonic()
        failure = ""
        try:
            with urllib.request.urlopen(page_of(address, page), timeout=LIMIT_S) as answer:
                answer.read()
        except OSError as error:
            failure = str(error)
        yield Run(f"serve, page {page}", time.monotonic() - page_s, 0.0, 0.0, failure)
    os.killpg(process.pid, signal.SIGINT)
    yield ended("serve, all", process, begin_s, folder, stopped=True)


def page_of(address: str, page: str) -> str:
    """Return the address of a page, with the token of the printed address."""
    start, _, query = address.partition("?")
    return f"{start.rstrip('/')}{page}" + (f"?{query}" if query else "")


@contextmanager
def folder_of(kept: Path | None) -> Iterator[Path]:
    """Open the folder of the files."""
    if kept is not None:
        kept.mkdir(parents=True, exist_ok=True)
        yield kept
        return
    with tempfile.TemporaryDirectory() as made:
        yield Path(made)


def main() -> None:
    """Print a row for each command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--hosts", type=int, default=10_000, help="hosts of the Network (default: 10000)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the Network and the Apps (default: 0)")
    parser.add_argument("--only", nargs="+", default=[], help="run only commands that begin with one of these")
    parser.add_argument("--keep", type=Path, help="keep the files in this folder")
    parser.add_argument("--record", type=Path, help="folder to write the numbers to, as docs/results has them")
    asked = parser.parse_args()
    about = machine()
    with folder_of(asked.keep) as folder:
        prepare(folder, asked.hosts, asked.seed)
        print(COLUMNS)
        results: list[Run] = []
        chosen = [name for name in commands(asked.hosts) if not asked.only or name.startswith(tuple(asked.only))]
        for name in chosen:
            results.append(run(name, folder))
            print(results[-1].line(), flush=True)
        if not asked.only or "serve" in asked.only:
            for result in serve(folder):
                results.append(result)
                print(result.line(), flush=True)
    missed = sum(not result.kept for result in results)
    print(f"{missed} missed the goal of {GOAL_S:.0f} s and {GOAL_MB / 1000:.0f} GB")
    print(f"{asked.hosts} hosts, seed {asked.seed}; {about}")
    if asked.record is not None:
        write_figure(
            asked.record / "many-hosts-verbs.json",
            title=f"Each verb on {asked.hosts:,} hosts: seconds",
            command=command_line("large", asked.record),
            seed=str(asked.seed),
            samples="one run of each command",
            about=about,
            columns=["command", "seconds", "processor seconds", "MB", "goal of 30 s and 4 GB"],
            rows=[result.cells() for result in results],
            plot={"kind": "bars", "columns": [1], "unit": "seconds"},
        )


if __name__ == "__main__":
    main()
