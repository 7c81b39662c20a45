"""Samples in the shapes that other tools read: iperf3's JSON, and OpenSearch documents like perfSONAR's."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timezone
from typing import Any

from gavotte import _core
from gavotte.campaign.comparing import value_of
from gavotte.campaign.states import accounts
from gavotte.errors import GavotteError
from gavotte.formats.record import Sample

INDEX = "gavotte-campaign"
"""Name of the OpenSearch index, unless another is given."""
MOST_ID_BYTES = 512
"""Longest `_id` of a document that OpenSearch accepts in a bulk request, from version 2.9 on."""
MOST_NAME_BYTES = 255
"""Longest name of an index."""
BODY_BYTES = 5_000_000
"""Size at which a bulk request is complete. OpenSearch refuses requests above 100 MB, and smaller ones go faster."""
_INDEX = re.compile(r"[^-_+\s,:\"*/\\|?#<>][^\s,:\"*+/\\|?#<>]*")
LATEST_S = 2.5e11
"""Latest Unix time that is written as a date."""


def like_iperf3(sample: Sample) -> dict[str, Any]:
    """Return a sample as iperf3's `-J` prints a test.

    Agents count what arrives, so the sender's bytes and rates are the receiver's. The whole test is one interval. In
    both directions at once, `sum` is the forward one and `sum_..._bidir_reverse` the other, as with `--bidir`.
    """
    details = sample.metadata
    udp = details.get("protocol") == "udp"
    seconds = sample.seconds or 1.0
    pairs = _pairs(sample)
    forward, backward = (pairs[::2], pairs[1::2]) if details.get("direction") == "both" else (pairs, [])
    kernels = [str(state.get("kernel", "")) for state in accounts(details)[0].values()]
    numbers = {
        "protocol": "UDP" if udp else "TCP",
        "num_streams": sample.connections,
        "omit": 0,
        "duration": seconds,
        "bytes": 0,
        "blocks": 0,
        "reverse": int(details.get("direction") == "reverse"),
        "tos": 0,
        "target_bitrate": int(details.get("rate_bps") or 0),
    }
    time_s = min(max(sample.time_s, 0.0), LATEST_S)
    start: dict[str, Any] = {
        "connected": [
            {"socket": number, "local_host": source, "local_port": 0, "remote_host": target, "remote_port": 0}
            for number, (source, target, _) in enumerate(_streams(sample, pairs), start=1)
        ],
        "version": f"gavotte {_core.version()}",
        "system_info": kernels[0] if kernels else "",
        "timestamp": {
            "time": time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time_s)),
            "timesecs": int(time_s),
        },
        "connecting_to": {"host": pairs[0][1], "port": 0},
        "test_start": numbers,
    }
    if segment := value_of(sample, "segment_bytes"):
        start["tcp_mss_default"] = int(segment)
    total = _rate(sum(rate for _, _, rate in forward), seconds)
    streams = [
        {"udp": _rate(rate, seconds) | _of_packets(sample) | {"socket": number, "sender": True}}
        if udp
        else {
            side: _rate(rate, seconds)
            | {"socket": number, "sender": side == "sender"}
            | _of_sender(sample, side, single)
            for side in ("sender", "receiver")
        }
        for single in [len(_streams(sample, pairs)) == 1]
        for number, (_, _, rate) in enumerate(_streams(sample, pairs), start=1)
    ]
    end: dict[str, Any] = {"streams": streams}
    if udp:
        end["sum"] = total | _of_packets(sample) | {"sender": True}
    retransmits = value_of(sample, "retransmits")
    again = {} if udp or retransmits is None else {"retransmits": int(retransmits)}
    end["sum_sent"] = total | (_of_packets(sample) if udp else again) | {"sender": True}
    end["sum_received"] = total | (_of_packets(sample) if udp else {}) | {"sender": False}
    if backward:
        reverse = _rate(sum(rate for _, _, rate in backward), seconds)
        end["sum_sent_bidir_reverse"] = reverse | {"sender": True}
        end["sum_received_bidir_reverse"] = reverse | {"sender": False}
    end["cpu_utilization_percent"] = _busy(sample)
    if not udp and (used := details.get("congestion_used")):
        end["sender_tcp_congestion"] = end["receiver_tcp_congestion"] = str(used)
    return {
        "title": sample.sample,
        "start": start,
        "intervals": [{"streams": [], "sum": total | {"omitted": False, "sender": True}}],
        "end": end,
        "extra_data": json.dumps({"campaign": sample.campaign, "plan": details.get("plan"), "engine": sample.engine}),
    }


def document(sample: Sample) -> dict[str, Any]:
    """Return a sample as a document for OpenSearch, with the fields of perfSONAR's archive where it has them."""
    details = sample.metadata
    result: dict[str, Any] = {"throughput": sample.value, "low": sample.low, "high": sample.high}
    result |= {name: quantity.value for name, quantity in sample.metrics.items()}
    # OpenSearch makes an array of numbers a field with several values.
    result["connection_bps"] = sample.connection_bps or result.get("connection_bps")
    rate_bps = details.get("rate_bps")
    time_s = min(max(sample.time_s, 0.0), LATEST_S)
    return {
        "@timestamp": datetime.fromtimestamp(time_s, timezone.utc)
        .isoformat(timespec="milliseconds")
        .replace("+00:00", "Z"),
        "meta": {"source": {"hostname": sample.source}, "destination": {"hostname": sample.target}},
        "test": {
            "type": "throughput",
            "tool": {"name": "gavotte" if sample.engine in ("own", "") else sample.engine, "version": _core.version()},
            "spec": {
                "source": sample.source,
                "dest": sample.target,
                "duration": sample.seconds,
                "parallel": sample.connections,
                "udp": details.get("protocol") == "udp",
                # OpenSearch rounds all values of a field whose first one is whole.
                "bandwidth": float(rate_bps) if isinstance(rate_bps, int | float) else None,
                "mtu": details.get("mtu_bytes"),
                "direction": details.get("direction", "forward"),
                "congestion": details.get("congestion_used"),
            },
        },
        "result": {key: value for key, value in result.items() if value is not None},
        "campaign": {
            "name": sample.campaign,
            "scenario": sample.scenario,
            "sample": sample.sample,
            "repetition": sample.repetition,
            "flavour": sample.flavour,
            "plan": details.get("plan"),
            "seed": details.get("seed"),
        },
    }


