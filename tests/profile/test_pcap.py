from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from tests.profile.frames import (
    ETHERNET,
    SLL2,
    A,
    B,
    C,
    ethernet,
    over_ip6,
    pcap_bytes,
    pcapng_bytes,
    sll2,
    tcp,
    udp,
    write,
)
from tests.profile.profiled import from_pcap

from gavotte.errors import FormatError, GavotteError
from gavotte.formats.app import App, read_app, write_app
from gavotte.profile import profile

TASKS = {B: "rank-0", A: "rank-1"}


def transfers(app: App) -> list[tuple[str, str, int]]:
    return [(t.source, t.target, t.bytes) for t in app.transfer]


def test_tasks_are_addresses_in_numeric_order(tmp_path: Path) -> None:
    frames = [tcp("10.0.0.10", "10.0.0.9", 5000), tcp("fd00::1", "fd00::2", 7000), udp(A, B, 6000)]
    app, report = from_pcap(write(tmp_path, pcap_bytes(frames)), name="mixed")
    assert [t.name for t in app.task] == [A, B, "10.0.0.9", "10.0.0.10", "fd00::1", "fd00::2"]
    assert transfers(app) == [(A, B, 6000), ("10.0.0.10", "10.0.0.9", 5000), ("fd00::1", "fd00::2", 7000)]
    assert (report.packets, report.bytes, report.truncated) == (3, 18000, False)
    assert report.span_s == pytest.approx(0.002, abs=1e-6)


def test_tasks_by_name_keep_the_mappings_order_and_leave_others_out(tmp_path: Path) -> None:
    frames = [tcp(A, B, 5000), tcp(B, A, 4000), tcp(A, C, 3000), tcp(C, B, 2000)]
    path = write(tmp_path, pcap_bytes(frames))
    app, report = from_pcap(path, {**TASKS, "10.0.0.99": "idle"}, name="job", cpus=2, memory_bytes=5)
    assert [(t.name, t.cpus, t.memory_bytes) for t in app.task] == [(n, 2, 5) for n in ("rank-0", "rank-1", "idle")]
    assert transfers(app) == [("rank-0", "rank-1", 4000), ("rank-1", "rank-0", 5000)]
    assert (report.foreign_bytes, report.bytes) == (5000, 9000)
    write_app(tmp_path / "a.app.toml", app)
    assert read_app(tmp_path / "a.app.toml") == app


def test_a_task_may_have_several_addresses(tmp_path: Path) -> None:
    hosts = {A: "x", "fd00::1": "x", "::ffff:10.0.0.2": "y", "fd00::2": "y"}
    frames = [tcp(A, B, 100), tcp("fd00::1", "fd00::2", 23), tcp(A, A, 50)]
    app, report = from_pcap(write(tmp_path, pcap_bytes(frames)), hosts, name="job")
    assert transfers(app) == [("x", "y", 123)]
    assert report.local_bytes == 50


def test_both_sights_of_a_cooked_capture_count_once(tmp_path: Path) -> None:
    frames = []
    for n in range(5):
        frames += [sll2(tcp(payload=1000, seq=n * 1000), kind, 2 + (kind == 4)) for kind in (0, 4)]
        frames += [sll2(udp(B, A, payload=300), kind, 2 + (kind == 4)) for kind in (0, 4)]
    app, report = from_pcap(write(tmp_path, pcap_bytes(frames, SLL2)), name="twice")
    assert transfers(app) == [(A, B, 5000), (B, A, 1500)]
    assert report.duplicate_packets == 10


def test_several_captures_count_a_byte_once(tmp_path: Path) -> None:
    at_a = write(tmp_path, pcap_bytes([tcp(A, B, 100), tcp(A, C, 50)]), "a.pcap")
    at_b = write(tmp_path, pcapng_bytes([tcp(A, B, 100), tcp(B, C, 70)]), "b.pcap")
    app, report = from_pcap([at_a, at_b], name="job")
    assert transfers(app) == [(A, B, 100), (A, C, 50), (B, C, 70)]
    assert (report.packets, report.bytes) == (4, 220)


