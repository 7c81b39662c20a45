"""Traces as GOAL and as SimGrid's time-independent traces: complete schedules that send what the trace sends."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter, defaultdict, deque
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.building import Builds
from tests.examples import examples
from tests.profile.test_mpi_counts import LIBRARIES, PROGRAMS, built, compiler, counted, of_ranks
from tests.profile.test_mpi_traces import RECORDED, program, traced
from tests.shell import gavotte

from gavotte.errors import GavotteError
from gavotte.formats.app import read_app
from gavotte.formats.trace import CollectiveCall, Communicator, MpiTrace, computing_s, read_trace
from gavotte.profile import TRACE_FORMATS
from gavotte.profile.traces import goal
from gavotte.profile.traces.apart import take_apart

SMPI_MAIN = Path("/usr/lib/x86_64-linux-gnu/simgrid/smpireplaymain")
PLATFORM = """<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
<cluster id="c" prefix="h" suffix="" radical="0-3" speed="1Gf" bw="1GBps" lat="1us"/>
</platform>
"""

Ends = tuple[int, int]
KINDS = ["barrier", "comm", "bcast", "reduce", "scatter", "gather", "allreduce", "scan", "exscan", "allgather"]
KINDS += ["allgatherv", "alltoall", "alltoallv", "reduce_scatter", "reduce_scatter_block"]


class Schedule:
    """A GOAL schedule, read by the grammar of LogGOPSim's `txt2bin.re` and carried out without time."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.sent: Counter[Ends] = Counter()
        self.calc_ns: Counter[int] = Counter()
        self._needs: dict[tuple[int, str], list[tuple[str, tuple[int, str]]]] = defaultdict(list)
        self._text: dict[tuple[int, str], str] = {}
        rank = -1
        for line in lines:
            if match := re.fullmatch(r"num_ranks (\d+)", line):
                self.ranks = int(match[1])
            elif match := re.fullmatch(r"rank (\d+) \{", line):
                rank = int(match[1])
            elif line == "}":
                rank = -1
            elif match := re.fullmatch(r"(l\d+): (calc \d+|send \d+b to \d+ tag \d+|recv \d+b from \d+ tag \d+)", line):
                assert rank >= 0
                assert (rank, match[1]) not in self._text
                self._text[rank, match[1]] = match[2]
            else:
                match = re.fullmatch(r"(l\d+) (i?requires) (l\d+)", line)
                assert match, line
                # A label exists before a dependency names it.
                assert {(rank, match[1]), (rank, match[3])} <= set(self._text)
                self._needs[rank, match[1]].append((match[2], (rank, match[3])))

    def carry_out(self) -> int:
        """Start and finish operations until none is left; return how many hang."""
        begun: set[tuple[int, str]] = set()
        done: set[tuple[int, str]] = set()
        arrived: dict[tuple[int, ...], deque[int]] = defaultdict(deque)
        wanted: dict[tuple[int, ...], deque[tuple[int, str]]] = defaultdict(deque)
        users = defaultdict(list)
        for label, needs in self._needs.items():
            for _, need in needs:
                users[need].append(label)
        ready = deque(label for label in self._text if label not in self._needs)
        while ready:
            label = ready.popleft()
            if label in begun or any(
                need not in (done if how == "requires" else begun) for how, need in self._needs[label]
            ):
                continue
            begun.add(label)
            words, rank = self._text[label].split(), label[0]
            finished = [label]
            if words[0] == "calc":
                self.calc_ns[rank] += int(words[1])
            elif words[0] == "send":
                peer, size, key = int(words[3]), int(words[1][:-1]), (rank, int(words[3]), int(words[5]))
                self.sent[rank, peer] += size
                if wanted[key]:
                    finished.append(wanted[key].popleft())
                else:
                    arrived[key].append(size)
            elif arrived[key := (int(words[3]), rank, int(words[5]))]:
                arrived[key].popleft()
            else:
                wanted[key].append(label)
                finished = []
            done.update(finished)
            for each in (label, *finished):
                ready.extend(users[each])
        return len(self._text) - len(done) + sum(map(len, arrived.values()))


