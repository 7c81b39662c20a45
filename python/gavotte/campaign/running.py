"""Take a campaign's samples one after another, and write each to its file before the next begins."""

from __future__ import annotations

import logging
import math
import platform
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from gavotte import _core
from gavotte.campaign.drivers import Endpoints, MakesKeys, MakesLab, Tunnelled, opened
from gavotte.campaign.engines import hops, send
from gavotte.campaign.jobs import LOOPBACK, Job, Packets, Sent, jain
from gavotte.campaign.journal import Journal, read_journal
from gavotte.campaign.planning import CampaignPlan, Planned, background_of
from gavotte.campaign.states import SCRIPT, State, agent_seconds, read_state, used
from gavotte.campaign.statistics import mean_interval, relative_half_width
from gavotte.errors import AgentError, GavotteError
from gavotte.formats.campaign import JOINED
from gavotte.formats.record import Quantity, Sample
from gavotte.terms import Progress
from gavotte.terms.credit import Credit, find_credit, is_credit

logger = logging.getLogger(__name__)

METRIC = "capacity_bps"
"""Name of the main metric: bulk transfer capacity (TCP payload, bit/s) of all connections together (section IV-D)."""

TRIES = 3
"""Attempts to take a sample before the run records it as failed and continues."""
AT_ONCE = 16
"""Most endpoints that are asked for their state at the same time."""
LEAST_CREDIT_S = 1.0
"""A sample this short cannot show a credit: a busy machine slows its second half down just as well."""


@dataclass
class Done:
    """Result of a run: numbers of taken, skipped and failed samples, and the run's duration.

    Attributes:
        taken: number of samples that this run took.
        skipped: number of samples that the file held already.
        needless: number of samples that the stop rule left out.
        failed: sample to reason, for each sample that could not be taken.
        cut_bytes: length of the torn line that was cut from the file; 0 = none.
        seconds: duration of the run.
    """

    taken: int = 0
    skipped: int = 0
    needless: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    cut_bytes: int = 0
    seconds: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """Return the result as a dict ready for JSON."""
        return self.__dict__.copy()


@dataclass(frozen=True)
class RemainingSamples:
    """What a run would still take, given its file.

    Attributes:
        present: number of samples that the file holds already.
        samples: number of samples that must still be taken.
        optional: number of further samples that the stop rule may still ask for.
        cut_bytes: length of the torn line at the file's end that a run would cut; 0 = none.
        seconds: estimated seconds of the samples that must be taken.
        bytes: estimated bytes of their payload.
    """

    present: int
    samples: int
    optional: int
    cut_bytes: int
    seconds: float
    bytes: int

    def as_dict(self) -> dict[str, Any]:
        """Return the numbers as a dict ready for JSON."""
        return asdict(self)


def remaining(plan: CampaignPlan, path: str | Path, *, resume: bool) -> RemainingSamples:
    """Check the file of a run as the run would, change nothing, and return what remains to be taken.

    Args:
        plan: plan of the campaign.
        path: file of its samples.
        resume: whether the file may hold samples already.

    Raises:
        GavotteError: when the file holds samples without `resume`, or belongs to another campaign.
        FormatError: when the file is damaged.
    """
    samples, cut_bytes = read_journal(path, resume=resume)
    _check_same(samples, plan, path)
    present = {sample.sample for sample in samples}
    left = [each for each in plan.samples if each.sample not in present]
    must = [each for each in left if not each.optional]
    seconds, size = plan.cost(must)
    return RemainingSamples(len(present), len(must), len(left) - len(must), cut_bytes, seconds, size)


