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
    "LinkTime",
    "Network",
    "Platform",
    "Problem",
    "Proven",
    "Ranks",
    "Simulated",
    "SocketWatch",
    "build_profile",
    "captured",
    "column_quantile",
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
    "simulate_guarded",
    "version",
    "wss",
]

_Floats = npt.NDArray[np.float64]
_Bytes = npt.NDArray[np.uint64]
_Indices = npt.NDArray[np.uint32]
_Over = float | tuple[Network, Sequence[int]]

def version() -> str:
    """The version of the compiled module."""

def build_profile() -> str:
    """How the module was compiled: `release`, or `debug`, which no measurement should use."""

def policies() -> list[str]:
    """Names of the policies that place in one pass, the best known first."""

def mechanisms() -> list[str]:
    """Names of the ways to broadcast; of two that cost the same, the first is chosen."""

@final
class BroadcastGround:
    """A network, and who sends to whom in it."""

    def __new__(cls, network: Network, source: int, receivers: Sequence[int]) -> BroadcastGround:
        """Checks who is there.

        Raises:
            ValueError: when a host does not exist or is named twice.
        """

    def bound(self, size_bytes: int) -> tuple[float, str]:
        """Seconds that any mechanism needs at least, and the port that says so; 0 when nothing known limits."""

    def prices(self, size_bytes: int, partitions: Sequence[int]) -> list[tuple[str, float, int]]:
        """Name, seconds and bytes of a piece of each mechanism; the partitions, by host, are Cornet's."""

@final
class Conductor:
    """One broadcast under way: told what happens and when, it says who has which blocks from whom.

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
        """Nobody has opened a copy yet.

        Raises:
            ValueError: for an unknown mechanism, or blocks that make no sense.
        """

    def absent(self, host: int) -> None:
        """Takes that a receiver is not there, before the start: nobody waits for it, and it may come."""

    def invite(self, host: int) -> None:
        """Takes that a host of the network is to receive it, too: nobody waits for it, and it may come."""

    def expect(self, host: int, now_s: float) -> None:
        """Takes that a receiver that was not there, or was lost, is now."""

    def opened(self, host: int, have: bytes, held_bytes: int, now_s: float) -> None:
        """Takes that a host has opened its copy, and what was there."""

    def progress(self, host: int, have: bytes, held_bytes: int, now_s: float) -> None:
        """Takes how far a host is."""

    def kept(self, host: int) -> None:
        """Takes that a host has all of it, under its name."""

    def lost(self, host: int, why: str, now_s: float) -> None:
        """Takes that a host is out of it."""

    def broken(self, child: int, parent: int, why: str, now_s: float) -> None:
        """Takes that a host can have nothing more from a parent."""

    def tick(self, now_s: float) -> None:
        """Looks for hosts that stand still or fall behind."""

    def changes(self) -> list[tuple[int, list[tuple[int, bytes, int]]]]:
        """Hosts and from which parents each is to have which blocks, since the last call.

        At what bit/s comes with each: 0 = any, 1 = it waits.
        """

    def flows(self) -> list[tuple[int, int, int]]:
        """Parent, child and bytes left of each subscription as it was last given."""

    def hold(self) -> None:
        """Has every parent wait until a limit for it is told."""

    def limit(self, parent: int, child: int, pace_bps: float, now_s: float) -> None:
        """Limits what a parent sends to a child: infinite = no limit, 0 = it waits."""

    def answers(self, now_s: float) -> list[tuple[int, list[tuple[int, bytes]]]]:
        """The answers of Cornet's tracker that are due: hosts, and peers of each with their blocks."""

    def log(self) -> list[str]:
        """What was changed and why, since the last call."""

    def edges(self) -> list[tuple[int, int]]:
        """Parent and child of each edge; of a mesh, none."""

    def is_over(self) -> bool:
        """Whether every receiver has all or is lost."""

    def loss(self, host: int) -> str | None:
        """Why a host is out; None unless it is."""

