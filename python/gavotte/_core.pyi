"""The compiled half of Gavotte. Private: each room wraps its own part of it.

_Indices count from zero in the order given. Rates are bit/s, `inf` = unlimited.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, final

import numpy as np
import numpy.typing as npt

from gavotte.formats.network import Network as _Network
from gavotte.formats.topology import Topology as _Topology

__all__ = [
    "Bottleneck",
    "BroadcastGround",
    "CoflowTrace",
    "Compact",
    "Completion",
    "Conductor",
    "Explanation",
    "Exports",
    "FlowList",
    "Found",
    "Guarded",
    "JobProgram",
    "JobReplayed",
    "Letters",
    "LinkTime",
    "Network",
    "Platform",
    "Problem",
    "Proven",
    "Ranks",
    "Simulated",
    "SocketWatch",
    "blocks_checksum",
    "build_profile",
    "captured",
    "chi_squared_quantile",
    "column_quantile",
    "deadline_shortage",
    "default_algorithm",
    "ecef_tree",
    "format_finish",
    "mechanisms",
    "mode",
    "order_names",
    "order_rates",
    "parse_flows",
    "policies",
    "principal",
    "protections",
    "serving_order",
    "simulate_guarded",
    "student_quantile",
    "version",
    "wss",
]

_Floats = npt.NDArray[np.float64]
_Bytes = npt.NDArray[np.uint64]
_Indices = npt.NDArray[np.uint32]
_Over = float | tuple[Network, Sequence[int]]

def version() -> str:
    """Return the version of the compiled module."""

def build_profile() -> str:
    """Return how the module was compiled: `release`, or `debug`, which no measurement should use."""

def policies() -> list[str]:
    """Return the names of the policies that place in one pass, the best known first."""

def blocks_checksum(hashes: bytes) -> bytes:
    """Return the checksum of an object: BLAKE3 of its blocks' hashes, which are 32 bytes each.

    Raises:
        ValueError: when the length is no multiple of 32.
    """

def mechanisms() -> list[str]:
    """Return the names of the mechanisms of a broadcast. Of two with the same cost, the first is chosen."""

def default_algorithm(library: str, operation: str, members: int, size_bytes: int) -> int:
    """Return the number of the algorithm that an MPI library takes for a blocking collective operation.

    Args:
        library: `openmpi` or `mpich`.
        operation: as MPI calls it: `bcast`, `allreduce`.
        members: number of ranks.
        size_bytes: bytes of the vector, or of one rank's block.

    Returns:
        The number, as in `gavotte.terms.algorithms`; 0 = no setting of the library changes it.

    Raises:
        ValueError: for an unknown library or operation.
    """

@final
class BroadcastGround:
    """A network with the source and the receivers of a broadcast."""

    def __new__(cls, network: Network, source: int, receivers: Sequence[int]) -> BroadcastGround:
        """Check the hosts.

        Raises:
            ValueError: when a host does not exist or is named twice.
        """

    def bound(self, size_bytes: int) -> tuple[float, str]:
        """Return the least seconds of any mechanism, and the port that sets them; 0 when nothing known limits."""

    def links(self, best: bool) -> tuple[list[float], list[str], list[list[int]]]:
        """Return rate in bit/s and name of each link that may limit, and the numbers of the links of each pair.

        Pairs are in the order of sending and receiving member, the source first. With `best`, a host without a cap is
        as fast as its best path.
        """

    def rehearse(self, mechanism: str, size_bytes: int, partitions: Sequence[int], seed: int) -> float:
        """Return the seconds of a Cornet that is played with these partitions, by host; infinite after 200 s.

        Raises:
            ValueError: for another mechanism.
        """

    def packing_price(
        self, size_bytes: int, trees: Sequence[tuple[float, Sequence[tuple[int, int]]]]
    ) -> tuple[float, int]:
        """Return seconds and bytes of a piece of several trees: rate in bit/s, and parent and child of each edge."""

    def prices(self, size_bytes: int, partitions: Sequence[int]) -> list[tuple[str, float, int]]:
        """Return name, seconds and bytes of a piece of each mechanism but the packing.

        The partitions, by host, are Cornet's.
        """

@final
class Conductor:
    """One running broadcast. It receives events with their times, and decides which host gets which blocks from which.

    Blocks are bit masks, lowest first.
    """

    def __new__(
        cls,
        ground: BroadcastGround,
        size_bytes: int,
        block_bytes: int,
        mechanism: str,
        piece_bytes: int,
        predicted_s: float,
        partitions: Sequence[int],
        seed: int,
    ) -> Conductor:
        """Create a broadcast in which no host has opened a copy yet.

        Raises:
            ValueError: for an unknown mechanism, or invalid blocks.
        """

    def plant(self, trees: Sequence[tuple[float, Sequence[tuple[int, int]]]]) -> None:
        """Set the trees of a packing: rate in bit/s, and parent and child of each edge."""

    def absent(self, host: int) -> None:
        """Record, before the start, that a receiver is missing. No host waits for it, and it may join."""

    def invite(self, host: int) -> None:
        """Record that a further host of the network is a receiver. No host waits for it, and it may join."""

    def expect(self, host: int, now_s: float) -> None:
        """Record that a missing or lost receiver has joined."""

    def opened(self, host: int, have: bytes, held_bytes: int, now_s: float) -> None:
        """Record that a host has opened its copy, with the blocks that it already had."""

    def progress(self, host: int, have: bytes, held_bytes: int, now_s: float) -> None:
        """Record a host's progress."""

    def kept(self, host: int) -> None:
        """Record that a host has a complete copy under its final name."""

    def lost(self, host: int, why: str, now_s: float) -> None:
        """Record that a host no longer takes part."""

    def separate(self, pairs: list[tuple[int, int]]) -> None:
        """Record pairs of child and parent that cannot connect."""

    def broken(self, child: int, parent: int, why: str, now_s: float) -> None:
        """Record that a host can get nothing more from a parent."""

    def tick(self, now_s: float) -> None:
        """Look for hosts that stall or fall behind."""

    def changes(self) -> list[tuple[int, list[tuple[int, bytes, int, float]]]]:
        """Return the hosts with changes since the last call, and which blocks each gets from which parents.

        Each parent comes with its limit in bit/s (0 = none, 1 = it waits) and the round trip to it in seconds (0 =
        unknown).
        """

    def round_trip_s(self, m: int, n: int) -> float:
        """Return the round trip between two hosts in seconds; 0 = unknown."""

    def flows(self) -> list[tuple[int, int, int]]:
        """Return parent, child and bytes left of each newest subscription."""

    def hold(self) -> None:
        """Make every parent wait until it gets a limit."""

    def limit(self, parent: int, child: int, pace_bps: float, now_s: float) -> None:
        """Limit the rate from a parent to a child: infinite = no limit, 0 = it waits."""

    def answers(self, now_s: float) -> list[tuple[int, list[tuple[int, bytes]]]]:
        """Return the due answers of Cornet's tracker: hosts, and peers of each with their blocks."""

    def log(self) -> list[str]:
        """Return the changes since the last call, with reasons."""

    def aside(self) -> list[int]:
        """Return the hosts that left the trees of a packing since the last call, because no byte reaches them."""

    def edges(self) -> list[tuple[int, int]]:
        """Return parent and child of each edge; none for a mesh."""

    def is_over(self) -> bool:
        """Return whether every receiver is complete or lost."""

    def loss(self, host: int) -> str | None:
        """Return why a host no longer takes part; None if it does."""

