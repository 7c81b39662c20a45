"""Measures random clouds by few pairs, and compares racks, rates, links and the printed statement with the truth.

    make bench-scale ARGS="clouds [--sizes 128 1024 10000 --count 40 --seed 0]"

Clouds have racks of 16 to 48 hosts, and half of them also have pods of 2 to 8 racks. Hosts have caps of 100 to 400
Mbit/s on what they send, and in half of the clouds also on what they receive. Uplinks are oversubscribed 1 to 8 times in
all, or 1 to 8 times in each tier with `--steep`. A tenth of the machines have two hosts, and 1 % of the hosts never
answer. Two hosts of a machine have the same caps between them as others, or the rate of `--memory-mbit`. Routers are
hidden. Round trips are 15 us within a machine, 30 within a rack, 55 within a pod and 85 beyond it. Each host adds up to
1 us, and a ping waits 10 to 40 us in the mean. Agents are simulated: they answer the real controller at once, by max-min
fair shares.

- *misplaced* is the share of hosts whose rack has other hosts than the true one.
- *median error* and *99 %* are over all pairs of all clouds, or a million random pairs of each cloud.
- *worst link* is the largest error of a limit of racks or pods that their hosts could exceed. A limit that the Network
  lacks is off by 100 %. In brackets is the number of limits that are off by more than the goal.
- *pinged* is the largest share of pairs that pinged each other. Before, the controller looks for routers, with more pairs.
- *small rounds* are the most rounds of small packets that a cloud took: pings, and the search for routers before.
- *probe rounds* are the most rounds of probes, those that fill links included. They have no goal.
- *GB* are the most that the probes of a cloud sent.
- *seconds* are the median time of the controller, without the simulated agents.
- *statement* is the share of clouds in which no more pairs are off by more than 5 % than the measurement printed.

Above `--whole` hosts, the command only finds racks, and the other goals count as missed.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from benches.machine import machine
from benches.recorded import command_line, write_figure
from benches.scale.worlds import FEWEST_HOSTS, PlayedWorld, Rack, World, drawn_cloud, pairs_of

from gavotte.errors import GavotteError
from gavotte.formats.history import Floats, History, Ints, PairHistory
from gavotte.formats.network import MOST_IN_MATRICES, Network
from gavotte.formats.parts.lengths import Lengths
from gavotte.formats.parts.tree import Tree, known_limits_bps
from gavotte.measure import MeasureQuestion, carry_out, plan_measurement
from gavotte.measure.carry.agents import FleetAgents
from gavotte.model import check_held_out, find_constant, learn_from_few, model
from gavotte.terms.goodput import GOODPUT_PER_WIRE
from gavotte.terms.held_out import OFF
from gavotte.terms.hierarchy import RACK_HOPS

MOST_PAIRS = 1_000_000
"""Pairs of a cloud whose errors are computed."""

SHOWS = 1.15
"""A link shows if its hosts could fill it this many times."""

MANY_HOSTS = 1024
"""Number of hosts for which rounds and bytes have goals. Fewer hosts need a larger share of pairs."""


@dataclass(frozen=True)
class Goal:
    """The largest value that a figure may have, or the smallest.

    Attributes:
        limit: the value.
        unit: of the value, as printed.
        least: whether the value is the smallest.
        hosts: numbers of hosts that have the goal, from the first to the second.
    """

    limit: float
    unit: str
    least: bool = False
    hosts: tuple[int, float] = (0, np.inf)

    def applies(self, hosts: int) -> bool:
        """Return whether clouds of this many hosts have the goal."""
        return self.hosts[0] <= hosts <= self.hosts[1]

    def met(self, value: float) -> bool:
        """Return whether a value meets the goal."""
        return value >= self.limit if self.least else value <= self.limit

    @property
    def text(self) -> str:
        """The goal as the table shows it."""
        return f"{'at least' if self.least else 'at most'} {self.limit:g}{self.unit}"


NO_GOAL = Goal(np.inf, "", hosts=(0, -1))
"""Goal of a figure that has none."""

GOALS = {
    "misplaced": Goal(0.5, " %"),
    "median error": Goal(1.0, " %"),
    "99 %": Goal(5.0, " %"),
    "worst link": Goal(5.0, " %"),
    "pinged": Goal(4.0, " %", hosts=(MANY_HOSTS, np.inf)),
    "small rounds": Goal(100, "", hosts=(MANY_HOSTS, MANY_HOSTS)),
    "probe rounds": NO_GOAL,
    "GB": Goal(60, "", hosts=(MANY_HOSTS, MANY_HOSTS)),
    "seconds": NO_GOAL,
    "statement": Goal(95, " %", least=True),
}
"""Goals of the figures of each size."""

DIGITS = {"small rounds": 0, "probe rounds": 0, "statement": 0, "GB": 1, "seconds": 1, "pinged": 1}
"""Digits of figures that have not two."""

COLUMNS = ["hosts", "clouds", *GOALS]
WIDTHS = [7, 6, 22, 22, 22, 34, 22, 22, 13, 22, 8, 22]


@dataclass(frozen=True)
class SmallPackets:
    """The cost of finding racks.

    Attributes:
        pinged: share of pairs that pinged each other.
        glanced: share of pairs between which routers were counted.
        ping_rounds: rounds of pings.
        glance_rounds: rounds in which routers were counted.
    """

    pinged: float
    glanced: float
    ping_rounds: int
    glance_rounds: int

    @classmethod
    def of(cls, network: PlayedWorld) -> SmallPackets:
        """Return the small packets that a network has seen."""
        every = network.world.size * (network.world.size - 1) / 2
        pinged, glanced = len(network.pinged) / every, len(network.glanced) / every
        return cls(pinged, glanced, network.ping_rounds, network.glance_rounds)

    @property
    def rounds(self) -> int:
        """All rounds of small packets."""
        return self.ping_rounds + self.glance_rounds


@dataclass(frozen=True)
class Outcome:
    """One cloud: what its measurement cost, and how its result compares with the truth.

    Attributes:
        world: the cloud.
        misplaced: hosts whose rack has other hosts than the true one.
        small: cost of finding the racks.
        seconds: time of the controller.
        probe_rounds: rounds of probes.
        gigabytes: what the probes sent.
        errors: relative errors of pairs; empty = only racks were found.
        link_errors: relative errors of the limits that show.
        off: share of the pairs that are off by more than `OFF`.
        most_off: what the measurement printed as the most that this share may be.
        failure: why there are no rates.
    """

    world: World
    misplaced: int
    small: SmallPackets
    seconds: float
    probe_rounds: int = 0
    gigabytes: float = np.nan
    errors: Floats | None = None
    link_errors: Floats | None = None
    off: float = np.nan
    most_off: float = np.nan
    failure: str = ""

    @property
    def worst_link(self) -> float:
        """Largest of the errors of limits; NaN = not measured, 0 = no limit shows."""
        return np.nan if self.link_errors is None else float(self.link_errors.max(initial=0.0))

    @property
    def links_off(self) -> int:
        """Number of limits with a larger error than the goal."""
        return 0 if self.link_errors is None else int((100 * self.link_errors > GOALS["worst link"].limit).sum())

    @property
    def holds(self) -> bool:
        """Whether the printed statement is true."""
        return self.off <= self.most_off

    def line(self, seed: int) -> str:
        """Return a line on this cloud alone."""
        parts = [
            f"  cloud {seed}: {self.world.size} hosts, {len(self.world.racks)} racks, {len(self.world.pods)} pods",
            f"jitter {1e6 * self.world.jitter_s:.0f} us",
            f"{self.misplaced} misplaced",
            f"{100 * self.small.pinged:.1f} % pinged, {100 * self.small.glanced:.1f} % for routers",
            f"rounds: {self.small.glance_rounds} for routers, {self.small.ping_rounds} of pings, {self.probe_rounds} of probes",
        ]
        if self.errors is not None and self.link_errors is not None:
            parts += [
                f"{self.gigabytes:.1f} GB",
                f"error {_percent(np.median(self.errors))}, 99 % {_percent(np.quantile(self.errors, 0.99))}",
                f"{self.links_off} of {len(self.link_errors)} links off, at most {_percent(self.worst_link)}",
                f"off {_percent(self.off)}, at most {_percent(self.most_off)} stated{'' if self.holds else ': STATEMENT FALSE'}",
            ]
        return "; ".join([*parts, *filter(None, [self.failure]), f"{self.seconds:.1f} s"])


def _percent(share: float) -> str:
    return f"{100 * float(share):.2f} %"


def measured(world: World, seed: int) -> Outcome:
    """Measure a cloud by few pairs, model it, and compare it with the truth."""
    network = PlayedWorld(world, seed=seed)
    begin_s = time.perf_counter()
    with network.held(network.missing):
        result = carry_out(plan_measurement(MeasureQuestion(network.inventory, seed=seed, scale="structure")))
    seconds = time.perf_counter() - begin_s - network.playing_s
    learned, most_off = learned_from(result.pairs.without(result.missing))
    errors = pair_errors(world, learned, seed)
    return Outcome(
        world=world,
        misplaced=_misplaced(world, learned),
        small=SmallPackets.of(network),
        seconds=seconds,
        probe_rounds=len(network.rounds),
        gigabytes=result.bytes_sent / 1e9,
        errors=errors,
        link_errors=link_errors(world, learned),
        off=float((errors > OFF).mean()),
        most_off=most_off,
        failure=result.stopped,
    )


def learned_from(pairs: PairHistory) -> tuple[Network, float]:
    """Return what `gavotte model` learns, and the share of pairs that may be off, as it says."""
    if len(pairs.hosts) > MOST_IN_MATRICES:
        network = learn_from_few(pairs, method="last").network
        return network, 1.0 if network.checked is None else network.checked.share_at_most
    history = History.of_pairs(pairs)
    check = check_held_out(history)
    network = model(history, constant=find_constant(history, method="last", fill=True))
    return network, 1.0 if check is None else check.most_share


def racks_alone(world: World, seed: int, failure: str) -> Outcome:
    """Find the racks of a cloud as a measurement does, and compare them with the true ones."""
    network = PlayedWorld(world, seed=seed)
    begin_s = time.perf_counter()
    agents = FleetAgents(network.fleet(), world.names)
    agents.count_routers(seed, few=True)
    lengths = agents.find_tiers(seed).tiers.lengths
    seconds = time.perf_counter() - begin_s - network.playing_s
    return Outcome(
        world=world,
        misplaced=_misplaced_by_lengths(world, lengths),
        small=SmallPackets.of(network),
        seconds=seconds,
        failure=failure,
    )


def _alive(world: World, rack: Rack) -> frozenset[int]:
    return frozenset(rack.hosts) - world.dead


def _misplaced(world: World, learned: Network) -> int:
    """Return the number of hosts whose innermost group, apart from machines, is not their true rack."""
    number = {name: host for host, name in enumerate(world.names)}
    racks = {host: _alive(world, rack) for rack in world.racks for host in _alive(world, rack)}
    inner: dict[int, frozenset[int]] = {}
    for group in learned.groups:
        if not group.name.startswith("machine"):
            members = frozenset(number[name] for name in group.members)
            inner |= dict.fromkeys(members, members)
    return sum(inner.get(host) != rack for host, rack in racks.items())


def _misplaced_by_lengths(world: World, lengths: Lengths) -> int:
    """Return the same number by path lengths."""
    wrong = 0
    for rack in world.racks:
        members = _alive(world, rack)
        for host in members:
            wrong += set(np.flatnonzero(lengths.row(host) == RACK_HOPS).tolist()) != members - {host}
    return wrong


def pair_errors(world: World, learned: Network, seed: int) -> Floats:
    """Return the absolute relative errors of a Network's rates, of all pairs or of `MOST_PAIRS` random ones."""
    sources, targets = pairs_of(world, MOST_PAIRS, seed)
    true_bps = world.rates_bps(sources, targets) * GOODPUT_PER_WIRE
    return np.asarray(np.abs(predicted_bps(world, learned, sources, targets) / true_bps - 1))