@final
class Ranks:
    """Ranks 0 to R - 1 on hosts of a network; several may be on one."""

    def __new__(cls, network: Network, hosts: Sequence[int]) -> Ranks:
        """Puts ranks on hosts.

        Args:
            network: where hosts share anything, one without a known cap carries what it carries on its best pair.
            hosts: the host of each rank.

        Raises:
            ValueError: when there are no ranks, or a host does not exist.
            GavotteError: when neither a pair's rate nor a cap on its way is known.
        """

    @staticmethod
    def at(network: Network, hosts: Sequence[int], rate_bps: _Floats, latency_s: _Floats) -> Ranks:
        """Ranks on a network that is as `network` but for its pairs: (N, N) rates and latencies, NaN = unknown."""

    @property
    def count(self) -> int:
        """R."""

    def alpha_beta(self) -> tuple[_Floats, _Floats]:
        """(R, R) seconds that a message alone takes besides its bytes, and for each of them; row = source."""

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
        """Makes a tree for a broadcast or scatter, or read backwards for a reduction or gather.

        Args:
            algorithm: `flat`, `binomial`, `fnf`, `ecef`, `look-ahead` or `chain`; any other name searches.
            root: who has the data first.
            size_bytes: what each rank is to have in the end.
            segments: pieces that they go in; for the search, at most.
            scatter: whether each rank has bytes of its own.
            back: whether all goes to the root.
            steps: moves that the search tries.
            seed: of the search.

        Returns:
            each rank's parent (the root's is itself), an order with parents first and siblings as they are sent to, the
            number of segments, and the seconds that all takes where messages share links.

        Raises:
            ValueError: naming what makes no sense.
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
        """Seconds that a tree takes; arguments as in `tree`, and its results.

        Raises:
            ValueError: naming what makes no sense.
        """

    def ring(
        self, *, by_rank: bool, size_bytes: float, segments: int, reduce: bool, steps: int, seed: int
    ) -> tuple[list[int], list[int], int, int, float]:
        """Makes a ring for an allgather or allreduce, from which ranks may hang.

        Args:
            by_rank: all ranks in their order, in one piece, without a search.
            size_bytes: each rank's block, or the vector.
            segments: pieces of a block, or of a member's share, at most.
            reduce: whether vectors are combined.
            steps: moves that the search tries.
            seed: of the search.

        Returns:
            each rank's parent (the member before, or the one it hangs from), an order with the members first, their
            number, the number of segments, and the seconds that all takes where messages share links.

        Raises:
            ValueError: naming what makes no sense.
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
        """Seconds that a ring takes; arguments as in `ring`, and its results.

        Raises:
            ValueError: naming what makes no sense.
        """

    def messages_s(
        self, *, source: Sequence[int], target: Sequence[int], size_bytes: Sequence[float]
    ) -> tuple[float, str]:
        """Seconds that messages between ranks take which are all under way at once, and what held the last one back.

        Raises:
            ValueError: naming what makes no sense.
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
        """Exchanges tasks while the link that is full for longest is so for less.

        Args:
            source: (E,) the sending task of each message.
            target: (E,) the receiving one.
            size_bytes: (E,) how much.
            hosts: the rank of each task, no two the same.
            most: exchanges.

        Returns:
            the rank of each task.

        Raises:
            ValueError: naming what makes no sense.
        """

_Row = tuple[int, str, str, int, int, int]

def captured(
    paths: Sequence[str], names: Sequence[str] | None, every_s: float | None
) -> tuple[list[_Row], list[tuple[str, float]], bool, tuple[float, float] | None]:
    """Counts the payload in captures of packets.

    Args:
        paths: pcap or pcapng files, one a host; `-` is standard input.
        names: the ends that are tasks: addresses, alone or with a port, or `*:PORT`; None finds them.
        every_s: how long an interval is; None makes one of all.

    Returns:
        Rows of interval, source, target, bytes and their 95 % interval; what else was counted; whether a file ends
        within a record; when the first and last packet came.

    Raises:
        FormatError: when a file is no capture, or damaged.
        ValueError: when a name is no end.
    """

@final
class SocketWatch:
    """The sockets of this network namespace: what they send and receive, and whose they are."""

    def __new__(cls) -> SocketWatch:
        """Begins: what moved before does not count.

        Raises:
            OSError: when the kernel tells nothing of sockets.
        """

    def look(self) -> None:
        """Reads all counters.

        Raises:
            OSError: when the kernel does not answer.
        """

    def report(self) -> tuple[list[tuple[str, str, bool, int, int]], list[tuple[str, int, str, str, int | None]]]:
        """What moved since the last call, and whose ends are that were not known before.

        Returns:
            (own end, other end, whether UDP, bytes sent, received), and (own end, process, name, cgroup, rank).
        """

    def counters(self) -> list[tuple[str, int]]:
        """What the watch counts of itself, by name."""

    def without_datagrams(self) -> str | None:
        """Why UDP is not counted; None = it is."""

@final
class Exports:
    """What flow meters exported."""

    def __new__(cls, kind: str, names: Sequence[str] | None, every_s: float | None) -> Exports:
        """Nothing read yet.

        Args:
            kind: `sflow`, `netflow` or `ipfix`.
            names: as in `captured`.
            every_s: likewise.

        Raises:
            ValueError: for another kind, or a name that is no end.
        """

    def datagram(self, payload: bytes, address: str, port: int, time_s: float) -> None:
        """Reads one datagram; a damaged one is counted."""

    def capture(self, path: str) -> bool:
        """Reads the datagrams in a capture; returns whether it ends within a record.

        Raises:
            FormatError: as in `captured`.
        """

    def rows(self) -> list[_Row]:
        """As in `captured`."""

    def counters(self) -> list[tuple[str, float]]:
        """What else was counted."""

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
    """T transfers between tasks, none from one to itself, or between hosts.

    Attributes:
        source: (T,) who sends.
        target: (T,) who receives.
        bytes: (T,) how much.
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
    """Room on N hosts.

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
    """What a placement must keep besides room; tasks by their index.

    Attributes:
        apart: groups, no two tasks of which may share a host.
        together: groups that must share a host.
        max_latency: (source, target, seconds): the most that one way may take; an unknown one keeps no bound.
        max_hosts: (tasks, count): how many hosts they may use.
        max_price: prices of using each host, (N, N) of a byte, row = source, and the most of all together; or None.
        quotas: (hosts, what each task needs, the most that tasks on these hosts may need together).
    """

    @property
    def apart(self) -> Sequence[Sequence[int]]: ...
    @property
    def together(self) -> Sequence[Sequence[int]]: ...
    @property
    def max_latency(self) -> Sequence[tuple[int, int, float]]: ...
    @property
    def max_hosts(self) -> Sequence[tuple[Sequence[int], int]]: ...
    @property
    def max_price(self) -> tuple[Sequence[float], _Floats, float] | None: ...
    @property
    def quotas(self) -> Sequence[tuple[Sequence[int], Sequence[int], int]]: ...

_Link = tuple[str, int, int]
"""`pair`, source and target; `out` or `in` and the host; `up` or `down` and the group."""

@final
class Network:
    """Hosts, what joins them and which links traffic loads. Immutable, and checked once for all that use it."""

    def __new__(cls, network: _Network, sharing: str | None = None) -> Network:
        """Reads it.

        A cap that is None is no limit. A pair's rate or latency that is None is unknown, which is not the same: each
        user says what it makes of that.

        Args:
            network: what is believed of the network.
            sharing: `hose`, `pipe` or `groups`; None = as the Network says.

        Raises:
            ValueError: naming the first thing that makes no sense.
        """

    @property
    def sharing(self) -> str:
        """Which links transfers share."""

    @property
    def machine(self) -> list[int]:
        """A number for each host's machine."""

    def pair_bps(self, m: int, n: int) -> float:
        """The pair's own rate; an unknown one counts as no limit."""

    def latency_s(self, m: int, n: int) -> float:
        """One way; NaN = unknown."""

    def egress_bps(self, host: int) -> float:
        """Cap on what it sends to other machines."""

    def ingress_bps(self, host: int) -> float:
        """Cap on what it receives from other machines."""

    def inside(self, group: int) -> list[int]:
        """The hosts of a group and of the groups below it."""

    def links(self, m: int, n: int) -> list[_Link]:
        """What traffic from one host to another loads."""

    def deciding(self) -> list[tuple[_Link, float]]:
        """The links that may decide a completion time, with their rates."""

    def deciding_count(self) -> int:
        """How many of those there are."""

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
        """Copies the arrays and checks them.

        Args:
            network: where.
            tasks: what to place.
            transfers: who sends how much to whom.
            room: on each host.
            rules: what a placement must keep besides room.
            load: what is under way between hosts already; it delays transfers on links that both use.

        Raises:
            ValueError: naming the first thing that makes no sense.
            TypeError: when an array has another element type or dimension.
        """

    def place(self, policy: str, seed: int) -> _Indices:
        """Places the tasks.

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
        """Searches from the placements of greedy and the baselines and from others on, and is never worse than any.

        Args:
            seed: from 0 to 2^64 - 1; decides every random choice.
            steps: proposals made at most.
            threads: used at most; unless it is stopped, the answer does not depend on them.
            limit_s: the clock stops it then; inf = never.
            starts: (J,) placements to start from; those that break a rule are left out.
            watch: told now and then what the best placement so far takes, in seconds.
            paced: cool by the clock, so that the limit finds the search at its end; else the clock only ends it.

        Raises:
            InfeasibleError: when no start was found; a placement may still exist.
            ValueError: when a start has another length.
        """

    def explain(self, assignment: _Indices) -> Explanation:
        """Why an assignment takes as long as it does.

        Args:
            assignment: (J,) the host of each task.

        Raises:
            InfeasibleError: when a host is overbooked or not allowed.
            ValueError: when the length is wrong or a host does not exist.
        """

    def compact(self) -> Compact:
        """The problem in units of tasks that move as one."""

    def evaluate(self, assignment: _Indices) -> Completion:
        """The completion time of an assignment.

        Args:
            assignment: (J,) the host of each task.

        Raises:
            InfeasibleError: when a host is overbooked or not allowed.
            ValueError: when the length is wrong or a host does not exist.
        """

    def bound_s(self) -> float:
        """No assignment completes sooner than this many seconds; `inf` if a task fits on no host."""

    def offers(self) -> list[tuple[int, float, float, tuple[int, float, float] | None]]:
        """For each host its nano-cores and the bit/s that it can send to and receive from all others together.

        Where others on its machine are reached past its caps: the machine's nano-cores, and what the host can send to
        and receive from beyond it; else None.
        """

    def flows_bound_s(self, work: int, limit_s: float, watch: Callable[[float], object] | None = None) -> Proven:
        """The same from flows that no host can keep inside, for many tasks: at least `bound_s`.

        Args:
            work: transfers that are looked at, about a tenth of a microsecond each; decides how good the bound is.
            limit_s: the clock ends it then, with what is known; inf = never.
            watch: told infinity now and then.
        """

    def volume_bound_s(self) -> float:
        """No assignment completes sooner than this many seconds, by the bytes that tasks exchange themselves.

        It takes hardly any time, and is of use where each task has more partners than fit beside it.
        """

    def sets_bound_s(
        self,
        cap_s: float,
        rounds: int,
        work: int,
        limit_s: float,
        watch: Callable[[float], object] | None = None,
    ) -> Proven:
        """The same from sets of tasks: at least `bound_s` and at most `cap_s`, the time of a known assignment.

        Args:
            cap_s: seconds.
            rounds: the first tries `cap_s` itself, each further one halves what the bound may be short.
            work: sets times hosts that are looked at, which decides how good the bound is.
            limit_s: the clock ends it then, with what is known; inf = never.
            watch: told `cap_s` now and then.
        """

@final
class Completion:
    """How long the transfers of an assignment take."""

    @property
    def seconds(self) -> float:
        """All phases, one after the other."""

    @property
    def bottleneck(self) -> Bottleneck | None:
        """What the longest phase waits for; None if nothing crosses a limited link."""

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
        """What crosses the link in that phase."""

    @property
    def rate_bps(self) -> float:
        """The rate of the link."""

    @property
    def seconds(self) -> float:
        """How long that takes."""

@final
class Found:
    """What a search found."""

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
    """What one link carries in one phase."""

    @property
    def link(self) -> str:
        """The link in words."""

    @property
    def phase(self) -> int:
        """The phase."""

    @property
    def bytes(self) -> int:
        """What the placed tasks send over it."""

    @property
    def load_bytes(self) -> int:
        """What is under way on it besides."""

    @property
    def rate_bps(self) -> float:
        """Its rate."""

    @property
    def seconds(self) -> float:
        """How long all that takes."""

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
        """What each unit needs."""

    @property
    def memory_bytes(self) -> list[int]:
        """What each unit needs."""

    @property
    def storage_bytes(self) -> list[int]:
        """What each unit needs."""

    @property
    def host_nano_cores(self) -> list[int]:
        """What each host offers."""

    @property
    def host_memory_bytes(self) -> list[int]:
        """What each host offers; 2^64 - 1 = not limited."""

    @property
    def host_storage_bytes(self) -> list[int]:
        """What each host offers; 2^64 - 1 = not limited."""

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
    def latencies(self) -> list[tuple[int, int, float]]:
        """Source unit, target unit, seconds: the most that one way may take."""

    @property
    def limits(self) -> list[tuple[list[int], int]]:
        """Units with the number of hosts that they may use."""

    @property
    def quotas(self) -> list[tuple[list[int], list[int], int]]:
        """Hosts, what each unit needs there, and the most that units on these hosts may need together."""

class _Flows(Protocol):
    """F flows; every column is contiguous and read where it is.

    Attributes:
        source: (F,) the sending host.
        target: (F,) the receiving host.
        bytes: (F,) how much.
        start_s: (F,) earliest start.
        weight: (F,) from 0.001 to 1000; None = 1.
        cap_bps: (F,) the most that each sends; None = no caps.
        startup_s: (F,) time to the first byte, besides the latency; None = 0.
        label: (F,) picks one of several equal paths; None = the row.
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
        weight: of each of its flows.
        cap_bps: the most that each of its flows sends.
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

