"""ElasticSwitch's experiments on real packets: E1, E2, E3, E7 and E8 at a tenth of the paper's rates.

Two hosts, or one and a crowd, send over one link of 100 Mbit/s. In mode `ecn` the link's switch marks by a phantom queue,
as a real one does by RED. Otherwise nothing marks, as in most clouds, and the link's queue holds 50 ms. Each case runs
unprotected, with static reservations, under plain Seawall, and under our guarantees in all modes; `auto` is the default. `--record docs/results/data` keeps the tables as figures.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median, quantiles, stdev

from benches.guarantee.figure import Table
from benches.guarantee.stage import BIN_S, LINK_BPS, OURS, PROTECTIONS, START_S, TRAFFIC, Flow, Seen, Stand, stand
from benches.machine import machine

from gavotte import lab


@dataclass(frozen=True)
class Asked:
    """The arguments of the command."""

    runs: int
    seconds: float
    senders: Sequence[int]
    protections: Sequence[str]
    connections: int
    edge: bool
    record: Path | None

    @property
    def samples(self) -> str:
        """The samples, as the page shows them."""
        return f"{self.runs} runs of {self.seconds:g} s, mean ± standard deviation"

    def keep(self, table: Table) -> None:
        """Keep a table if `--record` was given."""
        if self.record:
            table.save(self.record, self.samples)


def deviation(values: Sequence[float]) -> float:
    """Return the standard deviation, 0 of a single value."""
    return stdev(values) if len(values) > 1 else 0.0


def spread(values: Sequence[float], unit: float = 1e6) -> str:
    """Mean and standard deviation."""
    return f"{mean(values) / unit:.1f} ± {deviation(values) / unit:.1f}"


def verdict(*, met: bool) -> str:
    """Format a value; a missed goal is marked."""
    return "ok" if met else "MISS"


def share(windows: Sequence[bool]) -> str:
    """Format the share of windows that reached the goal."""
    return f"{100 * mean(windows):.1f} %"


def e1(asked: Asked) -> None:
    """Many to one: X alone to Z, a crowd to T, 45 Mbit/s each; X >= 98 %, nine of ten windows >= 95 %, link >= 90 %."""
    where, flows_a_pair = "edge" if asked.edge else "core", asked.connections
    table = Table(
        f"elasticswitch-lab-e1-{where}-{flows_a_pair}",
        f"Many to one, {where} link of 100 Mbit/s full, 45 Mbit/s guaranteed each, {flows_a_pair} TCP a pair",
        ["senders, protection", "X, Mbit/s", "others, Mbit/s", "windows with 95 %", "link", "goal"],
        {"kind": "bars", "columns": [1, 2], "unit": "Mbit/s on the wire"},
    )
    costs = Table(
        f"elasticswitch-lab-e8-{where}-{flows_a_pair}",
        "What it costs, loops of all agents together",
        ["senders, protection", "core for 100 pairs, %", "control, % of the link", "control, kbit/s a pair", "goal"],
        {"kind": "bars", "columns": [1], "unit": "% of a core"},
    )
    for size in asked.senders:
        crowd = [f"y{number}" for number in range(size)]
        with stand(["x", *crowd], edge=asked.edge) as place:
            for protection in asked.protections:
                hoses = dict.fromkeys([*place.senders, *place.receivers], 45e6)
                flows = [Flow("x", "z", flows_a_pair), *(Flow(host, "t", flows_a_pair) for host in crowd)]
                with place.protected(protection, hoses):
                    seen = [place.run(flows, asked.seconds, guarded=protection != "none") for _ in range(asked.runs)]
                x, y = [[one.mean(target) for one in seen] for target in "zt"]
                windows = [bps >= 0.95 * 45e6 for one in seen for bps in one.windows["z"]]
                link = mean(x) + mean(y)
                met = mean(x) >= 0.98 * 45e6 and mean(windows) >= 0.9 and link >= 0.9 * LINK_BPS
                name = f"{size}, `{protection}`"
                table.row(
                    name, spread(x), spread(y), share(windows), f"{100 * link / LINK_BPS:.0f} %", verdict(met=met)
                )
                if protection in OURS:
                    costs.row(name, *cost(seen, size + 1))
    asked.keep(table)
    asked.keep(costs)


def cost(seen: Sequence[Seen], pairs: int) -> list[str]:
    """E8: processor time per 100 pairs, bytes of the agents' reports; reverse pairs of acknowledgements not counted."""
    cores = [100 * one.cost()[0] / one.seconds / pairs * 100 for one in seen]
    control = [8 * one.cost()[1] / one.seconds for one in seen]
    met = mean(cores) < 1.0 and mean(control) < 0.001 * LINK_BPS
    return [
        spread(cores, 1.0),
        f"{100 * mean(control) / LINK_BPS:.2f}",
        f"{mean(control) / pairs / 1e3:.1f}",
        verdict(met=met),
    ]