def run(
    plan: CampaignPlan,
    path: str | Path,
    make_lab: MakesLab,
    *,
    make_keys: MakesKeys | None = None,
    resume: bool = False,
    max_seconds: float | None = None,
    progress: Progress | None = None,
    report: Callable[[str], None] | None = None,
) -> Done:
    """Take a plan's samples and append them to a file. A run killed at any moment continues with `resume`.

    Args:
        plan: the samples to take.
        path: path of the `*.jsonl` file.
        make_lab: makes a lab of a topology.
        make_keys: makes keys for agents behind TLS, which a `kubernetes` driver needs.
        resume: continue a file that holds samples of the same plan.
        max_seconds: start no sample after this many seconds.
        progress: is called with the number of finished samples and the number of all samples.
        report: is called with a line about each problem that does not end the run.

    Raises:
        GavotteError: when the file belongs to another campaign, the endpoints cannot be made, or `max_seconds` have
            passed and samples remain.
    """
    begin = time.monotonic()
    with Journal(path, resume=resume) as journal:
        _check_same(journal.samples, plan, path)
        work = _Work(plan, journal, report or (lambda _line: None))
        work.done.cut_bytes = journal.cut_bytes
        if any(work.wanted(each) for each in plan.samples):
            with opened(plan.campaign, make_lab, make_keys, work.report) as endpoints:
                for number, planned in enumerate(plan.samples):
                    if max_seconds is not None and time.monotonic() - begin > max_seconds and work.wanted(planned):
                        raise GavotteError(
                            f"the budget of {max_seconds:g} s is spent after {len(journal.samples)} samples",
                            hint="go on with --resume and a new budget",
                        )
                    work.step(endpoints, planned)
                    if progress is not None:
                        progress(number + 1, len(plan.samples))
        work.count()
        work.done.seconds = time.monotonic() - begin
        return work.done


def _check_same(samples: Sequence[Sample], plan: CampaignPlan, path: str | Path) -> None:
    known = {each.sample for each in plan.samples}
    for sample in samples:
        if sample.metadata.get("plan") != plan.digest or sample.sample not in known:
            raise GavotteError(
                f"{path}: `{sample.sample}` is not of this campaign file",
                hint="it or its topology was changed since; write to another file",
            )