@final
class Platform:
    """What flows run over, checked. Immutable; its methods run without the GIL."""

    @staticmethod
    def topology(topology: _Topology, payload_share: float, seed: int) -> Platform:
        """A described network.

        Args:
            topology: the description.
            payload_share: share of its rates that carries the flows' bytes.
            seed: decides which of several equal paths a flow takes.

        Raises:
            ValueError: naming the first thing that makes no sense.
        """

    @staticmethod
    def network(network: Network) -> Platform:
        """A measured network; each pair of hosts is a link of its own, and an unknown latency counts as none."""

    def links(self, source: int, target: int) -> list[tuple[int, float]]:
        """The limited links from one host to another, each with its rate."""

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
        """Runs flows.

        Args:
            flows: what to send.
            edges: (E, 2) the second flow of each row waits for the first.
            phase: (F,) instead of edges.
            background: traffic of others.
            until_s: stop here even if flows are left.
            seed: decides the background.
            accuracy: by how much of itself a rate may be off; 0 = exact.

        Raises:
            ValueError: naming the first thing that makes no sense.
            TypeError: when an array has another element type or dimension.
        """

    def rates(self, flows: _Flows) -> _Floats:
        """Max-min fair rates in bit/s of flows that are all there at once.

        Raises:
            ValueError: naming the first thing that makes no sense.
        """