PAIRS = 100


def e8(asked: Asked) -> None:
    """Cost of 100 pairs: the agent of a host that sends to 100 others, or receives from 100; < 1 % of a core.

    The other 100 hosts have one pair each. Their mean shows what a pair costs at its other end. Control traffic is what all
    101 agents send each other; goal: < 0.1 % of the link.
    """
    table = Table(
        "elasticswitch-lab-e8",
        f"What {PAIRS} pairs of one host cost, one TCP each, 90 Mbit/s together",
        [
            "host, protection",
            "its agent, % of a core",
            "each other agent, % of a core",
            "control traffic, % of the link",
            "all, Mbit/s",
            "goal",
        ],
        {"kind": "bars", "columns": [1], "unit": "% of a core"},
    )
    crowd = [f"y{number}" for number in range(PAIRS)]
    for role, senders, receivers in (("sender", ["x"], crowd), ("receiver", crowd, ["z"])):
        one = "x" if role == "sender" else "z"
        with stand(senders, receivers) as place:
            flows = [Flow(source, target) for source in senders for target in receivers]
            hoses = dict.fromkeys(crowd, 0.9 * LINK_BPS / PAIRS) | {one: 0.9 * LINK_BPS}
            for protection in asked.protections:
                if protection not in OURS:
                    continue
                with place.protected(protection, hoses):
                    seen = [place.run(flows, asked.seconds, guarded=True) for _ in range(asked.runs)]
                cores = [100 * run.cost([one])[0] / run.seconds for run in seen]
                others = [100 * run.cost(crowd)[0] / run.seconds / PAIRS for run in seen]
                control = [100 * 8 * run.cost()[1] / run.seconds / LINK_BPS for run in seen]
                carried = [sum(map(run.mean, receivers)) for run in seen]
                table.row(
                    f"{role}, `{protection}`",
                    f"{mean(cores):.2f} ± {deviation(cores):.2f}",
                    f"{mean(others):.2f}",
                    f"{mean(control):.3f} ± {deviation(control):.3f}",
                    spread(carried),
                    verdict(met=mean(cores) < 1.0 and mean(control) < 0.1),
                )
    asked.keep(table)


LOADS = (0.0, 20e6, 45e6, 80e6, 120e6)
"""UDP offered alongside TCP, bit/s."""


def e2(asked: Asked) -> None:
    """TCP and UDP that is not ECN-capable: TCP >= 98 % of 45 Mbit/s, link >= 90 % if there is enough traffic."""
    table = Table(
        "elasticswitch-lab-e2",
        "TCP next to UDP that is not ECN-capable, 45 Mbit/s guaranteed each",
        ["UDP offered, Mbit/s, protection", "TCP, Mbit/s", "UDP, Mbit/s", "windows with 95 %", "link", "goal"],
        {"kind": "bars", "columns": [1, 2], "unit": "Mbit/s on the wire"},
    )
    with stand(["x", "y0"]) as place:
        for protection in asked.protections:
            for load in LOADS:
                flows = [Flow("x", "z"), *([Flow("y0", "t", bps=load)] if load else [])]
                with place.protected(protection, dict.fromkeys(["x", "y0", "z", "t"], 45e6)):
                    seen = [place.run(flows, asked.seconds, guarded=protection != "none") for _ in range(asked.runs)]
                x, y = [[one.mean(target) for one in seen] for target in "zt"]
                windows = [bps >= 0.95 * 45e6 for one in seen for bps in one.windows["z"]]
                link = mean(x) + mean(y)
                met = mean(x) >= 0.98 * 45e6 and link >= 0.9 * LINK_BPS
                name = f"{load / 1e6:g}, `{protection}`"
                table.row(
                    name, spread(x), spread(y), share(windows), f"{100 * link / LINK_BPS:.0f} %", verdict(met=met)
                )
    asked.keep(table)


SETTLE_S = 10.0
"""Time left out in E3: pairs share the rest of a link by steps of some percent, which takes this long."""

PAPER = {4.5e6: 0.739, 9e6: 0.750, 22.5e6: 0.864}
"""Table 2: totals of the paper, as a share of the link."""


