"""Spark's own PageRank example and a sort: MASTER WORKERS FOLDER, and a job in each line of stdin.

Prints the seconds of each job.
"""

import contextlib
import os
import random
import runpy
import sys
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

PAGES, LINKS, ITERATIONS = 20_000, 120_000, 4
ROWS = 400_000
READY_S = 240


def connected(master: str, workers: int) -> SparkSession:
    """Return a session whose executors have all joined."""
    session = (
        SparkSession.builder.master(master)
        .config("spark.executor.memory", "512m")
        .config("spark.driver.memory", "512m")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.default.parallelism", str(2 * workers))
        .config("spark.sql.shuffle.partitions", str(2 * workers))
        .config("spark.sql.adaptive.enabled", "false")
        .config("spark.sql.autoBroadcastJoinThreshold", "-1")
        .config("spark.shuffle.compress", "false")
        .config("spark.driver.host", os.environ["SPARK_LOCAL_IP"])
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    tracker = session.sparkContext._jsc.sc().statusTracker()
    end_s = time.monotonic() + READY_S
    while len(tracker.getExecutorInfos()) <= workers and time.monotonic() < end_s:
        time.sleep(0.3)
    return session


def page_rank(folder: Path) -> float:
    """Run the example that comes with Spark, which prints its ranks."""
    links = folder / "links"
    if not links.exists():
        choice = random.Random(0)
        drawn = {(choice.randrange(PAGES), int(PAGES * choice.random() ** 3)) for _ in range(LINKS)}
        links.write_text("".join(f"{page} {other}\n" for page, other in drawn))
    example = Path(os.environ["SPARK_HOME"], "examples", "src", "main", "python", "pagerank.py")
    # The example ends its session, which the next job still needs.
    stop, SparkSession.stop = SparkSession.stop, lambda _: None
    sys.argv = [str(example), str(links), str(ITERATIONS)]
    begin = time.monotonic()
    try:
        with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):
            runpy.run_path(str(example), run_name="__main__")
    finally:
        SparkSession.stop = stop
    return time.monotonic() - begin


def rows(session: SparkSession, seed: int, partitions: int) -> DataFrame:
    """Return records of 10 random letters and 90 others, as TeraSort has them."""
    key = f"substr(md5(cast(rand({seed}) as string)), 1, 10) as key"
    return session.range(0, ROWS, 1, partitions).selectExpr(key, "repeat(cast(id as string), 12) as rest")


def main() -> None:
    master, workers, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    session = connected(master, workers)
    for line in sys.stdin:
        job = line.strip()
        if job == "PageRank":
            took_s = page_rank(folder)
        else:
            begin = time.monotonic()
            table = rows(session, 1, 2 * workers).sort("key")
            table.write.format("noop").mode("overwrite").save()
            took_s = time.monotonic() - begin
        print(f"seconds {took_s:.3f}", flush=True)


if __name__ == "__main__":
    main()