@final
class Simulated:
    """What a run tells. Columns of links are in the order of `link_names`."""

    @property
    def start_s(self) -> _Floats:
        """(F,) When each flow was due and the flows before it were done; NaN = never."""

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
        """Their rates."""

    @property
    def link_bytes(self) -> _Floats:
        """What crossed them."""

    @property
    def link_busy_s(self) -> _Floats:
        """For how long they held flows back."""

    @property
    def end_s(self) -> float:
        """When the last flow finished, or the end asked for."""

    @property
    def events(self) -> int:
        """Starts and ends of flows, background included."""

@final
class Guarded:
    """What a run with guarantees tells. Columns have one entry a pair that ever sent, by source and target."""

    @property
    def simulated(self) -> Simulated:
        """As of any run."""

    @property
    def source(self) -> list[int]: ...
    @property
    def target(self) -> list[int]: ...
    @property
    def guarantee_bps(self) -> list[float]:
        """Mean while the pair had something to send; 0 = none."""

    @property
    def limit_bps(self) -> list[float]:
        """Mean; inf = none."""

    @property
    def rate_bps(self) -> list[float]:
        """What arrived, mean while the pair had something to send."""

    @property
    def marks(self) -> list[float]:
        """Share of its bytes that was marked."""

    @property
    def lost_bytes(self) -> list[float]:
        """What was lost on the way."""

    @property
    def windows(self) -> list[int]:
        """Windows in which it had something to send all the time."""

    @property
    def met(self) -> list[int]:
        """Those in which it had its guarantee."""

    @property
    def held(self) -> list[str]:
        """What decided its limit last; empty = no limiter."""

    @property
    def rates_bps(self) -> list[_Floats]:
        """What arrived in each window from time 0 on."""

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
) -> Guarded:
    """Runs flows of hosts with bandwidth guarantees.

    Args:
        platform: what they run over.
        flows: what to send.
        hoses: by host, guaranteed egress and ingress (0 = none), and their limits (inf = none).
        tenants: hosts and the same four rates of all together.
        protection: one of `protections()`.
        parameters: constants of the protection to change, by name.
        udp: (F,) whether a flow sends at its cap whatever is lost; None = all are TCP.
        until_s: stop here even if flows are left.
        seed: decides phases of agents and which packets are lost.
        step_s: time from one state to the next.
        window_s: what guarantees are judged over.

    Raises:
        ValueError: naming the first thing that makes no sense.
    """