def e3(asked: Asked) -> None:
    """Sharing the rest (Table 2): ratio 1.8 to 2.2, totals above the paper's."""
    table = Table(
        "elasticswitch-lab-e3",
        f"Sharing the rest, guarantees 1 : 2, from {SETTLE_S:g} s on",
        ["guarantees, protection", "A, Mbit/s", "B, Mbit/s", "ratio", "link", "paper's link", "goal"],
        {"kind": "bars", "columns": [1, 2], "unit": "Mbit/s on the wire"},
    )
    with stand(["x", "y0"]) as place:
        for small, paper in PAPER.items():
            for protection in asked.protections:
                hoses = {"x": small, "z": small, "y0": 2 * small, "t": 2 * small}
                with place.protected(protection, hoses):
                    flows, guarded = [Flow("x", "z"), Flow("y0", "t")], protection != "none"
                    seen = [
                        place.run(flows, SETTLE_S + asked.seconds, guarded=guarded, warm_s=SETTLE_S)
                        for _ in range(asked.runs)
                    ]
                a, b = [[one.mean(target) for one in seen] for target in "zt"]
                ratios = [theirs / ours for ours, theirs in zip(a, b, strict=True) if ours]
                link = (mean(a) + mean(b)) / LINK_BPS
                met = 1.8 <= mean(ratios) <= 2.2 and link > paper
                table.row(
                    f"{small / 1e6:g} and {small / 5e5:g}, `{protection}`",
                    spread(a),
                    spread(b),
                    f"{mean(ratios):.2f}",
                    f"{100 * link:.0f} %",
                    f"{100 * paper:.0f} %",
                    verdict(met=met),
                )
    asked.keep(table)


JOIN_S, LEAVE_S, CONNECTIONS = 5.0, 12.0, 8
"""Y joins X's link at one time, with this many connections, and leaves it at another."""
AFTER_S = 8.0
"""Time from then on until a run ends."""


def join(asked: Asked) -> None:
    """Y joins X with eight connections for one, and leaves again: when does each have what it should?

    Goals: Y reaches 95 % of its guarantee in a second, and X has that in nine of ten windows meanwhile. Two seconds after Y's
    last bytes have arrived, X has 95 % of the link. Alone, X has 95 % of the link in the mean.
    """
    table = Table(
        "elasticswitch-lab-join",
        f"{CONNECTIONS} connections join one and leave, 45 Mbit/s guaranteed each",
        ["protection", "Y has 95 %, s", "X's windows", "Y's windows", "X has 95 % of the link, s", "X alone", "goal"],
        {"kind": "bars", "columns": [1, 4], "unit": "s"},
    )
    with stand(["x", "y0"]) as place:
        for protection in asked.protections:
            joined, kept, own, back, alone = [], [], [], [], []
            with place.protected(protection, dict.fromkeys(["x", "y0", "z", "t"], 45e6)):
                for _ in range(asked.runs):
                    flows = [Flow("x", "z"), Flow("y0", "t", CONNECTIONS, start_s=JOIN_S, seconds=LEAVE_S - JOIN_S)]
                    windows = place.run(flows, LEAVE_S + AFTER_S, guarded=protection != "none", warm_s=0.0).windows
                    x, y = windows["z"], windows["t"]
                    begin, end = round(JOIN_S / BIN_S), round(LEAVE_S / BIN_S)
                    left = last_arrival(y, end)
                    joined.append(_until(y[begin:], 0.95 * 45e6))
                    kept += [bps >= 0.95 * 45e6 for bps in x[begin + 5 : end - 1]]
                    own += [bps >= 0.95 * 45e6 for bps in y[begin + 5 : end - 1]]
                    back.append(_until(x[left:], 0.95 * LINK_BPS))
                    alone.append(mean([*x[round(3.0 / BIN_S) : begin - 1], *x[left + round(2.0 / BIN_S) :]]))
            link = mean(alone) / LINK_BPS
            met = mean(joined) <= 1.0 and mean(kept) >= 0.9 and mean(back) <= 2.0 and link >= 0.95
            cells = [spread(joined, 1.0), share(kept), share(own), spread(back, 1.0), f"{100 * link:.0f} %"]
            table.row(f"`{protection}`", *cells, verdict(met=met) if protection in OURS else "-")
    asked.keep(table)


def last_arrival(windows: Sequence[float], end: int) -> int:
    """Return the window after the last one with arrivals, `end` at least.

    What waits in a sender's sockets when it ends is sent nevertheless: 8 MB on eight connections, for more than a second.
    """
    return max([end, *(number for number, bps in enumerate(windows, 1) if bps > 0.005 * LINK_BPS)])


