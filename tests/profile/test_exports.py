"""sFlow, NetFlow and IPFIX as real meters export them, damaged ones, and exports over UDP."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples
from tests.profile import frames
from tests.profile.export_bytes import (
    ETHERNET_HEADER,
    FLOW_FIELDS,
    IP_HEADER,
    MPLS_HEADER,
    PPP_HEADER,
    RING_HEADER,
    counter_sample,
    flow,
    flow_sample,
    ipfix,
    options_template,
    sflow,
    template,
)
from tests.profile.recording import METERS, available, ethernet, record, write
from tests.profile.test_fuzz import mutate
from tests.shell import GAVOTTE, gavotte

from gavotte.errors import GavotteError
from gavotte.profile import Traffic, profile, read_tasks

HERE = Path(__file__).parent / "recorded"
EXAMPLE = Path(__file__).parents[2] / "python" / "gavotte" / "demo" / "pagerank"
SHARED = Path(__file__).parents[3] / "shared" / "data" / "sflow" / "sflow.pcap"
TASKS = read_tasks(EXAMPLE / "ranks.hosts")
KIND = {"sflow": "sflow", "5": "netflow", "9": "netflow", "10": "ipfix"}


def source_of(meter: str) -> str:
    return KIND[METERS[meter][1]]


def read(meter: str, path: Path | None = None, **options: Any) -> Traffic:
    return profile(source_of(meter), path or HERE / f"{meter}.pcap.gz", TASKS, name="job", **options).traffic


@pytest.fixture(scope="module")
def exact() -> Traffic:
    return profile("pcap", EXAMPLE / "pagerank.pcap.gz", TASKS, name="job").traffic


@pytest.mark.parametrize("meter", sorted(set(METERS) - {"pmacctd-sflow"}))
def test_flow_meters_tell_what_the_capture_holds(meter: str, exact: Traffic) -> None:
    """They count retransmissions as well, and headers are subtracted by an estimate: 0.1 % in all."""
    content = read(meter)
    assert content.bytes == pytest.approx(exact.bytes, rel=1e-3)
    wanted = exact.to_numpy()
    large = wanted > 1e6
    assert np.all(0.997 * content.to_numpy("low_bytes")[large] <= wanted[large])
    assert np.all(content.to_numpy("high_bytes")[large] >= 0.998 * wanted[large])
    assert content.unattributed_bytes == 0
    assert content.seen["damaged_datagrams"] == content.seen["untold_sets"] == 0


def test_sflow_holds_the_truth_in_its_interval(exact: Traffic) -> None:
    content = read("pmacctd-sflow")
    wanted, low, high = exact.to_numpy(), content.to_numpy("low_bytes"), content.to_numpy("high_bytes")
    sampled = content.to_numpy() > 0
    held = (low <= wanted) & (wanted <= high)
    assert held[sampled].mean() >= 0.9
    assert low.sum() <= exact.bytes <= high.sum()
    assert content.bytes == pytest.approx(exact.bytes, rel=0.2)
    assert (content.seen["lost_samples"], content.seen["dropped_samples"]) == (0, 0)


@pytest.mark.skipif(not SHARED.exists(), reason="the shared data are not here")
def test_sflow_agrees_with_other_readers() -> None:
    """28,359,940 frame bytes by sfcapd; 28,000,000 payload bytes were sent to one port of loopback."""
    profiled = profile("sflow", SHARED, name="job").traffic
    assert profiled.seen["frame_bytes"] == 28_359_940
    count = profiled.counts["127.0.0.1", "127.0.0.1:15001"]
    assert count.low_bytes <= 28_000_000 <= count.high_bytes
    named = profile("sflow", SHARED, {"127.0.0.1:15001": "server", "127.0.0.1": "client"}, name="job").traffic
    assert named.counts == {("client", "server"): count}


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("sfcapd") is None, reason="sfcapd is not installed")
def test_sfcapd_reads_the_same_frames(tmp_path: Path) -> None:
    content = read("pmacctd-sflow")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    other = subprocess.Popen(
        ["sfcapd", "-b", "127.0.0.1", "-p", str(port), "-l", str(tmp_path)], stderr=subprocess.DEVNULL
    )
    try:
        replay(HERE / "pmacctd-sflow.pcap.gz", port, wait_s=2.0)
    finally:
        other.terminate()
        other.wait(10)
    files = [each for each in tmp_path.iterdir() if each.name.startswith("nfcapd")]
    done = subprocess.run(
        ["nfdump", "-r", files[0], "-o", "fmt:%byt", "-q", "-N"], capture_output=True, text=True, check=True
    )
    assert sum(map(int, done.stdout.split())) == content.seen["frame_bytes"]


@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
def test_tshark_reads_the_same_frames(tmp_path: Path) -> None:
    path = tmp_path / "sflow.pcap"
    path.write_bytes(gzip.decompress((HERE / "pmacctd-sflow.pcap.gz").read_bytes()))
    port = struct.unpack_from(">H", path.read_bytes(), 24 + 16 + 22)[0]
    words = ["tshark", "-n", "-r", str(path), "-d", f"udp.port=={port},sflow", "-T", "fields"]
    words += ["-e", "sflow_245.header.frame_length", "-e", "sflow.flow_sample.sampling_rate"]
    done = subprocess.run(words, capture_output=True, text=True, check=True, env={"HOME": str(tmp_path)})
    columns = [line.split("\t") for line in done.stdout.splitlines()]
    frames, rates = ([int(each) for row in columns for each in row[n].split(",") if each] for n in (0, 1))
    assert (
        sum(frame * rate for frame, rate in zip(frames, rates, strict=True))
        == read("pmacctd-sflow").seen["frame_bytes"]
    )


def datagrams(path: Path) -> list[bytes]:
    content = gzip.decompress(path.read_bytes())
    result, at = [], 24
    while at < len(content):
        kept = struct.unpack_from("=I", content, at + 8)[0]
        result.append(content[at + 16 + 28 : at + 16 + kept])
        at += 16 + kept
    return result


def replay(path: Path, port: int, *, wait_s: float = 0.0) -> None:
    import time

    time.sleep(wait_s)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for payload in datagrams(path):
            sock.sendto(payload, ("127.0.0.1", port))
            time.sleep(0.001)
    time.sleep(wait_s)


@pytest.mark.slow
@pytest.mark.parametrize("meter", ["pmacctd-sflow", "softflowd-9", "pmacctd-10"])
@pytest.mark.parametrize("how", ["stopped", "timed"])
def test_listening_gives_what_the_file_gives(tmp_path: Path, meter: str, how: str) -> None:
    if how == "timed" and meter != "softflowd-9":
        pytest.skip("one kind is enough")
    words = ["profile", source_of(meter), "--listen", "127.0.0.1:0", "--tasks", str(EXAMPLE / "ranks.hosts"), "--json"]
    words += ["--for", "3"] if how == "timed" else []
    with subprocess.Popen([GAVOTTE, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as listener:
        assert listener.stderr is not None
        where = listener.stderr.readline().split(";")[0].split()[-1]
        replay(HERE / f"{meter}.pcap.gz", int(where.rpartition(":")[2]), wait_s=0.2)
        if how == "stopped":
            listener.send_signal(signal.SIGINT)
        report, _ = listener.communicate(timeout=30)
    assert listener.returncode == 0
    document = json.loads(report)
    assert document["attributed_bytes"] == read(meter).attributed_bytes
    assert document["report"]["socket_drops"] == 0


def test_agents_that_all_say_one_address_are_not_one(tmp_path: Path) -> None:
    """As pmacct's on hosts of one name: both saw the same packets, which count once, and no number is missing."""
    every = datagrams(HERE / "pmacctd-sflow.pcap.gz")
    sent = [(float(n), each, (f"127.0.0.{host}", 9)) for n, each in enumerate(every) for host in (1, 2)]
    write(tmp_path / "two.pcap", sent)
    result, single = read("pmacctd-sflow", tmp_path / "two.pcap"), read("pmacctd-sflow")
    assert result.counts == single.counts
    assert (result.seen["agents"], result.seen["lost_samples"]) == (2, 0)


