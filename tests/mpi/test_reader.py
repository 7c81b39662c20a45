"""The preloaded library's reader of trees, under sanitizers: it never crashes, and accepts only valid trees."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.collective.clouds import network
from tests.examples import examples

from gavotte.collective import TreeSearch, plan, shim_text
from gavotte.formats.collective import Collective, Operation, Stage

RANKS = 5
KINDS = (
    *("broadcast", "reduce", "scatter", "gather", "allgather", "allreduce"),
    *("allgather-gather", "allgather-broadcast", "allreduce-reduce", "allreduce-broadcast"),
)
HEAD = re.compile(r"([a-z-]+) ([0-9]{1,16}) ([0-9]{1,16}) ([0-9]{1,16})")
HOST = re.compile(r"[a-z0-9.-]{1,63}")
ROW = re.compile(r"[0-9]{1,16}(?: [0-9]{1,16})*")


class Reader:
    """The C reader in a process of its own."""

    def __init__(self, program: Path, folder: Path) -> None:
        self._path = folder / "t.txt"
        self._process = subprocess.Popen(
            [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def read(self, content: bytes, rank: int, ranks: int = RANKS) -> str | None:
        """Return the tree that it reports, or None if it refuses."""
        self._path.write_bytes(content)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{ranks} {rank} {self._path}\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise AssertionError(self._process.communicate()[1])
        return line.rsplit(maxsplit=1)[0][len("yes") :].strip() if line.startswith("yes") else None

    def close(self) -> None:
        """Let it end, which also reports leaks."""
        _, message = self._process.communicate(timeout=30)
        assert self._process.returncode == 0, message


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("reader")
    program, source = folder / "reader", Path(__file__).with_name("reader.c")
    with resources.as_file(resources.files("gavotte.collective") / "shim_trees.h") as header:
        line = [compiler, "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-unused", f"-I{header.parent}"]
        line += ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-o", str(program), str(source)]
        made = subprocess.run(line, capture_output=True, text=True, timeout=100)
    if made.returncode and "sanitize" in made.stderr + str(made.stdout) and "cannot find" in made.stderr:
        pytest.skip("no sanitizers")
    assert made.returncode == 0, made.stderr
    present = Reader(program, folder)
    yield present
    present.close()


def written() -> str:
    """Every kind of line."""
    net = network(RANKS)
    names: tuple[Operation, ...] = ("broadcast", "reduce", "scatter", "gather", "allgather", "allreduce")
    matches = [plan(net, name, size_bytes=1 << 20, algorithm="ecef", segments=3) for name in names]
    matches += [
        plan(net, name, size_bytes=1 << 20, algorithm="ring", search=TreeSearch(steps=200)) for name in names[4:]
    ]
    stage = Stage(
        operation="allgather", bytes=9, segments=2, parent=[3, 3, 0, 3, 3], order=[3, 1, 0, 2, 4], ring=1, predicted_s=0
    )
    stage = stage.model_copy(update={"ring": 3, "parent": [1, 3, 3, 3, 1]})
    matches.append(Collective.model_validate(matches[-2].model_dump() | {"stages": [stage.model_dump()]}))
    return shim_text(matches)


def expected(content: bytes, rank: int, ranks: int = RANKS) -> str | None:
    """Return the correct result, or None: an independent implementation of the format in docs/reference/formats.md."""
    try:
        text = content.decode("ascii")
    except UnicodeDecodeError:
        return None
    if not text.endswith("\n"):
        return None
    lines = text[:-1].split("\n")
    if lines[0] != "gavotte/shim/1" or len(lines) < 2:
        return None
    count = re.fullmatch(r"ranks ([0-9]{1,16})", lines[1])
    if count is None or int(count[1]) != ranks:
        return None
    parts: list[str] = []
    awaited, begin = None, 2
    if len(lines) > 2 and lines[2].startswith("hosts "):
        parts, begin = lines[2].split(" ")[1:], 3
        if len(parts) != ranks or not all(HOST.fullmatch(name) for name in parts):
            return None
    if (len(lines) - begin) % 3:
        return None
    for at in range(begin, len(lines), 3):
        head = HEAD.fullmatch(lines[at])
        if head is None or head[1] not in KINDS or not all(ROW.fullmatch(row) for row in lines[at + 1 : at + 3]):
            return None
        kind, (first, size_bytes, segment_bytes) = KINDS.index(head[1]), map(int, head.groups()[1:])
        parent, order = ([int(word) for word in row.split(" ")] for row in lines[at + 1 : at + 3])
        members = first if kind in (4, 5) else 0
        if max(size_bytes, segment_bytes) > 1 << 53 or sorted(order) != list(range(ranks)) or len(parent) != ranks:
            return None
        root = order[0]
        if (
            max(parent) >= ranks
            or parent[root] != root
            or (first != root if kind not in (4, 5) else not 1 <= first <= ranks)
        ):
            return None
        for place in range(1, ranks):
            above = parent[order[place]]
            if above not in order[: min(place, members) if members else place]:
                return None
            if place < members and above != order[place - 1]:
                return None
        if (awaited is None) != (kind not in (7, 9)) or (awaited is not None and awaited != (kind, root)):
            return None
        awaited = (kind + 1, root) if kind in (6, 8) else None
        parts.append(f"{kind} {root} {members} {size_bytes} {segment_bytes} : {_seen(parent, order, members, rank)} ;")
    return " ".join(parts) if awaited is None else None


def _seen(parent: list[int], order: list[int], members: int, rank: int) -> str:
    """A rank's parent (-1 = none, or a member), its children or attached ranks, and `below` of shim_trees.h."""

    def children(of: int) -> list[int]:
        among = order[members:] if members else order[1:]
        return [other for other in among if parent[other] == of and other != of]

    def below(of: int) -> list[int]:
        return [of, *(deeper for child in children(of) for deeper in below(child))]

    if members:
        above = -1 if rank in order[:members] else parent[rank]
        laid = [other for member in order[:members] for other in (member, *children(member))]
        mine = children(rank) if above == -1 else []
    else:
        above, laid, mine = -1 if rank == order[0] else parent[rank], below(rank), children(rank)
    return " ".join([*map(str, [above, *mine]), ":", *map(str, laid)])


