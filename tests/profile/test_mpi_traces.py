"""Traces of MPI programs under real MPI libraries: the sequence of calls, compared with what the programs do."""

from __future__ import annotations

import sys
import zlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TypeGuard

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.building import Builds
from tests.examples import examples
from tests.profile.test_fuzz import mutate
from tests.profile.test_mpi_counts import (
    JOB,
    LIBRARIES,
    PROGRAMS,
    around,
    built,
    compiler,
    counted,
    needs_fortran,
    needs_openmpi,
    of_ranks,
    run,
)

from gavotte.errors import FormatError, GavotteError
from gavotte.formats.trace import (
    UNKNOWN,
    Cancel,
    CollectiveCall,
    Communicator,
    Compute,
    Irecv,
    Isend,
    Loop,
    MpiTrace,
    Operation,
    RankTrace,
    Recv,
    Send,
    Wait,
    computing_s,
    parse_trace,
    passes,
    read_trace,
)

RECORDED = Path(__file__).parent / "recorded" / "loops.trace"
"""Trace of `traced.c loops` by four ranks under Open MPI 4.1."""


def traced(builds: Builds, folder: Path, library: str, program: list[str | Path], **settings: str) -> MpiTrace:
    """Run a program with four ranks; return its trace, which has the messages that were counted."""
    own = {"GAVOTTE_TRACE": str(folder / "job"), "MPI4PY_MPIABI": library, **settings}
    files = run(builds, folder, library, program, own)
    assert len(files) == 4
    trace = read_trace([folder / f"job.{rank}.trace" for rank in range(4)])
    if trace.complete:
        sent = sum(each.bytes * n for rank in trace.ranks for each, n in passes(rank.operations) if is_send(each))
        one_sided = sum(rank.one_sided_bytes for rank in trace.ranks)
        assert sent + one_sided == counted(*files).seen["message_bytes"]
        assert unmatched(trace) == {}
    return trace


def is_send(operation: Operation) -> TypeGuard[Send | Isend]:
    return isinstance(operation, Send | Isend)


def unmatched(trace: MpiTrace) -> dict[tuple[int, int, int, int], int]:
    """Return messages that are sent more often than received (or less), by source, target, tag and communicator."""
    counts: Counter[tuple[int, int, int, int]] = Counter()
    for rank in trace.ranks:
        cancelled = set()
        for each in reversed(list(rank.unfold())):
            if isinstance(each, Cancel):
                cancelled.add(each.request)
            elif isinstance(each, Irecv) and each.request in cancelled:
                cancelled.remove(each.request)
            elif isinstance(each, Recv | Irecv):
                counts[each.peer, rank.rank, each.tag, each.communicator] -= 1
            elif isinstance(each, Send | Isend):
                counts[rank.rank, each.peer, each.tag, each.communicator] += 1
    return {key: count for key, count in counts.items() if count}


def calls(operations: Sequence[Operation]) -> list[Operation]:
    """Return operations without the computing between them."""
    return [each for each in operations if not isinstance(each, Compute)]


def kinds(rank: RankTrace) -> list[str]:
    return [type(each).__name__ for each in calls(rank.operations)]


def program(builds: Builds, library: str) -> Path:
    return built(builds, compiler(library), "-O2", PROGRAMS / "traced.c")


def check_loops(trace: MpiTrace) -> None:
    """Compare a trace of `traced.c loops` with the program's two loops."""
    for rank in trace.ranks:
        following, preceding = (rank.rank + 1) % 4, (rank.rank + 3) % 4
        outer, last = rank.operations
        assert isinstance(outer, Loop)
        assert isinstance(last, Compute)
        inner, computing, allreduce = outer.body
        assert isinstance(inner, Loop)
        assert isinstance(computing, Compute)
        assert isinstance(allreduce, CollectiveCall)
        assert (outer.count, inner.count, rank.calls) == (20, 3, 20 * (3 * 5 + 1) + 1)
        messages = [
            (type(each), each.peer, each.bytes, each.tag, each.request)
            for each in calls(inner.body)
            if isinstance(each, Isend | Irecv)
        ]
        assert messages == [
            (Irecv, preceding, 1000, 7, 0),
            (Irecv, following, 1000, 8, 1),
            (Isend, following, 1000, 7, 2),
            (Isend, preceding, 1000, 8, 3),
        ]
        wait = calls(inner.body)[-1]
        assert isinstance(wait, Wait)
        assert wait.requests == (0, 1, 2, 3)
        assert (allreduce.kind, allreduce.bytes, allreduce.communicator, allreduce.root) == ("allreduce", 8, 0, None)
        assert 0.002 <= computing.min_s <= computing.mean_s <= computing.max_s
        assert computing.variance_s2 > 0
        assert 20 * 0.002 <= computing_s(rank) <= rank.wall_s
        assert len(list(rank.unfold())) == 2 * (rank.calls - 1) + 1
    assert trace.communicators == (Communicator((0, 1, 2, 3)),)
    assert trace.complete
    assert trace.warnings == []