@final
class Ranks:
    """Ranks 0 to R - 1 on hosts of a network; several may be on one."""

    def __new__(cls, network: Network, hosts: Sequence[int]) -> Ranks:
        """Assign ranks to hosts.

        Args:
            network: if hosts share any link, a host without a known cap carries as much as on its best pair.
            hosts: the host of each rank.

        Raises:
            ValueError: when there are no ranks, or a host does not exist.
            GavotteError: when neither a pair's rate nor a cap on its way is known.
        """

    @staticmethod
    def at(network: Network, hosts: Sequence[int], rate_bps: _Floats, latency_s: _Floats) -> Ranks:
        """Return ranks on a network like `network` with other pairs: (N, N) rates and latencies, NaN = unknown."""

    @property
    def count(self) -> int:
        """The number of ranks R."""

    def alpha_beta(self) -> tuple[_Floats, _Floats]:
        """Return two (R, R) arrays: fixed seconds of a message alone, and seconds per byte; row = source."""

    def tree(
        self,
        *,
        algorithm: str,
        root: int,
        size_bytes: float,
        segments: int,
        scatter: bool,
        back: bool,
        steps: int,
        seed: int,
    ) -> tuple[list[int], list[int], int, float]:
        """Make a tree for a broadcast or scatter; read backwards it serves a reduction or gather.

        Args:
            algorithm: `flat`, `binomial`, `fnf`, `ecef`, `look-ahead` or `chain`; any other name searches.
            root: rank that has the data first.
            size_bytes: bytes that each rank has in the end.
            segments: number of pieces; for the search, the most.
            scatter: whether each rank has bytes of its own.
            back: whether all data goes to the root.
            steps: moves that the search tries.
            seed: seed of the search.

        Returns:
            each rank's parent (the root's is itself), an order with parents first and siblings in sending order, the
            number of segments, and the total seconds when messages share links.

        Raises:
            ValueError: naming the invalid argument.
        """

    def tree_s(
        self,
        *,
        parent: Sequence[int],
        order: Sequence[int],
        size_bytes: float,
        segments: int,
        scatter: bool,
        back: bool,
    ) -> float:
        """Return the seconds that a tree takes. Arguments are those of `tree`, and its results.

        Raises:
            ValueError: naming the invalid argument.
        """

    def ring(
        self, *, by_rank: bool, size_bytes: float, segments: int, reduce: bool, steps: int, seed: int
    ) -> tuple[list[int], list[int], int, int, float]:
        """Make a ring for an allgather or allreduce, whose members may have further ranks as children.

        Args:
            by_rank: all ranks in their order, in one piece, without a search.
            size_bytes: each rank's block, or the vector.
            segments: most pieces of a block, or of a member's share.
            reduce: whether vectors are combined.
            steps: moves that the search tries.
            seed: seed of the search.

        Returns:
            each rank's parent (the member before it, or the member that it is a child of), an order with the members
            first, their number, the number of segments, and the total seconds when messages share links.

        Raises:
            ValueError: naming the invalid argument.
        """

    def ring_s(
        self,
        *,
        parent: Sequence[int],
        order: Sequence[int],
        members: int,
        size_bytes: float,
        segments: int,
        reduce: bool,
    ) -> float:
        """Return the seconds that a ring takes. Arguments are those of `ring`, and its results.

        Raises:
            ValueError: naming the invalid argument.
        """

    def library_s(self, *, library: str, operation: str, root: int, size_bytes: float) -> float:
        """Return the seconds of an MPI library's own operation, by the algorithm that it would choose.

        Args:
            library: `openmpi` or `mpich`.
            operation: broadcast, reduce, scatter, gather, allgather or allreduce.
            root: the rank of the root.
            size_bytes: bytes of the vector, or of one rank's block.

        Raises:
            ValueError: naming the invalid argument.
        """

    def messages_s(
        self,
        *,
        source: Sequence[int],
        target: Sequence[int],
        size_bytes: Sequence[float],
        start_s: Sequence[float] = ...,
    ) -> tuple[float, str]:
        """Return the seconds of concurrent messages between ranks, and what held the last one back.

        Args:
            source: sending rank of each message.
            target: receiving rank of each message.
            size_bytes: size of each message.
            start_s: time that each message's connection needs to start, without a latency; empty = none.

        Raises:
            ValueError: naming the invalid argument.
        """

    def exchanged(
        self,
        *,
        source: Sequence[int],
        target: Sequence[int],
        size_bytes: Sequence[float],
        hosts: Sequence[int],
        most: int,
    ) -> list[int]:
        """Exchange tasks while this shortens the time of the link that is full for longest.

        Args:
            source: (E,) the sending task of each message.
            target: (E,) the receiving task.
            size_bytes: (E,) bytes of each message.
            hosts: the rank of each task, no two the same.
            most: most exchanges.

        Returns:
            the rank of each task.

        Raises:
            ValueError: naming the invalid argument.
        """

_Row = tuple[int, str, str, int, int, int]

