"""Read pcap and pcapng captures, or packets as they arrive: the payload that each address sent to each other one."""

from __future__ import annotations

from gavotte._core import captured
from gavotte.errors import GavotteError
from gavotte.profile.capturing import capture
from gavotte.profile.ends import keys_of, traffic_of
from gavotte.profile.gathering import Request
from gavotte.profile.skips import Skips
from gavotte.profile.traffic import Traffic


def read_pcap(request: Request) -> Traffic:
    """Count the payload between addresses in pcap or pcapng files, gzip or plain, in constant memory; `-` is stdin.

    If the request names an interface, tcpdump captures on it for a limited time, and its packets are read as they
    arrive.

    A task is a host address (one process a host, as Choreo's section 2.1 profiles), or an address with a port. Bytes
    are TCP and UDP payload, without headers and retransmissions, so that they do not depend on the network of the
    day. The payload in a tunnel (VXLAN, Geneve, GRE, IP in IP, a PIM register) counts between the ends inside. The
    lower end of a pair's interval leaves out bytes that only a jump of TCP's sequence numbers indicates.

    Several files are captures at several hosts during the same run. Each pair is then taken from the file that saw most
    of it. A byte captured at both ends therefore counts once.

    Returns:
        The Traffic. Its `skipped` has the protocols of packets that are neither TCP nor UDP over IP, later fragments,
        or cut before the ports. Its `seen` has `packets` read, `ignored_packets`, which is the sum of `skipped`, and
        `foreign_bytes` from or to an address that is no task. It has `duplicate_packets` and `duplicate_bytes`, sent or
        seen again, and `unseen_bytes`, which the capture missed and TCP's sequence numbers indicate. It has
        `unplaced_bytes`, for which the tables had no room, and `span_s` from first packet to last.
        `truncated` is true if a file ended inside a record; all packets before it were counted. A capture on an
        interface also has `dropped_packets`, which came faster than they were read.

    Raises:
        FormatError: when a file is no capture, is damaged, or has no payload between tasks.
        GavotteError: when the tasks have no IP addresses.
    """
    keys = keys_of(request.tasks)
    paths = [str(each) for each in request.inputs]
    dropped: dict[str, int] = {}
    if request.interface is None:
        counted = captured(paths, keys, request.every_s)
    elif paths:
        raise GavotteError("files and an interface were given", hint="choose one")
    else:
        counted, dropped["dropped_packets"] = capture(
            request.interface, lambda path: captured([path], keys, request.every_s), request.for_s, request.ready
        )
    rows, counters, skipped, truncated, whole_s = counted
    seen: dict[str, int | float | bool] = {key: value if key.endswith("_s") else int(value) for key, value in counters}
    skips = Skips("packet", int(seen["packets"]), dict(skipped))
    return traffic_of(rows, request, {**seen, **dropped, "truncated": truncated}, whole_s, skips)
