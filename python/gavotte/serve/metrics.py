"""The Network's rates in Prometheus' text format, in base units."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gavotte.formats.network import Network

_ESCAPED = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


def metrics(network: Network | None, modified_s: float, requests: Mapping[tuple[str, int], int]) -> str:
    """Return the metrics.

    Args:
        network: the Network; None = none is served.
        modified_s: Unix time at which its file was written.
        requests: number of requests by path and status.
    """
    return "".join(f"{line}\n" for line in _lines(network, modified_s, requests))


def _lines(network: Network | None, modified_s: float, requests: Mapping[tuple[str, int], int]) -> Iterator[str]:
    if network is not None:
        yield from _of_network(network, modified_s)
    yield from _head("gavotte_http_requests_total", "Answered requests.", "counter")
    for (path, status), count in sorted(requests.items()):
        yield f'gavotte_http_requests_total{{path="{path.translate(_ESCAPED)}",status="{status}"}} {count}'


def _of_network(network: Network, modified_s: float) -> Iterator[str]:
    yield from _head("gavotte_network_hosts", "Hosts of the served Network.")
    yield f"gavotte_network_hosts {len(network.hosts)}"
    yield from _head("gavotte_network_modified_timestamp_seconds", "When the file of the served Network was written.")
    yield f"gavotte_network_modified_timestamp_seconds {modified_s:.3f}"
    yield from _head("gavotte_host_bytes_per_second", "TCP goodput that a host can send (out) or receive (in).")
    for host in network.hosts:
        for way, rate_bps in (("out", host.egress_bps), ("in", host.ingress_bps)):
            if rate_bps:
                yield f'gavotte_host_bytes_per_second{{host="{host.name}",way="{way}"}} {rate_bps / 8:.6g}'
    yield from _head("gavotte_group_bytes_per_second", "TCP goodput of a group's link up or down, e.g. of a rack's.")
    for group in network.groups:
        name = group.name.translate(_ESCAPED)
        for way, rate_bps in (("up", group.up_bps), ("down", group.down_bps)):
            if rate_bps:
                yield f'gavotte_group_bytes_per_second{{group="{name}",way="{way}"}} {rate_bps / 8:.6g}'


def _head(name: str, text: str, kind: str = "gauge") -> tuple[str, str]:
    return f"# HELP {name} {text}", f"# TYPE {name} {kind}"
