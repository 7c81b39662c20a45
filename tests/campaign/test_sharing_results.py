"""Samples in other tools' shapes, archives that accept them, and the times of repeated campaigns."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.campaign.studies import repeated, sample
from tests.shell import gavotte

from gavotte.campaign import (
    Archive,
    archive,
    check_rounds,
    like_iperf3,
    like_opensearch,
    round_path,
    rounds,
    shapes,
    write_samples,
)
from gavotte.campaign import remote_write_pb2 as pb
from gavotte.campaign.programs import read_iperf3
from gavotte.errors import GavotteError
from gavotte.formats.record import Quantity
from gavotte.terms.dates import read_date

TCP = {
    "seconds": 2.0,
    "connection_bps": [4e7, 6e7],
    "metrics": {
        "retransmits": Quantity(value=7, unit="segments"),
        "rtt_loaded_s": Quantity(value=0.004, unit="s"),
        "sender_process_cpu": Quantity(value=0.25, unit="cores"),
        "distance": Quantity(value=None, unit="edges"),
    },
    "metadata": {"plan": "p", "congestion_used": "cubic", "before": {"a": {"kernel": "Linux 6.1"}}},
}


def test_a_sample_reads_as_iperf3s_output() -> None:
    report = like_iperf3(sample("near", 0, 1e8, connections=2, **TCP))
    read = read_iperf3(json.dumps(report))
    assert (read.capacity_bps, read.connection_bps, read.retransmits) == (1e8, [4e7, 6e7], 7)
    assert (read.rtt_loaded_s, read.sender_cpu, read.congestion) == (0.004, 0.25, "cubic")
    assert report["end"]["sum_received"]["bytes"] == 25_000_000
    assert report["start"]["timestamp"]["timesecs"] == 1_700_000_000
    assert report["start"]["connecting_to"]["host"] == "b"


def test_udp_and_both_directions_have_iperf3s_fields() -> None:
    metrics = {"loss": Quantity(value=0.04), "jitter_s": Quantity(value=0.00025, unit="s")}
    details = {"protocol": "udp", "rate_bps": 5e6, "packets": {"sent": 625, "lost": 25}}
    udp = like_iperf3(sample("u", 0, 4.8e6, seconds=1.0, metrics=metrics, metadata=details))
    read = read_iperf3(json.dumps(udp)).packets[0]
    assert (read.sent, read.lost, read.jitter_s) == (625, 25, 0.00025)
    assert (udp["start"]["test_start"]["protocol"], udp["start"]["test_start"]["target_bitrate"]) == ("UDP", 5_000_000)
    pairs = [{"source": "a", "target": "b", "capacity_bps": 9e7}, {"source": "b", "target": "a", "capacity_bps": 6e7}]
    both = like_iperf3(
        sample("x", 0, 15e7, seconds=1.0, source="a,b", target="b,a", metadata={"direction": "both", "pairs": pairs})
    )
    assert both["end"]["sum_received"]["bits_per_second"] == 9e7
    assert both["end"]["sum_received_bidir_reverse"]["bits_per_second"] == 6e7


def test_export_writes_lines_of_other_tools(tmp_path: Path) -> None:
    write_samples(tmp_path / "r.jsonl", [sample("near", number, 1e8, connections=2, **TCP) for number in range(2)])
    done = gavotte("campaign", "export", tmp_path / "r.jsonl", "-o", tmp_path / "r.json", "--json-like", "iperf3")
    assert done.returncode == 0, done.stderr
    lines = (tmp_path / "r.json").read_text().splitlines()
    assert [read_iperf3(line).capacity_bps for line in lines] == [1e8, 1e8]


class _Inbox(BaseHTTPRequestHandler):
    """Keeps what is posted to it."""

    posts: list[tuple[str, dict[str, str], bytes]]
    answer: tuple[int, bytes]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.posts.append((self.path, dict(self.headers), body))
        code, content = self.answer
        self.send_response(code)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Print nothing."""


@contextmanager
def inbox(code: int = 200, content: bytes = b'{"errors": false, "items": []}') -> Iterator[tuple[str, type[_Inbox]]]:
    handler = type("Inbox", (_Inbox,), {"posts": [], "answer": (code, content)})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}", handler
        server.shutdown()
        thread.join()


