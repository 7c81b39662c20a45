"""Read the exports of flow meters: sFlow, NetFlow and IPFIX, from a capture of their datagrams or as they arrive."""

from __future__ import annotations

from collections.abc import Callable

from gavotte._core import Exports
from gavotte.errors import FormatError, GavotteError
from gavotte.profile.ends import keys_of, traffic_of
from gavotte.profile.gathering import Request
from gavotte.profile.listening import receive
from gavotte.profile.skips import Skips, counted_others
from gavotte.profile.traffic import Traffic
from gavotte.terms.unix_clock import UnixClock

MOST_SHOWN = 100
"""Most characters of a decoder's message that an error repeats."""

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
            packets = Skips("packet", sum(number for _, number in exports.others()), dict(exports.others()))
            problem = f"contains no {_NAMES[kind]} datagram ({packets.described()})"
            raise FormatError(where, "", problem, "check exporter, port and the kind of export")
        if counters["damaged_datagrams"] >= counters["datagrams"]:
            raise _all_damaged(where, kind, counters, exports.damage() or "")
        seen: dict[str, int | float | bool] = {**counters, "truncated": truncated}
        if request.listen is not None:
            seen["socket_drops"] = dropped
        whole_s = (start_s, clock()) if request.listen else None
        return traffic_of(exports.rows(), request, seen, whole_s, _skips(counters, dict(exports.skipped())))

    return read


def _skips(counters: dict[str, int], reasons: dict[str, int]) -> Skips:
    """Return what the datagrams contain that does not count."""
    if "samples" in counters:
        others = counted_others({("counter sample", "counter samples"): counters["counter_samples"]})
        remedy = None if counters["samples"] else "switch on flow sampling at the agent"
        return Skips("flow sample", counters["samples"], reasons, others, remedy)
    untold = counters["untold_sets"]
    others = counted_others(
        {
            ("record of options", "records of options"): counters["options"],
            ("set without its template", "sets without their template"): untold,
        }
    )
    waits = untold and not counters["flows"]
    remedy = "capture for longer, until the meter repeats its templates" if waits else None
    return Skips("flow", counters["flows"], reasons, others, remedy)


def _all_damaged(where: str, kind: str, counters: dict[str, int], damage: str) -> FormatError:
    """Return the error for an input in which no datagram can be decoded."""
    number = counters["damaged_datagrams"]
    if counters["cut_datagrams"]:
        problem = f"all {_NAMES[kind]} datagrams are damaged: {counters['cut_datagrams']} of {number} are cut"
        return FormatError(where, "", problem, "capture them whole: tcpdump -s 0")
    shown = " ".join(damage.split())[:MOST_SHOWN].replace("; ", ", ")
    if "{" in shown:  # bytes of the datagram, which no reader understands
        shown = "no set in them can be decoded"
    problem = f"all {_NAMES[kind]} datagrams are damaged: {shown[:1].lower()}{shown[1:]}"
    return FormatError(where, "", problem, "check exporter, port and the kind of export")
