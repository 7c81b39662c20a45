"""A file of the public hour's size and format: read line by line, with little memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gavotte.transfer import Trace, read_trace, synthetic_trace

MOST_MB = 400
"""Most memory of a whole simulation, Python with its libraries included."""

MEASURED = """
import json, re, sys
from gavotte.transfer import read_trace, simulate_transfers
def peak_mb():
    # Unlike getrusage, this leaves out what the process was before it became Python.
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) / 1024
trace = read_trace(sys.argv[1])
read_mb = peak_mb()
done = simulate_transfers(trace, "fair", step_s=60.0)
print(json.dumps({"coflows": len(trace), "flows": trace.flow_count,
                  "ended": int((done.finish_s > 0).sum()), "read_mb": read_mb, "peak_mb": peak_mb()}))
"""


def write_public(path: Path, trace: Trace) -> None:
    """Write a trace whose mappers share each reducer's bytes evenly, in the format of `FB2010-1Hr-150-0.txt`."""
    coflow, source, target, size = trace.core.flows()
    lines = [f"{len(trace.ports)} {len(trace)}"]
    for number, arrival_s in enumerate(trace.arrival_s):
        own = coflow == number
        mappers = np.unique(source[own])
        sizes = np.bincount(target[own], weights=size[own])
        reducers = [f"{port}:{sizes[port] / 1e6:.1f}" for port in np.flatnonzero(sizes)]
        ends = [str(len(mappers)), *map(str, mappers), str(len(reducers)), *reducers]
        lines.append(" ".join([str(number + 1), str(round(1e3 * arrival_s)), *ends]))
    path.write_text("\n".join(lines) + "\n")


def test_the_format_keeps_what_a_trace_says(tmp_path: Path) -> None:
    trace = synthetic_trace(0, share=0.02)
    write_public(tmp_path / "hour.txt", trace)
    again = read_trace(tmp_path / "hour.txt")
    assert (again.names, again.ports, again.flow_count) == (trace.names, trace.ports, trace.flow_count)
    assert again.bytes == pytest.approx(trace.bytes)
    assert again.arrival_s == pytest.approx(trace.arrival_s)


@pytest.mark.slow
def test_a_whole_hour_needs_little_memory(tmp_path: Path) -> None:
    trace = synthetic_trace(0)
    write_public(tmp_path / "FB2010-1Hr-150-0.txt", trace)
    # The public file has 138 kB.
    assert (tmp_path / "FB2010-1Hr-150-0.txt").stat().st_size < 500_000
    line = [sys.executable, "-c", MEASURED, str(tmp_path / "FB2010-1Hr-150-0.txt")]
    done = json.loads(subprocess.run(line, capture_output=True, text=True, check=True, timeout=300).stdout)
    assert (done["coflows"], done["flows"], done["ended"]) == (526, trace.flow_count, 526)
    assert done["flows"] > 650_000
    assert done["peak_mb"] < MOST_MB, done
