"""What each verb must get right under a condition. Every function runs the command line and judges what it printed."""

from __future__ import annotations

import json
import math
import re
import statistics
from collections.abc import Callable
from dataclasses import dataclass

import tomli_w
from benches.clouds.conditions import EGRESS_BPS, INGRESS_BPS
from benches.clouds.stage import CommandError, Stage, pairs

from gavotte.formats.network import read_network
from gavotte.formats.parts.rate_fields import parse_rate

MB = 1_000_000
TIMEOUT_S = 0.2
"""Shortest time for which Linux's TCP waits before it sends again."""
LOSSY_S = 20.0
"""Length of transfers on lossy paths. At 1 % of loss, some 200 packets are lost in that time."""

RUNS = 5
"""Runs of a placement, of which the median counts."""


@dataclass(frozen=True)
class Outcome:
    """One verb under one condition.

    Attributes:
        right: whether it kept the goal.
        figure: what was compared, as the table shows it.
        why: what was wrong; empty = nothing.
    """

    right: bool
    figure: str
    why: str = ""


def measure(stage: Stage) -> Outcome:
    """All paths answered; each rate within the tolerance of the shaper's, or of what long TCP gets."""
    return _measured(stage, "m.npz", ["measure", "--hosts", "lab", "-o", "m.npz"])


def sharing(stage: Stage) -> Outcome:
    """The same with `--sharing`, which also fills links."""
    return _measured(stage, "s.npz", ["measure", "--hosts", "lab", "--sharing", "-o", "s.npz"])


def _measured(stage: Stage, file: str, words: list[str]) -> Outcome:
    (stage.folder / file).unlink(missing_ok=True)
    if stage.condition.sustain_s:
        words = [*words, "--sustain", f"{stage.condition.sustain_s:g}"]
    result = stage.gavotte(*words)
    if result["answered"] < result["paths"]:
        return Outcome(False, f"{result['answered']}/{result['paths']}", "paths without an answer")
    names, rates_bps = result["hosts"], result["rate_bps"]
    worst, where = 0.0, ""
    early = _early(stage, file)
    for i, j in pairs(names):
        error = _error(stage, names[i], names[j], rates_bps[i][j], early=names[i] in early)
        if abs(error) > abs(worst):
            worst, where = error, f"{names[i]} to {names[j]}: {rates_bps[i][j] / 1e6:.2f} Mbit/s"
    return Outcome(abs(worst) <= _tolerance(stage), f"{100 * worst:+.1f} %", where)


def _early(stage: Stage, file: str) -> set[str]:
    """Return the hosts whose rate was seen for fewer bytes than their credit holds, as the Network says in `seen_bytes`.

    The rate while the credit lasts is right for them. `place` warns if an application sends more.
    """
    if not stage.condition.has_credit or stage.condition.sustain_s:
        return set()
    network = stage.gavotte("model", file, "-o", "seen.network.json")
    seen = {host["name"]: host.get("seen_bytes") or 0.0 for host in network["hosts"]}
    return {name for name, size in seen.items() if 0 < size < stage.condition.burst_bytes}


def _tolerance(stage: Stage) -> float:
    # Without a limit the processors decide, and they are shared.
    return stage.condition.tolerance if stage.condition.capped else 0.3


def _error(stage: Stage, source: str, target: str, rate_bps: float, *, seconds: int = 4, early: bool = False) -> float:
    """Relative error against the shaper, or against long TCP if that is nearer; `early`: or the rate before a credit ends."""
    condition = stage.condition
    truths = [INGRESS_BPS * condition.goodput_share] if early else []
    if condition.capped:
        truths.append(condition.egress_bps(source) * condition.goodput_share)
    if all(abs(rate_bps / truth - 1) > condition.tolerance for truth in truths):
        # Where nothing limits, `measure` opens as many connections as it needs.
        truths += [stage.iperf3_bps(source, target, connections=n, seconds=seconds) for n in condition.connections]
    return min((rate_bps / truth - 1 for truth in truths if truth), key=abs, default=math.inf)


def model(stage: Stage) -> Outcome:
    """A Network whose hosts have their caps."""
    network = stage.gavotte("model", "m.npz", "-o", "n.network.json")
    if not stage.condition.capped:
        return Outcome(True, "-")
    early, errors = _early(stage, "m.npz"), []
    for host in network["hosts"]:
        if host.get("egress_bps"):
            true_bps = INGRESS_BPS if host["name"] in early else stage.condition.egress_bps(host["name"])
            errors.append(host["egress_bps"] / (true_bps * stage.condition.goodput_share) - 1)
    worst = max(errors, key=abs, default=math.inf)
    return Outcome(abs(worst) <= _tolerance(stage) + 0.01, f"{100 * worst:+.1f} %", "egress caps")