class _Work:
    """State of a run in progress: its plan, the open file and the counts."""

    def __init__(self, plan: CampaignPlan, journal: Journal, report: Callable[[str], None]) -> None:
        self.done = Done()
        self._plan = plan
        self._journal = journal
        self.report = report
        self._had = {sample.sample for sample in journal.samples}
        self._paths: dict[tuple[str, tuple[tuple[str, str], ...]], dict[tuple[str, str], int]] = {}

    def wanted(self, planned: Planned) -> bool:
        """Report whether a sample must still be taken: it is not in the file, and the stop rule does not leave it out.

        The stop rule uses only earlier repetitions, so a resumed run decides like an uninterrupted one.
        """
        if any(sample.sample == planned.sample for sample in self._journal.samples):
            return False
        return not planned.optional or not self._enough(planned)

    def step(self, endpoints: Endpoints, planned: Planned) -> None:
        """Take a sample and append it to the file, with TRIES attempts; skip a sample that is not needed."""
        if not self.wanted(planned):
            return
        for attempt in range(TRIES):
            try:
                self._journal.append(self._take(endpoints, planned))
                return
            except AgentError as error:
                logger.info("%s: %s", planned.sample, error)
                self.report(f"{planned.sample}: {error}" + ("; tries again" if attempt + 1 < TRIES else ""))
                if attempt + 1 == TRIES:
                    self.done.failed[planned.sample] = error.message
                else:
                    endpoints.mend()

    def count(self) -> None:
        """Set the numbers of skipped, taken and needless samples in the result."""
        done = self.done
        now = {sample.sample for sample in self._journal.samples}
        done.skipped, done.taken = len(self._had), len(now - self._had)
        done.needless = sum(each.sample not in now and each.sample not in done.failed for each in self._plan.samples)

    def _enough(self, planned: Planned) -> bool:
        stop = self._plan.campaign.stop
        assert stop is not None
        earlier = [
            sample.value
            for sample in self._journal.samples
            if sample.cell == planned.cell and sample.repetition < planned.repetition
        ]
        return relative_half_width(earlier) <= stop.relative_half_width if len(earlier) > 1 else False

    def _take(self, endpoints: Endpoints, planned: Planned) -> Sample:
        campaign = self._plan.campaign
        flavour = next((each for each in campaign.flavour if each.name == planned.flavour), None)
        scenario = next(each for each in campaign.scenario if each.name == planned.base)
        job = Job(
            pairs=planned.pairs,
            connections=planned.connections,
            seconds=planned.seconds,
            congestion=campaign.congestion,
            copy=campaign.copy_received,
            background=background_of(campaign, planned.base),
            rate_bps=planned.rate_bps,
            mtu_bytes=planned.mtu_bytes,
            program_each=scenario.program_each,
        )
        ends = list(dict.fromkeys(end for pair in planned.pairs for end in pair))
        endpoints.limit(flavour, ends)
        tunnel: AbstractContextManager[Tunnelled] = (
            endpoints.joined(planned.pairs, scenario.kind) if scenario.kind in JOINED else nullcontext({})
        )
        with tunnel as inside:
            job = replace(job, addresses=inside)
            if scenario.kind == "loopback":
                job = replace(job, addresses=dict.fromkeys(ends, LOOPBACK))
            lengths = self._hops(endpoints, planned, job)
            before = states(endpoints, ends)
            began_s = time.time()
            sent = send(endpoints, planned.engine, job)
            after = states(endpoints, ends)
        low, high = sample_interval(sent)
        metadata = {
            "plan": self._plan.digest,
            "seed": campaign.seed,
            "driver": campaign.driver.kind,
            "congestion": campaign.congestion,
            "congestion_used": (
                "" if sent.packets else congestion_used(sent, [before[source] for source, _ in planned.pairs])
            ),
            "copy_received": campaign.copy_received,
            "before": before,
            "after": after,
            "versions": {"gavotte": _core.version(), "python": platform.python_version()},
            **({"beside": sent.beside} if sent.beside else {}),
            **({"flavour": flavour.model_dump(exclude_none=True)} if flavour else {}),
            **variant(planned),
            **({"path": scenario.kind} if scenario.kind in JOINED else {}),
            **by_pair(planned, sent),
        }
        return Sample(
            campaign=campaign.name,
            scenario=planned.scenario,
            repetition=planned.repetition,
            sample=planned.sample,
            metric=METRIC,
            value=sent.capacity_bps,
            unit="bit/s",
            low=low,
            high=high,
            time_s=began_s,
            source=planned.source,
            target=planned.target,
            connections=planned.connections,
            flavour=planned.flavour,
            engine=planned.engine,
            seconds=planned.seconds,
            connection_bps=sent.connection_bps,
            metrics=metrics(planned, sent, lengths, endpoints, before, after),
            metadata=metadata,
        )

    def _hops(self, endpoints: Endpoints, planned: Planned, job: Job) -> dict[tuple[str, str], int]:
        """Return the path lengths of a sample's pairs, measured once in a run; empty = they could not be measured."""
        key = (planned.scenario, tuple(planned.pairs))
        if key not in self._paths:
            try:
                self._paths[key] = hops(endpoints, job)
            except AgentError as error:
                logger.info("%s: no path lengths: %s", planned.sample, error)
                return {}
        return self._paths[key]


def variant(planned: Planned) -> dict[str, Any]:
    """Return the settings of a sample that differ from the usual ones, for its metadata."""
    usual = {"direction": "forward", "protocol": "tcp", "rate_bps": None, "mtu_bytes": 0}
    return {key: getattr(planned, key) for key, value in usual.items() if getattr(planned, key) != value}


def by_pair(planned: Planned, sent: Sent) -> dict[str, Any]:
    """Return what is known of each pair and of each connection's processor time, for a sample's metadata."""
    details: dict[str, Any] = {}
    if len(planned.pairs) > 1 and len(sent.pair_bps) == len(planned.pairs):
        packets = sent.packets if len(sent.packets) == len(planned.pairs) else [None] * len(planned.pairs)
        details["pairs"] = [
            {"source": source, "target": target, "capacity_bps": rate_bps} | (asdict(each) if each else {})
            for (source, target), rate_bps, each in zip(planned.pairs, sent.pair_bps, packets, strict=True)
        ]
    if sent.packets:
        details["packets"] = {
            "sent": sum(each.sent for each in sent.packets),
            "lost": sum(each.lost for each in sent.packets),
        }
    if sent.connection_cpu:
        details["connection_cpu"] = [{"sender": one, "receiver": other} for one, other in sent.connection_cpu]
    return details


