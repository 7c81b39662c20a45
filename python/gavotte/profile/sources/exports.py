"""Read the exports of flow meters: sFlow, NetFlow and IPFIX, from a capture of their datagrams or as they arrive."""

from __future__ import annotations

from collections.abc import Callable

from gavotte._core import Exports
from gavotte.errors import FormatError, GavotteError
from gavotte.profile.ends import keys_of, traffic_of
from gavotte.profile.gathering import Request
from gavotte.profile.listening import receive
from gavotte.profile.traffic import Traffic
from gavotte.terms.unix_clock import UnixClock

_NAMES = {"sflow": "sFlow version 5", "netflow": "NetFlow version 5 or 9", "ipfix": "IPFIX"}


def read_exports(kind: str) -> Callable[[Request], Traffic]:
    """Return a reader of one kind of export: `sflow`, `netflow` or `ipfix`.

    Bytes are TCP and UDP payload.

    - sFlow: each sample's payload is multiplied by its own sampling rate. The rate is raised where samples were lost
      (gaps in their numbers) or dropped by the agent. The interval is that of the Poisson process of samples (see
      `sampled_range` in crates/capture). If several agents see a pair, the sender's own agent counts, else the
      receiver's, else the one that saw most.
    - NetFlow and IPFIX: octets minus headers. The number of options in TCP's headers is not known, and the interval
      allows for it. If the meter samples, the interval is wider.
    """

    def read(request: Request) -> Traffic:
        exports = Exports(kind, keys_of(request.tasks), request.every_s)
        clock = UnixClock()
        start_s = clock()
        truncated = False
        dropped = 0
        if request.listen is not None:
            if request.inputs:
                raise GavotteError("files and a place to listen at were given", hint="choose one")
            dropped = receive(request.listen, exports.datagram, request.for_s, request.ready)
        for path in request.inputs:
            truncated |= exports.capture(str(path))
        counters = {key: int(value) for key, value in exports.counters()}
        where = str(request.inputs[0]) if request.inputs else str(request.listen)
        if not counters["datagrams"]:
            others = f"; it has {counters['other_datagrams']} of other kinds" if counters["other_datagrams"] else ""
            raise FormatError(where, "", f"contains no {_NAMES[kind]} datagram", f"check exporter and port{others}")
        if counters["damaged_datagrams"] >= counters["datagrams"]:
            raise FormatError(
                where, "", f"all {_NAMES[kind]} datagrams are damaged", "capture them whole: tcpdump -s 0"
            )
        seen: dict[str, int | float | bool] = {**counters, "truncated": truncated}
        if request.listen is not None:
            seen["socket_drops"] = dropped
        return traffic_of(exports.rows(), request, seen, (start_s, clock()) if request.listen else None)

    return read
