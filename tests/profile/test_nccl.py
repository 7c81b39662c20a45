"""NCCL's and RCCL's debug logs."""

from __future__ import annotations

from pathlib import Path

import pytest

from gavotte.errors import FormatError
from gavotte.profile import Traffic, profile
from gavotte.profile.sources import nccl


def read(*paths: Path) -> Traffic:
    return profile("nccl", list(paths), name="job", min_bytes=0).traffic


def nccl_log(ranks: int, *, graph: bool = False, tree: bool = False) -> str:
    """A log of four operations as NCCL 2.21 writes it."""
    lines = []
    for rank in range(ranks):
        before = f"node{rank // 2}:{100 + rank}:{200 + rank} [{rank % 2}] NCCL INFO"
        comm = f"0x55d{rank}0"
        lines.append(
            f"{before} ncclCommInitRank comm {comm} rank {rank} nranks {ranks} cudaDev 0 nvmlDev 0 busId 1000 "
            "commId 0xfeed - Init START"
        )
        if graph:
            lines += [f"{before} Channel 00/02 :    0   2   1   3", f"{before} Channel 01/02 :    0   1   2   3"]
        if tree:
            above, *below = {0: (-1, 1, 2), 1: (0, 3), 2: (0,), 3: (1,)}[rank]
            down = "/".join(map(str, [*below, -1, -1, -1][:3]))
            lines.append(f"{before} Trees [0] {down}->{rank}->{above}")
            lines.append(f"{before} AllReduce: 4000 Bytes -> Algo 0 proto 2 time 12.0")
        tail = f"comm {comm} [nranks={ranks}] stream 0x7f"
        lines += [
            f"{before} AllReduce: opCount 0 sendbuff 0x1 recvbuff 0x2 count 1000 datatype 7 op 0 root 0 {tail}",
            f"{before} AllGather: opCount 1 sendbuff 0x1 recvbuff 0x2 count 10 datatype 1 op 0 root 0 {tail}",
            f"{before} Broadcast: opCount 2 sendbuff 0x1 recvbuff 0x2 count 100 datatype 7 op 0 root 1 {tail}",
        ]
        lines.append(
            f"{before} Send: opCount 3 sendbuff 0x1 recvbuff (nil) count 5 datatype 8 op 0 root 0 {tail}"
            if rank
            else "x"
        )
    return "\n".join(lines)


