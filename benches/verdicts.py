"""Real campaigns that are equal, and some that are not: what `campaign compare` says of each pair.

    make bench-verdicts [ARGS="--campaigns 14 --repetitions 4 --seconds 0.5 --record docs/results/data"]

One campaign file runs again and again in one lab, and each run is compared with the one before: no verdict may be
`different`. Then the path's rate changes by each of `CHANGES`, and each run is compared with the last equal one: no
verdict may be `alike`, and where a path limits, the change is found. Loopback has no path. Its rate varies with what
else the machine does, so most of its verdicts are `cannot tell`.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from benches.machine import machine
from benches.recorded import write_figure
from tests.campaign.studies import machines_of, scenario_text

from gavotte import lab
from gavotte.campaign import plan, run
from gavotte.campaign.comparing import MARGIN, Comparison, compare
from gavotte.errors import GavotteError
from gavotte.formats.campaign import read_campaign
from gavotte.formats.record import Sample, read_samples
from gavotte.terms.equivalence import VERDICTS

RATE_MBIT = 200.0
CHANGES = (-0.24, -0.10, 0.10)
HOSTS = {"vm1": "pm0", "vm2": "pm0", "vm3": "pm1"}
HEAD = """format = "gavotte/campaign/1"
name = "verdicts"
seed = {seed}
repetitions = {repetitions}
seconds = {seconds}
[driver]
kind = "lab"
topology = "cloud.topology.toml"
"""
SCENARIOS = (
    scenario_text("path", "pair", "vm1", "vm3", connections=[1, 10])
    + scenario_text("incast", "incast", "vm1 vm2", "vm3")
    + scenario_text("loopback", "loopback", "vm1")
)


def taken(folder: Path, rate_mbit: float, asked: argparse.Namespace) -> list[Sample]:
    """Run the campaign in a lab whose machines have this rate."""
    folder.mkdir()
    (folder / "cloud.topology.toml").write_text(machines_of(HOSTS, rate=f"{rate_mbit:g}mbit"))
    path, records = folder / "c.campaign.toml", folder / "c.jsonl"
    path.write_text(HEAD.format(seed=asked.seed, repetitions=asked.repetitions, seconds=asked.seconds) + SCENARIOS)
    done = run(plan(read_campaign(path)), records, lambda topology: lab.session(topology, source="bench-verdicts"))
    for sample, reason in done.failed.items():
        raise GavotteError(f"{len(done.failed)} samples failed; {sample}: {reason}")
    return read_samples(records)


def rows_of(name: str, comparisons: Sequence[Comparison]) -> list[list[str]]:
    """Print the verdicts of some comparisons by scenario, and return them as rows of a table."""
    counts: dict[str, Counter[str]] = {}
    most: dict[str, float] = {}
    for comparison in comparisons:
        for cell in comparison.cells:
            which = f"{cell.scenario}, p = {cell.connections}"
            counts.setdefault(which, Counter())[cell.verdict] += 1
            most[which] = max(most.get(which, 0.0), abs(cell.relative or 0.0))
    rows = []
    for which, verdicts in counts.items():
        numbers = "".join(f"{verdicts[each]:>13}" for each in VERDICTS)
        print(f"{name:<12} {which:<18}{numbers}{100 * most[which]:>18.1f} %")
        rows.append([f"{name}, {which}", *(str(verdicts[each]) for each in VERDICTS), f"{100 * most[which]:.1f} %"])
    return rows


def main() -> int:
    """Run everything; the status is 1 if a verdict is false."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--campaigns", type=int, default=14, help="equal ones")
    parser.add_argument("--repetitions", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", type=Path, help="folder to write the numbers to, as docs/results has them")
    asked = parser.parse_args()
    about = machine()
    print(f"{about}; seed {asked.seed}, {asked.repetitions} samples of {asked.seconds:g} s, margin {MARGIN:.0%}")
    print(f"{'change':<12} {'scenario':<18}" + "".join(f"{each:>13}" for each in VERDICTS) + f"{'largest':>20}")
    with tempfile.TemporaryDirectory(prefix="gavotte-verdicts-") as name:
        equal = [taken(Path(name) / str(number), RATE_MBIT, asked) for number in range(asked.campaigns)]
        pairs = [compare(one, other) for one, other in pairwise(equal)]
        rows = rows_of("none", pairs)
        false = sum(cell.verdict == "different" for each in pairs for cell in each.cells)
        wrong = missed = 0
        for change in CHANGES:
            changed = taken(Path(name) / f"{change:g}", RATE_MBIT * (1 + change), asked)
            comparison = compare(equal[-1], changed)
            rows += rows_of(f"{change:+.0%}", [comparison])
            paths = [cell for cell in comparison.cells if cell.scenario != "loopback"]
            wrong += sum(cell.verdict == "alike" for cell in paths)
            missed += sum(cell.verdict == "cannot tell" for cell in paths)
    print(f"{false} false alarms, {wrong} changes called alike, {missed} changes that it cannot tell")
    if asked.record:
        write_figure(
            asked.record / "osmef-verdicts.json",
            title="Largest difference of two campaigns' means",
            command="make bench-verdicts",
            about=about,
            seed=str(asked.seed),
            samples=f"{asked.campaigns} equal runs and one for each change, {asked.repetitions} samples of "
            f"{asked.seconds:g} s each",
            plot={"kind": "bars", "columns": [4], "unit": "% of the first mean"},
            columns=["change of the rate, scenario", *VERDICTS, "largest difference"],
            rows=rows,
        )
    return 1 if false or wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