def states(endpoints: Endpoints, hosts: Sequence[str]) -> dict[str, State]:
    """Return the current state of each host, by host; at most AT_ONCE hosts are asked at the same time."""
    with ThreadPoolExecutor(min(AT_ONCE, len(hosts))) as pool:
        return dict(zip(hosts, pool.map(lambda host: read_state(endpoints.ask(host, SCRIPT)), hosts), strict=True))


def congestion_used(sent: Sent, senders: Sequence[State]) -> str:
    """Return the congestion control of the sending sockets; if the engine reports none, the senders' defaults."""
    defaults = {str(state["congestion"]) for state in senders if "congestion" in state}
    return sent.congestion or ",".join(sorted(defaults))


def sample_interval(sent: Sent) -> tuple[float | None, float | None]:
    """Return the 95 % confidence interval (bit/s) of one sample's rate, from the rate's variation within the sample.

    Both ends are None if the sample has fewer than two bins of time.
    """
    if len(sent.bins_bps) < 2:
        return None, None
    mean, low, high = mean_interval(sent.bins_bps)
    half = (high - low) / 2
    if not math.isfinite(half):
        return None, None
    # The bins leave out both ends of the sample, so only their spread counts, around the sample's own value.
    scale = sent.capacity_bps / mean if mean else 1.0
    return max(0.0, sent.capacity_bps - half * scale), sent.capacity_bps + half * scale


def metrics(
    planned: Planned,
    sent: Sent,
    lengths: dict[tuple[str, str], int],
    endpoints: Endpoints,
    before: dict[str, State],
    after: dict[str, State],
) -> dict[str, Quantity]:
    """Return all measured quantities except the capacity. Unmeasured ones are null."""
    distances = [endpoints.distance(*pair) for pair in planned.pairs]
    known = [distance for distance in distances if distance is not None]
    one_of = {
        "jain": (jain(sent.connection_bps), ""),
        "connection_bps": (sent.capacity_bps / (planned.connections * len(planned.pairs)), "bit/s"),
        "distance": (max(known) if known and len(known) == len(distances) else None, "edges"),
        "hops": (max(lengths.values()) if lengths else (0 if planned.source == planned.target else None), "hops"),
        "retransmits": (sent.retransmits, "segments"),
        "rtt_idle_s": (sent.rtt_idle_s, "s"),
        "rtt_loaded_s": (sent.rtt_loaded_s, "s"),
        "sender_cpu": (sent.sender_cpu, "of all cores" if planned.engine == "own" else "cores"),
        "receiver_cpu": (sent.receiver_cpu, "of all cores" if planned.engine == "own" else "cores"),
        "sender_throttled": (sent.sender_throttled, "of the time"),
        "receiver_throttled": (sent.receiver_throttled, "of the time"),
    }
    if planned.direction == "both" and len(sent.pair_bps) == len(planned.pairs):
        one_of["forward_bps"] = (sum(sent.pair_bps[::2]), "bit/s")
        one_of["reverse_bps"] = (sum(sent.pair_bps[1::2]), "bit/s")
    if credit := spent_credit(planned, sent):
        one_of["peak_bps"] = (credit.peak_bps, "bit/s")
        one_of["credit_bytes"] = (credit.size_bytes, "bytes")
        one_of["sustained_bps"] = (credit.rate_bps, "bit/s")
    if sent.segment_bytes:
        one_of["segment_bytes"] = (sent.segment_bytes, "bytes")
    if planned.rate_bps is not None:
        one_of |= of_packets(sent.packets, planned.rate_bps * len(planned.pairs))
    metrics = {name: Quantity(value=value, unit=unit) for name, (value, unit) in one_of.items()}
    shares: dict[str, dict[str, float]] = defaultdict(dict)
    for side, hosts in (("sender", {s for s, _ in planned.pairs}), ("receiver", {t for _, t in planned.pairs})):
        for host in hosts:
            for kind, share in used(before[host], after[host]).items():
                shares[side][kind] = max(shares[side].get(kind, 0.0), share)
        for kind, name, unit in (
            ("cpu", "machine_cpu", "of all cores"),
            ("softirq", "softirq", "of all cores"),
            ("steal", "steal", "of all cores"),
            ("process", "process_cpu", "cores"),
        ):
            if kind != "process" or planned.engine == "own":
                metrics[f"{side}_{name}"] = Quantity(value=shares[side].get(kind), unit=unit)
        cores = connection_cores(planned, sent, side, before, after)
        metrics[f"{side}_cpu_connection"] = Quantity(value=cores, unit="cores")
    return metrics