def test_nccl_rings_in_the_order_of_ranks(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(nccl_log(4))
    content = read(tmp_path / "log")
    ring = 2 * 3 * 4000 // 4 + 3 * 10
    assert {pair: count.bytes for pair, count in content.counts.items()} == {
        ("rank0", "rank1"): ring,  # the broadcast's last edge would be the root's
        ("rank1", "rank2"): ring + 400,
        ("rank2", "rank3"): ring + 400,
        ("rank3", "rank0"): ring + 400 + 40,
        ("rank1", "rank0"): 40,
        ("rank2", "rank0"): 40,
    }
    assert (content.seen["ranks"], content.seen["operations"], content.seen["unknown_operations"]) == (4, 15, 0)


def test_nccl_follows_the_rings_and_trees_it_tells(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(nccl_log(4, graph=True))
    content = read(tmp_path / "log").counts
    assert content["rank0", "rank2"].bytes == 2 * 3 * 2000 // 4 + 3 * 5 + 200
    (tmp_path / "log").write_text(nccl_log(4, tree=True))
    content = read(tmp_path / "log").counts
    assert content["rank0", "rank2"].bytes == 4000
    assert content["rank3", "rank1"].bytes == 4000


def op(kind: str, comm: str, ranks: int, count: int = 1000, count_of: str = "1a") -> str:
    tail = f"count {count} datatype 7 op 0 root 0 comm {comm} [nranks={ranks}] stream 0x7f5"
    return f"NCCL INFO {kind}: opCount {count_of} sendbuff 0x1f recvbuff 0x2f {tail}"


def _endless() -> list[str]:
    number = "1" * 5000
    return [
        f"Channel {number}/02 : 0 1",
        f"Channel 00/02 : 0 {number}",
        f"Ring {number} : 0 -> 1 -> 0",
        *(f"Trees [0] {'/'.join(below)}->0->-1" for below in ((number, "1", "1"), ("1", "1", number))),
        f"Trees [{number}] 1/-1/-1->0->-1 [0] 1/-1/-1->{number}->-1 [0] 1/-1/-1->0->{number}",
    ]


# Lines as in the public thread that shows them; sizes are ours.
SEEN = {
    # NVIDIA/nccl issue 629 (2.10): one process with several devices, no identity, no word before `comm`.
    "devices of one process": (
        [
            "A03:58077:58135 [0] NCCL INFO comm 0x7f30a0 rank 0 nranks 2 cudaDev 0 busId 1b000 - Init COMPLETE",
            "A03:58077:58136 [1] NCCL INFO comm 0x7f30b0 rank 1 nranks 2 cudaDev 1 busId 3d000 - Init COMPLETE",
            f"A03:58077:58077 [0] {op('AllReduce', '0x7f30a0', 2)}",
            f"A03:58077:58077 [1] {op('AllReduce', '0x7f30b0', 2)}",
        ],
        {(0, 1): 4000, (1, 0): 4000},
    ),
    # Issue 1953 (2.28): rank 0 alone reports whole rings, each rank its neighbours.
    "neighbours in rings": (
        [
            "ubuntu:80:80 [0] NCCL INFO ncclCommInitRankConfig comm 0xa rank 0 nranks 3 commId 0x5e - Init START",
            "ubuntu:81:81 [1] NCCL INFO ncclCommInitRankConfig comm 0xb rank 1 nranks 3 commId 0x5e - Init START",
            "ubuntu:80:80 [0] NCCL INFO Channel 00/02 : 0 2 1",
            "ubuntu:80:80 [0] NCCL INFO Ring 00 : 1 -> 0 -> 2",
            "ubuntu:81:81 [1] NCCL INFO comm 0xb rank 1 nRanks 3 nNodes 2 localRanks 2 localRank 1 MNNVL 0",
            "ubuntu:81:81 [1] NCCL INFO Ring 00 : 2 -> 1 -> 0",
            "ubuntu:81:81 [1] NCCL INFO Channel 00/0 : 1[1] -> 0[0] via SHM/direct/direct",
            f"ubuntu:80:80 [0] {op('AllGather', '0xa', 3)}",
            f"ubuntu:81:81 [1] {op('AllGather', '0xb', 3)}",
        ],
        {(0, 2): 8000, (1, 0): 8000},
    ),
    # Issue 820: if only rank 0 reports rings, they are all ranks' rings, also those of earlier ranks.
    "rings of rank 0": (
        [
            "m:22474:22474 [1] NCCL INFO comm 0xb rank 1 nranks 3 cudaDev 1 busId 2000 - Init COMPLETE",
            f"m:22474:22474 [1] {op('AllGather', '0xb', 3)}",
            "m:22473:22473 [0] NCCL INFO comm 0xa rank 0 nranks 3 cudaDev 0 busId 1000 - Init COMPLETE",
            "m:22473:22473 [0] NCCL INFO Channel 00/16 :    0   2   1",
            "m:22473:22473 [0] NCCL INFO Channel 03 : 0[14000] -> 2[41000] via P2P/IPC/read",
        ],
        {(1, 0): 8000},
    ),
    # Issue 1453 (2.22): rank 0 alone reports the algorithm, without the operation, behind mpirun's tag.
    "algorithms by number": (
        [
            "[0] h100:97:98 [0] NCCL INFO ncclCommInitRank comm 0xa rank 0 nranks 3 commId 0x1 - Init START",
            "[1] h101:97:99 [0] NCCL INFO ncclCommInitRank comm 0xb rank 1 nranks 3 commId 0x1 - Init START",
            "[0] h100:97:98 [0] NCCL INFO Trees [0] 1/2/-1->0->-1",
            "[1] h101:97:99 [0] NCCL INFO Trees [0] -1/-1/-1->1->0",
            "[0] h100:97:97 [0] NCCL INFO 4000 Bytes -> Algo 0 proto 0 time 25.229528",
            "[0] h100:97:97 [0] NCCL INFO 8000 Bytes -> Algo 1 proto 2 time 3970.683594",
            f"[1] h101:97:97 [0] {op('AllReduce', '0xb', 3)}",
        ],
        {(1, 0): 4000},
    ),
    # 2.24 and later name the algorithm.
    "algorithms by name": (
        [
            "n0:9:9 [0] NCCL INFO ncclCommInitRank comm 0xa rank 0 nranks 3 commId 0x1 - Init START",
            "n0:9:9 [0] NCCL INFO Trees [0] 1/2/-1->0->-1 [1] 2/-1/-1->0->1",
            "n0:9:9 [0] NCCL INFO AllReduce: 4000 Bytes -> Algo TREE proto LL channel{Lo..Hi}={0..1}",
            "n0:9:9 [0] NCCL INFO AllReduce: 8000 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..1}",
            f"n0:9:9 [0] {op('AllReduce', '0xa', 3)}",
            f"n0:9:9 [0] {op('AllReduce', '0xa', 3, 3000)}",
        ],
        {(0, 1): 4000 + 2 * 2 * 12000 // 3, (0, 2): 4000},
    ),
    # Issue 147: two ranks' lines that ran into each other.
    "lines in lines": (
        [
            "fair:9:9 [0] NCCL INFO comm 0xa rank 0 nranks 2 cudaDev 0 nvmlDev 0 - Init COMPLETE",
            "fair:8:8 [7] NCCL INFO fair:9:9 [0] " + op("Broadcast", "0xa", 2),
        ],
        {(0, 1): 4000},
    ),
    # Issue 2094 (2.29): logged through a program that leaves host and process out.
    "devices alone": (
        [
            "[1] NCCL INFO ncclCommInitRankScalable comm 0xb rank 1 nranks 2 cudaDev 1 commId 0x7 - Init START",
            f"[1] {op('ReduceScatter', '0xb', 2)}",
        ],
        {(1, 0): 4000},
    ),
    # Not NCCL's: numbers of thousands of digits in place of ranks and channels.
    "endless numbers": (
        [
            "n0:9:9 [0] NCCL INFO ncclCommInitRank comm 0xa rank 0 nranks 2 commId 0x1 - Init START",
            *(f"n0:9:9 [0] NCCL INFO {line}" for line in _endless()),
            f"n0:9:9 [0] {op('AllGather', '0xa', 2)}",
        ],
        {(0, 1): 4000},
    ),
    # RCCL and NCCL 2.29: `acc`, and words behind.
    "RCCL": (
        [
            "h03:45006:45006 [0] NCCL INFO comm 0xa rank 0 nranks 2 cudaDev 0 busId 3d000 commId 0x2 - Init COMPLETE",
            "h03:45006:45006 [0] "
            + op("AllReduce", "0xa", 2).replace("count", "acc (nil) count")
            + " task 0 globalrank 0",
        ],
        {(0, 1): 4000},
    ),
}


@pytest.mark.parametrize("case", SEEN)
def test_nccl_lines_as_public_threads_show_them(tmp_path: Path, case: str) -> None:
    lines, wanted = SEEN[case]
    (tmp_path / "log").write_text("\n".join(lines))
    content = read(tmp_path / "log")
    values = {(f"rank{source}", f"rank{target}"): size for (source, target), size in wanted.items()}
    assert {pair: count.bytes for pair, count in content.counts.items()} == values
    assert content.seen["unknown_operations"] == 0


def test_a_split_communicator_has_ranks_of_the_whole(tmp_path: Path) -> None:
    """PyTorch makes its groups by ncclCommSplit; a member without a log has no rank."""
    lines = []
    for rank in (1, 3):
        before = f"n{rank}:{rank}:{rank} [0] NCCL INFO"
        lines += [
            f"{before} ncclCommInitRankConfig comm 0xa rank {rank} nranks 5 cudaDev 0 commId 0x1 - Init START",
            f"{before} ncclCommSplit comm 0xb rank {rank // 2} nranks 3 parent 0xa color 1 commId 0x2 - Init START",
            f"n{rank}:{rank}:{rank} [0] {op('AllGather', '0xb', 3)}",
        ]
    (tmp_path / "log").write_text("\n".join(lines))
    content = read(tmp_path / "log")
    assert {pair: count.bytes for pair, count in content.counts.items()} == {("rank1", "rank3"): 8000}
    assert content.strangers == {("rank3", "rank 2 of 0x2"): 8000}


def test_a_log_cannot_make_pairs_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nccl, "MOST_PAIRS", 1000)
    lines = []
    for number in range(40):
        name = f"0x{number:x}"
        lines.append(
            f"n:1:1 [0] NCCL INFO ncclCommInitRank comm {name} rank 0 nranks 131072 commId {name} - Init START"
        )
        lines.append(f"n:1:1 [0] {op('AllToAll', name, 131072)}")
    (tmp_path / "log").write_text("\n".join(lines))
    with pytest.raises(FormatError, match="has more than 1000 pairs"):
        read(tmp_path / "log")


def test_communicators_that_nothing_tells_apart_are_unknown(tmp_path: Path) -> None:
    lines = []
    for rank in range(4):
        before = f"n:{rank}:{rank} [{rank}]"
        lines += [
            f"{before} NCCL INFO comm 0xa rank {rank} nranks 4 cudaDev 0 busId 1 - Init COMPLETE",
            f"{before} NCCL INFO comm 0xb rank {rank % 2} nranks 2 cudaDev 0 busId 1 - Init COMPLETE",
            f"{before} {op('AllGather', '0xa', 4)}",
            f"{before} {op('AllGather', '0xb', 2)}",
        ]
    (tmp_path / "log").write_text("\n".join(lines))
    content = read(tmp_path / "log")
    assert content.counts["rank0", "rank1"].bytes == 3 * 4000
    assert content.seen["unknown_operations"] == 4