def _until(windows: Sequence[float], least_bps: float) -> float:
    """Return the time to the end of the first window with this rate, or the whole time."""
    reached = [number for number, bps in enumerate(windows, 1) if bps >= least_bps]
    return BIN_S * (reached[0] if reached else len(windows))


SHORT_BYTES, FETCHES = 10_000, 40
"""Size and number of the short flows of a run."""
CROWD = 23
"""Pairs that fill the link at the same time (Fig. 11)."""


SHORT_P50_S, SHORT_P99_S = 0.005, 0.030
"""The longest times of short flows that X sends over a full link."""


def e7(asked: Asked) -> None:
    """Completion of short flows between X and Z (Fig. 11), alone, cold and warm, and while 23 pairs fill X's way.

    X fetches bytes from Z, against the crowd, or sends them to Z, with the crowd.
    """
    table = Table(
        "elasticswitch-lab-e7",
        f"Short flows of {SHORT_BYTES / 1000:g} kB, a connection each; hoses of 3.75 Mbit/s",
        ["load, way, protection", "first, ms", "median, ms", "p95, ms", "p99, ms", "goal"],
        {"kind": "bars", "columns": [2, 3], "unit": "ms", "scale": "log"},
    )
    crowd = [f"y{number}" for number in range(CROWD)]
    with stand(["x", *crowd]) as place:
        for loaded, way in ((False, "fetch"), (True, "fetch"), (True, "push")):
            unprotected_s = cold_s = 0.0
            for protection in asked.protections:
                # 24 hosts share 90 Mbit/s; all of the crowd send to one host.
                hoses = dict.fromkeys(["x", "z", *crowd], 3.75e6) | {"t": 86.25e6}
                with place.protected(protection, hoses):
                    times = [fetches(place, crowd if loaded else [], asked.seconds, way) for _ in range(asked.runs)]
                firsts, rest = [each[0] for each in times], [took for each in times for took in each[1:]]
                p95_s = quantiles(rest, n=20)[-1]
                # Without protection comes first; without that run there is no goal to compare with.
                unprotected_s, cold_s = unprotected_s or p95_s, cold_s or mean(firsts)
                p99_s = quantiles(rest, n=100)[-1]
                met = p95_s <= unprotected_s if loaded else mean(firsts) - cold_s < 0.001
                if way == "push":
                    met = median(rest) <= SHORT_P50_S and p99_s <= SHORT_P99_S
                table.row(
                    f"{f'{CROWD} pairs' if loaded else 'none'}, {way}, `{protection}`",
                    spread(firsts, 1e-3),
                    f"{median(rest) * 1e3:.1f}",
                    f"{p95_s * 1e3:.1f}",
                    f"{p99_s * 1e3:.1f}",
                    verdict(met=met) if protection in OURS else "-",
                )
    asked.keep(table)