def spent_credit(planned: Planned, sent: Sent) -> Credit | None:
    """Return the credit that a sample's one sender used up; None = its rate did not fall for good, or it is short."""
    if len({source for source, _ in planned.pairs}) > 1 or len(sent.bins_bps) * sent.bin_s < LEAST_CREDIT_S:
        return None
    # The first bin is taken like the second one. `find_credit` leaves out the last one, which is not in `bins_bps`.
    bins_bps = [sent.bins_bps[0], *sent.bins_bps, 0.0]
    credit = find_credit([rate_bps * sent.bin_s / 8 for rate_bps in bins_bps], sent.bin_s)
    return credit if credit and is_credit(credit.size_bytes, credit.rate_bps, credit.peak_bps) else None


def connection_cores(
    planned: Planned, sent: Sent, side: str, before: dict[str, State], after: dict[str, State]
) -> float | None:
    """Return the cores that a program used for each connection, on average; None = unknown. OSMeF's CPU load.

    An agent is one program on a host. Its time is divided by all ends of connections on that host, also where it both
    sends and receives.
    """
    if planned.engine != "own":
        total = sent.sender_cpu if side == "sender" else sent.receiver_cpu
        return None if total is None else total / (planned.connections * len(planned.pairs))
    ends = Counter(end for pair in planned.pairs for end in pair)
    cores = []
    for host in {pair[0 if side == "sender" else 1] for pair in planned.pairs}:
        if (busy_s := agent_seconds(before[host], after[host])) is None:
            return None
        cores.append(busy_s / planned.seconds / (ends[host] * planned.connections))
    return sum(cores) / len(cores)


def of_packets(packets: Sequence[Packets], offered_bps: float) -> dict[str, tuple[float | None, str]]:
    """Return what UDP packets show of a path, over all pairs: loss, order, jitter and one-way delays."""
    sent = sum(each.sent for each in packets)

    def share(counts: Sequence[int | None]) -> float | None:
        known = [count for count in counts if count is not None]
        return sum(known) / sent if sent and len(known) == len(packets) else None

    def joined(values: Sequence[float | None], join: Callable[[list[float]], float]) -> float | None:
        known = [value for value in values if value is not None]
        return join(known) if known else None

    def mean(values: list[float]) -> float:
        return sum(values) / len(values)

    def farthest(values: list[float]) -> float:
        return max(values, key=abs)

    return {
        "offered_bps": (offered_bps, "bit/s"),
        "loss": (share([each.lost for each in packets]), "of the packets"),
        "late": (share([each.late for each in packets]), "of the packets"),
        "jitter_s": (joined([each.jitter_s for each in packets], mean), "s"),
        "delay_s": (joined([each.median_delay_s for each in packets], mean), "s"),
        "least_delay_s": (joined([each.least_delay_s for each in packets], min), "s"),
        "high_delay_s": (joined([each.high_delay_s for each in packets], max), "s"),
        "most_delay_s": (joined([each.most_delay_s for each in packets], max), "s"),
        "clock_ahead_s": (joined([each.clock_ahead_s for each in packets], farthest), "s"),
        "clock_error_s": (joined([each.clock_error_s for each in packets], max), "s"),
    }