def exported(trace: MpiTrace) -> Schedule:
    schedule = Schedule(TRACE_FORMATS["goal"](trace))
    assert schedule.ranks == len(trace.ranks)
    assert schedule.carry_out() == 0
    for rank in trace.ranks:
        assert schedule.calc_ns[rank.rank] == pytest.approx(1e9 * computing_s(rank), abs=2)
    return schedule


def test_a_schedule_sends_the_messages_and_the_sums() -> None:
    schedule = exported(read_trace(RECORDED))
    for rank in range(4):
        # 20 times: three messages of 1000 bytes to each neighbour, and 8 bytes to the ranks at distances 1 and 2.
        assert schedule.sent[rank, rank ^ 1] == 20 * (3 * 1000 + 8)
        assert schedule.sent[rank, rank ^ 3] == 20 * 3 * 1000
        assert schedule.sent[rank, rank ^ 2] == 20 * 8


@pytest.mark.slow
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("kind", ["persistent", "neighbours"])
def test_a_schedule_sends_the_matrix_that_was_counted(library: str, kind: str, builds: Builds, tmp_path: Path) -> None:
    trace = traced(builds, tmp_path, library, [built(builds, compiler(library), PROGRAMS / "calls.c"), kind])
    sent = exported(trace).sent
    matrix = of_ranks(counted(*sorted(tmp_path.glob("job.*.pmpi")), collectives="call"))
    # Making a communicator is a dissemination of single bytes.
    making = {pair: 2 * (kind == "neighbours") for pair in sent if (pair[1] - pair[0]) % 4 in (1, 2)}
    assert {pair: size - making.get(pair, 0) for pair, size in sent.items()} == {
        pair: count.bytes for pair, count in matrix.items()
    }


@pytest.mark.slow
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("kind", ["wildcards", "communicators", "rare"])
def test_schedules_end(library: str, kind: str, builds: Builds, tmp_path: Path) -> None:
    exported(traced(builds, tmp_path, library, [program(builds, library), kind]))


def test_simgrid_replays_a_trace(tmp_path: Path) -> None:
    if shutil.which("smpirun") is None or not SMPI_MAIN.exists():
        pytest.skip("SimGrid is not installed")
    done = gavotte("profile", "trace", RECORDED, "--format", "smpi", "-o", tmp_path / "job.smpi")
    assert done.returncode == 0, done.stderr
    (tmp_path / "list").write_text(f"{tmp_path / 'job.smpi'}\n")
    (tmp_path / "platform.xml").write_text(PLATFORM)
    (tmp_path / "hosts").write_text("h0\nh1\nh2\nh3\n")
    words: list[str | Path] = [
        "smpirun",
        "-no-privatize",
        "-replay",
        tmp_path / "list",
        "-np",
        "4",
        "-hostfile",
        tmp_path / "hosts",
    ]
    words += ["-platform", tmp_path / "platform.xml", SMPI_MAIN, "--cfg=smpi/host-speed:1Gf"]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=100, check=False, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    match = re.search(r"Simulation time ([\d.]+)", ran.stderr)
    assert match
    # Messages of 1000 bytes on links of 1 GB/s take some microseconds each.
    computing = max(map(computing_s, read_trace(RECORDED).ranks))
    assert computing < float(match[1]) < 1.2 * computing


def steps_of(collective: CollectiveCall, members: tuple[int, ...]) -> dict[int, list[tuple[list[Ends], list[Ends]]]]:
    """Return each rank's steps. Ranks of the same call have their own counts and sizes where the kind says so."""
    communicator = Communicator(members)
    return {
        rank: [(list(s.sends), list(s.receives)) for s in take_apart(collective, communicator, rank)]
        for rank in members
    }