def test_prometheus_gets_a_series_for_each_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GAVOTTE_ARCHIVE_TOKEN", "secret")
    samples = repeated("near", [1e8, 2e8], flavour="")
    with inbox() as (url, box):
        archive(list(reversed(samples)), Archive(prometheus=f"{url}/api/v1/write"))
    ((path, headers, body),) = box.posts
    assert (path, headers["Content-Encoding"], headers["Authorization"]) == ("/api/v1/write", "snappy", "Bearer secret")
    # A block of snappy begins with the length of its content.
    length, shift = 0, 0
    for byte in body:
        length |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    request = pb.WriteRequest.FromString(pa.decompress(body, length, codec="snappy", asbytes=True))
    series = {each.labels[0].value: each for each in request.timeseries}
    assert set(series) == {"gavotte_campaign_capacity_bps", "gavotte_campaign_connection_bps"}
    capacity = series["gavotte_campaign_capacity_bps"]
    names = [label.name for label in capacity.labels]
    assert names == sorted(names)
    assert "flavour" not in names
    assert [(point.timestamp, point.value) for point in capacity.samples] == [
        (1_700_000_000_000, 1e8),
        (1_700_000_001_000, 2e8),
    ]


@pytest.mark.skipif(shutil.which("prometheus") is None, reason="Prometheus is not installed")
def test_a_real_prometheus_has_the_values(tmp_path: Path) -> None:
    (tmp_path / "p.yml").write_text("global:\n  scrape_interval: 1h\n")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    line = ["prometheus", f"--config.file={tmp_path}/p.yml", f"--storage.tsdb.path={tmp_path}/data"]
    line += [f"--web.listen-address=127.0.0.1:{port}", "--web.enable-remote-write-receiver"]
    url = f"http://127.0.0.1:{port}/api/v1"
    now_s = time.time()
    samples = [
        each.model_copy(update={"time_s": now_s - 60 + 10 * number})
        for number, each in enumerate(repeated("near", [1e8, 2e8]))
    ]
    server = subprocess.Popen(line, stderr=subprocess.DEVNULL)
    try:
        for attempt in range(100):
            try:
                archive(samples, Archive(prometheus=f"{url}/write"))
                break
            except GavotteError:
                assert attempt < 99
                time.sleep(0.1)
        query = urllib.parse.urlencode({"query": "gavotte_campaign_capacity_bps[5m]"})
        with urllib.request.urlopen(f"{url}/query?{query}") as answer:
            (series,) = json.loads(answer.read())["data"]["result"]
        assert [float(value) for _, value in series["values"]] == [1e8, 2e8]
        assert (series["metric"]["scenario"], series["metric"]["connections"]) == ("near", "1")
        with pytest.raises(GavotteError, match="out of order") as caught:
            archive(samples, Archive(prometheus=f"{url}/write"))
        assert "already" in str(caught.value.hint)
    finally:
        server.kill()
        server.wait()


def test_opensearch_gets_documents_with_ids() -> None:
    samples = [sample("near", 0, 1e8, connections=2, **TCP)]
    with inbox() as (url, box):
        archive(samples, Archive(opensearch=f"{url}/", index="paths"))
        archive(samples, Archive(opensearch=url, index="paths"))
    assert [path for path, _, _ in box.posts] == ["/_bulk", "/_bulk"]
    assert box.posts[0][2] == box.posts[1][2] == like_opensearch(samples, "paths").encode()
    action, document = map(json.loads, box.posts[0][2].decode().splitlines())
    assert action["index"]["_index"] == "paths"
    assert document["@timestamp"] == "2023-11-14T22:13:20.000Z"
    assert (document["test"]["spec"]["parallel"], document["result"]["throughput"]) == (2, 1e8)
    assert document["meta"]["destination"]["hostname"] == "b"
    assert "distance" not in document["result"]


def kinds(value: Any, where: str = "") -> dict[str, str]:
    """Return the type that OpenSearch's dynamic mapping gives each field of a document."""
    if isinstance(value, dict):
        return {name: kind for key, each in value.items() for name, kind in kinds(each, f"{where}.{key}").items()}
    if isinstance(value, list):
        return kinds(value[0], where) if value else {}
    dated = isinstance(value, str) and re.match(r"\d{4}[-/]\d\d[-/]\d\d", value) is not None
    kind = {bool: "boolean", int: "long", float: "float", str: "date" if dated else "text"}
    return {} if value is None else {where: kind[type(value)]}


def check_bulk(headers: dict[str, str], body: bytes, mapping: dict[str, str]) -> int:
    """Check a request by the rules of OpenSearch's documentation of its bulk interface; return its documents.

    https://docs.opensearch.org/latest/api-reference/document-apis/bulk/ and .../index-apis/create-index/. A number
    whose first value was a whole one would be rounded in all later documents, so that no field may change its type.
    """
    assert headers["Content-Type"] == "application/x-ndjson"
    assert body.endswith(b"\n")
    assert len(body) < 100 * 2**20
    lines = [json.loads(line) for line in body.decode().removesuffix("\n").split("\n")]
    for action, document in zip(lines[::2], lines[1::2], strict=True):
        ((operation, target),) = action.items()
        assert operation == "index"
        assert set(target) == {"_index", "_id"}
        assert re.fullmatch(r"[^A-Z-_+][^A-Z :,\"*+/\\|?#<>]*", target["_index"])
        assert 0 < len(target["_id"].encode()) <= 512
        assert read_date(document["@timestamp"])
        for name, kind in kinds(document).items():
            assert mapping.setdefault(name, kind) == kind, name
    return len(lines) // 2


