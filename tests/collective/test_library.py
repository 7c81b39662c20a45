"""The MPI library's own operation as a candidate, with its measured time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.collective.clouds import history, network

from gavotte.collective import TreeSearch, plan, read_library, replay, shim_text
from gavotte.collective.library import library_seconds
from gavotte.collective.planning import FLAT
from gavotte.errors import FormatError, GavotteError
from gavotte.formats.collective import LIBRARY, Collective, Operation, read_collective, write_collective
from gavotte.formats.record import Record

NET = network(4)
SIZE_BYTES = 1 << 20
OURS = plan(NET, "broadcast", size_bytes=SIZE_BYTES, root="h1")


def timed(seconds: float, size_bytes: int = SIZE_BYTES, **labels: str | int | None) -> Record:
    known: dict[str, str | int | float | bool | None] = {
        "operation": "broadcast",
        "bytes": size_bytes,
        "root": "h1",
        "ranks": "h0,h1,h2,h3",
    }
    return Record(kind="collective", metric="library_s", value=seconds, time_s=0.0, labels=known | labels)


def planned(*records: Record) -> Collective:
    return plan(NET, "broadcast", size_bytes=SIZE_BYTES, root="h1", search=TreeSearch(library=records))


@pytest.mark.parametrize(("share", "chosen"), [(0.9, LIBRARY), (1.05, LIBRARY), (1.1, OURS.algorithm)])
def test_a_tree_must_be_surely_faster(share: float, chosen: str) -> None:
    seconds = share * OURS.predicted_s
    answer = planned(timed(seconds))
    assert answer.algorithm == chosen
    assert (answer.predicted_s if chosen == LIBRARY else answer.baselines_s[LIBRARY]) == seconds
    assert answer.stages == OURS.stages


def test_an_algorithm_that_the_user_names_is_kept() -> None:
    answer = plan(
        NET, "broadcast", size_bytes=SIZE_BYTES, root="h1", algorithm="chain", search=TreeSearch(library=[timed(1e-6)])
    )
    assert answer.algorithm == "chain"
    assert answer.baselines_s[LIBRARY] == 1e-6


def test_a_library_that_was_not_timed_has_a_predicted_time() -> None:
    def answer(operation: Operation, mpi: str | None, *records: Record) -> Collective:
        return plan(NET, operation, size_bytes=4096, root="h1", search=TreeSearch(library=records, mpi=mpi))

    assert LIBRARY not in answer("broadcast", None).baselines_s
    # Open MPI gathers 4 kB from four ranks as we do: each rank sends to the root.
    assert answer("gather", "openmpi").algorithm == LIBRARY
    assert answer("gather", "mpich").algorithm == FLAT, "MPICH gathers along a binomial tree by rank"
    slow = timed(9.0, 4096)
    assert answer("broadcast", "openmpi", slow).predicted_s == 9.0, "a measured time counts more"
    assert answer("broadcast", "openmpi", slow).algorithm == LIBRARY, (
        "short operations fit bursts, which rates do not show"
    )
    with pytest.raises(GavotteError, match="`lam` is no MPI library; use openmpi or mpich"):
        answer("broadcast", "lam")


def test_a_prediction_of_the_library_is_of_its_own_algorithm() -> None:
    # MPICH's scatter is a binomial tree by rank, like ours of that name.
    planned = plan(NET, "scatter", size_bytes=65_536, root="h0", algorithm="binomial", search=TreeSearch(mpi="mpich"))
    assert planned.baselines_s[LIBRARY] == pytest.approx(planned.predicted_s, rel=0.01)


def test_what_was_not_timed_is_no_candidate() -> None:
    for other in ({"root": "h0"}, {"ranks": "h0,h1"}, {"operation": "reduce"}, {"bytes": SIZE_BYTES // 2}):
        assert LIBRARY not in planned(timed(1e-6, **other)).baselines_s


def test_seconds_between_two_sizes_are_interpolated() -> None:
    hosts, records = NET.names, [timed(9.0, 1000), timed(1.0, 1000), timed(3.0, 2000)]
    seconds = {size: library_seconds(records, "broadcast", size, "h1", hosts) for size in (999, 1000, 1500, 2000, 2001)}
    assert seconds == {999: None, 1000: 1.0, 1500: 2.0, 2000: 3.0, 2001: None}


def test_operations_without_a_root_fit_any_root() -> None:
    answer = plan(
        NET,
        "allreduce",
        size_bytes=SIZE_BYTES,
        search=TreeSearch(library=[timed(1e-6, operation="allreduce", root=None)]),
    )
    assert answer.algorithm == LIBRARY


def test_a_file_leaves_the_operation_to_the_library(tmp_path: Path) -> None:
    path = tmp_path / "bcast.tree.json"
    write_collective(path, planned(timed(1e-6)))
    assert read_collective(path).algorithm == LIBRARY
    text = shim_text([read_collective(path), OURS])
    assert text.splitlines()[3:5] == [
        f"library broadcast 1 {SIZE_BYTES}",
        f"broadcast 1 {SIZE_BYTES} {OURS.stages[0].segment_bytes}",
    ]
    with pytest.raises(GavotteError, match="cannot be replayed"):
        replay(history(NET, 2, 0.0), read_collective(path))


def test_a_file_without_the_library(tmp_path: Path) -> None:
    path = tmp_path / "library.jsonl"
    path.write_text(json.dumps(timed(1.0).model_dump() | {"metric": "transfer_s"}) + "\n")
    with pytest.raises(FormatError, match=r"gavotte\.mpi\.timing"):
        read_library(path)
    path.write_text(path.read_text() + json.dumps(timed(1.0).model_dump()) + "\n")
    assert [record.value for record in read_library(path)] == [1.0]