@pytest.mark.slow
@pytest.mark.parametrize("library", LIBRARIES)
def test_loops_are_folded(library: str, builds: Builds, tmp_path: Path) -> None:
    check_loops(traced(builds, tmp_path, library, [program(builds, library), "loops"]))
    assert (tmp_path / "job.0.trace").stat().st_size < 500
    assert list(tmp_path.glob("job.*~")) == []


def test_a_file_is_read_as_it_was_written() -> None:
    check_loops(read_trace(RECORDED))
    assert RECORDED.stat().st_size < 2000


@pytest.mark.slow
@pytest.mark.parametrize("library", LIBRARIES)
def test_wildcards_have_the_source_that_they_matched(library: str, builds: Builds, tmp_path: Path) -> None:
    trace = traced(builds, tmp_path, library, [program(builds, library), "wildcards"])
    receives = [each for each in trace.ranks[0].unfold() if isinstance(each, Recv | Irecv)]
    assert [each.tag for each in receives] == [1] * 3 + [2] * 3 + [3] * 3 + [4] * 3
    for first in range(0, 12, 3):
        assert sorted(each.peer for each in receives[first : first + 3]) == [1, 2, 3]
    assert isinstance(receives[0], Recv)
    waits = [each for each in trace.ranks[0].unfold() if isinstance(each, Wait)]
    # Three calls of Waitany, up to three of Waitsome, and one Testall that found all of them complete.
    assert 5 <= len(waits) <= 7
    assert [len(each.requests) for each in waits[:3]] == [1, 1, 1]
    assert waits[-1].requests == (0, 1, 2)


@pytest.mark.slow
@pytest.mark.parametrize("library", LIBRARIES)
def test_communicators_are_the_same_on_all_ranks(library: str, builds: Builds, tmp_path: Path) -> None:
    trace = traced(builds, tmp_path, library, [program(builds, library), "communicators"])
    assert trace.communicators[:3] == (Communicator((0, 1, 2, 3)),) * 3
    assert set(trace.communicators[3:]) == {Communicator((1, 0)), Communicator((3, 2))}
    for rank in trace.ranks:
        receives = [each.communicator for each in rank.unfold() if isinstance(each, Irecv)]
        assert receives == ([1, 2] if rank.rank % 2 else [2, 1])
        collectives = [each for each in rank.unfold() if isinstance(each, CollectiveCall)]
        # A communicator that is freed gives its place to the next one.
        assert [each.communicator for each in collectives if each.kind == "barrier"] == [1]
        (bcast,) = (each for each in collectives if each.kind == "bcast")
        assert (bcast.root, bcast.bytes) == (1 if rank.rank < 2 else 3, 99)
        assert trace.communicators[bcast.communicator].members[0] == bcast.root
        assert sum(each.kind == "comm" for each in collectives) == 4 + 30
        assert isinstance(rank.operations[-2], Loop)
        assert rank.operations[-2].count == 30


@pytest.mark.slow
@pytest.mark.parametrize("library", LIBRARIES)
def test_rare_calls(library: str, builds: Builds, tmp_path: Path) -> None:
    trace = traced(builds, tmp_path, library, [program(builds, library), "rare"])
    exchange = ["Irecv", "Isend", "Wait"]
    for rank, parts in enumerate((["Send"], exchange, exchange, ["Recv"])):
        first = ["Isend", "Recv", "Wait", "Irecv", "Cancel"]
        assert kinds(trace.ranks[rank]) == [*first, *parts, "Isend", "Recv", "CollectiveCall", "Wait"]
        barrier, wait = calls(trace.ranks[rank].operations)[-2:]
        assert isinstance(barrier, CollectiveCall)
        assert isinstance(wait, Wait)
        assert (barrier.request,) == wait.requests


@pytest.mark.slow
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("kind", ["persistent", "neighbours", "across", "one-sided"])
def test_each_kind_of_call_is_recorded(library: str, kind: str, builds: Builds, tmp_path: Path) -> None:
    trace = traced(builds, tmp_path, library, [built(builds, compiler(library), PROGRAMS / "calls.c"), kind])
    rank = trace.ranks[1]
    if kind == "persistent":
        (loop, _) = rank.operations
        assert isinstance(loop, Loop)
        assert loop.count == 8
        assert [type(each) for each in calls(loop.body)] == [Irecv, Irecv, Isend, Isend, Wait, Wait]
        assert [each.mode for each in loop.body if isinstance(each, Isend)] == ["standard", "synchronous"]
    elif kind == "neighbours":
        near = [each for each in rank.unfold() if isinstance(each, CollectiveCall) and each.kind != "comm"]
        assert [(each.kind, each.sources, each.targets, each.counts) for each in near] == [
            ("neighbor_alltoall", (0, 2), (0, 2), (500, 500)),
            ("neighbor_allgather", (3,), (3,), (700,)),
        ]
    elif kind == "across":
        across = {each.communicator for each in rank.unfold() if is_send(each)}
        assert [trace.communicators[each] for each in across] == [Communicator((0, 2), (1, 3))]
        roots = [e.root for r in trace.ranks for e in r.unfold() if isinstance(e, CollectiveCall) and e.kind == "bcast"]
        assert roots == [0, 0, None, 0]
    else:
        assert trace.warnings == ["16 one-sided calls are not among the operations"]
        assert rank.one_sided_bytes == 110 + 16 + 60 + 7


