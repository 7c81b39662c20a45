"""Read flow logs of clouds and clusters: VPC of AWS and GCP (text, CSV, JSON lines, Parquet), and Hubble's JSON.

VPC logs count whole IP packets; headers are subtracted as for NetFlow. A flow is logged at the sender's interface and
at the receiver's; each pair is taken from the side that saw more. AWS: refused flows (`REJECT`) carried nothing.
GCP estimates `bytes_sent` from sampled packets, and does not report the error of the estimate.

Hubble's flows have no bytes. Each forwarded flow counts as one byte, so that shares are those of events, and its
interval goes up to the largest packet. The report then has `bytes_are_events`. Ends are pods, as `NAMESPACE/POD`, or
addresses where there is no pod.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from gavotte.errors import FormatError
from gavotte.extras import needs
from gavotte.profile.ends import Ends
from gavotte.profile.gathering import Request
from gavotte.profile.naming import canonical_address
from gavotte.profile.sources.lines import lines_of
from gavotte.profile.traffic import Count, Traffic
from gavotte.terms.dates import read_date

MOST_BYTES = 1 << 62
LARGEST_PACKET_BYTES = 65_535
_TCP_BYTES, _UDP_BYTES = (20, 32, 60), (8, 8, 8)
_AWS = [
    *("version", "account_id", "interface_id", "srcaddr", "dstaddr", "srcport", "dstport"),
    *("protocol", "packets", "bytes", "start", "end", "action", "log_status"),
]
_COLUMNS = {
    "source": ("srcaddr", "pkt_srcaddr", "src_ip"),
    "target": ("dstaddr", "pkt_dstaddr", "dest_ip"),
    "source_port": ("srcport", "src_port"),
    "target_port": ("dstport", "dest_port"),
    "protocol": ("protocol",),
    "packets": ("packets", "packets_sent"),
    "bytes": ("bytes", "bytes_sent"),
    "end": ("end", "end_time"),
    "action": ("action",),
    "view": ("interface_id", "reporter"),
}
"""Names of each column in the logs, by our own name. Dashes are underscores, and BigQuery's prefixes are removed."""


class _Flow(NamedTuple):
    source: str
    target: str
    size: Count
    view: str
    end_s: float | None


def read_flows(request: Request) -> Traffic:
    """Read flow logs of clouds and clusters; the kind of each file is detected from its content.

    Returns:
        The Traffic. Its `seen` has `flows`, `ignored_flows` (neither TCP nor UDP, refused, or without data) and
        `bytes_are_events`.

    Raises:
        FormatError: when a file is no such log, or has a damaged line.
    """
    views: dict[str, Ends] = {}
    flows = ignored = 0
    events = False
    for path in map(str, request.inputs):
        for where, row in _rows(path):
            flow = _hubble(row) if "flow" in row or "node_name" in row else _vpc(row, path, where)
            events |= "flow" in row
            if flow is None:
                ignored += 1
                continue
            flows += 1
            views.setdefault(flow.view, Ends(request)).add(flow.source, flow.target, flow.size, flow.end_s)
    if not flows:
        raise FormatError(str(request.inputs[0]), "", "has no flow with data", "use a VPC flow log or Hubble's JSON")
    return Ends.best(request, list(views.values())).traffic(
        {"flows": flows, "ignored_flows": ignored, "bytes_are_events": events}
    )


