"""Logs as sources: Open MPI's monitoring, Spark, Dask, NCCL, clouds' flow logs and Hubble."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples
from tests.profile.test_fuzz import mutate
from tests.profile.test_nccl import nccl_log

from gavotte.errors import FormatError, GavotteError
from gavotte.profile import Count, Traffic, profile

HERE = Path(__file__).parent / "recorded"
PROF = [HERE / f"mon.{rank}.prof" for rank in range(4)]


def read(source: str, *paths: Path, tasks: dict[str, str] | None = None, **options: Any) -> Traffic:
    return profile(source, list(paths), tasks, name="job", min_bytes=0, **options).traffic


# ---- Open MPI ----


def test_open_mpi_counts_what_the_program_sent() -> None:
    """Rank r of the recorded job sent rank t (r + 1) (t + 1) 10,000 bytes, then three collectives followed."""
    content = read("ompi", *PROF)
    assert content.tasks == ("rank0", "rank1", "rank2", "rank3")
    assert content.seen["message_bytes"] == sum(
        10_000 * (r + 1) * (t + 1) for r in range(4) for t in range(4) if t != r
    )
    assert content.seen["collective_bytes"] == content.bytes - content.seen["message_bytes"]
    assert content.counts["rank0", "rank1"] == Count.exact(20_000 + 1_601_000)
    assert (content.seen["missing_ranks"], content.unattributed_bytes) == (0, 0)
    assert ["no messages that MPI_Start sends" in line for line in content.warnings] == [True]
    # An allreduce and a broadcast of 800 kB and an alltoall move at least the data that other ranks must get.
    assert content.seen["collective_bytes"] >= 2 * 800_000 * 3 / 4 * 4


def test_a_rank_without_its_file_is_told() -> None:
    content = read("ompi", *PROF[:3])
    assert content.seen["missing_ranks"] == 1
    assert content.warnings[0] == "1 ranks have no file among the inputs; what they sent is missing"
    assert "mca_coll_monitoring.so" in content.warnings[-1]
    assert not any(source == "rank3" for source, _ in content.counts)
    with pytest.raises(FormatError, match="is rank 0's, as"):
        read("ompi", PROF[0], PROF[0])


# ---- Spark ----


def spark_log(*events: dict[str, Any]) -> bytes:
    return "".join(json.dumps(each) + "\n" for each in events).encode()


def task_end(
    stage: int, executor: str, *, wrote: int = 0, remote: int = 0, local: int = 0, at: int = 0
) -> dict[str, Any]:
    return {
        "Event": "SparkListenerTaskEnd",
        "Stage ID": stage,
        "Task Info": {"Executor ID": executor, "Host": f"h{executor}", "Finish Time": at},
        "Task Metrics": {
            "Shuffle Read Metrics": {"Remote Bytes Read": remote, "Local Bytes Read": local},
            "Shuffle Write Metrics": {"Shuffle Bytes Written": wrote},
        },
    }


def added(executor: str) -> dict[str, Any]:
    manager = {"Executor ID": executor, "Host": f"h{executor}", "Port": 1}
    return {"Event": "SparkListenerBlockManagerAdded", "Block Manager ID": manager}


SPARK = spark_log(
    {"Event": "SparkListenerLogStart", "Spark Version": "4.0.0"},
    *(added(each) for each in ("driver", "1", "2", "3")),
    {"Event": "SparkListenerStageSubmitted", "Stage Info": {"Stage ID": 0, "Parent IDs": []}},
    task_end(0, "1", wrote=3000, at=1000),
    task_end(0, "2", wrote=1000, at=1500),
    {"Event": "SparkListenerStageSubmitted", "Stage Info": {"Stage ID": 1, "Parent IDs": [0]}},
    task_end(1, "3", remote=2000, at=2000),
    task_end(1, "1", remote=500, local=1500, at=12_000),
)


def test_spark_splits_what_was_read_over_those_that_wrote(tmp_path: Path) -> None:
    (tmp_path / "app").write_bytes(SPARK)
    content = read("spark", tmp_path / "app")
    assert content.counts == {
        ("executor-1", "executor-1"): Count.exact(1500),
        # 2000 bytes of 3000 and 1000: the second wrote 1000 at most, so 1000 to 2000 came from the first.
        ("executor-1", "executor-3"): Count(1500, 1000, 2000),
        ("executor-2", "executor-1"): Count.exact(500),
        ("executor-2", "executor-3"): Count(500, 0, 1000),
    }
    named = read("spark", tmp_path / "app", tasks={"h1": "a", "2": "b", "executor-3": "c", "h9": "idle"})
    assert set(named.counts) == {("a", "a"), ("a", "c"), ("b", "a"), ("b", "c")}
    series = read("spark", tmp_path / "app", every_s=5.0)
    assert [sum(c.bytes for c in span.counts.values()) for span in series.spans] == [2000, 0, 2000]


def test_spark_logs_rolled_and_compressed(tmp_path: Path) -> None:
    lines = SPARK.splitlines(keepends=True)
    folder = tmp_path / "eventlog_v2_app"
    folder.mkdir()
    (folder / "events_1_app").write_bytes(gzip.compress(b"".join(lines[:6])))
    with pa.output_stream(str(folder / "events_2_app.zstd"), compression="zstd") as stream:
        stream.write(b"".join(lines[6:]))
    assert read("spark", folder).bytes == 4000


@pytest.mark.parametrize("packing", ["plain", "gzip", "bz2", "zstd", "lz4"])
def test_logs_are_read_whole_or_refused(tmp_path: Path, packing: str) -> None:
    path = tmp_path / "app"
    with pa.output_stream(str(path), compression=None if packing == "plain" else packing) as stream:
        stream.write(SPARK)
    assert read("spark", path).bytes == 4000
    # pyarrow writes LZ4 without checksums.
    if packing not in ("plain", "lz4"):
        packed = path.read_bytes()
        for damaged in (packed[:-9], packed[:20] + b"damaged" + packed[27:]):
            path.write_bytes(damaged)
            with pytest.raises(GavotteError, match=r"cannot be unpacked: .+; copy it again"):
                read("spark", path)


# ---- Dask ----


def test_dask_workers_as_they_recorded_it() -> None:
    logs = json.loads((HERE / "dask-transfers.json").read_text())
    content = read("dask", HERE / "dask-transfers.json")
    assert content.bytes == sum(each["total"] for log in logs.values() for each in log)
    assert content.seen["workers"] == 3
    assert content.seen["transfers"] == sum(map(len, logs.values()))
    names = {worker.removeprefix("tcp://"): f"w{number}" for number, worker in enumerate(logs)}
    named = read("dask", HERE / "dask-transfers.json", tasks=names)
    assert named.attributed_bytes == content.bytes
    one = dict(list(names.items())[:2])
    assert read("dask", HERE / "dask-transfers.json", tasks=one).unattributed_bytes > 0


def test_a_dask_scheduler_tells_roughly_what_its_workers_do() -> None:
    """Both are of one run; the exact bytes are within the interval."""
    exact = read("dask", HERE / "dask-same-run.json").counts
    rough = read("dask", HERE / "dask-stream.json").counts
    assert len(exact) == 6
    assert rough.keys() == exact.keys()
    for pair, count in rough.items():
        assert count.low_bytes < exact[pair].bytes < count.high_bytes


# ---- flow logs ----

HEAD = (
    "version account-id interface-id srcaddr dstaddr srcport dstport protocol packets bytes start end action log-status"
)
AWS = f"""{HEAD}
2 123456789010 eni-a 10.0.0.1 10.0.0.2 40000 5432 6 100 105200 1700000000 1700000060 ACCEPT OK
2 123456789010 eni-b 10.0.0.1 10.0.0.2 40000 5432 6 100 105200 1700000000 1700000060 ACCEPT OK
2 123456789010 eni-a 10.0.0.2 10.0.0.1 5432 40000 6 50 2600 1700000000 1700000060 ACCEPT OK
2 123456789010 eni-a 203.0.113.5 10.0.0.1 1 22 6 1 40 1700000000 1700000060 REJECT OK
2 123456789010 eni-b - - - - - - - 1700000000 1700000060 - NODATA
"""


@pytest.mark.parametrize("how", ["spaces", "bare", "csv", "parquet"])
def test_aws_flow_logs(tmp_path: Path, how: str) -> None:
    path = tmp_path / "log"
    head, *lines = AWS.splitlines()
    if how == "parquet":
        names = head.replace("-", "_").split()
        rows = [dict(zip(names, line.split(), strict=True)) for line in lines]
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        text = "\n".join(lines) if how == "bare" else AWS.replace(" ", ",") if how == "csv" else AWS
        path.write_text(text)
    content = read("flows", path)
    # 100 packets of 1052 bytes: 20 of IP, 20 to 60 of TCP, each flow logged at both interfaces.
    assert content.counts["10.0.0.1", "10.0.0.2"] == Count(100_000, 97_200, 101_200)
    assert content.counts["10.0.0.2", "10.0.0.1"] == Count(0, 0, 600)
    assert content.seen["ignored_flows"] == 2
    named = read("flows", path, tasks={"10.0.0.1": "web", "10.0.0.2:5432": "db"})
    assert named.counts["web", "db"].bytes == 100_000


def test_gcp_flow_logs(tmp_path: Path) -> None:
    def entry(reporter: str, size: int) -> str:
        connection = {"src_ip": "10.0.0.1", "dest_ip": "10.0.0.2", "src_port": 5, "dest_port": 443, "protocol": 6}
        payload = {"connection": connection, "reporter": reporter, "bytes_sent": str(size), "packets_sent": "10"}
        return json.dumps({"jsonPayload": {**payload, "end_time": "2026-11-22T08:00:00.5Z"}, "logName": "x"})

    (tmp_path / "log.json").write_text(entry("SRC", 10_520) + "\n" + entry("DEST", 5_520) + "\n")
    content = read("flows", tmp_path / "log.json", every_s=60.0)
    assert content.counts == {("10.0.0.1", "10.0.0.2"): Count(10_000, 9_720, 10_120)}
    columns = "jsonPayload_connection_src_ip,jsonPayload_connection_dest_ip,jsonPayload_connection_protocol,"
    columns += "jsonPayload_bytes_sent,jsonPayload_packets_sent,jsonPayload_reporter"
    (tmp_path / "log.csv").write_text(f"{columns}\n10.0.0.1,10.0.0.2,17,10280,10,SRC\n")
    assert read("flows", tmp_path / "log.csv").bytes == 10_000
    row = dict(zip(columns.split(","), ["10.0.0.1", "10.0.0.2", 17, 10_280, 10, "SRC"], strict=True))
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "log.parquet")
    assert read("flows", tmp_path / "log.parquet").bytes == 10_000


def test_hubble_tells_who_and_not_how_much(tmp_path: Path) -> None:
    def flow(source: str, target: str, verdict: str = "FORWARDED") -> str:
        ends = {
            "source": {"namespace": "shop", "pod_name": source},
            "destination": {"namespace": "shop", "pod_name": target},
        }
        inner = {"time": "2026-11-22T08:00:00.123456789Z", "verdict": verdict, "IP": {"source": "10.1.0.1"}, **ends}
        inner |= {"l4": {"TCP": {"source_port": 1, "destination_port": 2}}, "later": {"unknown": [1]}}
        return json.dumps({"flow": inner, "node_name": "n1", "time": inner["time"]})

    lines = [
        *[flow("web", "db")] * 3,
        flow("db", "web"),
        flow("web", "db", "DROPPED"),
        '{"lost_events": {"num": 1}, "node_name": "n"}',
    ]
    (tmp_path / "flows.json").write_text("\n".join(lines))
    content = read("flows", tmp_path / "flows.json")
    assert {pair: count.bytes for pair, count in content.counts.items()} == {
        ("shop:web", "shop:db"): 3,
        ("shop:db", "shop:web"): 1,
    }
    assert content.counts["shop:web", "shop:db"].low_bytes == 0
    assert content.seen["bytes_are_events"] is True
    assert read("flows", tmp_path / "flows.json", tasks={"shop/web": "w", "shop/db": "d"}).counts["w", "d"].bytes == 3


# ---- any input ----


@pytest.mark.parametrize(
    ("source", "content", "message"),
    [
        ("ompi", "hello", "is not output of Open MPI's monitoring"),
        ("ompi", "# POINT TO POINT\nE\t0\tx\n", "line 2: is not `kind rank rank bytes messages`"),
        ("spark", "hello", "line 1: is not an event"),
        ("spark", "{}", "line 1: is not an event of Spark"),
        ("spark", '{"Event": "SparkListenerLogStart"}', "has no shuffle between two executors"),
        ("dask", "[]", "is not a log of workers' transfers"),
        ("dask", '{"tcp://10.0.0.1:1": [{}]}', "is not a transfer; an entry has"),
        ("dask", '{"inproc://x": []}', "is not the address of a worker"),
        ("dask", '{"task_stream": []}', "bandwidth_workers: has no speeds"),
        (
            "dask",
            '{"task_stream": [{}], "bandwidth_workers": [["tcp://10.0.0.1:1", "tcp://10.0.0.2:1", 1e8]]}',
            "not the record of a task",
        ),
        ("nccl", "hello", "has no line of NCCL"),
        ("flows", "1 2 3", "line 1: has 3 columns; a line has 14 columns"),
        ("flows", "{", "line 1: is not JSON"),
        ("flows", '{"a": 1}', "has no addresses and bytes"),
        ("flows", "PAR1", "is not a readable Parquet file"),
        ("flows", "", "has no flow with data"),
    ],
)
def test_damage_is_one_clear_line(tmp_path: Path, source: str, content: str, message: str) -> None:
    (tmp_path / "bad").write_text(content)
    with pytest.raises(FormatError, match=message) as caught:
        read(source, tmp_path / "bad")
    assert "\n" not in str(caught.value)


SEEDS = {
    "ompi": PROF[1].read_bytes(),
    "spark": SPARK,
    "dask": (HERE / "dask-transfers.json").read_bytes()[:600],
    "nccl": nccl_log(2, graph=True, tree=True).encode(),
    "flows": AWS.encode(),
}


@examples(300)
@given(data=st.data(), source=st.sampled_from(sorted(SEEDS)))
def test_mutated_logs(tmp_path: Path, data: st.DataObject, source: str) -> None:
    (tmp_path / "fuzz").write_bytes(mutate(data, SEEDS[source]))
    try:
        content = read(source, tmp_path / "fuzz")
        assert content.bytes == content.attributed_bytes + content.unattributed_bytes
    except GavotteError as error:
        assert "\n" not in str(error)
        assert len(str(error)) < 400