def captured(
    paths: Sequence[str], names: Sequence[str] | None, every_s: float | None
) -> tuple[list[_Row], list[tuple[str, float]], list[tuple[str, int]], bool, tuple[float, float] | None]:
    """Count the payload in captures of packets.

    Args:
        paths: pcap or pcapng files, one per host; `-` is standard input.
        names: the ends that are tasks: addresses, alone or with a port, or `*:PORT`; None finds them.
        every_s: length of an interval; None makes one interval.

    Returns:
        Rows of interval, source, target, bytes and their 95 % interval; other counters; why packets were skipped, with
        their numbers; whether a file ends within a record; times of the first and last packet.

    Raises:
        FormatError: when a file is not a capture, or damaged.
        ValueError: when a name is not an end.
    """

@final
class Letters:
    """Seal calls to one agent that other agents forward, and open its answers: AES-256-GCM with keys of its own."""

    def __new__(cls, key: bytes) -> Letters:
        """Derive the keys.

        Args:
            key: 32 random bytes that the agent got at its enrolment.

        Raises:
            ValueError: when the length is another.
        """

    def seal_call(self, number: int, content: bytes) -> bytes:
        """Seal a call. Each number may be used once."""

    def open_answer(self, call: int, number: int, sealed: bytes) -> bytes:
        """Open an answer.

        Args:
            call: the call's number.
            number: the answer's own; 0 for the first one.
            sealed: what arrived.

        Raises:
            ValueError: when it is not the agent's answer of these numbers.
        """

@final
class SocketWatch:
    """The sockets of this network namespace: their bytes in both directions, and their owners."""

    def __new__(cls) -> SocketWatch:
        """Start watching. Earlier traffic does not count.

        Raises:
            OSError: when the kernel gives no information about sockets.
        """

    def look(self) -> None:
        """Read all counters.

        Raises:
            OSError: when the kernel does not answer.
        """

    def report(self) -> tuple[list[tuple[str, str, bool, int, int]], list[tuple[str, int, str, str, int | None]]]:
        """Return the traffic since the last call, and the owners of newly seen ends.

        Returns:
            (own end, other end, whether UDP, bytes sent, received), and (own end, process, name, cgroup, rank).
        """

    def counters(self) -> list[tuple[str, int]]:
        """Return the watch's own counters, by name."""

    def without_datagrams(self) -> str | None:
        """Return why UDP is not counted; None = it is."""

@final
class Exports:
    """Exports of flow meters."""

    def __new__(cls, kind: str, names: Sequence[str] | None, every_s: float | None) -> Exports:
        """Create a reader that has read nothing yet.

        Args:
            kind: `sflow`, `netflow` or `ipfix`.
            names: as in `captured`.
            every_s: likewise.

        Raises:
            ValueError: for another kind, or a name that is not an end.
        """

    def datagram(self, payload: bytes, address: str, port: int, time_s: float) -> None:
        """Read one datagram; a damaged one is counted."""

    def capture(self, path: str) -> bool:
        """Read the datagrams in a capture. Return whether it ends within a record.

        Raises:
            FormatError: as in `captured`.
        """

    def rows(self) -> list[_Row]:
        """Return rows as in `captured`."""

    def skipped(self) -> list[tuple[str, int]]:
        """Return why samples or flows were skipped, with their numbers."""

    def others(self) -> list[tuple[str, int]]:
        """Return why packets and datagrams are no exports of this kind, with their numbers."""

    def damage(self) -> str | None:
        """Return what is wrong with the first damaged datagram."""

    def counters(self) -> list[tuple[str, float]]:
        """Return the other counters."""

class _Tasks(Protocol):
    """J tasks.

    Attributes:
        names: J names, for messages.
        cpus: (J,) cores that each needs.
        memory_bytes: (J,) memory that each needs.
        storage_bytes: (J,) storage that each needs.
        allowed: the only hosts that a task may use; tasks not in it may use all.
    """

    @property
    def names(self) -> Sequence[str]: ...
    @property
    def cpus(self) -> _Floats: ...
    @property
    def memory_bytes(self) -> _Bytes: ...
    @property
    def storage_bytes(self) -> _Bytes: ...
    @property
    def allowed(self) -> Mapping[int, Sequence[int]]: ...

class _Transfers(Protocol):
    """T transfers between hosts, or between different tasks.

    Attributes:
        source: (T,) senders.
        target: (T,) receivers.
        bytes: (T,) bytes of each.
        phase: (T,) transfers of a phase run together, phases one after the other.
    """

    @property
    def source(self) -> _Indices: ...
    @property
    def target(self) -> _Indices: ...
    @property
    def bytes(self) -> _Bytes: ...
    @property
    def phase(self) -> _Indices: ...

class _Room(Protocol):
    """Free resources of N hosts.

    Attributes:
        cpus: (N,) cores that each offers.
        memory_bytes: (N,) memory that each offers; 2^64 - 1 = not limited.
        storage_bytes: (N,) storage that each offers; 2^64 - 1 = not limited.
    """

    @property
    def cpus(self) -> _Floats: ...
    @property
    def memory_bytes(self) -> _Bytes: ...
    @property
    def storage_bytes(self) -> _Bytes: ...

class _Rules(Protocol):
    """Conditions of a placement in addition to the hosts' resources; tasks by their index.

    Attributes:
        apart: groups, no two tasks of which may share a host.
        together: groups that must share a host.
        max_latency: (source, target, seconds, price): the largest one-way latency; an unknown one breaks the bound.
        max_hosts: (tasks, count, zones, price): number of hosts, or zones by index, that they may use.
        max_price: prices of using each host, (N, N) prices of a byte, row = source, and the largest total; or None.
        zonings: the zone of each host, for each division of hosts; None = in no zone.
        quotas: (zones by index, (task, need) of tasks that need anything, the most and the least in each zone, price,
            name of the resource if hosts offer it).

    A price is in seconds, added for each time that a rule is broken; a rule whose price is None must be kept.
    """

    @property
    def apart(self) -> Sequence[Sequence[int]]: ...
    @property
    def together(self) -> Sequence[Sequence[int]]: ...
    @property
    def max_latency(self) -> Sequence[tuple[int, int, float, float | None]]: ...
    @property
    def max_hosts(self) -> Sequence[tuple[Sequence[int], int, int | None, float | None]]: ...
    @property
    def max_price(self) -> tuple[Sequence[float], _Floats, float] | None: ...
    @property
    def zonings(self) -> Sequence[Sequence[int | None]]: ...
    @property
    def quotas(
        self,
    ) -> Sequence[tuple[int, Sequence[tuple[int, int]], Sequence[int], int, float | None, str | None]]: ...