def place_and_run(stage: Stage) -> Outcome:
    """Predicted and real completion agree within 10 %, the half round trip aside in which the last receiver confirms.

    Where `model` says what one connection gets at losses that the counted packets allow, the real time may be in that
    range. The same holds where `place` warns that a credit may end before the transfers do.

    The median of five runs counts.

    The transfers take 2.7 s. In those of 0.7 s a sender whose acknowledgements wait behind its receiver's own data ended
    its slow start early in every second run, which took 1.3 times as long.
    """
    first, second, third = stage.condition.names[:3]
    transfers = [(first, second, 16 * MB), (second, third, 16 * MB), (third, first, 8 * MB)]
    lines = ['format = "gavotte/app/1"', 'name = "ring"']
    for task in (first, second, third):
        lines += ["[[task]]", f'name = "task-{task}"', "cpus = 2.0"]
    for source, target, size in transfers:
        lines += ["[[transfer]]", f'source = "task-{source}"', f'target = "task-{target}"', f"bytes = {size}"]
    (stage.folder / "ring.app.toml").write_text("\n".join(lines) + "\n")
    placed = stage.gavotte("place", "n.network.json", "ring.app.toml", "--time-limit", 2, "-o", "p.placement.json")
    # Single packets decide when a connection leaves slow start. At 0.01 % of loss, one run in four takes 1.16 to 1.32 times
    # the predicted time. On a busy machine, so do single runs without loss.
    words = ["run", "p.placement.json", "ring.app.toml", "--hosts", "lab"]
    completions_s = sorted((ran := stage.gavotte(*words))["completion_s"] for _ in range(RUNS))
    if not ran["predicted_s"]:
        return Outcome(True, "-")
    completion_s = statistics.median(completions_s)
    ratio = (completion_s - stage.condition.round_trip_s / 2) / ran["predicted_s"]
    fast, slow = _named_range(stage)
    least, most = 0.85 * fast, 1.10 * slow
    if stage.condition.has_credit and any("measure --sustain" in each for each in placed["warnings"]):
        most = 1.10 * INGRESS_BPS / min(EGRESS_BPS.values())
    figure = f"{ratio:.2f}" + (f" of {least:.2g} to {most:.2g}" if not 0.85 <= ratio <= 1.10 else "")
    # Without a limit all hosts share the processors, which no Network knows.
    good = least <= ratio <= most or not stage.condition.capped
    each_s = ", ".join(f"{each:.2f}" for each in completions_s)
    return Outcome(good, figure, f"{each_s} of {ran['predicted_s']:.2f} s")


def _named_range(stage: Stage) -> tuple[float, float]:
    """Return the times that the Network's notes allow, as multiples of the predicted one; (1, 1) = there is no note.

    Few packets cannot show a loss below some share, or leave the loss that they show uncertain.
    """
    notes = read_network(stage.folder / "n.network.json").notes
    unseen = re.compile(r"connection gets (\S+) (\S+)/s of (\S+) (\S+)/s from")
    unsure = re.compile(r"connection gets (\S+) (\S+)/s to (\S+) (\S+)/s from .* assume (\S+) (\S+)/s;")
    for note in notes:
        if match := unseen.search(note):
            least_bps, usual_bps = (parse_rate(match[at] + match[at + 1]) for at in (1, 3))
            return 1.0, usual_bps / least_bps
        if match := unsure.search(note):
            least_bps, most_bps, usual_bps = (parse_rate(match[at] + match[at + 1]) for at in (1, 3, 5))
            return usual_bps / most_bps, usual_bps / least_bps
    return 1.0, 1.0


def broadcast(stage: Stage) -> Outcome:
    """Time as a multiple of the lower bound."""
    source = stage.folder / "f.bin"
    source.write_bytes(bytes(6 * MB))
    words = ["--from", "b", "--network", "n.network.json", "-o", f"{stage.folder}/copy-{{host}}", "--hosts", "lab"]
    result = stage.gavotte("broadcast", source, *words)
    if not all(each["ok"] for each in result["receivers"]):
        return Outcome(False, "lost", "not every receiver has it")
    return _times(stage, result["ratio"])


def shuffle(stage: Stage) -> Outcome:
    """Time as a multiple of the lower bound."""
    rows = [f"{a},{b},{3 * MB}" for a in stage.condition.names[:3] for b in stage.condition.names[:3] if a != b]
    (stage.folder / "bytes.csv").write_text("source,target,bytes\n" + "\n".join(rows) + "\n")
    result = stage.gavotte("shuffle", "bytes.csv", "--hosts", "lab", "--network", "n.network.json")
    return _times(stage, result["ratio"])


