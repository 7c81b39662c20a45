"""Plan a Campaign: list its samples in order and estimate their time and bytes.

The same campaign file always gives the same plan, byte for byte.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Any

from gavotte.campaign.spelling import spelled
from gavotte.errors import GavotteError
from gavotte.formats.campaign import Background, Campaign, Scenario
from gavotte.formats.parts.rates import format_bytes
from gavotte.formats.topology import Topology

PLAN_FORMAT = "gavotte/campaign-plan/1"

LATER = ("directions", "protocol", "rate", "mtu_bytes", "program_each")
"""Keys of a scenario that older versions do not have. At their defaults they do not change the digest."""

OVERHEAD_S = 0.7
"""Seconds that a sample takes apart from sending: enrolling agents, and asking endpoints for their states."""


@dataclass(frozen=True)
class Planned:
    """One sample to take.

    Attributes:
        sample: unique name, the same for one campaign file with any seed.
        scenario: the scenario's name, with its direction and MTU unless they are the usual ones.
        base: the scenario's name in the file.
        repetition: number of the repetition, from 0.
        pairs: (source, target) of all pairs that send at once.
        connections: number of connections of each pair.
        flavour: name of the processor limit of the endpoints; empty = no limit.
        engine: the engine that sends: `own`, `iperf3` or `nuttcp`.
        seconds: duration of sending.
        optional: whether the stop rule may leave the sample out.
        direction: `forward`, `reverse` or `both`.
        protocol: `tcp` or `udp`.
        rate_bps: UDP payload that each pair offers, in bit/s; None = TCP, which sends as fast as it can.
        mtu_bytes: largest IP packets to send; 0 = what the path carries.
    """

    sample: str
    scenario: str
    base: str
    repetition: int
    pairs: tuple[tuple[str, str], ...]
    connections: int
    flavour: str
    engine: str
    seconds: float
    optional: bool
    direction: str = "forward"
    protocol: str = "tcp"
    rate_bps: float | None = None
    mtu_bytes: int = 0

    @property
    def source(self) -> str:
        """Names of the sending hosts, joined by commas."""
        return ",".join(dict.fromkeys(source for source, _ in self.pairs))

    @property
    def target(self) -> str:
        """Names of the receiving hosts, joined by commas."""
        return ",".join(dict.fromkeys(target for _, target in self.pairs))

    @property
    def cell(self) -> tuple[str, str, str, int, str]:
        """Scenario, source, target, connections and flavour: the settings that all repetitions share, as a Sample's."""
        return (self.scenario, self.source, self.target, self.connections, self.flavour)

    def as_dict(self) -> dict[str, Any]:
        """Return the planned sample as a dict ready for JSON."""
        fields = {key: value for key, value in asdict(self).items() if key != "pairs"}
        return {**fields, "source": self.source, "target": self.target, "pairs": [list(pair) for pair in self.pairs]}


@dataclass(frozen=True)
class CampaignPlan:
    """Samples of a campaign in the order in which they are taken, with estimates of their time and bytes.

    Attributes:
        campaign: the planned campaign, with one spelling for each host.
        samples: the samples, in the order in which they are taken.
        digest: hash of the campaign's content, which identifies the plan; the file's layout does not matter.
        payloads: estimated bytes of each sample's payload, by the sample's name.
    """

    campaign: Campaign
    samples: tuple[Planned, ...]
    digest: str
    payloads: Mapping[str, int]

    def cost(self, samples: Sequence[Planned]) -> tuple[float, int]:
        """Return the estimated seconds of some of the samples, and the bytes of their payload."""
        sizes = (self.payloads[each.sample] for each in samples)
        return sum(each.seconds + OVERHEAD_S for each in samples), sum(sizes)

    @property
    def seconds(self) -> float:
        """Estimated seconds without optional samples, which the stop rule may leave out."""
        return self.cost([each for each in self.samples if not each.optional])[0]

    @property
    def bytes(self) -> int:
        """Estimated bytes of payload without optional samples."""
        return self.cost([each for each in self.samples if not each.optional])[1]

    @property
    def most_seconds(self) -> float:
        """Estimated seconds with all optional samples."""
        return self.cost(self.samples)[0]

    @property
    def most_bytes(self) -> int:
        """Estimated bytes of payload with all optional samples."""
        return self.cost(self.samples)[1]

    def as_dict(self) -> dict[str, Any]:
        """Return the plan as a dict ready for JSON, the same whenever and wherever it was planned."""
        return {
            "format": PLAN_FORMAT,
            "campaign": self.campaign.name,
            "seed": self.campaign.seed,
            "order": self.campaign.order,
            "digest": self.digest,
            "estimate": {
                "seconds": round(self.seconds, 3),
                "bytes": self.bytes,
                "most_seconds": round(self.most_seconds, 3),
                "most_bytes": self.most_bytes,
            },
            "samples": [sample.as_dict() for sample in self.samples],
        }