@pytest.mark.slow
@pytest.mark.parametrize("library", LIBRARIES)
def test_python_programs(library: str, builds: Builds, tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(JOB + "c.send({'pickled': list(range(r))}, dest=(r + 1) % n)\nc.recv()\n")
    trace = traced(builds, tmp_path, library, [sys.executable, tmp_path / "job.py"])
    assert not any(rank.threaded for rank in trace.ranks)
    for rank in trace.ranks:
        names = [each.kind for each in rank.unfold() if isinstance(each, CollectiveCall)]
        assert [each for each in names if each != "comm"] == ["alltoall", "bcast", "allreduce", "gather", "allgather"]
        assert [each.peer for each in rank.unfold() if isinstance(each, Recv)][-1] == (rank.rank + 3) % 4


@pytest.mark.slow
@needs_fortran
@pytest.mark.parametrize("words", [(), ("-DF08",)])
def test_fortran_is_traced(words: tuple[str, ...], builds: Builds, tmp_path: Path) -> None:
    trace = traced(builds, tmp_path, "openmpi", [built(builds, "mpifort.openmpi", *words, PROGRAMS / "ring.F90")])
    for rank in trace.ranks:
        exchange = ["Irecv", "Isend", "Wait"]
        assert kinds(rank) == ["Irecv", "Send", "Wait", *exchange, *exchange, "Loop", *["CollectiveCall"] * 4]
        sizes = [each.bytes for each in rank.unfold() if isinstance(each, CollectiveCall)]
        assert sizes == [800, 80, 500, 24]
        loop = calls(rank.operations)[9]
        assert isinstance(loop, Loop)
        assert (loop.count, len(calls(loop.body))) == (3, 3)
    assert of_ranks(counted(*sorted(tmp_path.glob("job.*.pmpi")), collectives="call")) == around()


@pytest.mark.rare
@pytest.mark.slow
@needs_openmpi
def test_a_program_that_does_not_repeat_stops_at_the_budget(builds: Builds, tmp_path: Path) -> None:
    words: list[str | Path] = [program(builds, "openmpi"), "irregular"]
    trace = traced(builds, tmp_path, "openmpi", words, GAVOTTE_TRACE_BYTES="150000")
    for rank in trace.ranks:
        # One call for each exchange, and the end.
        assert rank.calls + rank.dropped_calls == 4001
        assert 100 < rank.calls < 4000
    assert not trace.complete
    assert "after the recorder's memory was used up; set GAVOTTE_TRACE_BYTES" in trace.warnings[0]
    assert max(each.stat().st_size for each in tmp_path.glob("job.*.trace")) < 150_000


def section(content: bytes) -> bytes:
    """Return the first rank's section of a file."""
    return content[: 20 + int.from_bytes(content[8:16], "little")]


def sealed(body: bytes) -> bytes:
    """Return a section with a sound head and checksum."""
    return b"gvtrace1" + len(body).to_bytes(8, "little") + body + zlib.crc32(body).to_bytes(4, "little")


def test_damage_is_one_clear_line(tmp_path: Path) -> None:
    sound = RECORDED.read_bytes()
    first = section(sound)
    other = sealed(b"\0\5" + first[18:-4])
    for content, message in (
        (b"", "is not a trace of MPI calls; use"),
        (b"gavotte/pmpi/2", "is not a trace of MPI calls"),
        (sound[:-1], "is cut short"),
        (sound[:-9] + bytes([sound[-9] ^ 1]) + sound[-8:], "its checksum is wrong"),
        (first, "3 of 4 ranks are missing, such as 1"),
        (sound + first, "is rank 0's, as another is"),
        (sound + other, "is rank 0 of 5; name the files of one run"),
        (sealed(b"\4\4" + first[18:-4]), "is rank 4 of 4"),
        (sealed(first[16:-4] + b"\0") + sound[len(first) :], "has more bytes than it states"),
        (sealed(first[16:-5]) + sound[len(first) :], "is cut short"),
    ):
        (tmp_path / "t.trace").write_bytes(content)
        with pytest.raises(FormatError, match=message) as caught:
            read_trace(tmp_path / "t.trace")
        assert "\n" not in str(caught.value)
    with pytest.raises(GavotteError, match="no trace is named"):
        read_trace([])


@examples(300)
@given(data=st.data())
def test_mutated_files(data: st.DataObject) -> None:
    """The checksum is made sound again, so that the reader sees the damage."""
    sound = RECORDED.read_bytes()
    first = section(sound)
    damaged = sealed(mutate(data, first[16:-4]))
    try:
        trace = parse_trace(damaged + sound[len(first) :], "t")
    except GavotteError as error:
        assert "\n" not in str(error)
    else:
        assert all(UNKNOWN <= each.peer < 4 for r in trace.ranks for each, _ in passes(r.operations) if is_send(each))
