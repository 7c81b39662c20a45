"""pcap and pcapng captures, and packets as they come: the application payload that each address sent to each other."""

from __future__ import annotations

from gavotte._core import captured
from gavotte.errors import GavotteError
from gavotte.profile.capturing import capture
from gavotte.profile.ends import keys_of, traffic_of
from gavotte.profile.gathering import Request
from gavotte.profile.traffic import Traffic


def read_pcap(request: Request) -> Traffic:
    """Counts who sent how many bytes to whom in pcap or pcapng files, gzip or plain, in constant memory; `-` is stdin.

    With an interface, tcpdump captures there for a while, and what it writes is read as it comes.

    A task is a host address (one process a host, as Choreo's section 2.1 profiles), or an address with a port. Bytes
    are TCP and UDP payload, without headers and retransmissions, so that they do not depend on the network of the
    day. What is in a tunnel (VXLAN, Geneve, GRE, IP in IP) counts between the ends inside.

    Several files are captures at several hosts during the same run. Each pair is then taken from the file that saw most
    of it. A byte captured at both ends therefore counts once.

    Returns:
        The Traffic. Of what it has `seen`: `packets` read, `ignored_packets` (neither TCP nor UDP over IP, later
        fragments, or cut before the ports), `foreign_bytes` from or to an address that is no task,
        `duplicate_packets` and `duplicate_bytes` sent or seen again, `unseen_bytes` counted that the capture
        missed and TCP's sequence numbers prove, `unplaced_bytes` beyond what tables hold, `span_s` from first packet
        to last, and `truncated`: a file ended inside a record; what came before was counted. Of a capture on an
        interface also `dropped_packets`, which came faster than they were read.

    Raises:
        FormatError: when a file is no capture, is damaged, or holds no payload between tasks.
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
    rows, counters, truncated, whole_s = counted
    seen: dict[str, int | float | bool] = {key: value if key.endswith("_s") else int(value) for key, value in counters}
    return traffic_of(rows, request, {**seen, **dropped, "truncated": truncated}, whole_s)