_Link = tuple[str, int, int]
"""`pair`, source and target; `out` or `in` and the host; `up` or `down` and the group."""

@final
class Network:
    """Hosts, the network between them, and the links that traffic loads. Immutable, and checked once for all users."""

    def __new__(cls, network: _Network, sharing: str | None = None) -> Network:
        """Read a Network.

        A cap that is None is no limit. A pair's rate or latency that is None is unknown, which is different: each user
        decides what to do with it.

        Args:
            network: what is believed about the network.
            sharing: `hose`, `pipe` or `groups`; None = the Network's own.

        Raises:
            ValueError: naming the first invalid value.
        """

    @property
    def sharing(self) -> str:
        """Which links transfers share."""

    @property
    def machine(self) -> list[int]:
        """A number for each host's machine."""

    def pair_bps(self, m: int, n: int) -> float:
        """Return the pair's own rate; an unknown one counts as no limit."""

    def latency_s(self, m: int, n: int) -> float:
        """Return the one-way latency; NaN = unknown."""

    def egress_bps(self, host: int) -> float:
        """Return the cap on all that a host sends to other machines."""

    def ingress_bps(self, host: int) -> float:
        """Return the cap on all that a host receives from other machines."""

    def inside(self, group: int) -> list[int]:
        """Return the hosts of a group and of the groups below it."""

    def links(self, m: int, n: int) -> list[_Link]:
        """Return the links that traffic from one host to another loads."""

    def deciding(self) -> list[tuple[_Link, float]]:
        """Return the links that may decide a completion time, with their rates."""

    def deciding_count(self) -> int:
        """Return the number of those links."""

@final
class Problem:
    """Tasks, hosts and the network between them, checked. Immutable; its methods run without the GIL."""

    def __new__(
        cls,
        network: Network,
        tasks: _Tasks,
        transfers: _Transfers,
        room: _Room,
        rules: _Rules,
        load: _Transfers,
    ) -> Problem:
        """Copy the arrays and check them.

        Args:
            network: the network between the hosts.
            tasks: what to place.
            transfers: bytes between tasks.
            room: free resources of each host.
            rules: conditions in addition to the resources.
            load: running transfers between hosts. They delay transfers on links that both use.

        Raises:
            ValueError: naming the first invalid value.
            TypeError: when an array has another element type or dimension.
        """

    def place(self, policy: str, seed: int) -> _Indices:
        """Place the tasks.

        Args:
            policy: one of `policies()`.
            seed: from 0 to 2^64 - 1; decides every random choice.

        Returns:
            (J,) the host of each task.

        Raises:
            InfeasibleError: when this policy finds no placement.
            ValueError: when there is no such policy.
        """

    def search(
        self,
        seed: int,
        steps: int,
        threads: int,
        limit_s: float,
        starts: Sequence[_Indices],
        watch: Callable[[float], object] | None = None,
        *,
        paced: bool = True,
    ) -> Found:
        """Search from `starts`, from minimum cuts and, if there are no starts, from greedy and the baselines.

        The result is never worse than any of them. Large problems have fewer starts.

        Args:
            seed: from 0 to 2^64 - 1; decides every random choice.
            steps: most proposals.
            threads: most threads; unless it is stopped, the answer does not depend on them.
            limit_s: time limit; inf = none.
            starts: (J,) placements to start from; those that break a rule are ignored.
            watch: called now and then with the seconds of the best placement so far.
            paced: whether cooling follows the clock, so that the search is complete at the limit; else the limit only
                ends it.

        Raises:
            InfeasibleError: when no start was found; a placement may still exist.
            ValueError: when a start has another length.
        """

    def nearest(
        self, seed: int, steps: int, threads: int, limit_s: float, starts: Sequence[_Indices], most_s: float
    ) -> _Indices | None:
        """Search for the placement whose longest latency between two tasks that exchange bytes is least.

        Args:
            seed: from 0 to 2^64 - 1; decides every random choice.
            steps: most proposals.
            threads: most threads; unless it is stopped, the answer does not depend on them.
            limit_s: time limit; inf = none.
            starts: (J,) placements to start from; those that break a rule are ignored.
            most_s: largest completion time of the result, with the price of broken rules, in seconds.

        Returns:
            (J,) the host of each task; None if no placement was found with a lower latency than the starts, or for more
            than 4,096 hosts.

        Raises:
            ValueError: when a start has another length.
        """

    def over(self, network: Network) -> Problem:
        """Return the same problem over another network between the same hosts.

        Raises:
            ValueError: when the other network has another number of hosts.
        """

    def explain(self, assignment: _Indices) -> Explanation:
        """Return why an assignment takes as long as it does.

        Args:
            assignment: (J,) the host of each task.

        Raises:
            InfeasibleError: when a host is overbooked or not allowed.
            ValueError: when the length is wrong or a host does not exist.
        """

    def compact(self) -> Compact:
        """Return the problem in units of tasks that move as one."""

    def unit_counts(self) -> tuple[int, int]:
        """Return the numbers of these units, and of edges between them."""

    def unit_graph(self) -> tuple[_Indices, _Indices, _Floats, _Floats, _Floats]:
        """Return the units as a graph for partitioners, in compressed rows.

        Returns:
            (U+1,) where the row of each unit begins; (E,) the neighbours of all units; (E,) the bytes that a unit and
            its neighbour exchange; (U,) the size of each unit in the scarcest resource; (N,) the room of each host.
        """

    def lay_blocks(self, block_of: _Indices, seed: int, threads: int) -> _Indices | None:
        """Place blocks of units, of which there are as many as hosts.

        Block i belongs to host i unless hosts share machines or groups: then the graph of blocks is bisected again.
        Units that do not fit move, and blocks change hosts so that no cap is slower than it must be.

        Args:
            block_of: (U,) the block of each unit.
            seed: from 0 to 2^64 - 1; of the bisection.
            threads: most threads.

        Returns:
            (J,) the host of each task; None if some unit finds no room.

        Raises:
            ValueError: when a unit has no block, or a block no host.
        """

    def evaluate(self, assignment: _Indices) -> Completion:
        """Return the completion time of an assignment.

        Args:
            assignment: (J,) the host of each task.

        Raises:
            InfeasibleError: when a host is overbooked or not allowed.
            ValueError: when the length is wrong or a host does not exist.
        """

    def bound_s(self) -> float:
        """Return a lower bound on the seconds of every assignment; `inf` if a task fits on no host."""

    def offers(self) -> list[tuple[int, float, float, tuple[int, float, float] | None]]:
        """Return for each host its nano-cores and the bit/s that it can send to and receive from all others together.

        The last entry is None if the host's caps also limit traffic to other hosts on its machine. Otherwise it has the
        machine's nano-cores, and the bit/s that the host can send to and receive from hosts on other machines.
        """

    def flows_bound_s(self, work: int, limit_s: float, watch: Callable[[float], object] | None = None) -> Proven:
        """Return a lower bound from flows that no host can keep inside, for many tasks: at least `bound_s`.

        Args:
            work: transfers that are considered, about a tenth of a microsecond each; decides how good the bound is.
            limit_s: time limit, after which the best known bound is returned; inf = none.
            watch: called with infinity now and then.
        """

    def volume_bound_s(self) -> float:
        """Return a lower bound on the seconds of every assignment, from the bytes that tasks exchange.

        It takes hardly any time, and is useful if each task has more partners than fit on its host.
        """

    def sets_bound_s(
        self,
        cap_s: float,
        rounds: int,
        work: int,
        limit_s: float,
        watch: Callable[[float], object] | None = None,
    ) -> Proven:
        """Return a lower bound from sets of tasks: at least `bound_s`, and at most `cap_s` of a known assignment.

        Args:
            cap_s: seconds.
            rounds: the first tries `cap_s` itself; each further one halves the possible error of the bound.
            work: number of sets times hosts to consider, which decides how good the bound is.
            limit_s: time limit, after which the best known bound is returned; inf = none.
            watch: called with `cap_s` now and then.
        """

