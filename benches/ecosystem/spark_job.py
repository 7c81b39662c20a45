"""PageRank and a sort of Spark, on a standalone cluster of one worker a host."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benches.ecosystem.comparing import Row, by_hosts
from benches.ecosystem.stage import Asked, Stage

PYTHON = Path(__file__).parents[2] / "target" / "ecosystem" / "bin" / "python"
JOBS = ("PageRank", "sort")
SHARING = None


def home() -> Path | None:
    """Return the folder of Spark; None if it is not installed."""
    return next((PYTHON.parents[1] / "lib").glob("python3*/site-packages/pyspark"), None)


def version() -> str:
    """Return the version of the real component; empty if it is not installed."""
    folder = home()
    known = folder and next(folder.parent.glob("pyspark-*.dist-info"), None)
    return known.name.removeprefix("pyspark-").removesuffix(".dist-info") if known else ""


@contextmanager
def cluster(stage: Stage, hosts: Sequence[str], port: int) -> Iterator[Asked]:
    """A master and the program on the first host, and a worker on each; gives what runs a job there."""
    folder, log = stage.folder / f"spark-{port}", stage.folder / f"spark-{port}.log"
    folder.mkdir(exist_ok=True)
    spark = home()
    assert spark is not None
    daemon = [spark / "bin" / "spark-class", "org.apache.spark.deploy"]
    with ExitStack() as ends:

        def variables(host: str) -> dict[str, str]:
            return {
                "SPARK_HOME": str(spark),
                "PYSPARK_PYTHON": str(PYTHON),
                "SPARK_DAEMON_MEMORY": "256m",
                "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC",
                "SPARK_NO_DAEMONIZE": "1",
                "SPARK_LOCAL_IP": stage.addresses[host],
                "SPARK_LOCAL_HOSTNAME": stage.addresses[host],
                "SPARK_LOCAL_DIRS": str(folder / f"local-{host}"),
            }

        def start(host: str, kind: str, *words: object) -> None:
            line = [daemon[0], f"{daemon[1]}.{kind.lower()}.{kind}", "--host", stage.addresses[host], *words]
            ends.enter_context(stage.running(host, line, log, variables(host)))

        start(hosts[0], "Master", "--port", port, "--webui-port", port + 1)
        address = f"spark://{stage.addresses[hosts[0]]}:{port}"
        for host in hosts:
            own = ["--cores", 1, "--memory", "700m", "--webui-port", port + 2, "--work-dir", folder / f"work-{host}"]
            start(host, "Worker", *own, address)
        program = [PYTHON, Path(__file__).with_name("spark_program.py"), address, len(hosts), folder]
        yield ends.enter_context(stage.asking(hosts[0], program, log, variables(hosts[0])))


def compared(stage: Stage, runs: int, seed: int) -> Iterator[Row]:
    """Run each job on clusters of the first hosts and of those that Gavotte chose."""
    yield from by_hosts(stage, f"Spark {version()}", JOBS, cluster, (runs, seed))
