from __future__ import annotations

import gzip
import struct
from pathlib import Path
from typing import Any

import pytest
from tests.profile.frames import ETHERNET, RAW, ethernet, pcap_bytes, pcapng_bytes, tcp, write

from gavotte.errors import FormatError
from gavotte.profile.capture.frames import Capture, Frame

FRAMES = [tcp(payload=n) for n in (10, 200, 3000)]


def records(path: Path) -> tuple[list[Frame], bool]:
    with Capture(path) as capture:
        found = list(capture)
        return found, capture.truncated


@pytest.mark.parametrize("build", [pcap_bytes, pcapng_bytes])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_both_formats_plain_and_gzip(tmp_path: Path, build: Any, pack: Any) -> None:
    found, truncated = records(write(tmp_path, pack(build(FRAMES))))
    assert [r.data for r in found] == FRAMES
    assert [r.wire_bytes for r in found] == [len(f) for f in FRAMES]
    assert [r.link_type for r in found] == [RAW] * 3
    assert found[2].time_s == pytest.approx(1700000000.002, abs=1e-6)
    assert not truncated


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(("magic", "tick_s"), [(0xA1B2C3D4, 1e-6), (0xA1B23C4D, 1e-9)])
def test_pcap_in_either_byte_order_and_resolution(tmp_path: Path, order: Any, magic: Any, tick_s: Any) -> None:
    content = struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 262144, RAW)
    content += struct.pack(order + "IIII", 10, 500, 3, 90) + b"abc"
    found, _ = records(write(tmp_path, content))
    assert found == [Frame(RAW, 0, 10 + 500 * tick_s, 90, b"abc")]


@pytest.mark.parametrize("order", ["<", ">"])
def test_pcapng_sections_interfaces_and_resolutions(tmp_path: Path, order: Any) -> None:
    def block(kind: int, body: bytes) -> bytes:
        size = struct.pack(order + "I", 12 + len(body))
        return struct.pack(order + "I", kind) + size + body + size

    section = block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1))
    nano = struct.pack(order + "HHIHHBxxxHH", ETHERNET, 0, 0, 9, 1, 9, 0, 0)
    binary = struct.pack(order + "HHIHHBxxx", RAW, 0, 0, 9, 1, 0x80 | 10)
    packet = struct.pack(order + "IIIII", 1, 0, 2048, 3, 77) + b"abc\0"
    old = struct.pack(order + "HHIIII", 0, 0, 0, 5, 2, 2) + b"xy\0\0"
    simple = struct.pack(order + "I", 4) + b"wxyz"
    content = section + block(1, nano) + block(1, binary) + block(5, bytes(8)) + block(6, packet) + block(2, old)
    content += section + block(1, binary) + block(3, simple)
    found, truncated = records(write(tmp_path, content))
    assert found == [
        Frame(RAW, 1, 2.0, 77, b"abc"),
        Frame(ETHERNET, 0, 5 * 1e-9, 2, b"xy"),
        Frame(RAW, 0, None, 4, b"wxyz"),
    ]
    assert not truncated


@pytest.mark.parametrize("build", [pcap_bytes, pcapng_bytes])
def test_a_file_cut_anywhere_keeps_the_whole_records(tmp_path: Path, build: Any) -> None:
    content = build(FRAMES[:2])
    ends = [len(build(FRAMES[:n])) for n in (0, 1, 2)]
    for cut in range(ends[0], len(content)):
        found, truncated = records(write(tmp_path, content[:cut]))
        assert [r.data for r in found] == FRAMES[: sum(end <= cut for end in ends) - 1]
        assert truncated == (cut not in ends)


def test_a_cut_gzip_keeps_the_whole_records(tmp_path: Path) -> None:
    packed = gzip.compress(pcap_bytes([ethernet(tcp(payload=9, seq=n * 7919)) for n in range(4000)], ETHERNET))
    found, truncated = records(write(tmp_path, packed[: len(packed) // 2]))
    assert truncated
    assert 500 < len(found) < 4000


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "is neither pcap nor pcapng"),
        (b"\xd4\xc3", "is neither pcap nor pcapng"),
        (pcap_bytes([])[:20], "is neither pcap nor pcapng"),
        (b"hello, this is no capture", "is neither pcap nor pcapng"),
        (gzip.compress(b"nor is this"), "is neither pcap nor pcapng"),
        (b"\x1f\x8b but no gzip", "damaged gzip"),
        (pcap_bytes(FRAMES[:1]) + struct.pack("=IIII", 0, 0, 1 << 31, 1 << 31), "record 2: claims 2147483648 bytes"),
        (b"\x0a\x0d\x0d\x0a" + struct.pack("<II", 28, 7) + bytes(20), "no known byte order"),
        (b"\x0a\x0d\x0d\x0a" + struct.pack("<II", 13, 0x1A2B3C4D) + bytes(20), "claims 13 bytes"),
        (pcapng_bytes([])[:28] + struct.pack("<IIIIIIII", 6, 32, 0, 0, 0, 0, 0, 32), "comes from interface 0"),
        (pcapng_bytes([])[:28] + struct.pack("<IIII", 1, 16, 1, 16), "describes an interface in too few"),
        (pcapng_bytes([]) + struct.pack("<IIII", 6, 16, 0, 16), "too short for a packet"),
        (pcapng_bytes([]) + struct.pack("<IIIIIIII", 6, 32, 0, 0, 0, 1, 1, 32), "claims 1 bytes of a packet"),
    ],
)
def test_damage_is_one_clear_line(tmp_path: Path, content: Any, told: Any) -> None:
    with pytest.raises(FormatError, match=told) as caught:
        records(write(tmp_path, content))
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(str(tmp_path))


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="no such file"):
        records(tmp_path / "none.pcap")
    with pytest.raises(FormatError, match="cannot be read"):
        records(tmp_path)
    with pytest.raises(FormatError, match="null"):
        records(Path("a\0b"))