@final
class Completion:
    """Duration of the transfers of an assignment."""

    @property
    def seconds(self) -> float:
        """Seconds of all phases, one after the other."""

    @property
    def penalty_s(self) -> float:
        """Price of all rules that the assignment breaks, in seconds."""

    @property
    def bottleneck(self) -> Bottleneck | None:
        """The link that the longest phase waits for; None if nothing crosses a limited link."""

@final
class Bottleneck:
    """The link that a phase waits for."""

    @property
    def link(self) -> str:
        """The link in words, as `egress of vm3`."""

    @property
    def phase(self) -> int:
        """The phase."""

    @property
    def bytes(self) -> int:
        """Bytes that cross the link in that phase."""

    @property
    def rate_bps(self) -> float:
        """The rate of the link."""

    @property
    def seconds(self) -> float:
        """Seconds that this takes."""

@final
class Found:
    """Result of a search."""

    @property
    def hosts(self) -> _Indices:
        """(J,) the host of each task."""

    @property
    def stopped(self) -> bool:
        """Whether the clock ended it, so that another run may find another placement."""

    @property
    def interrupted(self) -> bool:
        """Whether a signal ended it, or `watch` raised."""

    @property
    def steps(self) -> int:
        """Proposals made."""

    @property
    def tried_all(self) -> bool:
        """Whether every placement was tried, so that none is faster."""

@final
class Proven:
    """A bound, and what ended the work on it."""

    @property
    def seconds(self) -> float:
        """No assignment completes sooner."""

    @property
    def stopped(self) -> bool:
        """Whether clock or signal ended it, so that another run may prove more."""

    @property
    def interrupted(self) -> bool:
        """Whether a signal ended it, or `watch` raised."""

@final
class LinkTime:
    """Load of one link in one phase."""

    @property
    def link(self) -> str:
        """The link in words."""

    @property
    def phase(self) -> int:
        """The phase."""

    @property
    def bytes(self) -> int:
        """Bytes that the placed tasks send over it."""

    @property
    def load_bytes(self) -> int:
        """Bytes of other running transfers on it."""

    @property
    def rate_bps(self) -> float:
        """Rate of the link."""

    @property
    def seconds(self) -> float:
        """Seconds that all of this takes."""

@final
class Explanation:
    """Why an assignment takes as long as it does."""

    @property
    def links(self) -> list[LinkTime]:
        """Every link in use, phase by phase."""

    @property
    def crossing(self) -> list[int]:
        """The transfers on the bottleneck, most bytes first."""

    @property
    def runner_up(self) -> tuple[list[tuple[int, int]], float] | None:
        """The best single move as (task, host) pairs, with the completion time in seconds after it."""

@final
class Compact:
    """The problem in units: tasks that must share a host are one. Hosts and tasks by their index."""

    @property
    def members(self) -> list[list[int]]:
        """The tasks of each unit."""

    @property
    def unit_of(self) -> list[int]:
        """The unit of each task."""

    @property
    def nano_cores(self) -> list[int]:
        """Nano-cores that each unit needs."""

    @property
    def memory_bytes(self) -> list[int]:
        """Memory that each unit needs."""

    @property
    def storage_bytes(self) -> list[int]:
        """Storage that each unit needs."""

    @property
    def host_nano_cores(self) -> list[int]:
        """Nano-cores that each host offers."""

    @property
    def host_memory_bytes(self) -> list[int]:
        """Memory that each host offers; 2^64 - 1 = not limited."""

    @property
    def host_storage_bytes(self) -> list[int]:
        """Storage that each host offers; 2^64 - 1 = not limited."""

    @property
    def allowed(self) -> list[list[int] | None]:
        """The only hosts of each unit; None = all."""

    @property
    def edges(self) -> list[tuple[int, int, int, int]]:
        """Source unit, target unit, bytes, and the position of the phase among those that occur."""

    @property
    def apart(self) -> list[tuple[int, int]]:
        """Units that may not share a host; a unit paired with itself can be placed nowhere."""

    @property
    def latencies(self) -> list[tuple[int, int, float, float | None]]:
        """Source unit, target unit, seconds, price: the largest one-way latency."""

    @property
    def limits(self) -> list[tuple[list[int], int, int | None, float | None]]:
        """Units with the number of hosts, or zones by index, that they may use, and the price of more."""

    @property
    def zonings(self) -> list[list[int | None]]:
        """The zone of each host, for each division of hosts; None = in no zone."""

    @property
    def quotas(self) -> list[tuple[int, list[tuple[int, int]], list[int], int, float | None]]:
        """Zones by index, (unit, need) pairs, the most and the least in each zone, and the price of more."""

