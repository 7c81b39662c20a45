"""Make the kernel cut super-packets that the element cannot carry whole: all but TCP's, such as those of tunnels.

A packet socket describes a super-packet by `struct virtio_net_hdr`, which knows TCP and, on newer kernels, UDP, but no
tunnel. The kernel drops what it cannot describe. `ethtool -K NAME tx-udp_tnl-segmentation off` would have the same
effect.
"""

from __future__ import annotations

import array
import fcntl
import socket
import struct

_SIOCETHTOOL = 0x8946
_GSTRINGS, _GSSET_INFO, _SFEATURES = 0x1B, 0x37, 0x3B
_FEATURES = 4
"""Set of strings that names an interface's features."""
_NAME_BYTES = 32


def keep_only_tcp(channel: socket.socket, interface: str) -> None:
    """Turn off segmentation offloads other than TCP's.

    Args:
        channel: any socket of the interface's network namespace.
        interface: its name.

    Raises:
        OSError: when the kernel refuses.
    """
    names = _feature_names(channel, interface)
    blocks = [[0, 0] for _ in range(-(-len(names) // 32))]  # of 32 features each: which to change, and to what
    for number, name in enumerate(names):
        if name == "tx-gso-list" or (name.endswith("-segmentation") and not name.startswith("tx-tcp")):
            blocks[number // 32][0] |= 1 << number % 32
    words = [word for block in blocks for word in block]
    _ask(channel, interface, struct.pack(f"=II{len(words)}I", _SFEATURES, len(blocks), *words))


def _feature_names(channel: socket.socket, interface: str) -> list[str]:
    answer = _ask(channel, interface, struct.pack("=IIQI", _GSSET_INFO, 0, 1 << _FEATURES, 0))
    count = struct.unpack_from("=I", answer, 16)[0]
    question = struct.pack("=III", _GSTRINGS, _FEATURES, count) + bytes(count * _NAME_BYTES)
    answer = _ask(channel, interface, question)[12:]
    raw = (answer[at : at + _NAME_BYTES] for at in range(0, len(answer), _NAME_BYTES))
    return [name.partition(b"\0")[0].decode() for name in raw]


def _ask(channel: socket.socket, interface: str, question: bytes) -> bytes:
    """Send a request to the kernel by ethtool's ioctl, whose answer replaces the request."""
    data = array.array("B", question)
    fcntl.ioctl(channel, _SIOCETHTOOL, struct.pack("16sP16x", interface.encode(), data.buffer_info()[0]))
    return data.tobytes()