def _rows(path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each row of a flow log: its place in the file for messages, and its values by column."""
    if _is_parquet(path):
        yield from _parquet(path)
        return
    lines = enumerate(lines_of(path), 1)
    columns: list[str] | None = None
    separator = " "
    for number, line in lines:
        if not line.strip():
            continue
        where = f"line {number}"
        if line.lstrip().startswith("{"):
            try:
                row = json.loads(line)
                if not isinstance(row, dict):
                    raise ValueError
            except (ValueError, RecursionError):
                raise FormatError(path, where, "is not JSON", "use one object a line") from None
            yield where, row.get("jsonPayload", row) if isinstance(row.get("jsonPayload", row), dict) else {}
            continue
        if columns is None:
            separator = "," if line.count(",") >= 4 else " "
            fields = _fields(line, separator)
            named = [_plain(each) for each in fields]
            if "bytes" in named or "bytes_sent" in named:
                columns = named
                continue
            columns = _AWS
        fields = _fields(line, separator)
        if len(fields) != len(columns):
            remedy = f"a line has {len(columns)} columns"
            raise FormatError(path, where, f"has {len(fields)} columns", remedy)
        yield where, dict(zip(columns, fields, strict=True))


def _is_parquet(path: str) -> bool:
    try:
        with Path(path).open("rb") as stream:
            return stream.read(4) == b"PAR1"
    except (OSError, ValueError):  # the reader of lines reports the reason
        return False


def _fields(line: str, separator: str) -> list[str]:
    return next(csv.reader([line], delimiter=separator)) if separator == "," else line.split()


def _plain(column: str) -> str:
    """Return a column's name in `_COLUMNS`: `jsonPayload.connection.src_ip` is `src_ip`."""
    name = column.strip().lower().replace("-", "_").replace(".", "_")
    for before in ("jsonpayload_", "connection_"):
        name = name.removeprefix(before)
    return name


def _parquet(path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    with needs("parquet"):
        import pyarrow as pa
        import pyarrow.parquet as pq
    try:
        with pq.ParquetFile(path) as file:
            number = 0
            for batch in file.iter_batches(batch_size=10_000):
                for row in batch.to_pylist():
                    number += 1
                    yield f"row {number}", {_plain(key): value for key, value in row.items()}
    except (pa.ArrowException, OSError, ValueError) as error:
        problem = str(error).splitlines()[0][:100]
        raise FormatError(path, "", f"is not a readable Parquet file: {problem}", "copy it again") from None


def _vpc(row: dict[str, Any], path: str, where: str) -> _Flow | None:
    flat = {_plain(key): value for key, value in row.items()}
    connection = row.get("connection")
    flat |= {_plain(key): value for key, value in connection.items()} if isinstance(connection, dict) else {}

    def get(what: str) -> Any:
        return next((flat[name] for name in _COLUMNS[what] if flat.get(name) not in (None, "", "-")), None)

    if get("bytes") is None or get("source") is None or get("target") is None:
        if "log_status" in flat or "reporter" in flat:
            return None  # NODATA and SKIPDATA have dashes
        raise FormatError(path, where, "has no addresses and bytes", "use a VPC flow log or Hubble's JSON")
    if str(get("action") or "ACCEPT").upper() == "REJECT":
        return None
    try:
        protocol, size, packets = int(get("protocol") or 0), int(get("bytes")), int(get("packets") or 0)
        if not (0 <= size <= MOST_BYTES and 0 <= packets <= MOST_BYTES):
            raise ValueError
        source, target = (
            _socket(get("source"), get("source_port")),
            _socket(get("target"), get("target_port")),
        )
        end_s = _time_s(get("end"))
    except (ValueError, TypeError, OverflowError):
        raise FormatError(path, where, "has a field that is not a number, address or time", "copy it again") from None
    if protocol not in (6, 17):
        return None
    ip = 40 if ":" in str(get("source")) else 20
    most, likely, least = (
        max(size - packets * (ip + each), 0) for each in (_TCP_BYTES if protocol == 6 else _UDP_BYTES)
    )
    count = Count(likely, least, most) if least <= likely else Count(likely, likely, likely)
    return _Flow(source, target, count, str(get("view") or ""), end_s)


def _socket(address: Any, port: Any) -> str:
    plain = canonical_address(str(address))
    if port in (None, "", "-"):
        return plain
    return canonical_address(f"[{plain}]:{int(port)}" if ":" in plain else f"{plain}:{int(port)}")


def _time_s(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, datetime):
        return value.timestamp()
    text = str(value)
    time_s = read_date(text).timestamp() if "T" in text else float(text)
    if not 0 <= time_s < 1e11:
        raise ValueError
    return time_s


def _hubble(row: dict[str, Any]) -> _Flow | None:
    flow = row.get("flow")
    if not isinstance(flow, dict) or flow.get("verdict") not in ("FORWARDED", "TRACED", "REDIRECTED", 1, 6, 5):
        return None

    def part(of: dict[str, Any], key: str) -> dict[str, Any]:
        value = of.get(key)
        return value if isinstance(value, dict) else {}

    addresses, layer4 = part(flow, "IP"), part(flow, "l4")
    ports = part(layer4, "TCP") or part(layer4, "UDP")
    if not ports:
        return None

    def end(side: str, port: str) -> str | None:
        pod = part(flow, side)
        if pod.get("pod_name"):
            return f"{pod.get('namespace', 'default')}/{pod['pod_name']}"
        try:
            return _socket(addresses.get(side), ports.get(port))
        except (ValueError, TypeError):
            return None

    source, target = end("source", "source_port"), end("destination", "destination_port")
    if source is None or target is None:
        return None
    try:
        time_s = _time_s(flow.get("time") or row.get("time"))
    except (ValueError, OverflowError):
        time_s = None
    direction = str(flow.get("traffic_direction", ""))
    return _Flow(source, target, Count(1, 0, LARGEST_PACKET_BYTES), direction, time_s)