def test_what_is_lost_is_told_and_made_up_for(tmp_path: Path, exact: Traffic) -> None:
    every = datagrams(HERE / "pmacctd-sflow.pcap.gz")
    kept = [each for number, each in enumerate(every) if number % 3 != 1]
    write(tmp_path / "lossy.pcap", [(1.0, each, ("127.0.0.1", 9)) for each in kept])
    content = read("pmacctd-sflow", tmp_path / "lossy.pcap")
    assert content.seen["lost_datagrams"] == pytest.approx(len(every) - len(kept), abs=1)
    assert content.seen["lost_samples"] > 0
    assert content.bytes == pytest.approx(exact.bytes, rel=0.25)
    assert content.bytes > 1.3 * content.seen["frame_bytes"] * 0.9


def test_a_series_adds_up_to_the_whole() -> None:
    whole = read("softflowd-9")
    series = read("softflowd-9", every_s=1.0)
    assert len(series.spans) >= 3
    assert series.bytes == pytest.approx(whole.bytes, rel=1e-6)
    assert all(span.end_s - span.start_s == 1.0 for span in series.spans if span.start_s and span.end_s)


def traffic_of(folder: Path, source: str, *payloads: bytes) -> Traffic:
    write(folder / "few.pcap", [(1.0, each, ("127.0.0.1", 9)) for each in payloads])
    return profile(source, folder / "few.pcap", name="job", min_bytes=0).traffic