def fetches(place: Stand, crowd: Sequence[str], seconds: float, way: str) -> list[float]:
    """Return times of short flows from X to Z and back, the first after a pause, seconds; `way`: fetch or push."""
    python = [sys.executable, "-I", "-S", str(TRAFFIC)]
    port = str(place.next_port())
    server = place.session.exec("z", [*python, "serve", port, "60"], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    server.stdout.readline()
    sink = place.session.exec("t", [*python, "sink", port, "60"], stdout=subprocess.PIPE, text=True)
    assert sink.stdout is not None
    sink.stdout.readline()
    words = ["tcp", place.address["t"], port, "60", "1"]
    senders = [place.session.exec(host, [*python, *words]) for host in crowd]
    subprocess.run(["sleep", str(seconds / 2 if crowd else 3)], check=True)
    words = [way, place.address["z"], port, str(FETCHES), str(SHORT_BYTES), "0.05"]
    known = place.session.run("x", [*python, *words], capture_output=True, text=True)
    for process in [*senders, server, sink]:
        process.kill()
        process.wait()
    return [float(each) for each in json.loads(known.stdout)]


SETTING_UP, PACKETS = 200, 2000
"""Return round trips of datagrams; the first ones set up the pair and do not count."""


def delay(asked: Asked) -> None:
    """Delay of the data path: round trips of datagrams between idle hosts, one by one and with pauses; goal < 2 us."""
    table = Table(
        "elasticswitch-lab-delay",
        "Round trip between idle hosts",
        ["protection", "back to back: median, us", "p99, us", "1 ms apart: median, us", "p99, us"],
        {"kind": "bars", "columns": [1, 3], "unit": "us"},
    )
    with stand(["x", "y0"]) as place:
        for protection in asked.protections:
            with place.protected(protection, dict.fromkeys(["x", "y0", "z", "t"], 45e6)):
                python, port = [sys.executable, "-I", "-S", str(TRAFFIC)], str(place.next_port())
                server = place.session.exec("z", [*python, "echo", port, "60"], stdout=subprocess.PIPE, text=True)
                assert server.stdout is not None
                server.stdout.readline()
                cells = []
                for gap_s in (0.0, 0.001):
                    words = [*python, "rtt", place.address["z"], port, str(SETTING_UP + PACKETS), str(gap_s)]
                    output = place.session.run("x", words, capture_output=True, text=True).stdout
                    times = [1e6 * float(each) for each in json.loads(output)[SETTING_UP:]]
                    cells += [f"{median(times):.1f}", f"{quantiles(times, n=100)[-1]:.0f}"]
                server.kill()
                server.wait()
            table.row(f"`{protection}`", *cells)
    asked.keep(table)


UP_S, UP_HOST_S = 3.0, 0.12
"""Time for a lab to start and end, in all and by host."""
KEEP_S, KEEP_HOST_S = 0.6, 0.03
"""Time to apply and clear guarantees."""
RUN_S, RUN_HOST_S = 1.5, 0.01
"""Time of a run in addition to its seconds and the start of its senders."""


def takes_s(asked: Asked, hosts: int, flows: int, cases: int, seconds: float | None = None) -> float:
    """Return the time of an experiment in seconds: `cases` in one lab, each with all runs."""
    run_s = (asked.seconds + 2 * START_S * flows if seconds is None else seconds) + RUN_S + RUN_HOST_S * hosts
    return UP_S + UP_HOST_S * hosts + cases * (KEEP_S + KEEP_HOST_S * hosts + asked.runs * run_s)


def estimate_s(asked: Asked, name: str) -> float:
    """Return the time of one experiment on an idle machine, seconds."""
    kinds = len(asked.protections)
    match name:
        case "e1":
            return sum(takes_s(asked, size + 3, size + 1, kinds) for size in asked.senders)
        case "e2":
            return takes_s(asked, 4, 2, len(LOADS) * kinds)
        case "e3":
            return takes_s(asked, 4, 2, len(PAPER) * kinds, SETTLE_S + asked.seconds)
        case "join":
            return takes_s(asked, 4, 2, kinds, LEAVE_S + AFTER_S)
        case "e7":
            return takes_s(asked, CROWD + 3, CROWD + 1, 3 * kinds, asked.seconds / 2 + FETCHES * 0.1)
        case "e8":
            return 2 * takes_s(asked, PAIRS + 1, PAIRS, len(set(OURS) & set(asked.protections)))
        case _:
            return UP_S + kinds * 5.0


EXPERIMENTS: dict[str, Callable[[Asked], None]] = {
    "e1": e1,
    "e2": e2,
    "e3": e3,
    "join": join,
    "e7": e7,
    "e8": e8,
    "delay": delay,
}


def main(words: Sequence[str]) -> None:
    """Run the requested experiments."""
    parser = argparse.ArgumentParser(prog="make bench-guarantee", description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--senders", type=int, nargs="+", default=[1, 10, 50], help="senders of e1, in addition to X")
    parser.add_argument("--connections", type=int, default=1, help="TCP connections of a pair in e1")
    parser.add_argument("--edge", action="store_true", help="e1 with the receivers' link full, not one in the core")
    parser.add_argument("--only", nargs="+", choices=list(EXPERIMENTS), default=list(EXPERIMENTS))
    parser.add_argument("--protections", nargs="+", choices=PROTECTIONS, default=list(PROTECTIONS))
    parser.add_argument("--record", type=Path, help="folder to write the numbers to, as docs/results has them")
    chosen = vars(parser.parse_args(words))
    if not lab.supported():
        raise SystemExit(f"no lab can run here: {lab.missing()}")
    only = chosen.pop("only")
    asked = Asked(**chosen)
    print(f"{machine()}; {asked.runs} runs of {asked.seconds:g} s; TCP CUBIC, set on each socket; no random choices")
    expected_s = {name: estimate_s(asked, name) for name in only}
    parts = ", ".join(f"{name} {seconds / 60:.1f}" for name, seconds in expected_s.items())
    print(f"about {sum(expected_s.values()) / 60:.0f} minutes: {parts}", flush=True)
    for name in only:
        began = time.monotonic()
        EXPERIMENTS[name](asked)
        print(
            f"{name}: {(time.monotonic() - began) / 60:.1f} minutes, expected {expected_s[name] / 60:.1f}", flush=True
        )