def _times(stage: Stage, ratio: float | None) -> Outcome:
    if ratio is None:
        return Outcome(not stage.condition.capped, "no bound")
    most = stage.condition.most_of_bound
    return Outcome(ratio <= most or not stage.condition.capped, f"{ratio:.2f}", f"at most {most:.2f} is the goal")


def guarantee(stage: Stage) -> Outcome:
    """One connection of `a` has 95 % of its guarantee into `c` next to eight of `b`.

    Where the path loses packets, it has 95 % of what one connection gets alone, if that is less: a guarantee is
    bandwidth, and TCP may not be able to use it.
    """
    if not stage.condition.capped:
        return Outcome(True, "-")
    # Of the 80 Mbit/s into c, b can fill 60.
    wanted_bps = 30e6
    shares = {"a": ("egress", wanted_bps), "b": ("egress", 30e6), "c": ("ingress", 60e6)}
    lines = ['format = "gavotte/guarantee/1"']
    for host, (way, rate_bps) in shares.items():
        lines += ["[[guarantee]]", f'host = "{host}"', f'{way} = "{rate_bps:.0f}bit"']
    (stage.folder / "g.guarantee.toml").write_text("\n".join(lines) + "\n")
    warm_s, counted_s = 4.0 + 20 * stage.condition.round_trip_s, 5.0
    stage.gavotte("guarantee", "apply", "g.guarantee.toml", "--hosts", "lab")
    try:
        sink = stage.traffic("c", "sink", 5001, warm_s + counted_s, 0.2)
        assert sink.stdout is not None
        sink.stdout.readline()
        for host, flows in (("a", 1), ("b", 8)):
            stage.traffic(host, "tcp", stage.addresses["c"], 5001, warm_s + counted_s, flows)
        report = json.loads(sink.communicate(timeout=60)[0])
        stage.gavotte("guarantee", "status", "--hosts", "lab", answers=(0, 3))
    finally:
        stage.gavotte("guarantee", "clear", "--hosts", "lab")
    bins = report["bins"].get(stage.addresses["a"], [])[int(warm_s / 0.2) :]
    got_bps = 8 * sum(bins) / (0.2 * max(1, len(bins))) / stage.condition.goodput_share
    figure, alone_bps = f"{got_bps / wanted_bps:.2f}", math.inf
    if stage.condition.loss and got_bps < 0.95 * wanted_bps:
        alone_bps = stage.iperf3_bps("a", "c", seconds=round(LOSSY_S)) / stage.condition.goodput_share
        figure += f" of {alone_bps / wanted_bps:.2f}"
    least_bps = min(0.95 * wanted_bps, (0.95 - _spread(stage, alone_bps, counted_s)) * alone_bps)
    return Outcome(got_bps >= least_bps, figure, "share of the guarantee")


def profile_live(stage: Stage) -> Outcome:
    """Bytes of a transfer of known size, as the hosts' sockets count them."""
    server = stage.on("b", "iperf3", "-s", "-1", "-p", "5998")
    words = ["iperf3", "-c", stage.addresses["b"], "-p", "5998", "-n", str(5 * MB), "-C", "cubic", "-J"]
    # The command needs a moment until it watches.
    sending = stage.on("a", "sh", "-c", f"sleep 3; exec {' '.join(words)}")
    try:
        profiled = stage.gavotte("profile", "live", "--hosts", "lab", "--for", 7 + 40 * stage.condition.round_trip_s)
        size = json.loads(sending.communicate(timeout=60)[0])["end"]["sum_received"]["bytes"]
    finally:
        for process in (sending, server):
            process.kill()
            process.wait()
    counted = max((each["bytes"] for each in profiled["pairs"]), default=0)
    error = counted / size - 1
    return Outcome(abs(error) <= 0.05, f"{100 * error:+.1f} %", f"{counted} of {size} bytes")