ICMP = frames.over_ip6(58, bytes(64))
UNREAD = [
    (
        "sflow",
        [sflow(counter_sample(), counter_sample())],
        "(no flow samples, 2 counter samples); switch on flow sampling at the agent",
    ),
    (
        "sflow",
        [sflow(flow_sample(ICMP), counter_sample())],
        "(1 flow sample: 1 ICMPv6, 1 counter sample)",
    ),
    ("sflow", [sflow(flow_sample(bytes(64), protocol=RING_HEADER))], "(1 flow sample: 1 sFlow header protocol 3)"),
    ("sflow", [sflow(counter_sample())[:60]], "all sFlow version 5 datagrams are damaged: "),
    ("sflow", [ipfix()], "contains no sFlow version 5 datagram (1 packet: 1 IPFIX)"),
    ("ipfix", [ipfix(options_template(256, [(149, 4), (34, 4)]), (256, bytes(8)))], "(no flows, 1 record of options)"),
    ("ipfix", [ipfix((300, bytes(25)))], "(no flows, 1 set without its template); capture for longer"),
    (
        "ipfix",
        [ipfix(template(256, FLOW_FIELDS), (256, flow("10.0.0.1", "10.0.0.2", protocol=1, octets=99, packets=1)))],
        "(1 flow: 1 ICMP)",
    ),
    ("netflow", [b"\0\5 this is a request of some program"], "(1 packet: 1 other UDP datagrams)"),
]


@pytest.mark.parametrize(("source", "payloads", "message"), UNREAD)
def test_a_refusal_says_what_the_datagrams_are(tmp_path: Path, source: str, payloads: Any, message: str) -> None:
    with pytest.raises(GavotteError) as caught:
        traffic_of(tmp_path, source, *payloads)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_cut_datagrams_are_named(tmp_path: Path) -> None:
    whole = sflow(counter_sample())
    frame = frames.udp(payload=len(whole), ports=(9, 6343))[:28] + whole
    path = frames.write(tmp_path, frames.pcap_bytes([frame], snap=96))
    with pytest.raises(GavotteError, match="all sFlow version 5 datagrams are damaged: 1 of 1 are cut; capture them"):
        profile("sflow", path, name="job")


@pytest.mark.parametrize(
    ("protocol", "wrap"),
    [
        (ETHERNET_HEADER, frames.ethernet),
        (IP_HEADER, bytes),
        (PPP_HEADER, lambda p: b"\xff\3\0\x21" + p),
        (MPLS_HEADER, lambda p: struct.pack(">I", 16 << 12 | 0x1FF) + p),
    ],
)
def test_sampled_headers_of_each_protocol(tmp_path: Path, protocol: int, wrap: Any) -> None:
    traffic = traffic_of(tmp_path, "sflow", sflow(flow_sample(wrap(frames.tcp(payload=1000)), protocol=protocol)))
    assert {pair: count.bytes for pair, count in traffic.counts.items()} == {("10.0.0.1", "10.0.0.2"): 10_000}


