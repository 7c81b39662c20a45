"""Samples sent to a real OpenSearch, which `tools/opensearch` starts and `make test-programs` runs."""

from __future__ import annotations

import json
import os
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from tests.campaign.studies import repeated, sample
from tests.shell import gavotte

from gavotte.campaign import Archive, archive, like_opensearch, write_samples
from gavotte.errors import GavotteError
from gavotte.formats.record import Quantity

URL = os.environ.get("GAVOTTE_OPENSEARCH", "")
pytestmark = pytest.mark.skipif(not URL, reason="needs OpenSearch: tools/opensearch pytest ...")


def asked(method: str, path: str, body: Any = None) -> Any:
    """Return OpenSearch's answer."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{URL}{path}", data=data, headers=headers, method=method)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.loads(answer.read())


def found(index: str, query: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the documents that a query finds."""
    asked("POST", f"/{index}/_refresh")
    hits = asked("POST", f"/{index}/_search", {"size": 1000, "query": query})["hits"]["hits"]
    return [hit["_source"] for hit in hits]


def test_documents_are_kept_once_and_found(tmp_path: Path) -> None:
    loss: dict[str, Any] = {
        "metrics": {"loss": Quantity(value=0)},
        "metadata": {"protocol": "udp", "rate_bps": 5_000_000},
    }
    samples = [*repeated("near", [1e8 + number * 1e6 for number in range(300)]), sample("u", 0, 4.8e6, **loss)]
    write_samples(tmp_path / "r.jsonl", samples)
    for _ in range(2):
        done = gavotte("campaign", "archive", "r.jsonl", "--opensearch", URL, "--index", "once", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    assert len(found("once", {"match_all": {}})) == len(samples)
    assert len(found("once", {"range": {"result.throughput": {"gt": 2.495e8}}})) == 150
    (day,) = found("once", {"range": {"@timestamp": {"gte": "2023-11-14T22:13:20Z", "lt": "2023-11-14T22:13:21Z"}}})[:1]
    assert day["meta"]["destination"]["hostname"] == "b"
    fields = asked("GET", "/once/_mapping")["once"]["mappings"]["properties"]
    assert fields["@timestamp"]["type"] == "date"
    result = fields["result"]["properties"]
    assert (result["throughput"]["type"], result["loss"]["type"]) == ("float", "float")


def test_a_document_that_does_not_fit_the_index_is_named() -> None:
    asked("PUT", "/other", {"mappings": {"properties": {"result": {"type": "keyword"}}}})
    with pytest.raises(GavotteError, match=r"refuses 2 documents: .*result") as raised:
        archive(repeated("near", [1e8, 1.1e8]), Archive(opensearch=URL, index="other"))
    assert "use another --index" in str(raised.value)


def test_exported_lines_are_a_bulk_request() -> None:
    body = like_opensearch(repeated("near", [1e8, 1.1e8]), "lines").encode()
    headers = {"Content-Type": "application/x-ndjson"}
    request = urllib.request.Request(f"{URL}/_bulk", data=body, headers=headers, method="POST")
    with urllib.request.urlopen(request, timeout=30) as answer:
        report = json.loads(answer.read())
    assert not report["errors"]
    assert [item["index"]["status"] for item in report["items"]] == [201, 201]