class _Flows(Protocol):
    """F flows. Every column is contiguous and is not copied.

    Attributes:
        source: (F,) the sending host.
        target: (F,) the receiving host.
        bytes: (F,) bytes of each.
        start_s: (F,) earliest start.
        weight: (F,) from 0.001 to 1000; None = 1.
        cap_bps: (F,) the highest rate of each; None = no caps.
        startup_s: (F,) time to the first byte, in addition to the latency; None = 0.
        label: (F,) selects one of several equal paths; None = the row.
    """

    @property
    def source(self) -> _Indices: ...
    @property
    def target(self) -> _Indices: ...
    @property
    def bytes(self) -> _Bytes: ...
    @property
    def start_s(self) -> _Floats: ...
    @property
    def weight(self) -> _Floats | None: ...
    @property
    def cap_bps(self) -> _Floats | None: ...
    @property
    def startup_s(self) -> _Floats | None: ...
    @property
    def label(self) -> npt.NDArray[np.uint64] | None: ...

class _Background(Protocol):
    """A source of background traffic.

    Attributes:
        source: the sending host.
        target: the receiving host.
        poisson: mean arrivals per second and mean bytes; or
        on_off: mean seconds of sending and of rest.
        weight: weight of each of its flows.
        cap_bps: highest rate of each of its flows.
    """

    @property
    def source(self) -> int: ...
    @property
    def target(self) -> int: ...
    @property
    def poisson(self) -> tuple[float, float] | None: ...
    @property
    def on_off(self) -> tuple[float, float] | None: ...
    @property
    def weight(self) -> float: ...
    @property
    def cap_bps(self) -> float: ...

class _MessageCosts(Protocol):
    """Costs of messages in addition to the network's: `gavotte.simulate.MessageCosts`."""

    @property
    def library(self) -> str: ...
    @property
    def settings(self) -> Sequence[tuple[str, int, int, int, int]]: ...
    @property
    def eager_bytes(self) -> int: ...
    @property
    def socket_bytes(self) -> int: ...
    @property
    def overhead_s(self) -> float: ...
    @property
    def byte_overhead_s(self) -> float: ...
    @property
    def combine_s(self) -> float: ...
    @property
    def local_latency_s(self) -> float: ...
    @property
    def local_bps(self) -> float: ...
    @property
    def most_events(self) -> int: ...

@final
class JobProgram:
    """The operations of a job's ranks, checked."""

    def __new__(
        cls, ranks: Sequence[Sequence[tuple[object, ...]]], communicators: Sequence[Sequence[int]]
    ) -> JobProgram:
        """Read the operations.

        Args:
            ranks: the operations of each rank as tuples, the kind first: `("compute", mean_s, variance_s2)`,
                `("isend", peer, bytes, tag, communicator, request, synchronous)`,
                `("irecv", peer, tag, communicator, request)`, `("wait", requests)`, `("cancel", request)`,
                `("collective", kind, communicator, root, bytes, counts, sources, targets, request)` with the root's
                place in the communicator, `("loop", count, operations)`.
            communicators: the ranks of each.

        Raises:
            ValueError: naming the rank with a wrong operation.
        """

    def replay(
        self,
        platform: Platform | None,
        hosts: Sequence[int],
        model: _MessageCosts,
        *,
        seeds: Sequence[int | None],
        cap_bps: _Floats | None = None,
    ) -> list[JobReplayed]:
        """Replay the job once for each seed; None = with mean computing times.

        Args:
            platform: the network; None = messages take no time outside of the processors.
            hosts: the host of each rank.
            model: costs of messages in addition to the network's.
            seeds: seeds of the computing times.
            cap_bps: (N, N) highest rate of one connection; row = source.

        Raises:
            ValueError: naming what is wrong, or what a rank waits for in vain.
        """

@final
class JobReplayed:
    """How long a job takes. Lists have one item for each rank."""

    @property
    def makespan_s(self) -> float: ...
    @property
    def critical_s(self) -> tuple[float, float, float, float]:
        """Parts of the makespan: computing, the MPI library's work, latencies, transfers."""

    @property
    def compute_s(self) -> list[float]: ...
    @property
    def overhead_s(self) -> list[float]: ...
    @property
    def wait_s(self) -> list[float]: ...
    @property
    def finish_s(self) -> list[float]: ...
    @property
    def events(self) -> int: ...
    @property
    def extrapolated_s(self) -> float:
        """Seconds of the makespan that were extrapolated from loops in a steady state."""

@final
class Platform:
    """The network that flows use, checked. Immutable; its methods run without the GIL."""

    @staticmethod
    def topology(topology: _Topology, payload_share: float, seed: int) -> Platform:
        """Return the platform of a described network.

        Args:
            topology: the description.
            payload_share: share of its rates that carries the flows' bytes.
            seed: decides which of several equal paths a flow takes.

        Raises:
            ValueError: naming the first invalid value.
        """

    @staticmethod
    def network(network: Network) -> Platform:
        """Return the platform of a measured network. Each pair of hosts is a link; an unknown latency counts as 0."""

    def links(self, source: int, target: int) -> list[tuple[int, float]]:
        """Return the limited links from one host to another, each with its rate."""

    def latency_s(self, source: int, target: int) -> float:
        """Return the time from one host to another through empty queues, in seconds."""

    def simulate(
        self,
        flows: _Flows,
        *,
        edges: _Indices | None,
        phase: _Indices | None,
        background: Sequence[_Background],
        until_s: float,
        seed: int,
        accuracy: float = 0.0,
    ) -> Simulated:
        """Simulate flows.

        Args:
            flows: what to send.
            edges: (E, 2) the second flow of each row waits for the first.
            phase: (F,) instead of edges.
            background: traffic of others.
            until_s: stop at this time even if flows are left.
            seed: decides the background.
            accuracy: largest relative error of a rate; 0 = exact.

        Raises:
            ValueError: naming the first invalid value.
            TypeError: when an array has another element type or dimension.
        """

    def rates(self, flows: _Flows) -> _Floats:
        """Return max-min fair rates in bit/s of flows that all run at the same time.

        Raises:
            ValueError: naming the first invalid value.
        """