def predicted_bps(world: World, learned: Network, sources: Ints, targets: Ints) -> Floats:
    """Return the (M,) rates that a Network has for M pairs; 0 = none."""
    at = {name: number for number, name in enumerate(learned.names)}
    row = np.array([at.get(name, -1) for name in world.names])
    if learned.compact:
        tree = Tree(learned.hosts, learned.groups, learned.exceptions, learned.sharing)
        return known_limits_bps(tree, row[sources], row[targets])
    pairs = zip(row[sources].tolist(), row[targets].tolist(), strict=True)
    return np.array([learned.pair_bps(i, j) or 0.0 for i, j in pairs])


def link_errors(world: World, learned: Network) -> Floats:
    """Return the relative errors of the limits of racks and pods that show; 1 for a limit that the Network lacks.

    Links that the same pairs cross, as the uplink of one of two pods and the downlink of the other, count as the
    narrower one.
    """
    alive = frozenset(world.alive.tolist())
    number = {name: host for host, name in enumerate(world.names)}
    groups = {frozenset(number[name] for name in group.members): group for group in learned.groups}
    narrowest: dict[frozenset[int], tuple[float, float]] = {}
    learned_bps: dict[frozenset[int], float] = {}
    for rack, sent_bps, received_bps in _demands(world):
        members = _alive(world, rack)
        group = groups.get(members)
        for sources, demand_bps, limit_bps in (
            (members, sent_bps, group.up_bps if group else None),
            (alive - members, received_bps, group.down_bps if group else None),
        ):
            narrowest[sources] = min(narrowest.get(sources, (np.inf, 0.0)), (rack.rate_bps, demand_bps))
            if limit_bps is not None:
                learned_bps[sources] = min(learned_bps.get(sources, np.inf), limit_bps)
    errors = [
        abs(learned_bps.get(sources, 0.0) / (rate_bps * GOODPUT_PER_WIRE) - 1)
        for sources, (rate_bps, demand_bps) in narrowest.items()
        if demand_bps > SHOWS * rate_bps
    ]
    return np.array(errors)


