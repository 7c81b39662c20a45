"""A Spark program that shuffles known bytes: each of N partitions sends each of N others incompressible blocks.

    python scatter.py MASTER EVENTS EXECUTORS BLOCKS BLOCK_BYTES

It runs within the lab with Spark's own Python, and imports nothing of ours.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any


def main() -> None:
    """Shuffle, and check that all came."""
    from pyspark import SparkConf, SparkContext

    master, events, executors, blocks, block_bytes = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6])
    host = os.environ["SPARK_LOCAL_HOSTNAME"]
    conf = SparkConf().setMaster(master).setAppName("scatter").set("spark.driver.host", host)
    for key, value in {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": f"file://{events}",
        "spark.executor.memory": "512m",
        "spark.driver.memory": "512m",
        "spark.ui.enabled": "false",
        "spark.executor.extraJavaOptions": "-XX:+UseSerialGC",
    }.items():
        conf.set(key, value)
    context = SparkContext(conf=conf)
    context.setLogLevel("ERROR")
    scala: Any = context._jsc.sc()
    end_s = time.monotonic() + 120
    while len(scala.statusTracker().getExecutorInfos()) < executors + 1 and time.monotonic() < end_s:
        time.sleep(0.2)
    parts = 2 * executors

    def make(_: int) -> list[tuple[int, bytes]]:
        return [(other, os.urandom(block_bytes)) for other in range(parts) for _ in range(blocks)]

    data = context.parallelize(range(parts), parts).flatMap(make).partitionBy(parts, int)
    came = data.map(lambda pair: len(pair[1])).sum()
    assert came == parts * parts * blocks * block_bytes
    print(came)
    context.stop()


if __name__ == "__main__":
    main()