def protections() -> list[str]:
    """Names of ways to protect hosts from each other."""

@final
class FlowList:
    """A flow list; columns as in `_Flows`."""

    @property
    def ids(self) -> list[str]:
        """What each flow is called."""

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
    """Reads a flow list.

    Args:
        text: CSV with the columns `id,source,target,bytes,start_s`.
        hosts: names of the hosts.

    Raises:
        ValueError: naming line, field and remedy.
    """

def format_finish(ids: list[str], finish_s: _Floats) -> bytes:
    """Writes finish times as CSV with the columns `id,finish_s`."""

def column_quantile(times: _Floats, share: float) -> _Floats:
    """A quantile of each pair's times.

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
    """Rank one with a load, and each pair's most frequent time.

    Args:
        times: (n, M), contiguous; NaN or not above zero = not measured.
        gaps: (n + 1,) mean spacing of the order statistics 1 and max(2, ceil(0.4 k)) of k standard normals.

    Returns:
        (n,) load of median 1, (M,) constant, (M,) snapshots that agree with it, band width.

    Raises:
        ValueError: for a matrix without entries.
    """

def ecef_tree(weights: _Floats, root: int) -> tuple[_Indices, _Indices]:
    """A broadcast tree by the earliest completion first.

    Args:
        weights: (N, N) what one transfer takes, row = source; not finite = cannot be used.
        root: who has the message.

    Returns:
        (N,) parent of each host, the root's is itself, and (N,) hosts in the order in which their transfers begin.

    Raises:
        ValueError: for weights that are no square, or a host that cannot be reached.
    """

class _Underway(Protocol):
    """A transfer under way."""

    @property
    def arrival_s(self) -> float: ...
    @property
    def class_(self) -> int: ...
    @property
    def weight(self) -> float: ...
    @property
    def sent_bytes(self) -> float: ...
    @property
    def flows(self) -> Sequence[tuple[int, int, float]]: ...

def order_names() -> list[str]:
    """The policies that order transfers."""

def order_rates(network: Network, name: str, coflows: Sequence[_Underway]) -> tuple[_Floats, float]:
    """The rates that a policy gives to transfers under way.

    Args:
        network: hosts and what joins them.
        name: of the policy.
        coflows: the transfers; flows are source, target and bytes left.

    Returns:
        (F,) bit/s, flow after flow of coflow after coflow; the seconds after which to ask again at the latest.

    Raises:
        ValueError: for a policy that there is not.
    """

@final
class CoflowTrace:
    """Coflows that come one after the other. Immutable; flows that join the same ports are one."""

    @staticmethod
    def read(text: bytes) -> CoflowTrace:
        """Reads a table, or the format of the public traces.

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
        """A trace from columns.

        Args:
            ports: their names.
            names: of C coflows.
            arrival_s: (C,) when they arrive.
            coflow: (F,) which coflow each flow belongs to.
            source: (F,) port.
            target: (F,) port.
            sizes: (F,) bytes.

        Raises:
            ValueError: for a coflow or port that there is not.
        """

    @property
    def ports(self) -> list[str]:
        """Their names."""

    @property
    def names(self) -> list[str]:
        """Of the coflows."""

    @property
    def arrival_s(self) -> _Floats:
        """(C,) When they arrive."""

    @property
    def classes(self) -> _Indices:
        """(C,) Their classes; 0 is the highest."""

    @property
    def flow_count(self) -> int:
        """Flows of all coflows."""

    @property
    def bytes(self) -> float:
        """Bytes of all flows."""

    def flows(self) -> tuple[_Indices, _Indices, _Indices, _Floats]:
        """(F,) Number of the coflow, source, target and bytes, coflow after coflow."""

    def bounds_s(self, over: _Over) -> _Floats:
        """(C,) How long each coflow takes at least, alone."""

    def simulate(
        self, name: str, over: _Over, step_s: float, progress: Callable[[int, int], object]
    ) -> tuple[_Floats, int, int]:
        """Runs it under a policy.

        Args:
            name: of the policy.
            over: the rate of all ports, or a network and the host of each port.
            step_s: how long the share of a flow that ended may idle; 0 = not at all.
            progress: called now and then with coflows done and all.

        Returns:
            (C,) when each is done; how often rates were reckoned; the most flows at once.

        Raises:
            ValueError: for a policy that there is not, or a rate that is none.
        """

def wss(network: Network, flows: Sequence[tuple[int, int, float]]) -> tuple[_Floats, float, str | None]:
    """Rates of a shuffle in proportion to its bytes.

    Args:
        network: hosts and what joins them.
        flows: source, target and bytes left of each.

    Returns:
        (F,) rates, inf = nothing limits that flow; the seconds after which all end; the link that decides them, if any.
    """