def _demands(world: World) -> list[tuple[Rack, float, float]]:
    """Return racks and pods with the most that could cross the uplink, and the downlink, of each."""
    egress_bps, ingress_bps = (np.where(_is_alive(world), caps, 0.0) for caps in (world.egress_bps, world.ingress_bps))
    sent = {rack: float(egress_bps[list(rack.hosts)].sum()) for rack in world.racks}
    received = {rack: float(ingress_bps[list(rack.hosts)].sum()) for rack in world.racks}
    pods = world.pods or (Rack(tuple(range(world.size)), np.inf),)
    inside = {pod: [rack for rack in world.racks if set(rack.hosts) <= set(pod.hosts)] for pod in pods}
    through = {
        pod: [sum(min(each[rack], rack.rate_bps) for rack in racks) for each in (sent, received)]
        for pod, racks in inside.items()
    }
    demands = []
    for pod, racks in inside.items():
        others_send, others_receive = (
            sum(min(way[at], other.rate_bps) for other, way in through.items() if other != pod) for at in (0, 1)
        )
        if world.pods:
            demands.append((pod, min(through[pod][0], others_receive), min(through[pod][1], others_send)))
        for rack in racks:
            near_send, near_receive = (
                sum(min(each[other], other.rate_bps) for other in racks if other != rack) for each in (sent, received)
            )
            far_receive, far_send = min(pod.rate_bps, others_receive), min(pod.rate_bps, others_send)
            out_bps, in_bps = min(sent[rack], near_receive + far_receive), min(received[rack], near_send + far_send)
            demands.append((rack, out_bps, in_bps))
    return demands