@final
class Simulated:
    """Result of a simulation. Columns of links are in the order of `link_names`."""

    @property
    def start_s(self) -> _Floats:
        """(F,) When each flow was due and its predecessors were done; NaN = never."""

    @property
    def finish_s(self) -> _Floats:
        """(F,) When its last byte was sent; NaN = not before the end."""

    @property
    def holder(self) -> npt.NDArray[np.int64]:
        """(F,) The link that held it back when it finished; -1 = none."""

    @property
    def link_names(self) -> list[str]:
        """The limited links that anything crossed, in words."""

    @property
    def link_rate_bps(self) -> _Floats:
        """Rates of the links."""

    @property
    def link_bytes(self) -> _Floats:
        """Bytes that crossed the links."""

    @property
    def link_busy_s(self) -> _Floats:
        """How long the links held flows back."""

    @property
    def end_s(self) -> float:
        """When the last flow finished, or the requested end."""

    @property
    def events(self) -> int:
        """Starts and ends of flows, background included."""

@final
class Guarded:
    """Result of a simulation with guarantees. Columns have one entry per pair that ever sent, by source and target."""

    @property
    def simulated(self) -> Simulated:
        """The results that every simulation has."""

    @property
    def source(self) -> list[int]: ...
    @property
    def target(self) -> list[int]: ...
    @property
    def guarantee_bps(self) -> list[float]:
        """Mean guarantee while the pair had something to send; 0 = none."""

    @property
    def limit_bps(self) -> list[float]:
        """Mean limit; inf = none."""

    @property
    def rate_bps(self) -> list[float]:
        """Mean rate of arrival while the pair had something to send."""

    @property
    def marks(self) -> list[float]:
        """Share of its bytes that was marked."""

    @property
    def lost_bytes(self) -> list[float]:
        """Bytes that were lost."""

    @property
    def windows(self) -> list[int]:
        """Windows in which it had something to send all the time."""

    @property
    def met(self) -> list[int]:
        """Windows in which it reached its guarantee."""

    @property
    def held(self) -> list[str]:
        """What decided its limit last; empty = no limiter."""

    @property
    def rates_bps(self) -> list[_Floats]:
        """Rate of arrival in each window from time 0 on."""

def simulate_guarded(
    platform: Platform,
    flows: _Flows,
    *,
    hoses: Sequence[tuple[float, float, float, float]],
    tenants: Sequence[tuple[Sequence[int], tuple[float, float, float, float]]],
    protection: str,
    parameters: Mapping[str, float],
    udp: npt.NDArray[np.bool_] | None,
    until_s: float,
    seed: int,
    step_s: float,
    window_s: float,
    packet_bytes: float,
    marks: bool | None = None,
    buffer_s: float | None = None,
) -> Guarded:
    """Simulate flows of hosts with bandwidth guarantees.

    Args:
        platform: the network.
        flows: what to send.
        hoses: by host, guaranteed egress and ingress (0 = none), and their limits (inf = none).
        tenants: hosts and the same four rates of all together.
        protection: one of `protections()`.
        parameters: constants of the protection to change, by name.
        udp: (F,) whether a flow sends at its cap whatever is lost; None = all are TCP.
        until_s: stop at this time even if flows are left.
        seed: decides phases of agents and which packets are lost.
        step_s: time from one state to the next.
        window_s: window in which guarantees are judged.
        packet_bytes: size of a full packet, headers included: the path's MTU.
        marks: whether links mark packets; None = as the protection assumes.
        buffer_s: capacity of the queue before a link, in seconds of its rate; None = 4 ms.

    Raises:
        ValueError: naming the first invalid value.
    """

def protections() -> list[str]:
    """Return the names of ways to protect hosts from each other."""

@final
class FlowList:
    """A flow list; columns as in `_Flows`."""

    @property
    def ids(self) -> list[str]:
        """Name of each flow."""

    @property
    def source(self) -> _Indices: ...
    @property
    def target(self) -> _Indices: ...
    @property
    def bytes(self) -> _Bytes: ...
    @property
    def start_s(self) -> _Floats: ...
    @property
    def weight(self) -> _Floats | None: ...
    @property
    def cap_bps(self) -> _Floats | None: ...
    @property
    def startup_s(self) -> _Floats | None: ...
    @property
    def udp(self) -> npt.NDArray[np.bool_] | None: ...
    @property
    def label(self) -> npt.NDArray[np.uint64]: ...

def parse_flows(text: bytes, hosts: list[str]) -> FlowList:
    """Read a flow list.

    Args:
        text: CSV with the columns `id,source,target,bytes,start_s`.
        hosts: names of the hosts.

    Raises:
        ValueError: naming line, field and remedy.
    """

def format_finish(ids: list[str], finish_s: _Floats) -> bytes:
    """Return finish times as CSV with the columns `id,finish_s`."""

def chi_squared_quantile(chance: float, freedom: float) -> float:
    """Return the value that a chi-squared variable is below with a chance.

    Args:
        chance: between 0 and 1.
        freedom: degrees of freedom, above 0.

    Raises:
        ValueError: for other arguments.
    """

def student_quantile(chance: float, freedom: float) -> float:
    """Return the value that Student's t is below with a chance.

    Args:
        chance: between 0 and 1.
        freedom: degrees of freedom, above 0; infinite = a normal distribution.

    Raises:
        ValueError: for other arguments.
    """

def column_quantile(times: _Floats, share: float) -> _Floats:
    """Return a quantile of each pair's times.

    Args:
        times: (n, M), contiguous; NaN or not above zero = not measured.
        share: 0 = least, 1 = most.

    Returns:
        (M,); NaN = never measured.

    Raises:
        ValueError: for a matrix without entries.
    """