def test_requests_follow_opensearchs_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shapes, "BODY_BYTES", 100_000)
    long = "\u00e9" * 300
    udp: dict[str, Any] = {
        "metrics": {"loss": Quantity(value=0)},
        "metadata": {"protocol": "udp", "rate_bps": 5_000_000, "mtu_bytes": 1280},
    }
    samples = [
        *(sample("near", number, 1e8 + number / 3, connections=2, **TCP) for number in range(200)),
        sample("u", 0, 4.8e6, **udp),
        sample("u", 1, 4.8e6, **udp | {"metrics": {"loss": Quantity(value=0.5)}}),
        *(sample("near", 0, 1e8).model_copy(update={"sample": long + end}) for end in "ab"),
    ]
    with inbox() as (url, box):
        archive(samples, Archive(opensearch=url))
    mapping: dict[str, str] = {}
    assert sum(check_bulk(headers, body, mapping) for _, headers, body in box.posts) == len(samples)
    assert len(box.posts) > 1
    names = re.findall(rb'"_id": "(.*?)"', b"".join(body for _, _, body in box.posts))
    assert len(set(names)) == len(samples)
    assert mapping[".result.loss"] == mapping[".test.spec.bandwidth"] == "float"


@pytest.mark.parametrize("index", ["Paths", "_paths", "-paths", "a b", "a,b", "a/b", "", "..", "x" * 256])
def test_a_name_that_no_index_can_have_is_refused(index: str) -> None:
    with pytest.raises(GavotteError, match="cannot be the name of an index in OpenSearch"):
        Archive(opensearch="http://127.0.0.1:9", index=index)
    with pytest.raises(GavotteError, match="cannot be the name of an index in OpenSearch"):
        like_opensearch(repeated("near", [1e8]), index)


@pytest.mark.parametrize(
    ("code", "content", "says"),
    [
        (400, b"out of order sample\n", "400 out of order sample"),
        (200, b'{"errors": true, "items": [{"index": {"error": {"reason": "no such field"}}}]}', "no such field"),
        (200, b"<html>", "not OpenSearch's answer"),
    ],
)
def test_an_archive_that_refuses_is_named(code: int, content: bytes, says: str) -> None:
    with inbox(code, content) as (url, _), pytest.raises(GavotteError, match=says) as caught:
        archive(repeated("near", [1e8]), Archive(opensearch=url))
    assert url in str(caught.value)


def test_an_archive_that_is_not_there_is_named(tmp_path: Path) -> None:
    write_samples(tmp_path / "r.jsonl", repeated("near", [1e8]))
    done = gavotte("campaign", "archive", tmp_path / "r.jsonl", "--prometheus", "http://127.0.0.1:9/write")
    assert done.returncode == 1
    assert "http://127.0.0.1:9/write cannot be reached" in done.stderr
    with pytest.raises(GavotteError, match="is not an address"):
        Archive(prometheus="tsdb:9090")


class Clock:
    """A clock that only sleeping and working move."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.mark.parametrize(
    ("works_s", "starts_s"),
    [(1.0, [0, 10, 20, 30]), (25.0, [0, 30, 60, 90]), (10.0, [0, 10, 20, 30]), (10.5, [0, 20, 40, 60])],
)
def test_rounds_keep_their_times(works_s: float, starts_s: list[float]) -> None:
    clock = Clock()
    starts = []
    for _ in rounds(10.0, 4, clock=clock, sleep=clock.sleep):
        starts.append(clock.now_s - 100.0)
        clock.now_s += works_s
    assert starts == starts_s


def test_each_round_has_its_file() -> None:
    assert round_path("r-{time}.jsonl", 1_700_000_000.4) == Path("r-20231114T221320Z.jsonl")
    with pytest.raises(GavotteError, match="a file for each round"):
        check_rounds("r.jsonl", every_s=60.0, resume=False)
    with pytest.raises(GavotteError, match="--count 2 needs a file for each round"):
        check_rounds("r.jsonl", every_s=0.0, resume=False, count=2)
    check_rounds("r.jsonl", every_s=0.0, resume=False, count=1)
    with pytest.raises(GavotteError, match="--resume needs the name"):
        check_rounds("r-{time}.jsonl", every_s=0.0, resume=True)