def _is_alive(world: World) -> Ints:
    alive = np.zeros(world.size, dtype=np.int64)
    alive[world.alive] = 1
    return alive


def figures(outcomes: Sequence[Outcome]) -> dict[str, float]:
    """Return the figures of clouds of one size; NaN = not measured."""
    errors = [each.errors for each in outcomes if each.errors is not None]
    whole = len(errors) == len(outcomes)
    together = np.concatenate(errors) if whole else np.array([np.nan])
    return {
        "misplaced": 100 * sum(each.misplaced for each in outcomes) / sum(len(each.world.alive) for each in outcomes),
        "median error": 100 * float(np.median(together)),
        "99 %": 100 * float(np.quantile(together, 0.99)),
        "worst link": 100 * float(np.max([each.worst_link for each in outcomes])),
        "pinged": 100 * max(each.small.pinged for each in outcomes),
        "small rounds": max(each.small.rounds for each in outcomes),
        "probe rounds": max(each.probe_rounds for each in outcomes) if whole else np.nan,
        "GB": float(np.max([each.gigabytes for each in outcomes])),
        "seconds": float(np.median([each.seconds for each in outcomes])),
        "statement": 100 * float(np.mean([each.holds for each in outcomes])) if whole else np.nan,
    }


def row(outcomes: Sequence[Outcome]) -> list[str]:
    """Return the row of clouds of one size: each figure, and whether it meets its goal."""
    hosts = outcomes[0].world.size
    cells = [f"{hosts:,}", str(len(outcomes))]
    for name, value in figures(outcomes).items():
        goal = GOALS[name]
        if np.isnan(value):
            cells.append("not measured" + ": missed" * goal.applies(hosts))
            continue
        text = f"{value:.{DIGITS.get(name, 2)}f}{goal.unit}"
        if name == "worst link":
            links = sum(len(each.link_errors) for each in outcomes if each.link_errors is not None)
            text += f" ({sum(each.links_off for each in outcomes)} of {links} off)"
        cells.append(text + (f": {'met' if goal.met(value) else 'missed'}" if goal.applies(hosts) else ""))
    return cells