def principal(times: _Floats) -> tuple[_Floats, _Floats, int]:
    """Principal component pursuit of (n, M) times.

    Returns:
        (n,) load of mean 1, (M,) constant, steps taken.

    Raises:
        ValueError: for a matrix without entries.
    """

def mode(times: _Floats, gaps: _Floats) -> tuple[_Floats, _Floats, npt.NDArray[np.uint32], float]:
    """Return a rank-one matrix with a load, and each pair's most frequent time.

    Args:
        times: (n, M), contiguous; NaN or not above zero = not measured.
        gaps: (n + 1,) mean spacing of the order statistics 1 and max(2, ceil(0.4 k)) of k standard normals.

    Returns:
        (n,) load of median 1, (M,) constant, (M,) snapshots that agree with it, band width.

    Raises:
        ValueError: for a matrix without entries.
    """

def ecef_tree(weights: _Floats, root: int) -> tuple[_Indices, _Indices]:
    """Return a broadcast tree by the rule "earliest completion first".

    Args:
        weights: (N, N) time of one transfer, row = source; not finite = cannot be used.
        root: host that has the message.

    Returns:
        (N,) parent of each host, the root's is itself, and (N,) hosts in the order in which their transfers begin.

    Raises:
        ValueError: for weights that are not square, or a host that cannot be reached.
    """

class _Underway(Protocol):
    """A running transfer."""

    @property
    def arrival_s(self) -> float: ...
    @property
    def class_(self) -> int: ...
    @property
    def weight(self) -> float: ...
    @property
    def sent_bytes(self) -> float: ...
    @property
    def due_s(self) -> float: ...
    @property
    def guaranteed(self) -> bool: ...
    @property
    def flows(self) -> Sequence[tuple[int, int, float]]: ...

def order_names() -> list[str]:
    """Return the policies that order transfers."""

def order_rates(network: Network, name: str, coflows: Sequence[_Underway]) -> tuple[_Floats, float]:
    """Return the rates that a policy gives to running transfers.

    Args:
        network: hosts and the links between them.
        name: name of the policy.
        coflows: the transfers; flows are source, target and bytes left.

    Returns:
        (F,) bit/s, flow after flow of coflow after coflow; the seconds after which to call again at the latest.

    Raises:
        ValueError: for an unknown policy.
    """

def serving_order(network: Network, name: str, coflows: Sequence[_Underway]) -> list[int]:
    """Return the order in which a policy serves transfers, as their indices. Arguments and errors are as above."""

def deadline_shortage(
    network: Network, coflows: Sequence[_Underway], new: _Underway, share: float
) -> tuple[str, float, float, float] | None:
    """Return why a transfer cannot be promised its deadline while those of the others are kept.

    Args:
        network: hosts and the links between them.
        coflows: the other transfers.
        new: the transfer.
        share: most of each link's rate that is promised, 0 to 1.

    Returns:
        the link, the bit/s that it needs there and that are left, and the seconds of the earliest deadline; None = it
        can be promised.
    """

@final
class CoflowTrace:
    """Coflows that arrive one after the other. Immutable; flows between the same ports count as one."""

    @staticmethod
    def read(text: bytes) -> CoflowTrace:
        """Read a table, or the format of the public traces.

        Raises:
            ValueError: naming line, field and remedy.
        """

    @staticmethod
    def of(
        ports: Sequence[str],
        names: Sequence[str],
        arrival_s: _Floats,
        coflow: _Indices,
        source: _Indices,
        target: _Indices,
        sizes: _Floats,
    ) -> CoflowTrace:
        """Make a trace from columns.

        Args:
            ports: names of the ports.
            names: names of C coflows.
            arrival_s: (C,) when they arrive.
            coflow: (F,) coflow of each flow.
            source: (F,) port.
            target: (F,) port.
            sizes: (F,) bytes.

        Raises:
            ValueError: for an unknown coflow or port.
        """

    @property
    def ports(self) -> list[str]:
        """Names of the ports."""

    @property
    def names(self) -> list[str]:
        """Names of the coflows."""

    @property
    def arrival_s(self) -> _Floats:
        """(C,) Arrival time of each coflow."""

    @property
    def classes(self) -> _Indices:
        """(C,) Class of each coflow; 0 is the highest."""

    @property
    def deadline_s(self) -> _Floats:
        """(C,) Seconds after its arrival by which each coflow has to finish; infinite without a deadline."""

    def due(self, deadline_s: _Floats) -> CoflowTrace:
        """Return the trace with other deadlines.

        Args:
            deadline_s: (C,) seconds after each coflow's arrival; infinite = none.

        Raises:
            ValueError: for another number of deadlines, or one that is not above 0.
        """

    @property
    def flow_count(self) -> int:
        """Number of flows of all coflows."""

    @property
    def bytes(self) -> float:
        """Bytes of all flows."""

    def flows(self) -> tuple[_Indices, _Indices, _Indices, _Floats]:
        """(F,) Number of the coflow, source, target and bytes, coflow after coflow."""

    def bounds_s(self, over: _Over) -> _Floats:
        """(C,) Least time of each coflow, alone."""

    def simulate(
        self, name: str, admission: str, over: _Over, step_s: float, progress: Callable[[int, int], object]
    ) -> tuple[_Floats, npt.NDArray[np.bool_], int, int]:
        """Simulate it under a policy.

        Args:
            name: name of the policy.
            admission: `open`, `demote` or `refuse`.
            over: the rate of all ports, or a network and the host of each port.
            step_s: how long the share of a flow that ended may idle; 0 = not at all.
            progress: called now and then with coflows done and all.

        Returns:
            (C,) when each is done, NaN if it was refused; (C,) whether its deadline was promised; how often rates
            were computed; the most flows at once.

        Raises:
            ValueError: for an unknown policy, or an invalid rate.
        """

def wss(network: Network, flows: Sequence[tuple[int, int, float]]) -> tuple[_Floats, float, str | None]:
    """Return rates of a shuffle in proportion to its bytes.

    Args:
        network: hosts and the links between them.
        flows: source, target and bytes left of each.

    Returns:
        (F,) rates, inf = nothing limits that flow; the seconds after which all end; the link that decides them, if any.
    """