def plan(
    campaign: Campaign,
    *,
    topology: Topology | None = None,
    rate_bps: Callable[[str, str], float | None] | None = None,
) -> CampaignPlan:
    """Return the plan of a campaign: its samples in order, and the estimated time and bytes.

    The order follows a hash of the seed and the sample's name, so it is the same on every host and at any time. Hosts
    are found without regard to case. The plan's campaign has one spelling for each host.

    Args:
        campaign: the campaign to plan.
        topology: topology of the lab, if one is used; another topology gives another digest.
        rate_bps: gives the rate of a path from source to target in bit/s, for the estimate; None = unknown.

    Raises:
        GavotteError: when two samples have the same name.
    """
    campaign = spelled(campaign)
    every = [sample for scenario in campaign.scenario for sample in _samples(campaign, scenario)]
    if len({sample.sample for sample in every}) < len(every):
        raise GavotteError("the campaign's samples have equal names", hint="give hosts and scenarios other names")
    # Optional repetitions come last, in order: the stop rule then knows the values of all earlier repetitions.
    ordered = sorted(
        every,
        key=lambda each: (
            each.optional,
            each.repetition if each.optional or campaign.order == "blocked" else 0,
            _place(campaign.seed, each.sample),
        ),
    )
    known = rate_bps or (lambda _source, _target: None)

    def payload(sample: Planned) -> int:
        rates = [sample.rate_bps or known(*pair) or campaign.assumed_rate for pair in sample.pairs]
        return round(sample.seconds * sum(rates) / 8)

    payloads = {sample.sample: payload(sample) for sample in ordered}
    return CampaignPlan(campaign, tuple(ordered), digest(campaign, topology), payloads)


def check_budget(planned: CampaignPlan, *, seconds: float | None, size_bytes: int | None) -> None:
    """Raise an error if a plan would exceed a limit of time or bytes. Samples that a stop rule may leave out count.

    Args:
        planned: the plan to check.
        seconds: most seconds that the campaign may take; None = no limit.
        size_bytes: most bytes that the campaign may send; None = no limit.

    Raises:
        GavotteError: when the plan exceeds a limit; names the limit.
    """
    if seconds is not None and planned.most_seconds > seconds:
        raise GavotteError(
            f"the campaign takes up to {planned.most_seconds:.0f} s, but its budget is {seconds:g} s",
            hint="plan fewer repetitions or shorter samples, or raise the budget",
        )
    if size_bytes is not None and planned.most_bytes > size_bytes:
        raise GavotteError(
            f"the campaign sends up to {format_bytes(planned.most_bytes)}, but its budget is "
            f"{format_bytes(size_bytes)}",
            hint="plan fewer repetitions or shorter samples, or raise the budget",
        )


def digest(campaign: Campaign, topology: Topology | None = None) -> str:
    """Return a hash of a campaign's and its topology's content, 16 hexadecimal digits.

    The paths of the driver's files and the budget do not count.
    """
    content = campaign.model_dump(mode="json", exclude={"driver": {"topology", "hosts"}, "budget": True})
    for scenario, each in zip(content["scenario"], campaign.scenario, strict=True):
        for key in LATER:
            if getattr(each, key) == Scenario.model_fields[key].get_default():
                del scenario[key]
    if topology is not None:
        content["topology"] = topology.model_dump(mode="json")
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def background_of(campaign: Campaign, scenario: str) -> list[Background]:
    """Return the background traffic of a scenario's samples."""
    return next(each.background for each in campaign.scenario if each.name == scenario)


def _samples(campaign: Campaign, scenario: Scenario) -> list[Planned]:
    least = scenario.repetitions or campaign.repetitions
    most = least if campaign.stop is None else campaign.stop.most_repetitions
    samples = []
    cells = product(
        scenario.groups, scenario.directions, scenario.mtu_bytes or [0], scenario.connections, scenario.flavours or [""]
    )
    for pairs, direction, mtu_bytes, connections, flavour in cells:
        variant: list[str] = [] if direction == "forward" else [direction]
        variant += [f"mtu{mtu_bytes}"] if mtu_bytes else []
        for repetition in range(most):
            sample = Planned(
                sample="",
                scenario="-".join([scenario.name, *variant]),
                base=scenario.name,
                repetition=repetition,
                pairs=_directed(pairs, direction),
                connections=connections,
                flavour=flavour,
                engine=scenario.engine or campaign.engine,
                seconds=scenario.seconds or campaign.seconds,
                optional=repetition >= least,
                direction=direction,
                protocol=scenario.protocol,
                rate_bps=scenario.rate,
                mtu_bytes=mtu_bytes,
            )
            samples.append(_named(sample, single=len(pairs) == 1))
    return samples


def _directed(pairs: Sequence[tuple[str, str]], direction: str) -> tuple[tuple[str, str], ...]:
    """Return the pairs that send in a direction; in both, each pair comes next to its reverse."""
    if direction == "forward":
        return tuple(pairs)
    if direction == "reverse":
        return tuple((target, source) for source, target in pairs)
    return tuple(way for source, target in pairs for way in ((source, target), (target, source)))


def _named(sample: Planned, *, single: bool) -> Planned:
    mark = "<>" if sample.direction == "both" else ">"
    ends = [mark.join(sample.pairs[0])] if single else []
    flavour = [sample.flavour] if sample.flavour else []
    parts = [sample.scenario, *ends, f"p{sample.connections}", *flavour, f"r{sample.repetition}"]
    return replace(sample, sample="/".join(parts))


def _place(seed: int, sample: str) -> bytes:
    return hashlib.sha256(f"{seed}/{sample}".encode()).digest()