@examples(200)
@given(data=st.data())
def test_parts_of_a_collective_fit_each_other(data: st.DataObject) -> None:
    members = tuple(data.draw(st.permutations(range(data.draw(st.integers(1, 13))))))
    n = len(members)
    kind = data.draw(st.sampled_from(KINDS))
    size = data.draw(st.sampled_from([0, 1, 1000, 9_999, 100_003]))
    counts = tuple(data.draw(st.lists(st.integers(0, 5000), min_size=n, max_size=n)))
    has_counts = kind in ("allgatherv", "reduce_scatter")
    root = data.draw(st.sampled_from(members)) if kind in ("bcast", "reduce", "scatter", "gather") else None
    collective = CollectiveCall(
        kind, 1, root, sum(counts) if has_counts else size, counts if has_counts else (), (), (), None, 0.0
    )
    if kind == "alltoallv":
        collective = CollectiveCall(kind, 1, None, size * n, (size,) * n, (), (), None, 0.0)
    steps = steps_of(collective, members)
    sent: dict[Ends, deque[int]] = defaultdict(deque)
    received: Counter[int] = Counter()
    at = dict.fromkeys(members, 0)
    posted: set[tuple[int, int]] = set()
    moved = True
    while moved:
        moved = False
        for rank in members:
            if at[rank] == len(steps[rank]):
                continue
            sends, receives = steps[rank][at[rank]]
            if (rank, at[rank]) not in posted:
                posted.add((rank, at[rank]))
                moved = True
                for peer, each in sends:
                    sent[rank, peer].append(each)
            needed = Counter(peer for peer, _ in receives)
            if all(len(sent[peer, rank]) >= times for peer, times in needed.items()):
                for peer, each in receives:
                    arriving = sent[peer, rank].popleft()
                    # Only the sender knows what an alltoallv sends.
                    assert arriving == each or kind == "alltoallv"
                    received[rank] += arriving
                at[rank] += 1
                moved = True
    assert all(at[rank] == len(steps[rank]) for rank in members), "ranks wait for ever"
    assert not any(sent.values()), "messages are never received"
    total = sum(received.values())
    others = n - 1
    least = {
        "bcast": others * size,
        "reduce": others * size,
        "scan": others * size,
        "exscan": others * size,
        "alltoall": n * others * size,
        "alltoallv": n * others * size,
        "allgather": n * others * size,
        "allgatherv": others * sum(counts),
        "reduce_scatter": others * sum(counts),
        "reduce_scatter_block": others * size,
        "barrier": 0,
        "comm": 0,
    }
    if kind in least:
        assert total == least[kind]
    elif kind == "allreduce":
        assert total >= 2 * others * size or size <= 10_000
    else:
        assert total >= others * size


def test_verbs_and_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = gavotte("profile", "trace", RECORDED)
    assert shown.returncode == 0
    assert "4 ranks, 1284 calls in 52 places of the program, 480 messages of 480 kB" in shown.stderr
    alone = gavotte("profile", "trace", RECORDED, "--format", "goal")
    assert (alone.returncode, alone.stderr.count("\n")) == (1, 1)
    assert "--format and --output belong together" in alone.stderr
    monkeypatch.setattr(goal, "MOST_CALLS", 100)
    with pytest.raises(GavotteError, match="the trace has 1284 calls, and 100 at most"):
        list(TRACE_FORMATS["goal"](read_trace(RECORDED)))


def test_an_app_names_the_trace_that_lies_next_to_its_counts(tmp_path: Path) -> None:
    content, at = RECORDED.read_bytes(), 0
    for rank in range(4):
        size = 20 + int.from_bytes(content[at + 8 : at + 16], "little")
        (tmp_path / f"job.{rank}.trace").write_bytes(content[at : at + size])
        counts = f"gavotte/pmpi/2 rank {rank} of 4\nwire counted\n{(rank + 1) % 4} 60000 0 0 0 0 0 0\nend\n"
        (tmp_path / f"job.{rank}.pmpi").write_text(counts)
        at += size
    files = sorted(tmp_path.glob("job.*.pmpi"))
    done = gavotte("profile", "pmpi", *files, "-o", tmp_path / "solver.app.toml")
    assert done.returncode == 0, done.stderr
    app = read_app(tmp_path / "solver.app.toml")
    assert app.trace == "solver.trace"
    assert (tmp_path / app.trace).read_bytes() == content
    (tmp_path / "job.2.trace").unlink()
    done = gavotte("profile", "pmpi", *files, "-o", tmp_path / "other.app.toml")
    assert read_app(tmp_path / "other.app.toml").trace is None
