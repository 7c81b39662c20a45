"""The guide's side-loading recipe against real Spark, which `make test-spark` downloads; otherwise left out."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests import builders
from tests.shell import until

from gavotte import lab
from gavotte.formats.inventory import read_inventory
from gavotte.transfer import broadcast

PYTHON = os.environ.get("GAVOTTE_SPARK", "")
"""A Python that has pyspark."""

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(not PYTHON, reason="`make test-spark` runs it with real Spark"),
]

WORKERS = ("h1", "h2")
CLOUD = builders.topology([{"name": f"h{number}", "egress": "100mbit"} for number in range(4)])
MASTER, DRIVER = "h0", "h3"
DEADLINE_S = 300.0


@contextmanager
def spark(session: lab.Session, addresses: dict[str, str], folder: Path) -> Iterator[dict[str, Any]]:
    """A master and workers of Spark's standalone mode; gives each host's environment for a driver."""
    code = "import pyspark; print(pyspark.__path__[0])"
    home = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True, check=True).stdout.strip()

    def environment(host: str) -> dict[str, str]:
        return {
            **session.environment(),
            "SPARK_HOME": home,
            "PYSPARK_PYTHON": PYTHON,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_NO_DAEMONIZE": "1",
            "SPARK_LOCAL_IP": addresses[host],
            "SPARK_LOCAL_HOSTNAME": host,
        }

    def daemon(host: str, *words: str) -> subprocess.Popen[Any]:
        line = [f"{home}/bin/spark-class", f"org.apache.spark.deploy.{words[0]}", "--host", host, *words[1:]]
        with (folder / f"{host}.log").open("wb") as log:
            return session.exec(host, line, env=environment(host), stdout=log, stderr=subprocess.STDOUT)

    daemons = [daemon(MASTER, "master.Master", "--port", "7077")]
    try:
        for host in WORKERS:
            where = ["--work-dir", str(folder / f"work-{host}"), f"spark://{MASTER}:7077"]
            daemons.append(daemon(host, "worker.Worker", "--cores", "1", "--memory", "600m", *where))
        registered = (folder / f"{MASTER}.log").read_text
        until(lambda: registered().count("Registering worker") == len(WORKERS), DEADLINE_S)
        yield environment(DRIVER)
    finally:
        for each in reversed(daemons):
            each.terminate()
        for each in daemons:
            each.wait(30)


def test_tasks_read_what_a_broadcast_has_put_beside_them(tmp_path: Path) -> None:
    table = tmp_path / "side-table"
    table.write_text("".join(f"{number},{number * number}\n" for number in range(200_000)))
    with lab.session(CLOUD, source="tests") as session:
        inventory = read_inventory(session.hosts_file)
        sent = broadcast(str(table), inventory, MASTER, str(tmp_path / "side-{host}"), targets=list(WORKERS))
        assert sent.lost == {}
        with spark(session, {host.name: host.address for host in inventory.host}, tmp_path) as environment:
            line = [PYTHON, str(Path(__file__).with_name("spark_job.py")), f"spark://{MASTER}:7077"]
            line += [str(tmp_path / "side-{host}"), str(len(WORKERS))]
            options: dict[str, Any] = {"capture_output": True, "text": True, "timeout": DEADLINE_S}
            done = session.run(DRIVER, line, env=environment, **options)
    print(done.stdout)
    assert done.returncode == 0, done.stderr[-2000:]
    checksum = hashlib.sha256(table.read_bytes()).hexdigest()
    rows = [each.split() for each in done.stdout.splitlines()]
    assert [each[1:] for each in rows if each[0] == "side"] == [[host, checksum] for host in WORKERS]
    assert ["rows", "200000"] in rows