def like_opensearch(samples: Sequence[Sample], index: str = INDEX) -> str:
    """Return samples as the body of a request to OpenSearch's `_bulk`: two lines for each.

    A sample has the same `_id` whenever it is sent, so that sending it again changes nothing.
    """
    return b"".join(bulk_bodies(samples, index)).decode()


def bulk_bodies(samples: Iterable[Sample], index: str = INDEX) -> Iterator[bytes]:
    """Yield the lines of `like_opensearch` in bodies that OpenSearch accepts, each of about `BODY_BYTES`.

    Raises:
        GavotteError: when an index cannot have this name.
    """
    check_index(index)
    body = bytearray()
    for sample in samples:
        for line in ({"index": {"_index": index, "_id": _id_of(sample)}}, document(sample)):
            body += json.dumps(line, allow_nan=False).encode() + b"\n"
        if len(body) >= BODY_BYTES:
            yield bytes(body)
            body.clear()
    if body:
        yield bytes(body)


def check_index(index: str) -> None:
    """Refuse names that OpenSearch refuses for an index.

    Raises:
        GavotteError: naming the rule.
    """
    fits = _INDEX.fullmatch(index) and index not in (".", "..") and len(index.encode()) <= MOST_NAME_BYTES
    if not fits or index != index.lower():
        raise GavotteError(
            f"`{index}` cannot be the name of an index in OpenSearch",
            hint='use small letters, digits, dots, - and _, with a letter or digit first, such as "gavotte-campaign"',
        )


def _id_of(sample: Sample) -> str:
    """Return the `_id` of a sample's document. Long names are cut, and a digest of the whole name follows."""
    name = f"{sample.campaign}/{sample.sample}@{sample.time_s:.3f}"
    if len(name.encode()) <= MOST_ID_BYTES:
        return name
    digest = "~" + hashlib.sha256(name.encode()).hexdigest()
    return name.encode()[: MOST_ID_BYTES - len(digest)].decode(errors="ignore") + digest


def _pairs(sample: Sample) -> list[tuple[str, str, float]]:
    """Return source, target and rate (bit/s) of each pair that sent at once."""
    listed = sample.metadata.get("pairs")
    pairs = [
        (str(each["source"]), str(each["target"]), float(each["capacity_bps"]))
        for each in (listed if isinstance(listed, list) else ())
        if isinstance(each, dict)
        and isinstance(each.get("capacity_bps"), int | float)
        and {"source", "target"} <= each.keys()
    ]
    return pairs or [(sample.source, sample.target, sample.value)]


def _streams(sample: Sample, pairs: Sequence[tuple[str, str, float]]) -> list[tuple[str, str, float]]:
    """Return source, target and rate of each connection; one for each pair if their rates are unknown."""
    rates = sample.connection_bps
    if len(rates) != sample.connections * len(pairs):
        return list(pairs)
    return [(*pairs[number // sample.connections][:2], rate) for number, rate in enumerate(rates)]


def _rate(rate_bps: float, seconds: float) -> dict[str, Any]:
    size = round(rate_bps * seconds / 8)
    return {"start": 0, "end": seconds, "seconds": seconds, "bytes": size, "bits_per_second": rate_bps}


def _of_sender(sample: Sample, side: str, single: bool) -> dict[str, Any]:
    if side != "sender":
        return {}
    values: dict[str, Any] = {}
    if (rtt_s := value_of(sample, "rtt_loaded_s")) is not None:
        values["mean_rtt"] = round(1e6 * rtt_s)
    if single and (retransmits := value_of(sample, "retransmits")) is not None:
        values["retransmits"] = int(retransmits)
    return values


def _of_packets(sample: Sample) -> dict[str, Any]:
    """Return the packet counts of a UDP sample. They follow from its loss and its rates if no pair's are known."""
    listed = sample.metadata.get("packets")
    sent = int(listed["sent"]) if isinstance(listed, dict) and isinstance(listed.get("sent"), int) else 0
    loss = value_of(sample, "loss") or 0.0
    return {
        "jitter_ms": 1e3 * (value_of(sample, "jitter_s") or 0.0),
        "lost_packets": round(loss * sent),
        "packets": sent,
        "lost_percent": 100 * loss,
    }


def _busy(sample: Sample) -> dict[str, float]:
    """Return the processor time of both ends, in percent of one core, as iperf3 does."""
    own = sample.engine in ("own", "")
    busy = {}
    for name, side in (("host_total", "sender"), ("remote_total", "receiver")):
        cores = value_of(sample, f"{side}_process_cpu" if own else f"{side}_cpu")
        busy[name] = 100 * (cores or 0.0)
    return busy