def test_each_sampler_of_a_meter_has_its_own_rate(tmp_path: Path) -> None:
    """One in 100 by the first, given as a size and a population, and one in 10 by the second."""
    options = options_template(257, [(302, 4), (309, 4), (310, 4)])
    rates = struct.pack(">III", 1, 1, 100) + struct.pack(">III", 2, 2, 20)
    flows = flow("10.0.0.1", "10.0.0.2", protocol=17, octets=1028, packets=1, sampler=1)
    flows += flow("10.0.0.3", "10.0.0.4", protocol=17, octets=1028, packets=1, sampler=2)
    traffic = traffic_of(tmp_path, "ipfix", ipfix(options, template(256, FLOW_FIELDS), (257, rates), (256, flows)))
    counts = {pair: count.bytes for pair, count in traffic.counts.items()}
    assert counts == {("10.0.0.1", "10.0.0.2"): 100_000, ("10.0.0.3", "10.0.0.4"): 10_000}
    assert traffic.seen["options"] == 2


@pytest.mark.slow
def test_what_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    for source, words, report in (
        ("sflow", [HERE / "pmacctd-9.pcap.gz"], "contains no sFlow version 5 datagram"),
        (
            "ipfix",
            [HERE / "pmacctd-9.pcap.gz"],
            "contains no IPFIX datagram (38 packets: 38 NetFlow version 9); check exporter, port",
        ),
        ("netflow", [EXAMPLE / "pagerank.pcap.gz"], "contains no NetFlow version 5 or 9 datagram"),
        ("netflow", [], "nothing to read by netflow; name at least one file, or where to listen"),
        ("sflow", ["--listen", "vm1:99"], "`vm1:99` is not an address to listen at; use e.g. 0.0.0.0:6343"),
        ("sflow", ["--listen", "192.0.2.1:99", "--for", "1"], "cannot listen at 192.0.2.1:99"),
        ("sflow", ["x.pcap", "--listen", "127.0.0.1:0"], "files and a place to listen at were given"),
        ("pcap", [EXAMPLE / "pagerank.pcap.gz", "--every", "0"], "an interval of 0.0 s makes no series"),
    ):
        result = gavotte("profile", source, *map(str, words), cwd=tmp_path)
        assert result.returncode == 1
        assert report in result.stderr
        assert result.stderr.count("\n") == 1


def test_bytes_of_others_are_kept_apart(exact: Traffic) -> None:
    few = dict(list(TASKS.items())[:4])
    for source, path in (("pcap", EXAMPLE / "pagerank.pcap.gz"), ("ipfix", HERE / "pmacctd-10.pcap.gz")):
        profiled = profile(source, path, few, name="job").traffic
        assert profiled.bytes == pytest.approx(exact.bytes, rel=1e-3)
        assert profiled.unattributed_bytes == sum(profiled.strangers.values()) > 0
        assert all(not (s in few.values() and t in few.values()) for s, t in profiled.strangers)


@pytest.mark.slow
@pytest.mark.parametrize("meter", sorted(METERS))
def test_a_meter_of_today_exports_the_same(tmp_path: Path, meter: str, exact: Traffic) -> None:
    if not available(meter):
        pytest.skip(f"{METERS[meter][0]} is not installed")
    tmp_path.chmod(0o755)
    capture = tmp_path / "plain.pcap"
    capture.write_bytes(ethernet(gzip.decompress((EXAMPLE / "pagerank.pcap.gz").read_bytes())))
    if os.geteuid() != 0:
        pytest.skip("meters want root")
    assert record(meter, capture, tmp_path / "found.pcap", rate=5) > 0
    content = read(meter, tmp_path / "found.pcap")
    assert content.bytes == pytest.approx(exact.bytes, rel=0.1 if meter.endswith("sflow") else 1e-3)


@examples(200)
@given(data=st.data(), meter=st.sampled_from(sorted(METERS)), damage=st.booleans())
def test_mutated_exports(tmp_path: Path, data: st.DataObject, meter: str, damage: bool) -> None:
    """For any bytes: a profile, or one line that says what is wrong."""
    some = datagrams(HERE / f"{meter}.pcap.gz")[:4]
    if damage:
        some = [mutate(data, each) for each in some]
    write(tmp_path / "fuzz.pcap", [(1.0, each, ("127.0.0.1", 9)) for each in some])
    try:
        profiled = profile(source_of(meter), tmp_path / "fuzz.pcap", name="fuzz", min_bytes=0).traffic
        assert profiled.bytes == profiled.attributed_bytes + profiled.unattributed_bytes
    except GavotteError as error:
        assert "\n" not in str(error)
        assert len(str(error)) < 400
