"""64 ranks of every mpiP report on 16 full hosts of four cores: ours at several limits and seeds, compared with others.

Rates are drawn from Skyplane's grid as in `ranks`: `hose` (caps and pairs), `caps` (caps alone), `pipe` and `groups`. Ours counts
work instead of time (`Effort.repeatable`), so that a busy machine does not change the answers. `cpu s` is processor time, of
all five attempts of a partitioner, and of ours with its solvers; the annealer has the longest limit by the clock.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from benches.machine import machine
from benches.place.judge import Judge
from benches.place.peers import anneal, ask, built_annealer
from benches.place.ranks import PEERS, halo, regions
from benches.place.real import DATA

from gavotte.errors import GavotteError
from gavotte.formats.app import App
from gavotte.formats.network import Network
from gavotte.place import Effort, Question, decide
from gavotte.profile import profile

SHARINGS = ("hose", "caps", "pipe", "groups")
HOSTS, CORES = 16, 4.0


def main(arguments: Sequence[str]) -> None:
    """`reports [--limits 1,3,10] [--seeds 3] [--seed 0] [--sharing hose] [--data FOLDER] [--no-peers] [--quick]`."""
    parser = argparse.ArgumentParser(prog="bench-place reports")
    parser.add_argument("--limits", default="1,3,10", help="seconds that ours counts as work")
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds of ours")
    parser.add_argument("--seed", type=int, default=0, help="of the network")
    parser.add_argument("--sharing", choices=SHARINGS, action="append", help="only these; may be repeated")
    parser.add_argument("--program", action="append", help="only these, as `lu`; may be repeated")
    parser.add_argument("--data", type=Path, default=DATA, help="has mpip-proxyapps/ and skyplane/")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--quick", action="store_true", help="one program, one seed, limits of 1 and 3 s")
    options = parser.parse_args(arguments)
    reports = sorted((options.data / "mpip-proxyapps").glob("*.mpiP"))
    if not reports or not (options.data / "skyplane").exists():
        print(f"skipped: no mpip-proxyapps/ and skyplane/ in {options.data} (--data FOLDER)")
        return
    if options.quick:
        options.seeds, options.limits, options.program = 1, "1,3", ["lu"]
    limits = [float(limit) for limit in options.limits.split(",")]
    print(machine())
    print(
        f"{HOSTS} hosts of {CORES:g} cores, network seed {options.seed}, {options.seeds} seeds of ours; seconds by the judge"
    )
    with tempfile.TemporaryDirectory() as folder:
        annealer = None if options.no_peers else built_annealer(Path(folder))
        apps: dict[str, App] = {}
        for report in reports:
            name = report.name.split(".")[0]
            try:
                apps[name] = profile("mpip", report, name=name).app
            except GavotteError as error:  # most of its bytes are collectives, which the report has no matrix of
                print(f"{name} skipped: {error}")
        apps["halo"] = halo(np.random.default_rng(options.seed))
        for name, app in apps.items():
            if options.program and name not in options.program:
                continue
            for sharing in options.sharing or SHARINGS:
                _case(_network(options, sharing), app, sharing, options, limits, annealer)


def _network(options: argparse.Namespace, sharing: str) -> Network:
    grid = options.data / "skyplane" / "throughput_2022-01.csv"
    drawn = regions(grid, HOSTS, CORES, "hose" if sharing == "caps" else sharing, np.random.default_rng(options.seed))
    return drawn.model_copy(update={"rate_bps": []}) if sharing == "caps" else drawn


def _case(
    network: Network,
    app: App,
    sharing: str,
    options: argparse.Namespace,
    limits: Sequence[float],
    annealer: Path | None,
) -> None:
    judge = Judge(network, app)
    if not app.transfer:
        return
    head = f"{app.name:<12} {sharing:<7}"
    best = np.inf
    for peer in () if options.no_peers else PEERS:
        for preset in ("DEFAULT", "HIGHEST_QUALITY") if peer == "mtkahypar" else ("",):
            before_s = _cpu_s()
            answer = ask(peer, judge, preset=preset)
            best = min(best, answer.seconds or np.inf)
            _line(head, f"{PEERS[peer]} {preset}".strip(), [answer.seconds], _cpu_s() - before_s, best)
    if annealer is not None:
        seconds = anneal(annealer, judge, limits[-1], options.seed)
        best = min(best, seconds or np.inf)
        _line(head, f"annealer {limits[-1]:g} s", [seconds], limits[-1], best)
    for limit_s in limits:
        before_s = _cpu_s()
        answers = [
            decide(Question(network, [app]), Effort(time_limit_s=limit_s, seed=seed, repeatable=True))
            for seed in range(options.seeds)
        ]
        cpu_s = (_cpu_s() - before_s) / options.seeds
        times = [judge.of(answer.placement.assignment) for answer in answers]
        proven = sum(answer.placement.optimal for answer in answers)
        _line(
            head,
            f"ours {limit_s:g} s",
            times,
            cpu_s / options.seeds,
            best,
            f" gap {answers[0].gap:.1%}, proven {proven}",
        )


def _cpu_s() -> float:
    """Return the processor seconds of this process and of its children that have ended."""
    return sum(os.times()[:4])


def _line(head: str, method: str, seconds: Sequence[float | None], cpu_s: float, least: float, more: str = "") -> None:
    known = [each for each in seconds if each is not None]
    shown = f"{min(known):>9.4f} to {max(known):>9.4f}" if known else f"{'none':>22}"
    ratio = f"{max(known) / least:>7.3f} of the best other" if known and np.isfinite(least) else ""
    print(f"{head} {method:<26} {shown} {cpu_s:>7.2f} cpu s {ratio}{more}", flush=True)