def test_a_refusal_names_what_was_skipped(tmp_path: Path) -> None:
    arp = bytes(12) + b"\x08\x06" + bytes(28)
    packets = [over_ip6(58, bytes(8)), over_ip6(103, bytes(8)), arp, arp, ethernet(tcp(payload=0))]
    path = write(tmp_path, pcap_bytes(packets, ETHERNET))
    with pytest.raises(FormatError) as caught:
        from_pcap(path, name="job")
    problem = "contains no payload between two addresses (5 packets: 2 ARP, 1 ICMPv6, 1 PIM, 1 without payload)"
    assert str(caught.value) == f"{path}: {problem}; capture while the application runs"


def test_pairs_whose_bytes_are_jumps_are_named(tmp_path: Path) -> None:
    """Ten packets of 100 bytes whose numbers claim 180 MB."""
    forged = [tcp(A, B, 100, seq=number * 20_000_000) for number in range(10)]
    lossy = [tcp(A, C, 1000, seq=number * 1100) for number in range(100)]
    (line,) = profile("pcap", write(tmp_path, pcap_bytes([*forged, *lossy])), name="job").traffic.warnings
    assert line.startswith(f"180 MB of 180 MB from {A} to {B} were not captured: TCP's sequence numbers jump over them")
    assert profile("pcap", write(tmp_path, pcap_bytes(lossy)), name="job").traffic.warnings == []


def test_noise_is_left_out_and_reported(tmp_path: Path) -> None:
    frames = [tcp(A, B, 60000), tcp(B, A, 60), tcp(A, C, 59)]
    path = write(tmp_path, pcap_bytes(frames))
    app, report = from_pcap(path, name="job")
    assert transfers(app) == [(A, B, 60000), (B, A, 60)]
    assert [t.name for t in app.task] == [A, B], "an address with nothing but noise is no task"
    assert (report.dropped_pairs, report.dropped_bytes, report.min_bytes) == (1, 59, 60)
    everything, report = from_pcap(path, name="job", min_bytes=0)
    assert len(everything.transfer) == 3
    assert report.dropped_bytes == 0
    with pytest.raises(GavotteError, match="no transfer has 60001 bytes or more; lower min_bytes to 60000"):
        from_pcap(path, name="job", min_bytes=60001)


def test_multicast_and_broadcast_are_no_tasks(tmp_path: Path) -> None:
    frames = [udp(A, "224.0.0.251", 500), udp("0.0.0.0", "255.255.255.255", 500), udp(A, B, 100)]
    app, _ = from_pcap(write(tmp_path, pcap_bytes(frames)), name="job")
    assert transfers(app) == [(A, B, 100)]


def test_a_truncated_file_is_told(tmp_path: Path) -> None:
    content = pcap_bytes([ethernet(tcp(payload=100)), ethernet(tcp(payload=100, seq=1100))], ETHERNET)
    app, report = from_pcap(write(tmp_path, content[:-1]), name="job")
    assert transfers(app) == [(A, B, 100)]
    assert report.truncated
    assert vars(report)["truncated"] is True


def test_requests_that_cannot_be_met(tmp_path: Path) -> None:
    path = write(tmp_path, gzip.compress(pcap_bytes([tcp(A, C)])))
    with pytest.raises(
        FormatError,
        match=r"contains no payload between the named tasks \(1 packet: 1 with .* for other ends\); profile it",
    ):
        from_pcap(path, TASKS, name="job")
    with pytest.raises(FormatError, match=r"contains no payload between two addresses \(no packets\); capture while"):
        from_pcap(write(tmp_path, pcap_bytes([]), "empty.pcap"), name="job")
    with pytest.raises(FormatError, match="has packets of link type 105"):
        from_pcap(write(tmp_path, pcap_bytes([tcp()], 105), "wifi.pcap"), name="job")
    with pytest.raises(FormatError, match="name"):
        from_pcap(path, name="two words")
    with pytest.raises(GavotteError, match="`vm1` is not an IP address"):
        from_pcap(path, {"vm1": "rank-1"}, name="job")
    with pytest.raises(GavotteError, match="nothing to read by pcap"):
        from_pcap([], name="job")
