"""The compiled reader of captures: both formats, every link type, tunnels, and each byte once."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dpkt
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples
from tests.profile.frames import (
    ETHERNET,
    LOOP,
    NULL,
    RAW,
    SLL,
    SLL2,
    A,
    B,
    C,
    ethernet,
    null,
    packed,
    pcap_bytes,
    pcapng_bytes,
    sll,
    sll2,
    tcp,
    udp,
    write,
)

from gavotte._core import captured
from gavotte.errors import FormatError

A6, B6 = "fd00::1", "fd00::2"
FRAMES = [tcp(payload=n, seq=1000 * n) for n in (10, 200, 3000)]
JUMP_BYTES = 64 << 20


def read(content: bytes, folder: Path, names: list[str] | None = None) -> tuple[dict[tuple[str, str], int], Any]:
    rows, counters, skipped, truncated, _ = captured([str(write(folder, content))], names, None)
    sums = {(source, target): size for _, source, target, size, *_ in rows}
    return sums, {**dict(counters), "truncated": truncated, "skipped": dict(skipped)}


def payload(folder: Path, frame: bytes, link: int = RAW, *, wire: int | None = None) -> int:
    head = struct.pack("=IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, link)
    record = struct.pack("=IIII", 1, 0, len(frame), wire or len(frame)) + frame
    sums, _ = read(head + record, folder)
    return sum(sums.values())


@pytest.mark.parametrize("build", [pcap_bytes, pcapng_bytes])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_both_formats_plain_and_gzip(tmp_path: Path, build: Any, pack: Any) -> None:
    path = write(tmp_path, pack(build([udp(payload=10), udp(payload=200), udp(payload=3000)])))
    rows, counters, _, truncated, whole_s = captured([str(path)], None, None)
    assert [row[1:4] for row in rows] == [(A, B, 3210)]
    assert (dict(counters)["packets"], truncated) == (3, False)
    assert whole_s is not None
    assert whole_s == pytest.approx((1700000000.0, 1700000000.002), abs=1e-5)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(("magic", "tick_s"), [(0xA1B2C3D4, 1e-6), (0xA1B23C4D, 1e-9)])
def test_pcap_in_either_byte_order_and_resolution(tmp_path: Path, order: Any, magic: Any, tick_s: Any) -> None:
    frame = udp(payload=9)
    content = struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 262144, RAW)
    content += struct.pack(order + "IIII", 10, 500, len(frame), 90) + frame
    rows, _, _, _, whole_s = captured([str(write(tmp_path, content))], None, None)
    assert rows[0][3] == 9
    assert whole_s == pytest.approx((10 + 500 * tick_s,) * 2, abs=1e-10)


@pytest.mark.parametrize("order", ["<", ">"])
def test_pcapng_sections_interfaces_and_resolutions(tmp_path: Path, order: Any) -> None:
    def block(kind: int, body: bytes) -> bytes:
        body += bytes(-len(body) % 4)
        size = struct.pack(order + "I", 12 + len(body))
        return struct.pack(order + "I", kind) + size + body + size

    section = block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1))
    nano = struct.pack(order + "HHIHHBxxxHH", ETHERNET, 0, 0, 9, 1, 9, 0, 0)
    binary = struct.pack(order + "HHIHHBxxxHH", RAW, 0, 0, 9, 1, 0x80 | 10, 0, 0)
    raw, framed = udp(payload=1), ethernet(udp(payload=20))
    packet = struct.pack(order + "IIIII", 1, 0, 2048, len(raw), len(raw)) + raw
    old = struct.pack(order + "HHIIII", 0, 0, 0, 5, len(framed), len(framed)) + framed
    simple = struct.pack(order + "I", len(raw)) + raw
    content = section + block(1, nano) + block(1, binary) + block(5, bytes(12)) + block(6, packet) + block(2, old)
    content += section + block(1, binary) + block(3, simple)
    rows, counters, _, truncated, whole_s = captured([str(write(tmp_path, content))], None, None)
    assert dict(counters)["packets"] == 3
    # The same flow at another interface counts where it was first seen: 1 byte of the second section is interface 0's.
    assert sum(row[3] for row in rows) == 1
    assert dict(counters)["duplicate_bytes"] == 21
    assert whole_s == pytest.approx((5e-9, 2.0))
    assert not truncated


@pytest.mark.parametrize("build", [pcap_bytes, pcapng_bytes])
def test_a_file_cut_anywhere_keeps_the_whole_records(tmp_path: Path, build: Any) -> None:
    content = build(FRAMES[:2])
    ends = [len(build(FRAMES[:n])) for n in (0, 1, 2)]
    for cut in range(ends[0], len(content)):
        _, seen = read(content[:cut], tmp_path)
        assert seen["packets"] == sum(end <= cut for end in ends) - 1
        assert seen["truncated"] == (cut not in ends)


def test_a_cut_gzip_keeps_the_whole_records(tmp_path: Path) -> None:
    packed_ = gzip.compress(pcap_bytes([ethernet(tcp(payload=9, seq=n * 7919)) for n in range(4000)], ETHERNET))
    _, seen = read(packed_[: len(packed_) // 2], tmp_path)
    assert seen["truncated"]
    assert 500 < seen["packets"] < 4000


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"\xd4\xc3", "is neither pcap nor pcapng"),
        (pcap_bytes([])[:20], "ends within its header"),
        (b"\x28\xb5\x2f\xfd and so on", "is compressed by zstd; unpack it first"),
        (b"GMBU and so on", "is a capture of Network Monitor; convert it first: editcap"),
        (bytes(100), "is no capture: it begins with zeros"),
        (b"hello, this is no capture", "is neither pcap nor pcapng"),
        (gzip.compress(b"nor is this", mtime=0), "is neither pcap nor pcapng"),
        (b"\x1f\x8b but no gzip", "damaged gzip"),
        (pcap_bytes(FRAMES[:1]) + struct.pack("=IIII", 0, 0, 1 << 31, 1 << 31), "record 2: claims 2147483648 bytes"),
        (b"\x0a\x0d\x0d\x0a" + struct.pack("<II", 28, 7) + bytes(20), "is neither pcap nor pcapng"),
        (pcapng_bytes([])[:28] + struct.pack("<IIIIIIII", 6, 32, 0, 0, 0, 0, 0, 32), "comes from an interface"),
        (pcapng_bytes([])[:28] + struct.pack("<IIII", 1, 16, 1, 16), "is too short for what it holds"),
        (pcapng_bytes([]) + struct.pack("<IIII", 6, 16, 0, 16), "is too short for what it holds"),
        (pcapng_bytes([]) + struct.pack("<III", 0x80000001, 5, 0), "is too short for a block"),
    ],
)
def test_damage_is_one_clear_line(tmp_path: Path, content: Any, message: Any) -> None:
    with pytest.raises(FormatError, match=message) as caught:
        read(content, tmp_path)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(str(tmp_path))


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    for path, message in (
        (tmp_path / "none.pcap", "no such file"),
        (tmp_path, "cannot be read"),
        ("a\0b", "cannot be"),
    ):
        with pytest.raises(FormatError, match=message):
            captured([str(path)], None, None)


def geneve(frame: bytes) -> bytes:
    return struct.pack(">BBHII", 1, 0, 0x6558, 7 << 8, 0xABCD0100) + frame


def vxlan(frame: bytes) -> bytes:
    return struct.pack(">II", 0x08000000, 7 << 8) + frame


def over_udp(port: int, inner: bytes) -> bytes:
    head = bytearray(udp(C, "10.0.0.4", payload=len(inner)))
    head[22:24] = struct.pack(">H", port)
    return bytes(head[:28]) + inner


def over_ip(protocol: int, inner: bytes) -> bytes:
    head = bytearray(udp(C, "10.0.0.4", payload=len(inner) - 8)[:20])
    head[9] = protocol
    return bytes(head) + inner


def ppp(packet: bytes) -> bytes:
    return struct.pack(">H", 0x0021 if packet[0] >> 4 == 4 else 0x0057) + packet


@pytest.mark.parametrize("ends", [(A, B), (A6, B6)])
@pytest.mark.parametrize(
    ("link", "wrap"),
    [
        (ETHERNET, ethernet),
        (ETHERNET, lambda p: ethernet(p, 7)),
        (ETHERNET, lambda p: ethernet(p, 7, 8)),
        (RAW, bytes),
        (228, bytes),
        (12, bytes),
        (SLL, sll),
        (SLL2, sll2),
        (NULL, null),
        (LOOP, lambda p: null(p, ">")),
        (RAW, lambda p: over_udp(4789, vxlan(ethernet(p)))),
        (RAW, lambda p: over_udp(8472, vxlan(ethernet(p, 9)))),
        (RAW, lambda p: over_udp(6081, geneve(ethernet(p)))),
        (RAW, lambda p: over_ip(47, struct.pack(">HH", 0, 0x6558) + ethernet(p))),
        (RAW, lambda p: over_ip(47, struct.pack(">HHI", 0x2000, 0x0800, 5) + p)),
        (RAW, lambda p: over_ip(4, p)),
        (ETHERNET, lambda p: bytes(12) + struct.pack(">HI", 0x8847, 16 << 12 | 0x1FF) + p),
        (ETHERNET, lambda p: bytes(12) + struct.pack(">HBBHH", 0x8864, 0x11, 0, 7, len(p) + 2) + ppp(p)),
        (ETHERNET, lambda p: bytes(12) + struct.pack(">H6s", len(p) + 8, b"\xaa\xaa\3\0\0\0") + ethernet(p)[12:]),
        (9, lambda p: ppp(p)),
        (9, lambda p: b"\xff\3" + ppp(p)),
        (9, lambda p: ppp(p)[1:]),
        (50, lambda p: b"\xff\3" + ppp(p)),
        (50, lambda p: b"\x0f\0" + ethernet(p)[12:]),
        (104, lambda p: b"\x8f\0" + ethernet(p)[12:]),
        (166, lambda p: b"\1\3" + ppp(p)),
        (204, lambda p: b"\1\xff\3" + ppp(p)),
        (51, lambda p: struct.pack(">BBHH", 0x11, 0, 7, len(p) + 2) + ppp(p)),
        (242, lambda p: bytes(40) + ethernet(p)[12:14] + b"\0\0" + p),
        (239, lambda p: b"\2\0\0\0" + struct.pack("<HHI", 8, 2, 1) + struct.pack("<HH", len(p) + 4, 9) + p),
        (RAW, lambda p: over_ip(103, struct.pack(">BBHI", 0x21, 0, 0, 0) + p)),
    ],
)
def test_every_link_type_and_tunnel(tmp_path: Path, link: Any, wrap: Callable[[bytes], bytes], ends: Any) -> None:
    source, target = ends
    for packet, size in ((tcp(source, target, 321, seq=77, options=bytes(12)), 321), (udp(source, target, 99), 99)):
        sums, _ = read(pcap_bytes([wrap(packet)], link), tmp_path)
        assert sums == {ends: size}


def test_both_sides_of_a_tunnel_count_once(tmp_path: Path) -> None:
    inner = [tcp(payload=1000, seq=n * 1000) for n in range(5)]
    frames = [each for packet in inner for each in (packet, over_udp(4789, vxlan(ethernet(packet))))]
    sums, seen = read(pcap_bytes(frames), tmp_path)
    assert sums == {(A, B): 5000}
    assert seen["duplicate_packets"] == 5


def test_a_tunnels_port_without_a_tunnel_is_payload(tmp_path: Path) -> None:
    sums, _ = read(pcap_bytes([over_udp(4789, b"no tunnel, but a request of some program")]), tmp_path)
    assert sums == {(C, "10.0.0.4"): 40}


def test_tunnels_without_end_are_left(tmp_path: Path) -> None:
    packet = tcp(payload=10)
    for _ in range(50):
        packet = over_ip(4, packet)
    _, seen = read(pcap_bytes([packet]), tmp_path)
    assert seen["ignored_packets"] == 1


def test_an_unknown_link_type_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"has packets of link type 105 \(802.11\) only, which is not read; capture"):
        read(pcap_bytes([tcp()], 105), tmp_path)


def test_packets_of_an_unknown_link_type_do_not_hide_the_others(tmp_path: Path) -> None:
    """The first packet of a pcapng file may be that of a USB interface."""

    def block(kind: int, body: bytes) -> bytes:
        body += bytes(-len(body) % 4)
        return struct.pack("<II", kind, 12 + len(body)) + body + struct.pack("<I", 12 + len(body))

    content = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
    for link in (220, RAW):
        content += block(1, struct.pack("<HHI", link, 0, 0))
    for interface in (0, 1):
        packet = udp(payload=9)
        content += block(6, struct.pack("<IIIII", interface, 0, 1, len(packet), len(packet)) + packet)
    sums, seen = read(content, tmp_path)
    assert sums == {(A, B): 9}
    assert seen["skipped"] == {"link type 220 (USB)": 1}


def test_a_null_register_of_pim_carries_nothing(tmp_path: Path) -> None:
    inner = bytearray(tcp(payload=0)[:20])
    inner[9] = 103
    register = over_ip(103, struct.pack(">BBHI", 0x21, 0, 0, 0x40000000) + bytes(inner))
    hello = over_ip(103, struct.pack(">BBH", 0x20, 0, 0) + bytes(20))
    sums, seen = read(pcap_bytes([register, hello]), tmp_path)
    assert (sums, seen["skipped"]) == ({}, {"PIM": 2})


def test_a_tunnel_without_tcp_or_udp_is_no_payload(tmp_path: Path) -> None:
    arp = bytes(12) + b"\x08\x06" + bytes(28)
    sums, seen = read(pcap_bytes([over_udp(4789, vxlan(arp)), over_udp(6081, geneve(arp))]), tmp_path)
    assert (sums, seen["skipped"]) == ({}, {"ARP": 2})


def test_zeros_after_the_last_packet_end_the_capture(tmp_path: Path) -> None:
    """As in a sparse file: 10 GB of zeros would be 600 million records without data."""
    path = write(tmp_path, pcap_bytes(FRAMES))
    with path.open("r+b") as stream:
        stream.truncate(10_000_000_000)
    rows, counters, _, truncated, _ = captured([str(path)], None, None)
    assert sum(row[3] for row in rows) > 0
    assert (dict(counters)["packets"], dict(counters)["blank_files"], truncated) == (3, 1, False)


def test_bytes_that_were_not_captured_are_below_the_interval(tmp_path: Path) -> None:
    def interval(*starts: int) -> tuple[int, int, int]:
        frames = [tcp(seq=start, payload=100) for start in starts]
        rows, *_ = captured([str(write(tmp_path, pcap_bytes(frames)))], None, None)
        return rows[0][3], rows[0][4], rows[0][5]

    assert interval(0, 100, 200) == (300, 300, 300)
    assert interval(0, 100, 900, 1000) == (1100, 400, 1100)
    assert interval(0, 200, 100) == (300, 300, 300), "a late packet fills the gap"
    assert interval(0, 1000, 500, 100, 800) == (1100, 400, 1100), "one gap is followed"
    assert interval(0, 200, 0, 200) == (300, 200, 300), "others sent again do not"
    # Ten forged packets, each 20 MB on.
    assert interval(*range(0, 200_000_000, 20_000_000)) == (180_000_100, 1000, 180_000_100)


def test_the_table_of_pairs_is_bounded_and_keeps_the_largest(tmp_path: Path) -> None:
    """Each address is seen once, as in a scan, but for one pair."""
    count = 400_000
    frame = np.zeros((count, 16 + 42), dtype=np.uint8)
    frame[:, 0:4] = np.frombuffer(struct.pack("<I", 1), np.uint8)
    frame[:, 8:16] = np.frombuffer(struct.pack("<II", 42, 42 + 100), np.uint8)
    packet = frame[:, 16:]
    packet[:, 12:14], packet[:, 14], packet[:, 16:18], packet[:, 23] = (8, 0), 0x45, (0, 128), 17
    number = np.arange(count, dtype=">u4")
    packet[:, 26:30] = (number + (10 << 24)).view(np.uint8).reshape(-1, 4)
    packet[:, 30:34] = (10, 255, 0, 1)
    packet[::2, 26:30] = (10, 200, 0, 1)
    packet[:, 38:40] = (0, 108)
    path = write(tmp_path, pcap_bytes([], ETHERNET) + frame.tobytes())
    rows, counters, *_ = captured([str(path)], None, None)
    seen = dict(counters)
    assert len(rows) <= 1 << 17
    assert max((row[3], row[1]) for row in rows) == (count // 2 * 100, "10.200.0.1")
    assert sum(row[3] for row in rows) + seen["unplaced_bytes"] == count * 100


def test_lengths_come_from_headers(tmp_path: Path) -> None:
    assert payload(tmp_path, ethernet(tcp(payload=1)) + bytes(20), ETHERNET) == 1, "padding"
    assert payload(tmp_path, ethernet(tcp(payload=60000))[:54], ETHERNET, wire=60054) == 60000, "snap length"
    packet = bytearray(tcp(payload=65000))
    packet[2:4] = b"\0\0"
    assert payload(tmp_path, ethernet(bytes(packet))[:96], ETHERNET, wire=14 + 40 + 65000) == 65000, "super-packet"
    six = bytearray(tcp(A6, B6, 65000))
    six[4:6] = b"\0\0"
    assert payload(tmp_path, ethernet(bytes(six))[:96], ETHERNET, wire=14 + 60 + 200000) == 200000, "BIG TCP"


def test_ipv6_extension_headers_are_stepped_over(tmp_path: Path) -> None:
    plain = tcp(A6, B6, 50)
    chain = struct.pack(">BB6x", 43, 0) + struct.pack(">BB6x", 44, 0) + struct.pack(">BBHI", 51, 0, 0, 9)
    chain += struct.pack(">BB10x", 6, 1)
    head = bytearray(plain[:40])
    head[4:6] = struct.pack(">H", len(chain) + 70)
    head[6] = 0
    assert payload(tmp_path, bytes(head) + chain + plain[40:]) == 50


def test_a_fragmented_datagram_counts_once_by_its_own_length(tmp_path: Path) -> None:
    first = bytearray(udp(payload=4000)[: 20 + 1480])
    first[2:4] = struct.pack(">H", 1500)
    first[6:8] = struct.pack(">H", 0x2000)
    later = bytearray(first)
    later[6:8] = struct.pack(">H", 0x2000 | 185)
    sums, seen = read(pcap_bytes([bytes(first), bytes(later)]), tmp_path)
    assert sums == {(A, B): 4000}
    assert seen["ignored_packets"] == 1


def test_what_carries_no_payload_between_hosts_is_ignored(tmp_path: Path) -> None:
    icmp = dpkt.ip.IP(src=packed(A), dst=packed(B), p=1, data=bytes(8))
    icmp.len = 28
    arp = bytes(12) + b"\x08\x06" + bytes(28)
    whole = ethernet(tcp(A6, B6), 7)
    for frame, link in ((bytes(icmp), RAW), (arp, ETHERNET), (b"", RAW), (b"\x50" + bytes(40), RAW)):
        assert read(pcap_bytes([frame], link), tmp_path)[1]["ignored_packets"] == 1
    cuts = [whole[:cut] for cut in range(14 + 4 + 40 + 14)]
    assert read(pcap_bytes(cuts, ETHERNET), tmp_path)[1]["ignored_packets"] == len(cuts)


def test_ways_and_interfaces_are_told_apart(tmp_path: Path) -> None:
    """UDP has no numbers: the second copy of a datagram is recognised by its interface."""
    frames = [sll2(udp(payload=100), kind, index) for kind in (0, 4) for index in (2, 3)]
    sums, seen = read(pcap_bytes(frames, SLL2), tmp_path)
    assert sums == {(A, B): 100}
    assert (seen["duplicate_packets"], seen["duplicate_bytes"]) == (3, 300)


def total(folder: Path, *segments: tuple[int, int, bool]) -> tuple[int, Any]:
    frames = [tcp(seq=seq, payload=count, flags=2 if syn else 16) for seq, count, syn in segments]
    sums, seen = read(pcap_bytes([each[:40] if len(each) > 60000 else each for each in frames]), folder)
    return sums.get((A, B), 0), seen


def seg(seq: int, count: int, *, syn: bool = False) -> tuple[int, int, bool]:
    return (seq & 0xFFFFFFFF, count, syn)


def test_each_byte_of_a_connection_counts_once(tmp_path: Path) -> None:
    # A SYN takes the number before the first byte.
    assert total(tmp_path, seg(-1, 0, syn=True), seg(0, 100), seg(100, 50), seg(150, 0))[0] == 150
    size, seen = total(tmp_path, seg(0, 100), seg(100, 100), seg(0, 100), seg(50, 100), seg(150, 100))
    assert (size, seen["duplicate_packets"], seen["duplicate_bytes"]) == (250, 2, 250)
    start = (1 << 32) - 150
    assert total(tmp_path, *(seg(start + n * 100, 100) for n in range(5)), seg(start + 100, 100))[0] == 500, "wraps"
    size, seen = total(tmp_path, seg(0, 100), seg(300, 100))
    assert (size, seen["unseen_bytes"]) == (400, 200), "what the capture missed"
    size, seen = total(tmp_path, seg(0, 100), seg(300, 100), seg(100, 200))
    assert (size, seen["unseen_bytes"], seen["duplicate_bytes"]) == (400, 0, 0), "what came late"
    assert total(tmp_path, seg(0, 100), seg(5000, 0), seg(100, 100))[0] == 200, "a bare acknowledgement"


def test_a_reused_port_is_a_new_connection(tmp_path: Path) -> None:
    first = [seg(-1, 0, syn=True), seg(0, 100)]
    assert total(tmp_path, *first, seg(39, 0, syn=True), seg(40, 100))[0] == 200
    assert total(tmp_path, *first, seg(100 + JUMP_BYTES + 1, 100))[0] == 200
    assert total(tmp_path, *first, seg(100 - JUMP_BYTES - 1, 100))[0] == 200
    assert total(tmp_path, seg(8, 0, syn=True), seg(9, 100), seg(8, 0, syn=True), seg(9, 100))[0] == 100


def test_ends_by_address_and_port(tmp_path: Path) -> None:
    frames = [tcp(A, B, 100), udp(A, C, 30)]
    names = ["10.0.0.2:6000", "10.0.0.1", "*:6000"]
    sums, _ = read(pcap_bytes(frames), tmp_path, names)
    assert sums == {("10.0.0.1", "10.0.0.2:6000"): 100, ("10.0.0.1", "*:6000"): 30}
    with pytest.raises(ValueError, match="`vm1` is not an end"):
        read(pcap_bytes(frames), tmp_path, ["vm1"])


def test_loopback_is_told_apart_by_service(tmp_path: Path) -> None:
    sums, _ = read(pcap_bytes([tcp(A, A, 100), tcp(A, A, 30, seq=1100)]), tmp_path)
    assert sums == {(f"{A}:5000", A): 130}


@examples(60)
@given(
    start=st.integers(0, (1 << 32) - 1),
    sizes=st.lists(st.integers(1, 1400), min_size=1, max_size=30),
    seed=st.randoms(use_true_random=False),
)
def test_bytes_are_conserved_whatever_is_repeated_reordered_or_missed(
    tmp_path: Path, start: Any, sizes: Any, seed: Any
) -> None:
    """The first and the furthest segment are seen; all others may be lost, late or doubled."""
    at, whole = start, []
    for size in sizes:
        whole.append(seg(at, size))
        at += size
    middle = [s for s in whole[1:-1] for _ in range(seed.randint(0, 3))]
    seed.shuffle(middle)
    assert total(tmp_path, whole[0], *middle, whole[-1], *middle)[0] == sum(sizes)
