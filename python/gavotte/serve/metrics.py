"""Write rates of a Network, and jobs and transfers of a store, in Prometheus' text format and in base units."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from gavotte.formats.network import Network
from gavotte.formats.parts.transfer import OVER, STATES

if TYPE_CHECKING:
    from gavotte.serve.pages.catalogue import Catalogue

_ESCAPED = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})

Labels = Mapping[str, str | int]


def metrics(
    network: Network | None, modified_s: float, requests: Mapping[tuple[str, int], int], stored: Catalogue | None = None
) -> str:
    """Return the metrics.

    Args:
        network: the Network; None = none is served.
        modified_s: Unix time at which its file was written.
        requests: number of requests by path and status.
        stored: what the store has; None = none is served.
    """
    return "".join(f"{line}\n" for line in _lines(network, modified_s, requests, stored))


def _lines(
    network: Network | None, modified_s: float, requests: Mapping[tuple[str, int], int], stored: Catalogue | None
) -> Iterator[str]:
    if network is not None:
        yield from _of_network(network, modified_s)
    if stored is not None:
        yield from _of_networks(stored)
        yield from _of_jobs(stored)
        yield from _of_transfers(stored)
    yield from _head("gavotte_http_requests_total", "Answered requests.", "counter")
    for (path, status), count in sorted(requests.items()):
        yield _row("gavotte_http_requests_total", {"path": path, "status": status}, count)


def _of_network(network: Network, modified_s: float) -> Iterator[str]:
    yield from _head("gavotte_network_hosts", "Hosts of the served Network.")
    yield f"gavotte_network_hosts {len(network.hosts)}"
    yield from _head("gavotte_network_modified_timestamp_seconds", "When the file of the served Network was written.")
    yield f"gavotte_network_modified_timestamp_seconds {modified_s:.3f}"
    yield from _head("gavotte_host_bytes_per_second", "TCP goodput that a host can send (out) or receive (in).")
    for host in network.hosts:
        for way, rate_bps in (("out", host.egress_bps), ("in", host.ingress_bps)):
            if rate_bps:
                yield _row("gavotte_host_bytes_per_second", {"host": host.name, "way": way}, rate_bps / 8)
    yield from _head("gavotte_group_bytes_per_second", "TCP goodput of a group's link up or down, e.g. of a rack's.")
    for group in network.groups:
        for way, rate_bps in (("up", group.up_bps), ("down", group.down_bps)):
            if rate_bps:
                yield _row("gavotte_group_bytes_per_second", {"group": group.name, "way": way}, rate_bps / 8)


def _of_networks(stored: Catalogue) -> Iterator[str]:
    networks = stored.networks()
    yield from _head("gavotte_measured_hosts", "Hosts of a measured network.")
    yield from (_row("gavotte_measured_hosts", {"network": each.name}, each.hosts) for each in networks)
    yield from _head("gavotte_measured_timestamp_seconds", "When a network was measured last.")
    for each in networks:
        yield _row("gavotte_measured_timestamp_seconds", {"network": each.name}, each.last_s)
    yield from _head("gavotte_measured_pair_bytes_per_second", "Median over measurements of the median pair's goodput.")
    for each in networks:
        if each.rate_bps is not None:
            yield _row("gavotte_measured_pair_bytes_per_second", {"network": each.name}, each.rate_bps / 8)
    yield from _head("gavotte_watch_events_total", "Events that watches have kept.", "counter")
    yield f"gavotte_watch_events_total {stored.events_kept()}"
    yield from _head("gavotte_watch_event_timestamp_seconds", "When a watch last saw an event of a kind.")
    newest = {each.event: each.time_s for each in reversed(stored.events())}
    for event, time_s in sorted(newest.items()):
        yield _row("gavotte_watch_event_timestamp_seconds", {"event": event}, time_s)


def _of_jobs(stored: Catalogue) -> Iterator[str]:
    # Without their commands: any user of this machine may read metrics, and commands may have secrets.
    jobs = stored.jobs()
    yield from _head("gavotte_job_started_timestamp_seconds", "When a job's last run began.")
    for each in jobs:
        yield _row("gavotte_job_started_timestamp_seconds", {"job_key": each.job}, each.runs[-1].time_s)
    for name, text, field in (
        ("gavotte_job_wall_seconds", "Wall time of a job's last run.", "wall_s"),
        ("gavotte_job_predicted_seconds", "Wall time that was predicted for a job's last run.", "predicted_s"),
        ("gavotte_job_predicted_high_seconds", "Upper end of this prediction's 95 % interval.", "high_s"),
    ):
        yield from _head(name, text)
        for each in jobs:
            value = getattr(each.runs[-1], field)
            if value is not None:
                yield _row(name, {"job_key": each.job}, value)


def _of_transfers(stored: Catalogue) -> Iterator[str]:
    transfers = stored.transfers()
    yield from _head("gavotte_transfers", "Transfers of the controller's queue by state.")
    counts = Counter(each.state for each in transfers)
    yield from (_row("gavotte_transfers", {"state": state}, counts[state]) for state in STATES)
    yield from _head("gavotte_transfers_left_bytes", "Payload that queued and running transfers have not moved yet.")
    left = sum(each.bytes - each.moved_bytes for each in transfers if each.state not in OVER)
    yield f"gavotte_transfers_left_bytes {left}"
    yield from _head("gavotte_transfers_late_total", "Transfers that missed their deadlines.", "counter")
    yield f"gavotte_transfers_late_total {sum(each.in_time is False for each in transfers)}"


def _head(name: str, text: str, kind: str = "gauge") -> tuple[str, str]:
    return f"# HELP {name} {text}", f"# TYPE {name} {kind}"


def _row(name: str, labels: Labels, value: float) -> str:
    inside = ",".join(f'{key}="{str(text).translate(_ESCAPED)}"' for key, text in labels.items())
    return f"{name}{{{inside}}} {value if isinstance(value, int) else f'{value:.10g}'}"
