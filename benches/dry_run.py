"""Compares the estimate of a dry run with the run: bytes and seconds, with shared links, experiments and budgets.

    make bench-dry-run [ARGS="[CASE ...] --seed 1"]

Each cloud is measured by each method. One estimate is from a pilot, which `measure` takes where nothing else is known,
one from the rate of the hosts alone (`--assumed-rate`). The first lines are those that a user sees: the pilot's own cost,
the estimate of everything before the first packet, and that of the experiments when the paths are known. The cloud is
then modelled, and measured again with that Network.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, replace

from benches.machine import machine

from gavotte import lab
from gavotte.formats.history import History
from gavotte.formats.inventory import Inventory, read_inventory
from gavotte.formats.network import Network
from gavotte.formats.parts.rate_fields import parse_rate
from gavotte.formats.topology import FORMAT, Topology
from gavotte.measure import (
    METHODS,
    CostLimits,
    MeasureQuestion,
    Pilot,
    carry_out,
    measure,
    pilot_cost,
    plan_measurement,
    plan_paths,
    predict_cost,
    take_pilot,
)
from gavotte.measure.plan.methods.bulk import bulk
from gavotte.measure.plan.methods.choreo import choreo
from gavotte.measure.plan.methods.method import ASSUMED_RATE_BPS, Method
from gavotte.measure.sharing import cost_of_sharing, foreseen, learn_sharing
from gavotte.model import model
from gavotte.terms.goodput import GOODPUT_PER_WIRE

NEAR = 0.2
"""The goal: the largest difference between estimate and run."""

CLOUDS: dict[str, tuple[int, int, str, str | None]] = {
    "flat3": (3, 1, "20mbit", None),
    "flat6": (6, 1, "200mbit", None),
    "racks8": (8, 2, "100mbit", "200mbit"),
    "racks12": (12, 3, "100mbit", "200mbit"),
    "racks16": (16, 4, "100mbit", "150mbit"),
    "machines8": (8, 2, "100mbit", "150mbit"),
    "unequal11": (11, 3, "54mbit", "24mbit"),
}
"""Hosts, racks, rate of a host, rate of a rack. In `machines8` two hosts each share a machine; in `unequal11` every
third host sends three quarters.
"""


@dataclass(frozen=True)
class Line:
    """One comparison.

    Attributes:
        what: cloud and options.
        predicted: bytes and seconds estimated by the dry run.
        did: bytes and seconds of the run.
    """

    what: str
    predicted: tuple[float, float]
    did: tuple[float, float]

    def __str__(self) -> str:
        off = [message / did - 1 for message, did in zip(self.predicted, self.did, strict=True)]
        far = "" if max(map(abs, off)) < NEAR else "  FAR"
        size = f"{self.predicted[0] / 1e6:>8.1f} {self.did[0] / 1e6:>8.1f} {100 * off[0]:>+5.0f} %"
        return f"{self.what:<52} {size} {self.predicted[1]:>8.2f} {self.did[1]:>8.2f} {100 * off[1]:>+5.0f} %{far}"


def cloud_of(name: str) -> Topology:
    """Return one of `CLOUDS`."""
    hosts, racks, egress, up = CLOUDS[name]
    switches = [{"name": "core"}, *({"name": f"rack{i}", "parent": "core", "up": up} for i in range(racks) if up)]
    where = [f"rack{i % racks}" if up else "core" for i in range(hosts)]
    own: list[dict[str, object]] = [
        {"name": f"vm{i}", "switch": switch, "egress": egress} for i, switch in enumerate(where)
    ]
    machines: list[dict[str, object]] = []
    if name.startswith("machines"):
        machines = [{"name": f"m{i}", "switch": f"rack{i % racks}"} for i in range(hosts // 2)]
        own = [{"name": f"vm{i}", "machine": f"m{i // 2}", "egress": egress} for i in range(hosts)]
    if name.startswith("unequal"):
        for host in own[2::3]:
            host["egress"] = f"{0.75 * parse_rate(egress) / 1e6:g}mbit"
    return Topology.model_validate({"format": FORMAT, "switch": switches, "machine": machines, "host": own})


def measured(
    inventory: Inventory, method: str | Method, seed: int, known: Network | None, **options: object
) -> tuple[Line, History]:
    """Compare one measurement with its plan."""
    limits: CostLimits | None = options.get("limits")  # type: ignore[assignment]
    asked = {key: value for key, value in options.items() if key != "limits"}
    options["limits"] = limits or CostLimits()
    planned = plan_measurement(MeasureQuestion(inventory, method, seed=seed, known=known, **options))  # type: ignore[arg-type]
    plan, cost = planned.paths, planned.cost
    measurement = carry_out(planned)
    what = f"{plan.method.name}{' --network' * (known is not None)}"
    what += "".join(f" --{key.replace('_bps', '-rate')} {value:.0f}" for key, value in asked.items()) + " --budget" * (
        limits is not None
    )
    return Line(what, (cost.bytes, cost.seconds), (measurement.bytes_sent, measurement.seconds)), measurement.history


def piloted(inventory: Inventory, method: str | Method, seed: int, count: int = 1) -> tuple[Line, History, Pilot]:
    """Compare one measurement without a Network with the estimate of a pilot."""
    pilot = take_pilot(inventory, seed=seed)
    plan = plan_paths(inventory.names, method, seed=seed, count=count)
    cost = predict_cost(plan, pilot)
    measurement = measure(inventory, method=method, seed=seed, count=count)
    what = f"{plan.method.name} --pilot{f' --count {count}' * (count > 1)} (pilot: {pilot.bytes_sent / 1e6:.1f} MB)"
    return (
        Line(what, (cost.bytes, cost.seconds), (measurement.bytes_sent, measurement.seconds)),
        measurement.history,
        pilot,
    )


def experiments(
    inventory: Inventory, history: History, seed: int, known: Network | None, assumed_bps: float = ASSUMED_RATE_BPS
) -> Line:
    """Compare the experiments after one measurement."""
    expected = foreseen(inventory.names, known, assumed_bps=assumed_bps, method=history.method)
    cost = cost_of_sharing(expected, seed=seed, known=known)
    _, result = learn_sharing(inventory, history, seed=seed)
    what = f"{history.method}{' --network' * (known is not None)}, --sharing"
    return Line(what, (cost.bytes, cost.seconds), (result.bytes_sent, result.seconds))


def as_users_do(inventory: Inventory, seed: int) -> Iterator[Line]:
    """Compare what `measure --sharing` prints before it acts with what it does, without a Network or any option."""
    question = MeasureQuestion(inventory, seed=seed, sharing=True)
    own, pilot = pilot_cost(inventory.names), take_pilot(inventory, seed=seed)
    yield Line("the pilot, if hosts sent 1 Gbit/s", (own.bytes, own.seconds), (pilot.bytes_sent, pilot.seconds))
    plan = plan_measurement(question, pilot)
    blind = plan_measurement(question)
    measurement = carry_out(plan)
    later = cost_of_sharing(measurement.history, seed=seed)
    _, result = learn_sharing(inventory, measurement.history, seed=seed)
    sent, seconds = measurement.bytes_sent + result.bytes_sent, measurement.seconds + result.seconds
    yield Line("train --sharing --no-pilot, in all", (blind.total.bytes, blind.total.seconds), (sent, seconds))
    yield Line("train --sharing, in all", (plan.total.bytes, plan.total.seconds), (sent, seconds))
    yield Line("--sharing, once paths are known", (later.bytes, later.seconds), (result.bytes_sent, result.seconds))


def lines(name: str, seed: int, *, brief: bool = False) -> Iterator[Line]:
    """Return all comparisons on one cloud; if brief, those that a user sees."""
    with lab.session(cloud_of(name), source="bench-dry-run") as session:
        inventory = read_inventory(session.hosts_file)
        yield from as_users_do(inventory, seed)
        if brief:
            return
        assumed_bps = GOODPUT_PER_WIRE * parse_rate(CLOUDS[name][2])
        yield measured(inventory, "train", seed, None, assumed_bps=assumed_bps)[0]
        first, history, pilot = piloted(inventory, "train", seed)
        yield first
        yield piloted(inventory, "train", seed, count=3)[0]
        yield replace(experiments(inventory, history, seed, pilot.network), what="train --pilot, --sharing")
        for method in (choreo(), bulk(seconds=0.5)):
            yield piloted(inventory, method, seed)[0]
        known = model(learn_sharing(inventory, history, seed=seed)[0])
        yield (line := measured(inventory, "train", seed, known)[0])
        yield measured(inventory, "train", seed, known, count=3)[0]
        yield measured(inventory, "train", seed, known, limits=CostLimits(bytes=int(1.1 * line.predicted[0])))[0]
        yield experiments(inventory, history, seed, known)
        yield measured(inventory, choreo(), seed, known)[0]
        yield measured(inventory, bulk(seconds=0.5), seed, known)[0]
        yield experiments(inventory, replace(history, method="bulk"), seed, known)
        yield measured(inventory, METHODS["pingpong"], seed, known)[0]


def main() -> None:
    """Print a line for each comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clouds", nargs="*", choices=[[], *CLOUDS], default=[])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--brief", action="store_true", help="only the lines that a user sees")
    asked = parser.parse_args()
    print(f"machine: {machine()}\nseed: {asked.seed}\ngoal: both within {100 * NEAR:.0f} %")
    print(f"{'':<52} {'MB':>8} {'did':>8} {'off':>7} {'s':>8} {'did':>8} {'off':>7}")
    for name in asked.clouds or CLOUDS:
        hosts, racks, egress, up = CLOUDS[name]
        print(f"{name}: {hosts} hosts that send {egress}{f' in {racks} racks that send {up}' * bool(up)}")
        for line in lines(name, asked.seed, brief=asked.brief):
            print(line, flush=True)


if __name__ == "__main__":
    main()