TEXT = written().encode()
PIECES = st.sampled_from(
    [
        b"",
        b"0",
        b"4",
        b"5",
        b"-1",
        b"9007199254740993",
        b"99999999999999999999",
        b" ",
        b"\n",
        b"nan",
        b"1e9",
        b"0x1",
        b"hosts a b c d e\n",
        b"A",
        b"x" * 64,
        b"\0",
    ]
) | st.binary(max_size=3)
CHANGES = st.lists(st.tuples(st.integers(0, len(TEXT)), st.integers(0, 12), PIECES), max_size=4)


@given(CHANGES, st.integers(0, RANKS - 1))
@examples(400)
def test_changed_texts_are_taken_as_they_should(
    reader: Reader, changes: list[tuple[int, int, bytes]], rank: int
) -> None:
    content = TEXT
    for at, length, piece in changes:
        content = content[:at] + piece + content[at + length :]
    assert reader.read(content, rank) == expected(content, rank)


@given(st.lists(st.integers(0, 6), min_size=12, max_size=12), st.sampled_from(KINDS), st.integers(0, 3))
@examples(400)
def test_small_trees_of_any_numbers(reader: Reader, values: list[int], kind: str, first: int) -> None:
    row = [" ".join(map(str, values[at : at + 3])) for at in (0, 3, 6, 9)]
    hosts = "hosts a b.c 0-d\n" if first % 2 else ""
    content = f"gavotte/shim/1\nranks 3\n{hosts}{kind} {first} 8 4\n{row[0]}\n{row[1]}\n"
    if kind in ("allgather-gather", "allreduce-reduce"):
        content += f"{KINDS[KINDS.index(kind) + 1]} {first} 8 0\n{row[2]}\n{row[3]}\n"
    for rank in range(3):
        assert reader.read(content.encode(), rank, 3) == expected(content.encode(), rank, 3)


def test_a_second_tree_that_fits_no_first_is_freed(reader: Reader) -> None:
    tree = "allgather-broadcast 0 8 4\n0 0 0\n0 1 2\n"
    for _ in range(50):  # of one leak, a pointer may stay on the stack
        assert reader.read(f"gavotte/shim/1\nranks 3\n{tree}".encode(), 1, 3) is None


def test_truncated_files(reader: Reader) -> None:
    taken = [end for end in range(len(TEXT) + 1) if reader.read(TEXT[:end], 0) is not None]
    assert taken == [end for end in range(len(TEXT) + 1) if expected(TEXT[:end], 0) is not None]
    assert taken[-1] == len(TEXT)
    assert len(taken) < TEXT.count(b"\n")


@pytest.mark.slow
def test_all_small_trees_are_found(reader: Reader) -> None:
    """Among all parents and orders of three ranks, the reader accepts as many as there are ordered trees and rings."""
    triples = [(a, b, c) for a in range(3) for b in range(3) for c in range(3)]
    for kind, first in (("broadcast", 0), ("allgather", 1), ("allgather", 2), ("allgather", 3)):
        taken = 0
        for parent in triples:
            for order in triples:
                rows = f"{' '.join(map(str, parent))}\n{' '.join(map(str, order))}\n"
                content = f"gavotte/shim/1\nranks 3\n{kind} {first} 8 4\n{rows}".encode()
                result = reader.read(content, 1, 3)
                assert result == expected(content, 1, 3)
                taken += result is not None
        # From one root two orders of two parents each: for the second the root or the first, 2 x 2. Rings: 3! orders,
        # and in a ring of two the third is attached to either.
        assert (
            taken == {("broadcast", 0): 4, ("allgather", 1): 6, ("allgather", 2): 12, ("allgather", 3): 6}[kind, first]
        )


def test_missing_and_foreign_files(reader: Reader) -> None:
    assert reader.read(b"", 0) is None
    assert reader.read(bytes(range(256)) * 300, 0) is None
    assert reader.read(TEXT, 0, 4) is None
    assert reader.read(TEXT.replace(b"\n", b"\r\n"), 0) is None
