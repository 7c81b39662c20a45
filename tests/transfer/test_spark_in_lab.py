"""The guide's side-loading recipe and event log with real Spark, which `make test-spark` downloads; else left out."""

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
from tests.guides import block
from tests.shell import GAVOTTE, until

from gavotte import lab
from gavotte.formats.app import read_app
from gavotte.formats.inventory import read_inventory
from gavotte.formats.network import write_network
from gavotte.formats.placement import read_placement
from gavotte.transfer import broadcast

PYTHON = os.environ.get("GAVOTTE_SPARK", "")
"""A Python that has pyspark."""

pytestmark = [
    pytest.mark.lab,
    pytest.mark.timeout(600),
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


SORT = """
from pyspark.sql import SparkSession, functions
spark = SparkSession.builder.appName("sort").getOrCreate()
rows = spark.range(0, 400_000, 1, 4).withColumn("key", functions.xxhash64("id")).orderBy("key")
rows.write.format("noop").mode("overwrite").save()
spark.stop()
"""
SETTINGS = {
    "spark.master": f"spark://{MASTER}:7077",
    "spark.executor.memory": "512m",
    "spark.driver.memory": "512m",
    "spark.ui.enabled": "false",
    "spark.driver.host": DRIVER,
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.cores.max": str(len(WORKERS)),
}


def test_an_event_log_becomes_an_app_and_a_placement(tmp_path: Path) -> None:
    events, conf = tmp_path / "events", tmp_path / "conf"
    for folder in (events, conf):
        folder.mkdir()
    (conf / "spark-defaults.conf").write_text("".join(f"{key} {value}\n" for key, value in SETTINGS.items()))
    (tmp_path / "sort.py").write_text(SORT)
    hosts = [{"name": name, "egress_bps": 100e6} for name in (*WORKERS, DRIVER)]
    write_network(tmp_path / "cloud.network.json", builders.network(hosts))
    commands = block("spark", "spark-submit").replace("/data/events", str(events))
    with lab.session(CLOUD, source="tests") as session:
        addresses = {host.name: host.address for host in read_inventory(session.hosts_file).host}
        with spark(session, addresses, tmp_path) as environment:
            path = f"{environment['SPARK_HOME']}/bin:{GAVOTTE.parent}:{os.environ['PATH']}"
            environment |= {"SPARK_CONF_DIR": str(conf), "PATH": path}
            line = ["sh", "-euc", f"cd {tmp_path}\n{commands}"]
            options: dict[str, Any] = {"capture_output": True, "text": True, "timeout": DEADLINE_S}
            done = session.run(DRIVER, line, env=environment, **options)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    app = read_app(tmp_path / "sort.app.toml")
    assert {task.name for task in app.task} == {"executor-0", "executor-1"}
    moved = {(each.source, each.target): each.bytes for each in app.transfer if each.source != each.target}
    # Each reads at least one of four partitions of one of four tasks of the other: 25,000 keys of 8 bytes.
    assert set(moved) == {("executor-0", "executor-1"), ("executor-1", "executor-0")}
    assert all(size > 150_000 for size in moved.values()), moved
    assert set(read_placement(tmp_path / "sort.placement.json").assignment) == {task.name for task in app.task}
