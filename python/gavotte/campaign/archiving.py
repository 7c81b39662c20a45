"""Send samples to archives: to Prometheus by remote write, and to OpenSearch by its bulk interface."""

from __future__ import annotations

import json
import os
import re
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from gavotte.campaign.shapes import INDEX, bulk_bodies, check_index
from gavotte.errors import GavotteError
from gavotte.extras import needs
from gavotte.formats.record import Sample

TOKEN = "GAVOTTE_ARCHIVE_TOKEN"
"""Environment variable with a bearer token for archives."""
LIMIT_S = 30.0
"""Longest wait for an archive's answer."""
PREFIX = "gavotte_campaign_"
_NAME = re.compile(r"[^a-zA-Z0-9_]")


@dataclass(frozen=True)
class Archive:
    """Where to send samples.

    Attributes:
        prometheus: address that accepts remote writes, e.g. `http://host:9090/api/v1/write`; None = do not send there.
        opensearch: address of an OpenSearch or Elasticsearch; None = do not send there.
        index: index of the documents in OpenSearch.
    """

    prometheus: str | None = None
    opensearch: str | None = None
    index: str = INDEX

    def __post_init__(self) -> None:
        """Check the addresses.

        Raises:
            GavotteError: when one is not an address that HTTP knows, or the index cannot have its name.
        """
        check_index(self.index)
        for url in (self.prometheus, self.opensearch):
            if url is not None and (urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname):
                raise GavotteError(f"`{url}` is not an address", hint="use e.g. http://host:9090/api/v1/write")

    @property
    def places(self) -> list[str]:
        """Addresses that samples go to."""
        return [url for url in (self.prometheus, self.opensearch) if url is not None]


def archive(samples: Sequence[Sample], to: Archive) -> None:
    """Send samples to all places of an archive.

    OpenSearch accepts the same samples again, which changes nothing. Prometheus refuses samples that are not newer than
    those it has, unless it is configured to accept them.

    Raises:
        GavotteError: when an archive cannot be reached or refuses; names it.
    """
    if not samples:
        return
    if to.prometheus is not None:
        headers = {
            "Content-Encoding": "snappy",
            "Content-Type": "application/x-protobuf",
            "X-Prometheus-Remote-Write-Version": "0.1.0",
        }
        _post(to.prometheus, remote_write(samples), headers)
    if to.opensearch is not None:
        url = to.opensearch.rstrip("/") + "/_bulk"
        for body in bulk_bodies(samples, to.index):
            _check_bulk(url, _post(url, body, {"Content-Type": "application/x-ndjson"}))


def remote_write(samples: Sequence[Sample]) -> bytes:
    """Return samples as the body of a Prometheus remote write: one series for each value that a sample has.

    Raises:
        UnsupportedError: without pyarrow, which compresses the body.
    """
    with needs("parquet"):
        import pyarrow as pa

    from gavotte.campaign import remote_write_pb2 as pb

    points: dict[tuple[tuple[str, str], ...], dict[int, float]] = defaultdict(dict)
    for sample in samples:
        time_ms = round(1e3 * sample.time_s)
        values = {sample.metric: sample.value}
        values |= {name: quantity.value for name, quantity in sample.metrics.items() if quantity.value is not None}
        for name, value in values.items():
            points[_labels(sample, name)][time_ms] = value
    request = pb.WriteRequest(
        timeseries=[
            pb.TimeSeries(
                labels=[pb.Label(name=name, value=value) for name, value in labels],
                samples=[pb.Point(value=value, timestamp=time_ms) for time_ms, value in sorted(series.items())],
            )
            for labels, series in sorted(points.items())
        ]
    )
    packed: bytes = pa.compress(request.SerializeToString(), codec="snappy", asbytes=True)
    return packed


def _labels(sample: Sample, metric: str) -> tuple[tuple[str, str], ...]:
    labels = {
        "__name__": PREFIX + _NAME.sub("_", metric),
        "campaign": sample.campaign,
        "scenario": sample.scenario,
        "source": sample.source,
        "target": sample.target,
        "connections": str(sample.connections),
        "flavour": sample.flavour,
        "engine": sample.engine,
    }
    # An empty label is no label there.
    return tuple(sorted((name, value) for name, value in labels.items() if value))


def _post(url: str, body: bytes, headers: Mapping[str, str]) -> bytes:
    if token := os.environ.get(TOKEN):
        headers = {**headers, "Authorization": f"Bearer {token}"}
    request = urllib.request.Request(url, data=body, headers={**headers, "User-Agent": "gavotte"}, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:
            content: bytes = answer.read()
            return content
    except urllib.error.HTTPError as error:
        reason = error.read(500).decode(errors="replace").strip().splitlines()
        why = reason[0] if reason else str(error.reason)
        raise GavotteError(f"{url} refuses the samples: {error.code} {why}", hint=_remedy(error.code, why)) from None
    except (urllib.error.URLError, OSError) as error:
        cause = getattr(error, "reason", error)
        raise GavotteError(
            f"{url} cannot be reached: {cause}", hint="check the address, then archive the file again"
        ) from None


def _remedy(code: int, why: str) -> str:
    if "out of order" in why or "too old" in why or "duplicate sample" in why:
        return "it has these samples, or newer ones, already; out_of_order_time_window lets it accept older ones"
    return f"set a token in {TOKEN}" if code in (401, 403) else "check the address"


def _check_bulk(url: str, answer: bytes) -> None:
    """Raise an error if OpenSearch has refused a document, which it reports with status 200."""
    try:
        report = json.loads(answer)
        failed = (
            [item["index"]["error"] for item in report["items"] if "error" in item["index"]] if report["errors"] else []
        )
    except (ValueError, KeyError, TypeError):
        raise GavotteError(f"{url} is not OpenSearch's answer", hint="name the address of OpenSearch itself") from None
    if failed:
        reason = failed[0].get("reason", failed[0]) if isinstance(failed[0], dict) else failed[0]
        raise GavotteError(f"{url} refuses {len(failed)} documents: {reason}", hint="use another --index")
