"""A real Spark job in the lab: its event log, compared with a capture of the same run and the shuffled bytes.

It needs Java and a Python with PySpark (`--spark PYTHON`), 0.5 GB that no other benchmark needs. A standalone master,
three workers and the driver have a host each.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from benches.profile.job import HERE, matrices
from benches.profile.observers import Observers
from benches.topologies import star

from gavotte import lab
from gavotte.errors import GavotteError
from gavotte.profile import profile

WORKERS = 3
BLOCKS, BLOCK_BYTES = 20, 50_000
PORT = 7077
LOGGING = "rootLogger.level=warn\nrootLogger.appenderRef.c.ref=c\nappender.c.type=Console\nappender.c.name=c\n"
LOGGING += (
    "appender.c.target=SYSTEM_ERR\nappender.c.layout.type=PatternLayout\nappender.c.layout.pattern=%p %c{1}: %m%n\n"
)


def bench(python: Path, mbit: int) -> bool:
    """Print the matrices side by side; report whether each pair differs from the capture by at most 5 %."""
    home = python
    asked = subprocess.run(
        [home, "-c", "import pyspark; print(pyspark.__path__[0], pyspark.__version__)"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    if asked.returncode:
        raise GavotteError(f"{python} has no PySpark", hint="python3 -m venv V && V/bin/pip install pyspark")
    spark, version = asked.stdout.split()
    names = [f"h{number}" for number in range(WORKERS + 2)]
    workers, head, driver = names[:WORKERS], names[WORKERS], names[WORKERS + 1]
    with (
        tempfile.TemporaryDirectory(prefix="gvt-spark-", ignore_cleanup_errors=True) as scratch,
        lab.session(star([f"{mbit}mbit"] * len(names)), source="bench-profile") as session,
        ExitStack() as ends,
    ):
        folder = Path(scratch)
        (folder / "events").mkdir()
        (folder / "log4j2.properties").write_text(LOGGING)
        address = {host.name: host.address for host in session.status().hosts}
        log = ends.enter_context((folder / "spark.log").open("wb"))
        options = f"-XX:+UseSerialGC -Dlog4j2.configurationFile={folder}/log4j2.properties"
        environment = session.environment() | {
            "SPARK_HOME": spark,
            "SPARK_NO_DAEMONIZE": "1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": options,
            "PYSPARK_PYTHON": str(home),
            "PATH": f"{home.parent}:{os.environ['PATH']}",
        }

        def own(host: str) -> dict[str, str]:
            return environment | {"SPARK_LOCAL_IP": address[host], "SPARK_LOCAL_HOSTNAME": host}

        def start(host: str, kind: str, *words: str) -> None:
            line = [f"{spark}/bin/spark-class", f"org.apache.spark.deploy.{kind}", "--host", host, *words]
            process = session.exec(host, line, env=own(host), stdout=log, stderr=log, cwd=folder)
            ends.callback(process.wait)
            ends.callback(process.terminate)

        start(head, "master.Master", "--port", str(PORT), "--webui-port", "8080")
        for host in workers:
            room = ["--cores", "1", "--memory", "600m", "--work-dir", str(folder / host), "--webui-port", "8081"]
            start(host, "worker.Worker", *room, f"spark://{head}:{PORT}")
        watchers = Observers(session, workers, driver, folder, 1)
        with watchers.pcap() as captured:
            program = [
                home,
                HERE / "scatter.py",
                f"spark://{head}:{PORT}",
                folder / "events",
                WORKERS,
                BLOCKS,
                BLOCK_BYTES,
            ]
            done = session.run(
                driver,
                list(map(str, program)),
                env=own(driver),
                capture_output=True,
                text=True,
                timeout=300,
                cwd=folder,
            )
        if done.returncode:
            raise GavotteError("the Spark job failed", hint=done.stderr.strip()[-300:])
        shuffled = int(done.stdout.strip().splitlines()[-1])
        (events,) = (folder / "events").iterdir()
        tasks = {host: f"t{number}" for number, host in enumerate(workers)}
        traffic = profile("spark", events, tasks, name="scatter", min_bytes=0).traffic
        exact = matrices(captured(), WORKERS)[0]
    result, low, high = matrices({"pairs": traffic.to_records()}, WORKERS)
    print(f"\nSpark {version}: {WORKERS} executors shuffle {shuffled / 1e6:.1f} MB; MB a pair")
    print(f"{'pair':>9} {'capture':>8} {'event log':>10} {'interval':>18} {'error':>8}")
    pairs = ~np.eye(WORKERS, dtype=bool)
    for s, t in zip(*np.nonzero(pairs), strict=True):
        interval = f"{low[s, t] / 1e6:7.3f} to {high[s, t] / 1e6:7.3f}"
        print(
            f"{s:>4} {t:>4} {exact[s, t] / 1e6:8.3f} {result[s, t] / 1e6:10.3f} {interval:>18} {result[s, t] / exact[s, t] - 1:>+8.2%}"
        )
    error = float((np.abs(result - exact)[pairs] / exact[pairs]).max())
    read = traffic.attributed_bytes + traffic.unattributed_bytes
    print(f"read from all, own blocks with them: {read / 1e6:.3f} MB, {read / shuffled - 1:+.2%} of what was made")
    print(f"largest error of a pair {error:.2%} (goal 5 %): {'met' if error <= 0.05 else 'MISSED'}")
    print(json.dumps({"tasks": traffic.seen["tasks"], "executors": traffic.seen["executors"]}))
    return error <= 0.05
