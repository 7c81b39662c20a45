"""The result of every source: pairs with intervals, no bytes lost, and arrays and tables of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.profile.frames import A, B, C, pcap_bytes, tcp, udp
from tests.shell import gavotte

from gavotte.errors import GavotteError
from gavotte.formats.app import read_app
from gavotte.profile import Count, Traffic, TrafficSpan, app_of, profile

SAMPLED = Traffic(
    inputs=("a.sflow",),
    tasks=("x", "y", "z"),
    spans=(
        TrafficSpan(0.0, 10.0, {("y", "x"): Count(50, 40, 60), ("x", "y"): Count(1000, 900, 1100)}),
        TrafficSpan(10.0, 20.0, {("x", "y"): Count(500, 450, 550), ("z", "z"): Count.exact(7)}),
    ),
    unattributed_bytes=99,
)


def test_spans_add_up_pair_by_pair() -> None:
    assert SAMPLED.counts == {
        ("x", "y"): Count(1500, 1350, 1650),
        ("y", "x"): Count(50, 40, 60),
        ("z", "z"): Count.exact(7),
    }
    assert (SAMPLED.attributed_bytes, SAMPLED.bytes) == (1557, 1656)


def test_it_turns_into_numpy_and_pandas() -> None:
    assert np.array_equal(SAMPLED.to_numpy(), [[0, 1500, 0], [50, 0, 0], [0, 0, 7]])
    assert np.array_equal(SAMPLED.to_numpy("low_bytes")[0], [0, 1350, 0])
    frame = SAMPLED.to_frame()
    assert list(frame.columns) == ["source", "target", "bytes", "low_bytes", "high_bytes"]
    assert frame["bytes"].sum() == SAMPLED.attributed_bytes


def test_an_app_has_what_goes_between_tasks() -> None:
    profiled = app_of(SAMPLED, name="job")
    assert [task.name for task in profiled.app.task] == ["x", "y", "z"]
    assert [(t.source, t.target, t.bytes) for t in profiled.app.transfer] == [("x", "y", 1500), ("y", "x", 50)]
    assert (profiled.report["bytes"], profiled.report["local_bytes"]) == (1550, 7)
    with pytest.raises(GavotteError, match=r"a\.sflow: no transfer has 1501 bytes or more; lower min_bytes to 1500"):
        app_of(SAMPLED, name="job", min_bytes=1501)


def test_results_warn_of_what_is_missing() -> None:
    profiled = app_of(
        replace(SAMPLED, seen={"lost_samples": 3, "truncated": True, "counts_datagrams": False}), name="job"
    )
    assert profiled.warnings == ["only 1.55 kB between tasks, too little for a placement"]
    assert [line.partition(";")[0] for line in profiled.traffic.warnings] == [
        "3 samples were lost in transit",
        "UDP is not counted",
        "the capture ends within a packet",
    ]
    assert SAMPLED.warnings == []


def test_a_source_that_is_none_is_told() -> None:
    with pytest.raises(GavotteError, match="`tcpdump` is not a source of traffic; use one of pcap, sflow"):
        profile("tcpdump", "a.pcap", name="job")


@pytest.mark.slow
def test_the_command_adds_up(tmp_path: Path) -> None:
    capture, names, out = tmp_path / "c.pcap", tmp_path / "tasks", tmp_path / "a.app.toml"
    capture.write_bytes(pcap_bytes([tcp(A, B, 5000), tcp(B, A, 4000), tcp(A, C, 3000), udp(A, "224.0.0.251", 50)]))
    names.write_text(f"{A} first\n{B} second\n")
    for options, unattributed in (([], 50), (["--tasks", str(names), "-o", str(out)], 3050)):
        report = json.loads(gavotte("profile", "pcap", str(capture), "--json", *options).stdout)
        assert report["bytes"] == 12050 == report["attributed_bytes"] + report["unattributed_bytes"]
        assert report["unattributed_bytes"] == unattributed
        assert sum(pair["bytes"] for pair in report["pairs"]) == report["attributed_bytes"]
        assert set(report["pairs"][0]) == {"source", "target", "bytes", "low_bytes", "high_bytes"}
    assert read_app(out).total_bytes == 9000
