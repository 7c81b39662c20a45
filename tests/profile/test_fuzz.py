"""For any bytes: a profile, or one line that says what is wrong."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples
from tests.profile.frames import (
    ETHERNET,
    NULL,
    SLL,
    SLL2,
    ethernet,
    null,
    pcap_bytes,
    pcapng_bytes,
    sll,
    sll2,
    tcp,
    udp,
)
from tests.profile.profiled import from_pcap

from gavotte.errors import GavotteError
from gavotte.profile import read_tasks

REAL = Path(__file__).parents[2] / "python" / "gavotte" / "demo" / "pagerank" / "pagerank.pcap.gz"
PACKETS = [tcp(payload=90), tcp("fd00::1", "fd00::2", 80), udp(payload=70), udp("fd00::1", "fd00::2", 60)]
WRAPS: list[tuple[int, Callable[[bytes], bytes]]] = [
    (ETHERNET, lambda p: ethernet(p, 5)),
    (SLL, sll),
    (SLL2, sll2),
    (NULL, null),
]
SEEDS = [build([wrap(p) for p in PACKETS], link) for build in (pcap_bytes, pcapng_bytes) for link, wrap in WRAPS]
FUZZ = examples(300)


def survives(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    result = ""
    try:
        app, report = from_pcap(path, name="fuzz", min_bytes=0)
        assert app.total_bytes == report.bytes
    except GavotteError as error:
        result = str(error)
    assert "\n" not in result
    assert len(result) < 400


@FUZZ
@given(content=st.binary(max_size=400), start=st.sampled_from([b"", b"\x1f\x8b\x08\0", *(s[:24] for s in SEEDS)]))
def test_random_bytes(tmp_path: Path, content: Any, start: Any) -> None:
    survives(tmp_path / "fuzz", start + content)


@FUZZ
@given(data=st.data(), seed=st.sampled_from(SEEDS), packed=st.booleans())
def test_mutated_captures(tmp_path: Path, data: st.DataObject, seed: Any, packed: Any) -> None:
    survives(tmp_path / "fuzz", mutate(data, gzip.compress(seed, 1) if packed else seed))


@pytest.mark.skipif(not REAL.exists(), reason="the example's capture is missing")
@FUZZ
@given(data=st.data())
def test_a_mutated_real_capture(tmp_path: Path, data: st.DataObject) -> None:
    with gzip.open(REAL) as stream:
        head = stream.read(20_000)
    survives(tmp_path / "fuzz", mutate(data, head))


@FUZZ
@given(content=st.one_of(st.binary(max_size=200), st.text(max_size=200).map(str.encode)))
def test_random_hosts_files(tmp_path: Path, content: Any) -> None:
    path = tmp_path / "hosts"
    path.write_bytes(content)
    result = ""
    try:
        assert read_tasks(path)
    except GavotteError as error:
        result = str(error)
    assert "\n" not in result


def mutate(data: st.DataObject, content: bytes) -> bytes:
    """Overwrite, insert or cut in a few places."""
    mutated = bytearray(content)
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, max(len(mutated) - 1, 0)))
        chunk = data.draw(st.binary(min_size=1, max_size=8))
        kind = data.draw(st.sampled_from(["write", "insert", "cut", "end"]))
        if kind == "write":
            mutated[at : at + len(chunk)] = chunk
        elif kind == "insert":
            mutated[at:at] = chunk
        elif kind == "cut":
            del mutated[at : at + len(chunk)]
        else:
            del mutated[at:]
    return bytes(mutated)
