"""Every verb under 24 network conditions, as a user types it, next to iperf3 and Choreo's estimator.

    make bench-clouds [ARGS="--only mtu --verbs measure,broadcast --seed 1"]

Each condition is a lab of three hosts (one has eight) with caps of 40, 60 and 50 Mbit/s. Lines below the table say what
was wrong. A figure marked `!` misses its goal:

- rates: within 2 % (3 % under loss) of the shaper or of long TCP;
- broadcast and shuffle: within 1.10 of the lower bound, rising to 1.25 at 150 ms;
- guarantees: 95 % kept;
- profiles: within 5 %.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from benches.clouds.conditions import conditions
from benches.clouds.stage import CommandError, staged
from benches.clouds.verbs import PEERS, VERBS, Outcome, tried
from benches.machine import machine
from benches.recorded import write_figure

from gavotte.errors import GavotteError

WIDTH = 13


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], help="conditions whose name contains this")
    parser.add_argument("--verbs", default=",".join(VERBS).replace(", ", "; "), help="separated by commas")
    parser.add_argument("--seed", type=int, default=0, help="of the mixes")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--record", type=Path, help="folder to write the table to, as docs/results has it")
    args = parser.parse_args()
    wanted = [name for name in VERBS if name.replace(", ", "; ") in args.verbs.split(",")]
    chosen = [each for each in conditions(args.seed) if not args.only or any(part in each.name for part in args.only)]

    about = machine()
    print(f"{about}; seed {args.seed}; {len(chosen)} conditions, {len(wanted)} verbs")
    print(f"{'condition':<28}" + "".join(f"{name:>{WIDTH}}" for name in wanted) + f"{'s':>6}", flush=True)
    results: dict[str, dict[str, Outcome]] = {}
    with tempfile.TemporaryDirectory(prefix="gavotte-clouds-") as folder:
        for number, condition in enumerate(chosen):
            began_s = time.monotonic()
            outcomes: dict[str, Outcome] = {}
            try:
                with staged(condition, Path(folder) / str(number)) as stage:
                    for name in wanted:
                        outcomes[name] = tried(name, stage)
            except (GavotteError, CommandError) as error:
                outcomes["lab"] = Outcome(False, "failed", str(error))
            results[condition.name] = outcomes
            cells = [outcomes.get(name, Outcome(False, "-")) for name in wanted]
            row = "".join(f"{each.figure + ('' if each.right else '!'):>{WIDTH}}" for each in cells)
            print(f"{condition.name[:27]:<28}{row}{time.monotonic() - began_s:>6.0f}", flush=True)
    missed = [(c, v, o) for c, outcomes in results.items() for v, o in outcomes.items() if not o.right]
    for name, verb, outcome in missed:
        print(f"missed: {name}: {verb}: {outcome.figure}: {outcome.why}")
    judged = sum(verb not in PEERS for outcomes in results.values() for verb in outcomes)
    print(f"{judged - len(missed)} of {judged} kept their goal")
    if args.record:
        record(args.record / "clouds.json", results, about, args.seed)
    if args.json:
        print(json.dumps({c: {v: vars(o) for v, o in outcomes.items()} for c, outcomes in results.items()}, indent=2))


def record(path: Path, results: Mapping[str, Mapping[str, Outcome]], about: str, seed: int) -> None:
    """Write a row for each condition, in the order of `conditions`. Rows of others stay as they were recorded."""
    known = {row[0]: row for row in json.loads(path.read_text("utf-8"))["rows"]} if path.exists() else {}
    for name, outcomes in results.items():
        old = known.get(name, [name, *[""] * len(VERBS)])[1:]
        new = [_cell(outcomes[verb]) if verb in outcomes else cell for verb, cell in zip(VERBS, old, strict=True)]
        known[name] = [name, *new]
    rows = [known[each.name] for each in conditions(seed) if each.name in known]
    write_figure(
        path,
        title="Broadcast and shuffle as multiples of their lower bound",
        command="make bench-clouds",
        seed=str(seed),
        samples="one run of each",
        columns=["condition", *VERBS],
        rows=rows,
        plot={
            "kind": "bars",
            "columns": [1 + list(VERBS).index(verb) for verb in ("broadcast", "shuffle")],
            "unit": "1",
        },
        about=about,
    )


def _cell(outcome: Outcome) -> str:
    return outcome.figure if outcome.right else f"**{outcome.figure}**"


if __name__ == "__main__":
    main()