def campaign(stage: Stage) -> Outcome:
    """A campaign of one scenario in a lab of the same topology finds the same rate.

    The rate of one connection varies with its losses from run to run, so that both take longer on lossy paths and behind
    policers. Behind a policer, what its bucket holds at the beginning also counts: an eighth of a transfer of 1 s.

    Programs differ, too: where the same packets were lost in four labs, one connection of iperf3 got 11.2 to 12.5
    Mbit/s, of nuttcp 12.5 to 14.0, and of ours 12.2 to 13.5. So nuttcp is asked if the rate is not that of iperf3.
    """
    (stage.folder / "c.topology.toml").write_text(tomli_w.dumps(stage.condition.description))
    drops = bool(stage.condition.loss or stage.condition.host.get("policer"))
    seconds = LOSSY_S if drops else 1.0 + 120 * stage.condition.round_trip_s
    # A credit has to run out in the sample.
    seconds += 4.0 * stage.condition.has_credit
    capacity_bps = _campaign_bps(stage, "own", seconds)
    error = _error(stage, "b", "c", capacity_bps, seconds=round(seconds) if drops else 4)
    most = _tolerance(stage) + _spread(stage, capacity_bps, seconds)
    if drops and abs(error) > most:
        error = min(error, capacity_bps / _campaign_bps(stage, "nuttcp", seconds) - 1, key=abs)
    return Outcome(abs(error) <= most, f"{100 * error:+.1f} %", f"{capacity_bps / 1e6:.1f} Mbit/s")


def _campaign_bps(stage: Stage, engine: str, seconds: float) -> float:
    """Return the rate from `b` to `c` that a campaign with this engine finds."""
    (stage.folder / "c.campaign.toml").write_text(
        f'format = "gavotte/campaign/1"\nname = "clouds"\nseed = 1\nrepetitions = 1\n'
        f'engine = "{engine}"\nseconds = {seconds:.1f}\n'
        '[driver]\nkind = "lab"\ntopology = "c.topology.toml"\n'
        '[[scenario]]\nname = "pair"\nkind = "pair"\nsource = ["b"]\ntarget = ["c"]\nconnections = [1]\n'
    )
    samples = f"{engine}.jsonl"
    stage.gavotte("campaign", "run", "c.campaign.toml", "-o", samples)
    values = [json.loads(line) for line in (stage.folder / samples).read_text().splitlines()]
    sample = next(each for each in values if each.get("metric") == "capacity_bps")
    # A sample's value is its average, as iperf3 reports it. The shaper's rate is what remains after a credit.
    sustained = sample["metrics"].get("sustained_bps", {"value": sample["value"]})
    return float(sustained["value"])


def _spread(stage: Stage, rate_bps: float, seconds: float) -> float:
    """Return two standard deviations of the ratio of two runs of one connection that loses packets.

    Between two losses the rate varies by about half of its mean, and runs of n losses by that over the root of n.
    Behind a policer, a connection waits for a timeout after each loss.
    """
    lost = stage.condition.loss * rate_bps * seconds / (8 * 1448)
    if stage.condition.host.get("policer"):
        lost = seconds / TIMEOUT_S
    return 2 * math.sqrt(2) * 0.5 / math.sqrt(max(1.0, lost)) if 0 < lost < math.inf else 0.0


def choreo(stage: Stage) -> Outcome:
    """Choreo's estimator, for comparison: its worst error."""
    result = stage.gavotte("measure", "--hosts", "lab", "--method", "choreo", "-o", "choreo.npz")
    names, rates_bps = result["hosts"], result["rate_bps"]
    expected = [(i, j) for i, j in pairs(names) if rates_bps[i][j] and stage.condition.capped]
    truth = [stage.condition.egress_bps(names[i]) * stage.condition.goodput_share for i, _ in expected]
    worst = max(
        (rates_bps[i][j] / bps - 1 for (i, j), bps in zip(expected, truth, strict=True)), key=abs, default=math.nan
    )
    return Outcome(True, f"{result['answered']}/{result['paths']} {100 * worst:+.0f} %")


def iperf3(stage: Stage) -> Outcome:
    """One long CUBIC connection of iperf3 from `b` to `c`, for comparison."""
    rate_bps = stage.iperf3_bps("b", "c")
    truth = stage.condition.egress_bps("b") * stage.condition.goodput_share
    return Outcome(
        True, f"{100 * (rate_bps / truth - 1):+.1f} %" if stage.condition.capped else f"{rate_bps / 1e9:.1f}G"
    )


VERBS: dict[str, Callable[[Stage], Outcome]] = {
    "measure": measure,
    "sharing": sharing,
    "model": model,
    "place, run": place_and_run,
    "broadcast": broadcast,
    "shuffle": shuffle,
    "guarantee": guarantee,
    "profile": profile_live,
    "campaign": campaign,
    "choreo": choreo,
    "iperf3": iperf3,
}
PEERS = ("choreo", "iperf3")
"""For comparison; they have no goal."""


def tried(name: str, stage: Stage) -> Outcome:
    """Run one verb; a command that fails is a miss with its last words."""
    try:
        return VERBS[name](stage)
    except (CommandError, KeyError, TypeError, StopIteration, json.JSONDecodeError) as error:
        return Outcome(name in PEERS, "failed", f"{type(error).__name__}: {error}"[:300])