def table_line(cells: Sequence[str]) -> str:
    """Return a printed row."""
    return " ".join(f"{cell:>{width}}" for cell, width in zip(cells, WIDTHS, strict=True))


def goal_cells() -> list[str]:
    """Return the row of the goals."""
    texts = []
    for goal in GOALS.values():
        first, last = goal.hosts
        where = "" if first == 0 else f" at {first:,}" if first == last else f" from {first:,}"
        texts.append("" if goal.limit == np.inf else goal.text + where)
    return ["goal", "", *texts]


def clouds_of(hosts: int, args: argparse.Namespace) -> list[Outcome]:
    """Measure the clouds of one size, and print a line for each."""
    outcomes = []
    for seed in range(args.seed, args.seed + args.count):
        world = drawn_cloud(hosts, seed, args.memory_mbit and args.memory_mbit * 1e6, steep=args.steep)
        failure = f"only racks: more than {args.whole:,} hosts" if hosts > args.whole else ""
        if not failure:
            try:
                outcomes.append(measured(world, seed))
            except MemoryError:
                failure = f"only racks: {args.memory_gb:g} GB did not suffice"
            except GavotteError as error:
                failure = f"only racks: {error}"
        if failure:
            outcomes.append(racks_alone(world, seed, failure))
        print(outcomes[-1].line(seed), flush=True)
    return outcomes


def main(arguments: list[str]) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[128, 1024, 10_000], help="numbers of hosts")
    parser.add_argument("--count", type=int, default=40, help="clouds of each size")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first cloud of each size")
    parser.add_argument("--whole", type=int, default=10_000, help="most hosts whose rates are measured, too")
    parser.add_argument(
        "--memory-mbit", type=float, help="rate between two hosts of a machine; without, their caps apply"
    )
    parser.add_argument("--steep", action="store_true", help="oversubscribe each tier 1 to 8 times, both up to 64")
    parser.add_argument("--memory-gb", type=float, default=16.0, help="address space that this program may use")
    parser.add_argument("--record", type=Path, help="folder to write the numbers to, as docs/results has them")
    args = parser.parse_args(arguments)
    if min(args.sizes) < FEWEST_HOSTS:
        parser.error(f"--sizes: clouds have at least {FEWEST_HOSTS} hosts")
    if args.count < 1:
        parser.error("--count: draw at least 1 cloud")
    limit = int(args.memory_gb * 1e9)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    about = machine()
    print(f"{about}; seeds {args.seed} to {args.seed + args.count - 1} of each size")
    rows = [row(clouds_of(hosts, args)) for hosts in args.sizes]
    for cells in (COLUMNS, goal_cells(), *rows):
        print(table_line(cells), flush=True)
    if args.record is not None:
        write_figure(
            args.record / "many-hosts-clouds.json",
            title="Random clouds measured by few pairs: 99 % of pairs have at most this error",
            command=command_line("scale", args.record),
            seed=f"{args.seed} to {args.seed + args.count - 1}",
            samples=f"{args.count} simulated clouds of each size",
            about=about,
            columns=COLUMNS,
            rows=[goal_cells(), *rows],
            plot={"kind": "bars", "columns": [COLUMNS.index("99 %")], "unit": "error in %"},
        )
