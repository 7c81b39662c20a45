"""A Spark job whose tasks read a file after a broadcast; prints each copy's host and checksum."""

import hashlib
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import SparkSession

MASTER, SIDE, WORKERS = sys.argv[1], sys.argv[2], int(sys.argv[3])
DEADLINE_S = 120.0


def read(_: Iterator[int]) -> Iterator[tuple[str, str]]:
    """The lab's hosts share a disk, so each executor's host has a path of its own."""
    host = socket.gethostname()
    yield host, hashlib.sha256(Path(SIDE.replace("{host}", host)).read_bytes()).hexdigest()


spark = (
    SparkSession.builder.master(MASTER)
    .appName("side")
    .config("spark.executor.memory", "512m")
    .config("spark.driver.memory", "512m")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.host", socket.gethostname())
    .getOrCreate()
)
context = spark.sparkContext
context.setLogLevel("ERROR")
end_s = time.monotonic() + DEADLINE_S
while len(context._jsc.sc().statusTracker().getExecutorInfos()) <= WORKERS and time.monotonic() < end_s:
    time.sleep(0.3)
# More tasks than executors: each gets some.
for host, checksum in sorted(set(context.parallelize(range(8 * WORKERS), 8 * WORKERS).mapPartitions(read).collect())):
    print("side", host, checksum)
rows = spark.read.text("file://" + SIDE.replace("{host}", "table"))
print("rows", rows.count())
spark.stop()
